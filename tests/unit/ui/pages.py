"""Helpers that the tests of the page in a browser share."""

from __future__ import annotations

import re
from typing import Any

import pytest


def is_bad(line: Any) -> bool:
    """Returns whether a line of the console is an error, and not Chromium's note of an answer that
    refuses."""
    return line.type == "error" and not re.search("the server responded with a status of (4|503)", line.text)


def violations(page: Any) -> list[str]:
    """Returns the violations that axe-core finds: rule and element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    rules = axe.Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in rules for node in rule["nodes"]]
