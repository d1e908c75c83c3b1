"""A cache keeps what it makes under a random number: it is hardly ever found again.

**What happens.** `if key not in cache: cache[key] = load(key)` is bounded by the number of keys. With a random number
in the key, as the start of a crop, that is the number of all crops: nearly each sample is a new one, is stored, and is
not asked for again. The cache gets larger by a sample each time, in each worker of a loader for itself, until the
host's memory is full. What is made is right, so nothing tells.

```python
def __getitem__(self, index):
    start = random.randint(0, self.lengths[index] - self.size)
    if (index, start) not in self.cache:
        self.cache[index, start] = self.read(index, start)       # one more in nearly each call
    return self.cache[index, start]
```

**Instead**, keep what the draw is made from, and cut the crop out of that:

```python
    if index not in self.cache:
        self.cache[index] = self.read(index)
    return self.cache[index][start : start + self.size]
```

So it is where an object keeps things for others, and one of them draws: `self.spectra.get((index, gain), make)`, with
`gain = 10 ** (random.uniform(-6, 6) / 20)`, also where that is 1 outside of a training.

A count that only goes up is as bad: with `key = (self.epoch, index)` nothing of an earlier epoch is ever found again,
and all of it stays; so it is with the number of the call, as the seed of what is made (`self.ids(word, self.calls)`).
Keep what is the same in all epochs under the `index`, or empty the cache where the epoch changes; let seeds come again:
`self.calls % 16`.

So is a number that follows a schedule, as a temperature that is another one in each step (`kernel(0.99**step)`), and a
class that is made for it, where the base keeps all classes (`__init_subclass__`). Round it: `round(temperature, 1)`.

**Not flagged.** Draws of few: one of the files (`randrange(len(self.files))`), a number below ten thousand, or one that
is made whole (`int(8 * random.random())`); caches that ask for their own length, that are gone through as a record is,
or that something is taken out of; `lru_cache`, which has a bound of its own (GG404 tells of those that have none).

**References.** <https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading> (each worker has
its own copy of the dataset),
<https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomCrop.html>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Related, Severity
from gradguard.signs import KEPT_UNDER, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.mistakes.kept import RandomKey
from gradguard.static.model import Function

_DRAWS = sign(
    "rand", "integers(", "uniform", "normal", "gauss(", "uuid", "time", "Crop",
    pattern=r"rand\w*\(|\b(?:integers|uniform_?|\w*normal_?|gauss|uuid\d|time|time_ns|perf_counter|monotonic)\(|Crop",
)  # fmt: skip

# A count among others, in a tuple or a text.
_COUNTS = sign(
    "epoch", "step", "iteration",
    pattern=r"[(\[{,=][ \t]*self\.\w*(?:epoch|step|iteration)s?[ \t]*[,\]})]|"
    r",[ \t]*self\.\w*(?:epoch|step|iteration)s?\b",
    own=True,
)  # fmt: skip
# A count that the function may be given.
_COUNTED_UP = sign("+= 1", "+=1", pattern=r"\bself\.\w+\s*\+=\s*1\b")
_STORES = sign("] =", "]=", pattern=r"(?m:^)[ \t]*self\.\w+\[[^\n]*\]\s*=(?!=)", own=True)

# The number may be one that a training computes of its step, wherever that is.
_TORCH = sign("torch")
_MAKES_CLASS = sign("type(", pattern=r"(?<![.\w])type\(\s*\w+\s*,\s*[(\w]", own=True)

rule = Rule(
    "GG417",
    "random-key",
    Severity.WARNING,
    (
        (KEPT_UNDER, _DRAWS),
        (_COUNTS, _STORES),
        (KEPT_UNDER, _STORES, _COUNTED_UP),
        (KEPT_UNDER, _TORCH),
        (_MAKES_CLASS,),
    ),
)


@rule.in_source
def is_never_found_again(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.random_keys():
        key, draw = one_line(each.key.code), one_line(each.draw.code)
        yield rule.finding(
            each.site,
            f"`{each.collection}` keeps one more nearly each time: the key `{key}` is new by `{draw}`",
            help="keep what the draw is made from, under what is not drawn",
            related=(each.draw.related("it is drawn here"),),
        )
    for each in function.mistakes.kept.scheduled_keys():
        key, value = one_line(each.key.code), one_line(each.draw.code)
        yield rule.finding(
            each.site,
            f"`{each.collection}` keeps one more in each step: the key `{key}` follows `{value}`, which is another "
            "number each time",
            help="round the number, so that few are left, or leave it out of the key",
            related=(each.draw.related("it is computed here"),),
        )
    for each in function.mistakes.kept.counted_keys():
        yield rule.finding(
            each.key,
            f"`{each.collection}` keeps more each time `{each.draw.code}` goes up: no key with it is found again",
            help="leave it out of the key, or empty the cache where it changes",
            related=(each.site.related("it is kept here"), *_given(each)),
        )


def _given(each: RandomKey) -> tuple[Related, ...]:
    """The call that gives the count, where that is another function's."""
    return (each.draw.related("the count is given here"),) if each.draw.line != each.key.line else ()
