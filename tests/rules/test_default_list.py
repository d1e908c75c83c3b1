from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG416"

PLAY = """
def play(policy, env, horizon, frames=[]):
    obs = torch.as_tensor(env.reset())
    kept = []
    for _ in range(horizon):
        action = policy(obs).argmax()
        frames.append(obs)  # !
        obs = torch.as_tensor(env.step(action.item()))
        kept.append(action)
    return torch.stack(kept), torch.stack(frames[-horizon:])

def train(policy, env, optimizer, steps):
    for step in range(steps):
        actions, frames = play(policy, env, 16)
        loss = F.cross_entropy(policy(frames), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
METHOD = """
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    @torch.no_grad()
    def validate(self, batches, outputs=list()):
        self.model.eval()
        for x, y in batches:
            outputs += [self.model(x)]  # !
        self.model.train()
        return outputs

    def fit(self, batches, loader):
        for epoch in range(100):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            if epoch % 5 == 0:
                print(len(self.validate(batches)))
"""
UNET = """
class UNet(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.downs = nn.ModuleList([nn.Linear(n, n // 2) for n in sizes])
        self.ups = nn.ModuleList([nn.Linear(n, n) for n in reversed(sizes)])

    def forward(self, x, t, skips=[]):
        for down in self.downs:
            skips.append(x)  # !
            x = down(x + t)
        for up in self.ups:
            x = up(torch.cat([x, x], 1) + skips[-1])
        return x

class Diffusion:
    def loss(self, model, x):
        noise = torch.randn_like(x)
        return F.mse_loss(model(x + noise, torch.rand(len(x), 1)), noise)

def main(batches):
    net, diffusion = UNet([64, 32]), Diffusion()
    optimizer = torch.optim.AdamW(net.parameters())
    for step, x in enumerate(batches):
        loss = diffusion.loss(net, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
EPOCHS = (
    UNET.partition("class Diffusion")[0]
    + """
def objective(net, x, y):
    return F.mse_loss(net(x, t=y), y)

def epoch(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        objective(model, x, y).backward()
        optimizer.step()

def main(loader, epochs):
    model = UNet([64, 32]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for e in range(epochs):
        epoch(model, loader, optimizer)
"""
)
FLAGGED = {
    "a module that an object is given to run": UNET,
    "a module that a function hands on": EPOCHS,
    "pairs, of which the last ones are read": PLAY.replace("frames.append(obs)", "frames.append((obs, action))"),
    "a function": PLAY,
    "a method, every so many epochs": METHOD,
}
CLEAN = {
    "a module with a list for each call": twin(
        UNET,
        ("skips=[]", "skips=None"),
        ("        for down", "        skips = [] if skips is None else skips\n        for down"),
    ),
    "a module that is given one": twin(UNET, ("torch.rand(len(x), 1))", "torch.rand(len(x), 1), [])")),
    "a module that is given one by its name": twin(EPOCHS, ("t=y)", "t=y, skips=[])")),
    "a module that may be given one": twin(EPOCHS, ("net(x, t=y)", "net(x, *y)")),
    "a module that takes them out": twin(UNET, ("skips[-1]", "skips.pop()")),
    "a module that its maker runs, of which another rule tells": twin(
        UNET, ("diffusion.loss(net, x)", "net(x, x).mean() + diffusion.loss(net, x)")
    ),
    "a module that nobody runs": twin(UNET, ("diffusion.loss(net, x)", "diffusion.loss(diffusion, x)")),
    "a module that is run once": twin(UNET, ("    for step, x in enumerate(batches):", "    if x := batches:")),
    "another method of a module": twin(UNET, ("def forward", "def encode")),
    "a module in a program that trains nothing": twin(UNET, ("loss.backward()", "loss.item()")),
    "None": twin(PLAY, ("frames=[]", "frames=None"), ("    kept = []", "    kept = []; frames = frames or []")),
    "a list of its own": twin(PLAY, ("    kept = []", "    kept = []; frames = list(frames)")),
    "given": twin(PLAY, ("env, 16)", "env, 16, [])")),
    "given by its name": twin(PLAY, ("env, 16)", "env, 16, frames=[])")),
    "given, perhaps": twin(PLAY, ("env, 16)", "*rest)")),
    "emptied": twin(PLAY, ("    kept = []", "    kept = []; frames.clear()")),
    "emptied by a slice": twin(PLAY, ("    kept = []", "    kept = []; frames[:] = []")),
    "cut": twin(PLAY, ("    kept = []", "    kept = []; del frames[:-100]")),
    "a queue": twin(PLAY, ("frames.append(obs)", "frames.append(obs); frames.pop(0)")),
    "pairs of numbers": twin(PLAY, ("frames.append(obs)", "frames.append((step, action.item()))")),
    "numbers": twin(PLAY, ("frames.append(obs)", "frames.append(action.item())")),
    "graphs, of which another rule tells": twin(METHOD, ("    @torch.no_grad()\n", "")),
    "called once": twin(PLAY, ("    for step in range(steps):", "    if steps:")),
    "called for the first step": twin(PLAY, ("        actions, frames", "        if step == 0: actions, frames")),
    "nothing trains": twin(PLAY, ("loss.backward()", "loss.item()")),
    "a list that is only read": twin(PLAY, ("frames.append(obs)", "kept.append(obs)")),
    "of another function": twin(PLAY, ("frames = play(", "frames = game.play(")),
    "an evaluation before the training": twin(
        METHOD, ("            if epoch % 5 == 0:\n    ", ""), ("            print(len", "        print(len")
    ),
    "numbers of an evaluation": twin(METHOD, ("[self.model(x)]", "[float(self.model(x).mean())]")),
    "an evaluation that is given one": twin(METHOD, ("validate(batches))", "validate(batches, []))")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_several_files(tmp_path: Path) -> None:
    """The loop that calls it is in another file."""
    play, train = PLAY.replace("  # !", "").split("def train")
    files = {
        "play.py": f"import torch\n{play}",
        "main.py": f"import torch.nn.functional as F\nfrom play import play\n\ndef train{train}",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("play.py", 8)]
    (tmp_path / "twin").mkdir()
    files["main.py"] = files["main.py"].replace("env, 16)", "env, 16, [])")
    assert lines_in_files(tmp_path / "twin", files, CODE) == []
