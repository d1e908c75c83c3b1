from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG424"

TAP = """
class Tap:
    def __init__(self, model, names):
        self.model, self.names = model, names
        self.found = {}
        self.handles = []

    def note(self, name):
        def hook(module, args, output):
            self.found[name] = output
        return hook

    def __enter__(self):
        layers = self.model.named_modules
        for name, layer in layers():
            if name in self.names:
                self.handles.append(layer.register_forward_hook(self.note(name)))
        return self

    def __exit__(self, *error):
        self.found.clear()
        self.handles.clear()  # !
"""
METHOD = """
from typing import Any

class Probe:
    def __init__(self, net):
        self._net = net
        self._hooks: dict[str, Any] = {}

    def attach(self):
        self._hooks["in"] = self._net.stem.register_forward_pre_hook(print)
        self._hooks["out"] = self._net.head.register_full_backward_hook(print)

    def detach(self):
        if self._hooks:
            self._hooks = {}  # !
"""
ONE = """
class Watch:
    def __init__(self):
        self.handle = None

    def start(self, module):
        self.handle = module.register_forward_hook(lambda *_: None)

    def stop(self):
        self.handle = None  # !
"""
ALL = """
class Watch:
    def start(self, modules):
        self.handles = [m.register_forward_hook(print) for m in modules]

    def stop(self):
        print(len(self.handles), "hooks")
        self.handles = list()  # !
"""
FLAGGED = {"a context": TAP, "a dict": METHOD, "one handle": ONE, "a list of all": ALL}
REMOVED = "for handle in self.handles:\n            handle.remove()\n        self.handles.clear()"
CLEAN = {
    "removed": twin(TAP, ("self.handles.clear()", REMOVED)),
    "removed by another method": twin(
        TAP,
        (
            "    def __enter__",
            "    def off(self):\n        for h in self.handles:\n            h.remove()\n\n    def __enter__",
        ),
    ),
    "one is removed": twin(
        ONE, ("        self.handle = None\n", "        self.handle.remove()\n        self.handle = None\n")
    ),
    "handed on": twin(
        TAP, ("        self.handles.clear()", "        free(self.handles)\n        self.handles.clear()")
    ),
    "given away": twin(TAP, ("        return self\n", "        return self.handles\n")),
    "taken out": twin(
        METHOD, ("    def detach", "    def off(self, name):\n        self._hooks.pop(name).remove()\n\n    def detach")
    ),
    "known elsewhere": TAP.replace("  # !", "") + "\ndef off(tap):\n    for h in tap.handles:\n        h.remove()\n",
    "hooks of tensors": twin(ALL, ("register_forward_hook", "register_hook")),
    "no handles": twin(ALL, ("m.register_forward_hook(print)", "m.weight.norm().item()")),
    "not only handles": twin(
        ONE, ("    def stop", "    def use(self, handle):\n        self.handle = handle\n\n    def stop")
    ),
    "the module is gone, too": twin(
        METHOD, ("            self._hooks = {}", "            self._net = None\n            self._hooks = {}")
    ),
    "begins anew": twin(
        ALL, ("    def stop(self):", "    def stop(self, module):\n        module.register_forward_hook(print)")
    ),
    "in the constructor": twin(ONE, ("    def stop(self):\n        self.handle = None\n", "")),
    "torch's own are cleared": twin(
        TAP, ("self.handles.clear()", "self.handles.clear()\n        self.model._forward_hooks.clear()")
    ),
    "of a module that it makes": twin(
        ONE,
        ("module.register", "net.register"),
        ("        self.handle = net", "        net = module.clone()\n        self.handle = net"),
    ),
    "another list": twin(TAP, ("        self.handles.clear()", "        self.found = {}")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_another_file_may_remove_them(tmp_path: Path) -> None:
    probe = "import torch\n" + METHOD.replace("  # !", "")
    files = {"probe.py": probe, "use.py": "import probe\n\ndef off(probe):\n    probe._hooks['in'].remove()\n"}
    assert lines_in_files(tmp_path, {"probe.py": probe}, CODE) == [("probe.py", 16)]
    assert lines_in_files(tmp_path, files, CODE) == []
