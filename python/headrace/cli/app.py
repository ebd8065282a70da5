"""The table of commands, and what an error looks like.

A command's module is imported when the command runs: `--help` and completion stay quick.

Exit codes: 0 fine, 1 findings (a goal missed, a study off), 2 usage or bad input, 3 could not run,
130 interrupted. A reader that leaves early (`| head`) changes none of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from headrace.base.extras import explain_missing
from headrace.cli import INTERRUPTED, INTERRUPTED_WORDS
from headrace.cli.sharing import (
    AskPasswordOption,
    DefaultsFileOption,
    LabOption,
    OutputOption,
    SharingCommand,
    SharingGroup,
    SocketOption,
    walk,
)
from headrace.errors import CouldNotRun, HeadraceError, InputError, refuse_text

if TYPE_CHECKING:
    from typer._click.core import Command, Context

HELP = "Plan and prove storage for MySQL on Amazon EBS: the volumes that a load needs, their cost, and when they will be too small."
EPILOG = """\b
Examples:
  headrace demo                                         plan, page and proof of an example
  headrace workload import iostat.txt --to mysql.toml   what your server demands of its disks
  headrace plan mysql.toml --goal 'p99_ms<=20' --report plan.html
  headrace simulate mysql.toml --storage gp2:500 --report day.html
  headrace lab up; headrace mysql up --storage gp3:20   a real server on a volume that performs like EBS

Storage is written TYPE:SIZE_GIB[:IOPS[:MIB_S]], an array in front of it: gp3:500:6000:250, 2xgp2:1700 (RAID 0),
raid10:4xgp3:500.

Exit codes: 0 fine, 1 findings (a goal missed), 2 usage or bad input, 3 could not run, 130 interrupted."""

# Name, where it is, and its line in the help. A module has its commands in `app`, or one function
# of the command's name with an EPILOG.
COMMANDS = {
    "demo": ("model.demo", "Plan an example database, write its page, prove the plan."),
    "workload": ("workloads.workload", "Make, import, capture and show what a database demands."),
    "plan": ("model.plan", "Find the cheapest storage that meets your goals."),
    "simulate": ("model.simulate", "Simulate a demand of I/Os on a storage."),
    "predict": ("model.predict", "Predict the transactions a second of a database."),
    "replay": ("model.replay", "Repeat what a volume recorded; compare every decision."),
    "calibrate": ("workloads.calibrate", "Fit a database model to measured runs."),
    "compare-run": ("workloads.compare_run", "Score a prediction against a measured run."),
    "catalog": ("catalog", "Show limits and prices by day, each with its source."),
    "lab": ("lab.lab", "Run block devices here that perform like EBS volumes."),
    "volume": ("lab.volume", "Create, copy, attach, modify and fail lab volumes."),
    "snapshot": ("lab.snapshot", "Take, copy, lock, schedule and delete snapshots."),
    "mysql": ("servers.mysql", "Run real servers on volumes of the lab: MariaDB and MySQL."),
    "backup": ("servers.backup", "Back up, stream, restore to any moment, and prove it."),
    "replica": ("servers.replica", "Make replicas; see their state and their lag."),
    "failover": ("servers.failover", "Let another server take over, without losing commits."),
    "watch": ("operate.watch", "Watch a server and its volumes on one screen."),
    "export": ("operate.export", "Export metrics: Prometheus, OpenTelemetry, Grafana."),
    "doctor": ("operate.doctor", "Find what limits a server now, and what to do about it."),
    "forecast": ("operate.forecast", "Say when credits run out, or a volume is full."),
    "fleet": ("operate.fleet", "Right-size many volumes; apply it safely."),
    "advise": ("servers.advise", "Advise settings of a server for its storage."),
    "bench": ("bench.bench", "Run standard benchmarks; keep, compare, export results."),
    "prove": ("model.prove", "Predict a plan, build it on the lab, measure it, compare."),
    "study": ("model.study", "Run published experiments again: their figures and ours."),
    "page": ("page", "Open a page with plans, databases, fleets and the lab."),
}


class LazyGroup(SharingGroup):
    """Lists the commands from the table, and imports the one that runs."""

    def __init__(self, **settings: Any) -> None:
        listed = {name: TyperCommand(name, help=help, callback=None) for name, (_, help) in COMMANDS.items()}
        settings["commands"] = listed
        super().__init__(**settings)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Imports the command and returns it in place of its entry in the table."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


@cache
def load(name: str) -> Command:
    """Imports the module of a command or group and returns its parser; cached."""
    module = import_module(f"headrace.cli.{COMMANDS[name][0]}")
    group = getattr(module, "app", None)
    if group is None:
        from headrace.cli.options import with_groups

        group = typer.Typer(rich_markup_mode=None, add_completion=False)
        group.command(name, epilog=module.EPILOG, cls=SharingCommand)(
            with_groups(getattr(module, name.replace("-", "_")))
        )
    return typer.main.get_command(group)


# Parts of pydantic's names for values that it refuses as numbers, and what was wanted.
NUMBER_SIGNS = {
    "int": "a whole number",
    "float": "a number",
    "than": "a number",
    "finite": "a number",
}
# A number as people write it, with the unit that the option's name has already: 116GB, 50 %.
WITH_UNIT = re.compile(r"-?[0-9][0-9.,]* ?[A-Za-z/%]+")


def _print_version(requested: bool) -> None:
    """Prints the version and the day of the catalog, and ends the command."""
    if requested:
        from headrace import __version__
        from headrace.base import core

        print(f"headrace {__version__}, catalog of {core.newest_date()}")
        raise typer.Exit()


top = typer.Typer(
    name="headrace",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=HELP,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@top.callback()
def top_options(
    data_dir: LabOption = None,
    socket: SocketOption = None,
    output: OutputOption = "table",
    defaults_file: DefaultsFileOption = None,
    ask_password: AskPasswordOption = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and the day of the catalog.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Takes the options that stand before a command; the command reads them."""


@cache
def _build_command() -> Command:
    """Returns the parser of the table of commands."""
    return typer.main.get_command(top)


def list_commands() -> Iterator[tuple[str, Command]]:
    """Yields every command and group with its full name, depth first, in the order of `--help`."""
    for name, command, _ in walk_commands():
        yield name, command


def walk_commands() -> Iterator[tuple[str, Command, tuple[Command, ...]]]:
    """Yields every command and group: full name, command, groups above it, the outermost first."""
    yield "headrace", _build_command(), ()
    for name in COMMANDS:
        yield from walk(load(name), f"headrace {name}", (_build_command(),))


def show_error(error: HeadraceError) -> None:
    """Prints an error on stderr: value and rule, then source and hint, on a line each."""
    from headrace.report.output import sanitize_text

    lines = [f"error: {error.value}: {error.rule}" if error.value else f"error: {error.rule}"]
    lines += [f"source: {error.source}"] if error.source else []
    lines += [f"hint: {error.hint}"] if error.hint else []
    print("\n".join(sanitize_text(line).replace("\n", " ") for line in lines), file=sys.stderr)


def _find_number_error(error: BaseException) -> tuple[str, str] | None:
    """Returns value and rule of a refusal of the parser where an option takes a number and got
    something else; else None."""
    option, list_errors = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    if option is None or list_errors is None:
        return None
    first = list_errors()[0]
    kind = next((word for sign, word in NUMBER_SIGNS.items() if sign in first["type"]), None)
    if kind is None:
        return None
    least, most = getattr(option, "min", None), getattr(option, "max", None)
    if getattr(getattr(option, "type_descriptor", None), "annotation", None) is int:
        kind = "a whole number"
    if least is not None and most is not None:
        kind += f" from {least:,} to {most:,}"
    elif least is not None:
        kind += f" of at least {least:,}"
    elif most is not None:
        kind += f" of at most {most:,}"
    name = option.opts[-1] if option.opts[-1].startswith("-") else option.opts[0].upper()
    text = str(first["input"])[:60]
    kind += ", without a unit" if WITH_UNIT.fullmatch(text) else ""
    return f"{name} {text}", f"must be {kind}"


def make_usage_error(error: BaseException, message: str) -> InputError:
    """Returns a refusal of the argument parser as InputError. `message`: the parser's words."""
    context = getattr(error, "ctx", None)
    where = f"{context.command_path} --help" if context is not None else "headrace --help"
    if (number := _find_number_error(error)) is not None:
        return InputError(*number, where, f"See `{where}`.")
    message = message.strip().rstrip(".").replace(": Value error, ", ": ")
    hint = ""
    before, separator, near = message.partition(" Did you mean ")
    if not separator:
        before, separator, near = message.partition(" (Possible options: ")
    if separator:
        message, hint = before.rstrip(". "), f"Did you mean {near.strip('?).')}? "
    unknown = re.fullmatch("No such command '(.*)'", message)
    if unknown and (
        elsewhere := [name for name, _ in list_commands() if name.split()[-1] == unknown[1] and name.count(" ") > 1]
    ):
        hint = f"Did you mean {' or '.join(f'`{name}`' for name in elsewhere[:3])}? "
    return InputError("", message[:1].lower() + message[1:], where, f"{hint}See `{where}`.")


def get_exit_code(code: object) -> int:
    """Returns an exit code, 0 for None; of 130, into which typer turns Ctrl-C, it prints that the
    command was interrupted."""
    if code == INTERRUPTED:
        print(INTERRUPTED_WORDS, file=sys.stderr)
    return code if isinstance(code, int) else 0


def run_command(arguments: list[str]) -> int:
    """Runs a command line, flushes its output, and returns its exit code.

    A reader that has ended (`| head`) is not an error: the rest of the output is dropped, and the
    code is that of the command, or 0 where it could not come to its end.
    """
    code = None
    try:
        code = _run_command(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return 0 if code is None else code
    except OSError as error:
        _drop_output()
        with contextlib.suppress(OSError):
            show_error(_make_system_error(error))
        return CouldNotRun.default_exit_code


def _make_system_error(error: OSError) -> CouldNotRun:
    """Returns an error of the operating system as CouldNotRun: about the file that it names, else
    about the output (a full disk)."""
    from headrace.base.files import get_hint, get_reason, shorten_name

    if error.filename is None:
        hint = get_hint(error, "Free some space or send it elsewhere.")
        return CouldNotRun("output", f"cannot be written: {get_reason(error)}", "operating system", hint)
    hint = get_hint(error, "Check the name, the folder and the permissions.")
    return CouldNotRun(shorten_name(error.filename), f"cannot be used: {get_reason(error)}", "operating system", hint)


def _drop_output() -> None:
    """Drops the rest of the output: Python must not complain when it flushes at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _run_command(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code; every error becomes a sentence on stderr,
    except errors of the operating system and a reader that has gone, which it raises."""
    try:
        return get_exit_code(_build_command().main(args=arguments, prog_name="headrace", standalone_mode=False))
    except typer.Exit as finished:
        return get_exit_code(finished.exit_code)
    except HeadraceError as error:
        show_error(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return get_exit_code(INTERRUPTED)
    except SystemExit as stopped:
        # typer and rich end the process with 1 when the reader has gone; that is not a finding.
        if isinstance(stopped.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        return get_exit_code(stopped.code)
    except OSError:
        raise
    except RecursionError:
        show_error(InputError("the input", "is nested too deeply to be read", "", "Is it the file you meant?"))
        return InputError.default_exit_code
    except UnicodeEncodeError as error:
        show_error(refuse_text(error))
        return InputError.default_exit_code
    except MemoryError:
        hint = "Raise the limit (ulimit -v), or ask for less."
        show_error(CouldNotRun("memory", "does not suffice on this machine", "operating system", hint))
        return CouldNotRun.default_exit_code
    except BaseException as error:  # a panic of the core is no Exception
        # The refusals of the argument parser, and they alone, can say themselves in words.
        if callable(format_message := getattr(error, "format_message", None)):
            return _report_usage_error(error, str(format_message()))
        if os.environ.get("HEADRACE_DEBUG"):
            raise
        if isinstance(error, ImportError) and (missing := explain_missing(error)) is not None:
            show_error(missing)
            return missing.exit_code
        text = " ".join(str(error).split())[:200]
        sentence = f"error: this is a bug in headrace: {type(error).__name__}: {text}"
        print(f"{sentence}; run again with HEADRACE_DEBUG=1 for the traceback", file=sys.stderr)
        return CouldNotRun.default_exit_code


def _report_usage_error(error: BaseException, message: str) -> int:
    """Prints why a command line cannot be read (the help where nothing was given), and returns the
    exit code."""
    if message.startswith("Usage: "):
        print(message, file=sys.stderr)
    else:
        show_error(make_usage_error(error, message))
    return InputError.default_exit_code
