"""What makes an iterator of parameters, which gives each of them once, and what takes all that an iterator has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site
from gradguard.static.values import Kind

_OF_MODULES = frozenset(f"{named}{parts}" for named in ("", "named_") for parts in ("parameters", "modules", "buffers"))
_LAZY = frozenset("filter map zip enumerate iter".split())
_LAZY_ELSEWHERE = frozenset(
    ("itertools.chain", "itertools.chain.from_iterable", "itertools.zip_longest", "tqdm.tqdm", "tqdm.auto.tqdm")
)
_EAGER = frozenset("list tuple set frozenset dict sorted sum min max OrderedDict deque Counter reduce".split())
_EAGER_METHODS = frozenset("join extend".split())
_EAGER_OF_TORCH = frozenset("parameters_to_vector get_total_norm ParameterList".split())
_OPTIMIZER = re.compile(r"SGD|Ada[mgdfb]|RMSprop|LBFGS|Rprop|LAMB|Lamb\b|Lion|[oO]ptim(?!um|al)")
_AVERAGE = re.compile(r"(?:^|[._])ema\d*$|average", re.I)
_OF_AVERAGES = frozenset("update step store restore copy_to".split())
_HARMLESS = frozenset("staticmethod classmethod no_grad torch.no_grad".split())


@dataclass(eq=False, slots=True)
class Stream:
    """An iterator, or a list or dict that is written out, with iterators in it.

    Args:
        made: the expression that makes it.
        over: the iterators that it takes its elements from, or that are in it, each with where that is said.
        is_either: it is one of these.
        is_holder: it is a list or a dict.
        of_parameters: it gives parameters, or parts of a module, as far as its own expression tells.
    """

    made: Site
    over: list[tuple[Stream, t.Expr]] = field(default_factory=list)
    is_either: bool = False
    is_holder: bool = False
    of_parameters: bool = False

    @property
    def has_parameters(self) -> bool:
        return self.of_parameters or any(stream.has_parameters for stream, _ in self.over)


def resolved(ref: FunctionRef, func: t.Expr) -> object:
    """What a called name means: a function or a class of the project, the full name of another one, None if neither."""
    head = (t.path_of(func) or "").split(".", 1)[0]
    if isinstance(func, t.Attribute) and t.path_of(func.value) == "self" and ref.owner is not None:
        return ref.owner.method(func.name)
    if not head or head in ref.names[0] or any(param.name == head for param in ref.define.params):
        return None
    if isinstance(func, t.Name) and ref.module.resolve(head) is None:
        return f"builtins.{head}"
    value = ref.module.value_of(func)
    return value.ref if value.kind in (Kind.FUNCTION, Kind.CLASS, Kind.EXTERNAL) else None


def is_lazy(meant: object, call: t.Call) -> bool:
    """Whether a call gives an iterator over what it is given: ``filter(wanted, params)``."""
    if meant == f"builtins.{call.name}":
        return call.name in _LAZY and not any(map(_ends_before, call.args))
    return meant in _LAZY_ELSEWHERE or (call.name in ("tqdm", "trange") and not isinstance(meant, FunctionRef))


def _ends_before(arg: t.Arg) -> bool:
    """``range(3)`` beside an iterator: not all of it is taken."""
    return isinstance(arg.value, t.Call) and arg.value.name in ("range", "islice")


def is_eager(meant: object, call: t.Call) -> bool:
    """Whether a call takes all that an iterator has, which it is given."""
    if isinstance(meant, FunctionRef | Class):
        return False
    is_method = isinstance(call.func, t.Attribute) and call.name in _EAGER_METHODS
    return is_method or call.name in _EAGER or call.name in _EAGER_OF_TORCH


def is_average(call: t.Call) -> bool:
    """Whether an average of parameters is told of the new ones: ``ema.update(params)``."""
    func = call.func
    is_told = isinstance(func, t.Attribute) and func.name in _OF_AVERAGES
    return isinstance(func, t.Attribute) and is_told and _AVERAGE.search(t.path_of(func.value) or "") is not None


def use_of(meant: object, call: t.Call) -> str:
    """What an optimizer, or a clipping, makes of an iterator that it is given; empty where it is neither."""
    if call.name == "add_param_group":
        return "group"
    if isinstance(meant, Class):
        return "optimizer" if meant.is_optimizer else ""
    if isinstance(meant, FunctionRef):
        return ""
    if call.name.startswith("clip_grad"):
        return "clip"
    return "optimizer" if _OPTIMIZER.search(_written(call.func)) is not None else ""


def _written(func: t.Expr) -> str:
    """The name by which something is called: also of ``getattr(torch.optim, name)(...)``, ``OPTIMIZERS[name](...)``."""
    if isinstance(func, t.Call):
        return (t.path_of(func.args[0].value) or "") if func.name == "getattr" and func.args else ""
    if isinstance(func, t.Subscript):
        return (t.path_of(func.value) or "").lower()
    return func.name if isinstance(func, t.Attribute) else func.id if isinstance(func, t.Name) else ""


def speaks_of_parameters(expr: t.Expr) -> bool:
    """Whether an expression asks a module for its parameters somewhere."""
    return any(_asks(node) for node in t.walk(expr) if isinstance(node, t.Call))


def gives_parts(ref: FunctionRef, call: t.Call) -> bool:
    """Whether a call gives a module's parameters or parts one by one, as those of torch do: ``net.parameters()``.

    A class of the program may have a method of the name that gives a list.
    """
    if not _asks(call):
        return False
    survey = ref.module.project.survey
    own = [*survey.methods_of_modules(call.name, ref.module), *survey.methods_of_no_modules(call.name, ref.module)]
    return all(gives_iterator(method) for method in own)


def _asks(call: t.Call) -> bool:
    return isinstance(call.func, t.Attribute) and call.func.name in _OF_MODULES


def gives_iterator(ref: FunctionRef, depth: int = 2) -> bool:
    """Whether each call of a function gives a new iterator."""
    define = ref.define
    if define.is_async or any(t.path_of(each) not in _HARMLESS for each in map(_called, define.decorators)):
        return False
    if define.is_generator:
        return True
    returned = [stmt.value for stmt in define.statements if isinstance(stmt, t.Return)]
    return bool(returned) and all(value is not None and _is_iterator(ref, value, depth) for value in returned)


def may_give_iterator(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether what a name is bound to may be an iterator."""
    if isinstance(value, t.Conditional):
        return may_give_iterator(ref, value.body)
    if isinstance(value, t.Display):
        return any(may_give_iterator(ref, item) for item in value.items)
    if not isinstance(value, t.Call):
        return isinstance(value, t.Comprehension) and value.kind == "generator"
    meant = resolved(ref, value.func)
    return _asks(value) or is_lazy(meant, value) or (isinstance(meant, FunctionRef) and gives_iterator(meant))


def _called(decorator: t.Expr) -> t.Expr:
    return decorator.func if isinstance(decorator, t.Call) else decorator


def _is_iterator(ref: FunctionRef, expr: t.Expr, depth: int) -> bool:
    if isinstance(expr, t.Comprehension):
        return expr.kind == "generator"
    if not isinstance(expr, t.Call):
        return False
    meant = resolved(ref, expr.func)
    if isinstance(meant, FunctionRef):
        return depth > 0 and gives_iterator(meant, depth - 1)
    is_of_base = isinstance(expr.func, t.Attribute) and isinstance(expr.func.value, t.Call)
    if is_of_base and _asks(expr):
        return True  # super().parameters()
    return is_lazy(meant, expr) or (depth > 0 and _asks(expr) and expr.name != ref.define.name)
