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

What a function computes with parameters has a graph, and the cache keeps that with the result, one for each set of
arguments. Asked for again after its backward, it raises.

```python
self.encode = lru_cache(maxsize=None)(self._encode)     # keyed by the version of the weights
```

A key that has a number for each sample of a batch, `block_mask(tuple(len(s) for s in batch))`, is a new one with nearly
each batch where the batches are drawn: without a limit, the cache keeps one mask for each step.

A decorator of your own that does `if args not in known: known[args] = fn(*args)` is the same.

A `WeakKeyDictionary` lets an entry go with its key. Where the value holds the key, `memo[batch] = Encoded(batch, h)`,
neither ever goes.

**Instead**, cache on what identifies the result (shapes, numbers), in a function outside of the class or in a dict of
the module; `functools.cached_property` for one value per object. Of what has a graph keep `result.detach()`, or empty
the cache after each step: `encode.cache_clear()`.

**Not flagged.** Functions of numbers, strings, shapes, devices and dtypes that compute without parameters; lengths of
samples that each step has again, or that are rounded up to a few; a function that is only given tensors which a list
keeps all the while, `norm(parts[i])`; methods of classes that are no modules; results with
a graph in a program that empties a cache, or of a cache with a limit.

**References.** huggingface/transformers#45708, pytorch#147233,
<https://docs.python.org/3/faq/programming.html#how-do-i-cache-method-calls>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Confidence, Finding, Leak, Severity
from gradguard.signs import CACHE, CACHE_GIVEN, CACHE_IN_FILE, CACHE_OF_GIVEN, FORWARD, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.mistakes.kept import CachedCall
from gradguard.static.model import Function
from gradguard.static.values import Kind, Source

_WEAK_KEYS = sign("WeakKeyDictionary")
rule = Rule(
    "GG404",
    "cached-tensor",
    Severity.WARNING,
    ((CACHE,), (CACHE_OF_GIVEN,), (CACHE_GIVEN,), (CACHE_IN_FILE, FORWARD), (_WEAK_KEYS,)),
)


@rule.in_source
def keeps_its_keys(function: Function) -> Iterator[Finding]:
    found = list(_by_its_definition(function))
    found += _of_graphs(function, besides=bool(found))
    yield from found
    if not found:
        yield from _by_varied_keys(function)
    yield from _by_weak_keys(function)
    for call in (*function.cached_calls, *_calls_elsewhere(function)):
        yield rule.finding(
            call.site,
            f"`{call.function}` has a cache, and `{call.given}` is a tensor: only the very same object hits, and each "
            "one is kept",
            help=f"give it a number: `{call.given}.item()` where it has one element, or what identifies the result",
            related=(call.kept_by.related("they are kept here"),) if call.kept_by is not None else (),
        )


def _calls_elsewhere(function: Function) -> Iterator[CachedCall]:
    """The calls in other files that give a tensor to a cached function, which makes one."""
    if function.cached is None or function.returns.kind not in (Kind.TENSOR, Kind.OUTPUT):
        return
    for caller in function.calling():
        yield from (call for call in caller.cached_calls if call.function == function.name)


def _by_its_definition(function: Function) -> Iterator[Finding]:
    if function.cached is None:
        return
    if function.tensor_params:
        if function.mistakes.kept.is_given_kept():
            return
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
    related = (by.related("they are kept here"),) if by is not None else ()
    yield rule.finding(function.cached, reason, help=help, confidence=confidence, related=related)


def _of_graphs(function: Function, besides: bool) -> Iterator[Finding]:
    """The caches without a limit whose results have graphs: of the function itself, and of those that it gives one.

    Args:
        besides: of the function's own there is something else to say.
    """
    is_of_python = function.cached is not None and function.cached_by is None
    goes_on = is_of_python and not besides and not function.cache_is_bounded and not function.cache_is_emptied
    own = [(function.cached, function)] if goes_on else []
    for site, cached in (*own, *function.caches):
        if site is not None and cached.takes_arguments and _gives_graphs(cached):
            yield rule.finding(
                site,
                f"the cache keeps the graph of every result of `{cached.name}`: what was asked for once is never freed",
                help="keep `.detach()` of the result, or empty the cache after each step with its `cache_clear()`",
            )


def _gives_graphs(function: Function) -> bool:
    """Whether a graph surely begins in what the function returns, and it is called where graphs are recorded."""
    begins = any(root.source is Source.GRAPH for root in function.returns.roots)
    return begins and not function.called_without_grad()


def _by_varied_keys(function: Function) -> Iterator[Finding]:
    """The caches without a limit that each batch adds a tensor to."""
    is_of_python = function.cached is not None and function.cached_by is None
    if not is_of_python or function.cache_is_bounded or function.cache_is_emptied:
        return
    made = function.mistakes.kept.varied_keys() if function.returns.kind in (Kind.TENSOR, Kind.OUTPUT) else []
    if function.cached is not None and made:
        yield rule.finding(
            function.cached,
            f"the cache keeps a tensor for nearly each batch: `{one_line(made[0].code)}` is hardly ever the same again",
            help="compute it without a cache, or give that a limit: `lru_cache(maxsize=8)`",
            related=(made[0].related("the key is made here, anew in each step"),),
        )


def _by_weak_keys(function: Function) -> Iterator[Finding]:
    for kept in function.mistakes.kept.kept_keys():
        yield rule.finding(
            kept.site,
            f"`{kept.path}` has weak keys, and this value holds its own: `{kept.key}` is never freed, nor is the value",
            help=f"keep what is needed of `{kept.key}`, or `weakref.ref({kept.key})`",
        )


@rule.in_run
def matches(leak: Leak) -> bool:
    return leak.kind == "cache" and leak.holder is not None and leak.holder.scope == "cache"
