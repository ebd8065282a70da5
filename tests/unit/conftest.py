"""Fixtures that the tests of commands share."""

from __future__ import annotations

import pytest

from headrace.cli import main as cli


@pytest.fixture
def call(capsys):
    """Runs a command in this process: exit code, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(list(arguments))
        out = capsys.readouterr()
        return code, out.out, out.err

    return run
