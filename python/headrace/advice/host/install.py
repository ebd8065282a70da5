"""Findings as files to install: for sysctl, udev and tuned."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from headrace.advice.host.reading import HostReading, KernelSetting
from headrace.advice.host.table import host_checks

WIDTH = 98  # of comments


def as_sysctl(host: str, findings: Sequence[HostReading]) -> str:
    """For /etc/sysctl.d."""
    lines = _head(host, "/etc/sysctl.d/90-headrace.conf, then: sysctl --system")
    for reading, settings in _of(findings, ("sysctl",)):
        lines += [*_why(reading), *(f"{one.key} = {one.value}" for one in settings), ""]
    return _made(lines, findings, ("sysctl",))


def as_udev(host: str, findings: Sequence[HostReading]) -> str:
    """For /etc/udev/rules.d; disks are matched by kind, since their numbers change."""
    lines = _head(host, "/etc/udev/rules.d/90-headrace.rules, then: udevadm control --reload; udevadm trigger")
    seen: set[str] = set()
    for reading, settings in _of(findings, ("udev",)):
        rules = [rule for one in settings if (rule := _rule(one)) not in seen]
        seen |= set(rules)
        lines += [*_why(reading), *dict.fromkeys(rules), ""] if rules else []
    return _made(lines, findings, ("udev",))


def as_tuned(host: str, findings: Sequence[HostReading]) -> str:
    """A profile of tuned: sysctl, sysfs and options of the kernel."""
    lines = _head(host, "/etc/tuned/headrace/tuned.conf, then: tuned-adm profile headrace")
    lines += ["[main]", "summary=Settings for MySQL on EBS", ""]
    for section, kinds in (("sysctl", ("sysctl",)), ("sysfs", ("sysfs",))):
        own = list(_of(findings, kinds))
        lines += [f"[{section}]"] if own else []
        for reading, settings in own:
            lines += [*_why(reading), *(f"{one.key}={one.value}" for one in settings)]
        lines += [""] if own else []
    options = list(_of(findings, ("kernel",)))
    if options:
        lines.append("[bootloader]")
        for reading, _ in options:
            lines += _why(reading)
        words = " ".join(f"{one.key}={one.value}" for _, settings in options for one in settings)
        lines += [f"cmdline_headrace={words}", ""]
    return _made(lines, findings, ("sysctl", "sysfs", "kernel"))


def _rule(setting: KernelSetting) -> str:
    system = "net" if setting.key.startswith("queues/") else "block"
    disk = "" if system == "net" else ', ENV{DEVTYPE}=="disk"'
    head = f'ACTION=="add|change", SUBSYSTEM=="{system}"{disk}, KERNEL=="{setting.match}"'
    return f'{head}, ATTR{{{setting.key}}}="{setting.value}"'


def _of(
    findings: Sequence[HostReading], kinds: tuple[str, ...]
) -> Iterable[tuple[HostReading, tuple[KernelSetting, ...]]]:
    for reading in findings:
        settings = tuple(one for one in reading.settings if one.kind in kinds)
        if settings:
            yield reading, settings


def _head(host: str, install: str) -> list[str]:
    return [f"# Made by headrace advise --host for {host}", f"# Install: {install}", ""]


def _why(reading: HostReading) -> list[str]:
    check = host_checks()[reading.check]
    told = f"{check.title}: {reading.value} now. {check.why}. Risk: {check.risk}. {check.citation}"
    return [f"# {line}" for line in textwrap.wrap(told, WIDTH)]


def _made(lines: list[str], findings: Sequence[HostReading], kinds: tuple[str, ...]) -> str:
    """The file; findings that it cannot carry are named at its end."""
    left = [one for one in findings if not any(setting.kind in kinds for setting in one.settings)]
    for one in left:
        check = host_checks()[one.check]
        subject = f" of {one.subject}" if one.subject else ""
        told = f"Not in this file: {check.title}{subject}: {one.value}; wanted: {check.wanted} ({check.install})."
        lines += [f"# {line}" for line in textwrap.wrap(told, WIDTH)]
    return "\n".join(lines).rstrip() + "\n"
