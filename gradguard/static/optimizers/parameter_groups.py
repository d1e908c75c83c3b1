"""The modules behind lists of parameters and of groups, however a function puts these together.

``[{"params": block.parameters(), "lr": rate} for block, rate in zip([net.head, net.body], rates)]``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef

_OF_MODULE = frozenset("parameters named_parameters".split())
_PARTS = frozenset("children named_children modules named_modules".split())
_OF_DICT = frozenset("values items".split())
_GOING_OVER = frozenset("list tuple iter set sorted reversed".split())
_JOINING = _GOING_OVER | frozenset(("chain", "filter", "from_iterable"))
_EMPTY = frozenset("list dict OrderedDict".split())
_ADDING = frozenset("append extend add".split())
_HOLDING = frozenset("ModuleList Sequential ModuleDict".split())
_DEEPEST = 12
_MOST_CALLS = 3


def modules_behind(ref: FunctionRef, expr: t.Expr) -> list[str | None]:
    """The modules whose parameters an expression has, by the paths of its function; None for whatever else it has.

    A part that only a name or a number tells, as one of ``net.children()``, counts as the whole.
    """
    return _found(_Search(ref, 0), [expr])


def modules_given_by(helper: FunctionRef, call: t.Call, depth: int = 0) -> list[str | None]:
    """The same of what a call gives, ``layer_groups(self.net, 1e-3)``, by the paths of its function."""
    heads = {name: t.path_of(given) for name, given in helper.given_by(call).items() if name not in helper.assigned}
    if helper.owner is not None and isinstance(call.func, t.Attribute):
        heads["self"] = t.path_of(call.func.value)
    inside = _found(_Search(helper, depth), values_given(helper))
    parted = (path.partition(".") if path is not None else ("", "", "") for path in inside)
    return [of + dot + rest if (of := heads.get(head)) is not None else None for head, dot, rest in parted]


def values_given(ref: FunctionRef) -> list[t.Expr]:
    """What a function returns, or yields one by one."""
    given = (node.value for node in ref.define.nodes if isinstance(node, t.Return | t.Suspend))
    return [value for value in given if value is not None]


def _found(search: _Search, values: list[t.Expr]) -> list[str | None]:
    return list(dict.fromkeys(path for value in values for path in search.parameters(value, 0))) or [None]


class _Search:
    """A search in one function.

    Args:
        calls: how many functions are around it.
    """

    def __init__(self, ref: FunctionRef, calls: int) -> None:
        self.ref, self.calls = ref, calls
        self.params = {param.name for param in ref.define.params}
        self.seen: set[tuple[str, bool]] = set()

    def parameters(self, expr: t.Expr, depth: int) -> Iterator[str | None]:
        """The modules that own the parameters in a list, in a group, or in a list of these."""
        if depth > _DEEPEST:
            yield None
        elif isinstance(expr, t.Name):
            yield from self._collected(expr, depth)
        elif isinstance(expr, t.Call):
            yield from self._called(expr, depth)
        elif isinstance(expr, t.Display | t.Operation | t.Starred | t.Conditional | t.DictDisplay):
            for part in _parameter_parts(expr):
                yield from self.parameters(part, depth + 1)
        elif isinstance(expr, t.Comprehension):
            yield from self.parameters(expr.element, depth + 1)
        elif isinstance(expr, t.Attribute) and depth > 0:
            yield from self._parameter(expr, depth)
        else:
            yield None  # a list that somebody else has

    def _parameter(self, expr: t.Attribute, depth: int) -> Iterator[str | None]:
        """What one parameter belongs to, ``net.weight``; by another path where it has one, ``self.bias = net.bias``."""
        path = t.path_of(expr)
        bound = self.ref.assigned.get(path or "", [])
        for value in bound:
            yield from [path] if _makes(value) else self.parameters(value, depth + 1)
        if not bound:
            yield path if path is not None and "[" not in path else None

    def _called(self, call: t.Call, depth: int) -> Iterator[str | None]:
        owner = call.func.value if isinstance(call.func, t.Attribute) else None
        if call.name == "defaultdict" or (call.name in _EMPTY and not call.args):
            return  # to be filled
        if call.name in _OF_MODULE and owner is not None:
            yield from self.modules(owner, depth + 1)
        elif call.name in _OF_DICT and owner is not None and not call.args:
            yield from self.parameters(owner, depth + 1)
        elif call.name == "dict" and (group := call.argument("params")) is not None:
            yield from self.parameters(group, depth + 1)
        elif call.name in _JOINING and call.args:
            for arg in call.args[1:] if call.name == "filter" else call.args:
                yield from self.parameters(arg.value, depth + 1)
        else:
            helper = self.ref.callee(call) if self.calls < _MOST_CALLS else None
            for path in modules_given_by(helper, call, self.calls + 1) if helper is not None else [None]:
                yield from self.modules(_expression(path), depth + 1) if path is not None else [None]

    def _collected(self, name: t.Name, depth: int) -> Iterator[str | None]:
        """What a variable has: an element of what a loop goes over, or all that is put into it."""
        if (name.id, True) in self.seen:
            return
        self.seen.add((name.id, True))
        loops = list(self._loops_over(name.id))
        for iterable, _ in loops:
            yield from self.parameters(iterable, depth + 1)
        put = [*self.ref.assigned.get(name.id, []), *_put_into(self.ref, name.id)]
        for value in put:
            yield from self.parameters(value, depth + 1)
        if (not put and not loops) or name.id in self.params:
            yield None

    def modules(self, expr: t.Expr, depth: int) -> Iterator[str | None]:
        """The modules that an expression is, or is a part of."""
        if depth > _DEEPEST:
            yield None
        elif isinstance(expr, t.Name):
            yield from self._module_named(expr, depth)
        elif isinstance(expr, t.Attribute):
            for owner in self.modules(expr.value, depth + 1):
                yield f"{owner}.{expr.name}" if owner is not None else None
        elif isinstance(expr, t.Subscript):
            yield from self.modules(expr.value, depth + 1)
        elif isinstance(expr, t.Conditional):
            yield from self.modules(expr.body, depth + 1)
            yield from self.modules(expr.orelse, depth + 1)
        elif isinstance(expr, t.Call) and expr.name == "getattr" and expr.args:
            yield from self.modules(expr.args[0].value, depth + 1)
        elif isinstance(expr, t.Call) and expr.name == "get_submodule" and isinstance(expr.func, t.Attribute):
            yield from self.modules(expr.func.value, depth + 1)
        elif isinstance(expr, t.Call) and expr.name in _HOLDING and expr.args:
            for arg in expr.args:
                yield from self._elements(arg.value, None, depth + 1)
        else:
            yield None

    def _module_named(self, name: t.Name, depth: int) -> Iterator[str | None]:
        loops, bound = list(self._loops_over(name.id)), self.ref.assigned.get(name.id, [])
        if not loops and (not bound or name.id in self.params):
            yield name.id if not bound else None
            return
        if (name.id, False) in self.seen:
            return
        self.seen.add((name.id, False))
        for iterable, place in loops:
            yield from self._elements(iterable, place, depth + 1)
        for value in bound:
            path = t.path_of(value)
            yield from self.modules(value, depth + 1) if path is not None or not _makes(value) else [name.id]

    def _elements(self, iterable: t.Expr, place: int | None, depth: int) -> Iterator[str | None]:
        """The modules that a loop takes one by one.

        Args:
            place: which part of each element it is, where the loop takes that apart.
        """
        if depth > _DEEPEST:
            yield None
        elif isinstance(iterable, t.Display):
            for item in iterable.items:
                yield from self._element(item, place, depth)
        elif isinstance(iterable, t.DictDisplay):
            for key, value in iterable.entries:
                yield from self.modules(value, depth + 1) if key is not None else [None]
        elif isinstance(iterable, t.Comprehension):
            yield from self._element(iterable.element, place, depth)
        elif isinstance(iterable, t.Operation) and iterable.operator == "+":
            for operand in iterable.operands:
                yield from self._elements(operand, place, depth + 1)
        elif isinstance(iterable, t.Call):
            yield from self._elements_of_call(iterable, place, depth)
        elif isinstance(iterable, t.Name) and (put := self._put(iterable.id)):
            for value in put:
                yield from self._elements(value, place, depth + 1)
        else:
            yield from self.modules(iterable, depth + 1)

    def _element(self, item: t.Expr, place: int | None, depth: int) -> Iterator[str | None]:
        if isinstance(item, t.Starred):
            yield from self._elements(item.value, place, depth + 1)
        elif isinstance(item, t.Display) and place is not None and place < len(item.items):
            yield from self.modules(item.items[place], depth + 1)
        else:
            yield from self.modules(item, depth + 1)

    def _put(self, name: str) -> list[t.Expr]:
        """What a list of the function is made of: each a list itself."""
        if name in self.params or (name, False) in self.seen:
            return []
        self.seen.add((name, False))
        added = _put_into(self.ref, name)
        return [*self.ref.assigned.get(name, []), *(t.Display(None, "list", [value]) for value in added)]

    def _elements_of_call(self, call: t.Call, place: int | None, depth: int) -> Iterator[str | None]:
        owner = call.func.value if isinstance(call.func, t.Attribute) else None
        given = [arg.value for arg in call.args]
        if call.name in _PARTS and owner is not None:
            yield from self.modules(owner, depth + 1)
        elif call.name in _OF_DICT and owner is not None:
            yield from self._elements(owner, None, depth + 1)
        elif call.name in _GOING_OVER and given:
            yield from self._elements(given[0], place, depth + 1)
        elif call.name == "enumerate" and given:
            yield from self._elements(given[0], None, depth + 1)
        elif call.name == "zip" and place is not None and place < len(given):
            yield from self._elements(given[place], None, depth + 1)
        else:
            yield None

    def _loops_over(self, name: str) -> Iterator[tuple[t.Expr, int | None]]:
        """What the loops and the comprehensions go over that bind a name, and which part of each element it is."""
        for node in self.ref.define.nodes:
            if isinstance(node, t.Repeat) and node.target is not None and node.iterable is not None:
                yield from _taken(node.target, node.iterable, name)
            elif isinstance(node, t.Comprehension):
                for clause in node.clauses:
                    yield from _taken(clause.target, clause.iterable, name)


def _taken(target: t.Expr, iterable: t.Expr, name: str) -> Iterator[tuple[t.Expr, int | None]]:
    """``net.blocks`` and None of ``for i, block in enumerate(net.blocks)``; nested targets as deep as they go."""
    if isinstance(target, t.Name):
        yield from ((iterable, None),) if target.id == name else ()
        return
    items = target.items if isinstance(target, t.Display) else []
    for place, item in enumerate(items):
        if isinstance(item, t.Display) and isinstance(iterable, t.Call) and iterable.name == "enumerate":
            yield from _taken(item, iterable.args[0].value, name) if iterable.args else ()
        elif isinstance(item, t.Name) and item.id == name:
            yield iterable, place


def _parameter_parts(expr: t.Expr) -> list[t.Expr]:
    if isinstance(expr, t.Display):
        return expr.items
    if isinstance(expr, t.Operation):
        return expr.operands
    if isinstance(expr, t.Conditional):
        return [expr.body, expr.orelse]
    if isinstance(expr, t.DictDisplay):
        groups = [value for key, value in expr.entries if isinstance(key, t.Constant) and key.value == "params"]
        return groups or [value for _, value in expr.entries]
    return [expr.value] if isinstance(expr, t.Starred) else []


def _put_into(ref: FunctionRef, name: str) -> list[t.Expr]:
    """What is put into a collection, or into one that it has: ``groups[rate]["params"].append(p)``."""
    found: list[t.Expr] = []
    for node in ref.define.nodes:
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(node, t.Call) and isinstance(func, t.Attribute) and func.name in _ADDING:
            found += [arg.value for arg in node.args] if name in _receivers(func.value) else []
        elif isinstance(node, t.Augment) and t.path_of(node.target) == name:
            found.append(node.value)
        elif isinstance(node, t.Assign):
            keyed = [target for target in node.targets if isinstance(target, t.Subscript)]
            found += [node.value for target in keyed if name in _receivers(target)]
    return found


def _receivers(expr: t.Expr) -> set[str]:
    """The variables in which something is added: ``a`` and ``b`` of ``(a if slow else b)``, ``g`` of ``g[0]["x"]``."""
    if isinstance(expr, t.Conditional):
        return _receivers(expr.body) | _receivers(expr.orelse)
    while isinstance(expr, t.Subscript | t.Call):
        func = expr.func if isinstance(expr, t.Call) else None
        if isinstance(func, t.Attribute) and func.name == "setdefault":
            expr = func.value
        elif isinstance(expr, t.Subscript):
            expr = expr.value
        else:
            return set()
    return {expr.id} if isinstance(expr, t.Name) else set()


def _expression(path: str) -> t.Expr:
    """The expression that a path is written as."""
    head, *rest = path.split(".")
    found: t.Expr = t.Name(None, head)
    for name in rest:
        found = t.Attribute(None, found, name)
    return found


def _makes(value: t.Expr) -> bool:
    """Whether a variable is bound to a module that is made there, and no part of another one."""
    return isinstance(value, t.Call) and value.name not in ("getattr", "get_submodule")
