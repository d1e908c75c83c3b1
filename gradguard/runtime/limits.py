"""How much memory is left before it ends: of a device, of the container, of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gradguard.runtime.series import Series
from gradguard.runtime.verdict import HOST, is_device

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

NO_LIMIT = 1 << 60
"""cgroup v1 writes a number near 2**63 where there is no limit."""

CGROUPS = Path("/sys/fs/cgroup")


def room(series: Mapping[str, Series], internals: TorchInternals | None) -> dict[str, int]:
    """Bytes that are left, by signal: of each device in use, and of the host for its memory.

    Args:
        series: the samples of the run.
        internals: of torch; None where it was not imported.
    """
    found = {}
    for name, samples in series.items():
        if is_device(name) and internals is not None and samples.last is not None:
            room_there = internals.cuda_room(int(name[5:]))
            if room_there is not None:
                found[name] = room_there.left(int(samples.last))
    host = host_room()
    if host is not None:
        found.update((name, host) for name in (*HOST, "process") if name in series)
    return found


def host_room(cgroups: Path = CGROUPS, meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes of host memory that this process may still take: the tightest limit above it, or what the machine has.

    Args:
        cgroups: where the control groups are mounted (version 1 or 2).
        meminfo: of the kernel, in kibibytes.
    """
    known = [left for left in (*_cgroup_rooms(cgroups), _available(meminfo), _addresses()) if left is not None]
    return min(known, default=None)


def _cgroup_rooms(root: Path) -> Iterable[int | None]:
    for folder in _own_groups(root):
        yield _left(folder / "memory.max", folder / "memory.current", folder / "memory.stat")
        yield _left(
            folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes", folder / "memory.stat"
        )  # version 1


def _own_groups(root: Path) -> Iterable[Path]:
    """The groups that this process is in, up to the root: in a container the root alone is to be seen."""
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "memory" if controllers else root
        folder = base / group.strip("/")
        while folder != base:
            yield folder
            folder = folder.parent
        yield base


def _left(limit: Path, used: Path, stat: Path) -> int | None:
    """What is below a limit; pages of files are given back when memory is short, so they count as free."""
    most, now = _number(_text(limit)), _number(_text(used))
    if most is None or now is None or most >= NO_LIMIT:
        return None
    fields = dict(line.split(None, 1) for line in _text(stat).splitlines() if len(line.split()) == 2)
    cached = _number(fields.get("inactive_file", "")) or _number(fields.get("total_inactive_file", "")) or 0
    return max(most - now + cached, 0)


def _available(meminfo: Path) -> int | None:
    for line in _text(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            kibibytes = _number(line.split()[1])
            return kibibytes * 1024 if kibibytes is not None else None
    return None


def _addresses() -> int | None:
    """What a limit on the address space leaves (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _number(_text(Path("/proc/self/statm")).partition(" ")[0])
    if most == resource.RLIM_INFINITY or pages is None:
        return None
    return max(most - pages * resource.getpagesize(), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() else None
