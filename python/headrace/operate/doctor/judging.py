"""Puts verdicts in their order: causes other than storage first, then limits that are felt, seen,
inferred and coming."""

from __future__ import annotations

from dataclasses import replace

from headrace.base.units import describe_span
from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.innocence import find_excuses
from headrace.operate.doctor.model import Diagnosis, Finding
from headrace.operate.doctor.signals import Signals
from headrace.operate.doctor.storage_verdicts import judge_settings, judge_volumes
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.doctor.verdicts import read_verdicts

MOST_FINDINGS = 3  # a reader takes in no more; --all shows the others
# Order of those that say the same of storage: how it is known.
BASES = ("felt", "seen", "inferred", "server", "coming", "")
# Verdicts that explain the demand itself: they go before the limit that the demand meets. A setting
# that costs a smaller share of the transactions than LEAST_WEIGHT does not come first while there
# are others.
LEAST_WEIGHT = 0.005
EXPLAINS = ("cold-cache", "backup")


def judge_signals(signals: Signals, thresholds: Thresholds) -> list[Finding]:
    """Returns all findings, the headline first; at least one."""
    grain = describe_grain(signals.grain_s, signals.exact)
    storage = judge_volumes(signals, thresholds)
    waits = any(finding.verdict in ("binds", "degraded") for finding in storage)
    innocents = find_excuses(signals, thresholds, storage_waits=waits)
    settings = judge_settings(signals, thresholds)
    ordered = _order_findings(innocents, storage, settings, signals, thresholds)
    if not ordered:
        ordered = [_make_calm_finding(signals)]
    return [finding if finding.grain else replace(finding, grain=grain) for finding in ordered]


def _order_findings(
    innocents: list[Finding], storage: list[Finding], settings: list[Finding], signals: Signals, t: Thresholds
) -> list[Finding]:
    """Returns the findings in the order in which they are shown, each once: what explains or
    excuses storage, then limits that bind, then settings, what will bind or is touched, and what
    cannot be told."""
    storage = sorted(
        storage, key=lambda finding: (BASES.index(finding.basis), finding.verdict == "touched", -finding.weight)
    )
    settings = sorted(settings, key=lambda finding: -finding.weight)
    binding = [finding for finding in storage if finding.verdict in ("binds", "degraded")]
    felt = [finding for finding in binding if finding.basis == "felt"]
    # A cold cache explains how much is read, not that a volume is slow below its limits.
    blamed = [
        finding for finding in storage if finding.verdict in ("binds", "touched") and finding.subject != "first-touch"
    ]
    explaining = [
        finding for finding in innocents if finding.subject in EXPLAINS and (blamed or finding.subject == "backup")
    ]
    excusing = [finding for finding in innocents if finding not in explaining and finding.verdict == "not storage"]
    idle = [finding for finding in innocents if finding.verdict == "fine"]
    # A degraded volume, or one that loads from a snapshot, is slow also while clients wait for
    # something else. But where processors are short, what a device answers waits for one as well.
    trouble = [
        finding
        for finding in binding
        if (finding.verdict == "degraded" and not _waits_for_processors(finding, signals, t))
        or finding.subject in ("first-touch", "optimizing")
    ]
    best_felt = max((finding.felt or 0.0 for finding in felt), default=0.0)
    # Other waits than for storage excuse it where they take more of the clients' time.
    strong = [finding for finding in excusing if finding.weight > best_felt]
    weak = [finding for finding in excusing if finding not in strong]
    ahead = [
        finding
        for finding in settings
        if finding.subject in ("redo", "applier", "log-buffer", "channel") and finding.weight >= LEAST_WEIGHT
    ]
    behind = [finding for finding in settings if finding not in ahead]
    if felt and not explaining:
        # A full redo log makes the writes that fill the volume: it costs nothing to change.
        cause = [finding for finding in ahead if finding.subject in ("redo", "applier")]
        first = [*trouble, *strong, *cause, *felt]
    else:
        first = [*explaining, *trouble, *strong, *ahead, *felt]
    everything = [*first, *idle, *binding, *ahead, *behind]
    everything += [finding for finding in storage if finding.verdict in ("will bind", "touched")]
    everything += weak
    everything += [finding for finding in storage if finding.verdict == "cannot tell"]
    return list(dict.fromkeys(everything))


def _waits_for_processors(finding: Finding, signals: Signals, t: Thresholds) -> bool:
    """Returns whether a volume answers late while clients hardly wait for it and processors are
    short. False for a volume that has stalled: no wait is counted while nothing is answered."""
    host = signals.host
    used = (host.busy or 0.0) + (host.steal or 0.0)
    short = used >= t.processor_share or (host.pressure or 0.0) >= t.pressure_share
    stalled = any(volume.stalled for volume in signals.volumes if volume.facts.name == finding.volume)
    return (
        short
        and finding.subject == "degraded"
        and not stalled
        and finding.felt is not None
        and finding.felt < t.felt_share
    )


def _make_calm_finding(signals: Signals) -> Finding:
    """Returns the finding where nothing shows: all is well, or too little is known."""
    if not signals.volumes and signals.server is None:
        return read_verdicts()["nothing"].make_finding()
    blind = [
        volume
        for volume in signals.volumes
        if all(share is None for share in volume.use.over.values()) and volume.limits is None
    ]
    if not signals.volumes:
        return read_verdicts()["no-volumes"].make_finding()
    if blind and len(blind) == len(signals.volumes):
        return read_verdicts()["no-limits"].make_finding(blind[0].facts.name)
    return read_verdicts()["fine"].make_finding()


def describe_grain(grain_s: float, exact: bool) -> str:
    """Returns in words how fine the evidence was."""
    each = f"a figure for each {describe_span(round(grain_s)) if grain_s >= 1 else f'{grain_s:g} s'}"
    if exact:
        return f"{each}; time over each limit counted in microseconds"
    if grain_s >= 60:
        return f"{each}; bursts shorter than that are not seen"
    return f"{each}; limits inferred from rate and latency"


def assemble_diagnosis(evidence: Evidence, findings: list[Finding]) -> Diagnosis:
    """Puts a diagnosis together: the headline, at most three findings, and the rest."""
    facts = evidence.facts
    return Diagnosis(
        facts.target,
        findings[0].verdict,
        findings[0].words,
        tuple(findings[:MOST_FINDINGS]),
        tuple(findings[MOST_FINDINGS:]),
        grain=findings[0].grain,
        span_s=evidence.span_s,
        clock=facts.clock,
        storage=tuple(volume.storage or "storage not named" for volume in facts.volumes if volume.role != "member"),
        instance=facts.instance,
        missing=facts.missing,
        notes=evidence.notes,
    )
