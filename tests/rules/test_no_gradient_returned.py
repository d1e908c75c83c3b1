from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files

CODE = "GG221"

SWISH = """
    from torch.autograd import Function

    class SwishFunction({function}):
        @staticmethod
        def forward(ctx, x, beta):
            ctx.save_for_backward(x, beta)
            return x * torch.sigmoid(beta * x)

        @staticmethod
        def backward(ctx, grad):
            x, beta = ctx.saved_tensors
            s = torch.sigmoid(beta * x)
            {returned}{mark}

    {helper}

    class Swish(nn.Module):
        def __init__(self):
            super().__init__()
            {made}

        def forward(self, x):
            {used}

        {more}
"""
AS_USUAL = {
    "function": "Function",
    "returned": "return grad * s, None",
    "mark": "",
    "helper": "pass",
    "made": "self.beta = nn.Parameter(torch.ones(1))",
    "used": "return SwishFunction.apply(x, self.beta)",
    "more": "",
}
HELPER = """def swish(x, beta=None):
        if beta is None:
            return x
        return SwishFunction.apply(x, beta)"""


@pytest.mark.parametrize(
    "lines",
    [
        {},
        {"function": "torch.autograd.Function"},
        {"returned": "return (grad * s, None)"},
        {"returned": "return grad * s, None, None"},
        {"returned": "grad_beta = None; return grad * s, grad_beta"},
        {"returned": "grad_x = grad_beta = None; grad_x = grad * s; return grad_x, grad_beta"},
        {"used": "return SwishFunction.apply(x, self.beta.view(1, -1))"},
        {"used": "return SwishFunction.apply(x, self.beta.to(x.dtype))"},
        {"used": "beta = self.beta.abs(); return SwishFunction.apply(x, beta)"},
        {"used": "swish = SwishFunction.apply; return swish(x, self.beta)"},
        {"helper": "swish = SwishFunction.apply", "used": "return swish(x, self.beta)"},
        {"helper": HELPER, "used": "return swish(x, self.beta)"},
        {"helper": HELPER, "used": "return swish(x, beta=self.beta)"},
        {
            "made": "self.beta = nn.Parameter(torch.ones(1)); self.swish = SwishFunction.apply",
            "used": "return self.swish(x, self.beta)",
        },
        {"made": "self.register_parameter('beta', nn.Parameter(torch.ones(1)))"},
        {"made": "self.beta = nn.Parameter(torch.ones(1), requires_grad=True)"},
        {"made": "self.beta = torch.nn.parameter.Parameter(torch.ones(1))"},
        {"more": "def reset_parameters(self): nn.init.ones_(self.beta)"},
        {"more": "def extra_repr(self): return f'beta={self.beta}'"},
        {"used": "assert self.beta is not None; return SwishFunction.apply(x.to(self.beta.device), self.beta)"},
        {
            "used": "return self.run(x, self.beta)",
            "more": "def run(self, x, beta): return SwishFunction.apply(x, beta)",
        },
    ],
)
def test_never_trained(lines: dict[str, str]) -> None:
    assert_flagged(SWISH.format(**(AS_USUAL | {"mark": "  # !"} | lines)), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        {"returned": "return grad * s, (grad * x).sum()"},
        {"returned": "return grad * s, (grad * x).sum() if ctx.needs_input_grad[1] else None"},
        {"returned": "grad_beta = None\n            if ctx.x: grad_beta = grad.sum()\n            return s, grad_beta"},
        {"returned": "if not ctx.needs_input_grad[1]: return s, None\n            return s, (grad * x).sum()"},
        {"returned": "return None, None"},
        {"returned": "return grad * s, *rest(ctx)"},
        {"returned": "return gradients(ctx, grad)"},
        {"returned": "grads = (grad * s, (grad * x).sum()); return grads"},
        {"returned": "raise NotImplementedError"},
        {"returned": "assert s is not None; raise NotImplementedError"},
        {"returned": "beta.grad = (grad * x).sum(); return grad * s, None"},
        {"returned": "torch.autograd.backward(s, grad); return grad * s, None"},
        {"made": "self.beta = nn.Parameter(torch.ones(1), requires_grad=False)"},
        {"made": "self.beta = nn.Parameter(torch.ones(1), False)"},
        {"made": "self.beta = nn.Parameter(torch.ones(1), requires_grad=flag)"},
        {"made": "self.beta = nn.Parameter(torch.ones(1)); self.beta.requires_grad = False"},
        {"made": "self.beta = nn.Parameter(torch.ones(1)); self.requires_grad_(False)"},
        {"made": "self.register_buffer('beta', torch.ones(1))"},
        {"made": "self.beta = torch.ones(1)"},
        {"made": "self.beta = 1.0"},
        {"made": "self.beta = nn.Linear(1, 1)"},
        {"used": "return SwishFunction.apply(x, self.beta.detach())"},
        {"used": "return SwishFunction.apply(x, self.beta.item())"},
        {"used": "return SwishFunction.apply(x, 1.0) * self.beta"},
        {"used": "return SwishFunction.apply(self.beta, 1.0)"},
        {"used": "return SwishFunction.apply(x * self.beta, self.beta)"},
        {"used": "return SwishFunction.apply(x, self.beta) + self.beta"},
        {"used": "return SwishFunction.apply(self.beta, self.beta)"},
        {"used": "with torch.no_grad(): return SwishFunction.apply(x, self.beta)"},
        {"used": "return SwishFunction.apply(*inputs(x, self.beta))"},
        {"more": "def penalty(self): return self.beta.pow(2).sum()"},
        {"more": "def observe(self, x): self.beta.data.copy_(x.abs().max())"},
        {"more": "def calibrate(self, x): self.beta.copy_(x.abs().max())"},
        {"made": "self.beta = nn.Parameter(torch.ones(1)); self.other = Other(self.beta)"},
        {"helper": "def penalty(layer): return layer.beta ** 2"},
        {"helper": "def by_hand(layer, value): layer.beta.grad = value"},
        {"helper": "def penalty(layer): return getattr(layer, 'beta') ** 2"},
        {"helper": "class Doubled(nn.Module):\n        def double(self): return 2 * self.swish.beta"},
    ],
)
def test_look_alikes(lines: dict[str, str]) -> None:
    assert_clean(SWISH.format(**(AS_USUAL | lines)), CODE)


def test_a_setting_of_the_same_name_is_another_thing() -> None:
    helper = "def main(args): print(args.beta)"
    assert_flagged(SWISH.format(**(AS_USUAL | {"mark": "  # !", "helper": helper})), CODE)


def test_a_parameter_that_only_wants_a_gradient() -> None:
    lines = {"made": "self.dummy = nn.Parameter(torch.ones(1))", "used": "return SwishFunction.apply(x, self.dummy)"}
    assert_clean(SWISH.format(**(AS_USUAL | lines)), CODE)


def test_setup_context() -> None:
    text = """
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, scale, bits):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, scale, bits = inputs
            ctx.save_for_backward(scale)

        @staticmethod
        def backward(ctx, grad):
            scale, = ctx.saved_tensors
            return {returned}

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return Scale.apply(x, self.scale, 8)
    """
    assert_flagged(text.format(returned="grad * scale, None, None  # !"), CODE)
    assert_clean(text.format(returned="grad * scale, grad.sum(), None"), CODE)


def test_rounding_has_no_gradient() -> None:
    assert_clean(
        """
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return None

    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return Round.apply(self.scale)
    """,
        CODE,
    )


def test_what_an_heir_trains() -> None:
    heir = "class Better(Swish):\n        def forward(self, x): return super().forward(x) * self.beta"
    text = SWISH.format(**AS_USUAL) + f"\n    {heir}\n"
    assert_clean(text, CODE)


FILES = {
    "ops.py": """
        import torch
        class SwishFunction(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, beta):
                ctx.save_for_backward(x, beta)
                return x * torch.sigmoid(beta * x)
            @staticmethod
            def backward(ctx, grad):
                x, beta = ctx.saved_tensors
                return grad * torch.sigmoid(beta * x), None
        swish = SwishFunction.apply
        def swished(x, beta):
            return SwishFunction.apply(x, beta)
    """,
    "layers.py": """
        import torch
        from torch import nn
        from ops import SwishFunction, swish, swished
        class Swish(nn.Module):
            def __init__(self):
                super().__init__()
                self.beta = nn.Parameter(torch.ones(1))
            def forward(self, x):
                return {used}
    """,
}


@pytest.mark.parametrize("used", ["SwishFunction.apply(x, self.beta)", "swish(x, self.beta)", "swished(x, self.beta)"])
def test_in_another_file(tmp_path: Path, used: str) -> None:
    files = FILES | {"layers.py": FILES["layers.py"].format(used=used)}
    assert lines_in_files(tmp_path, files, CODE) == [("ops.py", 11)]


@pytest.mark.parametrize(
    "used", ["SwishFunction.apply(x, 1.0)", "swish(self.beta, x)", "swished(x, self.beta) * self.beta"]
)
def test_look_alikes_in_another_file(tmp_path: Path, used: str) -> None:
    files = FILES | {"layers.py": FILES["layers.py"].format(used=used)}
    assert lines_in_files(tmp_path, files, CODE) == []


def test_what_is_said() -> None:
    (finding,) = findings(SWISH.format(**AS_USUAL), CODE)
    assert "`SwishFunction.backward` returns None for `beta`, for which `self.beta` is given" in finding.message
    assert [related.message for related in finding.related] == ["it is given here", "the parameter is made here"]
    assert finding.fix is None


QUANTISED = {
    "quant.py": """
        import torch
        from torch import nn
        class LearnedStep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, w, step, low, high):
                scaled = w / step
                ctx.save_for_backward((scaled >= low) & (scaled <= high))
                return scaled.round().clamp(low, high) * step
            @staticmethod
            def backward(ctx, grad):
                inside, = ctx.saved_tensors
                return grad * inside, None, None, None
        class Quantised(nn.Module):
            def __init__(self, fan_in, fan_out):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(fan_out, fan_in))
                self.step = nn.Parameter(self.weight.detach().abs().mean() / 4)
            def forward(self, x):
                return x @ LearnedStep.apply(self.weight, self.step, -8, 7).t()
    """,
    "train.py": """
        import torch
        from quant import Quantised
        def fit(loader):
            model = Quantised(4, 4)
            optimizer = torch.optim.Adam(model.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for x, y in loader:
                loss = (model(x) - y).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                {more}
    """,
}


def quantised(folder: Path, more: str, edit: tuple[str, str] = ("", "")) -> list[tuple[str, int]]:
    files = {name: text.replace("{more}", more).replace(*edit) for name, text in QUANTISED.items()}
    return lines_in_files(folder, files, CODE)


@pytest.mark.parametrize(
    "more", ["pass", "scaler.step(optimizer)", "print(model.step.item())", "wrapped.step (x)", "env.step(model.step())"]
)
def test_a_parameter_that_is_named_as_a_method_of_others(tmp_path: Path, more: str) -> None:
    assert quantised(tmp_path, more) == [("quant.py", 13)]


@pytest.mark.parametrize(
    ("more", "edit"),
    [
        ("model.step.data.mul_(0.99)", ("", "")),
        ("loss = loss + model.step ** 2", ("", "")),
        ("penalty(model.step)", ("", "")),
        ("model.step = find(model)", ("", "")),
        ("pass", ("None, None, None", "(grad * inside).sum(), None, None")),
        ("pass", ("self.step = nn.Parameter(", "self.step = (")),
        ("pass", ("abs().mean() / 4)", "abs().mean() / 4, requires_grad=False)")),
        ("pass", ("-8, 7).t()", "-8, 7).t() * self.step")),
    ],
)
def test_a_parameter_that_other_code_has(tmp_path: Path, more: str, edit: tuple[str, str]) -> None:
    assert quantised(tmp_path, more, edit) == []


SORTED = "def groups(m): return [p for n, p in m.named_parameters() if n.endswith('act.beta')]"


@pytest.mark.parametrize(
    "helper",
    [
        SORTED,
        "def groups(m): return [dict(params=[p for n, p in m.named_parameters() if 'act.beta' in n], lr=0.1)]",
        'def groups(m): return [p for n, p in m.named_parameters() if not n.endswith("act.beta")]',
        f"{SORTED}\n    teacher = nn.Linear(1, 1).requires_grad_(False)",
    ],
)
def test_a_parameter_that_is_sorted_into_a_group_by_its_name(helper: str) -> None:
    assert_flagged(SWISH.format(**(AS_USUAL | {"mark": "  # !", "helper": helper})), CODE)


@pytest.mark.parametrize(
    "helper",
    [
        f"{SORTED}\n    def freeze(m):\n        for p in groups(m): p.requires_grad = False",
        f"{SORTED}\n    def freeze(m):\n        for p in groups(m): p.requires_grad_(False)",
        f"{SORTED}\n    def shrink(m):\n        for p in groups(m): p.data *= 0.9",
        f"{SORTED}\n    def shrink(m):\n        for p in groups(m): p.mul_(0.9)",
        "def find(m): return m.state_dict()['act.beta']",
        "def by_hand(m, value): dict(m.named_parameters())['act.beta'].copy_(value)",
        "def decay(m):\n        for n, p in m.named_parameters():\n            if n == 'act.beta': yield p",
        "def show(m): return f'{m.act.beta + 1}'",
        "def penalty(m): return sum(p.sum() for n, p in m.named_parameters() if n == 'x') + m.act.beta",
    ],
)
def test_a_parameter_that_is_known_by_its_name(helper: str) -> None:
    assert_clean(SWISH.format(**(AS_USUAL | {"helper": helper})), CODE)
