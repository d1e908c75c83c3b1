"""Modules whose class only the run knows: what the classes of the program that they may be do to a state."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.arguments import takes
from gradguard.static.program.classes import Class
from gradguard.static.reading.module_calls import made_at
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Kind, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Store
    from gradguard.static.program.functions import FunctionRef

_CUTTING = frozenset({"detach", "detach_"})


def may_cut(flow: Flow, store: Store) -> bool:
    """Whether a state goes through a module that may be of a class which detaches something: ``h.detach()``.

    ``net = LSTM() if small else TransformerXL()``, ``out, hidden = net(x, hidden)``: either may cut what it gives back.
    """
    return any(_cuts(ref) for root in store.value.roots if root.source is Source.GRAPH for ref in _run(flow, root.key))


def _run(flow: Flow, key: Hashable) -> Iterator[FunctionRef]:
    """The ``forward`` methods of the program that may have been run where a graph began.

    Those of the classes that the module is made of, else of all that fit; none of a module whose class is known.
    """
    call, is_known = node_of(key), isinstance(key, tuple)
    if not isinstance(call, t.Call) or call in flow.recurrent:
        return
    values = (flow.module.value_of(made.func) for made in made_at(flow, t.path_of(call.func) or ""))
    classes = {value.ref for value in values if value.kind is Kind.CLASS and isinstance(value.ref, Class)}
    found = [cls.method("forward") for cls in classes if cls.is_module]
    if is_known and len(found) < 2:
        return
    every = found or flow.project.survey.methods_of_modules("forward", flow.module)
    yield from (ref for ref in every if ref is not None and takes(ref, call.args))


def _cuts(ref: FunctionRef) -> bool:
    """Whether a module detaches something in its ``forward``, or in a method that this calls."""
    seen, left = set[str](), [ref]
    while left:
        body = left.pop().define.body
        funcs = [node.func for node in t.walk(body) if isinstance(node, t.Call) and isinstance(node.func, t.Attribute)]
        if any(func.name in _CUTTING for func in funcs):
            return True
        own = {func.name for func in funcs if t.path_of(func.value) == "self"} - seen
        seen |= own
        methods = (ref.owner.method(name) for name in own) if ref.owner is not None else ()
        left.extend(method for method in methods if method is not None)
    return False
