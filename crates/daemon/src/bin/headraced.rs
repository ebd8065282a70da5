//! The daemon of a Headrace lab.

use clap::Parser;
use headrace_control::ErrorKind;
use headrace_daemon::cloudwatch::alarming;
use headrace_daemon::engine::housekeeping;
use headrace_daemon::engine::Engine;
use headrace_daemon::options::Options;
use headrace_daemon::problem::{from_io, refused, Outcome};
use headrace_daemon::socket::Socket;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Exit code: it could not run here and now.
const COULD_NOT: u8 = 3;
/// Exit code: an option breaks a rule.
const REFUSED: u8 = 2;

/// Runs the daemon. The exit code is 0, 2 if an option breaks a rule, or 3 if it could not run.
fn main() -> ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_max_level(tracing::Level::INFO).init();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {}: {} ({}). {}", problem.value, problem.rule, problem.source, problem.hint);
            ExitCode::from(if problem.kind == ErrorKind::Unavailable { COULD_NOT } else { REFUSED })
        }
    }
}

/// Keeps the memory of this process private, because keys are in it: no other process may read its
/// memory, and no core file is written. The limit on open files is raised to the machine's, because
/// each volume in use takes one or more.
fn keep_memory_private() {
    use rustix::mm::{mlockall, MlockAllFlags};
    use rustix::process::{getrlimit, set_dumpable_behavior, setrlimit, DumpableBehavior, Resource, Rlimit};
    let limits = [(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }), {
        let files = getrlimit(Resource::Nofile);
        (Resource::Nofile, Rlimit { current: files.maximum, ..files })
    }];
    for (resource, limit) in limits {
        if let Err(error) = setrlimit(resource, limit) {
            tracing::warn!("setting a limit of the process: {error}");
        }
    }
    // Pages as they are touched: none of them is ever written to swap.
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    if let Err(error) = locked {
        tracing::warn!("keys may be written to swap, memory cannot be locked: {error}");
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("the process can be dumped: {error}");
    }
}

/// Opens the lab, starts its threads, prints `ready`, and serves callers until the lab goes down or
/// a signal comes.
fn run(options: &Options) -> Outcome<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(refused(ErrorKind::InsufficientPermission, "user", "mounting FUSE files and making loop devices needs root", "Run it with sudo."));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|error| from_io("waiting for signals", &error))?;
    }
    // Memory pressure must not make this process wait for its own devices to write.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    keep_memory_private();
    let engine = Engine::open(options)?;
    let socket = Socket::listen(&engine.socket, options.group)?;
    let housekeeper = housekeeping::start(&engine).map_err(|error| from_io("starting the housekeeping", &error))?;
    let watching = alarming::start(&engine.alarms).map_err(|error| from_io("starting the alarms", &error))?;
    engine.volumes.resume_rebuilds();
    engine.volumes.start_resyncing().map_err(|error| from_io("starting the resync of arrays", &error))?;
    engine.workers.start().map_err(|error| from_io("starting the snapshots", &error))?;
    if let Some(repair) = &engine.repaired {
        tracing::warn!("cut off what a crash left: {repair}");
    }
    tracing::info!("lab at {}, socket {}", engine.volumes.folder.display(), engine.socket.display());
    println!("ready");
    socket.serve(&engine, &stop);
    if !engine.is_down() {
        tracing::info!("asked to end by a signal");
        // A call that takes it down already is waited for inside.
        engine.shut_down(true)?;
    }
    let _ = housekeeper.join();
    watching.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}
