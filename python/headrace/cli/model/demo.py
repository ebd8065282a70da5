"""`headrace demo`: the main job from end to end: a database, a plan, its page and its proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from headrace.base.files import check_output
from headrace.base.lazy import defer_imports
from headrace.base.options import Region
from headrace.cli.model.plan import list_plans, make_plan, show_plan, write_plan
from headrace.cli.model.prove import carry_out, present
from headrace.cli.options import make_choice, make_flag, make_option
from headrace.cli.output import exit_if, say, show
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import FORCE_HELP, WRITES_PAGE
from headrace.planner.settings import PlanSettings
from headrace.report.output import PAGE_FORMATS, check_chart_path

if TYPE_CHECKING:
    from headrace.planner import Plan
    from headrace.workload import TransactionWorkload

with defer_imports():
    from headrace import experiment
    from headrace.calibration import from_runs
    from headrace.report import databases

EPILOG = read_epilog("demo")

GOALS = ("tps>=200",)
CURRENT = "gp2:1000"  # 3 IOPS per GiB: 3,000 IOPS
REPORT = Path("headrace-report.html")
PROOF = Path("headrace-proof.html")
PROOF_MINUTES = 2.5  # 17 s a configuration: enough to see which volume is faster, and no more

Stage = Literal["all", "plan", "proof"]


def demo(
    report: Annotated[Path, make_option("FILE", "Page to write (.html)."), WRITES_PAGE] = REPORT,
    region: Region = "us-east-1",
    stage: Annotated[
        Stage, make_choice("Part to run: the plan with its page, the proof of that plan, or both.")
    ] = "all",
    force: Annotated[bool, make_flag("--force", FORCE_HELP)] = False,
) -> None:
    """Plan storage for an example database, write the page, and prove the plan on a real server."""
    check_chart_path(report, PAGE_FORMATS)
    if stage in ("all", "proof"):
        check_output("the page of the proof,", PROOF, force=force or WRITES_PAGE.allows(PROOF))
    database = from_runs.build_demo_database()
    recommended = True
    if stage in ("all", "plan"):
        show("1. The database", "", *databases.describe_database(database), "")
    settings = _make_plan_settings(region)
    plan = list_plans(make_plan(database, None, settings))[0]
    if stage in ("all", "plan"):
        _show_plan(plan, database, settings, report)
        recommended = plan.recommended is not None
    if stage in ("all", "proof"):
        _prove(plan, database)
    say("Next: headrace workload import YOUR_IOSTAT_FILE --to mysql.toml, then headrace plan mysql.toml")
    exit_if(not recommended)


def _make_plan_settings(region: str) -> PlanSettings:
    """Returns the settings by which the example's storage is planned: single volumes, with the
    database server as it is today."""
    return PlanSettings(goals=GOALS, region=region, compare=CURRENT, instances="none", max_volumes=1)


def _show_plan(plan: Plan, database: TransactionWorkload, settings: PlanSettings, report: Path) -> None:
    """Prints the plan, writes its page, and says where it is."""
    show("2. The volume that meets the goal, and its cost", "")
    show_plan(plan, "table")
    write_plan(report, plan, database, settings)
    show("", f"3. The page with charts is {report.resolve()}")


def _prove(plan: Plan, database: TransactionWorkload) -> None:
    """Runs the plan's recommendation, its runner-up and today's volume on the lab; says what the
    machine lacks where it cannot."""
    show("", "4. The proof of this plan: predicted, then measured on a real server", "")
    if missing := experiment.list_missing():
        return show("Not on this machine, which lacks:", *(f"  {what}" for what in missing))

    request = experiment.from_plan(plan, "of this demo", database)
    settings = {"minutes": PROOF_MINUTES, "scale": None, "flavor": "mariadb", "seed": 1, "folder": None}
    present(carry_out(request, PROOF, settings), "table", PROOF)
