//! The daemon of a Headrace lab.

use clap::Parser;
use headrace_daemon::engine::Engine;
use headrace_daemon::housekeeping;
use headrace_daemon::metrics::http;
use headrace_daemon::options::Options;
use headrace_daemon::problem::{bad_input, of_io, Outcome};
use headrace_daemon::socket::Socket;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Could not run.
const COULD_NOT: u8 = 3;

fn main() -> ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_max_level(tracing::Level::INFO).init();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {}: {} ({}). {}", problem.value, problem.rule, problem.source, problem.hint);
            ExitCode::from(if problem.kind == headrace_control::ErrorKind::Input { 2 } else { COULD_NOT })
        }
    }
}

fn run(options: &Options) -> Outcome<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(bad_input("user", "mounting FUSE files and making loop devices needs root", "Run it with sudo."));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|error| of_io("waiting for signals", &error))?;
    }
    // Memory pressure must not make this process wait for its own devices to write.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let engine = Engine::open(options)?;
    let socket = Socket::listen(&engine.socket, options.group)?;
    let metrics = serve_metrics(&engine, options.metrics_port)?;
    let kept = housekeeping::start(&engine).map_err(|error| of_io("starting the keeper", &error))?;
    engine.resume_rebuilds();
    if let Some(words) = &engine.repaired {
        tracing::warn!("cut off what a crash left: {words}");
    }
    tracing::info!("lab at {}, socket {}", engine.folder.display(), engine.socket.display());
    println!("ready");
    socket.serve(&engine, &stop);
    if !engine.is_down() {
        tracing::info!("asked to end by a signal");
        // A call that takes it down already is waited for inside.
        engine.shut_down(true)?;
    }
    drop(metrics);
    let _ = kept.join();
    Ok(())
}

fn serve_metrics(engine: &Arc<Engine>, port: u16) -> Outcome<Option<http::Server>> {
    if port == 0 {
        return Ok(None);
    }
    let shown = engine.clone();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = http::serve(address, move || shown.exposition())
        .map_err(|error| of_io(format!("metrics at {address} (another --metrics-port, or 0 for none)"), &error))?;
    engine.metrics_port.store(u64::from(port), Ordering::Relaxed);
    Ok(Some(server))
}
