"""Files from others are as they were published, under their licences; the page's own files ask
nobody else."""

from __future__ import annotations

import hashlib
import re
import tomllib

import pytest
from places import ROOT

from headrace.report.page_files import shorten
from headrace.ui.server import MODEL_ADDRESS, read_static_files

STATIC = ROOT / "python/headrace/ui/static"
VENDOR = STATIC / "vendor"
FILES = {file["file"]: file for file in tomllib.loads((VENDOR / "vendor.toml").read_text())["file"]}
OWN = sorted(path for path in STATIC.iterdir() if path.suffix in (".js", ".html", ".css"))


@pytest.mark.parametrize("name", FILES)
def test_a_vendored_file_is_as_published(name):
    about = FILES[name]
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == about["sha256"]
    assert (
        (VENDOR / about["license_file"]).stat().st_size > 500
        and about["version"]
        and about["integrity"].startswith("sha512-")
    )


def test_every_vendored_file_is_listed():
    """Beside them lie their licences, and our declarations of their types."""
    others = {about["license_file"] for about in FILES.values()} | {"vendor.toml"}
    declared = {path.name for path in VENDOR.glob("*.d.*ts") if path.read_text().startswith("// Ours")}
    assert {path.name for path in VENDOR.iterdir()} == set(FILES) | others | declared


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_own_files_make_no_markup_of_text_and_name_no_other_origin(path):
    text = path.read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySet|javascript:", text
    )
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert all(name.startswith("./") for name in re.findall(r'^import .* from "([^"]+)"', text, re.MULTILINE))


# Vague names, as in the package (tests/unit/house/test_names.py); "left" is a side here.
VAGUE = "one|asked|shown|found|told|made|known|said|kept|wanted|held"
VAGUE_NAMES = re.compile(
    rf"\b(?:const|let|function|class)\s+(?:{VAGUE})\b|[(,]\s*(?:/\*\*[^*]*\*/\s*)?(?:{VAGUE})\)?\s*=>"
)


@pytest.mark.parametrize("path", [path for path in OWN if path.suffix == ".js"], ids=lambda path: path.name)
def test_names_are_nouns(path):
    assert not VAGUE_NAMES.findall(path.read_text())


def code_of(text: str) -> str:
    """A module without blanks and comments."""
    return re.sub(r"\s+", "", re.sub(r"/\*.*?\*/", "", re.sub(r"(?m)^\s*//.*$", "", text), flags=re.DOTALL))


@pytest.mark.parametrize("path", [*VENDOR.glob("*.js"), *(path for path in OWN if path.suffix == ".js")], ids=lambda path: path.name)  # fmt: skip
def test_a_module_is_served_with_all_of_its_code(path):
    content = path.read_bytes()
    assert code_of(shorten(content).decode()) == code_of(content.decode()) and len(shorten(content)) <= len(content)


def test_what_stands_between_two_comments_is_served():
    assert (
        shorten(b"/* a */ x(); /* b */\n  // c\n  y(/** @type {any} */ (z)); // d\n")
        == b"/* a */ x(); /* b */\ny((z)); // d\n"
    )


def test_the_page_is_small():
    """Bytes that a browser fetches, gzipped: 150 KiB, and 600 KiB with the model if it is built."""
    sizes = {address: len(file.packed) for address, file in read_static_files().items()}
    model = sizes.pop(MODEL_ADDRESS, 0)
    assert sum(sizes.values()) < 150 << 10 and sum(sizes.values()) + model < 600 << 10


def test_what_is_checked_would_be_noticed():
    """The pattern of other origins leaves the name of SVG alone, which nobody asks."""
    pattern = r"https?://(?!www\.w3\.org/2000/svg)"
    assert re.findall(pattern, "http://www.w3.org/2000/svg https://cdn.example") == ["https://"]
    assert (
        len(
            VAGUE_NAMES.findall(
                "const one = 1; all.map(one => 2); all.map((/** @type {any} */ told) => told); f(oneself => 3)"
            )
        )
        == 3
    )
