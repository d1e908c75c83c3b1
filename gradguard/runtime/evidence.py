"""What is known of a place that grew: the lines that store into it, and how they do."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

from gradguard.runtime import caches, elsewhere, lifetime, origin
from gradguard.runtime.beside import Alias
from gradguard.runtime.contexts import OF_CONTEXT
from gradguard.runtime.garbage import sets_attribute
from gradguard.runtime.holders import SAVED, Suspect
from gradguard.runtime.roots import waiting_function
from gradguard.runtime.source import Sources
from gradguard.runtime.stores import (
    adds_to_itself,
    form_of,
    form_of_carried,
    is_of_another_key,
    keeps_no_graph,
    makes_a_place,
    only_binds_others,
    only_names,
)
from gradguard.runtime.switches import Switches
from gradguard.runtime.tracer import Line

LAST_KEY = re.compile(r'\["([^"]*)"\]$')


@dataclass(frozen=True, slots=True)
class Traced:
    """What following the lines has told of one suspect.

    Args:
        stores: the lines that were seen to store into it.
        gained: how many items that put into a collection.
        steps: for how many steps lines were followed.
        outlived: file and line of what ran before a store into it, and did not make it shorter.
        beside: other threads were there, whose lines were not followed.
        aliases: what functions of other threads call it.
    """

    stores: Counter[Line]
    gained: int
    steps: int
    outlived: frozenset[tuple[str, int]]
    beside: bool = False
    aliases: tuple[Alias, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a suspect when it is explained.

    Args:
        lines: where it is stored into, the most frequent first.
        statement: the first of them.
        form: how that stores.
        outlived: file and line of what does not empty it.
        lengthens: what makes it longer: the statement, or the one that makes the place that it fills.
        switches: tells which statements are never run.
    """

    suspect: Suspect
    sources: Sources
    rate: float
    lines: Sequence[Line]
    statement: ast.stmt | None
    form: str | None
    outlived: frozenset[tuple[str, int]]
    lengthens: ast.stmt | None
    switches: Switches

    @property
    def name(self) -> str:
        return self.suspect.holder.name

    @property
    def key(self) -> str | None:
        """Under which the place is in a dict of that name: ``train`` of ``seen["train"]``."""
        found = LAST_KEY.search(self.suspect.holder.path)
        return found[1] if found else None


def evidence(suspect: Suspect, traced: Traced, sources: Sources, rate: float, frames: Sequence[FrameType]) -> Evidence:
    name = suspect.holder.name
    lines = _where_it_begins(suspect, sources)
    if suspect.holder.path != SAVED:  # only a pack hook that returns what it is given makes one
        lines = lines or _storing_lines(suspect, traced, sources)
    statement = sources.statement(lines[0].filename, lines[0].number, name) if lines else None
    form = form_of(statement, name) if statement is not None else None
    if form == "sum" and suspect.entries:
        form = "append"  # `history += [loss]`
    elif form == "index" and statement and _is_list(suspect) and adds_to_itself(statement, name):
        form = "append"  # `rows[key] += [loss]`
    elif form == "index" and statement and _is_by_key(suspect) and adds_to_itself(statement, name):
        form = form_of_carried(statement, name)  # `sums[key] += loss`, `means[key] = d * means[key] + (1 - d) * loss`
    elif form == "index" and statement and suspect.gain.nodes:
        form = form_of_carried(statement, name)  # what is there now contains what was there
    elif form == "assign" and statement and lifetime.is_joined_to_itself(sources, lines[0].filename, statement, name):
        form = "carried"
    makers = (sources.statement(line.filename, line.number, name) for line in traced.stores)
    place = next((maker for maker in makers if maker is not None and makes_a_place(maker)), None)
    switches = Switches(sources, [spot.thing for spot in suspect.chain], frames)
    return Evidence(suspect, sources, rate, lines, statement, form, traced.outlived, place or statement, switches)


def _storing_lines(suspect: Suspect, traced: Traced, sources: Sources) -> list[Line]:
    """What was seen to store, else what the source says; of both what stores something first."""
    name = suspect.holder.name
    seen = [line for line, _ in traced.stores.most_common()]
    stored = _that_store(seen, name, sources)
    if stored and (own := _of_this_thread(stored, suspect, traced, sources)):
        return own
    if others := _of_other_threads(suspect, traced, sources):
        return others
    written = _from_source(suspect, sources)
    return stored or _that_store(written, name, sources) or seen or written


def _of_this_thread(lines: list[Line], suspect: Suspect, traced: Traced, sources: Sources) -> list[Line]:
    """Of what was seen to store, what can: while another thread runs, something gets longer at any line of this one."""
    name, own, putting = suspect.holder.name, [], []
    for line in lines:
        statement, source = sources.statement(line.filename, line.number, name), sources.get(line.filename)
        is_alone = not traced.beside and not elsewhere.may_run_others(statement)
        if is_alone or statement is None or source is None:
            own.append(line)
        elif there := elsewhere.handed_to(sources, source, statement, name):
            own += [Line(filename, each.lineno) for filename, each in there]  # it waits here until those have stored
        elif elsewhere.names_it(source, statement, name):
            own.append(line)
        elif elsewhere.puts(statement):
            putting.append(line)
    # What this thread puts in, by a parameter, it does each time; that it puts something elsewhere meanwhile is chance.
    often = 2 * sum(traced.stores[line] for line in putting) >= traced.stores.total()
    return own or (putting if often else [])


def _of_other_threads(suspect: Suspect, traced: Traced, sources: Sources) -> list[Line]:
    """What other threads may store by, from the source; nothing where there are none."""
    if not suspect.entries or not traced.stores:
        return []
    function = suspect.root.name if suspect.holder.scope == "local" and suspect.root else None
    owners = [spot.owner for spot in suspect.chain if spot.label == f".{suspect.holder.name}" and spot.owner]
    kinds = frozenset(cls.__name__ for owner in owners for cls in owner.__mro__ if cls is not object)
    found = elsewhere.statements(sources, suspect.holder.name, function, suspect.home, traced.aliases, kinds)
    return [Line(filename, statement.lineno) for filename, statement in found[:2]]


def _that_store(lines: list[Line], name: str, sources: Sources) -> list[Line]:
    """The lines that store something: not ``rows.append(None)`` before ``rows[place] = row``."""
    statements = ((line, sources.statement(line.filename, line.number, name)) for line in lines)
    return [
        line
        for line, statement in statements
        if statement is None or not (makes_a_place(statement) or only_binds_others(statement, name))
    ]


def _is_list(suspect: Suspect) -> bool:
    """Whether it is a list that has got longer: what is added to one is put at its end."""
    return suspect.entries > 0 and bool(suspect.chain) and isinstance(suspect.chain[-1].thing, list)


def _is_by_key(suspect: Suspect) -> bool:
    """Whether it is a dict, or an entry of one: what is added to an entry of a tensor becomes a slice of it."""
    return not suspect.entries and any(isinstance(spot.thing, dict) for spot in suspect.chain[-2:])


def _where_it_begins(suspect: Suspect, sources: Sources) -> list[Line]:
    """The statement that makes it a leak, where that is not the one that is seen to store."""
    if suspect.kind == "gradient" or (suspect.kind == "tensor" and suspect.holder.name == "grad"):
        return calls(sources, r"\.requires_grad_\((?!False)")  # backward stores, but only where it was asked to
    if suspect.kind == "cache" and suspect.holder.scope == "cache":
        code = caches.code_of(spot.thing for spot in suspect.chain)
        return [Line(*place) for place in origin.cached_functions(sources, suspect.holder.name, code)]
    if suspect.kind == "cache":
        return calls(sources, r"\b(cycle|tee)\(", _function_of(suspect))
    if suspect.holder.path == SAVED:
        return [Line(*place) for place in origin.packed_as_given(sources)]
    if suspect.kind == "optimizer" and suspect.holder.name == "param_groups":
        return _calls_on_owner(sources, suspect, r"\.add_param_group\(")
    if suspect.kind == "optimizer" and suspect.holder.name == "state":
        return _calls_on_owner(sources, suspect, r"\.param_groups\.(?:pop|remove|clear)\(")
    return []


def _calls_on_owner(sources: Sources, suspect: Suspect, pattern: str) -> list[Line]:
    """The calls that match behind the name of what has the holder; where there are none, behind any."""
    owner = re.escape(suspect.holder.path.rpartition(".")[0].rpartition(".")[2])
    return calls(sources, rf"\b{owner}{pattern}") or calls(sources, pattern)


def calls(sources: Sources, pattern: str, function: str | None = None) -> list[Line]:
    found = origin.calls_with(sources, pattern, function)
    return [Line(filename, statement.lineno) for filename, statement in found[:2]]


def _function_of(suspect: Suspect) -> str | None:
    """The function whose variable holds it: of a generator that waits, its own."""
    if suspect.holder.scope != "local" or suspect.root is None:
        return None
    waiting = filter(None, (waiting_function(spot.thing) for spot in reversed(suspect.chain)))
    return next(waiting, suspect.root.name)


def _from_source(suspect: Suspect, sources: Sources) -> list[Line]:
    """The statement by reading alone: for what no line of the user's was seen to do."""
    holder = suspect.holder
    if holder.path.startswith("param.grad"):
        found = origin.calls_with(sources, r"\.backward\(.*create_graph=(?!False)")
    elif holder.path == "tensor hook":
        found = origin.calls_with(sources, r"\.register_hook\(")
    elif holder.path.startswith(OF_CONTEXT):
        stored = origin.storing_statements(sources, holder.name, None, suspect.home)
        found = [each for each in stored if sets_attribute(each[1], holder.name)]
    elif suspect.kind == "hook":
        found = origin.calls_with(sources, r"\.register_\w*hook\(")
    elif suspect.kind == "cache":
        by_name = origin.calls_with(sources, rf"^{holder.name}\(")  # x.norm() may be anybody's method
        found = by_name or origin.calls_with(sources, rf"\.{holder.name}\(")
    else:
        found = origin.storing_statements(sources, holder.name, _function_of(suspect), suspect.home, holder.scope)
        key = LAST_KEY.search(holder.path)
        if key is not None and all(_stores_nothing_under(key[1], each, holder.name) for _, each in found):
            found = origin.storing_by_key(sources, key[1], suspect.home) or found
    if suspect.kind == "graph":
        found = [each for each in found if not keeps_no_graph(each[1], holder.name)] or found
    return [Line(filename, statement.lineno) for filename, statement in found[:2]]


def _stores_nothing_under(key: str, statement: ast.stmt, name: str) -> bool:
    """Whether a statement only names the dict, or stores under another key."""
    return only_names(statement, name) or is_of_another_key(statement, name, key)


def items_gained(suspect: Suspect) -> int:
    """How many items a collection gained; of a list that is bound anew, ``rows = rows[-100:]``, the tensors in it."""
    is_list = suspect.holder.type in ("list", "collections.deque")
    return suspect.entries or (suspect.gain.tensors if is_list else 0)
