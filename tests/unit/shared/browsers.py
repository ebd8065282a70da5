"""Debian's Chromium through Playwright, for tests and benchmarks of the page."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

# A container has no user namespaces for the sandbox, and a small /dev/shm.
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")


def lacking() -> str:
    """Names what a browser lacks here and how to get it; empty where it can be started."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: pip install playwright"
    return "" if shutil.which("chromium") else "chromium is not installed: apt-get install chromium"


@contextlib.contextmanager
def launched(*arguments: str) -> Iterator[Any]:
    """A browser, ended with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=[*ARGUMENTS, *arguments])
        try:
            yield browser
        finally:
            browser.close()
