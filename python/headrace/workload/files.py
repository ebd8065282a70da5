"""Workload files: TOML, versioned, described in docs/reference/workload-file.md.

An open workload is kept either as the answers it was made from (`[daily]`, `[constant]`: short, to be edited by hand) or as
its points (`[points]`, inline or in a CSV beside it whose sha256 is checked). What is loaded has passed every limit.
"""

from __future__ import annotations

import hashlib
import math
import os
import tomllib
from pathlib import Path

import polars as pl
import tomli_w

from headrace.base.checks import check_choice, did_you_mean, shown
from headrace.base.files import path_of, read_bytes, write_whole
from headrace.errors import HeadraceError, InputError
from headrace.workload import transaction_files
from headrace.workload.daily import from_answers, from_constant_answers, new_constant, new_daily
from headrace.workload.model import (
    LOCAL_ZONE,
    MAX_POINTS,
    OBSERVED_COLUMNS,
    POINT_COLUMNS,
    ClosedWorkload,
    OpenWorkload,
    Workload,
    make_points,
)
from headrace.workload.transactions import TransactionWorkload

FORMAT = "headrace-workload"
VERSION = 1
DOC = "docs/reference/workload-file.md"

MAX_TOML_BYTES = 32 * 1024 * 1024
MAX_POINTS_FILE_BYTES = 512 * 1024 * 1024
# Above this many points an inline file is slow to read (tomllib does about 1 MB/s), so they go into a CSV beside it.
MAX_INLINE_POINTS = 20_000

COMMON_KEYS = ("format", "version", "model", "name", "size_gib", "caveats")
OPEN_KEYS = (
    *COMMON_KEYS,
    "kind",
    "sequential_read_share",
    "sequential_write_share",
    "arrivals",
    "growth_per_year",
    "clock_zone",
    "source",
    "points",
    "points_file",
    "points_sha256",
    "daily",
    "constant",
)
CLOSED_KEYS = (*COMMON_KEYS, "rw", "bs_kib", "iodepth", "numjobs", "rwmixread")
POINTS_KEYS = ("interval_s", *POINT_COLUMNS, *OBSERVED_COLUMNS)
SHARED_WITH_ANSWERS = ("size_gib", "sequential_read_share", "sequential_write_share", "arrivals", "growth_per_year")


def load(path: str | os.PathLike) -> Workload | TransactionWorkload:
    """The workload in a TOML file. Raises InputError (bad content, exit code 2) or CouldNotRun (cannot be read, 3)."""
    path = path_of(path)
    document = _parse(path, read_bytes(path, MAX_TOML_BYTES))
    try:
        _check_head(document)
        model = check_choice("model", document.get("model"), ("open", "closed", "mysql"))
        if model == "mysql":
            return transaction_files.from_document(document)
        return _closed(document) if model == "closed" else _open(document, path)
    except HeadraceError as error:
        # Every rule below names its key; the user also needs to know which file.
        raise type(error)(f"{path.name}: {error.value}", error.rule, error.source, error.hint, error.exit_code) from None


def save(workload: Workload | TransactionWorkload, path: str | os.PathLike) -> None:
    """Write a workload file, whole or not at all. Raises CouldNotRun when it cannot be written.

    More than 20,000 points go into `NAME.HASH.csv` beside it, written first.
    """
    path = path_of(path)
    if isinstance(workload, TransactionWorkload):
        write_whole(path, transaction_files.to_toml(workload, {"format": FORMAT, "version": VERSION, "model": "mysql"}).encode())
        return
    if isinstance(workload, ClosedWorkload):
        write_whole(path, tomli_w.dumps(_closed_document(workload)).encode())
        return
    if not isinstance(workload, OpenWorkload):
        raise InputError(type(workload).__name__, "is no workload", "docs/reference/python.md", "Load or make one: headrace.load.")
    document = _open_head(workload)
    answers = workload.source.get("answers")
    if isinstance(answers, dict) and workload.kind in ("daily", "constant") and _made_again(workload, answers):
        document.pop("source")
        document.pop("caveats", None)
        document |= {workload.kind: {k: v for k, v in answers.items() if k not in SHARED_WITH_ANSWERS}}
        write_whole(path, tomli_w.dumps(document).encode())
    elif workload.points.height > MAX_INLINE_POINTS:
        content = workload.points.write_csv().encode()
        digest = hashlib.sha256(content).hexdigest()
        beside = path.with_name(f"{path.stem}.{digest[:8]}.csv")
        write_whole(beside, content)
        document |= {"points_file": beside.name, "points_sha256": digest}
        document["source"] = document.pop("source")  # tables come after plain keys
        write_whole(path, tomli_w.dumps(document).encode())
    else:
        write_whole(path, (tomli_w.dumps(document) + _points_table(workload.points)).encode())


# --- reading ----------------------------------------------------------------------------------------------------------


def _parse(path: Path, content: bytes) -> dict:
    if not content.strip():
        raise InputError(path.name, "the file is empty", DOC, "`headrace workload new` writes one.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path.name}: byte {error.start}", "a workload file is UTF-8 text", DOC, "A recording is read with `headrace workload import`."
        ) from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        from headrace.base.file_kinds import OWN_FILE, guess

        tool = guess(text)
        hint = (
            f"It looks like {tool}: read it with `headrace workload import`."
            if tool and tool != OWN_FILE
            else ("Mend the line named, or make the file again with `headrace workload new`.")
        )
        raise InputError(f"{path.name}: {str(error)[:120]}", "is not valid TOML", "toml.io, v1.0", hint) from None


def _check_head(document: dict) -> None:
    if document.get("format") != FORMAT:
        raise InputError(
            f"format = {shown(document.get('format'))}",
            f'the file must begin with format = "{FORMAT}"',
            DOC,
            "`headrace workload new` writes such a file.",
        )
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"version = {shown(version)}", f"must be a whole number from 1 to {VERSION}", DOC)
    if version > VERSION:
        raise InputError(
            f"version = {shown(version)}",
            f"was written by a newer Headrace; this one reads up to version {VERSION}",
            DOC,
            "Use a newer Headrace, or make the file again with this one.",
        )
    if "model" not in document:
        raise InputError("model is missing", 'must be "open", "closed" or "mysql"', DOC)
    caveats = document.get("caveats", [])
    if not isinstance(caveats, list) or not all(isinstance(item, str) for item in caveats):
        raise InputError(f"caveats = {shown(caveats)}", "must be a list of sentences", DOC)


def _closed(document: dict) -> ClosedWorkload:
    _known(document, CLOSED_KEYS, "a closed workload")
    _needed(document, ("name", "rw", "bs_kib", "iodepth", "numjobs"))
    fields = {key: value for key, value in document.items() if key not in ("format", "version", "model")}
    return ClosedWorkload(**fields | {"caveats": tuple(document.get("caveats", ()))})


def _open(document: dict, path: Path) -> OpenWorkload:
    _known(document, OPEN_KEYS, "an open workload")
    _needed(document, ("name", "kind"))
    ways = [way for way in ("points", "points_file", "daily", "constant") if way in document]
    if len(ways) != 1:
        raise InputError(" and ".join(ways) or "no points", "exactly one of [points], points_file, [daily], [constant] is needed", DOC)
    way = ways[0]
    if way in ("daily", "constant"):
        return _from_recipe(document, way)
    source = document.get("source", {})
    if not isinstance(source, dict):
        raise InputError(f"source = {shown(source)}", "must be a table", DOC)
    points = _inline_points(document["points"]) if way == "points" else _points_file(document, path)
    extra = {key: document[key] for key in (*SHARED_WITH_ANSWERS, "clock_zone") if key in document}
    return OpenWorkload(
        name=document["name"], kind=document["kind"], points=points, source=source, caveats=tuple(document.get("caveats", ())), **extra
    )


def _from_recipe(document: dict, kind: str) -> OpenWorkload:
    recipe = document[kind]
    if not isinstance(recipe, dict):
        raise InputError(f"{kind} = {shown(recipe)}", "must be a table", DOC)
    if document["kind"] != kind:
        raise InputError(f"kind = {shown(document['kind'])}", f"must be {kind!r} beside [{kind}]", DOC)
    maker = new_daily if kind == "daily" else new_constant
    code = maker.__code__
    known = [key for key in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if key != "name"]
    _known(recipe, [key for key in known if key not in SHARED_WITH_ANSWERS], f"[{kind}]")
    shared = {key: document[key] for key in SHARED_WITH_ANSWERS if key in document}
    answers = recipe | shared | {"name": document["name"]}
    made = from_answers(answers) if kind == "daily" else from_constant_answers(answers)
    added = tuple(caveat for caveat in document.get("caveats", ()) if caveat not in made.caveats)
    if not added:
        return made
    from dataclasses import replace

    return replace(made, caveats=made.caveats + added)


def _inline_points(table: object) -> pl.DataFrame:
    if not isinstance(table, dict):
        raise InputError(f"points = {shown(table)}", "must be a table of arrays", DOC)
    _known(table, POINTS_KEYS, "[points]")
    _needed(table, ("reads_per_s", "writes_per_s", "read_kib", "write_kib"), "points.")
    if ("interval_s" in table) == ("duration_s" in table):
        raise InputError("[points]", "exactly one of interval_s (one number) and duration_s (an array) is needed", DOC)
    lengths = {key: len(value) for key, value in table.items() if isinstance(value, list)}
    if isinstance(table.get("interval_s"), list):
        raise InputError("points.interval_s is an array", "must be one number", DOC, "An array of lengths is called duration_s.")
    if not lengths or len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(
            f"arrays of lengths {lengths}"[:200], "all arrays in [points] must be equally long, one is needed, and none may be empty", DOC
        )
    count = next(iter(lengths.values()))
    columns = {key: _column(key, table[key], count) for key in table}
    durations = columns.pop("interval_s", None) or columns["duration_s"]
    starts = columns.get("t_s") or _starts(durations, "interval_s" in table)
    points = make_points(starts, durations, *(columns[key] for key in POINT_COLUMNS[2:]))
    return points.with_columns(pl.Series(key, columns[key], dtype=pl.Float64) for key in OBSERVED_COLUMNS if key in columns)


def _column(key: str, value: object, count: int) -> list[float]:
    values = value if isinstance(value, list) else [value]
    for index, number in enumerate(values):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or abs(number) > 1e300:
            raise InputError(f"points.{key}[{index}] = {shown(number, 40)}", "must be a number", DOC)
    numbers = [float(number) for number in values]
    return numbers if isinstance(value, list) else numbers * count


def _starts(durations: list[float], even: bool) -> list[float]:
    if even:
        return [durations[0] * index for index in range(len(durations))]
    starts, now = [], 0.0
    for duration in durations:
        starts.append(now)
        now += duration
    return starts


def _points_file(document: dict, path: Path) -> pl.DataFrame:
    name, digest = document["points_file"], document.get("points_sha256")
    if not isinstance(name, str) or not name or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise InputError(f"points_file = {shown(name)}", "must be a path below the workload file's folder", DOC)
    if not isinstance(digest, str):
        raise InputError("points_sha256 is missing", "a points_file is read only with its sha256", DOC, f"Run sha256sum {name}.")
    content = read_bytes(path.parent / name, MAX_POINTS_FILE_BYTES)
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest.lower():
        raise InputError(
            f"{name} has sha256 {actual[:12]}...",
            f"points_sha256 says {digest[:12]}...",
            DOC,
            "The file was changed or cut off: get it again, or put its new sha256 in if the change is meant.",
        )
    try:
        overrides = {column: pl.Float64 for column in (*POINT_COLUMNS, *OBSERVED_COLUMNS)}
        frame = pl.read_csv(content, schema_overrides=overrides, n_rows=MAX_POINTS + 1)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            name, f"is not the CSV expected: {str(error).splitlines()[0][:120]}", DOC, f"The header is {','.join(POINT_COLUMNS)}."
        ) from None
    return frame


def _known(table: dict, known, where: str) -> None:
    for key in table:
        if key not in known:
            raise InputError(f"{key[:60]}", f"is not a key of {where}", DOC, did_you_mean(key, known) or f"Known: {', '.join(known)}.")


def _needed(table: dict, needed: tuple[str, ...], prefix: str = "") -> None:
    for key in needed:
        if key not in table:
            raise InputError(f"{prefix}{key} is missing", "this key is needed", DOC)


# --- writing ----------------------------------------------------------------------------------------------------------


def _closed_document(workload: ClosedWorkload) -> dict:
    document = {"format": FORMAT, "version": VERSION, "model": "closed"}
    document |= {key: getattr(workload, key) for key in CLOSED_KEYS[3:] if key != "caveats"}
    if workload.caveats:
        document["caveats"] = list(workload.caveats)
    return {key: value for key, value in document.items() if value is not None}


def _open_head(workload: OpenWorkload) -> dict:
    document = {"format": FORMAT, "version": VERSION, "model": "open", "name": workload.name, "kind": workload.kind}
    document |= {key: getattr(workload, key) for key in SHARED_WITH_ANSWERS}
    if workload.clock_zone != LOCAL_ZONE:
        document["clock_zone"] = workload.clock_zone
    if workload.caveats:
        document["caveats"] = list(workload.caveats)
    document["source"] = _plain(workload.source)
    return {key: value for key, value in document.items() if value is not None}


def _plain(value):
    """TOML has no null: leave such entries out, and refuse nothing else it can hold."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _made_again(workload: OpenWorkload, answers: dict) -> bool:
    try:
        full = answers | {"name": workload.name}
        return (from_answers if workload.kind == "daily" else from_constant_answers)(full) == workload
    except HeadraceError:
        return False


def _points_table(points: pl.DataFrame) -> str:
    durations = points["duration_s"]
    lines = ["", "[points]"]
    even = durations.n_unique() == 1 and points["t_s"].to_list() == _starts(durations.to_list(), True)
    if even and points.height > 0:
        lines.append(f"interval_s = {_figure(durations[0])}")
    else:
        lines += [_array("t_s", points["t_s"]), _array("duration_s", durations)]
    columns = points.columns[2:]
    for column in columns:
        one_value = points[column].n_unique() == 1
        # reads_per_s stays an array, so that the number of points can always be seen.
        lines.append(f"{column} = {_figure(points[column][0])}" if one_value and column != columns[0] else _array(column, points[column]))
    return "\n".join(lines) + "\n"


def _array(name: str, values: pl.Series) -> str:
    figures = [_figure(value) for value in values]
    rows = [", ".join(figures[at : at + 12]) for at in range(0, len(figures), 12)]
    return f"{name} = [\n  " + ",\n  ".join(rows) + ",\n]"


def _figure(value: float | None) -> str:
    """The shortest text that reads back as the same number; nan where nothing was recorded (TOML has no null)."""
    if value is None:
        return "nan"
    return str(int(value)) if value == math.floor(value) and abs(value) < 1e15 else repr(value)
