from __future__ import annotations

from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Confidence
from gradguard.static.engine import check
from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG208"

FLAGGED = {
    "after the step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
    """,
    "between the step and the reset": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                nn.utils.clip_grad_value_(model.parameters(), 0.5)  # !
                optimizer.zero_grad()
    """,
    "behind the reset": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "between forward and backward": """
        from torch.nn.utils import clip_grad_norm_

        def train(model, loader, optimizer, limit):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                if limit > 0:
                    clip_grad_norm_(model.parameters(), limit)  # !
                loss.backward()
                optimizer.step()
    """,
    "at the start of the next iteration": """
        import torch.nn.utils.clip_grad as clipping

        def train(model, loader, optimizer):
            for x, y in loader:
                clipping.clip_grad_norm_(model.parameters(), 1.0)  # !
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
    """,
    "the model's own reset": """
        for x, y in loader:
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            nn.utils.clip_grad_norm(model.parameters(), 1.0)  # !
            model.zero_grad()
    """,
    "in a class, where the step's branch ends": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.Adam(net.parameters())

            def fit(self, loader, every):
                for i, (x, y) in enumerate(loader):
                    F.cross_entropy(self.net(x), y).backward()
                    if (i + 1) % every == 0:
                        self.optimizer.step()
                        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)  # !
                        self.optimizer.zero_grad()
    """,
    "a function that a loop calls": """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
            return loss.item()

        def train(model, loader, optimizer):
            for x, y in loader:
                print(step(model, x, y, optimizer))
    """,
    "by a helper": """
        def clip(model):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                clip(model)  # !
    """,
    "by a helper that resets": """
        class Trainer:
            def prepare(self):
                self.optimizer.zero_grad()
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)

            def fit(self, loader):
                for x, y in loader:
                    self.prepare()  # !
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()
    """,
    "by an accelerator": """
        def train(model, loader, optimizer, accelerator):
            for x, y in loader:
                accelerator.backward(F.cross_entropy(model(x), y))
                optimizer.step()
                accelerator.clip_grad_norm_(model.parameters(), 1.0)  # !
                optimizer.zero_grad()
    """,
    "scaled": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda"):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
                scaler.step(optimizer)
                scaler.update()
    """,
    "scaled, with the norm used": """
        class Trainer:
            def __init__(self, net):
                self.net, self.optimizer = net, torch.optim.Adam(net.parameters())
                self.amp = torch.amp.GradScaler()

            def update(self, x, y):
                self.amp.scale(F.cross_entropy(self.net(x), y)).backward()
                norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)  # !
                self.amp.step(self.optimizer)
                self.amp.update()
                return norm
    """,
    "scaled, in the branch that accumulates": """
        def train(model, loader, optimizer, scaler, use_amp):
            for i, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y) / 4
                if use_amp:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                if (i + 1) % 4 == 0:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
                    if use_amp:
                        scaler.step(optimizer)
                        scaler.update()
                    else:
                        optimizer.step()
                    optimizer.zero_grad()
    """,
    "scaled, of two models": """
        def train(G, D, loader, g_opt, d_opt, scaler):
            for real in loader:
                d_opt.zero_grad()
                scaler.scale(D(real).mean()).backward()
                nn.utils.clip_grad_norm_(D.parameters(), 1.0)  # !
                scaler.step(d_opt)
                g_opt.zero_grad()
                scaler.scale(D(G(real)).mean()).backward()
                scaler.step(g_opt)
                scaler.update()
    """,
}

CLEAN = {
    "where it belongs": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
    """,
    "where it belongs, with the reset last": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    """,
    "accumulation": """
        def train(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                (F.cross_entropy(model(x), y) / 4).backward()
                if (i + 1) % 4 == 0:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "what is accumulated so far": """
        def train(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                if i % 4 == 0:
                    optimizer.zero_grad()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                (F.cross_entropy(model(x), y) / 4).backward()
                if i % 4 == 3:
                    optimizer.step()
    """,
    "after the step, and the sum goes on": """
        def train(model, loader, optimizer):
            optimizer.zero_grad()
            for i, (x, y) in enumerate(loader):
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if i % 4 == 0:
                    optimizer.zero_grad()
    """,
    "two optimizers": """
        def train(G, D, loader, g_opt, d_opt):
            for real in loader:
                d_opt.zero_grad()
                g_opt.zero_grad()
                (D(real) - D(G(real))).mean().backward()
                d_opt.step()
                nn.utils.clip_grad_norm_(G.parameters(), 1.0)
                d_opt.zero_grad()
                D(G(real)).mean().backward()
                g_opt.step()
    """,
    "a closure": """
        def fit(model, x, y):
            optimizer = torch.optim.LBFGS(model.parameters())

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                return loss

            for _ in range(100):
                optimizer.step(closure)
    """,
    "an engine that resets by itself": """
        def train(model_engine, loader):
            for x, y in loader:
                model_engine.backward(F.cross_entropy(model_engine(x), y))
                model_engine.step()
                nn.utils.clip_grad_norm_(model_engine.parameters(), 1.0)
    """,
    "accelerate": """
        def train(model, loader, optimizer, accelerator):
            for x, y in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(F.cross_entropy(model(x), y))
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "a backward that is not seen": """
        from amp import run_backward

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                run_backward(F.cross_entropy(model(x), y))
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                if y is None:
                    F.cross_entropy(model(x), y).backward()
    """,
    "a call that cannot be read": """
        from somewhere import share, compute

        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                share(model)
                optimizer.zero_grad()

        def fit(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                compute(model, x)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "hooks of a framework": """
        class Net(nn.Module):
            def on_after_backward(self):
                nn.utils.clip_grad_norm_(self.parameters(), 1.0)

            def on_before_zero_grad(self, optimizer):
                nn.utils.clip_grad_norm_(self.parameters(), 1.0)
    """,
    "a helper that does all": """
        def update(loss, model, optimizer):
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        def train(model, loader, optimizer):
            for x, y in loader:
                update(F.cross_entropy(model(x), y), model, optimizer)
    """,
    "helpers for each part": """
        class Trainer:
            def reset(self):
                self.optimizer.zero_grad()

            def clip(self):
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)

            def fit(self, loader):
                for x, y in loader:
                    self.reset()
                    F.cross_entropy(self.net(x), y).backward()
                    self.clip()
                    self.optimizer.step()
    """,
    "in one branch each": """
        def train(model, loader, optimizer, clips):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                if clips:
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                else:
                    loss.backward()
                    optimizer.step()
    """,
    "unscaled": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
    """,
    "unscaled by hand": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
                scaler.step(optimizer)
                scaler.update()
    """,
    "scaled, and only measured": """
        def train(model, loader, optimizer, scaler):
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                print(nn.utils.clip_grad_norm_(model.parameters(), float("inf")))
                scaler.step(optimizer)
                scaler.update()
    """,
    "only where nothing is scaled": """
        def train(model, loader, optimizer, scaler, amp):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                if amp:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
    """,
    "measured after the step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9)
                print(norm)
    """,
    "clipping of weights": """
        def train(critic, loader, optimizer):
            for x in loader:
                optimizer.zero_grad()
                critic(x).mean().backward()
                optimizer.step()
                for p in critic.parameters():
                    p.data.clamp_(-0.01, 0.01)
    """,
    "another reset than that of the clip": """
        def train(model, loader, optimizer, skips):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                if skips(x):
                    optimizer.zero_grad()
                else:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
    """,
    "a reset of a part": """
        def train(model, head, loader, optimizer):
            for x, y in loader:
                head.zero_grad()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                F.cross_entropy(head(model(x)), y).backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


@pytest.mark.parametrize("name", FLAGGED)
def test_screened(name: str, tmp_path: Path) -> None:
    """A function that the screen leaves out is one that the rule would not have flagged."""
    (tmp_path / "train.py").write_text(source(FLAGGED[name]))
    settings = Settings(tmp_path, select=(CODE,))
    found = check([tmp_path / "train.py"], settings, catalogue.load()).findings
    assert [f.span.line for f in found] == sorted(f.span.line for f in findings(FLAGGED[name], CODE))


@pytest.mark.parametrize("name", ["after the step", "behind the reset"])
def test_a_result_that_is_used_waits_at_low_confidence(name: str) -> None:
    used = FLAGGED[name]
    for call in ("torch.nn.utils.clip", "nn.utils.clip"):
        used = used.replace(f"    {call}", f"    norm = {call}")
    assert_clean(used, CODE)
    assert_flagged(used, CODE, Confidence.LOW)


def test_both_lines_are_named() -> None:
    (finding,) = findings(FLAGGED["after the step"], CODE)
    assert "`optimizer.step()`" in finding.message
    assert [related.line - finding.span.line for related in finding.related] == [-1, -3]


def test_unscaled_in_another_file(tmp_path: Path) -> None:
    files = {
        "helper.py": """
            def ready(scaler, optimizer):
                scaler.unscale_(optimizer)
        """,
        "train.py": twin(
            source(FLAGGED["scaled"]),
            ("import torch\n", "import torch\nfrom helper import ready\n"),
            ("        nn.utils", "        ready(scaler, optimizer)\n        nn.utils"),
        ),
    }
    assert lines_in_files(tmp_path, files, CODE) == []


SCALED = """
        def train(model, loader, optimizer, log):
            scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)
            for step, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                {before}
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # !
                scaler.step(optimizer)
                {after}
                scaler.update()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pass", "pass"),
        ("pass", 'print(f"{step} scale {scaler.get_scale():.0f} of {len(loader) / 2}")'),
        ("pass", 'print(step, "scale", scaler.get_scale())'),
        ("pass", 'log.add_scalar("scale", scaler.get_scale(), step)'),
        ("scale = scaler.get_scale()", "skipped = scaler.get_scale() < scale"),
        ("assert scaler.get_scale() > 0", "pass"),
        ("pass", 'log.rows.append({"scale": scaler.get_scale()})'),
    ],
)
def test_a_scale_that_is_logged_divides_nothing(before: str, after: str) -> None:
    assert_flagged(SCALED.format(before=before, after=after), CODE)


@pytest.mark.parametrize(
    "before",
    [
        "scaler.unscale_(optimizer)",
        "for p in model.parameters(): p.grad /= scaler.get_scale()",
        "for p in model.parameters(): p.grad.div_(scaler.get_scale())",
        "for p in model.parameters(): p.grad.mul_(1.0 / scaler.get_scale())",
        "scale = scaler.get_scale(); [p.grad.div_(scale) for p in model.parameters()]",
        "inverse = 1.0 / float(scaler.get_scale()); [p.grad.mul_(inverse) for p in model.parameters()]",
        "scale = scaler.get_scale(); torch._foreach_div_([p.grad for p in model.parameters()], scale)",
        "scale = scaler.get_scale(); log.divide(model, scale)",
        "model.scale = scaler.get_scale(); [p.grad.div_(model.scale) for p in model.parameters()]",
    ],
)
def test_a_scale_that_is_divided_by_does(before: str) -> None:
    assert_clean(twin(SCALED.format(before=before, after="pass")), CODE)


def test_the_scale_is_said_to_be_what_it_is_by_default_only() -> None:
    [finding] = findings(SCALED.format(before="pass", after="pass"), CODE)
    assert "unless `init_scale` says otherwise" in finding.message


LATE = """
        class Engine:
            def __init__(self, model):
                self.model, self.opt = model, torch.optim.SGD(model.parameters(), 0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def step(self, x, y):
                self.opt.zero_grad()
                self.scaler.scale(F.cross_entropy(self.model(x), y)).backward()
                {first}
                {then}
                self.scaler.step(self.opt)
                self.scaler.update()
"""
CLIPS, UNSCALES = "nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)", "self.scaler.unscale_(self.opt)"


def test_what_is_unscaled_after_the_clip_is_clipped_while_it_is_scaled() -> None:
    assert_flagged(LATE.format(first=CLIPS + "  # !", then=UNSCALES), CODE)
    [finding] = findings(LATE.format(first=CLIPS, then=UNSCALES), CODE)
    assert "too late" in finding.related[-1].message


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (UNSCALES, CLIPS),
        (f"if self.clips: {UNSCALES}", f"if self.clips: {CLIPS}"),
        (UNSCALES, "pass"),
        ("divide(self.scaler, self.opt)", CLIPS),
    ],
)
def test_what_is_unscaled_before_is_not(first: str, then: str) -> None:
    helper = """
        def divide(scaler, optimizer):
            scaler.unscale_(optimizer)
"""
    assert_clean(helper + LATE.format(first=first, then=then), CODE)


OF_A_LOSS = """
    from torch.nn.utils import clip_grad_norm_

    def train(policy, optimizer, episodes):
        for states, returns in episodes:
            loss = -(policy(states) * returns).mean()
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(loss, 0.1)  # !
            optimizer.step()
"""


@pytest.mark.parametrize(
    "clip",
    [
        "clip_grad_norm_(loss, 0.1)  # !",
        "torch.nn.utils.clip_grad_value_(loss, clip_value=0.5)  # !",
        "if returns.numel(): nn.utils.clip_grad_norm_(loss, max_norm=1.0)  # !",
    ],
)
def test_the_gradients_of_a_loss(clip: str) -> None:
    assert_flagged(OF_A_LOSS.replace("clip_grad_norm_(loss, 0.1)  # !", clip), CODE)


@pytest.mark.parametrize(
    "clip",
    [
        "clip_grad_norm_(policy.parameters(), 0.1)",
        "clip_grad_norm_([p for p in policy.parameters()], 0.1)",
        "clip_grad_norm_(policy.logits, 0.1)",
        "clip_grad_norm_(states, 0.1)",
        "clip_grad_norm_(losses, 0.1)",
        "clip(loss, 0.1)",
        "loss.clamp_(max=0.1)",
    ],
)
def test_other_gradients(clip: str) -> None:
    assert_clean(OF_A_LOSS.replace("clip_grad_norm_(loss, 0.1)  # !", clip), CODE)


def test_a_leaf_that_is_backpropagated_itself() -> None:
    snippet = """
    def fit(optimizer):
        temperature = torch.ones((), requires_grad=True)
        for step in range(100):
            optimizer.zero_grad()
            temperature.backward()
            torch.nn.utils.clip_grad_norm_(temperature, 0.1)
            optimizer.step()
    """
    assert_clean(snippet, CODE)


# A hook that clips, of a trainer that has a scaler, and calls hooks more than once.
HOOKED = """
    class Hook:
        def after_backward(self, run):
            pass

        def before_step(self, run):
            pass

    class Clip(Hook):
        def __init__(self, limit):
            self.limit = limit

        def after_backward(self, run):
            norm = nn.utils.clip_grad_norm_(run.net.parameters(), self.limit)  # !
            run.log["norm"] = float(norm)

    class Show(Hook):
        def after_backward(self, run):
            print(run.log)

    class Run:
        def __init__(self, net, opt, hooks, use_amp=True):
            self.net, self.opt, self.hooks, self.log = net, opt, hooks, {}
            self.scaler = torch.amp.GradScaler("cuda", enabled=use_amp)

        def fire(self, name):
            for hook in self.hooks:
                getattr(hook, name)(self)

        def fit(self, loader):
            for x, y in loader:
                self.opt.zero_grad()
                loss = F.cross_entropy(self.net(x), y)
                self.scaler.scale(loss).backward()
                self.fire("after_backward")
                self.fire("before_step")
                self.scaler.step(self.opt)
                self.scaler.update()
"""
FIRES = 'self.fire("after_backward")'
CALLS_EACH = "for hook in self.hooks:\n                    hook.after_backward(self)"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(FIRES, CALLS_EACH)],
        [("nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")],
        [("norm = nn.utils", "norm = torch.nn.utils")],
        [("enabled=use_amp", "init_scale=1024.0")],
        [("self.scaler.step(self.opt)", "if self.log:\n                    self.scaler.step(self.opt)")],
        [(FIRES, FIRES + "; print(loss.item())")],
        [('                self.fire("before_step")\n', "")],
        [("self.scaler", "self.grad_scaler")],
    ],
)
def test_a_hook_that_clips_scaled_gradients(edits: list[tuple[str, str]]) -> None:
    snippet = HOOKED
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(FIRES, "self.scaler.unscale_(self.opt); " + FIRES)],
        [("norm = nn", "run.scaler.unscale_(run.opt); norm = nn")],
        [("self.limit)", "self.limit * run.scaler.get_scale())")],
        [("self.limit = limit", "self.limit = limit * 2 ** 14"), ("Clip(Hook)", "ClipScaled(Hook)")],
        [("run.net.parameters(), self.limit", 'run.net.parameters(), float("inf")')],
        [("nn.utils.clip_grad_norm_", "clip_somehow")],
        [("nn.utils.clip_grad_norm_(run.net.parameters(), self.limit)", "run.net.clip_grad_norm_(self.limit)")],
        [("enabled=use_amp", "enabled=False")],
        [("self.scaler.scale(loss).backward()", "loss.backward()")],
        [("self.scaler.step(self.opt)", "self.opt.step()")],
        [("                " + FIRES + "\n", "")],
        [(FIRES, "pass"), ("self.scaler.update()", "self.scaler.update(); " + FIRES)],
        [(FIRES, "pass"), ("loss = F.c", FIRES + "; loss = F.c")],
        [(FIRES, 'self.fire("after_step")')],
        [("self.scaler.update()", "self.scaler.update()\n\n    class Plain(Run):\n        def fit(self, loader):\n"
          "            self.fire('after_backward')")],
        [("print(run.log)", "super().after_backward(run)")],
        [("class Clip(Hook)", "class Clip(nn.Module)")],
    ],
)  # fmt: skip
def test_hooks_that_clip_what_they_should(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(HOOKED, *edits), CODE)
