from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG308"


def agent(*lines: str) -> str:
    body = "\n                ".join(lines)
    return f"""
        class Agent:
            def __init__(self, width):
                self.net, self.target_net = Net(width), Net(width)
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def predict(self, x, y):
                {body}

        class Net(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(width, width)

            def forward(self, x):
                return self.layer(x)
    """


FLAGGED = {
    "detached at once": agent("return self.net(x).detach()  # !"),
    "its data": agent("return self.net(x).data  # !"),
    "an array": agent("return self.net(x).cpu().data.numpy().flatten()  # !"),
    "a number": agent("return self.net(x).mean().item()  # !"),
    "the best of them": agent("return self.net(x).argmax(1)  # !"),
    "the best of them by a function": agent("return torch.argmax(self.net(x), 1)  # !"),
    "under a name": agent("out = self.net(x)  # !", "return out.detach()"),
    "under a name, in parts": agent("out = self.net(x)  # !", "return out.argmax(1), out.max().item()"),
    "under several names": agent("out = self.net(x)  # !", "p = out.softmax(1)", "q = p[:, 0]", "return q.tolist()"),
    "taken apart": agent("mean, spread = self.net(x)  # !", "return mean.detach().cpu().numpy(), spread.data"),
    "where only one part is used": agent("mean, _ = self.net(x)  # !", "return mean.detach().cpu().numpy()"),
    "compared": agent("out = self.net(x).argmax(1)  # !", "return (out == y).float().mean()"),
    "its indices": agent("_, best = torch.max(self.net(x), 1)", "out = self.net(x)  # !", "return out.argmax(1)"),
    "printed besides": agent("out = self.net(x)  # !", "print(out.shape, out)", "return out.detach()"),
    "by its forward": agent("return self.net.forward(x).detach()  # !"),
    "in a loop": agent("for i in range(8):", "    y[i] = self.net(x[i]).detach()  # !", "return y"),
    "samples that are saved": """
        def train(G, D, loader, g_optimizer, fixed_z):
            for i, x in enumerate(loader):
                loss = -D(G(torch.randn(8, 2))).mean()
                g_optimizer.zero_grad()
                loss.backward()
                g_optimizer.step()
                if i % 100 == 0:
                    samples = G(fixed_z).data.numpy()[:16]  # !
                    plt.imsave("samples.png", samples)
    """,
    "a look at the test data while training": """
        def train(cnn, loader, optimizer, test_x, test_y):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(cnn(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 50 == 0:
                    test_output = cnn(test_x)  # !
                    pred = torch.max(test_output, 1)[1].data.numpy()
                    print((pred == test_y).mean())
    """,
    "a script that draws from what was trained": """
        G = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        G.load_state_dict(torch.load("weights.pt"))
        fake = G(torch.randn(8, 4))  # !
        save_image(fake.data.mul(0.5), "fake.png")
    """,
    "a prediction": """
        def predict(sentence, model, tokenizer):
            model.eval()
            ids = torch.tensor([tokenizer.encode(sentence)])
            log_probs = model(ids).data.cpu().numpy().flatten().tolist()  # !
            print("Predictions:", log_probs)
    """,
}

CLEAN = {
    "beside a training": """
        def train(net, target_net, memory, loader, optimizer):
            for x, y in loader:
                loss = F.mse_loss(net(x), target_net(y).detach())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                memory.put(net(x).detach(), y)
    """,
    "a way back that is no gradient": agent("z = self.net(x)", "return self.net.backward(z).sum().item()"),
    "under no_grad": agent("with torch.no_grad():", "    return self.net(x).detach()"),
    "decorated": """
        @torch.no_grad()
        def act(net, x):
            net.eval()
            return net(x).argmax(1)
    """,
    "returned": agent("return self.net(x)"),
    "returned besides": agent("out = self.net(x)", "return out, out.detach()"),
    "returned under another name": agent(
        "out = self.net(x)", "scaled = 2 * out", "print(out.detach())", "return scaled"
    ),
    "yielded": agent("out = self.net(x)", "print(out.detach())", "yield out"),
    "kept": agent("self.out = self.net(x)", "return self.out.detach()"),
    "kept in a list": agent("outs = []", "out = self.net(x)", "outs.append(out)", "print(out.item())", "return outs"),
    "kept by its object": agent("out = self.net(x)", "self.outs.append(out)", "return out.argmax(1)"),
    "only one part of it cut": agent("mean, spread = self.net(x)", "return mean, spread.detach()"),
    "cut on one way": agent("out = self.net(x)", "if y.any(): out = out.detach()", "return out"),
    "given to somebody": agent("out = self.net(x)", "self.show(out)", "return out.detach()"),
    "backpropagated": agent(
        "out = self.net(x)",
        "print(out.argmax(1))",
        "loss = F.mse_loss(out, y)",
        "self.optimizer.zero_grad()",
        "loss.backward()",
        "self.optimizer.step()",
        "return loss.item()",
    ),
    "backpropagated, and its loss told": agent(
        "loss = F.mse_loss(self.net(x), y)",
        "self.optimizer.zero_grad()",
        "loss.backward()",
        "self.optimizer.step()",
        "return loss.item()",
    ),
    "backpropagated through another model": """
        def sample_and_train(G, D, d_optimizer, z, y):
            fake = G(z)
            result = D(fake)
            loss = F.binary_cross_entropy(result, torch.ones(result.size()))
            d_optimizer.zero_grad()
            loss.backward()
            d_optimizer.step()
            return fake.detach()
    """,
    "trained in a helper": """
        class Trainer:
            def __init__(self, G, D):
                self.G, self.D = G, D
                self.optimizer = torch.optim.Adam(self.G.parameters())

            def sample_and_step(self, z):
                fake = self.G(z)
                self.train_on(fake)
                return fake.detach()

            def train_on(self, fake):
                self.optimizer.zero_grad()
                (-self.D(fake).mean()).backward()
                self.optimizer.step()
    """,
    "by autograd": agent(
        "x.requires_grad_()", "out = self.net(x)", "g = torch.autograd.grad(out.sum(), x)[0]", "return out.detach(), g"
    ),
    "given on, with its graph, under the same name": agent(
        "out = self.net(x)", "print(out.item())", "out = self.net(y)", "return out"
    ),
    "read in a nested function": agent(
        "out = self.net(x)",
        "def closure():",
        "    return F.mse_loss(out, y)",
        "self.optimizer.step(closure)",
        "return out.detach()",
    ),
    "read in a lambda": agent("out = self.net(x)", "later = lambda: out.sum()", "print(out.item())", "return later"),
    "what watches it": agent("out = self.net(x)", "out.register_hook(print)", "return out.detach()"),
    "only its shape": agent("return self.net(x).shape"),
    "only its size": agent("return self.net(x).view(1, -1).size(1)"),
    "only whether it is there": agent("out = self.net(x)", "return out is None"),
    "only something of its shape": agent("out = self.net(x)", "return torch.rand_like(out)"),
    "an array of it, which a graph would not allow": agent("return self.net(x).cpu().numpy().argmax()"),
    "an array of it under a name": agent("out = self.net(x)", "print(out.mean().item())", "return out.numpy()"),
    "only printed": agent("print(self.net(x))"),
    "run for what it does": agent("self.net(x)", "return y"),
    "given a graph": agent("h = self.net(x)", "print(self.target_net(h).mean().item())", "return h"),
    "a loss": agent("return self.net.loss(self.net(x), y), self.loss_fn(x, y).item()"),
    "a metric": agent("self.ssim_net = SSIM()", "return self.ssim_net(x, y).item()"),
    "frozen": """
        class Agent:
            def __init__(self, width):
                self.net = Net(width)
                for p in self.net.parameters():
                    p.requires_grad = False

            def predict(self, x):
                return self.net(x).detach()

        class Net(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(width, width)

            def forward(self, x):
                return self.layer(x)
    """,
    "frozen by a helper": agent("freeze(self.net)", "return self.net(x).detach()"),
    "gradients are off for good": "torch.set_grad_enabled(False)\n"
    + agent("return self.net(x).detach()").replace("\n        ", "\n"),
    "a table that is not trained": """
        class Fixed(nn.Module):
            def __init__(self, w):
                super().__init__()
                self.emb = nn.Embedding(8, 8)
                self.emb.weight = nn.Parameter(w, requires_grad=False)

            def forward(self, x):
                return self.emb(x).detach()
    """,
    "a model from elsewhere, which may know better": """
        model = torch.hub.load("some/detector", "small")

        def detect(image):
            model.eval()
            return model(image).detach()
    """,
    "a forward that takes gradients": """
        class Energy(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 1)

            def forward(self, x):
                e = self.layer(x).sum()
                return e, torch.autograd.grad(e, x, create_graph=True)[0]

        def forces(model, x):
            model.eval()
            _, f = model(x)
            return f.detach()
    """,
    "a caller is under no_grad": """
        class Agent:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def act(self, x):
                return self.net(x).argmax(1)

            def play(self, x):
                with torch.no_grad():
                    return self.act(x)
    """,
    "one of two callers is under no_grad": """
        class Agent:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def act(self, x):
                return self.net(x).argmax(1)

        def play(agent, x):
            return agent.act(x)

        def evaluate(agent, x):
            with torch.no_grad():
                return agent.act(x)
    """,
    "volatile": agent("return self.net(Variable(x, volatile=True)).data"),
    "an evaluation, which is told as a whole": """
        def evaluate(net, loader):
            net.eval()
            for x, y in loader:
                print((net(x).argmax(1) == y).sum().item())
    """,
    "a script that tries its model": """
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        out = net(torch.zeros(1, 4))
        print(out.detach())
    """,
    "a script that tries its model with what it loads": """
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        net.load_state_dict(torch.load("weights.pt"))
        print(net(torch.zeros(1, 4)).shape)
    """,
    "a unit test": """
        class TestNet(unittest.TestCase):
            def test_it(self):
                net = nn.Linear(4, 4)
                self.assertEqual(net(torch.zeros(1, 4)).detach().sum().item(), 0)
    """,
    "no model": agent("return np.sort(x).argmax(), y.detach()"),
    "a framework calls it without gradients": """
        import pytorch_lightning as pl

        class Task(pl.LightningModule):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def validation_step(self, batch, index):
                return self.net(batch).argmax(1)
    """,
}


IN_A_TRAINING = {
    "the target of a loss": agent(
        "target = y + 0.9 * self.target_net(x).detach()  # !",
        "loss = F.mse_loss(self.net(x), target)",
        "self.optimizer.zero_grad()",
        "loss.backward()",
        "self.optimizer.step()",
    ),
    "the target under a name, detached last": agent(
        "q = self.target_net(x)  # !",
        "target = y + 0.9 * q",
        "loss = F.mse_loss(self.net(x), target.detach())",
        "self.optimizer.zero_grad()",
        "loss.backward()",
        "self.optimizer.step()",
    ),
}


@pytest.mark.parametrize("name", IN_A_TRAINING)
def test_what_a_training_runs_for_nothing_is_told_once(name: str) -> None:
    assert_flagged(IN_A_TRAINING[name], "GG305")
    assert_clean(twin(IN_A_TRAINING[name]), CODE)


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE, Confidence.LOW)


@pytest.mark.parametrize(
    "changed", ["return out, out.detach()", "self.out = out", "self.show(out)", "return [out, out.detach()]"]
)
def test_a_use_with_the_graph_is_enough(changed: str) -> None:
    assert_clean(twin(FLAGGED["under a name"], ("return out.detach()", changed)), CODE)


def test_waits_where_a_package_may_call_it() -> None:
    snippet = """
        from somewhere import BaseAgent

        class Agent(BaseAgent):
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def choose(self, x):
                return self.net(x).argmax(1)
    """
    (found,) = findings(snippet, CODE, Confidence.LOW)
    assert found.confidence is Confidence.LOW


def test_says_which_model() -> None:
    (found,) = findings(FLAGGED["detached at once"], CODE)
    assert "`self.net` records a graph" in found.message


EVALUATED_ONCE = """
    class Agent:
        def __init__(self, net: nn.Module):
            self.net = net

        def choose(self, state):
            self.net.eval()
            values = self.net(torch.from_numpy(state).float())  # !
            return values.argmax(1).item()

    def play(agent: Agent, env, steps):
        state = env.reset()
        for _ in range(steps):
            state, reward, done, _ = env.step(agent.choose(state))
"""


def test_an_evaluation_that_a_loop_calls_is_told_once() -> None:
    assert_flagged(EVALUATED_ONCE, "GG301")
    assert_clean(twin(EVALUATED_ONCE), CODE)
    assert_clean(twin(EVALUATED_ONCE, ("for _ in range(steps):", "with env:")), "GG301")
    assert_flagged(EVALUATED_ONCE.replace("for _ in range(steps):", "with env:"), CODE)
    assert_flagged(EVALUATED_ONCE.replace("            self.net.eval()\n", ""), CODE)
