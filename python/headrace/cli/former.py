"""Options and commands under the names they had before: they still work, with a note on stderr."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# By command: options and their names of today.
OPTIONS: dict[tuple[str, ...], dict[str, str]] = {
    ("advise",): {"--memory": "--memory-gib"},
    ("bench", "list"): {"--on": "--storage"},
    ("bench", "run", "fio"): {"--size": "--size-gib", "--block": "--block-kib"},
    ("bench", "run", "sysbench-fileio"): {"--size": "--size-gib", "--block": "--block-kib"},
    ("compare-run",): {"--plot": "--report"},
    ("lab", "up"): {"--instance-type": "--instance"},
    ("mysql", "up"): {"--memory": "--memory-gib"},
    ("plan",): {"--daily-change": "--daily-change-percent", "--discount": "--discount-percent"},
    ("predict",): {"--plot": "--report"},
    ("prove",): {"--current": "--compare", "--folder": "--store"},
    ("simulate",): {"--plot": "--report"},
    ("volume", "create"): {"--balance": "--start-balance"},
    ("workload", "capture"): {"--data": "--size-gib"},
    ("workload", "import"): {"--start": "--clock-start"},
    ("workload", "show"): {"--plot": "--report"},
}
# Options of `headrace predict` that `headrace simulate` took when it ran databases too.
OF_DATABASES = ("--log-storage", "--cache-gib", "--threads", "--arrivals-tps", "--start")


def as_today(arguments: Sequence[str], note: Callable[[str], None]) -> list[str]:
    """The command line with the names of today. `note` is told of every name that has changed."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    given = {word.partition("=")[0] for word in words[:end]}
    if words[:1] == ["simulate"]:
        if "--replay" in given:
            note(still_works("simulate --replay", "replay"))
            words[0] = "replay"
            words = [word.removeprefix("--replay=") for word in words if word != "--replay"]
        elif any(name in given for name in OF_DATABASES):
            note(still_works("simulate", "predict", " of a database"))
            words[0] = "predict"
    for command, names in OPTIONS.items():
        if tuple(words[: len(command)]) == command:
            words = [_renamed(word, names, note) if index < end else word for index, word in enumerate(words)]
    return words


def still_works(former: str, today: str, of: str = "") -> str:
    """The note about a command that has another name today."""
    return f"note: `headrace {former}`{of} is now `headrace {today}`; this still works in this version"


def _renamed(word: str, names: dict[str, str], note: Callable[[str], None]) -> str:
    name, equals, value = word.partition("=")
    if name not in names:
        return word
    note(f"note: {name} is now {names[name]}; this still works in this version")
    return f"{names[name]}{equals}{value}"
