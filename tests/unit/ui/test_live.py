"""The stream of the lab's moments: what `headrace watch` prints, at most eight at once, ended with its reader."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator

import pytest
from places import ROOT

from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab
from headrace.ui import live

RECORDED = str(ROOT / "examples/doctor/credits-gone.jsonl.gz")


class FewVolumes:
    """A lab as far as the page asks for its volumes."""

    def __init__(self, *attached: str | None) -> None:
        self.attached = attached

    def volumes(self) -> list[dict]:
        return [
            {"id": f"vol-{at}", "name": name, "attachment": {} if name else None}
            for at, name in enumerate(self.attached)
        ]

    def close(self) -> None: ...


def read_all(streams: live.Streams, most: int | None = None) -> list[dict]:
    async def read() -> list[dict]:
        lines, stream = [], streams.stream_lines(RECORDED)
        assert isinstance(stream, AsyncGenerator)
        async for line in stream:
            lines.append(json.loads(line))
            if len(lines) == most:
                break
        await stream.aclose()
        return lines

    return asyncio.run(read())


def test_a_stream_is_what_watch_prints(call):
    streams = live.Streams()
    command, *moments = read_all(streams)
    code, out, _ = call("watch", RECORDED, "--output", "jsonl")
    assert code == 0 and command == {"commands": [f"headrace watch {RECORDED}"]}
    assert moments == [json.loads(line) for line in out.splitlines()]
    assert streams.count == 0


def test_a_reader_that_leaves_ends_its_stream():
    streams = live.Streams()
    assert len(read_all(streams, most=2)) == 2
    assert streams.count == 0
    for thread in threading.enumerate():
        if thread.name == "headrace-page-live":
            thread.join(30)
            assert not thread.is_alive()


def test_an_error_is_the_last_line(monkeypatch):
    def fail(target, options):
        raise CouldNotRun("the lab", "went away")
        yield

    monkeypatch.setattr(live, "read_moments", fail)
    assert read_all(live.Streams())[-1]["error"]["rule"] == "went away"


def test_what_is_not_read_is_dropped_from_the_oldest_on(monkeypatch):
    done = threading.Event()

    def many(target, options):
        yield from ({"n": n} for n in range(3 * live.MOST_WAITING))
        done.set()

    monkeypatch.setattr(live, "read_moments", many)

    async def read() -> list[dict]:
        stream = live.Streams().stream_lines(RECORDED)
        for _ in ("the command", "a moment"):
            await anext(stream)
        while not done.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        return [json.loads(line) async for line in stream]

    numbers = [line["n"] for line in asyncio.run(read())]
    assert numbers == sorted(numbers) and numbers[-1] == 3 * live.MOST_WAITING - 1
    assert len(numbers) <= live.MOST_WAITING


def test_more_than_eight_are_refused_before_the_lab_is_asked():
    streams = live.Streams(lambda: FewVolumes("db"))
    assert streams.begin() == "lab:db"
    streams.count = live.MOST_STREAMS
    with pytest.raises(InputError, match="at most 8"):
        streams.begin()


def test_the_target_is_every_attached_volume(tmp_path):
    assert live.find_target(lambda: FewVolumes("db", None, "log")) == "lab:db,log"
    with pytest.raises(InputError, match="volume create"):
        live.find_target(lambda: FewVolumes(None))
    with pytest.raises(CouldNotRun):
        live.find_target(lambda: Lab(tmp_path))
