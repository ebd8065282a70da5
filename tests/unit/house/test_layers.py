"""The house as ARCHITECTURE.md draws it: imports go down, and nothing turns in a circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

PACKAGE = ROOT / "python/headrace"

# Rooms that each room of the package may import; itself is always allowed.
GROUND = {"errors", "base"}
MAY = {
    "errors": set(),
    "version": set(),
    "base": {"errors"},
    "workload": GROUND,
    "mysql": GROUND,
    "aws": GROUND,
    "lab": GROUND,
    "catalog": GROUND,
    "api": GROUND | {"lab"},
    "observe": GROUND | {"workload", "lab", "mysql", "aws"},
    "simulation": GROUND | {"workload"},
    "calibration": GROUND | {"workload", "observe", "simulation"},
    "advice": GROUND | {"workload", "mysql"},
    "servers": GROUND | {"lab", "mysql", "aws", "advice"},
    "operate": GROUND | {"lab", "mysql", "aws", "servers", "workload", "observe", "simulation", "planner", "catalog"},
    "planner": GROUND | {"workload", "simulation", "catalog"},
    "bench": GROUND | {"workload", "lab", "mysql", "observe", "simulation"},
    "experiment": GROUND | {"workload", "lab", "mysql", "observe", "simulation", "calibration", "servers", "bench"},
    "studies": GROUND | {"workload", "simulation", "calibration", "servers", "bench", "experiment", "advice"},
    "report": GROUND | {"workload", "planner"},
    "ui": GROUND
    | {"version", "lab", "workload", "observe", "simulation", "calibration", "planner", "studies", "experiment"}
    | {"servers", "operate", "report"},
    "cli": GROUND
    | {"workload", "lab", "mysql", "observe", "simulation", "calibration", "servers", "bench"}
    | {"advice", "catalog", "planner", "experiment", "studies", "report", "api", "operate", "ui"},
    "__main__": {"cli"},
}
# The drawing stays readable: more arrows between rooms than this are too many. Fifteen are those of the page (`ui`), the last is
# that of the samplers to the lab (decision 0018).
MOST_ARROWS = 130


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "python").with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    return {module_of(path): path for path in python_files()}


def executed_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a syntax tree without the bodies of `if TYPE_CHECKING:`: types are named there, nothing is imported."""
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                continue
            yield node
            waiting.append(node)


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules of headrace that a file imports, also inside functions: each the longest name that is a module."""
    targets = set()
    for node in executed_nodes(syntax(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] != "headrace":
                continue
            while name not in modules() and "." in name:
                name = name.rpartition(".")[0]
            targets.add(name)
    return frozenset(targets - {"headrace"})


def room_of(module: str) -> str:
    return module.split(".")[1]


@cache
def arrows() -> dict[tuple[str, str], set[str]]:
    """Arrows between rooms of the package, each with the files that draw it."""
    files_of = defaultdict(set)
    for path in python_files():
        module = module_of(path)
        if module == "headrace":
            continue
        for target in imports(path):
            if room_of(target) != room_of(module):
                files_of[room_of(module), room_of(target)].add(str(path.relative_to(PACKAGE)))
    return dict(files_of)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of nodes of which each reaches each other: strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            circle = set(stack[at:])
            del stack[at:]
            if len(circle) > 1:
                components.append(circle)

    for node in graph:
        if node not in index:
            visit(node)
    return components


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [{"b", "c"}]


def test_imports_go_down():
    unknown = {room_of(module_of(path)) for path in python_files() if path.parent != PACKAGE} - set(MAY)
    assert not unknown, f"{unknown} is new: draw it in ARCHITECTURE.md and say here what it may import"
    wrong = [f"{room} imports {to}: {sorted(files)}" for (room, to), files in arrows().items() if to not in MAY[room]]
    assert not wrong, "\n".join(wrong)


def test_what_may_be_imported_is_imported():
    """A permission nobody needs is an arrow that would not be noticed."""
    unused = {room: may - {to for (of, to) in arrows() if of == room} for room, may in MAY.items()}
    assert not {room: names for room, names in unused.items() if names}


def test_what_may_be_imported_has_no_circle():
    assert not circles(MAY)


def test_few_arrows():
    benchmarks = {room_of(name) for path in (ROOT / "benchmarks").glob("*.py") for name in imports(path)}
    drawn = len(arrows()) + len(benchmarks)
    assert drawn <= MOST_ARROWS, f"{drawn} arrows between rooms; `MAY` above shows which rooms import most"


def test_no_circle_among_files():
    """Circles through a package's `__init__`, which only hands names on, are not counted: whoever imports the package wants the names."""
    graph = {
        module_of(path): {name for name in imports(path) if modules()[name].name != "__init__.py"}
        for path in python_files()
        if path.name != "__init__.py"
    }
    assert not circles(graph)


def public_classes() -> Iterator[tuple[str, str]]:
    for path in python_files():
        for node in syntax(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, module_of(path)


def test_public_classes_have_names_of_their_own():
    places = defaultdict(list)
    for name, module in public_classes():
        places[name].append(module)
    assert not {name: places_of for name, places_of in places.items() if len(places_of) > 1}


def private_uses(path: Path) -> set[str]:
    """Private names (`_name`) of other packages that a file imports or uses through a module."""
    own, names = ".".join(path.relative_to(ROOT / "python").parts[:-1]), set()
    named = {}
    tree = syntax(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "headrace":
            for alias in node.names:
                named[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    used = list(named.values())
    used += [
        f"{named[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and named.get(node.value.id) in modules()
    ]
    for name in used:
        package, _, last = name.rpartition(".")
        if (
            last.startswith("_")
            and not last.startswith("__")
            and name != "headrace._core"
            and not package.startswith(own)
        ):
            names.add(name)
    return names


def test_private_names_stay_in_their_package():
    used = {module_of(path): private_uses(path) for path in python_files()}
    assert not {module: names for module, names in used.items() if names}


# Most modules of headrace that an import executes, itself and the package included.
CLOSURES = {"errors": 2, "base.units": 5, "base.caps": 3, "base.storage": 6}


@pytest.mark.parametrize("module", CLOSURES)
def test_the_bottom_stands_on_little(module):
    code = f"import sys, headrace.{module}; print(*sorted(name for name in sys.modules if name.split('.')[0] == 'headrace'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    executed = done.stdout.split()
    assert f"headrace.{module}" in executed and len(executed) <= CLOSURES[module], executed


# --- crates -----------------------------------------------------------------------------------------------------------

RUST_MAY = {
    "catalog": set(),
    "model": {"catalog"},
    "sim": {"model", "catalog"},
    "cloudwatch": set(),
    "control": {"model", "catalog", "cloudwatch"},
    "store": {"model", "catalog"},
    "protocol": {"control", "model", "catalog"},
    "device": {"store", "model", "catalog"},
    "daemon": {"control", "device", "store", "protocol", "model", "catalog", "cloudwatch", "features"},
    "features": set(),
    "whatif": {"sim", "model", "catalog"},
    "wasm": {"whatif"},
    "py": {"sim", "model", "catalog", "whatif", "features"},
}
CRATES = sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml"))


def test_crates_depend_downwards():
    for crate in CRATES:
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        crates = {name.removeprefix("headrace-") for name in manifest["dependencies"] if name.startswith("headrace-")}
        assert crate in RUST_MAY, f"{crate} is new: draw it in ARCHITECTURE.md and say here what it may depend on"
        assert crates <= RUST_MAY[crate], f"{crate} depends on {crates - RUST_MAY[crate]}"


def features_of(*arguments: str) -> dict[str, set[str]]:
    """Crate and version -> its features, of a package's dependencies. A crate that is built twice, once for build scripts
    and macros, has two sets."""
    words = ["cargo", "tree", "--offline", "--edges", "no-dev", "--prefix", "none", "--format", "{p} {f}", *arguments]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    features = defaultdict(set)
    for line in done.stdout.splitlines():
        parts = line.removesuffix(" (*)").split()
        rest = " ".join(part for part in parts[2:] if part != "(proc-macro)")
        features[f"{parts[0]} {parts[1]}"].add(rest)
    return features


@pytest.mark.parametrize("daemon_features", [["--no-default-features"], []], ids=["demonstration", "whole daemon"])
def test_no_crate_is_compiled_twice(daemon_features):
    """Every crate that both the core and a daemon use has in the daemon the features that it had in the core."""
    core = features_of("-p", "headrace-py")
    daemon = features_of("-p", "headrace-daemon", *daemon_features)
    assert len(core.keys() & daemon.keys()) > 20, "the two share nothing: the comparison compares nothing"
    assert not {
        crate: (core[crate], daemon[crate]) for crate in core.keys() & daemon.keys() if not core[crate] <= daemon[crate]
    }


def test_every_file_of_rust_tests_is_run():
    """Crates whose tests are one program name its files in tests/all.rs: a file that is forgotten there would never run."""
    programs_of = {}
    for crate in CRATES:
        manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
        if manifest["package"].get("autotests", True):
            continue
        folder = ROOT / "crates" / crate / "tests"
        programs_of[crate] = {program["name"] for program in manifest["test"]}
        modules = set(re.findall(r"^mod (\w+);", (folder / "all.rs").read_text(), re.MULTILINE)) - {"common"}
        files = {path.stem for path in folder.glob("*.rs")} | {path.parent.name for path in folder.glob("*/main.rs")}
        assert files == programs_of[crate] | modules, crate
    assert "sim" in programs_of


def test_no_example_in_a_comment_is_left_out():
    """A fence without a language is an example that rustdoc runs. Crates that have none say so in their manifests, since
    rustdoc would read them whole to find that out."""
    for crate in CRATES:
        folder = ROOT / "crates" / crate
        if tomllib.loads((folder / "Cargo.toml").read_text()).get("lib", {}).get("doctest", True):
            continue
        for path in (folder / "src").rglob("*.rs"):
            fences = re.findall(r"^\s*//[/!] ?```(\w*)$", path.read_text(), re.MULTILINE)
            assert {*fences[::2]} <= {"text", "toml"}, (
                f"{path.relative_to(ROOT)} has an example: remove doctest = false"
            )


def rust_module(path: Path, source: Path) -> str:
    """`volume::bucket` for volume/bucket.rs, `volume` for volume.rs and volume/mod.rs, "" for lib.rs."""
    parts = path.relative_to(source).with_suffix("").parts
    return "::".join(part for part in parts if part not in ("mod", "lib"))


def rust_uses(text: str, module: str) -> Iterator[str]:
    """Paths below the crate that a file's code names: `a::b::Name` of `use crate::a::{b::Name, ...}` and `super::...`."""
    text = re.sub(r"//[^\n]*", "", text.split("#[cfg(test)]")[0])
    parent = module.rpartition("::")[0]
    for start, rest in re.findall(r"\b(crate|super)::((?:\w+::)*(?:\w+|\{[^;]*?\}(?=;)))", text):
        base = "" if start == "crate" else parent
        prefix, brace, inner = rest.partition("{")
        names = re.findall(r"[\w:]+", inner) if brace else [""]
        for name in names:
            yield "::".join(part for part in f"{base}::{prefix}{name}".split("::") if part)


def handed_on(text: str) -> dict[str, str]:
    """Name -> the path it is handed on from, of `pub use a::{B, C}`."""
    path_of = {}
    for path in re.findall(r"pub(?:\(crate\))? use ((?:\w+::)+(?:\w+|\{[^;]*\}));", re.sub(r"//[^\n]*", "", text)):
        prefix, brace, inner = path.partition("{")
        for name in re.findall(r"\w+", inner) if brace else [path.rpartition("::")[2]]:
            path_of[name] = f"{prefix}{name}".removeprefix("crate::") if brace else path.removeprefix("crate::")
    return path_of


def rust_graph(crate: str) -> dict[str, set[str]]:
    source = ROOT / "crates" / crate / "src"
    files = {rust_module(path, source): path.read_text() for path in source.rglob("*.rs") if "bin" not in path.parts}
    handing = {module: handed_on(text) for module, text in files.items()}

    def home(path: str) -> str | None:
        """The module a path lives in, through what parents hand on."""
        for _ in range(4):
            module = path
            while module not in files:
                module = module.rpartition("::")[0]
            name = path.removeprefix(module).strip(":").split("::")[0]
            if name not in handing[module]:
                return module
            path = "::".join(part for part in (module, handing[module][name]) if part)
        return None

    graph = {
        module: {place for path in rust_uses(text, module) if (place := home(path)) and place != module}
        for module, text in files.items()
    }
    return {module: targets for module, targets in graph.items() if module}


@pytest.mark.parametrize("crate", CRATES)
def test_no_circle_among_files_of_a_crate(crate):
    assert not circles(rust_graph(crate))


def test_the_model_has_no_clock_no_chance_of_its_own_no_io():
    """The model is pure: names of the standard library that would break that may not appear in it."""
    banned = re.compile(
        r"std::(time|fs|net|thread|process|env|io)\b|Instant|SystemTime|thread_rng|from_os_rng|from_entropy|println!|static mut"
    )
    wrong = []
    for path in sorted((ROOT / "crates/model/src").rglob("*.rs")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if banned.search(line) and not line.strip().startswith("//"):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)
