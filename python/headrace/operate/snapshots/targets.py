"""Target of a snapshot: a server of the lab, or a server on this EC2 instance."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TypedDict, Unpack

from headrace import servers
from headrace.base.encoding import pick_fields
from headrace.lab import Lab
from headrace.mysql import Address
from headrace.operate.snapshots.services import LabService, VolumeService
from headrace.operate.snapshots.sets import refuse
from headrace.operate.snapshots.take import SnapshotRequest
from headrace.servers import Server
from headrace.servers.record import find_data_dir

# Settings whose values may be secret stay out of tags, which more people may read than the server.
SECRET = re.compile(r"pass|secret|credential|filekey", re.IGNORECASE)
# Keys and tokens are secret as text. Numbers, sizes and switches of such names are not
# (key_buffer_size=64M).
KEY = re.compile(r"key|token", re.IGNORECASE)
PLAIN = re.compile(r"-?\d+[kmgtpe]?|on|off|true|false", re.IGNORECASE)


class SnapshotSettings(TypedDict, total=False):
    """The settings of a snapshot that the user chooses; `SnapshotRequest` says what they mean."""

    tags: Mapping[str, str]
    description: str
    lock: bool
    freeze: bool
    wait_lock_s: float
    hold_s: float


def make_lab_request(lab: Lab, name: str, **options: Unpack[SnapshotSettings]) -> SnapshotRequest:
    """Returns the request for a server of the lab. Raises InputError, CouldNotRun if it is down."""
    server = servers.find(lab, name)
    if server.state != "running":
        hint = f"Start it: headrace mysql up {name}. Its volumes as they are: headrace snapshot create VOL..."
        raise refuse.run(name, f"is {server.state}, so it cannot be held still, and its position is not known", hint)
    return SnapshotRequest(
        name=name,
        address=server.make_address(),
        service=LabService(lab),
        about=describe_server(server),
        keep_off=(str(find_data_dir(lab)),),
        **options,
    )


def make_ec2_request(
    address: Address, service: VolumeService, name: str | None, **options: Unpack[SnapshotSettings]
) -> SnapshotRequest:
    """Returns the request for a server at an address, which runs on this instance. `name`: for
    people, else that of this machine: by its address every server may be 127.0.0.1."""
    machine = os.uname().nodename
    return SnapshotRequest(name=name or machine, address=address, service=service, about={"ec2": True}, **options)


def describe_server(server: Server) -> dict[str, object]:
    """Returns what a restore needs to make the same server again."""
    roles = {"data": server.volumes.data} | ({"log": server.volumes.log} if server.volumes.log else {})
    settings = {name: value for name, value in server.settings.items() if not _is_secret(name, value)}
    description = pick_fields(server, "engine", "storage", "log_storage", "memory_gib")
    description |= {"lab": True, "roles": roles, "settings": settings}
    if server.config not in ("default", "tuned"):
        description["config"] = os.path.basename(server.config)
    elif server.config != "default":
        description["config"] = server.config
    return {name: value for name, value in description.items() if value not in (None, {})}


def _is_secret(name: str, value: str | None) -> bool:
    """Returns whether the value of a setting may be secret."""
    is_key = KEY.search(name) is not None and value is not None and PLAIN.fullmatch(value) is None
    return is_key or SECRET.search(name) is not None
