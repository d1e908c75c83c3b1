"""How much host memory is left: the tightest of the limits that are to be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.runtime import limits
from gradguard.runtime.limits import host_room, room
from gradguard.runtime.series import Series
from gradguard.runtime.torch_internals import DeviceRoom
from tests.support import write

GB = 1 << 30


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal: 99 kB\nMemAvailable:   {8 * GB // 1024} kB\n")
    return path


def test_the_machine_alone(tmp_path: Path, meminfo: Path) -> None:
    assert host_room(tmp_path / "none", meminfo) == 8 * GB


def test_a_container_of_version_2(tmp_path: Path, meminfo: Path) -> None:
    groups = {
        "memory.max": f"{4 * GB}\n",
        "memory.current": f"{3 * GB}\n",
        "memory.stat": f"anon 5\ninactive_file {GB}\n",
    }
    write(tmp_path / "cgroup", groups)
    assert host_room(tmp_path / "cgroup", meminfo) == 2 * GB  # pages of files are given back


def test_a_container_of_version_1(tmp_path: Path, meminfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = limits._text
    monkeypatch.setattr(limits, "_text", lambda p: "5:cpu,memory:/\n" if p.name == "cgroup" else text(p))
    groups = {"memory/memory.limit_in_bytes": f"{GB}\n", "memory/memory.usage_in_bytes": f"{GB // 2}\n"}
    write(tmp_path / "v1", groups)
    assert host_room(tmp_path / "v1", meminfo) == GB // 2


@pytest.mark.parametrize("limit", ["max", str((1 << 63) - 4096)])
def test_no_limit_is_none(tmp_path: Path, meminfo: Path, limit: str) -> None:
    write(tmp_path / "cgroup", {"memory.max": limit, "memory.current": "5"})
    assert host_room(tmp_path / "cgroup", meminfo) == 8 * GB


def test_a_group_above_may_be_tighter(tmp_path: Path, meminfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = limits._text
    monkeypatch.setattr(limits, "_text", lambda p: "0::/job/step\n" if str(p) == "/proc/self/cgroup" else text(p))
    groups = {
        "job/memory.max": f"{GB}",
        "job/memory.current": f"{GB - 7}",
        "job/step/memory.max": "max",
        "job/step/memory.current": "5",
    }
    write(tmp_path / "cgroup", groups)
    assert host_room(tmp_path / "cgroup", meminfo) == 7


def test_nothing_known(tmp_path: Path) -> None:
    assert host_room(tmp_path / "none", tmp_path / "neither") is None


def test_devices_and_the_host() -> None:
    class Card:
        def cuda_room(self, device: int) -> DeviceRoom:
            return DeviceRoom(free=10 * (device + 1) - 5, reserved=5, allowed=100)

    series = {"cuda:0": Series(), "cuda:1": Series(), "heap": Series(), "graphs": Series()}
    for each in series.values():
        each.add(1, 4)
    found = room(series, Card())  # type: ignore[arg-type]
    assert (found["cuda:0"], found["cuda:1"]) == (6, 16)
    assert "graphs" not in found


def test_a_device_is_shared_and_a_process_may_be_allowed_a_part() -> None:
    """Others have half of this device; what is reserved and unused is given out again."""
    assert DeviceRoom(free=40, reserved=10, allowed=80).left(allocated=4) == 40 + 6
    assert DeviceRoom(free=40, reserved=10, allowed=30).left(allocated=4) == 20 + 6
    assert DeviceRoom(free=0, reserved=10, allowed=80).left(allocated=10) == 0
    assert DeviceRoom(free=40, reserved=30, allowed=20).left(allocated=25) == 5  # allowed less than it already has
