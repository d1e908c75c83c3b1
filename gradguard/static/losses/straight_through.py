"""Straight-through estimators whose ``detach`` is missing, so that the tensor cancels out: ``x + (q - x)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.fixes.edits import one_line
from gradguard.static.mistakes.losses import Cancelled
from gradguard.static.model import Mode
from gradguard.static.program.functions_called import functions_run
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 4
_NAMED = (t.Name, t.Attribute, t.Subscript)
_STEPS = frozenset(
    "round round_ floor ceil trunc fix sign sgn heaviside argmax argmin one_hot bernoulli multinomial scatter scatter_ "
    "fake_quantize_per_tensor_affine quantize_per_tensor".split()
)
"""Functions whose derivative is zero, or that give indices."""
_INDICES = frozenset("argmax argmin multinomial searchsorted item".split())
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
_CASTS = frozenset("float to type type_as double half int long".split())
_SAYS_SO = re.compile(
    r"quanti[sz]|binari|ternari|discreti|one_?hot|codebook|rounded|(?:^|_)(?:hard|z_?q|x_?q|w_?q|q_?(?:hat|x|w|z))(?:_|$)",
    re.I,
)
_FOR_THIS = re.compile(r"straight_?through|(?:^|_)ste(?:_|$)", re.I)
_OF_OTHERS = frozenset("np numpy math jnp jax tf pd paddle mindspore mint ops mx".split())
"""Libraries whose arrays have no graph, or whose ``detach`` is another one."""
_OWN_ESTIMATOR = re.compile(r"\bdetach\b|no_grad|\.data\b|\.apply\(|autograd|stop_grad")
_STEPS_IN_CODE = re.compile(rf"\b(?:{'|'.join(sorted(_STEPS))})\(")


class _Term(NamedTuple):
    expr: t.Expr
    is_added: bool


def cancelled(flow: Flow) -> Iterator[Cancelled]:
    """The sums of a function in which a tensor is added and taken away, and what is left has been rounded, or chosen.

    Such a sum is only written for its gradient, which that of a straight-through estimator is not here.
    """
    if not _repeats(flow.ref.define) or flow.facts.is_test or not flow.module.names_torch:
        return
    if flow.facts.entry_mode is Mode.OFF:
        return
    sums = [node for node in _own_nodes(flow.ref.define) if _is_sum(node)]
    seen: set[t.Node] = set()
    for node in sums:
        found = _of_sum(flow, node) if node not in seen else None
        if found is not None:
            seen.update(t.walk(node))
            yield found


def _repeats(define: t.Define) -> bool:
    """Whether anything is taken away, and is in a sum once more: most functions need not be looked at any closer."""
    sums = [node for node in (*define.all(t.Operation), *define.all(t.Call)) if _is_sum(node)]
    taken = {"-" if isinstance(node, t.Operation) else "sub" for node in sums if _operator(node) != "+"}
    operands = (t.detached(operand) or operand for node in sums for operand in _operands(node))
    paths = [path for operand in operands if (path := t.path_of(operand)) is not None]
    return bool(taken) and len(set(paths)) < len(paths)


def _own_nodes(define: t.Define) -> Iterator[t.Expr]:
    """The expressions of a function, without those of functions and classes in it; an outer one before its parts."""
    inner = (node for node in define.nodes if isinstance(node, t.Define | t.DefineClass))
    others = {part for node in inner for part in t.walk(node)}
    return (node for node in define.nodes if isinstance(node, t.Expr) and node not in others)


def _is_sum(node: t.Expr) -> bool:
    if isinstance(node, t.Call):
        return node.name in ("add", "sub") and all(arg.keyword is None and not arg.star for arg in node.args)
    return isinstance(node, t.Operation) and node.operator in ("+", "-")


def _of_sum(flow: Flow, node: t.Expr) -> Cancelled | None:
    terms = list(_terms(flow, node, is_added=True))
    pair = _opposites(flow, terms) or _reversed(flow, terms)
    left = [term for term in terms if not any(term is each for each in pair)]
    if not pair or len(left) != 1 or not left[0].is_added or _is_zero(flow, node):
        return None
    gone, kept = pair[0].expr, left[0].expr
    if not _may_have_graph(flow, gone) or _is_of_other_library(flow, (gone, kept)) or not _has_none(flow, kept):
        return None
    is_reversed = not pair[0].is_added
    difference = _difference(flow, node, gone, kept) if not is_reversed else None
    site = flow.site(difference) if difference is not None else None
    return Cancelled(flow.site(node), flow.site(kept), flow.site(gone), site, is_reversed)


def _terms(flow: Flow, expr: t.Expr, *, is_added: bool) -> Iterator[_Term]:
    """What is added up, as far as that is written: in the sum, or in a difference that has a name."""
    written = _bound_difference(flow, expr) if is_added else None
    whole = expr if written is None else written
    if not _is_sum(whole) or whole in flow.without_graph:
        yield _Term(expr, is_added)
        return
    operands = _operands(whole)
    is_taken = (whole.name == "sub") if isinstance(whole, t.Call) else _operator(whole) == "-"
    for place, operand in enumerate(operands):
        flips = is_taken and (place > 0 or len(operands) == 1)
        yield from _terms(flow, operand, is_added=is_added != flips)


def _operator(expr: t.Expr) -> str:
    return expr.operator if isinstance(expr, t.Operation) else ""


def _operands(whole: t.Expr) -> list[t.Expr]:
    if isinstance(whole, t.Operation):
        return whole.operands
    assert isinstance(whole, t.Call)
    given = [arg.value for arg in whole.args]
    is_method = len(given) == 1 and isinstance(whole.func, t.Attribute)
    return [whole.func.value, *given] if is_method and isinstance(whole.func, t.Attribute) else given


def _bound_difference(flow: Flow, expr: t.Expr) -> t.Expr | None:
    """``q - x`` of ``step``, after ``step = q - x``, where none of the two is bound anew before it is used."""
    bound = flow.ref.assigned.get(expr.id, []) if isinstance(expr, t.Name) else []
    if len(bound) != 1 or _operator(bound[0]) != "-" or not flow.read(flow.canonical(expr.id), flow.final).reach:  # type: ignore[attr-defined]
        return None
    if flow.site(bound[0]).line >= flow.site(expr).line:
        return None
    names = {path for node in t.walk(bound[0]) if isinstance(node, _NAMED) and (path := t.path_of(node))}
    between = range(flow.site(bound[0]).line + 1, flow.site(expr).line)
    return None if any(flow.site(stmt).line in between for stmt in _binding(flow, names)) else bound[0]


def _binding(flow: Flow, names: set[str]) -> Iterator[t.Stmt]:
    """The statements that bind some paths."""
    for stmt in flow.ref.define.statements:
        targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target] if isinstance(stmt, t.Augment) else []
        if any(t.path_of(each) in names for target in targets for each in t.names_in(target)):
            yield stmt


def _opposites(flow: Flow, terms: Sequence[_Term]) -> tuple[_Term, ...]:
    """A tensor that is added and taken away, once each."""
    named = [(_name(flow, term.expr), term) for term in terms if isinstance(term.expr, _NAMED)]
    for name, term in named:
        same = [other for other_name, other in named if other_name == name]
        if len(same) == 2 and term.is_added and same[0].is_added != same[1].is_added:
            return (term, *(other for other in same if other is not term))
    return ()


def _reversed(flow: Flow, terms: Sequence[_Term]) -> tuple[_Term, ...]:
    """A tensor that is taken away with its graph, and then its number that is added: ``hard - x + x.detach()``."""
    for term in terms:
        number = t.detached(term.expr) if term.is_added else None
        taken = [each for each in terms if not each.is_added and isinstance(each.expr, _NAMED)]
        same = [each for each in taken if number is not None and _name(flow, each.expr) == _name(flow, number)]
        if len(same) == 1:
            return (same[0], term)
    return ()


def _is_zero(flow: Flow, whole: t.Expr) -> bool:
    """Whether the tensor is taken from itself as such, for a zero of its shape: ``mask + (x - x)``."""
    parts = (node for node in t.walk(whole) if isinstance(node, t.Operation) and node.operator == "-")
    return any(len({_text(flow, operand) for operand in node.operands}) == 1 < len(node.operands) for node in parts)


def _difference(flow: Flow, whole: t.Expr, gone: t.Expr, kept: t.Expr) -> t.Expr | None:
    """The part of a sum that is the difference of the two, or its name."""
    both = {_text(flow, gone), _text(flow, kept)}
    for node in t.walk(whole):
        written = _bound_difference(flow, node) if isinstance(node, t.Name) else node
        if not isinstance(node, t.Expr) or not isinstance(written, t.Expr) or not _is_difference(written):
            continue
        if {_text(flow, operand) for operand in _operands(written)} == both:
            return node
    return None


def _is_difference(expr: t.Expr) -> bool:
    return _operator(expr) == "-" or (isinstance(expr, t.Call) and expr.name == "sub" and _is_sum(expr))


def _name(flow: Flow, expr: t.Expr) -> str:
    """What a tensor is called; its code is only asked for where it is an element, as LibCST reads the file for that."""
    return t.path_of(expr) or _text(flow, expr)


def _text(flow: Flow, expr: t.Expr) -> str:
    return one_line(flow.site(expr).code, 1000)


def _may_have_graph(flow: Flow, expr: t.Expr) -> bool:
    path = t.path_of(expr)
    value = flow.read(flow.canonical(path), flow.final) if path is not None else None
    return value is not None and value.kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.OUTPUT) and bool(value.reach)


def _is_of_other_library(flow: Flow, exprs: Sequence[t.Expr]) -> bool:
    """Whether something that is no torch makes one of some values."""
    paths = [path for expr in exprs if (path := t.path_of(expr)) is not None]
    values = [*exprs, *(value for path in paths for value in flow.ref.assigned.get(path, []))]
    given = [param.annotation for param in flow.ref.define.params if param.name in paths]
    names = (node.id for node in t.walk([*values, *filter(None, given)]) if isinstance(node, t.Name))
    return not _OF_OTHERS.isdisjoint(names)


def _has_none(flow: Flow, expr: t.Expr) -> bool:
    """Whether what is left surely has been rounded, chosen by an index, or compared: all the rest is no estimator."""
    if _FOR_THIS.search(flow.facts.name) is not None:
        return True
    return not _is_index(flow, expr) and _is_step(flow, expr, _DEPTH)


def _is_index(flow: Flow, expr: t.Expr) -> bool:
    """Whether it is a place in a tensor: what is computed of that is a place, too."""
    path = t.path_of(expr)
    values = [expr, *(flow.ref.assigned.get(path, []) if path is not None else [])]
    return any(isinstance(value, t.Call) and value.name in _INDICES for value in values)


def _is_step(flow: Flow, expr: t.Expr, depth: int) -> bool:
    for node in t.walk(expr):
        if _is_comparison(node):
            return True
        if isinstance(node, t.Call) and (_gives_step(flow, node) or _is_step_of_program(flow, node)):
            return True
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
        bound = flow.ref.assigned.get(path, []) if path is not None and depth else []
        if any(_is_step(flow, value, depth - 1) for value in bound):
            return True
    path = t.path_of(expr)
    return path is not None and _SAYS_SO.search(path.rsplit(".", 1)[-1]) is not None and not _estimates(flow, path)


def _is_comparison(node: t.Node) -> bool:
    """Whether numbers are made of a comparison: ``(x > 0).float()``, ``(x > 0) * 2``, ``torch.where(x > 0, a, b)``."""
    made: list[t.Expr] = []
    if isinstance(node, t.Operation) and node.operator == "*":
        made = node.operands
    elif isinstance(node, t.Call) and node.name == "where":
        made = [arg.value for arg in node.args[:1]]
    elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.name in _CASTS:
        made = [node.func.value]
    return any(isinstance(each, t.Operation) and each.operator in _COMPARISONS for each in made)


def _gives_step(flow: Flow, call: t.Call) -> bool:
    """``x.round()``, ``torch.sign(x)``, and not what NumPy gives."""
    owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    is_other = owner is not None and owner.split(".", 1)[0] in _OF_OTHERS
    return call.name in _STEPS and not is_other and not (isinstance(call.func, t.Name) and call.name == "round")


def _is_step_of_program(flow: Flow, call: t.Call) -> bool:
    """Whether a function of the program rounds what it is given, and no more than that."""
    codes = [Site(ref.chunk, ref.define).code for ref in functions_run(flow, call)]
    return any(_STEPS_IN_CODE.search(code) and not _OWN_ESTIMATOR.search(code) for code in codes)


def _estimates(flow: Flow, path: str) -> bool:
    """Whether what a path is bound to may be an estimator already."""
    nodes = [node for value in flow.ref.assigned.get(path, []) for node in t.walk(value)]
    calls = [node for node in nodes if isinstance(node, t.Call)]
    codes = [Site(ref.chunk, ref.define).code for call in calls for ref in functions_run(flow, call)]
    return any(_OWN_ESTIMATOR.search(code) for code in codes) or any(call.name == "apply" for call in calls)
