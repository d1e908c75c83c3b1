"""A hook is registered in every iteration and never removed.

**What happens.** `register_forward_hook` adds to a dict of the module. Registered once per step, after a thousand steps
a thousand hooks run in every forward pass. The bytes grow slowly (unless a hook keeps tensors), but each step takes
longer than the one before, and the stale hooks still do whatever they do.

```python
for x in loader:
    model.layer4.register_forward_hook(save_activation)
    model(x)
```

**Instead**, register once before the loop, or keep the handle and remove it:

```python
handle = model.layer4.register_forward_hook(save_activation)
try:
    ...
finally:
    handle.remove()
```

An object whose constructor registers a hook (a class for activation maps) is the same, made in each iteration: flagged
where nothing calls the method that removes it. So is a handle in whose place the next line puts another one
(`self.handles[name] = ...` twice), or the next layer (`for layer in layers: self.handle = ...`): only the last can be
removed. So is one that a method binds whenever the loop calls it (`self.handle = ...`), where what removes the last one
runs behind the loop, and one that an `ExitStack` from outside of the loop is to remove. And one that a callback
registers before each epoch or batch (`before_epoch`, `on_train_batch_start`), where its class removes them when the
training is over, or never.

So is a property that makes such an object at each access, `return Buckets(self.net)`, and is read in each step:
`functools.cached_property` makes it once.

A hook on a parameter (`net.fc.weight.register_hook(...)`) stays with it in the same way; where it changes the gradient,
each of them changes it again.

**Not flagged.** One registration per module in a loop over `model.modules()`; one that is made the first time only
(`if self.handle is None: ...`); a handle that is removed; an object that is closed, or used in a `with`; a hook on a
tensor of this iteration (`out.register_hook(...)`), which dies with the tensor.

**References.** <https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook>,
jacobgil/pytorch-grad-cam#132.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import HOOK, HOOK_IN_FILE, LOOP, sign
from gradguard.static.fixes.line_edits import hoisted
from gradguard.static.model import Function, HookRegistration

# `@property def parallel(self): return Bucketed(self.net)`
_PROPERTY = sign(
    "@property",
    pattern=r"@property\s+def\s(?s:.*?)\breturn\s+[\w.]*\b[A-Z]\w*\((?s:.*?)\bself\.",
    own=True,
    across=True,
)

rule = Rule("GG401", "hook-in-loop", Severity.WARNING, ((HOOK,), (HOOK_IN_FILE, LOOP), (_PROPERTY,)))


@rule.in_source
def piles_up(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.made_by_properties():
        yield rule.finding(
            each.site,
            f"each access of `{each.name}` makes a new `{each.made}`, which registers its hooks once more, and none is "
            "removed: each step is slower than the last",
            help="make it once: `functools.cached_property`, or an attribute",
            related=(each.registered.related("it registers a hook here"),),
        )
    for hook in function.hooks:
        is_again = hook.by_call or (hook.repeats is not None and not hook.removed)
        if not is_again or hook.first_time:
            continue
        yield rule.finding(
            hook.source.site,
            f"`{hook.receiver_code}` gets one more hook {_when(function, hook)}",
            help="register it once before the loop, or keep the handle and call `handle.remove()`",
            related=(hook.site.related("each iteration registers it by this call"),) if hook.inner is not None else (),
            fix=hoisted(hook.site, hook.repeats) if hook.inner is None and hook.repeats is not None else None,
            confidence=Confidence.LOW if hook.callee_decides and not _is_sure(hook) else Confidence.HIGH,
        )


def _is_sure(hook: HookRegistration) -> bool:
    """Whether the function that is called registers it each time: on some of the modules that it goes over.

    Or where a flag says so, and the next handle then takes the place of this one.
    """
    source = hook.source
    return isinstance(source, HookRegistration) and (source.chooses or source.overwritten)


def _when(function: Function, hook: HookRegistration) -> str:
    if hook.by_call:
        return f"whenever `{function.name}` is called, and none is removed before the end: all of them run in each step"
    return f"in every iteration, and {_left(hook)}: each step is slower than the last"


def _left(hook: HookRegistration) -> str:
    source = hook.source
    if hook.stack is not None:
        return f"none is removed before `{hook.stack}` is left"
    if hook.removed_late:
        return "none is removed before the loop is over"
    overwritten = isinstance(source, HookRegistration) and (source.overwritten or source.knowing is not None)
    return "the next handle takes the place of this one" if overwritten else "none is removed"


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "hook"
