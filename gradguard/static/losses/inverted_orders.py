"""Inner gradients whose graph is made where a flag asks for the first order only, and not where it asks for both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.paths import last
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_FIRST = re.compile(r"^(?:\w+_)?(?:first_?order|1st_order|fo_?maml)(?:_?(?:only|maml|approx\w*))?$", re.I)
_SECOND = re.compile(r"^(?:\w+_)?(?:second_?order|2nd_order)(?:_maml)?$", re.I)
# What learns to learn: elsewhere a flag of that name may say which derivatives of a field are asked for.
_LEARNS_TO_LEARN = re.compile(r"maml|meta|inner|adapt|fast_?w|episod|support", re.I)


def inverted_orders(flow: Flow) -> Iterator[Site]:
    """The calls ``torch.autograd.grad(..., create_graph=first_order)``, where ``not first_order`` is meant."""
    for call in flow.ref.calls:
        flag = next((arg.value for arg in call.args if arg.keyword == "create_graph"), None)
        if flag is None or not _is_inverted(flow, flag) or not flow.ref.chunk.shows(_LEARNS_TO_LEARN):
            continue
        if str(flow.module.value_of(call.func).ref) == "torch.autograd.grad":
            yield flow.site(call)


def _is_inverted(flow: Flow, flag: t.Expr) -> bool:
    if isinstance(flag, t.Operation) and flag.operator == "not":
        return _is_called(flow, flag.operands[0], _SECOND)
    return _is_called(flow, flag, _FIRST)


def _is_called(flow: Flow, flag: t.Expr, pattern: re.Pattern[str]) -> bool:
    """Whether a flag has a name of a kind, and the function does not say itself what it is."""
    path = t.path_of(flag) or ""
    return pattern.search(last(path)) is not None and path not in flow.ref.assigned
