"""Methods that call their object by another name than ``self``: in the tree it is ``self``, for all who read it."""

from __future__ import annotations

from gradguard.static import tree as t

_OTHERS = frozenset("self cls ctx context mcs mcls metacls klass type".split())
_BINDING = frozenset(
    "property cached_property setter no_grad inference_mode enable_grad abstractmethod override".split()
)
_OF_CLASSES = ("__new__", "__init_subclass__", "__class_getitem__", "__prepare__")


def with_self(define: t.Define) -> None:
    """Call a method's first parameter ``self``, where it is the object and nothing else has that name.

    The places and the text of what is found are those of the file.
    """
    first = define.params[0] if define.params else None
    if first is None or first.star or first.default is not None or first.name in _OTHERS:
        return
    if (
        not all(map(_leaves_bound, define.decorators))
        or define.name in _OF_CLASSES
        or first.name.startswith(("ctx", "cls"))
    ):
        return
    nodes = list(t.walk(define))
    names = [node for node in nodes if isinstance(node, t.Name)]
    inner = [node for node in nodes if isinstance(node, t.Define | t.Lambda) and node is not define]
    taken = {param.name for node in (define, *inner) for param in node.params if param is not first}
    if {first.name, "self"} & (taken | _bound(nodes)) or any(name.id == "self" for name in names):
        return
    for name in names:
        if name.id == first.name:
            name.id = "self"
    first.name = "self"


def _leaves_bound(decorator: t.Expr) -> bool:
    """Whether a decorator surely leaves the first argument what it is."""
    func = decorator.func if isinstance(decorator, t.Call) else decorator
    return (t.path_of(func) or "").rsplit(".", 1)[-1] in _BINDING


def _bound(nodes: list[t.Node]) -> set[str]:
    """The names that statements bind."""
    targets: list[t.Expr] = []
    for node in nodes:
        if isinstance(node, t.Assign | t.Delete):
            targets += node.targets
        elif isinstance(node, t.Comprehension):
            targets += (clause.target for clause in node.clauses)
        elif isinstance(node, t.Augment | t.Walrus | t.Repeat) and node.target is not None:
            targets.append(node.target)
    return {name.id for target in targets for name in t.names_in(target) if isinstance(name, t.Name)}
