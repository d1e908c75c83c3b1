"""What a text must show for a rule to be worth asking: the words of the screen.

Nearly all functions of a large tree have nothing to do with training, and reading one closely costs thousands of
times what a search for a word costs. So each rule says by signs what a function that it could flag, or the file that
the function is in, contains. A sign may be wider than its rule, never narrower: what the screen leaves out is not read.
What only another file shows is not seen, but for one thing: a loop may call what a file that is imported trains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Sign:
    """Something that a text may contain.

    Args:
        literals: one of them is in the text.
        pattern: a regular expression that has a match in a line with one of them; none when the literals say it all.
        own: it stands in the function itself; any other sign may stand elsewhere in the function's file.
        across: the match may go over lines, and no literal need be in it.
        usual: nearly every file has it, so that it is looked for in functions only.
        reaches: what is found by it may lie in a caller of the function that shows it, as that makes the objects.
        inherited: and in a method that a class of the file inherits.
    """

    literals: tuple[str, ...]
    pattern: str = ""
    own: bool = False
    across: bool = False
    usual: bool = False
    reaches: bool = False
    inherited: bool = False
    words: tuple[bytes, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(word.encode() for word in self.literals))

    @cached_property
    def _regex(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern.encode())

    def is_in(self, text: bytes, words: Iterable[bytes] | None = None) -> bool:
        """Whether a text shows it.

        Args:
            words: those of its words that the text may have, where it is known that it has no other.
        """
        words = self.words if words is None else words
        if self.pattern and not self.across:
            looked_at: set[int] = set()
            return any(self._is_in_line_with(word, text, looked_at) for word in words)
        return any(word in text for word in words) and (not self.pattern or self._regex.search(text) is not None)

    def _is_in_line_with(self, word: bytes, text: bytes, looked_at: set[int]) -> bool:
        found = text.find(word)
        while found >= 0:
            start, end = text.rfind(b"\n", 0, found) + 1, text.find(b"\n", found)
            if start not in looked_at:
                looked_at.add(start)
                if self._regex.search(text, start, end if end >= 0 else len(text)) is not None:
                    return True
            found = text.find(word, end) if end >= 0 else -1
        return False


BOUND = "\x01"
"""What stands in the text of a constructor for ``self.name =``: what is bound there first replaces nothing."""
CHANGED = "#\x02"
"""What stands in the text of a ``forward`` at the end of ``x += y``, which reads as ``x = y`` there."""
TRAINS_HERE = r"(?m)^[^#>\n]*\.backward\("
"""A call of backward that is no comment and no example of a docstring."""
CHOOSES_LOSS = (
    r"\w*(?:[bB]uild|[mM]ake|[cC]reate|[gG]et|[cC]hoose|[sS]elect|[iI]nit)\w*(?:[lL]oss|[cC]rit|[oO]bjective)\w*"
)
"""The name of a function that makes one of several losses: ``build_criterion``."""
Signs = tuple[Sign, ...]
"""All of them are needed."""


def sign(
    *literals: str,
    pattern: str = "",
    own: bool = False,
    across: bool = False,
    usual: bool = False,
    reaches: bool = False,
    inherited: bool = False,
) -> Sign:
    return Sign(literals, pattern, own, across, usual, reaches, inherited)


def loop_over(what: str) -> str:
    """A regular expression for a loop, in one line, over what another one matches.

    The first ``for`` of the line, then the first ``in``: an expression that may begin at each ``for``, and go on at
    each ``in``, takes minutes for one long line of prose that is full of them.
    """
    return rf"(?m:^)(?:(?!\bfor\b)[^\n])*\bfor\b(?:(?!\bin\b)[^\n])*\bin\b[^\n]*?{what}"


_CALLS_BACKWARD = r"(?<!def )\b(?!save_for_)\w*backward(?!\w*compat)\w*\s*\(|\.backward\b|[\"']backward"
_BATCHES = loop_over(r"(?:oader|_dl\b|\bdl\b|batches|_iter\b|iterator\b|generator\b)")
# What is no switch of a parameter, as models have one to freeze their parts.
_ASKS_GRADIENT = r"(?<!\bp)(?<!\bparam)(?<!parameter)(?<!weight)(?<!bias)\.requires_grad(?:_\((?!\s*False)|\s*=\s*True)"
_TRAINS = (
    _CALLS_BACKWARD + r"|\boptim\.\w|optimizer\.|\bgrad\(|zero_grad|\.step\(|"
    r"\bdef (?:training|train|validation|test|predict|optimizer)_step|\btrain\w*_step\(|\bcompute_loss|"
    + loop_over(r"(?:oader|_dl\b|\bdl\b|batches)")
)
_OF_TRAINING = (
    "backward", "optim", "grad(", "zero_grad", ".step(", "_step", "oader", "compute_loss", "batches", "dl",
)  # fmt: skip
# Something is trained here, or evaluated over batches, with whatever framework.
TRAINING = sign(*_OF_TRAINING, pattern=_TRAINS, reaches=True, inherited=True)
# A function that has a part in it, where nothing else in its file need speak of it.
MAY_TRAIN = sign(
    *_OF_TRAINING, "Optimizer", ".eval(", ".requires_grad", "train",
    "Trainer", "accelerator", "evaluate", "predict", "validate", "validation(", "test(", "infer",
    "set_grad_enabled", ".fit(", "_iter", "iterator", "generator",
    pattern=_TRAINS + r"|optimizer|\boptim\b|_optim\b|(?<![\"'\w])\w*Optimizer|\.eval\(|_step\(|[Ll]oaders?\b|"
    r"Trainer\(|(?<!torch\.)\baccelerator\b|\btrain\w*\(|\bevaluate\w*\(|set_grad_enabled|\.fit\(|"
    + _ASKS_GRADIENT + "|" + _BATCHES + "|"
    r"\bdef\s+_*(?:evaluate\w*|predict\w*|validate|validation|test|infer|inference)\s*\(",
    own=True,
    reaches=True,
    inherited=True,
)  # fmt: skip
# A function that may hand an evaluated model to one that runs it in a loop, wherever that is.
PUTS_INTO_EVALUATION = sign(".eval(", pattern=r"\.eval\(\)", own=True)
# A loop whose name says that it evaluates.
EVALUATION_LOOP = sign(
    "val", "Val", "VAL", "test", "Test", "TEST", "dev", "Dev", "DEV",
    pattern=loop_over(r"(?i:(?:val|test|eval|dev)\w*(?:loader|dl|iter|data|set|batches|gen))"),
    reaches=True,
    inherited=True,
)  # fmt: skip
# A function whose name says so.
EVALUATION = sign(
    "val", "Val", "test", "Test", "infer", "Infer", "predict", "Predict",
    pattern=r"\bdef\s+_*(?i:(?:\w+_)?(?:eval|validate|validation|valid|val|test|infer|inference|predict)(?:_\w+)?)\s*\(",
    reaches=True,
    inherited=True,
)  # fmt: skip
LOADER = sign("oader", "dl", "batches", "iter", "generator", pattern=_BATCHES)
BACKWARD = sign("backward", pattern=_CALLS_BACKWARD)
FORWARD = sign("def forward", own=True)
_ADDS = r"(?:append|extend|appendleft|extendleft|add|insert|update|push|put|setdefault)"
_CONSTANT = r"""\s*(?:True|False|None|\d[\d._]*|"[^"\n]*"|'[^'\n]*')[ \t]*(?:#|\n|$)"""
# Something that lives longer than a call gets more, or something else.
KEEPS_MORE = sign(
    "+=", "-=", "*=", "self.", "global ", "setattr(",
    # The first letters of its parts stand for themselves: at any other letter a search is over them at once.
    pattern=rf"self\.[\w.]+(?:\[[^\]\n]*\])?\s*(?:[-+*/]=|=(?!=|{_CONSTANT})|\.{_ADDS}\w*\(|\.\w+_\()|"
    rf"get_buffer\(|setattr\(|\bglobal\b|"
    rf"[A-Z_]{{3,}}(?:\.{_ADDS}\(|\[[^\]\n]*\]\s*[-+*/]?=[^=])|"
    rf"(?m:^)[ \t]*(\w+)\s*=\s*self\.[\w.]+\s*\n(?s:.{{0,3000}}?)"
    rf"\b\1(?:\s*[-+*/]=|\.{_ADDS}\w*\(|\[[^\]\n]*\]\s*=[^=])",
    own=True,
    across=True,
)  # fmt: skip
_LOOPS = r"\bwhile\b|\bfor\b[^\n]*\bin\b|\bfor\s*\("
LOOP = sign("for", "while", pattern=_LOOPS, own=True, usual=True)
_TARGETS = r"(?:[^\n=:(\[\]#!<>]|\[(?:[^\n\[\]]|\[[^\n\]]*\])*\])*"  # a, b.c[d[0]]
_SETS = rf"=(?!=|{_CONSTANT})"
# Methods in place that bring no graph.
_FILLING = r"(?:(?:normal|uniform|trunc_normal|zero|random|bernoulli|exponential|share_memory)_\(|fill_\(\s*[-\d])"
# Without a loop, a store or a word of gradients, a function keeps nothing, and does nothing to a gradient.
ACTS = sign(
    "for", "while", "=", "(", "global", "nonlocal", "grad", "step", "backward", "optim",
    pattern=_LOOPS + r"|\bglobal\b|\bnonlocal\b|(?<!no_)(?<!requires_)grad(?!ient_checkpointing|_enabled|_fn\b)|"
    r"\bstep\b|_step\s*\(|backward|optim(?!al|um)|"
    rf"\.{_ADDS}\w*\(|(?<!\binit)\.(?!{_FILLING})[a-z]\w*[a-z0-9]_\(|[-+*/@]=|"
    r"(?m:(?:^|;|:[ \t]+(?=self\.))[ \t]*(?=[^\n=:(]*[.\[])" + _TARGETS + r"(?::[^=\n]+)?" + _SETS + ")|"
    r"\)(?:\[[^\n]*\]|\.\w+)\s*" + _SETS,
    own=True,
    across=True,
    usual=True,
)  # fmt: skip
TRAINS: tuple[Signs, ...] = ((TRAINING, ACTS), (MAY_TRAIN, ACTS))
EVALUATES: tuple[Signs, ...] = ((EVALUATION_LOOP, ACTS), (EVALUATION, LOADER, ACTS))
# A collection of the whole file, empty at first: a function beside the forward may put what it is given into it.
COLLECTION_OF_FILE = sign(
    "[]", "{}", "list(", "dict(", "deque(",
    pattern=r"(?m:^)\w+(?:\s*:[^=\n]+)?\s*=\s*(?:\[\]|\{\}|list\(\)|dict\(\)|(?:collections\.)?(?:deque|defaultdict)\()",
)  # fmt: skip
# A store of a graph that outlives what made it.
STORING: tuple[Signs, ...] = (*TRAINS, *EVALUATES, (FORWARD, KEEPS_MORE), (FORWARD, COLLECTION_OF_FILE))
GRAD_CALL = sign("grad(", pattern=r"\bgrad\(")
# Written out, or in a method that a framework runs without gradients: `validation_step`.
NO_GRAD = sign("no_grad", "inference_mode", "_step")
# Of functools, or a decorator of the program, by the names that such have.
CACHE = sign("cach", "Cach", "memo", "Memo", pattern=r"@[^\n]*(?:[Cc]ach|[Mm]emo)|functools\.\w*cache", own=True)
# Of a function that callers give something besides its object.
CACHE_OF_GIVEN = sign(
    "cach", "Cach", "memo", "Memo",
    pattern=r"@[^\n]*(?:[Cc]ach|[Mm]emo)(?s:.*?)\bdef\s+\w+\s*\((?!\s*(?:(?:self|cls)\b[^,()]*,?\s*)?\))|"
    r"(?<!@)functools\.\w*cache",
    own=True,
    across=True,
    reaches=True,
)  # fmt: skip
# Of a function that has another name then: who calls it is not told by its name.
CACHE_IN_FILE = sign(
    "cache", "memo",
    pattern=r"=\s*(?:functools\.)?(?:lru_)?cache\(|(?m:^)[ \t]*from\s+[\w.]*memo(?!ry)[\w.]*\s+import\b",
    reaches=True,
)  # fmt: skip
# A function that is given one by a call.
CACHE_GIVEN = sign(
    "cache(", pattern=r"(?<!@)\b(?:lru_)?cache\((?:(?:maxsize|typed|None)[^\n]*\)\(|[\w.]+\))", own=True, reaches=True
)
_KEY = r"(\(?[A-Za-z_]\w*(?:,[^\]\n:]{1,30})?\)?)"
# What is looked for first, and put there if it is not: `if key not in made: made[key] = ...`.
KEPT_UNDER = sign(
    "] =", "]=",
    pattern=rf"\bif\s+{_KEY}\s+(?:not\s+)?in\s(?s:.*?)\[\1\]\s*=(?!=)|"
    rf"\.get\(\s*{_KEY}\s*[,)](?s:.*?)\[\2\]\s*=(?!=)|"
    rf"\[{_KEY}\]\s*except\b(?s:.*?)\[\3\]\s*=(?!=)",
    own=True,
    across=True,
)  # fmt: skip
CYCLE = sign("cycle", "tee", pattern=r"\b(?:cycle|tee)\b", own=True, reaches=True)
DISABLE = sign("disable", pattern=r"gc\.disable|\bdisable\(", own=True, reaches=True)
# An exception that is handed on under its name; not what is only printed, or raised again.
EXCEPTION = sign(
    "except", "exit__",
    pattern=r"\bexcept\b[^\n:]*\bas\s+(\w+)\s*:(?s:.*?)"
    r"(?:[,=\[:]|\breturn\b|\byield\b|(?<!\bstr)(?<!\brepr)(?<!\bprint)(?<!\bformat)\()\s*\1\s*(?:[),\]}\n#;]|\bif\b)|"
    r"\bdef __a?exit__",
    own=True,
    across=True,
)  # fmt: skip
_REGISTERS = r"register_(?!\w*state_dict)\w*hook"
HOOK = sign("_hook", pattern=_REGISTERS, own=True)
# A loop may make an object that registers one.
HOOK_IN_FILE = sign("_hook", pattern=_REGISTERS)
FIGURE = sign("figure", "subplot", pattern=r"figure\b|subplots\b|subplot_mosaic\b")
TRIALS = sign(
    "fit(", "objective", "trial", "seed", "fold",
    pattern=r"\bfit\(|\bobjective\(|\btrials?\b|\bseeds?\b|\bfolds?\b",
    own=True,
)  # fmt: skip
SNAPSHOT = sign("deepcopy", "state_dict")
CALLBACK = sign(
    "def on_", "def after_", "def end_of",
    pattern=r"def (?:on|after|end_of)_\w*(?:epoch|batch|step|iteration|update|val|eval)",
)  # fmt: skip
