"""The functions of the program that a call names, and the calls that name a function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.parameters import making
from gradguard.static.reading.places import assigned_anywhere

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module

_MAX_NESTED = 4
_SEQUENCE = "torch.nn.Sequential"


def functions_called(flow: Flow, call: t.Call) -> Iterator[FunctionRef]:
    """A function by its name, a method by the class of its object: ``helper(x)``, ``self.target(x)``."""
    func = call.func
    named = flow.module.value_of(func).ref
    if isinstance(named, FunctionRef):
        yield named
    owner = t.path_of(func.value) if isinstance(func, t.Attribute) else None
    if owner is None or not isinstance(func, t.Attribute):
        return
    cls = flow.ref.owner if owner == "self" else flow.read(flow.canonical(owner), flow.final).ref
    method = cls.method(func.name) if isinstance(cls, Class) else None
    if method is not None:
        yield method


def functions_run(flow: Flow, call: t.Call) -> Iterator[FunctionRef]:
    """These, and the ``forward`` of an object that is called: ``self.quantizer(x)``; of a sequence that of the last."""
    yield from functions_called(flow, call)
    path = t.path_of(call.func)
    ref = flow.read(flow.canonical(path), flow.final).ref if path is not None else None
    forward = ref.method("forward") if isinstance(ref, Class) else None
    if forward is not None:
        yield forward
    elif path is not None and ref == _SEQUENCE:
        yield from (found for module, value in _assigned(flow, path) for found in _run_last(module, value))


def _assigned(flow: Flow, path: str) -> Iterator[tuple[Module, t.Expr]]:
    """What is assigned to an attribute of an object, or to a variable, each with the file that does it."""
    base, _, name = path.rpartition(".")
    if not base:
        yield from ((flow.module, value) for value in assigned_anywhere(flow, path))
        return
    owner = flow.ref.owner if base == "self" else flow.read(flow.canonical(base), flow.final).ref
    for cls in owner.lineage() if isinstance(owner, Class) else ():
        yield from ((cls.module, value) for _, value in cls.assigned(name))


def _run_last(module: Module, value: t.Expr, nested: int = 0) -> Iterator[FunctionRef]:
    """The ``forward`` whose result a module gives: that of ``Head`` for ``nn.Sequential(body, nn.ELU(), Head())``."""
    made = making(value)
    if made is None or nested > _MAX_NESTED:
        return
    ref = module.value_of(made.func).ref
    if isinstance(ref, Class) and (forward := ref.method("forward")) is not None:
        yield forward
    elif isinstance(ref, FunctionRef):
        yield from (found for each in ref.given_back() for found in _run_last(ref.module, each, nested + 1))
    elif ref == _SEQUENCE and made.args and not made.args[-1].star:
        yield from _run_last(module, made.args[-1].value, nested + 1)


def calls_of(flow: Flow) -> Iterator[tuple[Flow, t.Call]]:
    """The calls of a function in others of the program, each with the function that has it (reads other files)."""
    ref = flow.ref
    for caller in flow.project.calling(ref):
        calls = (call for call in caller.ref.calls if call.name == ref.define.name)
        for call in calls if caller.ref.define is not ref.define else ():
            if any(each.define is ref.define for each in functions_called(caller, call)):
                yield caller, call
