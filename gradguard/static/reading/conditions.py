"""What a condition says about its two branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.names import named_kind
from gradguard.static.reading.periods import period
from gradguard.static.values import Flag, Kind, Whole, Word


def holds_once(test: t.Expr, targets: frozenset[str]) -> bool:
    """Whether a condition holds in one iteration of a loop over ``targets``: ``epoch == epochs - 1``."""
    if not isinstance(test, t.Operation) or test.operator != "==" or len(test.operands) != 2:
        return False
    left, right = test.operands
    if t.path_of(left) not in targets:
        left, right = right, left
    counts = isinstance(right, t.Operation | t.Name | t.Attribute) and period(right) is None
    return t.path_of(left) in targets and counts


def tensor_test(test: t.Expr) -> tuple[str | None, bool]:
    """The path that a condition tests for being a tensor, and whether the condition holds if it is one."""
    if isinstance(test, t.Operation) and test.operator == "not":
        path, holds = tensor_test(test.operands[0])
        return path, not holds
    if isinstance(test, t.Attribute) and test.name == "requires_grad":
        return t.path_of(test.value), True
    path, classes, holds = _class_test(test)
    if any(name in _TENSORS for name in classes):
        return path, holds
    if classes and all(name in _WITHOUT_GRAPH for name in classes):
        return path, not holds
    if isinstance(test, t.Call) and test.args:
        name = (t.path_of(test.func) or "").rsplit(".", 1)[-1]
        if name == "is_tensor":
            return t.path_of(test.args[0].value), True
        if name == "hasattr" and isinstance(a := test.args[-1].value, t.Constant) and a.value in ("item", "detach"):
            return t.path_of(test.args[0].value), True
    return None, True


_TENSORS = ("Tensor", "Variable")
_WITHOUT_GRAPH = ("Number", "float", "int", "bool", "str", "ndarray")


def _class_test(test: t.Expr) -> tuple[str | None, list[str], bool]:
    """The path whose class a condition asks for, the classes named, and whether it holds if it is of one of them.

    ``isinstance(loss, (Tensor, float))``, ``type(loss) is Tensor``, ``type(loss) not in (int, float)``.
    """
    if isinstance(test, t.Call) and t.path_of(test.func) == "isinstance" and len(test.args) == 2:
        asked, named, holds = test.args[0].value, test.args[1].value, True
    elif isinstance(test, t.Operation) and test.operator in _OF_ONE and len(test.operands) == 2:
        call, named = test.operands
        if not isinstance(call, t.Call) or t.path_of(call.func) != "type" or len(call.args) != 1:
            return None, [], True
        asked, holds = call.args[0].value, _OF_ONE[test.operator]
    else:
        return None, [], True
    classes = named.items if isinstance(named, t.Display) else [named]
    return t.path_of(asked), [(t.path_of(name) or "").rsplit(".", 1)[-1] for name in classes], holds


_OF_ONE = {"is": True, "==": True, "in": True, "is not": False, "!=": False, "not in": False}


def no_tensors(stmt: t.Try, handler: t.Handler) -> set[str]:
    """The paths that are no tensors where a handler runs: ``value.item()`` raised, as a number has no such method.

    Only the first statement is asked: what follows it may raise for another reason.
    """
    caught = handler.type.items if isinstance(handler.type, t.Display) else [handler.type]
    names = {"" if kind is None else (t.path_of(kind) or "?").rsplit(".", 1)[-1] for kind in caught}
    if not names & {"", "AttributeError", "Exception"}:
        return set()
    funcs = (node.func for node in t.walk(stmt.body[:1]) if isinstance(node, t.Call))
    asked = (t.path_of(f.value) for f in funcs if isinstance(f, t.Attribute) and f.name in ("item", "detach"))
    return {path for path in asked if path is not None}


def key_test(test: t.Expr) -> tuple[str | None, str, bool]:
    """The name that a condition compares with a string, the string, and whether it holds if they are equal."""
    if isinstance(test, t.Operation) and test.operator in ("==", "!=", "in", "not in") and len(test.operands) == 2:
        left, right = test.operands
        if test.operator.endswith("in"):
            right = right.items[0] if isinstance(right, t.Display) and len(right.items) == 1 else test
        if isinstance(left, t.Name) and isinstance(right, t.Constant) and isinstance(right.value, str):
            return left.id, right.value, test.operator in ("==", "in")
    return None, "", True


def number_test(test: t.Expr) -> tuple[str | None, int, bool]:
    """The name that a condition compares with a whole number, the number, and whether it holds if they are equal."""
    if isinstance(test, t.Operation) and test.operator in ("==", "!=") and len(test.operands) == 2:
        left, right = test.operands
        if isinstance(left, t.Name) and isinstance(right, t.Constant) and type(right.value) is int:
            return left.id, right.value, test.operator == "=="
    return None, 0, True


class Length(NamedTuple):
    """What a condition says of how long a collection is.

    Args:
        limit: the length that it is compared with; None where its keys limit it.
        is_below: it holds while the collection is shorter.
    """

    path: str
    limit: t.Expr | None = None
    is_below: bool = True


def length_test(test: t.Expr) -> Length | None:
    """The collection whose length a condition asks for: ``len(shown) < 4``, or whose keys: ``x not in cache``."""
    if not isinstance(test, t.Operation):
        return None
    if test.operator == "and":
        found = [length for operand in test.operands if (length := length_test(operand)) is not None]
        return next((length for length in found if length.is_below), found[0] if found else None)
    if test.operator == "not in":
        path = t.path_of(test.operands[1])
        return Length(path) if path is not None else None
    call = test.operands[0]
    if test.operator in _IS_BELOW and isinstance(call, t.Call) and t.path_of(call.func) == "len" and call.args:
        path = t.path_of(call.args[0].value)
        return Length(path, test.operands[1], _IS_BELOW[test.operator]) if path is not None else None
    return None


_IS_BELOW = {"<": True, "<=": True, ">": False, ">=": False, "==": False}


def length_behind(stmt: t.Stmt) -> Length | None:
    """The collection that is still short behind a statement which leaves: ``if len(shown) >= 4: return``."""
    if not isinstance(stmt, t.If) or not isinstance(stmt.test, t.Operation) or stmt.orelse or not t.leaves(stmt.body):
        return None
    tests = stmt.test.operands if stmt.test.operator == "or" else [stmt.test]
    full = (test for test in tests if isinstance(test, t.Operation) and test.operator in _IS_FULL)
    lengths = (length for test in full if not t.is_zero(test.operands[1]) and (length := length_test(test)) is not None)
    return next((length._replace(is_below=True) for length in lengths), None)


_IS_FULL = (">", ">=", "==")


def shape_test(test: t.Expr) -> str | None:
    """The tensor whose number of dimensions a condition asks for: what is done to it then is done once."""
    if not isinstance(test, t.Operation):
        return None
    if test.operator in ("and", "or"):
        return next((path for operand in test.operands if (path := shape_test(operand)) is not None), None)
    asked = test.operands[0]
    if isinstance(asked, t.Call) and t.path_of(asked.func) == "len" and asked.args:
        shape = asked.args[0].value
        shape = shape.func if isinstance(shape, t.Call) else shape
        return t.path_of(shape.value) if isinstance(shape, t.Attribute) and shape.name in ("shape", "size") else None
    asked = asked.func if isinstance(asked, t.Call) else asked
    counts = isinstance(asked, t.Attribute) and asked.name in ("dim", "ndim", "ndimension")
    return t.path_of(asked.value) if counts and isinstance(asked, t.Attribute) else None


def outcome(test: t.Expr, given: Callable[[str], object]) -> bool | None:
    """Whether a condition holds where its outcome is known.

    Args:
        given: what a caller gives for a parameter: a flag, a word, or anything else.
    """
    if isinstance(test, t.Operation) and test.operator in _JOINING:
        decides = test.operator == "or"
        parts = [outcome(operand, given) for operand in test.operands]
        return decides if decides in parts else None if None in parts else not decides
    if isinstance(test, t.Operation) and test.operator == "not":
        holds = outcome(test.operands[0], given)
        return None if holds is None else not holds
    name, holds = tested_flag(test)
    if name is not None:
        return _truth(given(name), holds)
    name, number, equal = number_test(test)
    if name is not None:
        whole = given(name)
        return (whole.number == number) == equal if isinstance(whole, Whole) else None
    word = given(word_asked(test) or "")
    return _of_word(test, word.text) if isinstance(word, Word) else None


def word_asked(test: t.Expr) -> str | None:
    """The name of whose text a condition asks: ``mode == "val"``, ``mode in ("val", "test")``, ``"val" in mode``."""
    if isinstance(test, t.Call) and isinstance(test.func, t.Attribute) and test.func.name in ("startswith", "endswith"):
        return t.path_of(test.func.value) if len(_words(test.args[0].value if test.args else None)) == 1 else None
    if not isinstance(test, t.Operation) or test.operator not in _OF_WORDS or len(test.operands) != 2:
        return None
    left, right = test.operands
    asked, words = (right, left) if _is_part_asked(test) else (left, right)
    return t.path_of(asked) if isinstance(asked, t.Name | t.Attribute) and _words(words) else None


def _is_part_asked(test: t.Operation) -> bool:
    """Whether a condition asks for a part of a text: ``"val" in mode``."""
    return isinstance(test.operands[-1], t.Name | t.Attribute) and test.operator.endswith("in")


def _of_word(test: t.Expr, word: str) -> bool | None:
    """Whether a condition that asks for a text holds for it."""
    if isinstance(test, t.Call) and isinstance(test.func, t.Attribute):
        (part,) = _words(test.args[0].value)
        return word.startswith(part) if test.func.name == "startswith" else word.endswith(part)
    assert isinstance(test, t.Operation)
    left, right = test.operands
    holds = all(part in word for part in _words(left)) if _is_part_asked(test) else word in _words(right)
    return holds == (test.operator in ("==", "in"))


def _words(expr: t.Expr | None) -> tuple[str, ...]:
    """The strings that are written in a condition: one, or several in a collection; none where it is something else."""
    items = expr.items if isinstance(expr, t.Display) else [expr]
    words = [item.value for item in items if isinstance(item, t.Constant) and isinstance(item.value, str)]
    return tuple(words) if len(words) == len(items) else ()


_OF_WORDS = ("==", "!=", "in", "not in")


_JOINING = ("and", "or")


def _truth(given: object, holds: bool) -> bool | None:
    """Whether a flag, or a number taken for one, is what a condition asks for."""
    if isinstance(given, Flag):
        return given.holds == holds
    return bool(given.number) == holds if isinstance(given, Whole) else None


def tested_flag(test: t.Expr) -> tuple[str | None, bool]:
    """The name whose truth a condition asks for, and whether it holds if that is true.

    An optimizer is there, or it is None: ``if optimizer is not None`` is such a condition.
    """
    if isinstance(test, t.Operation) and test.operator == "not":
        name, holds = tested_flag(test.operands[0])
        return name, not holds
    if isinstance(test, t.Operation) and test.operator in ("is", "is not") and len(test.operands) == 2:
        asked, none = test.operands
        is_none = isinstance(none, t.Constant) and none.value is None
        if is_none and isinstance(asked, t.Name) and named_kind(asked.id) is Kind.OPTIMIZER:
            return asked.id, test.operator == "is not"
    return (t.path_of(test), True) if isinstance(test, t.Name | t.Attribute) else (None, True)


def tested_names(define: t.Define) -> frozenset[str]:
    """The names whose truth, or whose text, decides what a function does."""
    tests = [stmt.test for stmt in define.all(t.If)]
    tests += [each.test for each in define.all(t.Conditional)]
    calls_made = define.all(t.Call)
    tests += [flag for call in calls_made for word in _OF_GRAPHS if (flag := call.argument(word))]
    tests += [flag for call in calls_made if _sets_mode(call) and (flag := call.argument("mode", 0))]
    found = {
        tested_flag(part)[0] or number_test(part)[0] or word_asked(part) for test in tests for part in _parts(test)
    }
    found |= {t.path_of(asked) for asked in _asked_for(define)}
    named = (c.args[1].value for c in calls_made if len(c.args) > 1 and t.path_of(c.func) == "getattr")
    return frozenset(name for name in (*found, *map(t.path_of, named)) if name is not None)


_OF_GRAPHS = ("create_graph", "no_grad")
"""What other functions are told of graphs."""


def _asked_for(define: t.Define) -> Iterator[t.Expr]:
    """What tells whether gradients are asked for: ``p.requires_grad = learns``, ``p.requires_grad_(learns)``."""
    for stmt in define.all(t.Assign):
        if any(_ends(target, "requires_grad") for target in stmt.targets):
            yield stmt.value
    for call in define.all(t.Call):
        if _ends(call.func, "requires_grad_"):
            yield from (arg.value for arg in call.args)


def _ends(expr: t.Expr, name: str) -> bool:
    return isinstance(expr, t.Attribute) and expr.name == name


def _sets_mode(call: t.Call) -> bool:
    """``torch.set_grad_enabled(train)``: what it is given decides how all that follows runs."""
    return (t.path_of(call.func) or "").rsplit(".", 1)[-1] == "set_grad_enabled"


def keeping_names(define: t.Define) -> frozenset[str]:
    """The names whose truth decides whether a function keeps something in an object: ``if infer: self.cache = out``."""
    ways = (stmt for stmt in define.statements if isinstance(stmt, t.If))
    tests = [stmt.test for stmt in ways if any(map(_keeps, t.walk_statements([*stmt.body, *stmt.orelse])))]
    names = (tested_flag(part)[0] for test in tests for part in _parts(test))
    return frozenset(name for name in names if name is not None)


def _keeps(stmt: t.Stmt) -> bool:
    """Whether a statement binds an attribute, or puts something into a collection that is one: ``self.seen[k] = x``."""
    if isinstance(stmt, t.Assign):
        return any(isinstance(_without_keys(target), t.Attribute) for target in stmt.targets)
    if isinstance(stmt, t.Augment):
        return isinstance(_without_keys(stmt.target), t.Attribute)
    func = stmt.value.func if isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) else None
    adds = isinstance(func, t.Attribute) and func.name in k.ADDING_METHODS
    return adds and isinstance(func, t.Attribute) and isinstance(_without_keys(func.value), t.Attribute)


def _without_keys(expr: t.Expr) -> t.Expr:
    """``self.seen`` of ``self.seen[kind][name]``."""
    while isinstance(expr, t.Subscript):
        expr = expr.value
    return expr


def _parts(test: t.Expr) -> list[t.Expr]:
    """The conditions that one is joined of: ``stage == 1 or stage == 2``."""
    if isinstance(test, t.Operation) and (test.operator in _JOINING or test.operator == "not"):
        return [part for operand in test.operands for part in _parts(operand)]
    return [test]


def is_flag(test: t.Expr) -> bool:
    """Whether a condition is a mode that the caller chooses: ``train``, ``not self.training``."""
    if isinstance(test, t.Operation) and test.operator == "not":
        return is_flag(test.operands[0])
    return isinstance(test, t.Name | t.Attribute)
