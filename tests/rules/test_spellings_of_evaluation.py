"""GG301: how else an evaluation is written: where the model is put into evaluation mode, and how it is run."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG301"

SAMPLER = """
    {header}

    def sample(net: nn.Module, count, devices):
        net.eval()
        z = torch.randn(64, 100)
        while count > 0:
            inputs = (z.normal_(), z)
            image, _ = {run}{mark}
            save(image.data.cpu().numpy())
            count -= len(image)
"""
RUNS = {
    "a display": ("", "nn.parallel.data_parallel(net, (z, z), devices)"),
    "a tuple": ("", "nn.parallel.data_parallel(net, inputs, devices)"),
    "one tensor": ("", "torch.nn.parallel.data_parallel(net, z, devices)"),
    "imported": ("from torch.nn.parallel import data_parallel", "data_parallel(net, z)"),
    "keywords": ("", "nn.parallel.data_parallel(module=net, inputs=(z, z), device_ids=devices)"),
    "called": ("", "net(*inputs)"),
}


@pytest.mark.parametrize(("header", "run"), RUNS.values(), ids=RUNS)
def test_how_a_model_is_run(header: str, run: str) -> None:
    assert_flagged(SAMPLER.format(header=header, run=run, mark="  # !"), CODE)
    frozen = SAMPLER.replace("net.eval()", "net.eval().requires_grad_(False)")
    assert_clean(frozen.format(header=header, run=run, mark=""), CODE)


def test_a_parallel_run_that_is_trained() -> None:
    assert_clean("""
        def train(net, loader, optimizer, devices):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(nn.parallel.data_parallel(net, (x,), devices), y)
                loss.backward()
                optimizer.step()
    """)


ROLLOUT = """
    def play(actor: nn.Module, critic: nn.Module, env, steps):
        state = env.reset()
        score = 0
        for step in range(steps):
            {begin}
            mean, std = actor(torch.Tensor(state)){mark}
            state, reward, done = env.step(torch.normal(mean, std).data.numpy())
            score += reward
            {end}
        return score
"""
BEGINS = (
    "actor.eval()",
    "actor.eval(), critic.eval()",
    "actor.eval(); critic.eval()",
    "last = state; actor.eval()",
)


@pytest.mark.parametrize("begin", BEGINS)
def test_each_iteration_begins_with_it(begin: str) -> None:
    assert_flagged(ROLLOUT.format(begin=begin, end="pass", mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("actor.eval()", "actor.train()"),
        ("actor.train(); critic.eval()", "pass"),
        ("actor.eval()", "critic(torch.Tensor(state)).mean().backward()"),
        ("if step > 9: actor.eval()", "pass"),
        ("learn(actor, env); actor.eval()", "pass"),
        ("loss = learn(actor, env); actor.eval()", "pass"),
        ("env.eval(); learn(actor)", "pass"),
        ("eval('step')", "pass"),
        ("frame.eval('step + 1')", "pass"),
        ("actor.eval().requires_grad_(False)", "pass"),
    ],
)
def test_each_iteration_begins_with_something_else(begin: str, end: str) -> None:
    assert_clean(ROLLOUT.format(begin=begin, end=end, mark=""), CODE)


ADVERSARIAL = """
    def train(G, D, loader, val_loader, opt_d, opt_g):
        for epoch in range(100):
            for p in D.parameters():
                {freeze}
            for z in loader:
                opt_g.zero_grad()
                D(G(z)).mean().backward()
                opt_g.step()
            for {names} in D.{parameters}():
                {learn}
            for x in loader:
                opt_d.zero_grad()
                (D(G(x).detach()) - D(x)).mean().backward()
                opt_d.step()
            for x in val_loader:
                with torch.no_grad():
                    real = x
                print(D(real).mean().item()){mark}
"""
UNFREEZING = (
    ("p.requires_grad_(False)", "p", "parameters", "p.requires_grad_(True)"),
    ("p.requires_grad_(False)", "p", "parameters", "p.requires_grad_()"),
    ("p.requires_grad = False", "p", "parameters", "p.requires_grad = True"),
    ("p.requires_grad = False", "name, p", "named_parameters", "p.requires_grad = epoch > 3"),
    ("p.requires_grad_(requires_grad=False)", "_, p", "named_parameters", "p.requires_grad_(requires_grad=True)"),
)


@pytest.mark.parametrize(("freeze", "names", "parameters", "learn"), UNFREEZING)
def test_parameters_that_learn_again(freeze: str, names: str, parameters: str, learn: str) -> None:
    written = ADVERSARIAL.format(freeze=freeze, names=names, parameters=parameters, learn=learn, mark="  # !")
    assert_flagged(written, CODE)
    assert_clean(
        written.replace("  # !", "").replace("print(D(real)", "real = D(real.requires_grad_()); print(real"), CODE
    )


@pytest.mark.parametrize("freeze", ["p.requires_grad_(False)", "p.requires_grad = False"])
def test_parameters_that_are_frozen_one_by_one(freeze: str) -> None:
    evaluation = """
        def evaluate(net: nn.Module, loader):
            net.eval()
            for p in net.parameters():
                {freeze}
            for x in loader:
                print(net(x).argmax(1)){mark}
    """
    assert_clean(evaluation.format(freeze=freeze, mark=""), CODE)
    assert_flagged(evaluation.format(freeze="p.data.clamp_(-1, 1)", mark="  # !"), CODE)


BY_NAME = {
    "slices of an array": """
        def predict(encoder: nn.Module, decoder: nn.Module, data, size):
            found = np.zeros(len(data))
            for i in range(0, len(data), size):
                code = encoder(torch.from_numpy(data[i : i + size]))  # !
                found[i : i + size] = decoder(code).cpu().data.numpy()
            return found
    """,
    "slices, counted": """
        from tqdm import tqdm

        def test(net: nn.Module, x, y, size=64):
            hits = 0
            for start in tqdm(range(0, x.size(0), size)):
                scores = net(x[start : start + size])  # !
                hits += (scores.argmax(1) == y[start : start + size]).sum().item()
            return hits / len(x)
    """,
    "slices, listed": """
        def infer(net: nn.Module, texts, size):
            labels = []
            for start in range(0, len(texts), size):
                batch = torch.tensor(texts[start : start + size])
                labels.extend(net(batch).argmax(1).tolist())  # !
            return labels
    """,
    "slices, logged": """
        def evaluate(net: nn.Module, x, y, size, writer):
            for number, start in enumerate(range(0, len(x), size)):
                loss = F.cross_entropy(net(x[start : start + size]), y[start : start + size])  # !
                writer.add_scalar("loss", loss.item(), number)
    """,
    "an environment": """
        def test(model: nn.Module, shared, env):
            state, score = env.reset(), 0
            while True:
                model.load_state_dict(shared.state_dict())
                mean, variance = model(torch.Tensor(state))  # !
                state, reward, done, _ = env.step(mean.data.numpy())
                score += reward
                if done:
                    print(score)
                    state, score = env.reset(), 0
    """,
    "an environment, some episodes": """
        class Agent:
            def __init__(self, actor: nn.Module):
                self.actor = actor

            def evaluate(self, env, episodes):
                scores = []
                for _ in range(episodes):
                    state, done, score = env.reset(), False, 0
                    while not done:
                        action = self.actor(torch.tensor(state)).argmax().item()  # !
                        state, reward, done, truncated, info = env.step(action)
                        score += reward
                    scores.append(score)
                return scores
    """,
}
NOT_BY_NAME = {
    "outputs of all slices are returned": """
        def inference(net: nn.Module, rays, size):
            found = []
            for i in range(0, len(rays), size):
                found.append(net(rays[i : i + size]))
            return torch.cat(found)
    """,
    "outputs are written into what is returned": """
        def predict(net: nn.Module, rays, size):
            found = torch.zeros(len(rays))
            for i in range(0, len(rays), size):
                found[i : i + size] = net(rays[i : i + size])
            return found
    """,
    "outputs are written into what it is given": """
        def predict(net: nn.Module, rays, found, size):
            for i in range(0, len(rays), size):
                found[i : i + size] = net(rays[i : i + size])
    """,
    "a loss is returned": """
        def validate(net: nn.Module, x, y, size):
            loss = 0
            for i in range(0, len(x), size):
                loss = loss + F.mse_loss(net(x[i : i + size]), y[i : i + size])
            return loss / len(x)
    """,
    "log-probabilities are kept": """
        class Agent:
            def __init__(self, actor: nn.Module):
                self.actor, self.log_probs = actor, []

            def test(self, env, steps):
                state = env.reset()
                for _ in range(steps):
                    choice = torch.distributions.Categorical(logits=self.actor(torch.tensor(state)))
                    action = choice.sample()
                    self.log_probs.append(choice.log_prob(action))
                    state, reward, done, _ = env.step(action.item())
    """,
    "log-probabilities are handed over": """
        def evaluate(actor: nn.Module, env, memory, steps):
            state = env.reset()
            for _ in range(steps):
                choice = torch.distributions.Categorical(logits=actor(torch.tensor(state)))
                action = choice.sample()
                state, reward, done, _ = env.step(action.item())
                memory.push(choice.log_prob(action), reward)
    """,
    "another name": """
        def play(actor: nn.Module, env, steps):
            state = env.reset()
            for _ in range(steps):
                state, reward, done, _ = env.step(actor(torch.tensor(state)).argmax().item())
    """,
    "a layer": """
        class Chunked(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 8)

            def predict(self, x, size):
                for i in range(0, len(x), size):
                    print(self.net(x[i : i + size]).mean().item())
    """,
    "counted, not sliced": """
        def test(net: nn.Module, x):
            for _ in range(100):
                print(net(x).mean().item())
    """,
    "trained in the loop": """
        def test(net: nn.Module, x, y, optimizer, size):
            for i in range(0, len(x), size):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x[i : i + size]), y[i : i + size])
                loss.backward()
                optimizer.step()
    """,
    "under no_grad": """
        def test(net: nn.Module, x, size):
            with torch.no_grad():
                for i in range(0, len(x), size):
                    print(net(x[i : i + size]).argmax(1).tolist())
    """,
    "called under no_grad": """
        def test(net: nn.Module, x, size):
            for i in range(0, len(x), size):
                print(net(x[i : i + size]).argmax(1).tolist())

        def main(net, x):
            with torch.no_grad():
                test(net, x, 64)
    """,
    "an attack": """
        def test_robustness(net: nn.Module, x, y, size):
            for i in range(0, len(x), size):
                image = x[i : i + size].requires_grad_()
                loss = F.cross_entropy(net(image), y[i : i + size])
                (gradient,) = torch.autograd.grad(loss, image)
                print(net(image + 0.1 * gradient.sign()).argmax(1).tolist())
    """,
}


@pytest.mark.parametrize("snippet", BY_NAME.values(), ids=BY_NAME)
def test_an_evaluation_by_its_name(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", NOT_BY_NAME.values(), ids=NOT_BY_NAME)
def test_no_evaluation_whatever_its_name(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_unit_tests_run_a_model_on_slices() -> None:
    snippet = BY_NAME["slices, logged"].replace("  # !", "").replace("def evaluate(", "def test_evaluate(")
    assert not findings(snippet, CODE, path="tests/test_net.py")


METHOD = """
    class Vae(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 2), nn.Linear(2, 8)

        def forward(self, x):
            return self.decoder(self.encoder(x))

        {decorator}
        def features(self, x):
            {body}

    class Scorer:
        def __init__(self, {model}):
            self.model = model

        def fit(self, loader, optimizer):
            for x in loader:
                optimizer.zero_grad()
                F.mse_loss(self.model(x), x).backward()
                optimizer.step()

        def extract(self, model{annotation}, {loader}):
            for x in {loader}:
                found = {call}{mark}
                print(found.data.cpu().numpy())
"""


def method(
    call: str, loader: str = "test_loader", *, body: str = "return self.encoder(x).flatten(1)", decorator: str = "",
    annotation: str = ": Vae", mark: str = "",
) -> str:  # fmt: skip
    given = {"annotation": annotation, "model": f"model{annotation}", "decorator": decorator, "mark": mark}
    return METHOD.format(call=call, loader=loader, body=body, **given)


@pytest.mark.parametrize("call", ["model.features(x)", "self.model.features(x)", "model.features(x=x)"])
@pytest.mark.parametrize("annotation", [": Vae", ""])
@pytest.mark.parametrize("loader", ["test_loader", "val_loader", "validation_batches"])
def test_a_method_of_a_model(call: str, annotation: str, loader: str) -> None:
    assert_flagged(method(call, loader, annotation=annotation, mark="  # !"), CODE)


ADAPTS = """weight = self.encoder.weight
            loss = F.mse_loss(self(x), x)
            (gradient,) = torch.autograd.grad(loss, weight)
            return F.linear(x, weight - 0.1 * gradient)"""


@pytest.mark.parametrize(
    "snippet",
    [
        method("model.features(x)", decorator="@torch.no_grad()"),
        method("model.features(x)", body="with torch.no_grad(): return self.encoder(x)"),
        method("model.features(x)", body="return x.flatten(1)"),
        method("model.features(x)", body=ADAPTS),
        method("model.features(x)", body="loss = self(x).mean(); loss.backward(); return loss"),
        method("model.features(x)", "train_loader"),
        method("model.features(x)", "batches"),
        method("model.features(x)").replace("def extract", "@torch.no_grad()\n        def extract"),
        method("model.features(x)", annotation="", decorator="@torch.no_grad()"),
        method("model.features(x)", annotation="", body=ADAPTS),
        method("model.features(x)", "train_loader", annotation=""),
        method("model.transform(x)", annotation=""),
        method("frame.features(x)", annotation=""),
        method("model.named_parameters(x)", annotation=""),
    ],
)
def test_a_method_that_records_nothing_for_nobody(snippet: str) -> None:
    assert_clean(snippet, CODE)
