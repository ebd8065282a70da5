"""Ends of servers: the consequences for others, and the end of a replica's channel."""

from __future__ import annotations

import contextlib

from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.mysql.dialect import refuse
from headrace.mysql.state import ServerState, observe
from headrace.mysql.statements import ask_named_safely
from headrace.servers import record as records
from headrace.servers.server import Server, list_servers
from headrace.servers.topology import accounts
from headrace.servers.topology.threads import leave_source


def collect_states(lab: Lab) -> dict[str, ServerState]:
    """Returns the state of each server of the lab that answers, by name."""
    states = {}
    for server in list_servers(lab):
        if server.state == "running":
            with contextlib.suppress(HeadraceError), accounts.open_connection(server) as connection:
                states[server.name] = observe(connection, server.name)
    return states


def _list_followers(server: Server, states: dict[str, ServerState]) -> list[str]:
    """Lists who follows a server: names of the lab's running servers, and server_id and host of
    connected servers outside the lab."""
    if server.port is None:
        return []
    place = (server.host, server.port)
    names = [
        name for name, state in sorted(states.items()) if any(channel.place == place for channel in state.channels)
    ]
    if server.name in states:
        server_ids = {state.server_id for state in states.values()}
        with contextlib.suppress(HeadraceError), accounts.open_connection(server) as connection:
            rows = ask_named_safely(connection, states[server.name].dialect.query_replica_hosts())
            for row in rows:
                # Server_id and Host in both manuals, SHOW REPLICAS.
                number, host = int(row.get("Server_id") or row.get("Server_Id") or 0), row.get("Host")
                if number not in server_ids:
                    names.append(f"server_id {number}{f' at {host}' if host else ''}")
    return names


def list_consequences(lab: Lab, server: Server) -> list[str]:
    """Lists, in words, the consequences of a server's end for others; empty if nobody needs it."""
    if server.state != "running" or server.port is None:
        return []
    states = collect_states(lab)
    effects = []
    if below := _list_followers(server, states):
        effects.append(
            f"{_join_names(below)} {'follows' if len(below) == 1 else 'follow'} it, and would receive nothing"
        )
    own = states.get(server.name)
    for source in list_servers(lab):
        state = states.get(source.name)
        if state is None or own is None or not own.semi_sync.replica_status or not state.semi_sync.source_status:
            continue
        follows = any(channel.place == (source.host, source.port) for channel in own.channels)
        remaining, semi = state.semi_sync.clients - 1, state.semi_sync
        if follows and remaining < semi.wait_count:
            effects.append(
                f"commits on {source.name} wait for {semi.wait_count} acknowledgement{'s' * (semi.wait_count != 1)}, and "
                f"{remaining} replicas could give one: each would wait {semi.timeout_ms / 1000:g} s"
            )
    return effects


def end_channel(server: Server, channel: str) -> None:
    """Ends and removes a channel of a replica, which stays up. Raises InputError for no channel."""
    check_channel(server, channel)
    with records.lock_server(server.paths), accounts.open_connection(server) as connection:
        leave_source(connection, observe(connection, server.name).dialect, channel)


def check_channel(server: Server, channel: str) -> None:
    """Raises InputError if a server has no such channel or does not run."""
    if server.state != "running":
        hint = f"Start it: headrace replica up {server.name}."
        raise refuse.input(server.name, f"is {server.state}, so its channels cannot be changed", hint)
    with accounts.open_connection(server) as connection:
        state = observe(connection, server.name)
    if state.find_channel(channel) is None:
        names = ", ".join(channel.name or "''" for channel in state.channels) or "none"
        raise refuse.input(f"{server.name}: --channel {channel!r}", f"follows no such channel; there are: {names}")


def _join_names(names: list[str]) -> str:
    """Returns names as text, with `and` before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
