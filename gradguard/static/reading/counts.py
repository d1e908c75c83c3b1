"""How often a loop runs, and how much a buffer takes, where the source says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.reading.places import assigned_anywhere

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class

FEW = 9
"""Of a number that is no larger somebody thought when he wrote it: critic steps, restarts, heads."""
_WRAPPERS = ("tqdm", "enumerate")
_OF_RING = re.compile(r"(?:^|[._])(?:max_?)?(?:cap|size|slots)$", re.I)
_OF_TRAINING = re.compile(r"epoch|iter|batch|episode|updates|^(?:n|num|total|max|train)_?steps?$|^steps?$", re.I)


def written(iterable: t.Expr | None) -> int | None:
    """How often ``for i in range(10)`` runs, where that is written as a number."""
    iterable = _unwrapped(iterable)
    name = (t.path_of(iterable.func) or "").rsplit(".", 1)[-1] if isinstance(iterable, t.Call) else ""
    if isinstance(iterable, t.Call) and name == "islice" and len(iterable.args) == 2:
        return _number(iterable.args[1].value)
    if isinstance(iterable, t.Call) and name == "zip":
        counts = [count for arg in iterable.args if (count := written(arg.value)) is not None]
        return min(counts, default=None)
    if isinstance(iterable, t.Call) and name in ("range", "trange") and len(iterable.args) == 1:
        return _number(iterable.args[0].value)
    return len(iterable.items) if isinstance(iterable, t.Display) else None


def holds_in_one(test: t.Expr, loops: Sequence[t.Node]) -> bool:
    """Whether a condition holds in one iteration of all: ``step == 0``, of a counter that nothing sets back.

    Args:
        loops: those that it stands in, the outermost first.
    """
    if isinstance(test, t.Operation) and test.operator == "and":
        return any(holds_in_one(part, loops) for part in test.operands)
    if not isinstance(test, t.Operation) or test.operator != "==" or len(test.operands) != 2:
        return False
    left, right = test.operands if _number(test.operands[1]) is not None else reversed(test.operands)
    counter, inner = t.path_of(left), loops[-1] if loops else None
    if counter is None or _number(right) is None or not isinstance(inner, t.Repeat) or not _counts(inner, counter):
        return False
    begins_anew = len(loops) > 1 and counter in _targets(inner)
    return not begins_anew and not any(_sets(loop, counter, inner) for loop in loops)


def _counts(loop: t.Repeat, counter: str) -> bool:
    """Whether each iteration of a loop has another number: of its target, or of what it adds to."""
    adds = (s for s in loop.body if isinstance(s, t.Augment) and s.operator == "+" and _number(s.value))
    return counter in _targets(loop) or any(t.path_of(s.target) == counter for s in adds)


def _targets(loop: t.Repeat) -> set[str | None]:
    return {t.path_of(name) for name in t.names_in(loop.target)} if loop.target is not None else set()


def _sets(loop: t.Node, counter: str, inner: t.Repeat) -> bool:
    """Whether a loop sets a counter to something else; that ``inner`` goes over it does not count."""
    statements = list(t.walk_statements([loop])) if isinstance(loop, t.Stmt) else []
    assigned = (target for s in statements if isinstance(s, t.Assign) for target in s.targets)
    bound = (s.target for s in statements if isinstance(s, t.Repeat) and s is not inner and s.target is not None)
    return any(t.path_of(name) == counter for target in (*assigned, *bound) for name in t.names_in(target))


def is_few(flow: Flow, iterable: t.Expr | None, *, of_training: bool = True) -> bool:
    """Whether a loop runs a few times by default: ``for _ in range(self.n_critic)``; not one over epochs or steps.

    Args:
        of_training: what is called ``steps`` is those of a training, of which the default says nothing.
    """
    number = _counted(iterable)
    if number is None or (of_training and _OF_TRAINING.search((t.path_of(number) or "").rsplit(".", 1)[-1])):
        return False
    return _is_one(flow, number, FEW)


def is_once_by_default(flow: Flow, iterable: t.Expr | None) -> bool:
    """Whether ``for i in range(self.parts)`` runs once, unless somebody configures another number."""
    number = _counted(iterable)
    return number is not None and _is_one(flow, number)


def is_once(flow: Flow, iterable: t.Expr | None) -> bool:
    """Whether a loop runs once by default, by what callers give for a parameter too.

    Not one over epochs: their number is 1 for a first try only.
    """
    number = _counted(iterable)
    if number is None or "epoch" in (t.path_of(number) or "").rsplit(".", 1)[-1].lower():
        return False
    return _is_one(flow, number) or (isinstance(number, t.Name) and _is_given_one(flow, number.id))


def times(flow: Flow, iterable: t.Expr | None) -> int | None:
    """The same; also of a variable that is bound once: ``epochs = 500``, ``for epoch in range(epochs)``."""
    number = _counted(iterable)
    if not isinstance(number, t.Name):
        return written(iterable)
    bound = assigned_anywhere(flow, number.id)
    return _number(bound[0]) if len(bound) == 1 and number.id not in flow.params else None


def _counted(iterable: t.Expr | None) -> t.Expr | None:
    """``n`` of ``range(n)``."""
    iterable = _unwrapped(iterable)
    if not isinstance(iterable, t.Call) or t.path_of(iterable.func) not in ("range", "trange"):
        return None
    return iterable.args[0].value if len(iterable.args) == 1 else None


def _is_one(flow: Flow, number: t.Expr, most: int = 1) -> bool:
    """Whether a number is 1 by default, or no larger than ``most``."""
    if isinstance(number, t.Name):
        params = (p for p in flow.ref.define.params if p.name == number.id)
        return any(p.default is not None and _is_up_to(p.default, most) for p in params)
    if not isinstance(number, t.Attribute):
        return False
    owner = flow.ref.owner
    if t.path_of(number.value) == "self" and owner is not None:
        assigned = owner.assigned(number.name)
        return len(assigned) == 1 and (
            _is_one_or_default(*assigned[0], most) or _is_made_with(flow, owner, *assigned[0], most)
        )
    return _is_option(flow, number.name, most)


def _is_made_with(flow: Flow, owner: Class, define: t.Define, value: t.Expr, most: int) -> bool:
    """Whether the objects of a class are made with a number no larger than ``most``: ``Sampler(net, steps=4)``."""
    param = next((p for p in define.params if isinstance(value, t.Name) and p.name == value.id), None)
    if param is None or param.default is not None or define.name != "__init__":
        return False
    given = rf"\b{re.escape(owner.name)}\((?:[^()]|\([^()]*\))*\b{re.escape(param.name)}\s*=\s*"
    few, survey, word = rf"[1-{most}]\b(?!\.)", flow.project.survey, f"{owner.name}("
    is_few = survey.mentions(re.compile(given + few), flow.module, word)
    return is_few and not survey.mentions(re.compile(rf"{given}(?!{few})"), flow.module, word)


def _is_option(flow: Flow, name: str, most: int = 1) -> bool:
    """Whether an option, or a field of a class of settings, is 1 by default, and nothing sets it to another number.

    Or no larger than ``most``.
    """
    one = rf"[1-{most}]" if most > 1 else "1"
    survey = flow.project.survey
    is_one = survey.mentions(setting(name, one), flow.module)
    return is_one and not survey.mentions(re.compile(rf"\.{re.escape(name)}\s*=(?!=)\s*(?!{one}\b)"), flow.module)


def setting(name: str, number: str) -> re.Pattern[str]:
    """An option of the command line, or a field of a class of settings, with its default.

    Args:
        number: what that is, as a regular expression.
    """
    word = re.escape(name)
    option = rf"['\"]--{word.replace('_', '[-_]')}['\"][^)]*\bdefault\s*=\s*{number}\b"
    field = rf"^[ \t]+{word}\s*(?::\s*int\s*)?=\s*{number}\s*(?:#.*)?$"
    return re.compile(f"{option}|{field}", re.M)


def _is_given_one(flow: Flow, param: str) -> bool:
    """Whether all callers give 1 for a parameter, or an option that is 1 by default, as far as can be seen."""
    names = [p.name for p in flow.ref.define.params]
    if param not in names:
        return False
    position = names.index(param) - (names[0] in ("self", "cls"))
    given = [call.argument(param, position) for call in _calls(flow)]
    settings = {expr.name for expr in given if isinstance(expr, t.Attribute)}
    numbers = {_number(expr) for expr in given if isinstance(expr, t.Constant)}
    is_known = bool(given) and None not in given and numbers <= {1} and all(_is_option(flow, name) for name in settings)
    others = any(not isinstance(expr, t.Attribute | t.Constant) for expr in given)
    return is_known and (not others or _is_option(flow, param))


def _calls(flow: Flow) -> list[t.Call]:
    """The calls of a function, in the files of its program."""
    callers = flow.project.written_calling(flow.ref)
    nodes = (node for ref in callers for node in ref.define.all(t.Call))
    return [node for node in nodes if (t.path_of(node.func) or "").rsplit(".", 1)[-1] == flow.ref.define.name]


def _is_one_or_default(define: t.Define, value: t.Expr, most: int = 1) -> bool:
    """Whether a constructor's value is 1, or a setting or parameter whose default is: ``config.get("parts", 1)``."""
    if isinstance(value, t.Call) and (t.path_of(value.func) or "").rsplit(".", 1)[-1] in ("get", "getattr", "pop"):
        return bool(value.args) and _is_up_to(value.args[-1].value, most)
    if isinstance(value, t.Name):
        return any(p.name == value.id and p.default is not None and _is_up_to(p.default, most) for p in define.params)
    return _is_up_to(value, most)


def _is_up_to(expr: t.Expr, most: int) -> bool:
    number = _number(expr)
    return number is not None and 1 <= number <= most


def is_long_buffer(flow: Flow, length: t.Expr | None) -> bool:
    """Whether a limit bounds nothing: a replay buffer of 100,000 graphs is full long after the memory is."""
    known = _default(flow, length)
    if isinstance(known, t.Constant):
        return type(known.value) is not int or known.value >= k.LONG_BUFFER
    return known is None or k.LONG_BUFFER_NAME.search(t.path_of(known) or "") is not None


def goes_round(flow: Flow, index: t.Expr) -> bool:
    """Whether an index goes round in a ring of more than a few slots: ``ring[step % 100]``, ``ring[self.head]``."""
    path = t.path_of(index)
    size = index.operands[-1] if isinstance(index, t.Operation) and index.operator == "%" else None
    size = wraps_at(flow, path) if size is None and path is not None else size
    known = _default(flow, size)
    if isinstance(known, t.Constant):
        return type(known.value) is int and known.value > FEW
    name = (t.path_of(known) or "") if known is not None else ""
    return _OF_RING.search(name) is not None or k.LONG_BUFFER_NAME.search(name) is not None


def wraps_at(flow: Flow, index: str) -> t.Expr | None:
    """Where an index begins anew, as it is advanced: ``self.size`` of ``self.at = (self.at + 1) % self.size``."""
    base, _, name = index.rpartition(".")
    if base == "self" and flow.ref.owner is not None:
        given = [value for _, value in flow.ref.owner.assigned(name)]
    else:
        statements = (s for s in flow.ref.define.statements if isinstance(s, t.Assign))
        given = [s.value for s in statements if any(t.path_of(target) == index for target in s.targets)]
    wrapped = (value for value in given if isinstance(value, t.Operation) and value.operator == "%")
    return next((value.operands[-1] for value in wrapped), None)


def _default(flow: Flow, number: t.Expr | None) -> t.Expr | None:
    """What a parameter, or an attribute that the constructor was given, is by default; else the number as written."""
    define, given = flow.ref.define, number
    if isinstance(number, t.Attribute) and t.path_of(number.value) == "self" and flow.ref.owner is not None:
        assigned = flow.ref.owner.assigned(number.name)
        define, given = assigned[0] if len(assigned) == 1 else (define, number)
    if isinstance(given, t.Name):
        param = next((p for p in define.params if p.name == given.id), None)
        given = param.default if param is not None and param.default is not None else number
    return given if isinstance(given, t.Constant) else number


def _unwrapped(iterable: t.Expr | None) -> t.Expr | None:
    while isinstance(iterable, t.Call) and iterable.args and t.path_of(iterable.func) in _WRAPPERS:
        iterable = iterable.args[0].value
    return iterable


def _number(expr: t.Expr) -> int | None:
    return expr.value if isinstance(expr, t.Constant) and type(expr.value) is int else None
