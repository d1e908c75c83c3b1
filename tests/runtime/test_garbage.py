"""What only the cyclic collector frees, and what closes the circle: each way to write one, and what is none."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradguard.runtime.garbage import Waiting, sorted_out, statements_of, unreachable  # noqa: E402
from gradguard.runtime.source import Sources  # noqa: E402
from gradguard.runtime.torch_internals import TorchInternals  # noqa: E402

BYTES = 4 * 1000


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


class Node:
    """Of a tree: knows its parent."""

    def __init__(self, parent: Node | None) -> None:
        self.parent = parent
        self.children: list[Node] = []
        self.value = torch.zeros(1000)


class Slotted:
    """Refers to itself from a slot."""

    __slots__ = ("me", "value")

    def __init__(self) -> None:
        self.value = torch.zeros(1000)
        self.me = self


def tree() -> None:
    root = Node(None)
    root.children.append(Node(root))


def calls_itself() -> None:
    value = torch.zeros(1000)

    def depth(left: int) -> int:
        return depth(left - 1) if left else int(value[0])

    depth(2)


def keeps_its_error() -> None:
    value = torch.zeros(1000)
    failure = None
    try:
        raise ValueError(str(len(value)))
    except ValueError as error:
        failure = error
    assert failure is not None


def holds_itself() -> None:
    record: dict[str, Any] = {"value": torch.zeros(1000)}
    record["own"] = record


def is_freed_at_once() -> None:
    root = Node(None)
    root.children.append(Node(None))


def does_not_call_itself() -> None:
    value = torch.zeros(1000)

    def first() -> int:
        return int(value[0])

    first()


def drops_its_error() -> None:
    value = torch.zeros(1000)
    try:
        raise ValueError(str(len(value)))
    except ValueError as error:
        print(error)


def waiting(make: Callable[[], object]) -> list[Waiting]:
    make()
    return list(sorted_out(unreachable(), TorchInternals(torch)).values())


@pytest.mark.parametrize(
    ("make", "path", "scope", "size", "statement"),
    [
        (tree, "Node.children", "attribute", 2 * BYTES, "root.children.append(Node(root))"),
        (Slotted, "Slotted.me", "attribute", BYTES, "self.me = self"),
        (calls_itself, "calls_itself.depth", "closure", BYTES, "def depth(left: int) -> int:"),
        (keeps_its_error, "keeps_its_error.failure", "local", BYTES, "failure = error"),
        (holds_itself, 'dict["own"]', "internal", BYTES, "record['own'] = record"),
    ],
)
def test_each_circle_has_a_name_a_size_and_a_statement(
    make: Callable[[], object], path: str, scope: str, size: int, statement: str
) -> None:
    (found,) = waiting(make)
    assert (found.circle.holder.path, found.circle.holder.scope) == (path, scope)
    assert (found.size, found.devices) == (size, {"cpu"})
    assert statement in [place.code for place in statements_of(found.circle, Sources())]


@pytest.mark.parametrize("make", [is_freed_at_once, does_not_call_itself, drops_its_error])
def test_what_reference_counts_free_never_waits(make: Callable[[], object]) -> None:
    assert waiting(make) == []


def test_what_a_variable_reaches_is_no_garbage_though_it_refers_to_itself() -> None:
    kept = Node(None)
    kept.children.append(Node(kept))
    assert waiting(lambda: None) == []


def test_a_tensor_that_a_variable_has_too_does_not_wait() -> None:
    shared = torch.zeros(1000)

    def make() -> None:
        root = Node(None)
        root.value = shared
        root.children.append(root)

    assert waiting(make) == []


def test_a_look_frees_nothing_and_leaves_the_debug_flags() -> None:
    import weakref

    finalized = []
    node = Node(None)
    node.children.append(node)
    weakref.finalize(node.value, finalized.append, "value")
    before = gc.get_debug(), len(gc.garbage)
    del node
    assert unreachable()
    assert (gc.get_debug(), len(gc.garbage)) == before
