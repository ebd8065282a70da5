"""The advice for one server: its settings, what is wrong today, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.advice.current import CurrentSettings
from headrace.advice.model import NOT_ESTIMATED, SAFE, AdvisedSetting, ConfigFinding, ServerVersion
from headrace.advice.output import as_cnf, as_diff, build_record
from headrace.advice.table import read_parameters
from headrace.advice.values import are_same
from headrace.base.encoding import Document

# Actions for a setting; "" if it is as advised. The order is that of the tables.
SET, DECIDE, KEEP = "set", "decide", ""


@dataclass(frozen=True, repr=False)
class Advice(Document, schema="headrace-advice/1", omitted=("server", "has_current", "settings")):
    """The settings of a server for its storage.

    `situation`: storage, memory and processors in a line. `current`: today's settings;
    `has_current`: whether they were read. `settings`: every advised setting, in the order of
    docs/reference/advice.md. `findings`: faults of today's settings. `notes`: assumptions.
    """

    server: ServerVersion
    current: CurrentSettings
    has_current: bool
    situation: str
    settings: tuple[AdvisedSetting, ...]
    findings: tuple[ConfigFinding, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Returns server, storage and the numbers of settings to set, to decide and to keep."""
        counts = [sum(self.choose_action(item) == change for item in self.settings) for change in (SET, DECIDE, KEEP)]
        storage = self.situation.partition("data on ")[2].partition(" (")[0]
        counts_text = "{} settings to set, {} to decide, {} as they are".format(*counts)
        return f"<Advice for {self.server.label} on {storage}: {counts_text}>"

    def __getitem__(self, parameter: str) -> AdvisedSetting:
        """Returns the setting of a parameter, by its name on the server or in the documentation."""
        for item in self.settings:
            if parameter in (item.parameter, item.id):
                return item
        raise KeyError(parameter)

    def __iter__(self) -> Iterator[AdvisedSetting]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def agrees(self) -> bool:
        """True if nothing would change: no active setting differs, and nothing is refused or can
        lose data today."""
        wrong = any(finding.fails_check for finding in self.findings)
        return not wrong and not any(item.differs and item.active for item in self.settings)

    def choose_action(self, item: AdvisedSetting) -> str:
        """Returns the action for a setting: set, decide, or "" where it is as advised.

        The value of today counts, or the default if today's values were not read.
        """
        if item.differs is not None:
            as_advised = not item.differs
        else:
            kind = read_parameters()[item.id].kind
            as_advised = item.settable and bool(item.default) and are_same(kind, item.default, item.value)
        return KEEP if as_advised else SET if item.active else DECIDE

    def to_cnf(self) -> str:
        """Returns the advice as an option file."""
        rocks = any(name.startswith("rocksdb_") for name in self.current.values)
        return as_cnf(self.settings, self.server, self.situation, loads_myrocks=rocks)

    def to_diff(self) -> str:
        """Returns the advice as a change to the option file. Raises InputError without one."""
        return as_diff(self.settings, self.current)

    def list_rows(self) -> list[dict[str, object]]:
        """Returns a row for each setting, for JSON and CSV."""
        return [build_record(item, self.choose_action(item)) for item in self.settings]

    def list_entries(self) -> dict[str, object]:
        """Returns what JSON has of the advice."""
        server = {"flavor": self.server.flavor, "version": self.server.number}
        current = {"current": self.current.label if self.has_current else None}
        return server | super().list_entries() | current | {"advice": self.list_rows()}

    def build_tables(self, narrow: bool = False) -> list[tuple[str, tuple[str, ...], list[tuple]]]:
        """Returns title, columns and rows of each table: what to set, what to decide, and what
        stays.

        `narrow`: risk and effect are in one column with the reason, and the sources are left out.
        """
        keep = [item for item in self.settings if self.choose_action(item) == KEEP]
        # The effect of another value is worth a row, also where nothing is to be done.
        parts = {
            "Set": [item for item in self.settings if self.choose_action(item) == SET],
            "Decide": [item for item in self.settings if self.choose_action(item) == DECIDE],
            "Keep: what another value would bring": [item for item in keep if _is_simulated(item)],
        }
        columns: tuple[str, ...] = ("parameter", "value", "today" if self.has_current else "default", "why")
        columns = columns if narrow else ("chapter", *columns, "risk", "effect", "source")
        tables: list[tuple[str, tuple[str, ...], list[tuple]]] = [
            (title, columns, [self._build_row(item, narrow) for item in items])
            for title, items in parts.items()
            if items
        ]
        rest = ", ".join(f"{item.parameter}={item.value}" for item in keep if not _is_simulated(item))
        if rest:
            title = "Keep: as advised today" if self.has_current else "Keep: as advised by default"
            tables.append((title, ("settings",), [(rest,)]))
        return tables

    def _build_row(self, item: AdvisedSetting, narrow: bool) -> tuple:
        """Returns a setting as a row of `build_tables`, its value in brackets unless it is
        active."""
        value = item.value if item.active else f"({item.value})"
        today = item.current or (f"{item.default} (default)" if item.default else "")
        head = (item.parameter, value, today if self.has_current else item.default)
        why = item.why if item.applies_to == "server" else f"{item.applies_to}: {item.why}"
        effect = item.effect or ""
        if not narrow:
            return (item.group, *head, why, item.risk, effect, ", ".join(read_parameters()[item.id].source))
        risk = "" if item.risk == SAFE else f" ({item.risk})"
        effect_text = f"; {effect}" if effect and not effect.startswith(NOT_ESTIMATED) else ""
        return (*head, f"{why}{risk}{effect_text}")


def _is_simulated(item: AdvisedSetting) -> bool:
    """Returns whether an effect in transactions a second is known."""
    return " tps, " in (item.effect or "")
