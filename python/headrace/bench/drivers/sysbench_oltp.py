"""The OLTP scripts of sysbench 1.0: all of them, under every distribution, on InnoDB or MyRocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import ClassVar

from headrace.base.checks import check_choice, check_number, check_whole, suggest_nearest
from headrace.base.processes import Command, Ended
from headrace.bench.drivers import sysbench
from headrace.bench.drivers.benchmark import (
    Benchmark,
    IntervalReport,
    RunLoad,
    Say,
    ToolOutcome,
    stay_silent,
)
from headrace.bench.server import count_table_rows, find_tables, require_database
from headrace.bench.target import DOC, Target
from headrace.errors import InputError, Refusals
from headrace.observe.settings import DISTRIBUTIONS, SCRIPTS

refuse = Refusals(f"{DOC}, sysbench-oltp")
# Options of oltp_common.lua that shape a transaction, by name: lowest and highest of a whole
# number, None for a switch.
STATEMENTS = (0, 10_000)  # of a kind in a transaction
SHAPES: dict[str, tuple[int, int] | None] = {
    "point_selects": STATEMENTS,
    "simple_ranges": STATEMENTS,
    "sum_ranges": STATEMENTS,
    "order_ranges": STATEMENTS,
    "distinct_ranges": STATEMENTS,
    "index_updates": STATEMENTS,
    "non_index_updates": STATEMENTS,
    "delete_inserts": STATEMENTS,
    "range_size": (1, 1_000_000),
    "range_selects": None,
    "skip_trx": None,
    "secondary": None,
    "auto_inc": None,
    "create_secondary": None,
    "random_points": (1, 10_000),
    "number_of_ranges": (1, 10_000),
    "delta": (1, 1_000_000),
}
ONLY_OF = {
    "random_points": "select_random_points",
    "number_of_ranges": "select_random_ranges",
    "delta": "select_random_ranges",
}
BULK = "bulk_insert"
# Scripts after which the number of rows is the same: they change rows, or delete and insert them.
_KEEPING = """
oltp_read_write oltp_read_only oltp_write_only oltp_point_select oltp_update_index
oltp_update_non_index select_random_points select_random_ranges
"""
KEEPING = tuple(_KEEPING.split())
MAX_TABLES, MAX_ROWS = 10_000, 2_000_000_000  # rows are 32-bit integers in sysbench's tables
# Counting rows reads all of an index: up to here it takes moments.
COUNTED_ROWS = 1_000_000
# A row takes 220 bytes on disk with its index (sysbench 1.0, InnoDB: 10 M rows are 2.4 GB): at 1
# MiB/s, what an empty gp2 of 1 GiB does with random writes, and a margin.
PREPARE_S_PER_ROW, PREPARE_MORE_S = 1e-3, 600.0
CLEANUP_S = 600.0  # a guess: dropping tables takes seconds
PREPARE_THREADS = 8  # a guess: more do not load faster on small machines
ENGINES: dict[str | None, str] = {"innodb": "innodb", "myrocks": "rocksdb"}


@dataclass(frozen=True)
class SysbenchOltp(Benchmark):
    """`script`: of sysbench.

    `tables` of `rows` each. `distribution`: uniform, gaussian, special (sysbench's default),
    pareto, zipfian; `parameters` of it, named as in docs/reference/run-description.md. `shape`:
    options of the script, such as {"point_selects": 5, "skip_trx": True}. Raises InputError.
    """

    name: ClassVar[str] = "sysbench-oltp"
    program: ClassVar[str] = "sysbench"
    needs: ClassVar[str] = "server"

    script: str = "oltp_read_write"
    tables: int = 8
    rows: int = 100_000
    distribution: str = "special"
    parameters: Mapping[str, float] = field(default_factory=dict)
    shape: Mapping[str, int | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InputError for an option out of its bounds, or one that the script or the
        distribution does not have."""
        check_choice("script", self.script, SCRIPTS, refuse)
        check_choice("distribution", self.distribution, DISTRIBUTIONS, refuse)
        check_whole("tables", self.tables, 1, MAX_TABLES, refuse)
        check_whole("rows", self.rows, 1, MAX_ROWS, refuse)
        allowed = DISTRIBUTIONS[self.distribution]
        for key, value in self.parameters.items():
            if key not in allowed:
                rule = f"is not a parameter of the distribution {self.distribution}"
                raise refuse.input(key[:60], rule, f"Known: {', '.join(allowed) or 'none'}.")
            check_number(key, value, *allowed[key][1:], refusals=refuse)
        for key, value in self.shape.items():
            _check_shape(self.script, key, value)

    def list_options(self) -> dict:
        """Returns the options as JSON, with the default of each parameter of the distribution that
        was not given."""
        every = {key: usual for key, (usual, _, _) in DISTRIBUTIONS[self.distribution].items()} | dict(self.parameters)
        return asdict(self) | {
            "parameters": {key: float(value) for key, value in every.items()},
            "shape": dict(sorted(self.shape.items())),
        }

    def check_target(self, target: Target) -> None:
        require_database(self.name, target)

    def is_prepared(self, target: Target, threads: int) -> bool:
        """Returns whether all tables are there with at least `rows` rows (none for bulk inserts);
        False without any. Raises InputError for others."""
        engines = find_tables(target, r"sbtest\d+")
        expected = [f"sbtest{number}" for number in range(1, (threads if self.script == BULK else self.tables) + 1)]
        if not engines:
            return False
        _check_engine(target, engines)
        # bulk_insert numbers its rows from 1 each time.
        rows = 0 if self.script == BULK else self.rows
        missing = [name for name in expected if name not in engines]
        other = [
            name
            for name in expected
            if name in engines
            and (count_table_rows(target, name) != 0 if rows == 0 else count_table_rows(target, name) < rows)
        ]
        if not missing and not other:
            return True
        what = (
            f"{len(missing)} of {len(expected)} tables are missing"
            if missing
            else f"{other[0]} has other rows than {rows:,}"
        )
        hint = "Prepare them anew (--fresh drops sbtest1 and so on), or name another database."
        rule = f"holds sysbench's tables, but {what}"
        raise InputError(f"database {target.database}", rule, f"{DOC}, Preparing", hint)

    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = stay_silent) -> None:
        """Fills the tables by sysbench's own command, with a limit of time that grows with the
        rows; for bulk inserts it makes an empty table for each client. Raises CouldNotRun."""
        tool = self.get_tool()
        account = sysbench.write_account(target.server, folder / sysbench.ACCOUNT_FILE)
        workers = threads if self.script == BULK else min(self.tables, PREPARE_THREADS, max(1, threads))
        what, limit_s = self._plan_preparation(threads)
        say(f"preparing {what}")
        arguments = [
            f"--config-file={account}",
            f"--threads={workers}",
            f"--rand-seed={seed}",
            *self._build_arguments(target),
            self.script,
            "prepare",
        ]
        sysbench.run_untimed(tool, arguments, folder, "prepare", limit_s)

    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        """Returns sysbench's command; for the Zipfian distribution with a script of Headrace around
        sysbench's, put into `folder`."""
        account = sysbench.write_account(target.server, folder / sysbench.ACCOUNT_FILE)
        arguments = [*sysbench.build_server_arguments(self.get_tool(), account, load), *self._build_arguments(target)]
        if self.distribution != "zipfian":
            return Command((*arguments, self.script, "run"), folder)
        with as_file(files("headrace.bench.drivers").joinpath("lua")) as lua:
            for name in ("zipfian.lua", "zipfian_script.lua"):
                (folder / name).write_text((lua / name).read_text())
        exponent = self.list_options()["parameters"]["rand_zipfian_exp"]
        return Command(
            (*arguments, str(folder / "zipfian_script.lua"), "run"),
            folder,
            {"HEADRACE_SCRIPT": self.script, "HEADRACE_ZIPFIAN_EXP": repr(exponent)},
        )

    def parse_line(self, text: str) -> IntervalReport | None:
        return sysbench.parse_report(text)

    def read_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        return sysbench.parse_outcome(raw, load)

    def explain_failure(self, raw: str, ended: Ended) -> str:
        return sysbench.find_error(raw, ended)

    def verify(self, target: Target) -> list[str]:
        """Returns sentences about tables that are gone or have lost rows, after scripts that keep
        their rows; rows of large data are not counted."""
        if self.script not in KEEPING:
            return []
        engines = find_tables(target, r"sbtest\d+")
        expected = [f"sbtest{number}" for number in range(1, self.tables + 1)]
        wrong = [f"table {name} is gone" for name in expected if name not in engines]
        if not wrong and self.tables * self.rows <= COUNTED_ROWS:
            counts = {name: count_table_rows(target, name, exact=True) for name in expected}
            wrong = [
                f"table {name} has {count:,} rows, not {self.rows:,}"
                for name, count in counts.items()
                if count < self.rows
            ]
        return wrong

    def remove_data(self, target: Target, folder: Path) -> None:
        """Drops every table in the database that has one of sysbench's names. Raises
        CouldNotRun."""
        account = sysbench.write_account(target.server, folder / sysbench.ACCOUNT_FILE)
        most = max([int(name[6:]) for name in find_tables(target, r"sbtest\d+")], default=0)
        if most:
            arguments = [
                f"--config-file={account}",
                f"--tables={most}",
                f"--threads={most if self.script == BULK else 1}",
            ]
            script = "oltp_read_write" if self.script == BULK else self.script
            sysbench.run_untimed(self.get_tool(), [*arguments, script, "cleanup"], folder, "cleanup", CLEANUP_S)

    def make_benchmark_table(self) -> dict | None:
        """Returns the [benchmark] table of RUN.toml; `scale` is rows a table."""
        options = self.list_options()
        return {
            "name": self.name,
            "tables": self.tables,
            "scale": self.rows,
            "script": self.script,
            "distribution": self.distribution,
            **options["parameters"],
        }

    def _plan_preparation(self, threads: int) -> tuple[str, float]:
        """Returns the description of the data, and the time limit of their preparation, s."""
        if self.script == BULK:
            return "1 empty table" if threads == 1 else f"{threads} empty tables", PREPARE_MORE_S
        limit_s = PREPARE_MORE_S + PREPARE_S_PER_ROW * self.tables * self.rows
        return f"{self.tables} tables of {self.rows:,} rows", limit_s

    def _build_arguments(self, target: Target) -> list[str]:
        """Returns the options of sysbench's script: tables, rows, engine, distribution; none for
        bulk inserts."""
        if self.script == BULK:
            return []  # it has no options of its own, and refuses those of others
        arguments = [
            f"--tables={self.tables}",
            f"--table_size={self.rows}",
            f"--mysql_storage_engine={ENGINES[target.engine]}",
        ]
        for key, value in self.shape.items():
            arguments.append(f"--{key}={('on' if value else 'off') if isinstance(value, bool) else value}")
        if self.distribution != "zipfian":
            arguments.append(f"--rand-type={self.distribution}")
        arguments += [
            f"--{key.replace('_', '-')}={value:g}"
            for key, value in self.list_options()["parameters"].items()
            if key != "rand_zipfian_exp"
        ]
        return arguments


def _check_shape(script: str, key: str, value: int | bool) -> None:
    """Raises InputError for an option that sysbench's script does not have, or for a value that the
    option does not take."""
    if key not in SHAPES:
        rule = "is not an option of sysbench's OLTP scripts known here"
        raise refuse.input(key[:60], rule, suggest_nearest(key, SHAPES))
    if script == BULK or ONLY_OF.get(key, script) != script:
        raise refuse.input(key, f"is not an option of {script}", "Leave it out.")
    span = SHAPES[key]
    if span is not None:
        check_whole(key, value, *span, refuse)
    elif not isinstance(value, bool):
        raise refuse.input(f"{key} = {value}", "must be on or off")


def _check_engine(target: Target, engines: Mapping[str, str]) -> None:
    """Raises InputError if a table is of another engine than the target's."""
    expected_engine = ENGINES[target.engine]
    for name, engine in sorted(engines.items(), key=lambda item: int(re.sub(r"\D", "", item[0]) or 0)):
        if engine.lower() != expected_engine:
            hint = "Prepare them anew (--fresh), name another database, or say --engine."
            rule = f"is of {engine}, and the run is of {target.engine}"
            raise InputError(f"table {name}", rule, f"{DOC}, Preparing", hint)
