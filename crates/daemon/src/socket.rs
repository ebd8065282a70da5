//! Connections: a Unix socket, one JSON object a line. The kernel names the caller, and that
//! decides if the call is allowed.

use crate::calls::{self, After};
use crate::engine::Engine;
use crate::problem::{bad_input, from_io, refused, Outcome};
use headrace_control::{ErrorKind, Problem};
use rustix::fs::{chmod, chown, Gid, Mode};
use rustix::net::sockopt::socket_peercred;
use serde::Deserialize;
use serde_json::{json, Value};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Longest line, bytes: far beyond any call.
const MOST_LINE: u64 = 1 << 20;
/// Callers at once.
const MOST_CALLERS: usize = 64;
/// A caller may be silent between calls for an hour, and inside a line or an answer this long.
const IDLE: Duration = Duration::from_secs(3_600);
const STALLED: Duration = Duration::from_secs(30);
/// Interval at which the listener looks for callers and for the end. A guess: not felt by a caller.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    id: Value,
    call: String,
    #[serde(default)]
    args: Value,
    /// The token under which the call is done once.
    #[serde(default)]
    token: Option<String>,
    /// True if the call is only decided, not done.
    #[serde(default)]
    dry_run: bool,
}

/// The listening socket. Dropping it removes its file.
pub struct Socket {
    listener: UnixListener,
    path: std::path::PathBuf,
    group: Option<u32>,
}

impl Socket {
    /// Listens at `path`. The file of a daemon that died is replaced, that of one that answers is
    /// not.
    ///
    /// # Errors
    /// Another daemon answers there, or the folder cannot be written.
    pub fn listen(path: &Path, group: Option<u32>) -> Outcome<Socket> {
        let failed = |error: io::Error| from_io(format!("listening at {}", path.display()), &error);
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
        }
        if UnixStream::connect(path).is_ok() {
            return Err(refused(ErrorKind::InUse, path.display().to_string(), "another daemon answers there", "Stop that one, or use another --socket."));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        // Between bind and here the umask decides; who calls is looked at again for each
        // connection.
        chmod(path, Mode::from_raw_mode(0o660)).map_err(|error| failed(error.into()))?;
        if let Some(group) = group {
            chown(path, None, Some(Gid::from_raw(group))).map_err(|error| failed(error.into()))?;
        }
        Ok(Socket { listener, path: path.to_path_buf(), group })
    }

    /// Serves until the lab goes down or `stop` is set.
    pub fn serve(&self, engine: &Arc<Engine>, stop: &AtomicBool) {
        let callers = Arc::new(AtomicUsize::new(0));
        while !stop.load(Ordering::Acquire) && !engine.is_down() {
            match self.listener.accept() {
                Ok((stream, _)) => self.serve_caller(stream, engine, &callers),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOOK_EVERY),
                Err(error) => {
                    // Out of descriptors, say: those who call already must be able to end.
                    tracing::warn!("accepting a caller: {error}");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        // The answer to the call that ended the lab is still on its way.
        let until = std::time::Instant::now() + Duration::from_secs(1);
        while callers.load(Ordering::Acquire) > 0 && std::time::Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Serves a connection in a thread of its own; refuses a caller without permission, and one
    /// beyond [`MOST_CALLERS`].
    fn serve_caller(&self, stream: UnixStream, engine: &Arc<Engine>, callers: &Arc<AtomicUsize>) {
        if let Err(reason) = self.check_peer(&stream) {
            tracing::warn!("a caller was refused: {reason}");
            let _ = send(
                &stream,
                &json!({"id": null, "error": refused(ErrorKind::InsufficientPermission, "caller", reason, "Call as root or as the daemon's user, or start it with --group.")}),
            );
            return;
        }
        if callers.fetch_add(1, Ordering::AcqRel) >= MOST_CALLERS {
            callers.fetch_sub(1, Ordering::AcqRel);
            let _ = send(
                &stream,
                &json!({"id": null, "error": refused(ErrorKind::LimitExceeded, "caller", format!("{MOST_CALLERS} call already"), "Close some connections.")}),
            );
            return;
        }
        let (engine, counted) = (engine.clone(), callers.clone());
        let spawned = std::thread::Builder::new().name("headrace-call".into()).spawn(move || {
            if let Err(error) = converse(&stream, &engine) {
                tracing::debug!("a caller went: {error}");
            }
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            callers.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Checks that the process at the other end runs as root, as the daemon's user, or in the group
    /// of the socket.
    fn check_peer(&self, stream: &UnixStream) -> Result<(), String> {
        let peer = socket_peercred(stream).map_err(|error| format!("who calls is not known: {error}"))?;
        let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
        if uid == 0 || uid == rustix::process::geteuid().as_raw() || self.group == Some(gid) {
            return Ok(());
        }
        Err(format!("user {uid} may not use this lab"))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn send(stream: &UnixStream, answer: &Value) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    write_line(stream, answer.to_string())
}

fn write_line(stream: &UnixStream, mut line: String) -> io::Result<()> {
    stream.set_write_timeout(Some(STALLED))?;
    line.push('\n');
    (&mut &*stream).write_all(line.as_bytes())
}

/// Reads a line of at most [`MOST_LINE`] bytes; none at the end.
fn read_line(reader: &mut BufReader<&UnixStream>, stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    stream.set_read_timeout(Some(IDLE))?;
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    stream.set_read_timeout(Some(STALLED))?;
    let mut bytes = Vec::new();
    reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        Some(b'\n') => Ok(Some(bytes)),
        _ if bytes.len() as u64 >= MOST_LINE - 1 => Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line is at most {MOST_LINE} bytes"))),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Answers the calls of a connection, line by line, until the caller ends it or the lab goes down.
fn converse(stream: &UnixStream, engine: &Arc<Engine>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut reader = BufReader::new(stream);
    loop {
        let bytes = match read_line(&mut reader, stream) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    let _ = send(stream, &json!({"id": null, "error": bad_input("line", error.to_string(), "Send one call a line.")}));
                }
                return Err(error);
            }
        };
        let (answer, after) = answer_line(engine, &bytes);
        write_line(stream, answer)?;
        if after == After::Down {
            return Ok(());
        }
    }
}

/// Does the call of a line. Returns its answer as a line of JSON, and what the connection does
/// next.
fn answer_line(engine: &Arc<Engine>, bytes: &[u8]) -> (String, After) {
    let request: Request = match serde_json::from_slice(bytes) {
        Ok(request) => request,
        Err(error) => {
            let problem = bad_input("line", format!("is not a call: {error}"), "Send {\"id\": 1, \"call\": \"lab.status\", \"args\": {}}.");
            return (json!({"id": null, "error": problem}).to_string(), After::Next);
        }
    };
    let args = if request.args.is_null() { json!({}) } else { request.args };
    let (outcome, after) = calls::answer(engine, &request.call, args, request.token, request.dry_run);
    if let Err(Problem { value, rule, .. }) = &outcome {
        tracing::debug!(call = request.call, "refused: {value}: {rule}");
    }
    match outcome {
        Ok(result) => (format!(r#"{{"id":{},"result":{}}}"#, request.id, result.get()), after),
        Err(problem) => (json!({"id": request.id, "error": problem}).to_string(), after),
    }
}
