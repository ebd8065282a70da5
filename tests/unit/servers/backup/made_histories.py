"""Binary logs made event by event, as the servers' sources lay them out, and put into an archive in
pieces cut anywhere."""

from __future__ import annotations

import hashlib
import struct
import uuid
import zlib

from headrace.mysql import binary_events as kinds
from headrace.mysql.binary_events import MAGIC
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup.history import archive
from headrace.servers.backup.history import events as binlog
from headrace.servers.backup.manifest import Manifest, Packing
from headrace.servers.backup.targets.target import BackupTarget
from headrace.servers.copies.position import BinlogPosition

ROW = 30
BEGAN = 1_795_384_788  # s, Unix: 2026-11-22


class LogFile:
    """A binary log that grows. `gtids`: its transactions with their times, s."""

    def __init__(self, flavor: str, earlier: str) -> None:
        self.flavor, self.raw, self.gtids = flavor, bytearray(MAGIC), []
        self.add(kinds.FORMAT, b"\x04\x00" + b"10.11.19".ljust(50, b"\0") + bytes(60) + b"\x01", 0)
        self.add(
            kinds.PREVIOUS_GTIDS if flavor == "mysql" else kinds.MARIADB_LIST, earlier_gtids_body(earlier, flavor), 0
        )

    def add(self, kind: int, body: bytes, time_s: int, server: int = 1) -> None:
        """An event with its head and checksum."""
        size = 19 + len(body) + 4
        event = kinds.HEADER.pack(time_s, kind, server, size, len(self.raw) + size, 0) + body
        self.raw += event + struct.pack("<I", zlib.crc32(event))

    def commit(self, gtid: str, time_s: int = BEGAN, row_bytes: int = 40) -> None:
        """A transaction of one row."""
        self.gtids.append((gtid, time_s))
        end = 19 + 8 + 4
        if self.flavor == "mariadb":
            domain, server, number = (int(word) for word in gtid.split("-"))
            self.add(kinds.MARIADB_GTID, struct.pack("<QIB", number, domain, 0) + bytes(6), time_s, server)
            self.add(ROW, b"r" * row_bytes, time_s, server)
        else:
            name, _, number = gtid.rpartition(":")
            size = 19 + 42 + 7 + 9 + 4 + 19 + row_bytes + 4 + end
            body = struct.pack("<B16sqBqq", 0, uuid.UUID(name).bytes, int(number), 2, 0, 1)
            body += (time_s * 1_000_000).to_bytes(7, "little") + b"\xfe" + struct.pack("<Q", size)
            self.add(kinds.MYSQL_GTID, body, time_s)
            self.add(ROW, b"r" * row_bytes, time_s)
        self.add(kinds.XID, bytes(8), time_s, 1)

    def rotate(self, name: str) -> None:
        self.add(kinds.ROTATE, struct.pack("<Q", 4) + name.encode(), 0)


def earlier_gtids_body(earlier: str, flavor: str) -> bytes:
    """The body of the event that says what came before a file."""
    result = GtidSet.parse(earlier, flavor)
    if flavor == "mysql":
        body = struct.pack("<Q", len(result.ranges))
        for key, ranges in result.ranges:
            body += uuid.UUID(key).bytes + struct.pack("<Q", len(ranges))
            body += b"".join(struct.pack("<QQ", first, last + 1) for first, last in ranges)
        return body
    lines = [struct.pack("<IIQ", int(key), writer, result.get_last_number(key)) for key, writer in result.writers]
    return struct.pack("<I", len(lines)) + b"".join(lines)


def keep(
    target: BackupTarget, timeline: str, source: str, source_id: str, files: list[LogFile], chance, places=None
) -> None:
    """Puts files into the archive, in pieces cut at `places` of each file, else at random ones."""
    flavor = files[0].flavor
    about = {"flavor": flavor, "version": "10.11.19", "source": source, "source_id": source_id, "began_unix": 1.0}
    about["begins"] = "binlog.000001"
    executed = GtidSet(flavor)
    for place, file in enumerate(files, start=1):
        raw, name = bytes(file.raw), f"binlog.{place:06d}"
        reader, following = binlog.Reader(name), binlog.TransactionParser(name)
        ended = [member for event in reader.feed(raw) if (member := following.see(event)) is not None]
        # The first piece has what the file says of earlier GTIDs.
        drawn = places[place - 1] if places else [chance.randrange(250, len(raw)) for _ in range(chance.randrange(4))]
        cuts = sorted({0, len(raw), *drawn})
        for start, end in zip(cuts, cuts[1:], strict=False):
            mine = [entry for entry in ended if start < entry.ends <= end]
            data = raw[start:end]
            first, last = (mine[0], mine[-1]) if mine else (None, None)
            entry = archive.Entry(
                start, end - start, hashlib.sha256(data).hexdigest(), len(mine),
                first.gtid if first else "", last.gtid if last else "",
                first.time_us if first else 0, last.time_us if last else 0,
            )  # fmt: skip
            gtids = archive.encode_set(archive.make_set((entry.gtid for entry in mine), flavor))
            piece = archive.Piece(
                "live", timeline, name, start, end - start, flavor, gtids, start == 0,
                following.earlier or "" if start == 0 else "",
                "rotate" if end == len(raw) and following.next_file else "", "none", False, "", (entry,),
            )  # fmt: skip
            archive.write_piece(target, piece, data, None)
            executed = executed.union(GtidSet.parse(piece.earlier, flavor)).union(piece.set)
    end = archive.ArchiveEnd(f"binlog.{len(files):06d}", len(files[-1].raw), str(archive.as_position(executed)))
    archive.write_index(target, timeline, about, end, None, new=True)


def base_of(source: str, source_id: str, flavor: str, gtid: str) -> Manifest:
    """A backup at a position."""
    position = BinlogPosition(gtid, "binlog.000001", 4)
    return Manifest(
        f"20261122T000000Z-{source}-00aa", "physical", flavor, "9.7.4", "InnoDB", source, source_id, 1.0, 2.0,
        position, Packing("tar", "none", False), 1, (),
    )  # fmt: skip


def replayed(logs) -> list[str]:
    """The GTIDs of relay logs, in order, read by the same rules."""
    result = []
    for log in logs:
        reader, following = _Relay(log.name), binlog.TransactionParser(log.name)
        result += [entry.gtid for event in reader.feed(log.read_bytes()) if (entry := following.see(event)) is not None]
        assert reader.unfinished == 0 and not following.inside
    return result


class _Relay(binlog.Reader):
    """Events of a relay log say where they ended at the source."""

    def _parse_event(self, raw: bytes) -> binlog.Event:
        moved = bytearray(raw)
        moved[13:17] = bytes(4)
        if self.checksums or moved[4] == kinds.FORMAT:
            moved[-4:] = struct.pack("<I", zlib.crc32(bytes(moved[:-4])))
        return super()._parse_event(bytes(moved))
