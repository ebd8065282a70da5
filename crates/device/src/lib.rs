//! Clock two: block devices that answer when the model says.
//!
//! ```text
//!  reader threads:  request -> line -> decision of the model -> the backing reads or writes -> answered now, or put to the timer
//!  timer thread:                                                                               answered when its time has come
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `clock` | monotonic nanoseconds that go on over a restart |
//! | `timer` | answers that wait for their time |
//! | `meter` | what a volume did: counts, times, histograms |
//! | `gate` | faults that are not the model's: pauses, errors, a power cut |
//! | `line` | one attached volume: slot in the model, bytes, meter, gate |
//! | `shelf` | the model behind one lock, the lines, the timer |
//! | `raid` | the bytes of an array over its members |
//! | `recorder` | the journal of decisions |
//! | `mount` | the FUSE file system: one file a volume. The only file that names fuser |
//! | `loopdev` | loop devices on those files |
//! | `probe` | the path's own latency, and the most it can carry |

pub mod clock;
pub mod gate;
pub mod line;
pub mod loopdev;
pub mod meter;
pub mod mount;
pub mod probe;
pub mod raid;
pub mod recorder;
pub mod shelf;
pub mod timer;

pub use clock::Clock;
pub use line::Line;
pub use shelf::Shelf;
