"""Two modules with one weight, one of which is replaced afterwards: from then on there are two weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.memo import memo_of
from gradguard.static.mistakes.optimizers import BrokenTie
from gradguard.static.optimizers.replacing import replaces
from gradguard.static.program.bound_paths import binds, mentions, names_of
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has, later
from gradguard.static.program.own_methods import is_object, leading_to, methods_of, reached
from gradguard.static.program.paths import is_part
from gradguard.static.screen import calling
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_WEIGHT = ".weight"
_OF_TIES = re.compile(r"(?<![a-z])un_?ti|(?<![a-z])t(?:ie|ying)|share", re.I)
_COPIES = frozenset("clone deepcopy".split())


class _Tie(NamedTuple):
    """Two modules that have one weight, each by all the paths that it has where they are tied."""

    ref: FunctionRef
    stmt: t.Stmt
    one: tuple[str, ...]
    other: tuple[str, ...]

    def seen_from(self, receiver: str) -> _Tie:
        """The same by the paths of a function that has the object under another name."""
        return self._replace(one=_of_object(self.one, receiver), other=_of_object(self.other, receiver))


def _of_object(paths: tuple[str, ...], receiver: str) -> tuple[str, ...]:
    return tuple(f"{receiver}{path[4:]}" for path in paths if path.startswith("self."))


class _Break(NamedTuple):
    """A statement that puts another module, or another weight, in the place of one of the two.

    Args:
        replaced: the path that it binds.
        kept: the module that keeps the old weight.
    """

    stmt: t.Assign
    replaced: str
    kept: str


def broken_ties(flow: Flow) -> list[BrokenTie]:
    """Where what a function ties comes apart, there or elsewhere (reads other files)."""
    found: dict[Site, BrokenTie] = {}
    for tie in _ties(flow.ref) if not flow.facts.is_test else ():
        elsewhere = _by_others(flow, tie) if flow.ref.owner is not None else ()
        for ref, each, is_sure in (*_in_function(tie), *elsewhere):
            site = Site(ref.chunk, each.stmt)
            found.setdefault(site, BrokenTie(site, each.replaced, each.kept, flow.site(tie.stmt), is_sure))
    return list(found.values())


def _ties(ref: FunctionRef) -> Iterator[_Tie]:
    """The statements by which two modules share a weight: ``self.head.weight = self.embed.weight``."""
    for stmt in ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            one, other = _module_of(target), _module_of(value)
            if one is not None and other is not None and one != other:
                yield _Tie(ref, stmt, tuple(names_of(ref, one)), tuple(names_of(ref, other)))


def _module_of(expr: t.Expr) -> str | None:
    """The path of the module whose weight it is."""
    path = t.path_of(expr) or ""
    return path.removesuffix(_WEIGHT) if path.endswith(_WEIGHT) else None


def _in_function(tie: _Tie) -> Iterator[tuple[FunctionRef, _Break, bool]]:
    """What the same function replaces afterwards."""
    after = later(tie.ref.define.body, tie.stmt, without=tie.stmt)
    for each in _breaks(tie.ref, tie, after):
        is_another = any(binds(stmt, each.replaced.partition(".")[0]) for stmt in after)  # net = load()
        if not is_another and not _is_tied_again(tie.ref, each.stmt, frozenset()):
            yield tie.ref, each, True


def _breaks(ref: FunctionRef, tie: _Tie, statements: Iterable[t.Stmt]) -> list[_Break]:
    """The statements that replace one of the two; none where both are replaced."""
    both = (*tie.one, *tie.other)
    if not tie.one or not tie.other or _OF_TIES.search(ref.define.name) is not None:
        return []
    found = [
        _Break(stmt, path, kept)
        for stmt in statements
        if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and (path := t.path_of(stmt.targets[0])) is not None
        for side, kept in ((tie.one, tie.other[-1]), (tie.other, tie.one[-1]))
        if any(_holds(path, module) for module in side) and not is_part(kept, path)
        if _is_new(ref, stmt, path, both) and not _is_asked_for(ref, stmt, tie)
    ]
    return found if len({each.kept for each in found}) == 1 else []


def _holds(path: str, module: str) -> bool:
    """Whether a path is that of a module, of its weight, or of something that has the module; not the whole object."""
    return path == module + _WEIGHT or ("." in path and is_part(module, path)) or path == module


def _is_new(ref: FunctionRef, stmt: t.Assign, path: str, both: Sequence[str]) -> bool:
    """Whether what is put there is made anew, and no copy of the weight that is to be apart from now on."""
    calls = [node for node in t.walk(stmt.value) if isinstance(node, t.Call)]
    if any(call.name in _COPIES for call in calls):
        return False
    loaded = (call for call in calls if call.name == "from_pretrained")  # an embedding, also where it is frozen
    if any(str(ref.module.value_of(call.func).ref).startswith("torch.nn.Embedding") for call in loaded):
        return not any(mentions(stmt.value, module) for module in both)
    return replaces(ref, stmt, frozenset((path.removesuffix(_WEIGHT), *both)))


def _is_asked_for(ref: FunctionRef, stmt: t.Stmt, tie: _Tie) -> bool:
    """Whether a condition around a statement asks whether there is a tie: ``if not config.tie_weights``."""
    tests = _tests(ref, stmt)
    return any(_OF_TIES.search(name) for name in tests) or (
        ref is not tie.ref and tests & _tests(tie.ref, tie.stmt) != set()
    )


def _tests(ref: FunctionRef, stmt: t.Stmt) -> set[str]:
    """The last names in the conditions around a statement."""
    around = (s.test for s in ref.define.statements if isinstance(s, t.If) and has([s], stmt))
    nodes = (node for test in around for node in t.walk(test))
    return {t.path_of(n) or "" for n in nodes if isinstance(n, t.Name | t.Attribute)} - {"", "self"}


def _is_tied_again(ref: FunctionRef, stmt: t.Stmt, tying: frozenset[str]) -> bool:
    """Whether something after a statement ties modules, or may.

    Args:
        tying: the methods that are known to.
    """
    after = later(ref.define.body, stmt)
    pairs = (pair for each in after if isinstance(each, t.Assign) for pair in t.pairs(each.targets, each.value))
    if any(_module_of(target) is not None and t.path_of(value) is not None for target, value in pairs):
        return True
    calls = (node for each in after for node in t.walk(each) if isinstance(node, t.Call))
    return any(call.name in tying or _OF_TIES.search(call.name) is not None for call in calls)


def _by_others(flow: Flow, tie: _Tie) -> Iterator[tuple[FunctionRef, _Break, bool]]:
    """What other functions replace of an object whose constructor ties: its methods, or whoever has made it."""
    owner = flow.ref.owner
    if owner is None or not _is_plain(owner) or flow.ref.define.name not in reached(methods_of(owner), {"__init__"}):
        return
    names = {path.split(".")[1].split("[")[0] for path in (*tie.one, *tie.other) if path.startswith("self.")}
    seen: set[object] = set()
    for ref in _binding(flow, owner, sorted(names)):
        if ref.define not in seen and ref.define is not tie.ref.define and not ref.define.name.startswith("test"):
            seen.add(ref.define)
            yield from _in_other(flow, owner, tie, ref)


def _is_plain(owner: Class) -> bool:
    """Whether no base in another package, and no ``forward``, ties the weights when it likes."""
    of_torch = all(
        name.startswith("torch.") or name.endswith(("ABC", "LightningModule")) for name in owner.external_bases
    )
    return owner.is_module and of_torch and _tying(owner).isdisjoint(reached(methods_of(owner), {"forward"}))


def _tying(owner: Class) -> frozenset[str]:
    """The methods of an object that lead to a tie; asked of each function that may have such an object."""
    memo = memo_of(owner)
    if "tying" not in memo:
        methods = methods_of(owner)
        memo["tying"] = frozenset(leading_to(methods, {m.define.name for m in methods if any(_ties(m))}))
    found: frozenset[str] = memo["tying"]
    return found


def _binding(flow: Flow, owner: Class, names: Sequence[str]) -> Iterator[FunctionRef]:
    """The functions that bind an attribute of one of these names, in the files that name the class."""
    if not names:
        return
    bound = re.compile(rf"\.(?:{'|'.join(map(re.escape, names))})(?:\.[\w.]+)?\s*=(?!=)")
    for module in flow.project.survey.naming(owner.name, flow.module, bound):
        for name in names:
            yield from module.functions(calling(module.source, name))


def _in_other(flow: Flow, owner: Class, tie: _Tie, ref: FunctionRef) -> Iterator[tuple[FunctionRef, _Break, bool]]:
    receivers = {path.rpartition(".")[0].partition(".")[0] for path in ref.assigned if "." in path}
    for receiver in sorted(receivers):
        if not is_object(owner, ref, receiver):
            continue
        cls = ref.owner if receiver == "self" and ref.owner is not None else owner
        tying = _tying(cls) - {"__init__"}
        for each in _breaks(ref, tie.seen_from(receiver), ref.define.statements):
            if _is_tied_again(ref, each.stmt, tying) or not _comes_later(flow, tie, ref, each.stmt, receiver, tying):
                continue
            yield ref, each, not _is_head(each)


def _is_head(each: _Break) -> bool:
    """Whether it is a layer that a network is given for another task: its weight is not meant to be the old one."""
    makers = {node.name for node in t.walk(each.stmt.value) if isinstance(node, t.Call)}
    return makers.isdisjoint(("Parameter", "Embedding", "from_pretrained"))


def _comes_later(flow: Flow, tie: _Tie, ref: FunctionRef, stmt: t.Stmt, receiver: str, tying: frozenset[str]) -> bool:
    """Whether a statement of another function than the one that ties runs when there is a tie."""
    body = ref.define.body
    if receiver != "self":
        made = next((each for each in ref.define.statements if binds(each, receiver)), None)
        return made is not None and stmt in later(body, made)
    if ref.define.name == "__init__":
        return any(stmt in later(body, each) for each in ref.define.statements if _calls(each, tying, ref, tie))
    if ref.owner is None:
        return False
    methods = methods_of(ref.owner)
    if ref.define.name in reached(methods, {"__init__"}):
        breaking = leading_to(methods, {ref.define.name})
        constructors = (method for method in methods if method.define.name == "__init__")
        return any(_in_order(method, tie, breaking, tying) for method in constructors)
    return any(_calls_for_good(caller, ref, tying) for caller in flow.project.written_calling(ref))


def _calls(stmt: t.Stmt, names: Iterable[str], ref: FunctionRef, tie: _Tie) -> bool:
    """Whether a statement ties, calls a method of the object that does, or the constructor of the base that does."""
    if stmt is tie.stmt:
        return True
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if not isinstance(call, t.Call) or not isinstance(call.func, t.Attribute):
        return False
    of = call.func.value
    if t.path_of(of) == "self":
        return call.name in names
    is_super = isinstance(of, t.Call) and of.name == "super"
    return is_super and call.name == "__init__" and ref.owner is not tie.ref.owner


def _in_order(constructor: FunctionRef, tie: _Tie, breaking: set[str], tying: frozenset[str]) -> bool:
    """Whether a constructor ties first, then has a method replace one of the two, and does not tie again."""
    body, statements = constructor.define.body, constructor.define.statements
    breaks = [each for each in statements if any(call.name in breaking for call in _own_calls(each))]
    ties = [each for each in statements if _calls(each, tying, constructor, tie)]
    after = [each for each in breaks if any(each in later(body, first) for first in ties)]
    return any(not _is_tied_again(constructor, each, tying) for each in after)


def _own_calls(stmt: t.Stmt) -> list[t.Call]:
    """The methods that a statement calls of its own object."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) else None
    return (
        [call] if isinstance(call, t.Call) and isinstance(func, t.Attribute) and t.path_of(func.value) == "self" else []
    )


def _calls_for_good(caller: FunctionRef, method: FunctionRef, tying: frozenset[str]) -> bool:
    """Whether a function, and no test, calls a method of an object, as far as is known, and does not tie again."""
    name = method.define.name
    if caller.define.name.startswith("test") or caller.define is method.define:
        return False
    for stmt in caller.define.statements:
        value = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
        funcs = [node.func for node in t.walk(value) if isinstance(node, t.Call)]
        receivers = [t.path_of(func.value) for func in funcs if isinstance(func, t.Attribute) and func.name == name]
        if any(_may_be(caller, method, each) for each in receivers) and not _is_tied_again(caller, stmt, tying):
            return True
    return False


def _may_be(caller: FunctionRef, method: FunctionRef, receiver: str | None) -> bool:
    """Whether what a method is called of may be the object: it is, or nothing is known of it."""
    if receiver is None or method.owner is None:
        return False
    if is_object(method.owner, caller, receiver):
        return True
    made = [value.func for value in caller.assigned.get(receiver, []) if isinstance(value, t.Call)]
    return receiver != "self" and not any(isinstance(caller.module.value_of(func).ref, Class) for func in made)
