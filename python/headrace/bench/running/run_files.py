"""Writes RUN.toml and the files that it names, which `headrace calibrate` reads."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from headrace.base import core
from headrace.base.documents import to_toml
from headrace.base.encoding import pick_fields
from headrace.base.files import write_whole
from headrace.bench.drivers.benchmark import Benchmark
from headrace.bench.store.store import TOML_FILE
from headrace.bench.target import Target
from headrace.observe.live.profile import Profile
from headrace.observe.live.samples import Samples, write_disk_csv, write_status_csv
from headrace.observe.run_files.status import WANTED
from headrace.observe.settings import LAB_IO_CPU_US

SYSBENCH_CSV, STATUS_CSV, DISK_CSV = "transactions.csv", "status.csv", "disk.csv"


def make_settings_table(config: Mapping[str, str], engine: str, vcpus: int | None = None) -> dict:
    """Returns the [settings] table from server variables, without those that are absent."""
    settings = Profile("", "", "", dict(config)).make_settings(engine)
    return settings | ({"vcpus": vcpus} if vcpus else {})


def write(
    folder: Path,
    benchmark: Benchmark,
    target: Target,
    run: dict,
    series: pl.DataFrame,
    samples: Samples,
    caveats: list[str],
) -> str | None:
    """Writes RUN.toml and its files into `folder` from `run`, the document of the run, and returns
    None; returns what is missing for them, as text, if nothing can be written. Raises CouldNotRun.
    """
    table = benchmark.make_benchmark_table()
    lacks = [
        words
        for words, missing in (
            (f"{benchmark.name} is not a load that databases are calibrated from", table is None),
            ("the storage is not known (--storage)", target.storage is None),
            ("the size of the cache is not known", target.cache_gib is None),
            ("fewer than two seconds were measured", series.filter(pl.col("tps").is_not_null()).height < 2),
            ("no transaction was made", not (series["tps"].fill_null(0.0) > 0).any()),
        )
        if missing
    ]
    if lacks:
        return lacks[0]
    assert table is not None and target.cache_gib is not None and target.engine is not None
    files: dict = {"sysbench": SYSBENCH_CSV}
    vcpus = _find_vcpus(target, run["environment"])
    server_vcpus = vcpus or (core.instance(target.instance, target.as_of)["vcpus"] if target.instance else None)
    # The processors that were counted are the server's only where it runs on this machine.
    is_here = bool(target.devices) or target.lab is not None
    counted = series if is_here else series.drop("idle_cpus", strict=False)
    _write_transactions(folder / SYSBENCH_CSV, counted, run["environment"].get("cpus") or 1, server_vcpus)
    if samples.status.height >= 2:
        columns = [column for column in samples.status.columns if column == "t_unix" or column in WANTED]
        write_status_csv(Samples(samples.status.select(columns), samples.disk, samples.host), folder / STATUS_CSV)
        files["status"] = STATUS_CSV
    if samples.disk.height >= 2:
        write_disk_csv(samples, folder / DISK_CSV)
        files |= {"disk": DISK_CSV}
        sampled = samples.disk["device"].unique(maintain_order=True).to_list()
        if devices := list_data_devices(target, sampled):
            files["device"] = "+".join(devices)
            files |= {"log_device": sampled[-1]} if len(devices) < len(sampled) else {}
    size_gib = run["target"]["data_gib"]
    document = {
        "format": "headrace-run",
        "version": 1,
        "name": run.get("name") or f"{benchmark.name}, {target.storage or target.label}",
        **pick_fields(target, "engine", "flavor", "storage", "log_storage", "instance"),
        "engine_version": target.version,
        "as_of": datetime.date.fromisoformat(target.as_of or core.newest_date()),
        "cache_gib": round(target.cache_gib, 6),
        "threads": run["load"]["threads"],
        "start": run["start"],
        "seconds": float(series.height),
        "busy_before": run["environment"].get("before", {}).get("busy_share") if is_here else None,
        "caveats": caveats,
        "benchmark": table | ({} if size_gib is None else {"data_gib": round(size_gib, 6)}),
        "settings": make_settings_table(target.config, target.engine, vcpus)
        | _describe_cores(target, run["environment"])
        | _describe_ios(target),
        "files": files,
    }
    write_whole(folder / TOML_FILE, to_toml(document).encode())
    return None


def _find_vcpus(target: Target, environment: dict) -> int | None:
    """Returns the virtual CPUs that the server could use: this machine's without an instance or if
    they are fewer; None: those of the instance in the catalog."""
    usable = environment.get("cpus_usable")
    if target.instance is None:
        return usable
    of_instance = core.instance(target.instance, target.as_of)["vcpus"]
    return usable if of_instance and usable and usable < of_instance else None


def _describe_cores(target: Target, environment: dict) -> dict[str, int]:
    """Returns the setting `threads_per_core` of this machine; empty with an instance, or if it is
    unknown."""
    threads = environment.get("threads_per_core")
    return {"threads_per_core": threads} if target.instance is None and threads in (1, 2) else {}


def _describe_ios(target: Target) -> dict[str, float]:
    """Returns the setting `io_cpu_us`, processor time of an I/O on a lab; empty without a lab."""
    return {"io_cpu_us": LAB_IO_CPU_US} if target.lab is not None and target.engine == "innodb" else {}


def list_data_devices(target: Target, sampled: list[str]) -> list[str]:
    """Returns the sampled devices that hold data: all, but with a log volume without the last."""
    return sampled[:-1] if target.log_storage and len(sampled) > 1 else sampled


def _write_transactions(path: Path, series: pl.DataFrame, cpus: int, vcpus: int | None) -> None:
    """Writes the rows as CSV as sysbench reports them: `t_s` is the end of the row, `time` the same
    as Unix time. `busy_share` is the work on this machine's `cpus`, the benchmark's included, over
    the server's `vcpus`."""
    end = pl.col("duration_s")
    busy = cpus - pl.col("idle_cpus") - pl.col("iowait_cpus").fill_null(0.0)
    busy_column = (
        {"busy_share": (busy / (vcpus or cpus)).clip(0.0, 1.0).round(4)} if "idle_cpus" in series.columns else {}
    )
    frame = series.filter(pl.col("tps").is_not_null()).select(
        (pl.col("t_s") + end).round(3).alias("t_s"),
        (pl.col("t_unix") + end).round(6).alias("time"),
        "threads",
        "tps",
        "qps",
        pl.col("p95_ms").alias("lat_p95_ms"),
        **busy_column,
    )
    write_whole(path, frame.write_csv(float_precision=6).encode())
