"""`headrace bench run`: one command a benchmark, with its own options; what they share is in bench_command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli.bench_command import files, measured, server
from headrace.errors import InputError

EPILOG = """\b
Examples:
  headrace bench run sysbench-oltp --server db --tables 8 --rows 1000000 --threads 32 --seconds 600 --warmup 60 --report run.html
  headrace bench run sysbench-oltp 'mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock' --storage gp3:500:6000
  headrace bench run tpcc --server db --warehouses 100 --threads 32 --seconds 1800
  headrace bench run fio --folder /mnt/volume --storage gp3:500 --rw randread --iodepth 16

Test data are made where they are missing and stay for the next run; --cleanup removes them. Ctrl-C keeps what was measured (exit code 130), so does a server that dies (3).
Passwords come from HEADRACE_MYSQL_PASSWORD, [client] of --defaults-file, or --ask-password; never from the address."""

app = typer.Typer(no_args_is_help=True, help="Run a benchmark and keep what was measured.", epilog=EPILOG)


class Distribution(StrEnum):
    """Which rows are picked."""

    uniform = "uniform"
    gaussian = "gaussian"
    special = "special"
    pareto = "pareto"
    zipfian = "zipfian"


def _pairs(texts: list[str] | None) -> dict[str, str]:
    """KEY=VALUE each. Raises InputError."""
    found: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(text[:60], "must be KEY=VALUE", "headrace bench run sysbench-oltp --help", "For example point_selects=5.")
        found[key.strip().replace("-", "_")] = value.strip()
    return found


def _typed(texts: list[str] | None) -> dict[str, int | bool]:
    """Options of sysbench's scripts: on and off, or whole numbers. Raises InputError."""
    found: dict[str, int | bool] = {}
    for key, value in _pairs(texts).items():
        if value in ("on", "off"):
            found[key] = value == "on"
        elif value.isascii() and value.isdigit() and len(value) < 12:
            found[key] = int(value)
        else:
            raise InputError(f"{key}={value[:40]}", "must be on, off or a whole number", "docs/reference/bench.md, sysbench-oltp")
    return found


def _numbers(texts: list[str] | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, value in _pairs(texts).items():
        try:
            found[key] = float(value)
        except ValueError:
            raise InputError(f"{key}={value[:40]}", "must be a number", "docs/reference/bench.md, sysbench-oltp") from None
    return found


@app.command("sysbench-oltp")
@measured(server)
def sysbench_oltp(
    script: Annotated[
        str, typer.Option("--script", metavar="NAME", help="oltp_read_write, oltp_read_only, ... : any of sysbench 1.0.")
    ] = "oltp_read_write",
    tables: Annotated[int, typer.Option("--tables", metavar="N", min=1, help="Tables.")] = 8,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="Rows of each; a million take some 0.24 GiB in InnoDB.")
    ] = 100_000,
    distribution: Annotated[Distribution, typer.Option("--distribution", help="Which rows are picked.")] = Distribution.special,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", metavar="K=V", help="Of the distribution: rand_pareto_h=0.2, rand_zipfian_exp=0.9, ... Repeatable."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="K=V", help="Of the script: point_selects=5, skip_trx=on, ... Repeatable.")
    ] = None,
):
    """sysbench's OLTP scripts on a server."""
    from headrace.bench import SysbenchOltp

    return SysbenchOltp(script, tables, rows, str(distribution), _numbers(parameter), _typed(option))


@app.command()
@measured(server)
def tpcc(
    warehouses: Annotated[int, typer.Option("--warehouses", metavar="N", min=1, help="Some 0.1 GiB each in InnoDB.")] = 10,
    items: Annotated[int, typer.Option("--items", metavar="N", help="Fewer than the standard's make a trial, not TPC-C.")] = 100_000,
    customers: Annotated[int, typer.Option("--customers", metavar="N", help="Of a district; the same holds.")] = 3_000,
):
    """TPC-C on a server: five transactions, nine tables, the standard's consistency checked afterwards. No keying and think times."""
    from headrace.bench import Tpcc

    return Tpcc(warehouses, items, customers)


@app.command()
@measured(server)
def mysqlslap(
    load: Annotated[str, typer.Option("--load", metavar="KIND", help="mixed, read (scans), key, update or write.")] = "mixed",
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="Rows of the table, some 160 bytes each.")] = 100_000,
):
    """mysqlslap on a server: many clients with the same statements. It tells no latencies."""
    from headrace.bench import Mysqlslap

    return Mysqlslap(load, rows)


@app.command("sysbench-fileio")
@measured(files)
def sysbench_fileio(
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help="seqwr, seqrewr, seqrd, rndrd, rndwr or rndrw.")] = "rndrw",
    size: Annotated[float, typer.Option("--size", metavar="GIB", help="All files together, GiB.")] = 1.0,
    count: Annotated[int, typer.Option("--files", metavar="N", help="Files.")] = 16,
    block: Annotated[int, typer.Option("--block", metavar="KIB", help="KiB a request.")] = 16,
    io_mode: Annotated[str, typer.Option("--io-mode", metavar="MODE", help="sync, async or mmap.")] = "sync",
    flags: Annotated[str, typer.Option("--flags", metavar="F,F", help="Of open: direct, dsync, sync; `none`.")] = "direct",
    fsync_every: Annotated[int, typer.Option("--fsync-every", metavar="N", help="fsync after so many requests; 0: never.")] = 0,
    fsync_all: Annotated[bool, typer.Option("--fsync-all", help="fsync after each write.")] = False,
):
    """sysbench's reads and writes of files in a folder."""
    from headrace.bench import SysbenchFileio

    chosen = () if flags in ("", "none") else tuple(flag.strip() for flag in flags.split(","))
    return SysbenchFileio(mode, size, count, block, io_mode, chosen, fsync_every, fsync_all)


@app.command()
@measured(files, threads=1)
def fio(
    rw: Annotated[str, typer.Option("--rw", metavar="PATTERN", help="read, write, randread, randwrite, rw or randrw.")] = "randread",
    block: Annotated[int, typer.Option("--block", metavar="KIB", help="KiB a request.")] = 16,
    iodepth: Annotated[int, typer.Option("--iodepth", metavar="N", help="Requests under way of each client.")] = 1,
    size: Annotated[float, typer.Option("--size", metavar="GIB", help="The file, or the part of the device, GiB.")] = 1.0,
    read_percent: Annotated[int, typer.Option("--read-percent", metavar="N", help="Reads of mixed patterns.")] = 50,
    ioengine: Annotated[str, typer.Option("--ioengine", metavar="NAME", help="libaio, io_uring, psync or sync.")] = "libaio",
    direct: Annotated[bool, typer.Option("--direct/--buffered", help="Past the page cache, or through it.")] = True,
    fdatasync: Annotated[int, typer.Option("--fdatasync", metavar="N", help="fdatasync after so many writes; 0: never.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write to a block device: what is on it is lost.")] = False,
):
    """fio on a file in a folder, or on a block device."""
    from headrace.bench import FioJob

    return FioJob(rw, block, iodepth, size, read_percent, ioengine, direct, fdatasync, overwrite)
