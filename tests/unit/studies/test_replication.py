"""The study of replicas: the article's statements, what was fitted and what was not, the same figures every time."""

from __future__ import annotations

from functools import cache

import pytest

from headrace import studies
from headrace.studies.replication import replication_2016 as study


@cache
def result() -> studies.StudyResult:
    return studies.run_study("replication-2016")


def verdict(what: str) -> studies.Verdict:
    return next(verdict for verdict in result().verdicts if verdict.what.startswith(what))


@pytest.mark.parametrize(
    "what", ["one thread falls behind", "lag with 4 workers", "1,024 clients lag more", "Aurora's lag, 1,024"]
)
def test_the_statements_of_the_article_hold(what):
    assert verdict(what).within is True


def test_fitted_figures_promise_nothing():
    assert verdict("Aurora's lag at 1,000").within is None and verdict("Aurora's lag at 10,000").within is None
    assert verdict("Aurora's lag at 2,000").within is True and verdict("Aurora's lag at 5,000").within is True
    assert verdict("median error").within is True


def test_the_fall_with_clients_is_that_of_table_3():
    # 21,000 writes a second at 500 connections, 13,000 at 5,000: one decade.
    assert 10 ** -study.compute_fall_exponent() == pytest.approx(13_000 / 21_000)


def test_lag_is_what_both_rates_leave():
    """30 minutes x (1 - applied / written), to a second's worth of the first fill of queues."""
    of = study.simulate_source(study.BUSIEST)
    run = study.predict_article_replica(of, 0)
    seconds = study.SECONDS * (1 - run.summary["applier_tps"] / of.tps)
    assert run.summary["lag_at_load_end_s"] == pytest.approx(seconds, abs=2.0)


def test_the_time_without_io_is_that_of_the_rds_run():
    value = next(row["value"] for row in study.select_rows(study.HELD_OUT, "rds", "tps") if row["clients"] == 1)
    place = (study.STUDY_2020_INSTANCE, study.STUDY_2020_DAY, study.STUDY_2020_CACHE_GIB)
    again = study.simulate_last_second(study.make_tpcc_database(500), "rds:single-az", *place, 1, study.RDS_2020)["tps"]
    # The other limits take a little off a single client: (its rate / theirs)^4.
    assert again == pytest.approx(value, rel=1e-3)


def test_published_figures_have_source_and_day():
    rows = study.core.published_services()
    source_ids = {source["id"] for source in study.core.sources()}
    assert len(rows) == 58 and all(
        set(row["source"].split("+")) <= source_ids and row["as_of"][:2] == "20" for row in rows
    )
