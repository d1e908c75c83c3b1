"""Everything of torch that is not public API, probed when the watch starts.

torch 2.4 and later. What a version lacks is None (or does nothing), and the sensor that needs it says so in the report.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class DeviceRoom:
    """Bytes of one device.

    Args:
        free: what nobody has: other processes take of it, too.
        reserved: what the caching allocator has taken from the device.
        allowed: the most that it may take (``torch.cuda.set_per_process_memory_fraction``).
    """

    free: int
    reserved: int
    allowed: int

    def left(self, allocated: int) -> int:
        """Bytes that tensors can still get.

        Args:
            allocated: what they have now; what is reserved beyond that is given out before more is taken.
        """
        return max(min(self.free, self.allowed - self.reserved), 0) + max(self.reserved - allocated, 0)


class TorchInternals:
    """Private attributes of the torch that is imported now.

    Args:
        torch: the module.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.tensor_type: Any = torch.Tensor
        self.parameter_type: type = torch.nn.Parameter
        self.module_type: type = torch.nn.Module
        self.node_type: type = _probe(lambda: torch.autograd.graph.Node) or type(None)
        self.register_step_post_hook: Callable[..., Any] | None = _probe(
            lambda: import_module("torch.optim.optimizer").register_optimizer_step_post_hook
        )
        self.register_forward_pre_hook: Callable[..., Any] | None = _probe(
            lambda: import_module("torch.nn.modules.module").register_module_forward_pre_hook
        )
        self.loader_iterator: type | None = _probe(
            lambda: import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        )
        self.cuda_graph: type | None = _probe(lambda: self.torch.cuda.CUDAGraph)
        self.has_node_metadata = _probe(self._node_metadata) is True
        self._optimizer: weakref.ref[Any] | None = None

    def handles(self) -> Callable[[], int] | None:
        """A function that says how many hook handles were given out so far; None where they are not numbered."""
        handle = _probe(lambda: self.torch.utils.hooks.RemovableHandle)
        if not isinstance(getattr(handle, "next_id", None), int):
            return None
        return lambda: int(handle.next_id)

    def has_optimizer(self) -> bool:
        """Whether the program has made an optimizer that is alive; it may not have stepped yet."""
        if self._optimizer is None or self._optimizer() is None:
            found = next(self.optimizers(), None)
            self._optimizer = weakref.ref(found) if found is not None else None
        return self._optimizer is not None

    def optimizers(self) -> Iterator[Any]:
        """The optimizers that are alive: a walk over all objects."""
        kind = self.torch.optim.Optimizer
        return (each for each in gc.get_objects() if issubclass(type(each), kind))

    def without_overrides(self) -> Any:
        """A context in which reading a tensor's attributes runs no ``__torch_function__`` of the user."""
        guard = _probe(lambda: self.torch._C.DisableTorchFunction)
        return guard() if guard is not None else nullcontext()

    def storage_of(self, tensor: Any) -> tuple[int, int]:
        """Address and bytes of a tensor's storage; ``(0, 0)`` for one without."""
        try:
            storage = tensor.untyped_storage()
            return int(storage.data_ptr()), int(storage.nbytes())
        except Exception:  # sparse, meta, wrapper subclasses
            return 0, 0

    def parts_of_module(self, thing: Any) -> list[tuple[str, Any, bool]]:
        """Name, tensor and whether it is a parameter, of a module's own parameters and buffers; nothing of others."""
        if not issubclass(type(thing), self.module_type):
            return []
        own = object.__getattribute__(thing, "__dict__")
        return [
            (key, tensor, kind == "_parameters")
            for kind in ("_parameters", "_buffers")
            for key, tensor in list((own.get(kind) or {}).items())
            if tensor is not None
        ]

    @property
    def is_compiling(self) -> Callable[[], bool]:
        """Whether torch.compile is tracing now; the very function that it recognises, and the cheapest of these."""
        compiler = self.torch.compiler
        found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", compiler.is_compiling)
        return found

    def is_profiling(self) -> bool:
        """Whether the autograd profiler records now."""
        return bool(_probe(lambda: self.torch.autograd._profiler_enabled()))

    def has_compiled(self) -> bool:
        """Whether torch.compile has compiled anything: then tracing could change what runs."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        counters = getattr(dynamo, "counters", None)
        return bool(counters and counters["frames"].get("total"))

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured now: to read a value of a tensor would end that with an error."""
        return bool(_probe(lambda: self.torch.cuda.is_initialized() and self.torch.cuda.is_current_stream_capturing()))

    def cuda_devices(self) -> int:
        """How many CUDA devices the program has begun to use (0 before it initialises CUDA: we never do)."""
        return int(_probe(lambda: self.torch.cuda.device_count() if self.torch.cuda.is_initialized() else 0) or 0)

    def stats(self, device: int) -> dict[str, Any]:
        """The caching allocator's statistics (see :class:`gradguard.runtime.sensors.cuda.Allocator`)."""
        raw = _probe(lambda: self.torch._C._cuda_memoryStats)
        found: dict[str, Any] = raw(device) if raw else self.torch.cuda.memory_stats_as_nested_dict(device)
        return found

    def pinned_stats(self) -> dict[str, Any] | None:
        """The statistics of page-locked memory (see :class:`gradguard.runtime.sensors.pinned.HostAllocator`)."""
        found: dict[str, Any] | None = _probe(lambda: self.torch._C._cuda_hostMemoryStats())  # torch 2.6
        return found

    def cuda_room(self, device: int) -> DeviceRoom | None:
        """What the caching allocator has of a device, and what it may still take; None where torch does not say.

        Args:
            device: one that the program uses.
        """
        cuda = self.torch.cuda
        asked = _probe(lambda: (cuda.mem_get_info(device), cuda.memory_reserved(device)))
        if asked is None:
            return None
        (free, total), reserved = asked
        share = _probe(lambda: cuda.get_per_process_memory_fraction(device))  # torch 2.8
        return DeviceRoom(int(free), int(reserved), int(total if share is None else total * share))

    def _node_metadata(self) -> bool:
        torch = self.torch
        with torch.enable_grad():  # a private tensor; random state and the user's graphs are not touched
            node = torch.zeros((), requires_grad=True).view(()).grad_fn
        return isinstance(node.metadata, dict)


def _probe(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (AttributeError, ImportError, RuntimeError, AssertionError):
        return None
