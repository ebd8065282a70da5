"""Misfit of a calibration to its own run: it is said, refused, and part of intervals; what it
writes is read again."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from calibration_runs import LONG, PUBLISHED, WHERE, description, record, recorded, sysbench_csv, truth

from headrace.calibration.from_runs import calibrate
from headrace.calibration.runs import load_run
from headrace.cli import main as cli
from headrace.simulation.database import predict
from headrace.workload import load_database, save
from headrace.workload.misfit import MOST_MISFIT, MOST_NOISE, Misfit, find_misfit

# A run of 20,000 IOPS that is described as one on a hundredth of them: no parameter makes up for that.
FAR_TOO_SLOW = "io1:1024:200"


def record_misdescribed(folder):
    """Records a run measured at 20,000 IOPS, in whose description stands FAR_TOO_SLOW."""
    path = record(folder, truth("innodb"), LONG, seconds=600, start="warm")
    path.write_text(path.read_text().replace(LONG, FAR_TOO_SLOW))
    return path


def test_the_bar_is_five_percent_or_three_times_the_noise():
    calm, rough = Misfit(1000.0, 1049.0, 0.001, "cpu"), Misfit(1000.0, 1149.0, 0.05, "cpu")
    assert calm.bar == MOST_MISFIT and not calm.misses and replace(calm, predicted_tps=1051.0).misses
    assert rough.bar == pytest.approx(MOST_NOISE * 0.05) and not rough.misses
    assert replace(rough, predicted_tps=1151.0).misses and replace(rough, predicted_tps=849.0).misses
    # Deviations within the noise widen nothing.
    assert Misfit(1000.0, 1010.0, 0.02, "cpu").beyond_noise == 0.0
    assert Misfit(1000.0, 1050.0, 0.03, "cpu").beyond_noise == pytest.approx(0.04)


def test_a_calibration_that_describes_its_run_says_how_well(tmp_path):
    run = recorded(tmp_path, truth("innodb"), LONG, seconds=1_200)
    workload = calibrate([run])
    misfit = find_misfit(workload.runs[0])
    assert misfit is not None and not misfit.misses and workload.missed == []
    # A prediction of the same half by `headrace predict`, in seconds instead of windows of five,
    # agrees.
    again = predict(workload, LONG, seconds=1_200, seed=None, draws=0, **WHERE)
    assert misfit.predicted_tps == pytest.approx(again.summary["tps"], rel=0.01)
    half = run.series.filter(run.series["t_s"] >= 600)["tps"].mean()
    assert misfit.measured_tps == pytest.approx(half, rel=0.001)


def test_a_run_that_is_missed_is_refused_and_forced(tmp_path, capsys):
    path, shop = record_misdescribed(tmp_path), tmp_path / "shop.toml"
    assert cli.main(["calibrate", str(path), "--to", str(shop)]) == 1
    output = capsys.readouterr()
    assert "Misses its own run: made: the calibration gives" in output.err and "Likely cause: the storage" in output.err
    assert "nothing is written" in output.err and "--force" in output.err and not shop.exists()
    assert cli.main(["calibrate", str(path), "--to", str(shop), "--force"]) == 0
    missed = load_database(shop)
    assert len(missed.missed) == 1 and missed.misfit > MOST_MISFIT
    assert any("Likely cause" in caveat for caveat in missed.caveats)
    # Off by so much on its own run, it is off by no less elsewhere.
    summary = predict(missed, FAR_TOO_SLOW, seconds=600, start="warm", **WHERE).summary
    assert summary["relative_spread"] >= missed.misfit


def test_a_disk_without_figures_is_written_and_read(tmp_path):
    """The catalog knows no IOPS of a local disk of an unknown instance: nothing is covered of them."""
    rows = predict(truth("innodb"), "io1:1024:20000", seconds=600, seed=3, draws=0, start="warm", **WHERE).rows
    (tmp_path / "run.csv").write_text(sysbench_csv(rows, 72))
    text = description("local", "innodb", "instance-store:1024", "cache_gib = 50", 72, start="warm")
    (tmp_path / "run.toml").write_text(text.replace(f'instance = "{WHERE["instance"]}"\n', ""))
    workload = calibrate([load_run(tmp_path / "run.toml")])
    assert workload.covered.iops is None
    save(workload, tmp_path / "shop.toml")
    assert load_database(tmp_path / "shop.toml").covered == workload.covered


@pytest.mark.parametrize("clients", [1, 16, 128])
def test_what_is_written_of_rds_is_read(tmp_path, clients):
    """Published runs on RDS told some parameters so well that their variances were rounded to 0 beside covariances that were not."""
    file = PUBLISHED / f"rds_r5xlarge_5tables_{clients}thr.csv"
    if not file.exists():
        pytest.skip("the published runs (percona_2018_calibration) do not lie beside the repository")
    (tmp_path / "run.csv").write_text(file.read_text())
    text = description("rds", "innodb", "gp2:931", "cache_gib = 24", clients, start="warm", tables=5, scale=100)
    text = text.replace(WHERE["instance"], "r5.xlarge").replace(WHERE["as_of"], "2020-05-15")
    (tmp_path / "run.toml").write_text(text)
    workload = calibrate([load_run(tmp_path / "run.toml")])
    save(workload, tmp_path / "shop.toml")
    again = load_database(tmp_path / "shop.toml")
    assert again.covariance == workload.covariance
    assert all(workload.covariance[i][i] > 0 for i in range(len(workload.covariance)))


def test_no_parameter_is_known_better_than_a_model_can_tell(tmp_path):
    """A run tells a parameter through a model that is not exact: 1 % is the least that is left, or a tenth of what was known before
    where that is less."""
    workload = calibrate([recorded(tmp_path, truth("myrocks"), LONG, iostat=True)])
    for place, row in enumerate(workload.parameters):
        # Stated to five decimals of the spread before, in squares: 1e-4 of a spread of 1 is off by a twentieth at most, its root by half
        # of that.
        assert math.sqrt(workload.covariance[place][place]) >= 0.975 * min(0.1 * row["before"], 0.01), row


def test_a_description_that_only_a_strange_database_fits_is_named(tmp_path):
    """A run at 20,000 IOPS, described as one at a quarter: a quarter of the blocks would do it, which
    are known to a tenth."""
    path = record(tmp_path, truth("myrocks"), LONG, seconds=1_800)
    right = calibrate([load_run(path)])
    path.write_text(path.read_text().replace(LONG, "io1:1024:5000"))
    wrong = calibrate([load_run(path)])
    warned = [any("times the standard benchmark's" in caveat for caveat in each.caveats) for each in (right, wrong)]
    assert warned == [False, True] and wrong.missed == []
