"""The studies: published figures as printed, verdicts that hold (or fail where it is known why), the same figures every time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from headrace import InputError, studies
from headrace.studies import choices, gp2_burst, published_latency, queue_rule
from headrace.studies.base import Figure, Source, compare, read_figures, read_published

NAMES = ("gp2-burst", "choices", "raid-2009", "queue-rule", "published-latency")
TABLES = ("gp2_burst", "choices", "raid_2009", "queue_rule", "latency")


@cache
def result(name: str) -> studies.StudyResult:
    """Each study is run once for all tests that look at it."""
    return studies.run_study(name)


def within(name: str) -> dict[str, bool | None]:
    return {verdict.what: verdict.within for verdict in result(name).verdicts}


# --- published figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_every_published_row_has_source_and_date(table):
    rows = read_published(table)
    assert rows
    for row in rows:
        assert row["source"], row
        assert row["date"][:4].isdigit() and 2008 <= int(row["date"][:4]) <= 2026, row


def test_figures_are_as_printed():
    gp2 = {name: figure.value for name, figure in read_figures("gp2_burst").items()}
    assert gp2 == {
        "credits": 5_400_000, "burst_iops": 3_000, "burst_without_refill_s": 1_800, "burst_500_gib_s": 3_600, "burst_100_iops_s": 1_862,
        "fio_device_ios": 5_242_215, "fio_read_mib": 81_920, "fio_iops": 3_061, "fio_seconds": 1_712.488, "fio_threads": 10,
        "fio_block_kib": 16, "fio_read_ticks_ms": 17_072_972,
    }  # fmt: skip
    queue = {name: figure.value for name, figure in read_figures("queue_rule").items()}
    assert queue == {
        "iops_per_queue_length": 200, "example_iops": 2_000, "example_queue_length": 10, "read_kib": 16, "write_kib": 22,
        "reads_per_s": 25,
        "writes_per_s": 1_250, "raid_writes_per_s": 350, "gp2_max_mib_s": 160, "io1_max_mib_s": 320, "unit_kib": 256,
        "contiguous_per_io": 16,
        "iops_at_byte_cap": 640, "sequential_qd4_iops": 3_070,
    }  # fmt: skip


def test_the_printed_figures_agree_with_each_other():
    gp2 = {name: figure.value for name, figure in read_figures("gp2_burst").items()}
    # fio rounds IOPS to one: 0.5 of 3,061 is 0.02 %; its I/O count and the bytes it read differ by what it did not count at the end.
    assert gp2["fio_device_ios"] / gp2["fio_seconds"] == pytest.approx(gp2["fio_iops"], abs=0.5)
    assert gp2["fio_read_mib"] * 1024 / gp2["fio_block_kib"] == pytest.approx(gp2["fio_device_ios"], rel=2e-4)
    assert gp2["credits"] / gp2["burst_iops"] == gp2["burst_without_refill_s"]
    assert gp2["credits"] / (3_000 - 3 * 500) == gp2["burst_500_gib_s"]
    assert gp2["credits"] / (3_000 - 100) == pytest.approx(gp2["burst_100_iops_s"], abs=0.5)
    queue = {name: figure.value for name, figure in read_figures("queue_rule").items()}
    assert queue["gp2_max_mib_s"] * 1024 / queue["unit_kib"] == queue["iops_at_byte_cap"]
    assert queue["unit_kib"] / queue["read_kib"] == queue["contiguous_per_io"]
    assert queue["example_iops"] / queue["example_queue_length"] == queue["iops_per_queue_length"]


@pytest.mark.parametrize(
    ("storage", "instance", "rw", "kib", "depth", "quantiles_us"),
    [
        ("gp2:1000", "r5.large", "randread", 16, 16, (5_276, 5_932, 6_849, 11_863)),
        ("gp3:1000:3000:250", "r5.large", "randwrite", 16, 16, (5_342, 5_669, 7_111, 13_566)),
        ("io1:2048:40000", "m5.12xlarge", "randwrite", 16, 16, (548, 700, 836, 1_592)),
        ("io2bx:100:60000", "c6a.xlarge", "randread", 16, 16, (424, 537, 603, 709)),
        ("gp3:1000:4000:1000", None, "randread", 16, 256, (49_408, 127_488, 168_960, 216_064)),
        ("gp2:30", "t2.micro", "randwrite", 4, 4, (1_221, 1_598, 13_173, 17_957)),
        ("gp2:100", "t3a.small", "randread", 4, 1, (338.9, 625.1, 1_033.5, 1_596.4)),
    ],
)
def test_measured_quantiles_are_as_printed(storage, instance, rw, kib, depth, quantiles_us):
    runs, _ = published_latency.read_measured_runs()
    result = [
        r for r in runs if (r.storage, r.instance, r.rw, r.bs_kib, r.depth) == (storage, instance, rw, kib, depth)
    ]
    assert len(result) == 1
    assert tuple(result[0].latency_us[name] for name in published_latency.QUANTILES) == quantiles_us


def test_runs_that_page_cache_answered_are_left_out_with_a_reason():
    runs, skipped = published_latency.read_measured_runs()
    assert len(runs) + len(skipped) == len(read_published("latency"))
    assert all(row["skipped_because"] for row in skipped)
    # A network volume does not answer half its reads in under 0.25 ms: what does came from memory.
    assert all(run.latency_us.get("p50", math.inf) > 250 for run in runs)


def test_depth_in_flight_follows_littles_law():
    runs, _ = published_latency.read_measured_runs()
    for run in runs:
        assert 1 <= run.iodepth_in_flight <= run.iodepth
        if run.iodepth > 1 and run.rate_per_mille == 1_000:
            # Rounded to a whole request per job: half a request of 15 is 3.3 %.
            assert run.iodepth_in_flight * run.jobs == pytest.approx(run.latency_us["mean"] * run.iops / 1e6, rel=0.034)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_compare_can_fail():
    figure = Figure(200.0, "IOPS", Source("somewhere", "2020"))
    assert compare("x", figure, 202.0, 1.0).within is True
    wrong = compare("x", figure, 190.0, 1.0)
    assert wrong.within is False
    assert wrong.error_percent == pytest.approx(-5.0)
    assert compare("x", figure, 500.0).within is None


@pytest.mark.parametrize("name", NAMES)
def test_every_verdict_says_source_and_date(name):
    for verdict in result(name).verdicts:
        assert verdict.source.citation and verdict.source.date[:4].isdigit(), verdict
        if verdict.error_percent is not None:
            assert verdict.error_percent == pytest.approx(100 * (verdict.ours / verdict.published - 1), abs=1e-9)


@pytest.mark.parametrize("name", ["gp2-burst", "queue-rule"])
def test_all_promised_figures_are_met(name):
    assert [what for what, met in within(name).items() if met is False] == []
    assert sum(met is True for met in within(name).values()) >= 10


def test_the_only_answer_that_differs_is_the_one_the_article_dates_itself():
    assert [what for what, met in within("choices").items() if met is False] == ["SSD for more than 80,000 IOPS"]
    # On its own date, 2018-04, the answer is the article's.
    assert choices.choose_over_80k(choices.CAP_DAY).names == ("instance-store",)
    assert choices.find_max_ebs_iops(choices.CAP_DAY) == 80_000
    # Later types change the answers: gp3 (2020-12) and io2 above 80,000 IOPS.
    assert choices.choose_cheap_ssd(choices.TODAY).names == ("gp3",)
    assert choices.choose_over_80k(choices.TODAY).names == ("io2",)


def test_directions_of_2009_that_do_not_come_out_are_known_and_explained():
    failing = {verdict.what: verdict.note for verdict in result("raid-2009").verdicts if not verdict.within}
    assert set(failing) == {
        "RAID 10 of 4 clearly better than one volume",
        "RAID 10,f2 worse than RAID 10",
        "one volume is at its best with 1 thread",
        "RAID 0 of 4 no better than one volume",
    }
    assert not any("not explained" in note for note in failing.values())


def test_latency_shares_do_not_fall():
    shares = {row[:3]: row for row in result("published-latency").tables[1].rows}
    # A ratchet, not a goal (that is 100 %): 48 % and 74 % of all runs met 3 % at p50 and 10 % at p99 when this was written. Raise it.
    assert shares["all", "all", "p50"][6] >= 45
    assert shares["all", "all", "p99"][6] >= 70
    # The profiles of io1 were fitted to its runs below the cap: an error there is a fault of ours, not of a host.
    assert shares["io1", "below the cap", "p50"][6] == 100


# --- what the studies compute -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size_gib", [1, 33, 34, 150, 990])
def test_burst_and_refill_match_the_closed_formula(size_gib):
    baseline = max(100, 3 * size_gib)
    expected_s = 5_400_000 / (3_000 - baseline)
    run = gp2_burst.simulate_burst(size_gib, expected_s + 60.0, saved_second=False)
    # A cap keeps 1/64 s of tokens even without the saved second: 47 credits go early. And one row of 1 s.
    slack_s = 1.0 + 3_000 / 64 / (3_000 - baseline)
    assert run.summary["credits_empty_at_s"] == pytest.approx(expected_s, abs=slack_s)
    # Rows of 60 s, interpolated on a straight line: only the whole credits of a balance are lost, under 1 s.
    assert gp2_burst.find_refill_s(gp2_burst.simulate_refill(size_gib)) == pytest.approx(5_400_000 / baseline, abs=1.0)


def test_the_fio_run_was_on_a_small_volume():
    assert gp2_burst.compute_device_gib() == 8.0
    rows = {(row[0], row[1]): row for row in result("gp2-burst").tables[0].rows}
    # By hand: 5.4 million less the I/Os, plus 3 IOPS per GiB (at least 100) for 1,712.488 s.
    for (size, _), (_, _, ios, _, left_percent) in rows.items():
        by_hand = (5_400_000 - ios + max(100, 3 * size) * 1_712.488) / 54_000
        assert left_percent == pytest.approx(by_hand, abs=0.1), (
            size
        )  # rounded to 0.1; ten requests in flight are 0.0002 %


def test_littles_law_gives_the_depth_needed():
    for row in result("queue-rule").tables[0].rows:
        storage, iops, own_ms, needed = row[0], row[4], row[5], row[7]
        bound = queue_rule.ENOUGH * iops * own_ms / 1e3
        # No depth below Little's bound serves the IOPS (1 % for the mean's own error), and the latency's spread costs no more than two
        # requests' worth of depth.
        assert bound * 0.99 - 1e-9 <= needed <= math.ceil(bound) + 2, storage


def test_the_knee_of_a_full_gp2_volume_lies_at_16_kib():
    assert queue_rule.compute_knee_kib("gp2:5334", "2026-11-01") == 16.0
    assert queue_rule.compute_knee_kib("gp2:3334", "2018-04-30") == pytest.approx(160 * 1024 / 10_000)


# --- the frame --------------------------------------------------------------------------------------------------------


def test_studies_are_listed_and_found():
    # Those of databases have tests of their own.
    assert tuple(study.name for study in studies.list_studies())[: len(NAMES)] == NAMES
    for study in studies.list_studies():
        assert studies.get(study.name) is study
        assert study.title and study.question.endswith("?") and study.sources


def test_a_wrong_name_is_refused_with_the_nearest():
    with pytest.raises(InputError) as refused:
        studies.run_study("gp2-brust")
    assert "gp2-burst" in refused.value.hint
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("name", NAMES)
def test_results_can_be_printed_and_drawn(name):
    got = result(name)
    assert got.study.name == name and got.verdicts and got.tables and got.charts and got.notes
    for table in got.tables:
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
        assert all(cell is None or isinstance(cell, (str, int, float)) for row in table.rows for cell in row), (
            table.title
        )
    for chart in got.charts:
        assert chart.title and chart.x_title and chart.y_title and chart.series
        for series in chart.series:
            assert series.label and series.x
            assert all(isinstance(y, (int, float)) and math.isfinite(y) for y in series.y), (chart.title, series.label)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_figures_every_time(name):
    seen = []
    again = studies.run_study(name, seen.append)
    assert replace(again, seconds=0.0) == replace(result(name), seconds=0.0)
    assert seen == sorted(seen) and seen[-1] == 1.0
