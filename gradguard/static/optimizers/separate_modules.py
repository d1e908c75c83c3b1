"""Modules that surely share no parameters with others: who resets the gradients of one resets none of another's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.paths import is_within
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What leaves a module where it is, and gives none of its parts away.
_USES = frozenset("parameters named_parameters zero_grad state_dict load_state_dict forward".split())
_GIVING_PARTS = frozenset(
    "children modules named_children named_modules get_submodule add_module register_module append extend".split()
)
_COPYING = re.compile(r"(?:^|_)(?:soft|hard|update|copy|sync|polyak|init|save|clip|freeze|unfreeze)", re.I)
# Numbers and settings that a class is made with, by their names; anything else may be a part that another one has, too.
_SETTING = re.compile(
    r"(?:^|_)(?:dims?|sizes?|[nkdchw]|act|num|hidden|channels?|width|depth|units|obs|states?|actions?|cfg|config|args|opts?|params|"
    r"hparams|device|dtype|bias|dropout|latent|nz|ngf|ndf|nc|in|out|inputs?|outputs?|embed|emb|heads|vocab|classes|"
    r"features|kernel|stride|padding|seed|lr|rate|scale|max|min|space|shape)(?:$|_|\d|s$)",
    re.I,
)
_TAKES_MODULES = re.compile(r"Parallel|List|Dict|Transformer(?:En|De)coder$|Quant|Container")


def is_separate(flow: Flow, path: str) -> bool:
    """Whether a module is a deep copy, or made of numbers by a class, and neither itself nor a part goes elsewhere.

    Args:
        path: ``self.critic_target``, or a variable of the function.
    """
    scopes = list(_scopes(flow, path))
    made = [value for ref in scopes for target, value in _bound(ref) if target == path]
    return (
        bool(made) and all(_is_made_alone(flow, value) for value in made) and all(_stays(ref, path) for ref in scopes)
    )


def is_made_alone(flow: Flow, path: str) -> bool:
    """Whether a module is a deep copy, or made of numbers by a class, and nothing is put into it later.

    Args:
        path: ``self.critic``, or a variable of the function.
    """
    made = [value for ref in _scopes(flow, path) for target, value in _bound(ref) if target == path]
    filled = any(is_within(target, path) for ref in _scopes(flow, path) for target, _ in _bound(ref))
    return bool(made) and not filled and all(_is_made_alone(flow, value) for value in made)


def _scopes(flow: Flow, path: str) -> Iterator[FunctionRef]:
    """The methods that have the attribute, or the function that has the variable."""
    owner = flow.ref.owner
    if path.isidentifier():
        yield flow.ref
    elif path.startswith("self.") and path[5:].isidentifier() and owner is not None:
        yield from (ref for cls in owner.lineage() for ref in (*cls.methods.values(), *cls.setters.values()))


def _bound(ref: FunctionRef) -> Iterator[tuple[str, t.Expr]]:
    for stmt in ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            yield t.path_of(target) or "", value


def _is_made_alone(flow: Flow, value: t.Expr) -> bool:
    """Whether an expression makes a new module: ``Critic(dim).to(device)``, ``copy.deepcopy(self.critic)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call) or value.name == "deepcopy":
        return isinstance(value, t.Call)
    maker = flow.module.value_of(value.func)
    if maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.nn."):
        if value.name == "Sequential":
            return all(not arg.star and _is_made_alone(flow, arg.value) for arg in value.args)
        return _TAKES_MODULES.search(value.name) is None  # a layer is made of numbers
    of_project = maker.kind is Kind.CLASS and isinstance(maker.ref, Class) and maker.ref.is_module
    parts = [part for arg in value.args for part in t.walk(arg)]
    stars = any(arg.star for arg in value.args) or any(isinstance(part, t.Starred | t.Comprehension) for part in parts)
    names = (part for part in parts if isinstance(part, t.Name | t.Attribute))
    return of_project and not stars and all(map(is_setting, names))


def is_setting(part: t.Expr) -> bool:
    """Whether a name is that of a number, a setting or a package: ``dim``, ``args.hidden``, ``nn`` of ``nn.ReLU()``."""
    names = (t.path_of(part) or "").removeprefix("self.").split(".")
    is_package = names[0] in ("nn", "torch", "F", "self")
    return is_package or any(_SETTING.search(name) for name in (names[0], names[-1]))


def _stays(ref: FunctionRef, path: str) -> bool:
    """Whether a function does nothing with a module by which it, or a part of it, gets another name."""
    nodes = ref.define.nodes
    uses = {id(node) for node in nodes if isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path}
    if not uses:
        return True
    harmless = {id(each) for node in nodes for each in _left_alone(ref, node, path)}
    several = any(isinstance(n, t.Assign) and len(n.targets) > 1 and path in map(t.path_of, n.targets) for n in nodes)
    return uses <= harmless and not several


def _left_alone(ref: FunctionRef, node: t.Node, path: str) -> Iterator[t.Node]:
    """The parts of a node that only use what they name: it is called, trained, copied or bound there."""
    if isinstance(node, t.Assign):
        yield from (part for target in node.targets for part in t.names_in(target))
    elif isinstance(node, t.Repeat) and node.iterable is not None and path.startswith("self."):
        displays = (part for part in t.walk(node.iterable) if isinstance(part, t.Display))
        yield from (item for display in displays for item in display.items)
    elif isinstance(node, t.Call):
        yield node.func
        if isinstance(node.func, t.Attribute) and _keeps_parts(ref, node, node.func.name, path):
            yield node.func.value
        is_copying = node in ref.calls_for_effect and _COPYING.search(node.name) is not None
        if node.name == "deepcopy" or (is_copying and _is_own(node.func)):
            yield from (arg.value for arg in node.args)


def _keeps_parts(ref: FunctionRef, call: t.Call, method: str, path: str) -> bool:
    """Whether a method of a module gives away neither itself nor a part of it, as far as what becomes of that tells."""
    if method in _USES:
        return True
    if method in _GIVING_PARTS:
        return False
    if method in k.FLUENT_METHODS:
        return call in ref.calls_for_effect
    kept = (target for target, value in _bound(ref) if value is call)
    returned = any(isinstance(s, t.Return) and s.value is call for s in ref.define.statements)
    return not returned and not any(path.isidentifier() or target.startswith("self.") for target in kept)


def _is_own(func: t.Expr) -> bool:
    """Whether it is a function by its name, or a method of the object itself."""
    return isinstance(func, t.Name) or (t.path_of(func) or "").rpartition(".")[0] == "self"
