"""A cache whose keys are tensors or modules.

**What happens.** `functools.lru_cache` keeps its arguments as keys. A tensor's hash is its identity: two equal
tensors are two keys, so the cache never hits, and keeps every argument and every result, up to `maxsize` of them (128
when not said, without limit for `maxsize=None` and `functools.cache`). Where it does hit, after the same tensor was
changed in place, it gives the old result. On a method, `self` is a key too: the class's cache keeps the module with
its parameters, also after the last reference to it is gone.

```python
class Attention(nn.Module):
    @lru_cache(maxsize=None)
    def mask(self, length): ...

@lru_cache
def normalise(x: torch.Tensor): ...

@lru_cache(maxsize=None)
def causal_mask(size): ...

causal_mask(lengths.max())            # a tensor of one element is a tensor
```

A decorator of your own that does `if args not in known: known[args] = fn(*args)` is the same.

**Instead**, cache on what identifies the result (shapes, numbers), in a function outside of the class or in a dict of
the module; `functools.cached_property` for one value per object.

**Not flagged.** Functions of numbers, strings, shapes, devices and dtypes; methods of classes that are no modules.

**References.** huggingface/transformers#45708, pytorch#147233,
<https://docs.python.org/3/faq/programming.html#how-do-i-cache-method-calls>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Related, Severity
from gradguard.signs import CACHE, CACHE_IN_FILE, FORWARD
from gradguard.static.model import Function
from gradguard.static.source import Site
from gradguard.static.values import Kind

rule = Rule("GG404", "cached-tensor", Severity.WARNING, ((CACHE,), (CACHE_IN_FILE, FORWARD)))


@rule.in_source
def keeps_its_keys(function: Function) -> Iterator[Finding]:
    yield from _by_its_definition(function)
    for site, name, given in (*function.cached_calls, *_calls_elsewhere(function)):
        yield rule.finding(
            site,
            f"`{name}` has a cache, and `{given}` is a tensor: only the very same object hits, and each one is kept",
            help=f"give it a number: `{given}.item()` where it has one element, or what identifies the result",
        )


def _calls_elsewhere(function: Function) -> Iterator[tuple[Site, str, str]]:
    """The calls in other files that give a tensor to a cached function, which makes one."""
    if function.cached is None or function.returns.kind not in (Kind.TENSOR, Kind.OUTPUT):
        return
    for caller in function.calling():
        yield from (call for call in caller.cached_calls if call[1] == function.name)


def _by_its_definition(function: Function) -> Iterator[Finding]:
    if function.cached is None:
        return
    if function.tensor_params:
        name = function.tensor_params[0]
        reason = (
            f"the cache is keyed on the tensor `{name}`: only the very same object hits, and it keeps what it was given"
        )
        help = "cache on shapes and numbers, or not at all"
        confidence = Confidence.LOW if function.cache_is_bounded else Confidence.HIGH
    elif function.is_module_method and function.takes_self:
        reason = "the cache keeps `self`: the module and its parameters live as long as the class"
        help = "move the function out of the class, or keep the results in a dict of the module"
        confidence = Confidence.HIGH
    else:
        return
    by = function.cached_by
    related = (Related(by.path, by.cell, by.line, "they are kept here"),) if by is not None else ()
    yield rule.finding(function.cached, reason, help=help, confidence=confidence, related=related)


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cache" and leak.holder is not None and leak.holder.scope == "cache"
