from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG415"

STASH = """
import itertools
import weakref
from torch.autograd.graph import saved_tensors_hooks

class Stash:
    def __init__(self):
        self.kept = {}
        self.ids = itertools.count()

    def pack(self, tensor):
        key = next(self.ids)
        self.kept[key] = (tensor.detach().to("cpu", copy=True), tensor.device)  # !
        return key

    def unpack(self, key):
        copied, device = self.kept[key]
        return copied.to(device)

    def __enter__(self):
        self.hooks = saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

def train(model, loader, optimizer):
    stash = Stash()
    for x, y in loader:
        optimizer.zero_grad()
        with stash:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
"""
COUNTED = """
class Offloaded(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.count, self.kept = inner, 0, {}

    def _pack(self, tensor):
        self.count += 1
        on_host = tensor.cpu()
        self.kept[self.count] = on_host  # !
        return self.count

    def _unpack(self, key):
        return self.kept[key].cuda()

    def forward(self, x):
        with torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack):
            return self.inner(x)

def train(loader, optimizer):
    model = Offloaded(nn.Linear(4, 4))
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
LISTED = """
PACKED = []

def pack(tensor):
    PACKED.append(tensor.half())  # !
    return len(PACKED) - 1

def unpack(index):
    return PACKED[index].float()

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
NUMBERED = twin(
    STASH, ("next(self.ids)", "len(self.kept)"), ('(tensor.detach().to("cpu", copy=True), tensor.device)', "tensor")
)
NUMBERED = NUMBERED.replace("self.kept[key] = tensor", "self.kept[key] = tensor  # !")
BEFORE = twin(
    COUNTED,
    ("        self.count += 1\n", "        key = self.count\n        self.count += 1\n"),
    ("[self.count]", "[key]"),
)
BEFORE = BEFORE.replace("= on_host", "= on_host  # !")
FLAGGED = {
    "counted afterwards": BEFORE,
    "an object": STASH,
    "a module that counts": COUNTED,
    "a list of the file": LISTED,
    "by length": NUMBERED,
}

EXIT = "        self.hooks.__exit__(*error)"
CLEAN = {
    "taken out": twin(STASH, ("self.kept[key]\n", "self.kept.pop(key)\n")),
    "deleted": twin(STASH, ("return copied.to", "del self.kept[key]\n        return copied.to")),
    "emptied at the end": twin(STASH, (EXIT, f"{EXIT}\n        self.kept.clear()")),
    "begun anew": twin(STASH, ("        self.hooks = ", "        self.kept = {}\n        self.hooks = ")),
    "emptied by the loop": twin(STASH, ("optimizer.step()", "optimizer.step()\n        stash.kept.clear()")),
    "an object for each step": twin(STASH, ("    stash = Stash()\n", ""), ("with stash:", "with Stash():")),
    "taken out with the key": twin(
        STASH, ("        return key\n", "        weakref.finalize(tensor, self.kept.pop, key)\n        return key\n")
    ),
    "the copy itself": twin(STASH, ("self.kept[key] = (tensor", "key = (tensor")),
    "what is known of it": twin(
        STASH, ('(tensor.detach().to("cpu", copy=True), tensor.device)', "(tensor.shape, tensor.device)")
    ),
    "keys that come again": twin(STASH, ("next(self.ids)", "tensor.shape")),
    "few keys": twin(STASH, ("key = next(self.ids)", "key = next(self.ids) % 64")),
    "nothing trains": twin(STASH, ("loss.backward()", "loss.item()")),
    "no hook": twin(STASH, ("saved_tensors_hooks(self.pack", "register(self.pack")),
    "a dict of each call": """
        def offload(model, x):
            kept = {}
            def pack(tensor):
                kept[len(kept)] = tensor.cpu()
                return len(kept) - 1
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda key: kept[key]):
                return model(x)

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(offload(model, x), y).backward()
                optimizer.step()
    """,
    "taken out of the module": twin(COUNTED, ("self.kept[key].cuda", "self.kept.pop(key).cuda")),
    "one module for each batch": twin(
        COUNTED, ("    for x, y in loader:", "    for x, y in loader:\n        model = Offloaded(nn.Linear(4, 4))")
    ),
    "one key": twin(COUNTED, ("        self.count += 1\n", "")),
    "a number that each call begins anew": twin(
        COUNTED, ("        self.count += 1\n", "        count = 0\n        count += 1\n"), ("[self.count]", "[count]")
    ),
    "names that go round": twin(
        COUNTED, ("on_host = tensor.cpu()", "on_host = other.cpu()\n        other = on_host.cpu()")
    ),
    "numbers only": twin(COUNTED, ("on_host = tensor.cpu()", "on_host = tensor.numel()")),
    "a list that is emptied": twin(LISTED, ("optimizer.step()", "optimizer.step()\n        PACKED.clear()")),
    "a list that is begun anew": twin(LISTED, ("optimizer.step()", "optimizer.step()\n        del PACKED[:]")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_several_files(tmp_path: Path) -> None:
    """The object is of another file than the loop."""
    stash, train = STASH.replace("  # !", "").split("def train")
    files = {
        "stash.py": f"import torch\n{stash}",
        "main.py": f"import torch.nn.functional as F\nfrom stash import Stash\n\ndef train{train}",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("stash.py", 14)]
    (tmp_path / "twin").mkdir()
    files["main.py"] += "        stash.kept.clear()\n"
    assert lines_in_files(tmp_path / "twin", files, CODE) == []


@pytest.mark.parametrize(
    ("snippet", "reads"),
    [
        (STASH, "copied, device = self.kept[key]"),
        (COUNTED, "return self.kept[key].cuda()"),
        (STASH.replace("copied, device = self.kept[key]", "copied, device = find(self, key)"), None),
    ],
)
def test_where_it_stays(snippet: str, reads: str | None) -> None:
    """The line of the unpack hook is shown, where an edit may be made as well."""
    text = source(snippet).splitlines()
    (found,) = findings(snippet, CODE)
    read = [each.line for each in found.related if "stays" in each.message]
    assert [text[line - 1].strip() for line in read] == ([reads] if reads is not None else [])
    assert any("installed" in each.message for each in found.related)
