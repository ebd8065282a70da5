//! Another lab of this machine, asked over its socket: the place of a snapshot, and its data key.
//! The other daemon decides: it answers root and its own user, and a key that is disabled there
//! opens nothing here.

use crate::options::socket_of;
use crate::problem::{bad_input, could_not, refused, Outcome};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use headrace_control::{ErrorKind, Problem};
use headrace_protocol::keys::Plaintext;
use headrace_protocol::snapshots::SnapshotOffer;
use headrace_store::encrypted::DATA_KEY_BYTES;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{json, Value};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// Beginning of the URL of a lab; its data directory follows.
const SCHEME: &str = "lab://";
/// Longest wait for an answer of the other lab. A guess: both calls look things up in memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer, bytes: an offer has some hundred.
const MOST_ANSWER: usize = 1 << 16;

/// A data key in the clear.
pub type OpenKey = Zeroizing<[u8; DATA_KEY_BYTES]>;

/// Another lab, by its data directory.
pub struct OtherLab(PathBuf);

#[derive(Deserialize)]
struct Reply<T> {
    result: Option<T>,
    error: Option<Problem>,
}

impl OtherLab {
    /// Returns the lab that a URL names; None where it names something else.
    pub fn parse(url: &str) -> Option<OtherLab> {
        url.strip_prefix(SCHEME).map(|folder| OtherLab(PathBuf::from(folder)))
    }

    fn refuse_away(&self, error: &io::Error) -> Problem {
        could_not(
            self.0.display().to_string(),
            format!("is the directory of a lab that does not answer: {error}"),
            format!("Start it: headrace --lab {} lab up", self.0.display()),
        )
    }

    /// Sends a call to the other lab and reads its answer, which may hold a key: it is wiped from
    /// memory.
    fn call<T: DeserializeOwned>(&self, call: &str, args: &Value) -> Outcome<T> {
        let exchange = || -> io::Result<Zeroizing<Vec<u8>>> {
            let mut stream = UnixStream::connect(socket_of(&self.0))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(format!("{}\n", json!({"id": 1, "call": call, "args": args})).as_bytes())?;
            // The buffer has its full length from the start: a buffer that grows leaves copies
            // behind.
            let mut line = Zeroizing::new(vec![0; MOST_ANSWER]);
            let mut filled = 0;
            while !line[..filled].ends_with(b"\n") {
                match stream.read(&mut line[filled..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => filled += count,
                }
            }
            line.truncate(filled);
            Ok(line)
        };
        let line = exchange().map_err(|error| self.refuse_away(&error))?;
        let reply: Reply<T> = serde_json::from_slice(&line).map_err(|error| self.refuse_away(&io::Error::new(io::ErrorKind::InvalidData, error)))?;
        match (reply.result, reply.error) {
            (Some(result), _) => Ok(result),
            (None, Some(problem)) => Err(problem),
            (None, None) => Err(self.refuse_away(&io::ErrorKind::InvalidData.into())),
        }
    }

    /// Returns the place of a snapshot of that lab, and its wrapped data key.
    ///
    /// # Errors
    /// The lab does not answer, or has no such snapshot.
    pub fn offer(&self, snapshot: &str) -> Outcome<SnapshotOffer> {
        self.call("snapshot.offer", &json!({"snapshot": snapshot}))
    }

    /// Returns the data key of the offered snapshot, in the clear; None where it is not encrypted.
    ///
    /// # Errors
    /// The lab does not answer, or its key cannot be used.
    pub fn data_key(&self, offer: &SnapshotOffer) -> Outcome<Option<OpenKey>> {
        let (Some(key), Some(wrapped), Some(context)) = (&offer.kms_key, &offer.wrapped, &offer.context) else { return Ok(None) };
        let args = json!({"ciphertext": wrapped, "context": {"aws:ebs:id": context}, "key": key});
        let answer: Plaintext = self.call("key.decrypt", &args)?;
        let text = Zeroizing::new(answer.plaintext);
        let mut open: OpenKey = Zeroizing::new([0; DATA_KEY_BYTES]);
        match BASE64_STANDARD.decode_slice(text.as_bytes(), open.as_mut()) {
            Ok(DATA_KEY_BYTES) => Ok(Some(open)),
            _ => Err(bad_input(key, "does not wrap a data key of a volume", "Is it a lab of this version?")),
        }
    }
}

/// Makes the error of a copy whose source cannot be read: the lab that has the key is not known.
pub fn unknown_key(snapshot: &str) -> Problem {
    let hint = "Name the lab that has it: lab:///ITS-DATA-DIRECTORY in place of its object store.";
    refused(ErrorKind::NotFound, snapshot, "is encrypted with a key of a lab that is not named", hint)
}
