"""Drivers on real servers and files: what they measure is what the server counted, and nothing measured is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from lab_folders import fill, small_disk
from lab_servers import SPEC, sql

from headrace import servers
from headrace.base.processes import run_lines
from headrace.bench import (
    BrokenRun,
    FioJob,
    InterruptedRun,
    Mysqlslap,
    Store,
    SysbenchFileio,
    SysbenchOltp,
    Tpcc,
    clean_up,
    make_file_target,
    make_server_target,
    prepare,
    run,
)
from headrace.bench.drivers import sysbench
from headrace.bench.drivers.benchmark import RunLoad
from headrace.bench.server import hold_connection
from headrace.calibration.from_runs import calibrate
from headrace.calibration.runs import load_run
from headrace.errors import CouldNotRun, InputError
from headrace.observe.settings import SCRIPTS

SMALL = {"tables": 2, "rows": 2_000}


def target_of(server, lab=None, database: str = "bench"):
    volumes = (server.volumes.data,) if lab is not None else ()
    return make_server_target(
        server.make_address(database),
        storage=server.storage,
        devices=server.volumes.devices,
        lab=None if lab is None else lab.place,
        volumes=volumes,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def target(server, lab):
    """A server with the lab's figures, and small tables of sysbench."""
    target = target_of(server, lab)
    prepare(SysbenchOltp(**SMALL), target, threads=2)
    yield target
    clean_up(SysbenchOltp(**SMALL), target)


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture(scope="module")
def measured(target, store):
    """One run for several tests."""
    seconds = []
    record = run(
        SysbenchOltp(**SMALL),
        target,
        seconds=5,
        warmup_s=2,
        threads=4,
        store=store,
        name="measured",
        on_second=seconds.append,
    )
    return record, seconds


def test_a_run_has_all_sources_on_one_line(measured, target):
    record, seconds = measured
    series = record.read_series()
    assert record.state == "complete" and series["phase"].to_list() == ["warmup"] * 2 + ["measure"] * (
        series.height - 2
    )
    # sysbench may end before its last line is printed.
    assert series.height in (6, 7) and len(seconds) == series.height and seconds[-1].phase == "measure"
    for column in (
        "tps",
        "qps",
        "read_iops",
        "write_iops",
        "com_commit_per_s",
        "innodb_pages_written_per_s",
        "idle_cpus",
        "cap_volume_iops",
        "lab_write_p99_ms",
    ):
        assert series[column].null_count() == 0, column
    # Commits counted by the server are the benchmark's transactions: over all rows what the edges of the samples leave open is well below a tenth.
    assert series["com_commit_per_s"].sum() == pytest.approx(series["tps"].sum(), rel=0.1)
    # p99 is told of 1,000 transactions and more; a bucket is 0.9 % wide on each side.
    assert (
        record.summary["p50_ms"] <= record.summary["p95_ms"] <= (record.summary["p99_ms"] or 1e9)
        and record.summary["p95_ms"] <= 1.01 * record.summary["max_ms"]
    )
    histogram = record.read_percentiles()
    # sysbench resets one counter after the other: a transaction of each client may be in one of them only.
    assert abs(histogram["count"].sum() - record.summary["transactions"]) <= 4 and histogram["share"][-1] == 1.0
    document = record.document
    assert (
        document["config"]["innodb_buffer_pool_size"] == str(64 << 20)
        and document["environment"]["kernel"]
        and document["tool"]["version"].startswith("1.")
    )


def test_a_run_is_calibrated_from_as_it_is(measured):
    record, _ = measured
    loaded = load_run(record.run_toml)
    assert loaded.name == "measured" and loaded.benchmark.script == "oltp_read_write" and loaded.status is not None
    assert (
        loaded.series["tps"].sum() == pytest.approx(record.read_series()["tps"].sum(), rel=1e-4)
        and loaded.series["write_iops"].null_count() == 0
    )
    # Nothing else is wrong with it: two minutes of such seconds are calibrated from.
    with pytest.raises(InputError, match="too short to identify anything"):
        calibrate([record.run_toml])


def test_no_password_is_kept_or_shown(measured, target, tmp_path):
    record, _ = measured
    password = target.address.password
    data = everything_in(record.folder)
    assert record.folder.name.encode() in data
    if password is not None:
        assert password.reveal().encode() not in data
        command = SysbenchOltp(**SMALL).build_command(target, RunLoad(1, 0, 1, 1), tmp_path)
        assert all(password.reveal() not in word for word in command.arguments) and password.reveal() not in str(
            command.environment
        )


def test_preparing_twice_does_nothing(target):
    assert prepare(SysbenchOltp(**SMALL), target, threads=2) is False
    with pytest.raises(InputError, match="1 of 3 tables are missing"):
        prepare(SysbenchOltp(tables=3, rows=2_000), target, threads=2)
    with pytest.raises(InputError, match="has other rows"):
        prepare(SysbenchOltp(tables=2, rows=5_000), target, threads=2)


def short(benchmark, target, tmp_path, threads: int = 2):
    """A second of it, without samples."""
    load = RunLoad(threads, 0, 1, 1)
    command = benchmark.build_command(target, load, tmp_path)
    ended = run_lines(command, tmp_path / "raw", 60, lambda at, text: None)
    assert ended.code == 0, ended.message
    return benchmark.read_outcome((tmp_path / "raw").read_text(), load, tmp_path)


# Those that leave other rows behind come last.
@pytest.mark.parametrize(
    "script",
    sorted(
        (name for name in SCRIPTS if name != "bulk_insert"), key=lambda name: name in ("oltp_insert", "oltp_delete")
    ),
)
def test_every_script_runs(target, tmp_path, script):
    outcome = short(SysbenchOltp(script, **SMALL), target, tmp_path)
    assert outcome.figures["transactions"] > 0 and outcome.histogram.total == outcome.figures["events"]
    assert SysbenchOltp(script, **SMALL).verify(target) == []


def test_bulk_insert_has_tables_of_its_own(server, tmp_path):
    target = target_of(server, database="bulk")
    load, messages = SysbenchOltp("bulk_insert"), []
    prepare(load, target, threads=2, say=messages.append)
    try:
        assert messages == ["preparing 2 empty tables"]
        assert short(load, target, tmp_path).figures["events"] > 0
        with pytest.raises(InputError, match="other rows than 0"):  # its rows are numbered from 1 each time
            load.is_prepared(target, 2)
    finally:
        clean_up(load, target)


@pytest.mark.parametrize("distribution", ["gaussian", "pareto", "zipfian"])
def test_every_distribution_runs(target, tmp_path, distribution):
    load = SysbenchOltp("oltp_point_select", distribution=distribution, **SMALL)
    assert short(load, target, tmp_path).figures["transactions"] > 0


def test_zipfs_law_is_zipfs_law(tmp_path):
    """40,000 numbers of 1..50: the sum of squared deviations is chi-squared with 49 degrees of freedom, below 99 in all but one of 30,000 cases."""
    lua = Path(sysbench.__file__).parent / "lua/zipfian.lua"
    (tmp_path / "draw.lua").write_text(
        f"function event() end\nfunction thread_init() dofile('{lua}')(0.9)\nlocal t = {{}}\nfor i = 1, 40000 do t[i] = sysbench.rand.default(11, 60) end\n"
        "io.write('drawn ' .. table.concat(t, ' ') .. '\\n') end\n"
    )
    done = subprocess.run(
        ["sysbench", "draw.lua", "--events=1", "--rand-seed=7", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    drawn = Counter(
        int(text) - 10
        for text in next(line for line in done.stdout.splitlines() if line.startswith("drawn ")).split()[1:]
    )
    assert sum(drawn.values()) == 40_000 and set(drawn) <= set(range(1, 51))
    weight = sum(k**-0.9 for k in range(1, 51))
    expected = {k: 40_000 * k**-0.9 / weight for k in range(1, 51)}
    assert sum((drawn[k] - expected[k]) ** 2 / expected[k] for k in expected) < 99


def test_tpcc_is_consistent_and_its_checks_find_what_is_not(server, tmp_path):
    target = target_of(server, database="tpcc")
    load = Tpcc(2, items=500, customers=60)
    prepare(load, target, threads=2)
    try:
        assert load.verify(target) == []
        figures = short(load, target, tmp_path, threads=4).figures
        counted = sum(
            figures[f"{kind}_count"] for kind in ("new_order", "payment", "order_status", "delivery", "stock_level")
        )
        assert counted == figures["transactions"]
        # Decks of 100: exactly 45 new orders in each whole one, and at most 45 in the one begun, of each of four clients.
        assert abs(figures["new_order_count"] - 0.45 * counted) <= 4 * 25
        assert load.verify(target) == []
        for statement, conditions in (
            ("UPDATE tpcc_warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2", {1, 8}),
            ("UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3", {2}),
            ("DELETE FROM tpcc_order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 7 LIMIT 1", {4, 6}),
            ("UPDATE tpcc_orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 8", {5, 7}),
            (
                "UPDATE tpcc_customer SET c_balance = c_balance + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
                {10, 12},
            ),
        ):
            before = numbers(load.verify(target))
            with hold_connection(target) as connection, connection.cursor() as cursor:
                cursor.execute(statement)
            assert conditions <= numbers(load.verify(target)) - before, statement
    finally:
        clean_up(load, target)


def numbers(wrong: list[str]) -> set[int]:
    return {int(text.split("condition ")[1].split()[0]) for text in wrong}


def test_tpcc_on_myrocks(lab, tmp_path):
    server = servers.bring_up(
        lab, name="rocks", engine="myrocks", storage=SPEC, settings={"rocksdb_block_cache_size": "32M"}
    )
    try:
        target = target_of(server, database="tpcc")
        load = Tpcc(1, items=500, customers=60)
        prepare(load, target, threads=2)
        assert short(load, target, tmp_path).figures["transactions"] > 0
        assert load.verify(target) == [] and target.engine == "myrocks"
        with pytest.raises(InputError, match="and the run is of innodb|is of"):
            load.is_prepared(make_server_target(server.make_address("tpcc"), engine="innodb"), 2)
    finally:
        servers.destroy(server)


def test_mysqlslap_is_measured_by_the_server(server, store):
    target = target_of(server, database="slap")
    load = Mysqlslap("mixed", rows=1_000)
    prepare(load, target, threads=2)
    try:
        record = run(load, target, seconds=2, threads=2, store=store)
        series = record.read_series()
        assert record.state == "complete" and series.height == 2 and record.summary["tps"] > 0
        assert series["tps"].sum() == pytest.approx((series["com_select_per_s"] + series["com_insert_per_s"]).sum())
        assert record.run_toml is None and record.summary["p95_ms"] is None
    finally:
        clean_up(load, target)


@pytest.mark.parametrize(
    "load",
    [FioJob("randrw", 16, 2, size_gib=0.03125), SysbenchFileio("rndrw", size_gib=0.03125, files=2, fsync_every=50)],
    ids=lambda load: load.name,
)
def test_files_are_read_and_written(load, store, tmp_path):
    target = make_file_target(tmp_path, storage="gp3:100")
    assert prepare(load, target, threads=2) and not prepare(load, target, threads=2)
    record = run(load, target, seconds=2, warmup_s=1, threads=2, store=store)
    series = record.read_series().filter(record.read_series()["phase"] == "measure")
    assert (
        record.state == "complete"
        and series.height >= 1
        and record.summary["tps"] > 0
        and record.summary["p50_ms"] <= record.summary["p99_ms"]
    )
    assert series["tps"].mean() == pytest.approx(record.summary["tps"]) and series["tool_read_mib_s"].min() > 0
    clean_up(load, target)
    assert os.listdir(tmp_path) == []


# --- what goes wrong ------------------------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_was_measured(target, store):
    def stop(second):
        if second.t_s == 3.0:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedRun) as stopped:
        run(SysbenchOltp(**SMALL), target, seconds=600, threads=2, store=store, on_second=stop)
    record = stopped.value.record
    assert record.state == "interrupted" and 3 <= record.read_series().height <= 5 and record.summary["tps"] > 0
    assert "Stopped after" in record.findings[1] or "Stopped after" in record.findings[0]
    assert load_run(record.run_toml).seconds == record.read_series().height
    # Nothing of sysbench is left on the server.
    with hold_connection(target) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()",
            (target.address.database,),
        )
        assert cursor.fetchone()[0] == 0


def test_a_server_that_dies_keeps_what_was_measured(lab, store):
    server = servers.bring_up(lab, name="victim", storage=SPEC)
    try:
        target = target_of(server, lab)
        prepare(SysbenchOltp(**SMALL), target, threads=2)

        def kill(second):
            if second.t_s == 3.0:
                os.kill(server.pid, signal.SIGKILL)

        with pytest.raises(BrokenRun) as broken:
            run(SysbenchOltp(**SMALL), target, seconds=600, threads=2, store=store, on_second=kill)
        record = broken.value.record
        assert broken.value.exit_code == 3 and record.id in broken.value.hint
        assert record.state == "broken" and record.read_series().height >= 3 and record.summary["tps"] > 0
        assert any("Ended early" in text for text in record.findings) and any(
            "status: ended" in text for text in record.findings
        )
        assert load_run(record.run_toml).series.height == record.read_series().height
    finally:
        with contextlib.suppress(CouldNotRun, InputError):
            servers.destroy(servers.find(lab, "victim"))


@pytest.mark.parametrize(
    "load", [SysbenchOltp(tables=1, rows=400_000), Mysqlslap("mixed", rows=400_000)], ids=lambda load: load.name
)
def test_a_full_volume_leaves_no_half_data(lab, load):
    server = servers.bring_up(lab, name="small", storage="gp2:1")
    try:
        target = target_of(server)
        # 220 and 160 bytes a row: 400,000 are 84 and 61 MiB, and 40 are left.
        place = Path(server.paths.datadir)
        free_bytes = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        with open(place / "filler", "wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, free_bytes - (40 << 20))
        with pytest.raises(CouldNotRun) as refused:
            prepare(load, target, threads=1)
        assert "is full" in refused.value.rule or "errno: 28" in refused.value.rule
        assert sql(server, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'bench'")[0][0] == 0
    finally:
        servers.destroy(server)


@pytest.mark.parametrize(
    "load",
    [FioJob("randrw", 16, 2, size_gib=0.125), SysbenchFileio("rndrw", size_gib=0.125, files=2)],
    ids=lambda load: load.name,
)
def test_a_full_folder_leaves_no_half_data(load, tmp_path):
    """Too little room is said before anything is written; room that others take meanwhile, at once."""
    with small_disk(tmp_path / "d", 256) as place:
        target = make_file_target(place, storage="gp3:100")
        filler = fill(place, free_bytes=100 << 20)
        with pytest.raises(CouldNotRun, match="GiB free, and 0.125 are needed"):
            prepare(load, target, threads=1)
        assert list(place.iterdir()) == [filler]
        filler.unlink()
        with pytest.raises(CouldNotRun, match="No space left on device|[Nn]o space|is the disk full|write failed"):
            # The message comes between the look at the room and the first byte.
            prepare(load, target, threads=1, say=lambda text: fill(place, free_bytes=32 << 20) and None)
        assert list(place.iterdir()) == [filler]
        filler.unlink()
        assert prepare(load, target, threads=1)


def test_data_that_are_missing_are_asked_for(server, store):
    with pytest.raises(InputError, match="has no data yet"):
        run(SysbenchOltp(**SMALL), target_of(server, database="nothing_here"), seconds=2, store=store)


def test_tls_over_tcp(lab, tmp_path):
    server = servers.bring_up(lab, name="tls", storage=SPEC, port=free_port())
    try:
        target = make_server_target(
            server.make_address("bench", tcp=True), storage=server.storage, devices=server.volumes.devices
        )
        prepare(SysbenchOltp(tables=1, rows=500), target, threads=1)
        assert short(SysbenchOltp(tables=1, rows=500), target, tmp_path, threads=1).figures["transactions"] > 0
    finally:
        servers.destroy(server)


def free_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_mysql_too(lab, mysql_program, tmp_path):
    server = servers.bring_up(lab, name="oracle", flavor="mysql", storage=SPEC)
    try:
        target = target_of(server)
        prepare(SysbenchOltp(tables=1, rows=500), target, threads=1)
        assert (
            short(SysbenchOltp(tables=1, rows=500), target, tmp_path, threads=1).figures["transactions"] > 0
            and target.flavor == "mysql"
        )
    finally:
        servers.destroy(server)
