"""What is called with each of some elements, as the comprehension that it is: ``map(f, xs)``, ``pool.map(f, xs)``."""

from __future__ import annotations

from gradguard.static import tree as t

_EACH = "each of "
"""How the elements are called, which have no names in the text."""


def each_called(origin: object, kind: str, function: t.Expr, rows: list[t.Arg]) -> t.Comprehension:
    """``[f(x, y) for x, y in zip(xs, ys)]``, for ``map(f, xs, ys)``.

    Args:
        origin: the call that is meant.
        kind: ``list``, or ``generator``.
    """
    names: list[t.Expr] = [t.Name(origin, f"{_EACH}{position}") for position in range(len(rows))]
    over = rows[0].value if len(rows) == 1 else t.Call(origin, t.Name(origin, "zip"), rows)
    target = names[0] if len(rows) == 1 else t.Display(origin, "tuple", names)
    element = t.Call(origin, function, [t.Arg(name) for name in names])
    return t.Comprehension(origin, kind, None, element, [t.Clause(target, over, [])])


def each_given(generator: t.Call) -> t.Comprehension:
    """``[each for each in run()]``, for what goes through all that ``run()`` gives."""
    each = t.Name(generator.origin, f"{_EACH}them")
    return t.Comprehension(generator.origin, "list", None, each, [t.Clause(each, generator, [])])


def is_of_each(node: t.Node | None) -> bool:
    """Whether it is such a call with one element: what is written there is all of them."""
    return isinstance(node, t.Call) and any((t.path_of(arg.value) or "").startswith(_EACH) for arg in node.args)
