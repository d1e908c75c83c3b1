"""Models that are run once, in whatever mode, to look at what they give (GG301)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

BATCH = """
        from torchvision.utils import save_image

        class Trainer:
            def __init__(self, model: nn.Module, loader):
                self.model, self.train_loader = model, loader
                self.optimizer = torch.optim.Adam(self.model.parameters())

            def save_images(self, epoch):
                x, _ = next(iter(self.train_loader))
                x = x.cuda()
                out, _, _ = self.model(x)  # !
                if epoch % 20 == 0:
                    save_image(out, f"{epoch}.png")

            def train(self):
                for epoch in range(100):
                    for x, _ in self.train_loader:
                        out, mu, logvar = self.model(x)
                        self.optimizer.zero_grad()
                        F.mse_loss(out, x).backward()
                        self.optimizer.step()
                    try:
                        self.save_images(epoch=epoch)
                    except OSError as error:
                        print(error)
"""

DRAWN = """
        from torchvision.utils import make_grid, save_image

        generator = nn.Sequential(nn.Linear(64, 784), nn.Tanh())
        optimizer = torch.optim.Adam(generator.parameters())
        fixed = torch.randn(64, 64)

        def sample_images(epoch):
            fake = generator(fixed)  # !
            grid = make_grid(fake.view(64, 1, 28, 28), normalize=True)
            save_image(grid, f"{epoch}.png")

        def train(batches, critic):
            for epoch in range(100):
                for x in batches:
                    optimizer.zero_grad()
                    critic(generator(torch.randn(64, 64))).mean().neg().backward()
                    optimizer.step()
                sample_images(epoch)
"""

SHOWN = """
        import matplotlib.pyplot as plt

        def show(vae: nn.Module, loader, writer, epoch):
            images, _ = next(iter(loader))
            reconstructed = vae(images)  # !
            plt.imshow(reconstructed[0].detach().permute(1, 2, 0))
            plt.close()
            writer.add_images("seen", reconstructed, epoch)

        def fit(vae, loader, writer):
            for epoch in range(10):
                train_epoch(vae, loader)
                show(vae, loader, writer, epoch)
"""


@pytest.mark.parametrize("text", [BATCH, DRAWN, SHOWN])
def test_what_is_only_looked_at_is_flagged(text: str) -> None:
    assert_flagged(text, CODE)


@pytest.mark.parametrize(
    "text",
    [
        twin(BATCH, ("def save_images", "@torch.no_grad()\n            def save_images")),
        twin(BATCH, ("self.save_images(epoch=epoch)", "print(epoch)")),
        twin(BATCH, ("out, _, _ = self.model(x)\n", "self.out, _, _ = self.model(x)\n")),
        twin(BATCH, ('save_image(out, f"{epoch}.png")', "return out")),
        twin(BATCH, ('save_image(out, f"{epoch}.png")', "self.optimizer.zero_grad(); out.sum().backward()")),
        twin(BATCH, ('save_image(out, f"{epoch}.png")', "torch.autograd.grad(out.sum(), x)")),
        twin(BATCH, ("x = x.cuda()", "self.model.requires_grad_(False)")),
        twin(BATCH, ('save_image(out, f"{epoch}.png")', "self.penalise(out)")),
        twin(BATCH, ("out, _, _ = self.model(x)\n", "self.model(x)  # sets the scales\n")),
        twin(BATCH, ("next(iter(self.train_loader))", "self.first"), ("save_image(out", "print(out")),
        twin(DRAWN, ("                sample_images(epoch)\n", "            sample_images(epoch)\n")),
        twin(DRAWN, ("def sample_images(epoch):", "@torch.inference_mode()\n        def sample_images(epoch):")),
        twin(DRAWN, ('save_image(grid, f"{epoch}.png")', "return fake")),
        twin(DRAWN, ("fake = generator(fixed)", "with torch.no_grad(): fake = generator(fixed)")),
        twin(SHOWN, ("plt.close()", "writer.kept = reconstructed")),
        twin(SHOWN, ("reconstructed = vae(images)", "reconstructed = vae.blend(images)")),
    ],
)
def test_what_looks_like_it_is_not(text: str) -> None:
    assert_clean(text, CODE)
