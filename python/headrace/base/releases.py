"""Flavor and version of a server as people write them: `mariadb-10.11`, `8.4`, or what SELECT
VERSION() returns."""

from __future__ import annotations

import re

FLAVORS = ("mysql", "percona", "mariadb")
_WITH_FLAVOR = re.compile(rf"({'|'.join(FLAVORS)})[- _](?=\d)(.*)", re.IGNORECASE | re.DOTALL)
# MariaDB's versions began at 10.0 in 2014; MySQL has no 10, 11 and 12.
MARIADB_MAJORS = ("10", "11", "12")


def split_release(text: str) -> tuple[str | None, str]:
    """(flavor, version); the flavor is None where the text does not begin with one."""
    found = _WITH_FLAVOR.fullmatch(text.strip())
    return (None, text) if found is None else (found[1].lower(), found[2])


def number_in(version: str) -> str:
    """The number alone: 10.11.19 of 10.11.19-MariaDB-log; the text as it is where it begins with
    none."""
    found = re.match(r"\d+(\.\d+){0,2}", version.strip())
    return version if found is None else found[0]


def flavor_of_version(version: str) -> str:
    """The flavor whose version this must be: its name in it, or its numbers."""
    lowered = version.lower()
    return "mariadb" if "mariadb" in lowered or lowered.partition(".")[0].strip() in MARIADB_MAJORS else "mysql"
