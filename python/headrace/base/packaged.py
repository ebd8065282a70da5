"""Reads the tables and texts that come with the package, each next to the module that uses it."""

from __future__ import annotations

import csv
from importlib.resources import files


def read_text(package: str, *path: str) -> str:
    """Returns the text of a file in a Python package, such as "headrace.operate.doctor"."""
    return files(package).joinpath(*path).read_text(encoding="utf-8")


def read_rows(package: str, *path: str) -> list[dict[str, str]]:
    """Returns the rows of a CSV file in the folder of a package, by the titles of its columns."""
    return list(csv.DictReader(read_text(package, *path).splitlines()))
