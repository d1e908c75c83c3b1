"""Loops that evaluate a model, by what is written in them and what their functions are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_EVALUATION = r"(?:val|valid|validation|test|testing|eval|evaluation|dev)"
_NEXT_BATCH = re.compile(
    rf"^_*(?:(?:get|next|fetch|load|draw)_(?:\w+_)?{_EVALUATION}|{_EVALUATION}_(?:get|next))"
    rf"_(?:batch|data|sample|example|minibatch|mini_batch)$|^_*next_{_EVALUATION}$"
)

_TRAINING = ("backward", "step", "train")
_ENVIRONMENT = re.compile(rf"^_*(?:{_EVALUATION}_?envs?|envs?_{_EVALUATION})$", re.I)
_READS = re.compile(
    r"^(?:numpy|PIL|cv2|torchaudio|torchvision\.io|librosa|soundfile|imageio|skimage|scipy|matplotlib)\."
    r"(?:\w+\.)*(?:load|open|imread|read|read_image|loadmat|loadtxt|decode_image)$"
)
_LEARNS = re.compile(r"backward|train|learn|optimi[sz]e|update|fit|improve", re.I)


def takes_evaluation_batch(stmt: t.Repeat) -> bool:
    """Whether each iteration takes a batch of the data that are there to evaluate on: ``x, y = data.next_val_batch()``.

    By what is called for it, or the iterator that it is taken from: ``batch = next(val_iter)``. A search for an
    architecture trains on such batches.
    """
    assigned = (inner.value for inner in stmt.body if isinstance(inner, t.Assign))
    takes = any(isinstance(value, t.Call) and _is_for_evaluation(value) for value in assigned)
    return takes and not any(isinstance(node, t.Call) and node.name in _TRAINING for node in t.walk(stmt.body))


def _is_for_evaluation(call: t.Call) -> bool:
    path = t.path_of(call.func) or ""
    owner, _, name = path.rpartition(".")
    if _NEXT_BATCH.search(name) is not None:
        return True
    iterator = t.path_of(call.args[0].value) if path == "next" and call.args else owner if name == "next" else None
    return iterator is not None and k.EVALUATION_LOADER.search(iterator) is not None


def plays_to_evaluate(stmt: t.Repeat) -> bool:
    """Whether each iteration plays in an environment that is there to evaluate in: ``self.test_env.step(action)``."""
    owners = [path.rpartition(".")[2] for path in _played_in(stmt.body)]
    calls = (node for node in t.walk(stmt.body) if isinstance(node, t.Call))
    return any(map(_ENVIRONMENT.search, owners)) and not any(_LEARNS.search(call.name) for call in calls)


def reads_files(flow: Flow, stmt: t.Repeat) -> bool:
    """Whether each iteration reads a file of its own: ``for path in paths: x = to_tensor(Image.open(path))``."""
    names = set(map(t.path_of, t.names_in(stmt.target))) if stmt.target is not None else set()
    calls = (node for node in t.walk(stmt.body) if names and isinstance(node, t.Call) and node.args)
    reading = (c for c in calls if any(t.path_of(n) in names for n in _names(c.args[0].value)))
    return any(_READS.match(str(flow.module.value_of(call.func).ref)) is not None for call in reading)


def _names(expr: t.Expr) -> Iterator[t.Expr]:
    return (node for node in t.walk(expr) if isinstance(node, t.Name))


def begins_with_eval(stmt: t.Repeat) -> bool:
    """Whether each iteration first puts a model into evaluation mode that it runs, and takes none out of it again."""
    for inner in stmt.body:
        calls = [node for node in t.walk(inner) if isinstance(node, t.Call)]
        funcs = [c.func for c in calls if isinstance(c.func, t.Attribute) and c.func.name == "eval" and not c.args]
        if isinstance(inner, t.Evaluate) and funcs:
            return len(funcs) == len(calls) and _runs_as_it_is(stmt, {t.path_of(func.value) for func in funcs})
        if not isinstance(inner, t.Assign) or not all(map(_takes_data, calls)):
            return False
    return False


def _runs_as_it_is(stmt: t.Repeat, models: set[str | None]) -> bool:
    """Whether one of some models is run in a loop, and none is put into training mode."""
    made = [node for node in t.walk(stmt.body) if isinstance(node, t.Call)]
    if any(isinstance(call.func, t.Attribute) and call.func.name == "train" for call in made):
        return False
    return any(t.path_of(each) in models for call in made for each in (call.func, *(a.value for a in call.args[:1])))


def _takes_data(call: t.Call) -> bool:
    """Whether a call only takes a batch apart, or moves it: ``x.cuda()``, ``batch.text.to(device)``."""
    return isinstance(call.func, t.Attribute) and call.func.name in k.OF_PLAIN_DATA | k.MOVING_METHODS


def evaluates_by_name(flow: Flow, stmt: t.Repeat) -> bool:
    is_named = is_evaluation(flow) and not flow.facts.is_module_method
    return is_named and (_is_over_slices(stmt) or _is_by_number(stmt) or _plays(stmt))


def _is_over_slices(stmt: t.Repeat) -> bool:
    """Whether it goes over data by slices of one size: ``for i in range(0, len(x), size)``."""
    call = stmt.iterable
    while (
        isinstance(call, t.Call)
        and call.args
        and (t.path_of(call.func) or "").endswith(("tqdm", "enumerate", "trange"))
    ):
        call = call.args[0].value
    return isinstance(call, t.Call) and t.path_of(call.func) == "range" and len(call.args) == 3


def _is_by_number(stmt: t.Repeat) -> bool:
    """Whether it takes one sample after the other by its number: ``image, boxes = dataset.pull_item(i)``."""
    counted = isinstance(stmt.iterable, t.Call) and t.path_of(stmt.iterable.func) in ("range", "trange")
    if not counted or not isinstance(stmt.target, t.Name):
        return False
    number = stmt.target.id
    taken = (inner.value for inner in stmt.body if isinstance(inner, t.Assign))
    return any(_takes(value, number) for value in taken)


def _takes(value: t.Expr, number: str) -> bool:
    """Whether it is one item of something, by a number and nothing else: ``samples[i]``, ``dataset.pull_item(i)``."""
    if isinstance(value, t.Subscript):
        return t.path_of(value.index) == number
    if not isinstance(value, t.Call) or not isinstance(value.func, t.Attribute) or len(value.args) != 1:
        return False
    return t.path_of(value.args[0].value) == number


def _plays(stmt: t.Repeat) -> bool:
    """Whether it plays in an environment: ``state, reward, done, _ = env.step(action)``."""
    return any(True for _ in _played_in(stmt.body))


def _played_in(body: list[t.Stmt]) -> Iterator[str]:
    """The environments in which some statements play; one without a path is "_"."""
    for inner in t.walk_statements(body):
        func = inner.value.func if isinstance(inner, t.Assign) and isinstance(inner.value, t.Call) else None
        target = inner.targets[0] if isinstance(inner, t.Assign) else None
        is_told = isinstance(target, t.Display) and len(target.items) >= 4
        if isinstance(func, t.Attribute) and func.name == "step" and is_told:
            yield t.path_of(func.value) or "_"


def is_evaluation(flow: Flow) -> bool:
    """Whether the function is named as one that evaluates a model, and not as a test of the code."""
    return not flow.module.holds_tests and k.EVALUATION_FUNCTION.search(flow.facts.name) is not None
