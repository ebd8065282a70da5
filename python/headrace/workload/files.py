"""Workload files: TOML, versioned, described in docs/reference/workload-file.md.

An open workload is kept either as the answers it was made from (`[daily]`, `[constant]`: short, to
be edited by hand) or as its points (`[points]`, inline or in a CSV next to it whose sha256 is
checked). A workload that is loaded has passed every limit.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import polars as pl

from headrace.base import documents
from headrace.base.checks import check_choice, quote_value
from headrace.base.documents import (
    DocumentKind,
    DocumentTable,
    annotate_rule,
    convert,
    parse_toml,
    refuse_unknown_keys,
    require_keys,
)
from headrace.base.encoding import pick_fields
from headrace.base.files import make_path, read_bytes, write_whole
from headrace.errors import HeadraceError, InputError, Refusals
from headrace.workload import transaction_files
from headrace.workload.daily import from_answers, from_constant_answers, new_constant, new_daily
from headrace.workload.model import ClosedWorkload, OpenWorkload, Workload
from headrace.workload.points import LOCAL_ZONE, MAX_POINTS, OBSERVED_COLUMNS, POINT_COLUMNS, make_points
from headrace.workload.transactions import TransactionWorkload

FORMAT = "headrace-workload"
VERSION = 1  # of the format; no other has been written yet
HEAD = ("format", "version", "model")
refuse = Refusals("docs/reference/workload-file.md")

MAX_TOML_BYTES = 32 * 1024 * 1024  # 20,000 points of 12 columns take 3 MB
MAX_POINTS_FILE_BYTES = 512 * 1024 * 1024  # MAX_POINTS rows of 12 columns
# Above this many points an inline file is slow to read (tomllib does about 1 MB/s), so they go into
# a CSV next to it.
MAX_INLINE_POINTS = 20_000

SHARED_WITH_ANSWERS = ("size_gib", "sequential_read_share", "sequential_write_share", "arrivals", "growth_per_year")
KIND = DocumentKind(
    "a workload file",
    FORMAT,
    VERSION,
    refuse.source,
    begin="`headrace workload new` writes such a file.",
    other="A recording is read with `headrace workload import`.",
    again="Correct the line named, or make the file again with `headrace workload new`.",
)


class _Head(DocumentTable):
    """Keys of every workload file of I/Os. Values of type `object` are checked by the workload."""

    format: str
    version: int
    model: str
    name: object
    size_gib: object = None
    caveats: Annotated[list[str], annotate_rule("must be a list of sentences")] = []


class ClosedFile(_Head, kw_only=True):
    rw: object
    bs_kib: object
    iodepth: object
    numjobs: object
    rwmixread: object = 50


class OpenFile(_Head, kw_only=True):
    kind: object
    sequential_read_share: object = 0.0
    sequential_write_share: object = 0.0
    arrivals: object = "poisson"
    growth_per_year: object = 0.0
    clock_zone: object = LOCAL_ZONE
    source: dict = {}
    points: dict | None = None
    points_file: object = None
    points_sha256: object = None
    daily: dict | None = None
    constant: dict | None = None


# A column of points; a single number is the value of all of them.
_Column = float | list[float]


class PointsTable(DocumentTable):
    reads_per_s: _Column
    writes_per_s: _Column
    read_kib: _Column
    write_kib: _Column
    interval_s: (
        Annotated[float, annotate_rule("must be one number", "An array of lengths is called duration_s.")] | None
    ) = None
    t_s: _Column | None = None
    duration_s: _Column | None = None
    read_await_ms: _Column | None = None
    write_await_ms: _Column | None = None
    await_ms: _Column | None = None
    queue: _Column | None = None
    util_percent: _Column | None = None
    balance_percent: _Column | None = None


def load(path: str | os.PathLike) -> Workload | TransactionWorkload:
    """Reads the workload in a TOML file. Raises InputError (bad content, exit code 2) or
    CouldNotRun (cannot be read, 3)."""
    path = make_path(path)
    return parse(path.name, read_bytes(path, MAX_TOML_BYTES), path.parent)


def parse(name: str, content: bytes, folder: Path | None = None) -> Workload | TransactionWorkload:
    """Reads the workload in the content of a TOML file, which `name` stands for in errors. Points
    in another file are read below `folder`, and refused if it is None. Raises InputError, and
    CouldNotRun if the points cannot be read."""
    try:
        document = parse_toml(name, content, KIND)
        require_keys(document, ("model",), refuse.source)
        model = check_choice("model", document["model"], ("open", "closed", "mysql"))
        if model == "mysql":
            return transaction_files.from_document(document)
        return _read_closed(document) if model == "closed" else _read_open(document, folder)
    except HeadraceError as error:
        # Every rule below names its key; the user also needs to know which file.
        value = error.value if error.value.startswith(name) else f"{name}: {error.value}"
        raise error.amend(value=value) from None


def load_demand(path: str | os.PathLike) -> OpenWorkload:
    """Reads an open workload, demand in I/Os over time, from a TOML file, for `headrace.plan` and
    `headrace.simulate`. Raises InputError for another kind of workload, and as `load`."""
    workload = load(path)
    if not isinstance(workload, OpenWorkload):
        kind = "a database in transactions" if isinstance(workload, TransactionWorkload) else "a closed load"
        hint = (
            "headrace.load_database reads it."
            if isinstance(workload, TransactionWorkload)
            else "headrace.load reads it."
        )
        raise refuse.input(str(make_path(path)), f"is {kind}, not demand in I/Os over time", hint)
    return workload


def load_database(path: str | os.PathLike) -> TransactionWorkload:
    """Reads the database in transactions in a TOML file, as `headrace calibrate` writes it. Raises
    InputError for demand in I/Os, and as `load`."""
    workload = load(path)
    if not isinstance(workload, TransactionWorkload):
        rule = "is demand in I/Os, not a database in transactions"
        raise refuse.input(str(make_path(path)), rule, "`headrace calibrate` makes one from a measured run.")
    return workload


def save(workload: Workload | TransactionWorkload, path: str | os.PathLike) -> None:
    """Writes a workload file, whole or not at all. Raises CouldNotRun when it cannot be written.

    More than 20,000 points go into `NAME.HASH.csv` next to it, written first.
    """
    path = make_path(path)
    if isinstance(workload, TransactionWorkload):
        text = transaction_files.write_workload(workload, {"format": FORMAT, "version": VERSION, "model": "mysql"})
    elif isinstance(workload, ClosedWorkload):
        text = documents.to_toml(_build_closed_document(workload))
    elif isinstance(workload, OpenWorkload):
        text = _write_open(workload, path)
    else:
        hint = "Load or make one: headrace.load."
        raise InputError(type(workload).__name__, "is not a workload", "docs/reference/python.md", hint)
    write_whole(path, text.encode())


# --- reading --------------------------------------------------------------------------------------


def _read_closed(document: dict) -> ClosedWorkload:
    """Returns a closed workload. Raises InputError for unknown keys and values out of range."""
    read = convert(document, ClosedFile, source=refuse.source, where="a closed workload")
    fields = {name: getattr(read, name) for name in read.__struct_fields__ if name not in HEAD}
    fields["caveats"] = tuple(read.caveats)
    return ClosedWorkload(**fields)


def _read_open(document: dict, folder: Path | None) -> OpenWorkload:
    """Returns an open workload, its points from one of four sources. Raises InputError if it names
    none, or several."""
    read = convert(document, OpenFile, source=refuse.source, where="an open workload")
    sources = [source for source in ("points", "points_file", "daily", "constant") if source in document]
    if len(sources) != 1:
        rule = "exactly one of [points], points_file, [daily], [constant] is needed"
        raise refuse.input(" and ".join(sources) or "no points", rule)
    if sources[0] in ("daily", "constant"):
        return _build_from_section(
            read, sources[0], {key: document[key] for key in SHARED_WITH_ANSWERS if key in document}
        )
    points = (
        _read_inline_points(read.points)
        if read.points is not None
        else _read_points_file(read.points_file, read.points_sha256, folder)
    )
    names = ("name", "kind", *SHARED_WITH_ANSWERS, "clock_zone", "source")
    return OpenWorkload(points=points, caveats=tuple(read.caveats), **{name: getattr(read, name) for name in names})


def _build_from_section(read: OpenFile, kind: str, shared: dict) -> OpenWorkload:
    """Builds a workload from the answers in its section [daily] or [constant]. Raises InputError if
    `kind` is another."""
    recipe = getattr(read, kind)
    if read.kind != kind:
        raise refuse.input(f"kind = {quote_value(read.kind)}", f"must be {kind!r}, as in [{kind}]")
    parameters = inspect.signature(new_daily if kind == "daily" else new_constant).parameters
    refuse_unknown_keys(
        recipe, [key for key in parameters if key not in ("name", *SHARED_WITH_ANSWERS)], f"[{kind}]", refuse.source
    )
    answers = recipe | shared | {"name": read.name}
    workload = from_answers(answers) if kind == "daily" else from_constant_answers(answers)
    added = tuple(caveat for caveat in read.caveats if caveat not in workload.caveats)
    return replace(workload, caveats=workload.caveats + added) if added else workload


def _read_inline_points(table: dict) -> pl.DataFrame:
    """Returns the points in the file itself; a single value stands for all of them. Raises
    InputError for arrays of different lengths."""
    read = convert(table, PointsTable, source=refuse.source, at="points")
    if ("interval_s" in table) == ("duration_s" in table):
        raise refuse.input("[points]", "exactly one of interval_s (one number) and duration_s (an array) is needed")
    given = {name: value for name in read.__struct_fields__ if (value := getattr(read, name)) is not None}
    lengths = {name: len(value) for name, value in given.items() if isinstance(value, list)}
    if not lengths or len(set(lengths.values())) != 1 or 0 in lengths.values():
        rule = "all arrays in [points] must be equally long, one is needed, and none may be empty"
        raise refuse.input(f"arrays of lengths {lengths}"[:200], rule)
    count = next(iter(lengths.values()))
    columns = {name: value if isinstance(value, list) else [value] * count for name, value in given.items()}
    durations = columns.pop("interval_s", None) or columns["duration_s"]
    starts = columns.get("t_s") or _compute_starts(durations, "interval_s" in table)
    points = make_points(starts, durations, *(columns[name] for name in POINT_COLUMNS[2:]))
    return points.with_columns(
        pl.Series(name, columns[name], dtype=pl.Float64) for name in OBSERVED_COLUMNS if name in columns
    )


def _compute_starts(durations: list[float], is_even: bool) -> list[float]:
    """Returns the starts of points in seconds from the first, by multiplication if all durations
    are equal (`is_even`)."""
    if is_even:
        return [durations[0] * index for index in range(len(durations))]
    starts, start_s = [], 0.0
    for duration in durations:
        starts.append(start_s)
        start_s += duration
    return starts


def _read_points_file(name: object, digest: object, folder: Path | None) -> pl.DataFrame:
    """Reads points from the CSV file `name` below `folder`. Raises InputError without a folder, if
    the path leads out of it, or if the file's SHA-256 is not `digest`."""
    if folder is None:
        hint = "Give the file that names it to the command line, which reads both."
        raise refuse.input(f"points_file = {quote_value(name)}", "another file is not read here", hint)
    if not isinstance(name, str) or not name or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise refuse.input(f"points_file = {quote_value(name)}", "must be a path below the workload file's folder")
    if not isinstance(digest, str):
        hint = f"Run sha256sum {name}."
        raise refuse.input("points_sha256 is missing", "a points_file is read only with its sha256", hint)
    content = read_bytes(folder / name, MAX_POINTS_FILE_BYTES)
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest.lower():
        hint = "The file was changed or cut off: get it again, or put its new sha256 in if the change is meant."
        raise refuse.input(f"{name} has sha256 {actual[:12]}...", f"points_sha256 says {digest[:12]}...", hint)
    try:
        overrides = {column: pl.Float64 for column in (*POINT_COLUMNS, *OBSERVED_COLUMNS)}
        frame = pl.read_csv(content, schema_overrides=overrides, n_rows=MAX_POINTS + 1)
    except pl.exceptions.PolarsError as error:
        rule = f"is not the CSV expected: {str(error).splitlines()[0][:120]}"
        raise refuse.input(name, rule, f"The header is {','.join(POINT_COLUMNS)}.") from None
    return frame


# --- writing --------------------------------------------------------------------------------------


def _build_closed_document(workload: ClosedWorkload) -> dict:
    """Returns a closed workload as its file has it."""
    document = {"format": FORMAT, "version": VERSION, "model": "closed"}
    document |= pick_fields(workload, *(key for key in ClosedFile.__struct_fields__ if key not in (*HEAD, "caveats")))
    if workload.caveats:
        document["caveats"] = list(workload.caveats)
    return document


def _write_open(workload: OpenWorkload, path: Path) -> str:
    """Returns the text of an open workload's file: with the answers that it was made from if they
    make the same workload, else with its points. More than MAX_INLINE_POINTS points are written
    into a CSV file next to `path`."""
    document = _build_open_head(workload)
    answers = workload.source.get("answers")
    if isinstance(answers, dict) and workload.kind in ("daily", "constant") and _can_be_rebuilt(workload, answers):
        own = {key: answer for key, answer in answers.items() if key not in SHARED_WITH_ANSWERS}
        return documents.to_toml(document | {"source": None, "caveats": None, workload.kind: own})
    if workload.points.height <= MAX_INLINE_POINTS:
        return documents.to_toml(document) + _write_points_table(workload.points)
    content = workload.points.write_csv().encode()
    digest = hashlib.sha256(content).hexdigest()
    points_path = path.with_name(f"{path.stem}.{digest[:8]}.csv")
    write_whole(points_path, content)
    return documents.to_toml(document | {"points_file": points_path.name, "points_sha256": digest})


def _build_open_head(workload: OpenWorkload) -> dict:
    """Returns an open workload as its file has it, without its points."""
    document = {"format": FORMAT, "version": VERSION, "model": "open", "name": workload.name, "kind": workload.kind}
    document |= pick_fields(workload, *SHARED_WITH_ANSWERS)
    if workload.clock_zone != LOCAL_ZONE:
        document["clock_zone"] = workload.clock_zone
    if workload.caveats:
        document["caveats"] = list(workload.caveats)
    return document | {"source": workload.source}


def _can_be_rebuilt(workload: OpenWorkload, answers: dict) -> bool:
    """Returns whether the answers make the same workload again, so that the file needs no
    points."""
    try:
        full = answers | {"name": workload.name}
        return (from_answers if workload.kind == "daily" else from_constant_answers)(full) == workload
    except HeadraceError:
        return False


def _write_points_table(points: pl.DataFrame) -> str:
    """Returns the section [points] as TOML; a column whose values are all equal is written once."""
    durations = points["duration_s"]
    lines = ["", "[points]"]
    even = durations.n_unique() == 1 and points["t_s"].to_list() == _compute_starts(durations.to_list(), True)
    if even and points.height > 0:
        lines.append(f"interval_s = {_write_figure(durations[0])}")
    else:
        lines += [_write_array("t_s", points["t_s"]), _write_array("duration_s", durations)]
    columns = points.columns[2:]
    for column in columns:
        is_constant = points[column].n_unique() == 1
        # reads_per_s stays an array, so that the number of points can always be seen.
        lines.append(
            f"{column} = {_write_figure(points[column][0])}"
            if is_constant and column != columns[0]
            else _write_array(column, points[column])
        )
    return "\n".join(lines) + "\n"


def _write_array(name: str, values: pl.Series) -> str:
    figures = [_write_figure(value) for value in values]
    rows = [", ".join(figures[at : at + 12]) for at in range(0, len(figures), 12)]
    return f"{name} = [\n  " + ",\n  ".join(rows) + ",\n]"


def _write_figure(value: float | None) -> str:
    """Writes the shortest text that reads back as the same number; nan where nothing was recorded
    (TOML has no null)."""
    if value is None:
        return "nan"
    return str(int(value)) if value == math.floor(value) and abs(value) < 1e15 else repr(value)
