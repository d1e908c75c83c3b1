"""Objects that are named as a model and are none: an agent, a policy, the interface of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.model import Mode
from gradguard.static.reading.called import Called

if TYPE_CHECKING:
    from gradguard.static.program.functions import FunctionRef

_INTERFACE = re.compile(
    r"""namedtuple\(\s*['"]\w+['"],[^)]*['"\s]forward['"\s,]|"""
    r"""\(NamedTuple\):[^\n]*\n(?:(?:[ \t][^\n]*)?\n)*?[ \t]+forward\s*:"""
)


def may_record_nothing(c: Called) -> bool:
    """Whether what is called may be no module, but an object of the program that runs one without gradients.

    Nothing but a name says what it is, and a class which is no module has such a method, all of it under ``no_grad``;
    or a tuple of functions has one: ``Interface = namedtuple("Interface", ["forward", "reset"])``. So it is with a
    parameter for which callers give an object of a class that computes without a model: ``Baseline(word_vectors)``;
    and with a name in a file that has nothing of torch.
    """
    known = c.receiver.ref if c.method == "forward" and c.receiver is not None else c.func.ref
    if known is not None:
        return False
    if not c.flow.module.names_torch:
        return True
    survey = c.flow.project.survey
    if c.method == "forward" and survey.mentions(_INTERFACE, c.flow.module, "forward"):
        return True
    name = "forward" if c.method == "forward" else "__call__"
    silent = (ref for ref in survey.methods_of_no_modules(name, c.flow.module) if _records_nothing(c, ref))
    return any(_runs_something(c, ref) for ref in silent) or _is_plain_for_callers(c)


def _is_plain_for_callers(c: Called) -> bool:
    """Whether what is called is a parameter, and an object of no module, whose call records nothing."""
    if c.path not in c.flow.params or c.path in c.flow.ref.assigned:
        return False
    given = c.flow.project.passed.argument_class(c.flow.ref, c.path)
    called = given.method("__call__") if given is not None and not given.is_module else None
    return called is not None and _records_nothing(c, called)


def _records_nothing(c: Called, ref: FunctionRef) -> bool:
    flow = c.flow.project.flow(ref)
    return flow is not None and all(f.mode is Mode.OFF for f in flow.facts.forwards)


def _runs_something(c: Called, ref: FunctionRef) -> bool:
    flow = c.flow.project.flow(ref)
    return flow is not None and bool(flow.facts.forwards)
