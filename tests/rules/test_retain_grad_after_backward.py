from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG205"

FLAGGED = {
    "after the only backward": """
        def inspect(model, x, y):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            loss.backward()
            h.retain_grad()  # !
            return h.grad
    """,
    "script": """
        x = torch.randn(4, requires_grad=True)
        y = x * 2
        z = y.pow(2).sum()
        z.backward()
        y.retain_grad()  # !
        print(y.grad)
    """,
    "logits of each step": """
        def train(model, loader, optimizer):
            norms = []
            for x, y in loader:
                optimizer.zero_grad()
                logits = model(x)
                loss = F.cross_entropy(logits, y)
                loss.backward()
                optimizer.step()
                logits.retain_grad()  # !
                norms.append(logits.grad)
    """,
    "two tensors": """
        def gradients(model, x, y):
            feats = model.encoder(x)
            out = model.head(feats)
            F.cross_entropy(out, y).backward()
            feats.retain_grad()  # !
            out.retain_grad()  # !
            return feats.grad, out.grad
    """,
    "attribute": """
        class CAM:
            def run(self, x, y):
                self.acts = self.model.encoder(x)
                score = self.model.head(self.acts)[:, 0].sum()
                self.model.zero_grad()
                score.backward()
                self.acts.retain_grad()  # !
                return self.acts.grad
    """,
    "loss itself, after the step": """
        def step(net, x, y, opt):
            opt.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            loss.retain_grad()  # !
            print(loss.item(), loss.grad)
    """,
    "before one backward would have been right": """
        def saliency(model, images, labels):
            images = images * 2 - 1
            images.requires_grad_()
            embedded = model.encoder(images)
            scores = model.head(embedded).gather(1, labels[:, None])
            scores.sum().backward()
            embedded.retain_grad()  # !
            return images.grad, embedded.grad
    """,
}

CLEAN = {
    "right away": """
        def inspect(model, x, y):
            h = model.encoder(x)
            h.retain_grad()
            loss = F.cross_entropy(model.head(h), y)
            loss.backward()
            return h.grad
    """,
    "after later computation": """
        def inspect(model, x, y):
            h = model.encoder(x)
            out = model.head(torch.relu(h))
            loss = F.cross_entropy(out, y)
            h.retain_grad()
            loss.backward()
            return h.grad
    """,
    "between two backwards": """
        def compare(model, x, y):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            loss.backward(retain_graph=True)
            h.retain_grad()
            loss.backward()
            return h.grad
    """,
    "another loss follows": """
        def compare(model, x, y):
            h = model.encoder(x)
            ce = F.cross_entropy(model.head(h), y)
            rec = F.mse_loss(model.decoder(h), x)
            ce.backward(retain_graph=True)
            h.retain_grad()
            rec.backward()
            return h.grad
    """,
    "gradient asked for explicitly": """
        def second(model, x, y):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            loss.backward(create_graph=True)
            h.retain_grad()
            return torch.autograd.grad(loss, model.encoder.weight), h.grad
    """,
    "the caller goes on": """
        def first(model, x, y):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            loss.backward(retain_graph=True)
            h.retain_grad()
            return h, loss

        def second(model, x, y):
            h, loss = first(model, x, y)
            loss.backward()
            return h.grad
    """,
    "leaf": """
        def attack(model, x, y):
            delta = torch.zeros_like(x, requires_grad=True)
            w = nn.Parameter(torch.ones(4))
            F.cross_entropy(model((x + delta) * w), y).backward()
            delta.retain_grad()
            w.retain_grad()
            model.fc.weight.retain_grad()
            return delta.grad, w.grad
    """,
    "a new one for the next backward": """
        def twice(model, x, y):
            h = model.encoder(x)
            F.cross_entropy(model.head(h), y).backward()
            h = model.encoder(x + 1)
            h.retain_grad()
            F.cross_entropy(model.head(h), y).backward()
            return h.grad
    """,
    "in a loop": """
        def train(model, loader, optimizer):
            for x, y in loader:
                h = model.encoder(x)
                h.retain_grad()
                loss = F.cross_entropy(model.head(h), y)
                optimizer.zero_grad()
                loss.backward()
                print(h.grad.norm())
                optimizer.step()
    """,
    "made at the end of the turn": """
        def train(model, loader, optimizer, x0):
            h = model.encoder(x0)
            for x, y in loader:
                loss = F.cross_entropy(model.head(h), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                h = model.encoder(x)
                h.retain_grad()
    """,
    "backward of another graph": """
        def step(model, other, x, y):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            penalty = sum(p.pow(2).sum() for p in other.parameters())
            penalty.backward()
            h.retain_grad()
            loss.backward()
            return h.grad
    """,
    "only sometimes before": """
        def step(model, x, y, early=False):
            h = model.encoder(x)
            loss = F.cross_entropy(model.head(h), y)
            if early:
                loss.backward()
            else:
                h.retain_grad()
                loss.backward()
            return h.grad
    """,
    "in forward": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

            def forward(self, x):
                self.h = self.a(x)
                if self.h.requires_grad:
                    self.h.retain_grad()
                return self.b(self.h)

        def run(x, y):
            net = Net()
            F.cross_entropy(net(x), y).backward()
            print(net.h.grad)
            F.cross_entropy(net(x), y).backward()
            return net.h.grad
    """,
    "in a hook": """
        def run(model, x, y):
            kept = []

            def keep(module, args, output):
                output.retain_grad()
                kept.append(output)

            handle = model.encoder.register_forward_hook(keep)
            F.cross_entropy(model.head(model.encoder(x)), y).backward()
            handle.remove()
            return kept[0].grad
    """,
    "a list of them, before": """
        def run(layers, x, y):
            hs = []
            for layer in layers:
                x = layer(x)
                hs.append(x)
            for h in hs:
                h.retain_grad()
            F.cross_entropy(x, y).backward()
            return [h.grad for h in hs]
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)
