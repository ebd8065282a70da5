"""What `headrace lab` and `headrace volume` share: where the lab is, percent values, the rows of a volume."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.common import Output, data
from headrace.errors import HeadraceError, InputError

DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", readable=False, help="Directory of the lab. Default: $HEADRACE_LAB, else /var/lib/headrace."),
]
SocketOption = Annotated[
    Path | None, typer.Option("--socket", metavar="FILE", readable=False, help="Socket of the lab. Default: that of the directory.")
]
COMPLETION_S = 1.0  # the shell waits for it


def complete_volume(context: typer.Context, incomplete: str) -> list[str]:
    """Names of volumes for the shell, ids where there is no name; nothing when no lab answers."""
    from headrace.lab import Lab

    try:
        with Lab(context.params.get("data_dir"), context.params.get("socket"), timeout_s=COMPLETION_S) as lab:
            names = [volume.get("name") or volume["id"] for volume in lab.volumes()]
    except (HeadraceError, OSError, KeyError):
        return []
    return [name for name in names if name.startswith(incomplete)]


VolumeArgument = Annotated[str, typer.Argument(metavar="VOL", help="Id or name of a volume.", autocompletion=complete_volume)]
MemberOption = Annotated[int | None, typer.Option("--member", metavar="N", min=0, help="Of an array: only this member, counted from 0.")]


def percent(text: str | None, what: str) -> float | None:
    """`5%`, `5` or `0.5%` as 5.0 and 0.5. Raises InputError."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%?", text.strip(), re.ASCII)
    if match is None or float(match[1]) > 100:
        raise InputError(f"{what} {text[:40]}", "must be a percentage, 0 to 100", "", "For example 5% or 5.")
    return float(match[1])


def tags(texts: list[str] | None) -> dict[str, str]:
    """`K=V` each. Raises InputError."""
    found: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(text[:60], "a tag is KEY=VALUE", "", "For example team=orders.")
        if key in found:
            raise InputError(text[:60], f"{key[:40]} was given before", "", "Give each key once.")
        found[key] = value
    return found


def number(value: Any, digits: int = 1) -> str:
    """A number for a table; `-` for none."""
    if value is None:
        return "-"
    return f"{value:,.{digits}f}" if isinstance(value, float) and not float(value).is_integer() else f"{int(value):,}"


def percent_cell(value: float | None) -> str:
    """A share for a table."""
    return "-" if value is None else f"{value:.1f} %"


def state_cell(volume: dict) -> str:
    """The state; that of the attachment and of a modification where they say more."""
    parts = [volume["state"]]
    attachment, modification = volume.get("attachment"), volume.get("modification")
    if attachment and attachment["state"] != "attached":
        parts.append(attachment["state"])
    if modification and modification["state"] in ("modifying", "optimizing"):
        parts.append(f"{modification['state']} {modification['progress_percent']} %")
    parts += [f"member {member['index']} {member['state']}" for member in volume.get("members", ()) if member["state"] != "ok"]
    return ", ".join(parts)


VOLUME_COLUMNS = ("id", "name", "storage", "state", "device", "used GiB", "balance", "faults")
VOLUME_RIGHT = ("used GiB", "balance", "faults")


def volume_row(volume: dict) -> list[object]:
    """The cells of VOLUME_COLUMNS."""
    attachment = volume.get("attachment") or {}
    return [
        volume["id"], volume.get("name") or "", volume["spec"], state_cell(volume), attachment.get("device") or "-",
        number(volume.get("used_gib"), 2), percent_cell(volume.get("balance_percent")), volume.get("faults") or 0,
    ]  # fmt: skip


def volumes_table(volumes: list[dict], title: str = ""):
    """Volumes, one a row."""
    from headrace.report.tables import table

    return table(VOLUME_COLUMNS, [volume_row(volume) for volume in volumes], title=title, right=VOLUME_RIGHT)


VOLUME_CSV = (
    "id", "name", "spec", "type", "size_gib", "used_gib", "iops", "throughput_mib_s", "raid", "state", "device", "attach_name", "attachment_state",
    "path_us", "modification_state", "modification_progress_percent", "balance_percent", "faults", "recording", "created_at", "as_of", "tags",
)  # fmt: skip


def volume_csv(volume: dict) -> dict[str, Any]:
    """A volume as a row of VOLUME_CSV: the same columns whether it is attached or not. Tags as JSON."""
    import json

    attachment, modification = volume.get("attachment") or {}, volume.get("modification") or {}
    more = {
        "device": attachment.get("device"),
        "attach_name": attachment.get("name"),
        "attachment_state": attachment.get("state"),
        "path_us": attachment.get("path_us"),
        "modification_state": modification.get("state"),
        "modification_progress_percent": modification.get("progress_percent"),
        "tags": json.dumps(volume.get("tags") or {}, ensure_ascii=False),
    }
    return {name: more[name] if name in more else volume.get(name) for name in VOLUME_CSV}


def as_csv(rows: list[dict], columns: tuple[str, ...]) -> str:
    """These columns of the rows, with a header; none is empty."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def print_answer(answer: Any, output: Output, rows: list[dict], columns: tuple[str, ...], table) -> None:
    """The answer as JSON, its `rows` as CSV, or the parts that `table()` gives for a person."""
    from headrace.report.output import as_json
    from headrace.report.tables import show

    if output is Output.json:
        data(as_json(answer))
    elif output is Output.csv:
        data(as_csv(rows, columns))
    else:
        show(*table())


def pairs(rows: list[tuple[str, object]]):
    """Names and values below each other; those without a value are left out."""
    from headrace.report.tables import table

    made = table(("", ""), [row for row in rows if row[1] not in (None, "")])
    made.show_header = False
    return made
