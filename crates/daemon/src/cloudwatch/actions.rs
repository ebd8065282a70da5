//! The commands and webhooks that alarms set off: those that the owner of the lab wrote into
//! `actions.toml` of the data directory, and nothing else.
//!
//! ```toml
//! [command.page-me]                  # arn:aws:headrace:REGION:ACCOUNT:command/page-me
//! argv = ["/usr/local/bin/page"]     # no shell; the alarm comes as JSON on standard input
//! timeout_s = 10                     # then it is killed, with all it started
//! user = "nobody"                    # as whom it runs
//!
//! [webhook.chat]                     # arn:aws:headrace:REGION:ACCOUNT:webhook/chat
//! url = "http://127.0.0.1:8080/alarm"
//! timeout_s = 5
//! ```
//!
//! The file is read when an action is taken. It must belong to root or to the daemon's user, and
//! nobody else may be able to write it: what stands in it is run.

use headrace_control::{action_parts, recorded_action};
use rustix::process::{kill_process_group, Pid, Signal};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Actions that wait at most; more are dropped, and said so in the history.
const MOST_WAITING: usize = 64;
/// Largest actions.toml, bytes: hundreds of actions.
const MOST_FILE_BYTES: u64 = 64 << 10;
/// Longest run of an action, s: the default, and the highest value that actions.toml may set.
const TIMEOUT_S: u64 = 10;
const MOST_TIMEOUT_S: u64 = 300;
/// The user as whom a command runs without a word of the file.
const USER: &str = "nobody";
/// Interval between two looks at a running command.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionsFile {
    #[serde(default)]
    command: BTreeMap<String, CommandAction>,
    #[serde(default)]
    webhook: BTreeMap<String, WebhookAction>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandAction {
    argv: Vec<String>,
    timeout_s: Option<u64>,
    user: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookAction {
    url: String,
    timeout_s: Option<u64>,
}

enum Action {
    Command(CommandAction),
    Webhook(WebhookAction),
}

/// A function that is told how an action went: of which alarm, which action, and its outcome in
/// words.
pub(crate) type Note<'a> = dyn Fn(&str, &str, Result<String, String>) + 'a;

struct Task {
    alarm: String,
    action: String,
    detail: String,
}

/// Actions that wait to be taken.
pub struct Actions {
    file: PathBuf,
    waiting: Mutex<VecDeque<Task>>,
    added: Condvar,
    dropped: Mutex<Vec<(String, String)>>,
}

impl Actions {
    /// Makes the actions of a lab.
    pub fn new(folder: &Path) -> Actions {
        Actions { file: folder.join("actions.toml"), waiting: Mutex::default(), added: Condvar::new(), dropped: Mutex::default() }
    }

    /// Checks that an action stands in the file. One of AWS is recorded only: it stands nowhere.
    ///
    /// # Errors
    /// It does not, or the file is wrong: in words.
    pub fn check(&self, action: &str) -> Result<(), String> {
        match recorded_action(action) {
            Some(_) => Ok(()),
            None => self.find_action(action).map(drop),
        }
    }

    /// Puts an action in the queue; it is taken by another thread.
    pub(crate) fn add(&self, alarm: &str, action: &str, detail: &Value) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= MOST_WAITING {
            let mut dropped = lock(&self.dropped);
            if dropped.len() < MOST_WAITING {
                dropped.push((alarm.to_string(), action.to_string()));
            }
            return;
        }
        waiting.push_back(Task { alarm: alarm.to_string(), action: action.to_string(), detail: detail.to_string() });
        drop(waiting);
        self.added.notify_one();
    }

    /// Takes the actions in turn until `stop` returns true; `note` is told how each went, by alarm
    /// and action.
    pub(crate) fn serve(&self, stop: &dyn Fn() -> bool, note: &Note<'_>) {
        while !stop() {
            let task = {
                let waiting = lock(&self.waiting);
                let waited = self.added.wait_timeout_while(waiting, Duration::from_millis(500), |waiting| waiting.is_empty());
                waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
            };
            for (alarm, action) in std::mem::take(&mut *lock(&self.dropped)) {
                note(&alarm, &action, Err(format!("was not taken: {MOST_WAITING} actions waited already")));
            }
            if let Some(task) = task {
                note(&task.alarm, &task.action, self.carry_out(&task, stop));
            }
        }
    }

    /// Runs the command or calls the webhook of a task, a webhook a second time if it fails;
    /// returns the outcome in words.
    fn carry_out(&self, task: &Task, stop: &dyn Fn() -> bool) -> Result<String, String> {
        match self.find_action(&task.action)? {
            Action::Command(command) => run_command(&command, &task.detail, stop),
            Action::Webhook(webhook) => match post_to(&webhook, &task.detail) {
                Ok(outcome) => Ok(outcome),
                Err(first) => post_to(&webhook, &task.detail).map_err(|second| format!("{first}; tried again: {second}")),
            },
        }
    }

    /// Returns the command or webhook of `actions.toml` that an action names.
    fn find_action(&self, action: &str) -> Result<Action, String> {
        if let Some(service) = recorded_action(action) {
            return Err(format!("is recorded and not delivered: the lab has no {service}"));
        }
        let (kind, name) = action_parts(action).ok_or_else(|| format!("{action} is not an action of the lab"))?;
        let file = self.read_file()?;
        let missing = || format!("{} has no [{kind}.{name}]", self.file.display());
        let entry = match kind {
            "command" => Action::Command(file.command.get(name).cloned().ok_or_else(missing)?),
            _ => Action::Webhook(file.webhook.get(name).cloned().ok_or_else(missing)?),
        };
        match &entry {
            Action::Command(command) => check_command(name, command)?,
            Action::Webhook(webhook) => drop(parse_address(&webhook.url)?),
        }
        Ok(entry)
    }

    /// Reads `actions.toml`; refuses a file that others than its owner can write.
    fn read_file(&self) -> Result<ActionsFile, String> {
        let name = self.file.display();
        let open = std::fs::File::open(&self.file).map_err(|error| format!("{name}: {error}; actions of alarms are written there"))?;
        let metadata = open.metadata().map_err(|error| format!("{name}: {error}"))?;
        let owner = rustix::process::geteuid().as_raw();
        if (metadata.uid() != 0 && metadata.uid() != owner) || metadata.mode() & 0o022 != 0 {
            return Err(format!("{name} must belong to root or user {owner} and be writable for its owner only: what it names is run"));
        }
        let mut text = String::new();
        open.take(MOST_FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| format!("{name}: {error}"))?;
        if text.len() as u64 > MOST_FILE_BYTES {
            return Err(format!("{name} has more than {MOST_FILE_BYTES} bytes"));
        }
        toml::from_str(&text).map_err(|error| format!("{name}: {}", error.to_string().replace('\n', " ")))
    }
}

/// Locks a mutex. A thread that panicked left the queue whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn timeout(asked_s: Option<u64>) -> Duration {
    Duration::from_secs(asked_s.unwrap_or(TIMEOUT_S).clamp(1, MOST_TIMEOUT_S))
}

fn check_command(name: &str, command: &CommandAction) -> Result<(), String> {
    match command.argv.first() {
        Some(program) if Path::new(program).is_absolute() => Ok(()),
        Some(program) => Err(format!("command.{name}: {program} is not a path from the root")),
        None => Err(format!("command.{name}: argv is empty")),
    }
}

/// Returns the user and group id of a user, from /etc/passwd.
fn ids_of(user: &str) -> Result<(u32, u32), String> {
    let text = std::fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
    let ids = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.first() == Some(&user)).then(|| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))).flatten()
    });
    ids.ok_or_else(|| format!("there is no user {user} in /etc/passwd"))
}

/// Runs a command with `detail` on its standard input, as its user; kills its process group at its
/// timeout or when `stop` returns true.
fn run_command(action: &CommandAction, detail: &str, stop: &dyn Fn() -> bool) -> Result<String, String> {
    let (program, arguments) = action.argv.split_first().ok_or("argv is empty")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if rustix::process::geteuid().is_root() {
        let (user, group) = ids_of(action.user.as_deref().unwrap_or(USER))?;
        // Root's other groups go too: the standard library drops them with the user.
        command.uid(user).gid(group);
    }
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // It fits a pipe; a program need not read it.
        let _ = input.write_all(detail.as_bytes());
    }
    let until = Instant::now() + timeout(action.timeout_s);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok("exit status 0".to_string()),
            Ok(Some(status)) => return Err(format!("{program}: {status}")),
            Ok(None) if Instant::now() < until && !stop() => std::thread::sleep(LOOK_EVERY),
            other => {
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(pid, Signal::KILL);
                }
                let _ = child.wait();
                return Err(match other {
                    Err(error) => format!("{program}: {error}"),
                    _ => format!("{program}: took longer than {} s and was killed", timeout(action.timeout_s).as_secs()),
                });
            }
        }
    }
}

/// Returns the socket address and the path of `http://127.0.0.1:PORT/PATH`.
fn parse_address(url: &str) -> Result<(SocketAddr, String), String> {
    let wrong = || format!("{url} is not http://127.0.0.1:PORT/PATH: webhooks stay on this machine");
    let rest = url.strip_prefix("http://127.0.0.1:").ok_or_else(wrong)?;
    let (port, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong());
    }
    Ok((SocketAddr::from((Ipv4Addr::LOCALHOST, port)), format!("/{path}")))
}

/// Posts `detail` to a webhook, and reads the status of the answer; 2xx is a success.
fn post_to(webhook: &WebhookAction, detail: &str) -> Result<String, String> {
    let (to, path) = parse_address(&webhook.url)?;
    let (timeout, failed) = (timeout(webhook.timeout_s), |error: std::io::Error| format!("{}: {error}", webhook.url));
    let until = Instant::now() + timeout;
    let mut stream = TcpStream::connect_timeout(&to, timeout).map_err(failed)?;
    stream.set_write_timeout(Some(timeout)).map_err(failed)?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", detail.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(detail.as_bytes())).map_err(failed)?;
    // The status line is all that is read: "HTTP/1.1 200".
    let mut line = [0u8; 12];
    let mut read = 0;
    while read < line.len() {
        let remaining = until.checked_duration_since(Instant::now()).filter(|remaining| !remaining.is_zero());
        stream.set_read_timeout(Some(remaining.ok_or_else(|| format!("{}: no answer in {} s", webhook.url, timeout.as_secs()))?)).map_err(failed)?;
        match stream.read(&mut line[read..]).map_err(failed)? {
            0 => break,
            more => read += more,
        }
    }
    let status = std::str::from_utf8(&line[..read]).ok().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..)?.parse::<u16>().ok());
    match status {
        Some(status) if (200..300).contains(&status) => Ok(format!("status {status}")),
        Some(status) => Err(format!("{}: status {status}", webhook.url)),
        None => Err(format!("{}: the answer is not HTTP", webhook.url)),
    }
}
