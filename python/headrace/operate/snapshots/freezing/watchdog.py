"""The program that freezes filesystems and is sure to thaw them. `Freezer` runs it as a process.

    watchdog.py DEADLINE_S COMMANDS_FD ANSWERS_FD FILESYSTEM_FD...

A freeze belongs to nobody: when the process that froze a filesystem is killed, the filesystem stays
frozen for ever (ioctl FIFREEZE, Linux fs/super.c). So this program does it, and thaws what it froze
as soon as one of these comes: the command to thaw, the end of the process that asked (its end of
the pipe is closed by the kernel, however it ended), or the deadline.

It must be able to do that while everything else waits. It has a session of its own, ignores every
signal that can be ignored, keeps its memory locked, has no file open on a frozen filesystem but the
folders it was handed, and thaws through those: looking up a path could wait.

Commands, a line each: `freeze`, `thaw`. Answers, a line each, times in ns of CLOCK_MONOTONIC:

    ready                           the deadline has not begun
    frozen N BEGAN ENDED            filesystem N is frozen, by this program
    refused N ERRNO                 it is not
    all                             all of them are frozen
    late                            the deadline has passed
    thawed N ENDED                  filesystem N is thawed
    lost N ERRNO                    it was not frozen any more: another process had thawed it
    done                            nothing is frozen by this program any more
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import sys
import threading
import time

# linux/fs.h: _IOWR('X', 119, int) and _IOWR('X', 120, int).
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
# linux/mman.h: MCL_CURRENT, MCL_FUTURE.
LOCK_ALL = 1 | 2
# Size of the thread's stack, bytes: it is locked memory, so not the usual 8 MiB. A guess; the ioctl
# needs next to nothing.
STACK_BYTES = 256 << 10
# Interval at which a freeze is looked at that had not ended when the order to thaw came, s: a guess
# that costs nothing, for it happens only when a freeze hangs.
LOOK_EVERY_S = 0.001


class Watchdog:
    """Freezes and thaws filesystems, and remembers which of them are frozen."""

    def __init__(self, answers: int, filesystems: list[int]) -> None:
        """Takes the descriptor of the pipe for answers, and those of the filesystems' folders."""
        self.answers, self.filesystems = answers, filesystems
        self.lock = threading.Lock()
        self.frozen: list[int] = []
        self.ending = False

    def say(self, text: str) -> None:
        """Writes an answer to the process that sent the command, if it still lives."""
        with contextlib.suppress(OSError):
            os.write(self.answers, f"{text}\n".encode())

    def freeze(self, number: int) -> None:
        """Freezes the filesystem `number`, unless the watchdog is ending."""
        if self.ending:
            return
        began = time.monotonic_ns()
        try:
            fcntl.ioctl(self.filesystems[number], FIFREEZE, 0)
        except OSError as error:
            self.say(f"refused {number} {error.errno}")
            return
        with self.lock:
            self.frozen.append(number)
            self.say(f"frozen {number} {began} {time.monotonic_ns()}")
            if len(self.frozen) == len(self.filesystems):
                self.say("all")

    def thaw(self) -> None:
        """Thaws what is frozen, the last first."""
        while True:
            with self.lock:
                if not self.frozen:
                    return
                number = self.frozen[-1]
            try:
                fcntl.ioctl(self.filesystems[number], FITHAW, 0)
                self.say(f"thawed {number} {time.monotonic_ns()}")
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                self.say(f"lost {number} {error.errno}")
            with self.lock:
                self.frozen.remove(number)


def protect() -> None:
    """Protects this process: it waits for no disk, and no signal that can be ignored ends it."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        # Two signals are the C library's own.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    threading.stack_size(STACK_BYTES)
    ctypes.CDLL(None, use_errno=True).mlockall(LOCK_ALL)
    # The last to be ended when memory runs out: proc_pid_oom_score_adj(5).
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")


def main(deadline_s: float, commands: int, answers: int, filesystems: list[int]) -> None:
    """Waits for the order, freezes, waits for the first reason to thaw, thaws."""
    protect()
    watchdog = Watchdog(answers, filesystems)
    watchdog.say("ready")
    if not os.read(commands, 64).startswith(b"freeze"):
        return
    until = time.monotonic() + deadline_s
    # At the same time: one after the other, the first would wait frozen for the last.
    freezers = [
        threading.Thread(target=watchdog.freeze, args=(number,), daemon=True) for number in range(len(filesystems))
    ]
    if not freezers:
        watchdog.say("all")
    for freezer in freezers:
        freezer.start()
    waiting = select.poll()
    waiting.register(commands, select.POLLIN | select.POLLHUP)
    if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
        watchdog.say("late")
    watchdog.ending = True
    watchdog.thaw()
    # A freeze that is under way ends some time, perhaps much later; then it is undone as well.
    while any(freezer.is_alive() for freezer in freezers):
        time.sleep(LOOK_EVERY_S)
        watchdog.thaw()
    watchdog.thaw()
    watchdog.say("done")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), [int(text) for text in sys.argv[4:]])
