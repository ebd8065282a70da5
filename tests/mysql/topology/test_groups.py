"""MySQL's group replication: kill -9 of the primary loses no acknowledged commit, and the rest choose a new primary.

GROUP_KILLS=30 is the whole; without it a group is only refused what it cannot be, as one takes twenty seconds to make.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest
from followed import SMALL, tables, until
from lab_servers import left_of, sql

from headrace import servers
from headrace.errors import HeadraceError, InputError
from headrace.mysql.statements import ask_row
from headrace.servers import Server
from headrace.servers.topology import accounts
from headrace.servers.topology.group import group_up, list_members, query_group_status

KILLS = int(os.environ.get("GROUP_KILLS", "0"))
PRIMARY = """SELECT member_host, member_port FROM performance_schema.replication_group_members
WHERE member_role = 'PRIMARY' AND member_state = 'ONLINE'"""


def primary_of(members: Sequence[Server]) -> Server | None:
    """Returns the member that takes writes: the PRIMARY in the view of a majority."""
    votes: dict[tuple[str, int], int] = {}
    for server in members:
        try:
            if server.state == "running":
                with accounts.open_connection(server, 5.0) as connection:
                    row = ask_row(connection, PRIMARY)
                if row:
                    place = (str(row[0]), int(row[1]))
                    votes[place] = votes.get(place, 0) + 1
        except HeadraceError:
            continue
    place = next((candidate for candidate, count in votes.items() if 2 * count > len(members)), None)
    return next((member for member in members if (member.host, member.port) == place), None)


@pytest.mark.parametrize("size", [-1, 0, 2, 10])
def test_sizes(lab, size):
    with pytest.raises(InputError, match="a group has 3 to 9 members"):
        group_up(lab, "small", size, storage="gp3:4")


def test_without_storage_nothing_is_made(lab):
    with pytest.raises(InputError, match="no storage"):
        group_up(lab, "none", 3)
    assert [left_of(lab, f"none-{number}") for number in (1, 2, 3)] == [[], [], []]


def writes_elsewhere(lab, dead: str, turn: int) -> bool:
    """Returns whether another member than a dead one is the primary and takes a row."""
    try:
        new = primary_of([member for member in list_members(lab, "g") if member.name != dead])
        if new is not None:
            sql(new, f"INSERT INTO shop.t VALUES ({turn}, 1000, 'after')", timeout_s=5)
        return new is not None
    except (HeadraceError, OSError, RuntimeError):
        return False


@pytest.mark.skipif(not KILLS, reason="GROUP_KILLS=N")
def test_kills_lose_nothing(labs, mysql_program):
    outages = []
    with labs.up(time_scale=1_000_000) as lab:
        group_up(lab, "g", 3, storage="gp3:8", settings=SMALL, unpaced=True)
        first = primary_of(list_members(lab, "g"))
        assert first is not None
        sql(first, *tables("shop"))
        acknowledged = []
        for kill in range(KILLS):
            primary = primary_of(list_members(lab, "g"))
            assert primary is not None
            for number in range(200):
                sql(primary, f"INSERT INTO shop.t VALUES ({kill}, {number}, 'x')")
                acknowledged.append((kill, number))
            servers.stop(primary, kill=True)
            began = time.monotonic()
            until(lambda old=primary.name, turn=kill: writes_elsewhere(lab, old, turn), "a new primary", 120)
            outages.append(time.monotonic() - began)
            acknowledged.append((kill, 1000))
            servers.bring_up(lab, name=primary.name)
            until(
                lambda: all(member.is_online for member in query_group_status(list_members(lab, "g"))),
                "a member does not join again",
            )
            for entry in list_members(lab, "g"):
                until(
                    lambda member=entry: set(sql(member, "SELECT client, n FROM shop.t")) == set(acknowledged),
                    f"{entry.name} lacks commits",
                )
        # Nobody is left: the member with everything begins the group anew.
        for entry in list_members(lab, "g"):
            servers.stop(entry, kill=True)
        group_up(lab, "g", 3)
        assert all(member.is_online for member in query_group_status(list_members(lab, "g")))
        primary = primary_of(list_members(lab, "g"))
        assert primary is not None
        sql(primary, f"INSERT INTO shop.t VALUES ({KILLS}, 0, 'anew')")
        for entry in list_members(lab, "g"):
            until(
                lambda member=entry: set(sql(member, "SELECT client, n FROM shop.t")) == {*acknowledged, (KILLS, 0)},
                f"{entry.name} lacks commits after the group was begun anew",
            )
        print(
            f"writes again after {sorted(outages)[len(outages) // 2]:.1f} s in the median, {max(outages):.1f} s at most"
        )
