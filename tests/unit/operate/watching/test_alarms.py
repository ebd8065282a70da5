"""Alarms: one episode of a finding, against a naive reference; who is told, and how it can fail."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.errors import CouldNotRun, InputError
from headrace.operate.alarms import actions
from headrace.operate.alarms.episodes import OFF_S, ON_S, EpisodeEvent, Episodes
from headrace.operate.alarms.nagios import CODES, STATE_OF, build_plugin_line, get_state
from headrace.operate.watching.moment import LiveVerdict, Moment, ServerNow

BINDS = LiveVerdict("binds", "volume-iops", "db", "db, volume IOPS: 63 % of the last minute")
FINE = LiveVerdict("fine", None, "", "no limit binds")


def moment(t_unix: float, *findings: LiveVerdict, waiting: float | None = None) -> Moment:
    server = None if waiting is None else ServerNow("m", io_wait=waiting / 8, running=8.0)
    return Moment("lab:db", t_unix, 1.0, findings, server=server)


def naive(present: list[bool]) -> list[tuple[str, int, int | None]]:
    """Returns the messages of a finding that is there in some seconds: by looking back from
    each."""
    answer, raised, began = [], False, 0
    for now in range(len(present)):
        if not raised:
            run = 0
            while run <= now and present[now - run]:
                run += 1
            if run - 1 >= ON_S:
                raised, began = True, now - run + 1
                answer.append(("raised", began, None))
        else:
            last = max(at for at in range(now + 1) if present[at])
            if now - last >= OFF_S:
                raised = False
                answer.append(("over", began, last))
    return answer


def test_random_courses_are_those_of_the_reference():
    draw = random.Random(11)
    for _ in range(25):
        present: list[bool] = []
        while len(present) < 1_200:
            present += [draw.random() < 0.5] * draw.choice([1, 5, 30, 59, 61, 90, 179, 181, 300])
        episodes, answer = Episodes("lab:db"), []
        for second, there in enumerate(present):
            answer += episodes.see(moment(float(second), BINDS if there else FINE))
        result = [
            (entry.event, int(entry.start_unix), None if entry.end_unix is None else int(entry.end_unix))
            for entry in answer
        ]
        assert result == naive(present)


def test_a_quarter_of_an_hour_is_told_twice_with_its_cost():
    episodes, answer = Episodes("lab:db"), []
    for second in range(1_200):
        answer += episodes.see(moment(float(second), BINDS if 100 <= second < 1_000 else FINE, waiting=2.0))
    raised, over = answer
    assert (raised.event, raised.start_unix, raised.end_unix) == ("raised", 100.0, None)
    assert (over.event, over.id, over.start_unix, over.end_unix) == ("over", raised.id, 100.0, 999.0)
    # Two clients wait in each of 900 seconds.
    assert over.client_seconds == pytest.approx(1_800)
    document = over.to_dict()
    assert document["start"] == "1970-01-01T00:01:40+00:00" and document["seconds"] == 899.0


def test_two_findings_are_two_episodes_and_words_for_who_looks_are_none():
    episodes = Episodes("t")
    other = LiveVerdict("degraded", None, "log", "x")
    quiet = LiveVerdict("touched", "volume-iops", "db", "x")
    answer = []
    for second in range(70):
        answer += episodes.see(moment(float(second), BINDS, other, quiet))
    assert sorted(entry.finding.word for entry in answer) == ["binds", "degraded"]
    assert {entry.word for entry in episodes.lasting} == {"binds", "degraded"}
    assert sorted(entry.event for entry in episodes.end()) == ["over", "over"] and not episodes.lasting


def test_a_gap_is_neither_the_finding_nor_its_end():
    episodes = Episodes("t")
    events = [event for second in range(61) for event in episodes.see(moment(float(second), BINDS))]
    assert len(events) == 1
    # Nothing was known for an hour; then it is still there.
    assert episodes.see(moment(3_660.0, BINDS)) == [] and episodes.see(moment(3_661.0, FINE)) == []
    events = [event for second in range(3_662, 3_662 + 200) for event in episodes.see(moment(float(second), FINE))]
    assert [event.event for event in events] == ["over"]
    # The clock goes back an hour: what lasts, lasts.
    episodes = Episodes("t")
    for second in range(5_000, 5_050):
        episodes.see(moment(float(second), BINDS))
    events = [event for second in range(1_400, 1_420) for event in episodes.see(moment(float(second), BINDS))]
    assert [event.event for event in events] == ["raised"]


# --- who is told --------------------------------------------------------------------------------------------------

EVENT = EpisodeEvent("raised", "binds:volume-iops:db:100", "lab:db; rm -rf /", BINDS, 100.0, None, 12.34)


def test_a_command_gets_values_in_its_environment_and_no_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_MYSQL_PASSWORD", "hidden")
    out = tmp_path / "out.json"
    script = (
        "import json, os, sys; json.dump([dict(os.environ), sys.argv, json.load(sys.stdin)], open(sys.argv[1], 'w'))"
    )
    command = actions.parse_command(f"{sys.executable} -c \"{script}\" {out} '$(touch {tmp_path}/shell)' a;b")
    assert command.tell(EVENT) is None
    environment, argv, document = json.loads(out.read_text())
    assert environment["HEADRACE_TARGET"] == "lab:db; rm -rf /" and environment["HEADRACE_CLIENT_SECONDS"] == "12.3"
    assert environment["HEADRACE_END"] == "" and "HEADRACE_MYSQL_PASSWORD" not in environment
    assert argv[2:] == [f"$(touch {tmp_path}/shell)", "a;b"] and not (tmp_path / "shell").exists()
    assert document == EVENT.to_dict()


def test_a_command_that_fails_hangs_or_is_gone_is_said(tmp_path):
    failing = actions.parse_command(f"{sys.executable} -c \"import sys; sys.exit('pager is down')\"")
    assert "exit code 1: pager is down" in failing.tell(EVENT)
    hanging = actions.AlarmCommand((sys.executable, "-c", "import time; time.sleep(60)"), timeout_s=0.3)
    assert "longer than 0.3 s" in hanging.tell(EVENT)
    assert "could not be started" in actions.AlarmCommand((str(tmp_path / "none"),)).tell(EVENT)
    for text in ("", "'open", "/no/such/program"):
        with pytest.raises(InputError):
            actions.parse_command(text)


@pytest.mark.parametrize(("code", "words"), [(0, ""), (3, "sh ended with exit code 3: pager is down")])
def test_a_command_that_leaves_a_process_behind_has_ended(tmp_path, code, words):
    """Such as `notify &` in a script: that process has the script's streams open, and lives on."""
    pid = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {pid}; echo pager is down >&2; exit {code}"
    try:
        assert (actions.AlarmCommand(("sh", "-c", script)).tell(EVENT) or "") == words
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent, and answers as it was told."""

    got: list
    answers: list[int]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.headers, body))
        self.send_response(self.answers.pop(0))
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format, *_):
        """Quiet."""


@pytest.fixture
def receiver():
    kind = type("Kind", (Receiver,), {"got": [], "answers": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kind, f"http://127.0.0.1:{server.server_address[1]}/hook"
    server.shutdown()
    server.server_close()


def test_a_webhook_is_signed_tried_twice_and_not_redirected(receiver, tmp_path):
    kind, url = receiver
    secret = tmp_path / "secret"
    secret.write_text("key\n")
    secret.chmod(0o600)
    kind.answers += [500, 204]
    assert actions.make_webhook(url, secret).tell(EVENT) is None
    (_, first), (headers, body) = kind.got
    assert first == body and json.loads(body) == EVENT.to_dict()
    assert headers["X-Headrace-Signature-256"] == "sha256=" + hmac.new(b"key", body, hashlib.sha256).hexdigest()
    kind.answers += [302, 302]
    assert "answers 302" in actions.make_webhook(url).tell(EVENT)
    assert len(kind.got) == 4, "nobody followed the redirect"


def test_a_webhook_that_is_not_there_is_said():
    assert "does not answer" in actions.AlarmWebhook("http://127.0.0.1:9/x?token=abc", timeout_s=1).tell(EVENT)
    assert "abc" not in actions.AlarmWebhook("http://127.0.0.1:9/x?token=abc", timeout_s=1).tell(EVENT)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "http://10.0.0.1/x",
        "ftp://127.0.0.1/x",
        "https:///x",
        "hook",
        "https://user:pw@example.com/x",
        "http://127.0.0.1.example.com/x",
        "http://localhost.example.com/",
        "file:///etc/passwd",
        "http://[bad/",
    ],
)
def test_other_places_are_refused(url):
    with pytest.raises(InputError) as refused:
        actions.make_webhook(url)
    assert "pw" not in str(refused.value)
    assert actions.make_webhook("https://example.com/x").url and actions.make_webhook("http://[::1]:8080/x").url


def test_a_secret_that_others_may_read_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("key")
    secret.chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        actions.make_webhook("https://example.com", secret)
    secret.write_text("")
    secret.chmod(0o600)
    with pytest.raises(InputError, match="1 to 4,096 bytes"):
        actions.make_webhook("https://example.com", secret)
    with pytest.raises(CouldNotRun):
        actions.make_webhook("https://example.com", tmp_path / "none")
    assert "key" not in repr(actions.AlarmWebhook("https://example.com", actions.Secret("key")))


def test_the_plugins_line_and_codes():
    line = build_plugin_line(
        "binds", "db | evil\nsecond line", {"db iops": 3000.0, "it's=x": 0.5, "none": None, "empty_s": float("inf")}
    )
    assert line == "STORAGE CRITICAL - binds: db evil second line | 'db iops'=3000 'it_s_x'=0.5 'empty_s'=U"
    assert {STATE_OF[word] for word in STATE_OF} == set(CODES) and get_state("new word") == "UNKNOWN"
