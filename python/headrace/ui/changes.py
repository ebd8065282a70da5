"""Changes of the lab, only with `headrace page --allow-changes`. A change is proposed first: its
consequence and the equal command are answered with a ticket, with which it is carried out once."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Annotated

import msgspec

from headrace.base.checks import quote_value, suggest_nearest
from headrace.base.encoding import to_plain
from headrace.base.options import Option, describe
from headrace.lab import Lab
from headrace.lab.changes import FaultKind, FaultSettings, ModificationSettings
from headrace.ui.spelling import read_settings, refuse, spell_command, spell_settings

# Changes that wait for their confirmation: a window has one (chosen).
MOST_TICKETS = 16
TICKET_BYTES = 16  # 128 bits: guessed by nobody
_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
_Settings = Annotated[dict[str, object], msgspec.Meta(max_length=20)]


class AskChange(msgspec.Struct, forbid_unknown_fields=True):
    """A change of the lab to be proposed. `subject`: the volume, or the storage of a new one."""

    action: _Text
    subject: _Text
    settings: _Settings = {}


class AskTicket(msgspec.Struct, forbid_unknown_fields=True):
    """The confirmation of a change."""

    ticket: _Text


@dataclass(frozen=True, kw_only=True)
class NewVolume:
    """The settings of a new volume."""

    name: Annotated[str | None, Option("Name to call it by, unique in the lab.", value="NAME", usual="none")] = None
    attach: Annotated[bool, Option("Attach it at once.")] = True


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """A change without settings."""


@dataclass(frozen=True, kw_only=True)
class NewSnapshot:
    """The settings of a snapshot."""

    description: Annotated[str | None, Option("Words about it.", value="TEXT", usual="none")] = None


@dataclass(frozen=True, kw_only=True)
class NewFault(FaultSettings):
    """Fault of a device, and its length."""

    kind: Annotated[FaultKind, Option("Fault of the device.")] = "pause"


Settings = Mapping[str, object]


@dataclass(frozen=True)
class LabAction:
    """A change that the page offers: its settings, of which at least `least` are needed, the
    function that returns the arguments of its command (`words`, without options), and the one that
    carries it out (`run`)."""

    title: str
    settings: type
    words: Callable[[str, Settings], list[str]]
    run: Callable[[Lab, str, Settings], object]
    consequence: str
    least: int = 0


def _create(lab: Lab, spec: str, given: Settings) -> object:
    volume = lab.create(spec, _read_text(given, "name"))
    return lab.attach(volume["id"]) if given.get("attach", True) else volume


def _modify(lab: Lab, volume: str, given: Settings) -> object:
    return ModificationSettings(**given).begin(lab, volume)  # pyright: ignore[reportArgumentType]


def _begin_fault(lab: Lab, volume: str, given: Settings) -> object:
    fault = NewFault(**given)  # pyright: ignore[reportArgumentType]
    return fault.begin(lab, volume, fault.kind)


def _read_text(given: Settings, name: str) -> str | None:
    value = given.get(name)
    return None if value is None else str(value)


ACTIONS: dict[str, LabAction] = {
    "create": LabAction(
        "Create a volume",
        NewVolume,
        lambda spec, given: ["volume", "create", spec, *(["--attach"] if given.get("attach", True) else [])],
        _create,
        "The lab gets a new volume. Files of the volume take space only as they are written.",
    ),
    "attach": LabAction(
        "Attach",
        NoSettings,
        lambda volume, _: ["volume", "attach", volume],
        lambda lab, volume, _: lab.attach(volume),
        "It becomes a block device, after a measurement of this machine's own path.",
    ),
    "modify": LabAction(
        "Modify",
        ModificationSettings,
        lambda volume, _: ["volume", "modify", volume],
        _modify,
        "A modification cannot be taken back at once, a volume never shrinks, and four in a day are the most: as on EC2.",
        least=1,
    ),
    "snapshot": LabAction(
        "Take a snapshot",
        NewSnapshot,
        lambda volume, _: ["snapshot", "create", volume],
        lambda lab, volume, given: lab.create_snapshots([volume], _read_text(given, "description")),
        "The snapshot has the volume's bytes as they are now; a server on it is not asked to flush.",
    ),
    "fault": LabAction(
        "Begin a fault",
        NewFault,
        lambda volume, given: ["volume", "fault", volume, str(given.get("kind", "pause"))],
        _begin_fault,
        "Every user of the device meets the fault. After a power cut, bytes that were not flushed are gone.",
    ),
    "clear": LabAction(
        "End all faults",
        NoSettings,
        lambda volume, _: ["volume", "fault", volume, "--clear", "all"],
        lambda lab, volume, _: lab.clear_fault(volume),
        "Every fault and every degraded time of the volume ends.",
    ),
}
# Settings that the words of a command have already.
SPELLED_IN_WORDS = {"attach", "kind"}


def describe_actions() -> list[dict[str, object]]:
    """Returns the changes as the page builds their controls."""
    return [
        {"name": name, "title": action.title, "options": describe(action.settings), "consequence": action.consequence}
        for name, action in ACTIONS.items()
    ]


@dataclass(frozen=True)
class Proposal:
    """A change that waits for its confirmation."""

    action: LabAction
    subject: str
    settings: Settings


class LabChanges:
    """Proposes changes of the lab, and carries out each that is confirmed."""

    def __init__(self, open_lab: Callable[[], Lab]) -> None:
        self._open_lab = open_lab
        self._proposals: OrderedDict[str, Proposal] = OrderedDict()
        self._lock = threading.Lock()

    def propose(self, ask: AskChange) -> dict[str, object]:
        """Stores a change and returns the equal command, its consequence, and the ticket with which
        `carry_out` carries it out once. Raises InputError."""
        if ask.action not in ACTIONS:
            raise refuse.input(
                quote_value(ask.action), "is not a change of the lab", suggest_nearest(ask.action, ACTIONS)
            )
        subject = ask.subject.strip()
        if not subject or subject.startswith("-"):
            raise refuse.input(quote_value(ask.subject), "is not the name of a volume or a storage")
        action = ACTIONS[ask.action]
        settings = read_settings(action.settings, ask.settings)
        if len(settings) < action.least:
            hint = f"Set one of {', '.join(field.name for field in fields(action.settings))}."
            raise refuse.input(subject, "would not be changed", hint)
        others = {name: value for name, value in settings.items() if name not in SPELLED_IN_WORDS}
        ticket = secrets.token_urlsafe(TICKET_BYTES)
        with self._lock:
            self._proposals[ticket] = Proposal(action, subject, settings)
            while len(self._proposals) > MOST_TICKETS:
                self._proposals.popitem(last=False)
        arguments = [*action.words(subject, settings), *spell_settings(action.settings, others)]
        return {"ticket": ticket, "consequence": action.consequence, "commands": [spell_command(arguments)]}

    def carry_out(self, ask: AskTicket) -> dict[str, object]:
        """Carries out a proposed change, and returns what the lab answers. Raises InputError,
        LabRefused, CouldNotRun."""
        with self._lock:
            proposal = self._proposals.pop(ask.ticket, None)
        if proposal is None:
            raise refuse.input("this change", "was not proposed, or was confirmed before", "Propose it again.")
        with closing(self._open_lab()) as lab:
            return {"result": to_plain(proposal.action.run(lab, proposal.subject, proposal.settings))}


def refuse_changes(_: object) -> dict[str, object]:
    """Raises InputError: this page changes nothing."""
    raise refuse.input("this page", "changes nothing", "Start it with headrace page --allow-changes.")
