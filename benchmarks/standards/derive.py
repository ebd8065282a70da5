"""Statements' costs from what measure.py counted: data/mysql/standards.csv.

    python benchmarks/standards/derive.py --core-speed 3.4 --source ID ROWS.csv... data/mysql/standards.csv

A transaction costs the sum of its statements. The costs that fit all cases best (non-negative least
squares of relative errors) are written, and how far the cases lie from their sums is printed. The
least processor time counts of a case that was measured several times: other work on the host, and
on the other threads of its cores, only adds to it. So it is the time on a core by itself.
`--core-speed`: GHz x work per clock of the machine that measured (data/processors.csv).
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

# Statements of a transaction of each case; a statement that commits by itself ends with a `commit`.
CASES = {
    "point_select": {"point_select": 1},
    "point_select_tcp": {"point_select": 1},
    "point_select_bracketed": {"point_select": 1, "bracket": 2},
    "ranges_of_1": {"range": 4},
    "ranges_of_100": {"range": 4, "range_row": 4 * 99},
    "read_only": {"point_select": 10, "range": 4, "range_row": 4 * 99, "bracket": 2},
    # Uniform draws: a key is that of a row in the mean; a lookup by 10 keys, one by 10 ranges of 6.
    "random_points": {"point_select": 1, "point_row": 10},
    "random_ranges": {"point_select": 1, "range_key": 60},
    "update_non_index": {"non_index_update": 1, "commit": 1},
    "update_index": {"index_update": 1, "commit": 1},
    "eleven_updates_index": {"index_update": 11, "commit": 1, "bracket": 2},
    "delete_insert_bracketed": {"delete": 1, "insert": 1, "commit": 1, "bracket": 2},
    "write_only": {"index_update": 1, "non_index_update": 1, "delete": 1, "insert": 1, "commit": 1, "bracket": 2},
    "read_write": {
        "point_select": 10, "range": 4, "range_row": 4 * 99, "bracket": 2,
        "index_update": 1, "non_index_update": 1, "delete": 1, "insert": 1, "commit": 1,
    },
    "insert": {"insert": 1, "commit": 1},
    "delete": {"delete": 1, "commit": 1},
    "tprocc": {"tprocc_call": 1},
}  # fmt: skip
STATEMENTS = list(dict.fromkeys(statement for case in CASES.values() for statement in case))
# Figures of which the least counts, as other work on the host only adds to them.
TIMES = ("cpu_ms", "background_ms")
# Columns of the table, and the figures they come from; the engine's log is InnoDB's redo or MyRocks' WAL.
FIGURES = {
    "core_ms": {"innodb": "cpu_ms", "myrocks": "cpu_ms"},
    "background_share": {"innodb": "background_ms", "myrocks": "background_ms"},
    "log_bytes": {"innodb": "redo_bytes", "myrocks": "wal_bytes"},
    "binlog_bytes": {"innodb": "binlog_bytes", "myrocks": "binlog_bytes"},
}
# Only tables of this size or less: in larger ones the pages of the index were still splitting, which a young index does and a used one
# does not.
MOST_ROWS = 100_000
# A figure below this share of a column's largest case is nothing: what the server does by itself meanwhile.
NOTHING = 2e-3
# A cost below this share of the largest one is what rounding leaves of none.
NEVER = 1e-4
ENGINES = {"mysql": ("innodb", "mysql"), "mariadb": ("innodb", "mariadb"), "myrocks": ("myrocks", "mariadb")}

Case = tuple[str, float]


def least_times(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows, of processor time the least of each case alone, whatever the table's size: trees of all of them are as deep."""
    least: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        if row["figure"] in TIMES:
            case = (row["server"], row["case"], row["figure"])
            least[case] = min(least.get(case, row), row, key=lambda row: float(row["value"]))
    return [row for row in rows if row["figure"] not in TIMES] + [row | {"scale": "0"} for row in least.values()]


def costs(rows: Iterable[dict[str, str]], figure: str) -> tuple[dict[str, float], dict[str, float]]:
    """Costs by statement, and by case what was measured over the sum of its statements."""
    measured = [(row["case"], float(row["value"])) for row in rows if row["figure"] == figure and row["case"] in CASES]
    least = NOTHING * max((value for _, value in measured), default=0.0)
    measured = [(case, value if value > least else 0.0) for case, value in measured]
    weights = np.array([1.0 / value if value > 0 else 1.0 / max(least, 1e-9) for _, value in measured])
    statements = list(dict.fromkeys(statement for case, _ in measured for statement in CASES[case]))
    matrix = np.array([[float(CASES[case].get(statement, 0)) for statement in statements] for case, _ in measured])
    values = np.array([value for _, value in measured])
    solution, _ = nnls(matrix * weights[:, None], values * weights)
    sums: dict[str, list[float]] = defaultdict(list)
    for (case, value), total in zip(measured, matrix @ solution, strict=True):
        if value > 0 and total > 0:
            sums[case].append(value / total)
    by_statement = {
        statement: cost if cost > NEVER * solution.max() else 0.0
        for statement, cost in zip(statements, solution, strict=True)
    }
    return by_statement, {case: float(np.mean(ratios)) for case, ratios in sums.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Statements' costs from what measure.py counted.")
    parser.add_argument(
        "--core-speed", type=float, required=True, help="GHz x work per clock of the machine that measured"
    )
    parser.add_argument("--source", required=True, help="id of data/sources.csv")
    parser.add_argument("rows", type=Path, nargs="+", help="files of measure.py")
    parser.add_argument("table", type=Path, help="data/mysql/standards.csv")
    given = parser.parse_args()
    rows = least_times([row for file in given.rows for row in csv.DictReader(file.read_text().splitlines())])
    with given.table.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["engine", "flavor", "statement", *FIGURES, "core_speed", "source", "confidence"])
        measured = {row["server"] for row in rows}
        for server, (engine, flavor) in ((server, of) for server, of in ENGINES.items() if server in measured):
            own = [row for row in rows if row["server"] == server and int(row["scale"]) <= MOST_ROWS]
            solved = {column: costs(own, figures[engine]) for column, figures in FIGURES.items()}
            for column, (_, ratios) in solved.items():
                print(f"{server} {column}: " + ", ".join(f"{case} {ratio:.2f}" for case, ratio in ratios.items()))
            for statement in STATEMENTS:
                if statement in solved["core_ms"][0]:
                    costs_of = {column: solved[column][0].get(statement, 0.0) for column in FIGURES}
                    if costs_of["core_ms"] > 0.0:
                        costs_of["background_share"] = min(1.0, costs_of["background_share"] / costs_of["core_ms"])
                    figures = [f"{value:.4g}" for value in costs_of.values()]
                    writer.writerow(
                        [engine, flavor, statement, *figures, f"{given.core_speed:g}", given.source, "measured"]
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
