"""Counters of SHOW GLOBAL STATUS as rates, of a live server or of samples in a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from headrace.mysql.statements import parse_number
from headrace.observe.evidence.model import Row
from headrace.observe.run_files.status import CHECKPOINT_ENDS, COMMITS, READS, WRITES

# Client time by class, of performance_schema, in picoseconds.
WAITS = {
    "wait/io/file/innodb/innodb_data_file": "data_waiters",
    "wait/io/file/innodb/innodb_log_file": "log_waiters",
    "wait/io/file/sql/binlog": "binlog_waiters",
}
PICOSECONDS = 1e12  # in a second
# Counted by performance_schema: transactions that ended, explicit ones and autocommit.
TRANSACTIONS = "transactions"
# Transactions that used a cache of the binary log: each of them wrote (both manuals, server status
# variables). Without a binary log both stay where they are.
LOGGED = ("binlog_cache_use", "binlog_stmt_cache_use")
# Counters that a reading raises itself: SHOW is a question, SELECT is a transaction as well.
OWN_SHOW = ("questions",)
OWN_SELECT = (*OWN_SHOW, *READS, TRANSACTIONS)
# Commits explain the work from this share of the questions on; else statements do (a guess:
# autocommit sends none).
LEAST_COMMITS = 0.01
# Statements that write, a commit: more than these are mostly committed by themselves (a guess;
# TPC-C has 30 at the most).
MOST_A_COMMIT = 40.0
# MariaDB flushes hard from Innodb_checkpoint_max_age on; MySQL 8 and later from about 7/8 of the
# redo log's capacity on (log0log of MySQL 8.0; read at second hand).
MYSQL_MAX_AGE_SHARE = 7 / 8


# Uptime counts whole seconds, at both readings; half a second more is the way of the queries.
UPTIME_SLACK_S = 2.5


def explain_new_server(before: Mapping[str, float], after: Mapping[str, float], took_s: float) -> str:
    """Returns in words why two readings of counters, `took_s` seconds apart, cannot be subtracted:
    the uptime fell, or rose by more than that time; "" where they can."""
    if "uptime" not in before or "uptime" not in after:
        return ""
    rise_s = after["uptime"] - before["uptime"]
    if rise_s + 1.5 < 0:
        return "the server was started again while it was watched: its counters began over"
    if rise_s > took_s + UPTIME_SLACK_S:
        return "another server answered, or its clock was set: a proxy may have changed the server behind it"
    return ""


def make_status_row(
    before: Mapping[str, float],
    after: Mapping[str, float],
    took_s: float,
    variables: Mapping[str, str],
    idle_threads: int,
    note: Callable[[str], None] = lambda text: None,
    own: Collection[str] = (),
) -> Row:
    """Returns the figures of SERVER_COLUMNS between two readings of a server's counters, `took_s`
    seconds apart. `idle_threads`: of Threads_running, those that do no client's work. `note` is
    called with a sentence where a counter fell. `own`: counters that each reading raises by one."""
    rate = CounterRates(before, after, took_s, own)
    questions = rate("questions")
    pool = after.get("innodb_buffer_pool_pages_total")
    running, connected = after.get("threads_running"), after.get("threads_connected")
    row: Row = {
        "tps": _compute_transaction_rate(rate, questions),
        "questions_per_s": questions,
        "pool_reads_per_s": rate("innodb_buffer_pool_reads"),
        "pool_requests_per_s": rate("innodb_buffer_pool_read_requests"),
        "data_reads_per_s": rate("innodb_data_reads"),
        "data_read_bytes_per_s": rate("innodb_data_read"),
        "data_writes_per_s": rate("innodb_data_writes"),
        "fsyncs_per_s": rate("innodb_data_fsyncs"),
        "log_fsyncs_per_s": rate("innodb_os_log_fsyncs"),
        "log_bytes_per_s": rate("innodb_os_log_written"),
        "pages_flushed_per_s": rate("innodb_buffer_pool_pages_flushed"),
        "log_waits_per_s": rate("innodb_log_waits"),
        "free_waits_per_s": rate("innodb_buffer_pool_wait_free"),
        "sent_bytes_per_s": rate("bytes_sent"),
        "binlog_bytes_per_s": rate("binlog_bytes_written"),
        "logged_per_s": rate.total(LOGGED),
        "writing_per_s": _bound_writing_rate(rate, questions),
        "dirty_share": _compute_share(after.get("innodb_buffer_pool_pages_dirty"), pool),
        "free_share": _compute_share(after.get("innodb_buffer_pool_pages_free"), pool),
        "threads_running": None if running is None else max(0.0, running - idle_threads),
        "threads_connected": None if connected is None else max(0.0, connected - 1.0),
        "lock_waiters": scale_value(rate("innodb_row_lock_time"), 1e-3),  # ms a second
        "lock_waiting": after.get("innodb_row_lock_current_waits"),
        "pending_reads": after.get("innodb_data_pending_reads"),
        "pending_writes": after.get("innodb_data_pending_writes"),
        "pending_fsyncs": after.get("innodb_data_pending_fsyncs"),
        "uptime_s": after.get("uptime"),
    }
    row |= {column: scale_value(rate(event), 1 / PICOSECONDS) for event, column in WAITS.items()}
    if rate.went_back:
        note(f"a counter went back ({rate.went_back[0]}): FLUSH STATUS or a restart; that second is left out")
    return row | _make_checkpoint_row(after, variables)


def _compute_transaction_rate(rate: CounterRates, questions: float | None) -> float | None:
    """Returns transactions a second: those that performance_schema counted, or commits if these are
    more (it misses most XA transactions); without its count commits, or statements if hardly any
    transaction ends with COMMIT."""
    commits = rate.total(COMMITS)
    if counted := rate(TRANSACTIONS):
        return max(counted, commits or 0.0)
    return commits if _has_explicit_commits(commits, questions) else rate.total((*WRITES, *READS))


def _bound_writing_rate(rate: CounterRates, questions: float | None) -> float | None:
    """Returns an upper bound of the transactions that wrote: commits, or statements where each is
    committed by itself."""
    commits, writes = rate.total(COMMITS), rate.total(WRITES)
    if commits is None or writes is None:
        return None
    if counted := rate(TRANSACTIONS):
        return min(writes, max(counted, commits))
    explicit = _has_explicit_commits(commits, questions) and writes <= MOST_A_COMMIT * commits
    return min(commits, writes) if explicit else writes


def _has_explicit_commits(commits: float | None, questions: float | None) -> bool:
    """Returns whether transactions end with COMMIT, and not with each statement. Both rates are a
    second, None where not read."""
    return commits is not None and commits > 0 and commits >= LEAST_COMMITS * (questions or 0.0)


def _make_checkpoint_row(counters: Mapping[str, float], variables: Mapping[str, str]) -> Row:
    """Returns the age of InnoDB's checkpoint in bytes, and its share (0 to 1) of the most that the
    redo log allows; None where it is not known."""
    age = counters.get("innodb_checkpoint_age")
    for newest, oldest in CHECKPOINT_ENDS:
        if age is None and newest in counters and oldest in counters:
            age = counters[newest] - counters[oldest]
    most = counters.get("innodb_checkpoint_max_age")
    if not most:
        capacity = counters.get("innodb_redo_log_capacity_resized") or parse_number(
            variables.get("innodb_redo_log_capacity")
        )
        files = parse_number(variables.get("innodb_log_files_in_group")) or 1.0
        capacity = capacity or (parse_number(variables.get("innodb_log_file_size")) or 0.0) * files
        most = MYSQL_MAX_AGE_SHARE * capacity
    return {"checkpoint_age_bytes": age, "checkpoint_share": _compute_share(age, most)}


class CounterRates:
    """Rates of counters between two readings, less the one that each reading itself adds to those
    in `own`."""

    def __init__(
        self,
        before: Mapping[str, float],
        after: Mapping[str, float],
        took_s: float,
        own: Collection[str] = (),
    ) -> None:
        self._before, self._after, self._took_s, self._own = before, after, took_s, own
        self.went_back: list[str] = []

    def __call__(self, name: str) -> float | None:
        """Returns how much a counter grew a second, in its own unit; None where a reading lacks it
        or it went back, which is then listed in `went_back`."""
        if name not in self._before or name not in self._after:
            return None
        change = self._after[name] - self._before[name]
        if change < 0:
            self.went_back.append(name)
            return None
        return max(0.0, change - (name in self._own)) / self._took_s

    def total(self, names: tuple[str, ...]) -> float | None:
        """Returns the sum of the rates that these counters have; None where no one has."""
        values = [value for name in names if (value := self(name)) is not None]
        return sum(values) if values else None


def scale_value(value: float | None, factor: float) -> float | None:
    """Returns the value times a factor; None stays None."""
    return None if value is None else value * factor


def _compute_share(part: float | None, whole: float | None) -> float | None:
    """Returns `part` over `whole`; None where either is not known, or the whole is 0."""
    return None if part is None or not whole else part / whole
