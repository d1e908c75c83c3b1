"""Parameters whose every use in a ``forward`` is detached behind the variable that it is computed into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import OnlyDetached
from gradguard.static.model import Mode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.classes import Class
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 4
_SETS_UP = re.compile(r"^_*(?:init|reset)|^extra_repr$")
# What is not to be trained, as its name says, or is moved otherwise.
_FIXED = re.compile(
    r"fixed|frozen|random|rnd|hash|rotation|anchor|codebook|embed|centroid|center|prototype|queue|bank|memory|target|"
    r"teacher|ema(?:$|_)|running|moving|threshold|temperature|stat",
    re.I,
)
_MOVED = re.compile(r"fixed|frozen|random|rnd|hash|queue|bank|target|teacher|ema(?:$|_)|running|moving", re.I)
_NUMBERS = frozenset("item tolist".split())
_OF_SHAPE = frozenset("shape dtype device size dim ndim numel".split())
_CHOOSES = frozenset("argsort argmax argmin topk sort argpartition nonzero where multinomial histc unique".split())
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
# A penalty on all parameters, which are then in the loss.
_PENALTY = re.compile(
    r"(?:sum|norm|cat|stack)\([^\n]*parameters\(\)|parameters\(\)\s*:\s*\n[^\n]*(?:norm|pow|\*\*|abs|square|reg|penalt|l[12]_?)"
)


def only_detached(flow: Flow) -> Iterator[OnlyDetached]:
    """The parameters of a module of which its ``forward`` uses numbers alone (reads other files)."""
    owner, define = flow.ref.owner, flow.ref.define
    if define.name != "forward" or owner is None or not owner.is_module or flow.facts.is_test:
        return
    if flow.facts.entry_mode is Mode.OFF:
        return
    hidden = without_graph(define)
    names = {node.name for node in define.all(t.Attribute) if t.path_of(node.value) == "self"}
    for name in sorted(names):
        is_fixed = _FIXED.search(name) is not None
        made = made_to_learn(owner, name)
        if made is None or not is_of_forward_alone(owner, name, define):
            continue
        is_codebook = is_fixed or _is_table(made)
        if is_codebook and (_MOVED.search(name) is not None or not _is_searched(flow, f"self.{name}", made)):
            continue
        path = f"self.{name}"
        if not is_codebook and not set(cut(define)).isdisjoint(_uses(define, path)):
            continue  # that it is detached itself is a choice
        cuts = _cuts(flow, path, hidden | _chosen(define) if is_codebook else hidden)
        if cuts and not is_known(flow, owner, name) and not flow.facts.called_without_grad():
            named = [cut for cut in cuts if isinstance(_inner(cut), t.Name)]  # not the difference of an estimator
            yield OnlyDetached(flow.site((named or cuts)[-1]), name, made)


def made_to_learn(cls: Class, name: str) -> Site | None:
    """Where the constructor makes the parameter, if it wants a gradient and is bound nowhere else."""
    bound = [value for each in cls.lineage() for _, value in each.assigned(name)]
    for each in cls.lineage():
        constructor = each.methods.get("__init__")
        values = constructor.assigned.get(f"self.{name}", []) if constructor is not None else []
        value = values[0] if len(values) == 1 and len(set(bound)) == 1 else None
        if constructor is not None and isinstance(value, t.Call) and value.name in ("Parameter", "Embedding"):
            ref = str(constructor.module.value_of(value.func).ref)
            wants = value.argument("requires_grad", 1)
            is_wanted = wants is None or value.name == "Embedding"
            return Site(each.chunk, value) if ref.startswith("torch.nn.") and is_wanted else None
    return None


def _is_table(made: Site) -> bool:
    return isinstance(made.node, t.Call) and made.node.name == "Embedding"


def _is_searched(flow: Flow, path: str, made: Site) -> bool:
    """Whether the nearest code is looked for: ``(z - self.codebook).norm(dim=1).argmin()``."""
    define, names, before = flow.ref.define, {f"{path}.weight" if _is_table(made) else path}, 0
    while len(names) != before:
        before = len(names)
        computed = (s for s in define.statements if isinstance(s, t.Assign) and _has_one_of(s.value, names))
        names |= {each for stmt in computed for target in stmt.targets if (each := t.path_of(target)) is not None}
    return any(_is_one_of(node, names) for node in _chosen(define))


def _has_one_of(value: t.Expr, names: set[str]) -> bool:
    return any(_is_one_of(node, names) for node in t.walk(value))


def _is_one_of(node: t.Node, names: set[str]) -> bool:
    return isinstance(node, t.Name | t.Attribute) and t.path_of(node) in names


def _chosen(define: t.Define) -> set[t.Node]:
    """What only indices are taken of: ``d`` of ``d.argmin(1)``, and of ``_, index = d.min(1)``."""
    nodes = [node for node in define.nodes if _chooses(node)]
    for stmt in define.statements:
        target = stmt.targets[0] if isinstance(stmt, t.Assign) else None
        if isinstance(stmt, t.Assign) and isinstance(target, t.Display) and t.path_of(target.items[0]) == "_":
            nodes.append(stmt.value)
    return {part for node in nodes for part in t.walk(node)}


def is_of_forward_alone(cls: Class, name: str, forward: t.Define) -> bool:
    """Whether only this method uses it, and those that set it up."""
    for method in methods_of(cls):
        if method.define is forward or _SETS_UP.search(method.define.name) is not None:
            continue
        if any(isinstance(node, t.Attribute) and node.name == name for node in method.define.nodes):
            return False
    return True


def without_graph(define: t.Define) -> set[t.Node]:
    """What is computed without a graph: detached, or of which numbers are taken."""
    found = set(cut(define))
    for node in define.nodes:
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.name in _NUMBERS:
            found.update(t.walk(node.func.value))
        elif isinstance(node, t.Attribute) and node.name in _OF_SHAPE:
            found.update(t.walk(node.value))
    return found


def _cuts(flow: Flow, path: str, hidden: set[t.Node]) -> list[t.Expr]:
    """What detaches all that is computed of a parameter, in the order of the text; none where something does not."""
    names: set[str] = set()
    if not follow(flow.ref.define, path, hidden, names, _DEPTH) or not names:
        return []
    nodes = flow.ref.define.nodes
    found = [node for node in nodes if isinstance(node, t.Call | t.Attribute) and _inner(node) is not None]
    cuts = [node for node in found if any(isinstance(n, t.Name) and n.id in names for n in t.walk(_inner(node)))]
    chosen = {id(part) for node in nodes if _chooses(node) for part in t.walk(node)}
    return sorted((node for node in cuts if id(node) not in chosen), key=lambda node: flow.site(node).line)


def _inner(node: t.Expr) -> t.Expr | None:
    """``x`` of ``x.detach()`` and ``x.data``."""
    return node.value if isinstance(node, t.Attribute) and node.name == "data" else t.detached(node)


def _chooses(node: t.Node) -> bool:
    """Whether only indices, or truth values, come out of it."""
    is_choice = isinstance(node, t.Call) and node.name in _CHOOSES
    return is_choice or (isinstance(node, t.Operation) and node.operator in _COMPARISONS)


def follow(define: t.Define, path: str, hidden: set[t.Node], names: set[str], depth: int) -> bool:
    """Whether everything that is computed of a path goes into variables of which all uses are hidden.

    Args:
        names: gets these variables.
    """
    uses = _uses(define, path)
    targets = {id(n) for s in define.statements if isinstance(s, t.Assign) for e in s.targets for n in t.names_in(e)}
    read = [node for node in uses if id(node) not in targets]
    is_parameter = path.startswith("self.")
    if not read or (
        is_parameter and any(not _only_searches(define, use) for use in set(cut(define)).intersection(read))
    ):
        return False
    ends = [] if is_parameter else _bound_anew(define, path, hidden)
    for use in read:
        if use in hidden or any(_comes_after(define, use, stmt) for stmt in ends):
            continue
        stmt = next((each for each in define.statements if _is_computed_in(each, use)), None)
        name = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        if name is None or not name.isidentifier() or not depth or name in {param.name for param in define.params}:
            return False
        if name not in names and name != path:
            names.add(name)
            if not follow(define, name, hidden, names, depth - 1):
                return False
    return True


def _uses(define: t.Define, path: str) -> list[t.Node]:
    return [node for node in define.nodes if isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path]


def _only_searches(define: t.Define, use: t.Node) -> bool:
    """Whether what is computed of a parameter without a graph ends in indices: ``cdist(z, self.codes).argmin(1)``."""
    chosen = _chosen(define)
    stmt = next((each for each in define.statements if _is_computed_in(each, use)), None)
    name = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
    if use in chosen or name is None or not name.isidentifier():
        return use in chosen
    return follow(define, name, chosen, set(), _DEPTH)


def _bound_anew(define: t.Define, path: str, hidden: set[t.Node]) -> list[t.Stmt]:
    """The statements that give a variable another value, of its number alone: ``q = z + (q - z).detach()``."""
    bound = [s for s in define.body if isinstance(s, t.Assign) and [t.path_of(each) for each in s.targets] == [path]]
    return [stmt for stmt in bound[1:] if all(n in hidden for n in t.walk(stmt.value) if _is_one_of(n, {path}))]


def _comes_after(define: t.Define, use: t.Node, stmt: t.Stmt) -> bool:
    place = define.body.index(stmt)
    return t.is_in(use, define.body[place + 1 :])


def _is_computed_in(stmt: t.Stmt, use: t.Node) -> bool:
    return isinstance(stmt, t.Assign) and any(node is use for node in t.walk(stmt.value))


def is_known(flow: Flow, cls: Class, name: str) -> bool:
    """Whether something else may give it a gradient, or is not to train it."""
    survey = flow.project.survey
    known = re.compile(
        rf"(?<!\bself)\.{re.escape(name)}\b|['\"]{re.escape(name)}['\"]|\b{re.escape(name)}(?:\.weight)?\.(?:requires_grad|parameters\b)"
    )
    if survey.is_base(cls.name, cls.module) or survey.mentions(known, cls.module, name):
        return True
    return is_in_a_penalty(cls)


def is_in_a_penalty(cls: Class) -> bool:
    """Whether a loss of the program may have all parameters in it, or what a class inherits may (reads other files)."""
    return cls.module.project.survey.mentions(_PENALTY, cls.module, "parameters()") or not _is_plain(cls)


def _is_plain(cls: Class) -> bool:
    return all(name.startswith("torch.nn.") for name in cls.external_bases)
