"""Accuracy of the doctor on recordings: twelve troubles in eight formats, and mixtures of them,
from a generator that shares no code with the model (tests/unit/shared/recorded_queues).

    python benchmarks/doctor_accuracy.py --seeds 101,102,103
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/unit/shared"))

from recorded_queues.judging import Score, score
from recorded_queues.printing import EIGHT
from recorded_queues.scenarios import MIXTURES, TWELVE, make

SEEDS = "101,102,103"  # any that nobody looked at while the doctor was written
LEAST_SHARE = 92 / 96  # of the headlines of twelve scenarios in eight formats: the project's bar


def scores(builders: tuple, seeds: list[int], console: Console) -> list[Score]:
    """Scores every scenario in every format of every seed."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            for builder in builders:
                scenario = make(builder, seed)
                console.print(f"seed {seed}: {scenario.name}", style="dim")
                answers += [score(scenario, form, seed, Path(folder)) for form in EIGHT]
    return answers


def table(answers: list[Score]) -> Table:
    """Returns the right headlines by scenario and format."""
    forms = list(dict.fromkeys(answer.form for answer in answers))
    table = Table("scenario", *forms, "right", title="Doctor: headlines of recordings that are right")
    for name in dict.fromkeys(answer.scenario for answer in answers):
        of_name = [answer for answer in answers if answer.scenario == name]
        cells = []
        for form in forms:
            cell = [answer.right for answer in of_name if answer.form == form]
            cells.append(f"{sum(cell)}/{len(cell)}")
        table.add_row(name, *cells, f"{sum(answer.right for answer in of_name)}/{len(of_name)}")
    return table


def main() -> int:
    """Prints the table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default=SEEDS, help="comma between them")
    seeds = [int(text) for text in parser.parse_args().seeds.split(",")]
    console = Console(width=200)
    progress = Console(stderr=True)
    of_twelve = scores(TWELVE, seeds, progress)
    answers = [*of_twelve, *scores(MIXTURES, seeds, progress)]
    console.print(table(answers))
    right, fault, fine = (
        sum(answer.right for answer in of_twelve),
        sum(answer.blames_ebs for answer in answers),
        sum(answer.false_fine for answer in answers),
    )
    console.print(
        f"twelve scenarios: {right} of {len(of_twelve)} right (bar {LEAST_SHARE:.1%}); EBS blamed wrongly {fault}, fine wrongly {fine}"
    )
    for answer in answers:
        if not answer.right:
            console.print(f"seed {answer.seed}, {answer.scenario}, {answer.form}: {answer.verdict}: {answer.headline}")
    return int(right < LEAST_SHARE * len(of_twelve) or fault > 0 or fine > 0)


if __name__ == "__main__":
    raise SystemExit(main())
