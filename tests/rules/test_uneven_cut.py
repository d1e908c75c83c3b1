from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG233"

LOSS = """
    def distance(p, z):
        return -F.cosine_similarity(p, z, dim=-1).mean()

    def symmetric(first, second):
        (p1, z1), (p2, z2) = first, second
        return 0.5 * distance(p1, z2.detach()) + 0.5 * distance(p2, z1)  # !
"""


def test_two_views() -> None:
    assert_flagged(LOSS, CODE)
    (found,) = findings(LOSS, CODE)
    assert found.fix is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("F.mse_loss(p1, z2.detach())", "F.mse_loss(p2, z1)"),
        ("F.mse_loss(z1.detach(), p2)", "F.mse_loss(z2, p1)"),
        ("distance(p1, p2.detach())", "distance(p2, p1)"),
        ("self.loss(out.p1, out.z2.detach())", "self.loss(out.p2, out.z1)"),
        ("distance(p_a, z_b.detach())", "distance(p_b, z_a)"),
        ("distance(pa, zb.detach())", "distance(pb, za)"),
        ("distance(pred_one, proj_two.detach())", "distance(pred_two, proj_one)"),
        ("distance(left_p, right_z.detach())", "distance(right_p, left_z)"),
    ],
)
def test_other_spellings(one: str, other: str) -> None:
    snippet = f"""
    class Head(nn.Module):
        def step(self, out, p1, p2, z1, z2, p_a, p_b, z_a, z_b, pa, pb, za, zb, pred_one, pred_two, proj_one, proj_two,
                 left_p, right_p, left_z, right_z):
            one = {one}
            other = {other}  # !
            return one + other
    """
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("distance(p2, z1)", "distance(p2, z1.detach())")],
        [("z2.detach()", "z2")],
        [("distance(p2, z1)", "distance(p2, z3)")],  # no twin
        [("distance(p2, z1)", "distance(p1, z1)")],
        [("distance(p2, z1)", "other(p2, z1)")],
        [("distance(p1, z2.detach())", "distance(z2.detach(), z1)"), ("distance(p2, z1)", "distance(z2, z1.detach())")],
        [("        return 0.5", "        z1 = z1.detach()\n        return 0.5")],
        [("return -F.cosine_similarity(p, z, dim=-1)", "return -F.cosine_similarity(p, z.detach(), dim=-1)")],
        [("    def symmetric", "    @torch.no_grad()\n    def symmetric")],
    ],
)
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(LOSS, *edits), CODE)


def test_a_generator_and_a_discriminator() -> None:
    assert_clean(
        """
        def losses(net, real1, fake1, real2, fake2):
            d_loss = hinge(net(real1), net(fake1.detach()))
            g_loss = hinge(net(fake1), net(real1))
            return d_loss, g_loss

        def targets(critic, state1, state2, value1, value2):
            with torch.no_grad():
                value1 = critic(state1)
            return F.mse_loss(state1, value2.detach()) + F.mse_loss(state2, value1)
        """,
        CODE,
    )


TRAINED = """
    def fit(loader, {given}):
        online = nn.Linear(8, 8)
        optimizer = torch.optim.Adam(online.parameters())
        {before}
        for a, b in loader:
            p1, p2 = online(a), online(b)
            {targets}
            loss = F.mse_loss(p1, z2.detach()) + F.mse_loss(p2, z1){mark}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def test_targets_of_the_network_that_is_trained() -> None:
    snippet = TRAINED.format(given="i=0", before="pass", targets="z1, z2 = online(b), online(a)", mark="  # !")
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("before", "targets"),
    [
        ("other = nn.Linear(8, 8)", "z1, z2 = other(a), other(b)"),  # in no optimizer
        ("other = nn.Linear(8, 8).requires_grad_(False)", "z1, z2 = other(a), other(b)"),
        ("other = nn.Linear(8, 8); other.requires_grad_(False)", "z1, z2 = other(a), other(b)"),
        ("bank = torch.randn(8, 8)", "z1, z2 = bank[0], bank[1]"),
        ("other = nn.Linear(8, 8)", "with torch.no_grad(): z1, z2 = other(a), other(b)"),
    ],
)
def test_targets_that_nothing_trains(before: str, targets: str) -> None:
    assert_clean(TRAINED.format(given="i=0", before=before, targets=targets, mark=""), CODE)
