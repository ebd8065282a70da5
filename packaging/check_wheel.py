"""Check that a wheel needs no newer glibc than its tag promises.

    check_wheel.py dist/headrace-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl

Every ELF file in the wheel is read: the versions of GLIBC_* symbols that it imports (PEP 600: a wheel
tagged manylinux_X_Y works with glibc X.Y and newer), and the libraries it is linked with. Prints one
line for each file. Exit code 1 where a file needs a newer glibc, or a library that is not part of
every Linux (PEP 600, the list below).
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

Version = tuple[int, ...]
# Parts of glibc, and libgcc_s, which every distribution installs with it: the lists of PEP 513, 571 and 600.
EVERYWHERE = re.compile(
    r"(ld-linux[\w-]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s)\.so\.\d+|linux-vdso\.so\.1"
)
TAG = re.compile(r"manylinux_(\d+)_(\d+)_")


def promised_glibc(wheel: Path) -> Version | None:
    """Return the glibc version of the wheel's tag; None for a tag that promises none (`linux_x86_64`)."""
    match = TAG.search(wheel.name)
    return None if match is None else (int(match[1]), int(match[2]))


def needed_glibc(elf: ELFFile) -> Version:
    """Return the newest glibc version whose symbols the file imports; (0,) for none."""
    needed: Version = (0,)
    for section in elf.iter_sections():
        if not isinstance(section, GNUVerNeedSection):
            continue
        for _, versions in section.iter_versions():
            for version in versions:
                match = re.fullmatch(r"GLIBC_([\d.]+)", version.name)
                if match is not None:
                    needed = max(needed, tuple(int(part) for part in match[1].split(".")))
    return needed


def needed_libraries(elf: ELFFile) -> list[str]:
    """Return the libraries that the file is linked with."""
    section = elf.get_section_by_name(".dynamic")
    if not isinstance(section, DynamicSection):
        return []
    return [tag.needed for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def problems_of(wheel: Path) -> list[str]:
    """Print what each ELF file of the wheel needs, and return what breaks the promise of its tag."""
    promised, problems, files = promised_glibc(wheel), [], 0
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            try:
                elf = ELFFile(io.BytesIO(archive.read(name)))
            except ELFError:
                continue
            files += 1
            glibc, libraries = needed_glibc(elf), needed_libraries(elf)
            print(f"{name}: glibc {'.'.join(map(str, glibc))}, {', '.join(libraries)}")
            if promised is not None and glibc > promised:
                problems.append(f"{name} needs glibc {'.'.join(map(str, glibc))}")
            if promised is not None:
                problems += [f"{name} needs {each}" for each in libraries if not EVERYWHERE.fullmatch(each)]
    if not files:
        problems.append("it has no compiled file")
    return problems


def main(arguments: list[str]) -> int:
    """Check each wheel that is named; return the exit code."""
    problems = [f"error: {Path(name).name}: {problem}" for name in arguments for problem in problems_of(Path(name))]
    print("\n".join(problems or [f"{Path(name).name}: as its tag says" for name in arguments]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
