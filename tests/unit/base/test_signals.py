"""Handlers of signals: within a block, for good, and what they were before."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from headrace.base import signals


def test_kill_is_an_interrupt_only_while_something_is_half_made():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), signals.ends_as_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with signals.ignore_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
    # In other threads there are no handlers to set, and nothing breaks.
    failed = []
    thread = threading.Thread(
        target=lambda: [failed.append(1) for _ in [signals.ignore_interrupts().__enter__()] if _ is not None]
    )
    thread.start()
    thread.join()
    assert not failed


def test_interrupts_are_remembered_until_they_may_interrupt():
    with signals.Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.pending
        with pytest.raises(KeyboardInterrupt):
            interrupts.listen()
        assert not interrupts.pending
        interrupts.listen()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        interrupts.listen()
        interrupts.ignore()
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.pending


def test_a_handler_for_good_says_what_was_before():
    calls = []
    before = signals.set_handler(signal.SIGUSR1, lambda *_: calls.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    with signals.handle_signals({signal.SIGUSR1: lambda *_: calls.append(2)}):
        os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)
    signals.set_handler(signal.SIGUSR1, before)
    assert calls == [1, 2, 1] and signal.getsignal(signal.SIGUSR1) is before
