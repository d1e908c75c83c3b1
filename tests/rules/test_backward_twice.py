from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG203"

FLAGGED = {
    "through a model of the program": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

            def forward(self, x):
                return self.head(self.body(x).relu())

        def train(loader):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                score = net(x).pow(2)
                score.sum().backward()
                score.mean().backward()  # !
                optimizer.step()
    """,
    "twice in a row": """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            loss.backward()  # !
            optimizer.step()
    """,
    "an update between": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
    """,
    "two losses over one encoding": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                feats = model.encoder(x)
                cls_loss = F.cross_entropy(model.head(feats), y)
                rec_loss = F.mse_loss(model.decoder(feats), x)
                cls_loss.backward()
                rec_loss.backward()  # !
                optimizer.step()
    """,
    "two optimizers over one encoding": """
        class Trainer:
            def update(self, x, y):
                h = self.model.encoder(x)
                loss_a = F.cross_entropy(self.model.head(h), y)
                self.opt_a.zero_grad()
                loss_a.backward()
                self.opt_a.step()

                loss_b = F.mse_loss(self.model.decoder(h), x)
                self.opt_b.zero_grad()
                loss_b.backward()  # !
                self.opt_b.step()
    """,
    "discriminator without detach": """
        def train_gan(G, D, loader, opt_g, opt_d):
            bce = nn.BCEWithLogitsLoss()
            for real in loader:
                ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
                fake = G(torch.randn(len(real), 4))
                d_loss = bce(D(real), ones) + bce(D(fake), zeros)
                opt_d.zero_grad()
                d_loss.backward()
                opt_d.step()
                g_loss = bce(D(fake), ones)
                opt_g.zero_grad()
                g_loss.backward()  # !
                opt_g.step()
    """,
    "loss made before the loop": """
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        loss = F.mse_loss(net(inputs), targets)
        for epoch in range(100):
            opt.zero_grad()
            loss.backward()  # !
            opt.step()
    """,
    "output made before the loop": """
        def fit(model, x, y, epochs=50):
            optimizer = torch.optim.Adam(model.parameters())
            criterion = nn.CrossEntropyLoss()
            out = model(x)
            for _ in range(epochs):
                loss = criterion(out, y)
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
    """,
    "penalty computed once": """
        def train(model, loader, optimizer):
            l2 = sum(p.pow(2).sum() for p in model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y) + 1e-4 * l2
                loss.backward()  # !
                optimizer.step()
    """,
    "attribute": """
        class Agent:
            def learn(self, states, actions, returns):
                logits = self.policy(states)
                self.loss = F.cross_entropy(logits, actions) * returns.mean()
                self.optimizer.zero_grad()
                self.loss.backward()
                self.optimizer.step()
                print(self.loss.item())
                self.loss.backward()  # !
    """,
    "actor and critic share the body": """
        def update(net, optimizer, obs, actions, returns):
            h = net.encoder(obs)
            logp = F.log_softmax(net.head(h), dim=-1)
            value = net.decoder(h).mean(-1)
            policy_loss = (F.nll_loss(logp, actions, reduction="none") * (returns - value.detach())).mean()
            value_loss = F.mse_loss(value, returns)
            optimizer.zero_grad()
            policy_loss.backward()
            (0.5 * value_loss).backward()  # !
            optimizer.step()
    """,
    "while": """
        def fit(model, x, y, optimizer, tol):
            hidden = torch.tanh(model.encoder(x))
            previous = float("inf")
            while previous > tol:
                loss = F.cross_entropy(model.head(hidden), y)
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
                previous = loss.item()
    """,
    "only the last is retained": """
        def step(model, x, y, optimizer):
            out = model(x)
            a = F.cross_entropy(out, y)
            b = out.pow(2).mean()
            optimizer.zero_grad()
            a.backward()
            b.backward(retain_graph=True)  # !
            optimizer.step()
    """,
    "a state on the model, set anew only when it is made": """
        class Walker(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.out = nn.LSTM(2, 8), nn.Linear(8, 2)
                self.state = None

            def forward(self, x):
                y, self.state = self.cell(x, self.state)
                return self.out(y)

        def train(loader):
            model = Walker()
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
    """,
}

CLEAN = {
    "two outputs of a model of the program that share nothing": """
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.actor, self.critic = nn.Linear(4, 4), nn.Linear(4, 1)

            def forward(self, x):
                return self.actor(x), self.critic(x)

        def train(loader):
            net = Pair()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                policy, value = net(x)
                policy.pow(2).sum().backward()
                value.pow(2).mean().backward()
                optimizer.step()
    """,
    "retained": """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward(retain_graph=True)
            loss.backward()
            optimizer.step()
    """,
    "retained by position, retained for the second order": """
        def step(model, x, y, optimizer):
            loss = F.cross_entropy(model(x), y)
            loss.backward(None, True)
            loss.backward()
            other = F.cross_entropy(model(x), y)
            other.backward(create_graph=True)
            other.backward()
            optimizer.zero_grad()
    """,
    "retained, two losses": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                feats = model.encoder(x)
                cls_loss = F.cross_entropy(model.head(feats), y)
                rec_loss = F.mse_loss(model.decoder(feats), x)
                cls_loss.backward(retain_graph=True)
                rec_loss.backward()
                optimizer.step()
    """,
    "retained until the last": """
        def step(model, x, y, optimizer, n=3):
            optimizer.zero_grad()
            feats = model.encoder(x)
            for i in range(n):
                loss = F.cross_entropy(model.head(feats), y) / n
                loss.backward(retain_graph=i < n - 1)
            optimizer.step()
    """,
    "sum": """
        def step(model, x, y, optimizer):
            feats = model.encoder(x)
            cls_loss = F.cross_entropy(model.head(feats), y)
            rec_loss = F.mse_loss(model.decoder(feats), x)
            optimizer.zero_grad()
            (cls_loss + 0.1 * rec_loss).backward()
            optimizer.step()
    """,
    "both at once": """
        def step(model, x, y, optimizer):
            feats = model.encoder(x)
            cls_loss = F.cross_entropy(model.head(feats), y)
            rec_loss = F.mse_loss(model.decoder(feats), x)
            optimizer.zero_grad()
            torch.autograd.backward([cls_loss, rec_loss])
            optimizer.step()
    """,
    "the second head gets detached features": """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            feats = model.encoder(x)
            F.cross_entropy(model.head(feats), y).backward()
            F.mse_loss(model.decoder(feats.detach()), x).backward()
            optimizer.step()
    """,
    "discriminator with detach": """
        def train_gan(G, D, loader, opt_g, opt_d):
            bce = nn.BCEWithLogitsLoss()
            for real in loader:
                ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
                opt_d.zero_grad()
                bce(D(real), ones).backward()
                fake = G(torch.randn(len(real), 4))
                bce(D(fake.detach()), zeros).backward()
                opt_d.step()
                opt_g.zero_grad()
                bce(D(fake), ones).backward()
                opt_g.step()
    """,
    "computed again": """
        def step(model, x, y, optimizer):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "sharpness-aware": """
        def step(model, x, y, optimizer, perturb, restore):
            F.cross_entropy(model(x), y).backward()
            perturb(model)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            restore(model)
            optimizer.step()
    """,
    "one or the other": """
        def step(model, x, y, optimizer, scaler=None):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            if scaler is not None:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
            else:
                loss.backward()
                optimizer.step()
    """,
    "one of them leaves": """
        def train(model, loader, optimizer, warm):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                if step < warm:
                    loss.backward()
                    continue
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "tried": """
        def probe(model, x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            try:
                loss.backward()
            except RuntimeError:
                print("freed, as it should be")
    """,
    "expected": """
        import pytest
        from contextlib import suppress

        def test_graph_is_freed():
            model = nn.Linear(4, 3)
            loss = model(torch.randn(2, 4)).pow(2).sum()
            loss.backward()
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()
            with suppress(RuntimeError):
                loss.backward()
    """,
    "nothing was saved": """
        def demo():
            x = torch.ones(3, requires_grad=True)
            y = torch.ones(3, requires_grad=True)
            loss = x.sum() + y.sum()
            loss.backward()
            loss.backward()
            s = x + y
            s.sum().backward()
            s.mean().backward()
            print(x.grad, y.grad)
    """,
    "only the inputs are shared": """
        def step(model_a, model_b, x, y, opt_a, opt_b):
            x = x.flatten(1).float() / 255
            loss_a = F.cross_entropy(model_a(x), y)
            loss_b = F.cross_entropy(model_b(x), y)
            opt_a.zero_grad()
            opt_b.zero_grad()
            loss_a.backward()
            loss_b.backward()
            opt_a.step()
            opt_b.step()
    """,
    "only the leaf is shared": """
        def descend(steps):
            w = torch.randn(3, requires_grad=True)
            for i in range(steps):
                loss = (w * w).sum()
                loss.backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
                    w.grad = None
            (w * 2).sum().backward()
    """,
    "features without a graph": """
        def train_heads(backbone, head_a, head_b, loader, optimizer):
            for x, y in loader:
                with torch.no_grad():
                    feats = backbone(x)
                optimizer.zero_grad()
                F.cross_entropy(head_a(feats), y).backward()
                F.cross_entropy(head_b(feats), y).backward()
                optimizer.step()
    """,
    "features made once, without a graph": """
        def probe(backbone, head, x, y, optimizer):
            feats = backbone(x).detach()
            for _ in range(100):
                loss = F.cross_entropy(head(feats), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "frozen encoder": """
        def train_heads(model, x, y, optimizer):
            for p in model.encoder.parameters():
                p.requires_grad_(False)
            feats = model.encoder(x)
            for _ in range(10):
                optimizer.zero_grad()
                F.cross_entropy(model.head(feats), y).backward()
                F.mse_loss(model.decoder(feats), x).backward()
                optimizer.step()
    """,
    "made anew at the end of the turn": """
        def fit(model, x, y, optimizer, steps):
            loss = F.cross_entropy(model(x), y)
            for _ in range(steps):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss = F.cross_entropy(model(x), y)
            print(loss.item())
    """,
    "once, in a loop": """
        def fit(model, x, y, optimizer, n):
            loss = F.cross_entropy(model(x), y)
            for i in range(n):
                if i == n - 1:
                    loss.backward()
            other = F.cross_entropy(model(x), y)
            for group in optimizer.param_groups:
                other.backward()
                break
    """,
    "losses of their own": """
        def step(models, x, y, optimizer):
            losses = [F.cross_entropy(m(x), y) for m in models]
            optimizer.zero_grad()
            losses[0].backward()
            losses[1].backward()
            optimizer.step()
    """,
    "closure": """
        def fit(model, x, y):
            optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

            def closure():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss

            for _ in range(3):
                optimizer.step(closure)
    """,
    "a handler of an event detaches the state": """
        class Walker(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.out = nn.LSTM(2, 8), nn.Linear(8, 2)
                self.state = None

            def forward(self, x):
                y, self.state = self.cell(x, self.state)
                return self.out(y)

            def cut(self):
                self.state = tuple(part.detach() for part in self.state)

        class Engine:
            def __init__(self, model, optimizer):
                self.model, self.optimizer, self.events = model, optimizer, {}

            def on(self, name):
                def put(function):
                    self.events.setdefault(name, []).append(function)
                    return function

                return put

            def fire(self, name):
                for function in self.events.get(name, ()):
                    function(self)

            def run(self, loader):
                for x, y in loader:
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.fire("step")

        def main(loader):
            model = Walker()
            engine = Engine(model, torch.optim.Adam(model.parameters()))

            @engine.on("step")
            def detach(engine):
                engine.model.cut()

            engine.run(loader)
    """,
    "a hook that is not seen detaches the state": """
        class Walker(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.out = nn.LSTM(2, 8), nn.Linear(8, 2)
                self.state = None

            def forward(self, x):
                y, self.state = self.cell(x, self.state)
                return self.out(y)

        def cut(model):
            for part in model.state:
                part.detach_()
            model.state = None if len(model.state) > 2 else model.state

        def train(loader, after_step):
            model = Walker()
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                after_step(model)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


POOLED = """
        class Pool:
            def __init__(self, size):
                self.size, self.kept = size, []

            def query(self, images):
                {start}
                given = []
                for image in images.data:
                    if len(self.kept) < self.size:
                        self.kept.append(image)
                        given.append(image)
                    else:
                        given.append(self.kept[0].clone())
                return {end}

        def train(generator: nn.Linear, critic: nn.Linear, loader, g_optimizer, d_optimizer):
            pool = Pool(50)
            for noise in loader:
                fake = generator(noise)
                g_loss = -critic(fake).mean()
                g_optimizer.zero_grad()
                g_loss.backward()
                g_optimizer.step()
                shown = pool.query(fake)
                d_loss = critic(shown).mean()
                d_optimizer.zero_grad()
                d_loss.backward(){mark}
                d_optimizer.step()
"""


@pytest.mark.parametrize("start", ["if self.size == 0: return images", "if not self.size: return images * 1.0", "pass"])
def test_a_pool_that_gives_back_what_it_is_given_only_when_it_keeps_nothing(start: str) -> None:
    assert_clean(POOLED.format(start=start, end="torch.stack(given)", mark=""), CODE)


@pytest.mark.parametrize("end", ["images", "images * 2.0", "images.clone()"])
def test_a_helper_that_always_gives_it_back(end: str) -> None:
    assert_flagged(POOLED.format(start="if self.size == 0: return images", end=end, mark="  # !"), CODE)


PART_OF_THE_WAY = """
        def gradients(x, net: nn.Linear, top: nn.Linear):
            hidden = net(x)
            out = top(hidden).relu().sum()
            partial = torch.autograd.grad(out, {inputs}{more})
            {then}  # !
"""


@pytest.mark.parametrize("inputs", ["hidden", "[hidden]", "(hidden,)", "inputs=hidden"])
@pytest.mark.parametrize("then", ["hidden.backward(partial[0])", "(hidden * partial[0]).sum().backward()"])
def test_what_lies_before_the_inputs_of_grad_is_not_freed(inputs: str, then: str) -> None:
    assert_clean(twin(PART_OF_THE_WAY.format(inputs=inputs, more="", then=then)), CODE)


@pytest.mark.parametrize(
    ("inputs", "then"),
    [
        ("hidden", "out.backward()"),
        ("[hidden]", "(out * 2).backward()"),
        ("net.weight", "out.backward()"),
        ("net.parameters()", "hidden.sum().backward()"),
        ("x", "hidden.sum().backward()"),
    ],
)
def test_what_grad_goes_through_is_freed(inputs: str, then: str) -> None:
    assert_flagged(PART_OF_THE_WAY.format(inputs=inputs, more="", then=then), CODE)
    kept = PART_OF_THE_WAY.format(inputs=inputs, more=", retain_graph=True", then=then)
    assert_clean(twin(kept), CODE)


INVERSE = """
    from library import build

    def sample(config, count):
        flow = build(config)
        flow.train()
        z = flow(torch.randn(3, 8))
        for _ in range(count):
            MODE
                CALL
"""
TAKEN = ["x = {}.clamp(-1, 1)", "print({}.shape)", "x = {}[0]", "x = save({}.cpu())"]
CALLED = ["flow.backward(z)", "flow.module.backward(z)", "z.backward(flow.prior)", "flow.backward(z, None)"]


@pytest.mark.parametrize("mode", ["with torch.no_grad():", "if True:"])
@pytest.mark.parametrize("call", CALLED)
@pytest.mark.parametrize("taken", TAKEN)
def test_a_method_of_its_own_that_gives_something(mode: str, call: str, taken: str) -> None:
    assert_clean(INVERSE.replace("MODE", mode).replace("CALL", taken.format(call)))


@pytest.mark.parametrize("taken", ["x = {}", "x, y = {}", "save({})", "return {}"])
def test_a_method_of_its_own_without_gradients(taken: str) -> None:
    without = INVERSE.replace("MODE", "with torch.no_grad():")
    assert_clean(without.replace("CALL", taken.format("flow.backward(z)")))


@pytest.mark.parametrize("taken", ["{}", "_ = {}", "print({})", "x = {}"])
@pytest.mark.parametrize("given", ["torch.ones_like(z)", "gradient=torch.ones_like(z)", ""])
def test_a_backward_of_torch(taken: str, given: str) -> None:
    call = taken.format(f"z.backward({given})")
    assert_flagged(INVERSE.replace("MODE", "if True:").replace("CALL", f"{call}  # !"), CODE)


SEVERAL = """
        def train(loader, optimizer):
            near, far = nn.Linear(2, 2), nn.Linear(2, 2)
            for x, y in loader:
                optimizer.zero_grad()
                first, second = F.mse_loss(near(x), y), F.l1_loss(far(x), y)
                losses = {"near": first, "far": second}
                for loss in losses.values():
                    loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("losses.values()", "[first, second]"),),
        (("losses.values()", "(first, second)"),),
        (("for loss in losses.values()", "for name, loss in losses.items()"),),
        (("far(x)", "near(x)"),),
        (('{"near": first, "far": second}', "[first, second]"), ("losses.values()", "losses")),
    ],
)
def test_losses_that_have_no_graph_in_common(changes: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(SEVERAL, *changes), CODE)


@pytest.mark.parametrize("given", ["[first, second]", "(first, second)"])
def test_losses_of_one_forward(given: str) -> None:
    shared = SEVERAL.replace("first, second = F.mse_loss(near(x), y), F.l1_loss(far(x), y)", "out = near(x)").replace(
        'losses = {"near": first, "far": second}', "first, second = F.mse_loss(out, y), F.l1_loss(out, y)"
    )
    assert_flagged(shared.replace("losses.values()", given).replace("loss.backward()", "loss.backward()  # !"), CODE)
