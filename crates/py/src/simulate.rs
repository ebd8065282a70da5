//! Simulations: one storage in either form, or many candidates at once.

use crate::convert::{catalog_error, date, refused, report_progress, sim_error, to_python, CoreError};
use headrace_catalog::Catalog;
use headrace_model::first_touch::SnapshotOrigin;
use headrace_model::latency::LatencyTable;
use headrace_model::rates::VolumeModification;
use headrace_model::{Nanos, Op};
use headrace_sim::cycle::{self, Cycle, Repeated};
use headrace_sim::demand::search::{self, DemandCandidate, DemandOutcome, DemandSearch, SearchMemory};
use headrace_sim::{events, interval, ClosedLoad, OpenLoad, Run, Setup, SimError, Summary};
use headrace_whatif::demand::{longest_cap, LoadColumns};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

/// A load as Python hands it over.
enum LoadArgs {
    Closed(ClosedLoad),
    Open(OpenLoad),
}

impl LoadArgs {
    /// Reads a dictionary, whose `kind` tells which it is, or a `DemandLoad`.
    fn read(load: &Bound<'_, PyAny>) -> PyResult<LoadArgs> {
        if let Ok(demand) = load.cast::<DemandLoad>() {
            return Ok(LoadArgs::Open(demand.get().load.clone()));
        }
        match load.get_item("kind")?.extract::<String>()?.as_str() {
            "closed" => Ok(LoadArgs::Closed(pythonize::depythonize(load)?)),
            "open" => Ok(LoadArgs::Open(pythonize::depythonize::<LoadColumns>(load)?.load().map_err(refused)?)),
            other => Err(CoreError::new_err((other.to_string(), "a load is closed or open", "headrace", "choose one of them"))),
        }
    }
}

/// Demand over time that many storages are asked about: it is read once, and outcomes of it are
/// remembered.
#[pyclass(frozen, module = "headrace._core")]
pub(crate) struct DemandLoad {
    load: OpenLoad,
    memory: SearchMemory,
}

#[pymethods]
impl DemandLoad {
    #[new]
    fn new(load: &Bound<'_, PyAny>) -> PyResult<DemandLoad> {
        Ok(DemandLoad { load: open_load(load)?, memory: SearchMemory::default() })
    }

    /// Returns the same demand with `factor` times the requests a second.
    fn times(&self, factor: f64) -> DemandLoad {
        DemandLoad { load: self.load.times(factor), memory: SearchMemory::default() }
    }
}

/// Parts of the model that are switched on, and events of the volumes.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SimulationOptions {
    merge: Option<bool>,
    saved_second: Option<bool>,
    holds: Option<bool>,
    latency: Option<bool>,
    rate_per_mille: Option<u64>,
    snapshot: Option<SnapshotOrigin>,
    degradations: Vec<(usize, headrace_model::rates::Degradation)>,
    modify: Option<ModificationArgs>,
    failed_members: Vec<usize>,
}

/// A modification: target storage (of the same layout) and the ends of its states, s.
#[derive(Deserialize)]
struct ModificationArgs {
    storage: String,
    modifying_until_s: f64,
    optimizing_until_s: f64,
}

/// Refuses a member that the storage does not have; members count from 0.
fn check_member(setup: &Setup, member: usize) -> Result<(), SimError> {
    let members = setup.limits.len();
    if member < members {
        return Ok(());
    }
    let rule = format!("of {} must be below {members}: members count from 0", setup.storage);
    Err(SimError::refused("member", member, rule, format!("Give 0 to {}.", members - 1)))
}

/// Sets the options and events of a simulation in `setup`; refuses members that do not exist and a
/// modification to a smaller size.
fn apply_options(setup: &mut Setup, options: SimulationOptions, as_of: headrace_catalog::NaiveDate) -> Result<(), SimError> {
    for &member in options.degradations.iter().map(|(member, _)| member).chain(&options.failed_members) {
        check_member(setup, member)?;
    }
    let model = &mut setup.options;
    model.merge = options.merge.unwrap_or(model.merge);
    model.saved_second = options.saved_second.unwrap_or(model.saved_second);
    model.holds = options.holds.unwrap_or(model.holds);
    model.latency = options.latency.unwrap_or(model.latency);
    model.rate_per_mille = options.rate_per_mille.unwrap_or(model.rate_per_mille);
    setup.snapshot = options.snapshot;
    setup.degradations = options.degradations;
    setup.failed_members = options.failed_members;
    if let Some(modify) = options.modify {
        let limits = Catalog::embedded().storage_limits(&modify.storage.parse()?, as_of, setup.instance.as_ref())?;
        let (before, after) = (setup.limits[0].spec.size_gib, limits[0].spec.size_gib);
        if after < before {
            let rule = format!("cannot follow {before} GiB: a volume never shrinks (AWS ModifyVolume)");
            return Err(SimError::refused("size (GiB) of the modification", after, rule, format!("Give {before} GiB or more.")));
        }
        let at = |seconds: f64| Nanos((seconds.max(0.0) * 1e9) as u64);
        setup.modification = Some(VolumeModification {
            target: limits[0].clone(),
            modifying_until: at(modify.modifying_until_s),
            optimizing_until: at(modify.optimizing_until_s),
        });
    }
    Ok(())
}

/// Returns the cycle of a name.
pub(crate) fn cycle_named(name: &str) -> PyResult<Cycle> {
    match name {
        "first" => Ok(Cycle::First),
        "settled" => Ok(Cycle::Settled),
        other => Err(CoreError::new_err((other.to_string(), "the cycle is first or settled", "headrace", "choose one of them"))),
    }
}

/// Simulates a load on a storage. `form` is "interval" or "events"; `cycle` is "first" or "settled"
/// (an open load in the interval form, repeated until its balances settle). Returns {"rows":
/// columns, "summary": dict, "repeated": None, or {"settled", "loses_percent_per_cycle",
/// "dry_after_s", "first": summary of the first cycle}}.
#[pyfunction]
#[pyo3(signature = (
    storage, load, *, form, interval_s, seconds=None, instance=None, as_of=None, seed=1, start_balance_percent=None, options=None, progress=None, cycle="first"
))]
#[allow(clippy::too_many_arguments)]
fn simulate<'py>(
    py: Python<'py>,
    storage: &str,
    load: &Bound<'py, PyAny>,
    form: &str,
    interval_s: f64,
    seconds: Option<f64>,
    instance: Option<&str>,
    as_of: Option<&str>,
    seed: u64,
    start_balance_percent: Option<f64>,
    options: Option<&Bound<'py, PyAny>>,
    progress: Option<Py<PyAny>>,
    cycle: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let day = date(as_of)?;
    let cycle = cycle_named(cycle)?;
    let load = LoadArgs::read(load)?;
    let options: SimulationOptions = options
        .map(pythonize::depythonize)
        .transpose()
        .map_err(|error: pythonize::PythonizeError| {
            CoreError::new_err((error.to_string(), "is not an option of the model", "headrace.simulate", "see its docstring"))
        })?
        .unwrap_or_default();
    let mut setup = Setup::resolve(storage, instance, day).map_err(sim_error)?;
    apply_options(&mut setup, options, day).map_err(sim_error)?;
    (setup.seed, setup.start_balance_percent) = (seed, start_balance_percent);
    let by_event = match form {
        "events" => true,
        "interval" => false,
        other => return Err(CoreError::new_err((other.to_string(), "the form is interval or events", "headrace", "choose one of them"))),
    };
    if cycle == Cycle::Settled {
        return settled_to_python(py, &setup, &load, by_event, interval_s);
    }
    let run = py.detach(|| {
        let mut report = |done: f64| report_progress(&progress, done);
        match &load {
            LoadArgs::Closed(load) => {
                let seconds = seconds.unwrap_or(60.0);
                if by_event {
                    events::closed(&setup, load, seconds, interval_s, &mut report)
                } else {
                    interval::closed(&setup, load, seconds, interval_s)
                }
            }
            LoadArgs::Open(load) => {
                if by_event {
                    events::open(&setup, load, interval_s, &mut report)
                } else {
                    interval::open(&setup, load, interval_s)
                }
            }
        }
    });
    run_to_python(py, &run.map_err(sim_error)?, None)
}

/// Repeats an open load until its balances settle; refuses a closed load and the per-I/O form.
fn settled_to_python<'py>(py: Python<'py>, setup: &Setup, load: &LoadArgs, by_event: bool, interval_s: f64) -> PyResult<Bound<'py, PyDict>> {
    let LoadArgs::Open(load) = load else {
        let hint = "leave the cycle out, or give demand over time";
        return Err(CoreError::new_err(("closed", "a settled cycle needs demand over time: a closed load has no day that repeats", "headrace", hint)));
    };
    if by_event {
        let hint = "choose the interval form, or give a recording of several days to the per-I/O form";
        return Err(CoreError::new_err(("events", "a settled cycle needs the interval form: it repeats the load many times", "headrace", hint)));
    }
    let (rows, repeated) = py.detach(|| cycle::open_settled(setup, load, interval_s)).map_err(sim_error)?;
    run_to_python(py, &Run { rows, summary: repeated.summary.clone() }, Some(&repeated))
}

/// Returns rows as columns, the summary, and what is known of the cycles as `repeated`.
fn run_to_python<'py>(py: Python<'py>, run: &Run, repeated: Option<&Repeated>) -> PyResult<Bound<'py, PyDict>> {
    let rows = PyDict::new(py);
    macro_rules! columns {
        ($($name:ident),*) => { $( rows.set_item(stringify!($name), run.rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* };
    }
    columns!(t_s, duration_s, asked_iops, asked_mib_s, iops, mib_s, queue, balance_percent, instance_io_balance_percent, instance_byte_balance_percent);
    rows.set_item("cap", run.rows.iter().map(|row| row.cap.name()).collect::<Vec<_>>())?;
    columns!(throttled_s, mean_ms, p50_ms, p95_ms, p99_ms, p999_ms);
    let answer = PyDict::new(py);
    answer.set_item("rows", rows)?;
    answer.set_item("summary", to_python(py, &run.summary)?)?;
    let of_cycles = repeated.map(|repeated| {
        let about = PyDict::new(py);
        about.set_item("settled", repeated.settled)?;
        about.set_item("loses_percent_per_cycle", repeated.loses_percent_per_cycle)?;
        about.set_item("dry_after_s", repeated.dry_after_s)?;
        about.set_item("first", to_python(py, repeated.first())?)?;
        PyResult::Ok(about)
    });
    answer.set_item("repeated", of_cycles.transpose()?)?;
    Ok(answer)
}

/// Reads an open load as Python hands it over; refuses a closed one.
pub(crate) fn open_load(load: &Bound<'_, PyAny>) -> PyResult<OpenLoad> {
    match LoadArgs::read(load)? {
        LoadArgs::Open(load) => Ok(load),
        LoadArgs::Closed(_) => {
            Err(CoreError::new_err(("closed", "a plan needs demand over time", "headrace", "give an open workload (constant, daily or recorded)")))
        }
    }
}

/// Evaluates many storages against one open load (a `DemandLoad`, or a dictionary). Returns columns
/// in the candidates' order: `status` ("simulated", "bounded", "invalid"), `overload` (asked over
/// sustainable, where bounded), `why` (where invalid) and every number of the summary (None where
/// not simulated).
///
/// `cycle` is "settled" (the load repeated until its balances settle; not with a start balance) or
/// "first". The figures are those of that cycle; `settled` says whether there is one (None: not
/// looked at), `loses_percent_per_cycle` what the worst balance loses each time, `dry_after_s` when
/// credits were first gone, `judged_p99_ms` is the p99 of the worst five minutes in the unluckiest
/// run near a cap (`worst_p99_ms` elsewhere), and `first_throttled_s`, `first_worst_p99_ms`,
/// `first_lowest_balance_percent` tell of the first cycle.
#[pyfunction]
#[pyo3(signature = (load, storages, instance_index, instances, *, as_of=None, start_balance_percent=None, prune_above=1.0, progress=None, cycle="first"))]
#[allow(clippy::too_many_arguments)]
fn evaluate<'py>(
    py: Python<'py>,
    load: &Bound<'py, PyAny>,
    storages: Vec<String>,
    instance_index: Vec<Option<usize>>,
    instances: Vec<String>,
    as_of: Option<&str>,
    start_balance_percent: Option<f64>,
    prune_above: f64,
    progress: Option<Py<PyAny>>,
    cycle: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let day = date(as_of)?;
    let cycle = cycle_named(cycle)?;
    let read;
    let demand = match load.cast::<DemandLoad>() {
        Ok(demand) => demand.get(),
        Err(_) => {
            read = DemandLoad::new(load)?;
            &read
        }
    };
    let outcomes = py.detach(|| {
        let catalog = Catalog::embedded();
        let instances = instances.iter().map(|name| catalog.instance(name, day)).collect::<Result<Vec<_>, _>>()?;
        let candidates = storages
            .iter()
            .zip(&instance_index)
            .map(|(storage, &instance)| Ok(DemandCandidate { storage: storage.parse()?, instance }))
            .collect::<Result<Vec<_>, SimError>>()?;
        let search = DemandSearch { load: &demand.load, as_of: day, instances: &instances, start_balance_percent, cycle, prune_above };
        let total = candidates.len().max(1) as f64;
        search::evaluate(&search, &demand.memory, &candidates, &mut |done| report_progress(&progress, done as f64 / total))
    });
    outcomes_to_python(py, &outcomes.map_err(sim_error)?)
}

/// Returns outcomes as columns, in their order; a number is None where a candidate was not
/// simulated.
pub(crate) fn outcomes_to_python<'py>(py: Python<'py>, outcomes: &[DemandOutcome]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let status = |outcome: &DemandOutcome| match outcome {
        DemandOutcome::Simulated(_) => "simulated",
        DemandOutcome::Bounded(_) => "bounded",
        DemandOutcome::Invalid(_) => "invalid",
    };
    columns.set_item("status", outcomes.iter().map(status).collect::<Vec<_>>())?;
    columns.set_item("overload", outcomes.iter().map(|outcome| if let DemandOutcome::Bounded(by) = outcome { Some(*by) } else { None }).collect::<Vec<_>>())?;
    columns.set_item(
        "why",
        outcomes.iter().map(|outcome| if let DemandOutcome::Invalid(why) = outcome { Some(why.as_str()) } else { None }).collect::<Vec<_>>(),
    )?;
    let simulated =
        |outcome: &DemandOutcome, get: &dyn Fn(&Repeated) -> Option<f64>| if let DemandOutcome::Simulated(repeated) = outcome { get(repeated) } else { None };
    let of_cycles = |get: &dyn Fn(&Repeated) -> Option<f64>| outcomes.iter().map(|outcome| simulated(outcome, get)).collect::<Vec<_>>();
    let number = |get: &dyn Fn(&Summary) -> Option<f64>| of_cycles(&|repeated| get(&repeated.summary));
    macro_rules! plain { ($($name:ident),*) => { $( columns.set_item(stringify!($name), number(&|summary| Some(summary.$name)))?; )* }; }
    macro_rules! optional { ($($name:ident),*) => { $( columns.set_item(stringify!($name), number(&|summary| summary.$name))?; )* }; }
    plain!(seconds, asked_ios, delivered_ios, delivered_bytes, throttled_s, peak_queue, longest_wait_s, queue_at_end, credits_empty_s, instance_empty_s);
    plain!(mean_ms);
    optional!(p50_ms, p95_ms, p99_ms, p999_ms);
    optional!(recovered_at_s, lowest_balance_percent, lowest_balance_at_s, credits_empty_at_s, lowest_instance_balance_percent, instance_empty_at_s);
    optional!(worst_mean_ms, worst_p50_ms, worst_p95_ms, worst_p99_ms, worst_p999_ms, worst_at_s);
    columns.set_item("judged_p99_ms", number(&Summary::judged_p99_ms))?;
    columns.set_item("loses_percent_per_cycle", of_cycles(&|repeated| repeated.loses_percent_per_cycle))?;
    columns.set_item("dry_after_s", of_cycles(&|repeated| repeated.dry_after_s))?;
    columns.set_item("first_throttled_s", of_cycles(&|repeated| Some(repeated.first().throttled_s)))?;
    columns.set_item("first_worst_p99_ms", of_cycles(&|repeated| repeated.first().worst_p99_ms))?;
    columns.set_item("first_lowest_balance_percent", of_cycles(&|repeated| repeated.first().lowest_balance_percent))?;
    let settled = |outcome: &DemandOutcome| if let DemandOutcome::Simulated(repeated) = outcome { repeated.settled } else { None };
    columns.set_item("settled", outcomes.iter().map(settled).collect::<Vec<_>>())?;
    let blamed = |outcome: &DemandOutcome| match outcome {
        DemandOutcome::Simulated(repeated) => longest_cap(repeated).unwrap_or("none"),
        _ => "none",
    };
    columns.set_item("cap", outcomes.iter().map(blamed).collect::<Vec<_>>())?;
    Ok(columns)
}

/// Returns the quantiles of a type's own latency for requests of `bytes`, us.
#[pyfunction]
#[pyo3(signature = (volume_type, op, quantiles, *, bytes=16_384, as_of=None))]
fn latency_quantiles(volume_type: &str, op: &str, quantiles: Vec<f64>, bytes: u32, as_of: Option<&str>) -> PyResult<Vec<f64>> {
    let volume_type = volume_type.parse().map_err(|error| catalog_error(&error))?;
    let op = match op {
        "read" => Op::Read,
        "write" => Op::Write,
        other => return Err(CoreError::new_err((other.to_string(), "an operation is read or write", "headrace", "choose one of them"))),
    };
    let table = LatencyTable::cached(volume_type, op, date(as_of)?);
    Ok(quantiles.iter().map(|&q| table.quantile_ns(q, bytes) as f64 / 1e3).collect())
}

/// Returns the rows of the latency table with source and confidence.
#[pyfunction]
fn latency_profiles(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &headrace_model::latency::LatencyProfile::all())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DemandLoad>()?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(latency_quantiles, module)?)?;
    module.add_function(wrap_pyfunction!(latency_profiles, module)?)
}
