"""docs/reference/cli.md, made from the commands themselves.

python -m headrace.cli.reference docs/reference/cli.md            writes it
python -m headrace.cli.reference --check docs/reference/cli.md    exit code 1 when it is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.cli.app import commands

HEAD = """# Commands

Made from the commands by `python -m headrace.cli.reference`; do not edit. Data goes to stdout, everything else to stderr.

Exit codes: 0 fine, 1 findings (a goal missed, a study off), 2 usage or bad input, 3 could not run, 130 interrupted.
A file that exists is not overwritten without `--force`; a page or chart that Headrace made is replaced by the next one.
`HEADRACE_DEBUG=1` shows the traceback of an error in Headrace itself.
"""


def reference() -> str:
    """The whole document."""
    return HEAD + "".join(_entry(name, command) for name, command in commands() if name != "headrace")


def _entry(name: str, command) -> str:
    lines = [f"\n## {name}\n", f"{(command.help or '').strip()}\n"]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    if not getattr(command, "commands", None):
        named = [param.metavar or param.name.upper() for param in arguments]
        lines.append(f"`{' '.join([name, *named])}{' [OPTIONS]' if options else ''}`\n")
    rows = [(param.metavar or param.name.upper(), param) for param in arguments] + [
        (_spelled(param), param) for param in options
    ]
    if rows:
        lines += ["| | | default |", "|---|---|---|"]
        lines += [
            f"| `{_cell(label)}` | {_cell(param.help or '')} | {_cell(_default(param))} |" for label, param in rows
        ]
        lines.append("")
    if command.epilog:
        lines.append(_epilog(command.epilog))
    return "\n".join(lines)


def _spelled(param) -> str:
    names = " ".join([*param.opts, *param.secondary_opts])
    if getattr(param, "is_flag", False):
        return names
    choices = getattr(param.type_descriptor, "choices", None) if hasattr(param, "type_descriptor") else None
    return f"{names} {param.metavar or ('|'.join(str(choice) for choice in choices) if choices else 'N')}"


def _default(param) -> str:
    if param.required:
        return "required"
    value = param.default
    return "" if value is None or value is False or callable(value) or value == () else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _epilog(text: str) -> str:
    """Examples become a code block, the rest paragraphs."""
    parts = []
    for part in text.replace("\b\n", "").split("\n\n"):
        if part.startswith("Examples:"):
            parts.append("```sh\n" + "\n".join(line.strip() for line in part.splitlines()[1:]) + "\n```\n")
        else:
            parts.append(f"{part}\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Writes the file named, or with --check compares it. Returns an exit code."""
    from headrace.report.output import write_text

    check = "--check" in arguments
    paths = [Path(argument) for argument in arguments if argument != "--check"]
    if len(paths) != 1:
        print("usage: python -m headrace.cli.reference [--check] FILE", file=sys.stderr)
        return 2
    if not check:
        write_text(paths[0], reference())
        return 0
    if paths[0].is_file() and paths[0].read_text(encoding="utf-8") == reference():
        return 0
    print(f"{paths[0]} is not what the commands say: run python -m headrace.cli.reference {paths[0]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
