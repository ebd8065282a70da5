"""`headrace doctor` as a user runs it, on files: what is printed, and how it ends."""

from __future__ import annotations

import json

import pytest
from doctored import evidence

from headrace.observe.evidence import evidence_file

AT_LIMIT = {"over_volume_iops": 0.8, "read_ms": 20.0, "read_p50_ms": 20.0, "read_iops": 190.0, "charged_iops": 300.0}


@pytest.fixture
def recording(tmp_path):
    def write_recording(*given, storage="io1:100:300", **more):
        path = tmp_path / "seen.jsonl"
        evidence_file.save(evidence(*given, storage=storage, **more), path)
        return str(path)

    return write_recording


def test_a_finding(call, recording):
    code, out, err = call("doctor", recording(AT_LIMIT, {"tps": 30.0, "pool_reads_per_s": 180.0}))
    assert code == 1 and not err
    assert out.startswith("BINDS: The volume's IOPS bind") and "Do: Make it gp3:100" in out and "Undo: aws ec2" in out
    assert "USD a month" in out and "counted in microseconds" in out


def test_seconds_are_of_live_targets(call, recording):
    path = recording()
    code, out, err = call("doctor", path, "--seconds", "5")
    assert (code, out) == (2, "") and f"--seconds 5: is how long a live target is watched, and {path[:80]}" in err


def test_all_is_well(call, recording):
    code, out, _ = call("doctor", recording())
    assert code == 0 and out.startswith("FINE:")


def test_json(call, recording):
    code, out, _ = call("doctor", recording(AT_LIMIT, {"tps": 30.0, "pool_reads_per_s": 180.0}), "--output", "json")
    document = json.loads(out)
    assert code == 1 and document["schema"] == "headrace-doctor/1" and document["verdict"] == "binds"
    assert document["findings"][0]["gain"]["next_limit"] and len(document["findings"]) <= 3


@pytest.mark.parametrize(
    ("volume", "server", "code", "word"),
    [
        (None, None, 0, "OK"),
        (AT_LIMIT, {"tps": 30.0, "pool_reads_per_s": 180.0}, 2, "CRITICAL"),
        (None, {"log_waits_per_s": 30.0}, 1, "WARNING"),
        (None, {"lock_waiters": 3.9}, 0, "OK"),
    ],
)
def test_nagios(call, recording, volume, server, code, word):
    result, out, _ = call("doctor", recording(volume, server), "--output", "nagios")
    assert result == code and out.startswith(f"DOCTOR {word} - ") and out.count("\n") == 1 and out.count("|") <= 1


def test_nothing_can_be_told(call, recording):
    path = recording(with_volume=False)
    assert call("doctor", path)[0] == 3
    assert call("doctor", path, "--output", "nagios")[0] == 3


def test_kept_again_and_a_page(call, recording, tmp_path):
    path = recording(AT_LIMIT, {"tps": 30.0})
    copy, page = tmp_path / "copy.jsonl.gz", tmp_path / "page.html"
    assert call("doctor", path, "--record", str(copy), "--report", str(page))[0] == 1
    assert call("doctor", str(copy))[1].partition("Seen:")[0] == call("doctor", path)[1].partition("Seen:")[0]
    text = page.read_text()
    assert "<svg" in text and "<script" not in text and "volume&#x27;s IOPS" in text
    code, _, err = call("doctor", path, "--record", str(copy))
    assert code == 2 and "exists already" in err


def test_trusted_advisor(call, recording):
    code, out, _ = call("doctor", "--trusted-advisor")
    assert code == 0 and "withdrawn 2024-05-15" in out and "Bh2xRR2FGH" in out
    code, out, _ = call("doctor", recording(), "--trusted-advisor")
    assert code == 0 and "not known" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--output", "nagios"), "is for verdicts"), (("--report", "page.html"), "the checks are printed only")],
)
def test_a_form_that_the_checks_do_not_have_is_refused_before_anything_is_read(
    call, tmp_path, monkeypatch, words, message
):
    """A target was watched for seconds, and its evidence written, before this was said."""
    monkeypatch.chdir(tmp_path)
    for target in ((), ("nowhere.jsonl", "--record", "kept.jsonl")):
        code, out, err = call("doctor", *target, "--trusted-advisor", *words)
        assert code == 2 and not out and message in err, err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [("doctor",), ("doctor", "nowhere"), ("doctor", "lab:"), ("doctor", "x", "--seconds", "0")]
)
def test_usage(call, words):
    code, out, err = call(*words)
    assert code == 2 and not out and err.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--region", "moon-1"), "moon-1: is not a region"),
        (("--report", "page.pdf"), "a page is written as .html"),
        (("--report", "nowhere/page.html"), "the folder does not exist"),
        (("--record", "nowhere/seen.jsonl"), "the folder does not exist: nowhere"),
    ],
)
def test_what_is_written_wrong_is_said_before_anything_is_watched(call, recording, words, message):
    """A region that is none gave advice without prices, and a page was written whatever its name."""
    code, out, err = call("doctor", recording(AT_LIMIT, {"tps": 30.0}), *words)
    assert code == 2 and not out and message in err
