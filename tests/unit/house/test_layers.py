"""Arrows go down only: the imports of every Python package and Rust crate against ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from places import ROOT

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


def modules_of(path: Path) -> dict[str, str]:
    """Modules of headrace a file has imported, by the name it calls them: `headrace.observe.formats.series`."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and node.module.split(".")[0] == "headrace":
            for alias in node.names:
                place = ROOT / "python" / Path(*node.module.split("."), alias.name)
                if place.is_dir() or place.with_suffix(".py").exists():
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def private_uses(path: Path) -> set[str]:
    """Private names (`_name`) of other packages that a file imports or uses through a module."""
    own, modules, found = ".".join(path.relative_to(ROOT / "python").with_suffix("").parts[:-1]), modules_of(path), set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "headrace":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names = [f"{modules[node.value.id]}.{node.attr}"]
        for name in names:
            *package, module, last = name.split(".")
            private = last.startswith("_") and not last.startswith("__") and name != "headrace._core"
            if private and own not in (".".join(package), ".".join([*package, module])):
                found.add(name)
    return found


# Uses of private names across packages that are there today. The list only gets shorter: who takes one out strikes it here.
PRIVATE_TODAY = {
    "workload/runs/disk.py": {f"headrace.observe.formats.series.{name}" for name in ("_choose", "_interval", "_slots")},
}


def test_private_names_stay_in_their_package():
    used = {
        str(path.relative_to(ROOT / "python/headrace")): private_uses(path) for path in sorted((ROOT / "python/headrace").rglob("*.py"))
    }
    assert {path: names for path, names in used.items() if names} == PRIVATE_TODAY


# What a module of the bottom executes of headrace, itself and the package included: the facade and the core, and no more.
CLOSURES = {"errors": 3, "units": 2, "caps": 2, "storage": 4}


@pytest.mark.parametrize("module", CLOSURES)
def test_the_bottom_stands_on_little(module):
    code = f"import sys, headrace.{module}; print(*sorted(name for name in sys.modules if name.split('.')[0] == 'headrace'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    executed = done.stdout.split()
    assert f"headrace.{module}" in executed and len(executed) <= CLOSURES[module], executed


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
