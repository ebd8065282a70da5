"""`headrace advise` on the command line."""

from __future__ import annotations

import csv
import io
import json

import pytest

from headrace.cli import main
from headrace.mysql.advice.output import columns

ASKED = ["--storage", "gp3:500:6000", "--memory", "32", "--vcpus", "8", "--server-version", "8.0.36"]


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main.main(["advise", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_table(capsys):
    code, out, err = run(capsys, *ASKED)
    assert code == 0 and "innodb_buffer_pool_size" in out and "24G" in out and "whitepaper-2017" in out
    assert "note: no --workload" in err and "Traceback" not in err


def test_a_narrow_table_keeps_what_matters(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, err = run(capsys, *ASKED, "--durability", "relaxed")
    assert code == 0 and "(can lose data)" in " ".join(out.split()) and "whitepaper-2017" not in out
    assert max(len(line) for line in out.splitlines()) <= 100


def test_json_and_csv_are_whole(capsys):
    code, out, err = run(capsys, *ASKED, "--output", "json")
    answer = json.loads(out)
    assert code == 0 and answer["schema"] == "headrace-advice/1" and (answer["flavor"], answer["version"]) == ("mysql", "8.0.36")
    code, out, err = run(capsys, *ASKED, "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert tuple(rows[0]) == columns() == tuple(answer["advice"][0])
    assert [row["parameter"] for row in rows] == [item["parameter"] for item in answer["advice"]]


def test_cnf_and_diff(capsys, tmp_path):
    code, out, err = run(capsys, *ASKED, "--output", "cnf")
    assert code == 0 and "\n[mysqld]\n" in out and "innodb_buffer_pool_size = 24G" in out
    config = tmp_path / "my.cnf"
    config.write_text("[mysqld]\ninnodb_buffer_pool_size=1G\n")
    code, out, err = run(capsys, *ASKED, "--config", str(config), "--output", "diff", "--check")
    assert code == 1 and f"--- {config}" in out and "-innodb_buffer_pool_size=1G" in out
    code, out, err = run(capsys, *ASKED, "--output", "cnf")
    config.write_text(out)
    code, out, err = run(capsys, *ASKED, "--config", str(config), "--output", "diff", "--check")
    assert (code, out) == (0, "") and "nothing to change" in err


def test_a_workload_by_name_gives_effects(capsys):
    code, out, err = run(capsys, *ASKED, "--workload", "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16", "--output", "json")
    assert code == 0
    assert any("simulated" in (item["effect"] or "") for item in json.loads(out)["advice"])


def test_the_flavor_follows_from_version_or_file(capsys, tmp_path):
    words = ["--storage", "gp3:500", "--memory", "8", "--output", "json"]
    assert json.loads(run(capsys, *words, "--server-version", "10.11.19-MariaDB")[1])["flavor"] == "mariadb"
    config = tmp_path / "my.cnf"
    config.write_text("[mariadb-10.11]\nsync_binlog=1\n")
    code, out, err = run(capsys, *words, "--config", str(config))
    assert json.loads(out)["flavor"] == "mariadb" and "note: no --server-version" in err
    config.write_text("[mysqld]\nsync_binlog=1\n")
    assert json.loads(run(capsys, *words, "--config", str(config))[1])["flavor"] == "mysql"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--memory", "8"], 2, "--storage"),
        (["--storage", "gp3:500"], 2, "memory"),
        ([*ASKED, "--check"], 2, "compares"),
        ([*ASKED, "--output", "diff"], 2, "option file"),
        ([*ASKED, "--output", "xml"], 2, "xml"),
        ([*ASKED, "--config", "nowhere.cnf"], 2, "no such file"),
        ([*ASKED, "--config", "/etc"], 2, "folder"),
        ([*ASKED, "--engine", "myrocks"], 2, "no MyRocks"),
        ([*ASKED, "--workload", "nowhere.toml"], 2, "no such file"),
        ([*ASKED, "--flavor", "mariadb"], 2, "not known"),
        ([*ASKED, "--log-dir", "here"], 2, "absolute"),
        ([*ASKED, "mysql://me@127.0.0.1:1/"], 2, "says itself"),
        (["--storage", "gp3:500", "--memory", "8", "mysql://me:secret@127.0.0.1/"], 2, "password"),
        (["--storage", "gp3:500", "--memory", "8", "mysql://me@127.0.0.1:1/"], 3, "127.0.0.1:1"),
    ],
)
def test_bad_input(capsys, words, code, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    got, out, err = run(capsys, *words)
    assert (got, out) == (code, "") and says in err and err.startswith("error:") and "secret" not in err, err


def test_help_starts_no_heavy_import():
    import subprocess
    import sys

    code = "import sys, headrace.cli.advise; print(sorted(name for name in ('pymysql', 'numpy', 'headrace.mysql') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
