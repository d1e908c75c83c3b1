"""Whether what is kept in a collection is computed with later: a backward may go through it, and needs its graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.model import Form, Scope, Store

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_WITH = r"\b(?:sum|stack|cat|concat|mean|fsum)\s*\([^\n]*\b{0}\b"
_EACH = r"\bfor\b[^\n]*\bin\b[^\n]*\b{0}\b"
_ONE = r"(?:=|\breturn\b|[-+*/(,])[ \t]*[\w.]*\b{0}\[(?![^\n]*\][ \t]*=(?!=))"

_MORE_THAN_ITS_END = r"{1}\b{0}\b(?!\.append\(|\[-|\s*(?::[^=\n]+)?=\s*(?:\[\]|list\(\))\s*$)"


def is_read_at_its_end(flow: Flow, store: Store) -> bool:
    """Whether all that a program reads of a list are the newest items: ``torch.stack(policy.entropies[-steps:])``.

    Told from text. What is older is never needed again, though a backward goes through what the list gives.
    """
    name = re.escape(store.holder)
    if store.form is not Form.APPEND or not name.isidentifier():
        return False
    of_object = rf"(?<=\.)(?!{name}\(\))" if "." in store.path else ""  # no variable of that name
    pattern = re.compile(_MORE_THAN_ITS_END.format(name, of_object), re.M)
    return not flow.project.survey.mentions(pattern, flow.module, store.holder)


def is_read_again(flow: Flow, store: Store) -> bool:
    """Whether a function of the program computes with what a collection of an object or a module keeps.

    Told from text: ``torch.stack(self.aux_losses).sum()``, ``loss + self.aux_losses[-1]``.
    """
    if store.scope in (Scope.LOCAL, Scope.PARAMETER):
        return False
    name = re.escape(store.holder)
    if not name.isidentifier():
        return False
    pattern = re.compile("|".join(part.format(name) for part in (_WITH, _EACH, _ONE)))
    return flow.project.survey.acts(store.holder, pattern, flow.module)
