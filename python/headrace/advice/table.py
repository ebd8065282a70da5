"""The table of parameters: what is known of each (parameters.toml), and what it is called on which
server (names.csv)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from headrace.advice.model import RISKS, ServerVersion
from headrace.base.packaged import read_rows, read_text

GROUPS = ("Memory", "Files and I/O", "Flushing", "Redo log and commits", "Replication", "MyRocks", "Host")
KINDS = ("bytes", "count", "switch", "word", "path", "text")
APPLIES_TO = ("server", "sources", "replicas", "client", "host")
KEYS = ("group", "engine", "kind", "risk", "applies_to", "effect", "rule")
FIXED_KEYS = ("value", "why", "settable")  # of a parameter whose value depends on nothing


@dataclass(frozen=True)
class ParameterName:
    """The name of a parameter on servers of `flavor` from version `first` to `last` ("": the newest
    too), its default on these servers, and the source."""

    parameter: str
    flavor: str
    name: str
    first: str
    last: str
    default: str
    source: str

    def holds(self, server: ServerVersion) -> bool:
        """Returns whether the name is this server's. Percona Server has MySQL's names."""
        flavors = ("mysql", "percona") if server.flavor == "percona" else (server.flavor,)
        return self.flavor in flavors and server.lies_between(self.first, self.last)


@dataclass(frozen=True)
class ServerParameter:
    """A parameter of parameters.toml; `effect`: simulated, arithmetic, or `none: REASON`;
    `value` and `why`: where they depend on nothing, else ""; `settable`: as of a RuleValue."""

    id: str
    group: str
    engine: str
    kind: str
    risk: str
    applies_to: str
    effect: str
    rule: str
    source: tuple[str, ...]
    names: tuple[ParameterName, ...]
    value: str = ""
    why: str = ""
    settable: bool = True

    @property
    def citation(self) -> str:
        """The sources in words."""
        return "; ".join(sources()[key] for key in self.source)

    def find_name(self, server: ServerVersion) -> ParameterName | None:
        """Returns the parameter's name on a server, None where it has no such parameter."""
        return next((name for name in self.names if name.holds(server)), None)

    def get_default(self, server: ServerVersion) -> str:
        """Returns the default on a server; "" where it has none, or the server computes it."""
        name = self.find_name(server)
        return "" if name is None else name.default


@cache
def _read_document() -> dict:
    return tomllib.loads(read_text("headrace.advice", "parameters.toml"))


@cache
def sources() -> dict[str, str]:
    """Returns citations by key."""
    return _read_document()["sources"]


@cache
def read_parameters() -> dict[str, ServerParameter]:
    """Returns all parameters by id, in the order of the file."""
    names: dict[str, list[ParameterName]] = {}
    for row in read_rows("headrace.advice", "names.csv"):
        names.setdefault(row["parameter"], []).append(ParameterName(**row))
    parameters_by_id = {}
    for key, entry in _read_document().items():
        if key == "sources":
            continue
        fields = {name: entry[name] for name in KEYS} | {name: entry[name] for name in FIXED_KEYS if name in entry}
        assert fields["risk"] in RISKS, key
        parameters_by_id[key] = ServerParameter(
            key, **fields, source=tuple(entry["source"]), names=tuple(names.get(key, ()))
        )
    return parameters_by_id


# More names under which servers show or take a parameter.
ALSO = {
    # The variable up to MySQL 5.7 and MariaDB 11.0; the option was transaction_isolation already.
    "tx_isolation": "transaction_isolation",
    # In MariaDB an alias of slave_parallel_threads.
    "slave_parallel_workers": "replica_parallel_workers",
    "log_bin_basename": "log_bin",
}


@cache
def index_names() -> dict[str, str]:
    """Returns the parameter of every name, old or new, with underscores."""
    return {name.name: name.parameter for parameter in read_parameters().values() for name in parameter.names} | ALSO
