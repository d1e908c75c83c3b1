"""What is alive, as it is shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradguard.alive import Allocated, Amount, HeldBy, Snapshot
from gradguard.report.snapshot_console import report

SNAPSHOT = Snapshot(
    amounts=(
        Amount("parameters", "cuda:0", 1_204, 44_700_000),
        Amount("held by graphs", "cuda:0", 34, 21_800_000),
        Amount("other tensors", "cpu", 6, 197),
    ),
    holders=(
        HeldBy("Trainer.history", "list", 34, 21_800_000, 21_799_000),
        HeldBy("Trainer.model", "torch.nn.modules.container.Sequential", 7, 2_600_000, 0),
    ),
    unnamed=5_056,
    allocators=(Allocated("cuda:0", 66_500_000, 70_000_000),),
    step=12,
    complete=False,
)


def printed(snapshot: Snapshot, width: int = 100) -> str:
    out = io.StringIO()
    report(snapshot, Console(file=out, width=width, markup=False, emoji=False, highlight=False))
    return out.getvalue()


def test_the_tables_have_kinds_devices_and_holders() -> None:
    lines = [" ".join(line.split()) for line in printed(SNAPSHOT).splitlines()]
    assert lines == [
        "gradguard 66.5 MB in 1,244 storages alive after step 12",
        "alive device storages bytes",
        "parameters cuda:0 1,204 44.7 MB",
        "held by graphs cuda:0 34 21.8 MB",
        "other tensors cpu 6 197 B",
        "",
        "held by type bytes in graphs",
        "Trainer.history list 21.8 MB 21.8 MB",
        "Trainer.model torch.nn.modules.container.Sequential 2.6 MB",
        "cuda:0: 66.5 MB allocated, 70.0 MB reserved",
        "no variable leads to 5.1 KB of it",
        "there is more than could be looked at in a second",
    ]


def test_print_gives_plain_lines() -> None:
    lines = str(SNAPSHOT).splitlines()
    assert lines[0] == "gradguard: 66.5 MB in 1,244 storages alive after step 12"
    assert lines[1].split() == ["parameters", "cuda:0", "1,204", "44.7", "MB"]
    assert lines[4].strip() == "21.8 MB  Trainer.history (list, 21.8 MB of it in graphs)"
    assert "rich" not in str(SNAPSHOT)


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_keeps_the_numbers(width: int) -> None:
    text = printed(SNAPSHOT, width)
    assert max(map(len, text.splitlines())) <= width
    assert "Trainer.history" in text
    assert "2.6 MB" in text


def test_nothing_is_alive() -> None:
    assert printed(Snapshot()) == "gradguard no tensor is alive\n"


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    evil = Snapshot((Amount("parameters", "cpu", 1, 4),), (HeldBy("x\x1b[31m", "T", 1, 4, 0),))
    assert "\x1b" not in printed(evil)
