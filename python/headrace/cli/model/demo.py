"""`headrace demo`: the main job on a recorded example, from demand to report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import RegionOption, flag, option
from headrace.cli.output import say, show
from headrace.cli.writing import FORCE_HELP, WRITES_PAGE
from headrace.report.output import check_chart_path

EPILOG = """The example is a recorded hour of an InnoDB server under TPC-C on a gp2 volume in 2018, laid into a day with a
quiet night and a backup. The questions: which volume would serve that day with I/O p99 <= 20 ms and no throttling, and
what does it save compared with the gp2 volume of the recording? With Linux, root and a MariaDB server it ends with a
proof of two minutes: a prediction for a server on volumes of the lab, stored, and then measured."""

GOALS = ("p99_ms<=20", "throttled_min<=0")
CURRENT = "gp2:1200"  # 3 IOPS per GiB: the 3,600 IOPS the server was recorded on
REPORT = Path("headrace-report.html")
PROOF = Path("headrace-proof.html")


def demo(
    report: Annotated[Path, option("FILE", "Where to write the page (.html)."), WRITES_PAGE] = REPORT,
    region: RegionOption = "us-east-1",
    proof: Annotated[bool, flag("--proof/--no-proof", "End with a proof on the lab, where the machine can.")] = True,
    force: Annotated[bool, flag("--force", FORCE_HELP)] = False,
) -> None:
    """Plan a recorded day: its demand, the ranked table, a report with charts; then two minutes of
    proof on a real server."""
    from headrace.base.files import check_output
    from headrace.cli.model.plan import make_plan, plans_of, show_plan, write_report
    from headrace.report.simulation import spark_lines
    from headrace.workload import demo_day

    check_chart_path(report, (".html",))
    if proof:
        check_output("the page of the proof,", PROOF, force=force or WRITES_PAGE.allows(PROOF))
    load = demo_day()
    show("1. The demand of the server on its storage", "", load.describe(), "", *spark_lines(load), "")
    made = make_plan(load, None, {"goals": list(GOALS), "region": region, "compare": CURRENT})
    show("2. Which volumes meet it, and at what cost", "")
    show_plan(made, "table")
    write_report(report, made, load)
    show("", f"3. The report with charts is in {report.resolve()}")
    if proof:
        _prove()
    say("Next: headrace workload import YOUR_IOSTAT_FILE --to mysql.toml, then headrace plan mysql.toml")
    if plans_of(made)[0].recommended is None:
        raise typer.Exit(1)


def _prove() -> None:
    from headrace.cli.model.prove import carry_out, present
    from headrace.experiment import demo_request, missing
    from headrace.experiment.request import DEMO_MINUTES

    show("", "4. The proof: predicted, then measured on a real server", "")
    lacks = missing()
    if lacks:
        return show("Not on this machine, which lacks:", *(f"  {one}" for one in lacks))
    settings = {"minutes": DEMO_MINUTES, "scale": None, "flavor": "mariadb", "seed": 1, "folder": None}
    present(carry_out(demo_request(), PROOF, settings), "table", PROOF)
