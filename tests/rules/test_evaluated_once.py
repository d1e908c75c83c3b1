"""Evaluations without a loop of their own, which the loop of another function calls (GG301)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

FLAGGED = {
    "all nodes of a graph": """
        model = Net()
        optimizer = torch.optim.Adam(model.parameters())

        def train(x, adj, y, mask):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(x, adj)[mask], y[mask]).backward()
            optimizer.step()

        def accuracy(x, adj, y, mask):
            model.eval()
            out = model(x, adj)  # !
            return (out[mask].argmax(1) == y[mask]).float().mean().item()

        def main(x, adj, y, train_mask, val_mask):
            for epoch in range(200):
                train(x, adj, y, train_mask)
                print(accuracy(x, adj, y, val_mask))
    """,
    "a loss that is detached": """
        class Trainer:
            def __init__(self, net: nn.Module, graph):
                self.net, self.graph = net, graph
                self.opt = torch.optim.Adam(net.parameters())

            def step(self, rows):
                self.net.train()
                self.opt.zero_grad()
                F.nll_loss(self.net(self.graph.x)[rows], self.graph.y[rows]).backward()
                self.opt.step()

            def inference_step(self, rows):
                self.net.eval()
                out = self.net(self.graph.x)  # !
                return F.nll_loss(out[rows], self.graph.y[rows]).detach()

            def fit(self, rows, held_out):
                while self.running():
                    self.step(rows)
                    print(self.inference_step(held_out))
    """,
    "pictures of a generator": """
        from torchvision.utils import save_image

        def sample(generator: nn.Module, noise, epoch):
            generator.eval()
            images = generator(noise)  # !
            save_image(images.data, f"{epoch}.png")
            generator.train()

        def fit(generator, epochs, noise):
            for epoch in range(epochs):
                train_epoch(generator)
                sample(generator, noise, epoch)
    """,
    "an action in each step of an environment": """
        class Agent:
            def __init__(self, actor: nn.Module):
                self.actor = actor

            def act(self, state):
                self.actor.eval()
                mu = self.actor(torch.as_tensor(state)[None])  # !
                self.actor.train()
                return mu.cpu().detach().numpy()[0]

        def play(env, agent: Agent):
            state, done = env.reset(), False
            while not done:
                state, reward, done, _ = env.step(agent.act(state))
    """,
}

CLEAN = {
    "under no_grad": """
        def accuracy(model: nn.Module, x, y):
            model.eval()
            with torch.no_grad():
                out = model(x)
            return (out.argmax(1) == y).float().mean().item()

        def main(model, x, y):
            for epoch in range(200):
                print(accuracy(model, x, y))
    """,
    "decorated": """
        @torch.no_grad()
        def accuracy(model: nn.Module, x, y):
            model.eval()
            return (model(x).argmax(1) == y).float().mean().item()

        def main(model, x, y):
            for epoch in range(200):
                print(accuracy(model, x, y))
    """,
    "called under no_grad": """
        def accuracy(model: nn.Module, x, y):
            model.eval()
            return (model(x).argmax(1) == y).float().mean().item()

        def main(model, x, y):
            for epoch in range(200):
                with torch.no_grad():
                    print(accuracy(model, x, y))
    """,
    "called once, when all is over": """
        def accuracy(model: nn.Module, x, y):
            model.eval()
            return (model(x).argmax(1) == y).float().mean().item()

        def main(model, loader, x, y):
            for epoch in range(200):
                train_epoch(model, loader)
            print(accuracy(model, x, y))
    """,
    "its loss is trained by who calls it": """
        def loss_of(model: nn.Module, x, y):
            model.eval()  # dropout off
            return F.cross_entropy(model(x), y)

        def main(model, optimizer, batches):
            for x, y in batches:
                optimizer.zero_grad()
                loss_of(model, x, y).backward()
                optimizer.step()
    """,
    "an attack asks for the gradient of the picture": """
        def attack(model: nn.Module, image, label):
            model.eval()
            image.requires_grad_(True)
            loss = F.cross_entropy(model(image), label)
            (grad,) = torch.autograd.grad(loss, image)
            return (image + 0.03 * grad.sign()).detach()

        def main(model, pairs):
            for image, label in pairs:
                print(attack(model, image, label))
    """,
    "what it gives is kept with its graph": """
        class Critic:
            def __init__(self, net: nn.Module):
                self.net = net

            def look(self, x):
                self.net.eval()
                self.value = self.net(x)

            def learn(self, target):
                F.mse_loss(self.value, target).backward()

        def main(critic: Critic, batches):
            for x, target in batches:
                critic.look(x)
                critic.learn(target)
    """,
    "all its parameters are frozen": """
        def features(net: nn.Module, x):
            net.eval()
            net.requires_grad_(False)
            return net(x).argmax(1).tolist()

        def main(net, images):
            for x in images:
                print(features(net, x))
    """,
    "the mode is the training's": """
        def step(model: nn.Module, optimizer, x, y):
            model.eval()  # frozen statistics
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        def main(model, optimizer, batches):
            for x, y in batches:
                print(step(model, optimizer, x, y))
    """,
    "trains or evaluates as it is told": """
        def run(model: nn.Module, optimizer, x, y, train):
            model.train() if train else model.eval()
            out = model(x)
            loss = F.cross_entropy(out, y)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss.item()

        def main(model, optimizer, batches):
            for x, y in batches:
                print(run(model, optimizer, x, y, True))
    """,
}


@pytest.mark.parametrize("text", FLAGGED.values(), ids=FLAGGED.keys())
def test_an_evaluation_that_a_loop_calls_is_flagged(text: str) -> None:
    assert_flagged(text, CODE)


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN.keys())
def test_what_looks_like_it_is_not(text: str) -> None:
    assert_clean(text, CODE)
