"""Bad recordings: each is refused with file, place, rule and what to do, never with a traceback."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from places import DATA

from headrace.base.files import detect
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.observe.formats import FORMATS, import_file

# Recordings among the data of all tests: tables of other tests are nothing that a tool wrote.
NAMES = sorted(
    path.name
    for path in DATA.iterdir()
    if path.suffix in (".txt", ".csv", ".json") and detect(path.read_text())[0] is not None
)
CONTENT = {name: (DATA / name).read_bytes() for name in NAMES}


def text_of(name):
    return CONTENT[name].decode()


def options_for(name):
    return {"interval_s": 60} if name == "vmstat.txt" else {}


def refused(tmp_path, text, words, line=None, name="rec.txt", **options):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=words) as caught:
        import_file(tmp_path / name, **options)
    error = caught.value
    assert name in error.value and error.exit_code == 2 and error.rule and error.hint
    if line is not None:
        assert f"line {line}" in error.value, error
    return error


def line_of(text, part, after=0):
    return text[: text.index(part, after)].count("\n") + 1


def replace_nth(text, old, new, nth):
    at = -1
    for _ in range(nth):
        at = text.index(old, at + 1)
    return text[:at] + new + text[at + len(old) :], text[:at].count("\n") + 1


def test_files_that_are_no_recording(tmp_path):
    refused(tmp_path, b"", "empty")
    refused(tmp_path, b" \n\n ", "empty")
    refused(tmp_path, b"\x1f\x8b\x08abc", "gzip")
    refused(tmp_path, b"\xd5\x96\x75\x21" + bytes(100), "binary sar file")
    refused(tmp_path, CONTENT["iostat_12.txt"][:900] + b"\0\0\0\0", "zero byte")
    refused(tmp_path, CONTENT["iostat_12.txt"][:900] + b"\xe9\xe8", "not UTF-8")
    refused(tmp_path, b"\xff\xfea\xd8", "UTF-16")
    refused(tmp_path, "hello\nworld\n", "no tool known")
    with pytest.raises(InputError, match="no such file"):
        import_file(tmp_path / "absent")
    with pytest.raises(InputError, match="folder"):
        import_file(tmp_path)
    with pytest.raises((InputError, CouldNotRun)):
        import_file("a\0b")


def test_gigantic_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "big.txt").open("wb") as file:
        file.truncate(2**40)  # sparse: takes no space
    with pytest.raises(InputError, match="at most 512 MiB"):
        import_file(tmp_path / "big.txt")


OTHER_TOOLS = {
    "pidstat": "Linux 6.1.0 (db1) \t11/21/25 \t_x86_64_\t(8 CPU)\n\n10:00:01      UID       PID   kB_rd/s   kB_wr/s Command\n",
    "mpstat": "Linux 6.1.0 (db1) \t11/21/25 \t_x86_64_\t(8 CPU)\n\n10:00:01     CPU    %usr   %nice    %sys\n",
    "disk report": "Linux 6.1.0 (db1) \t11/21/25 \t_x86_64_\t(8 CPU)\n\n10:00:01        CPU     %user     %nice\n",
    "dstat": "--total-cpu-usage-- -dsk/total- -net/total-\nusr sys idl wai stl| read  writ\n",
    "fio JSON": '{"fio version" : "fio-3.33", "jobs" : []}',
    "sysbench": "[ 1s ] thds: 16 tps: 147.71 qps: 4995.07\n",
    "vmstat -d": "disk- ------------reads------------ ------------writes----------- -----IO------\n",
    "BSD or macOS": "          disk0       cpu    load average\n    KB/t  tps  MB/s  us sy id\n",
    "diskstats": " 259       0 nvme0n1 12 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    "Windows": '"(PDH-CSV 4.0) (UTC)(0)","\\\\DB\\PhysicalDisk(0)\\Reads/sec"\n',
    "Prometheus": "# HELP node_disk_reads_completed_total x\n",
    "GLOBAL STATUS": "Innodb_data_reads\t1234\n",
    "Headrace workload": 'format = "headrace-workload"\nversion = 1\n',
}


@pytest.mark.parametrize("tool", OTHER_TOOLS)
def test_other_tools_are_named(tmp_path, tool):
    refused(tmp_path, OTHER_TOOLS[tool], f"looks like .*{tool}")


def test_format_that_does_not_fit():
    with pytest.raises(InputError, match="it looks like vmstat"):
        import_file(DATA / "vmstat_t.txt", format="iostat")
    with pytest.raises(InputError, match="Did you mean iostat"):
        import_file(DATA / "vmstat_t.txt", format="iostats")
    with pytest.raises(InputError, match="vmstat only"):
        import_file(DATA / "iostat_12.txt", read_kib=16)
    with pytest.raises(InputError, match="gaps"):
        import_file(DATA / "iostat_12.txt", gaps="maybe")
    assert FORMATS[0] == "auto"


def test_wrong_flags_of_iostat(tmp_path):
    banner = "Linux 6.1.0 (db1) \t11/21/25 \t_x86_64_\t(8 CPU)\n\n"
    plain = banner + "Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s\nnvme0n1 1 2 3 4\n"
    assert "iostat -xt" in refused(tmp_path, plain, "no column r/s", 3).hint
    human = "     r/s     rkB/s     w/s     wkB/s  %util Device\n 1.2k 16.0M 0 0 5% nvme0n1\n"
    refused(tmp_path, human, "without -h", 1)


LINES = (
    "iostat_12.txt",
    "iostat_11_mb.txt",
    "iostat_10_comma.txt",
    "sar_d.txt",
    "sadf_d.csv",
    "vmstat_t.txt",
    "cloudwatch_console.csv",
)


@pytest.mark.parametrize("name", [*LINES, "cloudwatch_long.csv", "iostat.json", "sadf.json"])
def test_a_cut_off_costs_the_last_report(tmp_path, name):
    """Cut anywhere in its last two reports, a file gives all reports before them, unchanged; only
    what was cut is missing, and said.
    """
    whole = import_file(DATA / name, **options_for(name))
    text = text_of(name)
    text = text[: text.index("\nAverage")] if "Average" in text else text
    # a line holds one metric; its time is lost, the other times are not
    if name == "cloudwatch_long.csv":
        last = text.rindex("\n", 0, -1)
    else:
        times = {"console": "10:19:00", "json": "10:20:00", "11_mb": "10:20:00 AM", "sar": "10:20:00 AM"}
        last = text.index(next((stamp for part, stamp in times.items() if part in name), "10:20:00"))
        last = text.rindex("\n", 0, last)
    warned = 0
    for end in range(last + 1, len(text) - 1, 1 if len(text) - last < 400 else 3):
        (tmp_path / name).write_text(text[:end])
        cut = import_file(tmp_path / name, **options_for(name))
        assert 19 <= cut.points.height <= 20
        assert cut.points["reads_per_s"][:19].equals(whole.points["reads_per_s"][:19]), end
        warned += any("cut off or damaged" in note for note in cut.caveats)
    # Between two lines, and inside the last figure, nothing shows that more was meant.
    assert warned > 0


def test_only_the_last_line_may_be_damaged(tmp_path):
    text = text_of("iostat_12.txt")
    line = line_of(text, "nvme1n1", text.index("10:19:00"))
    lines = text.split("\n")
    lines[line - 1] = lines[line - 1][:60]
    assert "cut off" in refused(tmp_path, "\n".join(lines), "columns", line).hint
    # One report and no more: nothing would be left.
    refused(tmp_path, text[: text.index("nvme1n1") + 40], "columns|since boot")
    # A shell that was interrupted prints ^C behind the half line.
    (tmp_path / "c.txt").write_text(text[: text.rindex("nvme1n1") + 60] + "\n^C\n")
    assert import_file(tmp_path / "c.txt").points.height == 19


def test_cloudwatch_json_cut_off(tmp_path):
    """get-metric-data holds one metric after the other: cut off, the last metric is incomplete, not
    the last report.
    """
    for left_out in (200, 210, 350):
        refused(tmp_path, text_of("cloudwatch_data.json")[:-left_out], "ends too early", name="data.json")
    text = text_of("cloudwatch_statistics.json")
    (tmp_path / "statistics.json").write_text(text[:-30])
    cut = import_file(tmp_path / "statistics.json")
    assert (
        cut.points.height == 20
        and any("cut off" in note for note in cut.caveats)
        and any("1 periods" in note for note in cut.caveats)
    )


@pytest.mark.parametrize("name", ["cloudwatch_data.json", "cloudwatch_statistics.json", "iostat.json", "sadf.json"])
def test_a_prompt_before_json_is_named(tmp_path, name):
    error = refused(tmp_path, "$ aws cloudwatch get-metric-data\n" + text_of(name), "stands before the JSON", 1)
    assert "first {" in error.hint


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("nan", "finite"),
        ("-5.00", "negative"),
        ("inf", "finite"),
        ("1e14", "do not make"),
        ("1.2k", "plain"),
        ("12..5", "number"),
        ("99999999999999999999", "no disk"),
        ("٣", "number"),
    ],
)
def test_bad_numbers_in_iostat(tmp_path, token, words):
    text, line = replace_nth(text_of("iostat_12.txt"), " 1600.00", f" {token}", 2)
    refused(tmp_path, text, words, line)


def test_absurd_rates(tmp_path):
    text, line = replace_nth(text_of("vmstat_t.txt"), " 25648 ", " 9999999999999 ", 1)
    refused(tmp_path, text, "at most 10,000,000 are believed", line)


@pytest.mark.parametrize("value", ["NaN", "-1", "1e400", '"x"', "null", "true", "[]", "1e13", "9" * 5000])
def test_bad_numbers_in_json(tmp_path, value):
    for name, old in (
        ("iostat.json", '"r/s": 1600.0'),
        ("sadf.json", '"tps": 2450.0'),
        ("cloudwatch_data.json", "90000.0"),
    ):
        assert old in text_of(name)
        refused(
            tmp_path,
            text_of(name).replace(old, old.split(":")[0] + f": {value}" if ":" in old else value, 1),
            ".",
            name=name,
        )


def test_mixed_units_within_a_line(tmp_path):
    text, line = replace_nth(text_of("iostat_12.txt"), " 25600.00", "    25.00", 1)
    refused(tmp_path, text, "do not make", line)
    refused(tmp_path, text_of("iostat_12.txt").replace("rkB/s", "rMB/s").replace("wkB/s", "wMB/s"), "do not make|each")
    refused(
        tmp_path, text_of("sadf_d.csv").replace("rkB/s;wkB/s", "rMB/s;wMB/s").replace("24000.00", "99000000.00"), "each"
    )


def test_mixed_decimal_marks(tmp_path):
    text = text_of("iostat_10_comma.txt")
    refused(tmp_path, text[: len(text) // 2] + text[len(text) // 2 :].replace(",", "."), "decimal mark")


def test_time_backwards_and_twice(tmp_path):
    text = text_of("iostat_12.txt")
    line = line_of(text, "nvme0n1", text.index("10:10:00")) - 1  # the header of the report
    refused(tmp_path, text.replace("10:10:00", "10:03:00"), "360 s before the report above", line)
    refused(tmp_path, text.replace("10:10:00", "10:09:00"), "there before")
    hour_back = text
    for minute in range(11, 21):
        hour_back = hour_back.replace(f"10:{minute:02d}:00", f"09:{minute:02d}:00")
    assert "summer time" in refused(tmp_path, hour_back, "3540 s before").hint
    refused(tmp_path, text.replace("11/21/25 10:10:00", "11/21/85 10:10:00"), "before|intervals|gap|missing")
    refused(tmp_path, text.replace("11/21/25 10:10:00", "13/32/25 10:10:00"), "calendar|neither")
    refused(tmp_path, text.replace("11/21/25 10:10:00", "11/21/25 25:10:00"), "time of day")
    refused(tmp_path, text.replace("11/21/25 10:10:00\n", ""), "without a time")


def test_interval_changes(tmp_path):
    text = text_of("sadf_d.csv")
    refused(tmp_path, text.replace("10:15:00", "10:14:20"), "apart")


def test_restarts_without_times(tmp_path):
    text = "\n".join(line for line in text_of("iostat_12.txt").split("\n") if not line.startswith("11/21/25"))
    refused(tmp_path, text + text, "started again", interval_s=60)
    vmstat = text_of("vmstat.txt")
    lines = vmstat.splitlines(keepends=True)
    joined = "".join(lines[:18]) + vmstat
    refused(tmp_path, joined, "every 10", 20, interval_s=60)


def test_only_the_mean_since_boot(tmp_path):
    text = text_of("iostat_12.txt")
    refused(tmp_path, text[: text.index("11/21/25 10:01:00")], "since boot")
    refused(tmp_path, "".join(text_of("vmstat_t.txt").splitlines(keepends=True)[:3]), "since boot")


def test_vmstat_units_and_other_systems(tmp_path):
    # `vmstat -S M` prints memory in MiB, bi and bo as ever; the file does not say so.
    text = text_of("vmstat_t.txt").replace("304624   3004 29272436", "   297      2    28586")
    refused(tmp_path, text, "-S")
    (tmp_path / "rec.txt").write_text(text)
    assert import_file(tmp_path / "rec.txt", any_unit=True).points.height == 20
    refused(tmp_path, "\n".join(text_of("vmstat_t.txt").splitlines()[2:]), "no tool known|before the header")
    refused(tmp_path, text_of("vmstat_t.txt").replace("in   cs", "fl   cs"), "header of Linux")
    refused(tmp_path, " r b w  avm  fre  flt  re  pi  po\n 1 0 0 1 1 1 1 1 1\n", "another system")
    with pytest.raises(InputError, match="read_kib"):
        import_file(DATA / "vmstat_t.txt", read_kib=0)


def test_cloudwatch_mistakes(tmp_path):
    document = json.loads(text_of("cloudwatch_data.json"))

    def changed(change):
        copy = json.loads(json.dumps(document))
        change(copy["MetricDataResults"])
        return json.dumps(copy)

    refused(tmp_path, changed(lambda r: r.pop()), "VolumeWriteBytes")
    refused(tmp_path, changed(lambda r: r[0]["Values"].pop()), "19 values")
    refused(tmp_path, changed(lambda r: r[0]["Values"].__setitem__(3, 12.5)), "whole number")
    refused(tmp_path, changed(lambda r: r[0]["Timestamps"].__setitem__(3, "noon")), "not a time")
    refused(tmp_path, changed(lambda r: r[0]["Timestamps"].__setitem__(3, r[0]["Timestamps"][4])), "twice")
    refused(tmp_path, changed(lambda r: r[0].__setitem__("StatusCode", "InternalError")), "did not deliver")
    refused(tmp_path, changed(lambda r: r.append(dict(r[0]))), "twice")
    refused(
        tmp_path,
        changed(lambda r: [x.update(Timestamps=x["Timestamps"][:1], Values=x["Values"][:1]) for x in r]),
        "one time only",
    )
    statistics = text_of("cloudwatch_statistics.json")
    refused(tmp_path, statistics.replace('"Sum"', '"Average"'), "Sum is needed")
    refused(tmp_path, statistics.replace('"Bytes"', '"Kilobytes"'), "unit Kilobytes")
    refused(tmp_path, text_of("cloudwatch_console.csv").replace(",Sum,Sum", ",Sum,Average"), "statistic Average", 3)
    refused(tmp_path, text_of("cloudwatch_console.csv").replace(",60,60", ",60,300"), "periods")
    refused(tmp_path, text_of("cloudwatch_console.csv").replace(",60", ",300"), "apart")
    refused(tmp_path, text_of("cloudwatch_long.csv").replace("value", "amount", 1), "value")


def test_csv_without_last_line_end_is_said(tmp_path):
    (tmp_path / "rec.csv").write_text(text_of("cloudwatch_long.csv")[:-2])
    assert any("cut off" in caveat for caveat in import_file(tmp_path / "rec.csv").caveats)


def test_newer_version_with_other_columns(tmp_path):
    """A sysstat that renamed a column is refused by the name that is missing, not misread."""
    refused(tmp_path, text_of("iostat_12.txt").replace(" rkB/s", "rKiB/s"), "no column rkB/s", 7)
    refused(tmp_path, text_of("sadf_d.csv").replace("rkB/s", "rKiB/s"), "no column rkB/s", 1)
    (tmp_path / "new.txt").write_text(text_of("iostat_12.txt").replace(" f_await", " x_await"))
    assert import_file(tmp_path / "new.txt").points.height == 20  # a column nobody needs may change


def test_sadf_in_one_line(tmp_path):
    refused(tmp_path, text_of("sadf_d.csv").replace("%util\n", "%util[...]\n"), "sadf -h", 1)


# --- thousands of damaged files ---------------------------------------------------------------------------------------

TOKENS = (
    b"nan",
    b"-1",
    b"1e400",
    b"1e14",
    b"0",
    b"99999999999",
    b",",
    b".",
    b"\n",
    b"\n\n",
    b"\0",
    b"\xff",
    b"{",
    b"]",
    b'"',
    b";",
    b"Linux ",
    b"Device ",
    b"vol-0123456789abcdef0",
    b"2025-11-21",
    b"AM",
    b"10:03:00",
    b"00:00:00",
    b"null",
    b"1" * 400,
    b"rkB/s",
    b"\xd9\xa3",
    b"DEV",
    b"Average:",
)


def mutate(rng, content):
    text = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, other = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        lines = bytes(text).split(b"\n")
        match rng.randrange(12):
            case 0:
                del text[at:]
            case 1:
                del text[at : at + rng.randint(1, 300)]
            case 2:
                text[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                text[at:at] = rng.choice(TOKENS)
            case 4:
                text[at:at] = text[at : at + rng.randint(1, 2000)]
            case 5:  # another tool's text in the middle
                piece = CONTENT[rng.choice(NAMES)]
                start = rng.randrange(len(piece))
                text[at:at] = piece[start : start + rng.randint(1, 1500)]
            case 6:  # lines in another order
                i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
                text = bytearray(b"\n".join(lines))
            case 7:  # another number
                digits = [k for k, byte in enumerate(text) if 48 <= byte <= 57]
                if digits:
                    k = rng.choice(digits)
                    text[k : k + rng.randint(1, 4)] = rng.choice(TOKENS + (b"7", b"0.001", b"5e3"))
            case 9 | 10:  # one figure of one line
                row = rng.randrange(len(lines))
                figures = [
                    word for word in lines[row].replace(b";", b" ").replace(b",", b" ").split() if word[:1].isdigit()
                ]
                if figures:
                    lines[row] = lines[row].replace(
                        rng.choice(figures), rng.choice((*TOKENS, b"0", b"1", b"16.5", b"1234567", *figures)), 1
                    )
                text = bytearray(b"\n".join(lines))
            case 11:  # lines missing, or there twice
                row = rng.randrange(len(lines))
                lines[row : row + rng.randint(1, 9)] = rng.choice(([], lines[row : row + 1] * 2))
                text = bytearray(b"\n".join(lines))
            case 8:
                words = lines[rng.randrange(len(lines))].split()
                if words:
                    word = rng.choice(words)
                    text = bytearray(bytes(text).replace(word, rng.choice((*TOKENS, *words))))
    return bytes(text)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_import_or_are_refused(tmp_path, name):
    """A valid workload, or a HeadraceError with an exit code of 2 or 3: nothing else, ever."""

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(0, 2**32))
    def run(seed):
        note(f"file {name}, seed {seed}")
        rng = random.Random(seed)
        path = tmp_path / name
        path.write_bytes(mutate(rng, CONTENT[name]))
        try:
            workload = import_file(path, gaps=rng.choice(("refuse", "hold", "zero")), **options_for(name))
        except HeadraceError as error:
            assert error.exit_code in (2, 3) and error.value and error.rule
            assert "\n" not in str(error) and len(str(error)) < 2_000
        else:
            assert workload.summarize()["peak_iops"] <= 2e7 and workload.describe()

    run()
