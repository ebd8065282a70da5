"""Findings as files to install: for sysctl, udev and tuned."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from headrace.advice.host.reading import HostReading, KernelSetting
from headrace.advice.host.table import read_host_checks

WIDTH = 98  # of comments


def as_sysctl(host: str, findings: Sequence[HostReading]) -> str:
    """Returns a file for /etc/sysctl.d."""
    lines = _write_head(host, "/etc/sysctl.d/90-headrace.conf, then: sysctl --system")
    for reading, settings in _select_settings(findings, ("sysctl",)):
        lines += [*_explain_finding(reading), *(f"{setting.key} = {setting.value}" for setting in settings), ""]
    return _finish_file(lines, findings, ("sysctl",))


def as_udev(host: str, findings: Sequence[HostReading]) -> str:
    """Returns a file for /etc/udev/rules.d that matches disks by kind: their numbers change."""
    lines = _write_head(host, "/etc/udev/rules.d/90-headrace.rules, then: udevadm control --reload; udevadm trigger")
    seen: set[str] = set()
    for reading, settings in _select_settings(findings, ("udev",)):
        rules = [rule for setting in settings if (rule := _write_rule(setting)) not in seen]
        seen |= set(rules)
        lines += [*_explain_finding(reading), *dict.fromkeys(rules), ""] if rules else []
    return _finish_file(lines, findings, ("udev",))


def as_tuned(host: str, findings: Sequence[HostReading]) -> str:
    """Returns a profile of tuned: sysctl, sysfs and options of the kernel."""
    lines = _write_head(host, "/etc/tuned/headrace/tuned.conf, then: tuned-adm profile headrace")
    lines += ["[main]", "summary=Settings for MySQL on EBS", ""]
    for section, kinds in (("sysctl", ("sysctl",)), ("sysfs", ("sysfs",))):
        own = list(_select_settings(findings, kinds))
        lines += [f"[{section}]"] if own else []
        for reading, settings in own:
            lines += [*_explain_finding(reading), *(f"{setting.key}={setting.value}" for setting in settings)]
        lines += [""] if own else []
    options = list(_select_settings(findings, ("kernel",)))
    if options:
        lines.append("[bootloader]")
        for reading, _ in options:
            lines += _explain_finding(reading)
        words = " ".join(f"{setting.key}={setting.value}" for _, settings in options for setting in settings)
        lines += [f"cmdline_headrace={words}", ""]
    return _finish_file(lines, findings, ("sysctl", "sysfs", "kernel"))


def _write_rule(setting: KernelSetting) -> str:
    """Writes a setting as a rule of udev."""
    system = "net" if setting.key.startswith("queues/") else "block"
    disk = "" if system == "net" else ', ENV{DEVTYPE}=="disk"'
    head = f'ACTION=="add|change", SUBSYSTEM=="{system}"{disk}, KERNEL=="{setting.match}"'
    return f'{head}, ATTR{{{setting.key}}}="{setting.value}"'


def _select_settings(
    findings: Sequence[HostReading], kinds: tuple[str, ...]
) -> Iterable[tuple[HostReading, tuple[KernelSetting, ...]]]:
    """Yields the findings that have settings of these kinds, each with those settings."""
    for reading in findings:
        settings = tuple(setting for setting in reading.settings if setting.kind in kinds)
        if settings:
            yield reading, settings


def _write_head(host: str, install: str) -> list[str]:
    return [f"# Made by headrace advise --host for {host}", f"# Install: {install}", ""]


def _explain_finding(reading: HostReading) -> list[str]:
    """Returns the reason of a finding as lines of comments."""
    check = read_host_checks()[reading.check]
    text = f"{check.title}: {reading.value} now. {check.why}. Risk: {check.risk}. {check.citation}"
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH)]


def _finish_file(lines: list[str], findings: Sequence[HostReading], kinds: tuple[str, ...]) -> str:
    """Returns the file; findings that it cannot carry are named at its end."""
    omitted = [reading for reading in findings if not any(setting.kind in kinds for setting in reading.settings)]
    for reading in omitted:
        check = read_host_checks()[reading.check]
        subject = f" of {reading.subject}" if reading.subject else ""
        sentence = (
            f"Not in this file: {check.title}{subject}: {reading.value}; wanted: {check.target} ({check.install})."
        )
        lines += [f"# {line}" for line in textwrap.wrap(sentence, WIDTH)]
    return "\n".join(lines).rstrip() + "\n"
