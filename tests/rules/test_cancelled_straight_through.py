from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files

CODE = "GG223"


def layer(*lines: str) -> str:
    body = "\n            ".join(lines)
    return f"""
    class Layer(nn.Module):
        def __init__(self, size, number):
            super().__init__()
            self.embedding = nn.Embedding(number, size)
            self.block = nn.Linear(size, size)
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x, step=1.0, mask=None):
            {body}
            return x
    """


@pytest.mark.parametrize(
    "lines",
    [
        ("x = x + (x.round() - x)  # !",),
        ("x = x + (torch.round(x * 255) / 255 - x)  # !",),
        ("x = torch.round(x) - x + x  # !",),
        ("x = (torch.sign(x) - x) + x  # !",),
        ("x = -x + x.sign() + x  # !",),
        ("x = x - (x - x.floor())  # !",),
        ("x = torch.add(x, x.round() - x)  # !",),
        ("x = x.add(x.round() - x)  # !",),
        ("x = x + x.round().sub(x)  # !",),
        ("x = x + torch.sub(x.round(), x)  # !",),
        ("x = x + (x.round().detach() - x)  # !",),
        ("x = (", "    x  # !", "    + (x.round() - x)", ")"),
        ("x = (", "    # the gradient goes through", "    torch.round(x)  # !", "    - x", "    + x", ")"),
        ("h = self.block(x)", "q = torch.round(h / self.scale) * self.scale", "x = h + (q - h)  # !"),
        ("h = self.block(x)", "q = (h > 0).float()", "x = h + (q - h)  # !"),
        ("h = self.block(x)", "q = (h > 0).float() * 2 - 1", "x = q - h + h  # !"),
        (
            "distances = torch.cdist(x, self.embedding.weight)",
            "indices = distances.argmin(-1)",
            "quantized = self.embedding(indices).view(x.shape)",
            "x = x + (quantized - x)  # !",
        ),
        (
            "soft = self.block(x).softmax(-1)",
            "index = soft.max(-1, keepdim=True)[1]",
            "hard = torch.zeros_like(soft).scatter_(-1, index, 1.0)",
            "x = hard - soft + soft  # !",
        ),
        (
            "soft = F.softmax(self.block(x), dim=-1)",
            "hard = F.one_hot(soft.argmax(-1), soft.shape[-1]).float()",
            "x = (hard - soft) + soft  # !",
        ),
        ("x = x + ((x > step) * 2.0 - x)  # !",),
        ("q = x.round()", "difference = q - x", "x = x + difference  # !"),
        ("q = x.round()", "difference = q - x", "x = difference + x  # !"),
        ("x_q, index = step(x)", "x = x + (x_q - x)  # !"),
        ("with torch.no_grad():", "    q = x.round()", "x = x + (q - x)  # !"),
        ("self.last = self.block(x)", "x = self.last + (self.last.round() - self.last)  # !"),
        ("if self.training:", "    x = x + (x.round() - x)  # !"),
        ("return x + (x.round() - x)  # !",),
    ],
)
def test_it_cancels_out(lines: tuple[str, ...]) -> None:
    assert_flagged(layer(*lines), CODE)


def test_a_helper_that_is_named_so() -> None:
    assert_flagged(
        """
    def straight_through(hard, soft):
        return soft + (hard - soft)  # !

    def ste_round(x):
        return x + (torch.round(x) - x)  # !
    """,
        CODE,
    )


def test_a_function_of_the_program_that_rounds() -> None:
    assert_flagged(
        """
    def to_levels(x, levels):
        return torch.round(x * levels) / levels

    class Quantizer(nn.Module):
        def forward(self, x):
            return x + (to_levels(x, 8) - x)  # !

    class Binarizer(nn.Module):
        def snap(self, x):
            return torch.sign(x)

        def forward(self, x):
            b = self.snap(x)
            return b - x + x  # !
    """,
        CODE,
    )


def test_in_other_files(tmp_path: Path) -> None:
    found = lines_in_files(
        tmp_path,
        {
            "levels.py": "import torch\n\n\ndef round_to(x):\n    return torch.round(x)\n",
            "net.py": "import torch\nfrom levels import round_to\n\ndef f(x):\n    return x + (round_to(x) - x)\n",
        },
        CODE,
    )
    assert found == [("net.py", 5)]


@pytest.mark.parametrize(
    "lines",
    [
        ("x = x + (x.round() - x).detach()",),
        ("x = x + ((x > 0) - x).detach()",),
        ("x = (x.round() - x).detach() + x",),
        ("x = x.round() - x.detach() + x",),
        ("x = x.detach() + (x.round() - x.detach())",),
        ("x = x + (x.round() - x).data",),
        ("x = x.round() + (x - x.detach())",),
        ("x = x.round().detach() + x - x.detach()",),
        ("x = x + step * (x.round() - x)",),
        ("x = x + mask * (x.round() - x)",),
        ("x = x + (x.round() - x) * step",),
        ("with torch.no_grad():", "    x = x + (x.round() - x)"),
        ("with torch.no_grad():", "    difference = x.round() - x", "x = x + difference"),
        ("difference = (x.round() - x).detach()", "x = x + difference"),
        ("difference = x.round() - x", "difference = difference.detach()", "x = x + difference"),
        ("difference = x.round() - x", "x = self.block(x)", "x = x + difference"),
        ("x = x + (self.block(x) - x)",),
        ("y = self.block(x)", "x = x + (y - x)"),
        ("fraction = x - x.floor()", "x = x - fraction"),
        ("x = x + (x - x.round())",),
        ("x = x - (x.round() - x)",),
        ("x = (x - x) + x.round()",),
        ("x = torch.round(x - step) + step",),
        ("x = torch.round(x + mask) - mask",),
        ("big = x + step", "error = (x - (big - step)) + (step - step)"),
        ("x = x[..., 0] + (x.round()[..., 0] - x[..., 1])",),
        ("x = self.stop(x.round() - x) + x",),
        ("import numpy as np", "lo = np.array(mask)", "hi = lo + (np.round(lo) - lo)"),
        ("import numpy as np", "hard = np.zeros_like(mask)", "hard[0] = 1", "x = hard - mask + mask"),
        ("best = mask.argmax(-1)", "move = best - x", "x = x + move"),
        ("x = x + (mask // 2 - x)",),
        ("start, end = 1, 9", "middle = start + (round(4.5) - start)"),
        ("x = torch.add(x, x.round() - x, alpha=0.5)",),
        ("x = f'{x} + (x.round() - x)'",),
        ("q = FakeQuantize.apply(x)", "x = x + (q.round() - x).detach()"),
        ("quantized = RoundSTE.apply(x)", "x = x + (quantized - x)"),
    ],
)
def test_look_alikes(lines: tuple[str, ...]) -> None:
    assert_clean(layer(*lines), CODE)


def test_the_edit_detaches_the_difference() -> None:
    for written, edited in (
        ("x + (x.round() - x)", "(x.round() - x).detach()"),
        ("x.round() - x + x", "(x.round() - x).detach()"),
        ("x - (x - x.round())", "(x - x.round()).detach()"),
        ("torch.add(x, x.round() - x)", "(x.round() - x).detach()"),
        ("x + torch.sub(x.round(), x)", "torch.sub(x.round(), x).detach()"),
    ):
        (finding,) = findings(layer(f"x = {written}"), CODE)
        assert finding.fix is not None
        assert [edit.text for edit in finding.fix.edits] == [edited]
        assert not finding.fix.safe
    (finding,) = findings(layer("x = x.round() + x - x"), CODE)
    assert finding.fix is None


@pytest.mark.parametrize(
    "text",
    [
        """
    import paddle

    def gumbel(soft):
        hard = paddle.zeros_like(soft).put_along_axis_(soft.argmax(-1), 1.0, -1)
        return hard - soft + soft
    """,
        """
    @torch.no_grad()
    def snap(x):
        return x + (x.round() - x)
    """,
        """
    def test_it_cancels():
        x = torch.ones(3, requires_grad=True)
        assert (x + (x.round() - x)).grad_fn is not None
    """,
        """
    def lerp(start, end, t):
        return start + (end - start) * t

    def whole(start, end):
        return start + (end - start)
    """,
        """
    class Mean:
        def update(self, x):
            self.n += 1
            self.mean = self.mean + (x - self.mean) / self.n
    """,
        """
    class Outer(nn.Module):
        def forward(self, x):
            def ste_quantize(v):
                return v + (torch.round(v) - v).detach()
            q_x = ste_quantize(x)
            return q_x
    """,
        """
    def quantize(x):
        return x + (torch.round(x) - x).detach()

    def forward(x):
        quantized = quantize(x)
        return x + (quantized - x)
    """,
        """
    def train(net, loader):
        for x, y in loader:
            x = x + (x.round() - x)
            yield net(x)
    """,
    ],
)
def test_other_look_alikes(text: str) -> None:
    assert_clean(text, CODE)


HARD = "hard = torch.zeros_like(x).scatter_(-1, x.argmax(-1, keepdim=True), 1.0)"


@pytest.mark.parametrize(
    "lines",
    [
        (HARD, "x = hard - x + x.detach()  # !"),
        (HARD, "x = x.detach() - x + hard  # !"),
        (HARD, "x = x.detach() + hard - x  # !"),
        (HARD, "x = hard + (x.detach() - x)  # !"),
        ("x = x.detach() + (x.round() - x)  # !",),
        ("x = torch.round(x) - (x - x.detach())  # !",),
    ],
)
def test_the_wrong_one_is_detached(lines: tuple[str, ...]) -> None:
    assert_flagged(layer(*lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        (HARD, "x = hard - x.detach() + x"),
        (HARD, "x = x + (hard - x).detach()"),
        (HARD, "x = hard.detach() - x.detach() + x"),
        (HARD, "x = hard + x - x.detach()"),
        ("x = 2 * x.detach() - x",),  # a gradient that is turned round on purpose
        ("x = (2 * x).detach() - x",),
        ("y = self.block(x)", "x = y - x + x.detach()"),  # nothing is rounded
        (HARD, "loss = (hard - x).pow(2) + x.detach()", "x = x + loss"),
    ],
)
def test_the_right_one_is_detached(lines: tuple[str, ...]) -> None:
    assert_clean(layer(*lines), CODE)


CODES = "q = self.embedding(x.argmin(1))"


@pytest.mark.parametrize(
    "lines",
    [
        (CODES, "q = x + (q - x).detach()  # !", "loss = F.mse_loss(q, x.detach()) + F.mse_loss(x, q.detach())"),
        (CODES, "q = (q - x).detach() + x  # !", "loss = F.mse_loss(x.detach(), q)"),
        (CODES, "q = x + (q - x).detach()  # !", "loss = ((q - x.detach()) ** 2).mean()"),
        (CODES, "q_st = x + (q - x).detach()", "loss = F.mse_loss(q_st, x.detach())  # !"),
        (CODES, "through = (q - x).detach() + x", "loss = F.smooth_l1_loss(x.detach(), through)  # !"),
        (CODES, "through = x + (q - x).detach()", "loss = (through - x.detach()).pow(2).mean()  # !"),
        (CODES, "self.q = x + (q - x).detach()", "if step:", "    loss = criterion(self.q, x.detach())  # !"),
    ],
)
def test_an_estimator_before_the_loss_of_the_codes(lines: tuple[str, ...]) -> None:
    assert_flagged(layer(*lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        (CODES, "loss = F.mse_loss(q, x.detach()) + F.mse_loss(x, q.detach())", "q = x + (q - x).detach()"),
        (CODES, "through = x + (q - x).detach()", "loss = F.mse_loss(q, x.detach())"),
        (CODES, "q = x + (q - x).detach()", "loss = F.mse_loss(x, q.detach())"),  # the encoder's
        (CODES, "q = x + (q - x).detach()", "loss = F.mse_loss(q, mask.detach())"),
        (CODES, "q = x + (q - x).detach()", "seen = self.block(q) - x.detach()"),
        (CODES, "q = x + (q - x).detach()", "q = self.block(q)", "loss = F.mse_loss(q, x.detach())"),
        (CODES, "q_st = x + (q - x).detach()", "loss = F.mse_loss(q_st, x)"),
        (CODES, "q_st = x + (q - x).detach()", "loss = F.mse_loss(q_st, mask.detach())"),
        (CODES, "q_st = x + (q - x).detach()", "x = self.block(q_st)", "loss = F.mse_loss(q_st, x.detach())"),
        (CODES, "q_st = x + (q - x).detach()", "q_st = q", "loss = F.mse_loss(q_st, x.detach())"),
        (CODES, "q_st = x + (q - x.detach())", "loss = F.mse_loss(q_st, x.detach())"),
        (CODES, "q_st = x + (q - x).detach()", "with torch.no_grad():", "    seen = F.mse_loss(q_st, x.detach())"),
        (CODES, "q_st = x + (q - x).detach()", "seen = F.mse_loss(q_st, x.detach()).item()"),
        (CODES, "q_st = x + (q - x).detach()", "seen = F.mse_loss(q_st.detach(), x.detach())"),
    ],
)
def test_an_estimator_after_the_loss_of_the_codes(lines: tuple[str, ...]) -> None:
    assert_clean(layer(*lines), CODE)


FOUND = (
    "distances = torch.cdist(x, self.embedding.weight)",
    "index = distances.argmin(-1)",
    "q = self.embedding(index).view(x.shape)",
)


@pytest.mark.parametrize(
    "lines",
    [
        ("q = torch.round(x)", "x = q + (x - q).detach()  # !"),
        ("q = x.mul(255).round() / 255", "x = q + (x - q).detach()  # !"),
        ("h = self.block(x)", "q = (h > 0).float() * 2 - 1", "x = (h - q).detach() + q  # !"),
        ("h = self.block(x)", "q = h.sign()", "x = q - (q - h).detach()  # !"),
        ("h = self.block(x)", "q = h.sign()", "x = q + h.detach() - q.detach()  # !"),
        ("h = self.block(x)", "q = h.sign()", "x = q + (h - q).data  # !"),
        ("h = self.block(x)", "q = torch.floor(h / step) * step", "rest = (h - q).detach()", "x = q + rest  # !"),
        (*FOUND, "x = q + (x - q).detach()  # !"),
        (*FOUND, "loss = F.mse_loss(q, x.detach())", "out = q + (x - q).detach()  # !"),
        (
            "d = (x.unsqueeze(1) - self.embedding.weight).pow(2).sum(-1)",
            "_, index = d.min(dim=1)",
            "q = F.embedding(index, self.embedding.weight)",
            "x = q + (x - q).detach()  # !",
        ),
        (
            "d = torch.cdist(x, self.embedding.weight)",
            "hot = F.one_hot(d.min(1)[1], step).to(x.dtype)",
            "q = hot @ self.embedding.weight",
            "x = q + (x - q).detach()  # !",
        ),
        (
            "d = torch.cdist(x.detach(), self.embedding.weight)",
            "q = self.embedding.weight[d.topk(1, largest=False).indices.squeeze(-1)]",
            "x = q + (x - q).detach()  # !",
        ),
        (
            "soft = self.block(x).softmax(-1)",
            "index = soft.argmax(-1, keepdim=True)",
            "hard = torch.zeros_like(soft).scatter_(-1, index, 1.0)",
            "x = hard + (soft - hard).detach()  # !",
        ),
    ],
)
def test_an_estimator_the_other_way_round_is_flagged(lines: tuple[str, ...]) -> None:
    assert_flagged(layer(*lines), CODE)


LOOKED_UP = """
    class Codebook(nn.Module):
        def __init__(self, number, size):
            super().__init__()
            self.codes = nn.Parameter(torch.randn(number, size))

        @torch.no_grad()
        def nearest(self, flat):
            return torch.cdist(flat, self.codes).argmin(1)

        def forward(self, encoded):
            flat = encoded.flatten(0, 1)
            chosen = self.codes[self.nearest(flat)].view_as(encoded)
            commitment = F.mse_loss(encoded, chosen.detach())
            return chosen + (encoded - chosen).detach(), commitment  # !

    class Gate(nn.Module):
        def forward(self, score):
            return binarize(score) * score

    def binarize(score):
        return (score > 0.5).float()

    def threshold(score):
        hard = (score > 0.5).to(score.dtype)
        return hard + (score - hard).detach()  # !
"""


def test_so_is_one_whose_codes_another_method_looks_up() -> None:
    assert_flagged(LOOKED_UP, CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("q = torch.round(x)", "x = x + (q - x).detach()"),
        (*FOUND, "x = x + (q - x).detach()"),
        (*FOUND, "x = x + q.detach() - x.detach()"),
        (*FOUND, "x = q + (x - q).detach() * step"),
        (*FOUND, "x = x + (q - x).detach() + step * (q - q.detach())"),
        # the value of one network, and the gradient of another
        ("a = self.block(x)", "b = self.embedding(mask)", "x = a + (b - a).detach()"),
        ("a = self.block(x)", "x = a + (x - a).detach()"),
        # only what a mask has chosen is trained
        ("part = x * (x > step).float()", "x = part + (x - part).detach()"),
        ("part = torch.where(mask, x, 0.0)", "x = part + (x - part).detach()"),
        ("part = F.dropout(x, 0.5)", "x = part + (x - part).detach()"),
        # clamped, with its own gradient
        ("part = x.clamp(-1, 1)", "x = part + (x - part).detach()"),
        # a rounding that has an estimator
        ("q = Rounding.apply(x)", "x = q + (x - q).detach()"),
        ("q = x + (x.round() - x).detach()", "x = q + (self.scale - q).detach()"),
        # rounded by its scale, which has the gradient
        ("limit = x.abs().amax()", "q = (step * 7).round() * limit", "x = q + (x - q).detach()"),
        # the largest, which has a gradient
        ("q, index = x.max(-1, keepdim=True)", "x = q + (x - q).detach()"),
        # what is left over of each codebook is the next one's
        (
            "left = x",
            "total = 0.0",
            "for table in self.tables:",
            "    index = torch.cdist(left, table.weight).argmin(-1)",
            "    q = table(index)",
            "    q = left + (q - left).detach()",
            "    left = left - q",
            "    total = total + q",
        ),
        ("with torch.no_grad():", "    q = x.round()", "x = step + (q - step).detach()"),
        ("index = mask.argmax(-1)", "q = self.embedding(index)", "x = q + (x - q).detach()"),
    ],
)
def test_an_estimator_of_what_has_a_gradient_is_not(lines: tuple[str, ...]) -> None:
    assert_clean(layer(*lines), CODE)


def test_the_other_way_round_it_goes_straight_through() -> None:
    (found,) = findings(layer("q = torch.round(x)", "x = q + (x - q).detach()"), CODE)
    assert found.fix is not None
    assert [edit.text for edit in found.fix.edits] == ["x + (q - x).detach()"]
