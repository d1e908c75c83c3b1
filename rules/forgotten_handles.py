"""The handles of hooks are dropped, and not removed: the hooks stay where they are.

**What happens.** `register_forward_hook` gives a handle. When that is gone, the hook is not: only `handle.remove()`
takes it away. A context that clears its list of handles at its end leaves one more hook on the model each time that it
is entered. All of them run in each forward, and each keeps what its function sees: the features of all steps.

```python
class Tap:
    def __enter__(self):
        for layer in self.layers:
            self.handles.append(layer.register_forward_hook(self.note))
        return self

    def __exit__(self, *error):
        self.handles.clear()                                  # the hooks are still there
```

**Instead**, remove them before: `for handle in self.handles: handle.remove()`.

**Not flagged.** Handles that any method, or other code, takes out of the attribute, goes over or hands on; hooks of
tensors, which go with these; a method that registers the next hooks, or lets the modules go; programs that clear
`_forward_hooks`.

**References.** <https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook>.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.catalogue import Rule
from gradguard.findings import Finding, Severity
from gradguard.signs import HOOK_IN_FILE, sign
from gradguard.static.fixes.edits import one_line
from gradguard.static.model import Function

_DROPS = sign(
    "self.",
    pattern=r"\bself\.\w+\.clear\(\s*\)|"
    r"(?m:^)[ \t]+self\.\w+(?:\s*:[^=\n]+)?\s*=\s*(?:None|\[\s*\]|\{\s*\}|"
    r"(?:collections\.)?(?:list|dict|set|deque|OrderedDict|defaultdict)\()",
    own=True,
)  # fmt: skip

rule = Rule("GG424", "forgotten-handles", Severity.WARNING, ((HOOK_IN_FILE, _DROPS),))


@rule.in_source
def stay_registered(function: Function) -> Iterator[Finding]:
    for each in function.mistakes.kept.forgotten_handles():
        yield rule.finding(
            each.site,
            f"`{one_line(each.site.code)}` drops the handles, and removes no hook: those of `{each.method}` stay",
            help=f"call `handle.remove()` for each of `{each.handles}` first",
        )
