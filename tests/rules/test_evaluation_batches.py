"""GG301: a loop evaluates that takes each of its batches from the data to evaluate on."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

EPOCHS = """
def train(args, data, optimizer):
    net = build(args)
    net.cuda()
    net.train()
    for epoch in range(args.epochs):
        for batch in range(data.num_batches):
            x, y = data.next_batch()
            net.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()
        print(sum(p.numel() for p in net.parameters()))

        total = 0
        for batch in range(data.valid_num_batches):
            TAKES
            for sequence in range(data.batch_size):
                out, state = net(x[sequence])  # !
                total += F.mse_loss(out, y[sequence]).item()
        print(epoch, total)
"""


def _with(takes: str) -> str:
    return EPOCHS.replace("TAKES", takes)


@pytest.mark.parametrize(
    "takes",
    [
        "x, y = data.next_valid_batch()",
        "x, y = data.next_valid_batch(randomUpdate=False)",
        "x, y = data.get_test_batch(batch)",
        "x, y = data.get_random_val_batch()",
        "x, y = fetch_eval_data(data)",
        "x, y = data.valid_next_batch()",
        "x, y = next(val_iter)",
        "x, y = next(data.test_loader)",
        "x, y = self.val_loader.next()",
    ],
)
def test_takes_a_batch_to_evaluate_on(takes: str) -> None:
    assert_flagged(_with(takes), CODE)


@pytest.mark.parametrize(
    "takes",
    [
        "x, y = data.next_batch()",
        "x, y = data.get_valid(batch)",
        "x, y = data.get_validated_batch()",
        "x, y = data.test_batch_size, data.y",
        "x, y = next(train_iter)",
        "x, y = next(data)",
        "x, y = data.invalid_next()",
        "x, y = data.latest_batch()",
    ],
)
def test_takes_some_batch(takes: str) -> None:
    assert_clean(twin(_with(takes)), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("                out, state", "                with torch.no_grad(): out, state")],
        [("        total = 0\n", "        total = 0\n        torch.set_grad_enabled(False)\n")],
        [("total += F.mse_loss(out, y[sequence]).item()", "F.mse_loss(out, y[sequence]).backward()")],
        [
            ("total += F.mse_loss(out, y[sequence]).item()", "total = total + F.mse_loss(out, y[sequence])"),
            ("        print(epoch, total)", "        total.backward()"),
        ],
        [("out, state = net(x[sequence])", "out = torch.autograd.grad(net(x[sequence]).sum(), x)[0]")],
        [("out, state = net(x[sequence])", "out = measure(x[sequence])")],
        [("        total = 0\n", "        total = 0\n        net.requires_grad_(False)\n")],
    ],
)
def test_lookalikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(_with("x, y = data.next_valid_batch()"), *edits), CODE)


SEARCH = """
def search(net, alphas, train_iter, val_iter, optimizer):
    logged = []
    for _ in range(1000):
        x, y = next(train_iter)
        x_val, y_val = next(val_iter)
        alphas.step(x_val, y_val)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        logged.append(loss)  # !
"""


def test_a_training_that_takes_such_batches_too() -> None:
    assert_clean(twin(SEARCH), CODE)
    assert_flagged(SEARCH, "GG104")


@pytest.mark.parametrize("trains", ["alphas.step(net(x_val), y_val)", "fit(net).train(x_val)"])
def test_another_object_trains_on_them(trains: str) -> None:
    text = SEARCH.split("        optimizer.zero_grad()")[0].replace("alphas.step(x_val, y_val)", trains)
    assert_clean(text, CODE)
