//! The replica's volumes and what a transaction asks of them: data, redo and binary log, relay log.

use super::super::database::{Database, RUN_BYTES};
use super::super::demand::{DeviceCounting, Flow, Places};
use super::super::interval::Scenario;
use super::super::purge::PURGED;
use super::super::warmup::At;
use super::applier::Applier;
use super::rate::{ApplierCosts, ReplicaBinding};
use super::semisync::receive_s;
use super::settings::ReplicaSettings;
use crate::demand::fluid::Fluid;
use crate::setup::Setup;
use headrace_catalog::InstanceLimits;
use headrace_model::Cap;

/// Returns the device writes of one flush of a relay log that grows: data, then the filesystem's
/// journal; as for the binary log ([`super::super::settings::syncs_per_commit`]).
pub(super) fn relay_writes() -> f64 {
    super::super::settings::syncs_per_commit(0, true, 1)
}

/// A volume with its buckets.
pub(super) struct ReplicaVolume {
    pub counting: DeviceCounting,
    fluid: Fluid,
    /// I/Os on the instance per read and per write.
    copies: (f64, f64),
}

/// Devices of a replica's files.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaStorage<'a> {
    /// Data files; and whatever has no volume of its own.
    pub data: &'a Setup,
    /// Redo and binary log.
    pub log: Option<&'a Setup>,
    /// Relay log; none: with redo and binary log.
    pub relay: Option<&'a Setup>,
    /// Limits of the instance.
    pub instance: Option<&'a InstanceLimits>,
}

/// Delay of purge in batches: it takes one after the other, so half a batch on average. MariaDB
/// 10.11 read 11.5 and 9.7 pages a transaction in 30 MiB, where the appliers miss 7.1, and 5.1 in
/// 60 MiB (5.0 of the appliers): pages that stayed for 25 and 180 transactions (lab, 2026-11-23).
const PURGE_BEHIND: f64 = 0.5;

/// Threads that purge, each with one read under way: innodb_purge_threads of MariaDB 10.11 (its
/// manual, read 2026-11).
const PURGE_THREADS: f64 = 4.0;

/// Returns the pages that purge reads a transaction of an applier, because they left the cache
/// before it came: those that are gone after an exponential time of `PURGE_BEHIND` batches. A page
/// that no hit moves stays while the old part is read once over.
///
/// `reading`: workers that read at once. Purge's threads share with them, read by read, what the
/// volume can do. The nearer they are to having all their time taken, the further they are behind
/// (as a queue is longer by 1 / (1 - load)), and they read no more than they have time for. MariaDB
/// 10.11 read 9.5 pages a transaction with 16 workers in 44 MiB, where the workers miss 5.8 (lab,
/// 2026-11-23).
pub(super) fn purge_reads(database: &Database, settings: &ReplicaSettings, reads: f64, cache_bytes: f64, reading: f64) -> f64 {
    let old = database.old_share * database.cache_pages(cache_bytes);
    let most = PURGE_THREADS * reads / reading.max(1e-12);
    // Reads of purge shorten the stay in their turn; each round is nearer, and eight are within 2
    // %.
    (0..8).fold(0.0, |purged: f64, _| {
        let idle = (1.0 - purged / most).max(1e-9);
        let behind = PURGE_BEHIND * f64::from(settings.purge_batch) / idle;
        (reads * PURGED * libm::exp(-old / (reads + purged).max(1e-9) / behind.max(1e-9))).min(most)
    })
}

/// A flush that takes longer than the model's is more writes, up to this many times: 4.1 of a
/// commit were seen on XFS (redo log, binary log, twice the filesystem's log; MariaDB 10.11, lab,
/// 2026-11-23) where the model has 3. The rest of its time is waiting.
const MOST_WRITES: f64 = 4.1 / 3.0;

/// Demand of an applied transaction on data and log volumes.
pub(super) struct Demand {
    data: Flow,
    log: Flow,
}

/// Demand of a second whatever is applied: pages of the cleaner on the data volume, and the
/// received bytes on the relay log's.
#[derive(Clone, Copy, Default)]
pub(super) struct Always {
    data: Flow,
    relay: Flow,
}

/// Data, log and relay log.
const MOST_VOLUMES: usize = 3;

/// Demand on each volume, in the order of [`ReplicaDevices`]; nothing on those that are not there.
pub(super) type OnVolumes = [Flow; MOST_VOLUMES];

/// Volumes in the order data, log, relay; one that is not there is the one before.
pub(super) struct ReplicaDevices {
    volumes: Vec<ReplicaVolume>,
    /// Indexes of the volumes of the log and of the relay log.
    pub log: usize,
    pub relay: usize,
    places: Places,
    instance: Option<Fluid>,
}

impl ReplicaDevices {
    /// Makes the devices of a replica at their start balance, for steps of `step_s`.
    pub fn new(storage: &ReplicaStorage<'_>, database: &Database, step_s: f64) -> ReplicaDevices {
        let volume = |setup: &Setup| ReplicaVolume {
            counting: DeviceCounting::new(setup, database),
            fluid: Fluid::of_volumes(setup).with_refill(step_s),
            copies: Fluid::amplification(setup),
        };
        let volumes: Vec<ReplicaVolume> = std::iter::once(storage.data).chain(storage.log).chain(storage.relay).map(volume).collect();
        let log = usize::from(storage.log.is_some());
        let relay = if storage.relay.is_some() { volumes.len() - 1 } else { log };
        let places = Places { data: volumes[0].counting.clone(), log: (log > 0).then(|| volumes[log].counting.clone()) };
        let instance = storage
            .instance
            .map(|limits| Fluid::of_instance(limits, storage.data.options.saved_second, storage.data.start_balance_percent).with_refill(step_s));
        ReplicaDevices { volumes, log, relay, places, instance }
    }

    /// Returns the time of a synchronous write of the log, and of a page read and write, s.
    fn latencies_s(&self) -> (f64, f64, f64) {
        let data = &self.volumes[0].counting;
        (self.volumes[self.log].counting.write_ms / 1e3, data.read_ms / 1e3, data.write_ms / 1e3)
    }

    /// Returns the time of the relay log's flushes for a transaction, s.
    pub fn receive_s(&self, applier: &Applier, settings: &ReplicaSettings) -> f64 {
        let flush_s = relay_writes() * applier.relay_flush_factor * self.volumes[self.relay].counting.write_ms / 1e3;
        receive_s(applier.events_per_tx, settings.sync_relay_log, flush_s)
    }

    /// Returns the costs of a transaction with the cache at `at`, before the devices' limits.
    pub fn costs(&self, database: &Database, applier: &Applier, settings: &ReplicaSettings, at: &At, committing: f64, vcpus: f64) -> ApplierCosts {
        let (sync_s, read_s, write_s) = self.latencies_s();
        let (workers, cpu_s) = (settings.threads(), applier.cpu_ms / 1e3);
        let on_all = cpu_s + (applier.spin_ms * (workers - 1.0) + applier.page_cpu_ms * at.reads * at.shape) / 1e3;
        let receive_s = self.receive_s(applier, settings);
        // A thread that only waits gets no more than half of the last processor.
        let worker_cores = (vcpus - settings.coordinator_cores).max(0.5 * vcpus.min(1.0));
        ApplierCosts {
            processor_s: cpu_s * (1.0 - applier.commit_cpu_share),
            commit_processor_s: cpu_s * applier.commit_cpu_share,
            reads_s: at.reads * at.shape * read_s,
            page_writes_s: applier.forced_writes * at.evicted_dirty * at.shape * write_s,
            flushes_s: database.log.syncs_per_commit * applier.flush_factor * sync_s,
            redone: settings.redone(applier),
            order_cv: if settings.preserve_order { applier.service_cv } else { 0.0 },
            workers,
            width: settings.width(applier, committing),
            overlaps_commits: settings.mode.overlaps_commits(),
            group_share: applier.group_share,
            longest_stage: settings.longest_stage(),
            in_turn: settings.commits_in_turn(),
            iops_rate: f64::INFINITY,
            bytes_rate: f64::INFINITY,
            cores_rate: if vcpus > 0.0 && on_all > 0.0 { worker_cores / on_all } else { f64::INFINITY },
            receive_rate: if receive_s > 0.0 { 1.0 / receive_s } else { f64::INFINITY },
        }
    }

    /// Returns the I/O of one transaction in whose group `grouped` commits share their flushes.
    pub fn demand(&self, database: &Database, applier: &Applier, at: &At, grouped: f64) -> Demand {
        let (data, log) = self.places.of_transaction(database, at, 1.0, database.log.syncs_per_commit * applier.flush_factor.min(MOST_WRITES) / grouped);
        Demand { data, log }
    }

    /// Returns the I/O of `pages` a second of the cleaner in the background, and of `received_tps`
    /// transactions a second that are received, with `relay_bytes` each.
    pub fn always(&self, database: &Database, pages: f64, applier: &Applier, settings: &ReplicaSettings, (received_tps, relay_bytes): (f64, f64)) -> Always {
        let mut relay = Flow::default();
        let flushes = if settings.sync_relay_log > 0 { relay_writes() * applier.events_per_tx / f64::from(settings.sync_relay_log) } else { 0.0 };
        let writes = flushes.max(relay_bytes / RUN_BYTES);
        if received_tps * writes > 0.0 {
            relay.write(&self.volumes[self.relay].counting, received_tps * writes, relay_bytes / writes, 1.0);
        }
        Always { data: self.places.of_second(database, pages, (0.0, 0.0)), relay }
    }

    /// Returns the demand of a rate of transactions on each volume.
    fn on_volumes(&self, demand: &Demand, rate: f64, always: &Always) -> OnVolumes {
        let mut flows = OnVolumes::default();
        for (flow, place, times) in [(&always.data, 0, 1.0), (&demand.data, 0, rate), (&demand.log, self.log, rate), (&always.relay, self.relay, 1.0)] {
            flows[place] = flow.times_plus(times, &flows[place]);
        }
        flows
    }

    /// Returns the demand on each volume whatever is applied.
    pub fn always_on_volumes(&self, always: &Always) -> OnVolumes {
        let mut flows = OnVolumes::default();
        for (flow, place) in [(&always.data, 0), (&always.relay, self.relay)] {
            flows[place] = flow.times_plus(1.0, &flows[place]);
        }
        flows
    }

    /// Returns the flow of all volumes as the instance sees it.
    fn on_instance(&self, flows: &OnVolumes) -> Flow {
        flows.iter().zip(&self.volumes).fold(Flow::default(), |sum, (flow, volume)| flow.copied(volume.copies).times_plus(1.0, &sum))
    }

    /// Lowers the rates of `costs` to the most transactions a second that I/Os and bytes let
    /// through on top of what is `always` asked.
    pub fn limit_rates(&self, costs: &mut ApplierCosts, demand: &Demand, always: &OnVolumes, seconds: f64) {
        let each = self.on_volumes(demand, 1.0, &Always::default());
        let mut lower = |(rate, cap): (f64, Cap)| {
            let bytes = matches!(cap, Cap::VolumeThroughput | Cap::InstanceThroughput);
            let to = if bytes { &mut costs.bytes_rate } else { &mut costs.iops_rate };
            *to = to.min(rate);
        };
        for ((volume, each), always) in self.volumes.iter().zip(&each).zip(always) {
            lower(volume.fluid.max_rate(&each.measured, &always.measured, seconds));
        }
        if let Some(fluid) = &self.instance {
            lower(fluid.max_rate(&self.on_instance(&each).measured, &self.on_instance(always).measured, seconds));
        }
    }

    /// Takes what `applied` transactions a second ask on top of `always` from the buckets, in a
    /// step that ends at `t_s`; returns the I/Os and bytes a second of all volumes.
    pub fn charge(&mut self, demand: &Demand, applied: f64, always: &Always, t_s: f64, seconds: f64) -> (f64, f64) {
        let flows = self.on_volumes(demand, applied, always);
        let together = self.on_instance(&flows);
        for (volume, flow) in self.volumes.iter_mut().zip(&flows) {
            volume.fluid.charge(&flow.measured, seconds);
        }
        if let Some(fluid) = &mut self.instance {
            fluid.top_up(t_s);
            fluid.charge(&together.measured, seconds);
        }
        flows.iter().fold((0.0, 0.0), |(ios, bytes), flow| (ios + flow.measured.iops, bytes + flow.measured.bytes_s))
    }

    /// Returns the lowest credit balance of a volume, percent.
    pub fn balance_percent(&self) -> Option<f64> {
        self.volumes.iter().filter_map(|volume| volume.fluid.percent_of(Cap::VolumeCredits)).min_by(f64::total_cmp)
    }
}

/// Returns the commits under way on the source at once: those that come while one flushes, and it.
pub(super) fn committing(scenario: &Scenario<'_>, tps: f64, semi_sync_ms: f64) -> f64 {
    let place = DeviceCounting::new(scenario.log.unwrap_or(scenario.data), scenario.database);
    1.0 + tps * (scenario.database.log.syncs_per_commit * place.write_ms + semi_sync_ms) / 1e3
}

/// Returns the bottleneck at a rate asked for that is above the possible.
pub(super) fn binding(costs: &ApplierCosts, kept_up: bool) -> ReplicaBinding {
    if kept_up {
        ReplicaBinding::Demand
    } else {
        costs.binding()
    }
}
