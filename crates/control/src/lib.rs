//! Rules of the lab, and their times: pure state machines.
//!
//! ```text
//!  command --> decide(now, ids) --> events --> journal --> apply --> Lab
//!                    |                           ^
//!                    +--> ControlError           |
//!                due(now) ------ events ---------+      what happens without a command
//! ```
//!
//! No I/O, no clock, no threads, no hidden randomness: time is an argument in milliseconds of lab
//! time, and random numbers come from the `ids` generator. An [`Event`] holds every id and time
//! that was made when it was decided, so the same events give the same [`Lab`], on any machine and
//! in any later version.
//!
//! States have EC2's names. Calls that EC2 completes in its own time (create, attach, detach,
//! delete) have two halves here: the user's command, and a second one by which the daemon reports
//! how its part ended ([`Command::Created`], [`Command::Attached`], ...).
//!
//! Imports go down only:
//!
//! ```text
//!  lab                                                    commands to a machine, events to the state
//!  volumes: itself, attachments, modifications, members   one pure state machine each
//!  snapshots: schedules, lifecycle, locks, fast restore, bin
//!  state                                                  all that is kept of a lab
//!  command (what is asked)   event (what happened)
//!  alarms, keys (of KMS, without their material)          the machine of each, with its messages
//!  snapshots: kept, messages                              their state, what is asked, what happened
//!  volumes: record           snapshots: record            what is kept of one
//!  settings (instance, day, clock)   tokens (calls done once)   tags   ids   clock   error
//! ```
//!
//! Not here: credits as they flow (the model), faults of seconds (the device), where bytes lie (the
//! store).

mod alarms;
mod clock;
mod command;
mod error;
mod event;
mod ids;
pub mod keys;
mod lab;
mod settings;
mod snapshots;
mod state;
mod tags;
mod tokens;
mod volumes;

pub use alarms::{
    action_parts, recorded_action, refused as refused_by_cloudwatch, AlarmChange, AlarmCommand, AlarmRecord, AlarmRequest, Alarms, HistoryItem, MAX_ALARMS,
    MAX_ALARM_HISTORY,
};
pub use clock::LabClock;
pub use command::{AttachRequest, Command, CreateRequest, DetachRequest, ModifyRequest};
pub use error::{ControlError, ErrorKind, Problem};
pub use event::{Change, Event};
pub use ids::{fault_id, SnapshotId, VolumeId};
pub use keys::{KeyCommand, KeyRecord, KeyState, Keys};
pub use settings::{ModificationTimes, Settings, SettingsRequest};
pub use snapshots::messages::{CopyRequest, DirectRequest, LockRequest, ScheduleRequest, SnapshotChange, SnapshotCommand, SnapshotRequest};
pub use snapshots::record::{
    Binned, FastRestore, FastRestoreState, LockMode, NewSnapshot, RetentionRule, Schedule, SnapshotKey, SnapshotLock, SnapshotRecord, SnapshotSource,
    SnapshotState, VolumeOrigin,
};
pub use snapshots::registry::{Snapshots, MAX_SNAPSHOTS};
pub use state::Lab;
pub use tags::TagRequest;
pub use tokens::{ClientToken, TokenChange, Tokens, UsedToken};
pub use volumes::modifications::next_allowed_ms;
pub use volumes::record::{
    AttachedDevice, Attachment, AttachmentState, BalanceSet, Ceiling, Member, MemberState, Modification, ModificationState, NewVolume, Slowness,
    VolumeEncryption, VolumeRecord, VolumeStatus, Volumes, MAX_HISTORY, MOST_EXTRA_MS,
};
pub use volumes::MAX_VOLUMES;
