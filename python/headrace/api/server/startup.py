"""Tells `headrace lab` where the endpoint is, and whether it answers."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from headrace.api.access import keys
from headrace.base.waiting import wait_until
from headrace.lab.place import get_endpoint_file

# For a connection on the loopback.
ANSWERS_S = 1.0
# For keys that changed to reach the endpoint: it looks at them twice a second.
KEYS_S = 5.0


@dataclass(frozen=True)
class EndpointAddress:
    """The address of an endpoint. `answers`: whether something listens there."""

    url: str
    region: str
    pid: int
    answers: bool


def find_endpoint(data_dir: Path) -> EndpointAddress | None:
    """Returns the address of the endpoint of the lab in this directory, and whether it accepts
    connections; None if the lab has none."""
    try:
        document = json.loads(get_endpoint_file(data_dir).read_text())
        url, region, pid = str(document["url"]), str(document["region"]), int(document["pid"])
        port = int(url.rpartition(":")[2])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return EndpointAddress(url, region, pid, _is_alive(pid) and _listens(port))


def _is_alive(pid: int) -> bool:
    """Returns whether a process of this number runs, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _listens(port: int) -> bool:
    """Returns whether something accepts connections at this port of the loopback."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWERS_S):
            return True
    except OSError:
        return False


def wait_for_keys(data_dir: Path) -> None:
    """Waits, at most five seconds, until the endpoint has the current key pairs, or none runs: a
    new key then works with the next command, and a removed one does not."""

    def is_current() -> bool:
        try:
            document = json.loads(get_endpoint_file(data_dir).read_text())
            return document["keys"] == keys.read_stamp(data_dir) or not _is_alive(int(document["pid"]))
        except (OSError, ValueError, KeyError, TypeError):
            return True

    wait_until(is_current, KEYS_S, 0.02)
