"""`headrace watch`: a server and its volumes on one screen, as text, as lines, or as an alarm."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.inputs import RecordingOptions
from headrace.cli.operate.common import TargetArgument, TodayOptions
from headrace.cli.options import LabPlace, PasswordOptions, make_choice, make_flag, make_option
from headrace.cli.output import print_data, say
from headrace.cli.sharing import read_epilog
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from headrace.operate.alarms.actions import Action
    from headrace.operate.watching.moment import Moment
    from headrace.operate.watching.opening import OpenTarget

with defer_imports():
    from headrace.operate.alarms import actions as alarms_actions
    from headrace.operate.alarms import episodes as alarms_episodes
    from headrace.operate.alarms import nagios
    from headrace.operate.doctor import model
    from headrace.operate.watching import light, loop, opening, terminal
    from headrace.operate.watching import screen as watching_screen

EPILOG = read_epilog("watch")

WatchOutput = Literal["table", "jsonl", "nagios"]
# Seconds of a live target that `--once` reads before its verdict; the lab and files have earlier
# figures. A guess.
FIRST_S = 4.0


@dataclass(frozen=True, kw_only=True)
class AlarmOptions:
    """Receivers of a message when a finding lasts."""

    alarm: Annotated[
        bool,
        make_flag("--alarm", "No screen: a line when a finding fires (after 60 s) and when it clears (after 180 s)."),
    ] = False
    command: Annotated[
        str | None,
        make_option(
            "COMMAND", "Run this command for each event, without a shell; the event's values are in its environment."
        ),
    ] = None
    webhook: Annotated[
        str | None, make_option("URL", "POST each such event there: https, or http on this machine.")
    ] = None
    webhook_secret: Annotated[
        Path | None, make_option("FILE", "Sign the POST with the secret in this file (mode 600).")
    ] = None

    def list_actions(self) -> list[Action]:
        """Returns the actions of an alarm. Raises InputError, CouldNotRun."""
        if (self.command or self.webhook) and not self.alarm:
            given = "--command" if self.command else "--webhook"
            raise InputError(given, "belongs to --alarm", "headrace watch --help", "Add --alarm.")
        if self.webhook_secret and not self.webhook:
            raise InputError("--webhook-secret", "belongs to --webhook", "headrace watch --help", "Name the URL.")
        chosen: list[Action] = []
        if self.command:
            chosen.append(alarms_actions.parse_command(self.command))
        if self.webhook:
            chosen.append(alarms_actions.make_webhook(self.webhook, self.webhook_secret))
        return chosen


def watch(
    *,
    target: TargetArgument,
    place: LabPlace,
    password: PasswordOptions,
    today: TodayOptions,
    alarms: AlarmOptions,
    recorded: RecordingOptions,
    once: Annotated[bool, make_flag("--once", "Print one screen as text, and end.")] = False,
    seconds: Annotated[int | None, make_option("N", "End after N seconds. Default: at q or Ctrl-C.", min=1)] = None,
    output: Annotated[
        WatchOutput, make_choice("Form of the output: a screen, a line of JSON a second, or a plugin's line.")
    ] = "table",
) -> None:
    """Watch a server and its volumes: limits, credits with time to empty, latency, waits."""
    # Before anything that imports them.
    light.import_late()

    _check_options(once, output, alarms)
    actions = alarms.list_actions()
    screen = None
    if output == "table" and not once and not alarms.alarm:
        screen = terminal.Screen(terminal.open_console())
    options, past = recorded.apply_to(today.make_source_options(place, password)), once or screen is not None
    with opening.open_target(target, options, past=past, seconds=0.0 if once else seconds) as watched:
        if screen is not None:
            loop.run(screen, watched.moments, seconds)
        elif alarms.alarm:
            _watch_alarms(watched, actions, seconds)
        elif once:
            moment = _read_newest(watched)
            _print_moment(moment, output)
            if not watched.live:  # as the doctor ends: there is nothing to wait for
                raise typer.Exit(model.exit_code_of(moment.verdict.word))
        else:
            for moment in _take_moments(watched, seconds):
                _print_line(moment.to_document())


def _check_options(once: bool, output: str, alarms: AlarmOptions) -> None:
    """Raises InputError for options that exclude each other."""
    if output == "nagios" and not once:
        hint = "A monitoring system calls it again and again: add --once."
        raise InputError("--output nagios", "is one line", "headrace watch --help", hint)
    if alarms.alarm and once:
        raise InputError("--alarm and --once", "exclude each other", "headrace watch --help", "An alarm watches on.")


def _take_moments(watched: OpenTarget, seconds: float | None) -> Iterator[Moment]:
    """Yields the moments of a target for some seconds; None: to its end."""
    began = time.monotonic()
    for moment in watched.moments:
        yield moment
        if seconds is not None and time.monotonic() - began >= seconds:
            return


def _read_newest(watched: OpenTarget) -> Moment:
    """Returns the last moment of a file, or that after FIRST_S of a live target, for which it
    waits. Raises CouldNotRun where there is none."""
    newest = None
    for moment in _take_moments(watched, FIRST_S if watched.live else None):
        newest = moment
    if newest is None:
        raise CouldNotRun(watched.target, "gave nothing to show", "", "Is the volume attached and the server up?")
    return newest


def _print_moment(moment: Moment, output: str) -> None:
    """Prints one moment in the form asked for. Raises typer.Exit with Nagios' exit code for Nagios'
    form."""
    if output == "jsonl":
        _print_line(moment.to_document())
    elif output == "nagios":
        print(nagios.build_plugin_line(moment.verdict.word, moment.verdict.text, _list_figures(moment)))
        raise typer.Exit(nagios.CODES[nagios.get_state(moment.verdict.word)])
    else:
        print_data(
            watching_screen.as_text(
                watching_screen.build_whole(moment, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)
            )
        )


def _list_figures(moment: Moment) -> dict[str, float | None]:
    """Returns the figures of a moment for Nagios: IOPS, MiB/s, shares of time 0 to 1, seconds until
    credits are empty; None where not known."""
    figures: dict[str, float | None] = {}
    for volume in moment.volumes:
        figures |= {f"{volume.label} iops": volume.iops, f"{volume.label} mib_s": volume.mib_s}
        figures |= {f"{volume.label} over {limit}": share for limit, share in volume.exceeded.items()}
        figures[f"{volume.label} balance"] = volume.balance
        figures[f"{volume.label} empty_s"] = None if volume.time_to_empty is None else volume.time_to_empty.seconds
    if moment.server is not None:
        figures |= {"tps": moment.server.tps, "client io wait": moment.server.io_wait}
    return figures


def _print_line(document: object) -> None:
    print_data(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _watch_alarms(watched: OpenTarget, actions: Iterable[Action], seconds: float | None) -> None:
    """Watches for some seconds (None: to the end) and runs the actions when a finding fires or
    clears."""
    actions = list(actions)
    episodes = alarms_episodes.Episodes(watched.target)
    try:
        for moment in _take_moments(watched, seconds):
            _report_events(episodes.see(moment), actions)
    finally:
        _report_events(episodes.end(), actions)


def _report_events(events: Iterable, actions: Iterable[Action]) -> None:
    """Prints each event and hands it to every action; an action that fails is reported on
    stderr."""
    for event in events:
        _print_line(event.to_dict())
        for action in actions:
            if failure := action.tell(event):
                say(f"alarm: {failure}")
