"""Flavor and version of a server as people write them: `mariadb-10.11`, `8.4`, or what SELECT
VERSION() returns."""

from __future__ import annotations

import re

FLAVORS = ("mysql", "percona", "mariadb")
_WITH_FLAVOR = re.compile(rf"({'|'.join(FLAVORS)})[- _](?=\d)(.*)", re.IGNORECASE | re.DOTALL)
# MariaDB's versions began at 10.0 in 2014; MySQL has no 10, 11 and 12.
MARIADB_MAJORS = ("10", "11", "12")
# The last series of each major version (2026-11); None: further ones may come.
LAST_SERIES: dict[str, dict[int, int | None]] = {
    "mysql": {5: 7, 8: 4, 9: None},
    "mariadb": {5: 5, 10: 11, 11: 8, 12: None},
}
# Stands for the patch number of a series that is given without one: above every real one.
NEWEST_PATCH = 9_999
# A server puts words behind a whole number alone (10.11.19-MariaDB-log), so those behind a series
# (8.4-lts) are a slip.
_VERSION = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\.(\d{1,4})(?:[-+~. ][\x20-\x7e]{0,120})?)?\Z", re.ASCII)


def split_release(text: str) -> tuple[str | None, str]:
    """Returns flavor (None: the text does not name one) and version of `mariadb-10.11`."""
    match = _WITH_FLAVOR.fullmatch(text.strip())
    return (None, text) if match is None else (match[1].lower(), match[2])


def find_number(version: str) -> str:
    """Returns the number at the beginning of a version, 10.11.19 of 10.11.19-MariaDB-log; the text
    itself if it does not begin with a number."""
    match = re.match(r"\d+(\.\d+){0,2}", version.strip())
    return version if match is None else match[0]


def parse_version(version: str) -> tuple[int, int, int | None] | None:
    """Returns major, minor and patch number (None: not given) of a version; None if the text is not
    a version."""
    match = _VERSION.match(version.strip())
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]) if match[3] else None)


def exists(flavor: str, major: int, minor: int) -> bool:
    """Returns whether a flavor, mysql or mariadb, has this series, such as 8.4."""
    last = LAST_SERIES[flavor].get(major, -1)
    return last is None or minor <= last


def describe_newest(version: str) -> str:
    """Returns the note on a version that was given without a patch number."""
    return f"{version} without a patch number: the newest of that series is meant"


def detect_flavor(version: str) -> str:
    """Returns the flavor of a version, mariadb or mysql, by the name in it or its major number."""
    lowered = version.lower()
    return "mariadb" if "mariadb" in lowered or lowered.partition(".")[0].strip() in MARIADB_MAJORS else "mysql"
