"""From evidence to a diagnosis."""

from __future__ import annotations

from dataclasses import replace

from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.advising.gains import Counsel, with_counsel
from headrace.operate.doctor.earlier import find_earlier_episodes
from headrace.operate.doctor.judging import assemble_diagnosis, judge_signals
from headrace.operate.doctor.model import Diagnosis
from headrace.operate.doctor.recorded import diagnose_recording
from headrace.operate.doctor.signals import compute_signals, select_newest
from headrace.operate.doctor.thresholds import Thresholds


def diagnose(evidence: Evidence, counsel: Counsel | None = None, thresholds: Thresholds | None = None) -> Diagnosis:
    """Returns what is wrong, or that nothing is. `counsel`: the basis of advice; None: findings
    without gains and prices. A recording of a device alone is judged whole, other evidence by its
    newest window, with its earlier episodes."""
    thresholds = thresholds or Thresholds()
    if evidence.demand is not None:
        return diagnose_recording(evidence, evidence.demand, counsel or Counsel(), thresholds)
    signals = compute_signals(evidence, thresholds)
    findings = judge_signals(signals, thresholds)
    if counsel is not None:
        findings = with_counsel(findings, evidence, signals, counsel, thresholds)
    judged_s = select_newest(evidence, thresholds.window_s).span_s
    return replace(
        assemble_diagnosis(evidence, findings), earlier=find_earlier_episodes(evidence, thresholds), judged_s=judged_s
    )
