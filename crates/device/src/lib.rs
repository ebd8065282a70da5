//! Clock two: block devices that answer when the model says.
//!
//! ```text
//!  reader threads:  request -> attached volume -> decision of the model -> its bytes are read or written -> answered now, or put to the timer
//!  timer thread:                                                                                           answered when its time has come
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `clock` | monotonic nanoseconds that continue after a restart |
//! | `timer` | answers that wait for their time |
//! | `meter` | what a volume did: counts, times, histograms |
//! | `fault_injector` | faults that are not the model's: pauses, latency, errors, a power cut |
//! | `devices` | the model behind one lock, and the attached volumes |
//! | `recorder` | the journal of decisions |
//! | `mount` | the FUSE file system: one file a volume. The only file that names the FUSE library |
//! | `loopdev` | loop devices on those files |
//! | `stale_mounts` | mounts and loop devices that an earlier daemon left |
//! | `probe` | the latency of the machine's own path, and the most it can carry |

pub mod clock;
pub mod devices;
pub mod fault_injector;
pub mod loopdev;
pub mod meter;
pub mod mount;
pub mod probe;
pub mod recorder;
pub mod stale_mounts;
pub mod timer;

pub use clock::Clock;
pub use devices::{AttachedVolume, Devices};
