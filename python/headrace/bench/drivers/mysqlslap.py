"""mysqlslap: many clients with the same statements.

It reports nothing on its way and no latencies: statements a second are the server's own counters,
percentiles those of performance_schema where the server keeps a histogram (MySQL since 8.0; MariaDB
keeps none).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from headrace.base.checks import check_choice, check_whole
from headrace.base.processes import Command
from headrace.bench.drivers.benchmark import Benchmark, RunLoad, Say, ToolOutcome, stay_silent
from headrace.bench.drivers.sysbench_oltp import ENGINES
from headrace.bench.server import find_tables, hold_connection, require_database
from headrace.bench.target import DOC, Target
from headrace.errors import InputError, Refusals
from headrace.mysql.address import TOOL_ENVIRONMENT, write_client_file
from headrace.mysql.statements import ask, ask_value, send

if TYPE_CHECKING:
    from random import Random

LOADS = ("mixed", "read", "key", "update", "write")
TABLE = "headrace_slap"
ACCOUNT_FILE = "client.cnf"
# Statements of a client in turn: enough that the same row is seldom met twice in a moment, few
# enough to be read at once.
STATEMENTS = 2_000
BATCH = 1_000  # rows of an INSERT (a guess)
# Ended by time: no server does as many in a week.
ENDLESS = 2_000_000_000
WORD = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True)
class Mysqlslap(Benchmark):
    """`load`: read (a scan of 100 rows), key (a row by its key), update (a row by its key), write
    (inserts), mixed (half write, half key). `rows` of some 160 bytes. Raises InputError."""

    name: ClassVar[str] = "mysqlslap"
    program: ClassVar[str] = "mysqlslap"
    needs: ClassVar[str] = "server"
    unit: ClassVar[str] = "statements"
    unit_from_status: ClassVar[bool] = True
    ended_by_time: ClassVar[bool] = True

    load: str = "mixed"
    rows: int = 100_000

    def __post_init__(self) -> None:
        refusals = Refusals(f"{DOC}, mysqlslap")
        check_choice("load", self.load, LOADS, refusals)
        check_whole("rows", self.rows, 100, 1_000_000_000, refusals)

    def list_options(self) -> dict:
        return asdict(self)

    def check_target(self, target: Target) -> None:
        require_database(self.name, target)

    def is_prepared(self, target: Target, threads: int) -> bool:
        """Returns whether the table is there in this engine with `rows` rows; False for none.
        Raises InputError for another engine or too few rows."""
        engines = find_tables(target, TABLE)
        if not engines:
            return False
        with hold_connection(target) as connection:
            rows = ask_value(connection, f"SELECT MAX(id) FROM {TABLE}") or 0
        if engines[TABLE].lower() != ENGINES[target.engine] or rows < self.rows:
            rule = (
                f"is of {engines[TABLE]} with {rows:,} rows, and {ENGINES[target.engine]} with {self.rows:,} is needed"
            )
            raise InputError(f"table {TABLE}", rule, f"{DOC}, Preparing", "Prepare it anew: --fresh.")
        return True

    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = stay_silent) -> None:
        """Creates the table and fills it with `rows` rows of random text, in batches; `threads`
        does not matter."""
        import random

        say(f"preparing {self.rows:,} rows")
        chance = random.Random(seed)
        with hold_connection(target) as connection:
            ask(
                connection,
                f"CREATE TABLE {TABLE} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c "
                f"VARCHAR(128) NOT NULL, KEY k (k)) ENGINE={ENGINES[target.engine]}",
            )
            for first in range(1, self.rows + 1, BATCH):
                batch = [
                    (number, chance.randrange(self.rows), _make_text(chance))
                    for number in range(first, min(first + BATCH, self.rows + 1))
                ]
                send(connection, f"INSERT INTO {TABLE} (id, k, c) VALUES (%s, %s, %s)", batch)

    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        """Writes account and statements into `folder`, and returns a command that runs until it is
        ended."""
        account = write_client_file(target.server.with_database(None), folder / ACCOUNT_FILE)
        statements = folder / "statements.sql"
        statements.write_text(";\n".join(self._make_statements(load.seed)) + ";\n", encoding="utf-8")
        arguments = [
            self.get_tool().path,
            f"--defaults-file={account}",
            f"--concurrency={load.threads}",
            "--iterations=1",
            f"--number-of-queries={ENDLESS}",
            f"--create-schema={target.database}",
            "--no-drop",
            f"--query={statements}",
            "--delimiter=;",
            "--silent",
        ]
        return Command(tuple(arguments), folder, TOOL_ENVIRONMENT)

    def read_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Returns a note alone: mysqlslap reports neither latencies nor seconds."""
        return ToolOutcome(
            notes=(
                (
                    "mysqlslap tells no latencies: percentiles, where there are any, are the server's own of all its statements."
                ),
            )
        )

    def complete_series(self, series: pl.DataFrame) -> pl.DataFrame:
        """Fills in statements a second from the server's counters: each is a transaction."""
        counters = [
            name
            for name in ("com_select_per_s", "com_insert_per_s", "com_update_per_s", "com_delete_per_s")
            if name in series.columns
        ]
        if not counters:
            return series
        done = pl.sum_horizontal(counters, ignore_nulls=False)
        return series.with_columns(done.alias("tps"), done.alias("qps"))

    def verify(self, target: Target) -> list[str]:
        """Returns a sentence if rows that were prepared are gone; rows that the load inserted do
        not count."""
        with hold_connection(target) as connection:
            count = int(ask_value(connection, f"SELECT COUNT(*) FROM {TABLE} WHERE id <= %s", (self.rows,)) or 0)
        return [] if count == self.rows else [f"table {TABLE} has {count:,} of its first {self.rows:,} rows"]

    def remove_data(self, target: Target, folder: Path) -> None:
        with hold_connection(target) as connection:
            ask(connection, f"DROP TABLE IF EXISTS {TABLE}")

    def _make_statements(self, seed: int) -> list[str]:
        """Returns the statements that every client runs in turn, the same for the same seed."""
        import random

        chance = random.Random(seed)
        statements = []
        for number in range(STATEMENTS):
            kind = self.load if self.load != "mixed" else ("write", "key")[number % 2]
            key = chance.randrange(self.rows) + 1
            statements.append(
                {
                    "key": f"SELECT c FROM {TABLE} WHERE id = {key}",
                    "read": f"SELECT COUNT(c) FROM {TABLE} WHERE id BETWEEN {key} AND {key + 99}",
                    "update": f"UPDATE {TABLE} SET c = '{_make_text(chance)}' WHERE id = {key}",
                    "write": f"INSERT INTO {TABLE} (k, c) VALUES ({chance.randrange(self.rows)}, '{_make_text(chance)}')",
                }[kind]
            )
        return statements


def _make_text(chance: Random) -> str:
    return "".join(chance.choices(WORD, k=120))
