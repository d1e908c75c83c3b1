from __future__ import annotations

import textwrap

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG108"

FLAGGED = {
    "an attribute that is returned": """
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                ctx.scale = scale
                ctx.out = x.view_as(x)  # !
                return ctx.out

            @staticmethod
            def backward(ctx, grad):
                return (-ctx.scale * grad).view_as(ctx.out), None
    """,
    "values beside their indices": """
        class Top(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                values, indices = x.topk(k, dim=-1)
                ctx.indices = indices
                ctx.values = values  # !
                return values, indices

            @staticmethod
            def backward(ctx, grad, _):
                return grad, None
    """,
    "a mask made a number": """
        class Gate(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                gate = torch.sigmoid(x).round()
                share = gate.long().sum(1) / gate.size(1)
                ctx.gate = gate  # !
                ctx.share = share  # !
                return gate, share

            @staticmethod
            def backward(ctx, grad, _):
                return grad * ctx.gate
    """,
    "what comes in goes on, in a part": """
        class Part(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, rows):
                x = x[rows]
                x = x * 2
                ctx.x = x  # !
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad, None
    """,
    "scaled counts": """
        class Count(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                places = torch.arange(0, 1, 0.1)
                steps = torch.arange(9).to(x)
                ctx.places, ctx.steps = places, steps  # !
                return places, steps

            @staticmethod
            def backward(ctx, *grads):
                return grads[0]
    """,
    "exponential": """
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                result = x.exp()
                ctx.result = result  # !
                return result

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.result
    """,
    "imported base, another name for ctx": """
        from torch.autograd import Function

        class Sigmoid(Function):
            @staticmethod
            def forward(self, x):
                y = 1 / (1 + torch.exp(-x))
                self.y = y  # !
                return y

            @staticmethod
            def backward(self, grad_output):
                return grad_output * self.y * (1 - self.y)
    """,
    "two at once": """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                out = x * n
                ctx.result, ctx.n = out, n  # !
                return out

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.n, (grad * ctx.result).sum() / ctx.n
    """,
    "one of several outputs": """
        class Normalize(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, eps):
                inv = 1.0 / (x.norm(dim=-1, keepdim=True) + eps)
                out = x * inv
                ctx.inv = inv.clone()
                ctx.out = out  # !
                return out, inv

            @staticmethod
            def backward(ctx, grad_out, grad_inv):
                dot = (ctx.out * grad_out).sum(-1, keepdim=True)
                return (grad_out - ctx.out * dot) * ctx.inv, None
    """,
    "setup_context": """
        class Tanh(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return torch.tanh(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.output = output  # !

            @staticmethod
            def backward(ctx, grad):
                return grad * (1 - ctx.output ** 2)
    """,
    "setup_context, one of two": """
        class SoftmaxWithMax(torch.autograd.Function):
            @staticmethod
            def forward(x, dim):
                y = torch.softmax(x, dim)
                return y, y.amax(dim)

            @staticmethod
            def setup_context(ctx, inputs, output):
                _, ctx.dim = inputs
                probs, top = output
                ctx.probs = probs  # !

            @staticmethod
            def backward(ctx, grad, _):
                s = (grad * ctx.probs).sum(ctx.dim, keepdim=True)
                return ctx.probs * (grad - s), None
    """,
    "chained": """
        class Sqrt(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.out = out = torch.sqrt(x)  # !
                return out

            @staticmethod
            def backward(ctx, grad):
                return grad / (2 * ctx.out)
    """,
    "among the saved": """
        class Div(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                q = a / b
                ctx.saved = (b, q)  # !
                return q

            @staticmethod
            def backward(ctx, grad):
                b, q = ctx.saved
                return grad / b, -grad * q / b
    """,
    "only when needed": """
        class Softmax(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, dim=-1):
                out = F.softmax(x, dim=dim)
                ctx.dim = dim
                if ctx.needs_input_grad[0]:
                    ctx.softmax_out = out  # !
                return out

            @staticmethod
            def backward(ctx, g):
                y = ctx.softmax_out
                return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None
    """,
    "filled in place": """
        class Cumulative(torch.autograd.Function):
            @staticmethod
            def forward(ctx, seq, decay):
                out = torch.empty_like(seq)
                h = torch.zeros_like(seq[0])
                for t in range(seq.shape[0]):
                    h = decay * h + seq[t]
                    out[t] = h
                ctx.decay, ctx.states = decay, out  # !
                return out

            @staticmethod
            def backward(ctx, grad):
                return grad.flip(0).cumsum(0).flip(0), (grad * ctx.states).sum()
    """,
    "mixed precision": """
        class FusedGelu(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
            def forward(ctx, x):
                y = torch.sigmoid(1.702 * x) * x
                ctx.x = x
                ctx.y = y  # !
                return y

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, grad):
                s = torch.sigmoid(1.702 * ctx.x)
                return grad * (s + 1.702 * ctx.y * (1 - s))
    """,
}

CLEAN = {
    "an attribute that is returned, of what came in": """
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                ctx.scale = scale * 2
                ctx.x = x
                return ctx.x

            @staticmethod
            def backward(ctx, grad):
                return -ctx.scale * grad, None
    """,
    "an attribute that is returned, and taken off": """
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.out = x.exp()
                return ctx.out

            @staticmethod
            def backward(ctx, grad):
                out = ctx.out
                ctx.out = None
                return out * grad
    """,
    "indices that are outputs": """
        class Sample(torch.autograd.Function):
            @staticmethod
            def forward(ctx, weight, labels, n):
                mine = labels.div(n, rounding_mode="trunc") == 0
                places = labels[mine] % n
                if n < 9:
                    keep = torch.arange(n, device=weight.device)
                elif mine.any():
                    keep = places
                else:
                    keep = torch.cat([labels.unique(), torch.randperm(n)[:9]], dim=0)
                weight = weight[:, keep]
                ctx.vars = keep, n
                return weight, mine, places, keep

            @staticmethod
            def backward(ctx, grad, *_):
                keep, n = ctx.vars
                full = grad.new_zeros(len(grad), n)
                full[:, keep] = grad
                return full, None, None
    """,
    "masks that are outputs": """
        class Clip(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                inside = (x > 0) & (x < 1)
                outside = ~inside
                ctx.inside = inside
                ctx.outside = outside
                return x.clamp(0, 1), inside, outside

            @staticmethod
            def backward(ctx, grad, *_):
                return grad * ctx.inside
    """,
    "whole numbers, however they are made": """
        class Vote(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                best = x.argmax(dim=1)
                second = torch.topk(x, 2, dim=1)[1][:, 1].unsqueeze(1)
                most, where = x.max(dim=1)
                counts = torch.zeros(k, dtype=torch.long, device=x.device)
                counts += torch.bincount(best, minlength=k).long()
                found, back = torch.unique(best, return_inverse=True)
                rounded = x.round().to(torch.int32)
                rows = x.nonzero()
                ctx.best, ctx.second, ctx.where, ctx.counts = best, second, where, counts
                ctx.back, ctx.rounded, ctx.rows = back, rounded, rows
                return most.clone(), best, second, where, counts, back, rounded, rows

            @staticmethod
            def backward(ctx, grad, *_):
                return grad, None
    """,
    "what picks rows": """
        class Pick(torch.autograd.Function):
            @staticmethod
            def forward(ctx, table, order, k):
                rows = order(k)
                ctx.rows = rows
                return table.index_select(0, rows), rows

            @staticmethod
            def backward(ctx, grad, _):
                return grad, None, None
    """,
    "indices, in setup_context": """
        class Largest(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x.max(1)

            @staticmethod
            def setup_context(ctx, inputs, output):
                values, indices = output
                ctx.indices = indices.long()
                ctx.shape = inputs[0].shape

            @staticmethod
            def backward(ctx, grad, _):
                return grad
    """,
    "saved for backward": """
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                result = x.exp()
                ctx.save_for_backward(result)
                return result

            @staticmethod
            def backward(ctx, grad):
                (result,) = ctx.saved_tensors
                return grad * result
    """,
    "setup_context saves": """
        class Tanh(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return torch.tanh(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                (ctx.x,) = inputs
                ctx.shape = output.shape
                ctx.save_for_backward(output)

            @staticmethod
            def backward(ctx, grad):
                (y,) = ctx.saved_tensors
                return grad * (1 - y ** 2)
    """,
    "input": """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, input):
                ctx.x = input
                output = input * input
                return output

            @staticmethod
            def backward(ctx, grad):
                return 2 * ctx.x * grad
    """,
    "mask and sizes": """
        class ReLU(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, inplace=False):
                out = x.clamp(min=0)
                ctx.mask = out > 0
                ctx.shape, ctx.n, ctx.device = out.shape, out.numel(), out.device
                ctx.inplace = inplace
                return out

            @staticmethod
            def backward(ctx, grad):
                return grad.view(ctx.shape) * ctx.mask, None
    """,
    "clone": """
        class Sigmoid(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = torch.sigmoid(x)
                ctx.y = y.clone()
                return y

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.y * (1 - ctx.y)
    """,
    "detached": """
        class Sigmoid(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = torch.sigmoid(x)
                ctx.y = y.detach()
                ctx.z = y.data
                return y

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.y * (1 - ctx.z)
    """,
    "intermediate": """
        class LogSumExp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                m = x.amax(-1, keepdim=True)
                e = (x - m).exp()
                s = e.sum(-1, keepdim=True)
                ctx.probs = e / s
                ctx.e, ctx.s = e, s
                return (s.log() + m).squeeze(-1)

            @staticmethod
            def backward(ctx, grad):
                return grad.unsqueeze(-1) * ctx.probs
    """,
    "the name is bound again": """
        class Affine(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w, b):
                y = x * w
                ctx.y = y
                y = y + b
                return y

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.y, grad * ctx.y, grad
    """,
    "a new view is returned": """
        class Grl(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, alpha):
                y = x * 1.0
                ctx.alpha, ctx.y = alpha, y
                return y.view_as(y)

            @staticmethod
            def backward(ctx, grad):
                return -ctx.alpha * grad, None
    """,
    "indices": """
        class MaxPool(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                values, indices = x.max(dim=-1)
                ctx.shape = x.shape
                ctx.indices = indices
                ctx.mark_non_differentiable(indices)
                return values, indices

            @staticmethod
            def backward(ctx, grad, _):
                out = grad.new_zeros(ctx.shape)
                return out.scatter_(-1, ctx.indices.unsqueeze(-1), grad.unsqueeze(-1))
    """,
    "ordinary module": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)

            def forward(self, x):
                out = self.fc(x)
                self.out = out
                return out
    """,
    "an ordinary class with a ctx": """
        class Step:
            @staticmethod
            def forward(ctx, model, x):
                out = model(x)
                ctx.out = out
                return out

        def run(ctx, model, x):
            out = model(x)
            ctx.output = out
            return out
    """,
    "in backward": """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return x * w

            @staticmethod
            def backward(ctx, grad):
                x, w = ctx.saved_tensors
                gx = grad * w
                ctx.gx = gx
                return gx, grad * x
    """,
    "gradients computed in forward": """
        class FusedCrossEntropy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, logits, target):
                probs = torch.softmax(logits, -1)
                loss = -probs.gather(1, target[:, None]).log().mean()
                grad = probs
                grad[torch.arange(len(target)), target] -= 1
                ctx.grad = grad / len(target)
                return loss

            @staticmethod
            def backward(ctx, g):
                return g * ctx.grad, None
    """,
    "checkpoint": """
        class Checkpoint(torch.autograd.Function):
            @staticmethod
            def forward(ctx, run, x):
                ctx.run_function = run
                ctx.input_tensor = x.detach()
                with torch.no_grad():
                    output = ctx.run_function(ctx.input_tensor)
                return output

            @staticmethod
            def backward(ctx, grad):
                x = ctx.input_tensor.requires_grad_(True)
                with torch.enable_grad():
                    out = ctx.run_function(x)
                return None, torch.autograd.grad(out, x, grad)[0]
    """,
    "a number goes out by another door": """
        class Quantize(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, bits):
                scale = x.abs().max().item() / (2 ** (bits - 1) - 1)
                ctx.scale = scale
                ctx.bits = bits
                return torch.round(x / scale) * scale

            @staticmethod
            def backward(ctx, grad):
                return grad, None
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


KEPT = """
        from collections import deque, namedtuple
        from dataclasses import dataclass

        Pair = namedtuple("Pair", "x y")

        @dataclass
        class Saved:
            x: torch.Tensor
            y: torch.Tensor

        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                {begun}
                {kept}  # !
                return y

            @staticmethod
            def backward(ctx, grad):
                return grad * 2
"""
HOLDERS = [
    ("pass", "ctx.cache = {'x': x, 'y': %s}"),
    ("ctx.cache = {}", "ctx.cache['y'] = %s"),
    ("ctx.kept = []", "ctx.kept.append(%s)"),
    ("ctx.kept = [x]", "ctx.kept.extend([x, %s])"),
    ("pass", "ctx.kept = (x, [x, %s])"),
    ("pass", "ctx.cache = dict(x=x, y=%s)"),
    ("pass", "ctx.cache = dict([('x', x), ('y', %s)])"),
    ("pass", "ctx.kept = types.SimpleNamespace(y=%s)"),
    ("pass", "ctx.kept = deque([%s], maxlen=2)"),
    ("pass", "ctx.kept = Saved(x, %s)"),
    ("pass", "ctx.kept = Pair(x, %s)"),
    ("pass", "ctx.kept = [Saved(x, y=%s)]"),
    ("pass", "setattr(ctx, 'kept', %s)"),
    ("pass", "setattr(ctx, 'kept', (x, %s))"),
]


@pytest.mark.parametrize(("begun", "kept"), HOLDERS)
def test_an_output_in_a_collection_on_ctx(begun: str, kept: str) -> None:
    snippet = KEPT.format(begun=begun, kept=kept % "y")
    assert_flagged(snippet, CODE)
    for other in ("y.detach()", "x", "y.shape", "x * 2"):
        assert_clean(KEPT.format(begun=begun, kept=kept % other).replace("  # !", ""), CODE)
    for taken in ("ctx.cache.clear()", "ctx.cache.pop('y')") if "cache" in kept else ("ctx.kept.pop()",):
        assert_clean(snippet.replace("  # !", "").replace("return grad", f"{taken}; return grad"), CODE)
    local = snippet.replace("  # !", "").replace("ctx.cache", "cache").replace("ctx.kept", "kept")
    assert_clean(local.replace("setattr(ctx", "setattr(x"), CODE)


@pytest.mark.parametrize(
    "made", ["list(y)", "tuple(y)", "Shape(y)", "stats(y)", "dict(rows=len(y))", "setattr(ctx, name, y)"]
)
def test_what_is_made_of_an_output_is_another_thing(made: str) -> None:
    """Without a graph: forward runs without one."""
    begun = "class Shape:\n    def __init__(self, of):\n        self.rows = len(of)\n"
    snippet = KEPT.format(begun="pass", kept=f"ctx.kept = {made}").replace("  # !", "")
    assert_clean(textwrap.dedent(snippet).replace("class Exp", begun + "\nclass Exp"), CODE)


VIEWED = """
    class Shrink(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, threshold):
            out = x.sign() * (x.abs() - threshold).clamp_min(0)
            ctx.units = {kept}
            return out

        @staticmethod
        def backward(ctx, grad):
            return grad * (ctx.units != 0).reshape(grad.shape), None
"""


@pytest.mark.parametrize(
    "kept", ["out.t()", "out.T", "out.view(-1)", "out[0]", "out[:4]", "out.transpose(0, 1).flatten()", "out.unbind()"]
)
def test_a_view_of_an_output(kept: str) -> None:
    assert_flagged(VIEWED.format(kept=f"{kept}  # !"), CODE)


@pytest.mark.parametrize(
    "kept",
    [
        "out.detach()", "out.t().clone()", "out.shape[0]", "out.view(-1).detach()", "out > 0", "x.t()", "out.numpy()",
        "threshold.view(-1)", "out.sign().t()", "out.argmax(0)",
    ],
)  # fmt: skip
def test_what_is_no_view_of_an_output(kept: str) -> None:
    assert_clean(VIEWED.format(kept=kept), CODE)
