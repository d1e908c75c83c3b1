"""Models that a function loads and runs in a loop, to see what they give (GG301)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

COLOURED = """
        from PIL import Image
        from models import UNet
        from transforms import to_image, to_tensor

        def colorize(folder, checkpoint, device):
            net = UNet(3)
            net.load_state_dict(torch.load(checkpoint))
            net.to(device)
            for path in folder.glob("*.png"):
                x = to_tensor(Image.open(path)).to(device)
                y = net(x[None])[0]  # !
                to_image(y.cpu().detach()).save("out/" + path.name)
"""

SCRIPT = """
        from PIL import Image
        from models import UNet
        from transforms import to_image, to_tensor

        net = UNet(3)
        net.load_state_dict(torch.load("model.pth"))
        for path in Path("images").glob("*.png"):
            y = net(to_tensor(Image.open(path))[None])  # !
            print(path, y.mean().item())
"""

HELPED = """
        from PIL import Image
        from transforms import to_tensor

        def main(paths, checkpoint):
            model = torch.load(checkpoint)
            for path in paths:
                print(path, classify(model, Image.open(path)))

        def classify(model, image):
            return model(to_tensor(image)[None]).argmax(1).item()
"""


@pytest.mark.parametrize("text", [COLOURED, SCRIPT])
def test_what_only_runs_a_model_is_flagged(text: str) -> None:
    assert_flagged(text, CODE)


def test_a_model_that_is_handed_on_is_flagged() -> None:
    assert_flagged(twin(HELPED, ("Image.open(path)))", "Image.open(path)))  # !")), CODE)


@pytest.mark.parametrize(
    "text",
    [
        twin(COLOURED, ("net.to(device)", "net.to(device).requires_grad_(False)")),
        twin(COLOURED, ("def colorize", "@torch.no_grad()\n        def colorize")),
        twin(COLOURED, ("net.to(device)", "torch.set_grad_enabled(False)")),
        twin(COLOURED, ("net.load_state_dict(torch.load(checkpoint))", "net.half()")),
        twin(COLOURED, ('to_image(y.cpu().detach()).save("out/" + path.name)', "F.mse_loss(y, x).backward()")),
        twin(COLOURED, ('to_image(y.cpu().detach()).save("out/" + path.name)', "self.refine(y, optimizer)")),
        twin(COLOURED, ('to_image(y.cpu().detach()).save("out/" + path.name)', "yield y")),
        twin(COLOURED, ('to_image(y.cpu().detach()).save("out/" + path.name)', "adapt(net, y)")),
        twin(COLOURED, ('to_image(y.cpu().detach()).save("out/" + path.name)', "self.seen.append(y)")),
        twin(COLOURED, ("y = net(x[None])[0]", "y = attack(net, x)")),
        twin(COLOURED, ("net.to(device)", "optimizer = torch.optim.Adam(net.parameters())")),
        twin(COLOURED, ("net.to(device)", "net = torch.jit.trace(net, example)")),
        twin(
            COLOURED, ('to_image(y.cpu().detach()).save("out/" + path.name)', "print(y.mean().item()); adapt(net, x)")
        ),
        twin(SCRIPT, ("print(path, y.mean().item())", "losses.append(y.mean())")),
        twin(SCRIPT, ("net.load_state_dict", "torch.set_grad_enabled(False)\n        net.load_state_dict")),
        twin(SCRIPT, ("y = net(", "y = saliency(net, ")),
        twin(HELPED, ("def classify", "@torch.inference_mode()\n        def classify")),
        twin(HELPED, ("print(path, classify(model, Image.open(path)))", "with torch.no_grad(): classify(model, path)")),
    ],
)  # fmt: skip
def test_what_looks_like_it_is_not(text: str) -> None:
    assert_clean(text, CODE)
