from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG232"

MODEL = """
    class Tagger(nn.Module):
        def __init__(self, size, hidden, tags):
            super().__init__()
            self.cell = nn.GRUCell(size, hidden)
            self.head = nn.Linear(hidden, tags)

        def forward(self, x, state):
            outputs = []
            for t in range(x.size(1)):
                state = self.cell(x[:, t], state.detach())  # !
                outputs.append(self.head(state))
            return torch.stack(outputs, 1), state
"""


def test_each_step_of_a_module() -> None:
    assert_flagged(MODEL, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [
            ("            for t in range(x.size(1)):", "            for t, step in enumerate(x.unbind(1)):"),
            ("x[:, t]", "step"),
        ],
        [("range(x.size(1))", "range(5)"), ("x[:, t]", "x[t]")],
        [("x[:, t]", "torch.relu(x[:, t])")],
        [("nn.GRUCell", "nn.RNNCell")],
    ],
)
def test_other_spellings(edits: list[tuple[str, str]]) -> None:
    snippet = MODEL
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("state.detach()", "state")],
        [("outputs = []", "state, outputs = state.detach(), []"), ("x[:, t], state.detach()", "x[:, t], state")],
        [("                state = self.cell(x[:, t], state.detach())",
          "                if t % 10 == 0:\n                    state = state.detach()\n"
          "                state = self.cell(x[:, t], state)")],
        [("self.cell(x[:, t], state.detach())", "self.cell(x, state.detach())")],  # refines a result
        [("nn.GRUCell(size, hidden)", "Refine(size, hidden)")],
        [("state = self.cell", "seen = self.cell"), ("self.head(state)", "self.head(seen)")],  # the state stays
        [("        def forward", "        @torch.no_grad()\n        def forward")],
        [("return torch.stack(outputs, 1), state", "return torch.stack(outputs, 1).argmax(-1)")],
        [("self.cell(x[:, t], state.detach())", "self.cell(x[:, t].detach(), state)")],
    ],
)  # fmt: skip
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(MODEL, *edits), CODE)


IN_LOOP = """
    def fit(loader, epochs):
        cell, head = nn.LSTMCell(8, 16), nn.Linear(16, 4)
        optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
        for epoch in range(epochs):
            for x, y in loader:
                h, c = torch.zeros(len(x), 16), torch.zeros(len(x), 16)
                losses = []
                for t in range(x.size(1)):
                    h = h.detach()  # !
                    h, c = cell(x[:, t], (h, c.detach()))
                    losses.append(F.cross_entropy(head(h), y[:, t]))
                optimizer.zero_grad()
                torch.stack(losses).mean().backward()
                optimizer.step()
"""


def test_in_a_training_loop() -> None:
    assert_flagged(IN_LOOP, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("                    h = h.detach()\n", ""), ("c.detach()", "c")],
        [("losses.append(F.cross_entropy(head(h), y[:, t]))",
          "optimizer.zero_grad()\n                    F.cross_entropy(head(h), y[:, t]).backward()\n"
          "                    optimizer.step()"),
         ("torch.stack(losses).mean().backward()", "pass")],
        [("head(h), y", "head(h).detach(), y")],
        [("[*cell.parameters(), *head.parameters()]", "head.parameters()")],  # a reservoir
        [("for t in range", "cell.eval()\n                for t in range"),
         ("torch.stack(losses).mean().backward()", "print(torch.stack(losses).mean().item())")],
    ],
)  # fmt: skip
def test_look_alikes_in_a_training_loop(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(IN_LOOP, *edits), CODE)


def test_truncated_backpropagation() -> None:
    assert_clean(
        """
        def fit(rnn, head, text, optimizer):
            hidden = torch.zeros(1, 8, 16)
            for start in range(0, text.size(0) - 1, 35):
                hidden = hidden.detach()
                out, hidden = rnn(text[start : start + 35], hidden)
                optimizer.zero_grad()
                F.cross_entropy(head(out), text[start + 1 : start + 36]).backward()
                optimizer.step()
        """,
        CODE,
    )


HELPER = """
    def repackage_hidden(h):
        if isinstance(h, torch.Tensor):
            return h.detach()
        return tuple(repackage_hidden(v) for v in h)

""" + MODEL.replace("state.detach()", "repackage_hidden(state)")


@pytest.mark.parametrize(
    "snippet",
    [
        HELPER,
        HELPER.replace(
            "state = self.cell(x[:, t], repackage_hidden(state))  # !",
            "state = repackage_hidden(state)  # !\n                state = self.cell(x[:, t], state)",
        ),
    ],
)
def test_a_helper_that_detaches_the_state(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("return h.detach()", "return h.clone()"),
        ("repackage_hidden(state)", "state"),
        ("repackage_hidden(state)", "self.gate(state)"),
        ("repackage_hidden(state)", "repackage(state)"),
        (
            "outputs = []",
            "state, outputs = repackage_hidden(state), []; state = self.cell(x[:, 0], state); return state",
        ),
    ],
)
def test_look_alikes_of_such_a_helper(edit: tuple[str, str]) -> None:
    assert_clean(twin(HELPER, edit), CODE)


STEPS = """
    class CharModel(nn.Module):
        def __init__(self, chars, hidden):
            super().__init__()
            self.embed = nn.Embedding(chars, hidden)
            self.cell = nn.GRUCell(hidden, hidden)
            self.head = nn.Linear(hidden, chars)

        def step(self, token, state):
            state = self.cell(self.embed(token), state)
            return self.head(state), state

    def train_chunk(model, optimizer, state, tokens, targets):
        loss = 0.0
        for token, target in zip(tokens, targets):
            logits, state = model.step(token, state.detach())  # !
            loss = loss + F.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def main(batches):
        model = CharModel(64, 32)
        optimizer = torch.optim.Adam(model.parameters())
        state = torch.zeros(8, 32)
        for tokens, targets in batches:
            train_chunk(model, optimizer, state, tokens, targets)
"""


def test_a_method_that_runs_a_cell_once() -> None:
    assert_flagged(STEPS, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("state.detach())", "state)")],
        [("        loss = 0.0\n", "        state, loss = state.detach(), 0.0\n"),
         ("token, state.detach())", "token, state)")],
        # chunks of a sequence, of which each is backpropagated through
        [("nn.GRUCell(hidden, hidden)", "nn.GRU(hidden, hidden)")],
        [("model.step(token", "model.step(tokens")],
        [("loss = loss + F.cross_entropy(logits, target)", "loss = F.cross_entropy(logits, target); loss.backward()"),
         ("        loss.backward()\n", "")],
        [("logits, state = model", "logits, _ = model")],
        [("def train_chunk", "@torch.no_grad()\n    def evaluate")],
    ],
)  # fmt: skip
def test_look_alikes_of_such_a_method(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(STEPS, *edits), CODE)
