"""An object whose hooks collect features, which a loss of the same step is computed of: who empties it, and when."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG109"

PROBE = """
        class Probe:
            def __init__(self, model, layers):
                self.seen = defaultdict(list)
                self.handles = [model[i].register_forward_hook(self.make(i)) for i in layers]

            def make(self, i):
                def grab(module, args, output):
                    self.seen[i].append(output)  # !
                return grab

            def latest(self, i):
                return self.seen[i][-1]

            def flush(self):
                self.seen.clear()

            def close(self):
                for handle in self.handles:
                    handle.remove()

        class Distiller:
            def __init__(self, teacher, student, layers):
                self.teacher, self.student, self.layers = teacher, student, layers
                self.tp, self.sp = Probe(teacher, layers), Probe(student, layers)
                self.opt = torch.optim.SGD(student.parameters(), lr=0.1)

            def step(self, x, y):
                self.teacher(x)
                loss = F.cross_entropy(self.student(x), y)
                for i in self.layers:
                    loss = loss + F.mse_loss(self.sp.latest(i), self.tp.latest(i).detach())
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                return loss.item()

            def finish(self):
                self.sp.flush()
                self.tp.flush()

        def main(teacher, student, loader):
            distiller = Distiller(teacher, student, (1, 3))
            for x, y in loader:
                print(distiller.step(x, y))
            distiller.finish()
"""
FLUSHED = "self.tp.flush()\n                self.sp.flush()"


def test_what_is_flushed_after_the_training_only() -> None:
    assert_flagged(PROBE, CODE)


@pytest.mark.parametrize(
    "edit",
    {
        "at the end of a step that goes over layers": (
            "self.opt.step()\n",
            f"self.opt.step()\n                {FLUSHED}\n",
        ),
        "at its beginning": ("self.teacher(x)\n", f"{FLUSHED}\n                self.teacher(x)\n"),
        "in a loop over the probes": (
            "self.opt.step()\n",
            "self.opt.step()\n                for probe in (self.tp, self.sp):\n                    probe.flush()\n",
        ),
        "of one by another method": ("self.opt.step()\n", "self.opt.step()\n                self.finish()\n"),
        "in the loop that steps": (
            "print(distiller.step(x, y))",
            "print(distiller.step(x, y))\n                distiller.sp.flush()\n                distiller.tp.flush()",
        ),
        "directly": ("self.opt.step()\n", "self.opt.step()\n                self.sp.seen.clear()\n"),
        "with a scaled loss": (
            "loss.backward()\n                self.opt.step()\n",
            f"self.scaler.scale(loss).backward()\n                self.opt.step()\n                {FLUSHED}\n",
        ),
    }.values(),
)
def test_what_is_flushed_in_each_step(edit: tuple[str, str]) -> None:
    assert_clean(twin(PROBE, edit), CODE)


def test_what_a_function_with_the_loop_flushes_at_its_end() -> None:
    steps = "distiller.student(x).mean().backward()\n                distiller.opt.step()"
    whole = PROBE.replace("print(distiller.step(x, y))", steps).replace("distiller.finish()", "distiller.sp.flush()")
    start, end = whole.index("            def finish"), whole.index("        def main")
    whole = whole[:start] + whole[end:]
    assert_flagged(whole, CODE)


def test_what_a_loss_is_computed_of_is_not_to_be_detached() -> None:
    [finding] = findings(PROBE, CODE)
    assert finding.fix is None
    assert finding.help is not None
    assert "detach" not in finding.help
    assert finding.help.startswith("empty `self.seen` in each step")


@pytest.mark.parametrize(
    "edits",
    [
        [
            ("return self.seen[i][-1]", "return len(self.seen)"),
            ("self.sp.latest(i), self.tp.latest(i).detach()", "x, y"),
        ],
        [("def latest(self, i):\n                return self.seen[i][-1]\n", ""), ("self.sp.latest(i)", "x")],
    ],
)
def test_what_nothing_is_computed_of_may_be_detached(edits: list[tuple[str, str]]) -> None:
    snippet = PROBE
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    [finding] = findings(snippet, CODE)
    assert finding.fix is not None
    assert finding.fix.edits[0].text.endswith(".detach()")
