from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG240"
BLOCK = """
    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
            self.body = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())
            self.cell = nn.GRUCell(dim, dim)
            self.scale = nn.Parameter(torch.ones(dim))
            self.shift = nn.Parameter(torch.zeros(dim))
            self.register_buffer("frozen_mask", torch.ones(dim))
            self.drop = nn.Dropout(0.1)

        def forward(self, x, mask, noise):
"""

FLAGGED = {
    "a mask on attention": """
        weights = (self.q(x) @ self.k(x).transpose(1, 2)).softmax(dim=-1)
        weights.data.mul_(mask.unsqueeze(1))  # !
        return weights @ self.v(x)
    """,
    "another spelling of it": """
        att = F.softmax(torch.matmul(self.q(x), self.k(x).transpose(-2, -1)) / 8, -1)
        att.data *= mask  # !
        out = att @ self.v(x)
        return out.mean(1)
    """,
    "channels that are set to zero": """
        h = self.body(x)
        h.data[:, 4:] = 0  # !
        return self.v(h)
    """,
    "positions of a view": """
        h = self.body(x)
        h[:, 0].data.masked_fill_(mask, 0.0)  # !
        return self.v(h)
    """,
    "a mask on what detach gives": """
        h = self.q(x) + self.k(x)
        h.detach().mul_(mask)  # !
        return self.v(h)
    """,
    "an output that is put there": """
        h = self.q(x)
        torch.mul(h, mask, out=h.data)  # !
        return self.v(h)
    """,
    "noise on what tanh has kept": """
        h = torch.tanh(self.q(x))
        h.data.add_(noise)  # !
        return self.v(h)
    """,
    "a parameter that is added": """
        h = x * self.scale
        h.data += self.shift  # !
        return h.relu()
    """,
    "a residual that is added": """
        skip = self.q(x)
        h = self.k(skip)
        h.data.add_(skip)  # !
        return self.v(h)
    """,
    "in a loop, in training": """
        outs = []
        for t in range(x.size(1)):
            y = self.body(x[:, t])
            if self.training:
                y.data.mul_(mask[:, t])  # !
            outs.append(y)
        return torch.stack(outs, 1)
    """,
}

SILENT = {
    "the tensor itself": """
        weights = (self.q(x) @ self.k(x).transpose(1, 2)).softmax(dim=-1)
        weights = weights * mask.unsqueeze(1)
        return weights @ self.v(x)
    """,
    "in place, where autograd sees it": """
        h = self.q(x)
        h.mul_(mask)
        h[:, 4:] = 0
        return self.v(h)
    """,
    "scores before a softmax": """
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        scores.data.masked_fill_(mask == 0, -1e9)
        scores.data.masked_fill_(mask == 0, float("-inf"))
        return scores.softmax(-1) @ self.v(x)
    """,
    "noise on the result of a layer": """
        h = self.q(x)
        h.data.add_(noise)
        h.data += noise
        return self.v(h)
    """,
    "an input": """
        x.data.mul_(mask)
        x.data[:, 0] = 0
        return self.v(x)
    """,
    "a copy without a graph": """
        h = self.q(x).detach()
        h.data.mul_(mask)
        return self.v(h)
    """,
    "a copy to look at": """
        h = self.q(x)
        seen = h.clone().detach()
        seen.data.mul_(mask)
        self.seen = h.detach() * 2
        return self.v(h)
    """,
    "parameters and buffers": """
        self.scale.data.mul_(0.9)
        w = self.q.weight
        w.data.mul_(mask)
        b = self.frozen_mask
        b.data.mul_(mask)
        return self.v(x) * self.scale
    """,
    "under no_grad": """
        with torch.no_grad():
            h = self.q(x)
            h.data.mul_(mask)
            return self.v(h)
    """,
    "in evaluation": """
        h = self.q(x)
        if not self.training:
            h.data.mul_(mask)
        return self.v(h)
    """,
    "on the other way of training": """
        h = self.q(x)
        if self.training:
            h = self.drop(h)
        else:
            h.data.mul_(mask)
        return self.v(h)
    """,
    "what is used for nothing that is trained": """
        h = self.q(x)
        y = self.v(h)
        h.data.mul_(mask)
        self.norm = h.detach().norm()
        return y
    """,
    "a state that is reset": """
        h = self.cell(x)
        h.data.zero_()
        h.detach_()
        return self.v(h)
    """,
    "estimators": """
        w = self.q(x)
        w.data = w.data.sign()
        u = self.k(x)
        u.data.round_()
        v = self.v(x)
        v.data.mul_(v.data.sign())
        v.data.clamp_(-1, 1)
        return w + u + v
    """,
    "a copy of what was quantised": """
        z = self.q(x)
        z.data.copy_(z.round())
        return self.v(z)
    """,
    "what raises": """
        weights = self.q(x).softmax(-1)
        weights.detach().mul_(mask)
        return self.v(weights)
    """,
    "what is made here without a graph": """
        h = torch.zeros(4, 8)
        h.data.mul_(mask)
        h.data[:, 1] = 1
        return self.v(h)
    """,
    "what is bound anew": """
        h = self.q(x)
        h.data.mul_(mask)
        h = self.k(x)
        return self.v(h)
    """,
}

TRAINING = """
    def train(net, loader, optimizer, criterion):
        for x, y, mask in loader:
            out = net(x)
            out.data.mul_(mask)  # !
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
AFTER = """
    def train(net, loader, optimizer, criterion):
        for x, y, mask in loader:
            out = net(x)
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.data.mul_(mask)
            print(criterion(out, y).item())

    def attack(net, x, y, criterion):
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(10):
            loss = criterion(net(x + delta), y)
            loss.backward()
            delta.data += 0.1 * delta.grad.data.sign()
            delta.data.mul_(0.5)
            delta.grad.data.zero_()
        return delta

    def penalize(net, optimizer, loss):
        loss.backward()
        for p in net.parameters():
            p.data.mul_(0.99)
            p.grad.data.mul_(0.5)
        optimizer.step()

    @torch.no_grad()
    def score(net, x, mask):
        out = net(x)
        out.data.mul_(mask)
        return out.mean()
"""


def _in_forward(snippet: str) -> str:
    return BLOCK + "".join(f"        {line}\n" for line in snippet.splitlines())


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_the_backward_is_that_of_another_function(snippet: str) -> None:
    assert_flagged(_in_forward(snippet), CODE)


@pytest.mark.parametrize("snippet", SILENT.values(), ids=SILENT)
def test_what_is_meant_or_has_the_right_gradient_is_not_flagged(snippet: str) -> None:
    assert_clean(_in_forward(snippet), CODE)


def test_it_is_told_of_outputs_before_the_loss() -> None:
    assert_flagged(TRAINING, CODE)


def test_what_comes_after_the_backward_and_leaves_are_not_flagged() -> None:
    assert_clean(AFTER, CODE)
