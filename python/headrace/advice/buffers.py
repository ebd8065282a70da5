"""Memory that a server can take at the most: buffers of the server, and of every connection that
it admits (buffers.csv has names and defaults, with their sources).

    max_connections x (sort, join, read, random read, binlog cache, stack) + buffers of the server

is the formula of the MySQL manual ("How MySQL Uses Memory"). A statement may take several join
buffers, and temporary tables come on top: a server can take more still. Hardly ever do all
connections sort and join at once, so the sum is a bound to know, not a forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from headrace.advice.model import ConfigFinding, ServerVersion
from headrace.advice.table import sources
from headrace.advice.values import as_bytes, as_number
from headrace.base.packaged import read_rows
from headrace.base.units import GIB, MIB

# max_connections of both flavors where nobody sets it (their manuals).
CONNECTIONS = 151.0
# Code, tables' definitions and the kernel: half a GiB, and a twentieth of larger machines (a
# guess; the same that innodb_buffer_pool_size leaves at the least).
LEAST_REST_GIB, REST_SHARE = 0.5, 0.05
# The greatest connection buffers named in a sentence.
NAMED = 3


@dataclass(frozen=True)
class MostMemory:
    """The most memory that a server takes besides its buffer pool, bytes: `server_bytes`, and
    `each_bytes` for each of `connections`. `largest`: a connection's largest buffers by name."""

    server_bytes: float
    connections: float
    each_bytes: float
    largest: tuple[tuple[str, float], ...]

    @property
    def bytes(self) -> float:
        """The sum of all buffers."""
        return self.server_bytes + self.connections * self.each_bytes

    @property
    def words(self) -> str:
        """The sum and its parts in words."""
        named = ", ".join(f"{name} {_format_memory(value)}" for name, value in self.largest)
        return (
            f"{self.connections:,.0f} connections x {_format_memory(self.each_bytes)} ({named}) and {_format_memory(self.server_bytes)} of "
            f"other buffers: {_format_memory(self.bytes)}"
        )


def compute_most_memory(values: Mapping[str, str], server: ServerVersion) -> MostMemory:
    """Returns the most memory that connections and server buffers take, bytes; a variable that is
    not set has the server's default."""
    flavor = "mariadb" if server.flavor == "mariadb" else "mysql"
    sizes: dict[str, dict[str, float]] = {"server": {}, "connection": {}}
    for row in _read_buffers():
        if row["flavor"] == flavor:
            size = as_bytes(values.get(row["name"]))
            sizes[row["per"]][row["name"]] = float(row["default"]) if size is None else size
    each = sizes["connection"]
    largest = sorted(each.items(), key=lambda entry: -entry[1])[:NAMED]
    connections = as_number(values.get("max_connections")) or CONNECTIONS
    return MostMemory(sum(sizes["server"].values()), connections, sum(each.values()), tuple(largest))


def compute_pool_room_gib(most: MostMemory, memory_gib: float) -> float:
    """Returns the memory that remains for the buffer pool when all connections take their buffers,
    GiB; it may be negative."""
    return memory_gib - most.bytes / GIB - max(LEAST_REST_GIB, REST_SHARE * memory_gib)


def judge_memory(values: Mapping[str, str], server: ServerVersion, memory_gib: float) -> ConfigFinding | None:
    """Returns the finding that the server, with today's buffer pool, can take more memory than
    there is; None where it cannot."""
    most = compute_most_memory(values, server)
    pool = as_bytes(values.get("innodb_buffer_pool_size")) or 128.0 * MIB  # default of both
    if pool + most.bytes <= memory_gib * GIB:
        return None
    text = (
        f"memory at the most: {most.words}, and {_format_memory(pool)} of buffer pool, on a machine of {memory_gib:,.4g} GiB. Lower "
        "the buffers of the connections (set the large ones in the sessions that need them) or max_connections"
    )
    return ConfigFinding("max_connections", text, sources()["mysql-manual"], False)


def _format_memory(bytes_: float) -> str:
    """Writes bytes in GiB, below one in MiB."""
    if bytes_ >= 100 * GIB:
        return f"{bytes_ / GIB:,.0f} GiB"
    return f"{bytes_ / GIB:,.3g} GiB" if bytes_ >= GIB else f"{bytes_ / MIB:,.3g} MiB"


@cache
def _read_buffers() -> tuple[dict[str, str], ...]:
    return tuple(read_rows("headrace.advice", "buffers.csv"))
