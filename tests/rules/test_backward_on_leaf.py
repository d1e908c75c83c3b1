from __future__ import annotations

from textwrap import indent

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG209"

WEIGHTED = """
        class Weighted{base}:
            def __init__(self, weights):
                {begin}
                self.ce = nn.CrossEntropyLoss()

            def {call}(self, logits, value, labels, target):
                parts = [self.ce(logits, labels), F.mse_loss(value, target)]
                return (self.weights * {made}).sum()

        def train(net, loader, optimizer):
            objective = Weighted([1.0, 0.5])
            for x, labels, target in loader:
                optimizer.zero_grad()
                logits, value = net(x)
                loss = objective(logits, value, labels, target)
                loss.backward(){mark}
                optimizer.step()
"""
COPY = "torch.tensor(parts, requires_grad=True)"

MULTIPLIER = """
        class Constrained:
            def __init__(self, start, device):
                {begin}
                self.price_optimizer = torch.optim.Adam([self.price], lr=1e-3)

            def update(self):
                excess = torch.cat(self.costs, dim=0).detach().mean() - 25
                loss = {loss}
                self.price_optimizer.zero_grad()
                loss.backward()
                self.price_optimizer.step()
"""

FLAGGED = {
    "in an object that weighs losses": WEIGHTED.format(
        base="", begin="self.weights = torch.tensor(weights)", call="__call__", made=COPY, mark="  # !"
    ),
    "in a helper": """
        def total(net, x, y):
            parts = [F.mse_loss(net(x), y), net(x).abs().mean()]
            return torch.tensor(parts, requires_grad=True).sum()

        def train(net, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = total(net, x, y)
                loss.backward()  # !
                optimizer.step()
    """,
    "a tensor of a number": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                score = F.cross_entropy(model(x), y).item()
                loss = torch.tensor(score, requires_grad=True)
                loss.backward()  # !
                optimizer.step()
    """,
    "a Variable of the loss itself": """
        from torch.autograd import Variable

        class Learner:
            def update(self, batch):
                loss = self.criterion(self.net(batch.x), batch.y)
                loss = Variable(loss, requires_grad=True)
                self.opt.zero_grad()
                loss.backward()  # !
                self.opt.step()
    """,
    "a mark, whatever it was": """
        for x, y in loader:
            loss = measure(model(x), y)
            loss.requires_grad = True
            optimizer.zero_grad()
            loss.backward()  # !
            optimizer.step()
    """,
    "a mark on a detached one": """
        def fit(net, opt, data):
            for x in data:
                opt.zero_grad()
                error = net(x).detach().square().mean().requires_grad_(True)
                error.backward()  # !
                opt.step()
    """,
    "the mean of a list of numbers": """
        def replay(self, memory):
            losses = []
            for state, target in memory:
                losses.append(F.mse_loss(self.net(state), target).item())
            loss = torch.tensor(losses, requires_grad=True).mean()
            self.optimizer.zero_grad()
            loss.backward()  # !
            self.optimizer.step()
    """,
    "the sum of a leaf that has a name": """
        def replay(self, memory):
            self.optimizer.zero_grad()
            rewards = torch.FloatTensor([r for _, r in memory])
            rewards.requires_grad = True
            total = rewards.sum()
            total.backward()  # !
            weights = torch.ones(len(memory), requires_grad=True)
            objective = weights.sum()
            objective.backward()  # !
            self.optimizer.step()
    """,
    "by numpy and back": """
        def step(model, x, y, optimizer):
            out = model(x).detach().numpy()
            loss = torch.from_numpy(((out - y) ** 2).mean(keepdims=True))
            loss.requires_grad_()
            loss.backward()  # !
            optimizer.step()
    """,
}

CLEAN = {
    "the loss": """
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    """,
    "what may have a graph, and is asked for one": """
        for x, y in loader:
            optimizer.zero_grad()
            loss = measure(model(x), y)
            loss.requires_grad_(True)
            loss.backward()
            optimizer.step()
    """,
    "a mark, and then an operation with the model": """
        for x, y in loader:
            x.requires_grad = True
            optimizer.zero_grad()
            x = model(x).sum()
            x.backward()
            optimizer.step()
    """,
    "a leaf that a sum begins with": """
        def train(model, loader, optimizer):
            loss = torch.tensor(0.0, requires_grad=True)
            for x, y in loader:
                loss = loss + F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "a batch without targets": """
        for x, y in loader:
            if len(y):
                loss = F.cross_entropy(model(x), y)
            else:
                loss = torch.tensor(0.0, requires_grad=True)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "only where it has none": """
        for x, y in loader:
            loss = measure(model(x), y)
            if not loss.requires_grad:
                loss.requires_grad = True
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "a leaf that an optimizer has": """
        height = torch.tensor(3.0, requires_grad=True)
        optimizer = torch.optim.SGD([height], 0.1)
        for _ in range(100):
            optimizer.zero_grad()
            height.backward()
            optimizer.step()
    """,
    "made and given to an optimizer in one function": """
        def descend(start):
            x = torch.tensor(start, requires_grad=True)
            optimizer = torch.optim.SGD([x], 0.1)
            x.sum().backward()
            optimizer.step()
            return x
    """,
    "the input's gradient is what is wanted": """
        def saliency(model, x, optimizer):
            x = x.detach().requires_grad_()
            x.sum().backward()
            optimizer.step()
            return x.grad
    """,
    "a lesson without an optimizer": """
        x = torch.tensor(2.0, requires_grad=True)
        x.backward()
    """,
    "a product of the leaf and an output": """
        def step(model, x, weight, optimizer):
            w = torch.tensor(weight, requires_grad=True)
            loss = (w * model(x)).mean()
            loss.backward()
            optimizer.step()
    """,
    "an object that weighs losses": WEIGHTED.format(
        base="", begin="self.weights = torch.tensor(weights)", call="__call__", made="torch.stack(parts)", mark=""
    ),
    "an object whose weights are learned": WEIGHTED.format(
        base="(nn.Module)",
        begin="super().__init__(); self.weights = nn.Parameter(torch.tensor(weights))",
        call="forward",
        made="torch.tensor(parts)",
        mark="",
    ),
    "a latent that a helper makes, and an optimizer has": """
        def latent(size):
            return torch.zeros(size, requires_grad=True)

        def fit(target):
            z = latent(8)
            optimizer = torch.optim.Adam([z], lr=0.1)
            for _ in range(100):
                optimizer.zero_grad()
                loss = (2 * z).sum()
                loss.backward()
                optimizer.step()
    """,
    "a parameter of the model": """
        def step(self, optimizer):
            self.model.bias.requires_grad = True
            self.model.bias.sum().backward()
            optimizer.step()
    """,
    "a multiplier that the constructor marks": MULTIPLIER.format(
        begin="self.price = torch.tensor(start).float().to(device); self.price.requires_grad = True",
        loss="-self.price * excess",
    ),
    "a multiplier that the constructor asks to want one": MULTIPLIER.format(
        begin="self.price = torch.full((1,), start); self.price.requires_grad_()", loss="-(self.price * excess).sum()"
    ),
    "a multiplier that is made to want one": MULTIPLIER.format(
        begin="self.price = torch.zeros(1, device=device, requires_grad=True)", loss="(self.price * excess).mean()"
    ),
    "a multiplier that its optimizer is told of by a name": """
        class Budget:
            def __init__(self, start):
                log_alpha = torch.tensor(start)
                log_alpha.requires_grad = True
                self.log_alpha = log_alpha
                self.opt = torch.optim.Adam([log_alpha])

            def tune(self, entropies):
                gap = torch.stack(entropies).detach().mean() + 1
                loss = self.log_alpha * gap
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
    """,
    "a sum over what a function makes of the leaf": """
        def step(model, optimizer):
            noise = torch.randn(4, 8, requires_grad=True)
            model(noise).sum().backward()
            optimizer.step()
    """,
    "bound anew after the mark": """
        for x, y in loader:
            loss = x.mean()
            loss.requires_grad = True
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean_in_a_function(name: str) -> None:
    assert_clean("def main(model, loader, optimizer, criterion, measure):\n" + indent(CLEAN[name], "    "), CODE)


def test_the_leaf_is_shown_where_it_is_made() -> None:
    (found,) = findings(FLAGGED["in a helper"], CODE)
    (made,) = found.related
    assert "torch.tensor(parts, requires_grad=True)" in made.message
    assert made.line < found.span.line
