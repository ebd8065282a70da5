"""What the documents ask of the machine rather than of the server: comments in the option file."""

from __future__ import annotations

from headrace.advice.rules.answer import Answer, Rule
from headrace.advice.situation import Situation


def mount_options(s: Situation) -> Answer:
    return Answer("xfs, noatime", "reads write no access times; barriers stay on", settable=False)


def raid_chunk(s: Situation) -> Answer | None:
    if s.storage.members < 2 or s.storage.layout == "raid1":
        return None
    return Answer("256 KiB", f"{s.storage.text}: one I/O of EBS stays on one member", settable=False)


def log_volume(s: Situation) -> Answer:
    if s.log_storage is not None:
        return Answer(s.log_storage.words, "redo, binlog and relay log have a volume of their own", settable=False)
    return Answer("none", "redo and binlog are with the data; --log-storage plans a volume for them", settable=False)


def receive_flows(s: Situation) -> Answer:
    return Answer("32768", "net.core.rps_sock_flow_entries on load generators with few network queues", settable=False)


HOST: dict[str, Rule] = {
    "mount_options": mount_options,
    "raid_chunk": raid_chunk,
    "log_volume": log_volume,
    "rps_sock_flow_entries": receive_flows,
}
