"""The functions of the program that a call names, and the calls that name a function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


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
    """These, and the ``forward`` of an object that is called: ``self.quantizer(x)``."""
    yield from functions_called(flow, call)
    path = t.path_of(call.func)
    cls = flow.read(flow.canonical(path), flow.final).ref if path is not None else None
    forward = cls.method("forward") if isinstance(cls, Class) else None
    if forward is not None:
        yield forward


def calls_of(flow: Flow) -> Iterator[tuple[Flow, t.Call]]:
    """The calls of a function in others of the program, each with the function that has it (reads other files)."""
    ref = flow.ref
    for caller in flow.project.calling(ref):
        calls = (call for call in caller.ref.calls if call.name == ref.define.name)
        for call in calls if caller.ref.define is not ref.define else ():
            if any(each.define is ref.define for each in functions_called(caller, call)):
                yield caller, call
