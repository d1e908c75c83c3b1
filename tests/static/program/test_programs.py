"""Which files share a program: the answer in one pass is the one that following every import gives."""

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gradguard.static.program.programs import Programs

FILES = [Path(name) for name in "abcdefghijkl"]
Imports = dict[Path, set[Path]]


def imports_of(seed: int) -> Imports:
    chance = random.Random(seed)
    often = chance.choice((0.05, 0.1, 0.2))
    return {path: {other for other in FILES if chance.random() < often} for path in FILES}


def followed(start: set[Path], step: Callable[[Path], set[Path]]) -> set[Path]:
    found, frontier = set(start), set(start)
    while frontier:
        frontier = set().union(*map(step, frontier)) - found
        found |= frontier
    return found


def program(path: Path, imports: Imports) -> set[Path]:
    users = followed({path}, lambda p: {other for other in imports if p in imports[other]})
    return followed(users, lambda p: imports.get(p, set()))


@pytest.mark.parametrize("seed", range(40))
def test_each_file(seed: int) -> None:
    imports = imports_of(seed)
    programs = Programs(FILES, lambda p: imports[p])
    for path in FILES:
        assert set(programs.of(path)) == program(path, imports)


@pytest.mark.parametrize("seed", range(40))
def test_a_file_that_is_none_of_them(seed: int) -> None:
    imports = imports_of(seed)
    inside = FILES[1:]
    programs = Programs(inside, lambda p: imports[p] - {FILES[0]})
    importing = {path for path in inside if FILES[0] in imports[path]}
    found = programs.of_another(importing, imports[FILES[0]] - {FILES[0]})
    assert {*found, FILES[0]} == program(FILES[0], imports)


def test_what_another_program_of_the_same_file_imports_is_shared() -> None:
    train, evaluate, model, meters = FILES[:4]
    imports = {train: {model, meters}, evaluate: {model}, model: set(), meters: set()}
    programs = Programs([train, evaluate, model, meters], lambda p: imports[p])
    assert list(programs.of(evaluate)) == [evaluate, model]
    assert list(programs.of(model)) == [train, evaluate, model, meters]


def test_a_long_chain_is_no_recursion() -> None:
    chain = [Path(str(number)) for number in range(5000)]
    following = dict(pairwise(chain))
    programs = Programs(chain, lambda p: {following[p]} if p in following else set())
    assert list(programs.of(chain[0])) == chain
