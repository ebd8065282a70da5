"""The style guide as a program: sizes of files and functions, paths of one machine, facts without a source. `make lint` runs it."""

from __future__ import annotations

import ast
import csv
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MACHINE_PATHS = re.compile(r"/(home|Users|root|work)/[A-Za-z]")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|todo!|unimplemented!)")


def tracked(*suffixes: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if name.endswith(suffixes) and (ROOT / name).exists()]


def long_functions(path: Path) -> list[str]:
    """Functions whose body is longer than the limit. Signatures do not count: those of commands are their documentation."""
    if path.suffix == ".py":
        return long_python_functions(path)
    found = []
    start = re.compile(r"^(\s*)(?:pub(?:\([a-z]+\))? |async |const )*fn (\w+)")
    lines = path.read_text().splitlines()
    for index, line in enumerate(lines):
        match = start.match(line)
        if not match:
            continue
        indent = len(match[1])
        end = index + 1
        while end < len(lines) and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent or lines[end].lstrip()[0] in "){]"
        ):
            end += 1
            if lines[end - 1].rstrip() == " " * indent + "}":
                break
        length = len("\n".join(lines[index:end]).rstrip().splitlines())
        if length > MAX_FUNCTION_LINES:
            found.append(f"{path.relative_to(ROOT)}:{index + 1}: {match[2]} has {length} lines (at most {MAX_FUNCTION_LINES})")
    return found


def long_python_functions(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.body[0].lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines (at most {MAX_FUNCTION_LINES})")
    return found


def facts_without_source() -> list[str]:
    known = {row["id"] for row in csv.DictReader((ROOT / "data/sources.csv").open())}
    wrong = []
    for name in ("instances_limits.csv", "prices_volumes.csv", "prices_instances.csv", "latency.csv"):
        for number, row in enumerate(csv.DictReader((ROOT / "data" / name).open()), 2):
            source = row.get("source") or ""
            cited = name == "latency.csv" or all(part.split("@")[0] in known for part in re.split(r"[ +;]+", source) if part)
            if not source or not cited:
                wrong.append(f"data/{name}:{number}: no known source ({source!r})")
    return wrong


def main() -> int:
    wrong = facts_without_source()
    for path in tracked(".py", ".rs"):
        lines = path.read_text().splitlines()
        if len(lines) > MAX_FILE_LINES:
            wrong.append(f"{path.relative_to(ROOT)}: {len(lines)} lines (at most {MAX_FILE_LINES})")
        wrong += long_functions(path)
    for path in tracked(".py", ".rs", ".md", ".toml", ".csv", "Makefile"):
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for what, pattern in (("a path of one machine", MACHINE_PATHS), ("unfinished", UNFINISHED)):
                if pattern.search(line):
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()[:100]}")
    print("\n".join(wrong) if wrong else "tidy: nothing to complain about")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
