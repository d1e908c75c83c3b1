from __future__ import annotations

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG207"


def test_flagged() -> None:
    assert_flagged(
        """
        loss = torch.nn.Linear(2, 2)(torch.ones(2)).sum()
        loss.backward(retain_variables=True)  # !
        """,
        CODE,
    )
    assert_flagged(
        """
        def train(model, loader):
            for x in loader:
                model(x).sum().backward(None, retain_variables=False)  # !
        """,
        CODE,
    )


def test_clean() -> None:
    assert_clean("torch.ones(1, requires_grad=True).sum().backward(retain_graph=True)", CODE)
    assert_clean("configure(retain_variables=True)", CODE)
    assert_clean(
        """
        class Op(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad, retain_variables=True):
                return grad

        kept = dict(retain_variables=True)
        """,
        CODE,
    )
