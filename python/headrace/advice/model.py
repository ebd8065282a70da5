"""What the advice is made of: the server it is for, and one recommended setting."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.base.checks import did_you_mean, shown
from headrace.errors import InputError

DOC = "docs/reference/advice.md"
FLAVORS = ("mysql", "mariadb", "percona")
ENGINES = ("innodb", "myrocks")
DURABILITIES = ("full", "relaxed")
SAFE, SLOWER, LOSSY = "safe", "loses performance", "can lose data"
RISKS = (SAFE, SLOWER, LOSSY)
NOT_ESTIMATED = "cannot be estimated"
# A series without its patch number is taken as its newest release.
NEWEST_PATCH = 9_999
VERSION = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\.(\d{1,4}))?(?:[-+~. ][\x20-\x7e]{0,120})?\Z", re.ASCII)
LABELS = {"mysql": "MySQL", "mariadb": "MariaDB", "percona": "Percona Server"}
KNOWN = {"mysql": "5.7, 8.0 to 8.4 and 9", "percona": "5.7, 8.0 to 8.4", "mariadb": "10.2 to 10.11 and 11"}


@dataclass(frozen=True)
class Server:
    """A server's flavor and version (major, minor, patch); `patch_known` False: the newest of its series is meant."""

    flavor: str
    version: tuple[int, int, int]
    patch_known: bool = True

    @property
    def label(self) -> str:
        """`MySQL 8.0.36`, `MariaDB 10.11 (newest)`."""
        major, minor, patch = self.version
        return f"{LABELS[self.flavor]} {major}.{minor}" + (f".{patch}" if self.patch_known else " (newest)")

    def between(self, first: str, last: str) -> bool:
        """Whether it is of `first` or later and of `last` or earlier; "8.0" as `last` holds all of 8.0, "" everything later."""
        low, high = _numbers(first), _numbers(last)
        return self.version[: len(low)] >= low and (not high or self.version[: len(high)] <= high)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def server_of(flavor: object, version: object) -> Server:
    """The server of a flavor and a version: a tuple, or text as `SELECT VERSION()` gives it. Raises InputError for what is not known here."""
    if flavor not in FLAVORS:
        raise InputError(
            f"flavor = {shown(flavor)}", f"must be one of {', '.join(FLAVORS)}", DOC, did_you_mean(flavor, FLAVORS) or "Say --flavor mysql."
        )
    if isinstance(version, (tuple, list)):
        whole = len(version) >= 2 and all(isinstance(part, int) and not isinstance(part, bool) and 0 <= part <= 9_999 for part in version)
        version_text = ".".join(str(part) for part in version[:3]) if whole else ""
    else:
        version_text = version.strip() if isinstance(version, str) else ""
    match = VERSION.match(version_text)
    if match is None:
        raise InputError(
            f"version = {shown(version)}", "is no version number", DOC, "Write it as SELECT VERSION() does, for example 8.0.36."
        )
    major, minor, patch = int(match[1]), int(match[2]), match[3]
    known = {
        "mysql": (major, minor) == (5, 7) or (major == 8 and minor <= 4) or major == 9,
        "percona": (major, minor) == (5, 7) or (major == 8 and minor in (0, 1, 2, 3, 4)),
        "mariadb": (major == 10 and 2 <= minor <= 11) or major == 11,
    }[flavor]
    if not known:
        raise InputError(
            f"{LABELS[flavor]} {major}.{minor}", f"is not known here; known are {KNOWN[flavor]}", DOC,
            "Names of settings differ between versions: name the flavor and the version it is." if _other_flavor(flavor, major)
            else "Ask for the nearest known version, and check the names against `mysqld --verbose --help`.",
        )  # fmt: skip
    return Server(flavor, (major, minor, int(patch) if patch else NEWEST_PATCH), patch is not None)


def _other_flavor(flavor: str, major: int) -> bool:
    return (flavor == "mariadb") == (major < 10)


@dataclass(frozen=True)
class Advice:
    """One recommended setting.

    `parameter`: its name on that server. `value`: as it may stand in an option file (bytes with K, M, G). `current`: the server's value today, None: not known.
    `why`: how the value follows from storage, memory, processors or workload. `source`: what says so, with its date. `risk`: one of RISKS, of the value advised.
    `effect`: what the simulator expects of the change (the workload's transactions a second), or why that cannot be estimated; None: nothing was asked.
    `applies_to`: what feels it: server, replicas, sources, client, host. `group`: chapter of docs/reference/advice.md. `settable`: whether it belongs into the option
    file as it is; False: it needs a decision, a folder or a rollout. `active`: whether the option file gets it as a line, not as a comment: settable, and safe or part
    of the durability asked for. `differs`: whether `current` is another value; None: not known. `id`: the parameter's name in docs/reference/advice.md. `default`: the server's own default ("": none, or computed by the server).
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
class Finding:
    """A setting of the given server or file that this server does not know, or that contradicts the advice."""

    parameter: str
    text: str
    source: str
