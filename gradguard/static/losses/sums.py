"""Which variables a sum has in it as terms, followed through names, lists of losses and functions of the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_run

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_KEEPING = frozenset("mean sum squeeze clone to cuda cpu float contiguous view reshape".split())
_JOINING = frozenset("sum mean stack cat fsum".split())
_DEEP = 12
_Place = int
"""Where a node stands in the text of its function: nodes are numbered from the outermost one on."""


class Variable(NamedTuple):
    """A variable as one statement has bound it.

    Args:
        path: its name; ``losses[*]`` for each item of a collection, ``losses[?]`` for one or another.
        bound: the statement; None where nothing in the function binds it before.
        calls: what calls the function that it is in.
    """

    path: str
    bound: t.Node | None
    calls: tuple[t.Call, ...]

    @property
    def is_any(self) -> bool:
        """Whether it stands for items of a collection."""
        return self.path.endswith(("[*]", "[?]"))


Variables = frozenset[Variable]
_NONE: Variables = frozenset()


class _Binding(NamedTuple):
    place: _Place
    path: str
    stmt: t.Stmt
    value: t.Expr | None
    position: int | None
    """Which item of the value it is."""


@dataclass(eq=False, slots=True)
class Scope:
    """A function, as one call runs it.

    Args:
        call: None of the function that is looked at itself.
        given: the arguments, by the names that they have in the function.
    """

    flow: Flow
    call: t.Call | None
    caller: Scope | None
    given: dict[str, t.Expr]
    bindings: list[_Binding]

    @property
    def calls(self) -> tuple[t.Call, ...]:
        around = self.caller.calls if self.caller is not None else ()
        return (*around, self.call) if self.call is not None else around

    def place(self, node: t.Node) -> _Place:
        return _place(node)

    def binding(self, path: str, before: _Place) -> _Binding | None:
        """What bound a path last before a place, in the order of the text; or what it is a part of."""
        found = (each for each in self.bindings if each.place < before and _is_of(path, each.path))
        return max(found, key=lambda each: each.place, default=None)


class At(NamedTuple):
    """An expression where it is written."""

    scope: Scope
    expr: t.Expr
    place: _Place


def scope_of(flow: Flow) -> Scope:
    return Scope(flow, None, None, {}, _bindings(flow))


def called_in(scope: Scope, call: t.Call, ref: FunctionRef) -> Scope | None:
    """The scope of a function of the program that a call in another one runs."""
    flow = scope.flow.project.flow(ref)
    if flow is None or len(scope.calls) >= 3:
        return None
    names = [param.name for param in ref.define.params if not param.star]
    names = names[1:] if ref.owner is not None and names[:1] in (["self"], ["cls"]) else names
    found = ((name, call.argument(name, place)) for place, name in enumerate(names))
    return Scope(flow, call, scope, {name: value for name, value in found if value is not None}, _bindings(flow))


def _bindings(flow: Flow) -> list[_Binding]:
    return [binding for stmt in flow.ref.define.statements for binding in _bound_by(stmt)]


def _place(node: t.Node) -> _Place:
    return cast(int, node.origin)


def _bound_by(stmt: t.Stmt) -> Iterator[_Binding]:
    place = _place(stmt)
    if isinstance(stmt, t.Assign):
        for target, value in t.pairs(stmt.targets, stmt.value):
            several = target.items if isinstance(target, t.Display) else [target]
            for position, each in enumerate(several):
                if (path := path_of(each)) is not None:
                    is_part = isinstance(target, t.Display)
                    yield _Binding(place, path, stmt, value, position if is_part else None)
    elif isinstance(stmt, t.Augment) and (path := path_of(stmt.target)) is not None:
        yield _Binding(place, path, stmt, None, None)
    elif isinstance(stmt, t.Repeat) and stmt.target is not None:
        for name in t.names_in(stmt.target):
            if (path := path_of(name)) is not None:
                yield _Binding(place, path, stmt, None, None)


def path_of(expr: t.Expr) -> str | None:
    """The path of an expression, where each item that is named by a constant has one of its own."""
    if isinstance(expr, t.Name):
        return expr.id
    if isinstance(expr, t.Attribute):
        base = path_of(expr.value)
        return None if base is None else f"{base}.{expr.name}"
    if isinstance(expr, t.Subscript) and isinstance(expr.index, t.Constant):
        base = path_of(expr.value)
        return None if base is None else f"{base}[{expr.index.value!r}]"
    return None


def _is_of(path: str, whole: str) -> bool:
    return path == whole or (path.startswith(whole) and path[len(whole)] in ".[")


def _collection(path: str) -> str | None:
    return path.rsplit("[", 1)[0] if path.endswith("]") else None


# --- the variables that an expression is, whatever their names --------------------------------------------------


def names_of(at: At, depth: int = _DEEP) -> Variables:
    """The variables that a value is, by all the names that it has had: ``recon``, ``scaler.scale(recon)``."""
    scope, expr, place = at
    path = path_of(expr)
    if path is not None:
        item = _looked_up(at)
        found = _names_of_path(scope, path, place, depth)
        found |= names_of(item, depth - 1) if item.expr is not expr else _NONE
        others = _same_item(at) if depth else ()
        return found.union(*(_names_of_path(each, name, where, depth - 1) for each, name, where in others))
    inner = _rescaled(expr) if isinstance(expr, t.Call) else _without_number(expr)
    if inner is not None and isinstance(expr, t.Call) and expr.name in ("mean", "sum") and not _is_loss(inner):
        return _NONE  # a sum of outputs is another one with each weight that it may have
    return names_of(At(scope, inner, place), depth) if inner is not None else _NONE


def _names_of_path(scope: Scope, path: str, place: _Place, depth: int) -> Variables:
    bound = scope.binding(path, place)
    own = frozenset((Variable(path, bound.stmt if bound is not None else None, scope.calls),))
    if not depth:
        return own
    if bound is None:
        given = scope.given.get(path)
        if given is not None and scope.caller is not None and scope.call is not None:
            return own | names_of(At(scope.caller, given, scope.caller.place(scope.call)), depth - 1)
    elif isinstance(bound.stmt, t.Repeat):
        return own | _items_gone_through(scope, bound, path)
    elif bound.path == path:
        own |= _names_of_value(scope, bound, depth)
    collection = _collection(path)
    return own | _of_collection(scope, collection, place, "*") if collection is not None else own


def _names_of_value(scope: Scope, bound: _Binding, depth: int) -> Variables:
    value = _value(scope, bound)
    return names_of(value, depth - 1) if value is not None else _NONE


def _items_gone_through(scope: Scope, bound: _Binding, path: str) -> Variables:
    """The items of what a loop goes over: ``for name, loss in losses.items()``."""
    loop = bound.stmt
    assert isinstance(loop, t.Repeat)
    collection = path_of(_items(loop.iterable)) if loop.iterable is not None else None
    names = [path_of(name) for name in t.names_in(loop.target)] if loop.target is not None else []
    if collection is None or names[-1:] != [path]:
        return _NONE
    return _of_collection(scope, collection, bound.place, "*") | _of_collection(scope, collection, bound.place, "?")


def _of_collection(scope: Scope, path: str, place: _Place, which: str) -> Variables:
    bound = scope.binding(path, place)
    return frozenset((Variable(f"{path}[{which}]", bound.stmt if bound is not None else None, scope.calls),))


def _items(iterable: t.Expr) -> t.Expr:
    """What is gone through: ``losses`` of ``enumerate(losses)``, ``losses.items()``."""
    while isinstance(iterable, t.Call):
        func = iterable.func
        if isinstance(func, t.Attribute) and func.name in ("items", "values") and not iterable.args:
            iterable = func.value
        elif isinstance(func, t.Name) and func.id in ("enumerate", "list", "tuple", "reversed") and iterable.args:
            iterable = iterable.args[0].value
        else:
            break
    return iterable


def _is_loss(expr: t.Expr) -> bool:
    path = path_of(expr)
    return path is not None and k.LOSS_NAME.search(path) is not None


def _without_number(expr: t.Expr) -> t.Expr | None:
    """``loss`` of ``loss / accumulate``, ``0.5 * loss``."""
    if not isinstance(expr, t.Operation) or len(expr.operands) != 2:
        return None
    left, right = expr.operands
    if expr.operator == "/" or (expr.operator == "*" and isinstance(right, t.Constant)):
        return left
    return right if expr.operator == "*" and isinstance(left, t.Constant) else None


def _rescaled(call: t.Call) -> t.Expr | None:
    """``loss`` of ``scaler.scale(loss)``, ``loss.mean()``."""
    func = call.func
    if isinstance(func, t.Attribute) and func.name == "scale" and len(call.args) == 1:
        return call.args[0].value
    if call.name in ("mean", "sum") and len(call.args) == 1 and path_of(func) in ("torch.mean", "torch.sum"):
        return call.args[0].value
    is_method = isinstance(func, t.Attribute) and func.name in _KEEPING and path_of(func.value) != "torch"
    return func.value if is_method and isinstance(func, t.Attribute) and not call.args else None


# --- those that are added up in it ------------------------------------------------------------------------------


def contained(at: At, depth: int = _DEEP) -> Variables:
    """The variables that are in a sum with their gradients, the sum itself and those that are sums among them."""
    scope, expr, place = at
    if not depth:
        return _NONE
    path = path_of(expr)
    if path is not None:
        item = _looked_up(at)
        found = _in_path(scope, path, place, depth)
        found |= contained(item, depth - 1) if item.expr is not expr else _NONE
        return found.union(*(_in_path(each, name, where, depth - 1) for each, name, where in _same_item(at)))
    if isinstance(expr, t.Operation):
        return _NONE.union(*(contained(At(scope, each, place), depth - 1) for each in _added(expr)))
    if isinstance(expr, t.Display):
        return _NONE.union(*(contained(At(scope, each, place), depth - 1) for each in expr.items))
    if isinstance(expr, t.Conditional):
        body, orelse = (contained(At(scope, each, place), depth - 1) for each in (expr.body, expr.orelse))
        return body & orelse
    return _in_call(at, depth) if isinstance(expr, t.Call) else _NONE


def _added(expr: t.Operation) -> list[t.Expr]:
    if len(expr.operands) != 2 or expr.operator not in ("+", "-", "*", "/"):
        return []
    return expr.operands if expr.operator in ("+", "*") else expr.operands[:1]


def _in_path(scope: Scope, path: str, place: _Place, depth: int) -> Variables:
    bound = scope.binding(path, place)
    own = frozenset((Variable(path, bound.stmt if bound is not None else None, scope.calls),))
    collection = _collection(path)
    own |= _of_collection(scope, collection, place, "?") if collection is not None else _NONE
    if bound is None:
        given = scope.given.get(path)
        if given is None or scope.caller is None or scope.call is None:
            return own
        return own | contained(At(scope.caller, given, scope.caller.place(scope.call)), depth - 1)
    if isinstance(bound.stmt, t.Augment):
        return own | _in_augmented(scope, bound, depth)
    if bound.path != path:
        return own
    value = _value(scope, bound)
    return own | contained(value, depth - 1) if value is not None else own


def _in_augmented(scope: Scope, bound: _Binding, depth: int) -> Variables:
    stmt = bound.stmt
    assert isinstance(stmt, t.Augment)
    before = _in_path(scope, bound.path, bound.place, depth - 1)
    return before | contained(At(scope, stmt.value, bound.place), depth - 1) if stmt.operator == "+" else before


def _in_call(at: At, depth: int) -> Variables:
    scope, call, place = at
    assert isinstance(call, t.Call)
    inner = _rescaled(call)
    if inner is not None:
        return contained(At(scope, inner, place), depth - 1)
    if call.name in _JOINING and call.args:
        return _in_all(scope, call.args[0].value, place, depth)
    returned = list(_returned(at))
    return contained(returned[0], depth - 1) if len(returned) == 1 else _NONE


def _in_all(scope: Scope, expr: t.Expr, place: _Place, depth: int) -> Variables:
    """What is in the sum of all items: ``losses``, ``losses.values()``, ``[a, b]``, ``w * l for l in losses``."""
    if isinstance(expr, t.Comprehension) and len(expr.clauses) == 1 and not expr.clauses[0].conditions:
        names = [path_of(name) for name in t.names_in(expr.clauses[0].target)]
        added = [path_of(each) for each in _factors(expr.element)]
        is_each = bool(names) and names[-1] in added
        return _in_all(scope, expr.clauses[0].iterable, place, depth - 1) if is_each else _NONE
    items = _items(expr)
    path = path_of(items)
    if path is None:
        return contained(At(scope, items, place), depth - 1)
    bound = scope.binding(path, place)
    found = _of_collection(scope, path, place, "*") | _of_collection(scope, path, place, "?")
    found |= _NONE.union(*(contained(each, depth - 1) for each in _appended(scope, path, place)))
    value = bound.value if bound is not None and bound.position is None and bound.path == path else None
    displayed: list[t.Expr] = [value] if isinstance(value, t.Display) else []
    if isinstance(value, t.DictDisplay):
        displayed += [item for _, item in value.entries]
    assert bound is not None or not displayed
    return found.union(*(contained(At(scope, each, bound.place), depth - 1) for each in displayed if bound is not None))


def _factors(expr: t.Expr) -> list[t.Expr]:
    is_product = isinstance(expr, t.Operation) and expr.operator == "*"
    return [each for part in expr.operands for each in _factors(part)] if is_product else [expr]  # type: ignore[attr-defined]


def _appended(scope: Scope, path: str, place: _Place) -> Iterator[At]:
    """What is put into a list: ``losses.append(recon)``."""
    for stmt in scope.flow.ref.define.statements:
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) else None
        if not isinstance(call, t.Call) or not isinstance(func, t.Attribute) or len(call.args) != 1:
            continue
        if func.name == "append" and path_of(func.value) == path and (where := scope.place(stmt)) < place:
            yield At(scope, call.args[0].value, where)


# --- its terms, as they are written -----------------------------------------------------------------------------


class Added(NamedTuple):
    """A term of a sum.

    Args:
        at: the term.
        sign: -1 where it is taken away.
        within: the statements that bind the sums in which it is, and the calls that give them, from the outside on.
    """

    at: At
    sign: int = 1
    within: tuple[t.Node, ...] = ()

    def inside(self, at: At | None, *, by: t.Node | None = None, sign: int = 1) -> Added:
        """What is at another place, as a part of this one."""
        return Added(
            at if at is not None else self.at, self.sign * sign, (*self.within, by) if by is not None else self.within
        )


def sums_and_terms(whole: Added, depth: int = _DEEP) -> Iterator[Added]:
    """A sum and its terms, through names, means and functions of the program; those that are sums with theirs."""
    yield whole
    for part in _terms_in(whole) if depth else ():
        yield from sums_and_terms(part, depth - 1)


def _terms_in(whole: Added) -> Iterator[Added]:
    scope, expr, place = whole.at
    if path_of(expr) is not None:
        yield from _terms_of_path(whole)
    elif isinstance(expr, t.Operation):
        yield from (whole.inside(At(scope, each, place), sign=sign) for sign, each in _signed(expr))
    elif isinstance(expr, t.Call):
        inner = _rescaled(expr)
        returned = list(_returned(whole.at)) if inner is None else [At(scope, inner, place)]
        first = expr.args[0].value if expr.args else None
        if len(returned) == 1:
            yield whole.inside(returned[0], by=expr)
        elif path_of(expr.func) == "sum" and isinstance(first, t.Display):
            yield from (whole.inside(At(scope, item, place)) for item in first.items)


def _signed(expr: t.Operation) -> Iterator[tuple[int, t.Expr]]:
    """What is added up in an operation, each with its sign; ``loss`` alone of ``0.5 * loss``, ``weight * loss``."""
    if expr.operator in ("+", "-"):
        yield from t.signed(expr)
    elif expr.operator in ("*", "/") and len(expr.operands) == 2:
        numbers = [each for each in expr.operands if isinstance(without_minus(each)[1], t.Constant)]
        others = [each for each in expr.operands if each not in numbers]
        losses = others if numbers else [each for each in others if _is_loss(without_minus(each)[1])]
        is_divisor = expr.operator == "/" and losses != expr.operands[:1]
        if len(losses) == 1 and not is_divisor:
            rest = next(each for each in expr.operands if each is not losses[0])
            yield without_minus(rest)[0], losses[0]


def without_minus(expr: t.Expr) -> tuple[int, t.Expr]:
    """``x`` of ``-x``, and the sign."""
    is_minus = isinstance(expr, t.Operation) and expr.operator == "-" and len(expr.operands) == 1
    return (-1, expr.operands[0]) if is_minus else (1, expr)  # type: ignore[attr-defined]


def _terms_of_path(whole: Added) -> Iterator[Added]:
    scope, expr, place = whole.at
    path = path_of(expr) or ""
    bound = scope.binding(path, place)
    if bound is None or bound.path != path:
        outer = given_as(whole.at) if bound is None else None
        yield from (whole.inside(outer),) if outer is not None else ()
    elif isinstance(bound.stmt, t.Augment):
        sign = {"+": 1, "-": -1}.get(bound.stmt.operator)
        if sign is not None:
            yield whole.inside(At(scope, bound.stmt.target, bound.place))
            yield whole.inside(At(scope, bound.stmt.value, bound.place), by=bound.stmt, sign=sign)
    elif (value := _value(scope, bound)) is not None:
        yield whole.inside(value, by=bound.stmt)


def given_as(at: At) -> At | None:
    """What a caller gives for a parameter."""
    scope, expr, _ = at
    given = scope.given.get(path_of(expr) or "")
    if given is None or scope.caller is None or scope.call is None:
        return None
    return At(scope.caller, given, scope.caller.place(scope.call))


def bound_at(at: At) -> At | None:
    """What a variable was bound to last, in the order of the text, or what a caller gives for it."""
    scope, expr, place = at
    path = path_of(expr)
    bound = scope.binding(path, place) if path is not None else None
    if bound is None:
        return given_as(at)
    return _value(scope, bound) if bound.path == path and not isinstance(bound.stmt, t.Augment) else None


# --- what a statement binds a variable to -----------------------------------------------------------------------


def _value(scope: Scope, bound: _Binding) -> At | None:
    """What a variable was bound to: of several, the item that it is."""
    if bound.value is None:
        return None
    whole = At(scope, bound.value, bound.place)
    if bound.position is None:
        return _looked_up(whole)
    return next((part for part in _parts(whole, bound.position)), None)


def _looked_up(at: At) -> At:
    """``losses["recon"]`` of a dict that is written out is what stands there."""
    scope, expr, place = at
    if isinstance(expr, t.Subscript) and isinstance(expr.index, t.Constant):
        return next(_parts(At(scope, expr.value, place), expr.index.value), at)
    return at


def _same_item(at: At) -> Iterator[tuple[Scope, str, _Place]]:
    """What an item of a collection is called where that has another name: in the function that has returned it."""
    scope, expr, place = at
    base = path_of(expr.value) if isinstance(expr, t.Subscript) else None
    bound = scope.binding(base, place) if base is not None else None
    if not isinstance(expr, t.Subscript) or not isinstance(expr.index, t.Constant) or bound is None:
        return
    if bound.path == base and bound.value is not None and bound.position is None:
        whole = At(scope, bound.value, bound.place)
        for there in _returned(whole) if isinstance(bound.value, t.Call) else (whole,):
            if (name := path_of(there.expr)) is not None:
                yield there.scope, f"{name}[{expr.index.value!r}]", there.place


def _parts(at: At, key: object, depth: int = _DEEP) -> Iterator[At]:
    """The item under a key of what is written out, here or in the function that gives it."""
    scope, expr, place = at
    if not depth:
        return
    if isinstance(expr, t.Display) and isinstance(key, int) and key < len(expr.items):
        yield At(scope, expr.items[key], place)
    elif isinstance(expr, t.DictDisplay):
        yield from (
            At(scope, v, place) for name, v in expr.entries if isinstance(name, t.Constant) and name.value == key
        )
    elif isinstance(expr, t.Call):
        for returned in _returned(at):
            yield from _parts(returned, key, depth - 1)
    else:
        path = path_of(expr)
        item = f"{path}[{key!r}]"
        bound = scope.binding(item, place) if path is not None else None
        if bound is None or bound.value is None or bound.position is not None:
            return
        if bound.path == item:
            yield At(scope, bound.value, bound.place)
        elif bound.path == path:
            yield from _parts(At(scope, bound.value, bound.place), key, depth - 1)


def _returned(at: At) -> Iterator[At]:
    """What a call of a function of the program gives, where that has one way out."""
    scope, call, _ = at
    assert isinstance(call, t.Call)
    for ref in functions_run(scope.flow, call):
        inner = called_in(scope, call, ref)
        ways = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Return)]
        if inner is not None and len(ways) == 1 and ways[0].value is not None:
            yield At(inner, ways[0].value, inner.place(ways[0]))
