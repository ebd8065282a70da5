"""`headrace lab events`: what happened."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from headrace.cli.options import LabPlace
from headrace.cli.output import say
from headrace.report.output import plain

# Seconds between two questions for new events.
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
