"""Parameters that an ``autograd.Function`` computes with, and for which its ``backward`` returns None."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import NoGradient
from gradguard.static.optimizers.parameter_iterators import resolved
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.screen import calling
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Gradients that a backward gives in another way than by returning them, or that are not there to be given.
_OTHERWISE = re.compile(
    r"\.(?:main_)?grad\b|\.backward\(|\bautograd\.(?:backward|grad)\(|\bmark_non_differentiable\b|hook"
)
_NO_GRADIENTS = re.compile(r"\b(?:no_grad|inference_mode|set_grad_enabled)\b")
_FREEZES = re.compile(r"\brequires_grad\w*(?!\w|\s*[=(]\s*True)")
_DUMMY = re.compile(r"dummy|phony|placeholder")
_SETTING_UP = re.compile(r"^__init__$|reset|init|repr")
# Of another object, ``layer.beta``, but no setting, ``args.beta``.
_SETTINGS = "args?|opts?|cfg|conf|config|hparams|hps?|params|parser|FLAGS|options|settings|self"
# A parameter is not called: ``optimizer.step()`` is no use of the step size of a quantizer, ``self.step``.
_LOOKS = r"\.(?:detach|item|tolist|shape|numel|size)\b|[ \t]*\("
_OUTSIDE = (
    rf"(?<![\w.])(?!(?<=['\"])\w)(?:[\w\[\]]+\.)*(?!(?:{_SETTINGS})\.)[\w\[\]]+\.NAME\b(?!{_LOOKS})|\)\.NAME\b(?!{_LOOKS})|"
    r"attr\([^)\n]*['\"]NAME['\"]"
)
# By its name in the module, ``"quant.beta"``, but to sort parameters into groups.
_BY_NAME = r"^(?![^\n]*\bfor\b[^\n]*\bnamed_parameters\([^\n]*\bif\b)[^\n]*['\"](?:[\w\[\]]+\.)+NAME\b"
_SETS_EACH = re.compile(r"\w\.(?:requires_grad(?:_\(|\s*=(?!=))|data\b|(?:add|sub|mul|copy|lerp)_\()")
_SAME_VALUES = frozenset(
    "to type type_as view reshape unsqueeze squeeze expand expand_as contiguous float double half bfloat16 clone abs "
    "exp sigmoid clamp clamp_min relu t transpose permute flatten".split()
)
_DESCRIBING = frozenset("shape device dtype size dim ndim numel is_cuda element_size requires_grad".split())


@dataclass(frozen=True, slots=True)
class _Given:
    """What a function gives for an input, by a call of ``apply`` or of a helper that calls it."""

    ref: FunctionRef
    call: t.Call
    value: t.Expr


def without_gradient(flow: Flow) -> dict[int, t.Return]:
    """The inputs for which a ``backward`` returns None on every way, each with the first ``return`` that does.

    Not where it does so for all of them: what it computes has no gradient, on purpose.
    """
    owner, define = flow.ref.owner, flow.ref.define
    if owner is None or define.name != "backward" or not owner.is_autograd_function or flow.facts.is_test:
        return {}
    if any(cls.chunk.shows(_OTHERWISE) for cls in owner.lineage()):
        return {}
    returns = sorted(_returns(define), key=lambda stmt: flow.site(stmt).line)
    rows = [_row(flow.ref, stmt.value) for stmt in returns]
    count = len(_inputs(owner))
    found = [place for place in range(count) if rows and all(place < len(row) and row[place] for row in rows)]
    return dict.fromkeys(found, returns[0]) if 0 < len(found) < count else {}


def missing_gradients(flow: Flow, without: dict[int, t.Return]) -> list[NoGradient]:
    """Those for which a parameter of a module is given that nothing else trains (reads other files)."""
    owner = flow.ref.owner
    found: list[NoGradient] = []
    for place, stmt in without.items() if owner is not None else ():
        given = list(_given(flow.ref, owner, place))  # type: ignore[arg-type]
        for each in given:
            name = _attribute(each)
            made = _parameter_of(each.ref, name) if name is not None else None
            if (
                name is not None
                and made is not None
                and not _is_dummy(name)
                and _is_trained_by_nothing_else(each.ref, name, given)
            ):
                cls, applied = flow.ref.owner, Site(each.ref.chunk, each.call)
                of = cls.name if cls is not None else ""
                input_ = _inputs(owner)[place]  # type: ignore[arg-type]
                found.append(NoGradient(flow.site(stmt), of, input_, applied, f"self.{name}", made))
                break
    return found


def _is_dummy(name: str) -> bool:
    """A parameter that is there to want a gradient, not to get one."""
    return _DUMMY.search(name) is not None


def _returns(define: t.Define) -> list[t.Return]:
    return [stmt for stmt in define.statements if isinstance(stmt, t.Return)]


def _row(ref: FunctionRef, value: t.Expr | None) -> list[bool]:
    """For which inputs what is returned is None; no more are known from a ``*rest`` on."""
    row = []
    for item in value.items if isinstance(value, t.Display) else [value]:
        if isinstance(item, t.Starred):
            break
        row.append(item is None or _is_none(ref, item))
    return row


def _is_none(ref: FunctionRef, item: t.Expr) -> bool:
    """Whether an expression is None, or a variable that is nothing else."""
    if not isinstance(item, t.Name):
        return isinstance(item, t.Constant) and item.value is None
    bound = ref.assigned.get(item.id, [])
    targets = (_other_targets(node) for node in ref.define.nodes)
    is_bound_otherwise = any(t.path_of(each) == item.id for names in targets for each in names)
    return bool(bound) and not is_bound_otherwise and all(isinstance(v, t.Constant) and v.value is None for v in bound)


def _other_targets(node: t.Node) -> list[t.Expr]:
    """What is bound by something else than an assignment."""
    if isinstance(node, t.Augment | t.Walrus):
        return [node.target]
    if isinstance(node, t.Repeat):
        return list(t.names_in(node.target)) if node.target is not None else []
    if isinstance(node, t.With):
        return [name for _, target in node.items if target is not None for name in t.names_in(target)]
    return []


def _inputs(owner: Class) -> list[str]:
    """The names of what ``apply`` is given: without ``ctx``, which goes to ``setup_context`` where there is one."""
    forward = owner.method("forward")
    params = forward.define.params if forward is not None else []
    first_star = next((place for place, param in enumerate(params) if param.star), len(params))
    names = [param.name for param in params[:first_star]]
    return names if owner.method("setup_context") is not None else names[1:]


# --- who gives what ---


def _given(backward: FunctionRef, owner: Class, place: int) -> Iterator[_Given]:
    """What is given for an input, wherever its class, a name for its ``apply``, or a helper around it is named."""
    calls = [_Given(ref, call, value) for ref, call in _applying(backward, owner) if (value := _at(call, place))]
    yield from calls
    for each in calls:
        name = each.value.id if isinstance(each.value, t.Name) else None
        is_called_by_all = each.ref.define.name in ("forward", "__call__", "backward")
        if name is not None and name not in each.ref.names[0] and not is_called_by_all:
            yield from _given_to_helper(each.ref, name)


def _at(call: t.Call, place: int) -> t.Expr | None:
    return call.argument("", place)


def _given_to_helper(helper: FunctionRef, name: str) -> Iterator[_Given]:
    names = [param.name for param in helper.define.params if not param.star]
    names = names[1:] if names[:1] == ["self"] else names
    if name in names:
        for ref in _naming(helper, helper.define.name):
            for call in ref.calls:
                meant = resolved(ref, call.func)
                value = call.argument(name, names.index(name))
                if isinstance(meant, FunctionRef) and meant.define is helper.define and value is not None:
                    yield _Given(ref, call, value)


def _applying(backward: FunctionRef, owner: Class) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The calls of the ``apply`` of a class, each with its function."""
    names = {owner.name, *_names_of_apply(backward, owner)}
    seen: set[t.Call] = set()
    for ref in (ref for name in sorted(names) for ref in _naming(backward, name)):
        for call in ref.calls:
            if call not in seen and _is_apply(ref, call.func, owner):
                seen.add(call)
                yield ref, call


def _naming(near: FunctionRef, name: str) -> Iterator[FunctionRef]:
    """The functions of a program that name something."""
    for module in near.module.project.survey.naming(name, near.module):
        yield from module.functions(calling(module.source, name))


def _names_of_apply(backward: FunctionRef, owner: Class) -> Iterator[str]:
    """The globals and attributes that are its ``apply``: ``swish = SwishFunction.apply``."""
    for ref in _naming(backward, owner.name):
        for path, values in ref.assigned.items():
            if any(_is_apply_of(ref, value, owner) for value in values):
                yield path.rpartition(".")[2]


def _is_apply(ref: FunctionRef, func: t.Expr, owner: Class) -> bool:
    """Whether what is called is the ``apply`` of a class, or a name for it."""
    if _is_apply_of(ref, func, owner):
        return True
    if isinstance(func, t.Name):
        bound = ref.assigned.get(func.id) or _globals(ref, func.id)
        return bool(bound) and all(_is_apply_of(of, value, owner) for of, value in _with(ref, bound))
    if isinstance(func, t.Attribute) and t.path_of(func.value) == "self" and ref.owner is not None:
        values = [(of, value) for cls in ref.owner.lineage() for of, value in _assigned(cls, func.name)]
        return bool(values) and all(_is_apply_of(of, value, owner) for of, value in values)
    return False


def _assigned(cls: Class, name: str) -> Iterator[tuple[FunctionRef, t.Expr]]:
    """What the methods of a class assign to an attribute, each with one of them."""
    refs = {ref.define: ref for ref in cls.methods.values()}
    for define, value in cls.assigned(name):
        if define in refs:
            yield refs[define], value


def _with(
    ref: FunctionRef, bound: list[t.Expr] | list[tuple[FunctionRef, t.Expr]]
) -> Iterator[tuple[FunctionRef, t.Expr]]:
    for each in bound:
        yield each if isinstance(each, tuple) else (ref, each)


def _globals(ref: FunctionRef, name: str) -> list[tuple[FunctionRef, t.Expr]]:
    """What a global is bound to, in this file or the one that it is imported from."""
    module = ref.module
    if name in ref.names[0] or any(param.name == name for param in ref.define.params):
        return []
    if name in module.outline.imports:
        found = module.project.find(module.outline.imports[name], module)
        if found is None or len(found[1]) != 1:
            return []
        module, name = found[0], found[1][0]
    script = module.script() if name in module.outline.variables else None
    return [(script, value) for value in script.assigned.get(name, [])] if script is not None else []


def _is_apply_of(ref: FunctionRef, func: t.Expr, owner: Class) -> bool:
    if not isinstance(func, t.Attribute) or func.name != "apply":
        return False
    value = ref.module.value_of(func.value)
    return value.kind is Kind.CLASS and isinstance(value.ref, Class) and value.ref.define is owner.define


# --- which parameter that is ---


def _attribute(given: _Given) -> str | None:
    """The attribute that is given, as it is or in another shape: ``beta`` of ``self.beta.view(1, -1)``."""
    value = _unfolded(given.value)
    if isinstance(value, t.Name):
        bound = given.ref.assigned.get(value.id, [])
        value = _unfolded(bound[0]) if len(bound) == 1 else value
    path = t.path_of(value) or ""
    name = path.removeprefix("self.")
    return name if path != name and name.isidentifier() else None


def _unfolded(value: t.Expr) -> t.Expr:
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _SAME_VALUES:
        value = value.func.value
    return value


def _parameter_of(ref: FunctionRef, name: str) -> Site | None:
    """What makes an attribute of a module a parameter that wants a gradient."""
    owner = ref.owner
    if owner is None or not owner.is_module or _NO_GRADIENTS.search(Site(ref.chunk, ref.define).code) is not None:
        return None
    values = [(of, value) for cls in owner.lineage() for of, value in (*_assigned(cls, name), *_registered(cls, name))]
    made = [(of, value) for of, value in values if not isinstance(value, t.Constant) or value.value is not None]
    if not made or not all(_makes_parameter(of, value) for of, value in made):
        return None
    of, value = made[0]
    return Site(of.chunk, value)


def _registered(cls: Class, name: str) -> Iterator[tuple[FunctionRef, t.Expr]]:
    """What ``register_parameter`` puts under a name."""
    for ref in cls.methods.values():
        for call in ref.calls:
            said, value = call.argument("name", 0), call.argument("param", 1)
            is_named = isinstance(said, t.Constant) and said.value == name
            if call.name == "register_parameter" and is_named and value is not None:
                yield ref, value


def _makes_parameter(ref: FunctionRef, value: t.Expr) -> bool:
    if not isinstance(value, t.Call) or value.name != "Parameter":
        return False
    maker, wants = ref.module.value_of(value.func), value.argument("requires_grad", 1)
    is_wanted = wants is None or (isinstance(wants, t.Constant) and wants.value is True)
    return maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.") and is_wanted


# --- whether something else trains it ---


def _is_trained_by_nothing_else(ref: FunctionRef, name: str, given: Iterable[_Given]) -> bool:
    """Whether a module uses a parameter for nothing else, nobody freezes it, and nobody outside asks for it."""
    owner, survey = ref.owner, ref.module.project.survey
    if owner is None or any(cls.chunk.shows(_FREEZES) for cls in owner.lineage()):
        return False
    of_input = {node for each in given if _attribute(each) == name for node in _nodes_of(each)}
    if any(_uses_otherwise(method, f"self.{name}", of_input) for method in methods_of(owner)):
        return False
    outside = re.compile(_OUTSIDE.replace("NAME", name))
    if survey.acts(name, outside, ref.module) or survey.is_base(owner.name, ref.module):
        return False
    return not _is_known_by_name(ref, name)


def _is_known_by_name(ref: FunctionRef, name: str) -> bool:
    """Whether the program may do something to it by its name in the module; to sort it into a group is nothing."""
    survey, anyhow = ref.module.project.survey, re.compile(_BY_NAME.replace("NAME", name))
    if survey.acts(name, anyhow, ref.module):
        return True
    sorting = re.compile(rf"['\"](?:[\w\[\]]+\.)+{name}\b")
    return survey.acts(name, sorting, ref.module) and survey.mentions(_SETS_EACH, ref.module)


def _nodes_of(given: _Given) -> Iterator[t.Node]:
    yield from t.walk(given.value)
    for value in given.ref.assigned.get(given.value.id, []) if isinstance(given.value, t.Name) else ():
        yield from t.walk(value)


def _uses_otherwise(method: FunctionRef, path: str, of_input: set[t.Node]) -> bool:
    """Whether a method uses a parameter for something else than that input, or to describe or set it up."""
    nodes = method.define.nodes
    if _SETTING_UP.search(method.define.name) is not None:
        return any(_hands_on(node, path) for node in nodes)
    described = {node.value for node in nodes if isinstance(node, t.Attribute) and node.name in _DESCRIBING}
    tests = (node for node in nodes if isinstance(node, t.Operation) and node.operator in ("is", "is not"))
    described |= {operand for test in tests for operand in test.operands}
    uses = (node for node in nodes if isinstance(node, t.Attribute) and t.path_of(node) == path)
    return any(node not in of_input and node not in described for node in uses)


def _hands_on(node: t.Node, path: str) -> bool:
    """Whether what sets a module up gives a parameter to something else, that is no filling: ``ones_(self.beta)``."""
    if isinstance(node, t.Assign):
        return t.path_of(node.value) == path
    is_filling = isinstance(node, t.Call) and (
        node.name.endswith("_") or node.name in ("print", "len", "repr", "format")
    )
    return isinstance(node, t.Call) and not is_filling and any(t.path_of(arg.value) == path for arg in node.args)
