"""TPC-C: Headrace's script for sysbench (lua/tpcc.lua), its data, its percentiles by transaction,
and the standard's consistency conditions.

Why a script and not a program of its own: sysbench is kept, in Debian, speaks over the socket,
makes the per-second lines and the histogram that a calibration wants (go-tpc's has one digit and
nothing below a millisecond, and takes TCP only).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from headrace.base.processes import Command, Ended
from headrace.bench.drivers import sysbench
from headrace.bench.drivers.benchmark import (
    Benchmark,
    Histogram,
    IntervalReport,
    RunLoad,
    Say,
    ToolOutcome,
    check_counts,
    merge_histograms,
    stay_silent,
)
from headrace.bench.drivers.sysbench_oltp import ENGINES
from headrace.bench.server import find_tables, hold_connection, require_database
from headrace.bench.target import DOC, Target
from headrace.errors import InputError, Refusals
from headrace.mysql.statements import SqlConnection, ask_value

SCRIPT = "tpcc.lua"
TABLES = ("warehouse", "district", "customer", "history", "new_orders", "orders", "order_line", "item", "stock")
INDEX = "tpcc_orders_customer"  # made last: with it the data are whole
KINDS = ("new_order", "payment", "order_status", "delivery", "stock_level")
STANDARD_ITEMS, STANDARD_CUSTOMERS = 100_000, 3_000  # clause 4.3.3.1
COUNTED = re.compile(r"^headrace-tpcc (\w+) ([0-9:,-]*)$", re.MULTILINE)
BUCKET = 0.018  # of the natural logarithm, as in the script
# 500,000 rows a warehouse, at a tenth of what a laptop loads (some 10 s a warehouse).
PREPARE_S_PER_WAREHOUSE, PREPARE_MORE_S = 1_200.0, 600.0
MAX_WAREHOUSES = 100_000  # a guess: 10 TB
# The conditions are checked in the first warehouses: each has 500,000 rows to read (a guess).
MOST_CHECKED = 10


@dataclass(frozen=True)
class Tpcc(Benchmark):
    """`warehouses`: some 0.1 GiB each in InnoDB. `items`, `customers` (of a district): other
    numbers than the standard's make small data for trials. Raises InputError."""

    name: ClassVar[str] = "tpcc"
    program: ClassVar[str] = "sysbench"
    needs: ClassVar[str] = "server"

    warehouses: int = 10
    items: int = STANDARD_ITEMS
    customers: int = STANDARD_CUSTOMERS

    def __post_init__(self) -> None:
        """Raises InputError for a number out of its bounds."""
        check_counts(
            Refusals(f"{DOC}, tpcc"),
            warehouses=(self.warehouses, 1, MAX_WAREHOUSES),
            items=(self.items, 100, STANDARD_ITEMS),
            customers=(self.customers, 10, STANDARD_CUSTOMERS),
        )

    @property
    def standard(self) -> bool:
        """Returns whether the tables have the standard's sizes."""
        return (self.items, self.customers) == (STANDARD_ITEMS, STANDARD_CUSTOMERS)

    def list_options(self) -> dict:
        return asdict(self)

    def check_target(self, target: Target) -> None:
        require_database(self.name, target)

    def is_prepared(self, target: Target, threads: int) -> bool:
        """Returns whether the tables are there, whole, in these sizes; False without any. Raises
        InputError for others."""
        engines = find_tables(target, "tpcc_(" + "|".join(TABLES) + ")")
        if not engines:
            return False
        wrong = [f"tpcc_{name} is missing" for name in TABLES if f"tpcc_{name}" not in engines]
        wrong += [
            f"{name} is of {engine}" for name, engine in engines.items() if engine.lower() != ENGINES[target.engine]
        ]
        wrong = wrong or self._find_faults(target)
        if wrong:
            hint = "Prepare them anew (--fresh drops tpcc_warehouse and so on), or name another database."
            rule = f"holds tables of TPC-C, but {wrong[0]}"
            raise InputError(f"database {target.database}", rule, f"{DOC}, Preparing", hint)
        return True

    def _find_faults(self, target: Target) -> list[str]:
        """Returns a text for each fault of the data: the loading was not finished, or the numbers
        are not those of the options."""
        text = "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = %s AND index_name = %s"
        with hold_connection(target) as connection:
            if not ask_value(connection, text, (target.database, INDEX)):
                return ["the loading was not finished"]
            sizes = {}
            for what, query in (
                ("warehouses", "SELECT COUNT(*) FROM tpcc_warehouse"),
                ("items", "SELECT MAX(i_id) FROM tpcc_item"),
                ("customers", "SELECT MAX(c_id) FROM tpcc_customer WHERE c_w_id = 1 AND c_d_id = 1"),
            ):
                sizes[what] = ask_value(connection, query) or 0
        return [
            f"with {sizes[what]:,} {what}, not {value:,}"
            for what, value in self.list_options().items()
            if sizes[what] != value
        ]

    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = stay_silent) -> None:
        """Creates the tables, loads the warehouses with at most eight clients, then makes the
        indexes. Raises CouldNotRun."""
        tool = self.get_tool()
        account = sysbench.write_account(target.server, folder / sysbench.ACCOUNT_FILE)
        script = _copy_script(folder)
        arguments = [
            f"--config-file={account}",
            "--db-driver=mysql",
            f"--rand-seed={seed}",
            *self._build_arguments(target),
        ]
        limit_s = PREPARE_MORE_S + PREPARE_S_PER_WAREHOUSE * self.warehouses
        sysbench.run_untimed(tool, [*arguments, script, "create"], folder, "create", PREPARE_MORE_S)
        say(f"loading {self.warehouses} warehouses")
        sysbench.run_untimed(
            tool,
            [*arguments, f"--threads={max(1, min(self.warehouses, threads, 8))}", script, "load"],
            folder,
            "load",
            limit_s,
        )
        say("making the indexes")
        sysbench.run_untimed(tool, [*arguments, script, "index"], folder, "index", limit_s)

    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        account = sysbench.write_account(target.server, folder / sysbench.ACCOUNT_FILE)
        arguments = sysbench.build_server_arguments(self.get_tool(), account, load)
        return Command(
            (*arguments, *self._build_arguments(target), f"--warmup={load.warmup_s}", _copy_script(folder), "run"),
            folder,
        )

    def parse_line(self, text: str) -> IntervalReport | None:
        return sysbench.parse_report(text)

    def read_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Reads sysbench's totals, and adds count and percentiles (ms) of each kind of transaction
        and new orders a minute. Raises InputError."""
        base = sysbench.parse_outcome(raw, load)
        by_kind = parse_latencies(raw)
        figures = dict(base.figures)
        for kind in KINDS:
            if kind in by_kind:
                histogram = by_kind[kind]
                figures[f"{kind}_count"] = float(histogram.total)
                figures |= {
                    f"{kind}_{name}": value for name, value in histogram.summarize().items() if value is not None
                }
        if "new_order" in by_kind:
            figures["new_orders_per_min"] = by_kind["new_order"].total * 60.0 / load.seconds
        notes = list(base.notes)
        if not self.standard:
            notes.append(
                f"Not the standard's tables: {self.items:,} items (of 100,000), {self.customers:,} customers of a district (of 3,000)."
            )
        return ToolOutcome(base.histogram, (), figures, tuple(notes))

    def explain_failure(self, raw: str, ended: Ended) -> str:
        return sysbench.find_error(raw, ended)

    def verify(self, target: Target) -> list[str]:
        with hold_connection(target) as connection:
            return check_consistency(connection, self.warehouses)

    def remove_data(self, target: Target, folder: Path) -> None:
        """Drops the tables by the script's own command. Raises CouldNotRun."""
        account = sysbench.write_account(target.server, folder / sysbench.ACCOUNT_FILE)
        sysbench.run_untimed(
            self.get_tool(),
            [f"--config-file={account}", "--db-driver=mysql", _copy_script(folder), "cleanup"],
            folder,
            "cleanup",
            PREPARE_MORE_S,
        )

    def make_benchmark_table(self) -> dict | None:
        """Returns the [benchmark] table of RUN.toml: sysbench-tpcc with one set of tables, which
        has the same transactions; for small data a load of the user's own."""
        return {"name": "sysbench-tpcc", "tables": 1, "scale": self.warehouses} if self.standard else {"name": "own"}

    def _build_arguments(self, target: Target) -> list[str]:
        sizes = [f"--{name}={value}" for name, value in self.list_options().items()]
        return [*sizes, f"--mysql_storage_engine={ENGINES[target.engine]}"]


def _copy_script(folder: Path) -> str:
    """Copies the Lua script into a folder, and returns its path."""
    path = folder / SCRIPT
    path.write_text(
        files("headrace.bench.drivers").joinpath("lua", SCRIPT).read_text(encoding="utf-8"), encoding="utf-8"
    )
    return str(path)


def parse_latencies(raw: str) -> dict[str, Histogram]:
    """Returns the histogram of latencies (ms) by kind of transaction, the sum of those that each
    client printed."""
    histograms: dict[str, list[Histogram]] = {}
    for kind, text in COUNTED.findall(raw):
        pairs = sorted(
            (int(bucket), int(count)) for bucket, count in (pair.split(":") for pair in text.split(",") if ":" in pair)
        )
        if pairs:
            values = tuple(round(2.718281828459045 ** (BUCKET * bucket), 9) for bucket, _ in pairs)
            histograms.setdefault(kind, []).append(
                Histogram(
                    values,
                    tuple(count for _, count in pairs),
                    "headrace's TPC-C script",
                    sysbench.HISTOGRAM_ERROR_PERCENT,
                )
            )
    return {kind: merge_histograms(parts) for kind, parts in histograms.items()}


def check_consistency(connection: SqlConnection, warehouses: int) -> list[str]:
    """Returns a sentence for each of the standard's consistency conditions that does not hold in
    the first warehouses."""
    most = min(warehouses, MOST_CHECKED)
    text = files("headrace.bench.drivers").joinpath("tpcc_conditions.sql").read_text(encoding="utf-8")
    wrong = []
    for number, query in re.findall(r"^-- (\d+)$\n(.*?)(?=^-- |\Z)", text, re.MULTILINE | re.DOTALL):
        if broken := int(ask_value(connection, query, (most,) * query.count("%s")) or 0):
            wrong.append(
                f"{broken:,} rows break consistency condition {number} of TPC-C (clause 3.3.2.{number}), in the first {most} warehouses"
            )
    return wrong
