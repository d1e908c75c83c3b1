"""Whether a function is only called where no graph is recorded: by callers under ``no_grad``, or by their callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Mode
from gradguard.static.program import handed_functions
from gradguard.static.program.functions import FunctionRef
from gradguard.static.screen import calling

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.project import Module, Project

_MAX_CALLS = 5
"""Calls between a function and the ``no_grad`` that it runs under."""

_OFF = (Mode.OFF, Mode.UNKNOWN)

Site = tuple["Flow", Mode]
"""A function that calls, and the mode in which it does."""


class WithoutGrad:
    """Looks at the callers of functions; each function once for each distance, however many ways lead to it.

    Args:
        project: knows who calls whom.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[tuple[t.Define, int], bool] = {}

    def holds_for(self, ref: FunctionRef, distance: int = 0) -> bool:
        """Whether every call of a function that can be seen happens where no graph is recorded.

        One that is called by nobody, but handed over, is called by whom it is handed to. A recursive call runs as its
        caller does.

        Args:
            ref: the function.
            distance: calls that lead from here to the function that is asked about.
        """
        key = ref.define, distance
        if key not in self._known:
            self._known[key] = self._reaches_only(ref, distance)
        return self._known[key]

    def may_hold_for(self, ref: FunctionRef) -> bool:
        """Whether some call of a function, or of a method of its name, may happen where no graph is recorded."""
        waiting, known = [ref], {ref.define}
        for _ in range(_MAX_CALLS):
            callers: list[FunctionRef] = []
            for each in waiting:
                sites = self._sites(each) or self._sites_by_name(each)
                if sites is None or any(mode in _OFF for _, mode in sites):
                    return True
                callers += (flow.ref for flow, _ in sites if flow.ref.define not in known)
                known |= {caller.define for caller in callers}
            waiting = callers
        return False

    def is_left_to_others(self, ref: FunctionRef, levels: int = _MAX_CALLS) -> bool:
        """Whether all calls of a function begin in a method that nobody calls but, perhaps, a package's base class.

        That may do so under ``no_grad``, or not.

        Args:
            ref: the function.
            levels: calls that are followed.
        """
        sites = self._sites(ref)
        if sites:
            return levels > 0 and all(
                mode is Mode.INHERITED and self.is_left_to_others(flow.ref, levels - 1) for flow, mode in sites
            )
        foreign = ref.owner is not None and ref.owner.has_foreign_base
        return foreign and not self._is_called_on_something(ref)

    def calls(self, ref: FunctionRef) -> list[Site]:
        """The calls of a function that can be seen, those of a method by its name where no others can."""
        return self._sites(ref) or self._sites_by_name(ref) or []

    def _is_called_on_something(self, ref: FunctionRef) -> bool:
        """Whether something of its program calls a method of this name on an object of which nothing is known."""
        name, survey = ref.define.name, self._project.survey
        if survey.is_called_by_many(name, ref.module):
            return True
        callers = tuple(survey.callers(name, ref.module))
        return any(True for _ in self._calls_in(callers, ref, lambda flow: _modes_named(flow, name)))

    def _reaches_only(self, ref: FunctionRef, distance: int) -> bool:
        """Go through the callers that run as their own callers do, till no graph is recorded on any way."""
        waiting, known, is_off = [ref], {ref.define}, False
        while waiting and distance < _MAX_CALLS:
            distance += 1
            callers: list[FunctionRef] = []
            for each in waiting:
                sites = self._sites(each)
                if not sites and not self._holds_by_name(each, distance):
                    return False
                if any(mode is not Mode.INHERITED and mode not in _OFF for _, mode in sites):
                    return False
                is_off = is_off or not sites or any(mode in _OFF for _, mode in sites)
                inherited = (flow.ref for flow, mode in sites if mode is Mode.INHERITED)
                callers += (caller for caller in inherited if caller.define not in known)
                known |= {caller.define for caller in callers}
            waiting = callers
        return is_off and not waiting

    def _sites(self, ref: FunctionRef) -> list[Site]:
        name, survey = ref.define.name, self._project.survey
        if survey.is_called_by_many(name, ref.module):
            return []
        callers = tuple(survey.callers(name, ref.module))
        self._project.uses(ref.module, callers)
        found = [*self._calls_in(callers, ref, lambda flow: _modes_of(flow, ref.define))]
        return found or list(handed_functions.runs(self._project, ref))

    def _holds_by_name(self, ref: FunctionRef, distance: int) -> bool:
        """Whether a method that no call was seen to reach is called by its name, on anything, under ``no_grad``.

        The class of that may be known to the run only (``getattr(module, name)(...)``): there one call says how the
        method is meant.
        """
        name, survey = ref.define.name, self._project.survey
        if ref.owner is None or survey.is_called_by_many(name, ref.module):
            return False
        anywhere = tuple(survey.callers_anywhere(name, ref.module))
        self._project.uses(ref.module, anywhere)
        sites = self._calls_in(anywhere, ref, lambda flow: _modes_named(flow, name))
        return any(
            mode in _OFF or (mode is Mode.INHERITED and distance < _MAX_CALLS and self.holds_for(flow.ref, distance))
            for flow, mode in sites
        )

    def _sites_by_name(self, ref: FunctionRef) -> list[Site] | None:
        """Where a method of this name is called on whatever object; None where too many files do so."""
        name, survey = ref.define.name, self._project.survey
        if survey.is_called_by_many(name, ref.module):
            return None
        anywhere = tuple(survey.callers_anywhere(name, ref.module)) if ref.owner is not None else ()
        self._project.uses(ref.module, anywhere)
        return list(self._calls_in(anywhere, ref, lambda flow: _modes_named(flow, name)))

    def _calls_in(
        self, modules: Iterable[Module], ref: FunctionRef, modes: Callable[[Flow], Iterable[Mode]]
    ) -> Iterator[Site]:
        for module in modules:
            for flow in self._project.flows(module, calling(module.source, ref.define.name)):
                if flow.ref.define is not ref.define:
                    yield from ((flow, mode) for mode in modes(flow))


def _modes_of(flow: Flow, define: t.Define) -> Iterator[Mode]:
    return (mode for called, mode in flow.calls if called is define)


def _modes_named(flow: Flow, name: str) -> Iterator[Mode]:
    return (mode for called, mode in flow.method_calls if called == name)
