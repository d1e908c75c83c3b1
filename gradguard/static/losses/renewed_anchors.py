"""Old log probabilities that each epoch over one batch computes anew, of the policy that the epoch before has stepped.

``old = policy(obs).log_prob(actions)`` under ``no_grad`` in the loop over epochs, and ``(new - old[batch]).exp()`` in
the loop over minibatches. Where the loop also draws the data, that is what it should do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.mistakes.losses import RenewedAnchor
from gradguard.static.model import Mode
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.order import has
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.reading.modes import gradient_context
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SHAPING = frozenset(
    "log_prob log_softmax softmax logsumexp gather sum mean squeeze unsqueeze view reshape flatten exp log "
    "detach clamp clip clone float double half to cpu cuda contiguous transpose permute long entropy stack cat "
    "tensor as_tensor index_select chunk split take_along_dim repeat expand from_numpy size dim type "
    "Categorical Normal Independent".split()
)
_DRAWING = frozenset("sample rsample sample_n randn rand randint randperm multinomial normal bernoulli".split())
_KNOWING = frozenset("len range int float min max enumerate zip list tuple sorted print".split())
_HARMLESS = frozenset("train eval zero_grad backward step items keys values parameters named_parameters".split())
_SAME = k.FLUENT_METHODS | k.CUTS
_FAR = 5


class _Ratio(NamedTuple):
    """``exp(new - old)``, of which something is a multiple."""

    new: t.Expr
    old: t.Expr


class _Epochs(NamedTuple):
    """A loop over one batch, and the loop in it that steps with parts of that."""

    flow: Flow
    outer: t.Repeat
    inner: t.Repeat


def renewed_anchors(flow: Flow) -> Iterator[RenewedAnchor]:
    """What each epoch computes anew, and each of its steps divides by."""
    if flow.facts.is_test:
        return
    for loop in flow.facts.loops:
        around = loop.parent
        if around is None or around.is_once_by_default or around.count == 1 or not loop.is_step:
            continue
        step = next((step for step in loop.steps if step.loop is loop), None)
        if step is None:
            continue
        if isinstance(loop.site.node, t.Repeat) and isinstance(around.site.node, t.Repeat):
            epochs = _Epochs(flow, around.site.node, loop.site.node)
            for ratio in _ratios(epochs):
                stmt = _renewed(epochs, ratio)
                if stmt is not None:
                    yield RenewedAnchor(flow.site(stmt), around.site, flow.site(ratio.new), step.site)
                    return


# --- the ratio ----------------------------------------------------------------------------------------------------


def _ratios(epochs: _Epochs) -> Iterator[_Ratio]:
    """Those that weigh something in the loop that steps, there or in a function that it calls with both."""
    body = epochs.inner.body
    yield from _ratios_in(epochs.flow, body)
    for call in (node for node in t.walk(body) if isinstance(node, t.Call) and node.args):
        for ref in functions_called(epochs.flow, call):
            given = ref.given_by(call)
            for ratio in _ratios_in(epochs.flow, ref.define.body):
                new, old = (given.get(t.path_of(_plain(side)) or "") for side in ratio)
                if new is not None and old is not None:
                    yield _Ratio(new, old)


def _ratios_in(flow: Flow, body: Sequence[t.Stmt]) -> Iterator[_Ratio]:
    silent = {id(node) for stmt in t.walk_statements(body) if _is_silent(flow, stmt) for node in t.walk(stmt)}
    for node in t.walk(list(body)):
        power = _power(node)
        difference = _unshaped(_bound_once(body, _unshaped(power))) if power is not None else None
        if not isinstance(difference, t.Operation) or difference.operator != "-" or len(difference.operands) != 2:
            continue
        if isinstance(node, t.Expr) and id(node) not in silent and _weighs(body, node):
            yield _Ratio(*difference.operands)


def _power(node: t.Node) -> t.Expr | None:
    """``x`` of ``torch.exp(x)``, ``x.exp()``."""
    if not isinstance(node, t.Call) or node.name != "exp":
        return None
    if node.args:
        return node.args[0].value
    return node.func.value if isinstance(node.func, t.Attribute) else None


def _unshaped(expr: t.Expr) -> t.Expr:
    """``new - old`` of ``(new - old).sum(-1)``."""
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in _SHAPING:
        expr = expr.func.value
    return expr


def _weighs(body: Sequence[t.Stmt], ratio: t.Expr) -> bool:
    """Whether something is multiplied by it, by whatever name it has."""
    names = {t.path_of(target) for stmt in t.walk_statements(body) for target in _bound_to(stmt, ratio)} - {None}
    for node in t.walk(list(body)):
        if isinstance(node, t.Operation) and node.operator == "*":
            factors = [part for operand in node.operands for part in _factor(operand)]
            if any(part is ratio or t.path_of(part) in names for part in factors):
                return True
    return False


def _factor(expr: t.Expr) -> Iterator[t.Expr]:
    """A factor, and what it is a bounded version of: ``ratio`` of ``ratio.clamp(0.8, 1.2)``."""
    yield expr
    if isinstance(expr, t.Call) and expr.name in ("clamp", "clip"):
        inner = expr.func.value if isinstance(expr.func, t.Attribute) else None
        yield from (each for each in (inner, *(arg.value for arg in expr.args[:1])) if each is not None)


def _bound_to(stmt: t.Stmt, value: t.Expr) -> list[t.Expr]:
    return stmt.targets if isinstance(stmt, t.Assign) and stmt.value is value else []


# --- what it divides by -------------------------------------------------------------------------------------------


def _renewed(epochs: _Epochs, ratio: _Ratio) -> t.Stmt | None:
    """The statement of the outer loop that computes the old value of the same policy, and of what does not change."""
    flow, outer, inner = epochs
    path = _taken_from(epochs, ratio.old)
    bound = [stmt for stmt in t.walk_statements(outer.body) if path is not None and _binds(stmt, path)]
    made = bound[0] if len(bound) == 1 else None
    if path is None or not isinstance(made, t.Assign) or has(inner.body, made):
        return None
    block = _block_of(flow, outer.body, made, is_off=False)
    is_off = block is not None and block[1]
    is_cut = is_off or _is_cut(made.value) or _is_cut(ratio.old)
    if block is None or not is_cut:
        return None
    parts = _expanded(block[0][: block[0].index(made)], made.value)
    nodes = [node for part in parts for node in t.walk(part)]
    policy = _policy(epochs, nodes, _expanded(inner.body, ratio.new))
    if policy is None:
        return None
    local = {name for part in parts for name in _names_of(block[0], part)}
    return made if _is_of_same(epochs, parts, policy, local) else None


def _names_of(block: Sequence[t.Stmt], value: t.Expr) -> Iterator[str]:
    """The names that a block binds to a value."""
    for stmt in block:
        targets = stmt.targets if isinstance(stmt, t.Assign) and stmt.value is value else []
        yield from (path for target in targets for each in t.names_in(target) if (path := t.path_of(each)) is not None)


def _taken_from(epochs: _Epochs, old: t.Expr) -> str | None:
    """The path of all old values, of which each step takes a part: ``old[batch]``, or an item of what it goes over."""
    expr = _plain(_bound_once(epochs.inner.body, _plain(old)))
    if isinstance(expr, t.Subscript) and not isinstance(expr.index, t.Constant):
        return t.path_of(_plain(expr.value))
    name = t.path_of(expr)
    targets = list(t.names_in(epochs.inner.target)) if epochs.inner.target is not None else []
    places = [place for place, each in enumerate(targets) if name is not None and t.path_of(each) == name]
    given = _gone_through(epochs)
    if len(places) != 1 or len(given) != len(targets):
        return None
    paths = {t.path_of(node) for node in t.walk(given[places[0]]) if isinstance(node, t.Name)} - {"torch"}
    return paths.pop() if len(paths) == 1 else None


def _gone_through(epochs: _Epochs) -> list[t.Expr]:
    """What a loop takes apart: of ``zip(a.split(n), b.split(n))``, of a loader over ``TensorDataset(a, b)``."""
    whole = epochs.inner.iterable
    for _ in range(_FAR):
        whole = _bound_once(epochs.outer.body, whole) if whole is not None else None
        if not isinstance(whole, t.Call) or not whole.args:
            break
        if whole.name in ("zip", "TensorDataset"):
            return [arg.value for arg in whole.args if not arg.star and arg.keyword is None]
        whole = whole.args[0].value
    return []


def _plain(expr: t.Expr) -> t.Expr:
    """``old`` of ``old.detach()``, ``old.to(device)``."""
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in _SAME:
        expr = expr.func.value
    return expr


def _is_cut(expr: t.Expr) -> bool:
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute):
        if expr.func.name == "detach":
            return True
        expr = expr.func.value
    return isinstance(expr, t.Attribute) and expr.name in k.CUTS


def _binds(stmt: t.Stmt, path: str) -> bool:
    if isinstance(stmt, t.Assign):
        return any(t.path_of(each) == path for target in stmt.targets for each in t.names_in(target))
    target = stmt.target if isinstance(stmt, t.Augment | t.Repeat) else None
    return target is not None and any(t.path_of(each) == path for each in t.names_in(target))


def _block_of(flow: Flow, body: list[t.Stmt], made: t.Stmt, *, is_off: bool) -> tuple[list[t.Stmt], bool] | None:
    """The block of a statement that each iteration runs, and whether no graph is recorded there."""
    for stmt in body:
        if stmt is made:
            return body, is_off
        if isinstance(stmt, t.With) and has(stmt.body, made):
            return _block_of(flow, stmt.body, made, is_off=is_off or _is_silent(flow, stmt))
    return None


def _is_silent(flow: Flow, stmt: t.Stmt) -> bool:
    """Whether no graph is recorded in a ``with``."""
    return isinstance(stmt, t.With) and any(gradient_context(flow, expr) is Mode.OFF for expr, _ in stmt.items)


def _bound_once(body: Sequence[t.Stmt], expr: t.Expr) -> t.Expr:
    """What an expression is where its name is bound once in a block, and what is in it."""
    path = t.path_of(expr)
    stmts = [stmt for stmt in t.walk_statements(body) if _binds(stmt, path)] if path is not None else []
    stmt = stmts[0] if len(stmts) == 1 else None
    return stmt.value if isinstance(stmt, t.Assign) and len(list(t.names_in(stmt.targets[0]))) == 1 else expr


def _expanded(before: Sequence[t.Stmt], value: t.Expr) -> list[t.Expr]:
    """An expression, and those that its names are bound to in a block."""
    found, waiting = [value], [value]
    while waiting and len(found) < 4 * _FAR:
        paths = {t.path_of(node) for node in t.walk(waiting.pop()) if isinstance(node, t.Name | t.Attribute)}
        bound = [stmt for stmt in before if isinstance(stmt, t.Assign) and any(_binds(stmt, p) for p in paths if p)]
        new = [stmt.value for stmt in bound if all(stmt.value is not each for each in found)]
        found += new
        waiting += new
    return found


# --- of the same policy, and of the same data ---------------------------------------------------------------------


def _policy(epochs: _Epochs, old: list[t.Node], new: list[t.Expr]) -> str | None:
    """What both call of the same things, and the loop does not bind: ``policy``, ``agent.evaluate``."""
    calls = [node for each in new for node in t.walk(each) if isinstance(node, t.Call)]
    for node in old:
        path = t.path_of(node.func) if isinstance(node, t.Call) else None
        if not isinstance(node, t.Call) or path is None or not node.args or _is_known(epochs, node):
            continue
        head = path.partition(".")[0]
        is_bound = any(_binds(stmt, head) or _binds(stmt, path) for stmt in t.walk_statements([epochs.outer]))
        if not is_bound and any(t.path_of(call.func) == path and _has_same(epochs, node, call) for call in calls):
            return path
    return None


def _is_known(epochs: _Epochs, call: t.Call) -> bool:
    """Whether what is called is of torch, or of Python, or a method that only shapes what it is of."""
    if isinstance(call.func, t.Name) and call.func.id in _KNOWING:
        return True
    is_shaping = isinstance(call.func, t.Attribute) and call.name in _SHAPING
    return is_shaping or epochs.flow.module.value_of(call.func).kind is Kind.EXTERNAL


def _has_same(epochs: _Epochs, old: t.Call, new: t.Call) -> bool:
    """Whether a call is given the same, or parts of it: what the loop that steps has bound, or an item."""
    if len(old.args) != len(new.args):
        return False
    for one, other in zip(old.args, new.args):
        here, there = _base(one.value), _base(other.value)
        if one.keyword != other.keyword or here is None or there is None:
            return False
        if here != there and not any(_binds(stmt, there) for stmt in t.walk_statements([epochs.inner])):
            return False
    return True


def _base(expr: t.Expr) -> str | None:
    """``obs`` of ``obs[batch]``."""
    expr = _plain(expr)
    return _base(expr.value) if isinstance(expr, t.Subscript) else t.path_of(expr)


def _is_of_same(epochs: _Epochs, parts: list[t.Expr], policy: str, local: set[str]) -> bool:
    """Whether an old value is computed of nothing but the policy and what the loop does not change.

    Args:
        local: the names on the way to it, whose values are among the parts.
    """
    calls = [node for part in parts for node in t.walk(part) if isinstance(node, t.Call)]
    if any(call.name in _DRAWING for call in calls):
        return False
    if any(t.path_of(call.func) != policy and not _is_known(epochs, call) for call in calls):
        return False
    data = [path for part in parts for path in _read(part, policy) if path not in local]
    filled = _filled(epochs, local)
    handed = _handed(epochs, policy)
    return not any(_is_changed(path, filled) or any(is_within(path, each) for each in handed) for path in data)


def _read(expr: t.Expr, policy: str) -> Iterator[str]:
    """The paths that an expression reads, as far as they go; not the policy's."""
    waiting: list[t.Node] = [expr]
    while waiting:
        node = waiting.pop()
        path = t.path_of(node) if isinstance(node, t.Expr) and not isinstance(node, t.Call) else None
        if path is not None:
            yield path
        elif isinstance(node, t.Call):
            waiting += [arg.value for arg in node.args]
            is_method = isinstance(node.func, t.Attribute) and t.path_of(node.func) != policy
            waiting += [node.func.value] if is_method and isinstance(node.func, t.Attribute) else []
        else:
            inner = [each for each in t.walk(node) if each is not node and isinstance(each, t.Name | t.Attribute)]
            yield from (path for each in inner if (path := t.path_of(each)) is not None and path != policy)


def _filled(epochs: _Epochs, local: set[str]) -> set[str]:
    """The paths that the outer loop binds, or fills, or hands to a call whose result nothing takes."""
    targets: list[t.Expr] = [epochs.outer.target] if epochs.outer.target is not None else []
    for stmt in t.walk_statements(epochs.outer.body):
        if isinstance(stmt, t.Assign):
            targets += stmt.targets
        elif isinstance(stmt, t.Augment | t.Repeat) and stmt.target is not None:
            targets.append(stmt.target)
        elif isinstance(stmt, t.With):
            targets += [name for _, name in stmt.items if name is not None]
        elif isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) and stmt.value.name not in _HARMLESS:
            targets += [arg.value for arg in stmt.value.args]
            targets += [stmt.value.func.value] if isinstance(stmt.value.func, t.Attribute) else []
    found = {_base(each) for target in targets for each in t.names_in(target)}
    return {path for path in found if path is not None} - local


def _handed(epochs: _Epochs, policy: str) -> set[str]:
    """The objects whose methods the outer loop calls, or that it hands to functions that may change what is in them."""
    found: set[str | None] = set()
    for call in (node for node in t.walk(epochs.outer.body) if isinstance(node, t.Call)):
        if call.name not in _HARMLESS and t.path_of(call.func) != policy and not _is_known(epochs, call):
            found |= {t.path_of(arg.value) for arg in call.args}
            found |= {t.path_of(call.func.value)} if isinstance(call.func, t.Attribute) else set()
    return {path for path in found if path is not None}


def _is_changed(path: str, filled: set[str]) -> bool:
    return any(is_part(path, each) or is_part(each, path) for each in filled)
