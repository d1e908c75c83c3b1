"""Train a small classifier on synthetic data: the script `leaky.py` after the two fixes.

`gradguard demo` shows that GradGuard finds nothing in it; it also runs alone: `STEPS=500 python fixed.py`.
"""

import os
from collections.abc import Iterator

import torch
from torch import Tensor, nn

STEPS = int(os.environ.get("STEPS", "300"))
EVALUATE_EVERY = 10
BATCH_SIZE = 64
FEATURES = 32
CLASSES = 4


class Classifier(nn.Module):
    """Two hidden layers, as small as they come."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, CLASSES),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layers(inputs)
        return logits


def make_batches(count: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Points around one centre for each class."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    for _ in range(count):
        targets = torch.randint(CLASSES, (BATCH_SIZE,), generator=generator)
        inputs = centres[targets] + torch.randn(BATCH_SIZE, FEATURES, generator=generator)
        yield inputs, targets


@torch.no_grad()
def evaluate(model: nn.Module, batches: list[tuple[Tensor, Tensor]], predictions: list[Tensor]) -> float:
    """The accuracy on ``batches``; the outputs are kept in ``predictions`` for a look at how they evolve."""
    model.eval()
    correct = total = 0
    for inputs, targets in batches:
        logits = model(inputs)
        predictions.append(logits)
        correct += int((logits.argmax(dim=1) == targets).sum())
        total += len(targets)
    model.train()
    return correct / total


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, predictions: list[Tensor]) -> float:
    """One epoch of ``STEPS`` batches; returns the mean loss."""
    criterion = nn.CrossEntropyLoss()
    validation = list(make_batches(2, seed=2))
    running_loss = torch.zeros(())
    for step, (inputs, targets) in enumerate(make_batches(STEPS, seed=1), start=1):
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        running_loss += loss.detach()
        if step % EVALUATE_EVERY == 0:
            accuracy = evaluate(model, validation, predictions)
            print(f"step {step}: mean loss {running_loss.item() / step:.4f}, accuracy {accuracy:.1%}")
    return running_loss.item() / STEPS


def main() -> None:
    """Train once, and say how it went."""
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    predictions: list[Tensor] = []
    mean_loss = train_epoch(model, optimizer, predictions)
    print(f"mean loss {mean_loss:.4f}, {len(predictions)} outputs kept")


if __name__ == "__main__":
    main()
