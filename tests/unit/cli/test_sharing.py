"""An option of a group stands there once, and is given before or behind the command."""

from __future__ import annotations

import pytest

from headrace.cli.app import list_commands, walk_commands
from headrace.cli.main import main
from headrace.cli.sharing import list_options, list_own_options

# Options that have the name of one of a group above them, and more to say: other forms of the output, the default of fio. A value of the group holds for them too.
OF_THEIR_OWN = {("--output", "headrace"), ("--threads", "headrace bench run")}


def test_an_option_of_a_group_means_the_same_below_it():
    names = {name: command for name, command in list_commands()}
    differing = set()
    for name, command, above in walk_commands():
        words = name.split()
        own = {option.name: option for option in list_own_options(command, above)}
        for depth in range(1, len(above) + 1):
            group = " ".join(words[:depth])
            differing |= {
                (option.opts[0], group)
                for option in list_options(names[group])
                if option.name in own and option.name != "help"
            }
    assert differing == OF_THEIR_OWN


@pytest.mark.parametrize(
    "words",
    [
        ["--lab", "{0}", "volume", "list"],
        ["volume", "--lab", "{0}", "list"],
        ["volume", "list", "--lab", "{0}"],
        ["--lab", "{1}", "volume", "list", "--lab={0}"],
    ],
)
def test_the_lab_is_named_before_or_behind_the_command(words, tmp_path, capsys):
    places = tmp_path / "a", tmp_path / "b"
    assert main([word.format(*places) for word in words]) == 3
    assert f"{places[0]}/lab.sock: no lab answers" in capsys.readouterr().err


def test_the_form_of_the_output_stands_before_the_command(capsys):
    answers = []
    for words in (["--output", "csv", "catalog", "volumes"], ["catalog", "volumes", "--output", "csv"]):
        assert main(words) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] and answers[0].startswith("volume_type,")


def test_an_option_of_the_top_stands_between_a_group_and_its_command(capsys):
    """The nearest one holds, and --version stays where it is."""
    assert main(["--output", "json", "catalog", "--output", "csv", "volumes"]) == 0
    assert capsys.readouterr().out.startswith("volume_type,")
    for words in (["lab", "--lab", "/nowhere", "key", "list"], ["lab", "key", "--lab", "/nowhere", "list"]):
        assert main(words) == 3
        assert "/nowhere/lab.sock: no lab answers" in capsys.readouterr().err
    assert main(["catalog", "--lab", "/nowhere", "volumes"]) == 2
    assert "--lab: is not an option of" in capsys.readouterr().err
    assert main(["catalog", "--version", "volumes"]) == 2


def test_a_form_that_a_command_has_not_is_refused(capsys):
    assert main(["--output", "csv", "study"]) == 2
    assert "csv" in capsys.readouterr().err


def test_an_option_of_a_group_that_the_command_has_no_use_for_is_refused(capsys):
    assert main(["failover", "--fenced", "status"]) == 2
    assert "--fenced" in capsys.readouterr().err


def test_the_help_of_a_command_names_the_options_of_its_groups(capsys):
    assert main(["failover", "run", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Options of headrace failover (see its --help): --accept-loss, --rescue, --fenced" in text
    assert "Assert that the old source" not in text
    assert main(["failover", "--help"]) == 0
    assert "Assert that the old source is dead" in " ".join(capsys.readouterr().out.split())
