"""Every how many iterations a condition holds, as it is written."""

from __future__ import annotations

from gradguard.static import tree as t


def period(test: t.Expr) -> int | None:
    """Every how many iterations a condition holds: 4 for ``(i + 1) % 4 == 0``.

    0 where the number is not written there (``i % accumulation_steps``), None where it is no such condition.
    """
    counts = moduli(test)
    written = [c.value for c in counts if isinstance(c, t.Constant) and isinstance(c.value, int)]
    return max(written, default=0) if counts else None


def moduli(test: t.Expr) -> list[t.Expr]:
    """``n`` of ``i % n == 0``."""
    return [n.operands[-1] for n in t.walk(test) if isinstance(n, t.Operation) and n.operator == "%"]
