"""Writes server_options.csv and gone_settings.csv: which options real servers have, and how they take settings that have come or gone.

    python make_server_options.py mariadb-10.11.19="/usr/sbin/mariadbd --plugin-load-add=ha_rocksdb" mysql-9.7.4="/opt/mysql/bin/mysqld" ...

Each server is asked for its options (`--verbose --help`) and then, for every name of gone.csv of its flavor, with that setting given. Nothing is started for longer
than that. Run as root (the servers are told --user=nobody) or as anybody.
"""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
GONE = HERE.parents[2] / "python/headrace/advice/gone.csv"


def ask(command: str, *more: str) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        words = shlex.split(command)
        # A wrapper (env, a loader) comes first; --no-defaults must be the server's first option.
        at = next(
            (index for index, word in enumerate(words) if word.startswith("--") and "librar" not in word), len(words)
        )
        words = [*words[:at], "--no-defaults", *words[at:], "--user=nobody", f"--datadir={folder}", *more]
        return subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL
        )


def options(command: str) -> set[str]:
    table = ask(command, "--verbose", "--help").stdout.partition("\n---------")[2]
    names = {line.split(" ")[0] for line in table.splitlines()[1:] if line[:1].isalnum()}
    assert len(names) > 300, f"{command}: no table of variables"
    return {name.replace("-", "_") for name in names if re.fullmatch(r"[a-z][a-z0-9_-]*", name)}


def taken(command: str, flavor: str, name: str, value: str) -> str:
    """accepted, ignored or refused."""
    if flavor == "mysql":
        done = ask(command, f"--{name}={value}", "--validate-config")
        return "refused" if done.returncode != 0 and f"unknown variable '{name}" in done.stderr else "accepted"
    messages = ask(command, f"--{name}={value}", "--verbose", "--help").stderr
    if "unknown variable" in messages:
        return "refused"
    return "ignored" if "was removed" in messages or "Not used or needed" in messages else "accepted"


def main(arguments: list[str]) -> None:
    servers = {label: command for label, _, command in (argument.partition("=") for argument in arguments)}
    options_of = {label: options(command) for label, command in servers.items()}
    with (HERE / "server_options.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["option", *servers])
        for name in sorted(set().union(*options_of.values())):
            writer.writerow([name, *("1" if name in options_of[label] else "" for label in servers)])
    rows = list(csv.DictReader(GONE.open()))
    with (HERE / "gone_settings.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["server", "name", "taken"])
        for label, command in servers.items():
            flavor = label.partition("-")[0]
            for name in dict.fromkeys(row["name"] for row in rows if row["flavor"] == flavor):
                writer.writerow([label, name, taken(command, flavor, name, "1")])


if __name__ == "__main__":
    main(sys.argv[1:])
