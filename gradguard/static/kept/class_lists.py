"""Lists that the body of a class makes, one for all its objects: ``scores = []``. Each new object goes on with it.

Told where a loop that trains makes one object after the other, each of which seems to begin with an empty list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.default_lists import has_tensor, makes_list
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.kept.same_again import ALWAYS, loop_of_same
from gradguard.static.mistakes.kept import ClassList
from gradguard.static.model import Form, Store
from gradguard.static.program.classes import Class
from gradguard.static.program.handed import makers_in
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MAKES_FIELDS = re.compile(r"^(?:pydantic|sqlmodel|msgspec|traitlets|param)\b")
"""What gives each object a list of its own for the one in the body."""


def class_lists(flow: Flow) -> Iterator[ClassList]:
    """The statements of a method that put a tensor into such a list, in a program that makes more and more objects."""
    owner = flow.ref.owner
    if owner is None or flow.facts.is_test:
        return
    for store in filter(_is_of_tensors, flow.facts.stores):
        made = _made_by_class(owner, store.holder)
        if made is None or not is_never_emptied(flow, store.path) or _is_shared_on_purpose(flow, owner, store.holder):
            continue
        call = next(_made_again(flow, owner), None)
        if call is not None:
            yield ClassList(store.site, store.holder, made, call)
            return


def _is_of_tensors(store: Store) -> bool:
    """Whether it makes a list of the object longer; of what has a graph another rule tells."""
    is_own = store.path.startswith("self.") and store.path.count(".") == 1 and store.inner is None
    return is_own and store.form is Form.APPEND and has_tensor(store.value) and not store.carries_graph


def _made_by_class(owner: Class, name: str) -> Site | None:
    """The statement of a class's body that makes the list, where no method binds the attribute."""
    bound = [define.name for cls in owner.lineage() for define, _ in cls.assigned(name)]
    if any(method != "<class>" for method in bound) or any(map(_MAKES_FIELDS.search, owner.external_bases)):
        return None
    for cls in owner.lineage():
        bodies = (stmt for stmt in cls.define.body if isinstance(stmt, t.Assign))
        for stmt in bodies:
            if any(isinstance(target, t.Name) and target.id == name for target in stmt.targets):
                return Site(cls.chunk, stmt) if makes_list(stmt.value) else None
    return None


def _is_shared_on_purpose(flow: Flow, owner: Class, name: str) -> bool:
    """Whether anything asks the class itself for the list: ``Meter.scores``, ``cls.scores``, ``type(self).scores``."""
    classes = "|".join(re.escape(cls.name) for cls in owner.lineage())
    pattern = re.compile(rf"(?:\b(?:{classes}|cls|__class__)|\btype\(\w+\))\.{name}\b")
    return flow.project.survey.mentions(pattern, flow.module, name)


def _made_again(flow: Flow, owner: Class) -> Iterator[Site]:
    """The calls that make an object in each iteration of a loop that trains, or every so many (reads other files)."""
    for cls in _heirs(flow, owner):
        for caller, call in (*_by_name(flow, cls), *_by_registry(cls)):
            if not _is_chosen(caller, call) and loop_of_same(caller, call, (ALWAYS,)) is not None:
                yield caller.site(call)


def _is_chosen(caller: Flow, call: t.Call) -> bool:
    """Whether it is made where there is none: ``metric or Metric()``, ``Metric() if metric is None else metric``."""
    choices = (
        node
        for node in caller.ref.define.nodes
        if isinstance(node, t.Conditional | t.Operation) and (isinstance(node, t.Conditional) or node.operator == "or")
    )
    return any(node is call for choice in choices for node in t.walk(choice))


def _heirs(flow: Flow, owner: Class) -> Iterator[Class]:
    """A class, and those derived from it in its program."""
    derives = re.compile(rf"^class\s[^\n]*\([^)]*\b{re.escape(owner.name)}\b", re.M)
    yield owner
    for module in flow.project.survey.naming(owner.name, flow.module, derives):
        for cls in filter(None, map(module.klass, sorted(module.outline.classes))):
            if cls is not owner and any(each is owner for each in cls.lineage()):
                yield cls


def _by_name(flow: Flow, cls: Class) -> Iterator[tuple[Flow, t.Call]]:
    """The calls of a class, each with the function that has it."""
    for caller in flow.project.calling(flow.ref, cls.name):
        calls = (call for call in caller.ref.calls if call.name == cls.name)
        yield from ((caller, call) for call in calls if caller.module.value_of(call.func).ref is cls)


def _by_registry(cls: Class) -> Iterator[tuple[Flow, t.Call]]:
    """Those of what its file has in a dict of classes, it among them: ``METRICS[name](k)``."""
    for ref in filter(None, map(cls.module.function, cls.module.outline.functions)):
        for call in ref.calls:
            table = call.func.value if isinstance(call.func, t.Subscript) else None
            name = table.id if isinstance(table, t.Name) else ""
            makers = makers_in(cls.module, name) if name in cls.module.outline.variables else iter(())
            caller = cls.module.project.flow(ref) if any(maker is cls for _, maker in makers) else None
            if caller is not None:
                yield caller, call
