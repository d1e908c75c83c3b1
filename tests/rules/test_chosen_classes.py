"""A module of one of several classes, ``Policy = Discrete if finite else Gauss``: what it computes carries a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG104"

CLASSES = """
    class Discrete({base}):
        def __init__(self):
            {start}
            self.head = nn.Linear(3, 4)

        def logp(self, ob, ac):
            return torch.distributions.Categorical(logits=self.head(ob)).log_prob(ac)

        def entropy(self, ob):
            return {entropy}

    class Gauss({base}):
        def __init__(self):
            {start}
            self.head = nn.Linear(3, 4)

        def logp(self, ob, ac):
            return torch.distributions.Normal(self.head(ob), 1).log_prob(ac).sum(-1)

        def entropy(self, ob):
            return {entropy}
"""
MODULES = CLASSES.format(base="nn.Module", start="super().__init__()", entropy="toolkit.entropy(self.head(ob))")
AGENT = """
    class Agent:
        def __init__(self, hps, device):
            {chosen}
            self.policy = {made}
            self.optimizer = torch.optim.Adam(list(self.policy.parameters()))

        def train(self, loader):
            metrics = defaultdict(list)
            for ob, ac in loader:
                bonus = -0.1 * self.policy.entropy(ob).mean()
                loss = bonus - self.policy.logp(ob, ac).mean()
                metrics["bonus"].append({stored}){mark}
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            return metrics
"""
CHOSEN = "Policy = Discrete if hps.finite else Gauss"


@pytest.mark.parametrize(
    ("chosen", "made"),
    [
        (CHOSEN, "Policy().to(device)"),
        (CHOSEN, "Policy()"),
        ("Policy = Gauss if hps.large else Discrete if hps.finite else Gauss", "Policy().cuda()"),
        ("pass", "(Discrete if hps.finite else Gauss)().to(device)"),
        ("pass", "Discrete() if hps.finite else Gauss()"),
    ],
)
def test_one_of_two_modules(chosen: str, made: str) -> None:
    agent = AGENT.format(chosen=chosen, made=made, stored="bonus", mark="  # !")
    assert_flagged(MODULES + agent, CODE)
    assert_clean(MODULES + agent.replace("append(bonus)", "append(bonus.item())").replace("  # !", ""), CODE)


def test_the_classes_are_in_another_file(tmp_path: Path) -> None:
    nets = "import torch\nimport torch.nn as nn\n" + MODULES.replace("\n    ", "\n")
    head = "import torch\nfrom collections import defaultdict\nfrom nets import Discrete, Gauss\n"
    agent = AGENT.format(chosen=CHOSEN, made="Policy().to(device)", stored="bonus", mark="").replace("\n    ", "\n")
    files = {"nets.py": nets, "agent.py": head + agent}
    line = next(n for n, text in enumerate(files["agent.py"].splitlines(), 1) if 'metrics["bonus"]' in text)
    assert lines_in_files(tmp_path, files, CODE) == [("agent.py", line)]


@pytest.mark.parametrize(
    ("base", "start"), [("object", "pass"), ("Exporter", "super().__init__()"), ("Generic[T]", "pass")]
)
def test_classes_that_are_no_modules(base: str, start: str) -> None:
    """What they compute cannot be told: `toolkit.entropy` may as well be NumPy's."""
    classes = CLASSES.format(base=base, start=start, entropy="toolkit.entropy(ob)")
    agent = AGENT.format(chosen=CHOSEN, made="Policy()", stored="bonus", mark="")
    agent = agent.replace("self.policy.parameters()", "hps.parameters").replace("loss = bonus", "loss = bonus.item()")
    assert_clean(classes + agent, CODE)


@pytest.mark.parametrize("entropy", ["np.log(ob.shape[-1])", "torch.tensor(1.4)", "self.head(ob).detach().exp()"])
def test_what_the_classes_compute_without_a_graph(entropy: str) -> None:
    classes = CLASSES.format(base="nn.Module", start="super().__init__()", entropy=entropy)
    agent = AGENT.format(chosen=CHOSEN, made="Policy()", stored="bonus", mark="")
    assert_clean(classes + agent, CODE)


def test_a_script_chooses() -> None:
    assert_flagged(
        MODULES
        + """
    def train(finite, loader):
        Policy = Discrete if finite else Gauss
        made = Policy()
        optimizer = torch.optim.Adam(made.parameters())
        seen = []
        for ob, ac in loader:
            bonus = made.entropy(ob)
            loss = bonus.mean() - made.logp(ob, ac).mean()
            seen.append(bonus)  # !
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(len(seen))
        """,
        CODE,
    )
