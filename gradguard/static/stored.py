"""A store: a value is put where it may outlive the iteration that made it.

Part of the model (see ``model``). Nothing here imports libcst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from gradguard.findings import Confidence, Related
from gradguard.static import tree as t
from gradguard.static.events import LONG_LOOP, Event, Loop, Mode
from gradguard.static.fixes.edits import one_line
from gradguard.static.knowledge import LOSS_NAME, MOVING_METHODS, REARRANGING, SPLITTING
from gradguard.static.program.mapped import is_of_each
from gradguard.static.program.names import PARAMETERS, attributes_of, in_method
from gradguard.static.reading.saved import saves_nothing
from gradguard.static.reading.scalars import bound_to
from gradguard.static.source import Site
from gradguard.static.values import Held, Kind, Source, Value, node_within


class Form(Enum):
    """How a statement stores a value."""

    SUM = "sum"  # total += x
    AVERAGE = "average"  # mean = 0.9 * mean + 0.1 * x
    APPEND = "append"  # history.append(x), history += [x]
    ITEM = "item"  # history[key] = x
    CONCATENATE = "concatenate"  # bank = torch.cat([bank, x])
    REBIND = "rebind"  # state = f(x, state)
    IN_PLACE = "in place"  # total.add_(x), weights[i] = x on a tensor


class Scope(Enum):
    """Where the thing stored into lives."""

    LOCAL = "local"
    PARAMETER = "parameter"
    ATTRIBUTE = "attribute"
    CLOSURE = "closure"
    GLOBAL = "global"


class Growth(NamedTuple):
    """How a store of memory adds more and more to a collection.

    Args:
        loop: the loop in which each iteration adds to what is there, whatever is stored.
        by_call: each call adds to what is there, and nothing clears it.
        in_step: its function is one step of training: it calls backward, outside of a loop. None: as in the function
            that was called to store it.
        for_all_training: it grows from the first step of a training to the last, not in each epoch anew; or None
    """

    loop: Loop | None = None
    by_call: bool = False
    in_step: bool | None = None
    for_all_training: bool | None = None


def no_growth() -> Growth:
    """Nothing is known of it."""
    return _NO_GROWTH


_NO_GROWTH = Growth()


def surely() -> bool:
    """Nothing makes it doubtful."""
    return True


def _is_one_item(node: object) -> bool:
    index = node.index if isinstance(node, t.Subscript) else None
    if isinstance(index, t.Operation) and index.operator == "-":  # the last one
        index = index.operands[-1]
    if not isinstance(node, t.Subscript) or not isinstance(index, t.Constant | t.Name):
        return False
    of = node.value.func if isinstance(node.value, t.Call) else None
    return not (isinstance(of, t.Attribute) and of.name in SPLITTING)


def _is_picked_from(node: object, args: list[t.Expr]) -> bool:
    """Whether a subscript is by a name, and what it is of is one of some arguments, or a method of it gives that."""
    if not isinstance(node, t.Subscript) or not isinstance(node.index, t.Name) or not isinstance(node.value, t.Name):
        return False
    parts = [part for arg in args for part in t.walk(arg)]
    parts_of = {part.value for part in parts if isinstance(part, t.Subscript)}
    return any(isinstance(p, t.Name) and p.id == node.value.id and p not in parts_of for p in parts)


def _without_methods(node: t.Node | None, names: frozenset[str]) -> t.Node | None:
    """What these methods are called on, one after the other."""
    while isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in names:
        node = node.func.value
    return node


def _parts(node: t.Expr) -> Iterator[t.Expr]:
    """What an argument hands over: itself, the items that are written out, ``h`` of ``h.to(device)``."""
    part = _without_methods(node, REARRANGING | MOVING_METHODS)
    if isinstance(part, t.Display):
        for item in part.items:
            yield from _parts(item)
    elif isinstance(part, t.Expr):
        yield part


def _taken_apart(node: t.Node | None, body: Sequence[t.Stmt]) -> Iterator[t.Expr]:
    """What a collection is made of, part by part: ``cell(x, state)`` of ``[h * 1.0 for h in new]``, by that name."""
    while isinstance(node, t.Call) and node.name in ("tuple", "list") and len(node.args) == 1:
        node = node.args[0].value
    if isinstance(node, t.Comprehension):
        names = {clause.iterable.id for clause in node.clauses[:1] if isinstance(clause.iterable, t.Name)}
    else:
        items = t.walk(node) if isinstance(node, t.Display) else ()
        names = {n.value.id for n in items if isinstance(n, t.Subscript) and isinstance(n.value, t.Name)}
    assigns = (stmt for stmt in t.walk(body) if isinstance(stmt, t.Assign)) if names else ()
    for stmt in assigns:
        bound = {each.id for target in stmt.targets for each in t.names_in(target) if isinstance(each, t.Name)}
        if names & bound:
            yield stmt.value


_SHORTENS = re.compile(r"\bmaxlen\b|\.(?:pop|popleft|popitem|clear|remove)\(|\bdel\b|\[:\]\s*=")
_COPYING = MOVING_METHODS | {"clone", "detach", "flatten"}


@dataclass(eq=False, repr=False, slots=True)
class Store(Event):
    """A value is put where it may outlive the iteration that made it.

    Args:
        path: what is stored into: ``running``, ``self.history``, ``stats["loss"]``.
        value: what is stored.
        value_site: the stored expression.
        form: how.
        scope: where the target lives.
        parameter: the value came into the callee as an argument, so the call is what the caller can change.
        given_as: the parameter that it came in as, where the call does not write it out: ``feats`` of ``f(**outputs)``.
        among: the arguments that it may have come by, where none of them surely has a graph.
        in_structure: it came in a structure, of which the callee keeps a part.
        goes_on: the callee gives back what it computes of it, or backpropagates that: the call needs it with its graph.
        slot: the key of the collection that gets it, ``split`` of ``seen[split].append(x)``; a word with its quotes,
            or ``keys.TEXT``.
        keys: where its keys are, if those are of the samples of a batch, and a loop goes over both.
        through: the functions that were called to store it, each with its file's text in UTF-8.
        recurs: a callee puts it there, that was given it as it was computed from what is there.
        descends: what is added is a gradient, with a factor: the graph goes on, and gets none of its own.

    Filled in when the function has been read:
        carries_graph: the value carries a graph.
        is_loss: that is all of what backward is called on.
        start: finds the expression that started the graph; asked for only when there is something to report.
        route: the expressions by which the graph came into the value, the value first.
        outlives: the loop whose iterations the value outlives, None if it does not or if it outlives the call.
        outlives_call: it outlives the call itself (an attribute, a global, a closure), and nothing clears it.
        outlives_step: it outlives a step of training around that loop, and no backward of the program asks for it.
        freed: backward frees the stored graph's saved tensors; only its nodes stay.
        used: something may still need the graph (a later backward, or a caller that gets the value).
        waits: whether it is used is for the caller to say: it leaks if the caller evaluates.
        is_returned: its function evaluates, and the caller gets the graph.
        growth: tells how it adds memory besides graphs; it looks into all files, and only a rule asks.
        capped: it is stored only while the collection is short.
        may_be_cut: whether a module whose class only the run knows may detach it (reads other files).
        is_read_again: whether something computes with what is there: a backward may need the graph (reads files).
        newest_needed: a backward goes through the newest of what is there, and nothing reads the rest.
        renewed: what it is stored in, an entry of a collection, is made anew each time.
        fills: it is stored only until a long buffer is full.
        in_ring: its keys go round, in more than a few slots.
        few_keys: it seems to be one for each of some objects that there are, and to take the place of the one before.
        counts_up: its key is another one in each step of a training, and it is put into a dict.
        few_times: a local variable gets no more of them than a setting says, which is small by default.
        is_item: it is stored under a key or an index.
        is_key: it is a key itself.
        is_buffer: it updates a registered buffer of a module.
        gets_graphs: whether the buffer's module may be given what has a graph (reads other files).
        is_of_training: whether a training comes to it each time that it computes gradients (reads files).
        only_best_is_read: whether nothing reads more than the best one, by its number (reads files).
        only_last_is_read: whether nothing reads more than the newest of the list that it is added to (reads files).
        emptied_name: where a method binds its own name for the collection anew, as if that emptied it.
        never_reset: the method of the object that is to empty the list, where nothing calls it (reads other files).
        is_asked_for: a flag has it stored, and every call that sets it so records no graph (reads other files).
        whole_is_kept: it is a view, and those beside it are kept as well, up to the whole of their tensor.
    """

    path: str = ""
    value: Value = field(default_factory=Value)
    value_site: Site | None = None
    form: Form = Form.REBIND
    scope: Scope = Scope.LOCAL
    parameter: bool = False
    given_as: str = "value"
    among: tuple[tuple[Value, Site | None], ...] = ()
    in_structure: bool = False
    goes_on: bool = False
    recurs: bool = False
    descends: bool = False
    key: str | None = None
    slot: str | None = None
    keys: str | None = None
    through: frozenset[tuple[str, bytes]] = frozenset()
    mode: Mode = Mode.INHERITED
    carries_graph: bool = False
    is_loss: bool = False
    start: Callable[[], Site | None] = field(default=lambda: None, repr=False)
    route: tuple[str, ...] = ()
    outlives: Loop | None = None
    outlives_call: bool = False
    outlives_step: bool = False
    freed: bool = False
    retained: bool = False
    used: bool = False
    waits: bool = False
    is_returned: bool = False
    evaluating: bool = False
    bounded_key: bool = False
    in_ring: bool = False
    capped: bool = False
    renewed: bool = False
    fills: bool = False
    may_be_cut: Callable[[], bool] = field(default=lambda: False, repr=False)
    is_read_again: Callable[[], bool] = field(default=lambda: False, repr=False)
    is_asked_for: Callable[[], bool] = field(default=lambda: False, repr=False)
    newest_needed: bool = False
    few_keys: bool = False
    counts_up: bool = False
    few_times: bool = False
    is_item: bool = False
    is_key: bool = False
    growth: Callable[[], Growth] = field(default=no_growth, repr=False)
    is_buffer: bool = False
    gets_graphs: Callable[[], bool] = field(default=surely, repr=False)
    only_last_is_read: Callable[[], bool] = field(default=lambda: False, repr=False)
    only_best_is_read: Callable[[], bool] = field(default=lambda: False, repr=False)
    is_of_training: Callable[[], bool] = field(default=lambda: False, repr=False)
    never_reset: Callable[[], str | None] = field(default=lambda: None, repr=False)
    emptied_name: Callable[[], Site | None] = field(default=lambda: None, repr=False)
    whole_is_kept: bool = False

    @property
    def grows(self) -> Loop | None:
        """The loop in which each iteration adds to what is there."""
        return self.growth().loop

    @property
    def in_step(self) -> bool:
        """Whether it is done once in each step of training, outside of a loop."""
        told = self.growth().in_step
        return told if told is not None else isinstance(self.inner, Store) and self.inner.in_step

    @property
    def for_all_training(self) -> bool:
        """Whether a collection grows from the first step of a training to the last, not in each epoch anew."""
        told = self.growth().for_all_training
        return told if told is not None else isinstance(self.inner, Store) and self.inner.for_all_training

    @property
    def is_average(self) -> bool:
        """Whether it blends a value into a moving average, the statistics of a buffer, or a model's parameters."""
        return self.form is Form.AVERAGE or self.is_buffer or self.path.endswith(PARAMETERS)

    @property
    def is_seen_to_record(self) -> bool:
        """Whether a module's output or a loss went into it, not only something that backward goes over by the way."""
        seen = any(root.source in (Source.GRAPH, Source.LOSS, Source.LEAF) for root in self.value.roots)
        return seen or self.is_loss or LOSS_NAME.search(self.value_code.rsplit(".", 1)[-1]) is not None

    def piles_up(self, *kinds: Held) -> bool:
        """Whether it adds memory of these kinds, beside graphs, to a collection that nothing empties."""
        return bool(self.value.holding(*kinds)) and (self.grows is not None or self.growth().by_call)

    def piles_up_each_step(self, *kinds: Held) -> bool:
        """Whether it does so once in each step of training, for longer than an outer loop that begins anew."""
        if not self.piles_up(*kinds) or (self.inner is not None and self.grows is None):
            return False
        if self.grows is None:
            return self.in_step
        if self.value.holding(*kinds) <= self.grows.parameters:
            return False  # a copy of a list of what there was before the loop
        if self.scope is Scope.LOCAL and (self.grows.over_losses or self.grows.over_networks):
            return False  # as many as the batch has losses, or an ensemble networks, and no longer than this call
        around = self.loop.around() if self.loop is not None else ()
        return self.grows.is_outermost and any(loop.is_step and loop.is_long for loop in around)

    @property
    def where_taken(self) -> Store:
        """The store of the function that took the part of a tensor: a callee, which was given the tensor."""
        store = self
        while isinstance(store.inner, Store) and store.inner.value.holding(Held.VIEW, Held.PART):
            store = store.inner
        return store

    @property
    def view_code(self) -> str:
        """The part of a tensor that is kept, also within what is stored: ``x[k]`` of ``Row(i, x[k])``."""
        if self.is_tensor:
            return self.value_code
        taken = {getattr(held.key, "where", held.key) for held in self.value.holding(Held.VIEW, Held.PART)}
        here = [node for node in t.walk(self.site.chunk.statements) if isinstance(node, t.Subscript) and node in taken]
        return one_line(Site(self.site.chunk, here[0]).code) if len(here) == len(taken) == 1 else self.value_code

    @property
    def has_view_within(self) -> bool:
        """Whether what is stored is no tensor but has a view in it, taken elsewhere: a tuple that a model returns."""
        return self.is_tensor is False and self.view_code == self.value_code

    @property
    def takes_one_item(self) -> bool:
        """Whether it is one item of another, by its number: ``image[0].numpy()``; not of what takes it apart."""
        return all(map(_is_one_item, self._taken))

    @property
    def _taken(self) -> list[object]:
        """The expressions that take a part of something, what is stored or is in it."""
        found = self.value.holding(Held.VIEW, Held.PART)
        return [node_within(getattr(held.key, "where", held.key)) for held in found]

    @property
    def is_picked_from_input(self) -> bool:
        """Whether it is one item, by a number that was looked for, of what a loop that trains runs a module on.

        What there is to choose from has several: ``best = int(losses.argmin())``, ``memory.put(x[best])``.
        """
        around = list(self.loop.around()) if self.loop is not None else []
        runs = [f.site.node for loop in around if loop.trains for f in loop.forwards]
        args = [arg.value for call in runs if isinstance(call, t.Call) for arg in call.args]
        return bool(self._taken) and all(_is_picked_from(node, args) for node in self._taken)

    @property
    def is_part_of_part(self) -> bool:
        """Whether it is a part of what a loop or an assignment took out of an output: ``for y in out: put(y[3])``.

        A model may give a loss with numbers beside it; which is which is nowhere written.
        """
        node = self._stored
        if not isinstance(node, t.Subscript) or not isinstance(node.index, t.Constant):
            return False
        around = self.loop.around() if self.loop is not None else ()
        loops = (loop.site.node for loop in around if not loop.over_loader)
        taken = [loop.target for loop in loops if isinstance(loop, t.Repeat) and loop.target is not None]
        assigns = (each for each in t.walk(self.site.chunk.statements) if isinstance(each, t.Assign))
        taken += [to for each in assigns for to in each.targets if isinstance(to, t.Display)]
        return t.path_of(node.value) in {t.path_of(name) for target in taken for name in t.names_in(target)}

    @property
    def taken_from(self) -> str | None:
        """What the value is a part of, or has in another order or shape: ``losses`` of ``losses[name].view(-1)``."""
        node = _without_methods(self._stored, REARRANGING)
        while isinstance(node, t.Subscript):
            node = _without_methods(node.value, REARRANGING)
        return t.path_of(node) if isinstance(node, t.Expr) else None

    @property
    def _stored(self) -> t.Node | None:
        return self.value_site.node if self.value_site else None

    @property
    def is_kept_as_key(self) -> bool:
        """Whether it is a key of a dict, here or in the function that is called."""
        return isinstance(self.source, Store) and self.source.is_key

    @property
    def is_copied_gradient(self) -> bool:
        """Whether it is a copy of a whole gradient: ``p.grad.clone()``, or the name of one."""
        node, site = self._stored, self.value_site
        made = bound_to(node.id, site.chunk.statements) if isinstance(node, t.Name) and site is not None else [node]
        wholes = [_without_methods(value, _COPYING) for value in made]
        return bool(wholes) and all(isinstance(whole, t.Attribute) and whole.name == "grad" for whole in wholes)

    @property
    def is_trimmed_by_class(self) -> bool:
        """Whether the class around it may shorten some list, or makes short ones, whichever that is."""
        return _SHORTENS.search(self.site.chunk.text) is not None

    @property
    def is_rearranged(self) -> bool:
        """Whether the value is what was there before, in another order or shape: ``states = states[best]``."""
        return self.taken_from == self.path

    @property
    def is_recurrent(self) -> bool:
        """Whether the value is computed by a call that is given what was there before: ``state = cell(x, state)``."""
        source = self.source
        if isinstance(source, Store) and source.recurs:
            return True
        computed = [source.site.node, *_taken_apart(self._stored, source.site.chunk.statements)]
        calls = (node for node in t.walk(computed) if isinstance(node, t.Call))
        path = source.path if isinstance(source, Store) else self.path
        given = (f"{t.path_of(part)}." for call in calls for arg in call.args for part in _parts(arg.value))
        return any(f"{path}.".startswith(whole) for whole in given)

    def _is_state_of(self, loop: Loop) -> bool:
        """Whether it is a local variable that a call takes and gives again, as a rollout does with its state.

        What else the call gives hands the graph to nobody, else it were of use.
        """
        is_local = self.form is Form.REBIND and self.scope is Scope.LOCAL
        is_many = loop.count is None or loop.count >= LONG_LOOP
        return is_local and is_many and self.is_recurrent and not self.is_average and not self.is_rearranged

    @property
    def is_of_itself(self) -> bool:
        """Whether the value is written as a whole, with what was there before: ``mean / steps``, put into ``mean``."""
        return any(t.path_of(node) == self.path for node in t.walk(self._stored) if isinstance(node, t.Expr))

    @property
    def is_of_object(self) -> bool:
        """Whether the object that is called had the graph already, not what it is given."""
        source = self.source
        return self.parameter and isinstance(source, Store) and source.value_site is self.value_site is not None

    @property
    def is_of_leaves(self) -> bool:
        """Whether a graph of it begins at parameters, or at another tensor that requires gradients by itself."""
        return any(root.source is Source.LEAF for root in self.value.roots)

    @property
    def leaks(self) -> bool:
        """The sentence that nearly every rule asks for: a graph outlives the iteration that made it, for nothing."""
        return self.carries_graph and (self.outlives is not None or self.outlives_call) and not self.used

    @property
    def needs_mode(self) -> bool:
        """Whether it leaks only if the caller lets graphs be recorded: nothing here shows that it does."""
        loop = self.outlives
        needed = self.freed or self.retained or (loop is not None and loop.needs_gradients)
        shown = needed and not (loop is not None and loop.turns_mode_on)
        return self.mode is Mode.INHERITED and not shown

    @property
    def place(self) -> str:
        """What is stored into, in words; an attribute whose name only the run knows by its object."""
        if self.path.endswith(PARAMETERS):
            return f"parameters of `{self.path.removesuffix(PARAMETERS)}`"
        path = in_method(self.path)
        base = path.removesuffix(".*")
        return f"`{path}`" if base == path else f"an attribute of `{base}`"

    @property
    def holder(self) -> str:
        """The last identifier stored into: ``history`` of ``self.history``."""
        return attributes_of(self.path)[-1]

    @property
    def value_code(self) -> str:
        return one_line(self.value_site.code) if self.value_site else self.given_as

    @property
    def brings_graph(self) -> bool:
        """Whether it puts what may have a graph somewhere as it is: ``no_grad`` cuts none that is there."""
        return bool(self.value.roots) and self.form in (Form.APPEND, Form.ITEM)

    @property
    def written_code(self) -> str:
        """The same in the words of the function that stores it, whoever calls that."""
        return self.source.value_code if isinstance(self.source, Store) else self.value_code

    @property
    def is_tensor(self) -> bool | None:
        """Whether what is stored is one tensor: certainly, certainly not (a tuple, a dict), or None when not known."""
        node = self.value_site.node if self.value_site else None
        several = (t.Display, t.DictDisplay, t.Comprehension, t.Starred)
        if (
            self.in_structure
            or self.value.parts
            or self.value.kind in (Kind.FUNCTION, Kind.INSTANCE, Kind.CONTAINER)
            or isinstance(node, several)
            or is_of_each(node)
        ):
            return False
        if self.value.kind is Kind.TENSOR or any(r.source is Source.LOSS for r in self.value.roots):
            return True
        return None

    @property
    def may_be_needed(self) -> bool:
        """Whether a backward may still go through what is stored."""
        return self.newest_needed or (not self.freed and not self.evaluating and self.is_read_again())

    @property
    def confidence(self) -> Confidence:
        """High, but for a graph that merely seems to be of no use to anybody."""
        loop = self.outlives
        if loop is not None and (loop.evaluates or self.evaluating) and not loop.trains and loop.may_be_volatile():
            return Confidence.LOW
        if self.few_keys or self.few_times or (loop is not None and loop.is_once_by_default):
            return Confidence.LOW
        if loop is None or self.freed or self.retained or self.evaluating:
            return Confidence.HIGH
        if self.is_average and any(around.trains for around in loop.around()):
            return Confidence.HIGH
        sure = loop.needs_gradients or loop.evaluates or loop.over_loader or self.outlives_step
        return Confidence.HIGH if sure or self._is_state_of(loop) else Confidence.LOW

    @property
    def is_sum(self) -> bool:
        """Whether only things without a graph are added to what it was: ``x = x - rate * grad``."""
        stmt = self.site.node
        if not isinstance(stmt, t.Assign):
            return False
        return saves_nothing(stmt.value, t.path_of(stmt.targets[0]) or self.path, self.value)

    @property
    def keeps(self) -> str:
        """What stays in memory, in words."""
        if self.freed:
            return "the graph's nodes: backward freed the activations that it went through"
        if (
            self.is_buffer and self.outlives_call and not self.retained
        ):  # the model's output is backpropagated elsewhere
            return "the graph's nodes, and the activations that no backward goes through"
        if self.is_sum:
            return "the graph's nodes: a sum saves nothing for backward"
        return "with what each iteration saved for backward"

    def where_stored(self) -> tuple[Related, ...]:
        """The statement that stores it, as a related place, where a callee does, and it is not what is reported."""
        site = self.source.site
        if self.inner is None or site.node is self.site.node:
            return ()
        return (site.related("it is stored here"),)

    def only_named_anew(self) -> tuple[Related, ...]:
        """The statement that was to empty a collection, and only binds a name anew: ``outputs = []``."""
        site = self.emptied_name()
        meant = site.node.targets[0] if site is not None and isinstance(site.node, t.Assign) else None
        name = t.path_of(meant) if meant is not None else None
        if site is None or name is None:
            return ()
        return (site.related(f"this empties nothing, it binds the name `{name}` anew: `{name}.clear()` would"),)

    def origin(self) -> tuple[Related, ...]:
        """Where the graph starts, as a related place; before it the loop that keeps it, where that is elsewhere."""
        site = self.start()
        if site is None:
            return self._loop_of_caller()
        way = ": " + " <- ".join(f"`{code}`" for code in self.route) if len(self.route) > 2 else ""
        return (*self._loop_of_caller(), site.related(f"the graph comes from `{one_line(site.code)}`{way}"))

    def _loop_of_caller(self) -> tuple[Related, ...]:
        """The loop whose iterations it outlives, where a function stores it that is called there."""
        loop = self.outlives
        if self.inner is None or loop is None or any(node is self.site.node for node in loop.nodes):
            return ()
        return (loop.site.related("this loop runs it, and what it stores outlives each iteration"),)
