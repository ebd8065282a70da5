//! Answers about volumes, as callers see them.

use crate::engine::faulting::FaultSet;
use crate::engine::parts::{lab_time, lock};
use crate::engine::volumes::Volumes;
use crate::engine::Engine;
use crate::problem::Outcome;
use chrono::{DateTime, SecondsFormat, Utc};
use headrace_catalog::StorageSpec;
use headrace_control::keys::key_arn;
use headrace_control::{next_allowed_ms, Attachment, MemberState, Modification, Settings, VolumeRecord};
use headrace_model::{InstanceBalances, Nanos};
use headrace_protocol::answers::{
    AttachmentView, BalanceView, CeilingView, FaultView, InstanceBalance, LabStatus, LabVolumeView, Leftovers, MemberBalance, MemberView, ModificationView,
    RecordStatus, VolumeShape,
};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Format of a saved credit balance.
pub(crate) const BALANCE_FORMAT: &str = "headrace-balance/1";

/// Writes a moment of the wall clock as text, to the nanosecond.
fn wall_time(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// Returns the type, size and limits of a volume before or after a modification; zeros if the
/// catalog no longer takes it.
fn shape(record: &VolumeRecord, spec: &StorageSpec, settings: &Settings) -> VolumeShape {
    let limits = VolumeRecord { spec: spec.clone(), ..record.clone() }.limits(settings).unwrap_or_default();
    VolumeShape {
        r#type: spec.members.first().map(|member| member.volume_type.to_string()).unwrap_or_default(),
        size_gib: spec.usable_gib(),
        iops: limits.iter().map(|limits| limits.iops).sum(),
        throughput_mib_s: limits.iter().map(|limits| limits.throughput_bytes_s >> 20).sum(),
    }
}

/// Returns a modification of a volume.
pub fn modification(record: &VolumeRecord, modification: &Modification, settings: &Settings, now_ms: u64) -> ModificationView {
    ModificationView {
        id: modification.id.clone(),
        volume: record.id.to_string(),
        state: modification.state.as_str().to_string(),
        progress_percent: modification.progress_percent(now_ms),
        from: modification.from.to_string(),
        to: modification.to.to_string(),
        original: shape(record, &modification.from, settings),
        target: shape(record, &modification.to, settings),
        start: lab_time(modification.started_ms),
        optimizing_at: lab_time(modification.modifying_until_ms),
        completed_at: lab_time(modification.optimizing_until_ms),
        next_allowed_at: lab_time(next_allowed_ms(record)),
        end: modification.ended_ms.map(lab_time),
        reason: modification.reason.clone(),
    }
}

/// Returns an attachment as callers see it.
fn attachment_view(attachment: &Attachment, settings: &Settings) -> AttachmentView {
    let device = attachment.device.as_ref();
    let ceiling = device.and_then(|device| device.ceiling);
    AttachmentView {
        id: attachment.id.clone(),
        state: attachment.state.as_str().to_string(),
        instance: settings.instance_id.clone(),
        delete_on_termination: attachment.delete_on_termination,
        name: attachment.name.clone(),
        device: device.map(|device| device.device.clone()),
        links: device.map(|device| device.links.clone()),
        attached_at: attachment.attached_ms.map(lab_time),
        path_us: device.and_then(|device| device.path_ns).map(|ns| ns as f64 / 1e3),
        ceiling: ceiling.map(|ceiling| CeilingView { iops: ceiling.iops, mib_s: ceiling.mib_s }),
        warnings: device.map_or_else(Vec::new, |device| device.warnings.clone()),
        unpaced: attachment.unpaced,
        busy: attachment.busy.clone(),
    }
}

/// Returns a member without the figures of the model.
fn member_view(record: &VolumeRecord, index: usize) -> MemberView {
    let spec = record.spec.members[index].to_string();
    let none = MemberView {
        index,
        id: record.member_name(index),
        spec,
        state: "ok".to_string(),
        last_copy: record.holds_last_copy(index),
        caps_percent: None,
        extra_ms: None,
        done_percent: None,
        mib_s: None,
        iops: None,
        throughput_mib_s: None,
        balance_percent: None,
    };
    match record.members[index].state {
        MemberState::Ok => none,
        MemberState::Slow { caps_per_mille, extra_latency_us } => MemberView {
            state: "slow".to_string(),
            caps_percent: Some(f64::from(caps_per_mille) / 10.0),
            extra_ms: Some(extra_latency_us as f64 / 1e3),
            ..none
        },
        MemberState::Failed => MemberView { state: "failed".to_string(), ..none },
        MemberState::Rebuilding { done_bytes, total_bytes, mib_s } => {
            let done_percent = Some(100.0 * done_bytes as f64 / total_bytes.max(1) as f64);
            MemberView { state: "rebuilding".to_string(), done_percent, mib_s, ..none }
        }
    }
}

fn instance_balance(balances: InstanceBalances) -> InstanceBalance {
    InstanceBalance { iops_percent: balances.ios.map(|balance| balance.percent()), bytes_percent: balances.bytes.map(|balance| balance.percent()) }
}

impl Volumes {
    /// Returns a volume as the protocol shows it.
    pub fn view(&self, record: &VolumeRecord) -> LabVolumeView {
        let now_ms = self.ledger.lab_ms();
        let settings = &self.ledger.lab(|lab| lab.settings.clone());
        let limits = self.limits(record).unwrap_or_default();
        let opened = self.opened(&record.id);
        let balances = self.balances_of(record);
        let balance_percent = |index: usize| balances.get(index).copied().flatten().map(|balance| balance.percent());
        let attached = opened.as_ref().and_then(|(.., attached)| attached.as_ref());
        let allocated = self.allocated_of(record);
        let members = (0..record.members.len()).map(|index| MemberView {
            iops: limits.get(index).map(|limits| limits.iops),
            throughput_mib_s: limits.get(index).map(|limits| limits.throughput_bytes_s >> 20),
            balance_percent: balance_percent(index),
            ..member_view(record, index)
        });
        LabVolumeView {
            id: record.id.to_string(),
            name: record.name.clone(),
            spec: record.spec.to_string(),
            r#type: record.spec.members.first().map(|member| member.volume_type.to_string()).unwrap_or_default(),
            size_gib: record.size_gib(),
            iops: limits.iter().map(|limits| limits.iops).sum(),
            throughput_mib_s: limits.iter().map(|limits| limits.throughput_bytes_s >> 20).sum(),
            raid: record.spec.raid.map(|level| level.as_str().to_string()),
            members: members.collect(),
            resyncing: self.is_resyncing(&record.id),
            state: record.status.as_str().to_string(),
            error: record.error.clone(),
            created_at: lab_time(record.created_ms),
            as_of: record.as_of.to_string(),
            zone: settings.zone(),
            zone_id: settings.zone_id(),
            encrypted: record.encryption.is_some(),
            kms_key: record.encryption.as_ref().map(|encryption| key_arn(settings, &encryption.key)),
            auto_enable_io: record.auto_enable_io,
            tags: record.tags.clone(),
            used_gib: allocated.map(|bytes| bytes as f64 / f64::from(1 << 30)),
            attachment: record.attachment.as_ref().map(|entry| attachment_view(entry, settings)),
            modification: record.modification().filter(|entry| entry.is_active()).map(|entry| modification(record, entry, settings, now_ms)),
            balance_percent: (0..balances.len()).filter_map(balance_percent).min_by(f64::total_cmp),
            faults: attached.map_or(0, |attached| attached.faults.faults(self.devices.clock.now()).len() + usize::from(attached.faults.is_off())),
            recording: self.devices.recording().filter(|_| attached.is_some()).map(|(path, _)| path.display().to_string()),
            snapshot: record.origin.as_ref().map(|origin| origin.snapshot.to_string()),
            source_volume: record.source_volume.as_ref().map(ToString::to_string),
            fast_restored: record.origin.as_ref().map(|origin| origin.fast),
            initialization_rate_mib_s: record.origin.as_ref().and_then(|origin| origin.initialization_mib_s),
            initialization: self.initialization(record),
        }
    }

    /// Returns a modification as it is now.
    pub fn modification_view(&self, record: &VolumeRecord, entry: &Modification) -> ModificationView {
        modification(record, entry, &self.ledger.lab(|lab| lab.settings.clone()), self.ledger.lab_ms())
    }

    /// Returns a fault with its times on the wall clock.
    pub fn fault_view(&self, set: &FaultSet) -> FaultView {
        let wall = |at: Nanos| (at > Nanos::ZERO && at < Nanos::NEVER).then(|| wall_time(self.devices.clock.wall(at)));
        FaultView { id: set.id.clone(), kind: set.kind.clone(), starts_at: wall(set.from), ends_at: wall(set.until), seed: set.seed }
    }

    /// Returns the balances of a volume, and the state that restores them.
    pub fn balance_view(&self, volume: &str) -> Outcome<BalanceView> {
        let record = self.ledger.find(volume)?;
        let balances = self.balances_of(&record).into_iter();
        let members: Vec<Option<MemberBalance>> = balances
            .map(|balance| balance.map(|balance| MemberBalance { credits: balance.credits, capacity: balance.capacity, percent: balance.percent() }))
            .collect();
        let state = json!({"format": BALANCE_FORMAT, "spec": record.spec.to_string(), "members": members});
        Ok(BalanceView { members, instance: self.devices.instance_balances().map(instance_balance), state })
    }
}

impl Engine {
    /// Returns the status of the lab as a whole.
    pub fn status(&self) -> LabStatus {
        let (settings, volumes, attached) =
            self.ledger.lab(|lab| (lab.settings.clone(), lab.volumes.len(), lab.volumes.values().filter(|record| record.attachment.is_some()).count()));
        LabStatus {
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            data_dir: self.volumes.folder.display().to_string(),
            socket: self.socket.display().to_string(),
            as_of: settings.day().to_string(),
            zone: settings.zone(),
            zone_id: settings.zone_id(),
            encryption_by_default: self.ledger.lab(|lab| lab.keys.encrypt_by_default),
            instance_id: settings.instance_id,
            instance_type: settings.instance_type,
            time_scale: settings.time_scale,
            region: settings.region,
            uptime_s: self.ledger.started.elapsed().as_secs_f64(),
            lab_time: lab_time(self.ledger.lab_ms()),
            volumes,
            attached,
            metrics_url: (self.metrics_port > 0).then(|| format!("http://127.0.0.1:{}/metrics", self.metrics_port)),
            instance_balance: self.volumes.devices.instance_balances().map(instance_balance),
            recording: self.volumes.devices.recording().map(|(path, broken)| RecordStatus { path: path.display().to_string(), broken }),
            journal_bytes: self.ledger.state(|state| state.journal.bytes()),
            journal_repaired: self.repaired.clone(),
            leftovers: Leftovers {
                released: self.stale_mounts.released.len() as u64,
                unmounted: u64::from(self.stale_mounts.unmounted),
                busy: self.stale_mounts.busy.iter().map(|path| path.display().to_string()).collect(),
            },
            waiting: lock(&self.volumes.mount).as_ref().map(|mount| mount.waiting()),
            metrics_rows_lost: self.volumes.rows_lost.load(Ordering::Relaxed),
        }
    }
}
