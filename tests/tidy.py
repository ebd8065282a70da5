"""The style guide as a program. `make lint` runs it, and tests/unit/house/test_tidy.py.

Sizes of functions, paths of one machine, facts without a source, numeric constants without a comment, prose that
is too wide, layout by hand outside tables of data, and phrases that a reader has to read twice.
"""

from __future__ import annotations

import ast
import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_FUNCTION_LINES = 70
MACHINE_PATHS = re.compile(r"/(home|Users|root|work)/[A-Za-z]")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|todo!|unimplemented!)")
MAX_PROSE_WIDTH = 100
# Phrases that are not plain English or not the field's words, and what to write instead. They are looked for in the texts of
# the package (help, errors, docstrings), in comments, and in what the crates say.
PHRASES = {
    r"\bwhoever\b": "name who it is",
    r"\bof the moment\b": "temporary, or current",
    r"\bso many\b": "say how many",
    r"(?<!\b[Tt]here )\b(is|are) no (?!longer\b|more\b|smaller\b|larger\b|such\b|better\b|worse\b|different\b)[a-z]+": "is not a ...",
    r"\bbeside\b": "with, next to, or compared with",
    r"\b[Kk]ind(ly|ness)\b": "say which signal, and for how long",
    r"^Of (the|those|these) [a-z ]+\.": "a sentence with a verb",
    r"\bwhere there is one\b": "if it has one",
    r"\bMend\b": "Correct",
    r"\bLast words\b": "the remaining output",
    r"\b(is|are) (not )?spoken\b": "supported",
    r"\bthe quickest\b": "the fastest",
}
# Most texts have none of them: one look instead of twelve.
ANY_PHRASE = re.compile("|".join(PHRASES))


# Words with which no sentence of a docstring, comment or text begins: a riddle to a reader who has
# not seen the code. A comment names the thing instead, with its unit and default, or
# begins with a verb where it is about a function.
OPENINGS = re.compile(
    r"(?:^|(?<=[.!?] ))(?:Of|As|Its|What|Whatever|Whether|How|Who|Whose|Whom|Where|Which|That|The same)\b"
)


def tracked(*suffixes: str) -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [ROOT / name for name in names if name.endswith(suffixes) and (ROOT / name).exists()]


def long_functions(path: Path) -> list[str]:
    """Functions whose body is longer than the limit. Signatures do not count: those of commands are their documentation."""
    if path.suffix == ".py":
        return long_python_functions(path)
    wrong = []
    start = re.compile(r"^(\s*)(?:pub(?:\([a-z]+\))? |async |const )*fn (\w+)")
    lines = path.read_text().splitlines()
    for index, line in enumerate(lines):
        match = start.match(line)
        if not match:
            continue
        indent = len(match[1])
        end = index + 1
        while end < len(lines) and (
            not lines[end].strip()
            or len(lines[end]) - len(lines[end].lstrip()) > indent
            or lines[end].lstrip()[0] in "){]"
        ):
            end += 1
            if lines[end - 1].rstrip() == " " * indent + "}":
                break
        length = len("\n".join(lines[index:end]).rstrip().splitlines())
        if length > MAX_FUNCTION_LINES:
            wrong.append(
                f"{path.relative_to(ROOT)}:{index + 1}: {match[2]} has {length} lines (at most {MAX_FUNCTION_LINES})"
            )
    return wrong


def long_python_functions(path: Path) -> list[str]:
    wrong = []
    for node in nodes_of(path.read_text()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.body[0].lineno + 1
            if length > MAX_FUNCTION_LINES:
                wrong.append(
                    f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines (at most {MAX_FUNCTION_LINES})"
                )
    return wrong


def facts_without_source() -> list[str]:
    sources = {row["id"] for row in csv.DictReader((ROOT / "data/sources.csv").open())}
    wrong = []
    for name in ("instances_limits.csv", "prices_volumes.csv", "prices_instances.csv", "latency.csv"):
        for number, row in enumerate(csv.DictReader((ROOT / "data" / name).open()), 2):
            source = row.get("source") or ""
            cited = name == "latency.csv" or all(
                part.split("@")[0] in sources for part in re.split(r"[ +;]+", source) if part
            )
            if not source or not cited:
                wrong.append(f"data/{name}:{number}: no known source ({source!r})")
    return wrong


# Each check looks at the files again; a tree is of some thousand nodes, so not all are kept.
@lru_cache(maxsize=4)
def nodes_of(source: str) -> list[ast.AST]:
    """Returns all nodes of a module, itself first."""
    return list(ast.walk(ast.parse(source)))


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yields string literals, the plain parts of f-strings and comments, each with its line."""
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    yield from comments_of(source)


# A string, in which a # begins nothing, or a comment. Python's own tokenizer takes 15 times as long.
STRING_OR_COMMENT = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|\'{3}(?:[^\\]|\\.)*?\'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(\#[^\n]*)''',
    re.DOTALL,
)


@lru_cache(maxsize=4)
def comments_of(source: str) -> list[tuple[int, str]]:
    """Returns the comments of a Python file, each with its line."""
    comments, number, end = [], 1, 0
    for match in STRING_OR_COMMENT.finditer(source):
        if match[1] is not None:
            number += source.count("\n", end, match.start())
            end = match.start()
            comments.append((number, match[1].lstrip("# ")))
    return comments


def texts_of_rust(source: str) -> Iterator[tuple[int, str]]:
    """Comments and string literals, line by line."""
    for number, line in enumerate(source.splitlines(), 1):
        comment = re.search(r"//[/!]?(.*)", line)
        if comment:
            yield number, comment[1].strip()
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            yield number, text


def comments_of_rust(source: str) -> Iterator[tuple[int, str]]:
    """Yields paragraphs and list items of comments as a line each, with the number of their first.

    Tables, headings and code inside comments are left out.
    """
    number, before, words, fenced = 0, "", [], False
    for line_number, line in enumerate([*source.splitlines(), ""], 1):
        comment = re.match(r"\s*(//[/!]?)(?: (.*))?$", line) or re.search(r"[^:\s]\s+(//) ([^\"]*)$", line)
        marker, text = (comment[1], (comment[2] or "").rstrip()) if comment else ("", "")
        fence = text.lstrip().startswith("```")
        fenced = fenced != fence if marker else False
        item = re.match(r"\s*(?:[-*]|\d+\.) +(.*)", text)
        aside = not text or fence or fenced or text.startswith(("|", "#", "    "))
        if words and (aside or item or marker != before or not line.lstrip().startswith("//")):
            yield number, " ".join(words)
            words = []
        if not aside:
            number = number if words else line_number
            words.append(item[1] if item else text.strip())
        before = marker


def riddles_of_rust(path: Path) -> list[str]:
    """Lists comments of Rust that begin, or have a sentence that begins, with a word of OPENINGS."""
    return [
        f"{path.relative_to(ROOT)}:{number}: begin with the thing, or with a verb: {text[match.start() :][:60]}"
        for number, text in comments_of_rust(path.read_text())
        for match in OPENINGS.finditer(text)
    ]


def riddles(path: Path) -> list[str]:
    """Phrases to avoid, in what is shown to users and in comments."""
    source = path.read_text()
    wrong = []
    for number, text in (texts_of_python if path.suffix == ".py" else texts_of_rust)(source):
        if not ANY_PHRASE.search(text):
            continue
        for pattern, instead in PHRASES.items():
            match = re.search(pattern, text)
            if match:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: plain English: {match[0]!r}; write: {instead}")
    return wrong


def prose_of(source: str, messages: bool) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs of docstrings, comments as a whole, and with `messages` all other texts of some
    words (an f-string by its first part), each in a line with the number of its first."""
    inside, docstrings = set(), set()
    for node in nodes_of(source):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values[1:]}
        elif isinstance(node, ast.Expr):
            docstrings.add(id(node.value))
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value):
            continue
        elif id(node) in docstrings or (messages and id(node) not in inside):
            for paragraph in re.split(r"\n\s*\n", node.value):
                yield node.lineno, " ".join(paragraph.split())
    lines, first, words = source.splitlines(), 0, []
    for number, text in comments_of(source):
        if words and not (number == first + len(words) and lines[number - 1].strip().startswith("#")):
            yield first, " ".join(words)
            words = []
        first = first if words else number
        words.append(text)
        if not lines[number - 1].strip().startswith("#"):
            yield first, " ".join(words)
            words = []
    yield first, " ".join(words)


def openings(path: Path) -> list[str]:
    """Returns the texts of a Python file with a sentence that begins with a word of OPENINGS. A generated file
    is corrected at its source; messages count in the package alone, because tests quote them."""
    source, messages = path.read_text(), path.is_relative_to(ROOT / "python")
    if "Generated from" in source[:500]:
        return []
    return [
        f"{path.relative_to(ROOT)}:{number}: begins with {match[0]!r}: write the noun or the verb: {text[match.start() :][:60]!r}"
        for number, text in prose_of(source, messages)
        for match in OPENINGS.finditer(text)
    ]


def wide_prose(path: Path) -> list[str]:
    """Comments and docstrings wider than the limit. Code may be wider; tables and addresses in prose cannot be folded."""
    source = path.read_text()
    lines = source.splitlines()
    numbers = set()
    if path.suffix == ".py":
        for node in nodes_of(source):
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) and ast.get_docstring(node):
                numbers |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        numbers |= {number for number, line in enumerate(lines, 1) if line.strip().startswith("#")}
    else:
        numbers = {number for number, line in enumerate(lines, 1) if line.strip().startswith("//")}
    return [
        f"{path.relative_to(ROOT)}:{number}: prose is {len(lines[number - 1])} wide (at most {MAX_PROSE_WIDTH})"
        for number in sorted(numbers)
        if len(lines[number - 1]) > MAX_PROSE_WIDTH
        and not re.search(r"https?://|>>>|^\s*(//[/!]?)?\s*\||\S {2,}\S|//! {2,}\S", lines[number - 1])
    ]


def is_number(node: ast.AST | None) -> bool:
    """A number other than 0 and 1, or a product or power of numbers."""
    match node:
        case ast.UnaryOp(_, operand):
            return is_number(operand)
        case ast.BinOp(first, _, second):
            return is_number(first) and is_number(second)
        case ast.Constant(value):
            return isinstance(value, int | float) and not isinstance(value, bool)
    return False


def bare_constants(path: Path) -> list[str]:
    """Numeric constants of a module without a comment on their line, or above the lines without a gap they stand in."""
    source = path.read_text()
    lines, wrong = source.splitlines(), []
    commented = {number for number, _ in comments_of(source)}
    module = nodes_of(source)[0]
    assert isinstance(module, ast.Module)
    for node in module.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if not is_number(value):
            continue
        first = node.lineno
        while first > 1 and lines[first - 2].strip() and first - 1 not in commented:
            first -= 1
        if not commented & {first - 1, *range(node.lineno, node.end_lineno + 1)}:
            wrong.append(
                f"{path.relative_to(ROOT)}:{node.lineno}: a number without a comment: {lines[node.lineno - 1].strip()[:60]}"
            )
    return wrong


def laid_out_by_hand(path: Path) -> list[str]:
    """`# fmt: skip` anywhere but at a table of data: a list, tuple, set or dictionary that is given a name."""
    source = path.read_text()
    tables = set()
    for node in nodes_of(source):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        value = node.value
        if isinstance(value, ast.List | ast.Tuple | ast.Dict | ast.Set) or (isinstance(value, ast.Call) and value.args):
            tables |= set(range(node.lineno, node.end_lineno + 1))
    return [
        f"{path.relative_to(ROOT)}:{number}: `fmt: skip` outside a table of data"
        for number, comment in comments_of(source)
        if comment.startswith("fmt: skip") and number not in tables
    ]


def complaints() -> list[str]:
    wrong = facts_without_source()
    for path in tracked(".py", ".rs"):
        wrong += openings(path) if path.suffix == ".py" else riddles_of_rust(path)
        wrong += long_functions(path)
        for_users = path.is_relative_to(ROOT / "python") or (
            path.is_relative_to(ROOT / "crates") and "tests" not in path.parts
        )
        if for_users:
            wrong += riddles(path) + wide_prose(path)
        if path.is_relative_to(ROOT / "python"):
            wrong += bare_constants(path) + laid_out_by_hand(path)
    for path in tracked(".py", ".rs", ".md", ".toml", ".csv", "Makefile"):
        if path == Path(__file__):
            continue
        text = path.read_text()
        for what, pattern in (("a path of one machine", MACHINE_PATHS), ("unfinished", UNFINISHED)):
            for match in pattern.finditer(text):
                number = text.count("\n", 0, match.start()) + 1
                line = text.splitlines()[number - 1].strip()
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {what}: {line[:100]}")
    return wrong


def main() -> int:
    wrong = complaints()
    print("\n".join(wrong) if wrong else "tidy: nothing to complain about")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
