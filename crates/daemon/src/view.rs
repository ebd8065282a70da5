//! What callers see.

use crate::engine::{held, Engine};
use crate::faulting::FaultSet;
use crate::problem::Outcome;
use chrono::{DateTime, SecondsFormat, Utc};
use headrace_control::{Attachment, MemberState, Modification, VolumeRecord};
use headrace_model::Nanos;
use headrace_store::Backing;
use serde_json::{json, Map, Value};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// A lab time as text.
pub fn lab_time(ms: u64) -> String {
    DateTime::from_timestamp_millis(ms as i64).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A moment of the wall clock, to the nanosecond.
fn wall_time(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// A modification.
pub fn modification(one: &Modification, now_ms: u64) -> Value {
    json!({
        "id": one.id, "state": one.state.as_str(), "progress_percent": one.progress_percent(now_ms), "from": one.from.to_string(), "to": one.to.to_string(),
        "start": lab_time(one.started_ms), "end": one.ended_ms.map(lab_time), "optimizing_at": lab_time(one.modifying_until_ms),
        "completed_at": lab_time(one.optimizing_until_ms), "reason": one.reason,
    })
}

fn member_state(state: &MemberState) -> Map<String, Value> {
    let value = match *state {
        MemberState::Ok => json!({"state": "ok"}),
        MemberState::Slow { caps_per_mille, extra_latency_us } => {
            json!({"state": "slow", "caps_percent": f64::from(caps_per_mille) / 10.0, "extra_ms": extra_latency_us as f64 / 1e3})
        }
        MemberState::Failed => json!({"state": "failed"}),
        MemberState::Rebuilding { done_bytes, total_bytes, mib_s } => {
            json!({"state": "rebuilding", "done_percent": 100.0 * done_bytes as f64 / total_bytes.max(1) as f64, "mib_s": mib_s})
        }
    };
    value.as_object().cloned().unwrap_or_default()
}

fn attachment(one: &Attachment, unpaced: bool) -> Value {
    let device = one.device.as_ref();
    json!({
        "id": one.id, "state": one.state.as_str(), "name": one.name, "device": device.map(|device| &device.device), "links": device.map(|device| &device.links),
        "attached_at": one.attached_ms.map(lab_time), "path_us": device.and_then(|device| device.path_ns).map(|ns| ns as f64 / 1e3),
        "ceiling": device.and_then(|device| device.ceiling).map(|ceiling| json!({"iops": ceiling.iops, "mib_s": ceiling.mib_s})),
        "warnings": device.map_or(&[][..], |device| &device.warnings[..]), "unpaced": unpaced, "busy": one.busy,
    })
}

impl Engine {
    /// A volume as the protocol shows it.
    pub fn view(&self, record: &VolumeRecord) -> Value {
        let now_ms = self.lab_ms();
        let limits = self.lab(|lab| record.limits(&lab.settings)).unwrap_or_default();
        let opened = held(&self.volumes).get(&record.id).map(|opened| (opened.device_number, opened.power.clone(), opened.line.clone()));
        let balances = opened.as_ref().map_or_else(Vec::new, |(device_number, ..)| self.devices.balances(*device_number));
        let lowest = balances.iter().flatten().map(headrace_model::Balance::percent).min_by(f64::total_cmp);
        let members: Vec<Value> = record
            .spec
            .members
            .iter()
            .enumerate()
            .map(|(index, spec)| {
                let mut shown = member_state(&record.members[index].state);
                shown.insert("index".into(), json!(index));
                shown.insert("id".into(), json!(record.member_name(index)));
                shown.insert("spec".into(), json!(spec.to_string()));
                shown.insert("iops".into(), json!(limits.get(index).map(|limits| limits.iops)));
                shown.insert("throughput_mib_s".into(), json!(limits.get(index).map(|limits| limits.throughput_bytes_s >> 20)));
                shown.insert("balance_percent".into(), json!(balances.get(index).copied().flatten().map(|balance| balance.percent())));
                Value::Object(shown)
            })
            .collect();
        let power = opened.as_ref().map(|(_, power, _)| power);
        let line = opened.as_ref().and_then(|(.., line)| line.as_ref());
        let types: Vec<&str> = record.spec.members.iter().map(|member| member.volume_type.as_str()).collect();
        let recording = self.devices.recording().filter(|_| line.is_some()).map(|(path, _)| path.display().to_string());
        json!({
            "id": record.id.as_str(), "name": record.name, "spec": record.spec.to_string(), "type": types.first(), "size_gib": record.size_gib(),
            "iops": limits.iter().map(|limits| limits.iops).sum::<u64>(), "throughput_mib_s": limits.iter().map(|limits| limits.throughput_bytes_s >> 20).sum::<u64>(),
            "raid": record.spec.raid.map(|level| level.as_str()), "members": members, "state": record.status.as_str(), "error": record.error,
            "created_at": lab_time(record.created_ms), "as_of": record.as_of.to_string(), "tags": record.tags,
            "used_gib": power.and_then(|power| power.allocated().ok()).map(|bytes| bytes as f64 / f64::from(1 << 30)),
            "attachment": record.attachment.as_ref().map(|one| attachment(one, one.unpaced)),
            "modification": record.modification().filter(|one| one.is_active()).map(|one| modification(one, now_ms)),
            "balance_percent": lowest, "faults": line.map_or(0, |line| line.faults.faults(self.devices.clock.now()).len() + usize::from(line.faults.is_off())),
            "recording": recording,
        })
    }

    /// A fault with its times on the wall clock.
    pub fn fault_view(&self, set: &FaultSet) -> Value {
        let wall = |at: Nanos| (at > Nanos::ZERO && at < Nanos::NEVER).then(|| wall_time(self.devices.clock.wall(at)));
        json!({"id": set.id, "kind": set.kind, "starts_at": wall(set.from), "ends_at": wall(set.until), "seed": set.seed})
    }

    /// The lab as a whole.
    pub fn status(&self) -> Value {
        let (settings, volumes, attached) =
            self.lab(|lab| (lab.settings.clone(), lab.volumes.len(), lab.volumes.values().filter(|record| record.attachment.is_some()).count()));
        let port = self.metrics_port.load(Ordering::Relaxed);
        let instance = self.devices.instance_balances();
        json!({
            "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "data_dir": self.folder.display().to_string(), "socket": self.socket.display().to_string(),
            "instance_type": settings.instance_type, "as_of": settings.day().to_string(), "time_scale": settings.time_scale, "region": settings.region,
            "uptime_s": self.started.elapsed().as_secs_f64(), "lab_time": lab_time(self.lab_ms()), "volumes": volumes, "attached": attached,
            "metrics_url": (port > 0).then(|| format!("http://127.0.0.1:{port}/metrics")),
            "instance_balance": instance.map(|balances| json!({
                "iops_percent": balances.ios.map(|balance| balance.percent()), "bytes_percent": balances.bytes.map(|balance| balance.percent())
            })),
            "recording": self.devices.recording().map(|(path, broken)| json!({"path": path.display().to_string(), "broken": broken})),
            "journal_bytes": self.state(|state| state.journal.bytes()), "journal_repaired": self.repaired,
            "leftovers": {"released": self.leftovers.released.len(), "unmounted": self.leftovers.unmounted,
                          "busy": self.leftovers.busy.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()},
            "waiting": held(&self.mount).as_ref().map(|mount| mount.waiting()), "metrics_rows_lost": self.rows_lost.load(Ordering::Relaxed),
        })
    }

    /// Balances of a volume, and the state that restores them.
    pub fn balance_view(&self, volume: &str) -> Outcome<Value> {
        let record = self.find(volume)?;
        let device_number = self.device_number(&record)?;
        let members: Vec<Value> = self
            .devices
            .balances(device_number)
            .into_iter()
            .map(|balance| {
                balance.map_or(Value::Null, |balance| json!({"credits": balance.credits, "capacity": balance.capacity, "percent": balance.percent()}))
            })
            .collect();
        let instance = self.devices.instance_balances().map(|balances| {
            json!({
                "iops_percent": balances.ios.map(|balance| balance.percent()), "bytes_percent": balances.bytes.map(|balance| balance.percent())
            })
        });
        let state = json!({"format": "headrace-balance/1", "spec": record.spec.to_string(), "members": members.clone()});
        Ok(json!({"members": members, "instance": instance, "state": state}))
    }
}
