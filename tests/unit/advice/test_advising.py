"""Values and effects of the advice: how they follow from storage, memory, processors and
workload."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from advised import advised
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.advice import parse_server
from headrace.advice.model import LOSSY, RISKS, SAFE, SLOWER
from headrace.advice.situation import compute_storage_rates
from headrace.advice.values import are_same, as_bytes, as_number, format_size, is_on
from headrace.errors import InputError
from headrace.simulation.database import predict

GIB = 1024**3
ASKED = {"storage": "gp3:500:6000:500", "memory_gib": 32, "flavor": "mysql", "version": "8.0.36"}


def by_id(**more) -> dict:
    return {item.id: item for item in advised(**ASKED | more)}


@pytest.fixture(scope="module")
def tpcc():
    """1,000 warehouses, 88 GiB in InnoDB; nothing measured, so wide intervals."""
    return headrace.sysbench_tpcc(warehouses=1000, engine="innodb", cache_gib=25, threads=16)


@pytest.fixture(scope="module")
def plain(tpcc):
    """Returns the workload without intervals, which take most of the time."""
    return replace(tpcc, parameters=(), covariance=())


@pytest.fixture(scope="module")
def rocks():
    return headrace.sysbench_tpcc(warehouses=1000, engine="myrocks", cache_gib=10, threads=16)


# The tuned server of the whitepaper: 244 GiB, gp2 or io1.
WHITEPAPER = {
    "innodb_buffer_pool_size": "183G", "innodb_flush_method": "O_DIRECT", "innodb_flush_neighbors": "0", "table_open_cache_instances": "16",
}  # fmt: skip


@pytest.mark.parametrize("storage", ["gp2:500", "io1:500:5000"])
def test_the_whitepapers_tuned_server(storage):
    result = {
        item.parameter: item.value
        for item in advised(
            storage=storage, memory_gib=244, vcpus=32, flavor="mysql", version="5.7.18", as_of="2017-06-01"
        )
    }
    # Theirs had 193 GiB of pool, 79 % of memory; ours is 3/4 (docs/decisions/0006).
    assert {name: result[name] for name in WHITEPAPER} == WHITEPAPER
    # Theirs: 2 x 134 MB. Ours has more: an hour of writes, they say, is what it should hold.
    assert as_bytes(result["innodb_log_file_size"]) >= 134e6


@pytest.mark.parametrize(
    ("storage", "iops", "burst", "mib_s", "pages_s"),
    [
        # IOPS / (17/16); 250 MiB/s over 32 KiB are 8,000 pages.
        ("gp3:500:6000:250", 6000, 6000, 250, 6000 / 1.0625),
        # No burst: 3 IOPS a GiB.
        ("gp2:500", 1500, 3000, 250, 1500 / 1.0625),
        # Two members; bytes bind: 2 x 125 MiB/s over 32 KiB.
        ("2xgp3:500:16000:125", 32_000, 32_000, 250, 8_000),
        # RAID 10 writes twice; RAID 5 of three reads the other data and writes two, of more it
        # reads two and writes two.
        ("raid10:4xgp3:500:3000:500", 12_000, 12_000, 2_000, 12_000 / 1.0625 / 2),
        ("raid5:3xgp3:500:3000:500", 9_000, 9_000, 1_500, 9_000 / 1.0625 / 3),
        ("raid5:5xgp3:500:3000:500", 15_000, 15_000, 2_500, 15_000 / 1.0625 / 4),
        ("raid1:2xgp3:500:3000:500", 6_000, 6_000, 1_000, 6_000 / 1.0625 / 2),
    ],
)
def test_what_a_storage_sustains(storage, iops, burst, mib_s, pages_s):
    rates = compute_storage_rates(storage)
    assert (rates.iops, rates.burst_iops, rates.mib_s) == (iops, burst, mib_s)
    assert rates.pages_s == pytest.approx(pages_s)


def test_an_instance_caps_the_storage_and_gives_memory_and_processors():
    # m5.2xlarge: 12,000 IOPS and 287.5 MB/s at its baseline, 32 GiB, 8 virtual CPUs (catalog).
    rates = compute_storage_rates("gp3:500:16000:1000", None, "m5.2xlarge")
    assert (rates.iops, rates.bytes_s) == (12_000, 287.5e6)
    result = {
        item.id: item
        for item in advised(storage="gp3:500:16000:1000", instance="m5.2xlarge", flavor="mysql", version="8.4")
    }
    assert result["innodb_buffer_pool_size"].value == "24G"
    assert result["innodb_redo_log_capacity"].value == "4G"  # 8 virtual CPUs / 2
    local = {
        item.id: item for item in advised(storage="gp3:500", instance="m5d.2xlarge", flavor="mysql", version="8.4")
    }
    assert "tmpdir" in local and not local["tmpdir"].settable and "tmpdir" not in result


def test_turning_disks_are_not_flash():
    assert by_id(storage="st1:2000")["innodb_flush_neighbors"].value == "1"
    assert by_id()["innodb_flush_neighbors"].value == "0"


def test_a_workload_decides_pool_redo_and_capacity(plain):
    guessed, reference = by_id(), by_id(workload=plain)
    # The simulator predicts the rate at the pool that fits: an hour of that redo (to the whole 128
    # MiB the advice rounds to).
    tps = predict(plain, ASKED["storage"], cache_gib=32 * 0.75, start="warm", seconds=3600, seed=None, draws=0).summary[
        "tps"
    ]
    hour = plain.database["log"]["redo_bytes_per_tx"] * tps * 3600
    redo = as_bytes(reference["innodb_redo_log_capacity"].value)
    assert hour - 2**27 <= redo <= hour * 1.02
    assert reference["innodb_redo_log_capacity"].value != guessed["innodb_redo_log_capacity"].value
    assert "hot set" in reference["innodb_buffer_pool_size"].why
    small = headrace.sysbench_tpcc(warehouses=100, engine="innodb", cache_gib=4, threads=16)
    pool = as_bytes(by_id(workload=small)["innodb_buffer_pool_size"].value)
    # The whitepaper: more than the data makes nothing faster. With a tenth to grow, in chunks of
    # 128 MiB.
    assert small.size_gib * 1.1 * GIB - 2**27 <= pool <= small.size_gib * 1.1 * GIB


def test_effects_are_the_simulators(tpcc):
    redo = by_id(workload=tpcc)["innodb_redo_log_capacity"].value
    result = by_id(workload=tpcc, current={"innodb_buffer_pool_size": "4G", "innodb_redo_log_capacity": redo})
    effect = result["innodb_buffer_pool_size"].effect
    assert effect.startswith("4G to 24G: ") and "80 %" in effect and "simulated" in effect
    # The effect by hand: a sync of the redo log and two of the binlog a commit.
    database = copy.deepcopy(tpcc.database)
    database["log"]["syncs_per_commit"] = 3.0
    by_hand = [
        predict(
            replace(tpcc, database=database),
            ASKED["storage"],
            cache_gib=size,
            start="warm",
            seconds=3600,
            seed=None,
            draws=0,
        ).summary["tps"]
        for size in (4, 24)
    ]
    parts = [float(part.replace(",", "")) for part in effect.split(": ")[1].split(" tps")[0].split(" to ")]
    # Four digits are shown; steps of 10 s against 1 s.
    assert parts == pytest.approx(by_hand, rel=0.005)
    result = by_id(workload=replace(tpcc, parameters=(), covariance=()), current={})
    for name in (
        "innodb_flush_log_at_trx_commit",
        "sync_binlog",
        "innodb_doublewrite",
        "innodb_redo_log_capacity",
        "log_volume",
    ):
        assert "tps" in result[name].effect, name
    assert "cannot be estimated: locks" in result["table_open_cache_instances"].effect


def test_what_cannot_be_estimated_says_so(plain):
    for item in by_id().values():
        assert item.effect is None or "simulated" not in item.effect or item.effect.startswith("cannot be estimated")
    redo = by_id(workload=plain)["innodb_redo_log_capacity"].effect
    assert redo.startswith("cannot be estimated: the redo log the workload was measured with is not known")


def test_more_redo_never_flushes_more(plain):
    seen = []
    for size in ("128M", "1G", "8G"):
        effect = by_id(workload=plain, current={"innodb_redo_log_capacity": size})["innodb_redo_log_capacity"].effect
        seen.append(effect)
    gains = [
        float(text.split("tps, ")[1].split(" ")[0].rstrip("%")) if "tps" in text and "no change" not in text else 0.0
        for text in seen
    ]
    assert gains[0] > gains[1] >= gains[2] - 0.1, seen


def test_durability():
    full, relaxed = by_id(), by_id(durability="relaxed")
    assert (full["innodb_flush_log_at_trx_commit"].value, full["sync_binlog"].value) == ("1", "1")
    assert (relaxed["innodb_flush_log_at_trx_commit"].value, relaxed["sync_binlog"].value) == ("2", "0")
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog"):
        assert full[name].risk == SAFE and full[name].active
        assert relaxed[name].risk == LOSSY and relaxed[name].active and "loses" in relaxed[name].why
    # MariaDB's default is 0.
    mariadb = by_id(flavor="mariadb", version="10.11.19")["sync_binlog"]
    assert (mariadb.value, mariadb.risk, mariadb.active) == ("1", SLOWER, True)
    assert not [item for item in full.values() if item.risk == LOSSY], (
        "nothing that can lose data without being asked for"
    )


def test_replicas():
    plain, replica = by_id(vcpus=8), by_id(vcpus=8, replica=True)
    for name in ("replica_parallel_workers", "relay_log_recovery", "sync_relay_log"):
        assert not plain[name].active and replica[name].active
    assert replica["replica_parallel_workers"].value == "8"
    assert by_id(version="5.7.30", vcpus=8, replica=True)["master_info_repository"].active, "FILE is the default there"
    assert not replica["master_info_repository"].active, "a default whose name 8.3 refuses"


def test_folders_need_a_path_or_stay_comments():
    named = by_id(log_storage="gp3:50", log_dir="/srv/log")
    assert (named["innodb_log_group_home_dir"].value, named["innodb_log_group_home_dir"].active) == ("/srv/log", True)
    assert (named["log_bin"].value, named["log_bin"].active) == (
        "/srv/log/binlog",
        True,
    )  # MySQL 8 writes one by default
    assert not by_id(version="5.7.30", log_storage="gp3:50", log_dir="/srv/log")["log_bin"].active
    unnamed = by_id(log_storage="gp3:50")
    assert not unnamed["innodb_log_group_home_dir"].settable and "innodb_log_group_home_dir" not in by_id()


def test_myrocks(rocks):
    result = {
        item.id: item
        for item in advised(**ASKED | {"flavor": "mariadb", "version": "10.11.19"}, engine="myrocks", workload=rocks)
    }
    rate = as_bytes(result["rocksdb_rate_limiter_bytes_per_sec"].value)
    # 30 % of 500 MiB/s.
    assert rate == 150 * 2**20
    assert "simulated" in result["rocksdb_rate_limiter_bytes_per_sec"].effect
    assert result["innodb_buffer_pool_size"].value == "256M"
    assert result["replica_parallel_mode"].value == "conservative"
    assert not {"innodb_io_capacity", "innodb_flush_neighbors"} & set(result)
    cache, tables = as_bytes(result["rocksdb_block_cache_size"].value), 2 * 256 * 2**20
    assert cache + tables <= 0.75 * 32 * GIB
    serial = advised(
        **ASKED | {"flavor": "mariadb", "version": "10.11.19"},
        engine="myrocks",
        current={"tx_isolation": "SERIALIZABLE"},
    )
    assert next(item for item in serial if item.id == "transaction_isolation").differs


@given(
    memory=st.floats(0.25, 4_096), vcpus=st.one_of(st.none(), st.integers(1, 192)), engine=st.sampled_from(["innodb", "myrocks"]),
    storage=st.sampled_from(["gp2:1", "gp2:100", "gp3:500:6000:250", "st1:125", "io2:100:50000", "raid5:3xgp2:10", "8xgp3:1000:16000:1000", "standard:1"]),
    version=st.sampled_from([("mariadb", "10.11.19"), ("mariadb", "11.8.6"), ("percona", "5.7.30"), ("percona", "8.0.36")]),
)  # fmt: skip
def test_values_are_sane_whatever_the_machine(memory, vcpus, engine, storage, version):
    result = {
        item.id: item
        for item in advised(
            storage=storage, memory_gib=memory, vcpus=vcpus, engine=engine, flavor=version[0], version=version[1]
        )
    }
    caches = as_bytes(result["innodb_buffer_pool_size"].value) + as_bytes(
        result.get("rocksdb_block_cache_size", result["innodb_buffer_pool_size"]).value
    ) * (engine == "myrocks")
    # The server itself needs room: at most 3/4 of memory, and half of a small one.
    assert caches <= max(0.75 * memory * GIB, 192 * 2**20) * 1.001
    for item in result.values():
        assert item.risk in RISKS and item.value and item.why
    if engine == "innodb":
        capacity, most = (float(result[name].value) for name in ("innodb_io_capacity", "innodb_io_capacity_max"))
        assert 100 <= capacity <= most
        assert most <= max(100.0, compute_storage_rates(storage).pages_s)
        redo = result.get("innodb_redo_log_capacity") or result["innodb_log_file_size"]
        assert 4 * 2**20 <= as_bytes(redo.value) <= 128 * GIB  # innodb_log_file_size takes 4 MiB at least
        pool, instances = as_bytes(result["innodb_buffer_pool_size"].value), result.get("innodb_buffer_pool_instances")
        if instances is not None and pool >= GIB:
            assert pool % (int(instances.value) * 128 * 2**20) == 0, "the server would round the pool up"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("134217728", "128M"),
        ("193G", "193G"),
        ("1k", "1K"),
        ("1536M", "1536M"),
        ("0", "0"),
        ("1000", "1000"),
        ("2T", "2T"),
        ("1E", "1048576T"),
    ],
)
def test_sizes(text, size):
    assert format_size(as_bytes(text)) == size
    assert as_bytes(size) == as_bytes(text)


def test_values_compare_by_meaning():
    assert are_same("bytes", "134217728", "128M") and not are_same("bytes", "128M", "128K")
    assert (
        are_same("switch", "1", "ON") and are_same("switch", "off", "0") and not are_same("switch", "DETECT_ONLY", "ON")
    )
    assert (
        are_same("word", "read-committed", "READ_COMMITTED")
        and are_same("count", "16", "16")
        and not are_same("count", "16", "8")
    )
    assert are_same("text", "a=1; b=2", "b=2;a=1") and are_same("path", "/a/", "/a")
    assert (
        is_on("DETECT_AND_RECOVER")
        and not is_on("DETECT_ONLY")
        and as_number("99.9") == 99.9
        and as_number("x") is None
    )


@pytest.mark.parametrize(
    ("flavor", "version", "says"),
    [
        ("mysql", "5.6", "not known"), ("mysql", "10.11", "not known"), ("mariadb", "8.0", "not known"), ("mariadb", "12.0", "not known"), ("percona", "9.0", "not known"),
        ("mysql", "eight", "not a version"), ("oracle", "8.0", "must be one of"), ("mysql", None, "not a version"), ("mysql", (8,), "not a version"), ("mysql", (8, True), "not a version"),
        ("mysql", (8, -1), "not a version"), ("mysql", "8.0.36\n", None), ("mariadb", "10.11.19-MariaDB-0+deb12u1", None), ("mysql", (9, 7, 4), None),
    ],
)  # fmt: skip
def test_versions(flavor, version, says):
    if says is None:
        assert parse_server(flavor, version).flavor == flavor
        return
    with pytest.raises(InputError) as caught:
        parse_server(flavor, version)
    assert says in caught.value.rule


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"storage": "gp9:1"}, "not a volume type"), ({"storage": None}, "text"), ({"memory_gib": None}, "must be given"), ({"memory_gib": 0.1}, "0.25"),
        ({"memory_gib": float("nan")}, "0.25"), ({"memory_gib": "32"}, "number"), ({"vcpus": 0}, "whole"), ({"engine": "tokudb"}, "one of"), ({"durability": "some"}, "one of"),
        ({"replica": 1}, "True or False"), ({"engine": "myrocks"}, "no MyRocks"), ({"flavor": "mariadb", "version": "10.2.11", "engine": "myrocks"}, "stable"),
        ({"workload": 3}, "transactions"), ({"log_dir": "relative"}, "absolute"), ({"log_dir": "/a\nb=1"}, "absolute"), ({"tmp_dir": '/a"'}, "absolute"),
        ({"instance": "x9.huge"}, ""), ({"as_of": "yesterday"}, ""), ({"log_storage": "floppy:1"}, "not a volume type"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_words(more, says):
    with pytest.raises(InputError) as caught:
        advised(**ASKED | more)
    assert says in caught.value.rule


def test_a_workload_of_the_other_engine_is_refused(rocks):
    with pytest.raises(InputError, match="myrocks"):
        advised(**ASKED, workload=rocks)


@pytest.mark.parametrize("value", ["", "lots", "-1", "99999999999999999999999", "1.5G", "\x00"])
def test_nonsense_of_a_server_is_compared_not_believed(value, plain):
    for name in (
        "innodb_buffer_pool_size",
        "innodb_redo_log_capacity",
        "innodb_log_file_size",
        "innodb_log_files_in_group",
        "sync_binlog",
        "innodb_doublewrite",
    ):
        assert advised(**ASKED, workload=plain, current={name: value})
