"""Names and values of a function of the project, in terms of one of its callers."""

from __future__ import annotations

from gradguard.static import tree as t
from gradguard.static.flow import Flow
from gradguard.static.model import Scope
from gradguard.static.program.arguments import Arguments
from gradguard.static.program.decorated import global_path
from gradguard.static.program.names import RECORDS, object_path
from gradguard.static.program.paths import is_part
from gradguard.static.reading import unrecorded
from gradguard.static.reading.called import Called
from gradguard.static.reading.lengthened import content
from gradguard.static.reading.places import field_of
from gradguard.static.reading.views import Taken, taken_from
from gradguard.static.values import (
    NONE,
    NOTHING_HELD,
    ON_DEVICE,
    UNKNOWN,
    Held,
    Holding,
    Holdings,
    Kind,
    Part,
    Root,
    Roots,
    Source,
    Value,
    either,
    element,
    is_record,
    viewed,
    whole,
)  # fmt: skip

_MAX_ROOTS = 32
_OF_THE_CALLEE = (Held.CUT, Held.GIVEN, Held.PART, Held.GROWN, Held.UNRECORDED, Held.REBUILT)
_KEPT = (Source.CARRIED, Source.PLACE, Source.PARAM)


class Translation:
    """One call of one function: what its paths and its values are in the caller.

    Args:
        c: the call, in its caller.
        callee: the function called, as it was read.
        given: what the call gives for its parameters.
    """

    def __init__(self, c: Called, callee: Flow, given: Arguments) -> None:
        self.c, self.flow, self.state, self.callee, self.given = c, c.flow, c.state, callee, given

    def path(self, path: str) -> str | None:
        """A path of the callee in the caller's names, None where it has none."""
        head = path.split(".", 1)[0].split("[", 1)[0]
        if head in self.callee.params:
            if path[len(head) : len(head) + 1] == "." and self._is_star(head):  # args.0.curves
                head = ".".join(path.split(".", 2)[:2])
            mapped = self.given.paths.get(head) or self._default(head)
            return None if mapped is None else self._own(object_path(mapped + path[len(head) :]))
        if self.callee.scope(path) is Scope.LOCAL:
            return None
        if path == RECORDS:
            return path  # one for the whole program
        same = self.callee.module is self.flow.module
        is_outer = self.callee.scope(path) is Scope.CLOSURE
        if is_outer and (decorating := global_path(self.callee.ref, path)) is not None:
            return decorating if self.flow.scope(decorating) is Scope.GLOBAL else None
        if is_outer or (same and self.callee.ref.outer is not None):
            return path
        of_class = head in self.callee.module.source.outline.classes
        if not same and self.callee.module.path is not None and ("." not in path or of_class):
            return f"{self.callee.module.path.stem}.{path}"  # a global of another file, or what its class has
        shadowed = self.flow.facts.name != "<module>" and self.flow.scope(path) is not Scope.GLOBAL
        return path if same and not shadowed else None

    def _own(self, path: str) -> str:
        """A path of the caller by what its object has itself, where a part of it has that, too."""
        owner = self.flow.ref.owner if path.startswith("self.") else None
        others = owner.other_paths.items() if owner is not None else ()
        return next((own + path[len(other) :] for other, own in others if is_part(path, other)), path)

    def _is_star(self, name: str) -> bool:
        return any(param.star and param.name == name for param in self.callee.ref.define.params)

    def _default(self, name: str) -> str | None:
        """The path of a mutable default: one object for all calls."""
        if name in self.given.values:
            return None
        default = next((p.default for p in self.callee.ref.define.params if p.name == name), None)
        mutable = isinstance(default, t.Display | t.DictDisplay | t.Comprehension | t.Call)
        return f"{self.callee.facts.name}.{name}" if mutable else None

    def value(self, value: Value) -> Value:
        """A value of the callee in terms of the caller's."""
        given = self.given.values
        if not value.parts and not value.maybe and len(value.roots) == 1:
            (only,) = value.roots
            if only.source is Source.PARAM and only.key in given and value.kind is Kind.UNKNOWN:
                return self._viewed(given[only.base], value)
        roots, spill = self._roots(value.roots)
        maybe, spilled = self._roots(self._possible(value) if value.maybe else NONE)
        parts = tuple((key, self.value(part)) for key, part in value.parts)
        holds = self._holds(value) if value.holds else NOTHING_HELD
        if value.parts:
            computed = {root for _, part in value.parts if part.kind is Kind.TENSOR for root in part.roots}
            holds = either(holds, self._passed(value.roots - computed))
        elif value.kind in (Kind.UNKNOWN, Kind.CONTAINER):
            holds = either(holds, self._passed(value.roots))  # not computed from what came in, but that itself
        must = self._must(value)
        maybe = either(maybe, either(spill, spilled))
        return Value(roots, maybe, must, value.kind, parts, value.ref, value.bounded, holds)

    def _possible(self, value: Value) -> Roots:
        """What a value may have, without an argument of which it has only a part that is known here: ``batch["x"]``."""
        parts = [root for root in value.roots if root.source is Source.PARAM and isinstance(root.key, Part)]
        unknown = {root.base for root in parts if not self._has_part(root)}
        known = {root.base for root in parts} - unknown
        return value.maybe - {Root(Source.PARAM, base) for base in known} if known else value.maybe

    def _has_part(self, root: Root) -> bool:
        """Whether an argument is known part by part, with this one."""
        given = self.given.values.get(root.base, UNKNOWN)
        return isinstance(root.key, Part) and is_record(given) and given.part(root.key.keys[0]) is not None

    def _holds(self, value: Value) -> Holdings:
        own = frozenset(h for h in value.holds if h.held not in _OF_THE_CALLEE)
        given = unrecorded.translated(value, self.outer)
        return self._from(own) | self._given_outputs(value) | self._views(value) | self._grown(value) | given

    def _from(self, holds: Holdings) -> Holdings:
        """What began in the callee, as what began in its call."""
        return frozenset(Holding(held.held, (self.c.node, held.key)) for held in holds)

    def returned(self, value: Value) -> Value:
        """What the callee returns: where it computed that from an argument, it did not know whether that is a leaf."""
        found = self.value(value)
        self._note_ways(value)
        if value.parts:
            parts = tuple((key, self.returned(part)) for key, part in value.parts)
            started = (root for _, part in parts for root in part.roots if root.source is Source.GRAPH)
            return found._replace(parts=parts).with_roots(*started)
        given = (self.outer(root) for root in value.roots if root.source in (Source.PARAM, Source.PLACE))
        if value.kind not in (Kind.TENSOR, Kind.CONTAINER) or not any(map(_is_of_leaf, given)):
            return found
        starts = Root(Source.GRAPH, self.c.node)
        if value.kind is Kind.CONTAINER:  # its tensors may each be computed, or be the argument itself
            return found._replace(maybe=found.maybe | {starts})
        return found.with_roots(starts)

    def _note_ways(self, value: Value) -> None:
        """Note the graphs of arguments that come back on some ways only: ``if self.size == 0: return images``."""
        for root in value.roots - value.must:
            if root.source is Source.PARAM:
                self.flow.on_some_ways.update(
                    outer.key for outer in self.outer(root).roots if outer.source is Source.GRAPH
                )

    def _given_outputs(self, value: Value) -> Holdings:
        """The outputs of modules among the arguments that were cut from their graphs."""
        found: Holdings = NOTHING_HELD
        for held in value.holding(Held.GIVEN):
            outer = self.outer(held.key) if isinstance(held.key, Root) else UNKNOWN
            found |= whole(outer)
        return found

    def _viewed(self, given: Value, value: Value) -> Value:
        """What is given, as it was moved to a device, or as a view of itself, where the callee took a part of it."""
        views, moved = self._views(value), self._from(value.holding(*ON_DEVICE))
        kept = viewed(given).holds | views if views else given.holds
        return given._replace(holds=kept | moved) if views or moved else given

    def _views(self, value: Value) -> Holdings:
        """The storages that small parts of the arguments share."""
        taken = (held.key for held in value.holding(Held.PART))
        found = (taken_from(part, self.outer(part.of), self.c.node) for part in taken if isinstance(part, Taken))
        return frozenset(held for views in found for held in views)

    def _grown(self, value: Value) -> Holdings:
        """What was there before, here, of which something is a longer copy."""
        before = (self.outer(held.key) for held in value.holding(Held.GROWN) if isinstance(held.key, Root))
        return frozenset(Holding(Held.GROWN, root) for outer in before for root in content(outer))

    def _must(self, value: Value) -> Roots:
        """What a value of the callee has on every way, here."""
        must = NONE
        for root in value.must:
            if root.source is Source.PLACE and (path := self.path(str(root.key))) is not None:
                must = either(must, self.flow.read(path, self.state).must)
            elif root.source is Source.PARAM and str(root.key) in self.given.values:
                must = either(must, self.given.values[str(root.key)].must)
        return must

    def _passed(self, roots: Roots) -> Holdings:
        """What the arguments among the roots hold; of what an object has, what lies on a device or in a collection."""
        found: Holdings = NOTHING_HELD
        for root in roots:
            if root.source is Source.PARAM:
                found = either(found, self.outer(root).holds)
            elif root.source is Source.PLACE:
                found = either(found, self.outer(root).holding(*ON_DEVICE) | self._members(root))
        return found

    def _members(self, place: Root) -> Holdings:
        """That a field lives as long as the object that it is a field of, an element of a collection here."""
        path = self.path(place.base)
        owner = path.rpartition(".")[0] if path is not None else ""
        return self.flow.read(owner, self.state).holding(Held.MEMBER) if owner else NOTHING_HELD

    def _roots(self, roots: Roots) -> tuple[Roots, Roots]:
        """Roots of the callee in terms of the caller's: those that are there, and those that may be."""
        found: set[Root] = set()
        maybe: set[Root] = set()
        for root in roots:
            if root.source in (Source.PARAM, Source.PLACE):
                here = self.outer(root)
                found |= here.roots
                maybe |= here.maybe
            elif root.source is not Source.CARRIED:
                mapped = Root(root.source, (self.c.node, root.key))
                found.add(mapped)
                if root.key in self.callee.one_graph:
                    self.flow.saving_inside.add(mapped.key)
                if root in self.callee.proven:
                    self.flow.proven.add(mapped)
        return self._bounded(found), self._bounded(maybe)

    def _bounded(self, roots: set[Root]) -> Roots:
        """Not more roots than can be told apart: deep call graphs would multiply them from level to level.

        What came in by the arguments stays told apart, where that is few enough.
        """
        if len(roots) <= _MAX_ROOTS:
            return frozenset(roots) if roots else NONE
        inner = {r for r in roots if isinstance(r.key, tuple) and not isinstance(r.key, Part) and r.source not in _KEPT}
        own = {r for r in inner if isinstance(r.key, tuple) and r.key[0] is self.c.node}
        own = own if len(roots) - len(own) < _MAX_ROOTS else inner
        return frozenset(roots - own) | frozenset(Root(r.source, (self.c.node, "many")) for r in own)

    def outer(self, root: Root) -> Value:
        """What a PARAM or PLACE root of the callee is here."""
        if root.source is Source.PARAM:
            value = self.given.values.get(root.base, Value())
        else:
            path = self.path(root.base)
            value = self.flow.read(path, self.state) if path is not None else self._field(root.base)
        for key in root.key.keys if isinstance(root.key, Part) else ():
            value = element(value, key)
        return value

    def _field(self, path: str) -> Value:
        """A field of an argument that has no name here: ``loss`` of ``keep(Trial(step, loss))``."""
        head, *fields = path.split(".")
        value = self.given.values.get(head) if "[" not in path else None
        for name in fields:
            value = field_of(value, name)
        return value or Value()


def _is_of_leaf(value: Value) -> bool:
    return any(root.source is Source.LEAF for root in value.roots)


def as_given(value: Value, *keys: object) -> str | None:
    """The parameter that a value of a function is, if nothing was computed from it or put into it.

    Args:
        value: the value, or a part of one.
        keys: which part.
    """
    if value.kind in (Kind.CONTAINER, Kind.UNKNOWN) and value.parts:
        of = {as_given(part, *keys, key) for key, part in value.parts}
        return of.pop() if len(of) == 1 else None
    if value.kind is not Kind.UNKNOWN or value.bounded or len(value.roots) != 1:
        return None
    (root,) = value.roots
    is_it = root.source is Source.PARAM and root.key == (Part(root.base, keys) if keys else root.base)
    return root.base if is_it and value.maybe <= {Root(Source.PARAM, root.base)} else None
