from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG302"

FLAGGED = {
    "loss": """
        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.numpy())  # !
            return losses
    """,
    "loss, cpu does not help": """
        def train_epoch(model, loader, optimizer):
            history = []
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                history.append((step, float(loss.cpu().numpy())))  # !
            return history
    """,
    "probabilities": """
        def train(model, loader, optimizer):
            for x, y in loader:
                logits = model(x)
                loss = F.cross_entropy(logits, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                probs = F.softmax(logits, dim=1).cpu().numpy()  # !
                print(probs.max())
    """,
    "losses of the samples": """
        import numpy as np

        class Trainer:
            def fit(self, loader):
                for x, y in loader:
                    per_sample = F.cross_entropy(self.model(x), y, reduction="none")
                    self.optimizer.zero_grad()
                    per_sample.mean().backward()
                    self.optimizer.step()
                    hard = np.argsort(per_sample.numpy())[-2:]  # !
                    print(hard)
    """,
    "script": """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(3):
            for x, y in train_loader:
                opt.zero_grad()
                out = net(x)
                loss = F.cross_entropy(out, y)
                loss.backward()
                opt.step()
            print(epoch, out[0].numpy())  # !
    """,
    "policy": """
        def run(policy, env, optimizer, steps):
            state = env.reset()
            for t in range(steps):
                mean = policy(state)
                action = mean.squeeze(0).numpy()  # !
                state, reward = env.step(action)
                loss = -(mean * reward).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "embedding": """
        def train(model, loader, optimizer):
            embeddings = []
            for x, y in loader:
                feats = model.encoder(x)
                loss = F.cross_entropy(model.head(feats), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                embeddings.extend(feats.view(len(x), -1).to("cpu").numpy())  # !
            return embeddings
    """,
    "sum of losses": """
        def step(model, x, y, optimizer):
            out = model(x)
            ce = F.cross_entropy(out, y)
            reg = out.pow(2).mean()
            total = ce + 0.1 * reg
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            return {"total": total.numpy()}  # !
    """,
}

CLEAN = {
    "detached": """
        def train(model, loader, optimizer):
            history, outs = [], []
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                history.append(loss.detach().cpu().numpy())
                outs.append(out.cpu().detach().numpy())
                outs.append(out.data.cpu().numpy())
                outs.append(out.data.numpy())
    """,
    "forced": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(out.numpy(force=True).mean(), loss.numpy(force=True))
    """,
    "evaluation under no_grad": """
        import numpy as np

        def evaluate(model, loader):
            model.eval()
            outs = []
            with torch.no_grad():
                for x, y in loader:
                    out = model(x)
                    outs.append(F.softmax(out, 1).cpu().numpy())
            return np.concatenate(outs)
    """,
    "decorated": """
        @torch.no_grad()
        def predict(model, loader):
            return [model(x).numpy() for x, _ in loader]

        @torch.inference_mode()
        def embed(model, x):
            return model.encoder(x).cpu().numpy()
    """,
    "the caller holds no_grad": """
        def predict(model, x):
            out = model(x)
            return out.cpu().numpy()

        def validate(model, loader):
            model.eval()
            with torch.no_grad():
                return [predict(model, x) for x, _ in loader]
    """,
    "the caller switches gradients off": """
        def run_batch(model, x, y):
            out = model(x)
            loss = F.cross_entropy(out, y)
            return out.numpy(), loss.numpy()

        def validate(model, loader):
            torch.set_grad_enabled(False)
            results = [run_batch(model, x, y) for x, y in loader]
            torch.set_grad_enabled(True)
            return results
    """,
    "grad mode by a flag": """
        def run_epoch(model, loader, optimizer, train):
            outs = []
            for x, y in loader:
                with torch.set_grad_enabled(train):
                    out = model(x)
                    loss = F.cross_entropy(out, y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                else:
                    outs.append(out.numpy())
            return outs
    """,
    "read under no_grad": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    print(out.numpy().mean(), loss.numpy())
    """,
    "labels": """
        def train(model, loader, optimizer):
            preds = []
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                preds.append(out.argmax(dim=1).cpu().numpy())
                preds.append(torch.argmax(out, 1).numpy())
                preds.append(out.max(1)[1].numpy())
                preds.append(out.topk(2).indices.numpy())
                _, predicted = torch.max(out, 1)
                preds.append(predicted.numpy())
    """,
    "truth values and integers": """
        def train(model, loader, optimizer):
            hits = []
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                hits.append((torch.sigmoid(out) > 0.5).numpy())
                hits.append(out.argmax(1).eq(y).float().numpy())
                hits.append(out.long().numpy())
                hits.append(torch.isnan(out).cpu().numpy())
    """,
    "the batch": """
        def train(model, loader, optimizer):
            seen = []
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen.append((x.numpy(), y.cpu().numpy(), x.mean(0).numpy()))
            return seen
    """,
    "numbers": """
        import numpy as np

        def train(model, loader, optimizer):
            losses = []
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                print(np.mean(losses), torch.tensor(losses).numpy())
    """,
    "the name is detached first": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                out = out.detach()
                loss.detach_()
                print(out.numpy().mean(), loss.numpy())
    """,
    "gradients": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                print(model.fc.weight.grad.numpy().std())
                for p in model.parameters():
                    print(p.grad.cpu().numpy().shape, p.data.numpy().shape)
                optimizer.step()
    """,
    "the method holds no_grad": """
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x):
                return self.fc(x)

            @torch.no_grad()
            def act(self, x):
                return self.forward(x).argmax(1), self.forward(x)

        def rollout(policy, x, y, optimizer):
            action, scores = policy.act(x)
            loss = F.cross_entropy(policy(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return action.numpy(), scores.numpy()
    """,
    "frozen": """
        def features(model, loader):
            for p in model.parameters():
                p.requires_grad_(False)
            return [model(x).numpy() for x, _ in loader]
    """,
    "another library": """
        import tensorflow as tf

        def train(model, optimizer, batches):
            for x, y in batches:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(x) - y) ** 2)
                grads = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(grads, model.trainable_variables))
                print(loss.numpy())
    """,
    "expected": """
        import pytest

        def test_needs_detach():
            out = nn.Linear(4, 3)(torch.randn(2, 4))
            with pytest.raises(RuntimeError):
                out.numpy()
    """,
    "a method that is named after a network": """
        def play(agent, env):
            state = torch.Tensor(env.reset())
            while True:
                action = agent.select_action_from_target_actor(state)
                state, reward, done = env.step(action.cpu().numpy()[0])
    """,
    "the index of the best": """
        class Q(nn.Module):
            def __init__(self, make):
                super().__init__()
                self.net = make()

            def forward(self, obs):
                values = self.net(obs)
                return torch.argmax(values, dim=1)

        q = Q(lambda: nn.Linear(4, 2))
        for _ in range(100):
            print(q(torch.randn(1, 4)).cpu().numpy()[0])
    """,
    "an entry of a dict with the name of a module": """
        def train(net, loader, optimizer, get):
            for batch in loader:
                batch_dict_decoder = get(batch)
                optimizer.zero_grad()
                net(batch).mean().backward()
                optimizer.step()
                print(batch_dict_decoder["data"].detach().cpu().numpy())
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE, Confidence.LOW)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])
