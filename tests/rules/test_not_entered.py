from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG307"


def evaluation(*lines: str, over: str = "loader") -> str:
    body = "\n            ".join(lines)
    return f"""
        def validate(model, {over}):
            model.eval()
            {body}
            return [model(x).argmax(1) for x in {over}]
    """


FLAGGED = {
    "before a loop": evaluation("torch.no_grad()  # !"),
    "inference mode": evaluation("torch.inference_mode()  # !"),
    "inference mode that is told so": evaluation("torch.inference_mode(True)  # !"),
    "on again": evaluation("torch.enable_grad()  # !"),
    "without parentheses": evaluation("torch.no_grad  # !"),
    "of autograd": evaluation("torch.autograd.no_grad()  # !"),
    "imported": "from torch import no_grad\n" + evaluation("no_grad()  # !").replace("\n        ", "\n"),
    "behind a semicolon": evaluation("net = model; torch.no_grad()  # !"),
    "under a condition": evaluation("if len(loader): torch.no_grad()  # !"),
    "in the loop": """
        for x, y in loader:
            torch.no_grad()  # !
            print(model(x).argmax(1))
    """,
    "of a script": """
        net = torch.load("net.pt")
        net.eval()
        torch.no_grad()  # !
        print(net(torch.zeros(1, 3)))
    """,
    "in a method": """
        class Tester:
            def run(self, loader):
                self.net.eval()
                torch.no_grad()  # !
                for x in loader:
                    self.show(self.net(x))
    """,
    "in a block": """
        def test(model, loader, device):
            with torch.cuda.device(device):
                torch.no_grad()  # !
                for x in loader:
                    print(model(x).argmax(1))
    """,
}

CLEAN = {
    "entered": """
        def validate(model, loader):
            with torch.no_grad():
                return [model(x).argmax(1) for x in loader]
    """,
    "entered with another one": """
        def validate(model, loader):
            with (
                torch.cuda.amp.autocast(),
                torch.no_grad(),
            ):
                return [model(x).argmax(1) for x in loader]
    """,
    "a decorator": """
        @torch.no_grad()
        def validate(model, loader):
            return [model(x).argmax(1) for x in loader]
    """,
    "what works as a statement": evaluation("torch.set_grad_enabled(False)"),
    "on a stack": evaluation("stack = contextlib.ExitStack()", "stack.enter_context(torch.no_grad())"),
    "entered by hand": evaluation("torch.no_grad().__enter__()"),
    "kept": evaluation("silent = torch.no_grad()", "silent.__enter__()"),
    "decorates": evaluation("model = torch.no_grad()(model)"),
    "given to something": evaluation("run_under(torch.no_grad())"),
    "given what it decorates": evaluation("torch.no_grad(model)"),
    "over lines": evaluation("run_under(", "    torch.no_grad()", ")"),
    "returned": "def silent():\n            return torch.no_grad()",
    "in a dict": 'modes = {\n            "off": torch.no_grad(),\n            "on": torch.enable_grad(),\n        }',
    "on one of two ways": "mode = (\n            torch.no_grad()\n            if off else nullcontext()\n        )",
    "asked for": """
        def has_inference_mode():
            try:
                torch.inference_mode()
            except AttributeError:
                return False
            return True
    """,
    "in a docstring": '''
        def validate(model, x):
            """Call it under

            torch.no_grad()
            """
            return model(x).argmax(1)
    ''',
    "a comment": evaluation("# torch.no_grad()"),
    "a function of the program": """
        def no_grad():
            torch.set_grad_enabled(False)

        def validate(model, loader):
            no_grad()
            return [model(x).argmax(1) for x in loader]
    """,
    "a method of the program": """
        class Tester:
            def no_grad(self):
                torch.set_grad_enabled(False)

            def run(self, x):
                self.no_grad()
                return self.net(x)
    """,
    "a parameter": "def run(no_grad, x):\n            no_grad()\n            return x",
    "of another library": "import paddle\n\n\ndef run(net, x):\n    paddle.no_grad()\n    return net(x)",
    "a unit test": """
        import unittest

        class TestModes(unittest.TestCase):
            def test_it_is_an_object(self):
                torch.no_grad()
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize("code", ["torch.no_grad()", "torch.no_grad"])
def test_the_help_enters_it(code: str) -> None:
    (found,) = findings(evaluation(code), CODE)
    assert found.help is not None
    assert "`with torch.no_grad():`" in found.help
