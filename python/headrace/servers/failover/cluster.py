"""The servers of a cluster: named servers of the lab and addresses; finds the source among them,
and their journal."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import InputError
from headrace.lab import Lab
from headrace.lab.place import DEFAULT_DATA_DIR, find_place
from headrace.mysql import parse_address
from headrace.mysql.address import PASSWORD_VARIABLE
from headrace.servers.failover.executor import Executor, Say, discard_message
from headrace.servers.failover.hosts import BY_ID, AddressHost, Ec2Host, make_lab_host
from headrace.servers.failover.journal import Journal
from headrace.servers.failover.lease import Lease
from headrace.servers.failover.observer import LACKS, LOGIN, Observer
from headrace.servers.failover.planning.election import list_followers, list_heads, list_writers
from headrace.servers.failover.planning.members import ONE_CLUSTER, Members, refuse
from headrace.servers.failover.planning.progress import Progress
from headrace.servers.record import find_data_dir
from headrace.servers.server import find, list_servers

MOST_SERVERS = 64  # a guess: one source feeds some dozen replicas


@dataclass
class FailoverCluster:
    """The servers of a cluster by name, and the folder of their journal."""

    hosts: dict[str, AddressHost]
    folder: Path

    def make_observer(self) -> Observer:
        """Returns a new observer of these servers, with connections of its own."""
        return Observer(self.hosts)

    def make_executor(
        self, clients: Path | None = None, say: Say = discard_message, drain_s: float = 3_600.0
    ) -> Executor:
        """Returns an executor with the journal and a new lease of these servers."""
        observer = self.make_observer()
        return Executor(observer, self.open_journal(), Lease(self.hosts), clients, say, drain_s)

    def open_journal(self) -> Journal:
        """Opens the journal of these servers, whose file depends on their names."""
        key = hashlib.sha256("\0".join(sorted(self.hosts)).encode()).hexdigest()[:12]
        return Journal(self.folder / f"{key}.jsonl")

    def read_unfinished(self) -> Progress | None:
        """Returns the change of these servers that began and did not end; None for none."""
        with contextlib.closing(self.open_journal()) as journal:
            return journal.read_unfinished()

    def find_last_failover(self, source: str) -> tuple[float, bool] | None:
        """Returns when the last failover from a server ended, Unix time, s, and whether no
        acknowledged commit is missing since, by all journals of the folder; None if they have none.
        Raises InputError, CouldNotRun."""
        ends = []
        for path in sorted(self.folder.glob("*.jsonl")):
            with contextlib.closing(Journal(path)) as journal:
                ends.append(journal.read().ended.get(source))
        return max(filter(None, ends), default=None)

    def find_dead_source(self) -> str | None:
        """Returns the source of a change that did not end, which is meant if no source is named."""
        unfinished = self.read_unfinished()
        return None if unfinished is None else unfinished.source


def make_cluster(
    names: Sequence[str], lab: Lab | None, folder: Path | None = None, ec2: Sequence[str] = (), rescuer: str = ""
) -> FailoverCluster:
    """Returns the servers of a command line: names of the lab's servers (none: all with a port) or
    addresses. `ec2`: NAME=INSTANCE[,VOLUME...], for servers whose host is an instance; `rescuer`:
    the instance that this program runs on. Raises InputError, CouldNotRun."""
    links = (BY_ID,) if lab is None else (BY_ID, find_data_dir(lab) / "dev/by-id")
    hosts: dict[str, AddressHost] = {}
    if not names:
        if lab is None:
            raise refuse.input("servers", "none were named", "Name them, or add --lab.")
        hosts = {server.name: make_lab_host(server) for server in list_servers(lab) if server.port is not None}
    for name in names:
        host = _make_host(name, lab)
        if host.name in hosts:
            raise refuse.input(name, "stands twice among the servers", "Name each once.")
        hosts[host.name] = host
    for text in ec2:
        name, _, rest = text.partition("=")
        instance, *volumes = rest.split(",")
        are_ids = instance.startswith("i-") and all(volume.startswith("vol-") for volume in volumes)
        if name not in hosts or not are_ids:
            rule = "is NAME=INSTANCE[,VOLUME...] with the name of one of the servers"
            raise refuse.input(f"--ec2 {text[:80]}", rule, "--ec2 db1:3306=i-0123,vol-0456")
        old = hosts[name]
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        hosts[name] = Ec2Host(
            name,
            old.address,
            can_fence=True,
            has_volume=bool(volumes),
            instance=instance,
            volumes=tuple(volumes),
            region=region,
            rescuer=rescuer,
            links=links,
        )
    if not 2 <= len(hosts) <= MOST_SERVERS:
        rule = f"a cluster has 2 to {MOST_SERVERS} servers"
        raise refuse.input(f"{len(hosts)} servers", rule, "Make a replica: headrace replica up.")
    if folder is None:
        folder = get_journal_folder(None if lab is None else find_data_dir(lab))
    return FailoverCluster(hosts, folder)


def get_journal_folder(data_dir: Path | None = None, socket: Path | None = None) -> Path:
    """Returns the folder of journals, in the lab's directory, up or not. Raises InputError."""
    return (find_place(data_dir, socket).data_dir or DEFAULT_DATA_DIR) / "failover"


def _make_host(name: str, lab: Lab | None) -> AddressHost:
    """Returns the host of an address, or of a server's name in the lab (None: no lab is known).
    Raises InputError."""
    if "://" not in name:
        if lab is None:
            raise refuse.input(name, "is a name, and there is no lab", "Give an address: mysql://user@host:port.")
        return make_lab_host(find(lab, name))
    address = parse_address(name)
    if address.host is None:
        rule = "is a socket, which other servers cannot reach"
        raise refuse.input(name, rule, "Give host and port: mysql://user@host:port.")
    return AddressHost(f"{address.host}:{address.port or 3306}", address)


def find_source(seen: Members, named: str | None = None, unfinished: Progress | None = None) -> str:
    """Returns the name of the source: the named server; of a change that was cut off
    (`unfinished`), the elected server if it takes writes; else the server that the others follow,
    or the only one that takes writes. Raises InputError, CouldNotRun if that is not a single
    server."""
    if named is not None:
        if named not in seen:
            raise refuse.input(named, f"is not one of {', '.join(sorted(seen))}")
        return named
    if unfinished is not None:
        if unfinished.elected in list_writers(seen):
            return str(unfinished.elected)
        if unfinished.source in seen:
            return unfinished.source
    # A dead source is still the server that the others follow.
    ranked = {name: len(list_followers(seen, member)) for name, member in seen.items()}
    sources = [name for name, n in ranked.items() if n and not ((state := seen[name].state) and state.channels)]
    if len(sources) == 1:
        return sources[0]
    if len(sources) > 1:
        raise refuse.input(", ".join(sorted(sources)), "are all sources", ONE_CLUSTER)
    _check_answers(seen)
    if len(heads := list_heads(seen)) == 1:
        return heads[0]
    rule = "follow nobody, and nobody follows them" if len(seen) > 1 else "follows nobody"
    raise refuse.run(", ".join(sorted(seen)), rule, "Name the source: --from NAME.")


def _check_answers(seen: Members) -> None:
    """Raises InputError for a refused account, CouldNotRun for servers that do not answer."""
    silent = [seen[name] for name in sorted(seen) if seen[name].state is None]
    for member in silent:
        if member.error.startswith(LOGIN):
            account, _, why = member.error.removeprefix(LOGIN).partition(": ")
            names = ", ".join(each.name for each in silent if each.error == member.error)
            hint = (
                f"Set {PASSWORD_VARIABLE}; is the account allowed from this host (SELECT user, host FROM mysql.user)?"
            )
            raise InputError(f"Cannot log in to {names} as {account}", why, "", hint)
    if silent:
        first = silent[0]
        if first.error.startswith(LACKS):
            hint = "Grant it, or use an administrator's account: a failover changes settings and replication."
            raise refuse.run(first.name, first.error, hint)
        more = f"; nor {'does' if len(silent) == 2 else 'do'} {', '.join(member.name for member in silent[1:])}"
        rule = f"does not answer: {first.error or 'no connection'}{more if len(silent) > 1 else ''}"
        raise refuse.run(first.name, rule, "Bring it back, or name the source: --from NAME.")
