"""Writes the sample recordings beside this file: one and the same load, as each tool would have printed it.

    python tests/unit/data/make_samples.py

Layouts follow the tools' own output: sysstat 12.6 (run), 11.4 and 10.0 (their manual pages and sources), procps 4.0 (run),
AWS CLI 2 and the CloudWatch console's CSV (their documentation). The load: 20 minutes from 2025-11-21 10:00 UTC, one report a
minute, `nvme1n1` with the rates of `demand(i)` in 16 KiB reads and 24 KiB writes, and `nvme0n1` nearly idle.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
MINUTES = 20
READ_KIB, WRITE_KIB = 16, 24
START = datetime(2025, 11, 21, 10, 0, 0)
IDLE = (3, 2)  # reads and writes a second of nvme0n1
BOOT = (40, 90)  # the mean since boot
VOLUME = "vol-0123456789abcdef0"


def demand(minute: int) -> tuple[int, int]:
    """Reads and writes a second of nvme1n1 in that minute."""
    return 1500 + 100 * (minute % 5), 800 + 50 * (minute % 7)


def _end(minute: int) -> datetime:
    return START + timedelta(minutes=minute + 1)


def _reports():
    """(end of the interval, [(device, reads, writes)]), the mean since boot first."""
    yield START, [("nvme0n1", *IDLE), ("nvme1n1", *BOOT)]
    for minute in range(MINUTES):
        yield _end(minute), [("nvme0n1", *IDLE), ("nvme1n1", *demand(minute))]


CPU_12 = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           4.10    0.00    5.20   71.30    0.00   19.40\n\n"


def iostat_12() -> str:
    head = (
        "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
        "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
    )
    text = "Linux 6.1.0-28-amd64 (db1) \t11/21/25 \t_x86_64_\t(8 CPU)\n\n"
    for end, rows in _reports():
        text += f"{end:%m/%d/%y %H:%M:%S}\n{CPU_12}{head}"
        for device, reads, writes in rows:
            text += (
                f"{device:<13}{reads:8.2f} {reads * READ_KIB:9.2f} {0:8.2f} {0:6.2f} {0.51:7.2f} {READ_KIB:8.2f} "
                f"{writes:7.2f} {writes * WRITE_KIB:9.2f} {12:8.2f} {1.2:6.2f} {0.72:7.2f} {WRITE_KIB:8.2f} "
                f"{0:7.2f} {0:9.2f} {0:8.2f} {0:6.2f} {0:7.2f} {0:8.2f} {0.5:7.2f} {0.3:7.2f} {1.8:7.2f} {88.4:6.2f}\n"
            )
        text += "\n\n"
    return text


def iostat_11_mb() -> str:
    """sysstat 11.4, -xtm, American locale with AM and PM, and decimal points."""
    head = "Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n"
    text = "Linux 4.9.0-19-amd64 (db1) \t11/21/2025 \t_x86_64_\t(8 CPU)\n\n"
    for end, rows in _reports():
        text += f"{end:%m/%d/%Y %I:%M:%S %p}\n{CPU_12}{head}"
        for device, reads, writes in rows:
            sectors = 2 * (reads * READ_KIB + writes * WRITE_KIB) / (reads + writes)
            text += (
                f"{device:<13}{0:10.2f} {12:8.2f} {reads:7.2f} {writes:7.2f} {reads * READ_KIB / 1024:8.2f} "
                f"{writes * WRITE_KIB / 1024:8.2f} {sectors:8.2f} {1.8:8.2f} {0.6:7.2f} {0.5:7.2f} {0.7:7.2f} {0.3:6.2f} {88.4:6.2f}\n"
            )
        text += "\n"
    return text


def iostat_10_comma() -> str:
    """sysstat 10.0, -xt, German locale: sectors, decimal commas, day before month."""
    head = "Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util\n"
    text = "Linux 3.2.0-6-amd64 (db1) \t21.11.2025 \t_x86_64_\t(8 CPU)\n\n"
    for end, rows in _reports():
        body = f"{CPU_12}{head}"
        for device, reads, writes in rows:
            sectors = 2 * (reads * READ_KIB + writes * WRITE_KIB) / (reads + writes)
            body += (
                f"{device:<13}{0:10.2f} {12:8.2f} {reads:7.2f} {writes:7.2f} {2 * reads * READ_KIB:8.2f} {2 * writes * WRITE_KIB:8.2f} "
                f"{sectors:8.2f} {1.8:8.2f} {0.6:7.2f} {0.3:6.2f} {88.4:6.2f}\n"
            )
        text += f"{end:%d.%m.%Y %H:%M:%S}\n" + body.replace(".", ",") + "\n"
    return text


def iostat_json() -> str:
    statistics = []
    for end, rows in _reports():
        disks = [
            {
                "disk_device": device,
                "r/s": float(reads),
                "w/s": float(writes),
                "d/s": 0.0,
                "f/s": 0.5,
                "rkB/s": float(reads * READ_KIB),
                "wkB/s": float(writes * WRITE_KIB),
                "dkB/s": 0.0,
                "rrqm/s": 0.0,
                "wrqm/s": 12.0,
                "r_await": 0.51,
                "w_await": 0.72,
                "rareq-sz": float(READ_KIB),
                "wareq-sz": float(WRITE_KIB),
                "aqu-sz": 1.8,
                "util": 88.4,
            }
            for device, reads, writes in rows
        ]
        statistics.append(
            {"timestamp": f"{end:%Y-%m-%dT%H:%M:%S}+0000", "avg-cpu": {"user": 4.1, "idle": 19.4}, "disk": disks}
        )
    host = {
        "nodename": "db1",
        "sysname": "Linux",
        "release": "6.1.0-28-amd64",
        "machine": "x86_64",
        "number-of-cpus": 8,
    }
    return (
        json.dumps({"sysstat": {"hosts": [host | {"date": "2025-11-21", "statistics": statistics}]}}, indent=1) + "\n"
    )


def vmstat(stamped: bool) -> str:
    first = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----"
    second = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st"
    if stamped:
        first, second = first + " -----timestamp-----", second + "                 UTC"
    text = ""
    for index, (end, rows) in enumerate(_reports()):
        if index % 10 == 0:
            text += f"{first}\n{second}\n"
        read = sum(reads * READ_KIB for _, reads, _ in rows)
        written = sum(writes * WRITE_KIB for _, _, writes in rows)
        text += f" 1 14      0 304624   3004 29272436    0    0 {read:5d} {written:5d} 17479 28507  5  5 15 75  0"
        text += f" {end:%Y-%m-%d %H:%M:%S}\n" if stamped else "\n"
    return text


def sar_text() -> str:
    text = "Linux 6.1.0-28-amd64 (db1) \t11/21/2025 \t_x86_64_\t(8 CPU)\n\n"
    head = "          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n"
    text += f"{START:%I:%M:%S %p}{head}"
    for end, rows in list(_reports())[1:]:
        for device, reads, writes in rows:
            text += f"{end:%I:%M:%S %p}      {_sar_row(device, reads, writes)}\n"
    return (
        text
        + "\nAverage:          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n"
        + (f"Average:      {_sar_row('nvme0n1', *IDLE)}\n")
    )


def _sar_row(device: str, reads: int, writes: int) -> str:
    read, written = reads * READ_KIB, writes * WRITE_KIB
    size = (read + written) / (reads + writes)
    return f"{device} {reads + writes:9.2f} {read:9.2f} {written:9.2f} {0:9.2f} {size:9.2f} {1.8:9.2f} {0.6:9.2f} {88.4:9.2f}"


def sadf_csv() -> str:
    text = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n"
    for end, rows in list(_reports())[1:]:
        for device, reads, writes in rows:
            text += f"db1;60;{end:%Y-%m-%d %H:%M:%S} UTC;" + ";".join(_sar_row(device, reads, writes).split()) + "\n"
    return text


def sadf_json() -> str:
    statistics = []
    for end, rows in list(_reports())[1:]:
        disks = []
        for device, reads, writes in rows:
            read, written = reads * READ_KIB, writes * WRITE_KIB
            disks.append(
                {
                    "disk-device": device,
                    "tps": float(reads + writes),
                    "rd_sec": 2.0 * read,
                    "wr_sec": 2.0 * written,
                    "rkB": float(read),
                    "wkB": float(written),
                    "dkB": 0.0,
                    "await": 0.6,
                    "util-percent": 88.4,
                }
            )
        stamp = {"date": f"{end:%Y-%m-%d}", "time": f"{end:%H:%M:%S}", "utc": 1, "interval": 60}
        statistics.append({"timestamp": stamp, "disk": disks})
    host = {"nodename": "db1", "sysname": "Linux", "number-of-cpus": 8, "statistics": statistics, "restarts": []}
    return json.dumps({"sysstat": {"hosts": [host]}}, indent=1) + "\n"


def _sums() -> dict[str, list[int]]:
    rates = [demand(minute) for minute in range(MINUTES)]
    return {
        "VolumeReadOps": [60 * reads for reads, _ in rates],
        "VolumeWriteOps": [60 * writes for _, writes in rates],
        "VolumeReadBytes": [60 * reads * READ_KIB * 1024 for reads, _ in rates],
        "VolumeWriteBytes": [60 * writes * WRITE_KIB * 1024 for _, writes in rates],
    }


def _starts() -> list[datetime]:
    return [START + timedelta(minutes=minute) for minute in range(MINUTES)]


def cloudwatch_data() -> str:
    times = [f"{start:%Y-%m-%dT%H:%M:%S}+00:00" for start in _starts()][::-1]  # newest first, the default
    results = [
        {
            "Id": f"m{at}",
            "Label": metric,
            "Timestamps": times,
            "Values": [float(value) for value in values][::-1],
            "StatusCode": "Complete",
        }
        for at, (metric, values) in enumerate(_sums().items(), start=1)
    ]
    return json.dumps({"MetricDataResults": results, "Messages": []}, indent=1) + "\n"


def cloudwatch_statistics() -> str:
    documents = []
    for metric, values in _sums().items():
        unit = "Bytes" if metric.endswith("Bytes") else "Count"
        points = [
            {"Timestamp": f"{start:%Y-%m-%dT%H:%M:%S}Z", "Sum": float(value), "Unit": unit}
            for start, value in zip(_starts(), values, strict=True)
        ]
        points = points[7:] + points[:7]  # CloudWatch returns them in no order
        documents.append(json.dumps({"Label": metric, "Datapoints": points}, indent=1))
    return "\n".join(documents) + "\n"


def cloudwatch_console() -> str:
    metrics = _sums()
    text = "Full label," + ",".join(f"{VOLUME} {metric}" for metric in metrics) + "\n"
    text += "Label," + ",".join(metrics) + "\nStatistic" + ",Sum" * 4 + "\nPeriod" + ",60" * 4 + "\n"
    for row, start in enumerate(_starts()):
        text += f"{start:%Y/%m/%d %H:%M:%S}," + ",".join(str(values[row]) for values in metrics.values()) + "\n"
    return text


def cloudwatch_long() -> str:
    text = "metric,timestamp,value\n"
    for metric, values in _sums().items():
        for start, value in zip(_starts(), values, strict=True):
            text += f"{metric},{start:%Y-%m-%dT%H:%M:%SZ},{value}\n"
    return text


def prometheus_range() -> str:
    """The answer of /api/v1/query_range for {__name__=~"node_disk_.+"} with a step of a minute: 21 samples of each counter."""
    results = []
    for device, rates in (("nvme0n1", [IDLE] * MINUTES), ("nvme1n1", [demand(minute) for minute in range(MINUTES)])):
        counted = {
            "node_disk_reads_completed_total": [60 * reads for reads, _ in rates],
            "node_disk_writes_completed_total": [60 * writes for _, writes in rates],
            "node_disk_read_bytes_total": [60 * reads * READ_KIB * 1024 for reads, _ in rates],
            "node_disk_written_bytes_total": [60 * writes * WRITE_KIB * 1024 for _, writes in rates],
            "node_disk_read_time_seconds_total": [60 * reads * 0.51e-3 for reads, _ in rates],
            "node_disk_write_time_seconds_total": [60 * writes * 0.72e-3 for _, writes in rates],
            "node_disk_io_time_weighted_seconds_total": [60 * 1.8 for _ in rates],
            "node_disk_io_time_seconds_total": [60 * 0.884 for _ in rates],
        }
        for name, grown in counted.items():
            labels = {"__name__": name, "device": device, "instance": "db1:9100", "job": "node"}
            # Since boot, and then after each minute.
            levels = [1_000_000 + sum(grown[:minute]) for minute in range(MINUTES + 1)]
            times = [(START - datetime(1970, 1, 1)).total_seconds() + 60 * minute for minute in range(MINUTES + 1)]
            values = [[at, f"{round(level, 3):.15g}"] for at, level in zip(times, levels, strict=True)]
            results.append({"metric": labels, "values": values})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": results}}) + "\n"


SAMPLES = {
    "iostat_12.txt": iostat_12,
    "iostat_11_mb.txt": iostat_11_mb,
    "iostat_10_comma.txt": iostat_10_comma,
    "iostat.json": iostat_json,
    "vmstat.txt": lambda: vmstat(False),
    "vmstat_t.txt": lambda: vmstat(True),
    "sar_d.txt": sar_text,
    "sadf_d.csv": sadf_csv,
    "sadf.json": sadf_json,
    "cloudwatch_data.json": cloudwatch_data,
    "cloudwatch_statistics.json": cloudwatch_statistics,
    "cloudwatch_console.csv": cloudwatch_console,
    "cloudwatch_long.csv": cloudwatch_long,
    "prometheus_range.json": prometheus_range,
}


if __name__ == "__main__":
    for name, make in SAMPLES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
