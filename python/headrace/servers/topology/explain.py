"""Explains what a replica's durability settings cost and what they can lose, at a server's values.

docs/guide/replicas.md says how the figures were measured. They are for orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from headrace.base.packaged import read_rows
from headrace.mysql.state import ServerState

# Origin of the figures: MariaDB 10.11 and MySQL 9.7 on two cores of a shared machine.
LAB = "gp3 of a lab, 2026-11"
# Texts by setting and by its value: all conditions of `when` hold.
ROWS = read_rows("headrace.servers.topology", "durability.csv")


@dataclass(frozen=True)
class ExplainedSetting:
    """A setting with its value, its cost and its possible loss, in words."""

    setting: str
    value: str
    costs: str
    can_lose: str


def explain_settings(state: ServerState) -> list[ExplainedSetting]:
    """Returns the settings that decide how durable replication is, with a server's values."""
    semi_sync, switch = state.semi_sync, {True: "ON", False: "OFF"}
    values = asdict(state.durability) | {
        "lab": LAB,
        "flavor": state.flavor,
        "log_bin": switch[state.binary_log.on],
        "replica_updates": switch[state.binary_log.replica_updates],
        "recovery": switch[state.durability.relay_log_recovery],
        "semi_sync": switch[semi_sync.source_enabled],
        "works": "works" if semi_sync.source_status else "is OFF now",
        "wait_point": semi_sync.wait_point,
        "timeout_s": semi_sync.timeout_ms / 1000,
    }
    channels = [
        {"uses_gtid": switch[channel.uses_gtid], "channel": f" ({channel.name})" if channel.name else ""}
        for channel in state.channels
    ]
    return [
        ExplainedSetting(*(row[name].format(**values | own) for name in ("setting", "value", "costs", "can_lose")))
        for row in ROWS
        for own in (channels if "uses_gtid" in row["when"] else [{}])
        if all(_holds(condition, values | own) for condition in row["when"].split())
    ]


def _holds(condition: str, values: Mapping[str, object]) -> bool:
    """Returns whether a condition NAME=VALUE or NAME!=VALUE holds."""
    name, _, value = condition.partition("=")
    return (str(values[name.removesuffix("!")]) == value) != name.endswith("!")
