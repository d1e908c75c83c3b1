from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG220"

TRAINS = """
    import itertools
    from itertools import chain, tee

    def train(model, head, loader, args):
        params = {made}
        optimizer = torch.optim.Adam({given}, lr=1e-3)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(params, 1.0){mark}
            optimizer.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "filter(lambda p: p.requires_grad, model.parameters())",
        "model.parameters()",
        "model.module.parameters()",
        "(p for p in model.parameters() if p.requires_grad)",
        "(p for n, p in model.named_parameters() if 'bias' not in n)",
        "map(lambda named: named[1], model.named_parameters())",
        "itertools.chain(model.parameters(), head.parameters())",
        "chain(*[m.parameters() for m in (model, head)])",
        "chain.from_iterable(m.parameters() for m in (model, head))",
        "iter(model.parameters())",
        "filter(lambda p: p.requires_grad, model.parameters()) if args.frozen else model.parameters()",
    ],
)
@pytest.mark.parametrize("given", ["params", "[{'params': params}]", "params=params"])
def test_clipped_after_the_optimizer(made: str, given: str) -> None:
    given = given.replace("params=params", "lr=1e-3, params=params").replace("lr=1e-3, ", "")
    assert_flagged(TRAINS.format(made=made, given=given, mark="  # !"), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "list(model.parameters())",
        "[p for p in model.parameters() if p.requires_grad]",
        "[*model.parameters()]",
        "list(filter(lambda p: p.requires_grad, model.parameters()))",
        "tuple(p for p in model.parameters())",
        "nn.ParameterList(model.parameters())",
        "dict(model.named_parameters()).values()",
        "sorted(model.parameters(), key=len)",
        "args.params",
        "model.trainable()",
        "tee(model.parameters())",
    ],
)
def test_what_can_be_gone_through_again(made: str) -> None:
    assert_clean(TRAINS.format(made=made, given="params", mark=""), CODE)


@pytest.mark.parametrize("given", ["list(model.parameters())", "model.parameters()", "head.parameters()"])
def test_an_iterator_for_each_use(given: str) -> None:
    again = "params = model.parameters()\n            nn.utils"
    assert_clean(TRAINS.format(made="None", given=given, mark="").replace("nn.utils", again), CODE)


def function(*lines: str) -> str:
    body = "\n        ".join(lines)
    return f"""
    import itertools
    from torch import optim

    def start(model, other, loader, name, ema, params=None):
        {body}
    """


@pytest.mark.parametrize(
    "lines",
    [
        ("p = model.parameters()", "print(sum(q.numel() for q in p))", "return optim.SGD(p, 0.1)  # !"),
        ("p = model.parameters()", "a = optim.SGD(p, 0.1)", "return a, optim.Adam(p)  # !"),
        (
            "named = model.named_parameters()",
            "decay = [p for n, p in named if p.ndim > 1]",
            "rest = [p for n, p in named if p.ndim < 2]  # !",
        ),
        (
            "p = model.parameters()",
            "for q in p:",
            "    q.requires_grad = False",
            "for q in p:  # !",
            "    print(q.shape)",
        ),
        ("p = model.parameters()", "total = sum(map(torch.numel, p))", "wd = sum(q.norm() for q in p)  # !"),
        ("p = model.parameters()", "a = optim.SGD(p, 0.1)", "b = optim.Adam([{'params': p}])  # !"),
        ("p = model.parameters()", "groups = [{'params': p}]", "a = optim.SGD(groups)", "print(list(p))  # !"),
        ("p = model.parameters()", "groups = []", "groups.append({'params': p})", "optim.SGD(groups)", "list(p)  # !"),
        ("p, q = model.parameters(), other.parameters()", "optim.SGD(q)", "optim.SGD(p)", "list(q)  # !"),
        ("p = model.parameters()", "q = p", "optim.SGD(q)", "nn.utils.clip_grad_norm_(p, 1)  # !"),
        ("p = model.parameters()", "q = filter(None, p)", "optim.SGD(q)", "nn.utils.clip_grad_norm_(p, 1)  # !"),
        ("p = model.parameters()", "a = optim.SGD(p)", "a.add_param_group({'params': p})  # !"),
        ("p = model.parameters()", "a = optim.SGD(p)", "for x in loader:", "    ema.update(p)  # !"),
        ("p = model.parameters()", "for x in loader:", "    nn.utils.clip_grad_norm_(p, 1)  # !"),
        (
            "p = zip(model.parameters(), other.parameters())",
            "for x in loader:",
            "    for a, b in p:  # !",
            "        a -= b",
        ),
        (
            "p = model.parameters()",
            "if name == 'adam':",
            "    a = optim.Adam(p)",
            "elif name == 'sgd':",
            "    a = optim.SGD(p)",
            "nn.utils.clip_grad_norm_(p, 1)  # !",
        ),
        (
            "p = model.parameters()",
            "a = optim.Adam(p)",
            "for x in loader:",
            "    if name:",
            "        nn.utils.clip_grad_norm_(p, 1)  # !",
        ),
        (
            "if name:",
            "    p = model.parameters()",
            "else:",
            "    p = other.parameters()",
            "a = optim.Adam(p)",
            "nn.utils.clip_grad_norm_(p, 1)  # !",
        ),
        ("p = model.parameters()", "a = getattr(torch.optim, name)(p)", "nn.utils.clip_grad_norm_(p, 1)  # !"),
        ("layers = model.modules()", "n = len(list(layers))", "for m in layers:  # !", "    m.eval()"),
        ("p = itertools.chain(model.a, model.b)", "a = optim.Adam(p)", "nn.utils.clip_grad_norm_(p, 1)  # !"),
    ],
)
def test_nothing_is_left(lines: tuple[str, ...]) -> None:
    assert_flagged(function(*lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("p = model.parameters()", "return optim.SGD(p, 0.1)"),
        ("p = model.parameters()", "p = list(p)", "a = optim.SGD(p)", "nn.utils.clip_grad_norm_(p, 1)"),
        ("p = model.parameters()", "if name:", "    return optim.SGD(p)", "return optim.Adam(p)"),
        ("p = model.parameters()", "if name:", "    a = optim.SGD(p)", "else:", "    a = optim.Adam(p)"),
        (
            "p = model.parameters()",
            "if name == 'sgd':",
            "    a = optim.SGD(p)",
            "if name == 'adam':",
            "    a = optim.Adam(p)",
        ),
        ("p = model.parameters()", "a = optim.SGD(p) if name else optim.Adam(p)"),
        ("p = model.parameters()", "try:", "    a = optim.SGD(p)", "except TypeError:", "    a = optim.Adam(p)"),
        (
            "p = model.parameters()",
            "match name:",
            "    case 'sgd':",
            "        a = optim.SGD(p)",
            "    case _:",
            "        a = optim.Adam(p)",
        ),
        ("p = model.parameters()", "device = next(p).device", "a = optim.SGD(p)"),
        ("p = model.parameters()", "print(p, type(p), isinstance(p, list))", "a = optim.SGD(p)"),
        (
            "p = model.parameters()",
            "for q in p:",
            "    if q.ndim > 1:",
            "        break",
            "for q in p:",
            "    q.zero_()",
        ),
        ("p = model.parameters()", "make = {'sgd': lambda: optim.SGD(p), 'adam': lambda: optim.Adam(p)}"),
        ("p = model.parameters()", "a, b = itertools.tee(p)", "optim.SGD(a)", "nn.utils.clip_grad_norm_(b, 1)"),
        ("for part in (model, other):", "    p = part.parameters()", "    optim.SGD(p)"),
        (
            "if params is None:",
            "    params = model.parameters()",
            "optim.SGD(params)",
            "nn.utils.clip_grad_norm_(params, 1)",
        ),
        ("optim.SGD(params)", "nn.utils.clip_grad_norm_(params, 1)"),
        ("p = model.parameters()", "groups = [{'params': p}]", "a = optim.SGD(groups)", "b = optim.Adam(groups)"),
        (
            "lines = (line for line in loader)",
            "for line in lines:",
            "    print(line)",
            "for line in lines:",
            "    print(line)",
        ),
        ("p = model.parameters", "optim.SGD(p())", "nn.utils.clip_grad_norm_(p(), 1)"),
        ("optim.SGD(model.parameters())", "nn.utils.clip_grad_norm_(model.parameters(), 1)"),
        ("a = None", "p = model.parameters()", "for x in loader:", "    if a is None:", "        a = optim.SGD(p)"),
        ("p = model.parameters()", "for x in loader:", "    a = optim.SGD(p)", "    break"),
        ("p = model.parameters()", "q = [*p]", "optim.SGD(q)", "nn.utils.clip_grad_norm_(q, 1)"),
        ("p = params(model)", "optim.SGD(p)", "nn.utils.clip_grad_norm_(p, 1)"),
        (
            "p = model.parameters()",
            "named = dict(model.named_parameters())",
            "optim.SGD(p)",
            "list(named)",
            "list(named)",
        ),
    ],
)
def test_look_alikes(lines: tuple[str, ...]) -> None:
    assert_clean(function(*lines), CODE)


OBJECT = """
    class Trainer{base}:
        def __init__(self, model, other):
            self.model = model
            {made}
            {used}

        def step(self, loss):
            loss.backward()
            nn.utils.clip_grad_norm_(self.params, 1.0){mark}
            self.opt.step()

        {more}
"""
AS_USUAL = {
    "base": "",
    "made": "self.params = filter(lambda p: p.requires_grad, model.parameters())",
    "used": "self.opt = torch.optim.SGD(self.params, 0.1)",
    "more": "",
    "mark": "",
}


@pytest.mark.parametrize(
    "lines",
    [
        {},
        {
            "made": "params = model.parameters(); self.params = params",
            "used": "self.opt = torch.optim.SGD(params, 0.1)",
        },
        {"used": "self.build()", "more": "def build(self): self.opt = torch.optim.SGD(self.params, 0.1)"},
        {"base": "(Base)"},
    ],
)
def test_an_attribute(lines: dict[str, str]) -> None:
    assert_flagged(OBJECT.format(**(AS_USUAL | {"mark": "  # !"} | lines)), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        {"made": "self.params = list(model.parameters())"},
        {"used": "self.opt = torch.optim.SGD(model.parameters(), 0.1)"},
        {"more": "def again(self): self.params = list(self.model.parameters())"},
        {"made": "", "used": "self.opt = torch.optim.SGD(model.parameters(), 0.1)",
         "more": "@property\n        def params(self): return self.model.parameters()"},
        {"made": "self.params = None", "used": "self.opt = None",
         "more": "def begin(self): self.opt = torch.optim.SGD(self.model.parameters(), 0.1)"},
    ],
)  # fmt: skip
def test_look_alikes_of_an_attribute(lines: dict[str, str]) -> None:
    assert_clean(OBJECT.format(**(AS_USUAL | lines)), CODE)


def test_a_global_of_a_script() -> None:
    assert_flagged(
        """
    net = nn.Linear(4, 2)
    params = filter(lambda p: p.requires_grad, net.parameters())
    optimizer = torch.optim.SGD(params, 0.1)

    def step(x):
        net(x).sum().backward()
        nn.utils.clip_grad_norm_(params, 1.0)  # !
        optimizer.step()

    def other(x, params):
        nn.utils.clip_grad_norm_(params, 1.0)

    def own(x):
        params = list(net.parameters())
        nn.utils.clip_grad_norm_(params, 1.0)
    """,
        CODE,
    )


def test_a_global_that_a_function_binds_anew() -> None:
    assert_clean(
        """
    net = nn.Linear(4, 2)
    params = net.parameters()
    optimizer = torch.optim.SGD(params, 0.1)

    def begin():
        global params
        params = list(net.parameters())

    def step(x):
        nn.utils.clip_grad_norm_(params, 1.0)
    """,
        CODE,
    )


@pytest.mark.parametrize(
    "body",
    [
        "for p, _ in zip(params, range(3)): p.requires_grad = False",
        "if any(p.isnan().any() for p in params): raise ValueError",
        "first = next(p for p in params if p.ndim > 1)",
        "yield from params",
    ],
)
def test_a_part_of_it_is_taken(body: str) -> None:
    assert_clean(
        f"""
    def start(net):
        params = net.parameters()
        {body}
        return torch.optim.SGD(params, 0.1)
    """,
        CODE,
    )


def test_a_closure() -> None:
    assert_flagged(
        """
    def fit(net, loader):
        params = net.parameters()
        optimizer = torch.optim.LBFGS(params)
        for x in loader:
            def closure():
                net(x).sum().backward()
                nn.utils.clip_grad_norm_(params, 1.0)  # !
            optimizer.step(closure)
    """,
        CODE,
    )


HELPERS = """
    def trainable(model):
        {body}

    def count(params):
        return sum(p.numel() for p in params)

    def shown(params):
        print(params)

    class Average:
        def __init__(self, params, decay):
            self.shadow = [p.clone() for p in params]

    def main(model, loader):
        params = trainable(model)
        {first}
        optimizer = torch.optim.SGD(params, 0.1)
        {last}
"""


@pytest.mark.parametrize(
    ("body", "first", "last"),
    [
        ("return filter(lambda p: p.requires_grad, model.parameters())", "pass", "print(count(params))  # !"),
        ("yield from model.parameters()", "pass", "average = Average(params, 0.9)  # !"),
        ("for p in model.parameters(): yield p", "pass", "nn.utils.clip_grad_norm_(params, 1)  # !"),
        ("return model.parameters()", "pass", "print(count(params=params))  # !"),
        ("return (p for p in model.parameters())", "pass", "nn.utils.clip_grad_norm_(params, 1)  # !"),
    ],
)
def test_helpers(body: str, first: str, last: str) -> None:
    assert_flagged(HELPERS.format(body=body, first=first, last=last), CODE)


@pytest.mark.parametrize(
    ("body", "first", "last"),
    [
        ("return list(model.parameters())", "count(params)", "nn.utils.clip_grad_norm_(params, 1)"),
        ("return [p for p in model.parameters()]", "count(params)", "nn.utils.clip_grad_norm_(params, 1)"),
        ("yield from model.parameters()", "shown(params)", "nn.utils.clip_grad_norm_(trainable(model), 1)"),
        ("yield from model.parameters()", "shown(params)", "shown(params)"),
        ("return model.parameters() if model else []", "count(params)", "nn.utils.clip_grad_norm_(params, 1)"),
    ],
)
def test_look_alikes_of_helpers(body: str, first: str, last: str) -> None:
    assert_clean(HELPERS.format(body=body, first=first, last=last), CODE)


def test_a_class_whose_parameters_are_a_list() -> None:
    assert_clean(
        """
    class Neuron:
        def parameters(self):
            return self.w + [self.b]

    def train(model):
        params = model.parameters()
        for p in params:
            p.grad = 0
        for p in params:
            p.data -= p.grad
    """,
        CODE,
    )


def test_a_test_of_torch() -> None:
    assert_clean(
        """
    def test_empty():
        params = nn.Linear(2, 2).parameters()
        torch.optim.SGD(params, 0.1)
        torch.optim.SGD(params, 0.1)
    """,
        CODE,
    )


def test_a_helper_in_another_file(tmp_path: Path) -> None:
    files = {
        "parts.py": """
            def trainable(model):
                return filter(lambda p: p.requires_grad, model.parameters())
            def listed(model):
                return [p for p in model.parameters() if p.requires_grad]
        """,
        "main.py": """
            import torch
            from parts import listed, trainable
            def main(model, loader):
                params = trainable(model)
                optimizer = torch.optim.SGD(params, 0.1)
                torch.nn.utils.clip_grad_norm_(params, 1)
            def right(model, loader):
                params = listed(model)
                optimizer = torch.optim.SGD(params, 0.1)
                torch.nn.utils.clip_grad_norm_(params, 1)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("main.py", 7)]


def test_what_is_said_and_the_edit() -> None:
    (finding,) = findings(TRAINS.format(made="model.parameters()", given="params", mark=""), CODE)
    assert "no gradient is left to be clipped" in finding.message
    assert [related.message for related in finding.related] == [
        "the iterator is made here",
        "this takes all that it has",
    ]
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == ["list(model.parameters())"]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("(p for p in model.parameters())", "list"),
        ("(\n                p for p in model.parameters())", "list(p for p in model.parameters())"),
    ],
)
def test_a_list_has_the_parentheses_that_the_generator_had(made: str, text: str) -> None:
    (finding,) = findings(TRAINS.format(made=made, given="params", mark=""), CODE)
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == [text]


def test_a_group_of_it_is_empty() -> None:
    lines = ("p = model.parameters()", "a = optim.SGD(p, 0.1)", "b = optim.Adam([{'params': p}])")
    (finding,) = findings(function(*lines), CODE)
    assert "a group without parameters" in finding.message


GIVEN_BACK = """
def setup(hp):
    model = Net(hp)
    params = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.SGD(params, lr=hp.lr)
    return model, params, optimizer

def step(model, params, optimizer, x, y):
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()

def main(hp, loader):
    model, params, optimizer = setup(hp)
    for x, y in loader:
        step(model, params, optimizer, x, y)  # !
"""
HERE = """
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(params, 1.0)  # !
        optimizer.step()
"""


def in_place_of_step() -> str:
    return GIVEN_BACK.replace("\n        step(model, params, optimizer, x, y)  # !\n", HERE)


@pytest.mark.parametrize(
    "snippet",
    [
        GIVEN_BACK,
        in_place_of_step(),
        GIVEN_BACK.replace("filter(lambda p: p.requires_grad, model.parameters())", "model.parameters()"),
        GIVEN_BACK.replace("return model, params, optimizer", "return (model, params, optimizer)"),
        GIVEN_BACK.replace("params, optimizer = setup", "weights, optimizer = setup").replace(
            "step(model, params, optimizer, x, y)  # !", "step(model, weights, optimizer, x, y)  # !"
        ),
        in_place_of_step().replace("def main(hp, loader):", "def main(hp, loader):\n  for seed in range(5):"),
    ],
)
def test_a_function_gives_back_what_it_has_used_up(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("filter(lambda p: p.requires_grad, model.parameters())", "[p for p in model.parameters()]")],
        [("SGD(params, lr", "SGD(model.parameters(), lr"), ("    for x, y in loader:\n        step(",
          "    if hp.once:\n        x, y = next(loader)\n        step(")],
        [("return model, params, optimizer", "return model, list(model.parameters()), optimizer")],
        [("    optimizer = torch.optim.SGD(params, lr=hp.lr)\n", "    optimizer = torch.optim.SGD(params, lr=hp.lr)\n"
          "    params = list(model.parameters())\n")],
        [("return model, params, optimizer", "if hp.clip:\n        return model, model.weights, optimizer\n"
          "    return model, params, optimizer")],
        [("    for x, y", "    params = [*model.parameters()]\n    for x, y")],
        [("    for x, y", "    params = model.weights\n    for x, y")],
        [("optimizer = torch.optim.SGD(params, lr=hp.lr)", "optimizer = torch.optim.SGD(params, lr=hp.lr) "
          "if hp.train else None"), ("        step(", "        print(")],
        [("model, params, optimizer = setup(hp)", "model, *params, optimizer = setup(hp)")],
        [("def setup(hp):", "@cached\ndef setup(hp):")],
        [("model, params, optimizer = setup(hp)", "model, optimizer, params = setup(hp)"),
         ("return model, params, optimizer", "return model, optimizer, (params,)")],
        [("        step(model, params,", "        step(model, model.parameters(),")],
    ],
)  # fmt: skip
def test_look_alikes_of_what_is_given_back(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(GIVEN_BACK, *edits), CODE)


def test_each_call_gives_iterators_of_its_own() -> None:
    once = """
    def parts(model):
        params = model.parameters()
        return params, len(model.weight)

    def main(model):
        for _ in range(3):
            params, size = parts(model)
            optimizer = torch.optim.SGD(params, lr=0.1)
    """
    assert_clean(once, CODE)
