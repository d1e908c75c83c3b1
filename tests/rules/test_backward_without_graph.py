from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG204"

FLAGGED = {
    "detached on the spot": """
        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.detach().backward()  # !
                optimizer.step()
    """,
    "loss under no_grad": """
        def step(model, x, y, optimizer):
            with torch.no_grad():
                out = model(x)
                loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()  # !
            optimizer.step()
    """,
    "all under no_grad": """
        @torch.no_grad()
        def train_step(model, batch, optimizer):
            x, y = batch
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()  # !
            optimizer.step()
            return loss.item()
    """,
    "data": """
        class Trainer:
            def fit(self, loader):
                total = 0.0
                for x, y in loader:
                    loss = F.cross_entropy(self.model(x), y)
                    loss = loss.data
                    total += loss
                    self.optimizer.zero_grad()
                    loss.backward()  # !
                    self.optimizer.step()
                return total
    """,
    "a tensor of a number": """
        def train(model, loader, optimizer):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                torch.tensor(loss.item()).backward()  # !
                optimizer.step()
    """,
    "mean of numbers": """
        def train_episode(model, batches, optimizer):
            losses = []
            for x, y in batches:
                losses.append(F.cross_entropy(model(x), y).item())
            loss = torch.tensor(losses).mean()
            optimizer.zero_grad()
            loss.backward()  # !
            optimizer.step()
    """,
    "output detached": """
        criterion = nn.MSELoss()
        for x, y in train_loader:
            out = net(x).detach()
            loss = criterion(out[:, 0], y.float())
            opt.zero_grad()
            loss.backward()  # !
            opt.step()
    """,
    "output detached on the way": """
        def train(model, loader, optimizer):
            for x, y in loader:
                logits = model(x)
                probs = F.softmax(logits.detach(), dim=1)
                loss = F.nll_loss(torch.log(probs + 1e-8), y)
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
    """,
    "argmax": """
        def train(model, loader, optimizer):
            model.train()
            for x, y in loader:
                pred = model(x).argmax(dim=1).float()
                loss = F.mse_loss(pred, y.float())
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
    """,
    "accuracy as the loss": """
        def step(net, x, y, opt):
            opt.zero_grad()
            correct = (net(x).argmax(1) == y).float()
            loss = 1.0 - correct.mean()
            loss.backward()  # !
            opt.step()
    """,
    "by way of numpy": """
        def step(model, loader, optimizer):
            for x, y in loader:
                out = model(x).detach().cpu().numpy()
                out = torch.from_numpy(out.clip(-1, 1))
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()  # !
                optimizer.step()
    """,
    "gradients switched off": """
        def finetune(model, x, y, optimizer):
            torch.set_grad_enabled(False)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()  # !
            optimizer.step()
    """,
}

CLEAN = {
    "detached for the log": """
        def train(model, loader, optimizer):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                total += loss.detach()
                loss.backward()
                optimizer.step()
                loss = loss.item()
            return total
    """,
    "asked for afterwards": """
        def step(model, x, y, optimizer):
            loss = torch.tensor(F.cross_entropy(model(x), y).item())
            loss.requires_grad_(True)
            loss.backward()
            other = F.cross_entropy(model(x), y).detach()
            other.requires_grad = True
            other.backward()
            F.cross_entropy(model(x), y).detach().requires_grad_().backward()
            optimizer.step()
    """,
    "made with requires_grad": """
        from torch.autograd import Variable

        def step(model, x, y, optimizer):
            value = F.cross_entropy(model(x), y).item()
            loss = Variable(torch.tensor(value), requires_grad=True)
            loss.backward()
            torch.tensor(value, requires_grad=True).backward()
            optimizer.step()
    """,
    "one term of two": """
        def train(model, loader, optimizer):
            for x, y in loader:
                out = model(x)
                ce = F.cross_entropy(out, y)
                aux = out.pow(2).mean()
                loss = ce + 0.1 * aux.detach()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "targets": """
        def train(student, teacher, loader, optimizer):
            for x, y in loader:
                with torch.no_grad():
                    target = teacher(x)
                out = student(x)
                loss = F.mse_loss(out, target.detach()) + F.cross_entropy(out, y.detach())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "the target has the graph": """
        def step(student, teacher, x, optimizer):
            loss = F.mse_loss(teacher(x).detach(), student(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "advantage": """
        def update(model, optimizer, states, actions, returns):
            logp = F.log_softmax(model(states), dim=-1)
            value = logp.exp().sum(-1)
            advantage = (returns - value).detach()
            loss = (F.nll_loss(logp, actions, reduction="none") * advantage).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "straight through": """
        def step(model, x, y, optimizer):
            z = model(x)
            q = z + (z.round() - z).detach()
            loss = F.cross_entropy(q, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "criterion with parameters": """
        class CenterLoss(nn.Module):
            def __init__(self, classes, dim):
                super().__init__()
                self.centers = nn.Parameter(torch.randn(classes, dim))

            def forward(self, feats, y):
                return (feats - self.centers[y]).pow(2).sum(1).mean()

        def train(model, loader):
            criterion = CenterLoss(3, 3)
            optimizer = torch.optim.SGD(criterion.parameters(), lr=0.5)
            for x, y in loader:
                loss = criterion(model(x).detach(), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "torch's own loss with parameters": """
        def train(model, loader):
            criterion = nn.AdaptiveLogSoftmaxWithLoss(4, 3, cutoffs=[2])
            optimizer = torch.optim.SGD(criterion.parameters(), lr=0.5)
            for x, y in loader:
                loss = criterion(model.encoder(x).detach(), y).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "criterion from elsewhere": """
        def train(model, criterion, loader, optimizer):
            for x, y in loader:
                loss = criterion(model(x).detach(), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "linear probe": """
        def probe(backbone, head, loader, optimizer):
            backbone.eval()
            for x, y in loader:
                with torch.no_grad():
                    feats = backbone(x)
                loss = F.cross_entropy(head(feats.detach()), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "times a parameter": """
        class Blend(nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net
                self.alpha = nn.Parameter(torch.ones(3))

            def loss(self, x, y):
                out = self.net(x).detach() * self.alpha
                return F.cross_entropy(out, y)

            def step(self, x, y, optimizer):
                optimizer.zero_grad()
                self.loss(x, y).backward()
                F.cross_entropy(F.linear(self.net(x).detach(), torch.diag(self.alpha)), y).backward()
                optimizer.step()
    """,
    "grad mode by a flag": """
        def run(model, loader, optimizer, train=True):
            for x, y in loader:
                with torch.set_grad_enabled(train):
                    loss = F.cross_entropy(model(x), y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """,
    "switched on again": """
        @torch.no_grad()
        def attack(model, x, y, optimizer):
            with torch.enable_grad():
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()

        def finetune(model, x, y, optimizer):
            torch.set_grad_enabled(False)
            mean = model(x).mean()
            torch.set_grad_enabled(True)
            loss = F.cross_entropy(model(x) - mean, y)
            loss.backward()
            optimizer.step()
    """,
    "validation first": """
        def train(model, loader, optimizer):
            for x, y in loader:
                with torch.no_grad():
                    loss = F.cross_entropy(model(x), y)
                    print("before", loss.item())
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "gradient of the input": """
        def saliency(model, x, y):
            x = x.detach().clone()
            x.requires_grad_()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            adv = x.data + 0.1 * x.grad.sign()
            adv.requires_grad = True
            F.mse_loss(adv, x.detach()).backward()
            return adv.grad
    """,
    "state detached": """
        def train(cell, loader, optimizer):
            h = torch.zeros(5, 4)
            for x, y in loader:
                h = cell(x, h.detach())
                loss = F.mse_loss(h, x)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                h = h.data
    """,
    "only sometimes": """
        def step(model, x, y, optimizer, freeze=False):
            feats = model.encoder(x)
            if freeze:
                feats = feats.detach()
            loss = F.mse_loss(feats, x)
            if not freeze:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "expected": """
        import pytest

        def test_detached_loss():
            loss = nn.Linear(4, 3)(torch.randn(2, 4)).sum().detach()
            with pytest.raises(RuntimeError):
                loss.backward()
    """,
    "either phase sets the mode": """
        def run(model, loader, optimizer, phase):
            torch.set_grad_enabled(True) if phase == "train" else torch.set_grad_enabled(False)
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                if phase == "train":
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE, Confidence.LOW)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE, Confidence.LOW)
