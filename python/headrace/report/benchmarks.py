"""Measured runs, and the conformance of a lab's volumes, in words, tables and pages. Reads results,
runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.report.charts import predictions, style
from headrace.report.charts import runs as charts
from headrace.report.tables import fold_of
from headrace.report.view import Block, Card, Chart, Fold, Heading, Items, Mark, Sentence, Table, View, columns, drawn
from headrace.report.words import latency, moment, number, percent, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import altair as alt

    from headrace.bench.comparison.compare import BenchComparison
    from headrace.bench.comparison.conformance import ConformanceFinding
    from headrace.bench.store.store import RunRecord

LIST_COLUMNS = columns(
    ("run", "state", "benchmark", "threads", "s", "server", "storage", "tps", "p95", "p99", "IOPS"),
    number=("threads", "s", "tps", "p95", "p99", "IOPS"),
)
COMPARE_COLUMNS = columns(
    ("figure", "unit", "first", "second", "change", "95 % interval", "verdict"),
    number=("first", "second", "change", "95 % interval"),
)
SETUP = columns(("what", "is"))
VERDICTS = {"higher": "higher", "lower": "lower", "same": "no difference seen", "": ""}
MOST_SETTINGS = 40  # lines of settings that differ; the rest is counted


def list_row(record: RunRecord) -> list[object]:
    """Returns the cells of LIST_COLUMNS."""
    summary, document = record.summary, record.document
    reads, writes = summary.get("read_iops"), summary.get("write_iops")
    iops = "-" if reads is None or writes is None else number(reads + writes)
    what = (record.id, record.state, load_words(document), document["load"]["threads"], number(summary.get("seconds")))
    where = (server_words(document) or "-", document["target"].get("storage") or "-")
    figures = (number(summary.get("tps")), latency(summary.get("p95_ms")), latency(summary.get("p99_ms")))
    return [*what, *where, *figures, iops]


def load_words(document: dict) -> str:
    """Returns the benchmark with the option that says most."""
    name, options = document["benchmark"]["name"], document["benchmark"]["options"]
    option = {"sysbench-oltp": "script", "sysbench-fileio": "mode", "fio": "rw", "mysqlslap": "load"}.get(name)
    if name == "tpcc":
        return f"tpcc {options.get('warehouses')} warehouses"
    return f"{name} {options.get(option)}" if option and options.get(option) else name


def server_words(document: dict) -> str:
    """Returns flavor, release and engine, as in `MariaDB 10.11.6, InnoDB`; "" for files."""
    target = document["target"]
    if not target.get("engine"):
        return ""
    flavor = {"mariadb": "MariaDB", "percona": "Percona Server"}.get(target.get("flavor") or "", "MySQL")
    engine = {"innodb": "InnoDB", "myrocks": "MyRocks"}.get(target["engine"], target["engine"])
    return f"{flavor} {(target.get('version') or '').split('-')[0]}, {engine}"


def title_of(record: RunRecord) -> str:
    """Returns a run in one line."""
    document = record.document
    where = document["target"].get("storage") or document["target"].get("label")
    return f"{load_words(document)} on {where}, {document['load']['threads']} threads"


LATENCIES = {
    "mean": "mean_ms",
    "p50": "p50_ms",
    "p95": "p95_ms",
    "p99": "p99_ms",
    "p99.9": "p999_ms",
    "longest": "max_ms",
}


def figure_rows(record: RunRecord) -> list[tuple[str, str]]:
    """Returns (name, figure with its unit) of a run as a person reads them; figures that were not
    measured are left out."""
    summary = record.summary
    unit = record.document["benchmark"].get("unit", "transactions")

    def text_of(name: str, write: Callable[[float], str] = number) -> str:
        value = summary.get(name)
        return "" if value is None else write(value)

    def where_some(name: str, words: str) -> str:
        return words if summary.get(name) is not None else ""

    latencies = ", ".join(f"{label} {latency(summary[name])}" for label, name in LATENCIES.items() if text_of(name))
    spread = f"standard deviation of a second {text_of('tps_sd')}, least {text_of('tps_min')}"
    first, last = (
        text_of("balance_percent_first", "{:.1f} %".format),
        text_of("balance_percent_last", "{:.1f} %".format),
    )
    busy = f"{text_of('user_cpus')} user, {text_of('system_cpus')} system, {text_of('iowait_cpus')} waiting"
    rows = {
        "measured for": text_of("seconds", span),
        f"{unit} a second": where_some("tps", f"{text_of('tps')} ({spread})"),
        "queries a second": text_of("qps"),
        "latency": where_some("p95_ms", latencies),
        "p95 of a second, median": text_of("p95_of_seconds_ms", latency),
        "new orders a minute": text_of("new_orders_per_min"),
        "statements, p95": text_of("statement_p95_ms", latency),
        "errors a second": text_of("errors_per_s"),
        "nothing done for": text_of("stall_s", lambda value: span(value) if value else ""),
        "reads": where_some("read_iops", _disk_words(summary, "read")),
        "writes": where_some("write_iops", _disk_words(summary, "write")),
        "I/Os a transaction": where_some(
            "reads_per_transaction",
            f"{text_of('reads_per_transaction')} reads, {text_of('writes_per_transaction')} writes",
        ),
        "requests under way": text_of("queue"),
        **{
            f"waited for the {words}": text_of(name, lambda value: percent(value) if value else "")
            for name, words in charts.CAPS.items()
        },
        "credit balance": where_some("balance_percent_first", f"{first} at the beginning, {last} at the end"),
        "processors": where_some("idle_cpus", f"{busy}, {text_of('idle_cpus')} idle"),
    }
    if unit != "transactions":
        rows.pop("I/Os a transaction")
    return [(name, text) for name, text in rows.items() if text not in ("", "-", "0")]


def _disk_words(summary: dict, way: str) -> str:
    iops, mib_s = (number(summary.get(f"{way}_{name}")) for name in ("iops", "mib_s"))
    return f"{iops} IOPS, {mib_s} MiB/s, waiting {latency(summary.get(f'{way}_wait_ms'))} on average"


def setup_rows(record: RunRecord) -> list[tuple[str, str]]:
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
        "load": f"{document['benchmark']['name']}: {', '.join(option_words(document['benchmark']['options']))}",
        "clients": f"{load['threads']} threads, {load['warmup_s']} s of warm-up, {rest}",
        "server": server_words(document),
        "cache": f"{number(target['cache_gib'])} GiB" if target.get("cache_gib") else None,
        "data": f"{number(target['data_gib'])} GiB" if target.get("data_gib") else None,
        "storage": ", ".join(filter(None, (target.get("storage"), log and f"log on {log}"))),
        "devices": ", ".join(target.get("devices") or ()),
        "tool": f"{tool['name']} {tool['version']}",
        "machine": f"{processors}, {machine.get('system')}, Linux {machine.get('kernel')}",
        "before the run": f"{percent(before.get('busy_share'))} of the processors in use, load {number(before.get('load1'))}",
    }
    return [(name, str(text)) for name, text in rows.items() if text]


def option_words(options: dict) -> list[str]:
    """Returns options in words, such as `tables 8`; nested options follow under their own names:
    `rand_spec_pct 1`."""
    words = []
    for key, value in options.items():
        if isinstance(value, dict):
            words += option_words(value)
        elif value not in ([], None):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words.append(f"{key} {' '.join(map(str, value)) if isinstance(value, list) else text}")
    return words


def compare_rows(comparison: BenchComparison) -> list[tuple[str, ...]]:
    """Returns the cells of COMPARE_COLUMNS."""
    rows = []
    for difference in comparison.differences:
        change = "-" if difference.change_percent is None else f"{_signed(difference.change_percent)} %"
        interval = (
            ""
            if difference.low_percent is None or difference.high_percent is None
            else f"{_signed(difference.low_percent)} to {_signed(difference.high_percent)} %"
        )
        mark = {True: " (better)", False: " (worse)", None: ""}[difference.better]
        rows.append(
            (
                difference.words,
                difference.unit,
                number(difference.a),
                number(difference.b),
                change,
                interval,
                VERDICTS[difference.verdict] + mark,
            )
        )
    return rows


def _signed(value: float) -> str:
    """Returns percent with its sign; thousands without their tenths."""
    return f"{value:+.1f}" if abs(value) < 1_000 else f"{value:+,.0f}"


def compare_words(comparison: BenchComparison) -> list[str]:
    """Returns sentences about intended differences, then about those that make the runs unlike."""
    lines = [
        f"Differs: {what}: {first_value} and {second_value}"
        for what, first_value, second_value in comparison.differs[:MOST_SETTINGS]
    ]
    if len(comparison.differs) > MOST_SETTINGS:
        lines.append(f"... and {len(comparison.differs) - MOST_SETTINGS} more settings.")
    if not comparison.differs:
        lines.append("Nothing of storage, server or settings differs: what differs is chance, or not recorded.")
    return lines + [f"NOT ALIKE: {words}" for words in comparison.unlike]


def group_name(records: Sequence) -> str:
    """Returns the id of a single run, or the number of runs."""
    return records[0].id if len(records) == 1 else f"{len(records)} runs from {records[0].id}"


def view_of(record: RunRecord) -> View:
    """Returns a run as a view."""
    series, unit = record.series(), record.document["benchmark"].get("unit", "transactions")
    tool = "{name} {version}".format(**record.document["tool"])
    title = title_of(record)
    described = f"{title}: throughput, latency, disks, balance and limits over time"
    blocks: list[Block] = [Sentence(words, "warn") for words in record.findings]
    blocks.append(Chart(lambda: charts.time_line(series, title, unit), described))
    blocks.append(fold_of("The run as a table", series, charts.panels_of(unit)))
    blocks += [Heading("Figures"), Table(columns(("figure", "measured")), figure_rows(record))]
    spread = charts.spread([(record.id, series, style.MEASURED)], unit)
    if spread is not None:
        blocks += [drawn(spread, f"Seconds of the run at each number of {unit} a second")]
    histogram = record.percentiles()
    tail = charts.percentiles([(record.id, histogram, style.MEASURED)]) if histogram is not None else None
    if tail is not None:
        described = "Latency over the percentile, to the last with ten slower transactions"
        blocks.append(drawn(tail, described))
    blocks.append(Fold("Setup", [Table(SETUP, setup_rows(record))]))
    subtitle = f"Measured {moment(record.document.get('began_at', ''))} by {tool}; run {record.id}"
    tps = record.summary.get("tps")
    does = "" if tps is None else f"{number(tps)} {unit} a second: "
    return View(f"{does}{title}", subtitle, cards(record), blocks)


def cards(record: RunRecord) -> list[Card]:
    """Returns transactions a second and latency of a run, as far as they were measured."""
    summary, unit = record.summary, record.document["benchmark"].get("unit", "transactions")
    figures = []
    if summary.get("tps") is not None:
        least = f"least {number(summary['tps_min'])}" if summary.get("tps_min") is not None else ""
        figures.append(Card("Measured", f"{number(summary['tps'])} {unit} a second", least))
    if summary.get("p95_ms") is not None:
        figures.append(Card("p95", latency(summary["p95_ms"]), f"p99 {latency(summary.get('p99_ms'))}"))
    reads, writes = summary.get("read_iops"), summary.get("write_iops")
    if reads is not None and writes is not None:
        ways = f"{number(reads)} reads and {number(writes)} writes a second"
        figures.append(Card("Storage", f"{number(reads + writes)} IOPS", ways))
    return figures


def comparison_view(comparison: BenchComparison) -> View:
    """Returns the comparison of two runs, or groups, as a view."""
    first, second = comparison.a[0], comparison.b[0]
    words = compare_words(comparison)
    blocks: list[Block] = [Sentence(line, "warn") for line in words if line.startswith("NOT ALIKE")]
    marks = charts.intervals(comparison.differences)
    if marks is not None:
        blocks.append(drawn(marks, "Changes in percent with their intervals"))
    blocks.append(Table(COMPARE_COLUMNS, compare_rows(comparison)))
    blocks += [
        Heading("Differences between them"),
        Items([line for line in words if not line.startswith("NOT ALIKE")]),
    ]
    blocks.append(Heading("Both over time"))
    blocks += [drawn(chart, described) for chart, described in _charts_of_both(first, second)]
    blocks.append(Fold("Notes", [Items(comparison.notes)]))
    for which, record in (("The first", first), ("The second", second)):
        blocks.append(Fold(which, [Table(SETUP, setup_rows(record))]))
    where = f"{load_words(first.document)}: {group_name(comparison.b)} against {group_name(comparison.a)}"
    return View(_headline(comparison), f"{where}, measured", list(_change_cards(comparison)), blocks)


def _headline(comparison: BenchComparison) -> str:
    """Says in a sentence what changed first of all: throughput, where both have it."""
    change = next((each for each in comparison.differences if each.change_percent is not None), None)
    if change is None:
        return "The second run against the first"
    if change.verdict == "same":
        return f"No difference seen in {change.words}"
    percent_more = f"{_signed(abs(change.change_percent or 0.0)).lstrip('+')} %"
    return f"The second has {percent_more} {'more' if (change.change_percent or 0.0) > 0 else 'less'} {change.words}"


def _change_cards(comparison: BenchComparison) -> Iterator[Card]:
    """Yields a card for each of the first three changes that have a 95 % interval: the change in
    %, the figures of both runs in their unit, and the verdict."""
    with_interval = [
        each for each in comparison.differences if each.low_percent is not None and each.change_percent is not None
    ]
    for change in with_interval[:3]:
        meaning = (
            f"{number(change.a)} and {number(change.b)} {change.unit}; {VERDICTS[change.verdict] or 'not judged'}."
        )
        mark: Mark = "" if change.better is None or change.verdict == "same" else "good" if change.better else "warn"
        label = f"{change.words[:1].upper()}{change.words[1:]}"
        yield Card(label, f"{_signed(change.change_percent or 0.0)} %", meaning, mark)


def _charts_of_both(first: RunRecord, second: RunRecord) -> Iterator[tuple[alt.TopLevelMixin, str]]:
    """Yields the charts of two runs over each other, each with a text for those who cannot see it;
    figures that a run lacks are left out."""
    unit = first.document["benchmark"].get("unit", "transactions")
    labels = [
        f"{which}: {record.document['target'].get('storage') or record.id}"
        for which, record in (("first", first), ("second", second))
    ]
    colours = (charts.FIRST, charts.SECOND)
    parts = [
        (label, record.series(), colour) for label, record, colour in zip(labels, (first, second), colours, strict=True)
    ]
    for column, y_title in (
        ("tps", f"{unit} a second"),
        ("p95_ms", "p95 (ms)"),
        ("balance_percent", "credit balance (%)"),
    ):
        chart = charts.over_each_other(parts, column, y_title)
        if chart is not None:
            yield chart, f"{y_title} of both over time"
    spread = charts.spread(parts, unit)
    if spread is not None:
        yield spread, f"Seconds of the run at each number of {unit} a second"
    histograms = [
        (label, histogram, colour)
        for label, record, colour in zip(labels, (first, second), colours, strict=True)
        if (histogram := record.percentiles()) is not None
    ]
    tail = charts.percentiles(histograms) if len(histograms) == 2 else None
    if tail is not None:
        yield tail, "Latency over the percentile of both"


# --- `headrace lab verify`: a lab's volumes, specified, simulated and measured --------------------

CONFORMANCE = columns(
    ("volume", "load", "figure", "specified", "published", "model", "measured", "error", "allowed", "within"),
    number=("specified", "published", "model", "measured", "error", "allowed"),
)
WITHIN = {True: "yes", False: "NO", None: ""}


def conformance_rows(findings: Sequence[ConformanceFinding]) -> list[tuple[str, ...]]:
    """Returns a row for each figure; volume and load stand where they change."""
    rows, last = [], None
    for finding in findings:
        here = (finding.spec, finding.load)
        shown, last = here if here != last else ("", ""), here
        allowed = "" if finding.allowed_percent is None else f"± {finding.allowed_percent:.1f} %"
        given = ("" if value is None else number(value) for value in (finding.specified, finding.published))
        figures = (number(finding.model, 4), number(finding.measured, 4), f"{finding.error_percent:+.1f} %")
        rows.append((*shown, f"{finding.what} ({finding.unit})", *given, *figures, allowed, WITHIN[finding.within]))
    return rows


def conformance_table(findings: Sequence[ConformanceFinding]) -> Table:
    """Returns the figures as a table."""
    return Table(CONFORMANCE, conformance_rows(findings), "Volumes of this lab: specified, model and measured")


def conformance_in_words(findings: Sequence[ConformanceFinding]) -> list[str]:
    """Says how many figures are within their tolerance, and what the machine could not do."""
    judged = [finding for finding in findings if finding.within is not None]
    beyond = list(dict.fromkeys(finding.note for finding in findings if finding.note))
    fine = sum(bool(finding.within) for finding in judged)
    return [
        f"{fine} of {len(judged)} figures with a tolerance are within it.",
        *(f"note: {words} Not judged." for words in beyond),
    ]


def conformance_view(findings: Sequence[ConformanceFinding]) -> View:
    """Returns the figures of a lab's volumes as a view."""
    described = "50th and 99th percentile of completion latencies by volume and load, simulated and measured"
    first, *rest = conformance_in_words(findings)
    blocks: list[Block] = [Sentence(words) for words in rest]
    blocks += [Heading("Latency"), Chart(lambda: predictions.conformance(findings), described)]
    blocks += [Heading("Figures"), Table(CONFORMANCE, conformance_rows(findings))]
    loads = "Fio on every volume, with the model under the same load and the limits of the specification"
    judged = [finding for finding in findings if finding.within is not None]
    fine = sum(bool(finding.within) for finding in judged)
    card = Card("Within their tolerance", f"{fine} of {len(judged)}", first, "good" if fine == len(judged) else "warn")
    does = "perform like the real ones" if fine == len(judged) else "do not all perform like the real ones"
    return View(f"The volumes of this lab {does}", loads, [card] if judged else [], blocks)
