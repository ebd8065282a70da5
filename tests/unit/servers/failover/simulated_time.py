"""Virtual time for programs that are written with threads: one of their tasks runs at a time, and the next one is the
one whose moment comes first, so that the same seed gives the same run.

A task is a greenlet, which costs a twentieth of a thread's turn. It pauses in `Time.pause`; the loop of events then
runs what comes before the end of the pause. A killed process raises in each of its tasks at their next pause, and at
every further one: what its clean-up would do has no effect, as after SIGKILL.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from greenlet import getcurrent, greenlet

MOST_EVENTS = 400_000  # of a run, some hundred times as many as one takes: more is one that never ends


class Killed(BaseException):
    """The process of a task was killed."""


class Process:
    """A program: it ends as a whole."""

    def __init__(self, name: str) -> None:
        self.name, self.killed, self.tasks = name, False, set[Task]()


class Task:
    """A thread of a program. `turn`: how often it was woken, so that a wake of before does not count."""

    def __init__(self, process: Process, call: Callable[[], Any]) -> None:
        self.process, self.call = process, call
        self.turn, self.done = 0, False
        self.result: Any = None
        self.error: BaseException | None = None
        self.joining: list[Task] = []
        self.greenlet: greenlet = getcurrent()

    def run(self, time: Time) -> None:
        """Runs it to its end, in a greenlet of its own."""
        try:
            time.check()
            self.result = self.call()
        except BaseException as error:
            self.error = error
        self.done = True
        self.process.tasks.discard(self)
        for each in self.joining:
            time.wake(each)


class Time:
    """The clock, and what happens when."""

    def __init__(self) -> None:
        self.now_s, self.events = 0.0, 0
        self.heap: list[tuple[float, int, Any, int]] = []
        self.order = itertools.count()
        self.world = Process("world")
        self.main = Task(self.world, lambda: None)
        self.current = self.main
        self.failure: BaseException | None = None
        self.loop = greenlet(self.run_events)

    def at(self, delay_s: float, call: Callable[[], Any]) -> None:
        """Calls something later; it may not pause."""
        heapq.heappush(self.heap, (self.now_s + delay_s, next(self.order), call, 0))

    def wake(self, task: Task, delay_s: float = 0.0) -> None:
        heapq.heappush(self.heap, (self.now_s + delay_s, next(self.order), task, task.turn))

    def begin(self, process: Process, call: Callable[[], Any]) -> Task:
        """Begins a task, which runs when this one pauses."""
        task = Task(process, call)
        task.greenlet = greenlet(lambda: task.run(self), self.loop)
        process.tasks.add(task)
        self.wake(task)
        return task

    def kill(self, process: Process) -> None:
        process.killed = True
        for task in sorted(process.tasks, key=lambda each: each.turn):
            self.wake(task)

    def end(self, processes: Iterable[Process]) -> None:
        """Ends all programs and the loop, so that no task stays behind, and no greenlet: nobody collects the circle of
        one that waits."""
        self.failure = None
        for process in processes:
            self.kill(process)
        while any(process.tasks for process in processes):
            self.pause(0.001)
        self.loop.throw()

    def check(self) -> None:
        """Raises Killed if the process of the running task was killed."""
        if self.current.process.killed:
            raise Killed

    def pause(self, seconds: float) -> None:
        """Ends at that time, or when the task is woken. The clock alone goes on where nothing comes before that:
        half of the pauses, of which each takes a tenth of two turns."""
        task, until_s = self.current, self.now_s + seconds
        self.check()
        if self.heap and self.heap[0][0] > until_s and self.events < MOST_EVENTS:
            self.now_s, self.events = until_s, self.events + 1
            task.turn += 1
            return
        self.wake(task, seconds)
        self.loop.switch()
        if task is self.main and self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.check()

    def join(self, task: Task, seconds: float) -> bool:
        """Waits for the end of a task, and returns whether it has ended."""
        until = self.now_s + seconds
        while not task.done and self.now_s < until:
            task.joining.append(self.current)
            self.pause(until - self.now_s)
        return task.done

    def run_events(self) -> None:
        """Runs events, and gives each task its turn."""
        while True:
            self.events += 1
            if not self.heap or self.events > MOST_EVENTS:
                self.failure = AssertionError(f"at {self.now_s:.3f} s: {self.events} events, {len(self.heap)} to come")
                self.heap = [(self.now_s, 0, self.main, self.main.turn)]
                self.events = 0
            moment, _, event, turn = heapq.heappop(self.heap)
            if not isinstance(event, Task):
                self.now_s = max(self.now_s, moment)
                try:
                    event()
                except BaseException as error:
                    self.failure = self.failure or error
                    self.wake(self.main)
            elif not event.done and turn == event.turn:
                self.now_s = max(self.now_s, moment)
                event.turn += 1
                self.current = event
                event.greenlet.switch()
