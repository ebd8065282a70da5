"""`--replica` of `headrace predict` and `headrace simulate`: a replica behind the database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from headrace.base.lazy import defer_imports
from headrace.base.options import Option, spell_flag
from headrace.cli.options import Output, make_choice, make_flag, make_instance_option, make_option, make_storage_option
from headrace.cli.output import print_data, print_json, say_each, show, show_progress, write_report
from headrace.errors import Refusals
from headrace.planner.settings import PlanSettings, ReplicaGoal
from headrace.report.output import as_csv
from headrace.simulation.settings import MOST_SYNC, SYNC_RELAY_LOG
from headrace.simulation.settings import ReplicaMode as Mode

if TYPE_CHECKING:
    from headrace.simulation.settings import PredictionSettings
    from headrace.workload import TransactionWorkload

with defer_imports():
    from headrace.base import storage as base_storage
    from headrace.planner import replica as planner_replica
    from headrace.report.replication import replicas
    from headrace.simulation import replica as simulation_replica

refuse = Refusals("headrace predict --help")
# A load of ten minutes: lag shows, and a drain as long again is quick to run.
REPLICA_SECONDS = 600
OF_SOURCES = ("form", "release", "progress")  # settings of a prediction that one of a replica has not


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions:
    """A replica, as it is set up; what is left out is as its version has it."""

    replica: Annotated[str | None, make_storage_option("Put a replica on this storage: its rate and its lag.")] = None
    replica_log_storage: Annotated[
        str | None, make_storage_option("Separate volume for the replica's redo and binary log.")
    ] = None
    relay_storage: Annotated[str | None, make_storage_option("The replica's volume of its own for the relay log.")] = (
        None
    )
    replica_instance: Annotated[str | None, make_instance_option("The replica's EC2 type. Default: the source's.")] = (
        None
    )
    replica_cache_gib: Annotated[float | None, make_option("GIB", "The replica's cache. Default: the source's.")] = None
    replica_version: Annotated[
        str | None,
        make_option(
            "FLAVOR-VERSION",
            "mysql-8.0.36, mariadb-10.11 (the newest of its series) or another. Default: the source's, else mysql-8.4.",
        ),
    ] = None
    replica_mode: Annotated[
        Mode | None, make_choice("Rule for transactions that may be applied in parallel. Default: the version's.")
    ] = None
    workers: Annotated[int | None, make_option("N", "Applier threads; 0 and 1 both mean one.")] = None
    preserve_order: Annotated[
        bool | None, make_flag("--preserve-order/--no-preserve-order", "Commit in the source's order.")
    ] = None
    replica_binlog: Annotated[
        bool | None, make_flag("--replica-binlog/--no-replica-binlog", "The replica writes a binary log of its own.")
    ] = None
    replica_flush_log: Annotated[
        int | None,
        Option("The replica's innodb_flush_log_at_trx_commit; 3 in MariaDB alone.", value="0|1|2|3", least=0, most=3),
    ] = None
    replica_sync_binlog: Annotated[int | None, Option("The replica's sync_binlog.", least=0, most=MOST_SYNC)] = None
    sync_relay_log: Annotated[int | None, SYNC_RELAY_LOG] = None
    replica_start: Annotated[
        Literal["cold", "warm"] | None, make_choice("The replica's cache at the start. Default: warm.")
    ] = None
    replica_reads: Annotated[
        float | None, make_option("N", "Transactions of clients that read on the replica, per transaction applied.")
    ] = None
    semi_sync: Annotated[
        str | None,
        make_option(
            "RTT_MS[,RTT_MS...]",
            "Semi-sync: round trip to the replica that a commit waits for; one value for each replica.",
        ),
    ] = None
    acknowledgements: Annotated[int | None, make_option("N", "Replicas that must acknowledge. Default: 1.")] = None
    wait_point: Annotated[
        Literal["after-sync", "after-commit"] | None,
        make_choice("Point at which commits wait for the acknowledgement. Default: after-sync."),
    ] = None
    large: Annotated[
        list[str] | None,
        make_option(
            "START:SOURCE_S:REPLICA_S",
            "Large transaction or ALTER that holds up all others: begin and durations, s. Repeatable.",
            "--large",
        ),
    ] = None
    drain: Annotated[int | None, make_option("S", "Follow the replica this long after the load. Default: 3,600.")] = (
        None
    )

    def list_given(self) -> list[str]:
        """Returns the names of the options that were given."""
        return [spell_flag(name) for name, value in vars(self).items() if value not in (None, [])]

    def check(self) -> None:
        """Raises InputError for options of a replica without --replica, and for those of semi-sync
        without --semi-sync."""
        if self.replica is None and (given := self.list_given()):
            raise refuse.input(given[0], "is of a replica: give --replica too", "For example --replica gp3:500:6000.")
        for name in ("acknowledgements", "wait_point"):
            if self.semi_sync is None and getattr(self, name) is not None:
                raise refuse.input(spell_flag(name), "needs --semi-sync", "For example --semi-sync 0.5,1.2.")

    def to_replica(self) -> simulation_replica.Replica:
        """Returns the replica that the options describe. Raises InputError."""

        def normalise_spec(text: str | None) -> str | None:
            return None if text is None else base_storage.Storage.parse(text).text

        return simulation_replica.Replica(
            storage=normalise_spec(self.replica) or "",
            log_storage=normalise_spec(self.replica_log_storage),
            relay_storage=normalise_spec(self.relay_storage),
            instance=self.replica_instance,
            cache_gib=self.replica_cache_gib,
            version=self.replica_version,
            mode=self.replica_mode,
            workers=self.workers,
            preserve_order=self.preserve_order,
            log_bin=self.replica_binlog,
            flush_log_at_trx_commit=self.replica_flush_log,
            sync_binlog=self.replica_sync_binlog,
            sync_relay_log=self.sync_relay_log,
            start=self.replica_start or "warm",
            reads_per_tx=0.0 if self.replica_reads is None else self.replica_reads,
        )

    def to_semi_sync(self) -> simulation_replica.SemiSyncOptions | None:
        """Returns the settings of semi-sync that the options describe. Raises InputError."""
        if self.semi_sync is None:
            return None
        trips = tuple(parse_number(part, f"--semi-sync {self.semi_sync}") for part in self.semi_sync.split(","))
        count = 1 if self.acknowledgements is None else self.acknowledgements
        return simulation_replica.SemiSyncOptions(trips, count, wait_point=self.wait_point or "after-sync")

    def to_large(self) -> list[tuple[float, float, float]]:
        """Returns the large transactions that the options describe: begin, duration on the source
        and on the replica, s. Raises InputError."""
        transactions = []
        for text in self.large or []:
            parts = [parse_number(part, f"--large {text}") for part in text.split(":")]
            if len(parts) != 3:
                raise refuse.input(f"--large {text}", "is written START:SOURCE_S:REPLICA_S", "For example 60:30:30.")
            transactions.append((parts[0], parts[1], parts[2]))
        return transactions


def plan_for_replica(
    workload: TransactionWorkload,
    goal: ReplicaGoal,
    settings: PlanSettings,
    output: Output,
    report: Path | None,
) -> bool:
    """Plans a replica, prints the plan and writes its page; returns whether one keeps its lag below
    the goal. Raises InputError."""
    with show_progress("planning") as tick:
        answer = planner_replica.plan_replica(workload, **{**vars(settings), **vars(goal), "progress": tick})
    if (prediction := answer.prediction) is not None:
        write_report(report, lambda: replicas.build_view(prediction))
    if output == "json":
        print_json(answer.to_dict())
    elif output == "csv":
        print_data(as_csv(replicas.build_frame(answer)))
    else:
        show(*replicas.describe_plan(answer), "", replicas.build_plan_table(answer))
    return answer.chosen is not None


def parse_number(text: str, where: str) -> float:
    """Reads a part of an option as a number. Raises InputError."""
    try:
        return float(text)
    except ValueError:
        raise refuse.input(where, f"{text!r} is not a number") from None


def print_replica(
    workload: TransactionWorkload,
    storage: str,
    run: PredictionSettings,
    options: ReplicaOptions,
    output: Output,
    report: Path | None,
) -> None:
    """Predicts a replica, prints it and writes its page. `run`: the settings of the source's run.
    Raises InputError."""
    if run.form == "events":
        raise refuse.input("--form events", "is of a source alone", "Leave it out: a replica is run by seconds.")
    given: dict[str, Any] = {name: value for name, value in vars(run).items() if name not in OF_SOURCES}
    given |= {"seconds": run.seconds or REPLICA_SECONDS, "start": run.start or "cold"}
    given |= {} if options.drain is None else {"drain_s": options.drain}
    prediction = simulation_replica.predict_replica(
        workload,
        storage,
        options.to_replica(),
        semi_sync=options.to_semi_sync(),
        large=options.to_large(),
        **given,
    )
    write_report(report, lambda: replicas.build_view(prediction))
    if output == "json":
        print_json(replicas.build_document(prediction))
    elif output == "csv":
        say_each("warning", prediction.warnings)
        print_data(as_csv(prediction.rows))
    else:
        show(*replicas.describe_run(prediction), "", replicas.build_table(prediction))
