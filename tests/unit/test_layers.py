"""Arrows go down only: the imports of every Python package and Rust crate against ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What each part may import of headrace; itself is always allowed.
BASE = {"errors", "_core", "storage", "units", "caps", "settings"}
CORE = BASE | {"core", "workload"}
PYTHON_MAY = {
    "errors": {"_core"},
    "units": set(),
    "caps": set(),
    "settings": {"errors", "units"},
    "storage": {"errors", "_core", "units"},
    "workload": BASE,
    "core": BASE | {"workload"},
    "lab": BASE | {"workload"},
    "mysql": BASE | {"workload", "lab", "prediction"},
    "bench": CORE | {"simulation", "lab"},
    "prove": CORE | {"lab", "mysql", "bench", "planner", "prediction", "calibrating", "simulation"},
    "simulation": CORE,
    "catalog": CORE,
    "prices": CORE | {"catalog"},
    "prediction": CORE,
    "calibrating": CORE,
    "scoring": CORE | {"prediction", "calibrating"},
    "planner": CORE | {"simulation", "prices"},
    "studies": CORE | {"simulation", "catalog", "planner", "prediction", "calibrating", "scoring", "lab", "mysql", "bench"},
    "report": CORE | {"simulation", "catalog", "planner", "studies", "prediction", "bench", "prove"},
    "cli": CORE
    | {"simulation", "catalog", "planner", "studies", "report", "prediction", "calibrating", "scoring", "lab", "bench", "mysql", "prove"},
    "__init__": CORE | {"simulation", "catalog", "prices", "planner", "studies", "prediction", "calibrating", "scoring"},
    "__main__": {"cli"},
}
RUST_MAY = {
    "catalog": set(),
    "model": {"catalog"},
    "sim": {"model", "catalog"},
    "control": {"model", "catalog"},
    "store": set(),
    "device": {"store", "model", "catalog"},
    "daemon": {"control", "device", "store", "model", "catalog"},
    "py": {"sim", "model", "catalog"},
}


def imported(path: Path) -> set[str]:
    """First component below `headrace` of everything a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "headrace" else [node.module]
        for name in names:
            parts = name.split(".")
            if parts[0] == "headrace":
                found.add(parts[1] if len(parts) > 1 else "__init__")
    return found


def part_of(path: Path) -> str:
    return path.relative_to(ROOT / "python/headrace").parts[0].removesuffix(".py")


def test_python_imports_go_down():
    wrong = []
    for path in sorted((ROOT / "python/headrace").rglob("*.py")):
        part = part_of(path)
        assert part in PYTHON_MAY, f"{part} is new: draw it in ARCHITECTURE.md and say here what it may import"
        modules = set(PYTHON_MAY) | {"_core"}
        for target in imported(path):
            # `from headrace import simulate` names the public package, which stands above everything but cli.
            target = target if target in modules else "__init__"
            if target != part and target not in PYTHON_MAY[part] and not (part == "cli" and target == "__init__"):
                wrong.append(f"{path.relative_to(ROOT)} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_the_python_graph_has_no_circles():
    order, left = [], dict(PYTHON_MAY)
    while left:
        free = [part for part, may in left.items() if not (may & set(left)) - {part}]
        assert free, f"a circle among {sorted(left)}"
        order += free
        left = {part: may for part, may in left.items() if part not in free}
    assert order[0] == "errors"
    assert set(order[:5]) == {"errors", "units", "caps", "settings", "storage"}


def test_rust_crates_depend_downwards():
    for crate in sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml")):
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        ours = {name.removeprefix("headrace-") for name in manifest["dependencies"] if name.startswith("headrace-")}
        assert crate in RUST_MAY, f"{crate} is new: draw it in ARCHITECTURE.md and say here what it may depend on"
        assert ours <= RUST_MAY[crate], f"{crate} depends on {ours - RUST_MAY[crate]}"


def test_the_model_has_no_clock_no_chance_of_its_own_no_io():
    """DESIGN: the model is pure. Names of the standard library that would break that may not appear in it."""
    banned = re.compile(
        r"std::(time|fs|net|thread|process|env|io)\b|Instant|SystemTime|thread_rng|from_os_rng|from_entropy|println!|static mut"
    )
    wrong = []
    for path in sorted((ROOT / "crates/model/src").rglob("*.rs")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if banned.search(line) and not line.strip().startswith("//"):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)
