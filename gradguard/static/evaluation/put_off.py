"""Models that only seem to run without graphs: a generator is returned out of ``with torch.no_grad()``.

What is written in it runs as somebody goes through it, when the block is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Forward, Mode

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def put_off(flow: Flow) -> Iterator[Forward]:
    """The module calls in a generator that a function returns, where the function itself turns graphs off."""
    if flow.facts.is_test:
        return
    returned = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return)]
    lazy = [value for value in returned if isinstance(value, t.Comprehension) and value.kind == "generator"]
    later = {node for each in lazy for node in t.walk(each.element)}
    for forward in flow.facts.forwards if later else ():
        needs_none = forward.is_frozen or forward.is_foreign or forward.may_learn_itself
        if forward.mode is Mode.OFF and forward.inner is None and forward.site.node in later and not needs_none:
            yield forward
