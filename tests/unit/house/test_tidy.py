"""The style guide holds: what `make lint` finds without tools of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from places import ROOT

_spec = importlib.util.spec_from_file_location("tidy", ROOT / "tests/tidy.py")
tidy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tidy)


def test_nothing_to_complain_about():
    assert not tidy.complaints()


def test_openings_of_rust_comments_are_found(tmp_path, monkeypatch):
    path = tmp_path / "wrong.rs"
    path.write_text(
        "//! What it is.\n\n/// Size, bytes.\n///\n/// - Its\n///   name.\n/// ```text\n/// Of code\n/// ```\n"
        '/// A day. Whether\n/// it rains.\nlet url = "http://a"; // As before.\n// Space of\n// Its files.\n'
    )
    monkeypatch.setattr(tidy, "ROOT", Path(tmp_path))
    assert [line.split(":")[1] for line in tidy.riddles_of_rust(path)] == ["1", "5", "10", "12"]


@pytest.mark.parametrize(
    ("check", "source"),
    [
        ("bare_constants", "X = 1\n\nSTEPS = 4 * 1024\n"),
        ("laid_out_by_hand", "def f():\n    return (1,\n            2)  # fmt: skip\n"),
        ("wide_prose", f'"""{"long " * 25}."""\n'),
        ("riddles", 'HELP = "Of the test tables. Default: none."\n'),
        ("riddles", 'raise ValueError("is no database")\n'),
        ("riddles", "x = 1  # ended kindly\n"),
        ("openings", 'def f():\n    """What it returns."""\n'),
        ("openings", 'class Volume:\n    """As EC2 shows it."""\n'),
        ("openings", "# Of a volume, s.\nX_S = 1.0\n"),
        ("openings", "X_S = 1.0  # Whether it is encrypted.\n"),
    ],
)
def test_what_is_wrong_is_found(check, source, tmp_path, monkeypatch):
    path = tmp_path / "wrong.py"
    path.write_text(source)
    monkeypatch.setattr(tidy, "ROOT", Path(tmp_path))
    assert getattr(tidy, check)(path)


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Returns what is left."""\n',
        "# A comment of two lines says\n# What follows in its second.\n",
        'X = f"{1}. What follows a value is the middle of a sentence"\n',
        '"""Generated from crates/protocol."""\n\nx: int  # Its size.\n',
    ],
)
def test_openings_that_are_right_pass(source, tmp_path, monkeypatch):
    path = tmp_path / "python" / "right.py"
    path.parent.mkdir()
    path.write_text(source)
    monkeypatch.setattr(tidy, "ROOT", Path(tmp_path))
    assert tidy.openings(path) == []


@pytest.mark.parametrize("top, wrong", [("python", True), ("tests", False)])
def test_messages_count_in_the_package_alone(top, wrong, tmp_path, monkeypatch):
    path = tmp_path / top / "said.py"
    path.parent.mkdir()
    path.write_text('raise ValueError("Whose is it?")\n')
    monkeypatch.setattr(tidy, "ROOT", Path(tmp_path))
    assert bool(tidy.openings(path)) == wrong
