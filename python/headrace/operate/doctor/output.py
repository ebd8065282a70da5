"""A diagnosis as lines of text, and as Nagios takes it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.operate.doctor.model import Diagnosis, Finding

# Nagios plugin guidelines: OK, WARNING, CRITICAL, UNKNOWN, also the exit codes.
NAGIOS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
# A limit that is felt now is critical; one that is seen or coming, and a setting, is a warning.
CRITICAL = ("felt",)
MOST_EARLIER = 5  # of the lines on earlier episodes; --all shows the others


def get_nagios_code(diagnosis: Diagnosis) -> int:
    """Returns the exit code of a Nagios plugin: 0 OK, 1 warning, 2 critical, 3 unknown."""
    if diagnosis.verdict == "cannot tell":
        return 3
    if diagnosis.exit_code == 0:
        return 0
    return 2 if diagnosis.findings[0].basis in CRITICAL else 1


def build_nagios_line(diagnosis: Diagnosis) -> str:
    """Returns the line of a Nagios plugin, with the figures of the headline behind the bar."""
    head = diagnosis.findings[0]
    figures = " ".join(
        f"{figure.name}={figure.value:.6g}"
        for figure in head.figures
        if figure.value is not None and " " not in figure.name
    )
    words = diagnosis.headline.replace("|", "/").replace("\n", " ")
    return f"DOCTOR {NAGIOS[get_nagios_code(diagnosis)]} - {diagnosis.verdict}: {words}" + (
        f" | {figures}" if figures else ""
    )


def build_lines(
    diagnosis: Diagnosis, everything: bool = False, fold: Callable[[str], list[str]] = lambda line: [line]
) -> list[str]:
    """Returns what a person reads. `fold`: a line of prose on as many lines as it takes; what is to
    be copied (commands) stays whole."""
    printed = [*fold(f"{diagnosis.verdict.upper()}: {diagnosis.headline}"), ""]
    for number, finding in enumerate(diagnosis.findings, start=1):
        printed += _build_finding_lines(number, finding, fold, headline=number == 1)
    if everything:
        for number, finding in enumerate(diagnosis.others, start=len(diagnosis.findings) + 1):
            printed += _build_finding_lines(number, finding, fold)
    elif diagnosis.others:
        printed += [f"{len(diagnosis.others)} more with --all.", ""]
    episodes = diagnosis.earlier if everything else diagnosis.earlier[:MOST_EARLIER]
    below = [f"Earlier: {episode.words}." for episode in episodes]
    if hidden := len(diagnosis.earlier) - len(episodes):
        below.append(f"Earlier: {hidden} more with --all.")
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
    return printed + [piece for line in below for piece in fold(line)]


def _build_finding_lines(
    number: int, finding: Finding, fold: Callable[[str], list[str]], headline: bool = False
) -> list[str]:
    """Returns the lines of a finding: its figures, gain and remedies. The words of a headline stand
    above all lines; if it has nothing else, the list is empty."""
    subject = "" if finding.subject == finding.verdict else f": {finding.subject}"
    head = f"{number}. {finding.verdict}{subject}" + (f", {finding.volume}" if finding.volume else "")
    if headline and not (finding.figures or finding.remedies or finding.gain):
        return []  # the headline has said it all
    printed = fold(head) if headline else [*fold(head), *fold(f"   {finding.words}")]
    for figure in finding.figures:
        printed += fold(f"   - {figure.words}")
    if finding.gain is not None and finding.gain.how and finding.gain.transactions is not None:
        printed += fold(f"   - {finding.gain.how}")
    for remedy in finding.remedies:
        printed += fold(f"   Do: {remedy.what}." + (f" {remedy.cost}." if remedy.cost else ""))
        printed += [f"       {line}" for line in remedy.lines]
        if remedy.undo:
            printed.append(f"   Undo: {remedy.undo}")
        if remedy.rules:
            printed += fold(f"   Rules: {remedy.rules}.")
    return [*printed, ""]
