"""Options that name a file to write: none of them loses a file that exists."""

from __future__ import annotations

import inspect
import struct
import zlib
from pathlib import Path

import pytest
from places import ROOT

from headrace import workload
from headrace.base.files import check_output
from headrace.cli.app import list_commands
from headrace.cli.writing import Writes, check_outputs, find_outputs
from headrace.errors import InputError
from headrace.report.output import PAGE_MARK, is_own_page, mark_png

# Values of the command line that name files or folders which are only read, or whose command has
# its own rule for a folder (named behind the colon). Everything else with FILE, FOLDER or DIR in
# its help is written, and has to refuse.
NOT_WRITTEN = {
    "--binary-log", "--policy", "--load", "--price-file", "--cost", "--inventory", "--terraform-state", "--terraform-dir",
    "--defaults-file", "--key-file", "--socket", "--from-lab", "--server-path", "--config", "--space", "--webhook-secret",
    "--root", "--datadir", "--log-dir", "--tmp-dir", "--lab", "--from", "--position", "--show", "--password-file",
    "--in", "--folder", "--ca-file", "--key-folder",
}  # fmt: skip
OWN_RULE = {
    "capture --to": "a folder; refused unless it is empty (observe.live.record)",
    "mysql down --save": "a folder to be made, refused where it exists",
    "take --into": "a folder of units; each file goes through check_output",
    "report --patch": "a folder of scripts; each file goes through check_output",
    "doctor --workload": "read",
    "advise --workload": "read",
    "save FOLDER": "must not exist (servers.datadir)",
    "--store": "a store of runs or proofs, in which every run has a folder of its own",
    "--work": "a folder in which one of its own is made",
    "--staging": "a folder in which one of its own is made",
    "--spool": "a folder of its own, looked at before (servers.backup)",
    "--journal": "the journal of failovers, which only grows",
    "--clients": "replaced at each failover; refused where it holds something else (cli.servers.failover)",
    "backup run --to": "a target of backups, in which every backup has a name of its own",
    "backup stream --to": "a target of backups, in which every backup has a name of its own",
}


def file_options():
    """(command, option, parameter) of everything on the command line that names a file or folder."""
    for name, command in list_commands():
        if getattr(command, "commands", None):
            continue
        for parameter in command.params:
            metavar = parameter.metavar or ""
            if any(word in metavar for word in ("FILE", "FOLDER", "DIR", "PATH")) or parameter.name == "to":
                long = [word for word in parameter.opts if word.startswith("--")] or [metavar]
                yield name, long[0], parameter.name


def marked() -> set[tuple[str, str]]:
    """(command, parameter) of the options that the rule covers."""
    result = set()
    for name, command in list_commands():
        if (callback := getattr(command, "callback", None)) is not None and not getattr(command, "commands", None):
            inner = callback
            while inner is not None:
                parameters = inspect.signature(inner, follow_wrapped=False).parameters
                result |= {(name, output) for output in find_outputs(parameters)}
                inner = getattr(inner, "__wrapped__", None)
    return result


def is_exempt(name: str, option: str) -> bool:
    """Returns whether something else than the rule takes care of an option, or nothing is
    written."""
    own = any(f"{name} {option}".endswith(entry) for entry in OWN_RULE)
    # `--to` of a failover is a server.
    return option in NOT_WRITTEN or own or (option == "--to" and name.startswith("headrace failover"))


def test_every_option_that_writes_a_file_is_covered_by_the_rule():
    covered = marked()
    assert len(covered) >= 25  # it finds them
    missing = [
        f"{name} {option}"
        for name, option, parameter in file_options()
        if (name, parameter) not in covered and not is_exempt(name, option) and option.startswith("--")
    ]
    assert missing == []


# Arguments that a command needs besides its output, so that it comes to the rule.
NEEDS = {
    "headrace workload capture": ["mysql://u@h/", "--to", "{folder}/new"],
    "headrace workload import": ["{input}"],
    "headrace workload show": ["demo:day"],
    "headrace plan": ["demo:day"],
    "headrace simulate": ["demo:day", "--storage", "gp3:8"],
    "headrace predict": ["{input}", "--storage", "gp3:8"],
    "headrace calibrate": ["{input}"],
    "headrace compare-run": ["{input}", "{input}"],
    "headrace volume balance": ["db"],
    "headrace volume record": ["db", "start"],
    "headrace replica lag": ["db"],
    "headrace doctor": ["{input}"],
    "headrace forecast": ["{input}", "--storage", "gp3:8"],
    "headrace fleet import": ["{input}"],
    "headrace fleet plan": ["{input}", "--inventory", "{input}"],
    "headrace fleet report": ["{input}"],
    "headrace export template": ["grafana"],
    "headrace bench list": ["1"],
    "headrace bench compare": ["1", "2"],
    "headrace bench run sysbench-oltp": ["mysql://u@h/", "--storage", "gp3:8"],
    "headrace bench run tpcc": ["mysql://u@h/", "--storage", "gp3:8"],
    "headrace bench run mysqlslap": ["mysql://u@h/", "--storage", "gp3:8"],
    "headrace bench run sysbench-fileio": ["--folder", "{folder}"],
    "headrace bench run fio": ["--folder", "{folder}"],
    "headrace study": ["gp3"],
}  # fmt: skip
OPTIONS = sorted(marked())


@pytest.mark.parametrize(("name", "parameter"), OPTIONS, ids=[f"{name[9:]} {entry}" for name, entry in OPTIONS])
def test_a_file_of_something_else_is_never_overwritten(name, parameter, call, tmp_path):
    """Exit code 2 before any work, with --force in the hint, and the bytes stay."""
    option = next(option for other, option, entry in file_options() if (other, entry) == (name, parameter))
    command = next(command for other, command in list_commands() if other == name)
    ending = {"fleet": ".parquet", "bench": ".csv"}.get(name.split()[1], ".toml") if parameter == "to" else ".html"
    target, other = tmp_path / f"precious{ending}", tmp_path / "input.toml"
    target.write_text("mine, for years\n")
    other.write_text("read\n")
    words = [word.format(folder=tmp_path, input=other) for word in NEEDS.get(name, [])]
    code, out, err = call(*name.split()[1:], *words, option, str(target))
    assert code == 2 and f"{option} {target}: exists already" in err and "--force" in err and not out, err
    assert target.read_text() == "mine, for years\n"
    assert any("--force" in param.opts for param in command.params)


def test_calibrate_writes_over_a_file_when_told(call, tmp_path):
    retained = tmp_path / "shop.toml"
    workload.save(workload.new_daily(700, 300, size_gib=100, name="shop"), retained)
    run = str(ROOT / "examples/tpcc-run.toml")
    before = retained.read_bytes()
    assert call("calibrate", run, "-o", str(retained))[0] == 2 and retained.read_bytes() == before
    assert call("calibrate", run, "-o", str(retained), "--force")[0] == 0 and retained.read_bytes() != before


def test_a_page_or_chart_of_ours_is_replaced_and_one_of_others_is_not(call, tmp_path):
    for ending in (".html", ".svg", ".png", ".md"):
        target = tmp_path / f"day{ending}"
        assert call("workload", "show", "demo:hour", "--report", str(target))[0] == 0
        assert is_own_page(target)
        assert call("workload", "show", "demo:day", "--report", str(target))[0] == 0
        target.write_bytes(b"\x89PNG<html>another's")
        code, _, err = call("workload", "show", "demo:day", "--report", str(target))
        assert code == 2 and "exists already" in err


@pytest.mark.parametrize("change", [lambda text: f"{text}\nMy notes.\n", lambda text: text.replace("IOPS", "I/Os", 1)])
def test_markdown_that_was_changed_is_replaced_by_force_only(change, call, tmp_path):
    target = tmp_path / "day.md"
    show = ("workload", "show", "demo:day", "--report", str(target))
    assert call(*show)[0] == 0
    changed = change(target.read_text())
    target.write_text(changed)
    code, _, err = call(*show)
    assert code == 2 and "exists already" in err and "--force" in err and target.read_text() == changed
    assert call(*show, "--force")[0] == 0 and is_own_page(target)


def test_a_marked_png_is_a_png_still():
    """PNG specification, 5.3: each chunk is length, type, data, CRC."""
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + bytes(13) + bytes(4)
    content = mark_png(header + b"rest")
    (length,) = struct.unpack(">I", content[33:37])
    assert content[:33] == header and content[37:41] == b"tEXt" and content.endswith(b"rest")
    assert struct.unpack(">I", content[41 + length : 45 + length])[0] == zlib.crc32(content[37 : 41 + length])


def test_a_file_that_is_read_is_not_written_even_by_force(call, tmp_path):
    day = tmp_path / "day.html"
    day.write_text(PAGE_MARK)
    code, _, err = call("workload", "show", str(day), "--report", str(day), "--force")
    assert code == 2 and "which is read" in err and day.read_text() == PAGE_MARK


def test_an_update_in_place_is_no_overwriting(tmp_path):
    """`calibrate --of shop.toml --replica r.toml -o shop.toml` adds to the file that it names."""
    mine, other = tmp_path / "shop.toml", tmp_path / "other.toml"
    mine.touch(), other.touch()
    to = {"to": ("--to", Writes(updates="of"))}
    check_outputs(to, {"to": mine, "of": mine}, force=False)
    with pytest.raises(InputError, match="exists already"):
        check_outputs(to, {"to": other, "of": mine}, force=False)


def test_a_device_is_refused_in_its_own_words(tmp_path):
    """/dev/null is no file that could be lost: writing says that it is a device."""
    check_output("--to", Path("/dev/null"), force=False)
    with pytest.raises(InputError, match="exists already"):
        (tmp_path / "a").touch()
        check_output("--to", tmp_path / "a", force=False)
