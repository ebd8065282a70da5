#!/bin/bash
# SQLite on an io2 volume with 500 IOPS, then on the same volume, mounted and in use, with 5,000: random lookups in a table that is not in memory.
# Run as root; takes about 20 seconds.
#
# Everything lies in a folder of its own and is gone afterwards. Needs xfsprogs and python3 with its sqlite3 module.
set -euo pipefail

export HEADRACE_LAB
HEADRACE_LAB=$(mktemp -d /tmp/lab-XXXXXX)
MOUNTED=$(mktemp -d)
trap 'umount "$MOUNTED" 2>/dev/null || true; headrace lab down --force >/dev/null 2>&1 || true; rm -rf "$HEADRACE_LAB"; rmdir "$MOUNTED"' EXIT

# Modifications take hours on EC2; here a day of that passes in a second.
headrace lab up --metrics-port 0 --api-port 0 --time-scale 86400
headrace volume create io2:100:500 --name db > /dev/null
headrace volume attach db --name sdf > /dev/null
mkfs.xfs -q "$HEADRACE_LAB/dev/sdf"
mount "$HEADRACE_LAB/dev/sdf" "$MOUNTED"

python3 - "$MOUNTED/shop.db" <<'PYTHON'
import sqlite3, sys

shop = sqlite3.connect(sys.argv[1])
shop.execute("create table orders (id integer primary key, note text)")
shop.executemany("insert into orders (note) values (?)", (("x" * 1000,) for _ in range(200_000)))
shop.commit()
PYTHON

lookups() {
    # The page cache is emptied of the file first; what SQLite itself keeps (2 MB) is 1 % of it.
    python3 - "$MOUNTED/shop.db" <<'PYTHON'
import os, random, sqlite3, sys, time

file = os.open(sys.argv[1], os.O_RDONLY)
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
shop = sqlite3.connect(sys.argv[1])
began, count, chance = time.monotonic(), 0, random.Random(1)
while time.monotonic() - began < 5:
    (note,) = shop.execute("select note from orders where id = ?", (chance.randint(1, 200_000),)).fetchone()
    assert note == "x" * 1000
    count += 1
print(f"{count / 5:.0f} lookups a second")
PYTHON
}

echo "io2 with 500 IOPS:"
lookups
headrace volume modify db --iops 5000 --until completed > /dev/null
echo "io2 with 5,000 IOPS:"
lookups
headrace volume metrics db --seconds 15
