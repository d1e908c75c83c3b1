"""Steps that no optimizer takes: ``w -= rate * w.grad``, where the program moves its parameters itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.model import Backward, Loop, ZeroGrad
from gradguard.static.source import Site

_MOVING = ("sub_", "add_", "copy_")
_OF_ALL = ("parameters", "named_parameters")
_HARMLESS = ("clip", "print")
_MODES_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


class StepByHand(NamedTuple):
    """A parameter is moved along its own gradient.

    Args:
        node: the statement.
        parameter: as it is written there.
        holder: the name that lives on from one iteration to the next: the parameter, or what has it.
        module: the module whose parameters are gone over, where they are.
    """

    node: t.Stmt
    parameter: str
    holder: str
    module: str | None

    @property
    def reset(self) -> str:
        """The call that resets its gradient."""
        return f"{self.module}.zero_grad()" if self.module is not None else f"{self.parameter}.grad.zero_()"


def steps_never_reset(loop: Loop, backward: Backward) -> list[StepByHand]:
    """Those in a loop of parameters that are there before it, whose gradients nothing in it resets.

    Args:
        backward: one that is done in each iteration of the loop.
    """
    repeat = loop.site.node
    if not isinstance(repeat, t.Repeat):
        return []
    statements = list(t.walk_statements(repeat.body))
    if any(map(_writes_gradients, statements)):
        return []
    anew = set(loop.targets) | {path for stmt in statements for path in _bound(stmt)}
    given = {path for stmt in statements for path in _given(stmt)}
    found = [s for s in _moved(repeat.body, {}, is_off=False) if site_of(loop, s).line >= backward.site.line]
    found = [s for s in found if not any(_is_reset_of(reset, s) for reset in loop.zero_grads)]
    return [s for s in found if s.holder.split(".")[0] not in anew and {s.holder, s.parameter}.isdisjoint(given | anew)]


def _is_reset_of(reset: ZeroGrad, step: StepByHand) -> bool:
    """Whether a reset may concern the parameter of a step: one by hand, of another leaf, does not."""
    of_another_leaf = reset.target is not None and not reset.to_none and not reset.of_module
    return not of_another_leaf or reset.target == step.parameter


def site_of(loop: Loop, step: StepByHand) -> Site:
    return Site(loop.site.chunk, step.node)


def _moved(body: list[t.Stmt], each: dict[str, t.Expr], *, is_off: bool) -> Iterator[StepByHand]:
    """The steps in a block.

    Args:
        each: the names that loops around it bind, with what these go over.
        is_off: no graph is recorded in it; where one is, a leaf cannot be changed.
    """
    for stmt in body:
        parameter = _parameter_moved_by(stmt, is_off=is_off)
        if parameter is not None:
            gone_over = each.get(parameter.split(".")[0])
            holder = _holder(gone_over) if gone_over is not None else parameter
            if holder is not None:
                yield StepByHand(stmt, parameter, holder, holder if _is_of_all(gone_over) else None)
        inner = dict(each)
        if isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
            names = (path for target in t.names_in(stmt.target) if (path := t.path_of(target)) is not None)
            inner.update(dict.fromkeys(names, stmt.iterable))
        for block in t.blocks(stmt):
            yield from _moved(block, inner, is_off=is_off or _turns_off(stmt))


def _turns_off(stmt: t.Stmt) -> bool:
    """Whether the statement is a ``with torch.no_grad():``."""
    calls = (item for item, _ in stmt.items if isinstance(item, t.Call)) if isinstance(stmt, t.With) else ()
    return any((t.path_of(call.func) or "").rsplit(".", 1)[-1] in _MODES_OFF for call in calls)


def _parameter_moved_by(stmt: t.Stmt, *, is_off: bool) -> str | None:
    """The parameter that a statement moves along its own gradient; None where it does something else."""
    target, value = _changed_by(stmt)
    if isinstance(target, t.Attribute) and target.name == "data":
        target = target.value
    elif isinstance(stmt, t.Assign) or not is_off:
        return None  # w = w - rate * w.grad: another tensor
    path = t.path_of(target) if target is not None else None
    if path is None or "[" in path or not any(_is_gradient_of(path, node) for node in t.walk(value)):
        return None
    return path


def _changed_by(stmt: t.Stmt) -> tuple[t.Expr | None, object]:
    """What a statement changes, and with what."""
    if isinstance(stmt, t.Augment) and stmt.operator in ("-", "+"):
        return stmt.target, stmt.value
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
        return stmt.targets[0], stmt.value
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) and call.func.name in _MOVING:
        return call.func.value, call.args
    return None, None


def _is_gradient_of(path: str, node: t.Node) -> bool:
    return isinstance(node, t.Attribute) and node.name == "grad" and t.path_of(node.value) == path


def _holder(iterable: t.Expr | None) -> str | None:
    """What has the parameters that a loop goes over: ``net`` of ``net.parameters()``, or ``weights``."""
    if isinstance(iterable, t.Call) and isinstance(iterable.func, t.Attribute) and iterable.func.name in _OF_ALL:
        return t.path_of(iterable.func.value)
    if isinstance(iterable, t.Call) and t.path_of(iterable.func) in ("zip", "enumerate", "list") and iterable.args:
        return _holder(iterable.args[0].value)
    if isinstance(iterable, t.Display) and iterable.items:
        return t.path_of(iterable.items[0])
    return t.path_of(iterable) if isinstance(iterable, t.Name | t.Attribute) else None


def _is_of_all(iterable: t.Expr | None) -> bool:
    return any(isinstance(node, t.Attribute) and node.name in _OF_ALL for node in t.walk(iterable))


def _writes_gradients(stmt: t.Stmt) -> bool:
    """Whether a statement writes to some ``.grad`` in a way that may be a reset."""
    targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target] if isinstance(stmt, t.Augment) else []
    return any(isinstance(n, t.Attribute) and n.name == "grad" for target in targets for n in t.walk(target))


def _bound(stmt: t.Stmt) -> Iterator[str]:
    """The paths that a statement binds anew, whole."""
    targets = stmt.targets if isinstance(stmt, t.Assign) else []
    if isinstance(stmt, t.With):
        targets = [name for _, name in stmt.items if name is not None]
    for target in targets:
        paths = (t.path_of(each) for each in t.names_in(target))
        yield from (path for path in paths if path is not None and not path.endswith(".data"))


def _given(stmt: t.Stmt) -> Iterator[str]:
    """The paths that a statement gives to a function whose result it does not use: it may reset them."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if not isinstance(call, t.Call) or any(word in (t.path_of(call.func) or "") for word in _HARMLESS):
        return
    for arg in call.args:
        parts = arg.value.items if isinstance(arg.value, t.Display) else [arg.value]
        yield from (path for part in parts if (path := t.path_of(part)) is not None)
