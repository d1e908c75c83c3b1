"""Hooks that keep detached outputs, set up by an object or a function that does not train itself."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG109"

PROBE = """
        class Probe:
            def __init__(self, net):
                self.maps = MAPS
                self.handles = []
                for layer in net.modules():
                    if isinstance(layer, nn.Conv2d):
                        self.handles.append(layer.register_forward_hook(self.look))

            def look(self, layer, given, out):
                self.maps.append(out.detach())  # MARK

            def mean(self):
                return self.maps[-1].mean().item()

            def forget(self):
                FORGET

            def close(self):
                for handle in self.handles:
                    handle.remove()

        def train(net, loader):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            probe = Probe(net)
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                END
            CLOSE
"""
TAPS = """
        TAPS = defaultdict(list)

        def tap(name):
            def hook(module, args, out):
                TAPS[name].append(out.detach())  # MARK
            return hook

        def attach(net, names):
            return [getattr(net, name).register_forward_hook(tap(name)) for name in names]

        def train(net, loader):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            handles = attach(net, ("a", "b"))
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                END
            for handle in handles:
                handle.remove()
"""
TRAINER = """
        class Watcher:
            def __init__(self, layer):
                self.seen = {}
                layer.register_forward_hook(self.keep)

            def keep(self, layer, given, out):
                self.seen.setdefault("out", []).append(out.detach().abs())  # MARK

        class Trainer:
            def __init__(self, net, optimizer):
                self.net, self.optimizer = net, optimizer
                self.watcher = Watcher(net.body)

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()
                    END
"""


def _probe(mark: str = "", maps: str = "[]", forget: str = "pass", end: str = "pass", close: str = "pass") -> str:
    told = {"MARK": mark, "MAPS": maps, "FORGET": forget, "END": end, "CLOSE": close}
    code = PROBE
    for word, instead in told.items():
        code = code.replace(word, instead)
    return code


@pytest.mark.parametrize(
    "code",
    [
        _probe("!"),
        _probe("!", end="print(probe.mean())"),
        _probe("!", close="probe.close()"),
        TAPS.replace("MARK", "!").replace("END", "pass"),
        TAPS.replace("MARK", "!").replace("END", "print(len(TAPS))"),
        TRAINER.replace("MARK", "!").replace("END", "pass"),
    ],
)
def test_what_a_probe_keeps_of_a_whole_training(code: str) -> None:
    assert_flagged(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        _probe(end="probe.maps.clear()"),
        _probe(end="probe.forget()", forget="self.maps = []"),
        _probe(end="del probe.maps[:-2]"),
        _probe(end="probe.close()"),
        _probe(maps="deque(maxlen=8)"),
        _probe().replace("self.maps.append(out.detach())", "self.maps = [out.detach()]"),
        _probe().replace("self.maps.append(out.detach())", "self.maps.append(out.detach().mean())"),
        _probe().replace("self.maps.append(out.detach())", "self.maps.append(out.detach().cpu())"),
        _probe().replace("loss.backward()", "pass").replace("optimizer.step()", "pass"),
        _probe().replace("probe = Probe(net)", "pass") + "            Probe(net)\n            net(x)\n",
        _probe().replace("probe = Probe(net)", "pass").replace("END", "with Probe(net) as probe: net(x)"),
        TAPS.replace("END", "TAPS.clear()"),
        TAPS.replace("END", "TAPS['a'].clear()"),
        TAPS.replace("END", "for handle in handles: handle.remove()"),
        TAPS.replace("TAPS[name].append(out.detach())", "TAPS[name] = out.detach()"),
        TRAINER.replace("END", "self.watcher.seen.clear()"),
        TRAINER.replace("END", "self.watcher.seen = {}"),
        TRAINER.replace("def fit", "@torch.no_grad()\n            def fit").replace(".backward()", ""),
    ],
)
def test_what_a_probe_drops_in_time(code: str) -> None:
    assert_clean(code, CODE)


CONTEXT = """
        class Recorder:
            def __init__(self, net):
                self.net, self.maps, self.handles = net, defaultdict(list), []

            def _hook(self, name):
                def note(layer, given, out):
                    self.maps[name].append(KEPT)  # MARK
                return note

            def __enter__(self):
                for name, layer in self.net.named_modules():
                    self.handles.append(layer.register_forward_hook(self._hook(name)))
                return self

            def __exit__(self, *error):
                while self.handles:
                    self.handles.pop().remove()

        def fit(net, loader):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in loader:
                STEP
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        def main(net, loader):
            RUN
"""
AROUND = "with Recorder(net) as recorder:\n                fit(net, loader)"


def _context(kept: str, mark: str = "", step: str = "pass", run: str = AROUND) -> str:
    return CONTEXT.replace("KEPT", kept).replace("MARK", mark).replace("STEP", step).replace("RUN", run)


def test_a_context_around_a_whole_training() -> None:
    assert_flagged(_context("out", "!"), CODE)
    assert_flagged(_context("out.detach()", "!"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        _context("out.detach().mean()"),
        _context("out", run="with Recorder(net) as recorder:\n                net(next(loader))"),
        _context("out", run="fit(net, loader)", step="with Recorder(net) as recorder: net(x)"),
        _context("out", run="fit(net, loader)\n            with Recorder(net) as recorder: net(next(loader))"),
        _context("out").replace("self.maps[name].append(out)", "self.maps[name] = [out]"),
        _context("out", step="recorder.forget()")
        .replace("fit(net, loader)", "fit(net, loader, recorder)")
        .replace("def __exit__", "def forget(self):\n                self.maps.clear()\n\n            def __exit__"),
        _context("out", step="recorder.forget()")
        .replace("fit(net, loader)", "fit(net, loader, recorder)")
        .replace("def __exit__", "def forget(self): self.maps.clear()\n\n            def __exit__"),
    ],
)
def test_a_context_around_less(code: str) -> None:
    assert_clean(code, CODE)
