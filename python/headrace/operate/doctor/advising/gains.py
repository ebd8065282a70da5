"""Estimates the gain of lifting a limit, the limit that binds next, and the change to make."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from headrace.base import caps
from headrace.base.units import Z80, format_percent
from headrace.errors import HeadraceError
from headrace.observe.evidence.limits import HoldingLimits
from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.advising.own_database import OwnDatabase, infer_own_database, predict_tps
from headrace.operate.doctor.advising.remedies import find_change
from headrace.operate.doctor.model import Finding, Gain
from headrace.operate.doctor.signals import HostSignals, ServerSignals, Signals, VolumeSignals, compute_most_bytes_s
from headrace.operate.doctor.thresholds import Thresholds
from headrace.simulation.database import predict
from headrace.workload import TransactionWorkload

LIMITS = (
    "volume-iops",
    "volume-throughput",
    "volume-credits",
    "instance-iops",
    "instance-throughput",
    "instance-credits",
)
PREDICTED_S = 300  # of a database that was calibrated: its warm state
DRAWS = 12  # databases as probable as the calibration says, for the interval


@dataclass(frozen=True)
class Counsel:
    """The basis of advice. `database`: a calibrated one; None: one that the window's counters
    describe. `region`: of prices. `as_of`: the day of limits and prices."""

    database: TransactionWorkload | None = None
    region: str = "us-east-1"
    as_of: str | None = None


def with_counsel(
    findings: list[Finding], evidence: Evidence, signals: Signals, counsel: Counsel, t: Thresholds
) -> list[Finding]:
    """Returns the findings, those on limits with their gain, the next limit and what to do. Sets
    `most_bytes_s` of these volumes' signals to that of all the evidence."""
    own = infer_own_database(signals)
    counselled = []
    for finding in findings:
        volume = next((candidate for candidate in signals.volumes if candidate.facts.name == finding.volume), None)
        if volume is not None:
            rows = next(candidate.rows for candidate in evidence.volumes if candidate.facts.name == finding.volume)
            volume.most_bytes_s = compute_most_bytes_s(rows)
        if finding.subject not in LIMITS or volume is None or volume.limits is None:
            counselled.append(finding)
            continue
        counselled.append(_add_counsel(finding, volume, signals, counsel, own, t))
    return counselled


def _add_counsel(
    finding: Finding,
    volume: VolumeSignals,
    signals: Signals,
    counsel: Counsel,
    own: OwnDatabase | None,
    t: Thresholds,
) -> Finding:
    """Returns a finding on a limit with the gain of lifting it, the next limit and, if the gain is
    worth money, the change to make. The words say what could not be estimated."""
    next_limit, factor = find_next_limit(finding.subject, volume, signals)
    most = _estimate_demand_factor(own, volume)
    if (room := compute_processor_room(signals.host)) is not None and own is not None:
        most = min(most, max(1.0, room.most))
    factor_needed, unknown = min(factor or most, most) * t.spare_rate, ""
    try:
        change = find_change(volume, finding.subject, factor_needed, counsel.region, counsel.as_of)
    except HeadraceError as error:
        change, unknown = None, f" The change to make is not known: {explain_refusal(error)}."
    gain = Gain(None, None, None, factor, next_limit, factor, "rates of the window over the other limits")
    spent = are_processors_spent(signals.host, t)
    if spent:
        unknown += explain_no_gain(signals.host)
    elif change is not None and volume.limits is not None:
        storage, instance = change.storage or volume.limits.storage, change.instance or volume.limits.instance
        try:
            simulated = _simulate_gain(
                volume, storage, instance, signals, own, counsel, _find_balance(volume, finding.subject)
            )
            simulated = None if simulated is None else _limit_gain(simulated, signals)
        except HeadraceError as error:
            simulated, unknown = None, f" The gain of lifting it is not known: {explain_refusal(error)}."
        if simulated is not None:
            gain = replace(simulated, factor=factor, next_limit=next_limit, at_factor=factor)
    words = finding.words + _describe_gain(gain, t) + unknown
    spend = not spent and (gain.transactions is None or gain.transactions >= t.advice_gain)
    remedies = finding.remedies
    if change is not None and spend and finding.verdict != "touched":
        remedies = (*remedies, change.remedy)
    return replace(finding, words=words, gain=gain, remedies=remedies)


def _find_balance(volume: VolumeSignals, subject: str) -> float | None:
    """Returns the credits at the start of today's run, percent. The model takes one figure for
    volume and instance: the volume's, or if it has no credits and the instance's are gone, 0."""
    return 0.0 if subject == "instance-credits" and volume.credits.last is None else volume.credits.last


def estimate_gain(signals: Signals, storage: str, instance: str | None, counsel: Counsel) -> Gain | None:
    """Returns the gain in transactions from another storage for the data, with an interval; None
    where too little is known, or the processors are nearly spent."""
    volume = next(
        (candidate for candidate in signals.volumes if candidate.facts.role == "data" and candidate.limits is not None),
        None,
    )
    if volume is None or are_processors_spent(signals.host, Thresholds()):
        return None
    with suppress(HeadraceError):
        gain = _simulate_gain(
            volume, storage, instance, signals, infer_own_database(signals), counsel, volume.credits.last
        )
        return None if gain is None else _limit_gain(gain, signals)
    return None


def explain_refusal(error: HeadraceError) -> str:
    """Returns a refusal for use inside a sentence."""
    return f"{error.value}: {error.rule}".rstrip(".")


def find_next_limit(subject: str, volume: VolumeSignals, signals: Signals) -> tuple[str | None, float | None]:
    """Returns which limit binds next once `subject` is lifted, and at how many times today's load;
    both None where no other limit is known."""
    limits = volume.limits
    if limits is None:
        return None, None
    rooms: dict[str, float] = {}
    on_instance = [other for other in signals.volumes if other.limits is not None]
    ios = sum(other.charged_iops for other in on_instance)
    bytes_s = sum(other.bytes_s for other in on_instance)
    demands = {
        "volume-iops": volume.charged_iops,
        "volume-throughput": volume.bytes_s,
        "instance-iops": ios,
        "instance-throughput": bytes_s,
    }
    for name, demand in demands.items():
        allowed = limits.find_rate(name)
        if name != subject and allowed and demand > 0:
            rooms[name] = allowed / demand
    if (room := compute_processor_room(signals.host)) is not None:
        rooms["cpu"] = room.least
    if not rooms:
        return None, None
    name = min(rooms, key=lambda each: rooms[each])
    return name, max(1.0, rooms[name])


@dataclass(frozen=True)
class ProcessorRoom:
    """Times today's transactions that the host's processors allow: at `least` if the work of kernel
    and other programs grows with them, at `most` if the server's alone does."""

    least: float
    most: float


# A busy share up to this multiple of the server's own share grows with its transactions; more is
# work of other programs, which stays constant (a guess).
RELATED = 3.0


def compute_processor_room(host: HostSignals) -> ProcessorRoom | None:
    """Returns the room that idle processors leave; None where their number or the server's share is
    not known."""
    if not host.server or not host.vcpus:
        return None
    busy = min(1.0, max(host.busy or 0.0, host.server))
    idle = max(0.0, 1.0 - busy - (host.steal or 0.0))
    related = min(busy, RELATED * host.server)
    return ProcessorRoom((related + idle) / related, (host.server + idle) / host.server)


def are_processors_spent(host: HostSignals, t: Thresholds) -> bool:
    """Returns whether the processors are so busy that they decide what a lifted limit brings."""
    return (host.busy or 0.0) + (host.steal or 0.0) >= t.processor_share


def explain_no_gain(host: HostSignals) -> str:
    """Returns the sentence, after a space, that no gain is estimated as processors are spent."""
    at_work = format_percent((host.busy or 0.0) + (host.steal or 0.0))
    return f" The gain of lifting it is not estimated: {at_work} of the processors are at work or taken, and may bind instead."


def _limit_gain(gain: Gain, signals: Signals) -> Gain:
    """Limits a gain to the transactions that the idle processors can run."""
    room = compute_processor_room(signals.host)
    if room is None or gain.transactions is None:
        return gain
    middle, low, high = gain.transactions, gain.low, gain.high
    capped = min(middle, room.least - 1.0)
    how = gain.how if capped == middle else f"{gain.how}; no more than the idle processors can run"
    return replace(
        gain,
        transactions=capped,
        low=None if low is None else min(low, room.least - 1.0),
        high=None if high is None else min(high, room.most - 1.0),
        how=how,
    )


def _estimate_demand_factor(own: OwnDatabase | None, volume: VolumeSignals) -> float:
    """Returns how many times today's transactions the same clients would run on the fastest volume;
    UNKNOWN_FACTOR where that is not known."""
    if own is None or volume.limits is None:
        return UNKNOWN_FACTOR
    try:
        most, _ = predict_tps(own.database, own.clients, FASTEST, None, None, None)
    except HeadraceError:
        return UNKNOWN_FACTOR
    if own.cpu_tps is not None:
        most = min(most, own.cpu_tps)
    return max(1.0, most / own.tps)


# A recording without a server does not say how much more demand there would be: half as much again
# is assumed, the first factor of plan's own advice for censored demand (workload/observed.py).
UNKNOWN_FACTOR = 1.5
FASTEST = "io2:2000:100000"


def _simulate_gain(
    volume: VolumeSignals,
    storage: str,
    instance: str | None,
    signals: Signals,
    own: OwnDatabase | None,
    counsel: Counsel,
    balance: float | None,
) -> Gain | None:
    """Returns transactions on the changed storage over those on today's, whose credits begin with
    `balance` percent, with an interval; None where no server was seen. Raises HeadraceError."""
    limits = volume.limits
    if limits is None:
        return None
    if counsel.database is not None and signals.server is not None:
        return _predict_gain(counsel.database, limits, storage, instance, balance, signals.server, counsel.as_of)
    if own is None:
        return None
    ratios = []
    for database in (own.database, *own.variants):
        before, _ = predict_tps(database, own.clients, limits.storage, limits.instance, limits.as_of or None, balance)
        after, _ = predict_tps(database, own.clients, storage, instance, limits.as_of or None, None)
        if own.cpu_tps is not None:
            before, after = min(before, own.cpu_tps), min(after, own.cpu_tps)
        # The rate of today is known better from the window than from the model; the gain is the
        # model's ratio.
        ratios.append(after / before - 1.0 if before > 0 else 0.0)
    how = "gain simulated from this window's counters"
    return Gain(ratios[0], min(ratios), max(ratios), None, None, None, how)


def _predict_gain(
    database: TransactionWorkload,
    limits: HoldingLimits,
    storage: str,
    instance: str | None,
    balance: float | None,
    server: ServerSignals,
    as_of: str | None,
) -> Gain | None:
    """Returns the gain of a calibrated database on `storage` and `instance`, compared with those of
    `limits`, today's, with its 80 % interval; None if it does 0 transactions a second today.
    `balance`: credits of today's run at its start, percent."""
    predicted = partial(
        predict,
        database,
        as_of=as_of,
        seconds=PREDICTED_S,
        start="warm",
        seed=None,
        threads=max(1, round(server.connected)),
        draws=DRAWS,
    )
    before = predicted(limits.storage, instance=limits.instance, start_balance_percent=balance).summary
    after = predicted(storage, instance=instance).summary
    if not before["tps"]:
        return None
    middle = after["tps"] / before["tps"] - 1.0
    width = Z80 * (after["relative_spread"] or 0.0) * (1.0 + middle)
    return Gain(middle, middle - width, middle + width, None, None, None, f"gain simulated with {database.name}")


def _describe_gain(gain: Gain, t: Thresholds) -> str:
    """Returns sentences on the gain and on the limit that binds next; "" if neither is known."""
    words = ""
    if gain.transactions is not None:
        words += f" Lifting it brings {_describe_change(gain)}"
        words += "; not worth money." if gain.transactions < t.advice_gain else "."
    if gain.next_limit is not None and gain.at_factor is not None:
        limit = caps.describe_cap(gain.next_limit)
        bind = "bind" if limit.endswith("IOPS") or gain.next_limit == "cpu" else "binds"
        if gain.at_factor < NEAR:
            words += f" It will not help alone: {limit} {bind} at {gain.at_factor:.2g} times today's load."
        else:
            words += f" The next limit is {limit}, at {gain.at_factor:,.2g} times today's load."
    return words


def _describe_change(gain: Gain) -> str:
    """Returns `+40 % transactions (+30 % to +52 %)`; as times from three times on."""
    middle, low, high = gain.transactions or 0.0, gain.low, gain.high
    if middle >= MANY:
        span = "" if low is None or high is None else f" ({1 + low:,.2g} to {1 + high:,.2g})"
        return f"{1 + middle:,.2g} times as many transactions{span}"
    span = (
        "" if low is None or high is None else f" ({format_percent(low, sign='+')} to {format_percent(high, sign='+')})"
    )
    return f"{format_percent(middle, sign='+')} transactions{span}"


MANY = 2.0  # a change (here threefold) from which on it is written in times, not in percent
NEAR = 1.05  # a next limit within this is the same limit to a user (a guess)
