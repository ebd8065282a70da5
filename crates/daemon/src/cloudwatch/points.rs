//! The values of a metric: of AWS/EBS and AWS/EC2 from the rows of volumes, else what was put.

use crate::cloudwatch::custom::Custom;
use crate::engine::ledger::Ledger;
use crate::engine::{lock, unix_ms};
use crate::metrics::{facts_of, minute_of, Retired, Store};
use crate::problem::{from_io, Outcome};
use headrace_catalog::VolumeLimits;
use headrace_cloudwatch::ebs::{Minute, VolumeFacts, BALANCE_STEP_S, EBS, EC2, INSTANCE_METRICS, VOLUME_METRICS};
use headrace_cloudwatch::{aggregate, Distribution, MetricId, MetricStat, Points, Unit, Window, HOUR_S, MINUTE_S};
use headrace_control::VolumeRecord;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A volume, or a member of an array, as CloudWatch knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    volume: String,
    member: Option<u32>,
}

/// Reads values for one call or one look at the alarms: rows are read once for all metrics.
pub struct Reader<'a> {
    metrics: &'a Metrics,
    now_s: i64,
    /// Minutes from the first time on.
    minutes: HashMap<Place, (i64, Vec<Minute>)>,
    facts: HashMap<Place, VolumeFacts>,
}

/// Values with their time and unit.
type Values = Vec<(i64, Unit, Distribution)>;

/// Returns the facts that the metrics of a volume depend on: first those of the volume itself, then
/// those of the members of an array.
fn facts_of_record(record: &VolumeRecord, limits: &[VolumeLimits]) -> Vec<VolumeFacts> {
    let members: Vec<VolumeFacts> = limits.iter().map(facts_of).collect();
    // An array publishes what its first member has, provisioned for all of them.
    let first = members.first().copied().unwrap_or_default();
    if record.members.len() < 2 {
        return vec![first];
    }
    let all: u64 = limits.iter().map(|limits| limits.iops).sum();
    let whole = VolumeFacts { provisioned_iops: first.provisioned_iops.map(|_| all), ..first };
    std::iter::once(whole).chain(members).collect()
}

/// The metrics of a lab: rows of its volumes, and values that users put.
pub struct Metrics {
    /// Rows of the volumes.
    pub store: Store,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) custom: Mutex<Custom>,
}

impl Metrics {
    /// Opens the metrics in the folder of a lab.
    pub(crate) fn open(folder: &Path, ledger: Arc<Ledger>) -> Outcome<Metrics> {
        let store = Store::open(&folder.join("metrics")).map_err(|error| from_io("opening the metrics", &error))?;
        let custom = Custom::open(folder, (unix_ms() / 1_000) as i64).map_err(|error| from_io("reading metrics of users", &error))?;
        Ok(Metrics { store, ledger, custom: Mutex::new(custom) })
    }

    /// Keeps the metrics of a volume that is deleted now, as CloudWatch does.
    pub(crate) fn retire(&self, record: &VolumeRecord) {
        let limits = self.ledger.lab(|lab| record.limits(&lab.settings)).unwrap_or_default();
        let retired = Retired { deleted_s: unix_ms() / 1_000, facts: facts_of_record(record, &limits) };
        if let Err(error) = self.store.retire(record.id.as_str(), retired) {
            tracing::warn!(volume = record.id.as_str(), "keeping its metrics: {error}");
        }
    }
}

impl<'a> Reader<'a> {
    /// Makes a reader at this time of the wall clock.
    pub fn new(metrics: &'a Metrics, now_s: i64) -> Reader<'a> {
        Reader { metrics, now_s, minutes: HashMap::new(), facts: HashMap::new() }
    }

    /// Returns the points of a metric in the periods of a window.
    pub fn points(&mut self, stat: &MetricStat, window: &Window) -> Points {
        let (Ok(id), Ok(statistic)) = (stat.metric.id(), stat.statistic()) else { return Points::new() };
        let values = self.values(&id, window.start_s, window.end_s);
        let matching = values.iter().filter(|(_, unit, _)| stat.unit.is_none_or(|expected| expected == *unit));
        aggregate(matching.map(|(t_s, _, distribution)| (*t_s, distribution)), window, statistic)
    }

    /// Returns the values of a metric from `start_s` to before `end_s`. Only whole minutes of the
    /// past are published.
    pub fn values(&mut self, id: &MetricId, start_s: i64, end_s: i64) -> Values {
        let only = |name: &str| id.dimensions.get(name).filter(|_| id.dimensions.len() == 1);
        match id.namespace.as_str() {
            EBS => {
                only("VolumeId").and_then(|volume| self.parse_place(volume)).map_or_else(Vec::new, |place| self.volume_values(&place, &id.name, start_s, end_s))
            }
            EC2 => {
                let own = self.metrics.ledger.lab(|lab| lab.settings.instance_id.clone());
                only("InstanceId").filter(|instance| **instance == own).map_or_else(Vec::new, |_| self.instance_values(&id.name, start_s, end_s))
            }
            _ => lock(&self.metrics.custom).values(id, start_s, end_s),
        }
    }

    /// Returns the place of a dimension's value: `vol-...`, or `vol-...-m0` for a member.
    fn parse_place(&self, text: &str) -> Option<Place> {
        let count_members = |volume: &str| {
            let current = self.metrics.ledger.lab(|lab| lab.volumes.values().find(|record| record.id.as_str() == volume).map(|record| record.members.len()));
            current.or_else(|| self.metrics.store.retired(volume).map(|retired| retired.members() as usize))
        };
        if count_members(text).is_some() {
            return Some(Place { volume: text.to_string(), member: None });
        }
        let (volume, member) = text.rsplit_once("-m")?;
        let member: u32 = member.parse().ok()?;
        count_members(volume).filter(|members| *members > 1 && (member as usize) < *members).map(|_| Place { volume: volume.to_string(), member: Some(member) })
    }

    /// Returns the minutes of a volume from `start_s` to before `end_s`; rows are read at the first
    /// call and kept.
    fn read_minutes(&mut self, place: &Place, start_s: i64, end_s: i64) -> Vec<Minute> {
        let is_read = self.minutes.get(place).is_some_and(|(since, _)| *since <= start_s);
        if !is_read {
            let rows = self.metrics.store.minutes(&place.volume, place.member, start_s.max(0) as u64, (self.now_s - MINUTE_S + 1).max(0) as u64);
            let rows = rows.unwrap_or_else(|error| {
                tracing::warn!("rows of {}: {error}", place.volume);
                Vec::new()
            });
            self.minutes.insert(place.clone(), (start_s, rows.iter().map(minute_of).collect()));
        }
        let all = &self.minutes[place].1;
        all.iter().filter(|minute| (start_s..end_s).contains(&minute.t_s)).copied().collect()
    }

    /// Returns the facts that a volume's metrics depend on, of a volume that was deleted too;
    /// cached.
    fn find_facts(&mut self, place: &Place) -> VolumeFacts {
        let metrics = self.metrics;
        *self.facts.entry(place.clone()).or_insert_with(|| {
            let current = metrics.ledger.lab(|lab| {
                let record = lab.volumes.values().find(|record| record.id.as_str() == place.volume)?;
                let facts = facts_of_record(record, &record.limits(&lab.settings).ok()?);
                facts.get(place.member.map_or(0, |member| member as usize + 1)).copied()
            });
            current.or_else(|| metrics.store.retired(&place.volume)?.facts_of(place.member)).unwrap_or_default()
        })
    }

    /// Returns the volumes whose metrics there are, with the members of arrays: those of the lab,
    /// and those that were deleted at `since_s` or later.
    fn places(&self, since_s: i64) -> Vec<Place> {
        let mut volumes: BTreeMap<String, u32> = self
            .metrics
            .store
            .all_retired()
            .into_iter()
            .filter_map(|(volume, retired)| (retired.deleted_s as i64 >= since_s).then(|| (volume, retired.members())))
            .collect();
        volumes.extend(self.metrics.ledger.lab(|lab| {
            let members = |record: &VolumeRecord| if record.members.len() > 1 { record.members.len() as u32 } else { 0 };
            lab.volumes.values().map(|record| (record.id.to_string(), members(record))).collect::<Vec<_>>()
        }));
        let all = volumes
            .into_iter()
            .flat_map(|(volume, members)| std::iter::once(None).chain((0..members).map(Some)).map(move |member| Place { volume: volume.clone(), member }));
        all.collect()
    }

    fn volume_values(&mut self, place: &Place, name: &str, start_s: i64, end_s: i64) -> Values {
        let Some(metric) = VOLUME_METRICS.iter().find(|metric| metric.name == name) else { return Vec::new() };
        let facts = self.find_facts(place);
        let minutes = self.read_minutes(place, start_s, end_s);
        minutes.iter().filter_map(|minute| Some((minute.t_s, metric.unit, Distribution::single(metric.value(minute, &facts)?)))).collect()
    }

    /// Returns the values of a metric of the instance: its volumes together, every minute or five
    /// minutes.
    fn instance_values(&mut self, name: &str, start_s: i64, end_s: i64) -> Values {
        let Some(metric) = INSTANCE_METRICS.iter().find(|metric| metric.name == name) else { return Vec::new() };
        let volumes = self.places(start_s).into_iter().filter(|place| place.member.is_none());
        let mut by_time: BTreeMap<i64, Vec<Minute>> = BTreeMap::new();
        for place in volumes {
            for minute in self.read_minutes(&place, start_s, end_s) {
                by_time.entry(minute.t_s).or_default().push(minute);
            }
        }
        if metric.is_basic {
            by_time = five_minutes(by_time, self.now_s);
        }
        by_time.into_iter().filter_map(|(t_s, minutes)| Some((t_s, metric.unit, Distribution::single(metric.value(&minutes)?)))).collect()
    }

    /// Returns every metric that has points, each with the time of its newest.
    pub fn metrics(&mut self) -> Vec<(MetricId, i64)> {
        let mut metrics = Vec::new();
        let mut newest_of_all = None;
        for place in self.places(0) {
            let newest = self.metrics.store.rows(&place.volume, place.member, crate::metrics::Resolution::Minute, None, Some(2)).unwrap_or_default();
            let Some(minute) = newest.iter().rev().map(minute_of).find(|minute| minute.t_s + MINUTE_S <= self.now_s) else { continue };
            let facts = self.find_facts(&place);
            let name = place.member.map_or_else(|| place.volume.clone(), |member| format!("{}-m{member}", place.volume));
            let published = VOLUME_METRICS.iter().filter(|metric| metric.value(&minute, &facts).is_some());
            metrics.extend(published.map(|metric| (MetricId::with_dimension(EBS, metric.name, "VolumeId", &name), minute.t_s)));
            newest_of_all = newest_of_all.max(Some(minute.t_s));
        }
        if let Some(newest) = newest_of_all {
            let instance = self.metrics.ledger.lab(|lab| lab.settings.instance_id.clone());
            for metric in &INSTANCE_METRICS {
                let since = newest - if metric.is_basic { HOUR_S } else { 0 };
                if let Some((t_s, _, _)) = self.instance_values(metric.name, since, newest + MINUTE_S).last() {
                    metrics.push((MetricId::with_dimension(EC2, metric.name, "InstanceId", &instance), *t_s));
                }
            }
        }
        metrics.extend(lock(&self.metrics.custom).metrics().map(|(id, newest)| (id.clone(), newest)));
        metrics.sort();
        metrics
    }
}

/// Groups minutes as basic monitoring does: the last minute of five stands for them, at their
/// beginning, once they are over.
fn five_minutes(by_time: BTreeMap<i64, Vec<Minute>>, now_s: i64) -> BTreeMap<i64, Vec<Minute>> {
    let mut last_minutes = BTreeMap::new();
    for (t_s, minutes) in by_time {
        let begin = t_s - t_s.rem_euclid(BALANCE_STEP_S);
        if begin + BALANCE_STEP_S <= now_s {
            last_minutes.insert(begin, minutes);
        }
    }
    last_minutes
}
