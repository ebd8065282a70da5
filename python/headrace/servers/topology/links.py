"""A network of the lab: servers with an address each, on a bridge, with links that can be cut.

    bridge hr<lab>             198.18.N.1/24, in the machine's own network
    namespace headrace-<lab>-<server>
        eth0                   198.18.N.M/24; its other end is hr<lab>v<M>, a port of the bridge

A killed process is not a dead host: its last bytes still arrive, and its peers learn of its end at
once. A cut link is silent, like a dead host or a partition. The server's Unix socket still answers
on this machine, so a test can observe the server behind the cut.

The kernel's netem (delay, loss) is not everywhere; benchmarks/relay.py delays in user space.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headrace.base.machine import require_program
from headrace.base.processes import Command, describe_failure, run_to_end
from headrace.errors import CouldNotRun, InputError
from headrace.servers.record import ServerPaths

LOOPBACK = "127.0.0.1"
# 198.18.0.0/15 is for tests of networks and is routed nowhere (RFC 2544, RFC 6890).
NETWORKS = ipaddress.IPv4Network("198.18.0.0/15")
NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # setns(2)
IP_S = 30.0  # a guess: a call takes milliseconds, a busy machine more
# A MAC that no port of the bridge has (locally administered, RFC 7042): frames to it reach nobody.
NOBODY = "02:00:00:00:00:00"
MOST_HOSTS = 253  # of a /24 without the bridge
PORT = 3306  # each server has an address of its own, so all can have MySQL's port

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Link:
    """The link of a server in the lab's network. `lab`: its six digits; `host`: the address."""

    lab: str
    name: str
    host: str

    @property
    def namespace(self) -> str:
        """The name of the server's network namespace."""
        return f"headrace-{self.lab}-{self.name}"

    @property
    def bridge(self) -> str:
        """The name of the lab's bridge."""
        return f"hr{self.lab}"

    @property
    def port(self) -> str:
        """The name of the link's end at the bridge, of at most 15 bytes."""
        return f"hr{self.lab}v{self.host.rpartition('.')[2]}"

    def make(self) -> None:
        """Creates bridge, namespace and link if they are missing. Raises CouldNotRun."""
        gateway = f"{self.host.rpartition('.')[0]}.1"
        if not Path(f"/sys/class/net/{self.bridge}").exists():
            run_ip(f"link add {self.bridge} type bridge")
            run_ip(f"addr add {gateway}/24 dev {self.bridge}")
            run_ip(f"link set {self.bridge} up")
        if (NAMESPACES / self.namespace).exists() and Path(f"/sys/class/net/{self.port}").exists():
            return
        self._drop()
        run_ip(f"netns add {self.namespace}")
        run_ip(f"link add {self.port} type veth peer name eth0 netns {self.namespace}")
        run_ip(f"-n {self.namespace} addr add {self.host}/24 dev eth0")
        run_ip(f"-n {self.namespace} link set lo up")
        run_ip(f"-n {self.namespace} link set eth0 up")
        run_ip(f"link set {self.port} master {self.bridge} up")

    def _drop(self) -> None:
        """Removes the server's namespace and link, as far as they exist. Raises CouldNotRun."""
        if (NAMESPACES / self.namespace).exists():
            run_ip(f"-n {self.namespace} link del eth0", missing_is_fine=True)
            run_ip(f"netns del {self.namespace}")
        if Path(f"/sys/class/net/{self.port}").exists():
            run_ip(f"link del {self.port}")

    def cut(self) -> None:
        """Cuts the link: no frame passes in either direction."""
        run_ip(f"link set {self.port} down")

    def restore(self) -> None:
        """Reverts `cut`."""
        run_ip(f"link set {self.port} up")

    def part(self, other: Link, both: bool = True) -> None:
        """Drops frames to another server, with `both` also from it; both still reach all others."""
        run_ip(f"-n {self.namespace} neigh replace {other.host} lladdr {NOBODY} dev eth0 nud permanent")
        if both:
            other.part(self, both=False)

    def join(self, other: Link, both: bool = True) -> None:
        """Reverts `part`."""
        run_ip(f"-n {self.namespace} neigh del {other.host} dev eth0", missing_is_fine=True)
        if both:
            other.join(self, both=False)

    def run_within(self, work: Callable[[], Answer]) -> Answer:
        """Runs `work` in a thread in the namespace, waits for it, and returns its answer, or raises
        its error. Processes that it starts stay in the namespace."""
        answers: list[Answer] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self._enter_namespace()
                answers.append(work())
            except BaseException as error:  # handed on to the caller below
                errors.append(error)

        thread = threading.Thread(target=run, name=self.namespace)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return answers[0]

    def _enter_namespace(self) -> None:
        """Moves this thread into the network namespace of its server; it cannot return."""
        libc = ctypes.CDLL(None, use_errno=True)
        handle = os.open(NAMESPACES / self.namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(handle, CLONE_NEWNET) != 0:
                reason = os.strerror(ctypes.get_errno())
                raise CouldNotRun(self.namespace, f"cannot be entered: {reason}", "setns(2)", "Run it with sudo.")
        finally:
            os.close(handle)


def find_link(where: ServerPaths, host: str) -> Link | None:
    """Returns a server's link; None for a server at 127.0.0.1, which has none."""
    return None if host == LOOPBACK else Link(get_lab_part(where), where.state.name, host)


def get_lab_part(where: ServerPaths) -> str:
    """Returns the lab's part of names: six hexadecimal digits."""
    return where.run.parent.name[:6]


def require_link(where: ServerPaths, host: str) -> Link:
    """Returns a server's link. Raises InputError if it has none."""
    link = find_link(where, host)
    if link is None:
        rule = "is at 127.0.0.1, so it has no link of its own"
        raise InputError(where.state.name, rule, "docs/guide/replicas.md", "Make it with --own-address.")
    return link


def find_free_host(where: ServerPaths, taken: Iterable[str]) -> str:
    """Returns an address of the lab's network that is not in `taken`; without any there, of a
    network that this machine does not use. Raises InputError if all are taken."""
    used = {host for host in taken if host != LOOPBACK}
    if used:
        network = ipaddress.IPv4Network(f"{min(used)}/24", strict=False)
    else:
        network = _find_free_network(get_lab_part(where))
    hosts = list(network.hosts())[1 : MOST_HOSTS + 1]
    free = next((str(host) for host in hosts if str(host) not in used), None)
    if free is None:
        raise InputError(f"{len(used)} servers", f"a lab's network has {MOST_HOSTS} at most", "", "Destroy one.")
    return free


def _find_free_network(lab: str) -> ipaddress.IPv4Network:
    """Returns a network of 256 addresses that this machine does not use; the lab's name
    (hexadecimal) decides where the search begins. Raises CouldNotRun."""
    used = run_ip("-4 -o addr show") + run_ip("-4 route show")
    networks = list(NETWORKS.subnets(new_prefix=24))
    begin = int(lab, 16) % len(networks)
    for network in (*networks[begin:], *networks[:begin]):
        if not re.search(rf"\b{re.escape(str(network.network_address).rpartition('.')[0])}\.", used):
            return network
    raise CouldNotRun(str(NETWORKS), "is all in use on this machine", "ip addr", "Remove what is not needed.")


def remove_named(where: ServerPaths) -> None:
    """Removes the namespace of a server whose record may be gone, and the bridge after the last."""
    namespace = f"headrace-{get_lab_part(where)}-{where.state.name}"
    if (NAMESPACES / namespace).exists():
        # The bridge's end first: the namespace's end is removed only some time after the namespace.
        run_ip(f"-n {namespace} link del eth0", missing_is_fine=True)
        run_ip(f"netns del {namespace}")
    remove_bridge(get_lab_part(where))


def remove_bridge(lab: str) -> None:
    """Removes a bridge that has no ports."""
    ports = Path(f"/sys/class/net/hr{lab}/brif")
    if ports.is_dir() and not any(ports.iterdir()):
        run_ip(f"link del hr{lab}", missing_is_fine=True)


def run_ip(arguments: str, missing_is_fine: bool = False) -> str:
    """Runs ip(8), with arguments split at blanks, and returns its output. Raises CouldNotRun, with
    `missing_is_fine` not for something that does not exist."""
    command = Command((require_program("ip", "iproute2"), *arguments.split()), what=f"ip {arguments}")
    done = run_to_end(command, IP_S)
    missing = "No such" in done.errors or "Cannot find" in done.errors
    if done.code != 0 and not (missing and missing_is_fine):
        rule = describe_failure(done)
        raise CouldNotRun(f"ip {arguments}", rule, "ip(8)", "Network namespaces take root and their kernel module.")
    return done.output
