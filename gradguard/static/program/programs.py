"""Which files share a program: what imports a file, and all that those import, in any number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path


class Programs:
    """The programs of some files.

    A set of files is a number with a bit for each, so that those of thousands of files take little room, and all of
    them are found in one pass over the import statements.

    Args:
        files: all that there are.
        imported: the files that a file's import statements may name.
    """

    def __init__(self, files: Sequence[Path], imported: Callable[[Path], Iterable[Path]]) -> None:
        self._files = tuple(dict.fromkeys(files))
        numbers = {path: number for number, path in enumerate(self._files)}
        imports = {path: tuple(imported(path)) for path in self._files}
        groups = tuple(_in_cycles(self._files, imports))
        own = [reduce(or_, (1 << numbers[path] for path in group)) for group in groups]
        group_of = {path: number for number, group in enumerate(groups) for path in group}
        below = [{group_of[other] for path in group for other in imports[path]} - {i} for i, group in enumerate(groups)]
        reached: list[int] = []
        for number, bits in enumerate(own):  # what is imported comes first
            reached.append(reduce(or_, (reached[other] for other in below[number]), bits))
        shared = list(reached)
        for number in range(len(groups) - 1, -1, -1):  # and here who imports
            for other in below[number]:
                shared[other] |= shared[number]
        self._shared = {path: shared[number] for path, number in group_of.items()}
        self._reached = {path: reached[number] for path, number in group_of.items()}
        self._found: dict[int, Mapping[Path, None]] = {}

    def __contains__(self, path: object) -> bool:
        return path in self._shared

    def of(self, path: Path) -> Mapping[Path, None]:
        """The files that share a program with one of them, itself too, in their order."""
        return self._as_paths(self._shared[path])

    def of_another(self, importing: Iterable[Path], imported: Iterable[Path]) -> Mapping[Path, None]:
        """The same for a file that is none of them, by those of them that import it, and that it imports."""
        shared = (self._shared[path] for path in importing)
        return self._as_paths(reduce(or_, (*shared, *(self._reached[path] for path in imported)), 0))

    def _as_paths(self, bits: int) -> Mapping[Path, None]:
        if bits not in self._found:
            chosen = (path for path, bit in zip(self._files, reversed(f"{bits:b}")) if bit == "1")
            self._found[bits] = dict.fromkeys(chosen)
        return self._found[bits]


def _in_cycles(nodes: Iterable[Path], below: Mapping[Path, Sequence[Path]]) -> Iterator[list[Path]]:
    """The nodes, those together that reach each other; each group after all that it reaches (Tarjan, 1972)."""
    index: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    waiting: set[Path] = set()
    for start in nodes:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        waiting.add(start)
        path = [(start, iter(below[start]))]
        while path:
            node, others = path[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    waiting.add(other)
                    path.append((other, iter(below[other])))
                    break
                if other in waiting:
                    low[node] = min(low[node], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    group = [stack.pop()]
                    while group[-1] != node:
                        group.append(stack.pop())
                    waiting -= set(group)
                    yield group
