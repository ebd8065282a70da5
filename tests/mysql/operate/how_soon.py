"""Delay of the doctor's headline after a trouble began, and after it ended: a look at each second
over the last ones, as for a user who asks again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.observe.evidence.live import LiveSource
from headrace.observe.evidence.model import SourceFacts, Tick, collect_evidence
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.doctor.model import Diagnosis
from headrace.operate.targets import SourceOptions, open_live

LOOK_S = 10  # of the command, if nothing else is asked
LEAST_TICKS = 2  # a look at one second says little
JOIN_S = 10.0


@dataclass
class HowSoon:
    """Watches a bed beside the doctor, from `begin` to `end`."""

    seen: list[tuple[float, Tick, SourceFacts]] = field(default_factory=list)
    lost_unix: float | None = None

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, bed) -> None:
        """Once: a trouble that marks its beginning again is watched already."""
        if self._thread is not None:
            return
        source = open_live(f"lab:{bed.volume}", SourceOptions(lab=lambda: bed.lab, members=True))
        self._thread = threading.Thread(target=self._watch, args=(source,), daemon=True)
        self._thread.start()

    def _watch(self, source: LiveSource) -> None:
        with closing(source):
            for tick in source.stream_ticks():
                if self._ending.is_set():
                    return
                try:
                    source.refresh()
                except HeadraceError:
                    self.lost_unix = time.time()  # the volume is no more
                    return
                self.seen.append((time.time(), tick, source.facts))

    def end(self) -> None:
        """Stops watching."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def seconds_of_verdict(
        self, began: float, ended: float, right: Callable[[Diagnosis], bool]
    ) -> tuple[float | None, float | None]:
        """Seconds from the beginning to the first look whose headline is right, and from the end to
        the first one after the last of those (or the end of its volume); None where that was not
        seen."""
        message: list[tuple[float, bool]] = []
        for number in range(LEAST_TICKS - 1, len(self.seen)):
            part = self.seen[max(0, number + 1 - LOOK_S) : number + 1]
            at, _, facts = part[-1]
            message.append((at, right(diagnose(collect_evidence(facts, [tick for _, tick, _ in part]), None))))
        came = next((at for at, is_so in message if is_so and at >= began), None)
        last = max((at for at, is_so in message if is_so), default=None)
        gone = next((at for at, is_so in message if last is not None and at > max(last, ended)), None)
        gone = self.lost_unix if gone is None else gone
        return None if came is None else came - began, None if gone is None else gone - ended
