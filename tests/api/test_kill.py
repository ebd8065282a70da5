"""kill -9 of the endpoint and of the daemon at random under calls and I/O: nothing that was
acknowledged is lost, and every snapshot is the device at one instant.
"""

from __future__ import annotations

import os
import time

import pytest
from flushing_writer import BLOCK, number_of
from mixed_load import BLOCKS, Stream


@pytest.fixture
def written():
    """A stream that wrote into a file in memory, and what the file holds."""
    descriptor = os.memfd_create("stream")
    os.truncate(descriptor, BLOCKS * BLOCK)
    stream = Stream(f"/proc/{os.getpid()}/fd/{descriptor}", [0] * BLOCKS, 0, seed=1)
    deadline = time.monotonic() + 30
    while len(stream.ends) < 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    stream.stop()
    data = os.pread(descriptor, BLOCKS * BLOCK, 0)
    os.close(descriptor)
    return stream, [number_of(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]


def test_the_check_of_an_instant_sees_what_is_wrong(written):
    """The check that the crash test stands on: a block that is older than its group allows, one from
    the future, a damaged one and a state before what was flushed are all seen.
    """
    stream, found = written
    asked, answered = stream.moments[-1], stream.moments[-1] + 1
    assert stream.check(found, asked, answered) >= stream.ends[-1]

    def broken(slot: int, number: int | None) -> list[int | None]:
        return [number if at == slot else one for at, one in enumerate(found)]

    flushed = stream.ends[-3]
    slot = flushed % BLOCKS
    with pytest.raises(AssertionError, match=f"block {slot} has"):
        stream.check(broken(slot, max(0, flushed - BLOCKS)), asked, answered)
    with pytest.raises(AssertionError, match="damaged"):
        stream.check(broken(slot, None), asked, answered)
    later = stream.last() + BLOCKS
    with pytest.raises(AssertionError, match="at the answer it was"):
        stream.check(broken(later % BLOCKS, later), asked, answered)
    with pytest.raises(AssertionError, match="was flushed before"):
        stream.check([0] * BLOCKS, asked, answered)
