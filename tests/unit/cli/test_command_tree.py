"""docs/reference/commands.md shows every command on one page, and is what the commands are today."""

from __future__ import annotations

import re

from places import ROOT

from headrace.cli.app import COMMANDS, commands
from headrace.cli.reference import ADVANCED, SUBJECTS, main, tree

PAGE = ROOT / "docs/reference/commands.md"


def test_the_page_is_current():
    assert PAGE.read_text() == tree(), "run python -m headrace.cli.reference docs/reference/commands.md"


def test_every_command_and_group_stands_in_it_once():
    links = re.findall(r"\(cli\.md#([\w-]+)\)", tree())
    names = [name.replace(" ", "-") for name, _ in commands() if name != "headrace"]
    assert sorted(links) == sorted(names)


def test_every_command_of_the_help_has_a_subject():
    named = [name for names in SUBJECTS.values() for name in names]
    assert sorted(named) == sorted(COMMANDS)


def test_entries_for_advanced_use_exist_and_say_so():
    rows = {match[1]: line for line in tree().splitlines() if (match := re.match(r"\| \[`([^`]+)`\]", line))}
    assert ADVANCED and set(ADVANCED) <= set(rows)
    assert {name for name, row in rows.items() if "*Advanced:" in row} == set(ADVANCED)


def test_it_fits_one_screen():
    # 60 lines of text is what a browser shows at once on a screen of 1,200 pixels (20 pixels a line).
    assert len(tree().splitlines()) <= 60


def test_the_check_tells_the_pages_apart(tmp_path):
    page, other = tmp_path / "commands.md", tmp_path / "cli.md"
    assert main([str(page), str(other)]) == 0 and page.read_text() == tree()
    assert main(["--check", str(page), str(other)]) == 0
    page.write_text("old\n")
    assert main(["--check", str(other)]) == 0
    assert main(["--check", str(page), str(other)]) == 1
    assert main([str(tmp_path / "another.md")]) == 2
