"""`headrace`: the commands put together, and what an error looks like.

Exit codes: 0 fine, 1 findings (a goal missed, a study off), 2 usage or bad input, 3 could not run, 130 interrupted. A reader that leaves early
(`| head`) changes none of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Annotated

import typer

from headrace.cli import advise, bench, catalog, demo, lab, mysql, plan, prove, simulate, study, transactions, volume, workload
from headrace.cli.main import INTERRUPTED, INTERRUPTED_WORDS
from headrace.errors import CouldNotRun, HeadraceError, InputError

# typer shows one class of its usage errors; the others stand above it.
UsageError = typer.BadParameter.__base__
ClickError = UsageError.__base__

EPILOG = """\b
Examples:
  headrace demo                                         all of it, on a recorded day
  headrace workload import iostat.txt --to mysql.toml   what your server asks of its disks
  headrace plan mysql.toml --goal 'p99_ms<=20' --report plan.html
  headrace simulate mysql.toml --storage gp2:500 --plot day.html
  headrace lab up; headrace mysql up --storage gp3:20   a real server on a volume that performs like EBS

Storage is written TYPE:SIZE_GIB[:IOPS[:MIB_S]], an array in front of it: gp3:500:6000:250, 2xgp2:1700 (RAID 0), raid10:4xgp3:500.

Exit codes: 0 fine, 1 findings (a goal missed), 2 usage or bad input, 3 could not run, 130 interrupted."""

app = typer.Typer(
    name="headrace", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Plan and prove storage for MySQL on Amazon EBS: what a load needs, what it costs, and when it stops.",
)  # fmt: skip
app.command("demo", epilog=demo.EPILOG, short_help="All of it on a recorded day: demand, plan, report.")(demo.demo)
app.add_typer(workload.app, name="workload", short_help="What a database asks of its storage: make, import, show.")
app.command("plan", epilog=plan.EPILOG, short_help="The cheapest storage that meets your goals, and why the others lost.")(plan.plan)
app.command("simulate", epilog=simulate.EPILOG, short_help="Run a load on a storage: what is delivered, what waits.")(simulate.simulate)
app.command("calibrate", epilog=transactions.CALIBRATE_EPILOG, short_help="Identify a database from measured runs.")(transactions.calibrate)
app.command("compare-run", epilog=transactions.COMPARE_EPILOG, short_help="Score a prediction against a measured run.")(
    transactions.compare_run
)
app.add_typer(catalog.app, name="catalog", short_help="Limits and prices by day, each with its source.")
app.add_typer(lab.app, name="lab", short_help="Block devices of this machine that perform like EBS volumes.")
app.add_typer(volume.app, name="volume", short_help="Volumes of the lab: create, attach, modify, watch, fail.")
app.add_typer(mysql.app, name="mysql", short_help="Real servers on volumes of the lab: MariaDB and MySQL.")
app.command("advise", epilog=advise.EPILOG, short_help="Settings of a MySQL or MariaDB server for its storage, with reasons and risks.")(
    advise.advise
)
app.add_typer(bench.app, name="bench", short_help="Standard benchmarks, measured and kept: run, compare, export.")
app.command("prove", epilog=prove.EPILOG, short_help="Predict, build it on the lab, measure, compare.")(prove.prove)
app.add_typer(study.app, name="study", short_help="Published experiments run again: their figures and ours.")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from headrace.base import core

        print(f"headrace {version('headrace')}, catalog of {core.newest_date()}")
        raise typer.Exit()


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and the day of the catalog.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Plan and prove storage for MySQL on Amazon EBS: what a load needs, what it costs, and when it stops."""


def commands() -> Iterator[tuple[str, object]]:
    """Every command and group with its full name, depth first, in the order of `--help`."""
    yield from _walk(_command(), "headrace")


@cache
def _command():
    """The parser of all commands: a tenth of a second to make."""
    return typer.main.get_command(app)


def _walk(command, name: str) -> Iterator[tuple[str, object]]:
    yield name, command
    for below, child in getattr(command, "commands", {}).items():
        yield from _walk(child, f"{name} {below}")


def show_error(error: HeadraceError) -> None:
    """Value and rule, then source and hint, each on a line of stderr."""
    from headrace.report.output import plain

    lines = [f"error: {error.value}: {error.rule}" if error.value else f"error: {error.rule}"]
    lines += [f"source: {error.source}"] if error.source else []
    lines += [f"hint: {error.hint}"] if error.hint else []
    print("\n".join(plain(line).replace("\n", " ") for line in lines), file=sys.stderr)


def usage_error(error: Exception) -> InputError:
    """A refusal of the argument parser, laid out like all others."""
    message = error.format_message().strip().rstrip(".")
    hint = ""
    context = getattr(error, "ctx", None)
    before, found, near = message.partition(" Did you mean ")
    if not found:
        before, found, near = message.partition(" (Possible options: ")
    if found:
        message, hint = before.rstrip(". "), f"Did you mean {near.strip('?).')}? "
    unknown = re.fullmatch("No such command '(.*)'", message)
    if unknown and (elsewhere := [name for name, _ in commands() if name.split()[-1] == unknown[1] and name.count(" ") > 1]):
        hint = f"Did you mean {' or '.join(f'`{name}`' for name in elsewhere[:3])}? "
    where = f"{context.command_path} --help" if context is not None else "headrace --help"
    return InputError("", message[:1].lower() + message[1:], where, f"{hint}See `{where}`.")


def code_of(code: object) -> int:
    """An exit code as it is, None as 0; typer itself turns Ctrl-C into 130, so that is explained here."""
    if code == INTERRUPTED:
        print(INTERRUPTED_WORDS, file=sys.stderr)
    return code if isinstance(code, int) else 0


def answer(arguments: list[str]) -> int:
    """Runs one command, sees to it that all it said has been written, and returns its exit code.

    A reader that has left (`| head`) is no error: what it did not want to read is dropped, and the code is that of the command, or 0 where it could
    not come to its end.
    """
    code = None
    try:
        code = _answer(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return 0 if code is None else code
    except OSError as error:
        _drop_output()
        with contextlib.suppress(OSError):
            show_error(_of_system(error))
        return CouldNotRun.default_exit_code


def _of_system(error: OSError) -> CouldNotRun:
    """What the operating system refused: a file it names, else the output (a full disk, say)."""
    from headrace.base.files import hint_of, reason_of, short_name

    if error.filename is None:
        hint = hint_of(error, "Free some space or send it elsewhere.")
        return CouldNotRun("output", f"cannot be written: {reason_of(error)}", "operating system", hint)
    hint = hint_of(error, "Check the name, the folder and the permissions.")
    return CouldNotRun(short_name(error.filename), f"cannot be used: {reason_of(error)}", "operating system", hint)


def _drop_output() -> None:
    """What is still to be written goes nowhere: Python must not complain when it flushes at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _answer(arguments: list[str]) -> int:
    try:
        return code_of(_command().main(args=arguments, prog_name="headrace", standalone_mode=False))
    except typer.Exit as finished:
        return code_of(finished.exit_code)
    except HeadraceError as error:
        show_error(error)
        return error.exit_code
    except ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return 2
        show_error(usage_error(error))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return code_of(INTERRUPTED)
    except SystemExit as left:
        # typer and rich end the process with 1 when the reader has gone; that is no finding.
        if isinstance(left.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        return code_of(left.code)
    except OSError:
        raise
    except RecursionError:
        show_error(InputError("the input", "is nested too deeply to be read", "", "Is it the file you meant?"))
        return 2
    except MemoryError:
        show_error(
            CouldNotRun("memory", "does not suffice on this machine", "operating system", "Raise the limit (ulimit -v), or ask for less.")
        )
        return CouldNotRun.default_exit_code
    except BaseException as error:  # a panic of the core is no Exception
        if os.environ.get("HEADRACE_DEBUG"):
            raise
        text = " ".join(str(error).split())[:200]
        print(
            f"error: this is a bug in headrace: {type(error).__name__}: {text}; run again with HEADRACE_DEBUG=1 for the traceback",
            file=sys.stderr,
        )
        return CouldNotRun.default_exit_code
