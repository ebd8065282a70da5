#!/bin/bash
# fio on a gp2 volume whose credits run out: 3,000 IOPS, then the baseline of its size. Run as root; takes about 20 seconds.
#
# Everything lies in a folder of its own and is gone afterwards. Needs fio.
set -euo pipefail

export HEADRACE_LAB
HEADRACE_LAB=$(mktemp -d /tmp/lab-XXXXXX)
trap 'headrace lab down --force >/dev/null 2>&1 || true; rm -rf "$HEADRACE_LAB"' EXIT

headrace lab up --metrics-port 0 --api-port 0

# 334 GiB of gp2 have a baseline of 1,002 IOPS. 12,000 of 5.4 million credits last 6 seconds at a net 1,998 a second.
headrace volume create gp2:334 --name dry --start-balance 0.2222% > /dev/null
headrace volume attach dry --name sdf > /dev/null

echo "Random reads of 16 KiB, 32 at a time, for 12 seconds:" >&2
fio --name=dry --filename="$HEADRACE_LAB/dev/sdf" --rw=randread --bs=16k --iodepth=32 --ioengine=libaio --direct=1 \
    --time_based --runtime=12 --output-format=terse > /dev/null

headrace volume metrics dry --seconds 15
headrace volume balance dry
