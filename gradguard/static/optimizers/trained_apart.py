"""Parts in a plain list or dict of a module that need no registration: they are trained otherwise, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.values import Kind

_GRADIENTS_OFF = ("no_grad", "inference_mode")
_ONLY_SEES = re.compile(r"init|reset|^print$")
# Those of `nn.init`, a tensor's own in place, and `layer.apply(...)`.
_SETS_VALUES = re.compile(r"[a-z]_$|^apply$|init|reset|^print$")
_SIZE = re.compile(r"(?:features|dims?|sizes?|channels|embeddings|heads|shape)$")
_PARAMETERS = ("parameters", "named_parameters")


def trains_itself(ref: FunctionRef, made: t.Expr) -> bool:
    """Whether what an expression makes has an optimizer of its own: ``Agent(8, 2)``."""
    maker = ref.module.value_of(made.func).ref if isinstance(made, t.Call) else None
    if not isinstance(maker, Class):
        return False
    held = (maker.attribute(name) for name in maker.assigned_names)
    return any(value is not None and value.kind is Kind.OPTIMIZER for value in held)


def is_handed_on(ref: FunctionRef, put: t.Stmt, value: t.Expr) -> bool:
    """Whether a variable that is put into a collection is given to something else, too: ``stack.append(layer)``.

    Or something is given its parameters: ``Adam(layer.parameters())``.
    """
    if not isinstance(value, t.Name):
        return False
    own = set(t.walk(put))
    others = (node for node in ref.define.nodes if node not in own)
    return any(_gives_on(node, value.id) or _asks_for_parameters(node, "", {value.id}) for node in others)


def _gives_on(node: t.Node, name: str) -> bool:
    if isinstance(node, t.Call):
        return _ONLY_SEES.search(node.name) is None and any(
            isinstance(arg.value, t.Name) and arg.value.id == name for arg in node.args
        )
    return isinstance(node, t.Assign) and isinstance(node.value, t.Name) and node.value.id == name


def is_trained_or_frozen(owner: Class, name: str) -> bool:
    """Whether a class hands out the parameters of what is in a collection, or never runs it where a graph is recorded.

    Args:
        owner: the class.
        name: the attribute that is the collection.
    """
    path, runs, unrecorded = f"self.{name}", 0, 0
    for method in (method for cls in owner.lineage() for method in cls.methods.values()):
        elements = set(_named_elements(method.define.nodes, path))
        if any(_asks_for_parameters(node, path, elements) for node in method.define.nodes):
            return True
        run = [node for node in method.define.nodes if _runs(node, path, elements)]
        if run and method.define.name != "__init__":
            unseen = set(cut(method.define))
            runs += len(run)
            unrecorded += sum(node in unseen for node in run)
    return 0 < runs == unrecorded


def _named_elements(nodes: tuple[t.Node, ...], path: str) -> Iterator[str]:
    """The names that loops and comprehensions over a collection give to its elements."""
    for node in nodes:
        if isinstance(node, t.Comprehension):
            bound = [(clause.target, clause.iterable) for clause in node.clauses]
        elif isinstance(node, t.Repeat) and node.target is not None and node.iterable is not None:
            bound = [(node.target, node.iterable)]
        else:
            bound = []
        for target, iterable in bound:
            if any(isinstance(part, t.Attribute) and t.path_of(part) == path for part in t.walk(iterable)):
                yield from (each.id for each in t.names_in(target) if isinstance(each, t.Name))


def is_only_begun(nodes: tuple[t.Node, ...], path: str) -> bool:
    """Whether a constructor only initializes the elements of a collection, or asks for their sizes.

    ``for table in self.tables.values(): nn.init.normal_(table.weight)``.
    """
    elements = set(_named_elements(nodes, path))
    bound = {id(each) for node in nodes for each in _bound_by(node)}
    begun = {id(each) for node in nodes for each in _begun(node)}
    uses = (node for node in nodes if isinstance(node, t.Name) and node.id in elements and id(node) not in bound)
    return all(id(use) in begun for use in uses)


def _bound_by(node: t.Node) -> Iterator[t.Expr]:
    """The names that a loop or a comprehension binds."""
    if isinstance(node, t.Repeat) and node.target is not None:
        yield from t.names_in(node.target)
    elif isinstance(node, t.Comprehension):
        yield from (each for clause in node.clauses for each in t.names_in(clause.target))


def _begun(node: t.Node) -> Iterator[t.Node]:
    """The names in a node of which only the values are set there, or a size is asked."""
    if isinstance(node, t.Attribute) and _SIZE.search(node.name) is not None:
        yield from t.walk(node)
    elif isinstance(node, t.Call) and _SETS_VALUES.search(node.name) is not None:
        yield from t.walk([node.func, *(arg.value for arg in node.args)])


def _is_element(expr: t.Expr, path: str, elements: set[str]) -> bool:
    """Whether an expression is an element, or something in it: ``self.agents[0].actor``."""
    while isinstance(expr, t.Attribute | t.Subscript):
        if isinstance(expr, t.Subscript) and t.path_of(expr.value) == path:
            return True
        expr = expr.value
    return isinstance(expr, t.Name) and expr.id in elements


def _asks_for_parameters(node: t.Node, path: str, elements: set[str]) -> bool:
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in _PARAMETERS and _is_element(func.value, path, elements)


def _runs(node: t.Node, path: str, elements: set[str]) -> bool:
    return isinstance(node, t.Call) and _is_element(node.func, path, elements)


def cut(method: t.Define) -> Iterator[t.Node]:
    """What a method computes without a graph: under ``no_grad``, and what it detaches."""
    if any(map(turns_off, method.decorators)):
        yield from method.nodes
    for node in method.nodes:
        if isinstance(node, t.With) and any(turns_off(item) for item, _ in node.items):
            yield from t.walk(node.body)
        elif isinstance(node, t.Call) and (whole := t.detached(node)) is not None:
            yield from t.walk(whole)
        elif isinstance(node, t.Attribute) and node.name == "data":
            yield from t.walk(node.value)


def turns_off(expr: t.Expr) -> bool:
    """Whether a decorator or a context is ``torch.no_grad()``."""
    func = expr.func if isinstance(expr, t.Call) else expr
    return (t.path_of(func) or "").rpartition(".")[2] in _GRADIENTS_OFF
