"""The journal of a failover, written before and after every step; and the lease that lets a single
watcher act.

The journal is a file of JSON lines, flushed line by line, that only its owner may read. It has a
failover that was cut off, with what the servers do not show: that the old source was fenced, the
elected server, and the proof that semi-sync worked.
"""

from __future__ import annotations

import calendar
import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.base.files import explain_unwritable
from headrace.errors import CouldNotRun, InputError
from headrace.mysql.gtid import GtidSet
from headrace.mysql.statements import ask_row, run
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.planning.members import (
    GUIDE,
    AckProof,
    FailoverStep,
    FailoverWish,
    Members,
    ScheduledEvent,
    ThreadRun,
)

# A journal is read whole; a failover writes some 30 lines of some 300 bytes.
MAX_BYTES = 16 << 20
# A failover that elected nobody and was left alone for so long is not gone on with: what it found
# and fenced may have been started since. A guess.
STALE_S = 600.0
BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class Unfinished:
    """A failover that began and did not end."""

    wish: FailoverWish
    by: str
    closed: bool = False  # the source was made read-only for it
    age_s: float = 0.0  # since its last line
    stopped: frozenset[str] = frozenset()  # replicas whose receiving it stopped
    rescuing: frozenset[str] = frozenset()  # whose appliers a rescue may have stopped

    def is_over(self, wish: FailoverWish, seen: Members | None) -> bool:
        """Returns whether a failover that elected nobody is outdated: it is long ago, or its source
        takes writes again. Its fence and its proof are not valid any more then."""
        if self.wish.kind != "failover" or self.wish.source != wish.source or self.wish.elected is not None:
            return False
        source = seen.get(wish.source) if seen is not None else None
        return self.age_s > STALE_S or (source is not None and source.write == "ok")

    def is_same(self, wish: FailoverWish) -> bool:
        """Returns whether a call resumes this failover: the same change of the same source."""
        return self.wish.source == wish.source and self.wish.kind == wish.kind

    def joined(self, now: FailoverWish) -> FailoverWish:
        """Returns the journal's wish with the choices of this call. A fence that is older than the
        proof was undone since: the source was seen at work."""
        earlier = self.wish
        proof = now.proof or earlier.proof
        fenced_s = earlier.fenced_s if earlier.fenced_s is not None else now.fenced_s
        if fenced_s is not None and proof is not None and fenced_s < proof.at_s and earlier.elected is None:
            fenced_s = None
        return replace(
            now,
            proof=proof,
            fenced_s=fenced_s,
            elected=earlier.elected or now.elected,
            target=now.target or earlier.target,
            clients_updated=earlier.clients_updated,
            moved=earlier.moved,
            rescued=earlier.rescued,
            had=earlier.had,
            sure=earlier.sure,
            listed=earlier.listed,
            events=earlier.events if earlier.events is not None else now.events,
            scheduled=earlier.scheduled,
        )


@dataclass(frozen=True)
class Handed:
    """Observations of a watch before a source died, for a failover by hand. `received`: what each
    replica had received then, as text: if one has more by now, the source was alive afterwards."""

    proof: AckProof
    events: tuple[ScheduledEvent, ...] | None
    received: Mapping[str, str]


class Journal:
    """The journal's file, opened to append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with explain_unwritable(path, "Name another folder.", GUIDE):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(handle, "r+", encoding="utf-8")

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def alone(self):
        """Holds the file's lock: two failovers of one cluster from one machine exclude each
        other."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "Wait for it, or see what it does: headrace failover status."
            raise LeaseTaken(str(self.path), "another failover of this cluster is under way", GUIDE, hint) from None
        try:
            self._cut_partial_line()
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _cut_partial_line(self) -> None:
        """Removes a last line that a crash cut off, so that the next line is complete."""
        with open(self.path, "rb+") as file:
            content = file.read(MAX_BYTES + 1)
            if content and not content.endswith(b"\n") and len(content) <= MAX_BYTES:
                file.truncate(content.rfind(b"\n") + 1)

    def write(self, event: str, sync: bool = True, **more: Any) -> None:
        """Writes a line, which is on the disk when this returns; `sync` False: it survives this
        program but not this machine, which is enough for what the servers show."""
        line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event} | more
        with explain_unwritable(self.path, "", GUIDE):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())

    def entries(self) -> list[dict[str, Any]]:
        """Reads all lines, except a last line that a crash cut off."""
        self._file.seek(0)
        text = self._file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise InputError(str(self.path), f"a journal has at most {MAX_BYTES:,} bytes", GUIDE, "Set it aside.")
        entries = []
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            try:
                if line:
                    entries.append(json.loads(line))
            except ValueError:
                if number < len(lines) - 1:
                    raise InputError(f"{self.path}:{number}", "is not a line of a journal", GUIDE, "") from None
        return entries

    def begin(self, wish: FailoverWish, by: str) -> None:
        self.write("begin", kind=wish.kind, source=wish.source, by=by, wish=_wish_out(wish))

    def step(self, step: FailoverStep, event: str, **more: Any) -> None:
        """Writes an event of a step. Steps leave traces on the servers, so they need no sync; early
        re-pointing does not, so it is synced."""
        self.write(event, sync=step.action == "repoint-early", step=step.as_dict(), **more)

    def unfinished(self) -> Unfinished | None:
        """Returns the failover that began and did not end, with its progress; None for none."""
        begun: dict[str, Any] | None = None
        changes: dict[str, Any] = {}
        closed = False
        stopped: set[str] = set()
        rescuing: set[str] = set()
        last = 0.0
        for entry in self.entries():
            if entry["event"] != "detected":  # written in this run, before unfinished ones are read
                last = _unix(entry["at"])
            match entry["event"]:
                case "begin":
                    # A second beginning of the same change is its resumption.
                    if begun is None or any(begun[key] != entry[key] for key in ("kind", "source")):
                        closed, changes, stopped, rescuing = False, {}, set(), set()
                    begun = entry
                case "closing":
                    # Others may follow the chosen server by now, so it is chosen again.
                    closed, changes["target"] = True, entry["target"]
                case "doing" if entry["step"]["action"] == "repoint-early":
                    changes["moved"] = (*changes.get("moved", ()), entry["step"]["server"])
                    changes["target"] = entry["step"]["to"]
                case "doing" if entry["step"]["action"] == "rescue":
                    rescuing.add(entry["step"]["server"])
                case "done" if entry["step"]["action"] == "clients":
                    changes["clients_updated"] = True
                case "done" if entry["step"]["action"] == "stop-receive":
                    stopped.add(entry["step"]["server"])
                case "finished" | "given up":
                    begun = None
                case "fenced" if entry.get("boot") == _boot():
                    changes["fenced_s"] = entry["monotonic_s"]
                case "elected":
                    changes["elected"] = entry["server"]
                    changes["had"], changes["sure"] = entry.get("had"), entry.get("sure")
                case "listed":
                    changes["listed"] = True
                case "scheduled":
                    changes["scheduled"] = True
                case "events":
                    changes["events"] = entry["events"]
                case "rescued":
                    changes["rescued"] = True
                case "proof":
                    changes["proof"] = entry["proof"]
        if begun is None:
            return None
        age_s = max(0.0, time.time() - last)
        wish = _wish_in(begun["wish"] | changes)
        return Unfinished(wish, str(begun.get("by", "")), closed, age_s, frozenset(stopped), frozenset(rescuing))

    def last_failover_at(self) -> float | None:
        """Returns when the watcher last failed over by itself, Unix seconds. A failover that was
        refused before an election does not count. None also if a person has acknowledged it
        since."""
        begun, last_at = None, None
        for entry in self.entries():
            if entry["event"] == "begin":
                begun = _unix(entry["at"]) if entry.get("by") == "watch" else None
            elif entry["event"] == "elected" and begun is not None:
                last_at = begun
            elif entry["event"] == "acknowledged":
                last_at = None
        return last_at

    def hand_over(
        self, source: str, proof: AckProof, events: Sequence[ScheduledEvent] | None, received: Mapping[str, str]
    ) -> None:
        """Writes the observations of a watch before its source died, for `handed`."""
        self.write(
            "handed over", source=source, proof=_proof_out(proof), events=events_out(events), received=dict(received)
        )

    def handed(self, source: str) -> Handed | None:
        """Reads the observations of a watch of this source: not long ago, on this boot of the
        machine, without an election or a sign of the source's life since. None for none."""
        handover = None
        for entry in self.entries():
            if entry["event"] == "handed over" and entry["source"] == source:
                fresh = time.time() - _unix(entry["at"]) <= STALE_S
                proof = _proof_in(entry["proof"]) if fresh else None
                events = None if entry["events"] is None else tuple(ScheduledEvent(*each) for each in entry["events"])
                handover = None if proof is None else Handed(proof, events, entry["received"])
            elif entry["event"] in ("elected", "given up"):
                handover = None
        return handover

    def proof(self, proof: AckProof) -> None:
        """Writes the current proof, for a run that resumes this one."""
        self.write("proof", sync=False, proof=_proof_out(proof))

    def hurried(self) -> dict[str, dict[str, int]]:
        """Returns servers whose flushing was reduced for a drain and not restored, with their
        settings."""
        settings: dict[str, dict[str, int]] = {}
        for entry in self.entries():
            if entry["event"] == "hurried":
                settings[entry["server"]] = entry["settings"]
            elif entry["event"] == "unhurried":
                settings.pop(entry["server"], None)
        return settings

    def fenced(self, server: str, how: str) -> None:
        self.write("fenced", server=server, how=how, monotonic_s=time.monotonic(), boot=_boot())


def _unix(at: str) -> float:
    """Returns the Unix seconds of a line's time."""
    return float(calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ")))


def _boot() -> str:
    """Returns an id of this machine's boot: monotonic clocks of other boots cannot be compared."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""


def _proof_out(proof: AckProof) -> dict[str, Any]:
    runs = {name: [run.start_s, run.receiver, run.applier] for name, run in proof.runs.items()}
    return {
        "source": proof.source,
        "at_s": proof.at_s,
        "timeout_s": proof.timeout_s,
        "wait_count": proof.wait_count,
        "ackers": sorted(proof.ackers),
        "clients": proof.clients,
        "runs": runs,
        "boot": _boot(),
    }


def _proof_in(document: Mapping[str, Any]) -> AckProof | None:
    if document["boot"] != _boot():
        return None
    return AckProof(
        document["source"],
        document["at_s"],
        document["timeout_s"],
        document["wait_count"],
        frozenset(document["ackers"]),
        document["clients"],
        {name: ThreadRun(*run) for name, run in document["runs"].items()},
    )


KEPT = ("source", "kind", "target", "by_hand", "accept_loss", "allow_delayed", "errant", "rescue", "alone")


def _wish_out(wish: FailoverWish) -> dict[str, Any]:
    document = {name: getattr(wish, name) for name in KEPT}
    document["events"] = events_out(wish.events)
    return document | {"proof": None if wish.proof is None else _proof_out(wish.proof)}


def _wish_in(document: Mapping[str, Any]) -> FailoverWish:
    seen = ("fenced_s", "elected", "rescued", "listed", "scheduled", "clients_updated")
    values = {name: document[name] for name in (*KEPT, *seen) if name in document}
    proof, had, events, sure = (document.get(name) for name in ("proof", "had", "events", "sure"))
    return FailoverWish(
        **values,
        moved=tuple(document.get("moved", ())),
        proof=None if proof is None else _proof_in(proof),
        had=None if had is None else GtidSet.parse(had["gtid"], had["flavor"]),
        sure=None if sure is None else (bool(sure[0]), tuple(sure[1])),
        events=None if events is None else tuple(ScheduledEvent(*event) for event in events),
    )


def events_out(events: Sequence[ScheduledEvent] | None) -> list[list[str]] | None:
    """Returns events as lists for the journal."""
    return None if events is None else [[event.schema, event.name, event.definer] for event in events]


# --- the lease ------------------------------------------------------------------------------------

LEASE = "headrace_failover"
LEASE_S = 2.0  # how long each server may take to grant it, a guess
HELD_S = 86_400  # how long it is held without a word, s: a day, longer than any drain

# How long one who was killed may go on holding it, s: its server has yet to see that it is gone.
LAST_S = 0.5


class LeaseTaken(CouldNotRun):
    """Raised when another watcher or failover holds the lease."""


@dataclass
class Lease:
    """A named lock on a majority of the replicas, so that of two watchers a single one acts.
    `locks`: the connections that hold it, by server; it ends with its process."""

    hosts: Mapping[str, AddressHost]
    locks: dict[str, Any] = field(default_factory=dict)
    _ready: dict[str, Any] = field(default_factory=dict)
    _warming: set[str] = field(default_factory=set)

    def take(self, source: str | None) -> None:
        """Takes the lock on all servers but `source`, which may be dead (None: on all). Raises
        CouldNotRun if another process holds it, or too few answer."""
        replicas = [host for name, host in sorted(self.hosts.items()) if name != source]
        remaining = [host for host in replicas if host.name not in self.locks]
        refused = []
        # A single server first, the same for everybody: of two processes at once, each with a part
        # of the servers, neither would act.
        while remaining and not self.locks and not refused:
            refused = list(filter(None, [self._take_on(remaining.pop(0))]))
        if not refused:
            with ThreadPoolExecutor(max(len(remaining), 1)) as pool:
                refused = list(filter(None, pool.map(self._take_on, remaining)))
        if len(self.locks) * 2 <= len(replicas):
            self.release()
            if refused:
                rule = f"another watcher or failover holds the lease on {', '.join(refused)}"
                raise LeaseTaken("the lease", rule, GUIDE, "Wait for it; it ends with the one who holds it.")
            rule = f"fewer than a majority of {len(replicas)} servers answer"
            raise CouldNotRun("the lease", rule, GUIDE, "Bring replicas back.")

    def warm(self, hosts: Sequence[AddressHost]) -> None:
        """Connects to the servers beforehand, without taking the lock."""

        def connected(host: AddressHost) -> None:
            with contextlib.suppress(Exception):
                self._ready[host.name] = host.connected(LEASE_S)
            self._warming.discard(host.name)

        for host in hosts:
            if host.name not in {*self._ready, *self.locks, *self._warming}:
                self._warming.add(host.name)
                threading.Thread(target=connected, args=(host,), daemon=True).start()

    def _connections(self, host: AddressHost) -> Iterator[Any]:
        ready = self._ready.pop(host.name, None)
        if ready is not None:
            yield ready
        with contextlib.suppress(Exception):
            yield host.connected(LEASE_S)

    def _take_on(self, host: AddressHost) -> str:
        """Takes the lock on a server; returns the server's name if another process holds it, else
        ""."""
        for connection in self._connections(host):
            try:
                # A server whose own wait_timeout is short would end it in a long drain, unseen.
                run(connection, (f"SET SESSION wait_timeout = {HELD_S}",))
                if ask_row(connection, f"SELECT GET_LOCK('{LEASE}', {LAST_S})")[:1] == (1,):
                    self.locks[host.name] = connection
                    return ""
                connection.close()
                return host.name
            except Exception:
                continue  # a connection that was made beforehand may have died since
        return ""

    def check(self, source: str | None) -> None:
        """Raises CouldNotRun if the lock was lost meanwhile and cannot be taken again."""
        for name, connection in list(self.locks.items()):
            try:
                if ask_row(connection, f"SELECT IS_USED_LOCK('{LEASE}') = CONNECTION_ID()")[:1] != (1,):
                    raise CouldNotRun(name, "no longer holds the lease")
            except Exception:
                del self.locks[name]
        self.take(source)

    def numbers(self, name: str) -> set[int]:
        """Returns the server's id of the connection that holds the lock there."""
        return {self.locks[name].thread_id()} if name in self.locks else set()

    def release(self) -> None:
        for connection in (*self.locks.values(), *self._ready.values()):
            with contextlib.suppress(Exception):
                # A closed connection releases its lock some time later.
                ask_row(connection, f"SELECT RELEASE_LOCK('{LEASE}')")
                connection.close()
        self.locks, self._ready = {}, {}
