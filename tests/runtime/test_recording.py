"""A run on disk: what is written, how much, and what is read back of a file that ends in the midst."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gradguard.runtime.recording import Recording, RecordingError, read


def a_recording(path: Path) -> Recording:
    return Recording(path, command=("train.py",), start="/here", tool="0.1.0")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.jsonl"
    recording = a_recording(path)
    recording.torch("2.13.0")
    for step in range(1, 6):
        recording.sample(step, step / 10, {"heap": 1000.0 * step, "graphs": 1})
    recording.leak({"kind": "graph"}, {"train.py": {3: "x.append(loss)"}})
    recording.end({"verdict": "leak"}, {"train.py": {4: "y"}})
    recording.sample(6, 1.0, {"heap": 1.0})  # after the end: nothing
    found = read(path)
    assert found.start["command"] == ["train.py"]
    assert found.torch == "2.13.0"
    assert found.series["heap"].values == [1000.0, 2000.0, 3000.0, 4000.0, 5000.0]
    assert found.timing[-1] == (5, 0.5)
    assert found.seconds_per_step == pytest.approx(0.1)
    assert found.peaks == {"heap": 5000, "graphs": 1}
    assert found.leaks == [{"kind": "graph"}]
    assert found.report == {"verdict": "leak"}
    assert found.source == {"train.py": {3: "x.append(loss)", 4: "y"}}


def test_what_was_found_last_and_what_ends_steps_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = a_recording(path)
    for source in ("loader", "loader", "optimizer"):
        recording.step_source(source)
    recording.found([{"kind": "heap"}], {})
    recording.found([{"kind": "tensor"}], {"train.py": {3: "x.append(y)"}})
    found = read(path)
    assert path.read_text().count("step_source") == 2
    assert found.step_source == "optimizer"
    assert found.found == [{"kind": "tensor"}]
    assert found.source == {"train.py": {3: "x.append(y)"}}


def test_each_line_is_on_disk_at_once_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = a_recording(path)
    recording.sample(1, 0.1, {"heap": 5.0})
    assert len(path.read_text().splitlines()) == 2  # the file is still open
    with path.open("a") as file:
        file.write('{"sample": {"step": 2, "seco')
    found = read(path)
    assert found.report is None
    assert found.timing == [(1, 0.1)]


def test_it_stays_small_however_long_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = a_recording(path)
    step = 1
    while step < 10_000_000:  # the sensors are read at most so often
        recording.sample(step, step * 0.01, {"heap": 123_456_789.0, "process": 123_456_789.0, "graphs": 2})
        step += max(step // 512, 1)
    assert path.stat().st_size < 1_000_000
    assert len(read(path).timing) > 1_000


def test_steps_that_are_counted_anew_replace_those_before(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = a_recording(path)
    recording.sample(1, 0.1, {"heap": 5.0})
    recording.start_over()
    recording.sample(1, 0.2, {"heap": 7.0})
    assert read(path).series["heap"].values == [7.0]


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    a_recording(tmp_path / "run.jsonl")
    with pytest.raises(FileExistsError):
        a_recording(tmp_path / "run.jsonl")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(sys.platform != "linux", reason="forking with threads")
def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording = a_recording(path)
    child = os.fork()
    if child == 0:
        recording.sample(1, 0.1, {"heap": 5.0})
        recording.end({}, {})
        os._exit(0)
    os.waitpid(child, 0)
    assert read(path).timing == []
    recording.sample(1, 0.1, {"heap": 6.0})
    assert read(path).series["heap"].values == [6.0]


@pytest.mark.parametrize("text", ["", "\n", "{}\n", "[1]\n", "hello\n", json.dumps({"start": 3}), "\x00\x01"])
def test_what_is_no_recording_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.txt").write_text(text)
    with pytest.raises(RecordingError, match=r"other\.txt.*no recording"):
        read(tmp_path / "other.txt")


def test_a_later_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text('{"start": {"version": 99}}\n')
    with pytest.raises(RecordingError, match="version 99"):
        read(tmp_path / "run.jsonl")


def test_a_missing_file_and_bytes_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        read(tmp_path / "nowhere.jsonl")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(RecordingError, match=r"image\.png: cannot be read"):
        read(tmp_path / "image.png")
