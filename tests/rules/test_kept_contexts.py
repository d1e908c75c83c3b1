"""Contexts of an ``autograd.Function`` that outlive their call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG104"

ENDS = """

        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

OF_THE_CLASS = f"""
        class Quantize(torch.autograd.Function):
            calls = []

            @staticmethod
            def forward(ctx, x, scale):
                ctx.save_for_backward(x, scale)
                ratio = x / scale
                ctx.clipped = (ratio.abs() > 1).float().mean().item()
                Quantize.calls.append(ctx)  # !
                return ratio.round() * scale

            @staticmethod
            def backward(ctx, grad):
                x, scale = ctx.saved_tensors
                return grad, (grad * x).sum()
{ENDS}"""

OF_THE_FILE = f"""
        from torch.autograd import Function

        SEEN: list = []

        class Round(Function):
            @staticmethod
            def forward(context, x):
                context.save_for_backward(x)
                with torch.no_grad():
                    SEEN.append((context, x.shape))  # !
                return x.round()

            @staticmethod
            def backward(context, grad):
                return grad
{ENDS}"""

IN_BACKWARD = f"""
        nodes = deque()

        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.weight = weight
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                nodes.append({{"node": ctx, "norm": grad.norm().item()}})  # !
                return -ctx.weight * grad, None
{ENDS}"""

BY_A_HELPER = f"""
        class Log:
            entries = list()

        def note(node, name):
            Log.entries.append(node)  # !

        class Clamp(torch.autograd.Function):
            @staticmethod
            def forward(x, low):
                return x.clamp(low)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.low = inputs[1]
                note(ctx, "clamp")

            @staticmethod
            def backward(ctx, grad):
                return grad, None
{ENDS}"""

FLAGGED = {
    "of the class": OF_THE_CLASS,
    "of the file": OF_THE_FILE,
    "in backward": IN_BACKWARD,
    "by a helper": BY_A_HELPER,
    "a set": OF_THE_CLASS.replace("calls = []", "calls = set()").replace("calls.append(ctx)", "calls.add(ctx)"),
}

CLEAN = {
    "a number of it": twin(OF_THE_CLASS, ("append(ctx)", "append(ctx.clipped)")),
    "the last few": twin(OF_THE_CLASS, ("calls = []", "calls = deque(maxlen=8)")),
    "trimmed": twin(OF_THE_CLASS, ("append(ctx)", "append(ctx)\n                del Quantize.calls[:-8]")),
    "trimmed by binding": twin(
        OF_THE_CLASS, ("append(ctx)", "append(ctx)\n                Quantize.calls = Quantize.calls[-8:]")
    ),
    "taken out in backward": twin(
        OF_THE_CLASS, ("x, scale = ctx.saved_tensors", "Quantize.calls.remove(ctx)\n                x, scale = 1, 2")
    ),
    "emptied in each step": twin(
        OF_THE_CLASS, ("optimizer.step()", "optimizer.step()\n                Quantize.calls.clear()")
    ),
    "asked for": twin(
        OF_THE_CLASS, ("Quantize.calls.append(ctx)", "if DEBUG:\n                    Quantize.calls.append(ctx)")
    ),
    "weakly": twin(OF_THE_CLASS, ("append(ctx)", "append(weakref.ref(ctx))")),
    "what it needs": twin(OF_THE_CLASS, ("append(ctx)", "append(ctx.needs_input_grad)")),
    "for this call": twin(
        OF_THE_CLASS, ("Quantize.calls.append(ctx)", "calls = [ctx.clipped]\n                calls.append(ctx)")
    ),
    "on itself": twin(
        OF_THE_CLASS, ("Quantize.calls.append(ctx)", "ctx.calls = []\n                ctx.calls.append(ctx)")
    ),
    "the last one": twin(OF_THE_CLASS, ("Quantize.calls.append(ctx)", "Quantize.last = ctx")),
    "another name": twin(OF_THE_CLASS, ("append(ctx)", "append(ratio.shape)")),
    "a number by that name": twin(
        OF_THE_CLASS, ("Quantize.calls.append(ctx)", "ctx = 3\n                Quantize.calls.append(ctx)")
    ),
    "nothing trains": twin(OF_THE_CLASS, (ENDS, ""), ("def backward(ctx, grad)", "def jvp(ctx, grad)")),
    "no function": twin(OF_THE_CLASS, ("torch.autograd.Function", "nn.Module")),
    "not the context": """
        class Clamp(torch.autograd.Function):
            sizes = []

            @staticmethod
            def forward(size, x):
                Clamp.sizes.append(size)
                return x.clamp(size)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.low = inputs[0]

            @staticmethod
            def backward(ctx, grad):
                return None, grad

        def train(model, x):
            model(x).backward()
    """,
    "a number by a helper": twin(BY_A_HELPER, ("entries.append(node)", "entries.append(name)")),
    "popped by a helper": twin(BY_A_HELPER, ("return grad, None", "return grad, Log.entries.pop()")),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_in_several_files(tmp_path: Path) -> None:
    files = {
        "ops.py": """
            import torch
            import registry

            class Sign(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    registry.NODES.append(ctx)
                    return x.sign()

                @staticmethod
                def backward(ctx, grad):
                    return grad
        """,
        "registry.py": "NODES = []\n",
        "train.py": """
            import ops

            def train(model, loader, optimizer):
                for x in loader:
                    ops.Sign.apply(model(x)).sum().backward()
                    optimizer.step()
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("ops.py", 8)]
    files["registry.py"] = "NODES = []\n\ndef reset():\n    NODES.clear()\n"
    assert not lines_in_files(tmp_path, files, CODE)
