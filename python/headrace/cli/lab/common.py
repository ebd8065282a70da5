"""Shared parts of `headrace lab` and `headrace volume`: values as they are typed, the rows of a
volume."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.cli.output import make_table
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.lab.calls import LabVolume
    from headrace.report.view import Table


def read_tags(texts: Sequence[str] | None) -> dict[str, str]:
    """Reads `K=V` each. Raises InputError."""
    parsed: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(text[:60], "a tag is KEY=VALUE", "", "For example team=orders.")
        if key in parsed:
            raise InputError(text[:60], f"{key[:40]} was given before", "", "Give each key once.")
        parsed[key] = value
    return parsed


def format_tags(pairs: Mapping[str, str] | None) -> str:
    """Returns tags as they are typed, in a line."""
    return ", ".join(f"{key}={value}" for key, value in (pairs or {}).items())


def format_number(value: float | None, digits: int = 1) -> str:
    """Returns a number for a table, with `digits` behind the point unless it is whole; `-` for
    None."""
    if value is None:
        return "-"
    return f"{value:,.{digits}f}" if isinstance(value, float) and not float(value).is_integer() else f"{int(value):,}"


def format_percent_cell(value: float | None) -> str:
    """Returns a value in percent for a table; `-` for None."""
    return "-" if value is None else f"{value:.1f} %"


def format_state_cell(volume: LabVolume) -> str:
    """Returns the state; that of the attachment and of a modification where they say more."""
    parts = [volume["state"]]
    attachment, modification = volume.get("attachment"), volume.get("modification")
    if attachment and attachment["state"] != "attached":
        parts.append(attachment["state"])
    if modification and modification["state"] in ("modifying", "optimizing"):
        parts.append(f"{modification['state']} {modification['progress_percent']} %")
    parts += [
        f"member {member['index']} {member['state']}" for member in volume.get("members", ()) if member["state"] != "ok"
    ]
    return ", ".join(parts)


VOLUME_COLUMNS = ("id", "name", "storage", "state", "device", "used GiB", "balance", "faults")


def build_volume_table(volumes: Sequence[LabVolume], title: str = "") -> Table:
    """Returns a table of volumes, a row each."""
    rows = []
    for volume in volumes:
        device, used = (volume.get("attachment") or {}).get("device") or "-", format_number(volume.get("used_gib"), 2)
        rest = (device, used, format_percent_cell(volume.get("balance_percent")), volume.get("faults") or 0)
        rows.append((volume["id"], volume.get("name") or "", volume["spec"], format_state_cell(volume), *rest))
    return make_table(VOLUME_COLUMNS, rows, title=title, right=VOLUME_COLUMNS[-3:])


VOLUME_CSV = (
    "id", "name", "spec", "type", "size_gib", "used_gib", "iops", "throughput_mib_s", "raid", "state", "device", "attach_name",
    "attachment_state", "path_us", "modification_state", "modification_progress_percent", "balance_percent", "faults", "recording",
    "created_at", "as_of", "tags"
)  # fmt: skip


def make_volume_row(volume: LabVolume) -> dict[str, object]:
    """Returns a volume as a row of VOLUME_CSV: the same columns whether it is attached or not. Tags
    as JSON."""
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
