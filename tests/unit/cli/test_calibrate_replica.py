"""`calibrate --replica` as a user meets it: what is printed and written, what is refused."""

from __future__ import annotations

import json

import pytest

from headrace.calibration.from_runs import sysbench_tpcc
from headrace.cli import main as cli
from headrace.workload import load_database, save

DESCRIPTION = """format = "headrace-replica-run"
version = 1
server = "mariadb-10.11"
storage = "gp3:100:3000"
cache_gib = 4.0
workers = 0
seconds = 60.0
transactions = 6000
"""


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Runs a command in a folder with a database and a replica: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    save(sysbench_tpcc(warehouses=100, engine="innodb", cache_gib=4, threads=16), tmp_path / "shop.toml")
    (tmp_path / "replica.toml").write_text(DESCRIPTION)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(list(arguments))
        out = capsys.readouterr()
        assert "bug in headrace" not in out.err, (arguments, out.err)
        return code, out.out, out.err

    return run


def test_what_was_found_is_shown_and_kept(call):
    code, out, _ = call("calibrate", "--of", "shop.toml", "--replica", "replica.toml", "--to", "new.toml")
    assert code == 0
    assert "flush_factor" in out
    replica = load_database("new.toml").replica
    assert replica is not None
    assert replica.origin["flush_factor"] == "replica"
    # One rate: 100 transactions a second is what is predicted for it afterwards.
    code, out, _ = call(
        "predict", "new.toml", "--storage", "gp3:100:3000", "--replica", "gp3:100:3000", "--output", "json"
    )
    assert code == 0
    json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "RUN.toml"),
        (("--replica", "replica.toml"), "missing argument"),
        (("--of", "shop.toml"), "--replica"),
        (("--of", "shop.toml", "--replica", "none.toml"), "no such file"),
        (("--of", "shop.toml", "--replica", "shop.toml"), "headrace-replica-run"),
        (("--of", "replica.toml", "--replica", "replica.toml"), "format"),
        (("--of", "shop.toml", "--binary-log", "shop.toml"), "binary log"),
        (("--of", "shop.toml", "--replica", "replica.toml", "--check"), "--check"),
    ],
)
def test_what_is_refused_leaves_nothing(call, tmp_path, arguments, words):
    code, out, err = call("calibrate", *arguments, *(() if "--check" in arguments else ("--to", "new.toml")))
    assert (code, out) == (2, "")
    assert words in err
    assert not (tmp_path / "new.toml").exists()
