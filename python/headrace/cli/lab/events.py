"""`headrace lab events` and `headrace volume nvme-statistics`: what happened, and the counters of a
volume as a device has them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any

from headrace.cli.lab.common import number
from headrace.cli.lazy import lazily
from headrace.cli.options import LabPlace, MemberOption, OutputOption, VolumeArgument, flag
from headrace.cli.output import print_answer, say, table
from headrace.errors import InputError
from headrace.report.output import plain

with lazily():
    from headrace.observe.live import nvme

# How often it is asked for new events, s.
LOOK_EVERY_S = 0.5


def print_events(place: LabPlace, follow: bool, cursor: str | None, as_json: bool) -> None:
    """Prints changes of state, and goes on with `follow`."""
    with place.open() as lab:
        while True:
            answer = lab.events_since(cursor)
            if answer["lost"]:
                say(f"note: {answer['lost']} events after the cursor are no longer kept")
            for event in answer["events"]:
                print(json.dumps(event) if as_json else plain(_line(event)), flush=True)
            cursor = answer["cursor"]
            if answer["events"]:
                continue
            if not follow:
                break
            time.sleep(LOOK_EVERY_S)
    say(f"cursor: {cursor}")


def _line(event: Mapping[str, Any]) -> str:
    detail = event["detail"]
    subject = " ".join(resource.rpartition(":")[2] for resource in event["resources"])
    if "event" in detail:
        words = f"{detail['event']} {detail['result']} {detail.get('cause') or ''}"
    elif "previousState" in detail:
        words = f"{detail['previousState']['value']} -> {detail['state']['value']}: {detail['state']['reason']}"
    else:
        words = " ".join(str(detail[name]) for name in ("state", "zone", "operation") if name in detail)
    return f"{event['time']}  {event['detail-type']}  {subject}  {words}".rstrip()


def nvme_statistics(
    volume: VolumeArgument,
    place: LabPlace,
    member: MemberOption = None,
    binary: Annotated[bool, flag("--binary", "Write the 4,096 bytes of the page to stdout.")] = False,
    output: OutputOption = "table",
) -> None:
    """Print the NVMe statistics page of an attached volume: counters, and latencies in bins."""
    if binary and sys.stdout.isatty():
        hint = "Write `> page.bin` behind it, or a pipe."
        raise InputError("--binary", "does not write to a terminal", "headrace volume nvme-statistics --help", hint)
    with place.open() as lab:
        page = bytes.fromhex(lab.nvme_statistics(volume, member)["page_hex"])
    if binary:
        sys.stdout.buffer.write(page)
        return
    statistics = nvme.read_page(page)
    columns = ("field", "from_us", "until_us", "value")
    listed = statistics.rows()
    cells = [
        tuple("" if row[name] is None else number(row[name], 0) if name != "field" else row[name] for name in columns)
        for row in listed
    ]
    print_answer(statistics.to_document(), output, listed, columns, lambda: [table(columns, cells, right=columns[1:])])
