"""Collections that are made once, and that nothing takes anything out of, as far as the program is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.paths import is_part

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def is_never_emptied(flow: Flow, path: str) -> bool:
    """Whether nothing in the program empties, or begins anew, a collection that a function puts something into."""
    name = path.rpartition(".")[2]
    if not name.isidentifier() or path in flow.ref.assigned or any(takes_out(n, path) for n in flow.ref.define.nodes):
        return False
    return not flow.project.survey.empties(name, flow.module, (flow.defined,), bare=name == path)


def takes_out(node: t.Node, path: str) -> bool:
    """``known.pop(key)``, ``known.clear()``, ``del known[key]``."""
    if isinstance(node, t.Delete):
        return any(is_part(t.path_of(target) or "", path) for target in node.targets)
    is_method = isinstance(node, t.Attribute) and node.name in k.CLEARING_METHODS
    return is_method and isinstance(node, t.Attribute) and t.path_of(node.value) == path
