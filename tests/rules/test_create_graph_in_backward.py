from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG102"

ADAPTED = """
        import copy

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

            def forward(self, x):
                return self.layers(x)

        class Meta:
            def __init__(self):
                self.net = Net()
                self.outer = torch.optim.Adam(self.net.parameters())

            def adapt(self, x, y):
                fast = copy.deepcopy(self.net)
                for _ in range(2):
                    fast.zero_grad()
                    F.mse_loss(fast(x), y).backward(create_graph=True){mark}
                    with torch.no_grad():
                        for p in fast.parameters():
                            p -= 0.1 * p.grad
                {last}
                return fast

            def train(self, tasks):
                for x, y, xq, yq in tasks:
                    fast = self.adapt(x, y)
                    loss = F.mse_loss(fast(xq), yq)
                    grads = torch.autograd.grad(loss, list(fast.parameters()))
                    for p, g in zip(self.net.parameters(), grads):
                        p.grad = g
                    self.outer.step()
                    {after}
"""

FLAGGED = {
    "of a copy that is returned, and nobody resets": ADAPTED.format(mark="  # !", last="pass", after="pass"),
    "of a copy, reset before": """
        import copy

        def curvature(net, criterion, x, y):
            probe = copy.deepcopy(net).eval()
            weights = list(probe.parameters())
            for w in weights:
                w.grad = None
            criterion(probe(x), y).backward(create_graph=True)  # !
            slopes = [w.grad for w in weights]
            seconds = torch.autograd.grad(slopes, weights, grad_outputs=slopes)
            return sum(float(s.norm()) for s in seconds)

        def train(net, criterion, opt, loader):
            for x, y in loader:
                opt.zero_grad()
                criterion(net(x), y).backward()
                opt.step()
                print(curvature(net, criterion, x, y))
    """,
    "the optimizer has a part of the model": """
        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Linear(4, 8)
                self.head = nn.Linear(8, 2)

            def forward(self, x):
                return self.head(self.encoder(x))

        def train(loader):
            clf = Classifier()
            tuned = list(clf.head.parameters())
            optimizer = torch.optim.Adam(tuned)
            for x, y in loader:
                nll = F.cross_entropy(clf(x), y)
                optimizer.zero_grad()
                nll.backward(create_graph=True)  # !
                flat = sum(p.grad.pow(2).sum() for p in tuned)
                flat.backward()
                optimizer.step()
    """,
    "an optimizer of one's own has a part of the model": """
        class Curved(torch.optim.Optimizer):
            def __init__(self, params, lr=0.1, eps=1e-4):
                super().__init__(params, dict(lr=lr, eps=eps))

            def step(self):
                params = [p for g in self.param_groups for p in g["params"] if p.grad is not None]
                seconds = torch.autograd.grad([p.grad for p in params], params, [p.grad for p in params])
                with torch.no_grad():
                    for p, second in zip(params, seconds):
                        p -= 0.1 * p.grad / (second.abs() + 1e-4)

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = nn.Sequential(nn.Linear(20, 32), nn.Tanh())
                self.probe = nn.Linear(32, 5)

            def forward(self, x):
                return self.probe(self.encoder(x))

        model = Model()
        optimizer = Curved(model.probe.parameters(), lr=0.02)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward(create_graph=True)  # !
            optimizer.step()
    """,
    "no reset": """
        def trace(model, loader):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                loss.backward(create_graph=True)  # !
                print(sum((p.grad ** 2).sum().item() for p in model.parameters()))
    """,
    "of a sum": """
        def penalty(net, batches):
            for b in batches:
                (net(b).mean() + 1).backward(retain_graph=True, create_graph=True)  # !
    """,
    "closure that nobody resets": """
        def train(model, loader, optimizer):
            for x, y in loader:
                def closure():
                    loss = F.mse_loss(model(x), y)
                    loss.backward(create_graph=True)  # !
                    return loss

                optimizer.step(closure)
    """,
}

FLAGGED["zeroed in place, which keeps the graph"] = """
        def train(net, batches, lr):
            for b in batches:
                net(b).mean().backward(create_graph=True)  # !
                with torch.no_grad():
                    for p in net.parameters():
                        p.sub_(lr * p.grad)
                        p.grad.zero_()
    """

CLEAN = {
    "of a copy that is returned, reset before": ADAPTED.format(mark="", last="fast.zero_grad()", after="pass"),
    "of a copy that is returned, and reset": ADAPTED.format(mark="", last="pass", after="fast.zero_grad()"),
    "of a copy that is returned, and its gradients dropped": ADAPTED.format(
        mark="", last="pass", after="for p in fast.parameters(): p.grad = None"
    ),
    "of a copy that is returned, and handed on": ADAPTED.format(mark="", last="pass", after="finish(fast)"),
    "of a copy, reset after": """
        import copy

        def curvature(net, criterion, x, y):
            probe = copy.deepcopy(net).eval()
            weights = list(probe.parameters())
            for w in weights:
                w.grad = None
            criterion(probe(x), y).backward(create_graph=True)
            slopes = [w.grad for w in weights]
            seconds = torch.autograd.grad(slopes, weights, grad_outputs=slopes)
            probe.zero_grad()
            return sum(float(s.norm()) for s in seconds)

        def train(net, criterion, opt, loader):
            for x, y in loader:
                opt.zero_grad()
                criterion(net(x), y).backward()
                opt.step()
                print(curvature(net, criterion, x, y))
    """,
    "the optimizer has a part, and the model is reset": twin(
        FLAGGED["the optimizer has a part of the model"], ("optimizer.zero_grad()", "clf.zero_grad()")
    ),
    "the optimizer has a part, and the rest is frozen": twin(
        FLAGGED["the optimizer has a part of the model"],
        ("clf = Classifier()", "clf = Classifier()\n            clf.encoder.requires_grad_(False)"),
    ),
    "an optimizer of one's own: has all": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("model.probe.parameters()", "model.parameters()"),
    ),
    "an optimizer of one's own: resets the model": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("optimizer.zero_grad()", "model.zero_grad()"),
    ),
    "an optimizer of one's own: the rest is frozen": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("model = Model()", "model = Model()\n        model.encoder.requires_grad_(False)"),
    ),
    "an optimizer of one's own: the rest is cut off": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("self.encoder(x))", "self.encoder(x).detach())"),
    ),
    "an optimizer of one's own: the rest has no gradients": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        (
            "return self.probe(self.encoder(x))",
            "with torch.no_grad():\n                    h = self.encoder(x)\n                return self.probe(h)",
        ),
    ),
    "an optimizer of one's own: it is given something else besides": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("super().__init__(params,", "super().__init__(list(params) + extra,"),
    ),
    "an optimizer of one's own: it is given to another base": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("super().__init__(params,", "super().__init__(self.more(params),"),
    ),
    "an optimizer of one's own: it resets in its own way": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        ("    def step(self):", "    def zero_grad(self):\n                reset_all()\n\n            def step(self):"),
    ),
    "an optimizer of one's own: it is given more later": twin(
        FLAGGED["an optimizer of one's own has a part of the model"],
        (
            "        for x, y in loader:",
            "        optimizer.add_param_group(dict(params=model.encoder.parameters()))\n        for x, y in loader:",
        ),
    ),
    "the optimizer has all of it": twin(
        FLAGGED["the optimizer has a part of the model"], ("clf.head.parameters()", "clf.parameters()")
    ),
    "the optimizer has its parts": twin(
        FLAGGED["the optimizer has a part of the model"],
        ("list(clf.head.parameters())", "[*clf.head.parameters(), *clf.encoder.parameters()]"),
    ),
    "autograd.grad": """
        def penalty(model, x, y):
            loss = F.cross_entropy(model(x), y)
            grads = torch.autograd.grad(loss, model.parameters(), create_graph=True)
            return sum(g.pow(2).sum() for g in grads)
    """,
    "reset each step": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward(create_graph=True)
                optimizer.step()
    """,
    "set to None": """
        def train(model, loader, optimizer):
            for x, y in loader:
                F.cross_entropy(model(x), y).backward(create_graph=True)
                optimizer.step()
                for p in model.parameters():
                    p.grad = None
    """,
    "false": """
        def grads(model, x):
            for _ in range(3):
                model(x).sum().backward(create_graph=False)
    """,
    "closure of a step after a reset": """
        def train(model, loader, optimizer):
            for x, y in loader:
                def closure():
                    loss = F.mse_loss(model(x), y)
                    loss.backward(create_graph=True)
                    return loss, model(x)

                optimizer.zero_grad()
                loss = optimizer.step(closure, M_inv=None)
    """,
    "closure beside the loop": """
        def closure():
            loss = F.mse_loss(net(x), y)
            loss.backward(create_graph=True)
            return loss

        optimizer = HessianFree(net.parameters())
        for i in range(100):
            optimizer.zero_grad()
            optimizer.step(closure)
    """,
}

OWN_OPTIMIZER = """
        class Newton(torch.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {})

            def step(self, closure=None):
                loss = closure() if closure is not None else None
                for group in self.param_groups:
                    for p in group["params"]:
                        p.data.sub_(p.grad)
                self.release()
                return loss

            def release(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.zero_()

        class Trainer:
            def __init__(self, net, optimizer, loader):
                self.net, self.optimizer, self.loader = net, optimizer, iter(loader)

            def objective(self):
                x, y = next(self.loader)
                loss = F.mse_loss(self.net(x), y)
                loss.backward(create_graph=True)  # !
                return loss.item()

            def fit(self, steps):
                for step in range(steps):
                    self.optimizer.step(self.objective)

        def main(net, loader):
            Trainer(net, Newton(net.parameters()), loader).fit(100)
"""

HELPER = """
        def backprop(loss):
            loss.backward(create_graph=True)  # !

        def step(net, x, y):
            backprop(F.mse_loss(net(x), y))

        def train(net, loader, opt):
            for x, y in loader:
                step(net, x, y)
                opt.step()
"""

FLAGGED["an optimizer of the program, which zeroes in place"] = OWN_OPTIMIZER
FLAGGED["a helper, and nobody resets"] = HELPER
FLAGGED["a helper, and its caller zeroes in place"] = (
    HELPER
    + """
                for p in net.parameters():
                    p.grad.zero_()
"""
)

for _how in ("p.grad = None", "del p.grad"):
    CLEAN[f"an optimizer of the program, which drops the gradients: {_how}"] = twin(
        OWN_OPTIMIZER, ("p.grad.zero_()", _how)
    )
    CLEAN[f"its step drops them: {_how}"] = twin(OWN_OPTIMIZER, ("p.data.sub_(p.grad)", f"{_how}"))
CLEAN["an optimizer of the program, which calls its zero_grad"] = twin(
    OWN_OPTIMIZER, ("self.release()\n", "self.zero_grad()\n")
)
CLEAN["a helper, and its caller resets"] = twin(HELPER, ("backprop(F", "net.zero_grad(); backprop(F"))
CLEAN["a helper, and the caller of its caller resets"] = twin(HELPER, ("opt.step()", "opt.step(); opt.zero_grad()"))
CLEAN["closure of a step before a reset"] = twin(
    FLAGGED["closure that nobody resets"],
    ("optimizer.step(closure)", "optimizer.step(closure)\n                optimizer.zero_grad()"),
)


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


ADAPT = """
    import copy

    class Inner:
        def __init__(self, lr=0.1, steps=3):
            self.lr, self.steps = lr, steps

        def adapt(self, learner, x, y):
            for _ in range(self.steps):
                BEFORE
                loss = F.mse_loss(learner(x), y)
                loss.backward(create_graph=True)MARK
                flat = sum(p.grad.pow(2).sum() for p in learner.parameters())
                pulls = torch.autograd.grad(flat, list(learner.parameters()))
                with torch.no_grad():
                    for p, pull in zip(learner.parameters(), pulls):
                        p.sub_(self.lr * (p.grad + pull))
                WITHIN
            AFTER
            return learner

    class Meta:
        def __init__(self, net, inner):
            self.net, self.inner = net, inner
            self.opt = torch.optim.Adam(net.parameters())

        def step(self, tasks):
            self.opt.zero_grad()
            for task in tasks:
                CALL
                grads = torch.autograd.grad(F.mse_loss(learner(task.x), task.y), list(learner.parameters()))
                for p, g in zip(self.net.parameters(), grads):
                    p.grad = g if p.grad is None else p.grad + g
                LAST
            self.opt.step()
"""
DIRECT = "learner = self.inner.adapt(copy.deepcopy(self.net), task.x, task.y)"
NAMED = "learner = copy.deepcopy(self.net)\n                self.inner.adapt(learner, task.x, y=task.y)"
BY_NAME = """fast = copy.deepcopy(self.net).train()
                learner = self.inner.adapt(learner=fast, x=task.x, y=task.y)"""


def adapt(call: str, mark: str = "", **parts: str) -> str:
    written = ADAPT.replace("CALL", call).replace("MARK", mark)
    for part in ("BEFORE", "WITHIN", "AFTER", "LAST"):
        written = written.replace(part, parts.get(part.lower(), "pass"))
    return written


@pytest.mark.parametrize("call", [DIRECT, NAMED, BY_NAME])
@pytest.mark.parametrize("before", ["learner.zero_grad()", "learner.zero_grad(set_to_none=False)"])
def test_a_copy_whose_resets_come_before(call: str, before: str) -> None:
    assert_flagged(adapt(call, "  # !", before=before), CODE)
    assert_flagged(adapt(call, "  # !", before=before).replace("learner(x)", "self.run(learner, x)"), CODE)


@pytest.mark.parametrize("call", [DIRECT, NAMED, BY_NAME])
@pytest.mark.parametrize(
    "parts",
    [
        {"after": "learner.zero_grad()"},
        {"within": "learner.zero_grad()"},
        {"after": "for p in learner.parameters(): p.grad = None"},
        {"after": "for p in learner.parameters(): p.grad = p.grad.detach()"},
        {"last": "learner.zero_grad()"},
        {"last": "for p in learner.parameters(): p.grad = None"},
    ],
)
def test_a_copy_that_is_reset_at_the_end(call: str, parts: dict[str, str]) -> None:
    assert_clean(adapt(call, before="learner.zero_grad()", **parts), CODE)


def test_one_model_that_is_reset_before_each_backward() -> None:
    assert_clean(adapt("learner = self.inner.adapt(self.net, task.x, task.y)", before="learner.zero_grad()"), CODE)
    once = adapt("self.inner.adapt(learner, task.x, task.y)", before="learner.zero_grad()")
    assert_clean(
        once.replace("for task in tasks:", "learner = copy.deepcopy(self.net)\n            for task in tasks:"), CODE
    )


COPIED = """
    import copy

    def train(net, opt, tasks):
        FIRST
        for task in tasks:
            EACH
            for x, y in task:
                learner.zero_grad()
                F.mse_loss(learner(x), y).backward(create_graph=True)MARK
                flat = sum(p.grad.pow(2).sum() for p in learner.parameters())
                END
            print(float(flat))
"""


def test_a_copy_for_each_task() -> None:
    copies = COPIED.replace("EACH", "learner = copy.deepcopy(net)").replace("FIRST", "pass")
    assert_flagged(copies.replace("MARK", "  # !").replace("END", "pass"), CODE)
    assert_clean(copies.replace("MARK", "").replace("END", "learner.zero_grad()"), CODE)


def test_one_copy_for_all() -> None:
    once = COPIED.replace("EACH", "pass").replace("FIRST", "learner = copy.deepcopy(net)").replace("MARK", "")
    assert_clean(once.replace("END", "pass"), CODE)


PART = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem = nn.Linear(3, 4)
                self.probe = nn.Linear(4, 2)

            def forward(self, x):
                return self.probe(self.stem(x))

        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.probe.parameters(), lr=0.1)

            def step(self, x, y):
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward(create_graph=True)  # !
                sum(p.grad.pow(2).sum() for p in self.model.probe.parameters()).backward()
                self.optimizer.step()

        def main(loader):
            trainer = Trainer(Net())
            for x, y in loader:
                trainer.step(x, y)
"""


def test_an_optimizer_that_its_constructor_gives_a_part_of_the_model() -> None:
    assert_flagged(PART, "GG102")


@pytest.mark.parametrize(
    "edit",
    [
        ("model.probe.parameters(), lr", "model.parameters(), lr"),
        ("self.optimizer.zero_grad()", "self.model.zero_grad()"),
        (
            "self.probe = nn.Linear(4, 2)",
            "self.probe = nn.Linear(4, 2)\n                self.stem.requires_grad_(False)",
        ),
        ("trainer.step(x, y)", "trainer.step(x, y)\n                trainer.model.zero_grad()"),
        ("loss.backward(create_graph=True)", "loss.backward()"),
    ],
)
def test_the_gradients_of_the_rest_are_reset_or_have_no_graph(edit: tuple[str, str]) -> None:
    assert_clean(twin(PART, edit), "GG102")


BY_CLOSURE = """
    import copy

    class Curved:
        def __init__(self, params):
            self.params = list(params)

        def change(self, grads):
            with torch.no_grad():
                for p, g in zip(self.params, grads):
                    p.sub_(0.1 * g)

        def step(self, closure):
            loss = closure()
            loss.backward(create_graph=True)
            grads = [p.grad for p in self.params]
            self.change([torch.autograd.grad(g.sum(), p, retain_graph=True)[0] for g, p in zip(grads, self.params)])
            for p in self.params:
                p.grad = p.grad.detach().zero_()
            return loss.item()

    class Last(Curved):
        def step(self, closure):
            loss = closure()
            loss.backward(create_graph=True)  # !
            self.change([p.grad.detach() for p in self.params])
            return loss.item()

    def adapt(meta, x, y):
        learner = copy.deepcopy(meta)
        first = Curved(learner.parameters())
        for _ in range(3):
            first.step(lambda: F.mse_loss(learner(x), y))
        last = Last(first.params)
        last.step(lambda: F.mse_loss(learner(x), y))
        return [p.detach() for p in learner.parameters()]

    def train(meta, tasks):
        for x, y in tasks:
            for p, q in zip(meta.parameters(), adapt(meta, x, y)):
                p.data.lerp_(q, 0.1)
"""
RETURN = "            return loss.item()"
RESET = "            for p in self.params:\n                p.grad = None"
LAST = "        last.step(lambda: F.mse_loss(learner(x), y))"
CLOSURE = f"""        def closure():
            out = learner(x)
            return F.mse_loss(out, y)

{LAST.replace("lambda: F.mse_loss(learner(x), y)", "closure")}"""


@pytest.mark.parametrize(
    "edit",
    [
        (LAST, LAST),
        (LAST, CLOSURE),
        (LAST, LAST.replace("lambda:", "closure=lambda:")),
        (LAST, "        last.step(lambda: criterion(learner.encode(x), y))"),
        (
            "            loss = closure()\n            loss.backward(create_graph=True)  # !",
            "            loss = closure() * 2\n            loss.backward(create_graph=True)  # !",
        ),
        ("last.step", "first.step(lambda: 0 * learner(x).sum())\n        last.step"),
    ],
)
def test_the_last_step_of_a_copy_resets_nothing(edit: tuple[str, str]) -> None:
    assert edit[0] in BY_CLOSURE
    assert_flagged(BY_CLOSURE.replace(*edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        (f"{RETURN}\n\n    def adapt", f"{RESET}\n{RETURN}\n\n    def adapt"),
        (LAST, f"{LAST}\n        learner.zero_grad()"),
        (LAST, f"{LAST}\n        for p in learner.parameters():\n            p.grad = None"),
        (LAST, f"{LAST}\n        first.step(lambda: F.mse_loss(learner(x), y))"),
        (LAST, "        last.step(lambda: F.mse_loss(meta(x), y))"),
        (LAST, CLOSURE.replace("out = learner(x)", "out = meta(x)")),
    ],
)
def test_the_last_step_of_a_copy_is_reset(edit: tuple[str, str]) -> None:
    assert_clean(twin(BY_CLOSURE, edit), CODE)


ADAPTED = """
    class Learner:
        def adapt(self, learner, x, y):
            self.loss_fn(learner(x), y).backward(create_graph=True)  # !
            return {n: p - 0.1 * p.grad for n, p in learner.named_parameters()}

        def task(self, x, y):
            learner = copy.deepcopy(self.meta)
            fast = self.adapt(learner, x, y)
            outer = self.loss_fn(functional_call(learner, fast, (x,)), y)
            return RETURNED

        def train(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                self.task(x, y)
                self.optimizer.step()
"""


def test_a_copy_that_a_method_adapts_and_leaves() -> None:
    assert_flagged(ADAPTED.replace("RETURNED", "torch.autograd.grad(outer, list(learner.parameters()))"), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("return RETURNED", "learner.zero_grad()"),
        ("return RETURNED", "for p in learner.parameters(): p.grad = None"),
        ("backward(create_graph=True)", "backward()"),
    ],
)
def test_a_copy_whose_gradients_may_be_reset(edit: tuple[str, str]) -> None:
    assert_clean(ADAPTED.replace(*edit).replace("return RETURNED", "return outer"), CODE)


HEAD_OF_OBJECT = """
    class Readout:
        def __init__(self, body, lr=0.1):
            self.body, self.lr = body, lr
            self.head = HEAD

        def adapt(self, x, y):
            names, params = zip(*self.head.named_parameters())
            loss = F.mse_loss(self.head(self.body(x)), y)
            loss.backward(create_graph=True)MARK
            fast = {n: p - self.lr * p.grad for n, p in zip(names, params)}
            AFTER
            return fast

        def predict(self, x, fast):
            return torch.func.functional_call(self.head, fast, (self.body(x),))

    def train(body, tasks):
        opt = torch.optim.Adam(body.parameters())
        readout = Readout(body)
        for x, y, xq, yq in tasks:
            opt.zero_grad()
            WHERE
            fast = readout.adapt(x, y)
            F.mse_loss(readout.predict(xq, fast), yq).backward()
            opt.step()
            LAST
"""


def _head(
    where: str = "readout = Readout(body)", after: str = "pass", last: str = "pass", head: str = "nn.Linear(8, 2)"
) -> str:
    code = HEAD_OF_OBJECT.replace("WHERE", where).replace("AFTER", after).replace("LAST", last)
    return code.replace("HEAD", head)


OF_PARAMS = ("create_graph=True)", "create_graph=True, inputs=list(params))")
OF_BODY = ("create_graph=True)", "create_graph=True, inputs=list(self.body.parameters()))")


@pytest.mark.parametrize("head", ["nn.Linear(8, 2)", "nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)).to('cpu')"])
def test_the_head_of_an_object_for_each_task(head: str) -> None:
    assert_flagged(_head(head=head).replace("MARK", "  # !"), CODE)
    assert_flagged(_head(head=head).replace(*OF_PARAMS).replace("MARK", "  # !"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        _head(where="pass"),
        _head(after="self.head.zero_grad()"),
        _head(after="for p in self.head.parameters(): p.grad = None"),
        _head(last="readout.head.zero_grad()"),
        _head(last="for p in readout.head.parameters(): p.grad = None"),
        _head(after="torch.optim.SGD(self.head.parameters(), lr=0.1).zero_grad()"),
        _head(head="body.head"),
        _head(head="nn.Flatten()"),
        _head().replace(*OF_BODY),
        twin(_head(), ("create_graph=True)MARK", "create_graph=False)")),
    ],
)
def test_the_head_of_an_object_that_is_reset(code: str) -> None:
    assert_clean(code.replace("MARK", ""), CODE)


HEAD_OF_CALL = """
    def adapt(body, x, y, xq):
        head = HEAD
        loss = F.cross_entropy(head(body(x)), y)
        loss.backward(create_graph=True)MARK
        fast = {n: p - 0.1 * p.grad for n, p in head.named_parameters()}
        AFTER
        return torch.func.functional_call(head, fast, (body(xq),))

    def train(body, tasks):
        opt = torch.optim.Adam(body.parameters())
        for x, y, xq, yq in tasks:
            opt.zero_grad()
            F.cross_entropy(adapt(body, x, y, xq), yq).backward()
            opt.step()
"""


def test_the_head_of_a_call() -> None:
    code = HEAD_OF_CALL.replace("HEAD", "nn.Linear(8, 2)").replace("AFTER", "pass")
    assert_flagged(code.replace("MARK", "  # !"), CODE)


@pytest.mark.parametrize(
    ("head", "after"),
    [
        ("nn.Linear(8, 2)", "head.zero_grad()"),
        ("nn.Linear(8, 2)", "for p in head.parameters(): p.grad = None"),
        ("nn.Linear(8, 2)", "finish(head)"),
        ("body.head", "pass"),
        ("nn.Flatten()", "pass"),
    ],
)
def test_the_head_of_a_call_that_is_reset(head: str, after: str) -> None:
    assert_clean(HEAD_OF_CALL.replace("HEAD", head).replace("AFTER", after).replace("MARK", ""), CODE)


TASKS = """
    import copy

    def put(module, name, value):
        del module._parameters[name]
        setattr(module, name, value)

    def twin_of(net):
        return copy.deepcopy(net).train()

    class Inner:
        def __init__(self, net, rate):
            self.net, self.rate, self.kept = net, rate, copy.deepcopy(net)

        def fresh(self):
            one = copy.deepcopy(self.net)
            return one

        def fit(self, x, y):
            fast = self.fresh()
            loss = F.mse_loss(fast(x), y)
            loss.backward(create_graph=True)  # !
            slopes = [p.grad for p in fast.parameters()]
            for (name, p), g in zip(list(self.net.named_parameters()), slopes):
                put(fast, name, p - self.rate * g)
            return fast, loss.item()

    def train(net, tasks):
        inner = Inner(net, 0.1)
        optimizer = torch.optim.Adam(net.parameters())
        for x, y, xq, yq in tasks:
            fast, begun = inner.fit(x, y)
            optimizer.zero_grad()
            F.mse_loss(fast(xq), yq).backward()
            optimizer.step()
"""
FRESH = "fast = self.fresh()"


@pytest.mark.parametrize(
    "edit",
    [
        (FRESH, FRESH),
        (FRESH, "fast = twin_of(self.net)"),
        (FRESH, "self.kept.zero_grad()\n            fast = twin_of(self.net)"),
        ("one = copy.deepcopy(self.net)", "one = copy.deepcopy(self.net).to(self.rate.device)"),
        (
            "one = copy.deepcopy(self.net)\n            return one",
            "return copy.deepcopy(self.net).requires_grad_(True)",
        ),
    ],
)
def test_a_copy_that_another_function_makes(edit: tuple[str, str]) -> None:
    assert edit[0] in TASKS
    assert_flagged(TASKS.replace(*edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("return one", "return self.kept"),
        ("return one", "one = self.kept if self.rate else one\n            return one"),
        ("def fresh", "@functools.cache\n        def fresh"),
        ("one = copy.deepcopy(self.net)\n", "one = self.nets.setdefault(1, copy.deepcopy(self.net))\n"),
        ("one = copy.deepcopy(self.net)\n", "one = self.net\n"),
        (FRESH, "fast = self.net"),
        (FRESH, "fast = given.fresh()"),
        ("optimizer.step()", "optimizer.step()\n            fast.zero_grad()"),
        (
            "optimizer.step()",
            "optimizer.step()\n            for p in fast.parameters():\n                p.grad = None",
        ),
        ("            for (name, p), g", "            fast.zero_grad()\n            for (name, p), g"),
        (
            "            for (name, p), g",
            "            for p in fast.parameters():\n                p.grad = None\n            for (name, p), g",
        ),
        ("loss.backward(create_graph=True)", "loss.backward()"),
        (
            "loss.backward(create_graph=True)",
            "slopes = torch.autograd.grad(loss, list(fast.parameters()), create_graph=True)",
        ),
    ],
)
def test_another_function_that_makes_no_copy_or_is_reset(edit: tuple[str, str]) -> None:
    assert_clean(twin(TASKS, edit), CODE)
