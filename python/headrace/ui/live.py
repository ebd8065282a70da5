"""Streams the state of the lab each second, the moments of `headrace watch`, as lines of JSON to a
browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing

import msgspec

from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.operate.targets import SourceOptions
from headrace.operate.watching import opening
from headrace.ui.spelling import refuse, spell_command

LAB = "lab:"  # in front of the volumes of a target
# A page with some windows open; each stream is a thread that asks the lab once a second. Ours.
MOST_STREAMS = 8
# Moments that wait for a browser that does not read, such as a tab that sleeps: ten minutes of
# seconds. The oldest are dropped.
MOST_WAITING = 600
# Interval at which an idle stream checks whether its browser still reads, s.
LOOK_S = 1.0


def find_target(open_lab: Callable[[], Lab]) -> str:
    """Returns the attached volumes of the lab as the target of `headrace watch`. Raises InputError
    without any, CouldNotRun if no lab answers."""
    with closing(open_lab()) as lab:
        target = make_target(lab)
    if target == LAB:
        hint = "headrace volume create gp3:20 --name db --attach makes one."
        raise refuse.input("the lab", "has no volume that is attached", hint)
    return target


def make_target(lab: Lab) -> str:
    """Returns the attached volumes of a lab as `headrace watch` takes them; LAB alone without
    any."""
    attached = [volume for volume in lab.volumes() if volume["attachment"] is not None]
    return LAB + ",".join(volume["name"] or volume["id"] for volume in attached)


def read_moments(target: str, options: SourceOptions) -> Iterator[dict[str, object]]:
    """Yields the moments of a target, as `headrace watch --output jsonl` prints them. The stream of
    a lab ends when other volumes are attached. Raises HeadraceError, also if the daemon has ended,
    unlike `headrace watch`."""
    with ExitStack() as open_things:
        watched = open_things.enter_context(opening.open_target(target, options))
        lab = open_things.enter_context(closing(options.lab())) if target.startswith(LAB) else None
        for moment in watched.moments:
            if lab is not None and make_target(lab) != target:
                return
            yield moment.to_document()


class Streams:
    """The open streams of moments, at most MOST_STREAMS."""

    def __init__(self, open_lab: Callable[[], Lab] = Lab) -> None:
        self.open_lab = open_lab
        self.count = 0

    def begin(self) -> str:
        """Returns the target of a new stream. Raises InputError where too many are open or no
        volume is attached, CouldNotRun where no lab answers."""
        if self.count >= MOST_STREAMS:
            hint = "Close another window of this page."
            raise refuse.input(f"{self.count} streams", f"are open; at most {MOST_STREAMS} are", hint)
        return find_target(self.open_lab)

    async def stream_lines(self, target: str) -> AsyncIterator[bytes]:
        """Yields the command line that shows the same, then a line for each moment; an error is the
        last line, and so is the end of this set of volumes."""
        gone, waiting = threading.Event(), asyncio.Queue[bytes | None](MOST_WAITING)
        loop = asyncio.get_running_loop()

        def put(line: bytes | None) -> None:
            if waiting.full():
                waiting.get_nowait()
            waiting.put_nowait(line)

        def read() -> None:
            """Reads moments in a thread, and passes each on as a line of JSON until the browser is
            gone; an error becomes the last line."""
            try:
                for document in read_moments(target, SourceOptions(lab=self.open_lab)):
                    if gone.is_set():
                        return
                    loop.call_soon_threadsafe(put, msgspec.json.encode(document) + b"\n")
                if target.startswith(LAB):
                    loop.call_soon_threadsafe(put, b'{"ended":true}\n')
            except HeadraceError as error:
                parts = {name: getattr(error, name) for name in ("value", "rule", "source", "hint")}
                loop.call_soon_threadsafe(put, msgspec.json.encode({"error": parts}) + b"\n")
            if not gone.is_set():
                loop.call_soon_threadsafe(put, None)

        self.count += 1
        try:
            threading.Thread(target=read, name="headrace-page-live", daemon=True).start()
            yield msgspec.json.encode({"commands": [spell_command(["watch", target])]}) + b"\n"
            while (line := await waiting.get()) is not None:
                yield line
        finally:
            gone.set()
            self.count -= 1
