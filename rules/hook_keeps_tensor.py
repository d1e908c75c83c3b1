"""A hook keeps the tensors that it sees.

**What happens.** A forward hook that appends its output to a list keeps, in each forward pass, one more activation
with the whole graph behind it. The list is made once, when the hook is registered, and nobody empties it.

A tensor's hook that refers to the tensor itself, `out.register_hook(lambda g: f(g, out))`, is worse: the tensor's
`grad_fn` owns the hook, the hook owns the tensor, and the cycle leads through C++. Python's collector does not see
it: `gc.collect()` frees nothing, even if the hook only reads `out.shape` (measured on torch 2.13: the whole graph, in
each call of the function that registers it). Written directly in the loop it is bounded, since a closure refers to
the variable, which the next iteration binds anew; with `lambda g, out=out: ...` or `partial(f, out)` it is not.
It is said of a function that is given the tensor, too, where a caller gives what has a graph, or where it gives back
what it was given, as a tap between two layers does.

```python
features = []
model.layer4.register_forward_hook(lambda m, i, o: features.append(o))
for x in loader:
    model(x)
```

Without a graph it is less, and still one tensor more in each step: detached outputs, and gradients in a backward hook.

**Instead**, overwrite (`features["layer4"] = o`), detach what is kept, or empty the list in each step. In a tensor's
hook use what it is given, or a detached copy: `kept = out.detach()`.

**Severity.** An error with the graph; a warning for what has none, where the loop trains.

**Not flagged.** A hook that overwrites, or whose list is emptied or made anew in each iteration; a hook around a single
forward; one that detaches, in a loop that does not train (features of a data set); one that keeps norms; one that
returns early once it has enough.

**References.** jacobgil/pytorch-grad-cam#71, meta-pytorch/opacus#176, pytorch#102859.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Leak, Related, Severity
from gradguard.signs import HOOK, HOOK_IN_FILE, LOOP
from gradguard.static.fixes import store_advice
from gradguard.static.model import Function, HookRegistration, Store

rule = Rule("GG109", "hook-keeps-tensor", Severity.ERROR, ((HOOK,), (HOOK_IN_FILE, LOOP)))


@rule.in_source
def keeps(function: Function) -> Iterator[Finding]:
    for hook in function.hooks:
        where = _registered(hook)
        with_graph, plain = hook.kept_by_probe() if hook.inner is None else ([], [])
        for store in (*hook.kept, *with_graph) if hook.inner is None else ():
            yield rule.finding(
                store.site,
                f"the hook adds `{store.value_code}` to {store.place} in every forward pass, with its graph, and "
                "nothing empties it in time",
                help=_help(store),
                fix=store_advice.detach(store),
                related=(where,),
            )
        for store in (*hook.kept_plain, *plain) if hook.inner is None else ():
            passes = "forward" if "forward" in hook.method else "backward"
            yield rule.finding(
                store.site,
                f"the hook adds `{store.value_code}` to {store.place} in every {passes} pass, "
                "and nothing empties it in time",
                help=f"store what is wanted of it (`.norm().item()`), overwrite, or empty {store.place} in each step",
                severity=Severity.WARNING,
                related=(where,),
            )
        name = hook.closes_over or _given(hook, function)
        if name is not None:
            yield rule.finding(
                hook.source.site,
                f"the hook on `{name}` refers to `{name}` itself: a cycle through C++ that gc.collect() cannot free, "
                "with the whole graph behind it",
                help=f"let the hook use a copy: `kept = {name}.detach()`",
            )


def _help(store: Store) -> str:
    if store.may_be_needed:
        return f"empty {store.place} in each step, after the backward that may need what it keeps, or overwrite it"
    return (
        f"store {store_advice.without_graph(store)}, overwrite instead of adding, or empty {store.place} in each step"
    )


def _given(hook: HookRegistration, function: Function) -> str | None:
    """The parameter that a hook is registered on, and refers to, if a caller gives a tensor that has a graph.

    Where it is given back as well, and no caller is seen, it is handed to a model, whose activations go through it.
    """
    if hook.closes_over_given is None or hook.inner is not None:
        return None
    there = [other for caller in function.calling() for other in caller.hooks if other.source is hook]
    is_called = any(other.inner is hook for other in there)
    handed_over = hook.closes_over_given if hook.gives_back and not is_called else None
    return next((other.closes_over for other in there if other.closes_over), handed_over)


def _registered(hook: HookRegistration) -> Related:
    site = hook.site
    return site.related("the hook is registered here")


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cycle" and leak.holder is not None and leak.holder.name == "register_hook"
