"""Flavor and version of a server as people write them: `mariadb-10.11`, `8.4`, or what SELECT
VERSION() returns."""

from __future__ import annotations

import re

FLAVORS = ("mysql", "percona", "mariadb")
_WITH_FLAVOR = re.compile(rf"({'|'.join(FLAVORS)})[- _](?=\d)(.*)", re.IGNORECASE | re.DOTALL)
# MariaDB's versions began at 10.0 in 2014; MySQL has no 10, 11 and 12.
MARIADB_MAJORS = ("10", "11", "12")


def split_release(text: str) -> tuple[str | None, str]:
    """Returns the flavor and the version; the flavor is None if the text does not begin with it."""
    match = _WITH_FLAVOR.fullmatch(text.strip())
    return (None, text) if match is None else (match[1].lower(), match[2])


def find_number(version: str) -> str:
    """Returns the number alone: 10.11.19 of 10.11.19-MariaDB-log; the text itself if it does not
    begin with a number."""
    match = re.match(r"\d+(\.\d+){0,2}", version.strip())
    return version if match is None else match[0]


def detect_flavor(version: str) -> str:
    """Returns the flavor that has this version, from the name in it or from its numbers."""
    lowered = version.lower()
    return "mariadb" if "mariadb" in lowered or lowered.partition(".")[0].strip() in MARIADB_MAJORS else "mysql"
