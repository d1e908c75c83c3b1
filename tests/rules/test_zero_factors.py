from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG248"

RESET = """
class Adapted(nn.Module):
    def __init__(self, base, rank, scale):
        super().__init__()
        self.base = base
        self.scale = scale
        self.drop = nn.Dropout(0.1)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.empty(base.out_features, rank))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.down)  # !
        nn.init.zeros_(self.up)

    def forward(self, x):
        update = F.linear(F.linear(self.drop(x), self.down), self.up)
        return self.base(x) + self.scale * update

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scale * self.up @ self.down
        return self.base
"""
MADE = """
class LowRank(nn.Module):
    def __init__(self, size, rank):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size))
        self.a = nn.Parameter(torch.zeros(size, rank))  # !
        self.b = nn.Parameter(torch.zeros(rank, size))

    def forward(self, x):
        low = x @ self.a
        return x @ self.weight + low @ self.b
"""
LAYERS = """
class Adapter(nn.Module):
    def __init__(self, size, rank):
        super().__init__()
        self.down = nn.Linear(size, rank, bias=False)
        self.act = nn.ReLU()
        self.up = nn.Linear(rank, size, bias=False)
        nn.init.constant_(self.down.weight, 0.0)  # !
        self.up.weight.data.zero_()

    def forward(self, x):
        return x + self.up(self.act(self.down(x)))
"""
GATED = """
class Gated(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.gamma = nn.Parameter(torch.zeros(size))  # !
        self.proj = nn.Linear(size, size, bias=False)
        nn.init.zeros_(self.proj.weight)

    def forward(self, x):
        return x + self.gamma * self.proj(self.norm(x))
"""
MERGED = """
class Merged(nn.Linear):
    def __init__(self, size, out, rank):
        super().__init__(size, out)
        self.lora_a = nn.Parameter(torch.empty(rank, size))
        self.lora_b = nn.Parameter(torch.empty(out, rank))
        self.lora_a.data.fill_(0)  # !
        self.lora_b.data.fill_(0)

    def forward(self, x):
        delta = torch.matmul(self.lora_b, self.lora_a)
        return F.linear(x, self.weight + delta / 4, self.bias)
"""


OF_DTYPE = RESET.replace("self.drop(x)", "self.drop(x).to(self.down.dtype)").replace(
    "        return self.base(x)", "        assert self.up.shape[1] == self.down.size(0)\n        return self.base(x)"
)


@pytest.mark.parametrize("snippet", [RESET, MADE, LAYERS, GATED, MERGED, OF_DTYPE])
def test_both_factors_begin_at_zero(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(RESET, ("nn.init.zeros_(self.down)", "nn.init.kaiming_uniform_(self.down)")),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.normal_(self.up, std=0.02)")),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.zeros_(self.up)\n        nn.init.normal_(self.down)")),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.zeros_(self.up)\n        self.down.data.normal_()")),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.zeros_(self.up)\n        self.down.data = torch.randn(4, 8)")),
        twin(RESET, ("F.linear(F.linear(self.drop(x), self.down), self.up)",
             "F.linear(self.drop(x), self.down) + F.linear(x, self.up)")),
        twin(RESET, ("return self.base(x)", "self.penalty = self.down.abs().sum()\n        return self.base(x)")),
        twin(RESET, ("    @torch.no_grad()", "    def decay(self):\n        return self.up.sum()\n\n"
             "    @torch.no_grad()")),
        twin(RESET, ("        self.reset_parameters()\n", "")),  # who calls it may set one again
        twin(RESET, ("self.down), self.up)", "self.down), self.up + 1)")),
        twin(RESET, ("self.down), self.up)", "self.down).exp(), self.up)")),
        twin(RESET, ("self.down), self.up)", "self.down), self.up, self.shift)"), ("self.drop(x), self.down)",
             "self.drop(x), self.down, self.shift)"), ("        self.down =", "        self.shift = nn.Parameter("
             "torch.randn(4))\n        self.down =")),
        twin(RESET, ("        nn.init.zeros_(self.up)", "        if self.scale:\n            nn.init.zeros_(self.up)")),
        twin(RESET, ("    def forward", "    def draw(self, std):\n        nn.init.normal_(self.down, std=std)\n\n"
             "    def forward")),
        twin(RESET + "\ndef begin(net):\n    for layer in net.layers:\n        nn.init.normal_(layer.down)\n"),
        twin(RESET + "\ndef begin(net):\n    for name, p in net.named_parameters():\n        if 'down' in name:\n"
             "            nn.init.normal_(p)\n"),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.zeros_(self.up)\n        for p in self.parameters():\n"
             "            nn.init.normal_(p)")),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.zeros_(self.up)\n        for p in (self.down, self.up):\n"
             "            nn.init.normal_(p)")),
        twin(RESET, ("nn.init.zeros_(self.up)", "nn.init.zeros_(self.up)\n        draw(self.down)")),
        twin(MADE, ("torch.zeros(size, rank)", "torch.randn(size, rank)")),
        twin(MADE, ("torch.zeros(rank, size)", "torch.ones(rank, size)")),
        twin(MADE, ("return x @", "print(low.mean())\n        return low + x @")),
        twin(MADE, ("low @ self.b", "(low + 1) @ self.b")),
        twin(MADE, ("nn.Parameter(torch.zeros(rank, size))", "nn.Parameter(torch.zeros(rank, size), False)")),
        twin(LAYERS, ("nn.Linear(size, rank, bias=False)", "nn.Linear(size, rank)")),
        twin(LAYERS, ("nn.Linear(rank, size, bias=False)", "nn.Linear(rank, size)")),
        twin(LAYERS, ("self.act = nn.ReLU()", "self.act = nn.Sigmoid()")),
        twin(LAYERS, ("self.act = nn.ReLU()", "self.act = nn.LayerNorm(rank)")),
        twin(LAYERS, ("        nn.init.constant_(self.down.weight, 0.0)\n", "")),
        twin(LAYERS, ("constant_(self.down.weight, 0.0)", "constant_(self.down.weight, 0.1)")),
        twin(LAYERS + "\ndef init(m):\n    if isinstance(m, nn.Linear):\n        nn.init.xavier_uniform_(m.weight)\n"),
        twin(LAYERS, ("return x + self.up(", "return x + self.down(x) + self.up(")),
        twin(GATED, ("        nn.init.zeros_(self.proj.weight)\n", "")),
        twin(GATED, ("torch.zeros(size)", "torch.ones(size)")),
        twin(GATED, ("self.gamma * self", "(1 + self.gamma) * self")),
        twin(GATED, ("x + self.gamma * self.proj(self.norm(x))", "x * self.gamma + self.proj(self.norm(x))")),
        twin(MERGED, ("self.lora_b.data.fill_(0)", "self.lora_b.data.fill_(1)")),
        twin(MERGED, ("self.weight + delta / 4", "self.weight + delta / 4 + self.lora_a.sum()")),
    ],
)  # fmt: skip
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_zeros_may_be_placeholders_for_what_is_loaded() -> None:
    snippet = twin(MADE + "\ndef load(net, path):\n    net.load_state_dict(torch.load(path))\n")
    assert_clean(snippet, CODE)
    assert len(findings(snippet, CODE, Confidence.LOW)) == 1
    assert len(findings(RESET + "\ndef load(net, path):\n    net.load_state_dict(torch.load(path))\n", CODE)) == 1


GIVEN = """
class Adapted(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.empty(base.out_features, rank))
        self.scaling = alpha / rank
        self.reset_lora()

    def reset_lora(self):
        nn.init.zeros_(self.lora_a)  # !
        nn.init.zeros_(self.lora_b)

    def forward(self, x):
        return self.base(x) + self.scaling * F.linear(F.linear(x, self.lora_a), self.lora_b)
"""
LOOP = """
class ConvAdapter(nn.Module):
    def __init__(self, conv, rank):
        super().__init__()
        self.conv = conv
        for weight in conv.parameters():
            weight.requires_grad = False
        self.down = nn.Conv2d(conv.in_channels, rank, 3, padding=1, bias=False)
        self.up = nn.Conv2d(rank, conv.out_channels, 1, bias=False)
        self.begin()

    def begin(self):
        for layer in (self.down, self.up):  # !
            nn.init.zeros_(layer.weight)

    def forward(self, x):
        hidden = self.down(x)
        return self.conv(x) + self.up(hidden)
"""
INHERITED = """
class LoraLinear(nn.Linear):
    def __init__(self, inputs, outputs, r=8):
        super().__init__(inputs, outputs)
        self.weight.requires_grad = False
        self.A = nn.Parameter(self.weight.new_zeros((r, inputs)))
        self.B = nn.Parameter(self.weight.new_zeros((outputs, r)))
        self.reset_parameters()

    def reset_parameters(self):
        super().reset_parameters()
        if hasattr(self, "A"):
            nn.init.zeros_(self.A)  # !
            nn.init.zeros_(self.B)

    def forward(self, x):
        return super().forward(x) + x @ self.A.T @ self.B.T
"""


@pytest.mark.parametrize("snippet", [GIVEN, LOOP, INHERITED])
def test_both_at_zero_beside_what_is_frozen(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(GIVEN, ("zeros_(self.lora_a)", "kaiming_uniform_(self.lora_a)")),
        twin(GIVEN, ("for p in self.base.parameters", "for p in self.parameters"),
             ("p.requires_grad_(False)", "nn.init.normal_(p)")),
        twin(GIVEN, ("        self.reset_lora()", "        self.reset_lora()\n        for p in self.parameters():\n"
                     "            nn.init.normal_(p)")),
        twin(GIVEN, ("        self.reset_lora()", "        self.reset_lora()\n"
                     "        for name, p in self.named_parameters():\n            p.data.add_(0.1)")),
        twin(GIVEN, ("base.parameters():", "base.parameters():\n            nn.init.ones_(p)"),
             ("zeros_(self.lora_b)", "ones_(self.lora_b)")),
        twin(LOOP, ("nn.init.zeros_(layer.weight)", "nn.init.normal_(layer.weight)")),
        twin(LOOP, ("for layer in (self.down, self.up)", "for layer in (self.up, self.up)")),
        twin(LOOP, ("for layer in (self.down, self.up)", "for layer in self.layers()")),
        twin(LOOP, ("nn.init.zeros_(layer.weight)", "nn.init.zeros_(layer.weight[:1])")),
        twin(LOOP, ("        for layer in (self.down, self.up)", "        for layer in (self.down, self.up):\n"
                    "            nn.init.zeros_(layer.weight)\n        for layer in (self.down,)"),
             ("            nn.init.zeros_(layer.weight)\n\n", "            nn.init.normal_(layer.weight)\n\n")),
        twin(LOOP, ("self.up(hidden)", "self.up(hidden) + hidden.mean(1, keepdim=True)")),
        twin(INHERITED, ("zeros_(self.A)", "normal_(self.A)")),
        twin(INHERITED, ("hasattr(self, \"A\")", "self.kinds == \"A\"")),
    ],
)  # fmt: skip
def test_one_that_is_set_beside_what_is_frozen(snippet: str) -> None:
    assert_clean(snippet, CODE)
