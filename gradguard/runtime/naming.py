"""The name of a place that grew, in the user's words: ``Trainer.history["loss"]``, ``cache of embed()``."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from types import FrameType, FunctionType
from typing import Any

from gradguard.findings import Holder
from gradguard.runtime.references import CACHE_TYPES, CONTENT
from gradguard.runtime.roots import Root
from gradguard.runtime.spots import Spot
from gradguard.runtime.usercode import is_user_type


def describe(chain: list[Spot], root: Root, kind: str) -> Holder:
    """The path to the end of ``chain`` in the user's words.

    From the innermost object of a class of theirs (``Trainer.history["loss"]``), else from the variable.
    """
    if kind == "cycle":
        return Holder("grad", "param.grad cycle (create_graph)", type_name(chain[-1].thing), "internal")
    variable = chain[0].label
    scope, path = root.scope, variable if root.scope == "global" else f"{root.name}.{variable}"
    if root.origin is None and variable.startswith("<"):  # no variable has it: a statement of the user goes on with it
        path = type(chain[0].thing).__name__
    for parent, each in pairwise(chain):
        owner, label = parent.thing, each.label
        if kind == "cache" and isinstance(owner, CACHE_TYPES):
            return _cache(owner, path, scope)
        if label == CONTENT:
            continue
        if isinstance(owner, FunctionType) and label.startswith("<"):
            scope, argument = label[1:].split(">.")
            path = f"{_owner_name(owner, scope)}.{argument}"
        elif isinstance(owner, type):
            scope, path = "class", owner.__name__ + label
        elif kind == "hook":
            path += label  # the user knows the module by where it is in the model
        elif label.startswith(".") and (cls := _owning_class(each)) is not None:
            scope, path = "attribute", cls.__name__ + label
        else:
            path += label
    thing = chain[-1].thing
    if kind == "cache" and isinstance(thing, CACHE_TYPES):
        return _cache(thing, path, scope)
    if kind == "optimizer" and path.endswith(".state") and not _has_left(chain[-2].thing):
        path = path.removesuffix("state") + "param_groups"
    return Holder(_last_name(path), path, type_name(thing), scope)


def _has_left(optimizer: Any) -> bool:
    """Whether an optimizer that grows keeps what is of parameters that were taken out of its groups again."""
    known = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return sum(id(parameter) not in known for parameter in list(optimizer.state)) > 1


def home(chain: list[Spot], root: Root) -> str | None:
    """The file of the class, function or module whose variable it is."""
    found = root.origin.f_code.co_filename if isinstance(root.origin, FrameType) else file_of(root.name)
    for parent, each in pairwise(chain):
        owner = parent.thing
        if isinstance(owner, FunctionType):
            found = owner.__code__.co_filename
        elif isinstance(owner, type):
            found = file_of(owner.__module__)
        elif each.label.startswith(".") and is_user_type(type(owner)):
            found = file_of(type(owner).__module__)
    return found


def file_of(module: str) -> str | None:
    """The file of a module that is loaded."""
    found = getattr(sys.modules.get(module), "__file__", None)
    return found if isinstance(found, str) else None


def _owning_class(spot: Spot) -> type | None:
    """The user's class whose attribute a place is."""
    cls = spot.owner
    owns = cls is not None and is_user_type(cls) and not issubclass(cls, (tuple, BaseException))
    return cls if owns else None


def _owner_name(function: FunctionType, scope: str) -> str:
    """The function whose variable it is: a closure's belongs to the function around."""
    around = function.__qualname__.rpartition(".<locals>.")[0]
    return around.rpartition(".")[2] if scope == "closure" and around else function.__name__


def _cache(owner: Any, path: str, scope: str) -> Holder:
    name = getattr(owner, "__name__", None)
    if name is None:  # itertools.cycle: the variable that holds it
        return Holder(_last_name(path), path, type_name(owner), scope)
    return Holder(name, f"cache of {name}()", type_name(owner), "cache")


def _last_name(path: str) -> str:
    names = re.findall(r"[^\W\d]\w*", re.sub(r"\[[^]]*\]", "", path))
    return names[-1] if names else path


def type_name(thing: Any) -> str:
    """The qualified name of a type, as a user writes it."""
    cls = type(thing)
    module = "" if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}."
    return f"{module}{cls.__qualname__}"
