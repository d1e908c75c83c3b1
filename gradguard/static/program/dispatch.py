"""Methods of objects whose class only the run knows: callbacks, meters of a registry, agents made by a name.

Where few classes of the program have a method of that name, the call does what one of theirs does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Form, Mode
from gradguard.static.program import handed
from gradguard.static.program.arguments import takes
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.names import RECORDS
from gradguard.static.reading.called import Called
from gradguard.static.reading.summary import apply_facts, apply_one_of
from gradguard.static.values import NOTHING, NUMBER, UNKNOWN, Kind, Source, Value, Word, is_record, union, with_content

_OBJECTS = (Kind.UNKNOWN, Kind.INSTANCE)
_DUNDER = re.compile(r"__\w+__$")
# What collections, files, tensors and optimizers have too.
_OF_OTHERS = (
    frozenset(name for kind in (list, dict, set, str, bytes) for name in dir(kind))
    | k.BREAKING_METHODS | k.DIFFERENTIABLE_METHODS | k.FILLING_METHODS
    | k.INPLACE_GRAPH_METHODS | k.RESETTING_METHODS | k.VIEWING_METHODS | k.MODULE_METHODS | k.FLUENT_METHODS
    | frozenset("backward step zero_grad read write close flush forward load_state_dict state_dict".split())
)  # fmt: skip


def by_name(c: Called) -> Value | None:
    """A method of an object of unknown class, by what the classes of the program have under its name."""
    told = _told(c)
    if told is None:
        return _element(c)
    name, receiver, path = told
    gives = _gives_something(c)
    if receiver.kind not in _OBJECTS or _DUNDER.match(name) or not (gives or _may_be_step(c, name)):
        return None
    is_of_others = receiver.kind is Kind.UNKNOWN and name in _OF_OTHERS and not _is_of_no_collection(c, name)
    if is_of_others and not _is_given_by_keyword(c, name):
        return None
    if isinstance(receiver.ref, Class) and not _is_declared_only(receiver.ref, name):
        return None
    base = receiver.ref if isinstance(receiver.ref, Class) else None
    methods = c.flow.project.survey.methods_named(name, c.flow.module, base)
    if is_of_others:
        methods = [ref for ref in methods if _names_all(ref, c.node.args)]
    if not gives and not all(ref.trains for ref in methods if takes(ref, c.node.args)):
        return None
    return apply_one_of(c, methods, path)


def of_heirs(c: Called, cls: Class, method: FunctionRef, path: str | None) -> Value | None:
    """What a method gives that a class only declares, as its few heirs do it: ``criterion(out, y)``, a ``Loss``.

    Args:
        path: that of the object.
    """
    methods = c.flow.project.survey.methods_of_heirs(method.define.name, c.flow.module, cls)
    return apply_one_of(c, methods, path)


def _may_be_step(c: Called, name: str) -> bool:
    """Whether a method that is given nothing may do a step of training, and hand out its loss: ``agent.learn()``."""
    if c.node.args or c.node in c.flow.ref.calls_for_effect or c.state.mode is Mode.OFF or name in _OF_OTHERS:
        return False
    modules = c.flow.project.survey.defining(name, c.flow.module)
    return any(".backward(" in module.source.text for module in modules)


def of_module(c: Called) -> Value | None:
    """What a method of an object's module gives, where only the run knows both: ``found = trainer.model.search(x)``."""
    path, receiver = c.receiver_path or "", c.receiver
    if receiver is None or receiver.kind is not Kind.MODULE or receiver.ref is not None or c.func.ref is not None:
        return None
    if "." not in path or path.startswith("self.") or c.node in c.flow.ref.calls_for_effect:
        return None
    if c.method in _OF_OTHERS or c.method in k.OF_EVERY_MODULE:
        return None
    methods = c.flow.project.survey.methods_of_modules(c.method, c.flow.module)
    return apply_one_of(c, methods, path)


def _element(c: Called) -> Value | None:
    """``for metric in self.metrics: metric(out, y)``: what an element of unknown class does."""
    func = c.node.func
    paths = c.flow.elements.get(func.id, ()) if isinstance(func, t.Name) else ()
    may_be_object = c.func.kind is Kind.INSTANCE or any("." in path for path in paths)  # else it may be a function
    is_object = bool(paths) and c.func.kind in _OBJECTS and c.func.ref is None and may_be_object
    if not is_object or c.node not in c.flow.ref.calls_for_effect or not _gives_something(c):
        return None
    handed_over = handed.call_of_handed(c)  # some may be functions, and others objects
    called = apply_one_of(c, c.flow.project.survey.methods_named("__call__", c.flow.module), paths[0])
    return called if handed_over is None else handed_over


def logged(c: Called) -> Value | None:
    """``logger.debug("loss %s", loss)``: a handler of the program may keep the record, and with it the arguments."""
    is_record = c.method in _LOGS and c.receiver_path is not None and k.LOGGING_RECEIVERS.search(c.receiver_path)
    given = union(c.arguments, Kind.OUTPUT)
    if not is_record or not given.roots:
        return None
    survey = c.flow.project.survey
    if _holds_back(c):
        _keep_record(c, RECORDS)
    for emit in survey.methods_named("emit", c.flow.module):
        if emit.owner is not None and any(name.startswith("logging.") for name in emit.owner.external_bases):
            apply_facts(c, emit, [(t.Arg(c.node.args[-1].value), _record(c, given))], "logging.handlers[*]")
    return NOTHING


def _holds_back(c: Called) -> bool:
    """Whether a handler keeps records: thousands, until it is full, or all of them where it has none to hand them to.

    What a handler has is emptied where it is handed on: one without a target is never emptied, however small it is.
    """
    survey, module = c.flow.project.survey, c.flow.module
    if not survey.mentions(_BUFFERING, module, _HANDLER):
        return False
    is_large = survey.mentions(_LARGE, module, _HANDLER) and not survey.mentions(_FLUSHING, module)
    return is_large or not survey.mentions(_HANDED_ON, module)


def _record(c: Called, given: Value) -> Value:
    """A record of the log: each entry of ``extra={"step": step}`` is an attribute of it."""
    extra = c.value_of("extra")
    if extra is None or not is_record(extra):
        return given
    shown = union([value for arg, value in c.values if arg.keyword is None])
    return given._replace(parts=(*extra.parts, ("args", shown), *((name, NUMBER) for name in _OF_RECORDS)))


def _keep_record(c: Called, path: str) -> None:
    """A handler that writes later keeps what a record is to show."""
    c.flow.touch(path, c.state)
    buffer = c.flow.read(path, c.state)._replace(kind=Kind.CONTAINER)
    for arg, value in c.values:
        if value.roots:
            c.flow.store(path, value, c.state, c.node, arg.value, Form.APPEND)
            buffer = with_content(buffer, value)
    c.state.env[path] = buffer


_HANDLER = "MemoryHandler("
_BUFFERING = re.compile(r"\bMemoryHandler\(")
# It keeps records, with what is to be written into them, until it is full or an important one comes.
_LARGE = re.compile(r"\bMemoryHandler\(\s*(?:capacity\s*=\s*)?\d[\d_]{2,}(?![^\n]*\b(?:NOTSET|DEBUG|INFO)\b)")
_FLUSHING = re.compile(r"\.flush\(\)")
_ARGUMENT = r"(?:[^(),=*]|\([^()]*\))+"
_HANDED_ON = re.compile(
    r"\bsetTarget\(|\.target\s*=(?!=)|\.buffer(?:\.(?:clear|pop)\(|\[[^\]\n]*\]\s*=|\s*=(?!=))|\bdel\b[^\n]*\.buffer\b|"
    r"\bremoveHandler\(|\bclass\s[^\n]*\bMemoryHandler\b|"
    rf"\bMemoryHandler\((?:(?:[^()]|\([^()]*\))*(?:\btarget\s*=(?!\s*None\b)|\*)|{_ARGUMENT},{_ARGUMENT},{_ARGUMENT})"
)
_OF_RECORDS = tuple("name levelno levelname created msecs pathname filename module lineno funcName thread".split())
_LOGS = frozenset("debug info warning error exception critical log".split())


def _told(c: Called) -> tuple[str, Value, str | None] | None:
    """The name of the method that is called, its object and the object's path."""
    if c.method:
        return (c.method, c.receiver, c.receiver_path) if c.receiver is not None else None
    func = c.node.func
    if not isinstance(func, t.Call) or t.path_of(func.func) != "getattr" or len(func.args) < 2:
        return None
    held, name = func.args[0].value, c.flow.value(func.args[1].value, c.state).ref
    path = t.path_of(held)
    if not isinstance(name, Word):
        return None
    return name.text, c.flow.value(held, c.state), c.flow.element_paths(path)[0] if path is not None else None


def _gives_something(c: Called) -> bool:
    """Whether anything goes in that may carry a graph, or hold what carries one."""
    return any(v.keeps or v.kind in (Kind.INSTANCE, Kind.MODULE) for v in c.arguments)


def _is_of_no_collection(c: Called, name: str) -> bool:
    """Whether ``update`` or ``add`` is given what no dict, set or tensor takes: a tensor, a module, or several things.

    So is it where a method hands all that it is given to each element of a collection: ``meter.update(*args)``.
    """
    if name in _ADDING and _hands_on_all(c):
        return True
    given = [value for arg, value in c.values if arg.keyword is None and not arg.star]
    first = given[0] if given else UNKNOWN
    is_tensor = first.kind is Kind.TENSOR or any(root.source is Source.LOSS for root in first.roots)
    several = name in _ADDING and len(given) > 1
    return several or (name == "update" and (first.kind is Kind.MODULE or (is_tensor and bool(first.roots))))


def _is_given_by_keyword(c: Called, name: str) -> bool:
    """Whether ``update`` is given all by name, as a dict takes it, and a meter: ``update(val=loss, n=4)``."""
    return name == "update" and bool(c.node.args) and all(arg.keyword is not None for arg in c.node.args)


def _names_all(ref: FunctionRef, args: Sequence[t.Arg]) -> bool:
    """Whether a method has a parameter for each keyword of a call."""
    return {arg.keyword for arg in args} <= {param.name for param in ref.define.params if not param.star}


_ADDING = ("append", "update", "add", "put", "push")


def _hands_on_all(c: Called) -> bool:
    """Whether an element that a loop takes is given all arguments of the function: ``*args``, whatever they are."""
    func = c.node.func
    element = func.value.id if isinstance(func, t.Attribute) and isinstance(func.value, t.Name) else ""
    own = {param.name for param in c.flow.ref.define.params if param.star == "*"}
    given = {t.path_of(arg.value) for arg in c.node.args if arg.star == "*"}
    return element in c.flow.elements and bool(own & given)


def _is_declared_only(cls: Class, name: str) -> bool:
    method = cls.method(name)
    return method is None or method.is_abstract
