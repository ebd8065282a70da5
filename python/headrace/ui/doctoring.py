"""A recording that was dropped into the page, judged as `headrace doctor` judges it. Imported when
it is first asked: its report brings the library that draws."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from headrace.base.encoding import to_plain
from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.targets import SourceOptions, read_evidence
from headrace.report.operate import doctor as doctor_report
from headrace.ui.answers import make_plain_view
from headrace.ui.asks import AskDoctor
from headrace.ui.remembered import RememberedFiles
from headrace.ui.spelling import spell_command
from headrace.ui.workloads import clean_name

# Ticks that a page draws: more than it has pixels.
MOST_TICKS = 2_000
# Recordings that are remembered: a MiB each at most.
MOST_RECORDINGS = 16


def doctor(name: str, text: str, storage: str) -> dict[str, object]:
    """Diagnoses a recording, and returns the diagnosis, its view, and at most MOST_TICKS ticks.
    `storage`: today's, "" if the recording has it. Raises InputError."""
    name = clean_name(name)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(text.encode())
        evidence = read_evidence(str(file), SourceOptions(storage=storage or None, members=True))
    diagnosis = diagnose(evidence, Counsel())
    result: dict[str, object] = diagnosis.to_dict() | {"target": name}
    ticks = [tick.to_document() for tick in evidence.list_ticks()]
    words = ["doctor", name, *(["--storage", storage] if storage else [])]
    return {
        "view": make_plain_view(doctor_report.build_view(replace(diagnosis, target=name), ticks)),
        "result": to_plain(result),
        "ticks": [
            {"t_unix": tick["t_unix"], "volumes": tick["volumes"]} for tick in ticks[:: len(ticks) // MOST_TICKS + 1]
        ],
        "commands": [spell_command(words)],
    }


class Recordings:
    """The recordings that the page was given."""

    def __init__(self) -> None:
        self._files = RememberedFiles[tuple[str, str]](MOST_RECORDINGS)

    def judge(self, ask: AskDoctor) -> dict[str, object]:
        """Returns the diagnosis of a recording, and the key `file` by which later questions name
        it. Raises InputError."""
        name, text = self._files.find(ask.file) if ask.file else (clean_name(ask.name), ask.text)
        answer = doctor(name, text, ask.storage)
        return answer | {"name": name, "file": self._files.add(f"{name}\n{text}".encode(), (name, text))}
