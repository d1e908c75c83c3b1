"""``gradguard run``: the program runs as under plain Python, and the report is beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import CHECKOUT, Shell, write

TORCH_LOOP = """
import sys
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
history = []
for step in range(int(sys.argv[1])):
    loss = model(torch.randn(8, 4)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {store}
print("finished")
"""

LEAKING = TORCH_LOOP.format(store="history.append(loss)")
CLEAN = TORCH_LOOP.format(store="history.append(loss.item())")

WHO = """
import sys
print(__name__, __file__, __spec__ and __spec__.name, __package__, sys.argv, sys.path[0])
"""


@pytest.fixture
def torch_here() -> None:
    pytest.importorskip("torch")


# --- as under plain Python ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["who.py", "a", "--steps", "-m"], ["-m", "who", "x"], ["-m", "pack", "x"], ["pack", "y"]]
)
def test_the_program_sees_what_it_sees_under_python(shell: Shell, project: Path, words: list[str]) -> None:
    write(
        project,
        {"who.py": WHO, "pack/__init__.py": "", "pack/__main__.py": "from . import other" + WHO, "pack/other.py": ""},
    )
    if words[0] == "pack":
        write(project, {"pack/__main__.py": WHO})
    plain = shell(*words)
    under = shell("-m", "gradguard", "run", *words)
    assert plain.returncode == under.returncode == 0
    assert under.stdout == plain.stdout


@pytest.mark.parametrize(
    "body",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit()",
        "import sys; sys.exit('what went wrong')",
        "raise SystemExit(True)",
        "def f():\n    raise ValueError('mine')\nf()",
        "1 +",
        "import nowhere",
        "raise BaseException('odd')",
    ],
)
def test_it_ends_as_under_python(shell: Shell, project: Path, body: str) -> None:
    write(project, {"end.py": body + "\n"})
    plain = shell("end.py")
    under = shell("-m", "gradguard", "run", "end.py")
    assert under.returncode == plain.returncode
    assert under.stdout == plain.stdout
    assert under.stderr.startswith(plain.stderr)


@pytest.mark.platform
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_the_report_and_ends_it_as_it_would(project: Path, number: int) -> None:
    write(project, {"wait.py": "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"})
    process = subprocess.Popen(
        [sys.executable, "-m", "gradguard", "run", "wait.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -number
    assert b"gradguard Too short" in err
    assert (b"KeyboardInterrupt" in err) == (number == signal.SIGINT)
    assert b"gradguard/cli" not in err


ODD = {
    "a class of the script comes back from a spawned process": """
import multiprocessing

class Result:
    def __init__(self, value):
        self.value = value

def work(value):
    return Result(value * value)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([result.value for result in pool.map(work, [1, 2, 3])])
""",
    "builtins are a module": "print(type(__builtins__).__name__, __builtins__.__name__)",
    "the main module is the script": "import sys\nx = 5\nprint(sys.modules['__main__'].x, __name__)",
    "a forked child ends": """
import os, sys
child = os.fork()
if not child:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
    "the directory is left": "import os, tempfile\nos.chdir(tempfile.gettempdir())\nprint('elsewhere')",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_programs_do_what_they_do_under_python(shell: Shell, project: Path, name: str) -> None:
    write(project, {"odd.py": ODD[name]})
    plain = shell("odd.py")
    under = shell("-m", "gradguard", "run", "--format", "json", "--output", "run.json", "odd.py")
    assert plain.returncode == 0, plain.stderr.decode()
    assert (under.returncode, under.stdout) == (0, plain.stdout), under.stderr.decode()
    assert json.loads((project / "run.json").read_text(encoding="utf-8"))["verdict"] == "too-short"


def test_a_run_ends_early_out_of_an_asyncio_task(shell: Shell, project: Path, torch_here: None) -> None:
    body = """
import asyncio
import torch

async def train(queue):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], 0.1)
    while True:
        await queue.get()
        parameter.square().sum().backward()
        optimizer.step()

async def main():
    queue = asyncio.Queue(maxsize=2)
    task = asyncio.create_task(train(queue))
    for number in range(1000):
        await queue.put(number)

asyncio.run(main())
"""
    write(project, {"tasks.py": body})
    done = shell("-m", "gradguard", "run", "--steps", "40", "tasks.py")
    assert done.returncode == 0, done.stderr.decode()
    assert b"over 40 steps" in b" ".join(done.stderr.split())  # where the headline wraps


def test_a_programs_own_handler_is_left_alone(shell: Shell, project: Path) -> None:
    body = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(5))
os.kill(os.getpid(), signal.SIGTERM)
"""
    write(project, {"own.py": body})
    assert shell("-m", "gradguard", "run", "own.py").returncode == 5


def test_torch_is_not_imported_before_the_program_does(shell: Shell, project: Path, torch_here: None) -> None:
    write(
        project,
        {"late.py": "import sys\nassert 'torch' not in sys.modules\nimport torch\nprint(torch.__spec__.loader)\n"},
    )
    done = shell("-m", "gradguard", "run", "late.py")
    assert done.returncode == 0, done.stderr.decode()
    assert b"SourceFileLoader" in done.stdout
    assert b"did not import torch" not in done.stderr


def test_what_torch_compile_compiles_is_the_same(shell: Shell, project: Path, torch_here: None) -> None:
    """The same losses to the bit, compiled as often, without a graph break."""
    body = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), 0.01)
losses = []
for step in range(60):
    loss = compiled(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
counters = torch._dynamo.utils.counters
print([loss.item().hex() for loss in losses], counters["frames"], counters["graph_break"])
"""
    write(project, {"compiled.py": body})
    plain = shell("compiled.py")
    under = shell("-m", "gradguard", "run", "compiled.py")
    assert plain.returncode == 0, plain.stderr.decode()
    assert under.stdout == plain.stdout
    assert b"`losses` keeps autograd graphs" in under.stderr


# --- options ------------------------------------------------------------------------------------------------------


def test_a_leak_is_named_while_it_runs_and_at_the_end(shell: Shell, project: Path, torch_here: None) -> None:
    write(project, {"train.py": LEAKING})
    done = shell("-m", "gradguard", "run", "train.py", "60")
    err = done.stderr.decode()
    assert (done.returncode, done.stdout) == (0, b"finished\n")
    assert err.count("train.py:13: history.append(loss)") == 1
    assert "gradguard Leak: `history` keeps autograd graphs" in err
    assert "13 |     history.append(loss)" in err
    assert "help: store `loss.detach()`" in err


def test_the_exit_status_can_tell(shell: Shell, project: Path, torch_here: None) -> None:
    write(project, {"leaking.py": LEAKING, "clean.py": CLEAN})
    assert shell("-m", "gradguard", "run", "--fail-on-leak", "leaking.py", "60").returncode == 1
    assert shell("-m", "gradguard", "run", "--fail-on-leak", "clean.py", "60").returncode == 0


def test_a_run_can_end_early(shell: Shell, project: Path, torch_here: None) -> None:
    write(project, {"train.py": LEAKING})
    for option, least, most in ((["--steps", "45"], 45, 45), (["--stop-on-leak"], 30, 60)):
        done = shell(
            "-m", "gradguard", "run", *option, "--format", "json", "--output", "run.json", "train.py", "100000"
        )
        assert (done.returncode, done.stdout) == (0, b"")
        report = json.loads((project / "run.json").read_text(encoding="utf-8"))
        assert least <= report["steps"] <= most
        assert report["verdict"] == "leak"
        assert report["command"] == ["train.py", "100000"]


def test_json_on_stderr_is_json(shell: Shell, project: Path) -> None:
    write(project, {"nothing.py": "print('out')\n"})
    done = shell("-m", "gradguard", "run", "--format", "json", "nothing.py")
    assert done.stdout == b"out\n"
    assert json.loads(done.stderr)["verdict"] == "too-short"


def test_json_on_stderr_is_all_that_is_there(shell: Shell, project: Path, torch_here: None) -> None:
    write(project, {"train.py": LEAKING})
    done = shell("-m", "gradguard", "run", "--format", "json", "train.py", "60")
    assert json.loads(done.stderr)["verdict"] == "leak"


def test_a_program_that_fails_at_once_gets_one_line(shell: Shell, project: Path) -> None:
    write(project, {"broken.py": "import a_module_that_is_nowhere\n"})
    *_, error, said = shell("-m", "gradguard", "run", "--no-record", "broken.py").stderr.decode().splitlines()
    assert error.startswith("ModuleNotFoundError")
    assert said == "gradguard Too short: the program failed before any step was seen."


def test_the_live_view_ends_with_the_report(shell: Shell, project: Path, torch_here: None) -> None:
    write(project, {"train.py": LEAKING})
    done = shell("-m", "gradguard", "run", "--live", "--color", "always", "train.py", "60", env={"COLUMNS": "80"})
    err = done.stderr.decode()
    assert (done.returncode, done.stdout) == (0, b"finished\n")
    assert "step 60" in err
    assert "leak: `history`" in err
    assert err.index("step 60") < err.index("keeps autograd graphs, ", err.index("step 60"))


def test_processes_that_are_not_watched_are_named(shell: Shell, project: Path) -> None:
    body = """
import multiprocessing

def work():
    pass

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
    raise SystemExit(child.exitcode)
"""
    write(project, {"parent.py": body})
    done = shell("-m", "gradguard", "run", "parent.py")
    assert done.returncode == 0, done.stderr.decode()
    assert b"1 child process was started, and not watched" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.py"], "nowhere.py: cannot be read: No such file or directory"),
        (["-m", "nowhere"], "-m nowhere: there is no module of that name"),
        (["-m", "no.where"], "-m no.where: "),
        (["empty"], "empty: has no __main__.py"),
        (["--stepz", "3", "x.py"], "No such option '--stepz'"),
        (["--steps", "0", "x.py"], "0 is not in the range x>=1"),
        (["--output", "no/where.json", "ok.py"], "there is no folder no"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(shell: Shell, project: Path, words: list[str], said: str) -> None:
    write(project, {"ok.py": "", "empty/readme": ""})
    done = shell("-m", "gradguard", "run", *words)
    assert done.returncode == 2
    assert said in done.stderr.decode().replace("\n", " ")
    assert b"Traceback" not in done.stderr
