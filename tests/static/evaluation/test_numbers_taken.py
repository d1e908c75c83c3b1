from __future__ import annotations

import ast
import textwrap

import pytest

from gradguard.static import tree as t
from gradguard.static.build import build
from gradguard.static.evaluation.numbers_taken import calls_without_graph


def names(body: str) -> set[str]:
    """What a function calls, where it only takes the numbers of what that gives."""
    text = "def f(x, y):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    (define,) = build(ast.parse(text)).statements
    assert isinstance(define, t.Define)
    return {call.name for call in calls_without_graph(define)}


@pytest.mark.parametrize(
    "body",
    [
        "return net(x).detach()",
        "return net(x).data",
        "return [net(x).item(), 1]",
        "return (net(x) + y).detach()",
        "return torch.argmax(net(x), 1)",
        "return net(x)[0].tolist()",
        "out = net(x)\nprint(float(out), out > 0, out.long())\nreturn out.detach()",
        "out = net(x)\nreturn out.detach()",
        "out, _ = net(x)\nreturn out.detach()",
        "out = net(x)\nout = out.view(-1)\nreturn out.detach()",
        "out = net(x)\nif out.max() > 0:\n    print(out)\nreturn out.detach()",
        "out = net(x)\nfor o in out:\n    print(o.item())",
        "out = net(x)\ny += out.item()",
        "out = net(x)\nvalue, best = torch.max(out, 1)\nprint(value.item())\nreturn best",
        "out = net(x)\nreturn f'{out.shape} {out}', out.data.numpy()",
        "return np.argmax(net(x).cpu().detach().numpy())",
        "return net(x).argmax(1).numpy()",
        "out = net(x)\ny[0] = out.item()",
    ],
)
def test_numbers(body: str) -> None:
    assert "net" in names(body)


@pytest.mark.parametrize(
    "body",
    [
        "return net(x)",
        "return net(x).shape",
        "return net(x) is None",
        "return float(net(x))",
        "return net(x) > 0",
        "out = net(x)\nif out.max() > 0:\n    print(out)\nreturn 1",
        "net(x)",
        "return net(x).numpy()",
        "return net(x).cpu().numpy().argmax()",
        "return np.argmax(net(x))",
        "out = net(x)\nprint(out.mean().item())\nreturn out.cpu().numpy()",
        "out = net(x).cpu()\nreturn np.array(out).tolist()",
        "print(net(x))",
        "out = net(x)\nreturn out.size(0)",
        "out = net(x)\nreturn torch.ones_like(out)",
        "out = net(x)\nreturn out, out.detach()",
        "out = net(x)\nother = out * 2\nprint(out.item())\nreturn other",
        "out = net(x)\nkeep(out)\nreturn out.detach()",
        "out = net(x)\ny[0] = out\nreturn out.detach()",
        "self.out = net(x)\nreturn self.out.detach()",
        "out = net(x)\ny += out\nprint(out.item())\nreturn y",
        "out = net(x)\nlater = lambda: out\nprint(out.item())",
        "out = net(x)\ndef g():\n    return out\nprint(out.item())",
        "out = net(x)\nyield out\nprint(out.item())",
        "out = net(x)\nwith kept(out):\n    print(out.item())",
        "out = net(x)\nvalue, best = torch.max(out, 1)\nprint(best)\nreturn value",
        "out = net(x)\nreturn [o for o in out], out.detach()",
        "print((out := net(x)).item())\nreturn out",
    ],
)
def test_more_than_numbers(body: str) -> None:
    assert "net" not in names(body)
