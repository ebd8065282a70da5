"""Makes the files of docs/guide/fleet.md: what the AWS CLI writes of seven volumes, made up and not measured.

    python examples/fleet/make_fleet.py [FOLDER]

They are written to the folder of this script, or to FOLDER: inventory, metrics of ten days in five
minutes, and a Cost and Usage Report in which this account pays a fifth less than list for the
storage of gp3, and nothing less for all else. Uses the standard library alone.
"""

import csv
import gzip
import io
import json
import math
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGIN, DAYS, STEP_S = datetime(2026, 11, 2, tzinfo=UTC), 10, 300
A_DAY = 86_400 // STEP_S
ACCOUNT, INSTANCE = "123456789012", "i-0123456789abcdef0"
IO_BYTES = 16_384
# Type, GiB, more of describe-volumes, requests a second at noon, tags.
VOLUMES = [
    ("gp2", 1000, {"Iops": 3000}, 900, {"Name": "orders"}),
    ("io1", 400, {"Iops": 8000}, 2500, {"Name": "ledger"}),
    ("gp3", 500, {"Iops": 3000, "Throughput": 125}, 1100, {"Name": "search"}),
    ("gp3", 200, {"Iops": 3000, "Throughput": 125}, 3300, {"Name": "carts"}),
    ("gp2", 334, {"Iops": 1002}, 350, {"Name": "logs-1", "headrace:array": "md0"}),
    ("gp2", 334, {"Iops": 1002}, 350, {"Name": "logs-2", "headrace:array": "md0"}),
    ("gp2", 20, {"Iops": 100}, 40, {"Name": "config"}),
]
MOST_IOPS = {"carts": 3000}  # what this one is held at: more is asked of it at noon
# (what is billed, its unit's list price a month in us-east-1, what this account pays of it)
RATES = {"gp2": 0.10, "gp3": 0.08 * 0.8, "piops": 0.125}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    described, series = [], {}
    chance = random.Random(7)
    times = [BEGIN + timedelta(seconds=STEP_S * at) for at in range(DAYS * A_DAY)]
    for number, (kind, gib, more, noon, tags) in enumerate(VOLUMES):
        name = f"vol-{number:017x}"
        described.append(of_inventory(name, kind, gib, more, tags))
        for metric, values in metrics(times, noon, MOST_IOPS.get(tags["Name"], 1_000_000), chance).items():
            series[f"{name} {metric}"] = values
    instance = {"InstanceId": INSTANCE, "InstanceType": "m5.4xlarge", "State": {"Name": "running"}}
    write_json(folder / "volumes.json", {"Volumes": described})
    write_json(folder / "instances.json", {"Reservations": [{"OwnerId": ACCOUNT, "Instances": [instance]}]})
    write_json(folder / "modifications.json", {"VolumesModifications": []})
    with (folder / "metrics-1.json.gz").open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        for first in range(0, len(times), A_DAY):  # get-metric-data was asked for each day
            packed.write(page_of(times, series, slice(first, first + A_DAY)))
    (folder / "cur-2026-10.csv").write_text(cost_report())
    print(f"written to {folder}: volumes.json, instances.json, modifications.json, metrics-1.json.gz, cur-2026-10.csv")


def page_of(times: list[datetime], series: dict[str, list[float]], part: slice) -> bytes:
    """A page of get-metric-data: the points of a day."""
    texts = [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in times[part]]
    results = [
        {"Id": f"m{at}", "Label": label, "Timestamps": texts, "Values": values[part]}
        for at, (label, values) in enumerate(series.items())
    ]
    return f"{json.dumps({'MetricDataResults': results}, separators=(',', ':'))}\n".encode()


def of_inventory(name: str, kind: str, gib: int, more: dict, tags: dict) -> dict:
    at = {"InstanceId": INSTANCE, "Device": f"/dev/sd{chr(ord('f') + int(name[4:], 16))}", "State": "attached"}
    return {
        "VolumeId": name,
        "VolumeType": kind,
        "Size": gib,
        **more,
        "State": "in-use",
        "AvailabilityZone": "us-east-1a",
        "Attachments": [at],
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def metrics(times: list[datetime], noon: float, most: float, chance: random.Random) -> dict[str, list[float]]:
    """Seven parts of ten are reads. Requests above `most` wait, and are done later."""
    reads, writes, queue, exceeded = [], [], [], []
    waiting = 0.0
    for time in times:
        sun = max(0.0, math.sin((time.hour - 6) / 12 * math.pi))
        weekend = 0.5 if time.weekday() >= 5 else 1.0
        request = noon * weekend * (0.15 + 0.85 * sun) * chance.choice((0.9, 1.0, 1.0, 1.0, 1.1))
        before = waiting
        done = min(most * STEP_S, request * STEP_S + waiting)
        waiting += request * STEP_S - done
        reads.append(float(10 * round(0.07 * done)))
        writes.append(float(10 * round(0.03 * done)))
        queue.append(round((before + waiting) / 2 + 0.001 * done / STEP_S, 1))
        exceeded.append(float(waiting > 0))
    result = {"VolumeReadOps": reads, "VolumeWriteOps": writes}
    result |= {
        "VolumeReadBytes": [IO_BYTES * read for read in reads],
        "VolumeWriteBytes": [IO_BYTES * write for write in writes],
    }
    return result | {"VolumeQueueLength": queue, "VolumeIOPSExceededCheck": exceeded} if any(exceeded) else result


def cost_report() -> str:
    """A month of the volumes' storage, and of the IOPS of io1."""
    out = io.StringIO()
    names = (
        "bill_billing_period_start_date",
        "line_item_line_item_type",
        "line_item_resource_id",
        "line_item_usage_type",
    )
    names += (
        "line_item_usage_amount",
        "line_item_unblended_cost",
        "line_item_usage_account_id",
        "line_item_currency_code",
    )
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(names)
    for number, (kind, gib, more, _, _) in enumerate(VOLUMES):
        billed = {"io1": "piops"}.get(kind, kind)
        items = [(f"EBS:VolumeUsage.{billed}", gib, RATES[billed])]
        items += [("EBS:VolumeP-IOPS.piops", more["Iops"], 0.065)] if kind == "io1" else []
        for usage, amount, rate in items:
            cost = f"{amount * rate:.10f}"
            rows.writerow(("2026-10-01T00:00:00Z", "Usage", f"vol-{number:017x}", usage, amount, cost, ACCOUNT, "USD"))
    return out.getvalue()


def write_json(path: Path, document: dict) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
