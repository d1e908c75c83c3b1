"""GG301: a flag that says whether to train is handed on, by one function to the next."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

STEP = """
        def {step}(self, loader, train{default}):
            self.net.train() if train else self.net.eval()
            losses = []
            {context}
            for x, y in loader:
                loss = F.mse_loss(self.net(x), y)
                losses.append(loss.item())
                if train:
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
            return losses
"""
TRAINER = """
    class Trainer:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())

        def fit(self, loader, held_out, epochs):
            for epoch in range(epochs):
                losses = self.epoch(loader, {trains})
                error = self.epoch({evaluated}){mark}
                print(epoch, losses, error)

        def epoch(self, loader, train{default}):
            {body}
"""
BODIES = {
    "by position": ("losses = self.step(loader, train)", "step"),
    "by name": ("losses = self.step(loader, train=train)", "step"),
    "by a third": ("losses = self.between(train, loader)", "step"),
}
BETWEEN = """
        def between(self, learns, data):
            return self.step(data, train=learns)
"""


def _trainer(
    body: str, evaluated: str, mark: str, *, default: str = "", context: str = "pass", trains: str = "True"
) -> str:
    written = body + "\n            return sum(losses) / len(losses)"
    step = STEP.format(step="step", default=default, context=context)
    trainer = TRAINER.format(trains=trains, evaluated=evaluated, mark=mark, default=default, body=written)
    return trainer + step + BETWEEN


@pytest.mark.parametrize("body", [body for body, _ in BODIES.values()])
@pytest.mark.parametrize("evaluated", ["held_out, False", "held_out, train=False", "train=False, loader=held_out"])
def test_a_method_hands_the_flag_on(body: str, evaluated: str) -> None:
    assert_flagged(_trainer(body, evaluated, "  # !"), CODE)


def test_the_default_evaluates() -> None:
    """No call says so, and each function would have to be told by the one before."""
    default = _trainer("losses = self.step(loader, train)", "held_out", "", default="=True", trains="train=True")
    assert_clean(default, CODE)


@pytest.mark.parametrize("body", [body for body, _ in BODIES.values()])
@pytest.mark.parametrize(
    ("evaluated", "context"),
    [
        ("held_out, True", "pass"),
        ("held_out, epoch % 2 == 0", "pass"),
        ("held_out, False", "torch.set_grad_enabled(train)"),
        ("held_out, False", "if not train: torch.set_grad_enabled(False)"),
    ],
)
def test_what_trains_or_records_nothing(body: str, evaluated: str, context: str) -> None:
    assert_clean(_trainer(body, evaluated, "", context=context), CODE)


def test_a_call_under_no_grad() -> None:
    snippet = _trainer("losses = self.step(loader, train)", "held_out, False", "")
    before = "                error = self.epoch(held_out, False)"
    assert before in snippet
    under = f"                with torch.no_grad():\n    {before}"
    assert_clean(snippet.replace(before, under), CODE)


def test_a_function_in_between_that_is_not_told() -> None:
    """It always evaluates, and is the one that is to do so under `no_grad`: not each of its callers."""
    body = "losses = self.step(loader, False)  # !"
    assert_flagged(_trainer(body, "held_out, False", ""), CODE)


def test_a_flag_that_is_bound_anew() -> None:
    body = "train = train or self.always; losses = self.step(loader, train)"
    assert_clean(_trainer(body, "held_out, False", ""), CODE)


FUNCTIONS = """
    def run(net, loader, optimizer, train):
        net.train(train)
        total = 0.0
        for x, y in loader:
            loss = F.mse_loss(net(x), y)
            total += loss.item()
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return total

    def epoch(net, loaders, optimizer, train):
        name = "train" if train else "valid"
        return run(net, loaders[name], optimizer, train)

    def main(net, loaders):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(10):
            epoch(net, loaders, optimizer, True)
            print(epoch(net, loaders, optimizer, {train})){mark}
"""


def test_functions_hand_the_flag_on() -> None:
    assert_flagged(FUNCTIONS.format(train="False", mark="  # !"), CODE)
    assert_clean(FUNCTIONS.format(train="True", mark=""), CODE)


def test_functions_that_call_each_other_are_read() -> None:
    first = "        if not loaders: return epoch(net, loaders, optimizer, train)\n"
    snippet = FUNCTIONS.format(train="False", mark="  # !")
    assert_flagged(snippet.replace('        name = "train"', first + '        name = "train"'), CODE)


CAMERA = """
    def detect(net, frame{given}):
        found = {detected}
        return found.detach().cpu().numpy()

    def watch(net, camera):
        while True:
            frame = camera.read()
            boxes = detect(net, torch.tensor(frame))
            draw(frame, boxes)

    def main(path, camera):
        net = build(path)
        {mode}
        watch(net, camera){mark}
"""


@pytest.mark.parametrize("mode", ["net.eval()", "net = net.cuda().eval()"])
@pytest.mark.parametrize("detected", ["net(frame)", "net.forward(frame)", 'net(frame)["boxes"]'])
def test_a_loop_of_the_callee_runs_the_model_by_another_function(mode: str, detected: str) -> None:
    assert_flagged(CAMERA.format(given="", detected=detected, mode=mode, mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("mode", "given", "detected"),
    [
        ("net.train()", "", "net(frame)"),
        ("net.eval(); torch.set_grad_enabled(False)", "", "net(frame)"),
        ("net.eval()", "", "torch.no_grad()(net)(frame)"),
        ("net.eval()", ", off=True", "net.detached(frame)"),
    ],
)
def test_a_loop_of_the_callee_that_records_nothing(mode: str, given: str, detected: str) -> None:
    assert_clean(CAMERA.format(given=given, detected=detected, mode=mode, mark=""), CODE)


def test_a_loop_of_the_callee_whose_helper_runs_under_no_grad() -> None:
    snippet = CAMERA.format(given="", detected="net(frame)", mode="net.eval()", mark="")
    assert_clean(snippet.replace("    def detect(", "    @torch.no_grad()\n    def detect("), CODE)
