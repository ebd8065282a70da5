"""The plan as sentences, tables and page: right figures, everything escaped, one file with nothing
to fetch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from page_checks import checked
from planner_cases import NO_ARRAYS, bare, burst_day, only, shop, steady

from headrace import simulate
from headrace.planner import plan, simulate_choices
from headrace.report import plan as report
from headrace.report import plan_words
from headrace.report.html import write_view
from headrace.report.tables import TerminalTable, list_parts
from headrace.workload.daily import new_daily

NASTY = "<script>alert('x')</script>&\"'<img src=http://a/b onerror=x>"


@pytest.fixture(scope="module")
def day():
    workload = new_daily(1500, 700, name=NASTY, size_gib=50, backup_start_hour=2)
    return replace(workload, caveats=(NASTY,))


def sentences(result) -> str:
    return "\n".join(line for line, _ in plan_words.list_answer_lines(result))


def test_the_page_is_whole_escaped_and_alone(tmp_path, day):
    answer = plan(day, compare="gp2:600")
    write_view(tmp_path / "plan.html", report.build_plan_view(answer, day, simulate_choices(answer, day, None)))
    text, page = checked(tmp_path / "plan.html")
    # Demand, cost against performance, bill; balances where there are credits.
    assert page.seen.count("svg") >= 3
    assert "&lt;script&gt;" in text
    # Words and colours of their rows tell the recommendation from today's storage, which fails.
    assert '<tr class="marked">' in text and "(recommended)" in text
    assert '<tr class="failing">' in text and "(today, fails)" in text
    for part in (
        "Why not the others",
        "The arithmetic",
        "Next steps",
        "Caveats before buying",
        "Goals",
        answer.recommended.storage,
    ):
        assert part in text


def test_the_page_without_winners(tmp_path, day):
    answer = plan(day, goals=["p99_ms<=0.001"])
    write_view(tmp_path / "none.html", report.build_plan_view(answer, day))
    text, _ = checked(tmp_path / "none.html")
    assert "No storage meets every goal" in text and "Closest to the goals" in text and "Next steps" not in text


def test_what_is_drawn_is_what_is_judged(day):
    answer = plan(day, compare="gp2:600", as_of="2020-06-01")
    for name, run in simulate_choices(answer, day, None):
        again = simulate(day, name.split(" on ")[0], as_of="2020-06-01", form="interval", cycle="settled")
        assert run.summary == again.summary


def test_why_the_recommendation_is_not_the_cheapest_is_said():
    result = bare(
        steady(size_gib=300),
        instances=["i3.large", "m5.large"],
        exclude=only("gp3", "instance-store"),
        allow_instance_store=True,
    )
    text = sentences(result)
    same = result.recommended.key == result.winner.key
    assert ("Cheapest that meets every goal: " in text) == (not same)
    assert text.startswith("Recommended, and the cheapest" if same else "Recommended: ")


def test_no_head_room_and_lost_credits_stand_in_sentences():
    result = bare(burst_day(), as_of="2018-08-15", exclude=NO_ARRAYS, compare="gp2:300")
    text = sentences(result)
    assert "It has no head-room: any growth of the demand breaks a goal." in text
    assert (
        "Today gp2:300 costs 30.00 USD a month and fails" in text
        and "Today's credits: credits empty 12 h 56 min after the start" in text
    )


def test_rows_of_the_table_are_the_choices():
    answer = plan(steady(), compare="gp2:1000")
    columns, rows = report.tabulate_choices(answer)
    by_rank = {row[0].split()[0]: dict(zip(columns, row, strict=True)) for row in rows}
    assert (
        by_rank["1"]["storage"] == answer.winner.storage
        and by_rank["1"]["rank"].endswith("*")
        and by_rank["today"]["storage"] == "gp2:1000"
    )
    assert by_rank["1"]["head-room"] == "+20 %" and by_rank["1"]["AFR a year"] == "0.2 %"
    # Nothing to say.
    assert all(row[columns.index("USD/month")] for row in rows) and "instance" not in columns


def test_far_families_are_named_once():
    answer = plan(steady(), max_volumes=1)
    every, none = report.list_verdict_rows(answer, True)
    some, far = report.list_verdict_rows(answer, False)
    assert none == [] and {row[0] for row in some} | set(far) == {row[0] for row in every} and far


def test_the_bill_of_the_page_adds_up():
    answer = plan(steady(), instances=["m5.large"], snapshot_days=7)
    rows = report.list_bill_rows(answer.recommended)
    assert sum(float(row[5].replace(",", "")) for row in rows[:-1]) == pytest.approx(
        float(rows[-1][5].replace(",", "")), abs=0.005 * len(rows)
    )
    assert {row[0] for row in rows} == {"data", "instance", "snapshots", "together"}


def test_the_frame_has_numbers_in_the_units_of_their_names():
    answer = plan(
        shop(),
        goals=["tps>=300", "headroom_percent>=0"],
        instances=["r6i.large"],
        exclude=only("gp3"),
        draws=1,
        compare="r6i.large/gp3:200",
    )
    frame = report.build_frame(answer)
    assert frame.filter(frame["rank"] == 0)["storage"].to_list() == ["gp3:200"]
    assert (
        frame["recommended"].sum() >= 1
        and frame["cost_usd_month"].dtype.is_float()
        and frame["probability"].is_between(0, 1).all()
    )


@pytest.mark.parametrize("width", [80, 100, 150])
def test_tables_of_plans_fit_a_terminal_and_break_no_storage_or_instance(width):
    demand = plan(steady(), compare="gp2:1000", instances=["m5.large"])
    settings = {"instances": ["r6i.large"], "exclude": only("gp3", "gp2"), "draws": 1}
    database = plan(shop(), goals=["tps>=300"], compare="r6i.large/gp3:200,log=gp3:20", **settings)
    for result in (demand, database):
        tables = [part for part in list_parts(report.build_plan_view(result)) if isinstance(part, TerminalTable)]
        for part in tables:
            lines = [str(line) for line in part.render_lines(part.choose_layout(width), width)]
            assert all(len(line) <= width for line in lines), lines
        table = tables[0]
        words = [str(line).split() for line in table.render_lines(table.choose_layout(width), width)]
        for choice in result.choices.winners:
            whole = [name for name in (choice.storage, choice.instance, choice.log_storage) if name]
            assert any(set(whole) <= set(line) for line in words), whole
