//! The demands of many volumes at once: numbers come as buffers, not as lists.

use crate::convert::{date, sim_error, CoreError};
use crate::simulate::{cycle_named, outcomes_to_python};
use headrace_catalog::Catalog;
use headrace_sim::cycle::Cycle;
use headrace_sim::demand::search::fleet::{DayDraws, Fleet, FleetGoal, FleetQuestion, FleetTerms};
use headrace_sim::demand::search::DemandCandidate;
use headrace_sim::{Arrivals, OpenLoad, Point, SimError};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::prelude::*;

/// The demands of a batch of volumes. `points`: buffers of f64 of equal length, with `duration_s`,
/// `reads_per_s`, `writes_per_s`, `read_bytes`, `write_bytes` of one volume after the other;
/// `lengths`: points of each volume.
#[pyclass(frozen, module = "headrace._core")]
struct FleetDemands {
    fleet: Fleet,
}

#[pymethods]
impl FleetDemands {
    #[new]
    #[pyo3(signature = (duration_s, reads_per_s, writes_per_s, read_bytes, write_bytes, lengths, max_outstanding))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        duration_s: PyBuffer<f64>,
        reads_per_s: PyBuffer<f64>,
        writes_per_s: PyBuffer<f64>,
        read_bytes: PyBuffer<f64>,
        write_bytes: PyBuffer<f64>,
        lengths: Vec<usize>,
        max_outstanding: u32,
    ) -> PyResult<FleetDemands> {
        let [duration_s, reads_per_s, writes_per_s, read_bytes, write_bytes] =
            [duration_s, reads_per_s, writes_per_s, read_bytes, write_bytes].map(|buffer| buffer.to_vec(py));
        let (duration_s, reads_per_s, writes_per_s, read_bytes, write_bytes) = (duration_s?, reads_per_s?, writes_per_s?, read_bytes?, write_bytes?);
        let total = lengths.iter().sum::<usize>();
        if [&duration_s, &reads_per_s, &writes_per_s, &read_bytes, &write_bytes].iter().any(|column| column.len() != total) {
            let rule = format!("must each have the {total} points that lengths tells");
            return Err(CoreError::new_err(("columns".to_string(), rule, "headrace._core", "give columns of equal length")));
        }
        let fleet = py.detach(|| {
            let ends = lengths.iter().scan(0, |end, length| {
                *end += length;
                Some(*end)
            });
            let spans: Vec<_> = ends.zip(&lengths).map(|(end, length)| end - length..end).collect();
            let load = |span: &std::ops::Range<usize>| OpenLoad {
                points: span
                    .clone()
                    .map(|i| Point {
                        duration_s: duration_s[i],
                        reads_per_s: reads_per_s[i],
                        writes_per_s: writes_per_s[i],
                        read_bytes: read_bytes[i],
                        write_bytes: write_bytes[i],
                    })
                    .collect(),
                sequential_read_share: 0.0,
                sequential_write_share: 0.0,
                arrivals: Arrivals::Poisson,
                max_outstanding,
                span_bytes: 0,
            };
            Fleet::new(spans.par_iter().map(load).collect())
        });
        Ok(FleetDemands { fleet: fleet.map_err(sim_error)? })
    }

    /// Evaluates storages, each for one volume under `factors` times its demand. Columns as of
    /// `evaluate`, in the order of the questions.
    #[pyo3(signature = (volumes, storages, instances, factors, *, as_of=None, prune_above=1.0, cycle="settled"))]
    #[allow(clippy::too_many_arguments)]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        volumes: Vec<usize>,
        storages: Vec<String>,
        instances: Vec<Option<String>>,
        factors: Vec<f64>,
        as_of: Option<&str>,
        prune_above: f64,
        cycle: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (day, cycle) = (date(as_of)?, cycle_named(cycle)?);
        let outcomes = py.detach(|| {
            let (questions, instances) = self.questions(&volumes, &storages, &instances, &factors, day)?;
            let terms = FleetTerms { as_of: day, instances: &instances, cycle, prune_above };
            Ok(self.fleet.evaluate(&terms, &questions))
        });
        outcomes_to_python(py, &outcomes.map_err(sim_error)?)
    }

    /// Returns whether storages meet goals, each for one volume under `factors` times its demand,
    /// in the settled cycle: at most `throttled_s` of waiting, and a p99 of the worst five minutes
    /// of at most `p99_ms`. The answers equal those of `evaluate`, but come sooner.
    #[pyo3(signature = (volumes, storages, instances, factors, p99_ms, throttled_s, *, as_of=None))]
    #[allow(clippy::too_many_arguments)]
    fn meets(
        &self,
        py: Python<'_>,
        volumes: Vec<usize>,
        storages: Vec<String>,
        instances: Vec<Option<String>>,
        factors: Vec<f64>,
        p99_ms: Vec<f64>,
        throttled_s: f64,
        as_of: Option<&str>,
    ) -> PyResult<Vec<bool>> {
        let day = date(as_of)?;
        let outcome = py.detach(|| {
            let (questions, instances) = self.questions(&volumes, &storages, &instances, &factors, day)?;
            let terms = FleetTerms { as_of: day, instances: &instances, cycle: Cycle::Settled, prune_above: 1.0 };
            let goals = p99_ms.iter().map(|&p99_ms| FleetGoal { throttled_s, p99_ms });
            Ok(self.fleet.meets(&terms, &questions.into_iter().zip(goals).collect::<Vec<_>>()))
        });
        outcome.map_err(sim_error)
    }

    /// Returns for each question the number of recordings, drawn from a volume's own days, that
    /// miss a goal on a storage; see `meets`. `days`, `levels`: of the recordings of each question,
    /// one after the other, the day (from 0) and the factor of its rates; each recording has
    /// `days_each` days of `per_day` points.
    #[pyo3(signature = (volumes, storages, instances, p99_ms, throttled_s, days, levels, per_day, days_each, *, as_of=None))]
    #[allow(clippy::too_many_arguments)]
    fn missing_draws(
        &self,
        py: Python<'_>,
        volumes: Vec<usize>,
        storages: Vec<String>,
        instances: Vec<Option<String>>,
        p99_ms: Vec<f64>,
        throttled_s: f64,
        days: Vec<Vec<usize>>,
        levels: Vec<Vec<f64>>,
        per_day: Vec<usize>,
        days_each: usize,
        as_of: Option<&str>,
    ) -> PyResult<Vec<usize>> {
        let day = date(as_of)?;
        let missing = py.detach(|| {
            let (questions, instances) = self.questions(&volumes, &storages, &instances, &vec![1.0; volumes.len()], day)?;
            let terms = FleetTerms { as_of: day, instances: &instances, cycle: Cycle::Settled, prune_above: f64::INFINITY };
            let draws = days.into_iter().zip(levels).zip(per_day).map(|((days, levels), per_day)| DayDraws {
                per_day,
                days_each,
                days: days.into_iter().zip(levels).collect(),
            });
            let goals = p99_ms.iter().map(|&p99_ms| FleetGoal { throttled_s, p99_ms });
            let groups: Vec<_> = questions.into_iter().zip(goals).zip(draws).map(|((question, goal), draws)| (question, goal, draws)).collect();
            self.fleet.missing_draws(&terms, &groups)
        });
        missing.map_err(sim_error)
    }

    /// Follows storages point by point from these balances (percent, or None: as AWS gives them).
    /// For each question a dict of bytes of f64, a value a point: `balance_percent` (NaN without
    /// credits), `throttled_s`, `queue`; or the text of a refusal.
    #[pyo3(signature = (volumes, storages, instances, starts, *, as_of=None))]
    fn follow<'py>(
        &self,
        py: Python<'py>,
        volumes: Vec<usize>,
        storages: Vec<String>,
        instances: Vec<Option<String>>,
        starts: Vec<Option<f64>>,
        as_of: Option<&str>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let day = date(as_of)?;
        let runs = py.detach(|| {
            let (questions, instances) = self.questions(&volumes, &storages, &instances, &vec![1.0; volumes.len()], day)?;
            let terms = FleetTerms { as_of: day, instances: &instances, cycle: Cycle::First, prune_above: f64::INFINITY };
            Ok(self.fleet.follow(&terms, &questions.into_iter().zip(starts).collect::<Vec<_>>()))
        });
        let of_run = |run: Result<Vec<[f64; 3]>, SimError>| -> PyResult<Bound<'py, PyAny>> {
            let rows = match run {
                Ok(rows) => rows,
                Err(error) => return Ok(error.to_string().into_pyobject(py)?.into_any()),
            };
            let columns = PyDict::new(py);
            for (place, name) in ["balance_percent", "throttled_s", "queue"].into_iter().enumerate() {
                let bytes: Vec<u8> = rows.iter().flat_map(|row| row[place].to_ne_bytes()).collect();
                columns.set_item(name, PyBytes::new(py, &bytes))?;
            }
            Ok(columns.into_any())
        };
        runs.map_err(sim_error)?.into_iter().map(of_run).collect()
    }
}

impl FleetDemands {
    /// Makes a question of each volume with its storage, instance and factor; returns them with the
    /// limits of all instances.
    fn questions(
        &self,
        volumes: &[usize],
        storages: &[String],
        instances: &[Option<String>],
        factors: &[f64],
        day: headrace_catalog::NaiveDate,
    ) -> Result<(Vec<FleetQuestion>, Vec<headrace_catalog::InstanceLimits>), SimError> {
        let mut names: Vec<&str> = instances.iter().flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let limits = names.iter().map(|name| Catalog::embedded().instance(name, day)).collect::<Result<Vec<_>, _>>()?;
        let question = |((&volume, storage), (instance, &factor)): ((&usize, &String), (&Option<String>, &f64))| {
            if volume >= self.fleet.len() {
                let rule = format!("must be below {}", self.fleet.len());
                return Err(SimError::refused("volume", volume, rule, "Volumes count from 0.".to_string()));
            }
            let instance = instance.as_deref().and_then(|name| names.binary_search(&name).ok());
            Ok(FleetQuestion { volume, candidate: DemandCandidate { storage: storage.parse()?, instance }, factor })
        };
        let questions = volumes.iter().zip(storages).zip(instances.iter().zip(factors)).map(question).collect::<Result<Vec<_>, SimError>>()?;
        Ok((questions, limits))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FleetDemands>()
}
