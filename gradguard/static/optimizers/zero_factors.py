"""Pairs of parameters that both begin at zero, and that are only multiplied with each other: neither has a gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import ZeroFactors
from gradguard.static.optimizers.unregistered import is_of_torch
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.classes import Class

_LAYERS = re.compile(r"torch\.nn\.(?:Linear|Conv\dd)$")
_KEEPS_ZERO = re.compile(r"torch\.nn\.(?:Dropout\w*|Identity|ReLU|LeakyReLU|GELU|SiLU|Tanh|ELU)$")
_ZERO_FUNCTIONS = frozenset("relu tanh gelu silu leaky_relu elu dropout".split())
_PRODUCTS = frozenset("matmul mm bmm mul multiply linear einsum conv1d conv2d".split())
_SHAPES = frozenset(
    "t transpose view reshape unsqueeze squeeze permute contiguous flatten to type_as type float half expand".split()
)
_VIEWS = ("T", "mT", "data")
_NO_VALUES = frozenset("shape dtype device size numel dim ndim requires_grad is_cuda".split())
_OF_ALL = frozenset("parameters named_parameters modules named_modules apply children named_children".split())
_INIT_BY_OTHERS = re.compile(r"\.apply\(\s*[\w.]*init|isinstance\([^\n]*(?:Linear|Conv)|def _?init_weights")
_LOADS = re.compile(r"\bload_state_dict\(|\bfrom_pretrained\(|\bload_weights\(")


def zero_factors(flow: Flow) -> Iterator[ZeroFactors]:
    """The pairs that a constructor, or what it calls, sets to zero (reads other files)."""
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or flow.facts.is_test or not is_of_torch(owner):
        return
    starting = _starting(owner)
    if not any(each.define is ref.define for each in starting):
        return
    zeros = {path: node for path, node in _zeros(ref).items() if not _is_set_with_others(starting, path)}
    zeros = {path: node for path, node in zeros.items() if _stays_zero(owner, starting, path)}
    if _are_set_later(ref, starting, zeros):
        return
    for one, other in combinations(zeros, 2):
        product = _only_product(owner, starting, one, other)
        if product is None or not _is_one_way(ref, zeros[one], zeros[other]):
            continue
        if any(_is_set_elsewhere(flow, path) for path in (one, other)):
            continue
        maker, node = product
        is_sure = not (_is_made(zeros[one]) and _is_made(zeros[other])) or not flow.project.survey.mentions(
            _LOADS, flow.module
        )
        first, second = flow.site(zeros[one]), flow.site(zeros[other])
        flow_of = flow.project.flow(maker)
        if flow_of is not None:
            yield ZeroFactors(first, second, one, other, flow_of.site(node), is_sure)


def _are_set_later(ref: FunctionRef, starting: list[FunctionRef], zeros: dict[str, t.Stmt]) -> bool:
    """Whether parameters that are made of zeros are all set to zero by another method, which is told of instead."""
    others = [set(_zeros(each)) for each in starting if each.define is not ref.define]
    return bool(zeros) and all(map(_is_made, zeros.values())) and any(zeros.keys() <= other for other in others)


def _starting(owner: Class) -> list[FunctionRef]:
    """The constructor, and the methods that it comes to call."""
    waiting, found = ["__init__"], list[FunctionRef]()
    while waiting:
        name = waiting.pop()
        ref = owner.method(name)
        if ref is not None and all(each.define is not ref.define for each in found):
            found.append(ref)
            waiting += sorted(ref.own_calls)
    return found


def _is_set_with_others(starting: list[FunctionRef], path: str) -> bool:
    """Whether a constructor may set whatever there is: ``for p in self.parameters(): nn.init.normal_(p)``.

    What it does to another module, as that which it is given (``base.parameters()``), sets none of its own.
    """
    return any(_may_have(ref, call, path) for ref in starting for call in ref.calls if call.name in _OF_ALL)


def _may_have(ref: FunctionRef, call: t.Call, path: str) -> bool:
    of = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
    if of is None or of == "self":
        return True
    is_given = any(param.name == of for param in ref.define.params) and of not in ref.assigned
    is_other = of.startswith("self.") and not is_part(of, path) and not is_part(path, of)
    return not (is_given or is_other)


def _zeros(ref: FunctionRef) -> dict[str, t.Stmt]:
    """What a function sets to zero, each with the statement that does: ``self.a``, ``self.up.weight``."""
    found: dict[str, t.Stmt] = {}
    for stmt in sorted(ref.define.statements, key=lambda stmt: _place(ref, stmt)):
        for path in _set_to_zero(ref, stmt):
            found.setdefault(path, stmt)
    return found


def _place(ref: FunctionRef, stmt: t.Stmt) -> int:
    return next(place for place, each in enumerate(_in_order(ref.define.body)) if each is stmt)


def _in_order(body: list[t.Stmt]) -> Iterator[t.Stmt]:
    for stmt in body:
        yield stmt
        for block in t.blocks(stmt):
            yield from _in_order(block)


def _set_to_zero(ref: FunctionRef, stmt: t.Stmt) -> tuple[str, ...]:
    """The paths of the parameters that a statement sets to zero, or makes of zeros."""
    if isinstance(stmt, t.Repeat):
        return tuple(_all_set_to_zero(stmt))
    if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
        path = t.path_of(stmt.targets[0])
        return (path,) if path is not None and path.startswith("self.") and _is_of_zeros(stmt.value) else ()
    zeroed = _zeroed(stmt)
    parameter = _parameter(zeroed) if zeroed is not None else None
    return (parameter,) if parameter is not None else ()


def _all_set_to_zero(loop: t.Repeat) -> Iterator[str]:
    """Those of a loop that does nothing else: ``for layer in (self.down, self.up): nn.init.zeros_(layer.weight)``."""
    zeroed = _zeroed(loop.body[0]) if len(loop.body) == 1 else None
    path = (t.path_of(zeroed) or "").removesuffix(".data") if zeroed is not None else ""
    head, _, rest = path.partition(".")
    if isinstance(loop.target, t.Name) and loop.target.id == head and isinstance(loop.iterable, t.Display):
        for each in filter(None, map(_parameter, loop.iterable.items)):
            yield f"{each}.{rest}" if rest else each


def _zeroed(stmt: t.Stmt) -> t.Expr | None:
    """What a statement fills with zeros."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if not isinstance(call, t.Call) or not isinstance(call.func, t.Attribute):
        return None
    if call.name == "zeros_" and call.args:
        return call.args[0].value
    if call.name == "constant_" and len(call.args) > 1:
        return call.args[0].value if t.is_zero(call.args[1].value) else None
    is_filled = call.name == "fill_" and bool(call.args) and t.is_zero(call.args[0].value)
    return call.func.value if call.name == "zero_" or is_filled else None


def _parameter(expr: t.Expr) -> str | None:
    path = (t.path_of(expr) or "").removesuffix(".data")
    return path if path.startswith("self.") else None


def _is_of_zeros(value: t.Expr) -> bool:
    """``nn.Parameter(torch.zeros(8, 2))``."""
    made = value.args[0].value if isinstance(value, t.Call) and value.name == "Parameter" and value.args else None
    is_trained = isinstance(value, t.Call) and value.argument("requires_grad", 1) is None
    return is_trained and isinstance(made, t.Call) and made.name in ("zeros", "zeros_like", "new_zeros")


def _is_made(stmt: t.Stmt) -> bool:
    return isinstance(stmt, t.Assign)


def _stays_zero(owner: Class, starting: list[FunctionRef], path: str) -> bool:
    """Whether a path is a parameter, or the weight of a layer without bias, and its class never sets it otherwise."""
    name, _, rest = path.removeprefix("self.").partition(".")
    made = [value for cls in owner.lineage() for _, value in cls.assigned(name)]
    if len(made) != 1 or rest not in ("", "weight"):
        return False
    if not (_is_bare_layer(owner, made[0]) if rest else isinstance(made[0], t.Call) and made[0].name == "Parameter"):
        return False
    for cls in owner.lineage():
        for ref in cls.methods.values():
            is_start = any(each.define is ref.define for each in starting)
            for stmt in ref.define.statements:
                if _changes(stmt, path) and not (is_start and path in _set_to_zero(ref, stmt)):
                    return _is_parameter_made(stmt) and _changes_only_there(owner, stmt, path)
    return True


def _is_parameter_made(stmt: t.Stmt) -> bool:
    """``self.a = nn.Parameter(torch.empty(8, 2))``, which comes before what sets it."""
    return isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Call) and stmt.value.name == "Parameter"


def _changes_only_there(owner: Class, made: t.Stmt, path: str) -> bool:
    others = (
        stmt
        for cls in owner.lineage()
        for ref in cls.methods.values()
        for stmt in ref.define.statements
        if stmt is not made and _changes(stmt, path) and path not in _set_to_zero(ref, stmt)
    )
    return next(others, None) is None


def _changes(stmt: t.Stmt, path: str) -> bool:
    """Whether a statement binds a path, or runs something on it that ends in ``_``, or hands it on."""
    if isinstance(stmt, t.Assign | t.Augment):
        targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target]
        named = [_parameter(name) for target in targets for name in t.names_in(target)]
        items = [target for target in targets if isinstance(target, t.Subscript)]
        return path in named or any(_parameter(item.value) == path for item in items) or _sets(stmt.value, path)
    if isinstance(stmt, t.Repeat) and stmt.iterable is not None:  # `for p in (self.a, self.b):`
        given = [_parameter(node) for node in t.walk(stmt.iterable) if isinstance(node, t.Expr)]
        return any(each is not None and is_part(path, each) for each in given if each != "self")
    return isinstance(stmt, t.Evaluate) and _sets(stmt.value, path, is_alone=True)


def _sets(expr: t.Expr, path: str, *, is_alone: bool = False) -> bool:
    """Whether a call changes a parameter in place, or is given it for nothing but that it does something to it."""
    for node in t.walk(expr):
        func = node.func if isinstance(node, t.Call) else None
        if not isinstance(node, t.Call) or not (is_alone or node.name.endswith("_")):
            continue
        owner = func.value if isinstance(func, t.Attribute) and node.name.endswith("_") else None
        if owner is not None and _parameter(owner) == path:
            return True
        if any(_parameter(arg.value) == path for arg in node.args):
            return True
    return False


def _is_bare_layer(owner: Class, value: t.Expr) -> bool:
    bias = value.argument("bias") if isinstance(value, t.Call) else None
    ref = owner.module.value_of(value.func).ref if isinstance(value, t.Call) else None
    is_layer = isinstance(ref, str) and _LAYERS.match(ref) is not None
    return is_layer and isinstance(bias, t.Constant) and bias.value is False


def _only_product(owner: Class, starting: list[FunctionRef], one: str, other: str) -> tuple[FunctionRef, t.Expr] | None:
    """The product of two parameters, if nothing in their class uses one of them without the other."""
    paths, found = (one.removesuffix(".weight"), other.removesuffix(".weight")), None
    for cls in owner.lineage():
        for ref in cls.methods.values():
            if any(each.define is ref.define for each in starting) or _is_unrecorded(ref):
                continue
            asked = (n.value for n in ref.define.all(t.Attribute) if n.name in _NO_VALUES)
            uses = {node for node in ref.define.nodes if isinstance(node, t.Expr) and t.path_of(node) in paths}
            uses -= set(asked)
            if not uses:
                continue
            products = _Products(owner, ref, paths)
            whole = products.whole()
            if whole is None or not uses <= products.seen:
                return None
            found = found or (ref, whole)
    return found


def _is_unrecorded(ref: FunctionRef) -> bool:
    """``@torch.no_grad()``, as of what merges weights."""
    names = (t.path_of(each.func if isinstance(each, t.Call) else each) or "" for each in ref.define.decorators)
    return any(name.endswith(("no_grad", "inference_mode")) for name in names)


class _Products:
    """The products in a method that have two paths among their factors."""

    def __init__(self, owner: Class, ref: FunctionRef, paths: tuple[str, str]) -> None:
        self.owner, self.ref, self.paths = owner, ref, paths
        self.seen: set[t.Node] = set()

    def whole(self) -> t.Expr | None:
        """One of them; what they are made of is ``seen`` then, if each variable on the way is used for nothing else."""
        found: t.Expr | None = None
        names = set[str]()
        for node in self.ref.define.nodes:
            if not isinstance(node, t.Operation | t.Call):
                continue
            way = list[t.Expr]()
            if self._factors(node, way, 0) == set(self.paths):
                found = found or node
                self.seen.update(way)
                names.update(each.id for each in way if isinstance(each, t.Name))
        bound = set(names) & self.ref.assigned.keys()
        uses = (node for node in self.ref.define.all(t.Name) if node.id in bound)
        targets = {name for stmt in self.ref.define.statements if isinstance(stmt, t.Assign) for name in stmt.targets}
        is_clean = all(node in self.seen or node in targets for node in uses)
        return found if is_clean else None

    def _factors(self, expr: t.Expr, way: list[t.Expr], depth: int) -> set[str]:
        """Those of the paths that an expression is multiplied with; it is zero where one of them is."""
        path = t.path_of(expr)
        way.append(expr)
        if path in self.paths and path is not None:
            return {path} if not self._is_layer(path) else set()
        if depth > 12:
            return set()
        if isinstance(expr, t.Name):
            bound = self.ref.assigned.get(expr.id, [])
            parts = list(bound) if len(bound) == 1 else []
        else:
            parts = self._multiplied(expr)
        found = {name for part in parts for name in self._factors(part, way, depth + 1)}
        if isinstance(expr, t.Call) and (run := t.path_of(expr.func)) in self.paths and run is not None:
            way.append(expr.func)
            found.add(run)
        return found

    def _is_layer(self, path: str) -> bool:
        made = [value for cls in self.owner.lineage() for _, value in cls.assigned(path[5:])]
        return any(_is_bare_layer(self.owner, value) for value in made)

    def _multiplied(self, expr: t.Expr) -> list[t.Expr]:
        """The operands of a product; what is only shaped otherwise, or is zero where its operand is."""
        if isinstance(expr, t.Operation):
            is_product = expr.operator in ("*", "@") or (expr.operator == "-" and len(expr.operands) == 1)
            return expr.operands if is_product else expr.operands[:1] if expr.operator == "/" else []
        if isinstance(expr, t.Attribute) and expr.name in _VIEWS:
            return [expr.value]
        if not isinstance(expr, t.Call):
            return []
        func, given = expr.func, [arg.value for arg in expr.args if arg.keyword is None]
        named = self.owner.module.value_of(func).ref
        if isinstance(named, str) and named.startswith("torch."):
            is_bare = expr.name in _PRODUCTS and (not expr.name.startswith(("linear", "conv")) or len(expr.args) == 2)
            return given if is_bare else given[:1] if expr.name in _ZERO_FUNCTIONS | _SHAPES else []
        path = t.path_of(func) or ""
        if path.startswith("self."):
            return given[:1] if path in self.paths or self._keeps_zero(path) else []
        if isinstance(func, t.Attribute) and expr.name in _PRODUCTS:
            return [func.value, *given]
        return [func.value] if isinstance(func, t.Attribute) and expr.name in _SHAPES else []

    def _keeps_zero(self, path: str) -> bool:
        """A dropout, or an activation that is zero at zero."""
        made = [value for cls in self.owner.lineage() for _, value in cls.assigned(path[5:])]
        refs = [self.owner.module.value_of(value.func).ref if isinstance(value, t.Call) else None for value in made]
        return bool(refs) and all(isinstance(ref, str) and _KEEPS_ZERO.match(ref) is not None for ref in refs)


def _is_one_way(ref: FunctionRef, one: t.Stmt, other: t.Stmt) -> bool:
    """Whether where one statement runs, the other one does."""
    blocks = [block for stmt in ref.define.statements for block in t.blocks(stmt)]
    found = [next((block for block in blocks if any(each is stmt for each in block)), None) for stmt in (one, other)]
    return found[0] is found[1]


def _is_set_elsewhere(flow: Flow, path: str) -> bool:
    """Whether something in the program may set it: by its name, or of whatever layers there are."""
    name, _, rest = path.removeprefix("self.").partition(".")
    survey = flow.project.survey
    sets = re.compile(
        rf"(?<!\bself)\.{name}(?:\.weight)?(?:\.data)?(?:\.\w+_\(|\s*=(?!=))|_\([^\n]*(?<!\bself)\.{name}\b"
        rf"|(?<!hasattr\(self, )[\"']{name}\b"
    )
    if survey.mentions(sets, flow.module, name):
        return True
    return bool(rest) and survey.mentions(_INIT_BY_OTHERS, flow.module)
