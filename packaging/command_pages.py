"""Pages of docs/reference that are made from the commands themselves.

    cli.md         every command with its options, defaults and examples
    commands.md    all commands in one table

python packaging/command_pages.py FILE ...           writes pages; the name of a file says which
python packaging/command_pages.py --check FILE ...   exit code 1 when one of them is out of date
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typer.core import TyperArgument

from headrace.cli.app import COMMANDS, commands, walk_commands
from headrace.cli.sharing import list_flags, list_own_options

if TYPE_CHECKING:
    from typer._click.core import Command
    from typer.core import TyperOption

HEAD = """# Commands

Made from the commands by `packaging/command_pages.py`; do not edit. Data goes to stdout, everything else to stderr.

Exit codes: 0 fine, 1 findings (a goal missed, a study off), 2 usage or bad input, 3 could not run, 130 interrupted.
An option of a group holds for all commands below it that name it, and may stand before or behind them, or between:
`headrace --lab DIR volume list`, `headrace volume list --lab DIR`. A group's own value gives way to that of the command.
A file that exists is not overwritten without `--force`; a page or chart that Headrace made is replaced by the next one.
`HEADRACE_DEBUG=1` shows the traceback of an error in Headrace itself.
"""

TREE_HEAD = """# All commands

Made from the commands by `packaging/command_pages.py`; do not edit. Behind a command stand the commands below it:
`headrace volume create`. Commands marked * are for advanced use.

"""
TABLE_HEAD = """
Each name leads to its options, defaults and examples; `headrace COMMAND --help` prints the same. Entries marked *Advanced*
say who needs them; everybody else can skip them.

| command | commands below it | purpose |
|---|---|---|
"""
# Characters of a line of the tree: what a page of the site shows without scrolling sideways.
TREE_WIDTH = 100
# Characters of the column with the name of a command: those of `compare-run` and some room.
NAME_WIDTH = 14

# Subjects of the table, each with its commands in the order in which a reader meets them.
SUBJECTS = {
    "Plan and simulate": ("demo", "plan", "page", "simulate", "predict", "catalog"),
    "Describe a load": ("workload", "calibrate", "compare-run"),
    "Volumes on this machine": ("lab", "volume", "snapshot"),
    "Servers": ("mysql", "advise", "replica", "failover", "backup"),
    "Operate": ("doctor", "watch", "forecast", "fleet", "export"),
    "Measure and prove": ("bench", "prove", "study", "replay"),
}
# Groups and commands for advanced use, with the need that leads to them.
ADVANCED = {
    "lab key": "for encrypted volumes with keys of your own",
    "replay": "for a check of the model against decisions that `headrace volume record` wrote",
    "study": "for a check of the model against published experiments",
}


def reference() -> str:
    """Returns the page of all commands with their options."""
    return HEAD + "".join(_entry(*entry) for entry in walk_commands())


def tree() -> str:
    """Returns the page with all commands: a tree on one screen, and a table with the purpose of
    each command and group."""
    by_name = {name.removeprefix("headrace "): command for name, command in commands()}
    lines, rows = [], []
    for subject, names in SUBJECTS.items():
        lines += [subject, *_lines_of(names, by_name)]
        rows.append(f"| **{subject}** | | |")
        for name in names:
            rows += _rows_of(name, by_name)
    block = "```\n" + "\n".join(lines) + "\n```\n"
    return TREE_HEAD + block + TABLE_HEAD + "\n".join(rows) + "\n"


def _lines_of(names: tuple[str, ...], by_name: dict) -> list[str]:
    """Returns the commands of a subject: those without others below them in a line, then a line for
    each group."""
    alone = [_marked(name) for name in names if not getattr(by_name[name], "commands", None)]
    lines = [f"  {', '.join(alone)}"] if alone else []
    for name in names:
        lines += _group_lines(name, by_name)
    return lines


def _group_lines(name: str, by_name: dict) -> list[str]:
    below = getattr(by_name[name], "commands", None)
    if not below:
        return []
    groups = [child for child in below if getattr(by_name[f"{name} {child}"], "commands", None)]
    text = ", ".join(child for child in below if child not in groups)
    first = f"  {_marked(name):{NAME_WIDTH}}"
    lines = textwrap.wrap(
        text, TREE_WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    )
    for group in groups:
        lines += _group_lines(f"{name} {group}", by_name)
    return lines


def _marked(name: str) -> str:
    return f"{name} *" if name in ADVANCED else name


def _rows_of(name: str, by_name: dict) -> list[str]:
    """Returns the row of a command, and behind it those of the groups below it."""
    below = list(getattr(by_name[name], "commands", {}))
    groups = [child for child in below if getattr(by_name[f"{name} {child}"], "commands", None)]
    links = " \u00b7 ".join(_link(f"{name} {child}", child) for child in below if child not in groups)
    purpose = COMMANDS[name][1] if name in COMMANDS else _first_sentence(by_name[name].help)
    if name in ADVANCED:
        purpose += f" *Advanced: {ADVANCED[name]}.*"
    rows = [f"| {_link(name, f'`{name}`')} | {links} | {_cell(purpose)} |"]
    for group in groups:
        rows += _rows_of(f"{name} {group}", by_name)
    return rows


def _link(name: str, text: str) -> str:
    """Returns a link to the heading of a command in cli.md."""
    return f"[{text}](cli.md#headrace-{name.replace(' ', '-')})"


def _link_text(name: str) -> str:
    """Returns a link within cli.md to the heading of a command."""
    return f"[`{name}`](#{name.replace(' ', '-')})"


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _entry(name: str, command: Command, above: Sequence[Command]) -> str:
    """Formats a command or group; `above`: the groups that it stands in, the outermost first."""
    lines = [f"\n## {name}\n", f"{(command.help or '').strip()}\n"]
    arguments = [param for param in command.params if isinstance(param, TyperArgument)]
    options = list_own_options(command, above)
    words = name.split()
    shared = {" ".join(words[: n + 1]): list_flags(command, above, group) for n, group in enumerate(above)}
    if not getattr(command, "commands", None):
        named = [param.metavar or param.name.upper() for param in arguments]
        lines.append(f"`{' '.join([name, *named])}{' [OPTIONS]' if options or any(shared.values()) else ''}`\n")
    rows = [(param.metavar or param.name.upper(), param) for param in arguments] + [
        (_spelled(param), param) for param in options
    ]
    if rows:
        lines += ["| | | default; range |", "|---|---|---|"]
        lines += [
            f"| `{_cell(label)}` | {_cell(param.help or '')} | {_cell(_default(param))} |" for label, param in rows
        ]
        lines.append("")
    lines += [
        f"Also the options of {_link_text(group)}: {', '.join(f'`{flag}`' for flag in flags)}.\n"
        for group, flags in shared.items()
        if flags
    ]
    if command.epilog:
        lines.append(_epilog(command.epilog))
    return "\n".join(lines)


def _spelled(param: TyperArgument | TyperOption) -> str:
    names = " ".join([*param.opts, *param.secondary_opts])
    if getattr(param, "is_flag", False):
        return names
    choices = getattr(param.type_descriptor, "choices", None) if hasattr(param, "type_descriptor") else None
    return f"{names} {param.metavar or ('|'.join(str(choice) for choice in choices) if choices else 'N')}"


def _default(param: TyperArgument | TyperOption) -> str:
    if param.required:
        return "required"
    value, low, high = param.default, getattr(param, "min", None), getattr(param, "max", None)
    usual = "" if value is None or value is False or callable(value) or value == () else str(value)
    limits = f"{low:,.10g} to {high:,.10g}" if low is not None and high is not None and high < 2**63 - 1 else ""
    return "; ".join(part for part in (usual, limits) if part)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _epilog(text: str) -> str:
    """Formats an epilog: examples become a code block, the rest paragraphs."""
    parts = []
    for part in text.replace("\b\n", "").split("\n\n"):
        if part.startswith("Examples:"):
            parts.append("```sh\n" + "\n".join(line.strip() for line in part.splitlines()[1:]) + "\n```\n")
        else:
            parts.append(f"{part}\n")
    return "\n".join(parts)


# The pages by the name of their file.
PAGES = {"cli.md": reference, "commands.md": tree}


def main(arguments: list[str]) -> int:
    """Writes the pages named, or with --check compares them. Returns an exit code."""
    from headrace.report.output import write_text

    check = "--check" in arguments
    paths = [Path(argument) for argument in arguments if argument != "--check"]
    if not paths or any(path.name not in PAGES for path in paths):
        print(
            f"usage: python packaging/command_pages.py [--check] FILE ..., named {' or '.join(PAGES)}", file=sys.stderr
        )
        return 2
    code = 0
    for path in paths:
        text = PAGES[path.name]()
        if not check:
            write_text(path, text)
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date: run python packaging/command_pages.py {path}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
