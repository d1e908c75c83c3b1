"""``gradguard run``: watch a training script."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from gradguard import ending
from gradguard.cli._runs import FORMATS, render
from gradguard.findings import Leak, RunReport
from gradguard.runtime import launch
from gradguard.runtime.recording import Recording
from gradguard.runtime.watch import Watch

if TYPE_CHECKING:
    from gradguard.report.live import LiveView


@click.command("run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("-m", "as_module", is_flag=True, help="Run a module, as python -m does.")
@click.option("--steps", "max_steps", type=click.IntRange(min=1), metavar="N", help="End the program after N steps.")
@click.option("--stop-on-leak", is_flag=True, help="End the program when a leak is confirmed.")
@click.option("--fail-on-leak", is_flag=True, help="Exit with 1 when the program succeeded and a leak is confirmed.")
@click.option("--live", is_flag=True, help="Show a live view (it shares the terminal with the program's own output).")
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), help="Record the run in this file.")
@click.option("--no-record", is_flag=True, help="Record nothing (default: .gradguard/runs/<time>-<pid>.jsonl).")
@click.option("--format", "style", type=click.Choice(FORMATS), default="console", help="How to report.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
@click.argument("program", metavar="SCRIPT | -m MODULE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    as_module: bool,
    max_steps: int | None,
    stop_on_leak: bool,
    fail_on_leak: bool,
    live: bool,
    record: Path | None,
    no_record: bool,
    style: str,
    output: Path | None,
    color: str,
    program: str,
    arguments: tuple[str, ...],
) -> NoReturn:
    """Watch a training script, unchanged, and say which variable holds the memory that keeps growing.

    Options before SCRIPT are GradGuard's, all after it are the script's. The report goes to stderr or to --output; the
    exit status is the script's.
    """
    try:
        prepared = launch.module(program) if as_module else launch.script(program)
    except launch.LaunchError as error:
        raise click.UsageError(str(error)) from error
    except SyntaxError as error:  # as python itself says it
        sys.excepthook(SyntaxError, error.with_traceback(None), None)
        sys.exit(1)
    _check_output(output)
    words = (("-m",) if as_module else ()) + (program, *arguments)
    recording = None if no_record else _recording(record, words)
    session = _Session(None if as_module else program, style, output, color, fail_on_leak, recording)
    session.watch = Watch(
        on_confirm=session.confirmed,
        on_found=lambda leaks: ending.write_found(recording, leaks),
        max_steps=max_steps,
        stop_on_leak=stop_on_leak,
        command=words,
        recording=recording,
    )
    if live:
        from gradguard.report.live import LiveView
        from gradguard.report.terminal import console

        terminal = console(color, sys.stderr)
        if terminal.is_terminal:
            session.live = LiveView(session.watch, terminal)
    session.run(prepared, arguments)


def _check_output(output: Path | None) -> None:
    """A run may last for days: find out before it whether its report can be written."""
    if output is not None and not output.parent.is_dir():
        raise click.UsageError(f"--output: there is no folder {output.parent}")


def _recording(path: Path | None, words: tuple[str, ...]) -> Recording | None:
    """Where the run is recorded; where that was not asked for and cannot be, it is not."""
    from gradguard.record import begin

    try:
        return begin(path, words)
    except FileExistsError as error:
        exists = path is not None and path.exists()
        problem = "exists; a recording is not written over" if exists else "cannot be written: a folder of it is a file"
        raise click.UsageError(f"--record: {path} {problem}") from error
    except OSError as error:
        if path is not None:
            raise click.UsageError(f"--record: cannot write {path}: {error.strerror}") from error
        click.echo(f"gradguard: the run is not recorded: {error}", err=True)
        return None


class _Session:
    """One run: the program, the signals that may end it, and the report."""

    watch: Watch
    live: LiveView | None = None

    def __init__(
        self,
        name: str | None,
        style: str,
        output: Path | None,
        color: str,
        fail_on_leak: bool,
        recording: Recording | None,
    ) -> None:
        self._name = name
        self._recording = recording
        self._process = os.getpid()
        self._style = style
        self._output = output.absolute() if output is not None else None  # the program may change the directory
        self._color = color
        self._fail_on_leak = fail_on_leak
        self._reported = False

    def run(self, program: launch.Program, arguments: tuple[str, ...]) -> NoReturn:
        """Run it, report, and end the process as it would have ended by itself."""
        self._catch_termination()
        error: BaseException | None = None
        self.watch.__enter__()
        if self.live is not None:
            self.live.start()
        try:
            launch.run(program, self._name, arguments)
        except BaseException as raised:
            error = raised
        self.watch.make_room()
        status = _status_of(error)
        if isinstance(error, SystemExit) and error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        if error is not None and status is None and not isinstance(error, KeyboardInterrupt):
            self._stop_live()
            _show(error)
        report = self.finish(error, 1 if error is not None and status is None else status or 0)
        if isinstance(error, KeyboardInterrupt):
            _show(error)
            _die_of(signal.SIGINT)
        failed = status if status is not None else 1
        if failed == 0 and self._fail_on_leak and report.verdict == "leak":
            failed = 1
        sys.exit(failed)

    def finish(self, error: BaseException | None, status: int | None) -> RunReport:
        """End the watch and write the report; once."""
        self._stop_live()
        report = self.watch.end(error, status)
        if not self._reported and os.getpid() == self._process:  # a forked child comes out here too
            self._reported = True
            report = ending.written_down(self._recording, ending.explained(report, reads_source=True))
            try:
                self._write(report)
            except Exception as fault:
                ending.say_plainly(report, fault, sys.stderr)
        return report

    def confirmed(self, leak: Leak) -> None:
        """Say it at once: the run may last for days."""
        ending.write_down(self._recording, leak)
        with suppress(Exception):  # the report says it again
            from gradguard.report.run_line import confirmed

            if self._style == "json" and self._output is None:
                return  # what reads the report from there reads nothing else
            if self.live is None:
                click.echo(confirmed(leak), err=True)
            else:
                self.live.say(confirmed(leak))

    def _stop_live(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _write(self, report: RunReport) -> None:
        if self._output is None:
            render(report, self._style, sys.stderr or sys.__stderr__ or io.StringIO(), self._color)
            return
        try:
            with self._output.open("w", encoding="utf-8") as file:
                render(report, self._style, file, "never")
        except OSError as error:
            click.echo(f"error: --output: cannot write {self._output}: {error.strerror}", err=True)
            render(report, self._style, sys.stderr, self._color)

    def _catch_termination(self) -> None:
        """SIGTERM is how a scheduler ends a job: report first, then end by it, unless the program handles it itself."""
        if not hasattr(signal, "SIGTERM") or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def terminated(number: int, frame: FrameType | None) -> None:
            if os.getpid() == self._process:  # a forked child has inherited this
                self.finish(KeyboardInterrupt(), None)  # it was ended from outside
            _die_of(number)

        signal.signal(signal.SIGTERM, terminated)


def _status_of(error: BaseException | None) -> int | None:
    """The exit status, or None for an error that Python would show."""
    from gradguard.runtime.watch import EndOfRun

    if error is None or isinstance(error, EndOfRun):
        return 0
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        return error.code if isinstance(error.code, int) else 1
    return None


def _show(error: BaseException) -> None:
    """The traceback as plain Python prints it, without our frames."""
    error.__traceback__ = launch.own_part(error.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def _die_of(number: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
