"""A diagnosis as lines of text, and as Nagios takes it."""

from __future__ import annotations

from headrace.operate.doctor.model import Diagnosis, Finding

# Nagios plugin guidelines: OK, WARNING, CRITICAL, UNKNOWN, also the exit codes.
NAGIOS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
# What is felt now is critical; what is seen, coming or misconfigured is a warning.
CRITICAL = ("felt",)


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


def lines(diagnosis: Diagnosis, everything: bool = False) -> list[str]:
    """What a person reads."""
    told = [f"{diagnosis.verdict.upper()}: {diagnosis.headline}", ""]
    for number, finding in enumerate(diagnosis.findings, start=1):
        told += _finding(number, finding, headline=number == 1)
    if everything:
        for number, finding in enumerate(diagnosis.others, start=len(diagnosis.findings) + 1):
            told += _finding(number, finding)
    elif diagnosis.others:
        told += [f"{len(diagnosis.others)} more with --all.", ""]
    place = ", ".join(diagnosis.storage) or "volumes not known"
    told.append(
        f"Seen: {diagnosis.target}, {place}"
        + (f" on {diagnosis.instance}" if diagnosis.instance else "")
        + f", {diagnosis.span_s:,.0f} s, {diagnosis.grain}."
    )
    told.append(f"Clock: {diagnosis.clock}.")
    told += [f"Missing: {text}." for text in diagnosis.missing]
    told += [f"Note: {text.rstrip('.')}." for text in diagnosis.notes]
    return told


def _finding(number: int, finding: Finding, headline: bool = False) -> list[str]:
    subject = "" if finding.subject == finding.verdict else f": {finding.subject}"
    head = f"{number}. {finding.verdict}{subject}" + (f", {finding.volume}" if finding.volume else "")
    if headline and not (finding.figures or finding.remedies or finding.gain):
        return []  # the headline has said it all
    told = [head] if headline else [head, f"   {finding.words}"]
    told += [f"   - {one.words}" for one in finding.figures]
    if finding.gain is not None and finding.gain.how and finding.gain.transactions is not None:
        told.append(f"   - {finding.gain.how}")
    for remedy in finding.remedies:
        told.append(f"   Do: {remedy.what}." + (f" {remedy.cost}." if remedy.cost else ""))
        told += [f"       {line}" for line in remedy.lines]
        if remedy.undo:
            told.append(f"   Undo: {remedy.undo}")
        if remedy.rules:
            told.append(f"   Rules: {remedy.rules}.")
    return [*told, ""]
