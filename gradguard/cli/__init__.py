"""The command line. Each command is a module of this package, imported when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from gradguard import __version__
from gradguard.catalogue import RulePackError
from gradguard.config import ConfigError

COMMANDS = ("check", "fix", "run", "report", "compare", "demo", "explain", "rules")


class _Commands(click.Group):
    """Loads a command's module only when somebody asks for that command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"gradguard.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and os.path.exists(name):
            raise click.UsageError(f"`{name}` is no command; did you mean `gradguard check {name}`?", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gradguard")
def cli() -> None:
    """Find the memory that a PyTorch training loop forgets to give back."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; whatever a user can cause ends in one line, not in a traceback."""
    _prepare_streams()
    watched = sys.getprofile() is not None or sys.gettrace() is not None
    if args is None and sys.argv[1:2] == ["check"] and not watched:
        _read_and_leave()
    sys.exit(_status(args))


def _read_and_leave() -> NoReturn:
    """Check, and end the process without taking down what was read: of a large tree that is a fifth of the work."""
    gc.disable()
    status = _status(None)
    sys.stderr.flush()
    os._exit(status)


def _status(args: Sequence[str] | None) -> int:
    try:
        status = cli.main(args, prog_name="gradguard", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (ConfigError, RulePackError) as error:
        return _failed(str(error))
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:  # `gradguard check | head`: whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _failed(str(error))
    return status if isinstance(status, int) else 0


def _failed(message: str) -> int:
    click.echo(f"error: {message}", err=True)
    return 2


def _prepare_streams() -> None:
    """Make every text printable: on an ASCII terminal as question marks, on a closed stdout not at all."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
