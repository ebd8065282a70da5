"""Run descriptions: what loads, what it means, and that disk, status and benchmark stand on one
time axis.
"""

import importlib.util
import math
import re
import tomllib

import places
import polars as pl
import pytest
from places import ROOT

from headrace.calibration.runs import SERIES_COLUMNS, describe, load_run
from headrace.calibration.runs.description import HEAD, FilesTable, MachineKeys, RunFile
from headrace.observe.run_files.align import resample_series
from headrace.observe.run_files.status import LEVELS, RATES
from headrace.observe.series import TimeSeries
from headrace.observe.settings import SETTINGS

DATA = places.DATA / "runs"
PUBLISHED = ROOT.parent / "shared" / "data" / "percona_2018_calibration"
spec = importlib.util.spec_from_file_location("make_runs", DATA / "make_runs.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


def write(folder, toml=make.RUN_TOML, **files):
    """Writes a run into a folder: the sample's files, others by keyword (name without suffix);
    returns the path of its description."""
    texts = {name: text() for name, text in make.FILES.items()} | {f"{name}.txt": text for name, text in files.items()}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "run.toml").write_text(toml)
    return folder / "run.toml"


def select_files(*keys, clock=False, **extra):
    """Returns the sample's description with these files only."""
    text = make.RUN_TOML[: make.RUN_TOML.index("[files]")] + "[files]\n"
    text += "".join(f'{key} = "{key}.txt"\n' for key in keys) + ("clock_start = 2018-08-15T10:00:00\n" if clock else "")
    return text + "".join(f"{key} = {value}\n" for key, value in extra.items())


def test_samples_are_what_the_script_makes():
    for name, text in make.FILES.items():
        assert (DATA / name).read_text() == text(), f"{name}: run make_runs.py"


def test_the_sample():
    run = load_run(DATA / "run.toml")
    assert dict(run.series.schema) == SERIES_COLUMNS and run.series.height == 180
    assert (
        run.series["t_s"].to_list() == [float(second) for second in range(180)]
        and run.interval_s == 1.0
        and run.span_s == 180.0
    )
    assert run.series["tps"].to_list() == [make.tps_of(second) for second in range(180)]
    assert (run.engine, run.storage, run.threads, run.start, run.cache_gib) == ("innodb", "gp2:1000", 8, "cold", 4.0)
    assert run.benchmark.data_gib == pytest.approx(26e9 / 2**30) and run.benchmark.parameters == {
        "rand_spec_pct": 1.0,
        "rand_spec_res": 75.0,
    }
    assert run.settings == {"io_capacity": 200, "io_capacity_max": 500, "doublewrite": True, "redo_gib": 2.0}
    assert (run.caps.iops, run.caps.iops_burst, run.caps.mib_s, run.caps.usable_gib) == (3_000, 3_000, 160, 1_000)
    assert not {"stall", "outlier", "start", "gap", "storage"} & {finding.kind for finding in run.findings}
    assert set(run.files) == {"sysbench", "iostat", "status"}


def test_disk_figures_lie_on_the_benchmarks_rows():
    run = load_run(DATA / "run.toml")
    for row in (0, 4, 5, 100, 179):
        pairs = [make.ios(second) for second in range(row // 5 * 5, row // 5 * 5 + 5)]
        # iostat prints two decimals.
        assert run.series["read_iops"][row] == pytest.approx(sum(p[0] for p in pairs) / 5, abs=0.01)
        assert run.series["write_mib_s"][row] == pytest.approx(sum(p[1] for p in pairs) / 5 * 24 / 1024, abs=0.01)
    assert any("by the clock" in finding.text for finding in run.select_findings("alignment"))


def test_clock_moves_the_disk_file(tmp_path):
    late = load_run(
        write(
            tmp_path, select_files("sysbench", "iostat", clock=True, device='"nvme1n1"'), iostat=make.iostat(late_s=20)
        )
    )
    plain = load_run(DATA / "run.toml")
    assert late.series["read_iops"][:20].null_count() == 20
    assert late.series["read_iops"][20:].to_list() == plain.series["read_iops"][:160].to_list()
    assert any(finding.kind == "gap" and "20 of 180 rows" in finding.text for finding in late.findings)


@pytest.mark.parametrize("shift", [0, 7, -11])
def test_without_clocks_correlation_finds_the_lag(tmp_path, shift):
    """vmstat started `shift` s after the benchmark (its file is that much shorter); moved only when
    that is clear.
    """
    toml = select_files("sysbench", "vmstat", vmstat_interval_s=1)
    text = make.vmstat(shift) if shift >= 0 else make.vmstat(0).replace("\n", "\n" + _make_idle_lines(-shift), 3)
    run = load_run(write(tmp_path, toml, vmstat=text if shift >= 0 else _start_early(-shift)))
    row = 60
    assert run.series["read_mib_s"][row] == pytest.approx(make.ios(row)[0] * 16 / 1024, abs=0.01)
    assert run.series["read_iops"].null_count() == 180
    note = run.select_findings("alignment")[-1].text
    assert ("begin together" in note) if shift == 0 else (f"moved by {shift:+g} s" in note)


def _make_idle_lines(count):
    return " 0  1      0 311508   3004 29021104    0    0 40 90 16294 30020  5  5 47 44  0\n" * count


def _start_early(seconds):
    """Starts vmstat before the benchmark: idle lines after the line since boot, headers only at the
    top."""
    lines = [
        line
        for index, line in enumerate(make.vmstat().splitlines(keepends=True))
        if index < 2 or line.startswith(" 0 ")
    ]
    return "".join(lines[:3]) + _make_idle_lines(seconds) + "".join(lines[3:])


def test_noise_moves_nothing(tmp_path):
    """A disk file with no likeness to the run stays where it is."""
    lines = make.vmstat().splitlines(keepends=True)
    shuffled = [
        line if not line.startswith(" 0 ") else re.sub(r"0    0 \d+", f"0    0 {16 * (900 + hash_of(i))}", line)
        for i, line in enumerate(lines)
    ]
    run = load_run(write(tmp_path, select_files("sysbench", "vmstat"), vmstat="".join(shuffled)))
    assert "begin together" in run.select_findings("alignment")[-1].text


def hash_of(number):
    return (number * 2_654_435_761) % 2**32 % 600


@pytest.mark.parametrize("form", ["table", "relative", "tab", "times", "csv"])
def test_status_in_every_form_gives_the_same(tmp_path, form):
    samples = make.status_samples()
    text = {
        "table": make.status_table(samples),
        "relative": make.status_table(make.differences(samples)),
        "tab": make.status_tab(samples),
        "times": make.status_tab(samples, times=True),
        "csv": make.status_csv(samples),
    }[form]
    run = load_run(
        write(
            tmp_path,
            select_files("sysbench", "status", clock=form == "times"),
            status="mysqladmin: [Warning] Using a password\n" * (form == "table") + text,
        )
    )
    status = run.status
    assert (
        status.height == 36
        and status["duration_s"].to_list() == [5.0] * 36
        and status["t_s"].to_list() == [5.0 * k for k in range(36)]
    )
    commits = [(b["Com_commit"] - a["Com_commit"]) / 5 for a, b in zip(samples, samples[1:], strict=False)]
    assert status["com_commit_per_s"].to_list() == pytest.approx(commits)
    assert status["innodb_buffer_pool_pages_free"].to_list() == [
        sample["Innodb_buffer_pool_pages_free"] for sample in samples[1:]
    ]
    assert status["innodb_checkpoint_age"].to_list() == [sample["Innodb_checkpoint_age"] for sample in samples[1:]]
    assert any("differences" in finding.text for finding in run.findings) == (form == "relative")


def test_status_of_differences_only_has_no_levels(tmp_path):
    samples = make.differences(make.status_samples())[1:]
    run = load_run(
        write(tmp_path, select_files("sysbench", "status", status_relative="true"), status=make.status_table(samples))
    )
    assert "com_commit_per_s" in run.status.columns and not set(LEVELS) & set(run.status.columns)
    assert any("levels" in finding.text for finding in run.select_findings("status"))


def test_status_restart_is_found_and_null(tmp_path):
    samples = make.status_samples()
    for sample in samples[20:]:
        for name in sample:
            if name in ("Com_commit", "Innodb_pages_written", "Uptime"):
                sample[name] -= samples[19][name] if sample is not samples[19] else 0
    run = load_run(
        write(tmp_path, select_files("sysbench", "status", status_interval_s=5), status=make.status_table(samples))
    )
    (restart,) = run.select_findings("restart")
    assert restart.t_s == 95.0 and "starts over" in restart.text
    assert run.status["com_commit_per_s"].null_count() == 1 and run.status["com_commit_per_s"][19] is None


def test_raw_csv_old_and_mapped_say_the_same(tmp_path):
    plain = load_run(write(tmp_path, select_files("sysbench"))).series
    mapped = make.csv_text().replace("t_s,threads,tps,qps,lat_p95_ms", "sec;thr;TPS;QPS;P".replace(";", ","))
    names = '{ t_s = "sec", threads = "thr", tps = "TPS", qps = "QPS", lat_p95_ms = "P" }'
    for text, extra in (
        (make.csv_text(), {}),
        (mapped, {"columns": names}),
        (mapped.replace(",", ";"), {"columns": names}),
    ):
        assert load_run(write(tmp_path, select_files("sysbench", **extra), sysbench=text)).series.equals(plain)
    old = load_run(write(tmp_path, select_files("sysbench"), sysbench=make.sysbench_05())).series
    assert old["tps"].equals(plain["tps"]) and old["p95_ms"].equals(plain["p95_ms"])


def test_columns_that_are_not_there_are_null(tmp_path):
    text = "tps\n" + "".join(f"{make.tps_of(second)}\n" for second in range(180))
    run = load_run(write(tmp_path, select_files("sysbench", interval_s=1), sysbench=text))
    assert run.series["qps"].null_count() == run.series["p95_ms"].null_count() == 180 and run.series[
        "threads"
    ].unique().to_list() == [8]


def test_other_percentile_is_not_taken_for_p95(tmp_path):
    run = load_run(write(tmp_path, select_files("sysbench"), sysbench=make.sysbench_10(percent=99)))
    assert run.series["p95_ms"].null_count() == 180 and run.select_findings("percentile")


def test_times_in_front_of_sysbench_lines_are_its_clock(tmp_path):
    text = make.sysbench_10(stamp=True)
    run = load_run(write(tmp_path, select_files("sysbench", "iostat", device='"nvme1n1"'), sysbench=text))
    assert any("by the clock" in finding.text for finding in run.select_findings("alignment"))
    jumped = re.sub(r"10:01:3(\d)", r"10:31:3\1", text)
    run = load_run(write(tmp_path, select_files("sysbench"), sysbench=jumped))
    assert run.select_findings("clock")[0].t_s == 90.0 and "forward by 1,800 s" in run.select_findings("clock")[0].text


def test_means_over_other_intervals():
    series = TimeSeries("made", "", [0.0, 2.0, 10.0], [2.0, 2.0, 2.0], {"a": [1.0, 3.0, None], "b": [0.0, 4.0, 8.0]})
    assert series.find_longest_gap() == (2, 6.0)
    assert resample_series(series, 1.0, [0.0, 2.0, 4.0, 11.0], [2.0, 2.0, 4.0, 2.0]) == {
        "a": [1.0, 2.0, None, None],
        "b": [0.0, 2.0, None, 8.0],
    }


def test_gb_and_gib_and_as_of_as_text(tmp_path):
    toml = make.RUN_TOML.replace("cache_gib = 4", "cache_gb = 4").replace("as_of = 2018-08-15", 'as_of = "2018-08-15"')
    run = load_run(write(tmp_path, toml.replace('status = "status.txt"\n', "")))
    assert run.cache_gib == pytest.approx(4e9 / 2**30) and run.as_of.isoformat() == "2018-08-15"


# --- stalls, outliers, cold and warm ----------------------------------------------------------------------------------


def change_rows(**lines):
    """Replaces the tps of some seconds in the CSV: s60=3.0 is t_s 60 to 61."""
    rows = make.csv_text().splitlines()
    for name, tps in lines.items():
        cells = rows[int(name[1:]) + 1].split(",")
        rows[int(name[1:]) + 1] = ",".join([*cells[:2], str(tps), str(20 * tps), cells[4] if tps else "0.0"])
    return "\n".join(rows) + "\n"


def test_stalls_and_outliers_are_flagged_where_they_are(tmp_path):
    run = load_run(
        write(tmp_path, select_files("sysbench"), sysbench=change_rows(s60=0.0, s61=2.0, s62=0.0, s100=9.0, s130=900.0))
    )
    assert run.series.filter(pl.col("stall"))["t_s"].to_list() == [60.0, 61.0, 62.0, 100.0]
    assert run.series.filter(pl.col("suspect"))["t_s"].to_list() == [130.0] and run.series.height == 180
    (stall,), (outlier,) = run.select_findings("stall"), run.select_findings("outlier")
    assert stall.t_s == 60.0 and "2 stalls, 4 s in all" in stall.text and outlier.t_s == 130.0
    assert run.series["p95_ms"][60] is None
    assert "2 stalls (4 s), 1 suspect rows of 180." in describe(run)


def test_clients_that_leave_are_marked_not_refused(tmp_path):
    text = make.csv_text() + "181,5,20.0,400.0,90.0\n182,2,3.0,60.0,90.0\n"
    run = load_run(write(tmp_path, select_files("sysbench"), sysbench=text))
    assert (
        run.select_findings("ending")[0].t_s == 180.0
        and run.series["suspect"].to_list()[-3:] == [False, True, True]
        and not run.series["stall"].any()
    )


def make_flat_csv(reads_per_transaction=None):
    """Makes a run that neither warms nor cools."""
    tps = [290 + hash_of(second) % 20 for second in range(180)]
    return "t_s,tps\n" + "".join(f"{second + 1},{value}\n" for second, value in enumerate(tps))


@pytest.mark.parametrize(
    ("start", "text", "phrase"),
    [
        ("cold", make.csv_text(), None),
        ("warm", make.csv_text(), "cap over tps"),
        ("cold", make_flat_csv(), "cap over tps"),
        ("warm", make_flat_csv(), None),
        ("cold", make_flat_csv().replace("\n", "\n", 1)[: len(make_flat_csv()) * 2 // 9], "too short"),
    ],
)
def test_cold_and_warm_without_disk_figures(tmp_path, start, text, phrase):
    toml = select_files("sysbench").replace('"cold"', f'"{start}"').replace("seconds = 180\n", "")
    text = text[: text.rindex("\n") + 1]
    run = load_run(write(tmp_path, toml, sysbench=text))
    assert [phrase in finding.text for finding in run.select_findings("start")] == ([True] if phrase else [])


def test_cold_and_warm_from_reads_and_from_free_pages(tmp_path):
    for files, words in (
        (("iostat",), "reads a transaction"),
        (("vmstat",), "MiB read a transaction"),
        (("status",), "free at the first sample"),
    ):
        extra = {"device": '"nvme1n1"'} if files == ("iostat",) else {}
        toml = select_files("sysbench", *files, **extra)
        assert not load_run(write(tmp_path, toml)).select_findings("start")
        (finding,) = load_run(write(tmp_path, toml.replace('"cold"', '"warm"'))).select_findings("start")
        assert words in finding.text


def test_what_cannot_be_told_is_said(tmp_path):
    toml = select_files("sysbench").replace("gp2:1000", "gp2:500")
    assert "burst credits" in load_run(write(tmp_path, toml)).select_findings("start")[0].text
    toml = (
        select_files("sysbench")
        .replace("gp2:1000", "io1:1024:30000")
        .replace('instance = "m5.2xlarge"\n', "")
        .replace("2018", "2018")
    )
    slow = "t_s,tps\n" + "".join(f"{second + 1},30\n" for second in range(180))
    assert "need not be at their cap" in load_run(write(tmp_path, toml, sysbench=slow)).select_findings("start")[0].text


# --- words and documentation ------------------------------------------------------------------------------------------


def test_described_in_words():
    text = "\n".join(describe(load_run(DATA / "run.toml")))
    total = sum(make.tps_of(second) for second in range(180))
    quarters = [sum(make.tps_of(s) for s in range(k * 45, k * 45 + 45)) / 45 for k in range(4)]
    assert f"180 s, a row each second: {total:,.0f} transactions, {total / 180:,.1f} tps" in text
    assert "Mean tps by quarter: " + ", ".join(f"{quarter:,.0f}" for quarter in quarters) in text
    assert "I/Os a transaction" in text and "nan" not in text.lower() and "None" not in text


def test_reference_has_every_key_and_its_example_is_read(tmp_path):
    page = (ROOT / "docs/reference/run-description.md").read_text()
    for name in (
        *HEAD,
        *RunFile.__struct_fields__,
        *MachineKeys.__struct_fields__,
        *FilesTable.__struct_fields__,
        *SETTINGS,
        *RATES,
        *LEVELS,
        *SERIES_COLUMNS,
    ):
        assert f"`{name}`" in page, f"{name} is not in the reference"
    readers = [
        path for folder in ("calibration/runs", "observe") for path in (ROOT / "python/headrace" / folder).rglob("*.py")
    ]
    kinds = set(re.findall(r'RunFinding\(\s*"(\w+)"', "".join(path.read_text() for path in readers)))
    assert len(kinds) > 12
    for kind in kinds:
        assert f"| `{kind}` |" in page, f"findings of kind {kind} are not in the reference"
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1]
    files = tomllib.loads(example)["files"]
    text = make.csv_text(threads=72)
    assert set(files) == {"sysbench"}
    (tmp_path / files["sysbench"]).write_text(re.sub(r",[0-9.]+,[0-9.]+,[0-9.]+\n", ",915.0,25986.0,157.4\n", text))
    (tmp_path / "run.toml").write_text(example.replace("seconds = 3600", "seconds = 180"))
    assert load_run(tmp_path / "run.toml").threads == 72


# --- published runs ---------------------------------------------------------------------------------------------------

published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published calibration runs are not beside the repository"
)


def describe_published(csv_path):
    """Makes a description from the file's name, as the folder's README explains it."""
    stem = csv_path.stem
    rds, m5 = stem.startswith("rds"), stem.startswith("m5")
    io1, gp2 = re.search(r"io1_(\d+)iops", stem), re.search(r"gp2_(\d+)gb", stem)
    storage = f"io1:1024:{io1[1]}" if io1 else f"gp2:{gp2[1] if gp2 else 1000}"
    threads = re.search(r"(\d+)thr", stem)[1]
    cache = (re.search(r"(?:pool|cache)(\d+)", stem) or [0, 22 if rds else 54])[1]
    vmstat = csv_path.with_name(f"{stem}.vmstat.txt")
    return "\n".join(
        [
            'format = "headrace-run"',
            "version = 1",
            f'name = "{stem}"',
            f'engine = "{"myrocks" if "myrocks" in stem else "innodb"}"',
            f'storage = "{storage}"',
            f"as_of = {'2020-05-15' if rds else '2018-08-15'}",
            f'instance = "{"r5.xlarge" if rds else "m5.2xlarge" if m5 else "c5.9xlarge"}"',
            f"cache_gb = {cache}",
            f"threads = {threads}",
            f'start = "{"warm" if rds else "cold"}"',
            f"seconds = {1800 if rds else 3600}",
            "[benchmark]",
            'name = "sysbench-tpcc"',
            f"tables = {5 if rds else 50}",
            f"scale = {20 if m5 else 100}",
            "[files]",
            f'sysbench = "{csv_path}"',
            f'vmstat = "{vmstat}"' if vmstat.exists() else "",
        ]
    )


@published
def test_every_published_run_loads(tmp_path):
    paths = sorted(PUBLISHED.glob("*.csv"))
    assert len(paths) + len(list(PUBLISHED.glob("*.vmstat.txt"))) == 21
    for path in paths:
        (tmp_path / "run.toml").write_text(describe_published(path) + "\n")
        run = load_run(tmp_path / "run.toml")
        raw = pl.read_csv(path)
        assert run.series["tps"].to_list() == raw["tps"].to_list() and run.series.height == raw.height
        assert not run.select_findings("start"), (path.name, run.select_findings("start"))
        # An outlier at six robust deviations is rare in a healthy run.
        assert run.series["suspect"].sum() <= 0.005 * run.series.height, path.name
        assert bool(run.select_findings("ending")) == (raw["threads"].n_unique() > 1)
        covered = run.series["read_mib_s"].count()
        assert covered >= raw.height - 1 if "vmstat" in run.files else covered == 0
        assert describe(run) and math.isfinite(run.transactions)
        if "128thr" in path.name:
            assert "169 stalls" in run.select_findings("stall")[0].text
