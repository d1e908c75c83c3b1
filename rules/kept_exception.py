"""An exception is kept, and with it every tensor of the frames that it passed through.

**What happens.** An exception object owns its traceback, the traceback owns the frames, and the frames own their
local variables: the batch, the activations, the loss with its graph. `errors.append(e)` keeps all of that for each
failure (measured on torch 2.13: every activation of the call that raised); `self.last_error = e` keeps one of them
for as long as nothing else fails. After an out-of-memory error it is what prevents the memory from coming back. An
error that is raised in the loop's own frame adds nothing: there is one frame, and the next iteration binds its
variables anew.

```python
for x, y in loader:
    try:
        train_step(x, y)
    except RuntimeError as e:
        failures.append(e)
```

**Instead**, keep its text: `failures.append(str(e))`, or `traceback.format_exc()`. If the object is needed, let the
frames go: `e.with_traceback(None)`, `e.__traceback__ = None`.

**Not flagged.** `str(e)`, `repr(e)`, `e.args`, logging, raising again; an exception around work that runs no model.

**References.** pytorch#18853, pytorch#27600, ipython/ipython#11572,
<https://docs.python.org/3/reference/compound_stmts.html#except> (why Python itself deletes `e`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Severity
from gradguard.signs import EXCEPTION
from gradguard.static.fixes.rewrites import as_text
from gradguard.static.model import Form, Function, Store
from gradguard.static.values import Held

rule = Rule("GG110", "kept-exception", Severity.WARNING, ((EXCEPTION,),))


@rule.in_source
def keeps_frames(function: Function) -> Iterator[Finding]:
    for store in function.stores:
        if not store.piles_up(Held.EXCEPTION) or (store.inner and not store.parameter and store.grows is None):
            continue
        how_many = "the frames of the last failure" if store.form is Form.REBIND else "the frames of every failure"
        yield rule.finding(
            store.site,
            f"{store.place} keeps an exception, and with it {how_many}: the batch, the activations, the loss",
            help=f"keep its text: `str({_name(store)})`, or `traceback.format_exc()`",
            fix=as_text(store.site, _name(store)) if store.inner is None else None,
            related=store.where_stored(),
        )


def _name(store: Store) -> str:
    """The exception's own name, where it is stored in something: ``error`` of ``Incident(step, error)``."""
    caught = [held.key for held in store.value.holding(Held.EXCEPTION) if isinstance(held.key, str)]
    return caught[0] if len(caught) == 1 else store.value_code


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "exception"
