"""Presentation of doctor and watch: lines that fit, figures with their names, charts whose lines
can be told apart."""

from __future__ import annotations

import random
import re
import sys

import pytest
from doctored import evidence
from rich.cells import cell_len

from headrace.cli.output import note
from headrace.observe.evidence import evidence_file
from headrace.operate.watching.moment import LiveVerdict, Moment, VolumeNow
from headrace.operate.watching.screen import ScreenState, as_text, build_screen, build_whole
from headrace.report.words import glue_units

AT_LIMIT = {"over_volume_iops": 0.8, "read_ms": 20.0, "read_p50_ms": 20.0, "read_iops": 190.0, "charged_iops": 300.0}
LONG = "the figures of a sentence that is longer than any terminal are broken between words and never in them "


@pytest.fixture
def seen(tmp_path):
    path = tmp_path / "seen.jsonl"
    evidence_file.save(evidence(AT_LIMIT, {"tps": 30.0, "pool_reads_per_s": 180.0}, storage="io1:100:300"), path)
    return str(path)


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("80", 80), ("132", 132)])
def test_sentences_of_the_doctor_fit_and_commands_stay_whole(call, seen, monkeypatch, columns, width):
    """In a pipe 100 columns; what is to be copied is on one line."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    out = call("doctor", seen)[1].splitlines()
    prose = [line for line in out if "aws ec2" not in line]
    assert max(len(line) for line in prose) <= width and max(len(line) for line in out) > 100
    assert any(line.strip().startswith("aws ec2 modify-volume") and "--throughput" in line for line in out)


def test_figures_have_names_and_units(call, seen, tmp_path):
    """`300 IOPS` twice said nothing: which is the limit?"""
    page = tmp_path / "page.html"
    out = call("doctor", seen, "--report", str(page))[1]
    text = page.read_text()
    for words in ("over the limit 80 % of the time", "rate: 300 IOPS (mean)", "limit: 300 IOPS"):
        assert f"   - {words}\n" in out and f"<li>{glue_units(words)}</li>" in text, words
    assert "Binds: volume IOPS, data." in text


def test_lines_on_the_axis_are_told_in_words(call, seen, tmp_path):
    """Three limits that are never met and no row locks: four lines at 0 hid each other."""
    page = tmp_path / "page.html"
    call("doctor", seen, "--report", str(page))
    text = page.read_text()
    match = re.search(r"It was 0 all the time, and is not drawn: ([^<]*)<", text)
    assert match and match[1] == (
        "over a limit (%): volume MiB/s, instance IOPS, instance MiB/s; threads: waiting for row locks."
    )
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert ">volume IOPS<" in drawn and ">instance IOPS<" not in drawn and ">waiting for row locks<" not in drawn


def moment(draw: random.Random) -> Moment:
    name = "volume-" + "n" * draw.randrange(1, 40)
    notes = tuple(LONG * draw.randrange(1, 4) for _ in range(draw.randrange(4)))
    verdict = LiveVerdict("cannot tell", None, "", (LONG * draw.randrange(1, 3)).strip())
    return Moment("lab:" + name, 0, 1, (verdict,), (VolumeNow(name, name, "gp3:10"),), notes=notes)


def test_nothing_is_cut_in_a_pipe():
    """Each word of each sentence, and the whole name of a volume; the columns stay below their
    titles."""
    draw = random.Random(7)
    for _ in range(50):
        entry = moment(draw)
        text = as_text(build_whole(entry))
        assert entry.verdict.text in text and all(note.strip() in text for note in entry.notes) and "…" not in text
        rows = text.splitlines()
        titles, row = (
            next(line for line in rows if line.startswith(word)) for word in ("volume  ", entry.volumes[0].id)
        )
        assert (
            entry.volumes[0].label in row and titles.index("IOPS") + 4 == row.index("-", len(entry.volumes[0].id)) + 1
        )


def test_sentences_of_a_screen_are_broken_between_words():
    """The verdict and a message take up to three lines; a terminal's lines are as many as before."""
    draw = random.Random(8)
    for _ in range(50):
        width, height = draw.randrange(80, 200), draw.randrange(24, 60)
        entry = moment(draw)
        result = build_screen(
            entry, width, height, ScreenState(message="written to /" + "folder/" * 20 + "moment.json")
        )
        text = [line.plain for line in result]
        assert len(text) == height and all(cell_len(line) <= width for line in text)
        assert "moment.json" in "".join(text[-3:]).replace(" ", "")
        assert " ".join(" ".join(text).split()).startswith(f"cannot tell: {entry.verdict.text}"[: 2 * width - 30])


@pytest.mark.parametrize(("terminal", "most"), [(True, 60), (False, 10_000)])
def test_notes_are_broken_where_a_terminal_is_narrow(monkeypatch, capsys, terminal, most):
    """`headrace advise` tells its notes so."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    note(f"note: {LONG}")
    err = capsys.readouterr().err
    assert " ".join(err.split()) == f"note: {LONG}".strip()
    assert max(len(line) for line in err.splitlines()) <= most and (err.count("\n") == 1) is not terminal
