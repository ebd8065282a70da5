"""Counters from a Prometheus server, as a document that `observe.formats.prometheus` reads.

    prometheus:http://HOST:9090?instance=db1:9100

Labels behind the ? select the host; an instance without its port stands for all exporters of that
host. Range queries are sent in slices of 11,000 points, the most that Prometheus answers. Their
values are the newest samples before each step, so the times of the samples are queried as well, and
replace those of the steps.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np

from headrace.errors import Refusals
from headrace.observe.formats.prometheus import CPU, DISK, HOST_LABELS, INFO, INNODB, SPLIT, STATUS, WHOLE
from headrace.observe.recording import Recording, clip
from headrace.observe.remote.http import HttpJson, JsonObject
from headrace.observe.remote.span import TimeSpan
from headrace.observe.run_files.status import CHECKPOINT_ENDS
from headrace.workload.points import MAX_RECORDED_POINT_S

PREFIX = "prometheus:"
refuse = Refusals("docs/reference/import-formats.md, Prometheus")
EXAMPLE = "'prometheus:http://prom.example:9090?instance=db1:9100'"
MOST_POINTS = 11_000  # of a series in one answer (Prometheus, web/api/v1: "exceeded maximum resolution")
# Points of a series in all: fourteen days of a minute. Longer spans get a longer step.
MOST_STEPS = 20_160
LEAST_STEP_S = 1.0
# Points of a first query over the whole span, which shows from when to when there are samples; and
# seconds at the end of these whose raw samples show how far apart they are. Ours.
LOOK_POINTS, LOOK_S, LONG_LOOK_S = 2_000, 600, 7_200
MOST_NAMED = 12  # hosts in an error
READS = ("node_disk_reads_completed_total", "node_disk_reads_completed")
# Metrics that the evidence of a server is made of (observe/evidence/counters.py), by
# mysqld_exporter's names.
SERVER = (
    *INNODB.values(), *SPLIT, *WHOLE, "questions", "uptime", "threads_running", "threads_connected", "innodb_data_fsyncs",
    "innodb_os_log_fsyncs", "innodb_os_log_written", "innodb_buffer_pool_reads", "innodb_buffer_pool_read_requests",
    "innodb_log_waits", "innodb_buffer_pool_wait_free", "innodb_row_lock_time", "innodb_row_lock_current_waits",
    "innodb_data_pending_reads", "innodb_data_pending_writes", "innodb_data_pending_fsyncs", "bytes_sent",
    "binlog_bytes_written", "binlog_cache_use", "binlog_stmt_cache_use", "innodb_buffer_pool_pages_total",
    "innodb_checkpoint_age", "innodb_checkpoint_max_age", "innodb_redo_log_capacity_resized",
    *(name for pair in CHECKPOINT_ENDS for name in pair),
)  # fmt: skip
# The statements that the evidence counts.
COMMANDS = (
    r"commit|xa_commit|select|insert|insert_select|update|update_multi|delete|delete_multi|replace|replace_select|load"
)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,60}\Z", re.ASCII)


@dataclass(frozen=True)
class PrometheusTarget:
    """A server's address and the labels that select the host."""

    address: str
    labels: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """Returns the name of the recording: the host in the labels, else the server."""
        return next(
            (value for name, value in self.labels if name in HOST_LABELS), urlsplit(self.address).hostname or ""
        )

    def build_selector(self, *more: str) -> str:
        """Returns the labels, and `more` matchers before them, as a selector of PromQL."""
        return "{" + ",".join([*more, *(_build_matcher(name, value) for name, value in self.labels)]) + "}"

    def make_server_target(self) -> PrometheusTarget:
        """Returns the target for mysqld_exporter, which listens on another port of the host."""
        labels = tuple(
            (name, value.rpartition(":")[0] if name == "instance" and re.search(r":\d+\Z", value) else value)
            for name, value in self.labels
            if name != "job"
        )
        return PrometheusTarget(self.address, labels)


def parse_target(text: str) -> PrometheusTarget:
    """Parses `prometheus:URL?label=value`. Raises InputError."""
    rest = text.removeprefix(PREFIX)
    try:
        parts = urlsplit(rest)
        port_is_a_number = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_a_number = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_a_number:
        raise refuse.input(clip(text), "must be an http or https address", f"For example {EXAMPLE}.")
    if parts.username is not None or parts.password is not None:
        shown = f"{PREFIX}{parts.scheme}://...@{parts.hostname}"
        hint = f"Put login and password for {parts.hostname} into ~/.netrc (mode 600)."
        raise refuse.input(shown, "a password is not part of an address: other users see it in ps", hint)
    labels = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in labels:
        if not _LABEL.match(name) or name == "__name__" or not value:
            raise refuse.input(f"{name}={clip(value)}", "must be a label and its value", f"For example {EXAMPLE}.")
    if len({name for name, _ in labels}) != len(labels):
        raise refuse.input(clip(parts.query), "names a label twice", f"For example {EXAMPLE}.")
    return PrometheusTarget(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", tuple(labels))


def _build_matcher(name: str, value: str) -> str:
    if name == "instance" and not re.search(r":\d+\Z", value):
        return f"{name}=~{_quote(f'{re.escape(value)}(:[0-9]+)?')}"
    return f"{name}={_quote(value)}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def fetch(
    target: str,
    span: TimeSpan,
    *,
    step_s: float | None = None,
    device: str | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Recording, float]:
    """Returns the counters of one host in that time as a recording, and the seconds between its
    points. `step_s`: these seconds; None: as scraped, or longer where that makes more than 20,160
    points. `device`: the only device to fetch, or members joined by +. `progress` is called with
    the share that is fetched, 0 to 1. Raises InputError, CouldNotRun.
    """
    disk_target = parse_target(target)
    server = _Server(HttpJson(disk_target.address, refuse.source))
    begin, end = span.ends()
    listed = server.list_series([f"{name}{disk_target.build_selector()}" for name in READS], begin, end)
    server_target = disk_target.make_server_target()
    servers = server.list_series([f"{STATUS}{INNODB['reads']}{server_target.build_selector()}"], begin, end)
    host = _get_only_host(disk_target, server, listed or servers, begin, end)
    counters = _HostCounters(server, disk_target, server_target, listed, servers, device)
    step_s, begin, end = counters.choose_step(step_s, begin, end)
    results = list(counters.fetch_results(begin, end, step_s, progress))
    body = {"status": "success", "data": {"resultType": "matrix", "result": results}}
    text = json.dumps(body)
    recording = Recording(clip(f"{disk_target.address}, {host}", 80), text, hashlib.sha256(text.encode()).hexdigest())
    recording.title = clip(re.sub(r":\d+\Z", "", disk_target.title or host), 60)
    return recording, step_s


def list_hosts(target: str, span: TimeSpan) -> list[str]:
    """Returns a target for each host with disks in that time. Raises InputError, CouldNotRun."""
    disk_target = parse_target(target)
    server = _Server(HttpJson(disk_target.address, refuse.source))
    listed = server.list_series([f"{name}{disk_target.build_selector()}" for name in READS], *span.ends())
    if not listed:
        _get_only_host(disk_target, server, listed, *span.ends())
    hosts = sorted({_find_host_label(labels) for labels in listed})
    others = [(name, value) for name, value in disk_target.labels if name not in {key for key, _ in hosts}]
    return [f"{PREFIX}{disk_target.address}?{urlencode([(label, value), *others])}" for label, value in hosts]


def _find_host_label(labels: dict[str, str]) -> tuple[str, str]:
    """Returns the label that names the host of a series, and its value."""
    return next(((name, labels[name]) for name in HOST_LABELS if labels.get(name)), ("instance", ""))


def _get_only_host(
    disk_target: PrometheusTarget, server: _Server, listed: list[dict[str, str]], begin: float, end: float
) -> str:
    """Returns the only host of the series. Raises InputError where there is none, or several."""
    hosts = sorted({_find_host_label(labels) for labels in listed})
    if len(hosts) == 1:
        return hosts[0][1]
    if hosts:
        label, names = hosts[0][0], [value for _, value in hosts]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        hint = f"Name one: '{PREFIX}{disk_target.address}?{label}={names[0]}'. There are: {', '.join(names[:MOST_NAMED])}{more}."
        raise refuse.input(disk_target.address, f"has the counters of {len(names)} hosts in that time", hint)
    others = sorted({_find_host_label(labels)[1] for labels in server.list_series(list(READS), begin, end)})
    advice = (
        f"There are: {', '.join(others[:MOST_NAMED])}."
        if others
        else "It scrapes no node_exporter in that time (--last)."
    )
    raise refuse.input(
        disk_target.address,
        f"has no counters of disks or InnoDB for {disk_target.build_selector()} in that time",
        advice,
    )


@dataclass(frozen=True)
class _Server:
    """Sends queries to the API of a Prometheus server."""

    http: HttpJson

    def list_series(self, selectors: list[str], begin: float, end: float) -> list[dict[str, str]]:
        """Returns the labels of the series that had samples from `begin` to `end`, seconds since
        1970. Raises InputError if the answer is not a list."""
        times = [("start", f"{begin:.3f}"), ("end", f"{end:.3f}")]
        listed = self._fetch_data("/api/v1/series", [*(("match[]", selector) for selector in selectors), *times])
        if not isinstance(listed, list):
            raise refuse.input(self.http.base, "does not list series", "Is it a Prometheus server?")
        return [labels for labels in listed if isinstance(labels, dict)]

    def query_instant(self, query: str, moment: float) -> list[JsonObject]:
        """Returns the series of a query at a moment, seconds since 1970. Raises InputError."""
        return self._fetch_result("/api/v1/query", [("query", query), ("time", f"{moment:.3f}")])

    def query_range(self, query: str, begin: float, end: float, step_s: float) -> Iterator[list[JsonObject]]:
        """Yields the series of a range query, `begin` to `end` in seconds since 1970, slice by
        slice."""
        slices = math.ceil(((end - begin) / step_s + 1) / MOST_POINTS)
        for index in range(slices):
            first = begin + index * MOST_POINTS * step_s
            last = min(end, first + (MOST_POINTS - 1) * step_s)
            times = [("start", f"{first:.3f}"), ("end", f"{last:.3f}"), ("step", f"{step_s:g}")]
            yield self._fetch_result("/api/v1/query_range", [("query", query), *times])

    def _fetch_result(self, path: str, parameters: list[tuple[str, str]]) -> list[JsonObject]:
        """Returns the series that a query answers. Raises InputError if the answer has none, or
        refuses the query."""
        data = self._fetch_data(path, parameters)
        result = data.get("result") if isinstance(data, dict) else None
        if not isinstance(result, list) or not all(isinstance(entry, dict) for entry in result):
            raise refuse.input(self.http.base, "answers without a result", "Is it a Prometheus server?")
        return result

    def _fetch_data(self, path: str, parameters: list[tuple[str, str]]) -> object:
        """Returns the data of an answer. Raises InputError with the server's words if it refuses
        the query."""
        answer = self.http.get(path, parameters)
        if answer.get("status") != "success":
            refusal = f"{answer.get('errorType', 'no status')}: {clip(str(answer.get('error', '')), 200)}"
            raise refuse.input(self.http.base, f"refuses the query: {refusal}", "Ask for a shorter time (--last).")
        return answer.get("data")


@dataclass(frozen=True)
class _HostCounters:
    """Fetches the counters of a host. `disks`, `servers`: labels of its series of node_exporter and
    of mysqld_exporter; `device`: the only device to fetch."""

    server: _Server
    disk_target: PrometheusTarget
    server_target: PrometheusTarget
    disks: list[dict[str, str]]
    servers: list[dict[str, str]]
    device: str | None

    def choose_step(self, asked_s: float | None, begin: float, end: float) -> tuple[float, float, float]:
        """Returns the seconds between points (`asked_s`, or as few as MOST_STEPS allow), and begin
        and end of the time that has samples. Raises InputError."""
        if self.disks:
            counter = f"{self.disks[0]['__name__']}{self._select_disks()}"
        else:
            counter = f"{STATUS}{INNODB['reads']}{self.server_target.build_selector()}"
        look_step_s = max(LEAST_STEP_S, (end - begin) / LOOK_POINTS)
        sampled_at = [
            float(value)
            for part in self.server.query_range(f"timestamp({counter})", begin, end, look_step_s)
            for series in part
            for _, value in series.get("values", ())
        ]
        # A host that was there for less than a step may have no sample: then `end` is taken.
        last = max(sampled_at, default=end)
        scraped_s = self._measure_scrape_interval(counter, last)
        if scraped_s is None:
            hint = "Ask for a longer time (--last), or an earlier one (--until)."
            raise refuse.input(self.disk_target.address, "has less than two samples of the host in that time", hint)
        first = max(begin, min(sampled_at, default=begin) - look_step_s)
        least_s = math.ceil((last - first) / MOST_STEPS / scraped_s) * scraped_s
        if asked_s is not None and asked_s < 0.9 * scraped_s:
            rule = f"the counters were scraped every {scraped_s:g} s"
            raise refuse.input(f"--interval {asked_s:g}", rule, f"Leave it out, or give {scraped_s:g} or more.")
        step_s = max(scraped_s, least_s if asked_s is None else asked_s)
        if step_s > MAX_RECORDED_POINT_S:
            rule = f"points of at most {MAX_RECORDED_POINT_S:g} s are taken"
            raise refuse.input(f"points of {step_s:g} s", rule, "Ask for a shorter time (--last).")
        # Half a step behind the samples, so that one which comes a little late is not missed.
        steps = math.ceil((last + step_s / 2 - first) / step_s)
        return step_s, last + step_s / 2 - steps * step_s, last + step_s / 2

    def _measure_scrape_interval(self, counter: str, last: float) -> float | None:
        """Returns the median seconds between the last samples, rounded; None where there are not
        two."""
        for look_s in (LOOK_S, LONG_LOOK_S):
            results = self.server.query_instant(f"{counter}[{look_s}s]", last + 0.001)
            steps = [
                step
                for series in results
                for step in np.diff([float(pair[0]) for pair in series.get("values", ())]).tolist()
            ]
            if steps:
                return max(LEAST_STEP_S, float(round(float(np.median(steps)))))
        return None

    def fetch_results(
        self, begin: float, end: float, step_s: float, progress: Callable[[float], None]
    ) -> Iterator[JsonObject]:
        """Yields the series with the times of their samples; `begin` and `end` are seconds since
        1970, `progress` is called with the share done, 0 to 1."""
        queries = [*self._list_disk_queries(), *self._list_server_queries()]
        groups = {times: [query for query in queries if query[1] == times] for _, times, _ in queries}
        done = 0
        for times_query, group in groups.items():
            if times_query is None:
                continue
            times = self._fetch_times(times_query, begin, end, step_s)
            for query, _, name in group:
                for part in self.server.query_range(query, begin, end, step_s):
                    for series in part:
                        labels = series.get("metric", {}) | ({"__name__": name} if name else {})
                        pairs = {times[at]: value for at, value in series.get("values", ()) if at in times}
                        yield {"metric": labels, "values": [[at, value] for at, value in sorted(pairs.items())]}
                done += 1
                progress(done / len(queries))
        for info in (
            self.server.list_series([f"{INFO}{self.disk_target.build_selector()}"], begin, end) if self.disks else ()
        ):
            yield {"metric": info, "values": []}

    def _fetch_times(self, query: str, begin: float, end: float, step_s: float) -> dict[float, float]:
        """Returns for each step, in seconds since 1970, the time of its sample; of several devices
        that of any, since they are scraped together."""
        sampled_at: dict[float, float] = {}
        for part in self.server.query_range(query, begin, end, step_s):
            for series in part:
                sampled_at |= {at: float(value) for at, value in series.get("values", ())}
        return sampled_at

    def _select_disks(self) -> str:
        """Returns the selector of the host's disks: those in `device` if the host has them all,
        else all."""
        names = {member.rpartition("/")[2].strip() for member in (self.device or "").split("+")} - {""}
        devices = {labels.get("device", "") for labels in self.disks}
        chosen = names if names and names <= devices else set()
        return self.disk_target.build_selector(
            *([f"device=~{_quote('|'.join(map(re.escape, sorted(chosen))))}"] if chosen else [])
        )

    def _list_disk_queries(self) -> list[tuple[str, str | None, str]]:
        """Returns (query, query of the times of its samples, name of the metric where the query
        removes it) of the disks and processors."""
        if not self.disks:
            return []
        metrics = {labels["__name__"] for labels in self.disks}
        newer = READS[0] in metrics
        names = [name for name in DISK if name.endswith("_total") == newer]
        selector = self._select_disks()
        times = f"timestamp({READS[0] if newer else READS[1]}{selector})"
        queries: list[tuple[str, str | None, str]] = [(f"{name}{selector}", times, "") for name in names]
        hosts = ",".join(
            dict.fromkeys(("mode", *(name for name in HOST_LABELS if any(name in labels for labels in self.disks))))
        )
        cpu = CPU[0] if newer else CPU[1]
        return [*queries, (f"sum by ({hosts}) ({cpu}{self.disk_target.build_selector()})", times, cpu)]

    def _list_server_queries(self) -> list[tuple[str, str | None, str]]:
        """Returns (query, query of the times of its samples, "") of the MySQL server's status;
        empty without a server."""
        if not self.servers:
            return []
        times = f"timestamp({STATUS}{INNODB['reads']}{self.server_target.build_selector()})"
        plain = "|".join(name for name in SERVER if name != "commands_total")
        names, commands = _quote(f"{STATUS}({plain})"), _quote(COMMANDS)
        return [
            (self.server_target.build_selector(f"__name__=~{names}"), times, ""),
            (f"{STATUS}commands_total{self.server_target.build_selector(f'command=~{commands}')}", times, ""),
        ]
