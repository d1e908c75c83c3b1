"""GG107, GG106: a parameter that is computed with is a tensor, though its name says model: ``teacher.mean(0)``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CENTERED = """
class Centered(nn.Module):
    def __init__(self, dim, m=0.9):
        super().__init__()
        self.m = m
        self.register_buffer("center", torch.zeros(1, dim))
    def forward(self, student, teacher):
        target = (teacher - self.center).softmax(-1).detach()
        self.update(teacher)
        return -(target * student.log_softmax(-1)).sum(-1).mean()
    def update(self, teacher):
        UPDATE

def main(loader):
    learner, guide = nn.Linear(3, 3), nn.Linear(3, 3)
    criterion = Centered(3)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    for x in loader:
        loss = criterion(learner(x), guide(x))  # !
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

AVERAGED = [
    "self.center = self.center * self.m + teacher.mean(0, keepdim=True) * (1 - self.m)",
    "batch = teacher.mean(0, keepdim=True)\n        self.center = self.center * self.m + batch * (1 - self.m)",
    "self.center = self.center * self.m + (1 - self.m) * teacher",
    "self.center = self.center + teacher / 10",
]


@pytest.mark.parametrize("name", ["teacher", "critic", "policy", "out"])
@pytest.mark.parametrize("update", AVERAGED)
def test_what_is_computed_with_is_a_tensor(update: str, name: str) -> None:
    assert_flagged(CENTERED.replace("UPDATE", update).replace("teacher", name), "GG107")


@pytest.mark.parametrize(
    "update",
    [
        "with torch.no_grad():\n            self.center = self.center * self.m + teacher.mean(0) * (1 - self.m)",
        "self.center = self.center * self.m + teacher.detach().mean(0) * (1 - self.m)",
        "self.center = self.center.detach() * self.m + teacher.mean(0) * (1 - self.m)",
        "self.shape = teacher.size(0)",
    ],
)
def test_what_keeps_no_graph(update: str) -> None:
    assert_clean(CENTERED.replace("UPDATE", update).replace("  # !", ""))


RUN = """
def score(teacher, x):
    return USED

def main(loader, teacher, student):
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    scores = []
    for x, y in loader:
        loss = F.mse_loss(student(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scores.append(score(teacher, x))  # !
"""


@pytest.mark.parametrize("used", ["teacher(x).mean()", "teacher(x) - 1", "teacher.forward(x) * 2"])
def test_what_is_run_is_a_module(used: str) -> None:
    assert_flagged(RUN.replace("USED", used), "GG104")
