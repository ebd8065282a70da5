//! Key material and its operations: AES-256-GCM under the lab's own KMS keys.
//!
//! ```text
//!  ciphertext = version(1) key id(16) nonce(12) sealed bytes and their tag(16 more)
//! ```
//!
//! Under a key that is in KMS elsewhere, `version(2) key id(16)` stand before what that KMS made of
//! it.
//!
//! The encryption context and everything before the sealed bytes are authenticated with them.
//!
//! The material of each key lies in a file of its own, `keys/UUID`, readable by its owner alone
//! (0600) and wrapped by nothing: who can read the lab's folder as root can read its keys. The file
//! of a key elsewhere says where it is (`headrace_store::kms`). Files of keys that the journal does
//! not know lie in `keys/set-aside`. In memory material is held by a process that is locked into
//! memory and cannot be dumped (`bin/headraced.rs`), and is overwritten when it is no longer
//! needed.

use crate::problem::{could_not, from_io, refused, Outcome};
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use headrace_control::{ControlError, ErrorKind, Problem};
use headrace_store::kms::{RemoteError, RemoteKey};
use rustix::rand::{getrandom, GetRandomFlags};
use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const VERSION_REMOTE: u8 = 2;
const ID_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const HEADER_BYTES: usize = 1 + ID_BYTES + NONCE_BYTES;
const REMOTE_HEADER_BYTES: usize = 1 + ID_BYTES;
/// Bytes of a key: AES-256.
pub(crate) const KEY_BYTES: usize = 32;
/// Longest file of a key that is elsewhere, bytes. A guess: an address and some names.
const MOST_REMOTE_BYTES: u64 = 8 << 10;

/// Folder, in that of the keys, for files of keys that the journal does not know.
const SET_ASIDE: &str = "set-aside";

/// Encryption context: names and values that must be the same to decrypt.
pub type Context = BTreeMap<String, String>;

#[derive(Clone)]
enum Material {
    Here(Arc<Zeroizing<[u8; KEY_BYTES]>>),
    Elsewhere(Arc<RemoteKey>),
}

/// The keys of a lab.
pub struct Keyring {
    folder: PathBuf,
    material: Mutex<HashMap<String, Material>>,
}

/// Fills a buffer from the operating system's generator.
pub fn draw(buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        filled += getrandom(&mut buffer[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

/// Draws a UUID, version 4 (RFC 9562).
pub fn new_id() -> io::Result<String> {
    let mut bytes = [0u8; ID_BYTES];
    draw(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(format_id(&bytes))
}

fn format_id(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn parse_id(id: &str) -> Option<[u8; ID_BYTES]> {
    let hex: String = id.chars().filter(|c| *c != '-').collect();
    let byte = |index: usize| hex.get(2 * index..2 * index + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..ID_BYTES).map(byte).collect();
    <[u8; ID_BYTES]>::try_from(bytes?).ok().filter(|bytes| format_id(bytes) == id)
}

/// Returns true if a text is the id of a key.
pub(crate) fn is_id(text: &str) -> bool {
    parse_id(text).is_some()
}

/// Lists the files of a folder whose names are text, as those of keys are.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

/// Makes the refusal of a ciphertext, as KMS words it.
fn refuse_ciphertext(rule: &str) -> Problem {
    let error = ControlError::new(
        ErrorKind::InvalidParameter,
        "ciphertext",
        rule,
        "KMS API, Decrypt",
        "Give what a key of this lab encrypted, with the same encryption context.",
    );
    // KMS says no more than its code.
    Problem::from(error.says("InvalidCiphertextException", ""))
}

/// Returns the bytes that are authenticated: header, then every name and value of the context with
/// its length, so that no two contexts look alike.
fn authenticated_bytes(header: &[u8], context: &Context) -> Vec<u8> {
    let mut bytes = header.to_vec();
    for text in context.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

impl Keyring {
    /// Opens the keys in a folder. The file of a key that is not `is_known` is set aside, and
    /// comes back when the key is known again: a crash may have left it, but the journal may also
    /// be new, or older than the key.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be moved.
    pub fn open(folder: &Path, is_known: impl Fn(&str) -> bool) -> io::Result<Keyring> {
        let aside = folder.join(SET_ASIDE);
        for name in names_in(folder)?.into_iter().filter(|name| !is_known(name)) {
            DirBuilder::new().recursive(true).mode(0o700).create(&aside)?;
            std::fs::rename(folder.join(&name), aside.join(&name))?;
            tracing::warn!("the journal does not know the key of {name}: its file is kept in {}", aside.display());
        }
        let set_aside = if aside.is_dir() { names_in(&aside)? } else { Vec::new() };
        for name in set_aside.into_iter().filter(|name| is_known(name) && !folder.join(name).exists()) {
            std::fs::rename(aside.join(&name), folder.join(&name))?;
        }
        Ok(Keyring { folder: folder.to_path_buf(), material: Mutex::default() })
    }

    /// Makes the material of a new key; it is on disk on return.
    ///
    /// # Errors
    /// It cannot be drawn or written.
    pub fn make(&self, id: &str) -> io::Result<()> {
        let mut material = Zeroizing::new([0u8; KEY_BYTES]);
        draw(material.as_mut())?;
        self.keep(id, material.as_ref())
    }

    /// Notes where a key is that is not here.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn make_remote(&self, id: &str, remote: &RemoteKey) -> io::Result<()> {
        self.keep(id, &serde_json::to_vec(remote)?)
    }

    /// Keeps material that another lab exported.
    ///
    /// # Errors
    /// It cannot be written, or there is a key of that id.
    pub(crate) fn keep_imported(&self, id: &str, material: &[u8; KEY_BYTES]) -> io::Result<()> {
        if !is_id(id) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the id of a key is a UUID"));
        }
        self.keep(id, material)
    }

    /// Returns the material of a key that is kept here; None if it is in KMS elsewhere.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn export(&self, id: &str) -> Outcome<Option<Arc<Zeroizing<[u8; KEY_BYTES]>>>> {
        match self.find_material(id)? {
            Material::Here(material) => Ok(Some(material)),
            Material::Elsewhere(_) => Ok(None),
        }
    }

    /// Decrypts what another lab encrypted under a key elsewhere that is also `id` of this lab.
    ///
    /// # Errors
    /// It is not that key, or may not be used.
    pub(crate) fn decrypt_under(&self, id: &str, sealed: &[u8], context: &Context) -> Outcome<Zeroizing<Vec<u8>>> {
        let own = parse_id(id).ok_or_else(|| could_not(id, "is not the id of a key", "Report it."))?;
        Keyring::key_of(sealed)?;
        let mut renamed = sealed.to_vec();
        renamed[1..1 + ID_BYTES].copy_from_slice(&own);
        self.decrypt(&renamed, context)
    }

    fn keep(&self, id: &str, content: &[u8]) -> io::Result<()> {
        let path = self.folder.join(id);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.sync_all()?;
        File::open(&self.folder)?.sync_all()
    }

    /// Forgets a key for good: its file is overwritten and removed.
    pub fn destroy(&self, id: &str) {
        self.forget(id);
        let path = self.folder.join(id);
        let overwritten = OpenOptions::new().write(true).open(&path).and_then(|mut file| {
            file.write_all(&[0; KEY_BYTES])?;
            file.sync_all()
        });
        let removed = overwritten.and_then(|()| std::fs::remove_file(&path));
        if let Err(error) = removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }) {
            tracing::error!(key = id, "destroying key material: {error}");
        }
    }

    /// Takes a key out of memory, until it is used again.
    pub fn forget(&self, id: &str) {
        self.material.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Returns the material of a key from its file, or from memory once it was read.
    fn read_material(&self, id: &str) -> io::Result<Material> {
        let mut cache = self.material.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(material) = cache.get(id) {
            return Ok(material.clone());
        }
        let file = File::open(self.folder.join(id))?;
        let bytes = file.metadata()?.len();
        let material = match bytes == KEY_BYTES as u64 {
            true => {
                let mut material = Zeroizing::new([0u8; KEY_BYTES]);
                (&file).read_exact(material.as_mut())?;
                Material::Here(Arc::new(material))
            }
            false => Material::Elsewhere(Arc::new(serde_json::from_reader(file.take(MOST_REMOTE_BYTES))?)),
        };
        cache.insert(id.to_string(), material.clone());
        Ok(material)
    }

    fn find_material(&self, id: &str) -> Outcome<Material> {
        self.read_material(id).map_err(|error| {
            let problem = could_not(format!("key {id}"), format!("its material cannot be read: {error}"), "Put the file back into the folder keys of the lab.");
            problem.says("KeyUnavailableException", "")
        })
    }

    /// Encrypts under a key.
    ///
    /// # Errors
    /// An error if the key's material cannot be read.
    pub fn encrypt(&self, id: &str, plaintext: &[u8], context: &Context) -> Outcome<Vec<u8>> {
        let name = parse_id(id).ok_or_else(|| could_not(id, "is not the id of a key", "Report it."))?;
        let material = match self.find_material(id)? {
            Material::Here(material) => material,
            Material::Elsewhere(remote) => {
                let mut sealed = vec![VERSION_REMOTE];
                sealed.extend(name);
                sealed.extend(remote.encrypt(plaintext, context).map_err(|error| from_remote(id, &remote, error))?);
                return Ok(sealed);
            }
        };
        let mut sealed = vec![VERSION];
        sealed.extend(name);
        let mut nonce = [0u8; NONCE_BYTES];
        draw(&mut nonce).map_err(|error| from_io("drawing a nonce", &error))?;
        sealed.extend(nonce);
        let payload = Payload { msg: plaintext, aad: &authenticated_bytes(&sealed, context) };
        let body =
            cipher_of(&material)?.encrypt(&Nonce::from(nonce), payload).map_err(|_| could_not("plaintext", "cannot be encrypted", "Encrypt less at once."))?;
        sealed.extend(body);
        Ok(sealed)
    }

    /// Returns the id of the key that something was encrypted under.
    ///
    /// # Errors
    /// It is not of this lab's making.
    pub fn key_of(sealed: &[u8]) -> Outcome<String> {
        match sealed.first() {
            Some(&VERSION) if sealed.len() > HEADER_BYTES => Ok(format_id(&sealed[1..1 + ID_BYTES])),
            Some(&VERSION_REMOTE) if sealed.len() > REMOTE_HEADER_BYTES => Ok(format_id(&sealed[1..1 + ID_BYTES])),
            _ => Err(refuse_ciphertext("is not what a key of this lab encrypted")),
        }
    }

    /// Decrypts a text that a key of this ring encrypted.
    ///
    /// # Errors
    /// It was changed, or was encrypted under another context.
    pub fn decrypt(&self, sealed: &[u8], context: &Context) -> Outcome<Zeroizing<Vec<u8>>> {
        let id = Keyring::key_of(sealed)?;
        let material = match (self.find_material(&id)?, sealed[0]) {
            (Material::Here(material), VERSION) => material,
            (Material::Elsewhere(remote), VERSION_REMOTE) => {
                return remote.decrypt(&sealed[REMOTE_HEADER_BYTES..], context).map_err(|error| from_remote(&id, &remote, error));
            }
            _ => return Err(refuse_ciphertext("is not what this key encrypted")),
        };
        let (header, body) = sealed.split_at(HEADER_BYTES);
        let mut nonce = [0u8; NONCE_BYTES];
        nonce.copy_from_slice(&header[1 + ID_BYTES..]);
        let payload = Payload { msg: body, aad: &authenticated_bytes(header, context) };
        let plaintext = cipher_of(&material)?.decrypt(&Nonce::from(nonce), payload);
        plaintext.map(Zeroizing::new).map_err(|_| refuse_ciphertext("was changed, or was encrypted under another context"))
    }
}

fn cipher_of(material: &[u8; KEY_BYTES]) -> Outcome<Aes256Gcm> {
    Aes256Gcm::new_from_slice(material).map_err(|_| could_not("key", "has a wrong length", "Report it."))
}

/// Turns a refusal of a KMS elsewhere into the lab's, with the same code.
fn from_remote(id: &str, remote: &RemoteKey, error: RemoteError) -> Problem {
    let there = format!("key {id}, which is {} at {}", remote.key, remote.endpoint);
    match error {
        RemoteError::Refused(code, message) => {
            let kind = if code == "NotFoundException" { ErrorKind::NotFound } else { ErrorKind::IncorrectState };
            let rule = format!("cannot be used, says KMS: {code} {message}");
            refused(kind, there, rule.trim_end(), "Enable it there, and let these credentials use it.").says(code, message)
        }
        RemoteError::Away(error) => {
            let hint = "Is the endpoint up, and has the daemon credentials for it?";
            could_not(there, format!("cannot be used: {error}"), hint).says("KeyUnavailableException", "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(pairs: &[(&str, &str)]) -> Context {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn what_was_encrypted_comes_back_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let ring = Keyring::open(folder.path(), |_| true).unwrap();
        let (first, second) = (new_id().unwrap(), new_id().unwrap());
        ring.make(&first).unwrap();
        ring.make(&second).unwrap();
        let volume = context(&[("aws:ebs:id", "vol-1")]);
        let sealed = ring.encrypt(&first, b"a data key", &volume).unwrap();
        assert_eq!(Keyring::key_of(&sealed).unwrap(), first);
        assert_eq!(ring.decrypt(&sealed, &volume).unwrap().as_slice(), b"a data key");
        // A nonce of its own each time.
        assert_ne!(ring.encrypt(&first, b"a data key", &volume).unwrap(), sealed);
        let refused = |sealed: &[u8], context: &Context| assert_eq!(ring.decrypt(sealed, context).unwrap_err().code, "InvalidCiphertextException");
        for other in [context(&[]), context(&[("aws:ebs:id", "vol-2")]), context(&[("aws:ebs:idvol-1", "")]), context(&[("aws:ebs:id", "vol-1"), ("", "")])] {
            refused(&sealed, &other);
        }
        for at in (0..sealed.len()).filter(|at| !(1..1 + ID_BYTES).contains(at)) {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            refused(&changed, &volume);
        }
        // The id of another key stands in front of the text.
        let mut moved = sealed.clone();
        moved[1..1 + ID_BYTES].copy_from_slice(&parse_id(&second).unwrap());
        refused(&moved, &volume);
        for cut in 0..sealed.len() {
            refused(&sealed[..cut], &volume);
        }
        // After a restart, too; without the key that no record names.
        let again = Keyring::open(folder.path(), |id| id == first).unwrap();
        assert_eq!(again.decrypt(&sealed, &volume).unwrap().as_slice(), b"a data key");
        assert_eq!(again.decrypt(&moved, &volume).unwrap_err().code, "KeyUnavailableException");
        // A journal that is older than the keys, then the one that knows them.
        Keyring::open(folder.path(), |_| false).unwrap();
        let again = Keyring::open(folder.path(), |_| true).unwrap();
        assert_eq!(again.decrypt(&sealed, &volume).unwrap().as_slice(), b"a data key");
        refused(&moved, &volume);
        again.destroy(&first);
        assert_eq!(again.decrypt(&sealed, &volume).unwrap_err().code, "KeyUnavailableException");
        assert!(!folder.path().join(&first).exists());
    }

    #[test]
    fn files_of_keys_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let ring = Keyring::open(folder.path(), |_| true).unwrap();
        let id = new_id().unwrap();
        ring.make(&id).unwrap();
        let metadata = std::fs::metadata(folder.path().join(&id)).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, KEY_BYTES as u64));
        assert!(ring.make(&id).is_err(), "never over another one");
        assert_eq!(parse_id(&id).map(|bytes| format_id(&bytes)), Some(id));
        for wrong in ["", "x", "0123456789abcdef0123456789abcdef", "../../etc/passwd", "0123456-789ab-cdef-0123-456789abcdef"] {
            assert_eq!(parse_id(wrong), None, "{wrong}");
        }
    }
}
