"""The training-loop model: the words in which rules ask about a function.

The flow fills these in; rules only read them. Nothing here imports libcst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradguard.findings import Fix
from gradguard.static import tree as t
from gradguard.static.events import (
    Backward,
    Call,
    CallOfGiven,
    Constant,
    Construction,
    Event,
    Forward,
    GradCall,
    GradientSum,
    GradRead,
    HookRegistration,
    Loop,
    Mode,
    OpaqueCall,
    Step,
    TrainingMode,
    ZeroGrad,
)
from gradguard.static.fixes.line_edits import under
from gradguard.static.knowledge import EVALUATION_FUNCTION
from gradguard.static.mistakes.backward import (
    NoGradient,
)
from gradguard.static.mistakes.kept import (
    CachedCall,
    TensorKey,
)
from gradguard.static.mistakes.optimizers import (
    Replacement,
    SpentIterator,
)
from gradguard.static.source import Site
from gradguard.static.stored import Form, Scope, Store
from gradguard.static.values import Roots, Source, Value

if TYPE_CHECKING:
    from gradguard.static.found.mistakes import Mistakes

__all__ = [
    "Backward",
    "Call",
    "CallOfGiven",
    "Constant",
    "Construction",
    "Event",
    "Form",
    "Forward",
    "Function",
    "GradCall",
    "GradRead",
    "GradientSum",
    "HookRegistration",
    "Loop",
    "Mode",
    "NoGradient",
    "OpaqueCall",
    "Replacement",
    "Scope",
    "Site",
    "SpentIterator",
    "Step",
    "Store",
    "TensorKey",
    "TrainingMode",
    "ZeroGrad",
]


@dataclass(eq=False, repr=False, slots=True)
class Function:
    """A function as the rules see it: what it does to graphs, gradients and memory.

    Args:
        name: its own name; ``<module>`` for a module's statements.
        qualified: with its class: ``Trainer.train_epoch``.
        site: the definition, None for a module.
        loops: every loop in it.
        entry_mode: the gradient mode its decorators and its framework give it.
        gradients_wanted: it asks for gradients of an input.
        torch: the name that the module gives to torch, if it imports it.
        called_without_grad: whether every call of it that can be seen happens under no_grad (reads other files).
        may_be_called_without_grad: whether some call of it may happen under no_grad (reads other files).
        is_left_to_others: whether nobody calls it but, perhaps, the base class of a package that cannot be read, in
            whatever mode (reads other files).
        callers_backpropagate: whether a caller of a function runs a backward over what it returns (reads other files).
        is_handed_over: whether its program names it without calling it: some of its callers are not known (reads other
            files).
        may_reverse: whether something in its program may turn gradients round on their way (reads other files).
        calling: the functions of the program that may call it (reads other files).
        needs_training_mode: whether the module at a path is to train in training mode: it computes something else then,
            and its object has not put it into evaluation mode from the start (reads other files).
        unscales: something in its program divides scaled gradients (reads other files).
        switches_gradients: something in its program freezes parameters, or not, as it is told (reads other files).
        steps_by_scaler: something in its program takes a step that is given the optimizer (reads other files).
        assigns_gradients: its program sets ``x.grad`` to something.
        cached: the decorator that keeps its arguments and results (``functools.lru_cache``).
        cached_by: the statement that does so, where the decorator is one of the program.
        cache_is_bounded: that cache drops old entries.
        cache_is_emptied: something in its program empties caches: ``encode.cache_clear()``.
        caches: where it gives a function a cache without a limit, which nothing empties: the call, and the function.
        tensor_params: the parameters that are tensors by their annotations.
        cached_calls: where it gives a tensor to a function with such a cache.
        is_test: it is a unit test, or a helper of one.
        is_among_tests: its file holds unit tests.
        takes_self: it is bound to an object.
        takes_arguments: it has parameters besides.
        uses_device: its file puts something on a GPU.
        found: what else rules ask about, once it is read; see ``mistakes``.
    """

    name: str
    qualified: str
    site: Site | None
    entry_mode: Mode = Mode.INHERITED
    is_module_method: bool = False
    is_optimizer_method: bool = False
    loops: list[Loop] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    grad_calls: list[GradCall] = field(default_factory=list)
    zero_grads: list[ZeroGrad] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    forwards: list[Forward] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    hooks: list[HookRegistration] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    constructions: list[Construction] = field(default_factory=list)
    calls_of_given: list[CallOfGiven] = field(default_factory=list)
    grad_reads: list[GradRead] = field(default_factory=list)
    gradient_sums: list[GradientSum] = field(default_factory=list)
    opaque_calls: list[OpaqueCall] = field(default_factory=list)
    training_modes: list[TrainingMode] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    returns: Value = field(default_factory=Value)
    gradients_wanted: bool = False
    torch: str | None = None
    is_async: bool = False
    assigns_gradients: bool = False
    is_test: bool = False
    is_among_tests: bool = False
    takes_self: bool = False
    takes_arguments: bool = False
    uses_device: bool = False
    cached: Site | None = None
    cached_by: Site | None = None
    cache_is_bounded: bool = False
    cache_is_emptied: bool = False
    caches: list[tuple[Site, Function]] = field(default_factory=list)
    tensor_params: tuple[str, ...] = ()
    cached_calls: list[CachedCall] = field(default_factory=list)
    called_without_grad: Callable[[], bool] = field(default=lambda: False, repr=False)
    may_be_called_without_grad: Callable[[], bool] = field(default=lambda: False, repr=False)
    is_left_to_others: Callable[[], bool] = field(default=lambda: False, repr=False)
    callers_backpropagate: Callable[[Function], bool] = field(default=lambda _: False, repr=False)
    is_handed_over: Callable[[], bool] = field(default=lambda: False, repr=False)
    unscales: Callable[[], bool] = field(default=lambda: False, repr=False)
    steps_by_scaler: Callable[[], bool] = field(default=lambda: False, repr=False)
    switches_gradients: Callable[[], bool] = field(default=lambda: False, repr=False)
    may_reverse: Callable[[], bool] = field(default=lambda: False, repr=False)
    calling: Callable[[], Iterable[Function]] = field(default=lambda: (), repr=False)
    needs_training_mode: Callable[[str], bool] = field(default=lambda _: False, repr=False)
    # None at first, also for mypyc: it needs the class of a field as this file is imported, which that one imports.
    found: Mistakes | None = field(default=None, repr=False)

    @property
    def mistakes(self) -> Mistakes:
        """What may be wrong in it: questions, each of which is answered when a rule asks it."""
        assert self.found is not None, "the function is still being read"
        return self.found

    @property
    def needs_gradients(self) -> bool:
        """It computes gradients itself, or something in it does."""
        return bool(self.backwards or self.grad_calls or self.gradients_wanted)

    def needs_gradients_around(self, loop: Loop) -> bool:
        """Whether gradients are computed in the loop, in one around it, or wanted of an input anywhere."""
        outermost = loop
        while outermost.parent is not None:
            outermost = outermost.parent
        return self.gradients_wanted or (bool(outermost.backwards or outermost.grad_calls) and not loop.evaluates)

    def backpropagates(self, forward: Forward) -> bool:
        """Whether a backward anywhere in the function goes through a module call."""
        return any(_begins_at(forward, backward.value.reach) for backward in self.backwards)

    def returns_graph_of(self, forward: Forward) -> bool:
        """Whether what a module call records is handed to the caller."""
        return _begins_at(forward, self.returns.reach)

    def gives_to_numpy(self, forward: Forward) -> bool:
        """Whether NumPy gets what comes of a module call as it is: that refuses a graph, so there is none in code that
        runs, whatever this reads like."""
        given = (call for call in self.calls_of("numpy") if call.carries_graph and not call.given and not call.guarded)
        return any(_begins_at(forward, call.of.reach) for call in given)

    def returns_graphs_besides(self, loop: Loop) -> bool:
        """Whether it hands to its caller what a module call outside of a loop records: it trains on another way."""
        return any(self.returns_graph_of(forward) for forward in self.forwards if forward not in loop.forwards)

    @property
    def frees_gradients(self) -> bool:
        """Whether the gradients of a step are tensors of their own: nothing zeroes them in place."""
        return not self.zero_grads or any(z.to_none for z in self.zero_grads)

    def without_grad(self) -> Fix | None:
        """Decorate the function with ``no_grad``, if nothing in it needs gradients and torch has a name here."""
        if self.site is None or self.torch is None or self.is_async or self.needs_gradients or self.steps:
            return None
        decorator = f"{self.torch}.no_grad()"
        indent = self.site.indent
        edit = self.site.insert_before(f"@{decorator}\n{indent}")
        return Fix(f"decorate with `@{decorator}`", (edit,), safe=False)

    def run_without_grad(self, site: Site) -> Fix | None:
        """Put the statement that a node of it is in under ``no_grad``, if torch has a name here."""
        if self.torch is None or self.is_async or self.is_generator:
            return None
        return under(site, f"{self.torch}.no_grad()")

    @property
    def is_generator(self) -> bool:
        """Whether it yields: what it is switched to in between reaches who goes on with it."""
        return self.site is not None and isinstance(self.site.node, t.Define) and self.site.node.is_generator

    def calls_of(self, *names: str) -> Iterator[Call]:
        """The calls of these functions (by dotted name) or methods (by bare name)."""
        return (call for call in self.calls if call.name in names)

    def leaking_stores(self) -> Iterator[Store]:
        """The stores that leak.

        Without those of an evaluation that only runs where no graph is recorded, and what it returns to one who
        backpropagates it, or may: words that a generator in evaluation mode draws, for its critic. Nor those of a
        module that only ever gets data, and what is only kept where a call without a graph asks for it.
        """
        for store in self.stores:
            if not store.leaks or not store.gets_graphs() or (store.needs_mode and self.called_without_grad()):
                continue
            if store.is_asked_for():
                continue
            if not (store.is_returned and (self.callers_backpropagate(self) or self._is_loss_for_others())):
                yield store

    def _is_loss_for_others(self) -> bool:
        """Whether who gets what it returns is not known, and it is not named as an evaluation."""
        return EVALUATION_FUNCTION.search(self.name) is None and self.is_handed_over()


def _begins_at(forward: Forward, roots: Roots) -> bool:
    """Whether one of the roots is what a module call records, here or in the function that is called here."""
    node = forward.site.node
    return any(
        root.source is Source.GRAPH and (root.key[0] if isinstance(root.key, tuple) else root.key) is node
        for root in roots
    )
