"""Scenarios of trouble on real servers: what is done to one, and what the doctor must say of it."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bed_loads import ONSET_S, ROWS, TABLES, USER, clients, execute, loaded, sysbench
from bed_states import delayed, empty_buckets
from how_soon import HowSoon
from lab_servers import ServerLabs, sql
from waiting import wait_until

from headrace import lab as lab_package
from headrace import servers
from headrace.base.storage import Storage
from headrace.lab import Lab, Settings
from headrace.lab.waiting import wait_for_snapshot
from headrace.mysql import connect
from headrace.mysql.state import observe
from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.doctor.model import Diagnosis
from headrace.operate.targets import SourceOptions, read_evidence
from headrace.servers.server import Server
from headrace.servers.topology.topology import Following, bring_up_replica

POOL = "24M"
WATCH_S = 8.0  # s, for the doctor to look
USED_UP_S, EMPTY_PERCENT = 60.0, 0.01  # of an instance's bytes: a second brings 0.009 % of m5.large's
REST_S = 13.0  # s after a trouble, for its headline to go: more than the doctor's 10
BEHIND_S = 14.0  # s of load that a replica waits before it applies: more than the doctor's 10


def nobody(bed: Bed) -> None:
    """Watches nothing."""


@dataclass
class Bed:
    """A server of a lab with data in it; a replica has its source."""

    lab: Lab
    server: Server
    volume: str
    storage: str
    source: Server | None = None
    snapshot: str | None = None
    rows: int = ROWS  # of each table
    watching: Callable[[Bed], None] = nobody
    began_unix: float = 0.0

    def reset(self, storage: str | None = None) -> None:
        """The volume as it was made, or another; full credits, no faults."""
        self.lab.clear_fault(self.volume)
        self.change(storage or self.storage)
        self.mark()

    def mark(self) -> None:
        """From now on there is trouble."""
        self.began_unix = time.time()
        self.watching(self)

    def change(self, spec: str) -> None:
        """Modifies the volume, and waits until that is completed."""
        expected, now = Storage.parse(spec), self.lab.describe(self.volume)
        volume = expected.members[0]
        iops = volume.iops or (3_000 if volume.type == "gp3" else None)
        # A volume never shrinks.
        size = max(expected.size_gib, now["size_gib"])
        mib_s = volume.mib_s or (125 if volume.type == "gp3" else None)
        had = (now["type"], now["size_gib"], now["iops"] if iops else None, now["throughput_mib_s"] if mib_s else None)
        if had == (volume.type, size, iops, mib_s):
            return
        self.lab.modify(self.volume, volume_type=volume.type, size_gib=size, iops=iops, throughput_mib_s=mib_s)
        wait_until(lambda: self.lab.modifications(self.volume)[-1]["state"] == "completed", "the modification")

    def look(self, seconds: float = WATCH_S, counsel: bool = True) -> tuple[Diagnosis, Evidence]:
        """Returns the doctor's diagnosis now, and its evidence."""
        options = SourceOptions(lab=lambda: self.lab, members=True)
        evidence = read_evidence(f"lab:{self.volume}", options, seconds)
        return diagnose(evidence, Counsel() if counsel else None), evidence


def volume_of(server: Server) -> str:
    """The name of the volume of its data."""
    assert server.volumes.data is not None
    name = server.lab.describe(server.volumes.data)["name"]
    assert name is not None
    return name


def bed_on(lab: Lab, name: str, storage: str, flavor: str, rows: int = ROWS, **settings: str) -> Bed:
    """A server with sysbench's tables, loaded without limits."""
    texts = {
        "innodb_buffer_pool_size": POOL,
        "innodb_buffer_pool_load_at_startup": "OFF",
        "innodb_log_buffer_size": "2M",
    } | settings
    if flavor == "mysql":
        texts["innodb_lru_scan_depth"] = "100"  # pages kept free: by default two thirds of this pool
    server = servers.bring_up(lab, name=name, flavor=flavor, storage=storage, settings=texts, unpaced=True)
    sql(server, f"CREATE USER IF NOT EXISTS {USER}@localhost", f"GRANT ALL ON *.* TO {USER}@localhost")
    sql(server, "CREATE DATABASE IF NOT EXISTS sbtest")
    words = [*sysbench(server, "oltp_read_write", 2, rows=rows), "prepare"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=240)
    servers.stop(server)
    server = servers.start(servers.find(lab, name))
    sql(server, *(f"SELECT COUNT(*) FROM sbtest.sbtest{table} FORCE INDEX (PRIMARY)" for table in range(1, TABLES + 1)))
    return Bed(lab, server, volume_of(server), storage, rows=rows)


def replica_bed(lab: Lab, flavor: str) -> Bed:
    """A replica with one applier, and its source on a volume that is quick enough for every load."""
    source = bed_on(lab, "src", "io2:20:20000", flavor).server
    # MySQL has four appliers by default, MariaDB one.
    following = Following(prepare_source=True, workers=1 if flavor == "mysql" else None)
    replica = bring_up_replica(lab, "rep", source.name, following, storage="gp3:10", unpaced=True).server
    return Bed(lab, replica, volume_of(replica), "gp3:10", servers.find(lab, source.name))


@dataclass
class Scenario:
    """`expects`: (verdict, subject) of headlines that are right. `storage`: whether storage is to
    blame. `make`: makes the trouble while the doctor looks."""

    name: str
    expects: tuple[tuple[str, str], ...]
    storage: bool
    bed: str
    make: Callable[[Bed, random.Random], contextlib.AbstractContextManager[None]] = field(repr=False)

    def right(self, diagnosis: Diagnosis) -> bool:
        """Returns whether the headline is an expected one."""
        return (diagnosis.verdict, diagnosis.findings[0].subject) in self.expects

    def blames_wrongly(self, diagnosis: Diagnosis) -> bool:
        """Returns whether storage is blamed though it is innocent."""
        return not self.storage and diagnosis.verdict in ("binds", "degraded", "will bind")


# --- the troubles ---------------------------------------------------------------------------------


def steady(script: str, clients: tuple[int, ...], *more: str, storage: tuple[str | None, ...] = (None,)):
    """A trouble that is sysbench's load on one of these storages (None: the bed's own)."""

    @contextmanager
    def bed_under_load(bed: Bed, chance: random.Random):
        bed.reset(storage[0] if len(storage) == 1 else chance.choice(storage))
        threads = clients[0] if len(clients) == 1 else chance.choice(clients)
        with loaded(bed.server, script, threads, *more, rows=bed.rows):
            yield

    return bed_under_load


volume_iops = steady("oltp_point_select", (8, 12, 16), storage=("io1:10:200", "io1:10:300", "io1:10:400", "io1:10:500"))
volume_iops_writes = steady(
    "oltp_read_write", (8, 12, 16), "--skip-trx=off", storage=("io1:10:150", "io1:10:200", "io1:10:300")
)
volume_bytes = steady("oltp_point_select", (16, 24))
instance_iops = steady("oltp_point_select", (24, 32), storage=("io1:100:5000",))
instance_bytes = steady("oltp_point_select", (8, 16))


@contextmanager
def light(bed: Bed, chance: random.Random):
    """A healthy server: work well below every limit."""
    bed.reset("gp3:10")
    with loaded(bed.server, "oltp_read_write", 2, f"--rate={chance.choice((5, 10, 20))}"):
        yield


@contextmanager
def credits(bed: Bed, chance: random.Random):
    bed.reset(f"gp2:{chance.choice((10, 40, 60))}")
    bed.lab.set_balance(bed.volume, 0.0)
    with loaded(bed.server, "oltp_point_select", chance.choice((8, 12, 16))):
        bed.lab.set_balance(bed.volume, 0.0)
        bed.mark()
        yield


@contextmanager
def degraded(bed: Bed, chance: random.Random):
    bed.reset("gp3:10")
    with loaded(bed.server, "oltp_point_select", 2):
        bed.lab.fault(
            bed.volume, "degraded", seconds=60, extra_ms=chance.choice((30.0, 80.0, 200.0)), caps_percent=50.0
        )
        bed.mark()
        time.sleep(1)
        yield
    bed.lab.clear_fault(bed.volume)


@contextmanager
def member(bed: Bed, chance: random.Random):
    with loaded(bed.server, "oltp_point_select", chance.choice((2, 4))):
        bed.lab.slow_member(bed.volume, 1, caps_percent=50.0, extra_ms=chance.choice((20.0, 60.0)))
        bed.mark()
        time.sleep(1)
        yield
    bed.lab.restore_member(bed.volume, 1)


@contextmanager
def small_redo(bed: Bed, chance: random.Random):
    bed.reset("gp3:10")
    # The least of each flavor, and its default.
    name, least, usual = (
        ("innodb_log_file_size", 4 << 20, 96 << 20)
        if bed.server.flavor == "mariadb"
        else ("innodb_redo_log_capacity", 8 << 20, 100 << 20)
    )
    sql(bed.server, f"SET GLOBAL {name} = {least}")
    try:
        with loaded(bed.server, "oltp_update_non_index", chance.choice((4, 8))):
            time.sleep(4)
            yield
    finally:
        sql(bed.server, f"SET GLOBAL {name} = {usual}")


@contextmanager
def log_buffer(bed: Bed, chance: random.Random):
    """Transactions whose redo does not fit the log buffer, but the log and the volume."""
    bed.reset("io2:20:16000")
    name, usual = (
        ("innodb_log_file_size", 96 << 20)
        if bed.server.flavor == "mariadb"
        else ("innodb_redo_log_capacity", 100 << 20)
    )
    sql(bed.server, f"SET GLOBAL {name} = {2 << 30}")
    if bed.server.flavor == "mysql":  # waits for room in a large one less often than MariaDB; the least
        sql(bed.server, f"SET GLOBAL innodb_log_buffer_size = {256 << 10}")
    kib = chance.choice((700, 1_000))
    sql(bed.server, "CREATE TABLE IF NOT EXISTS sbtest.blobs (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")

    def work(connection, ending) -> None:
        execute(
            connection,
            f"INSERT INTO blobs (b) VALUES (REPEAT('x', {kib * 1024}))",
            "DELETE FROM blobs WHERE id = LAST_INSERT_ID()",
        )

    try:
        with clients(bed.server, chance.choice((3, 5)), work):
            yield
    finally:
        sql(bed.server, f"SET GLOBAL {name} = {usual}")
        if bed.server.flavor == "mysql":
            sql(bed.server, f"SET GLOBAL innodb_log_buffer_size = {2 << 20}")


@contextmanager
def cold_cache(bed: Bed, chance: random.Random):
    bed.reset(f"io1:10:{chance.choice((150, 200))}")
    sql(bed.server, "SET GLOBAL innodb_buffer_pool_size = 134217728")
    time.sleep(1)
    try:
        with loaded(bed.server, "oltp_point_select", chance.choice((4, 8))):
            yield
    finally:
        sql(bed.server, "SET GLOBAL innodb_buffer_pool_size = 25165824")
        time.sleep(1)


@contextmanager
def backup(bed: Bed, chance: random.Random):
    bed.reset("gp3:10")
    files = sorted(bed.server.paths.datadir.glob("sbtest/*.ibd"))
    script = f"while :; do for f in {' '.join(map(str, files))}; do dd if=$f of=/dev/null bs={chance.choice((256, 512, 1024))}k iflag=direct 2>/dev/null; done; done"
    process = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    try:
        with loaded(bed.server, "oltp_point_select", 1, "--rate=50"):
            yield
    finally:
        subprocess.run(["kill", "--", f"-{process.pid}"], check=False)
        process.wait()


@contextmanager
def locks(bed: Bed, chance: random.Random):
    bed.reset("gp3:10")
    pause = chance.choice((0.02, 0.05))

    def work(connection, ending) -> None:
        execute(connection, "BEGIN", "UPDATE sbtest1 SET k = k + 1 WHERE id = 1")
        time.sleep(pause)
        execute(connection, "COMMIT")

    with clients(bed.server, chance.choice((6, 10)), work):
        yield


@contextmanager
def processors(bed: Bed, chance: random.Random):
    bed.reset("gp3:10")

    def work(connection, ending) -> None:
        execute(connection, "SELECT BENCHMARK(2000000, SHA2('x', 256))")  # MySQL 9 has no MD5 any more

    with clients(bed.server, chance.choice((3, 4, 6)), work):
        yield


@contextmanager
def hot_reads(bed: Bed, chance: random.Random):
    """Processors, by statements on data that is cached."""
    bed.reset("gp3:10")
    with loaded(bed.server, "oltp_read_only", chance.choice((4, 8)), rows=1_000, tables=1):
        yield


@contextmanager
def network(bed: Bed, chance: random.Random):
    bed.reset("gp3:10")
    delay = chance.choice((0.02, 0.05, 0.1))
    with delayed(str(bed.server.paths.socket), delay) as socket:
        words = [*sysbench(bed.server, "oltp_point_select", 8), "run"]
        words[2] = f"--mysql-socket={socket}"
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(ONSET_S + 20 * delay)
            yield
        finally:
            process.kill()
            process.wait()


@contextmanager
def idle(bed: Bed, chance: random.Random):
    bed.reset(f"io1:10:{chance.choice((100, 500))}")
    time.sleep(1)
    yield


two_limits = steady("oltp_point_select", (24, 32), storage=("io1:100:3000",))


@contextmanager
def one_applier(bed: Bed, chance: random.Random):
    """A replica with one thread, behind a source that commits with many."""
    assert bed.source is not None
    with connect(bed.server.make_address(), 30) as connection:
        dialect = observe(connection, bed.server.name).dialect
    sql(bed.server, *dialect.stop_apply())
    with loaded(bed.source, "oltp_update_non_index", chance.choice((8, 16))):
        time.sleep(BEHIND_S)
        sql(bed.server, *dialect.start_apply())
        bed.mark()
        time.sleep(1)
        yield


@contextmanager
def optimizing(bed: Bed, chance: random.Random):
    with loaded(bed.server, "oltp_point_select", chance.choice((8, 12))):
        under_way = bed.lab.modifications(bed.volume)
        if not under_way or under_way[-1]["state"] == "completed":  # else the last turn's is not through yet
            bed.lab.modify(bed.volume, iops=int(bed.lab.describe(bed.volume)["iops"]) + 700)
        bed.mark()
        wait_until(lambda: bed.lab.modifications(bed.volume)[-1]["state"] != "modifying", "the modification", 40)
        yield


@contextmanager
def first_touch(bed: Bed, chance: random.Random):
    """A server on a volume that was just made from a snapshot: most pages that are read come from a
    block that was not loaded yet."""
    assert bed.snapshot is not None
    settings = {"innodb_buffer_pool_size": POOL, "innodb_buffer_pool_load_at_startup": "OFF"}
    bed.server = servers.bring_up(
        bed.lab, name="ft", flavor=bed.server.flavor, storage=bed.storage, seed_from=bed.snapshot, settings=settings
    )
    bed.volume = volume_of(bed.server)
    pause = chance.choice((0.0, 0.01))

    def work(connection, ending) -> None:
        time.sleep(pause)
        execute(connection, f"SELECT b FROM wide WHERE id = {chance.randint(1, ROWS)}")

    bed.mark()
    try:
        with clients(bed.server, chance.choice((1, 2)), work):
            yield
    finally:
        servers.destroy(bed.server)


@contextmanager
def instance_bucket(bed: Bed, chance: random.Random):
    """The instance's credits are gone: so its state is written, since to use them up takes half an
    hour."""
    spent(bed)
    with loaded(bed.server, "oltp_point_select", chance.choice((16, 24)), rows=bed.rows):
        # Credits that came back since then are used up first.

        def are_used_up() -> bool:
            balance = bed.lab.status()["instance_balance"]
            return not balance or (balance["bytes_percent"] or 0.0) <= EMPTY_PERCENT

        wait_until(are_used_up, "the end of the instance's credits", USED_UP_S)
        bed.mark()
        yield


def touch_bed(lab: Lab, flavor: str) -> Bed:
    """A snapshot of a server with 350 MiB of rows of two a page: some seven hundred blocks of
    512 KiB, of which the reads of a look touch less than half."""
    bed = bed_on(lab, "snp", "io2:20:8000", flavor)
    sql(bed.server, "CREATE TABLE sbtest.wide (id INT PRIMARY KEY, b VARCHAR(7500)) CHARACTER SET latin1")
    for first in range(1, ROWS, 5_000):
        rows = f"FROM sbtest.sbtest1 WHERE id BETWEEN {first} AND {first + 4_999}"
        sql(bed.server, f"INSERT INTO sbtest.wide SELECT id, REPEAT('x', 7500) {rows}")
    servers.stop(bed.server)
    snapshot = lab.create_snapshot(bed.volume)
    wait_for_snapshot(lab, snapshot["id"])
    return Bed(lab, bed.server, bed.volume, "gp3:20", snapshot=snapshot["id"])


def spent(bed: Bed) -> None:
    """Empties the instance's buckets while the lab is down."""
    folder = bed.lab.place.data_dir
    assert folder is not None
    kind = bed.lab.status()["instance_type"]
    servers.stop(bed.server)
    lab_package.stop_lab(bed.lab)
    empty_buckets(folder / "journal")
    bed.lab = lab_package.start_lab(folder, settings=Settings(instance_type=kind, metrics_port=0, api_port=0))
    bed.server = servers.start(servers.find(bed.lab, bed.server.name))


TOUCHED = ("touched", "volume-iops")
CALM = (("not storage", "network"), ("not storage", "processors"), ("fine", "fine"), ("fine", "idle"))
SCENARIOS = (
    Scenario("volume IOPS, reads", (("binds", "volume-iops"),), True, "pages16", volume_iops),
    Scenario("volume IOPS, writes", (("binds", "volume-iops"),), True, "pages16", volume_iops_writes),
    Scenario("credits", (("binds", "volume-credits"),), True, "pages16", credits),
    Scenario("degraded", (("degraded", "degraded"),), True, "pages16", degraded),
    Scenario("small redo", (("misconfigured", "redo"),), False, "pages16", small_redo),
    Scenario("log buffer", (("misconfigured", "log-buffer"),), False, "pages16", log_buffer),
    Scenario("cold cache", (("not storage", "cold-cache"),), False, "pages16", cold_cache),
    Scenario("backup", (("not storage", "backup"),), False, "pages16", backup),
    Scenario("locks", (("not storage", "locks"),), False, "pages16", locks),
    Scenario("processors", (("not storage", "processors"),), False, "pages16", processors),
    Scenario("hot reads", (("not storage", "processors"),), False, "pages16", hot_reads),
    Scenario("slow network", (("not storage", "network"),), False, "pages16", network),
    # Pages that are flushed in the background may meet the limit for moments: touched, and so said.
    Scenario("idle", (("fine", "idle"), ("fine", "fine"), TOUCHED), False, "pages16", idle),
    Scenario("light load", (*CALM, TOUCHED), False, "pages16", light),
    Scenario("volume MiB/s", (("binds", "volume-throughput"),), True, "pages64", volume_bytes),
    Scenario("instance IOPS", (("binds", "instance-iops"),), True, "small", instance_iops),
    Scenario("instance MiB/s", (("binds", "instance-throughput"),), True, "small64", instance_bytes),
    Scenario("degraded member", (("degraded", "member"), ("degraded", "degraded")), True, "array", member),
    Scenario("two limits at once", (("binds", "volume-iops"), ("binds", "instance-iops")), True, "small", two_limits),
    Scenario("one-thread replica", (("misconfigured", "applier"),), False, "replica", one_applier),
    Scenario("first touch", (("binds", "first-touch"),), True, "touch", first_touch),
    Scenario("instance bucket", (("binds", "instance-credits"),), True, "burst64", instance_bucket),
    Scenario("optimizing", (("binds", "optimizing"),), True, "slow", optimizing),
)


class Beds:
    """Beds of a flavor by name, made when they are first used."""

    def __init__(self, flavor: str) -> None:
        self.flavor = flavor
        self._labs = ServerLabs()
        self._lab: dict[str, Lab] = {}
        self._beds: dict[str, Bed] = {}

    def bed(self, name: str) -> Bed:
        if name not in self._beds:
            self._beds[name] = self._make(name)
        return self._beds[name]

    def _lab_of(self, name: str) -> Lab:
        if name not in self._lab:
            settings = {
                "large": {"instance_type": "m5.4xlarge", "time_scale": 1_000_000},
                "small": {"instance_type": "r4.large", "time_scale": 1_000_000},
                "burst": {"instance_type": "m5.large", "time_scale": 1},
                "slow": {"instance_type": "m5.4xlarge", "time_scale": 20},
            }[name]
            self._lab[name] = self._labs.up(**settings)
        return self._lab[name]

    def _make(self, name: str) -> Bed:
        if name == "replica":
            return replica_bed(self._lab_of("large"), self.flavor)
        if name == "touch":
            return touch_bed(self._lab_of("large"), self.flavor)
        pages64 = {"innodb_page_size": "64k", "innodb_buffer_pool_size": "48M"}
        lab, short, storage, rows, settings = {
            "pages16": ("large", "p16", "gp3:10", ROWS, {}),
            "pages64": ("large", "p64", "gp3:10", 2 * ROWS, pages64),
            "array": ("large", "arr", "2xgp3:10", ROWS, {}),
            # A volume of 3,000 I/Os a second of 16 KiB would use nearly all of its bytes: so pages
            # of 8 KiB.
            "small": ("small", "s8", "io1:100:5000", ROWS, {"innodb_page_size": "8k"}),
            "small64": ("small", "s64", "gp3:10", 2 * ROWS, pages64),
            "burst64": ("burst", "b64", "gp3:10", 2 * ROWS, pages64),
            "slow": ("slow", "opt", "io1:40:300", ROWS, {}),
        }[name]
        return bed_on(self._lab_of(lab), short, storage, self.flavor, rows, **settings)

    def close(self) -> None:
        self._labs.close()


def run_scenario(
    beds: Beds, scenario: Scenario, seed: int, counsel: bool = True, seconds: float = WATCH_S
) -> tuple[Diagnosis, Evidence]:
    """Makes the trouble, and asks the doctor."""
    bed = beds.bed(scenario.bed)
    with scenario.make(bed, random.Random(seed)):
        return bed.look(seconds, counsel)


def timed_scenario(
    beds: Beds, scenario: Scenario, seed: int
) -> tuple[Diagnosis, Evidence, tuple[float | None, float | None]]:
    """Makes the trouble, asks the doctor, and returns also how many seconds after its beginning the
    headline was right, and how many after its end it was gone."""
    bed, watch = beds.bed(scenario.bed), HowSoon()
    bed.watching = watch.begin
    try:
        with scenario.make(bed, random.Random(seed)):
            result, evidence = bed.look(WATCH_S)
            began, ended = bed.began_unix, time.time()
        time.sleep(max(0.0, ended + REST_S - time.time()))
    finally:
        bed.watching = nobody
        watch.end()
    return result, evidence, watch.seconds_of_verdict(began, ended, scenario.right)
