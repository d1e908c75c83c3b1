"""Mistakes about what is kept from one iteration to the next."""

from __future__ import annotations

from dataclasses import dataclass

from gradguard.static.source import Site


@dataclass(frozen=True, slots=True)
class TensorKey:
    """A dict, or a set, is given an element of a tensor as a key, or asked for one.

    Args:
        site: where.
        collection: its path.
        key: the element.
        of: the tensor, where a loop goes over it.
        adds: the collection gets longer by it.
        given: the call that gives it as an argument; any tensor is a new key then, as it is computed for the call.
        over: the loop that goes over it.
    """

    site: Site
    collection: str
    key: Site
    of: str | None
    adds: bool
    given: Site | None = None
    over: Site | None = None


@dataclass(frozen=True, slots=True)
class ForgottenHandles:
    """An object drops the handles of hooks, and none of these is removed.

    Args:
        site: the statement that drops them.
        handles: the path of the attribute that has them.
        method: by which one of the hooks is registered.
    """

    site: Site
    handles: str
    method: str


@dataclass(frozen=True, slots=True)
class MadeByProperty:
    """A property makes an object at each access, which registers hooks on a module that stays.

    Args:
        site: the call that makes it.
        name: the property.
        made: the class of what it makes.
        registered: the call that registers a hook.
    """

    site: Site
    name: str
    made: str
    registered: Site


@dataclass(frozen=True, slots=True)
class KeptByFinalizer:
    """A finalizer is given what holds its own object.

    Args:
        site: the call that makes it.
        watched: the path of the object.
        holding: what holds it: an argument, or the function.
    """

    site: Site
    watched: str
    holding: Site


@dataclass(frozen=True, slots=True)
class RenewedKey:
    """What `.data` or `.detach()` gives is a key of a dict that gets an entry for it.

    Args:
        site: the expression that makes it.
        collection: the path of the dict.
        of: the tensor that it is made of, which is one object.
        used: the key in the method that it is given to; None where it is used at once.
    """

    site: Site
    collection: str
    of: str
    used: Site | None


@dataclass(frozen=True, slots=True)
class RandomKey:
    """What is made is kept in a dict under a random number.

    Args:
        site: the statement that keeps it.
        collection: the path of the dict.
        key: the key.
        draw: what draws the number, or the call that gives it.
    """

    site: Site
    collection: str
    key: Site
    draw: Site


@dataclass(frozen=True, slots=True)
class ReplacedState:
    """A parameter of an optimizer is replaced, and the state of the old one stays.

    Args:
        site: where that state is read, to be copied; else what replaces the parameter.
        optimizer: its path.
        replaced: the statement that replaces the parameter.
    """

    site: Site
    optimizer: str
    replaced: Site


@dataclass(frozen=True, slots=True)
class CutWhenRead:
    """A history gets longer in each step, and no more than its end is ever read.

    Args:
        site: the statement that makes it longer.
        path: the history.
    """

    site: Site
    path: str


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A list that has a limit is added to where it is full, and nothing is taken out of it.

    Args:
        site: the statement that adds to it.
        collection: its path.
        test: what says that it has a limit.
    """

    site: Site
    collection: str
    test: Site


@dataclass(frozen=True, slots=True)
class NeverReset:
    """A metric keeps the tensors of all epochs, as nothing calls the method that is to empty its list.

    Args:
        site: the statement that keeps them.
        collection: the path of the list.
        reset: the method.
        read: what has all of the list gone over in each epoch.
        in_steps: that is done every so many steps, and not once an epoch.
    """

    site: Site
    collection: str
    reset: str
    read: Site
    in_steps: bool


@dataclass(frozen=True, slots=True)
class LeftByError:
    """A context manager leaves something in a collection where its block raises.

    Args:
        site: the statement that puts it there.
        path: the collection.
        raising: an error that the block lets out.
    """

    site: Site
    path: str
    raising: Site


@dataclass(frozen=True, slots=True)
class KeptContext:
    """The context of every call of an ``autograd.Function`` is put into a collection that nothing empties.

    Args:
        site: the statement that does.
        path: the collection.
        context: the variable.
    """

    site: Site
    path: str
    context: str


@dataclass(frozen=True, slots=True)
class KeptKey:
    """An entry of a ``WeakKeyDictionary`` whose value has its key.

    Args:
        site: the statement that makes it.
        path: the dict.
        key: the variable.
    """

    site: Site
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A tensor is given to a function with a cache, which makes it a key.

    Args:
        site: the call.
        function: the function's name.
        given: the argument, as it is written.
        kept_by: the statement that keeps it, where the cache is one of the program.
    """

    site: Site
    function: str
    given: str
    kept_by: Site | None


@dataclass(frozen=True, slots=True)
class WrappedAgain:
    """In each iteration something is put around what was put there in the one before.

    Args:
        site: the statement, or the call of torch.
        path: the place, or the layer.
        kind: ``wrapper``, ``object``, ``parametrization`` or ``mask``.
        kept: the statement of a constructor that keeps the one before.
        put_back: the statement that is to put back what was there, and puts back the wrapper.
    """

    site: Site
    path: str
    kind: str
    kept: Site | None
    put_back: Site | None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The window of a profiler's schedule is the whole training.

    Args:
        site: how many steps it records.
        loop: the training.
    """

    site: Site
    loop: Site


@dataclass(frozen=True, slots=True)
class KeptWhenDone:
    """A method goes over a list of its object, and takes out nothing that is done.

    Args:
        site: what it goes over.
        collection: the path of the list.
        of_jobs: it is asked which are done; otherwise each is a function that is called.
        added: what puts one more there in each step, with the tensors that it keeps.
        in_turn: the site is a job that is asked for its result, each of them once.
    """

    site: Site
    collection: str
    of_jobs: bool
    added: Site
    in_turn: bool = False


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """In each iteration an object is made that starts a thread, and nothing ends it.

    Args:
        site: the call that makes it.
        name: its variable, if it has one.
        closing: the method that would end the thread, if there is one.
        start: what starts it, where that is not who makes the object.
    """

    site: Site
    name: str | None
    closing: str | None
    start: Site | None


@dataclass(frozen=True, slots=True)
class TrimmedNever:
    """A collection is trimmed by a condition that holds for all that is in it.

    Args:
        site: the condition.
        collection: the path.
        count: what its keys are, and the bound is.
    """

    site: Site
    collection: str
    count: str


@dataclass(frozen=True, slots=True)
class TrimmedAside:
    """A part of what is in a collection is bound to a variable that nothing reads: the collection keeps all.

    Args:
        site: the statement.
        name: the variable.
        collection: the path.
        is_new: it is an empty list, and no part of it.
    """

    site: Site
    name: str
    collection: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class LeftOnStack:
    """In each iteration an ``ExitStack`` is left a tensor, which it has until its block ends.

    Args:
        site: the call.
        stack: its variable.
        tensor: what it is given.
    """

    site: Site
    stack: str
    tensor: Site


@dataclass(frozen=True, slots=True)
class PutAway:
    """A pack hook puts each tensor away under a new key, and nothing takes it out again.

    Args:
        site: the statement that does.
        path: the collection.
        installed: where the hooks are installed.
        read: where the unpack hook reads it, and leaves it there.
    """

    site: Site
    path: str
    installed: Site
    read: Site | None


@dataclass(frozen=True, slots=True)
class DefaultList:
    """A list that is the default of a parameter gets longer by a tensor in each call that does not give one.

    Args:
        site: the statement that does so.
        name: the parameter.
        made: the default, which makes the list once.
        call: a call without it, in a loop that trains.
    """

    site: Site
    name: str
    made: Site
    call: Site


@dataclass(frozen=True, slots=True)
class ClassList:
    """A list that the body of a class makes gets longer by the tensors of all objects, of which a loop makes more.

    Args:
        site: the statement of a method that puts one into it.
        name: the attribute.
        made: the statement that makes the list, once.
        call: where a loop that trains makes one object after the other.
    """

    site: Site
    name: str
    made: Site
    call: Site
