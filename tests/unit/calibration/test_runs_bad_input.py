"""Bad run descriptions and bad files: refused with value, rule, source and hint, or found and said;
never a traceback.
"""

import random
import re

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from test_runs import DATA, PUBLISHED, describe_published, make, published, select_files, write

from headrace.calibration.runs import describe, load_run
from headrace.errors import CouldNotRun, HeadraceError, InputError

TOML = make.RUN_TOML


def check_refused(folder, words, toml=TOML, line=None, **files):
    with pytest.raises(InputError, match=words) as caught:
        load_run(write(folder, toml, **files))
    error = caught.value
    assert error.value.startswith("run.toml") and error.exit_code == 2 and error.rule and "\n" not in str(error)
    if line is not None:
        assert f"line {line}" in error.value, error
    return error


def find_line(text, part):
    return text[: text.index(part)].count("\n") + 1


# --- the description --------------------------------------------------------------------------------------------------

WRONG = [
    ('format = "headrace-run"', 'format = "headrace-workload"', "calibrated from"),
    ('format = "headrace-run"', "", "must begin with"),
    ("version = 1", "version = 2", "newer Headrace"),
    ("version = 1", "version = true", "whole number"),
    ('name = "sample"', 'name = ""', "printable"),
    ('engine = "innodb"', 'engine = "inodb"', "Did you mean innodb"),
    ('engine = "innodb"', 'engine = ["innodb"]', "must be one of"),
    ('"5.7.22"', '"5.1.73"', "known are 5.5 to 5.7"),
    ('"5.7.22"', '"7.5.1"', "7.5 is not known"),
    ('"5.7.22"', '"10.6.1"', "10.6 is not known"),
    ('"5.7.22"\nflavor = "percona"', '"13.0.1"\nflavor = "mariadb"', "known are 10 to 12"),
    ('"5.7.22"', "5.7", "in quotes"),
    ('"5.7.22"', '"five"', "not a version number"),
    ('"5.7.22"', '"5.7.mysql_aurora.2.07"', "Aurora"),
    ('"percona"', '"perkona"', "Did you mean percona"),
    ('storage = "gp2:1000"', 'storage = "gp9:1000"', "storage = 'gp9:1000'.*is not a volume type"),
    ('storage = "gp2:1000"', 'storage = "gp2:100000"', "storage = 'gp2:100000'.*1 to 16384 GiB"),
    ('storage = "gp2:1000"', 'storage = "gp3:1000"', "exist since 2020"),
    ('storage = "gp2:1000"', "storage = 1000", "must be storage in text"),
    ('storage = "gp2:1000"', 'storage = "gp2:1000"\nlog_storage = "io1:10:99999"', "log_storage = 'io1:10:99999'"),
    ("as_of = 2018-08-15", 'as_of = "15.8.2018"', "day like"),
    ("as_of = 2018-08-15", "as_of = 2018-08-15T10:00:00", "day like"),
    ("as_of = 2018-08-15", "as_of = 0001-01-01", "launched on"),
    ('"m5.2xlarge"', '"m5.2xlrge"', "instance = 'm5.2xlrge'.*Did you mean m5.2xlarge"),
    ("cache_gib = 4", "cache_gib = 4\ncache_gb = 4", "exactly one"),
    ("cache_gib = 4", "", "cache_gib is missing"),
    ("cache_gib = 4", "cache_gib = nan", "must be 0.001"),
    ("cache_gib = 4", "cache_gib = 40", "m5.2xlarge has 32 GiB of memory"),
    ("threads = 8", "threads = 8.0", "whole number"),
    ("threads = 8", "threads = 72", "the description says threads = 72"),
    ("threads = 8", "", "threads is missing"),
    ('"cold"', '"hot"', "cold, warm"),
    ("seconds = 180", "seconds = 3600", "stopped early or the file is cut off"),
    ("seconds = 180", "seconds = 60", "the file is longer"),
    ("seconds = 180", "secnds = 180", "Did you mean seconds"),
    ("seconds = 180", 'caveats = "one"', "list of sentences"),
    ('"sysbench-oltp"', '"sysbench"', "benchmark.name"),
    ('script = "oltp_read_write"\n', "", "benchmark.script is missing"),
    ('"oltp_read_write"', '"oltp_readwrite"', "Did you mean oltp_read_write"),
    ('"special"', '"normal"', "benchmark.distribution"),
    ('"special"', '"uniform"\nrand_spec_pct = 1', "is not a key of \\[benchmark\\]"),
    ("scale = 1000000\n", "", "benchmark.scale is missing"),
    ("data_gb = 26", "data_gb = 26000", "does not fit on storage gp2:1000"),
    ("[benchmark]", "[benchmrk]", "is not a key"),
    ("io_capacity = 200", "io_capcity = 200", "Did you mean io_capacity"),
    ("io_capacity = 200", "io_capacity = 900", "cannot be below io_capacity"),
    ("io_capacity = 200", "io_capacity = 200.5", "whole number"),
    ("io_capacity = 200", "memtable_mib = 256", "setting of myrocks"),
    ("io_capacity = 200", "vcpus = 64", "m5.2xlarge has 8"),
    ("io_capacity = 200", "page_kib = 15", "4, 8, 16, 32 or 64"),
    ("doublewrite = true", "doublewrite = 1", "true or false"),
    ('sysbench = "sysbench.txt"', 'transactions = ["com_commit"]\ninterval_s = 1', "files.interval_s.*there is none"),
    ('sysbench = "sysbench.txt"', 'transactions = ["com_comit"]', "Did you mean com_commit"),
    ('sysbench = "sysbench.txt"', 'transactions = "com_commit"', "a list of counters"),
    (
        'sysbench = "sysbench.txt"',
        'sysbench = "sysbench.txt"\ntransactions = ["com_commit"]',
        "the benchmark's reports say",
    ),
    ('sysbench = "sysbench.txt"', 'sysbench = "sysbench.txt"\ndisk = "absent.csv"', "no such file"),
    ('sysbench = "sysbench.txt"', 'sysbench = "sysbench.txt"\ndisk = "sysbench.txt"', "no column time"),
    ("seconds = 180", "seconds = 180\np95_ms = 0", "must be 1e-06"),
    ('sysbench = "sysbench.txt"', 'sysbench = "absent.txt"', "no such file"),
    ('sysbench = "sysbench.txt"', 'sysbench = "."', "is a folder"),
    ('sysbench = "sysbench.txt"', "sysbench = 5", "must be the path"),
    ('sysbench = "sysbench.txt"', 'sysbench = "a\\u0000b"', "must be the path"),
    ('device = "nvme1n1"', 'device = "nvme7n1"', "There are: nvme1n1"),
    ('device = "nvme1n1"', 'device = "nvme1n1+"', "next to a \\+"),
    ('iostat = "iostat.txt"\n', "", "there is none"),
    ("clock_start = 2018-08-15T10:00:00", 'clock_start = "noon"', "date and time"),
    ("clock_start = 2018-08-15T10:00:00", "clock_start = 2018-08-16T10:00:00", "lie in the same time"),
    ("clock_start = 2018-08-15T10:00:00", "columns = { tsp = 'TPS' }", "Did you mean tps"),
    ("clock_start = 2018-08-15T10:00:00", "columns = { tps = 'TPS' }", "no columns to name"),
    ("clock_start = 2018-08-15T10:00:00", "interval_s = 10", "1 s apart"),
    ("clock_start = 2018-08-15T10:00:00", "status_relative = 1", "true or false"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG, ids=[(new or f"no {old}")[:40] for old, new, _ in WRONG])
def test_wrong_descriptions(tmp_path, old, new, words):
    assert old in TOML
    check_refused(tmp_path, words, TOML.replace(old, new, 1))


def test_a_run_needs_reports_or_samples(tmp_path):
    check_refused(
        tmp_path,
        "files.sysbench is missing",
        TOML.replace('sysbench = "sysbench.txt"', "").replace('status = "status.txt"', ""),
    )


def test_engines_and_flavors_that_do_not_go_together(tmp_path):
    rocks = TOML.replace('"innodb"', '"myrocks"').split("[settings]")[0] + '[files]\nsysbench = "sysbench.txt"\n'
    assert load_run(write(tmp_path, rocks)).engine == "myrocks"
    check_refused(tmp_path, "Oracle's MySQL has no MyRocks", rocks.replace('"percona"', '"mysql"'))
    check_refused(tmp_path, "no MyRocks for 5.5", rocks.replace('"5.7.22"', '"5.5.60"'))
    check_refused(tmp_path, "since 10.2", rocks.replace('"5.7.22"\nflavor = "percona"', '"10.1.9-MariaDB"'))
    for version, flavor in (
        ("8.0.36", "percona"),
        ("9.7.0", None),
        ("10.11.6-MariaDB-log", None),
        ("12.0.2", "mariadb"),
    ):
        line = f'engine_version = "{version}"' + (f'\nflavor = "{flavor}"' if flavor else "")
        run = load_run(write(tmp_path, re.sub(r'engine_version = .*\nflavor = "percona"', line, rocks)))
        assert run.engine_version == version and run.flavor == (flavor or ("mariadb" if version[:2] == "10" else None))


def test_what_is_no_toml(tmp_path):
    check_refused(tmp_path, "empty", " \n")
    check_refused(tmp_path, "not valid TOML", TOML + "=")
    check_refused(tmp_path, "looks like sysbench and is not a run description", make.sysbench_10())
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="UTF-8"):
        load_run(tmp_path / "run.toml")
    with pytest.raises(InputError, match="no such file"):
        load_run(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="folder"):
        load_run(tmp_path)
    with pytest.raises((InputError, CouldNotRun)):
        load_run("a\0b")
    with (tmp_path / "run.toml").open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(InputError, match="at most 1 MiB"):
        load_run(tmp_path / "run.toml")


def test_a_day_after_the_catalog_is_said(tmp_path):
    run = load_run(
        write(
            tmp_path,
            TOML.replace("2018-08-15\n", "2090-01-01\n").replace('iostat = "iostat.txt"\ndevice = "nvme1n1"\n', ""),
        )
    )
    assert "later than the catalog" in run.select_findings("as_of")[0].text


def test_everything_in_the_cache_is_said(tmp_path):
    assert load_run(write(tmp_path, TOML.replace("data_gb = 26", "data_gb = 2"))).select_findings("cache")


# --- the benchmark's file ---------------------------------------------------------------------------------------------


def find_row(second):
    return next(line for line in make.csv_text().split("\n") if line.startswith(f"{second},"))


def check_csv_refused(folder, old, new, words, line=None):
    text = make.csv_text()
    assert old in text
    return check_refused(
        folder, words, select_files("sysbench").replace("seconds = 180\n", ""), line, sysbench=text.replace(old, new, 1)
    )


@pytest.mark.parametrize("what", ["", " \n\n"])
def test_empty_files(tmp_path, what):
    for key in ("sysbench", "iostat", "vmstat", "status"):
        check_refused(
            tmp_path,
            f"{key}.txt: the file is empty|the file is empty",
            select_files(*dict.fromkeys(("sysbench", key))),
            **{key: what},
        )


def test_files_of_other_tools_are_named(tmp_path):
    check_refused(tmp_path, "looks like vmstat", select_files("sysbench"), sysbench=make.vmstat())
    check_refused(tmp_path, "looks like iostat", select_files("sysbench"), sysbench=make.iostat())
    check_refused(
        tmp_path,
        "looks like SHOW GLOBAL STATUS|looks like",
        select_files("sysbench"),
        sysbench="Innodb_data_reads\t5\n",
    )
    check_refused(tmp_path, "looks like vmstat", select_files("sysbench", "iostat"), iostat=make.vmstat())
    check_refused(tmp_path, "looks like sysbench", select_files("sysbench", "vmstat"), vmstat=make.sysbench_10())
    check_refused(tmp_path, "looks like iostat", select_files("sysbench", "status"), status=make.iostat())
    check_refused(tmp_path, "no tool known", select_files("sysbench", "iostat"), iostat="hello\nworld\n")
    check_refused(
        tmp_path,
        "no report of sysbench",
        select_files("sysbench"),
        sysbench="sysbench 1.0.20 (using LuaJIT)\n\nThreads started!\n",
    )
    check_refused(tmp_path, "no column tps", select_files("sysbench"), sysbench="a,b\n1,2\n3,4\n")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nan", "finite"),
        ("inf", "finite"),
        ("-5", "negative"),
        ("1e12", "at most"),
        ("x", "must be a number"),
        ("", "tps is empty"),
        ("1_0", "must be a number"),
    ],
)
def test_numbers_that_are_none(tmp_path, value, words):
    cells = find_row(60).split(",")
    check_csv_refused(tmp_path, find_row(60), ",".join([*cells[:2], value, *cells[3:]]), words, 61)
    if value:
        text = make.sysbench_10()
        old = f"tps: {make.tps_of(59):.2f} "
        check_refused(
            tmp_path,
            words,
            select_files("sysbench"),
            find_line(text, old),
            sysbench=text.replace(old, f"tps: {value} ", 1),
        )


def test_time_that_repeats_turns_back_or_starts_over(tmp_path):
    check_csv_refused(tmp_path, find_row(60), find_row(59).replace("59,8,", "59,8,1"), "with other figures", 61)
    check_csv_refused(tmp_path, find_row(60), find_row(60).replace("60,", "40,", 1), "19 s before", 61)
    check_csv_refused(
        tmp_path, find_row(180), find_row(180) + "\n" + "\n".join(make.csv_text().split("\n")[1:50]), "starts over", 182
    )
    text = make.sysbench_10()
    check_refused(tmp_path, "started again|second summary", select_files("sysbench"), sysbench=text + text)
    check_csv_refused(tmp_path, find_row(61), "60.2,8,200,4000,80", "the others are 1 s apart")
    check_csv_refused(tmp_path, find_row(180), "900,8,200,4000,80", "jumps forward by 721 s", 181)
    run = load_run(
        write(
            tmp_path,
            select_files("sysbench"),
            sysbench=make.csv_text().replace(find_row(60), find_row(60) + "\n" + find_row(60)),
        )
    )
    assert (
        run.series.height == 180
        and "twice" in run.select_findings("duplicate")[0].text
        and run.select_findings("duplicate")[0].t_s == 60.0
    )


def test_gaps_are_found_not_filled(tmp_path):
    lines = make.csv_text().split("\n")
    run = load_run(
        write(tmp_path, select_files("sysbench"), sysbench="\n".join(lines[:41] + lines[46:101] + lines[103:]))
    )
    (gap,) = run.select_findings("gap")
    assert run.series.height == 173 and gap.t_s == 40.0 and "2 gaps, 7 s" in gap.text


def test_cut_off_last_line(tmp_path):
    for text in (make.csv_text()[:-17], make.sysbench_10().split("SQL")[0][:-30]):
        run = load_run(write(tmp_path, select_files("sysbench"), sysbench=text))
        assert run.series.height == 179 and run.select_findings("cut")
    assert (
        "last figure"
        in load_run(write(tmp_path, select_files("sysbench"), sysbench=make.csv_text()[:-1]))
        .select_findings("cut")[0]
        .text
    )
    lines = make.sysbench_10().split("\n")
    lines[50] = lines[50][:40]
    check_refused(tmp_path, "not a whole report", select_files("sysbench"), 51, sysbench="\n".join(lines))


def test_rows_that_do_not_make_the_total(tmp_path):
    text = re.sub(r"transactions: +\d+", "transactions:       99999", make.sysbench_10())
    assert load_run(write(tmp_path, select_files("sysbench"), sysbench=text)).select_findings("totals")


def test_threads_that_change(tmp_path):
    check_csv_refused(
        tmp_path, find_row(60), find_row(60).replace("60,8,", "60,16,"), "the description says threads = 8", 61
    )
    check_csv_refused(tmp_path, find_row(60), find_row(60).replace("60,8,", "60,8.5,"), "whole number", 61)


def test_littles_law(tmp_path):
    def scale_column(factor, column):
        rows = [line.split(",") for line in make.csv_text().split("\n")[1:-1]]
        for cells in rows:
            cells[column] = str(float(cells[column]) * factor)
        return make.csv_text().split("\n")[0] + "\n" + "\n".join(",".join(cells) for cells in rows) + "\n"

    # p95 is twice the mean in the sample: 20 times the mean is at a factor of 10, a third of it at
    # one of 1/6.
    for factor, words in ((9, None), (11, "Markov"), (1 / 5, None), (1 / 7, "waited for something else")):
        if words:
            check_refused(tmp_path, words, select_files("sysbench"), sysbench=scale_column(factor, 4))
        else:
            assert load_run(write(tmp_path, select_files("sysbench"), sysbench=scale_column(factor, 4)))
    check_refused(tmp_path, "columns swapped", select_files("sysbench"), sysbench=scale_column(1 / 25, 3))
    assert load_run(write(tmp_path, select_files("sysbench"), sysbench=scale_column(2, 3))).select_findings("benchmark")
    check_refused(tmp_path, "no transaction", select_files("sysbench"), sysbench=scale_column(0, 2))


# --- disk and status --------------------------------------------------------------------------------------------------


def test_more_than_the_storage_gives(tmp_path):
    for storage, words in (
        ("gp2:1000", None),
        ("io1:500:2500", "storage"),
        ("io1:500:1500", "gives at most 1,500 IOPS on m5.2xlarge|gives at most"),
    ):
        toml = TOML.replace("gp2:1000", storage)
        if words and "gives" in words:
            check_refused(tmp_path, words, toml)
        else:
            assert bool(load_run(write(tmp_path, toml)).select_findings("storage")) == bool(words)
    slow = TOML.replace("gp2:1000", "st1:500").replace("m5.2xlarge", "m5.2xlarge")
    check_refused(tmp_path, "gives at most", slow)
    # vmstat sees all disks, so only twice as much is a contradiction: 52 MiB/s beside sc1's 80 x
    # 0.5 TiB = 40 is said.
    run = load_run(write(tmp_path, select_files("sysbench", "vmstat").replace("gp2:1000", "sc1:500")))
    assert run.select_findings("storage")


def test_disk_files_that_do_not_fit_the_run(tmp_path):
    check_refused(tmp_path, "reports without times", select_files("sysbench", "vmstat"), vmstat=make.vmstat(seconds=60))
    text = make.iostat().replace("08/15/2018 10:02:00", "08/15/2018 10:01:00")
    check_refused(tmp_path, "before the report above", TOML, iostat=text)
    jumped = re.sub(r"08/15/2018 10:02:(\d\d)", r"08/15/2018 11:02:\1", make.iostat().replace("10:03:00", "11:03:00"))
    check_refused(tmp_path, "jumps forward by 3,605 s", TOML, iostat=jumped)
    cut = make.iostat()[:-60]
    # A cut-off last report costs that report: the run goes on without it.
    whole = load_run(write(tmp_path, TOML, iostat=make.iostat())).series["read_iops"]
    assert load_run(write(tmp_path, TOML, iostat=cut)).series["read_iops"].null_count() > whole.null_count()
    run = load_run(write(tmp_path, TOML, iostat=re.sub(r"08/15/2018 10:01:00\n(.*?\n)*?\n(?=08)", "", make.iostat())))
    assert run.select_findings("gap")[0].t_s == 55.0 and run.series["read_iops"][55:60].null_count() == 5


def test_iostat_and_vmstat_together(tmp_path):
    run = load_run(write(tmp_path, select_files("sysbench", "iostat", "vmstat", device='"nvme1n1"')))
    assert run.series["read_iops"].count() == 180 and any(
        "figures are iostat's" in finding.text for finding in run.select_findings("disk")
    )
    small = re.sub(r"0    0 (\d+)\d (\d+)\d ", r"0    0 \1 \2 ", make.vmstat())
    run = load_run(write(tmp_path, select_files("sysbench", "iostat", "vmstat", device='"nvme1n1"'), vmstat=small))
    assert any("not of one host" in finding.text for finding in run.select_findings("disk"))


def test_status_that_contradicts(tmp_path):
    check_refused(tmp_path, "28 GiB|4 GiB of buffer pool", TOML.replace("cache_gib = 4", "cache_gib = 28"))
    rocks = (
        select_files("sysbench", "status").replace('"innodb"', '"myrocks"').split("[settings]")[0]
        + '[files]\nsysbench = "sysbench.txt"\nstatus = "status.txt"\n'
    )
    check_refused(tmp_path, "counters of innodb only", rocks)
    run = load_run(write(tmp_path, rocks, status=make.status_table(make.status_samples(engine="myrocks"))))
    assert run.status["rocksdb_flush_write_bytes_per_s"].count() == 36
    text = "".join(
        f"{name}\t{value}\n"
        for s in make.status_samples(engine="myrocks")
        for name, value in s.items()
        if "nnodb" not in name
    )
    check_refused(tmp_path, "counters of rocksdb only", select_files("sysbench", "status"), status=text)
    busy = [sample | {"Com_commit": 3 * sample["Com_commit"]} for sample in make.status_samples()]
    assert any(
        "other clients" in finding.text
        for finding in load_run(write(tmp_path, TOML, status=make.status_table(busy))).findings
    )


def test_status_damaged(tmp_path):
    toml = select_files("sysbench", "status")
    text = make.status_tab(make.status_samples())
    check_refused(tmp_path, "64 bits", toml, status=text.replace("Com_commit\t1", "Com_commit\tnan", 1))
    check_refused(tmp_path, "cannot be negative", toml, status=text.replace("Com_commit\t1", "Com_commit\t-1", 1))
    check_refused(tmp_path, "not a line of SHOW", toml, status=text.replace("Com_commit\t1", "?? 1", 1))
    check_refused(tmp_path, "at least two", toml, status=make.status_tab(make.status_samples()[:1]))
    check_refused(tmp_path, "none of the counters", toml, status="Uptime\t5\nUptime\t6\n")
    check_refused(
        tmp_path,
        "without a time",
        toml,
        status=make.status_tab(make.status_samples(), times=True).replace("2018-08-15T10:01:00+00:00\n", ""),
    )
    run = load_run(write(tmp_path, toml, status=text[:-60]))
    assert run.select_findings("cut") and run.status.height == 35
    check_refused(tmp_path, "columns", toml, status=make.status_csv(make.status_samples()).replace("\n5,", "\n5,,", 1))


# --- thousands of damaged files ---------------------------------------------------------------------------------------

TOKENS = (
    *(
        "nan",
        "-1",
        "1e400",
        "1e14",
        "0",
        "99999999999",
        ",",
        ".",
        "\n",
        "\n\n",
        "\0",
        "{",
        "]",
        '"',
        "'",
        ";",
        "|",
        "\t",
        "+--+",
        "[ 5s ]",
        "thds:",
        "TS 5",
    ),
    *(
        "Variable_name",
        "Uptime",
        "Com_commit\t5\n",
        "2018-08-15T10:00:00",
        "10:03:00",
        "tps",
        "1" * 400,
        "\u0663",
        "%",
        "true",
        "= 1",
        "[files]",
        "\r",
    ),
)


# A run is eleven files, each damaged this often: 40 times, in `make soak` 2,000.
DAMAGES = settings().max_examples * 2 // 5


def mutate(rng, text):
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, lines = rng.randrange(len(text) + 1), text.split("\n")
        line = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + text[at + rng.randint(1, 300) :]
            case 2:
                text = text[:at] + rng.choice(TOKENS) + text[at:]
            case 3:
                text = text[:at] + text[max(0, at - rng.randint(1, 3000)) :]
            case 4:
                other = rng.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
                text = "\n".join(lines)
            case 5 | 6:
                words = re.findall(r"[\w.]+", lines[line])
                if words:
                    lines[line] = lines[line].replace(
                        rng.choice(words), rng.choice((*TOKENS, *words, "7", "0.001", "5e3")), 1
                    )
                text = "\n".join(lines)
            case 7:
                lines[line : line + rng.randint(1, 40)] = rng.choice(([], lines[line : line + 1] * 2))
                text = "\n".join(lines)
    return text


def check_survives(path):
    try:
        run = load_run(path)
    except HeadraceError as error:
        assert (
            isinstance(error, (InputError, CouldNotRun))
            and error.value
            and error.rule
            and "\n" not in str(error)
            and len(str(error)) < 2_000
        )
    else:
        assert run.series.height >= 2 and describe(run)
        assert all(finding.text and "\n" not in finding.text for finding in run.findings)


DAMAGED = {
    "run.toml": lambda: TOML,
    "sysbench.txt": make.sysbench_10,
    "old.txt": make.sysbench_05,
    "csv.txt": make.csv_text,
    "stamped.txt": lambda: make.sysbench_10(stamp=True),
    "iostat.txt": make.iostat,
    "vmstat.txt": make.vmstat,
    "status.txt": lambda: make.status_table(make.status_samples()),
    "relative.txt": lambda: make.status_table(make.differences(make.status_samples())),
    "tab.txt": lambda: make.status_tab(make.status_samples(), times=True),
    "status.csv.txt": lambda: make.status_csv(make.status_samples()),
}
TAKES_PLACE_OF = {
    "old": "sysbench",
    "csv": "sysbench",
    "stamped": "sysbench",
    "relative": "status",
    "tab": "status",
    "status.csv": "status",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_load_or_are_refused(tmp_path, name):
    original = DAMAGED[name]()
    stem = name.removesuffix(".txt")
    key = TAKES_PLACE_OF.get(stem, stem)
    toml = TOML if key in ("run.toml", "iostat", "status") else select_files(*dict.fromkeys(("sysbench", key)))
    path = write(tmp_path, toml)

    @settings(max_examples=DAMAGES, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(0, 2**32))
    def run(seed):
        note(f"file {name}, seed {seed}")
        damaged = mutate(random.Random(seed), original)
        (path if key == "run.toml" else tmp_path / f"{key}.txt").write_bytes(damaged.encode("utf-8", "surrogatepass"))
        check_survives(path)

    run()


@pytest.mark.parametrize("key", ["run.toml", "sysbench", "iostat", "vmstat", "status"])
def test_random_bytes_load_or_are_refused(tmp_path, key):
    path = write(tmp_path, select_files(*dict.fromkeys(("sysbench", key))) if key != "run.toml" else TOML)

    @settings(max_examples=DAMAGES, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.one_of(
            st.binary(max_size=400), st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass"))
        )
    )
    def run(content):
        (path if key == "run.toml" else tmp_path / f"{key}.txt").write_bytes(content)
        check_survives(path)

    run()


@published
def test_damaged_published_runs_load_or_are_refused(tmp_path):
    """Parts of real files, with `seconds` left out so that damage is not met by the length alone."""
    originals = {path: path.read_text() for path in sorted(PUBLISHED.glob("m5_*.csv"))}

    @settings(max_examples=DAMAGES)
    @given(st.integers(0, 2**32))
    def run(seed):
        note(f"seed {seed}")
        rng = random.Random(seed)
        path = rng.choice(list(originals))
        beside = path.with_name(f"{path.stem}.vmstat.txt")
        lines = rng.randint(20, 600)
        texts = {
            path: "".join(originals[path].splitlines(keepends=True)[:lines]),
            beside: "".join(beside.open().readlines()[: lines + 2]),
        }
        toml = (
            describe_published(path)
            .replace("seconds = 3600", "")
            .replace(str(path), "a.csv")
            .replace(str(beside), "b.txt")
        )
        (tmp_path / "run.toml").write_text(toml + "\n")
        for name, (original, text) in zip(("a.csv", "b.txt"), texts.items(), strict=True):
            (tmp_path / name).write_text(mutate(rng, text) if rng.random() < 0.7 or original == path else text)
        check_survives(tmp_path / "run.toml")

    run()


def test_nothing_is_written(tmp_path):
    path = write(tmp_path)
    before = sorted(tmp_path.iterdir())
    load_run(path)
    assert sorted(tmp_path.iterdir()) == before and sorted(
        file.name for file in DATA.iterdir() if file.is_file()
    ) == sorted([*make.FILES, "make_runs.py"])
