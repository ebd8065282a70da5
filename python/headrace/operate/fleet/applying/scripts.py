"""patch.sh and rollback.sh: the changes as a program of the AWS CLI that can be read before it is
run, stopped, and run again.

Both are patch.sh.txt with settings, `change_volumes.sh` as it stands in this folder, and a line a
change. The state of the volumes decides what is done, so running twice is running once, and a
rollback touches only volumes that are as the patch left them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from shlex import quote

from headrace.base.packaged import read_text
from headrace.observe.recording import clip
from headrace.operate.fleet.applying.changes import VolumeChange, VolumeSetting, get_modification_limit

# Ours: a change in two minutes. A wrong plan is seen before it is everywhere.
MAX_PER_HOUR = 30
SETTLE_S = 60  # how long EC2 may show what was before a modification, s: a guess
MOST_NOTE = 200  # characters of a comment: a line that is read; ours
POLL_S = 15  # seconds between two looks; ours, EC2 throttles describe calls of eager scripts


@dataclass(frozen=True)
class PatchScripts:
    """The two scripts of one account, as text."""

    account: str
    patch: str
    rollback: str


def build_patch_scripts(
    changes: Sequence[VolumeChange], as_of: str | None = None, max_per_hour: int = MAX_PER_HOUR
) -> list[PatchScripts]:
    """Returns the scripts of each account, the changes in the order given."""
    accounts = dict.fromkeys(change.account for change in changes)
    return [
        PatchScripts(
            account,
            _build_script(
                "Changes that headrace fleet advised, largest saving first.", own, account, as_of, max_per_hour
            ),
            _build_script(
                "Takes back what patch.sh changed, the last first. Sizes stay: a volume never shrinks.",
                [change.invert() for change in reversed(own)],
                account,
                as_of,
                max_per_hour,
            ),
        )
        for account in accounts
        if (own := [change for change in changes if change.account == account])
    ]


def _build_script(
    what: str, changes: Sequence[VolumeChange], account: str, as_of: str | None, max_per_hour: int
) -> str:
    """Returns the text of a script that makes the changes in order. `what`: its heading;
    `max_per_hour`: the most changes that it starts in an hour."""
    most, hours = get_modification_limit(as_of)
    body = read_text("headrace.operate.fleet.applying", "change_volumes.sh")
    settings = {
        "CHANGES": len(changes),
        "MAX_CHANGES": most,
        "WINDOW_H": hours,
        "MAX_PER_HOUR": max_per_hour,
        "ACCOUNT": account if account.isdigit() else "",
    }
    head = read_text("headrace.operate.fleet.applying", "patch.sh.txt")
    return head.format(
        what=what,
        poll_s=POLL_S,
        settle_s=SETTLE_S,
        settings="\n".join(f"{key}={quote(str(value))}" for key, value in settings.items()),
        body=body.rstrip(),
        changes="\n".join(f"  {line}" for change in changes for line in _build_lines(change)),
    )


def _build_lines(change: VolumeChange) -> list[str]:
    """Returns the change, behind a comment where there is something to know of it. A tag's text may
    hold anything: one line, and nothing that a shell or a terminal would take for more."""
    return ([f"# {clip(change.note, MOST_NOTE)}"] if change.note else []) + [_build_call(change)]


def _build_call(change: VolumeChange) -> str:
    """Returns the line of the script for a change: ids, both settings, USD a month with its sign,
    and the starts of known modifications in UTC; "-" for what is not known."""
    starts = (
        ",".join(start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S") for start in change.modification_starts) or "-"
    )
    arguments = [
        change.volume_id,
        change.region,
        *_list_arguments(change.before),
        *_list_arguments(change.after),
        f"{change.usd_month:+.2f}",
        starts,
    ]
    return "change " + " ".join(quote(argument) for argument in arguments)


def _list_arguments(setting: VolumeSetting) -> list[str]:
    figures = [setting.type, setting.size_gib, setting.iops, setting.mib_s]
    return ["-" if figure is None else str(figure) for figure in figures]
