"""Measured runs, and the conformance of a lab's volumes, in words, tables and pages. Reads results,
runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.report.charts import predictions, style
from headrace.report.charts import runs as charts
from headrace.report.tables import fold_of
from headrace.report.view import (
    Block,
    Card,
    Chart,
    Fold,
    Heading,
    Items,
    Mark,
    Sentence,
    Table,
    View,
    make_columns,
    make_drawn_chart,
)
from headrace.report.words import format_latency, format_moment, format_number, format_percent, format_span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import altair as alt

    from headrace.bench.comparison.compare import BenchComparison
    from headrace.bench.comparison.conformance import ConformanceFinding
    from headrace.bench.store.store import RunRecord

LIST_COLUMNS = make_columns(
    ("run", "state", "benchmark", "threads", "s", "server", "storage", "tps", "p95", "p99", "IOPS"),
    number=("threads", "s", "tps", "p95", "p99", "IOPS"),
)
COMPARE_COLUMNS = make_columns(
    ("figure", "unit", "first", "second", "change", "95 % interval", "verdict"),
    number=("first", "second", "change", "95 % interval"),
)
SETUP = make_columns(("what", "is"))
VERDICTS = {"higher": "higher", "lower": "lower", "same": "no difference seen", "": ""}
MOST_SETTINGS = 40  # lines of settings that differ; the rest is counted


def make_list_row(record: RunRecord) -> list[object]:
    """Returns the cells of a run, in the columns of LIST_COLUMNS."""
    summary, document = record.summary, record.document
    reads, writes = summary.get("read_iops"), summary.get("write_iops")
    iops = "-" if reads is None or writes is None else format_number(reads + writes)
    what = (
        record.id,
        record.state,
        describe_load(document),
        document["load"]["threads"],
        format_number(summary.get("seconds")),
    )
    where = (describe_server(document) or "-", document["target"].get("storage") or "-")
    figures = (
        format_number(summary.get("tps")),
        format_latency(summary.get("p95_ms")),
        format_latency(summary.get("p99_ms")),
    )
    return [*what, *where, *figures, iops]


def describe_load(document: dict) -> str:
    """Returns the benchmark of a run with its main option, such as `fio randread`."""
    name, options = document["benchmark"]["name"], document["benchmark"]["options"]
    option = {"sysbench-oltp": "script", "sysbench-fileio": "mode", "fio": "rw", "mysqlslap": "load"}.get(name)
    if name == "tpcc":
        return f"tpcc {options.get('warehouses')} warehouses"
    return f"{name} {options.get(option)}" if option and options.get(option) else name


def describe_server(document: dict) -> str:
    """Returns flavor, release and engine, as `MariaDB 10.11.6, InnoDB`; "" for a run on files."""
    target = document["target"]
    if not target.get("engine"):
        return ""
    flavor = {"mariadb": "MariaDB", "percona": "Percona Server"}.get(target.get("flavor") or "", "MySQL")
    engine = {"innodb": "InnoDB", "myrocks": "MyRocks"}.get(target["engine"], target["engine"])
    return f"{flavor} {(target.get('version') or '').split('-')[0]}, {engine}"


def make_title(record: RunRecord) -> str:
    """Returns benchmark, storage and threads of a run in one line."""
    document = record.document
    where = document["target"].get("storage") or document["target"].get("label")
    return f"{describe_load(document)} on {where}, {document['load']['threads']} threads"


LATENCIES = {
    "mean": "mean_ms",
    "p50": "p50_ms",
    "p95": "p95_ms",
    "p99": "p99_ms",
    "p99.9": "p999_ms",
    "longest": "max_ms",
}


def list_figure_rows(record: RunRecord) -> list[tuple[str, str]]:
    """Returns (name, figure with its unit) of a run as a person reads them; figures that were not
    measured are left out."""
    summary = record.summary
    unit = record.document["benchmark"].get("unit", "transactions")

    def format_figure(name: str, write: Callable[[float], str] = format_number) -> str:
        value = summary.get(name)
        return "" if value is None else write(value)

    def show_if_measured(name: str, words: str) -> str:
        return words if summary.get(name) is not None else ""

    latencies = ", ".join(
        f"{label} {format_latency(summary[name])}" for label, name in LATENCIES.items() if format_figure(name)
    )
    spread = f"standard deviation of a second {format_figure('tps_sd')}, least {format_figure('tps_min')}"
    first, last = (
        format_figure("balance_percent_first", "{:.1f} %".format),
        format_figure("balance_percent_last", "{:.1f} %".format),
    )
    busy = f"{format_figure('user_cpus')} user, {format_figure('system_cpus')} system, {format_figure('iowait_cpus')} waiting"
    rows = {
        "measured for": format_figure("seconds", format_span),
        f"{unit} a second": show_if_measured("tps", f"{format_figure('tps')} ({spread})"),
        "queries a second": format_figure("qps"),
        "latency": show_if_measured("p95_ms", latencies),
        "p95 of a second, median": format_figure("p95_of_seconds_ms", format_latency),
        "new orders a minute": format_figure("new_orders_per_min"),
        "statements, p95": format_figure("statement_p95_ms", format_latency),
        "errors a second": format_figure("errors_per_s"),
        "nothing done for": format_figure("stall_s", lambda value: format_span(value) if value else ""),
        "reads": show_if_measured("read_iops", _describe_disk(summary, "read")),
        "writes": show_if_measured("write_iops", _describe_disk(summary, "write")),
        "I/Os a transaction": show_if_measured(
            "reads_per_transaction",
            f"{format_figure('reads_per_transaction')} reads, {format_figure('writes_per_transaction')} writes",
        ),
        "requests under way": format_figure("queue"),
        **{
            f"waited for the {words}": format_figure(name, lambda value: format_percent(value) if value else "")
            for name, words in charts.CAPS.items()
        },
        "credit balance": show_if_measured("balance_percent_first", f"{first} at the beginning, {last} at the end"),
        "processors": show_if_measured("idle_cpus", f"{busy}, {format_figure('idle_cpus')} idle"),
    }
    if unit != "transactions":
        rows.pop("I/Os a transaction")
    return [(name, text) for name, text in rows.items() if text not in ("", "-", "0")]


def _describe_disk(summary: dict, way: str) -> str:
    iops, mib_s = (format_number(summary.get(f"{way}_{name}")) for name in ("iops", "mib_s"))
    return f"{iops} IOPS, {mib_s} MiB/s, waiting {format_latency(summary.get(f'{way}_wait_ms'))} on average"


def list_setup_rows(record: RunRecord) -> list[tuple[str, str]]:
    """Returns rows of the setup: benchmark, server, storage and machine."""
    document = record.document
    load, target, tool, machine = (document[name] for name in ("load", "target", "tool", "environment"))
    before = machine.get("before") or {}
    rest = f"then {load['seconds']} s, seed {load['seed']}, {document.get('start') or '?'} start"
    log = target.get("log_storage")
    processors = f"{machine.get('cpus')} processors ({machine.get('cpu') or '?'}), {machine.get('memory_gib')} GiB"
    rows = {
        "run": f"{record.id} ({record.state})",
        "name": document.get("name"),
        "began": document.get("began_at"),
        "load": f"{document['benchmark']['name']}: {', '.join(describe_options(document['benchmark']['options']))}",
        "clients": f"{load['threads']} threads, {load['warmup_s']} s of warm-up, {rest}",
        "server": describe_server(document),
        "cache": f"{format_number(target['cache_gib'])} GiB" if target.get("cache_gib") else None,
        "data": f"{format_number(target['data_gib'])} GiB" if target.get("data_gib") else None,
        "storage": ", ".join(filter(None, (target.get("storage"), log and f"log on {log}"))),
        "devices": ", ".join(target.get("devices") or ()),
        "tool": f"{tool['name']} {tool['version']}",
        "machine": f"{processors}, {machine.get('system')}, Linux {machine.get('kernel')}",
        "before the run": f"{format_percent(before.get('busy_share'))} of the processors in use, load {format_number(before.get('load1'))}",
    }
    return [(name, str(text)) for name, text in rows.items() if text]


def describe_options(options: dict) -> list[str]:
    """Returns options in words, such as `tables 8`; nested options follow under their own names:
    `rand_spec_pct 1`."""
    words = []
    for key, value in options.items():
        if isinstance(value, dict):
            words += describe_options(value)
        elif value not in ([], None):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words.append(f"{key} {' '.join(map(str, value)) if isinstance(value, list) else text}")
    return words


def list_difference_rows(comparison: BenchComparison) -> list[tuple[str, ...]]:
    """Returns the cells of COMPARE_COLUMNS, a row for each figure of both runs."""
    rows = []
    for difference in comparison.differences:
        change = "-" if difference.change_percent is None else f"{_format_signed_percent(difference.change_percent)} %"
        interval = (
            ""
            if difference.low_percent is None or difference.high_percent is None
            else f"{_format_signed_percent(difference.low_percent)} to {_format_signed_percent(difference.high_percent)} %"
        )
        mark = {True: " (better)", False: " (worse)", None: ""}[difference.better]
        rows.append(
            (
                difference.words,
                difference.unit,
                format_number(difference.a),
                format_number(difference.b),
                change,
                interval,
                VERDICTS[difference.verdict] + mark,
            )
        )
    return rows


def _format_signed_percent(value: float) -> str:
    """Returns percent with its sign; thousands without their tenths."""
    return f"{value:+.1f}" if abs(value) < 1_000 else f"{value:+,.0f}"


def list_difference_sentences(comparison: BenchComparison) -> list[str]:
    """Returns sentences on intended differences, then on those that make the runs unlike."""
    lines = [
        f"Differs: {what}: {first_value} and {second_value}"
        for what, first_value, second_value in comparison.differs[:MOST_SETTINGS]
    ]
    if len(comparison.differs) > MOST_SETTINGS:
        lines.append(f"... and {len(comparison.differs) - MOST_SETTINGS} more settings.")
    if not comparison.differs:
        lines.append("Nothing of storage, server or settings differs: what differs is chance, or not recorded.")
    return lines + [f"NOT ALIKE: {words}" for words in comparison.unlike]


def describe_group(records: Sequence) -> str:
    """Returns the id of a single run, or the number of runs."""
    return records[0].id if len(records) == 1 else f"{len(records)} runs from {records[0].id}"


def build_view(record: RunRecord) -> View:
    """Returns a run as a view."""
    series, unit = record.read_series(), record.document["benchmark"].get("unit", "transactions")
    tool = "{name} {version}".format(**record.document["tool"])
    title = make_title(record)
    described = f"{title}: throughput, latency, disks, balance and limits over time"
    blocks: list[Block] = [Sentence(words, "warn") for words in record.findings]
    blocks.append(Chart(lambda: charts.draw_time_line(series, title, unit), described))
    blocks.append(fold_of("The run as a table", series, charts.list_panels(unit)))
    blocks += [Heading("Figures"), Table(make_columns(("figure", "measured")), list_figure_rows(record))]
    spread = charts.draw_spread([(record.id, series, style.MEASURED)], unit)
    if spread is not None:
        blocks += [make_drawn_chart(spread, f"Seconds of the run at each number of {unit} a second")]
    histogram = record.read_percentiles()
    tail = charts.draw_percentiles([(record.id, histogram, style.MEASURED)]) if histogram is not None else None
    if tail is not None:
        described = "Latency over the percentile, to the last with ten slower transactions"
        blocks.append(make_drawn_chart(tail, described))
    blocks.append(Fold("Setup", [Table(SETUP, list_setup_rows(record))]))
    subtitle = f"Measured {format_moment(record.document.get('began_at', ''))} by {tool}; run {record.id}"
    tps = record.summary.get("tps")
    rate = "" if tps is None else f"{format_number(tps)} {unit} a second: "
    return View(f"{rate}{title}", subtitle, build_cards(record), blocks)


def build_cards(record: RunRecord) -> list[Card]:
    """Returns transactions a second and latency of a run, as far as they were measured."""
    summary, unit = record.summary, record.document["benchmark"].get("unit", "transactions")
    figures = []
    if summary.get("tps") is not None:
        least = f"least {format_number(summary['tps_min'])}" if summary.get("tps_min") is not None else ""
        figures.append(Card("Measured", f"{format_number(summary['tps'])} {unit} a second", least))
    if summary.get("p95_ms") is not None:
        figures.append(Card("p95", format_latency(summary["p95_ms"]), f"p99 {format_latency(summary.get('p99_ms'))}"))
    reads, writes = summary.get("read_iops"), summary.get("write_iops")
    if reads is not None and writes is not None:
        ways = f"{format_number(reads)} reads and {format_number(writes)} writes a second"
        figures.append(Card("Storage", f"{format_number(reads + writes)} IOPS", ways))
    return figures


def build_comparison_view(comparison: BenchComparison) -> View:
    """Returns the comparison of two runs, or groups, as a view."""
    first, second = comparison.a[0], comparison.b[0]
    words = list_difference_sentences(comparison)
    blocks: list[Block] = [Sentence(line, "warn") for line in words if line.startswith("NOT ALIKE")]
    marks = charts.draw_intervals(comparison.differences)
    if marks is not None:
        blocks.append(make_drawn_chart(marks, "Changes in percent with their intervals"))
    blocks.append(Table(COMPARE_COLUMNS, list_difference_rows(comparison)))
    blocks += [
        Heading("Differences between them"),
        Items([line for line in words if not line.startswith("NOT ALIKE")]),
    ]
    blocks.append(Heading("Both over time"))
    blocks += [make_drawn_chart(chart, described) for chart, described in _draw_charts(first, second)]
    blocks.append(Fold("Notes", [Items(comparison.notes)]))
    for which, record in (("The first", first), ("The second", second)):
        blocks.append(Fold(which, [Table(SETUP, list_setup_rows(record))]))
    where = f"{describe_load(first.document)}: {describe_group(comparison.b)} against {describe_group(comparison.a)}"
    return View(_make_headline(comparison), f"{where}, measured", list(_build_change_cards(comparison)), blocks)


def _make_headline(comparison: BenchComparison) -> str:
    """Says in a sentence what changed first of all: throughput, where both have it."""
    change = next((change for change in comparison.differences if change.change_percent is not None), None)
    if change is None:
        return "The second run against the first"
    if change.verdict == "same":
        return f"No difference seen in {change.words}"
    percent_more = f"{_format_signed_percent(abs(change.change_percent or 0.0)).lstrip('+')} %"
    return f"The second has {percent_more} {'more' if (change.change_percent or 0.0) > 0 else 'less'} {change.words}"


def _build_change_cards(comparison: BenchComparison) -> Iterator[Card]:
    """Yields a card for each of the first three changes that have a 95 % interval: the change in
    %, the figures of both runs in their unit, and the verdict."""
    with_interval = [
        change
        for change in comparison.differences
        if change.low_percent is not None and change.change_percent is not None
    ]
    for change in with_interval[:3]:
        meaning = f"{format_number(change.a)} and {format_number(change.b)} {change.unit}; {VERDICTS[change.verdict] or 'not judged'}."
        mark: Mark = "" if change.better is None or change.verdict == "same" else "good" if change.better else "warn"
        label = f"{change.words[:1].upper()}{change.words[1:]}"
        yield Card(label, f"{_format_signed_percent(change.change_percent or 0.0)} %", meaning, mark)


def _draw_charts(first: RunRecord, second: RunRecord) -> Iterator[tuple[alt.TopLevelMixin, str]]:
    """Yields the charts of two runs over each other, each with a text for those who cannot see it;
    figures that a run lacks are left out."""
    unit = first.document["benchmark"].get("unit", "transactions")
    runs = [
        (f"{which}: {record.document['target'].get('storage') or record.id}", record, colour)
        for which, record, colour in (("first", first, charts.FIRST), ("second", second, charts.SECOND))
    ]
    parts = [(label, record.read_series(), colour) for label, record, colour in runs]
    for column, y_title in (
        ("tps", f"{unit} a second"),
        ("p95_ms", "p95 (ms)"),
        ("balance_percent", "credit balance (%)"),
    ):
        chart = charts.draw_over_each_other(parts, column, y_title)
        if chart is not None:
            yield chart, f"{y_title} of both over time"
    spread = charts.draw_spread(parts, unit)
    if spread is not None:
        yield spread, f"Seconds of the run at each number of {unit} a second"
    histograms = [
        (label, histogram, colour)
        for label, record, colour in runs
        if (histogram := record.read_percentiles()) is not None
    ]
    tail = charts.draw_percentiles(histograms) if len(histograms) == 2 else None
    if tail is not None:
        yield tail, "Latency over the percentile of both"


# --- `headrace lab verify`: a lab's volumes, specified, simulated and measured --------------------

CONFORMANCE = make_columns(
    ("volume", "load", "figure", "specified", "published", "model", "measured", "error", "allowed", "within"),
    number=("specified", "published", "model", "measured", "error", "allowed"),
)
WITHIN = {True: "yes", False: "NO", None: ""}


def list_conformance_rows(findings: Sequence[ConformanceFinding]) -> list[tuple[str, ...]]:
    """Returns a row of CONFORMANCE for each figure; volume and load stand where they change."""
    rows, last = [], None
    for finding in findings:
        here = (finding.spec, finding.load)
        place, last = here if here != last else ("", ""), here
        allowed = "" if finding.allowed_percent is None else f"± {finding.allowed_percent:.1f} %"
        expected = ("" if value is None else format_number(value) for value in (finding.specified, finding.published))
        figures = (
            format_number(finding.model, 4),
            format_number(finding.measured, 4),
            f"{finding.error_percent:+.1f} %",
        )
        rows.append((*place, f"{finding.what} ({finding.unit})", *expected, *figures, allowed, WITHIN[finding.within]))
    return rows


def build_conformance_table(findings: Sequence[ConformanceFinding]) -> Table:
    """Returns the figures as a table."""
    return Table(CONFORMANCE, list_conformance_rows(findings), "Volumes of this lab: specified, model and measured")


def describe_conformance(findings: Sequence[ConformanceFinding]) -> list[str]:
    """Says how many figures are within their tolerance, and what the machine could not do."""
    judged = [finding for finding in findings if finding.within is not None]
    beyond = list(dict.fromkeys(finding.note for finding in findings if finding.note))
    fine = sum(bool(finding.within) for finding in judged)
    return [
        f"{fine} of {len(judged)} figures with a tolerance are within it.",
        *(f"note: {words} Not judged." for words in beyond),
    ]


def build_conformance_view(findings: Sequence[ConformanceFinding]) -> View:
    """Returns the figures of a lab's volumes as a view."""
    described = "50th and 99th percentile of completion latencies by volume and load, simulated and measured"
    first, *rest = describe_conformance(findings)
    blocks: list[Block] = [Sentence(words) for words in rest]
    blocks += [Heading("Latency"), Chart(lambda: predictions.draw_conformance(findings), described)]
    blocks += [Heading("Figures"), Table(CONFORMANCE, list_conformance_rows(findings))]
    loads = "Fio on every volume, with the model under the same load and the limits of the specification"
    judged = [finding for finding in findings if finding.within is not None]
    fine = sum(bool(finding.within) for finding in judged)
    card = Card("Within their tolerance", f"{fine} of {len(judged)}", first, "good" if fine == len(judged) else "warn")
    verdict = "perform like the real ones" if fine == len(judged) else "do not all perform like the real ones"
    return View(f"The volumes of this lab {verdict}", loads, [card] if judged else [], blocks)
