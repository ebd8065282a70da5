//! Rows of metrics: what every attached volume did in a second, and the credits that are noted with
//! them.

use crate::engine::parts::lock;
use crate::engine::volumes::Volumes;
use crate::metrics::{histogram_bounds_s, CreditUnit, Extra};
use crate::problem::{refused, Outcome};
use headrace_catalog::VolumeType;
use headrace_control::{ErrorKind, VolumeId, VolumeRecord};
use headrace_device::meter::Sample;
use headrace_device::AttachedVolume;
use headrace_model::{Nanos, SavedDevice};
use headrace_protocol::answers::{LabTotals, VolumeGauges};
use std::sync::atomic::Ordering;
use std::sync::Arc;

impl Volumes {
    /// Writes a row for every attached volume about the second that ends, and notes the credits of
    /// those with requests. `next` is the second that begins.
    pub(crate) fn note_second(&self, next: u64) {
        let mut noting = lock(&self.noting);
        let second = std::mem::replace(&mut noting.second, next);
        let attached: Vec<_> = lock(&self.files).iter().filter_map(|(id, files)| Some((id.clone(), files.attached.clone()?))).collect();
        for (id, parting) in std::mem::take(&mut noting.parting) {
            self.note_parting(second, &id, &parting, attached.iter().any(|(other, _)| *other == id));
            if parting.meter.in_flight() > 0 {
                noting.parting.push((id, parting));
            }
        }
        let mut used: Vec<(VolumeId, Nanos, _)> = Vec::new();
        for (id, attached) in attached {
            if self.note_volume(second, &id, &attached, false) {
                used.extend(self.devices.saved_device(attached.device_number).map(|(now, device)| (id, now, device)));
            }
        }
        self.note_used(used);
    }

    /// Notes the credits of volumes that had requests, and of the instance; none where no volume
    /// had any.
    fn note_used(&self, used: Vec<(VolumeId, Nanos, SavedDevice)>) {
        if used.is_empty() {
            return;
        }
        if let Err(problem) = self.ledger.note_balances(used, self.devices.saved_instance()) {
            tracing::error!("noting balances: {}", problem.rule);
        }
    }

    /// Writes the rows of a volume and its members for a second, or for a part of a second. Returns
    /// true if the volume had requests.
    fn note_volume(&self, second: u64, id: &VolumeId, attached: &AttachedVolume, is_part: bool) -> bool {
        let sample = attached.meter.take(self.devices.clock.now());
        let credits = self.ledger.lab(|lab| lab.volumes.get(id).map_or(CreditUnit::Ios, credit_unit));
        let (instance_ios_percent, instance_bytes_percent) = self.instance_percents();
        let extra = Extra { balance_percent: self.lowest_balance(attached.device_number), instance_ios_percent, instance_bytes_percent, credits };
        self.note_row(second, id, None, &sample, &extra, is_part);
        let members = self.devices.balances(attached.device_number);
        for (member, sample) in self.devices.member_samples(attached.device_number).iter().enumerate() {
            let balance_percent = members.get(member).copied().flatten().map(|balance| balance.percent());
            self.note_row(second, id, Some(member as u32), sample, &Extra { balance_percent, ..extra }, is_part);
        }
        sample.ops != [0, 0]
    }

    /// Writes the row of a volume or member for a second, or for the part of a second that is over;
    /// counts a row that cannot be written.
    fn note_row(&self, second: u64, id: &VolumeId, member: Option<u32>, sample: &Sample, extra: &Extra, is_part: bool) {
        let noted = match is_part {
            true => self.metrics.store.record_part(id.as_str(), member, second, sample, extra),
            false => self.metrics.store.record(id.as_str(), member, second, sample, extra),
        };
        if noted.is_err() {
            self.rows_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes what a volume did that is being detached into the second under way, and its credits.
    /// Requests that are not answered yet are counted as they are.
    pub(crate) fn note_detached(&self, id: &VolumeId, attached: Arc<AttachedVolume>) {
        let mut noting = lock(&self.noting);
        if self.note_volume(noting.second, id, &attached, true) {
            self.note_used(self.devices.saved_device(attached.device_number).map(|(now, device)| (id.clone(), now, device)).into_iter().collect());
        }
        if attached.meter.in_flight() > 0 {
            noting.parting.push((id.clone(), attached));
        }
    }

    /// Notes the requests that were answered in this second to users of a volume that was detached
    /// while they had it open. No time of an attachment is counted for it.
    fn note_parting(&self, second: u64, id: &VolumeId, parting: &AttachedVolume, is_part: bool) {
        let sample = Sample { span_ns: 0, idle_ns: 0, ..parting.meter.take(self.devices.clock.now()) };
        let Some(record) = self.ledger.lab(|lab| lab.volumes.get(id).cloned()).filter(|_| sample.ops != [0, 0]) else { return };
        let balances = self.balances_of(&record).into_iter().flatten();
        let (instance_ios_percent, instance_bytes_percent) = self.instance_percents();
        let balance_percent = balances.map(|balance| balance.percent()).min_by(f64::total_cmp);
        let extra = Extra { balance_percent, instance_ios_percent, instance_bytes_percent, credits: credit_unit(&record) };
        self.note_row(second, id, None, &sample, &extra, is_part);
    }

    /// Returns the lowest credit balance of a volume's members, percent.
    pub(crate) fn lowest_balance(&self, device_number: usize) -> Option<f64> {
        self.devices.balances(device_number).into_iter().flatten().map(|balance| balance.percent()).min_by(f64::total_cmp)
    }

    fn instance_percents(&self) -> (Option<f64>, Option<f64>) {
        let balances = self.devices.instance_balances().unwrap_or_default();
        (balances.ios.map(|balance| balance.percent()), balances.bytes.map(|balance| balance.percent()))
    }

    /// Returns the number of requests in flight at an attached volume.
    pub(crate) fn queue_length(&self, record: &VolumeRecord) -> Outcome<u32> {
        let attached = lock(&self.files).get(&record.id).and_then(|files| files.attached.clone());
        let hint = format!("Run `headrace volume attach {}` first.", record.label());
        let attached = attached.ok_or_else(|| refused(ErrorKind::IncorrectState, record.label(), "is not attached", hint))?;
        Ok(attached.meter.in_flight())
    }

    /// Returns everything counted since the daemon's start, and present values.
    pub fn totals(&self) -> LabTotals {
        let files: Vec<_> = lock(&self.files).iter().filter_map(|(id, files)| Some((id.to_string(), files.device_number, files.attached.clone()?))).collect();
        let gauges = files.into_iter().map(|(volume, device_number, attached)| VolumeGauges {
            volume,
            queue_length: attached.meter.in_flight(),
            balance: self.lowest_balance(device_number).map(|percent| percent / 100.0),
        });
        let (ios, bytes) = self.instance_percents();
        let balances = [("ios", ios), ("bytes", bytes)].into_iter().filter_map(|(kind, percent)| Some((kind.to_string(), percent? / 100.0)));
        let store = &self.metrics.store;
        LabTotals {
            bounds_s: histogram_bounds_s(),
            volumes: store.totals(),
            attached: gauges.collect(),
            instance_balance: balances.collect(),
            rows_dropped: store.dropped(),
        }
    }
}

fn credit_unit(record: &VolumeRecord) -> CreditUnit {
    match record.spec.members.first().map(|member| member.volume_type) {
        Some(VolumeType::St1 | VolumeType::Sc1) => CreditUnit::Bytes,
        _ => CreditUnit::Ios,
    }
}
