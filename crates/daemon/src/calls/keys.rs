//! Calls about keys: from the protocol to the engine, and back.

use crate::calls::answer::{json, Answer};
use crate::engine::encryption::Keys;
use crate::engine::{lab_time, Engine};
use crate::keyring::{self, KEY_BYTES};
use crate::problem::{bad_input, from_io, refused, Outcome};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use headrace_control::keys::{self, key_arn, Alias, Grant, EBS_ALIAS};
use headrace_control::{Command, ErrorKind, KeyCommand, KeyRecord, Settings, TagRequest};
use headrace_protocol::answers::Done;
use headrace_protocol::keys::{
    Ciphertext, DataKey, DataKeyRequest, Decrypt, Encrypt, EncryptionDefaults, ExportedKey, ImportKey, KeyAlias, KeyDeletion, KeyGrant, KeyList, KeyUpdate,
    KeyView, NewGrant, NewKey, OneAlias, OneGrant, OneKey, Plaintext, ReEncrypt, ReEncrypted, SetAlias, SetEncryption,
};
use headrace_protocol::Call;
use headrace_store::kms::RemoteKey;
use zeroize::Zeroizing;

/// Most bytes that are encrypted at once, and of a data key (KMS API, Encrypt, GenerateDataKey).
const MOST_PLAINTEXT: usize = 4_096;
const MOST_DATA_KEY: usize = 1_024;

/// Returns true if a call is about keys.
pub(crate) fn are_about(call: &Call) -> bool {
    use Call::{EncryptionDefaults, EncryptionSet, KeyDecrypt, KeyEncrypt, KeyGenerateDataKey, KeyReEncrypt};
    use Call::{KeyCancelDeletion, KeyDeleteAlias, KeyEndGrant, KeyGrant, KeySetAlias, KeyUpdate};
    use Call::{KeyCreate, KeyDescribe, KeyDisable, KeyEnable, KeyList, KeyScheduleDeletion};
    use Call::{KeyExport, KeyImport};
    let of_keys = matches!(call, KeyCreate(_) | KeyDescribe(_) | KeyDisable(_) | KeyEnable(_) | KeyList(_) | KeyScheduleDeletion(_));
    let of_names = matches!(call, KeyCancelDeletion(_) | KeyDeleteAlias(_) | KeyEndGrant(_) | KeyGrant(_) | KeySetAlias(_) | KeyUpdate(_));
    let of_bytes = matches!(call, KeyDecrypt(_) | KeyEncrypt(_) | KeyGenerateDataKey(_) | KeyReEncrypt(_));
    of_keys || of_names || of_bytes || matches!(call, KeyExport(_) | KeyImport(_)) || matches!(call, EncryptionDefaults(_) | EncryptionSet(_))
}

/// Answers a call about keys.
pub(crate) fn dispatch(engine: &Engine, call: Call) -> Outcome<Answer> {
    match call {
        Call::KeyCreate(args) => engine.keys.create_key_call(args).and_then(json),
        Call::KeyList(_) => json(engine.keys.list_keys_call()),
        Call::KeyDescribe(args) => engine.keys.key(&args.key).and_then(|record| json(engine.keys.key_view(&record))),
        Call::KeyEnable(OneKey { key }) => engine.keys.change_key(&key.clone(), KeyCommand::Enable { key }).and_then(json),
        Call::KeyDisable(OneKey { key }) => engine.keys.change_key(&key.clone(), KeyCommand::Disable { key }).and_then(json),
        Call::KeyScheduleDeletion(KeyDeletion { key, days }) => {
            engine.keys.change_key(&key.clone(), KeyCommand::ScheduleDeletion { key, days: days.unwrap_or(30) }).and_then(json)
        }
        Call::KeyCancelDeletion(OneKey { key }) => engine.keys.change_key(&key.clone(), KeyCommand::CancelDeletion { key }).and_then(json),
        Call::KeyUpdate(args) => engine.keys.update_key_call(args).and_then(json),
        Call::KeySetAlias(SetAlias { alias, key, exists }) => {
            engine.keys.change_key(&key.clone(), KeyCommand::SetAlias { alias, key, exists: exists.unwrap_or(false) }).and_then(json)
        }
        Call::KeyDeleteAlias(OneAlias { alias }) => engine.ledger.command(&Command::Key(KeyCommand::DeleteAlias { alias })).and_then(|_| json(Done {})),
        Call::KeyGrant(args) => engine.keys.create_grant_call(args).and_then(json),
        Call::KeyEndGrant(OneGrant { key, grant }) => engine.ledger.command(&Command::Key(KeyCommand::EndGrant { key, grant })).and_then(|_| json(Done {})),
        Call::KeyEncrypt(args) => engine.keys.encrypt_call(args).and_then(json),
        Call::KeyDecrypt(args) => engine.keys.decrypt_call(args).and_then(json),
        Call::KeyReEncrypt(args) => engine.keys.re_encrypt_call(args).and_then(json),
        Call::KeyGenerateDataKey(args) => engine.keys.data_key_call(args).and_then(json),
        Call::KeyExport(args) => engine.keys.export_call(&args.key).and_then(json),
        Call::KeyImport(args) => engine.keys.import_call(args).and_then(json),
        Call::EncryptionDefaults(_) => json(engine.keys.encryption_defaults()),
        Call::EncryptionSet(args) => engine.keys.set_encryption_call(args).and_then(json),
        _ => Err(bad_input("call", "is not about keys", "Report it.")),
    }
}

fn decode_base64(text: &str, what: &str) -> Outcome<Zeroizing<Vec<u8>>> {
    // The error does not repeat the text: it may be a secret.
    BASE64_STANDARD.decode(text).map(Zeroizing::new).map_err(|_| bad_input(what, "is not base64", "Encode the bytes as base64 (RFC 4648)."))
}

fn refuse_argument(value: impl Into<String>, rule: String, hint: &str) -> headrace_control::Problem {
    let message = rule.clone();
    bad_input(value, rule, hint).says("ValidationException", message)
}

fn grant_view(grant: &Grant) -> KeyGrant {
    let Grant { id, grantee, retiring, operations, name, constraints, created_ms } = grant.clone();
    KeyGrant { id, grantee, retiring, operations, name, constraints, created_at: lab_time(created_ms) }
}

/// Returns an alias as the protocol shows it.
fn alias_view(settings: &Settings, name: &str, alias: &Alias) -> KeyAlias {
    KeyAlias {
        alias: name.to_string(),
        arn: key_arn(settings, name),
        key: alias.key.clone(),
        created_at: lab_time(alias.created_ms),
        updated_at: lab_time(alias.updated_ms),
    }
}

impl Keys {
    fn arn(&self, key: &str) -> String {
        self.ledger.lab(|lab| key_arn(&lab.settings, key))
    }

    /// Returns a key as the protocol shows it.
    pub fn key_view(&self, record: &KeyRecord) -> KeyView {
        let aliases = |lab: &headrace_control::Lab| lab.keys.aliases.iter().filter(|(_, alias)| alias.key == record.id).map(|(name, _)| name.clone()).collect();
        KeyView {
            id: record.id.clone(),
            arn: self.arn(&record.id),
            description: record.new.description.clone(),
            policy: record.new.policy.clone(),
            state: record.state.as_str().to_string(),
            managed: record.new.managed,
            elsewhere: record.new.elsewhere.clone(),
            created_at: lab_time(record.created_ms),
            deletion_at: record.deletion_ms.map(lab_time),
            tags: record.new.tags.clone(),
            aliases: self.ledger.lab(aliases),
            grants: record.grants.iter().map(grant_view).collect(),
        }
    }

    pub(crate) fn list_keys_call(&self) -> KeyList {
        let records: Vec<KeyRecord> = self.ledger.lab(|lab| lab.keys.keys.values().cloned().collect());
        let aliases = self.ledger.lab(|lab| lab.keys.aliases.iter().map(|(name, alias)| alias_view(&lab.settings, name, alias)).collect());
        KeyList { keys: records.iter().map(|record| self.key_view(record)).collect(), aliases }
    }

    /// Creates a key, whose material is made here or, with an endpoint in `args`, lies in KMS
    /// elsewhere.
    pub(crate) fn create_key_call(&self, args: NewKey) -> Outcome<KeyView> {
        let NewKey { description, policy, tags, kms_endpoint, kms_key, kms_region, kms_profile } = args;
        check_policy(policy.as_deref())?;
        let remote = match (kms_endpoint, kms_key) {
            (Some(endpoint), Some(key)) => {
                let region = kms_region.or_else(|| region_of(&key)).unwrap_or_else(|| self.ledger.lab(|lab| lab.settings.region.clone()));
                Some(RemoteKey { endpoint, region, key, profile: kms_profile })
            }
            (None, None) => None,
            _ => return Err(bad_input("kms_endpoint", "and kms_key name a key elsewhere together", "Give both, or none.")),
        };
        let new = keys::NewKey {
            description: description.unwrap_or_default(),
            policy: policy.unwrap_or_default(),
            tags: tags.unwrap_or_default(),
            managed: false,
            elsewhere: remote.as_ref().map(|remote| format!("{} at {}", remote.key, remote.endpoint)),
        };
        self.create_key(new, remote.as_ref()).map(|record| self.key_view(&record))
    }

    /// Changes a key; it is shown as it is afterwards.
    pub(crate) fn change_key(&self, key: &str, command: KeyCommand) -> Outcome<KeyView> {
        let id = self.key(key)?.id;
        self.ledger.command(&Command::Key(command))?;
        // A key that can no longer be used is not kept in memory.
        if self.usable_key(&id).is_err() {
            self.keyring.forget(&id);
        }
        self.key(&id).map(|record| self.key_view(&record))
    }

    /// Changes description and policy of a key, or its tags.
    pub(crate) fn update_key_call(&self, args: KeyUpdate) -> Outcome<KeyView> {
        let KeyUpdate { key, description, policy, set, remove } = args;
        check_policy(policy.as_deref())?;
        if set.is_some() || remove.is_some() {
            if description.is_some() || policy.is_some() {
                return Err(bad_input(key, "tags are changed by a call of their own", "Make two calls."));
            }
            let request = TagRequest { set: set.unwrap_or_default(), remove: remove.unwrap_or_default(), ..TagRequest::default() };
            return self.change_key(&key.clone(), KeyCommand::Tag { key, request });
        }
        self.change_key(&key.clone(), KeyCommand::Update { key, description, policy })
    }

    /// Creates a grant with an id that is drawn; returns the earlier grant if one of the same name
    /// and content exists.
    pub(crate) fn create_grant_call(&self, args: NewGrant) -> Outcome<KeyGrant> {
        let NewGrant { key, grantee, operations, retiring, name, constraints } = args;
        let mut id = [0u8; 32];
        keyring::draw(&mut id).map_err(|error| from_io("drawing the id of a grant", &error))?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let constraints = constraints.map(|value| value.to_string());
        let grant = Grant { id: id.clone(), grantee, retiring, operations, name: name.clone(), constraints, created_ms: 0 };
        self.ledger.command(&Command::Key(KeyCommand::CreateGrant { key: key.clone(), grant }))?;
        let record = self.key(&key)?;
        // A grant that is created again keeps its first id.
        let grant = record.grants.iter().find(|grant| grant.id == id).or_else(|| record.grants.iter().find(|grant| grant.name == name));
        grant.map(grant_view).ok_or_else(|| refused(ErrorKind::NotFound, id, "is not a grant of this key any more", "Create it again."))
    }

    /// Encrypts up to [`MOST_PLAINTEXT`] bytes, base64, under a key; returns base64.
    pub(crate) fn encrypt_call(&self, args: Encrypt) -> Outcome<Ciphertext> {
        let plaintext = decode_base64(&args.plaintext, "plaintext")?;
        if plaintext.is_empty() || plaintext.len() > MOST_PLAINTEXT {
            let rule = format!("what is encrypted has 1 to {MOST_PLAINTEXT} bytes");
            return Err(refuse_argument(format!("{} bytes", plaintext.len()), rule, "Encrypt more with a data key."));
        }
        let key = self.usable_key(&args.key)?;
        let sealed = self.keyring.encrypt(&key.id, &plaintext, &args.context.unwrap_or_default())?;
        Ok(Ciphertext { ciphertext: BASE64_STANDARD.encode(sealed), key: self.arn(&key.id) })
    }

    pub(crate) fn decrypt_call(&self, args: Decrypt) -> Outcome<Plaintext> {
        let sealed = decode_base64(&args.ciphertext, "ciphertext")?;
        let (key, plaintext) = self.decrypt(&sealed, &args.context.unwrap_or_default(), args.key.as_deref())?;
        Ok(Plaintext { plaintext: BASE64_STANDARD.encode(plaintext.as_slice()), key: self.arn(&key.id) })
    }

    pub(crate) fn re_encrypt_call(&self, args: ReEncrypt) -> Outcome<ReEncrypted> {
        let sealed = decode_base64(&args.ciphertext, "ciphertext")?;
        let (source, plaintext) = self.decrypt(&sealed, &args.source_context.unwrap_or_default(), args.source_key.as_deref())?;
        let key = self.usable_key(&args.key)?;
        let sealed = self.keyring.encrypt(&key.id, &plaintext, &args.context.unwrap_or_default())?;
        Ok(ReEncrypted { ciphertext: BASE64_STANDARD.encode(sealed), key: self.arn(&key.id), source_key: self.arn(&source.id) })
    }

    /// Draws a data key, and returns it encrypted under a key and, if that is asked for, in the
    /// clear; both in base64.
    pub(crate) fn data_key_call(&self, args: DataKeyRequest) -> Outcome<DataKey> {
        let bytes = args.bytes.unwrap_or(32);
        if !(1..=MOST_DATA_KEY).contains(&bytes) {
            return Err(refuse_argument(bytes.to_string(), format!("a data key has 1 to {MOST_DATA_KEY} bytes"), "Use 32 for AES-256."));
        }
        let key = self.usable_key(&args.key)?;
        let mut data_key = Zeroizing::new(vec![0u8; bytes]);
        keyring::draw(&mut data_key).map_err(|error| from_io("drawing a data key", &error))?;
        let sealed = self.keyring.encrypt(&key.id, &data_key, &args.context.unwrap_or_default())?;
        let plaintext = args.plaintext.unwrap_or(true).then(|| BASE64_STANDARD.encode(data_key.as_slice()));
        Ok(DataKey { ciphertext: BASE64_STANDARD.encode(sealed), plaintext, key: self.arn(&key.id) })
    }

    /// Returns the material of a key, in base64; refuses a key that lies in KMS elsewhere.
    pub(crate) fn export_call(&self, key: &str) -> Outcome<ExportedKey> {
        let record = self.usable_key(key)?;
        let Some(material) = self.keyring.export(&record.id)? else {
            let there = record.new.elsewhere.unwrap_or_default();
            let hint = "Name it in the other lab: `headrace lab key create --kms-endpoint URL --kms-key KEY`.";
            return Err(refused(ErrorKind::Unsupported, key, format!("is {there}: this lab does not have its material"), hint));
        };
        let (id, arn, description) = (record.id.clone(), self.arn(&record.id), record.new.description);
        Ok(ExportedKey { id, arn, description, material: BASE64_STANDARD.encode(material.as_slice()) })
    }

    /// Adds a key that another lab exported, under its id there.
    pub(crate) fn import_call(&self, args: ImportKey) -> Outcome<KeyView> {
        let text = Zeroizing::new(args.material);
        let decoded = decode_base64(&text, "material")?;
        let hint = "Give a file that `headrace lab key export` wrote.";
        let material: &[u8; KEY_BYTES] = decoded.as_slice().try_into().map_err(|_| bad_input("material", format!("does not have {KEY_BYTES} bytes"), hint))?;
        if !keyring::is_id(&args.id) {
            return Err(bad_input(args.id, "is not the id of a key: that is a UUID", hint));
        }
        let record = self.import_key(&args.id, args.description.unwrap_or_default(), material)?;
        Ok(self.key_view(&record))
    }

    pub(crate) fn encryption_defaults(&self) -> EncryptionDefaults {
        self.ledger.lab(|lab| EncryptionDefaults {
            by_default: lab.keys.encrypt_by_default,
            key: lab.keys.default_key.as_ref().map_or_else(|| EBS_ALIAS.to_string(), |key| key_arn(&lab.settings, key)),
        })
    }

    /// Sets the default key and whether new volumes are encrypted by default; "" and [`EBS_ALIAS`]
    /// stand for the key that EBS makes for itself.
    pub(crate) fn set_encryption_call(&self, args: SetEncryption) -> Outcome<EncryptionDefaults> {
        if let Some(key) = args.key {
            let key = Some(key).filter(|key| !key.is_empty() && key != EBS_ALIAS);
            self.ledger.command(&Command::Key(KeyCommand::SetDefault { key }))?;
        }
        if let Some(encrypt) = args.by_default {
            self.ledger.command(&Command::Key(KeyCommand::EncryptByDefault { encrypt }))?;
        }
        Ok(self.encryption_defaults())
    }
}

/// Returns the region in the ARN of a key.
fn region_of(key: &str) -> Option<String> {
    key.strip_prefix("arn:")?.split(':').nth(2).map(str::to_string)
}

/// Checks that the policy of a key is an object of JSON.
fn check_policy(policy: Option<&str>) -> Outcome<()> {
    let Some(policy) = policy.filter(|policy| !policy.is_empty()) else { return Ok(()) };
    match serde_json::from_str::<serde_json::Value>(policy) {
        Ok(serde_json::Value::Object(_)) => Ok(()),
        Ok(_) => Err(refuse_policy("it is not an object".to_string())),
        Err(error) => Err(refuse_policy(error.to_string())),
    }
}

fn refuse_policy(what: String) -> headrace_control::Problem {
    let problem = bad_input("policy", format!("is not a policy document: {what}"), "Write it as JSON, with Version and Statement.");
    problem.says("MalformedPolicyDocumentException", format!("The policy document is malformed: {what}"))
}
