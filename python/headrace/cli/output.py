"""Output of a command: data on stdout, everything else on stderr, questions too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from headrace.base.lazy import defer_imports
from headrace.errors import InputError
from headrace.report.output import as_csv, as_json, sanitize_text

with defer_imports():
    import csv
    import shutil

    from headrace.report import html, tables

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    import polars as pl
    from rich.progress import Progress, TaskID

    from headrace.report.live import WhatIf
    from headrace.report.tables import TableLayout
    from headrace.report.view import Table, View

# Work shorter than this shows no progress bar, s: a guess.
PROGRESS_AFTER_S = 2.0


def print_data(text: str) -> None:
    """Prints data on stdout as it is."""
    sys.stdout.write(text)


def say(text: str) -> None:
    """Prints a line on stderr, without control characters."""
    print(sanitize_text(text), file=sys.stderr)


def note(text: str) -> None:
    """Prints sentences on stderr, on a terminal broken between words at its width."""
    width = shutil.get_terminal_size().columns
    for line in tables.wrap_text(text, width) if sys.stderr.isatty() else [text]:
        say(line)


def say_each(kind: str, lines: Iterable[object]) -> None:
    """Prints each line on stderr behind its kind: `note`, `problem` or `warning`, which a name may
    follow: `problem: db`."""
    for line in lines:
        say(f"{kind}: {line}")


def exit_if(finding: object) -> None:
    """Ends the command with exit code 1 where there is a finding."""
    if finding:
        raise typer.Exit(1)


def confirm(
    yes: bool,
    question: str,
    name: str = "this command",
    what: str = "changes servers",
    hint: str = "Add --yes.",
) -> None:
    """Asks on the terminal, unless `yes`; a no ends the command with exit code 1. Raises InputError
    (value `name`, rule `what`) where there is no terminal."""
    if not yes and not sys.stdin.isatty():
        raise InputError(name, f"{what}, and nobody can be asked", "", hint)
    if not yes and not typer.confirm(question, err=True):
        say("nothing was changed")
        raise typer.Exit(1)


def print_json(value: object) -> None:
    """Prints one JSON document."""
    print_data(as_json(value))


def print_csv(rows: Sequence[dict], columns: Sequence[str]) -> None:
    """Prints these columns of the rows with a header; None is an empty cell."""
    writer = csv.DictWriter(sys.stdout, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def print_frame(frame: pl.DataFrame, output: str) -> None:
    """Prints every row of a frame as JSON or CSV."""
    if output == "json":
        print_json(frame.to_dicts())
    else:
        print_data(as_csv(frame))


def print_answer(
    answer: object, output: str, rows: Sequence[dict], columns: Sequence[str], parts: Callable[[], Sequence[object]]
) -> None:
    """Prints the answer as JSON, its `rows` as CSV, or what `parts()` gives for a person."""
    if output == "json":
        print_json(answer)
    elif output == "csv":
        print_csv(rows, columns)
    else:
        show(*parts())


def print_rows(rows: Sequence[dict], output: str, columns: Sequence[str], *notes: str) -> None:
    """Prints an answer of rows whose cells are `columns`; for a person with lines of text below."""
    cells = [[row[name] for name in columns] for row in rows]
    print_answer(rows, output, rows, columns, lambda: (make_table(columns, cells), *notes))


def print_facts(answer: Mapping[str, object], output: str, head: str, leave_out: Sequence[str] = ()) -> None:
    """Prints an answer of names and values; for a person without the names in `leave_out`."""
    facts = [pair for pair in answer.items() if pair[0] not in leave_out]
    print_answer(answer, output, [dict(answer)], tuple(answer), lambda: (make_table((head, ""), facts),))


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]], **layout: Unpack[TableLayout]) -> Table:
    """Returns a table for `show`; see `headrace.report.tables`."""
    return tables.make_table(columns, rows, **layout)


def show(*parts: object) -> None:
    """Prints views, tables and lines of text on stdout, in order."""
    tables.show(*parts)


def write_report(path: Path | None, view: Callable[[], View], live: WhatIf | None = None) -> None:
    """Writes the view of a result to the file that `--report` names, and says so on stderr; without
    a name no view is made. `live`: what the page can be asked again. Raises InputError,
    CouldNotRun."""
    if path is not None:
        html.write_view(path, view(), live)
        say(f"report written to {path}")


def format_pairs(rows: Sequence[tuple[str, object]]) -> str:
    """Returns names and values below each other; those without a value are left out."""
    pairs = [(name, " ".join(str(value).split())) for name, value in rows if value not in (None, "")]
    width = max((len(name) for name, _ in pairs), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs)


class Ticker:
    """A progress bar on stderr that appears once the work has taken two seconds; it does nothing
    where stderr is not a terminal."""

    def __init__(self, what: str) -> None:
        self.what, self.began = what, time.monotonic()
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.on_terminal = sys.stderr.isatty()

    def __call__(self, done: float, *rest: object) -> None:
        """Sets the bar. `done`: share of the work, 0..1."""
        if not self.on_terminal or (self.bar is None and time.monotonic() - self.began < PROGRESS_AFTER_S):
            return
        if self.bar is None:
            self.start()
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=max(0.0, min(1.0, float(done))))

    def describe(self, what: str) -> None:
        """Says next to the bar what is being done."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=what)

    def say(self, text: str) -> None:
        """Prints a line above the bar, on stderr where there is none."""
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            say(text)

    def start(self) -> None:
        """Shows the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.what, total=1.0)
        self.bar.start()

    def stop(self) -> None:
        """Takes the bar away."""
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def show_progress(what: str) -> Iterator[Ticker]:
    """Shows a progress bar during a block: `with show_progress("planning") as tick:
    work(progress=tick)`."""
    ticker = Ticker(what)
    try:
        yield ticker
    finally:
        ticker.stop()
