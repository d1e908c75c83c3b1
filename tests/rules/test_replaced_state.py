from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG418"

SPLATS = """
    class Splats:
        def __init__(self, n):
            self.params = {"xyz": nn.Parameter(torch.rand(n, 3)), "opacity": nn.Parameter(torch.rand(n, 1))}
            groups = [{"params": [p], "lr": 1e-2, "name": name} for name, p in self.params.items()]
            self.optimizer = torch.optim.Adam(groups)

        def select(self, index):
            for group in self.optimizer.param_groups:
                old = group["params"][0]
                new = nn.Parameter(old.detach()[index].clone())
                state = self.optimizer.state.get(old)  # !
                if state:
                    self.optimizer.state[new] = {k: v[index] if v.dim() else v for k, v in state.items()}
                group["params"] = [new]
                self.params[group["name"]] = new
"""

CAT = """
    def cat_to_optimizer(self, tensors):
        optimizable = {}
        for group in self.optimizer.param_groups:
            extension = tensors[group["name"]]
            stored = self.optimizer.state.get(group["params"][0], None)  # !
            stored["exp_avg"] = torch.cat((stored["exp_avg"], torch.zeros_like(extension)), dim=0)
            stored["exp_avg_sq"] = torch.cat((stored["exp_avg_sq"], torch.zeros_like(extension)), dim=0)
            group["params"][0] = nn.Parameter(torch.cat((group["params"][0], extension)).requires_grad_(True))
            self.optimizer.state[group["params"][0]] = stored
            optimizable[group["name"]] = group["params"][0]
        return optimizable
"""

OF_EACH = """
    def grow(params, optimizers, mask):
        for name, p in params.items():
            optimizer = optimizers[name]
            wider = torch.nn.Parameter(torch.cat([p, p[mask]]))
            for i in range(len(optimizer.param_groups)):
                kept = optimizer.state[p]  # !
                optimizer.param_groups[i]["params"] = [wider]
                optimizer.state[wider] = {k: torch.cat([v, v[mask]]) if k != "step" else v for k, v in kept.items()}
            params[name] = wider
"""

INDEXED = """
    def resize(opt, index):
        states = opt.state
        for group in opt.param_groups:
            for i, p in enumerate(group["params"]):
                q = nn.Parameter(p[index])
                if p in states:
                    states[q] = {k: v[index] for k, v in states[p].items()}  # !
                group["params"][i] = q
"""

LISTED = """
    def resize(opt, index):
        for group in opt.param_groups:
            renewed = []
            for p in group["params"]:
                q = nn.Parameter(p[index])
                opt.state[q] = opt.state[p]  # !
                renewed.append(q)
            group["params"] = renewed
"""

IN_LOOP = """
    def fit(points, target, steps):
        points = nn.Parameter(points)
        optimizer = torch.optim.Adam([points], lr=1e-2)
        for step in range(steps):
            loss = (points - target[: len(points)]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 99:
                points = nn.Parameter(torch.cat([points.detach(), points.detach()]))
                optimizer.param_groups[0]["params"][0] = points  # !
"""

RENAMED = """
    def prune_and_append(model, opt, keep, added):
        for group in opt.param_groups:
            param = getattr(model, group["name"])
            stored = opt.state.get(param, {})  # !
            renewed = nn.Parameter(torch.cat([param.data[keep], added[group["name"]]]))
            setattr(model, group["name"], renewed)
            group["params"] = [renewed]
            if stored:
                opt.state[renewed] = {k: v[keep] for k, v in stored.items()}
"""

EVERY = [SPLATS, CAT, OF_EACH, INDEXED, LISTED, IN_LOOP, RENAMED]


@pytest.mark.parametrize("snippet", EVERY)
def test_the_old_one_stays(snippet: str) -> None:
    assert_flagged(snippet, CODE)


GROUP, FIRST = 'group["params"] = [new]', 'group["params"][0] = nn'


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (SPLATS, ".state.get(old)", ".state.pop(old, None)"),
        (SPLATS, GROUP, f"del self.optimizer.state[old]\n                {GROUP}"),
        (SPLATS, GROUP, f"self.forget(old)\n                {GROUP}"),
        (SPLATS, "def select(self, index):", "def select(self, index):\n            self.optimizer.state.clear()"),
        (SPLATS, GROUP, "old.data = new.data"),
        (SPLATS, GROUP, 'group["params"] = [p for p in group["params"] if p is not old]'),
        (SPLATS, "for group in self.optimizer.param_groups", "for group in self.other.param_groups"),
        (CAT, FIRST, f"del self.optimizer.state[group['params'][0]]\n            {FIRST}"),
        (CAT, "return optimizable", "self.optimizer = torch.optim.Adam(optimizable.values())"),
        (CAT, "return optimizable", "self.optimizer.state = defaultdict(dict)"),
        (OF_EACH, "kept = optimizer.state[p]", "kept = optimizer.state[p]\n                del optimizer.state[p]"),
        (OF_EACH, "params[name] = wider", "params[name] = wider\n            optimizer.state.pop(p)"),
        (OF_EACH, "params[name] = wider", "optimizer.load_state_dict(moved)"),
        (INDEXED, 'group["params"][i] = q', 'group["params"][i] = q\n                states.pop(p, None)'),
        (INDEXED, "for group in opt", "opt.state = {k: states[k] for k in kept}\n        for group in opt"),
        (LISTED, 'group["params"] = renewed', 'group["params"] = renewed\n            del opt.state[p]'),
        (IN_LOOP, "torch.optim.Adam(", "torch.optim.SGD("),
        (IN_LOOP, "points = nn.Parameter(torch.cat([points.detach(), points.detach()]))", "points.data *= 2"),
        (IN_LOOP, '["params"][0] = points', '["params"][0] = points; optimizer.state.clear()'),
        (IN_LOOP, 'optimizer.param_groups[0]["params"][0] = points', "optimizer = torch.optim.Adam([points], lr=1)"),
        (RENAMED, "if stored:", "opt.state.pop(param, None)\n            if stored:"),
    ],
)  # fmt: skip
def test_it_is_taken_out(snippet: str, old: str, new: str) -> None:
    forgets = "    def forget(self, p):\n            self.optimizer.state.pop(p, None)\n\n        def select"
    snippet = snippet.replace("    def select", forgets) if "forget" in new else snippet
    assert_clean(twin(snippet, (old, new)), CODE)


def test_before_the_first_step() -> None:
    """Master weights take the place of half-precision ones as an optimizer is wrapped: there is no state yet."""
    assert_clean(
        """
        class Wrapped:
            def __init__(self, optimizer):
                self.optimizer = optimizer
                for group in optimizer.param_groups:
                    for i, p in enumerate(group["params"]):
                        group["params"][i] = nn.Parameter(p.detach().float())

        def build(net):
            optimizer = torch.optim.Adam(net.parameters())
            optimizer.param_groups[0]["params"][0] = nn.Parameter(net.weight.detach().clone())
            return optimizer
        """,
        CODE,
    )


def test_what_was_there_comes_back() -> None:
    assert_clean(
        """
        def step_as_one(opt, flat):
            group = opt.param_groups[0]
            shards = group["params"]
            group["params"] = [flat]
            opt.state[flat] = {k: torch.cat([opt.state[p][k] for p in shards]) for k in ("exp_avg", "exp_avg_sq")}
            opt.step()
            group["params"] = shards
        """,
        CODE,
    )


def test_another_optimizer_gets_the_states() -> None:
    assert_clean(
        """
        def convert(old, new, params):
            for before, group in zip(old.param_groups, new.param_groups):
                for i, p in enumerate(before["params"]):
                    group["params"][i] = nn.Parameter(params[i])
                    new.state[group["params"][i]] = old.state[p]
        """,
        CODE,
    )


def test_the_states_of_a_checkpoint() -> None:
    assert_clean(
        """
        def merge(checkpoint, params):
            groups = checkpoint["param_groups"]
            groups[0]["params"] = [nn.Parameter(p) for p in params]
            return {"state": {i: checkpoint["state"][i] for i in range(len(params))}, "param_groups": groups}
        """,
        CODE,
    )


def test_a_caller_takes_it_out(tmp_path: Path) -> None:
    files = {
        "splats.py": """
            import torch.nn as nn

            def swap(optimizer, old, new):
                for group in optimizer.param_groups:
                    group["params"] = [nn.Parameter(new)]
                    optimizer.state[new] = optimizer.state[old]
        """,
        "train.py": """
            from splats import swap

            def grow(optimizer, old, new):
                swap(optimizer, old, new)
                optimizer.state.pop(old, None)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == []
    files["train.py"] = files["train.py"].replace("optimizer.state.pop(old, None)", "return new")
    assert lines_in_files(tmp_path, files, CODE) == [("splats.py", 7)]


GAUSS = """
    class Gauss(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.mu, self.log_var = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.zeros(n))
            self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

        def fit(self, objective, steps):
            for _ in range(steps):
                loss = objective(self.mu, self.log_var)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        def update_var(self, new):
            self.log_var = nn.Parameter(new.detach().log(), requires_grad=True)
            self.optimizer.param_groups[0]["params"] = [self.mu, self.log_var]  # !
"""

SOLVER = """
    from torch.optim import Adam

    class Solver:
        def __init__(self):
            self.optimizer = Adam([torch.zeros(1, requires_grad=True)], lr=0.1)

        def solve(self, y):
            self.controls = torch.zeros(len(y), 2)
            self.controls.requires_grad = True
            self.optimizer.param_groups[0]["params"][0] = self.controls  # !
            for _ in range(50):
                self.optimizer.zero_grad()
                (self.controls - y).pow(2).mean().backward()
                self.optimizer.step()
"""

DREAM = """
    from torch.autograd import Variable

    def dream(model, image, blur, steps):
        image = Variable(image, requires_grad=True)
        optimizer = torch.optim.AdamW([image], lr=0.1)
        for step in range(steps):
            if step % 4 == 0:
                with torch.no_grad():
                    image = blur(image)
                image = Variable(image, requires_grad=True)
                optimizer.param_groups[0]["params"][0] = image  # !
            loss = -model(image).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize("snippet", [GAUSS, SOLVER, DREAM])
def test_without_a_copy_of_the_state(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (GAUSS, "torch.optim.Adam(", "torch.optim.SGD("),
        (GAUSS, "torch.optim.Adam(", "make_optimizer("),
        (GAUSS, "self.log_var = nn.Parameter(new.detach().log(), requires_grad=True)", "self.log_var.data = new.log()"),
        (GAUSS, "def update_var", "def load"),
        (GAUSS, "def update_var", "def setup_var"),
        (GAUSS, "self.optimizer.step()", "self.other.take()"),
        (GAUSS, "def update_var(self, new):", "def update_var(self, new):\n            self.optimizer.state.clear()"),
        (GAUSS, "[self.mu, self.log_var]", "[self.mu]"),
        (GAUSS, 'self.optimizer.param_groups[0]["params"] = [self.mu, self.log_var]',
         "self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)"),
        (GAUSS, "def fit", "def restart(self, new):\n            self.update_var(new)\n"
         "            self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)\n\n        def fit"),
        (SOLVER, "self.controls = torch.zeros(len(y), 2)", "self.controls = y.start"),
        (SOLVER, "self.controls.requires_grad = True", "self.controls.requires_grad = False"),
        (SOLVER, "for _ in range(50):", "self.optimizer.state = defaultdict(dict)\n            for _ in range(50):"),
        (DREAM, "torch.optim.AdamW(", "torch.optim.LBFGS("),
        (DREAM, 'optimizer.param_groups[0]["params"][0] = image', "optimizer = torch.optim.AdamW([image], lr=0.1)"),
        (DREAM, 'optimizer.param_groups[0]["params"][0] = image', "optimizer.param_groups[0]['lr'] = 0.1"),
    ],
)  # fmt: skip
def test_nothing_is_left(snippet: str, old: str, new: str) -> None:
    assert_clean(twin(snippet, (old, new)), CODE)


SWAP = """
    class Densifier:
        def __init__(self, splats, optimizer):
            self.splats, self.optimizer = splats, optimizer

        def swap(self, group, rows, mutate):
            old = group["params"][0]
            state = self.optimizer.state.get(old)  # !
            new = torch.nn.Parameter(mutate(old.detach()[rows].clone()))
            if state is not None:
                moved = {key: (v[rows].clone() if v.dim() else v.clone()) for key, v in state.items()}
                self.optimizer.state[new] = moved
            group["params"][0] = new
            self.splats[group["name"]] = new

        def __call__(self, rows):
            for group in self.optimizer.param_groups:
                self.swap(group, rows, torch.clone)
                CALLER
"""

GIVEN_BOTH = """
    def put(opt, pg, tensor):
        states = opt.state
        fresh = nn.Parameter(tensor)
        states[fresh] = states[pg["params"][0]]  # !
        pg["params"] = [fresh]

    def grow(opt, tensors):
        for pg, tensor in zip(opt.param_groups, tensors):
            put(opt, pg, tensor)
"""

OF_ONE = """
    class Grower:
        def widen(self, index, group):
            kept = self.model.opt.state[group["params"][index]]  # !
            wider = nn.Parameter(F.pad(group["params"][index].detach(), (0, 1)))
            self.model.opt.state[wider] = {k: F.pad(v, (0, 1)) if v.dim() else v for k, v in kept.items()}
            group["params"][index] = wider
"""


@pytest.mark.parametrize("snippet", [SWAP, GIVEN_BOTH, OF_ONE])
def test_the_group_is_given(snippet: str) -> None:
    assert_flagged(snippet.replace("CALLER", "pass"), CODE)


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (SWAP, ".state.get(old)", ".state.pop(old, None)"),
        (SWAP, "CALLER", "self.optimizer.state.pop(self.old)"),
        (SWAP, 'group["params"][0] = new', 'del self.optimizer.state[old]\n            group["params"][0] = new'),
        (SWAP, "self.optimizer.state[new] = moved", "self.moved[new] = moved"),
        (SWAP, "self.optimizer.state[new] = moved", "old.data = new.data\n                new = old"),
        (GIVEN_BOTH, 'states[pg["params"][0]]', 'states.pop(pg["params"][0])'),
        (GIVEN_BOTH, "put(opt, pg, tensor)\n", "old = pg['params'][0]; put(opt, pg, tensor); opt.state.pop(old)\n"),
        (GIVEN_BOTH, "states[fresh] =", "other.state[fresh] = states[fresh] ="),
        (OF_ONE, "wider = nn", 'del self.model.opt.state[group["params"][index]]\n            wider = nn'),
    ],
)  # fmt: skip
def test_it_is_taken_out_of_the_state_of_a_group(snippet: str, old: str, new: str) -> None:
    assert_clean(twin(snippet, (old, new)).replace("CALLER", "pass"), CODE)
