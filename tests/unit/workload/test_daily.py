"""The day made from a DBA's answers."""

import pytest

from headrace.errors import InputError
from headrace.workload import SHAPES, from_answers, list_questions, new_constant, new_daily
from headrace.workload.daily import parse_shape


def test_busy_hour_has_the_rates_given():
    for shape in SHAPES:
        figures = new_daily(1000, 500, shape=shape).summarize()
        assert figures["busiest_hour_iops"] == pytest.approx(1500) and figures["peak_iops"] == 1500
        assert figures["span_s"] == 86_400


def test_shapes_have_24_hours_and_a_largest_of_one():
    for factors in SHAPES.values():
        assert len(factors) == 24 and max(factors) == 1.0 and min(factors) > 0


def test_own_factors_are_set_against_the_largest():
    points = new_daily(1000, 0, shape=[0] * 12 + [50] * 6 + [100] * 6, night_floor=0.2).points
    assert (
        points["reads_per_s"][0] == 200 and points["reads_per_s"][12 * 60] == 500 and points["reads_per_s"][-1] == 1000
    )


def test_backup_keeps_ios_and_bytes():
    quiet = new_daily(1000, 500, shape="flat")
    backed = new_daily(1000, 500, shape="flat", backup_start_hour=23.5, backup_minutes=60, backup_mib_s=100)
    extra = (backed.points["reads_per_s"] - quiet.points["reads_per_s"]).to_list()
    # 100 MiB/s in 256 KiB reads is 400 a second, for half an hour on each side of midnight.
    assert [minute for minute, more in enumerate(extra) if more] == [*range(30), *range(1410, 1440)]
    assert max(extra) == 400
    more_mib = (backed.summarize()["mean_mib_s"] - quiet.summarize()["mean_mib_s"]) * 86_400
    assert more_mib == pytest.approx(100 * 3600)
    assert any("backup" in caveat for caveat in backed.caveats)


def test_days_repeat():
    week = new_daily(100, 50, days=7)
    assert week.points.height == 7 * 1440
    assert week.points["reads_per_s"][:1440].equals(week.points["reads_per_s"][1440:2880])


def test_constant_longer_than_a_day():
    assert new_constant(1, 1, seconds=2 * 86_400 + 5).points["duration_s"].to_list() == [86_400, 86_400, 5]


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": "ofice"},
        {"shape": [1] * 23},
        {"shape": [0] * 24},
        {"shape": [1] * 23 + [-1]},
        {"shape": 5},
        {"night_floor": 2},
        {"days": 0},
        {"days": 1.5},
        {"backup_start_hour": 25},
        {"backup_start_hour": 1, "backup_minutes": 0},
        {"backup_start_hour": 1, "backup_mib_s": -1},
        {"reads_per_s": -1},
        {"reads_per_s": float("nan")},
        {"read_kib": 0},
        {"arrivals": "x"},
        {"reads_per_s": None},
        {"colour": 1},
    ],
)
def test_bad_answers(changes):
    with pytest.raises(InputError):
        from_answers({"reads_per_s": 100, "writes_per_s": 50} | changes)


def test_questions_lead_to_a_workload():
    """Every default, as it would be typed, passes its own validator, and the answers make a
    workload.
    """
    answers = {}
    for question in list_questions():
        if question.required:
            answers[question.name] = question.validator("100")
        elif question.default is not None and not question.only_if:
            answers[question.name] = question.validator(str(question.default))
            assert answers[question.name] == question.default
    assert from_answers(answers).summarize()["peak_iops"] == 200
    names = [question.name for question in list_questions()]
    assert len(set(names)) == len(names)
    assert all(
        question.only_if is None or names.index(question.only_if) < names.index(question.name)
        for question in list_questions()
    )
    for question in list_questions():
        if question.name not in ("name",):
            with pytest.raises(InputError):
                question.validator("ein Hund")


def test_parse_shape():
    assert parse_shape("evening") == "evening"
    assert len(parse_shape(", ".join(["1"] * 24))) == 24
    for bad in ("1 2 3", "", "nan " * 24, "evenin"):
        with pytest.raises(InputError):
            parse_shape(bad)
