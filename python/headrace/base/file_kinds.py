"""Which tool a file comes from: also those that cannot be read, so that the error can say so."""

from __future__ import annotations

import re

OWN_FILE = "a Headrace workload file"
HEAD_CHARACTERS = 200_000  # a guess: many reports of any tool; later text tells no more

# (format or None, what to call it, what gives it away). The first match wins.
SIGNS: tuple[tuple[str | None, str, re.Pattern], ...] = tuple(
    # \s also matches line ends, and "^\s*" over many empty lines takes quadratic time: blanks are
    # meant.
    (kind, name, re.compile(sign.replace(r"\s", r"[ \t]"), re.MULTILINE))
    for kind, name, sign in (
        (None, OWN_FILE, r'^\s*format\s*=\s*"headrace-workload"'),
        ("cloudwatch", "CloudWatch get-metric-data JSON", r'"MetricDataResults"\s*:'),
        ("cloudwatch", "CloudWatch get-metric-statistics JSON", r'"Datapoints"\s*:'),
        ("iostat", "iostat -x -o JSON", r'"disk_device"\s*:|"sysstat"\s*:(?s:.){0,600}"avg-cpu"\s*:'),
        ("sar", "sadf -j JSON", r'"sysstat"\s*:'),
        ("sar", "sadf -d CSV", r"^# ?hostname;interval;timestamp;"),
        ("sar", "sar -d", r"^\S+( [AaPp][Mm])?\s+(DEV\s+tps|tps\s.*\sDEV\s*$)"),
        ("vmstat", "vmstat", r"^\s*r\s+b\s.*\sbi\s+bo\s"),
        ("iostat", "iostat", r"^Device:?\s+.*(r/s|tps)\b|^\s+(r/s|tps)\b.*\sDevice\s*$"),
        ("cloudwatch", "CloudWatch CSV", r"(?i)Volume(Read|Write)(Ops|Bytes)"),
        ("cloudwatch", "CloudWatch metrics of RDS", r"\b(Read|Write)(IOPS|Throughput)\b"),
        (None, "vmstat -d", r"^disk-? ?-{1,60}reads-"),
        (None, "vmstat of another system than Linux", r"^\s*procs\s+(memory|kthr)|^\s*r\s+b\s+w\s"),
        (None, "iostat of Solaris", r"extended device statistics"),
        (None, "iostat of BSD or macOS", r"\bKB/t\b"),
        (None, "pidstat", r"\bUID\s+PID\b"),
        (None, "mpstat", r"\bCPU\s+%usr\b"),
        (
            None,
            "sar, but not its disk report (sar -d)",
            r"^\S+( [AaPp][Mm])?\s+(CPU\s+%user|kbmemfree|IFACE|runq-sz|tps\s+rtps)",
        ),
        (None, "dstat", r"-total-cpu-usage-|-dsk/total-|\"total cpu usage\""),
        (None, "nmon", r"^AAA,progname,"),
        (None, "pt-diskstats", r"\brd_s\s+rd_avkb\b"),
        (None, "sysbench", r"^\[ \d+s \] thds:"),
        (None, "fio JSON", r'"fio version"\s*:'),
        (None, "fio", r"^fio-\d|: \(groupid=\d+, jobs="),
        (None, "SHOW GLOBAL STATUS", r"\bInnodb_data_reads\b"),
        (None, "Prometheus metrics", r"^# (HELP|TYPE) \w+ |\"resultType\"\s*:"),
        (None, "Windows Performance Monitor", r"\(PDH-CSV|\\PhysicalDisk\("),
        (None, "/proc/diskstats", r"^\s+\d+\s+\d+ \S+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+"),
        (None, "top", r"^top - \d\d:\d\d"),
        (None, "a web page", r"(?i)^\s*<(!doctype|html)"),
    )
)


def detect(text: str) -> tuple[str | None, str | None]:
    """(format that can read it or None, what it looks like or None), from the first 200,000
    characters."""
    head = text[:HEAD_CHARACTERS]
    for kind, name, sign in SIGNS:
        if sign.search(head):
            return kind, name
    return None, None


def guess(text: str) -> str | None:
    """What a file looks like, in words, or None."""
    return detect(text)[1]
