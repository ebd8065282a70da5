"""A diagnosis as lines of text, and as Nagios takes it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.operate.doctor.model import Diagnosis, Finding

# Nagios plugin guidelines: OK, WARNING, CRITICAL, UNKNOWN, also the exit codes.
NAGIOS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
# What is felt now is critical; what is seen, coming or misconfigured is a warning.
CRITICAL = ("felt",)
MOST_EARLIER = 5  # lines of the time before that a reader takes in; the rest stands behind --all


def nagios_code(diagnosis: Diagnosis) -> int:
    """0 to 3, as Nagios means them."""
    if diagnosis.verdict == "cannot tell":
        return 3
    if diagnosis.exit_code == 0:
        return 0
    return 2 if diagnosis.findings[0].basis in CRITICAL else 1


def nagios_line(diagnosis: Diagnosis) -> str:
    """The line, with its figures behind the bar."""
    head = diagnosis.findings[0]
    figures = " ".join(
        f"{one.name}={one.value:.6g}" for one in head.figures if one.value is not None and " " not in one.name
    )
    words = diagnosis.headline.replace("|", "/").replace("\n", " ")
    return f"DOCTOR {NAGIOS[nagios_code(diagnosis)]} - {diagnosis.verdict}: {words}" + (
        f" | {figures}" if figures else ""
    )


def lines(
    diagnosis: Diagnosis, everything: bool = False, fold: Callable[[str], list[str]] = lambda line: [line]
) -> list[str]:
    """What a person reads. `fold`: a line of prose on as many lines as it takes; what is to be
    copied (commands) stays whole."""
    told = [*fold(f"{diagnosis.verdict.upper()}: {diagnosis.headline}"), ""]
    for number, finding in enumerate(diagnosis.findings, start=1):
        told += _finding(number, finding, fold, headline=number == 1)
    if everything:
        for number, finding in enumerate(diagnosis.others, start=len(diagnosis.findings) + 1):
            told += _finding(number, finding, fold)
    elif diagnosis.others:
        told += [f"{len(diagnosis.others)} more with --all.", ""]
    shown = diagnosis.earlier if everything else diagnosis.earlier[:MOST_EARLIER]
    below = [f"Earlier: {one.words}." for one in shown]
    if left := len(diagnosis.earlier) - len(shown):
        below.append(f"Earlier: {left} more with --all.")
    place = ", ".join(diagnosis.storage) or "volumes not known"
    below.append(
        f"Seen: {diagnosis.target}, {place}"
        + (f" on {diagnosis.instance}" if diagnosis.instance else "")
        + f", {diagnosis.span_s:,.0f} s, {diagnosis.grain}."
        + (f" Judged: the newest {diagnosis.judged_s:,.0f} s." if 0 < diagnosis.judged_s < diagnosis.span_s else "")
    )
    below.append(f"Clock: {diagnosis.clock}.")
    below += [f"Missing: {text}." for text in diagnosis.missing]
    below += [f"Note: {text.rstrip('.')}." for text in diagnosis.notes]
    return told + [piece for line in below for piece in fold(line)]


def _finding(number: int, finding: Finding, fold: Callable[[str], list[str]], headline: bool = False) -> list[str]:
    subject = "" if finding.subject == finding.verdict else f": {finding.subject}"
    head = f"{number}. {finding.verdict}{subject}" + (f", {finding.volume}" if finding.volume else "")
    if headline and not (finding.figures or finding.remedies or finding.gain):
        return []  # the headline has said it all
    told = fold(head) if headline else [*fold(head), *fold(f"   {finding.words}")]
    for one in finding.figures:
        told += fold(f"   - {one.words}")
    if finding.gain is not None and finding.gain.how and finding.gain.transactions is not None:
        told += fold(f"   - {finding.gain.how}")
    for remedy in finding.remedies:
        told += fold(f"   Do: {remedy.what}." + (f" {remedy.cost}." if remedy.cost else ""))
        told += [f"       {line}" for line in remedy.lines]
        if remedy.undo:
            told.append(f"   Undo: {remedy.undo}")
        if remedy.rules:
            told += fold(f"   Rules: {remedy.rules}.")
    return [*told, ""]
