"""What the contexts of the user's autograd functions keep where no variable leads, and no collector comes.

A view of an output on ``ctx`` refers to the output's graph through C++, and that to the context. Measured with torch
2.13: with ``ctx.y = y`` the cyclic collector frees both; with ``ctx.y = y.t()`` nothing ever does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradguard.findings import Holder
from gradguard.runtime.usercode import is_user_type

OF_CONTEXT = "ctx."


def function_of(cls: type) -> type | None:
    """The user's ``autograd.Function`` whose contexts are of this class."""
    forward = getattr(cls, "_forward_cls", None)
    return forward if isinstance(forward, type) and is_user_type(forward) else None


def holder_of(name: str, function: type) -> Holder:
    """An attribute of the contexts of a function, in the user's words."""
    return Holder(name, f"{OF_CONTEXT}{name} of {function.__name__}", function.__name__, "internal")


def keeper(samples: Sequence[Any]) -> tuple[Holder, type] | None:
    """The attribute by which contexts of one function keep views of their outputs, and the function.

    Args:
        samples: weak references to tensors with a graph.
    """
    found = [next(_views_kept(reference()), None) for reference in samples[-2:]]
    return found[0] if len(found) == 2 and found[0] == found[1] else None


def _views_kept(output: Any) -> Iterator[tuple[Holder, type]]:
    """The attributes of the context that an output came from, in which there is a view of it."""
    context = getattr(output, "grad_fn", None)
    function = function_of(type(context))
    for name, value in list(vars(context).items()) if function is not None else ():
        parts = value if isinstance(value, (tuple, list)) else [value]
        if function is not None and any(getattr(part, "_base", None) is output for part in parts):
            yield holder_of(str(name), function), function
