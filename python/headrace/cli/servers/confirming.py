"""Questions before servers are stopped, replaced or deleted, and what an interrupted change
leaves."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

import typer

from headrace.cli import INTERRUPTED
from headrace.cli.output import say
from headrace.errors import CouldNotRun, InputError


def confirm(yes: bool, question: str, name: str = "this command", what: str = "changes servers") -> None:
    """Asks on the terminal, unless `yes`. Raises InputError where nobody can be asked, typer.Abort
    at a no."""
    if not yes and not sys.stdin.isatty():
        raise InputError(name, f"{what}, and nobody can be asked", "", "Add --yes.")
    if not yes:
        typer.confirm(question, abort=True, err=True)


def confirm_end(yes: bool, name: str, verb: str, reasons: Sequence[str]) -> None:
    """Asks before a server is ended that others need; says why in any case. `verb`: Shut down,
    Delete. Nothing where there are no reasons."""
    for reason in reasons:
        say(f"{name}: {reason}")
    if reasons:
        confirm(yes, f"{verb} {name} all the same?", name, "is needed by others")


@contextlib.contextmanager
def ending(name: str) -> Iterator[None]:
    """Says what an interrupt leaves while a server is shut down: it goes on with that by itself."""
    try:
        yield
    except KeyboardInterrupt:
        words = f"{name} goes on shutting down. headrace mysql down {name} waits for its end and unmounts its volumes."
        raise CouldNotRun("", f"Interrupted. {words}", exit_code=INTERRUPTED) from None
