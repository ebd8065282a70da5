"""From evidence to a diagnosis."""

from __future__ import annotations

from dataclasses import replace

from headrace.operate.doctor.advising.gains import Counsel, with_counsel
from headrace.operate.doctor.earlier import earlier
from headrace.operate.doctor.judging import MOST_FINDINGS, judged
from headrace.operate.doctor.model import Diagnosis, Finding
from headrace.operate.doctor.signals import newest, signals_of
from headrace.operate.doctor.thresholds import Thresholds
from headrace.observe.evidence.model import Evidence


def diagnose(evidence: Evidence, counsel: Counsel | None = None, thresholds: Thresholds | None = None) -> Diagnosis:
    """Returns what is wrong, or that nothing is. `counsel`: what advice rests on; None: findings
    without gains and prices."""
    thresholds = thresholds or Thresholds()
    signals = signals_of(evidence, thresholds)
    findings = judged(signals, thresholds)
    if counsel is not None:
        findings = with_counsel(findings, evidence, signals, counsel, thresholds)
    judged_s = newest(evidence, thresholds.window_s).span_s
    return replace(assembled(evidence, findings), earlier=earlier(evidence, thresholds), judged_s=judged_s)


def assembled(evidence: Evidence, findings: list[Finding]) -> Diagnosis:
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
