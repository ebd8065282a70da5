//! Keys, and the data keys of encrypted volumes.
//!
//! ```text
//!  KMS key (keyring) --wraps--> data key of a volume (journal: wrapped) --while in use--> SectorCipher
//! ```
//!
//! A data key is in the clear only in memory, while its volume is open, and is overwritten when the
//! volume is closed: within seconds after it was detached.

use crate::engine::ledger::Ledger;
use crate::engine::parts::{lock, random};
use crate::envelope;
use crate::keyring::{self, Context, Keyring, KEY_BYTES};
use crate::other_lab::OpenKey;
use crate::problem::{bad_input, could_not, from_io, refused, Outcome};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use headrace_control::keys::{key_arn, word_as_ec2, NewKey};
use headrace_control::{ClientToken, Command, CreateRequest, ErrorKind, KeyCommand, KeyRecord, Problem, SnapshotKey, VolumeRecord};
use headrace_store::encrypted::{SnapshotCipher, DATA_KEY_BYTES};
use headrace_store::kms::RemoteKey;
use headrace_store::snapshots::WrappedKey;
use headrace_store::SectorCipher;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use zeroize::Zeroizing;

/// Returns the encryption context of a volume's data key, as EBS has it (EBS user guide, "How EBS
/// encryption works").
fn context_of(volume: &str) -> Context {
    Context::from([("aws:ebs:id".to_string(), volume.to_string())])
}

/// The keys of a lab: their records are in the ledger, their material in the keyring.
pub struct Keys {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) keyring: Keyring,
    /// The lock under which a key is made or taken in: one at a time.
    work: Mutex<()>,
}

impl Keys {
    /// Makes the keys of a lab.
    pub(crate) fn new(ledger: Arc<Ledger>, keyring: Keyring) -> Keys {
        Keys { ledger, keyring, work: Mutex::default() }
    }

    /// Returns a key by id, ARN or alias.
    pub fn key(&self, key: &str) -> Outcome<KeyRecord> {
        self.ledger.lab(|lab| lab.keys.find(&lab.settings, key).cloned()).map_err(Problem::from)
    }

    /// Returns a key that can be used now.
    pub fn usable_key(&self, key: &str) -> Outcome<KeyRecord> {
        self.ledger.lab(|lab| lab.keys.usable(&lab.settings, key).cloned()).map_err(Problem::from)
    }

    /// Makes a key, material first: a key that is written down can be used. `remote`: the key is in
    /// KMS elsewhere, and this lab makes no material.
    pub fn create_key(&self, new: NewKey, remote: Option<&RemoteKey>) -> Outcome<KeyRecord> {
        let _work = lock(&self.work);
        let id = keyring::new_id().map_err(|error| from_io("drawing the id of a key", &error))?;
        if !envelope::is_dry_run() {
            let result = remote.map_or_else(|| self.keyring.make(&id), |remote| self.keyring.make_remote(&id, remote));
            result.map_err(|error| from_io("making a key", &error))?;
            if let Err(problem) = self.try_key(&id) {
                self.keyring.destroy(&id);
                return Err(problem);
            }
        }
        if let Err(problem) = self.ledger.command(&Command::Key(KeyCommand::Create { id: id.clone(), new })) {
            self.keyring.destroy(&id);
            return Err(problem);
        }
        self.key(&id)
    }

    /// Checks that a key decrypts a text that it encrypted: a key of another KMS may not be ours to
    /// use.
    fn try_key(&self, id: &str) -> Outcome<()> {
        let mut drawn = [0u8; 32];
        keyring::draw(&mut drawn).map_err(|error| from_io("trying a key", &error))?;
        let sealed = self.keyring.encrypt(id, &drawn, &context_of(id))?;
        match self.keyring.decrypt(&sealed, &context_of(id))?.as_slice() == drawn {
            true => Ok(()),
            false => Err(could_not(format!("key {id}"), "does not give back what was encrypted under it", "Is it the endpoint of a KMS?")),
        }
    }

    /// Makes the key that EBS makes for itself before a volume is created, where the volume needs
    /// it and it is not there yet. It outlives a creation that is refused later, as at AWS. A dry
    /// run makes none: `request.encrypted` is set to None instead.
    pub(crate) fn key_for_new_volume(&self, request: &mut CreateRequest) -> Outcome<()> {
        let missing = self.ledger.lab(|lab| match lab.keys.choose(request.encrypted, request.kms_key.as_deref()) {
            Ok(Some(None)) => lab.keys.default_for_volumes().is_none(),
            _ => false,
        });
        if !missing {
            return Ok(());
        }
        if envelope::is_dry_run() {
            request.encrypted = None;
            return Ok(());
        }
        let description = "Default key that protects my EBS volumes when no other key is defined".to_string();
        // The token of this call is that of the volume.
        let token: Option<ClientToken> = envelope::take_token();
        let result = self.create_key(NewKey { description, managed: true, ..NewKey::default() }, None);
        envelope::restore_token(token);
        result.map(drop)
    }

    /// Makes the data key of a new encrypted volume, and notes it wrapped.
    pub(crate) fn make_data_key(&self, record: &VolumeRecord) -> Outcome<()> {
        let Some(encryption) = &record.encryption else { return Ok(()) };
        let wrapped = self.make_wrapped_data_key(&encryption.key, record.id.as_str())?;
        self.ledger.command(&Command::Key(KeyCommand::VolumeKey { volume: record.id.to_string(), wrapped })).map(drop)
    }

    /// Returns the data key of a volume, unwrapped; None where the volume is not encrypted.
    ///
    /// # Errors
    /// An error if the KMS key is disabled, will be deleted, or is gone; also if that is so of the
    /// snapshot from which the volume still loads blocks.
    pub fn data_key_of(&self, record: &VolumeRecord) -> Outcome<Option<Arc<SectorCipher>>> {
        let Some(encryption) = &record.encryption else { return Ok(None) };
        let cipher = self.unwrap_data_key(&encryption.key, &encryption.wrapped, record.id.as_str())?;
        let loads_from = record.origin.as_ref().filter(|origin| !origin.loaded);
        if let Some(key) = loads_from.and_then(|origin| origin.encryption.as_ref()) {
            self.snapshot_cipher(key)?;
        }
        Ok(Some(cipher))
    }

    /// Unwraps a data key. `context`: the id of the volume, copy or snapshot that it was wrapped
    /// for.
    fn unwrap_data_key(&self, key: &str, wrapped: &str, context: &str) -> Outcome<Arc<SectorCipher>> {
        self.usable_key(key).map_err(refuse_as_ec2)?;
        let wrapped =
            BASE64_STANDARD.decode(wrapped).map_err(|_| could_not(context, "its wrapped data key cannot be read", "Restore the volume from a snapshot."))?;
        let data_key = self.keyring.decrypt(&wrapped, &context_of(context)).map_err(refuse_as_ec2)?;
        let data_key: &[u8; DATA_KEY_BYTES] =
            data_key.as_slice().try_into().map_err(|_| could_not(context, "its data key has a wrong length", "Restore the volume from a snapshot."))?;
        Ok(Arc::new(SectorCipher::new(data_key)))
    }

    /// Makes a data key, wrapped under a KMS key, in base64.
    fn make_wrapped_data_key(&self, key: &str, context: &str) -> Outcome<String> {
        let key = self.usable_key(key).map_err(refuse_as_ec2)?;
        let mut data_key = Zeroizing::new([0u8; DATA_KEY_BYTES]);
        keyring::draw(data_key.as_mut()).map_err(|error| from_io("drawing a data key", &error))?;
        let sealed = self.keyring.encrypt(&key.id, data_key.as_ref(), &context_of(context)).map_err(refuse_as_ec2)?;
        Ok(BASE64_STANDARD.encode(sealed))
    }

    /// Makes the cipher that seals and opens the blocks of a snapshot.
    ///
    /// # Errors
    /// The errors of [`Keys::data_key_of`].
    pub(crate) fn snapshot_cipher(&self, key: &SnapshotKey) -> Outcome<Arc<SnapshotCipher>> {
        self.cipher_known_as(key, &id_of_data_key(&key.wrapped))
    }

    /// Makes the cipher of a snapshot whose manifest names the data key by `id`, as the lab does
    /// that it came from.
    pub(crate) fn cipher_known_as(&self, key: &SnapshotKey, id: &str) -> Outcome<Arc<SnapshotCipher>> {
        let cipher = self.unwrap_data_key(&key.key, &key.wrapped, &key.context)?;
        Ok(Arc::new(SnapshotCipher::new(cipher, id)))
    }

    /// Wraps the data key of another lab's snapshot under a key of this lab: the copy goes on after
    /// a restart, when the other lab may be away.
    pub(crate) fn adopt_data_key(&self, data_key: &[u8; DATA_KEY_BYTES], kms_key: &str) -> Outcome<SnapshotKey> {
        let context = format!("source-{:016x}", random());
        let sealed = self.keyring.encrypt(kms_key, data_key, &context_of(&context))?;
        Ok(SnapshotKey { key: kms_key.to_string(), wrapped: BASE64_STANDARD.encode(sealed), context })
    }

    /// Returns the key of a copy: the named key, else the default key of the lab, whichever key its
    /// source has (EC2 API, CopySnapshot).
    pub(crate) fn key_of_copy(&self, is_source_encrypted: bool, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<Option<SnapshotKey>> {
        if encrypted == Some(false) {
            let problem = bad_input("encrypted", "cannot be false for a copy (EC2 API, CopySnapshot)", "Leave it out: the copy is encrypted as its source is.");
            return Err(problem.says("InvalidParameterValue", "Invalid value 'false' for encrypted: it cannot be set to false for a copy."));
        }
        self.new_snapshot_key(encrypted.or(is_source_encrypted.then_some(true)), kms_key, "copy")
    }

    /// Returns the key of a snapshot that is put block by block: the key of its parent, or the key
    /// that a new volume would have. With a parent, an encryption or a key in the request is
    /// refused (EBS API, StartSnapshot). Encryption by default with a parent that is not encrypted
    /// is refused too, which is the lab's choice: the blocks of the parent are not encrypted, and
    /// the setting forbids that.
    pub(crate) fn key_of_direct(&self, parent: Option<&str>, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<Option<SnapshotKey>> {
        let invalid = |value: &str, rule: &str, hint: &str| Err(bad_input(value, rule, hint).says("ValidationException", format!("{value} {rule}.")));
        let Some(parent) = parent else { return self.new_snapshot_key(encrypted, kms_key, "direct") };
        let record = self.ledger.completed(parent)?;
        if encrypted.is_some() || kms_key.is_some() {
            let value = if encrypted.is_some() { "Encrypted" } else { "KmsKeyArn" };
            return invalid(value, "cannot be given with a parent: the snapshot is encrypted as its parent is", "Leave it out.");
        }
        match record.properties.encryption {
            Some(key) => {
                self.snapshot_cipher(&key)?;
                Ok(Some(key))
            }
            None if self.ledger.lab(|lab| lab.keys.encrypt_by_default) => {
                let rule = "is not encrypted and cannot be a parent while encryption by default is on";
                invalid(parent, rule, "Make a snapshot without a parent, or copy the parent: the copy is encrypted.")
            }
            None => Ok(None),
        }
    }

    fn new_snapshot_key(&self, encrypted: Option<bool>, kms_key: Option<String>, purpose: &str) -> Outcome<Option<SnapshotKey>> {
        let mut request = CreateRequest { encrypted, kms_key, ..CreateRequest::default() };
        self.key_for_new_volume(&mut request)?;
        let key = self.ledger.lab(|lab| lab.keys.for_volume(&lab.settings, request.encrypted, request.kms_key.as_deref()))?;
        let context = format!("{purpose}-{:016x}", random());
        key.map(|key| Ok(SnapshotKey { wrapped: self.make_wrapped_data_key(&key, &context)?, key, context })).transpose()
    }

    /// Returns the wrapped data key of a snapshot, as it lies next to it in the store.
    pub(crate) fn wrapped_key(&self, snapshot: &str, key: &SnapshotKey) -> WrappedKey {
        let elsewhere = self.ledger.lab(|lab| lab.keys.keys.get(&key.key).and_then(|record| record.new.elsewhere.clone()));
        WrappedKey {
            version: WrappedKey::VERSION,
            snapshot: snapshot.to_string(),
            kms_key: self.ledger.lab(|lab| key_arn(&lab.settings, &key.key)),
            algorithm: if elsewhere.is_some() { "KMS" } else { "AES_256_GCM" }.to_string(),
            elsewhere,
            context: context_of(&key.context),
            ciphertext: key.wrapped.clone(),
            data_key: id_of_data_key(&key.wrapped),
        }
    }

    /// Opens a wrapped data key with a key of this lab: the key that wrapped it, which was
    /// imported, or, for a key in a KMS elsewhere, any key of this lab that stands for it.
    ///
    /// # Errors
    /// This lab does not have the key, or may not use it.
    pub(crate) fn open_wrapped(&self, wrapped: &WrappedKey) -> Outcome<OpenKey> {
        let damaged = || could_not(&wrapped.snapshot, "its wrapped data key is damaged", "Restore the object keys/ of the store from a backup.");
        let sealed = BASE64_STANDARD.decode(&wrapped.ciphertext).map_err(|_| damaged())?;
        let named = Keyring::key_of(&sealed).map_err(|_| damaged())?;
        let data_key = match (self.key(&named), wrapped.elsewhere.is_some()) {
            (Ok(_), _) => {
                self.usable_key(&named)?;
                self.keyring.decrypt(&sealed, &wrapped.context)?
            }
            (Err(_), false) => return Err(foreign_key(wrapped)),
            (Err(_), true) => {
                let here = self.ledger.lab(|lab| {
                    let usable = lab.keys.keys.values().filter(|key| key.new.elsewhere.is_some() && lab.keys.usable(&lab.settings, &key.id).is_ok());
                    usable.map(|key| key.id.clone()).collect::<Vec<_>>()
                });
                let opened = here.iter().find_map(|key| self.keyring.decrypt_under(key, &sealed, &wrapped.context).ok());
                opened.ok_or_else(|| foreign_key(wrapped))?
            }
        };
        let mut open: OpenKey = Zeroizing::new([0; DATA_KEY_BYTES]);
        if data_key.len() != DATA_KEY_BYTES {
            return Err(damaged());
        }
        open.copy_from_slice(&data_key);
        Ok(open)
    }

    /// Takes in a key that another lab exported, under the id it had there.
    ///
    /// # Errors
    /// This lab has the key already.
    pub(crate) fn import_key(&self, id: &str, description: String, material: &[u8; KEY_BYTES]) -> Outcome<KeyRecord> {
        let _work = lock(&self.work);
        if self.key(id).is_ok() {
            let problem = refused(ErrorKind::InvalidParameter, id, "is a key of this lab already", "There is nothing to import.");
            return Err(problem.says("AlreadyExistsException", ""));
        }
        if envelope::is_dry_run() {
            return Err(envelope::dry_run_passed());
        }
        self.keyring.keep_imported(id, material).map_err(|error| from_io("keeping an imported key", &error))?;
        if let Err(problem) = self.ledger.command(&Command::Key(KeyCommand::Create { id: id.to_string(), new: NewKey { description, ..NewKey::default() } })) {
            self.keyring.destroy(id);
            return Err(problem);
        }
        self.key(id)
    }

    /// Decrypts what a key of the lab encrypted; the id of the key comes with it. With `expected`,
    /// only under this key.
    pub fn decrypt(&self, sealed: &[u8], context: &Context, expected: Option<&str>) -> Outcome<(KeyRecord, Zeroizing<Vec<u8>>)> {
        let key = Keyring::key_of(sealed)?;
        if let Some(expected) = expected.map(|expected| self.key(expected)).transpose()?.filter(|expected| expected.id != key) {
            let hint = "Leave the key out, or name that one.";
            let problem = crate::problem::refused(ErrorKind::InvalidParameter, expected.id, "is not the key that this was encrypted under", hint);
            return Err(problem.says("IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation."));
        }
        let key = self.usable_key(&key)?;
        let plaintext = self.keyring.decrypt(sealed, context)?;
        Ok((key, plaintext))
    }
}

/// Makes the error of a wrapped data key whose KMS key this lab does not have.
fn foreign_key(wrapped: &WrappedKey) -> Problem {
    let (what, hint) = match &wrapped.elsewhere {
        Some(there) => (format!("{there}, which no key of this lab is"), "Name it: `headrace lab key create --kms-endpoint URL --kms-key KEY`."),
        None => {
            let hint =
                "Import it: `headrace lab key create --from FILE`, of a file that `headrace lab key export` wrote; or name the lab that has it: --lab DIR.";
            (format!("{}, which this lab does not have", wrapped.kms_key), hint)
        }
    };
    refused(ErrorKind::NotFound, &wrapped.snapshot, format!("is encrypted under the key {what}"), hint)
}

/// Returns the id of a data key in the manifests of snapshots: a digest of its wrapped form.
pub(crate) fn id_of_data_key(wrapped: &str) -> String {
    Sha256::digest(wrapped.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Turns a refusal of KMS into EC2's.
fn refuse_as_ec2(problem: headrace_control::Problem) -> headrace_control::Problem {
    match problem.code.as_str() {
        "NotFoundException" | "DisabledException" | "KMSInvalidStateException" => {
            let headrace_control::Problem { kind, value, rule, source, hint, code, message } = problem;
            word_as_ec2(headrace_control::ControlError::new(kind, value, rule, source, hint).says(code, message)).into()
        }
        _ => problem,
    }
}
