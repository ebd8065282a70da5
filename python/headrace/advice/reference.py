"""Writes the table of docs/reference/advice.md from the table the advice works with: `python -m
headrace.advice.reference docs/reference/advice.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.advice.model import RISKS
from headrace.advice.table import GROUPS, ParameterName, ServerParameter, read_parameters, sources
from headrace.advice.values import format_setting

BEGIN, END = "<!-- parameters: written by headrace.advice.reference -->", "<!-- end of parameters -->"
FLAVORS = {"mysql": "MySQL", "mariadb": "MariaDB", "percona": "Percona Server"}
ENGINES = {"innodb": "InnoDB", "myrocks": "MyRocks", "both": ""}


def build_table() -> str:
    """Returns all parameters as markdown, chapter by chapter, and the sources."""
    parts = [BEGIN, ""]
    for group in GROUPS:
        parts += [f"### {group}", ""]
        for parameter in read_parameters().values():
            if parameter.group == group:
                parts += _write_entry(parameter)
    parts += [
        "### Sources",
        "",
        "| key | document |",
        "|---|---|",
        *(f"| {key} | {_escape_cell(text)} |" for key, text in sources().items()),
        "",
        END,
    ]
    return "\n".join(parts)


def _write_entry(parameter: ServerParameter) -> list[str]:
    """Returns the lines of a parameter in markdown: rule, risk, effect, source, and its names by
    flavor."""
    assert parameter.risk in RISKS
    facts = [f"risk: {parameter.risk}", f"felt by: {parameter.applies_to}"]
    facts += [f"{ENGINES[parameter.engine]} only"] if ENGINES[parameter.engine] else []
    facts += [f"effect: {_describe_effect(parameter.effect)}", f"source: {', '.join(parameter.source)}"]
    lines = [f"**`{parameter.id}`** {_escape_cell(parameter.rule)}  ", "; ".join(facts) + "."]
    if parameter.names:
        lines[-1] += "  "
        lines.append("; ".join(_list_names(parameter)) + ".")
    return [*lines, ""]


def _describe_effect(effect: str) -> str:
    """Returns in words whether an effect is simulated, worked out or not estimated."""
    kind, _, reason = effect.partition(":")
    words = {"simulated": "simulated", "arithmetic": "worked out", "none": f"cannot be estimated ({reason.strip()})"}
    return words[kind]


def _list_names(parameter: ServerParameter) -> list[str]:
    """Returns a line for each flavor: each name with its versions and its default."""
    lines = []
    for flavor, label in FLAVORS.items():
        names = [name for name in parameter.names if name.flavor == flavor]
        if names:
            lines.append(f"{label} " + ", ".join(_write_span(name, parameter) for name in names))
    return lines


def _write_span(name: ParameterName, parameter: ServerParameter) -> str:
    """Writes a name with the versions that have it and its default."""
    versions = (
        f"{name.first} on"
        if not name.last
        else name.first
        if name.first == name.last
        else f"{name.first} to {name.last}"
    )
    called = f" `{name.name}`" if name.name != parameter.id else ""
    default = f" (default {format_setting(parameter.kind, name.default)})" if name.default else ""
    return f"{versions}{called}{default}"


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def rewrite_page(page: str) -> str:
    """Returns a text of docs/reference/advice.md with its table written anew."""
    before, begin_mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin_mark and end, f"the page needs {BEGIN} and {END}"
    return before + build_table() + after


def main(arguments: list[str]) -> None:
    path = Path(arguments[0])
    path.write_text(rewrite_page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
