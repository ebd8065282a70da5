"""`headrace advise` on the command line."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from places import DATA

import headrace
from headrace.advice.output import list_columns
from headrace.cli import main
from headrace.errors import InputError

ASKED = ["--storage", "gp3:500:6000", "--memory-gib", "32", "--vcpus", "8", "--server-version", "8.0.36"]


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main.main(["advise", *words])
    output = capsys.readouterr()
    return code, output.out, output.err


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
    assert (
        code == 0
        and answer["schema"] == "headrace-advice/1"
        and (answer["flavor"], answer["version"]) == ("mysql", "8.0.36")
    )
    code, out, err = run(capsys, *ASKED, "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert tuple(rows[0]) == list_columns() == tuple(answer["advice"][0])
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


@pytest.mark.parametrize(
    ("size", "value", "rule"),
    [
        (["--memory-gib", "64"], "memory of 64 GiB", "m5.large has 8 GiB of memory"),
        (["--vcpus", "64"], "vcpus = 64", "m5.large has 2 virtual CPUs"),
    ],
)
def test_an_instance_has_no_more_than_the_catalog_says(capsys, size, value, rule):
    words = ["--storage", "gp3:500:6000", "--instance", "m5.large", "--output", "cnf"]
    code, out, err = run(capsys, *words, *size)
    assert (code, out) == (2, "") and f"{value}: {rule}" in err and "data/instances.csv" in err
    # Less than it has: another program may use the rest.
    code, out, err = run(capsys, *words, "--memory-gib", "4", "--vcpus", "1")
    assert code == 0 and "innodb_buffer_pool_size = 2G" in out


def test_a_workload_by_name_gives_effects(capsys):
    code, out, err = run(
        capsys, *ASKED, "--workload", "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16", "--output", "json"
    )
    assert code == 0
    assert any("simulated" in (item["effect"] or "") for item in json.loads(out)["advice"])


def test_the_flavor_follows_from_version_or_file(capsys, tmp_path):
    words = ["--storage", "gp3:500", "--memory-gib", "8", "--output", "json"]
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
        (["--memory-gib", "8"], 2, "--storage"),
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
        (["--storage", "gp3:500", "--memory-gib", "8", "mysql://me:secret@127.0.0.1/"], 2, "password"),
        (["--storage", "gp3:500", "--memory-gib", "8", "mysql://me@127.0.0.1:1/"], 3, "127.0.0.1:1"),
    ],
)
def test_bad_input(capsys, words, code, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    got, out, err = run(capsys, *words)
    assert (got, out) == (code, "") and says in err and err.startswith("error:") and "secret" not in err, err


def test_help_starts_no_heavy_import():
    import subprocess
    import sys

    code = "import sys, headrace.cli.servers.advise; print(sorted(name for name in ('pymysql', 'numpy', 'headrace.servers') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def write_config(folder, *lines: str):
    config = folder / "my.cnf"
    config.write_text("\n".join(["[mysqld]", *lines, ""]))
    return str(config)


def redo_today(capsys, *words) -> str:
    rows = csv.DictReader(io.StringIO(run(capsys, *words, "--output", "csv")[1]))
    return next(row["current"] for row in rows if row["parameter"] == "innodb_redo_log_capacity")


@pytest.mark.parametrize(
    ("lines", "redo", "says"),
    [
        # MySQL manual, "Redo Log": files x size while the capacity is not set itself; two files of
        # 48 MiB where one of the two is not said.
        (("innodb_log_file_size=512M",), "1G", "still takes it"),
        (("innodb_log_file_size=512M", "innodb_log_files_in_group=4"), "2G", "still takes it"),
        (("innodb_log_files_in_group=4",), "192M", "still takes it"),
        (("innodb_log_file_size=512M", "innodb_redo_log_capacity=3G"), "3G", "ignores it"),
    ],
)
def test_old_sizes_of_the_redo_log_count_until_the_capacity_is_set(capsys, tmp_path, lines, redo, says):
    words = [*ASKED, "--config", write_config(tmp_path, *lines)]
    code, out, err = run(capsys, *words, "--output", "diff")
    assert code == 0 and f"{lines[0].partition('=')[0]}: MySQL 8.0.36 {says}" in err
    # With the new capacity the old size does not count any more: it becomes a comment.
    assert f"-{lines[0]}" in out and f": {lines[0]}\n" in out and "innodb_redo_log_capacity = " in out
    assert redo_today(capsys, *words) == redo


def test_old_sizes_do_not_count_where_the_server_refuses_them(capsys, tmp_path):
    words = [
        "--storage",
        "gp3:500",
        "--memory-gib",
        "32",
        "--server-version",
        "9.0",
        "--config",
        write_config(tmp_path, "innodb_log_file_size=512M"),
    ]
    assert "does not know it and does not start" in run(capsys, *words)[2] and redo_today(capsys, *words) == ""


def test_options_no_server_knows_are_findings(capsys, tmp_path):
    reference = ("max_connections=500", "loose_foo_bar=1", "innodb_buffer_pool=1G", "hot.key_buffer_size=8M", "skip-name-resolve", "user=mysql", "replicate-do-db=a", "plugin-load-add=x.so",
             "validate_password.policy=LOW", "wsrep_on=OFF", "performance-schema-instrument='%=on'")  # fmt: skip
    config = write_config(tmp_path, "foo_bar=1", *reference, "innodb_buffer_pol_size=1G")
    code, out, err = run(capsys, *ASKED, "--config", config, "--check")
    unknown = [line for line in err.splitlines() if "not an option of MySQL or MariaDB known here" in line]
    assert code == 1 and [line.split(": ")[1] for line in unknown] == ["foo_bar", "innodb_buffer_pol_size"]
    assert (
        "does not start" in unknown[0]
        and "line 2" in unknown[0]
        and unknown[1].endswith("Did you mean innodb_buffer_pool_size?")
    )
    changed = run(capsys, *ASKED, "--config", config, "--output", "diff")[1]
    assert "\n+# not known to MySQL 8.0.36: foo_bar=1\n" in changed and "loose_foo_bar" not in "".join(
        re.findall("^[+-].*", changed, re.M)
    )


def test_real_servers_options_are_known():
    from headrace.advice.current import _read_options

    with (DATA / "server_options.csv").open() as table:
        assert {row["option"] for row in csv.DictReader(table)} <= _read_options()


def test_a_line_that_is_set_again_below_does_not_stay_above_the_new_one(capsys, tmp_path):
    config = write_config(tmp_path, "innodb_doublewrite=OFF", "max_connections=10", "skip-innodb-doublewrite")
    out = run(capsys, *ASKED, "--config", config, "--output", "diff")[1].splitlines()
    assert [line for line in out if "doublewrite" in line and "pages" not in line] == [
        "-innodb_doublewrite=OFF",
        "+# set again below: innodb_doublewrite=OFF",
        "-skip-innodb-doublewrite",
        "+innodb_doublewrite = ON",
    ]
    # A setting that is as advised in its last line is left alone.
    config = write_config(tmp_path, "innodb_doublewrite=OFF", "innodb_doublewrite=ON")
    assert "doublewrite=" not in "".join(
        line for line in run(capsys, *ASKED, "--config", config, "--output", "diff")[1].splitlines() if line[:1] in "+-"
    )


def test_the_table_shows_changes_first_and_what_is_so_already_in_one_row(capsys, tmp_path):
    for config in (None, write_config(tmp_path, "innodb_io_capacity=100", "innodb_flush_method=O_DIRECT")):
        advice = headrace.advise(storage="gp3:500:6000", memory_gib=32, vcpus=8, version="8.0.36", config=config)
        *tables, (title, names, last) = advice.build_tables()
        details = [row[1] for _, _, rows in tables for row in rows]
        so = [pair.partition("=")[0] for pair in last[0][0].split(", ")]
        # Everything once, and nothing twice.
        assert sorted(details + so) == sorted(item.parameter for item in advice) and len(last) == 1
        assert [name for name, _, _ in tables] == ["Set", "Decide"] and names == ("settings",)
        to_set = {row[1]: row[3] for row in tables[0][2]}
        assert to_set.keys() <= {item.parameter for item in advice if item.active}
        assert tables[0][1][3] == ("default" if config is None else "today")
        assert to_set["innodb_io_capacity"] == ("200" if config is None else "100")
        assert "innodb_flush_neighbors" in so
        assert ("innodb_flush_method" in so) == (config is not None), "8.0's default is fsync"
        assert title == ("Keep: as advised by default" if config is None else "Keep: as advised today")
        rows = list(
            csv.DictReader(
                io.StringIO(run(capsys, *ASKED, *(["--config", config] if config else []), "--output", "csv")[1])
            )
        )
        assert {row["parameter"] for row in rows if row["change"] == "set"} == to_set.keys()


def test_from_python(tmp_path):
    advice = headrace.advise("gp3:500:6000", memory_gib=32, vcpus=8, config=write_config(tmp_path, "sync_binlog=0"))
    assert repr(advice).startswith("<Advice for MySQL 8.4 (newest) on gp3:500:6000: ") and len(repr(advice)) < 120
    assert (
        advice["sync_binlog"].current == "0"
        and advice["sync_binlog"] in advice.settings
        and len(advice) == len(list(advice))
    )
    assert "\nsync_binlog = 1\n" in advice.to_cnf() and "-sync_binlog=0" in advice.to_diff() and not advice.agrees
    assert advice.to_dict()["findings"][0]["parameter"] == "sync_binlog"
    with pytest.raises(KeyError):
        advice["no_such_setting"]
    with pytest.raises(InputError, match="mysql://"):
        headrace.advise("gp3:500:6000", memory_gib=32, address="db")
