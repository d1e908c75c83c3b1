"""Questions about all files of a project: who clears this attribute, who calls this function, and with what.

They are answered from text, and asked only where a finding depends on the answer. Each is noted with the file that
asks (see ``asked``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gradguard.signs import TRAINS_HERE
from gradguard.static import knowledge as k
from gradguard.static.asked import called_in, methods_in
from gradguard.static.files.lines import lines_with, mentioning
from gradguard.static.memo import Remembers, cached_property
from gradguard.static.program.clearing import AT_START, clearing_methods, sets_by_name, with_object
from gradguard.static.program.cutting import cutting_functions
from gradguard.static.program.file_links import File, FileLinks
from gradguard.static.program.learning_forwards import COMPUTES_GRADIENTS, learning_forwards
from gradguard.static.program.owners import Owner
from gradguard.static.program.registered import registered
from gradguard.static.reading.keys import TEXT

if TYPE_CHECKING:
    from gradguard.static.asked import Asked
    from gradguard.static.program.classes import Class
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.project import Module, Project

# Methods that somebody outside of the project calls.
_CALLED_BY_OTHERS = re.compile(  # ``run`` by a thread that is started
    r"^(?:on_\w+|__\w+__|forward|training_step|\w+_epoch_end|setup|teardown|main|run|<module>)$"
)
_SCRIPT = re.compile(r"^if\s+__name__\s*==\s*['\"]__main__['\"]", re.M)
_BY_NAME = re.compile(r"\bfire\b|\bgetattr\(|\bglobals\(\)|\blocals\(\)|\bsys\.modules\b|\beval\(['\"\w]")
_TORCH = re.compile(r"^\s*(?:from|import)\s+(?:torch|pytorch_lightning|lightning)\b", re.M)
_OTHER_LIBRARIES = re.compile(rf"^\s*(?:from|import)\s+(?:{'|'.join(sorted(k.OTHER_LIBRARIES))})\b", re.M)
_TRAINS = re.compile(TRAINS_HERE)
_GRADIENTS = re.compile(r"^[^#\n]*(?:backward\(|(?<![\w.])grad\(|autograd\.grad\()", re.M)
_TRAINING_WORDS = ("backward", "autograd.grad", "import grad", ".fit(", "Trainer")
Functions = Collection[tuple[str, bytes]]
MANY_CALLERS = 50
MANY_FILES = 300
"""Of a program: a library as large says by its own imports which of its files are about torch."""
_MANY_DEFINING = 8
_AT_END = ("__exit__", "__aexit__")


class Survey(Remembers):
    """What is known of all files together."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.texts = project.texts
        self.links = FileLinks(project)
        self._called: dict[tuple[str, Path | None], bool] = {}
        self._mentioned: dict[tuple[re.Pattern[str], Path | None], bool] = {}
        self._matched: defaultdict[re.Pattern[str], dict[Path, bool]] = defaultdict(dict)
        self._holding: dict[tuple[str, int], _Holding] = {}
        self._mentioning: dict[tuple[str, Path], frozenset[str]] = {}
        self._backwards: dict[str, set[tuple[str, int]]] = {}
        self._learning: dict[str, frozenset[tuple[int, int]]] = {}
        self._training: Path | Literal[False] | None = None

    def prepare(self) -> None:
        """Answer now what every process would have to answer for itself."""
        _ = self._callers, self._defining
        self.links.prepare()

    @cached_property
    def _callers(self) -> dict[str, list[Path]]:
        """The files that may be about torch by the names that are called in them."""
        found: defaultdict[str, list[Path]] = defaultdict(list)
        for path in self.links.about_torch:
            for name in called_in(self.texts.of(path)):
                found[name].append(path)
        return found

    def asked(self, near: File) -> Asked:
        """What was asked for a file."""
        return self.project.questions.of(near.path)

    def _with_word(self, word: str, near: Module) -> Iterator[str]:
        """The texts of a program that have a word in them."""
        self.asked(near).words.add(word)
        if word in near.source.text:
            yield near.source.text
        yield from map(self.texts.of, self._others_with_word(word, near))

    def _others_with_word(self, word: str, near: Module) -> Iterator[Path]:
        """The other files of a program that have a word in them."""
        asked, related = self.asked(near), self.links.related(near)
        asked.words.add(word)
        key = (word, id(related))  # whoever asks for a program has the same object, which is kept
        if key not in self._holding:
            self._holding[key] = _Holding(related, partial(self.texts.holds, word))
        for path in self._holding[key]:
            if path != near.path:
                asked.texts.add(path)
                yield path

    def _users(self, name: str, near: Module) -> set[str]:
        """The functions of a program that mention another one; each text is looked through once for each name."""
        found = set(mentioning(name, near.source.text))
        for path in self._others_with_word(name, near):
            users = self._mentioning.get((name, path))
            if users is None:
                users = self._mentioning[name, path] = mentioning(name, self.texts.of(path))
            found |= users
        return found

    def texts_used(self, word: str, near: Module, pattern: re.Pattern[str] | None = None) -> Iterator[str]:
        """The texts with a word in them of a file, of those that lead to it by imports, and of all that these import.

        Each import leads to the one file that it finds: of twenty programs beside each other, each with its own
        ``data.py``, only one is meant.

        Args:
            pattern: what they match besides. To find out where imports lead, files are parsed: hundreds, in a large
                library, for nothing where no text of the program matches.
        """
        own = near.source.text
        if word in own and (pattern is None or pattern.search(own) is not None):
            yield own
        others = self._others_with_word(word, near)
        found = set(others if pattern is None else self._matching(pattern, near, others, word))
        used = self.links.used(near) if found else ()
        yield from (self.texts.of(path) for path in used if path in found)

    def _matching(
        self, pattern: re.Pattern[str], near: Module, paths: Iterable[Path], word: str = ""
    ) -> Iterator[Path]:
        """Those of some files whose texts match.

        Args:
            word: what stands in each match: to look for that first costs a hundredth.
        """
        asked, matched = self.asked(near), self._matched[pattern]
        asked.patterns.add((pattern.pattern, pattern.flags))
        for path in paths:
            matches = matched.get(path)
            if matches is None:
                matches = self.texts.holds(word, path) and pattern.search(self.texts.of(path)) is not None
                matched[path] = matches
            if matches:
                asked.texts.add(path)
                yield path

    def serves_torch(self, module: Module) -> bool:
        """Whether a file belongs to a program that uses torch: callbacks, meters and trainers need none themselves.

        Where a part of the program computes with another library, only one that imports torch tells of what it imports.
        """
        if module.path is None:
            return False
        self.asked(module).program = True
        if any(True for _ in self._matching(_TORCH, module, self.links.importers(module.path), "import")):
            return True
        related = self.links.related(module)
        if len(related) > MANY_FILES or not any(True for _ in self._matching(_TORCH, module, related)):
            return False
        used = self.links.used(module)  # each import leads to one file: another program's `trainer` is not this one
        uses_torch = any(True for _ in self._matching(_TORCH, module, used))
        return uses_torch and not any(True for _ in self._matching(_OTHER_LIBRARIES, module, used))

    def imports_training(self, module: Module) -> bool:
        """Whether a file imports something from one that calls backward: a loop that calls it trains."""
        imported = (*module.outline.imports.values(), *module.outline.star_imports)
        places = {path for dotted in imported for path in self.project.origins(dotted, module.path)}
        return any(True for _ in self._matching(_TRAINS, module, sorted(places), ".backward("))

    def mentions(self, pattern: re.Pattern[str], near: Module, word: str = "") -> bool:
        """Whether a file of the program that ``near`` belongs to matches.

        Args:
            word: what stands in each match.
        """
        key = (pattern, near.path)
        if key not in self._mentioned:
            here = pattern.search(near.source.text) is not None
            self._mentioned[key] = here or any(
                True for _ in self._matching(pattern, near, self.links.related(near), word)
            )
        return self._mentioned[key]

    def mentions_elsewhere(self, pattern: re.Pattern[str], near: Module) -> bool:
        """Whether another file of the program matches."""
        others = (path for path in self.links.related(near) if path != near.path)
        return any(True for _ in self._matching(pattern, near, others))

    def acts_elsewhere(self, word: str, pattern: re.Pattern[str], near: Module, besides: Collection[str] = ()) -> bool:
        """Whether such a line of another file of the program matches, in another function than some."""
        texts = map(self.texts.of, self._others_with_word(word, near))
        lines = (line for text in texts for line in lines_with(word, text))
        return any(line.function not in besides and pattern.search(line.text) for line in lines)

    def mentions_anywhere(self, word: str, pattern: re.Pattern[str], near: Module) -> bool:
        """Whether any file that may be about torch matches, of whatever program: a notebook's imports lead nowhere.

        Args:
            word: what stands in each match.
        """
        self.asked(near).words.add(word)
        others = (path for path in self.links.about_torch if path != near.path)
        return any(True for _ in self._matching(pattern, near, others, word))

    def is_entered(self, name: str, near: Module) -> bool:
        """Whether an object of a class is used as a context: ``with Hooks(model)``, ``with hooks``."""
        texts = list(self._with_word(name, near))
        made = {match for text in texts for match in re.findall(rf"([\w.]+)\s*=\s*[\w.]*\b{name}\(", text)}
        names = "|".join(map(re.escape, sorted({name, *made})))
        return any(re.search(rf"\bwith\b[^\n]*\b(?:{names})\b", text) for text in texts)

    def acts(self, word: str, pattern: re.Pattern[str], near: Module, besides: Iterable[str] = ()) -> bool:
        """Whether a line of the program with a word in it matches, in another function than some."""
        lines = (line for text in self._with_word(word, near) for line in lines_with(word, text))
        return any(line.function not in besides and pattern.search(line.text) for line in lines)

    def clears(
        self,
        attribute: str,
        near: Module,
        functions: Functions,
        *,
        anew: bool = False,
        at_exit: bool = True,
        slot: str | None = None,
        owner: Owner | None = None,
        sparing: Functions = frozenset(),
    ) -> bool:
        """Whether something empties or rebinds an attribute of this name after its object was made.

        Args:
            near: the module that stores into it.
            functions: those that do, each with its file's text in UTF-8; what they do themselves was read more closely.
            anew: only what binds it anew counts: what `clear()` of a class of the project clears was read.
            at_exit: what ``__exit__`` does counts.
            slot: the key of the collection below that is meant, where it is a word: ``"train"``.
            owner: the object that has the attribute, where that is known.
            sparing: functions that leave what is meant where it is, under whichever key.
        """
        methods = self._clearing(attribute, near, functions, anew=anew, slot=slot, owner=owner, sparing=sparing)
        called = (method for method in methods if self.is_called(method, near, at_exit))
        return any(owner is None or not owner.is_spared(method, self._with_word(method, near)) for method in called)

    def is_base(self, name: str, near: Module) -> bool:
        """Whether a class of the program is derived from one of this name."""
        derived = re.compile(rf"^\s*class\s+\w+\([^)]*\b{re.escape(name)}\b", re.M)
        return any(derived.search(text) is not None for text in self._with_word(name, near))

    def empties(self, attribute: str, near: Module, functions: Functions, bare: bool = False) -> bool:
        """Whether any function does so, also one that nothing here calls.

        Args:
            bare: it is a global, written without an object before it.
        """
        return any(True for _ in self._clearing(attribute, near, functions, bare))

    def emptying(self, attribute: str, near: Module, functions: Functions, bare: bool = False) -> set[str]:
        """The functions that empty what an attribute of this name has, besides those that were read.

        Args:
            bare: it is a global, written without an object before it.
        """
        return set(self._clearing(attribute, near, functions, bare))

    def cuts(self, attribute: str, near: Module, functions: Functions) -> bool:
        """Whether a function that runs detaches what an attribute of this name has, besides those that were read."""
        for text in self._with_word(attribute, near):
            found = cutting_functions(attribute, text)
            if any(self.is_called(name, near) for name in _without(found, functions, text)):
                return True
        return False

    def sets_by_name(self, attribute: str, near: Module) -> bool:
        """Whether an attribute of this name is set where only the run knows which: ``setattr(self, name, value)``."""
        return any(sets_by_name(attribute, text) for text in self._with_word(attribute, near))

    def _clearing(
        self,
        attribute: str,
        near: Module,
        functions: Functions,
        bare: bool = False,
        anew: bool = False,
        slot: str | None = None,
        owner: Owner | None = None,
        sparing: Functions = frozenset(),
    ) -> Iterator[str]:
        for text in self._with_word(attribute, near):
            found = clearing_methods(attribute, text, anew, slot=slot, owner=owner)
            if bare:
                found |= clearing_methods(attribute, with_object(attribute, text), bare=True) - {"<module>"}
            is_read = slot in (None, TEXT)  # of one key it was not
            kept = _without(_without(found, functions, text) if is_read else found, sparing, text)
            if _have_namesakes(found - kept, text):  # another one of the name may empty what some other object has
                others = _of_others(attribute, text)
                kept |= (found - kept) & clearing_methods(attribute, others, anew, slot=slot, owner=owner)
            yield from kept

    def is_called(self, method: str, near: Module, at_exit: bool = True) -> bool:
        """Whether a function runs at all: something calls it that runs, or that a user of the project may call."""
        if not self._any_trains(near):
            return True  # a library without a training loop: its users call what they need
        return self.runs(method, near, at_exit)

    def runs(self, method: str, near: Module, at_exit: bool = True) -> bool:
        """Whether something calls a function that runs itself.

        Args:
            at_exit: what ``__exit__`` does counts.
        """
        if not at_exit and method not in _AT_END:
            users = self._users(method, near)
            if users and users <= {method, *_AT_END, *AT_START}:
                return False
        return (at_exit or method not in _AT_END) and self._runs(method, near, frozenset())

    def _runs(self, method: str, near: Module, seen: frozenset[str]) -> bool:
        if _CALLED_BY_OTHERS.match(method):
            return True
        key = (method, near.path)
        if key not in self._called:
            users = self._users(method, near) - {method, *AT_START}  # what a constructor calls, it does once
            may_be_run = bool(seen) and not self._of_a_script(method, near)  # users of the project call it
            is_entry = not users and (may_be_run or self._trains(method, near))
            is_entry |= self.is_registered(method, near)
            self._called[key] = is_entry or any(u not in seen and self._runs(u, near, seen | {method}) for u in users)
        return self._called[key]

    def _trains(self, name: str, near: Module) -> bool:
        """Whether a function of this name has a backward in it: one that is there to be run."""
        lines = (line for text in self._with_word(name, near) for line in lines_with(".backward(", text))
        return any(line.function == name for line in lines)

    def is_registered(self, name: str, near: Module) -> bool:
        """Whether a decorator may hand it to somebody who calls it: ``@engine.on("epoch")``."""
        pattern = registered(name)
        ends = (
            f" {name}(",
            f"\t{name}(",
        )  # of `def name(`, which stands in each match: to look for that costs a hundredth
        texts = (text for text in self._with_word(name, near) if any(end in text for end in ends))
        return any(pattern.search(text) is not None for text in texts)

    def is_left_over(self, name: str, near: Module) -> bool:
        """Whether it is a plain function that nothing mentions, in a program that has a script of its own."""
        return not self._users(name, near) and self._of_a_script(name, near)

    def _of_a_script(self, name: str, near: Module) -> bool:
        """Whether it is a plain function of a program that has a script of its own."""
        if not self.mentions(_SCRIPT, near, "__main__") or self.mentions(_BY_NAME, near):
            return False
        defined = re.compile(rf"^(?P<before>.*\n)?def {re.escape(name)}\(", re.M)
        found = (defined.search(text) for text in self._with_word(name, near))
        return any(match is not None and not (match["before"] or "").startswith("@") for match in found)

    def _any_trains(self, near: Module) -> bool:
        """Whether any file calls backward, or nothing is known of the files."""
        if self._training is None:
            self._training = next((p for p in self.project.relevant if self.texts.holds(".backward(", p)), False)
        if self._training:
            self.asked(near).texts.add(self._training)
        else:
            self.asked(near).words.add(".backward(")
        return bool(self._training) or not self.project.relevant

    def backwards(self, near: Module) -> set[tuple[str, int]]:
        """Path and line of each place in the program of ``near`` where a graph is handed to backward, as text tells."""
        if near.source.path not in self._backwards:
            found = {(near.source.path, line) for line in _lines_matching(_GRADIENTS, near.source.text)}
            words = ("backward(", "grad(")
            likely = (path for path in self.links.related(near) if any(self.texts.holds(word, path) for word in words))
            for path in self._matching(_GRADIENTS, near, likely):
                found |= {(self.project.shown(path), line) for line in _lines_matching(_GRADIENTS, self.texts.of(path))}
            self._backwards[near.source.path] = found
        return self._backwards[near.source.path]

    def may_train(self, near: Module) -> bool:
        """Whether something that is used where ``near`` is computes gradients, or leaves that to another library.

        That library calls the ``training_step`` of a model; where none does, nothing calls it.
        """
        lines = (line for w in _TRAINING_WORDS for text in self.texts_used(w, near) for line in lines_with(w, text))
        return any(line.function != "training_step" for line in lines)

    def has_learning_forward(self, near: Module, given: int | None) -> bool:
        """Whether a ``forward`` of the program computes gradients itself: a method that adapts to what it is given.

        Args:
            given: how many arguments it is called with; None where that is not known.
        """
        if near.source.path not in self._learning:
            texts = (text for word in COMPUTES_GRADIENTS for text in self._with_word(word, near))
            self._learning[near.source.path] = frozenset().union(*map(learning_forwards, texts))
        return any(given is None or least <= given <= most for least, most in self._learning[near.source.path])

    def is_called_by_many(self, name: str, near: File) -> bool:
        """Whether so many files call functions of this name that it does not tell which one is called."""
        callers = self._callers.get(name, ())
        self.asked(near).calls.add(name)
        self.asked(near).texts.update(callers[: MANY_CALLERS + 1])
        return len(callers) > MANY_CALLERS

    def callers(self, name: str, near: Module) -> Iterator[Module]:
        """The modules of its program that may call a function of this name."""
        yield near
        yield from self._modules(self.calling(name, near))

    def calling(self, name: str, near: File) -> list[Path]:
        """The other files of its program that may call a function of this name."""
        others = self._calling(name, near)
        related = self.links.related(near) if others else ()
        return [path for path in others if path in related]

    def defining(self, name: str, near: Module) -> list[Module]:
        """The modules of its program that define a method of this name; none where so many do that it tells nothing."""
        self.asked(near).words.add(name)
        own = [near] if any(unit.owner and unit.name == name for unit in near.source.outline.units) else []
        others = [path for path in self._defining.get(name, ()) if path != near.path]
        if len(others) > _MANY_DEFINING:
            return []
        related = self.links.related(near) if others else ()
        found = [*own, *self._modules(path for path in others if path in related)]
        self.asked(near).files.update(module.path for module in found if module.path is not None)
        return found

    def methods_named(self, name: str, near: Module, base: Class | None = None) -> list[FunctionRef]:
        """The methods of this name that do something, of the classes that share a program with ``near``.

        Args:
            base: the class that theirs are derived from, where it is known; else a module's method tells nothing.
        """
        return self._named(name, self.defining(name, near), base)

    def methods_of_heirs(self, name: str, near: Module, base: Class) -> list[FunctionRef]:
        """The methods of this name that do something, of the classes derived from one, beside it or in ``near``."""
        return self._named(name, dict.fromkeys((base.module, near)), base)

    def _named(self, name: str, modules: Iterable[Module], base: Class | None) -> list[FunctionRef]:
        methods: list[FunctionRef] = []
        for module in modules:
            for owner in sorted({u.owner for u in module.source.outline.units if u.owner and u.name == name}):
                cls = module.klass(owner)
                method = cls.methods.get(name) if cls is not None else None
                if cls is None or method is None or method.is_abstract:
                    continue
                if base is not None and all(base is not each for each in cls.lineage()):
                    continue
                if cls.is_module and base is None:
                    return []
                methods.append(method)
        return methods

    def methods_of_modules(self, name: str, near: Module) -> list[FunctionRef]:
        """The methods of this name that do something, of the modules of the program that ``near`` belongs to."""
        return [method for cls, method in self._methods(name, near) if cls.is_module]

    def methods_of_no_modules(self, name: str, near: Module) -> list[FunctionRef]:
        """The same of its other classes."""
        return [method for cls, method in self._methods(name, near) if not cls.is_module]

    def _methods(self, name: str, near: Module) -> Iterator[tuple[Class, FunctionRef]]:
        for module in self.defining(name, near):
            for unit in module.source.outline.units:
                cls = module.klass(unit.owner) if unit.owner and unit.name == name else None
                method = cls.methods.get(name) if cls is not None else None
                if cls is not None and method is not None and not method.is_abstract:
                    yield cls, method

    @cached_property
    def _defining(self) -> dict[str, list[Path]]:
        """All files by the names of the methods that are defined in them."""
        found: defaultdict[str, list[Path]] = defaultdict(list)
        for path in self.project.files:
            for name in methods_in(self.texts.of(path)):
                found[name].append(path)
        return found

    def has_method(self, name: str, near: Module) -> bool:
        """Whether objects of the project's classes may have a method of this name: one of them, or each module."""
        if name in k.OF_EVERY_MODULE or any(unit.owner and unit.name == name for unit in near.source.outline.units):
            return True
        self.asked(near).methods.add(name)
        self.asked(near).texts.update(self._defining.get(name, ())[:1])
        return name in self._defining

    def naming(self, name: str, near: Module, pattern: re.Pattern[str] | None = None) -> Iterator[Module]:
        """The modules of its program in whose text a name stands, the one that asks first.

        Args:
            pattern: what the other texts match besides: those that do not are not opened.
        """
        yield near
        others = self._others_with_word(name, near)
        matching = others if pattern is None else self._matching(pattern, near, others)
        for module in self._modules(sorted(matching)):
            self.asked(near).files.update([module.path] if module.path is not None else ())
            yield module

    def decorating(self, name: str, near: Module) -> list[Path]:
        """The other files of its program in which something of this name decorates: ``@engine.on_step``."""
        decorates = re.compile(rf"@(?:\w+\.)*{re.escape(name)}\b")
        return sorted(p for p in self._others_with_word(name, near) if decorates.search(self.texts.of(p)))

    def callers_anywhere(self, name: str, near: Module) -> Iterator[Module]:
        """The modules of all files in which a function of this name is called."""
        yield near
        yield from self._modules(self._calling(name, near))

    def _calling(self, name: str, near: File) -> list[Path]:
        """The other files in which a function of this name is called."""
        others = [path for path in self._callers.get(name, ()) if path != near.path]
        self.asked(near).calls.add(name)
        self.asked(near).texts.update(others)
        return others

    def _modules(self, paths: Iterable[Path]) -> Iterator[Module]:
        return (module for path in paths if (module := self.project.module(path)) is not None)


def _without(names: set[str], functions: Functions, text: str) -> set[str]:
    """Those names that are of none of some functions in a file."""
    data = text.encode(errors="surrogatepass") if names and functions else b""
    return names - {name for name, where in functions if where == data}


def _have_namesakes(names: set[str], text: str) -> bool:
    """Whether some of these functions are defined more than once: a file has many that are called ``forward``."""
    return any(len(re.findall(rf"\bdef {re.escape(name)}\(", text)) > 1 for name in names)


def _of_others(attribute: str, text: str) -> str:
    """A file without what its methods do to an attribute of their own object."""
    return re.sub(rf"\bself\.{re.escape(attribute)}\b", "_", text)


class _Holding:
    """Those of some files that have a word in them: each is looked into once, and no more of them than asked for."""

    def __init__(self, paths: Collection[Path], holds: Callable[[Path], bool]) -> None:
        self._paths = paths  # kept, as they are known by their id
        self._rest = filter(holds, paths)
        self._found: list[Path] = []

    def __iter__(self) -> Iterator[Path]:
        for number in count():
            if number == len(self._found):
                path = next(self._rest, None)
                if path is None:
                    return
                self._found.append(path)
            yield self._found[number]


def _lines_matching(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    """The lines, from 1, on which a match of one line ends."""
    return (text.count("\n", 0, match.end()) + 1 for match in pattern.finditer(text))
