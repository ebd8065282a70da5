"""The parts that all tests of sysbench 1.0 share: account file, report lines, histogram, totals."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from headrace.base.files import explain_unwritable
from headrace.base.machine import Tool, require_program
from headrace.base.processes import Command, Ended, run_checked, run_lines
from headrace.bench.drivers.benchmark import Histogram, IntervalReport, RunLoad, ToolOutcome
from headrace.bench.target import DOC
from headrace.errors import Refusals
from headrace.mysql.address import DEFAULT_PORT, Address

refuse = Refusals("sysbench 1.0")
# sysbench.h: 1,024 buckets, evenly in the logarithm from 0.001 ms to 100 s; a value goes to the
# nearest.
HISTOGRAM_ERROR_PERCENT = 0.9
# After the time is up a client finishes its transaction. One that waits for a row or a paused disk
# gets no more than this (a guess).
SHUTDOWN_S = 30
ACCOUNT_FILE = "sysbench.cnf"
ENCRYPTED = ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
OPENSSL_S = 30.0  # a guess: making a key takes a second
# The number of a value; sysbench prints `nan` and `inf` for what it could not divide.
NUMBER = r"([0-9.]+|-?nan|inf)"
REPORT = re.compile(
    rf"\[ (?P<end>\d+)s \] thds: (?P<threads>\d+) tps: {NUMBER} qps: {NUMBER} \(r/w/o: {NUMBER}/{NUMBER}/{NUMBER}\) "
    rf"lat \(ms,95%\): {NUMBER} err/s:? {NUMBER} reconn/s: {NUMBER}\Z"
)
BUCKET = re.compile(r" +([0-9.]+) \|\*{0,40} +(\d+)\Z")
FIGURES = {
    "transactions": r" +transactions: +(\d+) ",
    "queries": r" +queries: +(\d+) ",
    "errors": r" +ignored errors: +(\d+) ",
    "reconnects": r" +reconnects: +(\d+) ",
    "events": r" +total number of events: +(\d+)",
    "min_ms": r" +min: +([0-9.]+)",
    "mean_ms": r" +avg: +([0-9.]+)",
    "max_ms": r" +max: +([0-9.]+)",
}
FATAL = re.compile(r"(?:FATAL|ALERT): (.*)")


def write_account(address: Address, path: Path) -> Path:
    """Writes sysbench's --config-file with server, account and password, mode 0600. Raises
    InputError for a password it cannot hold, CouldNotRun."""
    lines = [f"mysql-user={quote_option('user', address.user)}"]
    if address.socket is not None:
        lines.append(f"mysql-socket={quote_option('socket', address.socket)}")
    else:
        lines += [
            f"mysql-host={quote_option('host', address.host or '')}",
            f"mysql-port={address.port or DEFAULT_PORT}",
        ]
    if address.password is not None:
        lines.append(f"mysql-password={quote_option('password', address.password.reveal(), secret=True)}")
    lines.append(f"mysql-db={quote_option('database', address.database or '')}")
    if address.ssl_mode in ENCRYPTED:
        lines.append("mysql-ssl=on")
        _write_certificates(address, path.parent)
    with explain_unwritable(path, "Is the disk full?"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)
            file.write("\n".join(lines) + "\n")
    return path


def _write_certificates(address: Address, folder: Path) -> None:
    """Writes the files that sysbench reads from its working folder: cacert.pem, and a client's key
    and certificate.

    No connection is made without all three. A server that names a CA refuses a client's certificate
    it has not signed, but takes a client that has none. TLS 1.3 has no signature on the curve
    secp256k1 (RFC 8446, 4.2.3), so a certificate with such a key is loaded, and never sent.
    sysbench encrypts, but does not check the server's certificate: `connect(address)` does, before
    the run. Raises CouldNotRun.
    """
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp256k1 -nodes -days 2 -subj /CN=headrace-bench"
    arguments = (
        require_program("openssl", "openssl"),
        *options.split(),
        "-keyout",
        "client-key.pem",
        "-out",
        "client-cert.pem",
    )
    run_checked(Command(arguments, folder, what="making a key for TLS"), OPENSSL_S, "Use the server's socket.")
    authority = Path(address.ssl_ca) if address.ssl_ca else folder / "client-cert.pem"
    shutil.copyfile(authority, folder / "cacert.pem")


def quote_option(what: str, value: str, secret: bool = False) -> str:
    """Returns a value for sysbench's option file, which knows quotes of both kinds and no escapes.
    Raises InputError for what it cannot hold."""
    shown = "***" if secret else value
    if any(character in value for character in "\n\r\0"):
        rule = "holds a line end, which sysbench's option file cannot"
        raise refuse.input(f"{what} {shown}", rule, "Use an account without one.")
    for quote in "'\"":
        if quote not in value:
            return f"{quote}{value}{quote}"
    if any(character in value for character in " ,\t") or value[0] in "'\"":
        rule = "has both kinds of quotes with a blank, a comma or a quote at its beginning, which sysbench's option file cannot hold"
        raise refuse.input(f"{what} {shown}", rule, "Use an account with another password for benchmarks.")
    return value


def build_timing_arguments(load: RunLoad) -> list[str]:
    """Returns the arguments of every timed run: threads, time, reports, histogram and seed."""
    arguments = [
        f"--threads={load.threads}",
        f"--time={load.all_s}",
        "--events=0",
        "--report-interval=1",
        "--percentile=95",
    ]
    arguments += ["--histogram", f"--rand-seed={load.seed}", f"--forced-shutdown={SHUTDOWN_S}"]
    # Resets totals and histogram after the warm-up, so that the final report does not include it.
    return arguments + ([f"--report-checkpoints={load.warmup_s}"] if load.warmup_s else [])


def build_server_arguments(tool: Tool, account: Path, load: RunLoad) -> list[str]:
    """Returns program and first arguments of every timed run of a test on a server."""
    return [tool.path, f"--config-file={account}", "--db-driver=mysql", *build_timing_arguments(load)]


def parse_report(text: str) -> IntervalReport | None:
    """Returns the report in a line of output of a test on a server; None for other lines."""
    match = REPORT.match(text.strip()) if "thds:" in text else None
    if match is None:
        return None
    tps, qps, _, _, _, p95, errors, _ = (_parse_number(value) for value in match.groups()[2:])
    # 0.00 is sysbench's percentile of nothing.
    return IntervalReport(float(match["end"]), tps, qps, p95 if p95 and tps else None, errors, int(match["threads"]))


def _parse_number(text: str) -> float | None:
    return None if text.strip("-") in ("nan", "inf") else float(text)


def parse_outcome(raw: str, load: RunLoad) -> ToolOutcome:
    """Returns totals and histogram of the part after the warm-up. Raises InputError if the summary
    is missing, since the output was cut off."""
    last = raw[raw.rfind("Latency histogram") :] if "Latency histogram" in raw else raw
    figures = {}
    for name, pattern in FIGURES.items():
        matches = re.findall(rf"^{pattern}", last, re.MULTILINE)
        if matches:
            figures[name] = float(matches[-1])
    if "events" not in figures or "Threads fairness:" not in last:
        raise refuse.input("sysbench's output", "has no summary: it was cut off", "Run it again.")
    notes = []
    if load.warmup_s and "Checkpoint report" not in raw:
        notes.append("sysbench made no report at the end of the warm-up: its percentiles are of the whole run.")
    return ToolOutcome(parse_histogram(last), (), figures, tuple(notes))


def find_error(raw: str, ended: Ended) -> str:
    """Returns the first fatal errors of sysbench, else its exit code and the last lines of its
    output."""
    return _find_fatal(raw) or f"ended with exit code {ended.code}: {ended.message}"


def _find_fatal(raw: str) -> str:
    """Returns the first fatal errors, two at most: "unable to connect" alone says little, the
    second line has the cause. Statements are cut: they may be a megabyte long."""
    errors = list(dict.fromkeys(text.strip()[:200] for text in FATAL.findall(raw)))
    return "; ".join(errors[:2])


def parse_histogram(text: str) -> Histogram | None:
    """Reads the buckets of `--histogram`; None when none were printed."""
    pairs = [BUCKET.match(line) for line in text.splitlines()]
    buckets = [(float(pair[1]), int(pair[2])) for pair in pairs if pair]
    if not buckets:
        return None
    values, counts = zip(*buckets, strict=True)
    return Histogram(values, counts, "sysbench --histogram", HISTOGRAM_ERROR_PERCENT)


def run_untimed(
    tool: Tool, arguments: list[str], folder: Path, what: str, limit_s: float, work: Path | None = None
) -> str:
    """Runs a command of sysbench that is not timed (prepare, cleanup) in `work`, else in `folder`,
    where its output goes; returns the output. Raises CouldNotRun."""
    raw = folder / f"{what}.txt"
    ended = run_lines(Command((tool.path, *arguments), work or folder), raw, limit_s)
    text = raw.read_text(errors="replace")
    if ended.late or ended.code:
        reason = f"took longer than {limit_s:,.0f} s" if ended.late else find_error(text, ended)
        hint = f"See {DOC}, When something fails; the server's error log may have more."
        raise refuse.run(f"sysbench {what}", reason, hint)
    return text
