"""Measures the errors of predictions on runs that their calibration has not seen: published runs,
family by family, each run left out in turn, where their files are at hand.

    python benchmarks/unseen_runs.py                       all families of published_runs.toml
    python benchmarks/unseen_runs.py --family TPROC RDS    those whose name begins so
    python benchmarks/unseen_runs.py --no-run              without any run: by the standard benchmarks
    python benchmarks/unseen_runs.py --rows                every prediction too
    python benchmarks/unseen_runs.py --spreads python/headrace/workload/unexplained.csv
                                                           what no parameter covers, from these errors

A run is predicted from every other one of its family, and (`from the others`) from all others together. Scored is the mean of tps in
the second half, whether the 80 % interval holds the measured one, the mean of tps in the first half (caches fill, and what a start owes
is worked off), and the 95th percentile of response times where it was measured.

Further runs must not make it worse. Whoever has several and calibrates on one takes the nearest to what is asked, which is the one
with the narrowest interval; all together may miss by no more than that one does, and REPEATS, by which a run differs from itself.

`make bench` looks for the files in data/* of the folder beside the repository or in HEADRACE_PUBLISHED_RUNS, and says when they are
not there.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

from headrace import HeadraceError, TransactionWorkload, build_standard, calibrate, compare_run, load_run

HERE = Path(__file__).parent
# Runs of a table have no file of seconds: so many rows of their mean, s.
TABLE_SECONDS = 300
# Runs of one setting differ by so much, relative: pairs of published runs of 2018.
REPEATS = 0.02
SECOND_HALF = "mean tps, second half"
FIRST_HALF = ("mean tps, quarter 1", "mean tps, quarter 2")
# Response times over a run's seconds (the median), or of a whole run.
RESPONSE = ("p95 response, median", "p95 response, run")
IN_SAMPLE = (
    "In-sample: the standard sysbench-tpcc was derived from the runs of 2018, so their families score what is carried from run to "
    "run, not the standard."
)


@dataclass(frozen=True)
class Score:
    """One prediction: of which run, from which runs; `error` of the second half's tps in percent (None where it could not be made, and
    `refusal` says why); `holds`: whether the 80 % interval holds what was measured; `spread`: its relative standard deviation;
    `misfit`: the largest error of the second half among the runs that were calibrated on, percent; `covered`: relative standard deviation
    that does not come from the table of what is unexplained; `distances` of that table, by name; `p95_error` of response times in
    percent, None where they were not measured; `first_error` of the first half's tps in percent, None as `error`."""

    family: str
    run: str
    calibrated_on: tuple[str, ...]
    error: float | None
    holds: bool = False
    spread: float = 0.0
    misfit: float = 0.0
    covered: float = 0.0
    distances: Mapping[str, float] = field(default_factory=dict)
    refusal: str = ""
    p95_error: float | None = None
    first_error: float | None = None

    @property
    def way(self) -> str:
        """Origin of the prediction, in words."""
        if not self.calibrated_on:
            return "no run"
        return "from one" if len(self.calibrated_on) == 1 else "from the others"

    def in_words(self) -> str:
        """The prediction in a line."""
        outcome = self.refusal
        if self.error is not None:
            interval = "holds" if self.holds else "misses"
            outcome = f"{self.error:+6.1f} % +-{100 * self.spread:2.0f} % {interval}, own {self.misfit:.1f} %"
            outcome += "" if self.first_error is None else f", first half {self.first_error:+.1f} %"
        return f"{self.family:34s} {self.run:52s} {outcome}  from {', '.join(self.calibrated_on)}"


def folder() -> Path | None:
    """The folder whose subfolders hold the published runs, or None."""
    named = os.environ.get("HEADRACE_PUBLISHED_RUNS")
    places = [Path(named)] if named else sorted(HERE.parents[1].glob("*/data"))
    return next((place for place in places if _files(place)), None)


def load_all(source: Path) -> dict[str, Any]:
    """The runs of published_runs.toml whose files lie in `source` or its subfolders, by name."""
    plan, files, runs = _plan(), _files(source), {}
    with tempfile.TemporaryDirectory() as place:
        for name, own in plan["runs"].items():
            if name in files:
                own = dict(own)
                described = plan["setups"][own.pop("setup")] | own
                runs[name] = _load(Path(place), name, described, _text(files[name]), files[name])
        for table, setup in plan["tables"].items():
            for row in csv.DictReader(_text(files[table]).splitlines()) if table in files else ():
                name = f"{table} {row['instance']} {row['threads']}"
                own = {"instance": row["instance"], "threads": int(row["threads"])}
                runs[name] = _load(Path(place), name, plan["setups"][setup] | own, _constant(row), files[table])
    return runs


def _files(source: Path) -> dict[str, Path]:
    """Files of published runs and tables, by name."""
    names = {*_plan()["runs"], *_plan()["tables"]}
    files = {path.name.split(".csv")[0]: path for path in sorted(source.rglob("*.csv*"))}
    return {name: path for name, path in files.items() if name in names}


@cache
def _plan() -> dict:
    return tomllib.loads((HERE / "published_runs.toml").read_text())


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def _constant(row: dict[str, str]) -> str:
    """Seconds of a run of which the mean is known."""
    rows = [f"{second},{row['threads']},{row['tps']},{row['p95_ms']}" for second in range(1, TABLE_SECONDS + 1)]
    return "\n".join(["t_s,threads,tps,lat_p95_ms", *rows])


def _load(place: Path, name: str, described: dict, seconds: str, file: Path) -> Any:
    (place / "run.csv").write_text(seconds)
    files = {"sysbench": "run.csv"}
    vmstat = file.with_name(f"{name}.vmstat.txt")
    if vmstat.exists():
        files["vmstat"] = str(vmstat)
    document = {"format": "headrace-run", "version": 1, "name": name, **described, "files": files}
    (place / "run.toml").write_text(tomli_w.dumps(document))
    return load_run(place / "run.toml")


def families(beginnings: Iterable[str] = ()) -> list[dict]:
    """The families whose names begin so; all without one."""
    chosen = tuple(beginnings)
    return [family for family in _plan()["families"] if not chosen or family["name"].startswith(chosen)]


def sets_of(family: dict, runs: dict[str, Any]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Returns the runs to calibrate on, and the runs that are predicted from them."""
    names = [name for name in runs if name.startswith(tuple(family["runs"]))]

    def belong(source: str, other: str) -> bool:
        same, differ = family.get("same"), family.get("differ")
        a, b = runs[source], runs[other]
        return (
            source != other
            and (same is None or getattr(a, same) == getattr(b, same))
            and (differ is None or getattr(a, differ) != getattr(b, differ))
        )

    sets = [((source,), [other for other in names if belong(source, other)]) for source in names]
    if len(names) > 2 and "same" not in family:
        sets += [(tuple(other for other in names if other != source), [source]) for source in names]
    return [(sources, held_out) for sources, held_out in sets if held_out]


def score(
    runs: dict[str, Any],
    beginnings: Iterable[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    from_one: bool = False,
) -> list[Score]:
    """Every prediction of the families, in their order."""

    @cache
    def calibrated(names: tuple[str, ...]) -> TransactionWorkload:
        return calibrate([runs[name] for name in names])

    @cache
    def misfit(names: tuple[str, ...]) -> float:
        workload = calibrated(names)
        return max(abs(compare_run(runs[name], workload, draws=0).get_error_percent(SECOND_HALF)) for name in names)

    scores = []
    for family in families(beginnings):
        for sources, held_out in sets_of(family, runs):
            if from_one and len(sources) > 1:
                continue
            for name in held_out:
                try:
                    row = _predicted(family["name"], name, sources, runs[name], calibrated(sources))
                    row = replace(row, misfit=misfit(sources))
                except HeadraceError as error:
                    row = Score(family["name"], name, sources, error=None, refusal=str(error))
                scores.append(row)
                progress(row.in_words())
    return scores


def score_without_run(runs: dict[str, Any], beginnings: Iterable[str] = ()) -> list[Score]:
    """Every run of the families predicted by its standard benchmark alone."""
    named = [
        (family["name"], name)
        for family in families(beginnings)
        for name in runs
        if name.startswith(tuple(family["runs"]))
    ]
    return [_predicted(family, name, (), runs[name], build_standard(runs[name])) for family, name in named]


def _predicted(family: str, name: str, sources: tuple[str, ...], run: Any, workload: TransactionWorkload) -> Score:
    comparison = compare_run(run, workload)
    summary = comparison.prediction.summary
    measured = comparison.measured["tps"]
    distances = comparison.prediction.distances
    return Score(
        family,
        name,
        sources,
        error=comparison.get_error_percent(SECOND_HALF),
        holds=summary["tps_low"] <= measured <= summary["tps_high"],
        spread=summary["relative_spread"],
        covered=math.sqrt(max(0.0, summary["relative_spread"] ** 2 - distances.spread**2)),
        distances=vars(distances),
        p95_error=next(row["error_percent"] for row in comparison.figures if row["what"] in RESPONSE),
        first_error=compare_first_half(comparison.figures),
    )


def compare_first_half(figures: Iterable[dict]) -> float:
    """Returns the error of the first half's mean tps in percent, by its two quarters."""
    quarters = [row for row in figures if row["what"] in FIRST_HALF]
    return 100.0 * (sum(row["predicted"] for row in quarters) / sum(row["measured"] for row in quarters) - 1.0)


def find_worsened(scores: list[Score]) -> list[Score]:
    """Finds the predictions from several runs that miss by more than the one from the nearest of them, and what a run differs from
    itself."""
    errors = {(row.family, row.run, row.calibrated_on): row for row in scores if row.error is not None}

    worsened = []
    for (family, run, sources), row in errors.items():
        alone = [errors[key] for source in sources if (key := (family, run, (source,))) in errors]
        if len(sources) > 1 and alone and _size(row) > _size(min(alone, key=lambda each: each.spread)) + REPEATS:
            worsened.append(row)
    return worsened


def _size(row: Score) -> float:
    """Returns the size of the error of a prediction that could be made, as a logarithm."""
    assert row.error is not None
    return abs(math.log1p(row.error / 100.0))


def summary(scores: list[Score]) -> list[dict]:
    """By family and way: `n`, sizes of errors in percent (`median`, `p90`, `worst`), their mean with its sign (`bias`, percent; above 0
    where too many transactions were predicted), how many intervals hold, their median relative standard deviation, the worst misfit of
    what was calibrated on (percent), how many were refused, and the same sizes of errors of response times (`p95_median`, `p95_p90`) and
    of the first half (`first_median`, `first_p90`), None where none was measured; `worsened`: how many further runs made worse."""
    table, worsened = [], find_worsened(scores)
    for family, way in dict.fromkeys((row.family, row.way) for row in scores):
        rows = [row for row in scores if (row.family, row.way) == (family, way)]
        errors = [row.error for row in rows if row.error is not None]
        sizes = sorted(map(abs, errors))
        if not sizes:
            table.append({"family": family, "way": way, "n": 0, "refused": len(rows)})
            continue
        response = sorted(abs(row.p95_error) for row in rows if row.p95_error is not None)
        first = sorted(abs(row.first_error) for row in rows if row.first_error is not None)
        spreads = sorted(row.spread for row in rows if row.error is not None)
        table.append(
            {
                "family": family,
                "way": way,
                "n": len(sizes),
                "median": _quantile(sizes, 0.5),
                "p90": _quantile(sizes, 0.9),
                "worst": sizes[-1],
                "bias": sum(errors) / len(errors),
                "holds": sum(row.holds for row in rows),
                "spread_percent": 100.0 * _quantile(spreads, 0.5),
                "misfit": max(row.misfit for row in rows),
                "refused": len(rows) - len(sizes),
                "worsened": sum(row in worsened for row in rows)
                if any(len(row.calibrated_on) > 1 for row in rows)
                else None,
                "p95_median": _quantile(response, 0.5) if response else None,
                "p95_p90": _quantile(response, 0.9) if response else None,
                "first_median": _quantile(first, 0.5) if first else None,
                "first_p90": _quantile(first, 0.9) if first else None,
            }
        )
    return table


def _quantile(values: list[float], share: float) -> float:
    """Returns the quantile of sorted values, between its neighbours."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


# By how much a spread is moved at most and at least in one step of the search, as a factor.
STEPS = (2.0, 1.2, 1.05, 1.01)
LEAST_SPREAD, MOST_SPREAD = 0.01, 1.0


def spreads(scores: list[Score], begin: Mapping[str, float], documented: Iterable[str] = ()) -> dict[str, float]:
    """The spreads of what is unexplained with which the errors are most likely (normal, of the logarithm), each family counting the
    same; those of distances that no prediction has stay as they are at the `begin`, and so do the `documented` ones."""
    rows = [row for row in scores if row.error is not None]
    count = {family: sum(row.family == family for row in rows) for family in {row.family for row in rows}}

    def unlikely(table: Mapping[str, float]) -> float:
        total = 0.0
        for row in rows:
            parts = [table[name] * distance for name, distance in row.distances.items()]
            variance = row.covered**2 + table["none"] ** 2 + sum(part**2 for part in parts)
            total += (math.log(variance) + _size(row) ** 2 / variance) / count[row.family]
        return total

    seen = {"none"} | {name for row in rows for name, distance in row.distances.items() if distance > 0}
    seen -= set(documented)
    table = dict(begin)
    for step in STEPS:
        moved = True
        while moved:
            moved = False
            for name in sorted(seen):
                for factor in (step, 1.0 / step):
                    value = min(max(table[name] * factor, LEAST_SPREAD), MOST_SPREAD)
                    if unlikely(table | {name: value}) < unlikely(table) - 1e-9:
                        table[name], moved = value, True
    return {name: float(f"{value:.2g}") for name, value in table.items()}


def rewrite(file: Path, scores: list[Score]) -> None:
    """Puts the spreads that follow from scores into a table like unexplained.csv; those whose source names no runs stay."""
    rows = list(csv.DictReader(file.read_text().splitlines()))
    documented = [row["distance"] for row in rows if "runs" not in row["source"]]
    table = spreads(scores, {row["distance"]: float(row["spread"]) for row in rows}, documented)
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | {"spread": f"{table[row['distance']]:g}"} for row in rows)


def lines(table: list[dict]) -> list[str]:
    """The summary as text."""
    text = []
    for row in table:
        head = f"{row['family']:34s} {row['way']:16s} n={row['n']:3d}"
        if row["n"]:
            head += (
                f"  median {row['median']:5.1f} %  p90 {row['p90']:5.1f} %  worst {row['worst']:5.1f} %  bias {row['bias']:+5.1f} %"
                f"  80 % interval holds {row['holds']:3d} (+-{row['spread_percent']:.0f} %)"
                f"  misses its own by up to {row['misfit']:.1f} %"
            )
            if row["first_median"] is not None:
                head += f"  first half: median {row['first_median']:.1f} %, p90 {row['first_p90']:.1f} %"
            if row["worsened"] is not None:
                head += f"  further runs made worse {row['worsened']}"
            if row["p95_median"] is not None:
                head += f"  response p95: median {row['p95_median']:.1f} %, p90 {row['p95_p90']:.1f} %"
        text.append(head + (f"  refused {row['refused']}" if row["refused"] else ""))
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description="How well databases are predicted on runs their calibration has not seen."
    )
    parser.add_argument("--runs", type=Path, help="folder with the published runs")
    parser.add_argument("--family", nargs="+", default=(), help="families whose names begin so")
    parser.add_argument("--from-one", action="store_true", help="leave out what is predicted from all others together")
    parser.add_argument("--no-run", action="store_true", help="predict by the standard benchmarks alone")
    parser.add_argument("--rows", action="store_true", help="print every prediction")
    parser.add_argument("--spreads", type=Path, help="rewrite this table of what no parameter covers")
    given = parser.parse_args()
    source = given.runs or folder()
    if source is None:
        print("the published runs are not here: name their folder with --runs", file=sys.stderr)
        return 3
    runs = load_all(source)
    if given.no_run:
        scores = score_without_run(runs, given.family)
    else:
        scores = score(runs, given.family, lambda text: print(text, file=sys.stderr), given.from_one)
    for row in scores if given.rows else ():
        print(row.in_words())
    if given.spreads:
        rewrite(given.spreads, scores)
    print("\n".join([*lines(summary(scores)), IN_SAMPLE]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
