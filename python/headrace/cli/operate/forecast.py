"""`headrace forecast`: when credits run out, when the volume is full, when growth meets a limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.files import OWN_FILE, detect
from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText, InstanceType, Seed
from headrace.cli.inputs import RecordingOptions, read_demand
from headrace.cli.options import PageOrChartOption, TableOrJsonOption, make_flag, make_option, make_storage_option
from headrace.cli.output import exit_if, make_table, print_json, say_each, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError
from headrace.report.output import check_chart_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.operate.forecast.space import SpaceHistory
    from headrace.workload import OpenWorkload

with defer_imports():
    from headrace import workload as workloads
    from headrace.base import storage as base_storage
    from headrace.observe import recording as observe_recording
    from headrace.operate import targets
    from headrace.operate.forecast import answer, ledger, sources
    from headrace.operate.forecast import growth as forecast_growth
    from headrace.operate.forecast import history as forecast_history
    from headrace.operate.forecast import space as forecast_space
    from headrace.report.operate import forecast as operate_forecast

EPILOG = read_epilog("forecast")


def forecast(
    *,
    recording: Annotated[
        str,
        typer.Argument(
            metavar="RECORDING",
            help="A workload file, demo:day, what `headrace workload import` reads (iostat, sar, CloudWatch, Prometheus; - is "
            "standard input), aws:vol-..., aws:db-NAME, prometheus:URL, or a captured folder.",
        ),
    ],
    recorded: RecordingOptions,
    storage: Annotated[
        str | None, make_storage_option("Such as gp2:500 or 2xgp3:500:6000:250. Default: as the target says.")
    ] = None,
    instance: InstanceType = None,
    as_of: AsOfText = None,
    hours: Annotated[int, make_option("HOURS", "Hours to follow the credits, 1 to 336.")] = 72,
    balance: Annotated[
        float | None, make_option("PERCENT", "Credits now. Default: as recorded, else simulated over the recording.")
    ] = None,
    space: Annotated[
        Path | None,
        make_option("FILE", "Used space over time: a CSV with time and used_bytes or used_gib. Default: as RDS says."),
    ] = None,
    full_at_gib: Annotated[
        float | None, make_option("GIB", "Used space at which it is full. Default: what the storage holds.")
    ] = None,
    free_inside_gib: Annotated[
        float, make_option("GIB", "Free space inside the files (data_free): it is used up before they grow.")
    ] = 0.0,
    device: Annotated[
        str | None, make_option("NAME", "Device of the recording. Default: the one that does most.")
    ] = None,
    score: Annotated[bool, make_flag("--score", "Compare the stored forecasts with this recording.")] = False,
    keep: Annotated[bool, make_flag("--keep/--no-keep", "Keep this forecast, to score it later.")] = True,
    seed: Seed = 1,
    output: TableOrJsonOption = "table",
    report: PageOrChartOption = None,
) -> None:
    """Forecast when credits run out, the volume is full, or growth meets a limit, each with its
    interval."""
    check_chart_path(report)
    with show_progress("reading") as tick:
        load, own_storage, own_instance, own_space = read_recording(recording, device, recorded, tick)
    if storage is None and own_storage is None:
        raise InputError(
            "--storage is missing", "a recording does not say what the volume was", "", "For example gp2:500."
        )
    storage, instance = base_storage.Storage.parse(storage or str(own_storage)).text, instance or own_instance
    used = own_space if space is None else forecast_space.read_space(space)
    if score:
        if report is not None:
            hint = "Leave one of them out."
            raise InputError("--score and --report", "scores are printed only", "headrace forecast --help", hint)
        return _score(load, storage, instance, as_of, used, output)
    with show_progress("simulating futures") as tick:
        prediction = answer.forecast(
            load,
            storage,
            hours=hours,
            balance_percent=balance,
            space=used,
            limit_gib=full_at_gib,
            free_inside_gib=free_inside_gib,
            seed=seed,
            progress=tick,
            instance=instance,
            as_of=as_of,
        )
    if output == "json":
        print_json(operate_forecast.build_document(prediction))
    else:
        show(
            *operate_forecast.describe_forecast(prediction),
            *([""] if prediction.notes else []),
            *(f"note: {note}" for note in prediction.notes),
        )
    if keep:
        ledger.keep(prediction.promises(), ledger.get_default_ledger())
    # Said and kept first, then written: a disk that is full must not cost the answer.
    write_report(report, lambda: operate_forecast.build_view(prediction))
    exit_if(prediction.has_findings())


def read_recording(
    text: str, device: str | None, recorded: RecordingOptions, tick: Callable[[float], None]
) -> sources.RecordedDemand:
    """Returns the demand of a workload file, demo:day, a recording as a tool wrote it, or another
    target; with storage, instance and used space where the target has them. Raises InputError or
    CouldNotRun."""
    path = Path(text)
    own = text.startswith(("demo:", "fio:"))
    if not own and path.is_file() and path.suffix not in (".jsonl", ".gz"):
        own = detect(observe_recording.open_recording(path).text)[1] == OWN_FILE
    options = recorded.apply_to(targets.SourceOptions(devices=(device,) if device else (), progress=tick))
    if not own:
        return sources.read_target_demand(text, options)
    for name, value in {"--device": device, **options.times_given}.items():
        if value is not None:
            rule = f"is for recordings, and {text} is a workload: one demand with times of its own"
            raise InputError(f"{name} {value}", rule, "headrace forecast --help", "Leave it out.")
    workload = read_demand(text)
    if not isinstance(workload, workloads.OpenWorkload):
        hint = "Record the server: iostat -xt 60 > iostat.txt"
        raise InputError(text, "is a load without a clock: it cannot be continued", "headrace forecast --help", hint)
    return sources.RecordedDemand(workload)


def _score(
    load: OpenWorkload, storage: str, instance: str | None, as_of: str | None, used: SpaceHistory | None, output: str
) -> None:
    """Prints in what share of the earlier forecasts that are due in this recording the 80 %
    interval held. `used`: space over time, None: not known."""
    path = ledger.get_default_ledger()
    history = forecast_history.build_history(load)
    try:
        growth = forecast_growth.forecast_limits(history, storage, instance=instance, as_of=as_of)
    except InputError:
        growth = ()
    notes: list[str] = []
    scores = ledger.score_promises(
        ledger.choose_name(load),
        storage,
        ledger.load(path, notes),
        load,
        history,
        growth,
        used,
        instance=instance,
        as_of=as_of,
    )
    say_each("note", notes)
    if output == "json":
        return print_json(scores)
    if not scores:
        show(f"None of the forecasts in {path} about {ledger.choose_name(load)} on {storage} is due in this recording.")
        return
    show(
        "Shares of earlier forecasts whose 80 % interval held:",
        make_table(operate_forecast.SCORE_COLUMNS, operate_forecast.list_score_rows(scores)),
    )
