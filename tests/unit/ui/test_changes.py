"""Changes of the lab from the page: refused without the flag, proposed with the command that they equal, carried out once."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from headrace.cli.app import list_commands
from headrace.errors import InputError
from headrace.ui.changes import ACTIONS, MOST_TICKETS, AskChange, AskTicket, LabChanges
from headrace.ui.server import PageServer

SETTINGS = {
    "create": {"name": "db", "attach": False},
    "modify": {"type": "gp3", "iops": 6000, "mib_s": 250, "size_gib": 600},
    "snapshot": {"description": "before the change; rm -rf /"},
    "fault": {"kind": "latency", "seconds": 5, "extra_ms": 20.5, "op": "write"},
}
WORDS = {
    "create": ["volume", "create", "gp3:20", "--name", "db"],
    "attach": ["volume", "attach", "gp3:20"],
    "modify": ["volume", "modify", "gp3:20", "--type", "gp3", "--size-gib", "600", "--iops", "6000", "--mib-s", "250"],
    "snapshot": ["snapshot", "create", "gp3:20", "--description", "before the change; rm -rf /"],
    "fault": ["volume", "fault", "gp3:20", "latency", "--seconds", "5", "--extra-ms", "20.5", "--op", "write"],
    "clear": ["volume", "fault", "gp3:20", "--clear", "all"],
}


class RecordingLab:
    """A lab as far as changes go: it writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def create(self, spec, name=None):
        self.calls.append(("create", spec, name))
        return {"id": "vol-1"}

    def attach(self, volume):
        self.calls.append(("attach", volume))
        return {"id": volume}

    def create_snapshots(self, volumes, description=None):
        self.calls.append(("snapshot", volumes, description))
        return []

    def clear_fault(self, volume):
        self.calls.append(("clear", volume))
        return 1

    def modify(self, volume, *change):
        self.calls.append(("modify", volume, *change))
        return {}

    def fault(self, volume, kind, **settings):
        self.calls.append(
            ("fault", volume, kind, {name: value for name, value in settings.items() if value is not None})
        )
        return {}

    def close(self) -> None: ...


@pytest.fixture
def lab() -> RecordingLab:
    return RecordingLab()


@pytest.mark.parametrize("action", ACTIONS)
def test_the_command_that_is_shown_is_one_of_the_command_line(action, lab):
    proposal = LabChanges(lambda: lab).propose(AskChange(action, "gp3:20", SETTINGS.get(action, {})))
    [line] = cast("list[str]", proposal["commands"])
    words = shlex.split(line)[1:]
    assert words == WORDS[action] and not lab.calls and proposal["consequence"]
    command = dict(list_commands())[f"headrace {words[0]} {words[1]}"]
    command.make_context(words[1], words[2:])  # it is parsed, and not run


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        ("create", [("create", "gp3:20", "db")]),
        ("attach", [("attach", "gp3:20")]),
        ("modify", [("modify", "gp3:20", 600, "gp3", 6000, 250)]),
        ("snapshot", [("snapshot", ["gp3:20"], "before the change; rm -rf /")]),
        ("fault", [("fault", "gp3:20", "latency", {"seconds": 5.0, "extra_ms": 20.5, "op": "write"})]),
        ("clear", [("clear", "gp3:20")]),
    ],
)  # fmt: skip
def test_a_change_is_carried_out_once(action, calls, lab):
    changes = LabChanges(lambda: lab)
    ticket = changes.propose(AskChange(action, "gp3:20", SETTINGS.get(action, {})))["ticket"]
    changes.carry_out(AskTicket(ticket))
    assert lab.calls == calls
    with pytest.raises(InputError, match="confirmed before"):
        changes.carry_out(AskTicket(ticket))
    assert lab.calls == calls


def test_a_new_volume_is_attached_where_nothing_is_said(lab):
    changes = LabChanges(lambda: lab)
    proposal = changes.propose(AskChange("create", "gp2:10"))
    changes.carry_out(AskTicket(proposal["ticket"]))
    assert proposal["commands"] == ["headrace volume create gp2:10 --attach"] and lab.calls[1] == ("attach", "vol-1")


@pytest.mark.parametrize(
    "ask",
    [
        AskChange("delete", "db"), AskChange("create", ""), AskChange("create", " "), AskChange("attach", "--force"), AskChange("fault", "db", {"caps": 1}),
        AskChange("fault", "db", {"seconds": "5"}), AskChange("modify", "db", {"iops": 1.5}), AskChange("attach", "db", {"force": True}),
    ],
)  # fmt: skip
def test_what_is_no_change_is_not_proposed(ask, lab):
    with pytest.raises(InputError):
        LabChanges(lambda: lab).propose(ask)


def test_a_change_without_a_change_is_not_proposed(lab):
    with pytest.raises(InputError, match="would not be changed") as refusal:
        LabChanges(lambda: lab).propose(AskChange("modify", "db"))
    assert "mib_s" in refusal.value.hint


def test_few_proposals_wait(lab):
    changes = LabChanges(lambda: lab)
    tickets = [changes.propose(AskChange("attach", f"v{number}"))["ticket"] for number in range(MOST_TICKETS + 1)]
    assert len(set(tickets)) == len(tickets)
    with pytest.raises(InputError):
        changes.carry_out(AskTicket(tickets[0]))
    changes.carry_out(AskTicket(tickets[-1]))


def test_without_the_flag_the_server_refuses(visitor):
    for name, question in (("propose", {"action": "attach", "subject": "db"}), ("change", {"ticket": "a"})):
        status, answer = visitor.ask(name, question)
        assert status == 400 and "--allow-changes" in answer["error"]["hint"]
    assert visitor.ask("start", {})[1]["actions"] == []


@pytest.fixture
def changing(lab) -> Iterator[PageServer]:
    """A page that may change the lab."""
    page = PageServer(open_lab=lambda: lab, allow_changes=True)
    thread = threading.Thread(target=page.run)
    thread.start()
    yield page
    page.stop()
    thread.join(30)


def test_with_the_flag_a_stranger_changes_nothing(changing, lab, visitor):
    """The cookie of another page, no cookie, another origin, a form: nothing is proposed, and a ticket is worth nothing."""
    own = type(visitor)(changing)
    own.open(changing.keys.token)
    ticket = own.ask("propose", {"action": "attach", "subject": "db"})[1]["ticket"]
    body = json.dumps({"ticket": ticket}).encode()
    for key, cookie, headers in (
        ("none", "", {}), (visitor.key, visitor.cookie, {}), (own.key, "", {}), ("none", own.cookie, {}),
        (own.key, own.cookie, {"Origin": "https://evil.example"}), (own.key, own.cookie, {"Sec_Fetch_Site": "cross-site"}),
        (own.key, own.cookie, {"Content_Type": "application/x-www-form-urlencoded"}), (own.key, own.cookie, {"Host": "evil.example"}),
    ):  # fmt: skip
        stranger = type(visitor)(changing, cookie, key)
        assert stranger.send("POST", "/api/change", body, **headers)[0] >= 400
        assert stranger.send("POST", "/api/propose", b'{"action": "attach", "subject": "db"}', **headers)[0] >= 400
    assert lab.calls == []
    assert own.ask("change", {"ticket": ticket})[0] == 200 and lab.calls == [("attach", "db")]
