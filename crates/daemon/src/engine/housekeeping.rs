//! What happens without a call: modifications that are due, credits to note, rows of metrics.

use crate::engine::{held, Engine};
use crate::metrics::{CreditUnit, Extra, Gauges, VolumeGauges};
use crate::problem::{refused, Outcome};
use headrace_catalog::VolumeType;
use headrace_control::{ErrorKind, VolumeId, VolumeRecord};
use headrace_model::Nanos;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the engine looks for what is due: lab time may run much faster than the wall clock.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts the thread; it ends with the lab.
pub fn start(engine: &Arc<Engine>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let engine = engine.clone();
    std::thread::Builder::new().name("headrace-due".into()).spawn(move || engine.keep())
}

impl Engine {
    fn keep(&self) {
        let mut second = unix_s();
        while !self.is_stopping() {
            std::thread::sleep(LOOK_EVERY);
            if let Err(problem) = self.pass_due() {
                tracing::error!("what was due: {}: {}", problem.value, problem.rule);
            }
            if let Err(problem) = self.settle() {
                tracing::error!("the journal: {}: {}", problem.value, problem.rule);
            }
            if let Err(problem) = self.run_schedules() {
                tracing::error!("schedules: {}: {}", problem.value, problem.rule);
            }
            let now = unix_s();
            if now != second {
                self.note_loaded();
                // The row belongs to the second that ended.
                self.note_second(second);
                second = now;
                if let Err(problem) = self.detach_what_waited() {
                    tracing::error!("detaching what was busy: {}: {}", problem.value, problem.rule);
                }
                if let Err(problem) = self.rest_idle() {
                    tracing::error!("putting volumes to rest: {}: {}", problem.value, problem.rule);
                }
            }
        }
    }

    /// Rows of what every attached volume did, and the credits of those that did something.
    fn note_second(&self, second: u64) {
        let attached: Vec<_> = held(&self.volumes).iter().filter_map(|(id, files)| Some((id.clone(), files.device_number, files.attached.clone()?))).collect();
        let mut used: Vec<(VolumeId, Nanos, _)> = Vec::new();
        for (id, device_number, attached) in attached {
            let sample = attached.meter.take(self.devices.clock.now());
            let credits = self.lab(|lab| lab.volumes.get(&id).map_or(CreditUnit::Ios, credit_unit));
            let (instance_ios_percent, instance_bytes_percent) = self.instance_percents();
            let extra = Extra { balance_percent: self.lowest_balance(device_number), instance_ios_percent, instance_bytes_percent, credits };
            if self.metrics.record(id.as_str(), None, second, &sample, &extra).is_err() {
                self.rows_lost.fetch_add(1, Ordering::Relaxed);
            }
            let members = self.devices.balances(device_number);
            for (member, sample) in self.devices.member_samples(device_number).iter().enumerate() {
                let balance_percent = members.get(member).copied().flatten().map(|balance| balance.percent());
                let extra = Extra { balance_percent, ..extra };
                if self.metrics.record(id.as_str(), Some(member as u32), second, sample, &extra).is_err() {
                    self.rows_lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            if sample.ops != [0, 0] {
                used.extend(self.devices.saved_device(device_number).map(|(now, device)| (id, now, device)));
            }
        }
        if !used.is_empty() {
            if let Err(problem) = self.note_balances(used, self.devices.saved_instance()) {
                tracing::error!("noting balances: {}", problem.rule);
            }
        }
    }

    /// The lowest credit balance of a volume's members, percent.
    pub(crate) fn lowest_balance(&self, device_number: usize) -> Option<f64> {
        self.devices.balances(device_number).into_iter().flatten().map(|balance| balance.percent()).min_by(f64::total_cmp)
    }

    fn instance_percents(&self) -> (Option<f64>, Option<f64>) {
        let balances = self.devices.instance_balances().unwrap_or_default();
        (balances.ios.map(|balance| balance.percent()), balances.bytes.map(|balance| balance.percent()))
    }

    /// Requests in flight at an attached volume.
    pub(crate) fn queue_length(&self, record: &VolumeRecord) -> Outcome<u32> {
        let attached = held(&self.volumes).get(&record.id).and_then(|files| files.attached.clone());
        let hint = format!("Run `headrace volume attach {}` first.", record.label());
        let attached = attached.ok_or_else(|| refused(ErrorKind::IncorrectState, record.label(), "is not attached", hint))?;
        Ok(attached.meter.in_flight())
    }

    /// What the Prometheus endpoint shows.
    pub fn exposition(&self) -> String {
        let attached: Vec<_> =
            held(&self.volumes).iter().filter_map(|(id, files)| Some((id.to_string(), files.device_number, files.attached.clone()?))).collect();
        let volumes = attached.into_iter().map(|(volume, device_number, attached)| VolumeGauges {
            volume,
            member: None,
            queue_length: attached.meter.in_flight(),
            balance_percent: self.lowest_balance(device_number),
        });
        let (instance_ios_percent, instance_bytes_percent) = self.instance_percents();
        self.metrics.exposition(&Gauges { volumes: volumes.collect(), instance_ios_percent, instance_bytes_percent })
    }
}

fn credit_unit(record: &VolumeRecord) -> CreditUnit {
    match record.spec.members.first().map(|member| member.volume_type) {
        Some(VolumeType::St1 | VolumeType::Sc1) => CreditUnit::Bytes,
        _ => CreditUnit::Ios,
    }
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
