"""Questions before a server that others need is ended, and what an interrupted change leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from headrace.cli import INTERRUPTED
from headrace.cli.output import confirm, say
from headrace.errors import CouldNotRun


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
