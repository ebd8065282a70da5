//! Rules of the model that Python asks for one by one, so that it needs no copy of them.

use crate::catalog::read_storage;
use crate::convert::{catalog_error, date, sim_error, to_python, CoreError};
use crate::mysql::database_of;
use crate::simulate::open_load;
use headrace_catalog::{Catalog, VolumeLimits};
use headrace_model::accounting::StorageCost;
use headrace_model::bucket::{self, Bucket};
use headrace_model::rates::default_optimizing;
use headrace_model::volume::credits_of;
use headrace_model::Instance;
use headrace_sim::measure;
use headrace_sim::mysql::costs::Flavor;
use headrace_sim::mysql::interval::{Machine, Processors};
use headrace_sim::mysql::settings::{self, ServerSettings};
use headrace_sim::mysql::{database, interval, pauses, purge, CheckpointLaw, Clients, Noise, PageCleaner};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the I/Os that reads and writes of a storage become on its volumes, and the units they
/// are counted in: members, data_members, copies, ios_per_read, ios_per_write, reads_per_write (of
/// those), chunk_kib (None for a single volume), unit_kib, hdd_unit_kib, hdd_merge_kib.
#[pyfunction]
fn storage_cost<'py>(py: Python<'py>, storage: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &StorageCost::of(&read_storage(storage)?))
}

/// Returns the demand of an open load on all volumes of a storage together, copies and parity
/// included. Columns: t_s, duration_s, iops (units of 256 KiB), mib_s, hdd_mib_s (as HDD types
/// count, for volumes of any type).
#[pyfunction]
fn demand_on_volumes<'py>(py: Python<'py>, load: &Bound<'py, PyAny>, storage: &str) -> PyResult<Bound<'py, PyDict>> {
    let rows = measure::on_volumes(&open_load(load)?, &read_storage(storage)?);
    let columns = PyDict::new(py);
    macro_rules! columns { ($($name:ident),*) => { $( columns.set_item(stringify!($name), rows.iter().map(|row| row.$name).collect::<Vec<_>>())?; )* }; }
    columns!(t_s, duration_s, iops, mib_s, hdd_mib_s);
    Ok(columns)
}

/// Returns the GiB of cache that a memory has room for: `share` of it (None: CACHE_SHARE), with
/// room left for everything else.
#[pyfunction]
#[pyo3(signature = (memory_gib, share=None))]
fn cache_gib_for(memory_gib: f64, share: Option<f64>) -> f64 {
    settings::cache_gib_for(memory_gib, share)
}

/// Returns the pages that the page cleaner keeps free, on average, by flavour and version.
#[pyfunction]
fn innodb_free_pages(flavor: &str, version: &str, pool_bytes: f64, vcpus: u32) -> f64 {
    settings::free_pages(flavor, version, pool_bytes, vcpus)
}

/// Returns the bytes of the buffer pool that a server makes where `asked_bytes` are set, by flavour
/// and version.
#[pyfunction]
fn innodb_pool_bytes(flavor: &str, version: &str, asked_bytes: f64, vcpus: u32) -> f64 {
    settings::pool_bytes(flavor, version, asked_bytes, vcpus)
}

/// Returns the behavior of a server whose redo log fills, by flavor and version.
#[pyfunction]
fn checkpoint_law<'py>(py: Python<'py>, flavor: &str, version: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &CheckpointLaw::of_server(flavor, version))
}

/// Returns the page cleaner of a server where nothing is set, by flavour and version.
#[pyfunction]
fn page_cleaner<'py>(py: Python<'py>, flavor: &str, version: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &PageCleaner::of_server(flavor, version))
}

/// Returns a database under a server's settings: flush_log_at_trx_commit, log_bin, sync_binlog
/// (given one of the three, the others are 1, as the database writes, and 1), doublewrite,
/// io_capacity, io_capacity_max, max_dirty_pages_pct, max_dirty_pages_pct_lwm,
/// adaptive_flushing_lwm (percent; of databases with a page cleaner), redo_bytes (with
/// measured_redo_bytes where the database does not know its own), compaction_write_bytes_s. A
/// setting that is not given (or None) stays.
#[pyfunction]
fn database_under<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, settings: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let settings: ServerSettings = pythonize::depythonize(settings).map_err(|error: pythonize::PythonizeError| {
        CoreError::new_err(("settings".to_string(), error.to_string(), "docs/reference/run-description.md", "check the setting's name and value"))
    })?;
    to_python(py, &settings.on(&database_of(database)?).map_err(sim_error)?)
}

/// Returns a database of HammerDB's TPROC-C, calibrated on a server of the flavor `from_flavor`, on
/// one of another flavor and version: with its page cleaner, its redo and binary log; flavors are
/// mysql and mariadb.
#[pyfunction]
fn mysql_on_flavor<'py>(
    py: Python<'py>,
    database: &Bound<'py, PyAny>,
    from_flavor: &Bound<'py, PyAny>,
    flavor: &Bound<'py, PyAny>,
    version: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let (from, to): (Flavor, Flavor) = (pythonize::depythonize(from_flavor)?, pythonize::depythonize(flavor)?);
    to_python(py, &settings::on_flavor(&database_of(database)?, from, (to, version)).map_err(sim_error)?)
}

/// Returns a database calibrated with a cache of `cache_bytes` behind one of `other_bytes`;
/// `changed`: per class of pages the share of touches that change one, where known.
#[pyfunction]
#[pyo3(signature = (database, cache_bytes, other_bytes, changed=None))]
fn cache_after<'py>(
    py: Python<'py>,
    database: &Bound<'py, PyAny>,
    cache_bytes: f64,
    other_bytes: f64,
    changed: Option<Vec<f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    if !(cache_bytes > 0.0 && other_bytes > 0.0) {
        return Err(CoreError::new_err(("cache".to_string(), "must be above 0 bytes", "headrace", "give the size of both caches")));
    }
    to_python(py, &settings::behind_cache(&database_of(database)?, cache_bytes, other_bytes, changed.as_deref()))
}

/// Returns a database measured in a cache of some bytes at some transactions a second (`of_run`) in
/// another cache and at another rate (`target`), with what purge reads again there; `changed`: per
/// class of pages the share of touches that change one.
#[pyfunction]
fn purged_at<'py>(py: Python<'py>, database: &Bound<'py, PyAny>, of_run: (f64, f64), target: (f64, f64), changed: Vec<f64>) -> PyResult<Bound<'py, PyAny>> {
    if [of_run.0, of_run.1, target.0, target.1].iter().any(|value| !(*value > 0.0 && value.is_finite())) {
        return Err(CoreError::new_err((
            "cache and rate".to_string(),
            "must be above 0 and finite",
            "headrace",
            "give bytes and transactions a second of both",
        )));
    }
    to_python(py, &purge::purged_at(&database_of(database)?, of_run, target, &changed))
}

/// Returns the share that pauses of MariaDB with a small pool take of a run of `seconds` at `tps`,
/// beyond those of a run at `calibrated_tps`: `lost_share` and the relative `spread` of its mean.
#[pyfunction]
fn pool_pauses(py: Python<'_>, pool_gib: f64, tps: f64, calibrated_tps: f64, seconds: f64) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &pauses::pauses(pool_gib, tps, calibrated_tps, seconds))
}

/// Returns the relative standard deviation that chance gives the mean of a run of `seconds` at
/// `tps`, by the `noise` of a database.
#[pyfunction]
fn noise_of_mean(noise: &Bound<'_, PyAny>, tps: f64, seconds: f64) -> PyResult<f64> {
    let noise: Noise = pythonize::depythonize(noise)?;
    Ok(noise.of_mean(tps, seconds))
}

/// Returns the table of clients of a database at another speed of a core; as it is where one is not
/// known.
#[pyfunction]
#[pyo3(signature = (clients, core_speed))]
fn clients_at_speed<'py>(py: Python<'py>, clients: &Bound<'py, PyAny>, core_speed: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
    let clients: Clients = pythonize::depythonize(clients)?;
    to_python(py, &clients.at_speed(core_speed))
}

/// Returns the transactions a second that the processors of an instance allow; `clients`: the table
/// of a database, `instance`: as `instance` gives it (its vcpus, threads_per_core and core_speed).
#[pyfunction]
fn processors_tps(clients: &Bound<'_, PyAny>, instance: &Bound<'_, PyAny>) -> PyResult<f64> {
    let processors = Processors {
        threads: instance.get_item("vcpus")?.extract()?,
        shared: instance.get_item("threads_per_core")?.extract::<u32>()? != 1,
        core_speed: instance.get_item("core_speed")?.extract()?,
        alone_faster: 1.0,
    };
    let clients: Clients = pythonize::depythonize(clients)?;
    Ok(interval::processors_rate(&clients, &processors))
}

/// Returns the least ratios of percentiles of response times to their mean, on any storage, by
/// metric; `clients`: the table of the database.
#[pyfunction]
fn least_responses<'py>(py: Python<'py>, clients: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let clients: Clients = pythonize::depythonize(clients)?;
    let least = interval::ResponseSpread::least(&clients);
    let answer = PyDict::new(py);
    answer.set_item("p50_ms", least.p50)?;
    answer.set_item("p95_ms", least.p95)?;
    answer.set_item("p99_ms", least.p99)?;
    Ok(answer)
}

/// Returns the 95th percentiles of response times, ms, around their means, by the pages that a
/// transaction reads and how much longer than its time without I/O it takes; where the cache is
/// `full` some wait behind a burst, of which a page takes `page_ms`. `running_pages`: that the
/// transactions which run at a time write.
#[pyfunction]
fn p95_behind_bursts(
    database: &Bound<'_, PyAny>,
    mean_ms: Vec<f64>,
    reads_per_tx: Vec<f64>,
    full: Vec<bool>,
    page_ms: f64,
    running_pages: Vec<f64>,
) -> PyResult<Vec<f64>> {
    let database = database_of(database)?;
    let rows = mean_ms.into_iter().zip(reads_per_tx).zip(full).zip(running_pages);
    Ok(rows
        .map(|(((mean_ms, reads), full), running_pages)| {
            let burst = interval::Burst { pages: if full { database.shape.burst_pages } else { 0.0 }, page_s: page_ms / 1e3, running_pages };
            let own_share = (database.clients.base_ms / mean_ms).min(1.0);
            mean_ms * interval::ResponseSpread::at(&database, reads, own_share).behind_burst(&burst, mean_ms / 1e3).p95
        })
        .collect())
}

/// Returns the pages of the burst behind which the 95th percentile of waits is `wait_ms`, where
/// behind a page that all meet it is `page_wait_ms`, and the wait behind them, ms; `running_pages`:
/// those that the transactions which run at a time write. The wait is less than `wait_ms` where
/// that is longer than any burst's.
#[pyfunction]
fn pages_of_burst(wait_ms: f64, page_wait_ms: f64, running_pages: f64) -> (f64, f64) {
    let pages = interval::Burst::pages_of(wait_ms, page_wait_ms, running_pages);
    let page_s = interval::Burst::page_s_of(page_wait_ms / 1e3);
    (pages, 1e3 * interval::Burst { pages, page_s, running_pages }.p95_wait_s())
}

/// Returns the processor time of a transaction on a core by itself, ms; `clients`: the table of a
/// database.
#[pyfunction]
fn core_ms(clients: &Bound<'_, PyAny>) -> PyResult<f64> {
    let clients: Clients = pythonize::depythonize(clients)?;
    Ok(clients.core_ms())
}

/// Returns the processor time of a transaction with `ios` I/Os among this number of clients, ms as
/// a database has it, on `vcpus` virtual CPUs, `threads_per_core` of them in a core; `clients`: the
/// table of a database.
#[pyfunction]
fn cpu_ms_among(clients: &Bound<'_, PyAny>, count: f64, ios: f64, vcpus: u32, threads_per_core: u32) -> PyResult<f64> {
    let clients: Clients = pythonize::depythonize(clients)?;
    let machine = Machine { threads_per_core: Some(threads_per_core), alone_faster: None };
    let processors = Processors::resolve(None, Some(vcpus), &machine);
    Ok(processors.map_or(0.0, |processors| clients.cpu_ms_among(count, ios, &processors)))
}

/// Returns the processor time of a transaction as a database has it, ms: from the time that its
/// processors were busy with it, ms of one virtual CPU, while `busy_share` of them were at work,
/// `threads_per_core` of them in a core; `own_vcpus`: how many there are on a machine of one's own,
/// `alone_faster`: its clock of a core alone over that of all.
#[pyfunction]
#[pyo3(signature = (busy_ms, busy_share, threads_per_core, own_vcpus=None, alone_faster=None))]
fn processor_ms(busy_ms: f64, busy_share: f64, threads_per_core: u32, own_vcpus: Option<u32>, alone_faster: Option<f64>) -> f64 {
    // Instances are told at the clock of all cores, however many.
    let alone_faster = if own_vcpus.is_some() { alone_faster } else { Some(1.0) };
    let machine = Machine { threads_per_core: Some(threads_per_core), alone_faster };
    Processors::resolve(None, Some(own_vcpus.unwrap_or(2)), &machine).map_or(0.0, |processors| interval::processor_ms(busy_ms, busy_share, &processors))
}

/// Returns (I/Os, bytes) of a page written back, with the doublewrite area or without.
#[pyfunction]
#[pyo3(signature = (page_bytes=16_384.0, doublewrite=true))]
fn page_write_cost(page_bytes: f64, doublewrite: bool) -> (f64, f64) {
    database::page_write(page_bytes, doublewrite)
}

/// Returns the rules for modifications of a volume on a day: `available`; `max_per_24_hours` or
/// else `wait_hours` (the rule in force; None where it is the other); `optimizing_s`, the time that
/// `optimizing` lasts for a volume of `used_gib` (a guess of the model's); `can_exceed_hours`;
/// `source`.
#[pyfunction]
fn modification_rules<'py>(py: Python<'py>, as_of: &str, used_gib: u64) -> PyResult<Bound<'py, PyDict>> {
    let (day, catalog) = (date(Some(as_of))?, Catalog::embedded());
    let in_force = |name: &str| catalog.rule("modify_volume", name).filter(|rule| rule.from.is_none_or(|from| from <= day));
    let number = |name: &str| in_force(name).and_then(|rule| rule.value.as_u64());
    let often = if in_force("max_per_24_hours").is_some() { "max_per_24_hours" } else { "wait_hours" };
    let answer = PyDict::new(py);
    answer.set_item("available", in_force("available").is_some())?;
    for name in ["max_per_24_hours", "wait_hours"] {
        answer.set_item(name, if name == often { number(name) } else { None })?;
    }
    answer.set_item("optimizing_s", default_optimizing(used_gib).as_secs_f64())?;
    answer.set_item("can_exceed_hours", number("can_exceed_hours"))?;
    answer.set_item("source", in_force(often).map(|rule| catalog.cite(&rule.source.joined())))?;
    Ok(answer)
}

/// Returns the seconds until `level` tokens are gone while `demand` a second are taken and `refill`
/// come back; infinite where no more is taken than comes back.
#[pyfunction]
fn seconds_to_empty(level: f64, demand: f64, refill: f64) -> f64 {
    bucket::seconds_to_empty(level, demand, refill)
}

/// Returns the credit balances of each member of a storage and of the instance in front of it, None
/// where there are none: `capacity` and `refill` a second, in I/Os or bytes (`unit`).
#[pyfunction]
#[pyo3(signature = (storage, as_of=None, instance=None))]
fn credit_buckets<'py>(py: Python<'py>, storage: &str, as_of: Option<&str>, instance: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let (day, catalog) = (date(as_of)?, Catalog::embedded());
    let describe = |bucket: &Bucket, unit: &str| -> PyResult<Bound<'py, PyDict>> {
        let entry = PyDict::new(py);
        entry.set_item("unit", unit)?;
        entry.set_item("capacity", bucket.capacity())?;
        entry.set_item("refill", bucket.rate())?;
        Ok(entry)
    };
    let host = instance.map(|name| catalog.instance(name, day)).transpose().map_err(|error| catalog_error(&error))?;
    let limits = catalog.storage_limits(&read_storage(storage)?, day, host.as_ref()).map_err(|error| catalog_error(&error))?;
    let member = |limits: &VolumeLimits| {
        let unit = if limits.io_burst.is_some() { "ios" } else { "bytes" };
        credits_of(limits).map(|bucket| describe(&bucket, unit)).transpose()
    };
    let answer = PyDict::new(py);
    answer.set_item("members", limits.iter().map(member).collect::<PyResult<Vec<_>>>()?)?;
    let host = host.map(|limits| Instance::new(&limits, true));
    for (nth, unit) in ["ios", "bytes"].into_iter().enumerate() {
        let bucket = host.as_ref().and_then(|host| host.credits()[nth]);
        answer.set_item(format!("instance_{unit}"), bucket.map(|bucket| describe(bucket, unit)).transpose()?)?;
    }
    Ok(answer)
}

/// Adds the functions of this file to `headrace._core`, and the share of the memory that a cache
/// has by default.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CACHE_SHARE", settings::CACHE_SHARE)?;
    module.add_function(wrap_pyfunction!(modification_rules, module)?)?;
    module.add_function(wrap_pyfunction!(storage_cost, module)?)?;
    module.add_function(wrap_pyfunction!(seconds_to_empty, module)?)?;
    module.add_function(wrap_pyfunction!(credit_buckets, module)?)?;
    module.add_function(wrap_pyfunction!(demand_on_volumes, module)?)?;
    module.add_function(wrap_pyfunction!(checkpoint_law, module)?)?;
    module.add_function(wrap_pyfunction!(page_cleaner, module)?)?;
    module.add_function(wrap_pyfunction!(database_under, module)?)?;
    module.add_function(wrap_pyfunction!(cache_after, module)?)?;
    module.add_function(wrap_pyfunction!(purged_at, module)?)?;
    module.add_function(wrap_pyfunction!(pool_pauses, module)?)?;
    module.add_function(wrap_pyfunction!(noise_of_mean, module)?)?;
    module.add_function(wrap_pyfunction!(clients_at_speed, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_on_flavor, module)?)?;
    module.add_function(wrap_pyfunction!(core_ms, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_ms_among, module)?)?;
    module.add_function(wrap_pyfunction!(least_responses, module)?)?;
    module.add_function(wrap_pyfunction!(p95_behind_bursts, module)?)?;
    module.add_function(wrap_pyfunction!(pages_of_burst, module)?)?;
    module.add_function(wrap_pyfunction!(processors_tps, module)?)?;
    module.add_function(wrap_pyfunction!(processor_ms, module)?)?;
    module.add_function(wrap_pyfunction!(page_write_cost, module)?)?;
    module.add_function(wrap_pyfunction!(innodb_free_pages, module)?)?;
    module.add_function(wrap_pyfunction!(innodb_pool_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(cache_gib_for, module)?)
}
