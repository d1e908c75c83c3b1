"""GG269."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG269"

FUNCTION = """
    from torch.autograd import Function

    class DropReLU({base}):
        @staticmethod
        def forward(ctx, x, keep):
            mask = (x > 0) & keep
            ctx.save_for_backward(mask, x)
            ctx.inplace, ctx.scale = False, 2.0
            return x * mask

        @staticmethod
        def {name}(ctx, grad):
            mask, x = ctx.saved_tensors
            {body}

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, h):
            return h + DropReLU.apply(self.lin(h), torch.rand_like(h) > 0.1)
"""


def backward(*lines: str, base: str = "torch.autograd.Function", name: str = "backward") -> str:
    return FUNCTION.format(base=base, name=name, body="\n            ".join(lines))


CHANGES = {
    "by a method": backward("return grad.mul_(mask), None  # !"),
    "first, then returned": backward("grad.mul_(mask)  # !", "return grad, None"),
    "its items": backward("grad[~mask] = 0  # !", "return grad, None"),
    "its rows": backward("grad[:, 0] *= ctx.scale  # !", "return grad, None"),
    "with an operator": backward("grad *= mask  # !", "return grad, None", base="Function"),
    "by another name": backward("out = grad", "out[x < 0] = 0  # !", "return out, None"),
    "what is detached": backward("out = grad.detach()", "out.masked_fill_(x < 0, 0)  # !", "return out, None"),
    "its data": backward("grad.data.mul_(mask)  # !", "return grad, None"),
    "a view": backward("flat = grad.view(-1)", "flat.mul_(mask.view(-1))  # !", "return grad, None"),
    "in a chain": backward("return grad.mul_(mask).div_(0.9), None  # !"),
    "by a function": backward("return F.relu(grad, inplace=True) * mask, None  # !"),
    "under a condition": backward("if ctx.scale > 1:", "    grad.mul_(ctx.scale)  # !", "return grad * mask, None"),
    "as a loop": backward("for i in range(4):", "    grad[i] = grad[i] * mask[i]  # !", "return grad, None"),
}


@pytest.mark.parametrize("snippet", CHANGES.values(), ids=CHANGES)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


CLEAN = {
    "a new one": backward("return grad * mask, None"),
    "a copy": backward("grad = grad.clone()", "grad[~mask] = 0", "return grad, None"),
    "a copy by another name": backward("out = grad.clone()", "out.mul_(mask)", "return out, None"),
    "a product by another name": backward("out = grad * ctx.scale", "out.mul_(mask)", "return out, None"),
    "what is contiguous": backward("out = grad.contiguous()", "out = out + 0", "out.mul_(mask)", "return out, None"),
    "a row that is indexed by a mask": backward("grad[mask].mul_(2)", "return grad * mask, None"),
    "a buffer": backward("out = torch.zeros_like(grad)", "out[mask] = grad[mask]", "return out, None"),
    "what was saved": backward("mask &= x > 1", "return grad * mask, None"),
    "what is bound in a tuple": backward("grad, n = grad * 2, 1", "grad.mul_(mask)", "return grad, None"),
    "one of several": backward("grad, n = torch.max(grad, 0)", "grad.mul_(2)", "return grad, None"),
    "as somebody says": backward("if ctx.inplace:", "    return grad.mul_(mask), None", "return grad * mask, None"),
    "only a shape": backward("grad.unsqueeze_(0)", "return grad[0] * mask, None"),
    "another method": backward("grad.mul_(mask)", "return grad, None", name="relprop"),
    "no function": backward("grad.mul_(mask)", "return grad, None", base="Layer").replace(
        "class DropReLU", "class Layer:\n        pass\n\n    class DropReLU"
    ),
    "of an item of another tensor": backward("x[grad > 0] = 0", "return grad * mask * x, None"),
    "a copy on one way": backward("if ctx.scale > 1:", "    grad = grad + 1", "grad.mul_(mask)", "return grad, None"),
    "an argument of a change": backward("x.mul_(grad)", "return x * mask, None"),
}


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_torch_hands_one_tensor_to_both_ways() -> None:
    torch = pytest.importorskip("torch")

    class Halves(torch.autograd.Function):  # type: ignore[misc,name-defined,no-any-unimported]
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 0.5

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad.mul_(0.5)

    def gradient(halves_first: bool) -> Any:
        h = torch.ones(3, requires_grad=True)
        ways = (Halves.apply(h * 1), h * 1) if halves_first else (h * 1, Halves.apply(h * 1))
        (ways[0] + ways[1]).square().sum().backward()
        return h.grad

    assert {tuple(gradient(first).tolist()) for first in (True, False)} != {(4.5, 4.5, 4.5)}
