"""Parts of the advice: the version of a server, an advised setting, and a finding."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.base.checks import check_choice, quote_value
from headrace.base.releases import NEWEST_PATCH, parse_version
from headrace.errors import Refusals

refuse = Refusals("docs/reference/advice.md")
FLAVORS = ("mysql", "mariadb", "percona")
ENGINES = ("innodb", "myrocks")
DURABILITIES = ("full", "relaxed")
SAFE, SLOWER, LOSSY = "safe", "loses performance", "can lose data"
RISKS = (SAFE, SLOWER, LOSSY)
NOT_ESTIMATED = "cannot be estimated"
LABELS = {"mysql": "MySQL", "mariadb": "MariaDB", "percona": "Percona Server"}
KNOWN = {"mysql": "5.7, 8.0 to 8.4 and 9", "percona": "5.7, 8.0 to 8.4", "mariadb": "10.2 to 10.11 and 11"}


@dataclass(frozen=True)
class ServerVersion:
    """Flavor and version (major, minor, patch); without `patch_known` the newest of the series."""

    flavor: str
    version: tuple[int, int, int]
    patch_known: bool = True

    @property
    def number(self) -> str:
        """`8.0.36`, or `8.0` without a patch number."""
        return ".".join(str(part) for part in self.version[: 3 if self.patch_known else 2])

    @property
    def label(self) -> str:
        """`MySQL 8.0.36`, `MariaDB 10.11 (newest)`."""
        return f"{LABELS[self.flavor]} {self.number}{'' if self.patch_known else ' (newest)'}"

    def lies_between(self, first: str, last: str) -> bool:
        """Returns whether the version is `first` or later and `last` or earlier.

        "8.0" as `last` includes all of 8.0; "" includes everything later.
        """
        low, high = _parse_numbers(first), _parse_numbers(last)
        return self.version[: len(low)] >= low and (not high or self.version[: len(high)] <= high)


def _parse_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def parse_server(flavor: object, version: object) -> ServerVersion:
    """Returns the server of a flavor and a version: a tuple, or text as `SELECT VERSION()` gives
    it.

    Raises InputError for flavors and versions that the tables do not have.
    """
    flavor = check_choice("flavor", flavor, FLAVORS, refuse, "Say --flavor mysql.")
    text = version if isinstance(version, str) else ""
    if isinstance(version, tuple | list) and len(version) >= 2:
        text = ".".join(str(part) for part in version[:3])
    parsed = parse_version(text)
    if parsed is None:
        hint = "Write it as SELECT VERSION() does, for example 8.0.36."
        raise refuse.input(f"version = {quote_value(version)}", "is not a version number", hint)
    major, minor, patch = parsed
    is_supported = {
        "mysql": (major, minor) == (5, 7) or (major == 8 and minor <= 4) or major == 9,
        "percona": (major, minor) == (5, 7) or (major == 8 and minor <= 4),
        "mariadb": (major == 10 and 2 <= minor <= 11) or major == 11,
    }[flavor]
    if not is_supported:
        rule = f"is not known here; known are {KNOWN[flavor]}"
        hint = "Ask for the nearest known version, and check the names against `mysqld --verbose --help`."
        if (flavor == "mariadb") == (major < 10):  # that number belongs to the other flavor
            hint = "Settings have other names in other versions: give the flavor and the version of your server."
        raise refuse.input(f"{LABELS[flavor]} {major}.{minor}", rule, hint)
    return ServerVersion(flavor, (major, minor, NEWEST_PATCH if patch is None else patch), patch is not None)


@dataclass(frozen=True)
class AdvisedSetting:
    """One recommended setting.

    `parameter`: its name on that server; `id`: its name in docs/reference/advice.md. `value`: as it
    may stand in an option file (bytes with K, M, G). `current`: the server's value today, None: not
    known. `default`: the server's own default ("": none, or computed by the server). `differs`:
    whether today's value is another one; None: not known. `why`: how the value follows from
    storage, memory, processors or workload. `source`: what says so, with its date. `risk`: one of
    RISKS, of the advised value. `effect`: what the simulator expects of the change in transactions
    a second, or why it cannot be estimated; None: there is nothing to estimate. `applies_to`:
    server, replicas, sources, client or host. `group`: its chapter of docs/reference/advice.md.
    `settable`: False when it needs a decision, a folder or a rollout first. `active`: whether it
    becomes a line of the option file and not a comment: settable, and safe or part of the
    durability that was asked for.
    """

    parameter: str
    value: str
    current: str | None
    why: str
    source: str
    risk: str
    effect: str | None
    applies_to: str
    group: str = ""
    settable: bool = True
    active: bool = True
    differs: bool | None = None
    default: str = ""
    id: str = ""


@dataclass(frozen=True)
class ConfigFinding:
    """A fault of a setting of today. `fails_check`: whether `Advice.agrees` is False because of it:
    the server refuses or ignores it, or it can lose data; others only cost performance."""

    parameter: str
    text: str
    source: str
    fails_check: bool = True
