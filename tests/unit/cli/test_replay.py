"""`headrace replay`: a record of a lab's volume, decided again on the virtual clock."""

from __future__ import annotations

import json

from places import DATA

RECORD = DATA / "volume.rec"  # 30 requests of dd on a gp3:1 of a lab


def test_replay_compares_every_decision(call, tmp_path):
    code, out, err = call("replay", str(RECORD))
    assert (code, err) == (0, "") and "30 requests" in out and "Every decision is equal to the nanosecond." in out
    document = json.loads(call("replay", str(RECORD), "--output", "json")[1])
    assert document["schema"] == "headrace-replay/1" and document["equal"] == document["requests"] == 30
    (tmp_path / "cut.rec").write_bytes(RECORD.read_bytes()[:-3])
    assert "ends inside a frame" in call("replay", str(tmp_path / "cut.rec"))[1]
    assert call("replay", str(RECORD), "--output", "csv")[0] == 2
