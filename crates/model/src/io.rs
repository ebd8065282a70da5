//! One request to a volume, what the model decided about it, and the time both are given in.
//!
//! The model has no clock: a [`Nanos`] is virtual time in `sim` and monotonic time in a device.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// Operation of a request. A flush costs nothing on its own: an EBS write is durable when
/// acknowledged (no separate flush cost was found in any published run).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Read `bytes` at `offset`.
    Read,
    /// Write `bytes` at `offset`.
    Write,
}

/// One block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Io {
    /// Read or write.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub bytes: u32,
}

/// The limit that made a request wait longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    /// Nothing: the request started when it arrived.
    #[default]
    None,
    /// The volume's IOPS.
    VolumeIops,
    /// The volume's MiB/s.
    VolumeThroughput,
    /// The volume's credits are gone: I/O credits of gp2, byte credits of st1 and sc1.
    VolumeCredits,
    /// The instance's EBS IOPS.
    InstanceIops,
    /// The instance's EBS bandwidth.
    InstanceThroughput,
    /// The instance's EBS burst bucket is empty: back to its baseline.
    InstanceCredits,
    /// The data still comes from a snapshot.
    FirstTouch,
    /// A degradation event.
    Degraded,
    /// The offered load itself (closed loads: every client is waiting for its own request).
    Clients,
}

impl Cap {
    /// Every cap, in the order of their numbers.
    pub const ALL: [Cap; 10] = [
        Cap::None,
        Cap::VolumeIops,
        Cap::VolumeThroughput,
        Cap::VolumeCredits,
        Cap::InstanceIops,
        Cap::InstanceThroughput,
        Cap::InstanceCredits,
        Cap::FirstTouch,
        Cap::Degraded,
        Cap::Clients,
    ];

    /// Returns the name used in tables, CSV and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cap::None => "none",
            Cap::VolumeIops => "volume-iops",
            Cap::VolumeThroughput => "volume-throughput",
            Cap::VolumeCredits => "volume-credits",
            Cap::InstanceIops => "instance-iops",
            Cap::InstanceThroughput => "instance-throughput",
            Cap::InstanceCredits => "instance-credits",
            Cap::FirstTouch => "first-touch",
            Cap::Degraded => "degraded",
            Cap::Clients => "clients",
        }
    }
}

/// Success or failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The data is read or durable at `complete`.
    Ok,
    /// An error is returned at `complete` (a lost member of a RAID 0, say).
    Failed,
}

/// The answer to one request: known at once, because nothing that arrives later can change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Time at which the limiters let it start.
    pub start: Nanos,
    /// Time of its answer.
    pub complete: Nanos,
    /// Limit that made it wait longest.
    pub cap: Cap,
    /// Success or failure.
    pub verdict: Verdict,
}

impl Decision {
    /// Returns the later of two parts of one request (members of a stripe): done when both are
    /// done.
    pub fn join(self, other: Decision) -> Decision {
        let (late, early) = if other.complete > self.complete { (other, self) } else { (self, other) };
        let verdict = if late.verdict == Verdict::Ok && early.verdict == Verdict::Ok { Verdict::Ok } else { Verdict::Failed };
        Decision { start: late.start.max(early.start), verdict, ..late }
    }
}

/// Nanoseconds since the start of a run (or a span of that many).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Nanoseconds in one second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl Nanos {
    /// The start of a run.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any event.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// Makes a time of whole seconds.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * NANOS_PER_SECOND)
    }

    /// Makes a time of whole microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// Makes a time of seconds, rounded down to whole nanoseconds.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9) as u64)
    }

    /// Returns the time in seconds, for people and charts; never fed back into the model.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Returns the span from `earlier` to here, zero when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, span: Nanos) -> Nanos {
        Nanos(self.0 - span.0)
    }
}
