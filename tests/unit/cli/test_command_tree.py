"""docs/reference/commands.md shows every command on one page, and is what the commands are today."""

from __future__ import annotations

import importlib.util
import re

from places import ROOT

from headrace.cli.app import COMMANDS, list_commands

_spec = importlib.util.spec_from_file_location("command_pages", ROOT / "packaging/command_pages.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
ADVANCED, SUBJECTS, main, tree = _module.ADVANCED, _module.SUBJECTS, _module.main, _module.tree
PAGE = ROOT / "docs/reference/commands.md"


def test_the_page_is_current():
    assert PAGE.read_text() == tree(), "run python packaging/command_pages.py docs/reference/commands.md"


def test_every_command_and_group_stands_in_it_once():
    links = re.findall(r"\(cli\.md#([\w-]+)\)", tree())
    names = [name.replace(" ", "-") for name, _ in list_commands() if name != "headrace"]
    assert sorted(links) == sorted(names)


def test_every_command_of_the_help_has_a_subject():
    named = [name for names in SUBJECTS.values() for name in names]
    assert sorted(named) == sorted(COMMANDS)


def test_entries_for_advanced_use_exist_and_say_so():
    rows = {match[1]: line for line in tree().splitlines() if (match := re.match(r"\| \[`([^`]+)`\]", line))}
    assert ADVANCED and set(ADVANCED) <= set(rows)
    assert {name for name, row in rows.items() if "*Advanced:" in row} == set(ADVANCED)


def block() -> list[str]:
    """The lines of the tree."""
    return tree().partition("```\n")[2].partition("\n```")[0].splitlines()


def test_the_tree_fits_one_screen():
    # 40 lines of 20 pixels are what a browser shows on a screen of 1,080 pixels below its own bars and the page's head.
    assert len(block()) <= 40 and max(map(len, block())) <= 100


def test_every_command_stands_in_the_tree():
    words = [word for line in block() if line.startswith("  ") for word in re.split(r"[,\s*]+", line) if word]
    # The line of a group below another one, `lab key`, begins with the other's name.
    names = [name.split()[-1] for name, _ in list_commands() if name != "headrace"]
    assert sorted(words) == sorted([*names, "lab", "bench"])
    marked = re.findall(r"(?:^|[ ,])([a-z]+(?: [a-z]+)?) \*", "\n".join(block()), re.MULTILINE)
    assert sorted(marked) == sorted(ADVANCED)


def test_the_check_tells_the_pages_apart(tmp_path):
    page, other = tmp_path / "commands.md", tmp_path / "cli.md"
    assert main([str(page), str(other)]) == 0 and page.read_text() == tree()
    assert main(["--check", str(page), str(other)]) == 0
    page.write_text("old\n")
    assert main(["--check", str(other)]) == 0
    assert main(["--check", str(page), str(other)]) == 1
    assert main([str(tmp_path / "another.md")]) == 2


def test_one_meaning_has_one_name():
    """Options whose values mean the same are called the same in every command."""
    metavars: dict[str, set[str]] = {}
    for _, command in list_commands():
        for param in command.params:
            if param.param_type_name == "option" and param.metavar and not getattr(param, "is_flag", False):
                metavars.setdefault(param.metavar, set()).update(name for name in param.opts if name.startswith("--"))
    of_replicas = {"--replica", "--replica-log-storage", "--relay-storage"}
    assert metavars["SPEC"] == {"--storage", "--log-storage"} | of_replicas
    assert (
        metavars["YYYY-MM-DD"] == {"--as-of"}
        and metavars["REGION"] == {"--region", "--kms-region"}
        and metavars["TYPE"] == {"--instance", "--type", "--replica-instance"}
    )
    for metavar, ending in (("GIB", "-gib"), ("KIB", "-kib"), ("SHARE", "")):
        assert all(name.endswith(ending) for name in metavars[metavar]), metavar
    everywhere = {name for names in metavars.values() for name in names}
    assert not everywhere & {"--plot", "--memory", "--instance-type", "--duration", "--html", "--current", "--data"}
