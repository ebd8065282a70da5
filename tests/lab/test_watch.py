"""`headrace volume watch` on a real lab: in a pipe, on a terminal, ended with Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess

from lab_folders import Command


def test_watch_in_a_pipe_and_ctrl_c(lab):
    lab.create("gp2:10", name="db")
    lab.attach("db", probe=False)
    run = Command(lab.place.data_dir)
    done = run("volume", "watch", "db", "--seconds", "3").stdout.splitlines()
    assert "gp2:10" in done[0] and len(done) >= 3
    process = subprocess.Popen(
        run.words("volume", "watch", "db"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=run.environment,
    )
    assert "gp2:10" in process.stdout.readline()
    process.stdout.readline()
    process.stdout.readline()  # a row: it is in its loop
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors


def test_watch_on_a_terminal(lab):
    lab.create("gp2:10", name="db")
    lab.attach("db", probe=False)
    run = Command(lab.place.data_dir)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        run.words("volume", "watch", "db", "--seconds", "3"),
        stdout=theirs,
        stderr=theirs,
        env=run.environment | {"TERM": "xterm"},
    )
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:  # EIO: the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert process.wait(30) == 0
    assert b"balance" in text and b"gp2:10" in text
