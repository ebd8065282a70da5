//! Keys, and the data keys of encrypted volumes.
//!
//! ```text
//!  KMS key (keyring) --wraps--> data key of a volume (journal: wrapped) --while in use--> SectorCipher
//! ```
//!
//! A data key is in the clear only in memory, while its volume is open, and is overwritten when the
//! volume is closed: within seconds after it was detached.

use crate::engine::{held, random, Engine};
use crate::envelope;
use crate::keyring::{self, Context, Keyring};
use crate::problem::{could_not, of_control, of_io, Outcome};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use headrace_control::keys::{of_ec2, NewKey};
use headrace_control::{ClientToken, Command, CreateRequest, ErrorKind, KeyCommand, KeyRecord, SnapshotKey, VolumeRecord};
use headrace_store::encrypted::{SnapshotCipher, DATA_KEY_BYTES};
use headrace_store::kms::RemoteKey;
use headrace_store::SectorCipher;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The encryption context of a volume's data key, as EBS has it (EBS user guide, "How EBS
/// encryption works").
fn context_of(volume: &str) -> Context {
    Context::from([("aws:ebs:id".to_string(), volume.to_string())])
}

impl Engine {
    /// A key by id, ARN or alias.
    pub fn key(&self, key: &str) -> Outcome<KeyRecord> {
        self.lab(|lab| lab.keys.find(&lab.settings, key).cloned()).map_err(of_control)
    }

    /// A key that can be used now.
    pub fn usable_key(&self, key: &str) -> Outcome<KeyRecord> {
        self.lab(|lab| lab.keys.usable(&lab.settings, key).cloned()).map_err(of_control)
    }

    /// Makes a key, material first: a key that is written down can be used. `remote`: it is in KMS
    /// elsewhere, and nothing of it is made here.
    pub fn create_key(&self, new: NewKey, remote: Option<&RemoteKey>) -> Outcome<KeyRecord> {
        let _work = held(&self.work);
        let id = keyring::new_id().map_err(|error| of_io("drawing the id of a key", &error))?;
        if !envelope::is_dry_run() {
            let made = remote.map_or_else(|| self.keyring.make(&id), |remote| self.keyring.make_remote(&id, remote));
            made.map_err(|error| of_io("making a key", &error))?;
            if let Err(problem) = self.try_key(&id) {
                self.keyring.destroy(&id);
                return Err(problem);
            }
        }
        if let Err(problem) = self.command(&Command::Key(KeyCommand::Create { id: id.clone(), new })) {
            self.keyring.destroy(&id);
            return Err(problem);
        }
        self.key(&id)
    }

    /// Whether what is encrypted under a key comes back: one that is elsewhere may not be for us.
    fn try_key(&self, id: &str) -> Outcome<()> {
        let mut drawn = [0u8; 32];
        keyring::draw(&mut drawn).map_err(|error| of_io("trying a key", &error))?;
        let sealed = self.keyring.encrypt(id, &drawn, &context_of(id))?;
        match self.keyring.decrypt(&sealed, &context_of(id))?.as_slice() == drawn {
            true => Ok(()),
            false => Err(could_not(format!("key {id}"), "does not give back what was encrypted under it", "Is it the endpoint of a KMS?")),
        }
    }

    /// Before a volume is created: the key EBS makes for itself, where the volume needs it and it
    /// is not there yet. It outlives a creation that is refused later, as at AWS. Says what a dry
    /// run must leave out, which makes none.
    pub(crate) fn key_for_new_volume(&self, request: &mut CreateRequest) -> Outcome<()> {
        let missing = self.lab(|lab| match lab.keys.wanted(request.encrypted, request.kms_key.as_deref()) {
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
        let kept: Option<ClientToken> = envelope::set_aside();
        let made = self.create_key(NewKey { description, managed: true, ..NewKey::default() }, None);
        envelope::put_back(kept);
        made.map(drop)
    }

    /// Makes the data key of a new encrypted volume, and notes it wrapped.
    pub(crate) fn make_data_key(&self, record: &VolumeRecord) -> Outcome<()> {
        let Some(encryption) = &record.encryption else { return Ok(()) };
        let wrapped = self.wrapped_data_key(&encryption.key, record.id.as_str())?;
        self.command(&Command::Key(KeyCommand::VolumeKey { volume: record.id.to_string(), wrapped })).map(drop)
    }

    /// The data key of a volume, unwrapped; none where the volume is not encrypted.
    ///
    /// # Errors
    /// Its KMS key is disabled, will be deleted, or is gone.
    pub fn data_key_of(&self, record: &VolumeRecord) -> Outcome<Option<Arc<SectorCipher>>> {
        let Some(encryption) = &record.encryption else { return Ok(None) };
        self.unwrapped(&encryption.key, &encryption.wrapped, record.id.as_str()).map(Some)
    }

    /// A data key, unwrapped. `context`: the id of what it was wrapped for.
    fn unwrapped(&self, key: &str, wrapped: &str, context: &str) -> Outcome<Arc<SectorCipher>> {
        self.usable_key(key).map_err(as_ec2)?;
        let wrapped =
            BASE64_STANDARD.decode(wrapped).map_err(|_| could_not(context, "its wrapped data key cannot be read", "Restore the volume from a snapshot."))?;
        let data_key = self.keyring.decrypt(&wrapped, &context_of(context)).map_err(as_ec2)?;
        let data_key: &[u8; DATA_KEY_BYTES] =
            data_key.as_slice().try_into().map_err(|_| could_not(context, "its data key has a wrong length", "Restore the volume from a snapshot."))?;
        Ok(Arc::new(SectorCipher::new(data_key)))
    }

    /// A new data key, wrapped under a KMS key, in base64.
    fn wrapped_data_key(&self, key: &str, context: &str) -> Outcome<String> {
        let key = self.usable_key(key).map_err(as_ec2)?;
        let mut data_key = Zeroizing::new([0u8; DATA_KEY_BYTES]);
        keyring::draw(data_key.as_mut()).map_err(|error| of_io("drawing a data key", &error))?;
        let sealed = self.keyring.encrypt(&key.id, data_key.as_ref(), &context_of(context)).map_err(as_ec2)?;
        Ok(BASE64_STANDARD.encode(sealed))
    }

    /// What seals and opens the blocks of a snapshot.
    ///
    /// # Errors
    /// As [`Engine::data_key_of`].
    pub(crate) fn snapshot_cipher(&self, key: &SnapshotKey) -> Outcome<Arc<SnapshotCipher>> {
        self.cipher_known_as(key, &id_of_data_key(&key.wrapped))
    }

    /// The same, where manifests know the data key by another id: that of the lab it came from.
    pub(crate) fn cipher_known_as(&self, key: &SnapshotKey, id: &str) -> Outcome<Arc<SnapshotCipher>> {
        let cipher = self.unwrapped(&key.key, &key.wrapped, &key.context)?;
        Ok(Arc::new(SnapshotCipher::new(cipher, id)))
    }

    /// The data key of another lab's snapshot, wrapped under a key of this lab: the copy goes on
    /// after a restart, when the other lab may be away.
    pub(crate) fn adopted(&self, data_key: &[u8; DATA_KEY_BYTES], kms_key: &str) -> Outcome<SnapshotKey> {
        let context = format!("source-{:016x}", random());
        let sealed = self.keyring.encrypt(kms_key, data_key, &context_of(&context))?;
        Ok(SnapshotKey { key: kms_key.to_string(), wrapped: BASE64_STANDARD.encode(sealed), context })
    }

    /// The key of a copy: that of its source where nothing else is asked for, else a new data key.
    pub(crate) fn key_of_copy(&self, source: Option<&SnapshotKey>, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<Option<SnapshotKey>> {
        if let Some(source) = source.filter(|_| kms_key.is_none()) {
            return Ok(Some(source.clone()));
        }
        let encrypted = encrypted.or(source.map(|_| true));
        let mut wanted = CreateRequest { encrypted, kms_key, ..CreateRequest::default() };
        self.key_for_new_volume(&mut wanted)?;
        let key = self.lab(|lab| lab.keys.for_volume(&lab.settings, wanted.encrypted, wanted.kms_key.as_deref())).map_err(of_control)?;
        let context = format!("copy-{:016x}", random());
        key.map(|key| Ok(SnapshotKey { wrapped: self.wrapped_data_key(&key, &context)?, key, context })).transpose()
    }

    /// Decrypts what a key of the lab encrypted; the id of the key comes with it. `wanted`: only
    /// under this key.
    pub fn decrypt(&self, sealed: &[u8], context: &Context, wanted: Option<&str>) -> Outcome<(KeyRecord, Zeroizing<Vec<u8>>)> {
        let key = Keyring::key_of(sealed)?;
        if let Some(wanted) = wanted.map(|wanted| self.key(wanted)).transpose()?.filter(|wanted| wanted.id != key) {
            let hint = "Leave the key out, or name that one.";
            let problem = crate::problem::refused(ErrorKind::InvalidParameter, wanted.id, "is not the key that this was encrypted under", hint);
            return Err(problem.says("IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation."));
        }
        let key = self.usable_key(&key)?;
        let plaintext = self.keyring.decrypt(sealed, context)?;
        Ok((key, plaintext))
    }
}

/// What tells a data key from others, in the manifests of snapshots.
pub(crate) fn id_of_data_key(wrapped: &str) -> String {
    Sha256::digest(wrapped.as_bytes())[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What KMS refuses, as EC2 says it.
fn as_ec2(problem: headrace_control::Problem) -> headrace_control::Problem {
    match problem.code.as_str() {
        "NotFoundException" | "DisabledException" | "KMSInvalidStateException" => {
            let headrace_control::Problem { kind, value, rule, source, hint, code, message } = problem;
            of_control(of_ec2(headrace_control::ControlError::new(kind, value, rule, source, hint).says(code, message)))
        }
        _ => problem,
    }
}
