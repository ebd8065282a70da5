//! `GET /metrics` on the loopback: the part of HTTP/1.1 a scraper needs, and nothing else (RFC 9112).
//!
//! Each connection is one thread, one request, one answer. Bounds: 8 connections (a ninth is told 503), a head of 8 KiB (431), 2 s for the head and 2 s for the answer
//! in all, not from byte to byte. A body is not read.

use super::held;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at once.
const MAX_CONNECTIONS: usize = 8;
/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// For reading the head, and again for writing the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes taken from a client after the answer, so that closing does not reset what it has not read yet.
const MAX_DRAINED_BYTES: usize = 64 << 10;

type Text = Box<dyn Fn() -> String + Send>;

struct Shared {
    text: Mutex<Text>,
    /// Open connections by number, so that `stop` can end them.
    open: Mutex<BTreeMap<u64, TcpStream>>,
    closed: Condvar,
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// Answers `GET /metrics` at `address` with what `text` returns. Port 0 picks a free one: see [`Server::address`].
///
/// # Errors
/// An address that is not of the loopback ([`ErrorKind::InvalidInput`]); a port that is taken; no threads or descriptors left.
pub fn serve(address: SocketAddr, text: impl Fn() -> String + Send + 'static) -> io::Result<Server> {
    if !address.ip().is_loopback() {
        let words =
            format!("{address}: metrics are served on the loopback only, they carry no protection (lab). Use 127.0.0.1 or [::1], and a tunnel from elsewhere.");
        return Err(io::Error::new(ErrorKind::InvalidInput, words));
    }
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let shared = Arc::new(Shared { text: Mutex::new(Box::new(text)), open: Mutex::default(), closed: Condvar::new() });
    let (seen, serving) = (Arc::clone(&stop), Arc::clone(&shared));
    let accepting = std::thread::Builder::new().name("metrics".to_string()).spawn(move || accept_until(&listener, &seen, &serving))?;
    Ok(Server { address, stop, shared, accepting: Some(accepting) })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: the port is free and no thread of it runs any more.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        let mut open = held(&self.shared.open);
        open.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        while !open.is_empty() {
            open = self.shared.closed.wait(open).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

fn accept_until(listener: &TcpListener, stop: &OwnedFd, shared: &Arc<Shared>) {
    // Told 503, and not closed at once: that would reset the connection under a request still on its way, and the answer with it.
    let mut refused: VecDeque<TcpStream> = VecDeque::new();
    let grace = Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    for number in 0.. {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut ready, (!refused.is_empty()).then_some(&grace)) {
            Ok(0) => refused.clear(),
            Ok(_) => {}
            Err(_) => continue,
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                refused.extend(take(stream, number, shared));
                if refused.len() > MAX_CONNECTIONS {
                    refused.pop_front();
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // No descriptors left, most often: the listener stays ready, so wait a little.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Ends a connection's place however its thread ends.
struct Place {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Place {
    fn drop(&mut self) {
        held(&self.shared.open).remove(&self.number);
        self.shared.closed.notify_all();
    }
}

/// Gives a connection its thread, or back when there are too many.
fn take(mut stream: TcpStream, number: u64, shared: &Arc<Shared>) -> Option<TcpStream> {
    let mut open = held(&shared.open);
    if open.len() >= MAX_CONNECTIONS {
        // So few bytes always fit the socket's own buffer, and it does not block: nobody waits for this client.
        let told = stream.set_nonblocking(true).and_then(|()| stream.write_all(&answer(503, "Service Unavailable", "", "eight connections are open\n")));
        return told.and_then(|()| stream.shutdown(Shutdown::Write)).is_ok().then_some(stream);
    }
    open.insert(number, stream.try_clone().ok()?);
    drop(open);
    let place = Place { number, shared: Arc::clone(shared) };
    // Where no thread can be had, the closure is dropped, and with it the place and the connection.
    let _ = std::thread::Builder::new().name("metrics-get".to_string()).spawn(move || {
        let _ = converse(&mut stream, &place.shared);
    });
    None
}

fn converse(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let reply = match read_head(stream, Instant::now() + TIMEOUT)? {
        Head::Whole(head) => reply_to(&head, shared),
        Head::TooLong => answer(431, "Request Header Fields Too Large", "", "the head of a request has at most 8 KiB\n"),
        Head::TooSlow => answer(408, "Request Timeout", "", "the head of a request comes within 2 s\n"),
        Head::Cut => return Ok(()),
    };
    let until = Instant::now() + TIMEOUT;
    let mut rest = &reply[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(rest) {
            Ok(0) => return Ok(()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)?;
    let mut scrap = [0; 4 << 10];
    for _ in 0..MAX_DRAINED_BYTES / scrap.len() {
        stream.set_read_timeout(Some(left(until)?))?;
        if stream.read(&mut scrap)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Time until then; an error when it has come.
fn left(until: Instant) -> io::Result<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero()).ok_or_else(|| ErrorKind::TimedOut.into())
}

enum Head {
    Whole(Vec<u8>),
    TooLong,
    TooSlow,
    /// The client ended before the head did.
    Cut,
}

fn read_head(stream: &mut TcpStream, until: Instant) -> io::Result<Head> {
    let mut head = Vec::new();
    let mut buffer = [0; 1 << 10];
    loop {
        let Ok(timeout) = left(until) else { return Ok(Head::TooSlow) };
        stream.set_read_timeout(Some(timeout))?;
        let read = match stream.read(&mut buffer) {
            Ok(0) => return Ok(Head::Cut),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(Head::TooSlow),
            Err(error) => return Err(error),
        };
        // The end may lie across two reads.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head[from..].windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            head.truncate(from + end);
            return Ok(if head.len() + 4 > MAX_HEAD_BYTES { Head::TooLong } else { Head::Whole(head) });
        }
        if head.len() >= MAX_HEAD_BYTES {
            return Ok(Head::TooLong);
        }
    }
}

fn reply_to(head: &[u8], shared: &Shared) -> Vec<u8> {
    match request(head) {
        None => answer(400, "Bad Request", "", "this is not a request of HTTP/1\n"),
        Some((method, _)) if method != "GET" => answer(405, "Method Not Allowed", "Allow: GET\r\n", "only GET is answered here\n"),
        Some((_, target)) if target.split('?').next() != Some("/metrics") => answer(404, "Not Found", "", "only /metrics is here\n"),
        Some(_) => answer(200, "OK", "", &held(&shared.text)()),
    }
}

/// Method and target of a head that is one of HTTP/1: a request line of three words, then fields.
fn request(head: &[u8]) -> Option<(&str, &str)> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let token = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    let fields = lines.all(|line| line.split_once(':').is_some_and(|(name, value)| token(name) && !value.bytes().any(|byte| byte < b' ' && byte != b'\t')));
    let visible = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    (token(method) && visible && fields && words.next().is_none() && matches!(version, "HTTP/1.0" | "HTTP/1.1")).then_some((method, target))
}

fn answer(status: u16, reason: &str, fields: &str, body: &str) -> Vec<u8> {
    let kind = if status == 200 { "text/plain; version=0.0.4; charset=utf-8" } else { "text/plain; charset=utf-8" };
    let length = body.len();
    format!("HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{fields}Connection: close\r\n\r\n{body}").into_bytes()
}
