//! Keys without their material: states, aliases, grants, what a new volume is encrypted with, in
//! KMS's and EC2's words.

use headrace_control::keys::{key_arn, Grant, NewKey, EBS_ALIAS};
use headrace_control::{Command, CreateRequest, KeyCommand, KeyState, Lab};
use std::collections::BTreeMap;

const START_MS: u64 = 1_767_225_600_000; // 2026-01-01
const DAY_MS: u64 = 86_400_000;
const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

struct Kms {
    lab: Lab,
    now: u64,
}

impl Kms {
    /// A lab with a key.
    fn new() -> Kms {
        let mut kms = Kms { lab: Lab::default(), now: START_MS };
        kms.done(create(ONE));
        kms
    }

    fn decide(&mut self, command: Command) -> Result<usize, (String, String)> {
        self.lab.due(self.now).iter().for_each(|event| self.lab.apply(event));
        let mut drawn = self.lab.volumes.len() as u64;
        let mut ids = || {
            drawn += 1;
            drawn
        };
        let events = self.lab.decide(&command, self.now, &mut ids).map_err(|error| (error.problem().code.clone(), error.problem().message.clone()))?;
        events.iter().for_each(|event| self.lab.apply(event));
        Ok(events.len())
    }

    fn done(&mut self, command: KeyCommand) -> usize {
        let text = format!("{command:?}");
        self.decide(Command::Key(command)).unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    #[track_caller]
    fn says(&mut self, command: KeyCommand, code: &str, message: &str) {
        assert_eq!(self.decide(Command::Key(command)), Err((code.to_string(), message.to_string())));
    }

    fn volume(&mut self, encrypted: Option<bool>, key: Option<&str>) -> Result<Option<String>, (String, String)> {
        let request = CreateRequest { size_gib: Some(1), encrypted, kms_key: key.map(str::to_string), ..CreateRequest::default() };
        self.decide(Command::CreateVolume(request))?;
        let newest = self.lab.volumes.values().next_back().expect("a volume");
        Ok(newest.encryption.as_ref().map(|encryption| encryption.key.clone()))
    }

    fn state(&self, key: &str) -> KeyState {
        self.lab.keys.keys[key].state
    }
}

fn create(id: &str) -> KeyCommand {
    KeyCommand::Create { id: id.to_string(), new: NewKey::default() }
}

fn arn(key: &str) -> String {
    key_arn(&Lab::default().settings, key)
}

#[test]
fn states() {
    let mut kms = Kms::new();
    let key = || ONE.to_string();
    assert_eq!(arn(ONE), format!("arn:aws:kms:us-east-1:000000000000:key/{ONE}"));
    kms.says(KeyCommand::Disable { key: TWO.to_string() }, "NotFoundException", &format!("Key '{}' does not exist", arn(TWO)));
    kms.says(KeyCommand::CancelDeletion { key: key() }, "KMSInvalidStateException", &format!("{} is not pending deletion.", arn(ONE)));
    assert_eq!(kms.done(KeyCommand::Enable { key: key() }), 0, "nothing changes");
    kms.done(KeyCommand::Disable { key: arn(ONE) });
    let usable = |kms: &Kms| kms.lab.keys.usable(&kms.lab.settings, ONE).map(|key| key.id.clone()).map_err(|error| error.problem().code.clone());
    assert_eq!(usable(&kms), Err("DisabledException".to_string()));
    for days in [6, 31] {
        kms.says(KeyCommand::ScheduleDeletion { key: key(), days }, "ValidationException", "PendingWindowInDays must be between 7 and 30.");
    }
    kms.done(KeyCommand::ScheduleDeletion { key: key(), days: 7 });
    assert_eq!(usable(&kms), Err("KMSInvalidStateException".to_string()));
    kms.says(KeyCommand::Enable { key: key() }, "KMSInvalidStateException", &format!("{} is pending deletion.", arn(ONE)));
    kms.done(KeyCommand::CancelDeletion { key: key() });
    assert_eq!(kms.state(ONE), KeyState::Disabled);
    kms.done(KeyCommand::Enable { key: key() });
    assert_eq!(usable(&kms), Ok(key()));
    // Deleted on its day, to the millisecond, with its aliases; not before.
    kms.done(KeyCommand::SetAlias { alias: "alias/mysql".to_string(), key: key(), exists: false });
    kms.done(KeyCommand::SetDefault { key: Some("alias/mysql".to_string()) });
    kms.done(KeyCommand::ScheduleDeletion { key: key(), days: 30 });
    let due = START_MS + 30 * DAY_MS;
    assert_eq!((kms.lab.next_due(), kms.lab.due(due - 1)), (Some(due), vec![]));
    kms.now = due;
    kms.says(KeyCommand::Enable { key: key() }, "NotFoundException", &format!("Key '{}' does not exist", arn(ONE)));
    assert!(kms.lab.keys.aliases.is_empty() && kms.lab.keys.default_key.is_none());
}

#[test]
fn aliases() {
    let mut kms = Kms::new();
    kms.done(create(TWO));
    let set = |alias: &str, key: &str, exists| KeyCommand::SetAlias { alias: alias.to_string(), key: key.to_string(), exists };
    for wrong in ["mysql", "alias/"] {
        kms.says(set(wrong, ONE, false), "ValidationException", "Invalid identifier");
    }
    kms.says(set("alias/a:b", ONE, false), "ValidationException", "alias/a:b contains invalid characters for an alias");
    for wrong in ["alias/a b", "alias/ä", &format!("alias/{}", "a".repeat(251))] {
        let words = format!(
            "1 validation error detected: Value '{wrong}' at 'aliasName' failed to satisfy constraint: Member must satisfy regular expression pattern: ^[a-zA-Z0-9:/_-]+$"
        );
        kms.says(set(wrong, ONE, false), "ValidationException", &words);
    }
    kms.says(set("alias/aws/mine", ONE, false), "NotAuthorizedException", "The alias prefix alias/aws/ is reserved for AWS managed keys.");
    kms.says(set("alias/mysql", ONE, true), "NotFoundException", &format!("Alias {} is not found.", arn("alias/mysql")));
    kms.done(set("alias/mysql", ONE, false));
    kms.says(set("alias/mysql", TWO, false), "AlreadyExistsException", &format!("An alias with the name {} already exists", arn("alias/mysql")));
    let names = ["alias/mysql".to_string(), arn("alias/mysql"), ONE.to_string(), arn(ONE)];
    assert!(names.iter().all(|name| kms.lab.keys.find(&kms.lab.settings, name).is_ok_and(|key| key.id == ONE)));
    kms.done(set("alias/mysql", TWO, true));
    assert_eq!(kms.lab.keys.find(&kms.lab.settings, "alias/mysql").unwrap().id, TWO);
    // An alias of another region, account or service is not this key.
    for other in ["arn:aws:kms:eu-west-1:000000000000:alias/mysql", "arn:aws:kms:us-east-1:111111111111:alias/mysql", "alias/mysqll", "arn:aws:kms"] {
        assert!(kms.lab.keys.find(&kms.lab.settings, other).is_err(), "{other}");
    }
    for number in 0..49 {
        kms.done(set(&format!("alias/n{number}"), TWO, false));
    }
    kms.says(set("alias/more", TWO, false), "LimitExceededException", "A key has at most 50 aliases.");
    kms.done(KeyCommand::DeleteAlias { alias: "alias/mysql".to_string() });
    kms.says(KeyCommand::DeleteAlias { alias: "alias/mysql".to_string() }, "NotFoundException", &format!("Alias {} is not found.", arn("alias/mysql")));
}

#[test]
fn grants() {
    let mut kms = Kms::new();
    let grant = |id: &str, name: Option<&str>| Grant {
        id: id.to_string(),
        grantee: "arn:aws:iam::000000000000:user/ebs".to_string(),
        retiring: None,
        operations: vec!["Decrypt".to_string()],
        name: name.map(str::to_string),
        constraints: None,
        created_ms: 0,
    };
    let create = |grant: Grant| KeyCommand::CreateGrant { key: ONE.to_string(), grant };
    kms.now += 5;
    kms.done(create(grant("a", Some("volumes"))));
    assert_eq!(kms.lab.keys.keys[ONE].grants[0].created_ms, START_MS + 5);
    assert_eq!(kms.done(create(grant("b", Some("volumes")))), 0, "the same name and content are the same grant");
    kms.done(create(grant("c", None)));
    kms.done(create(grant("d", None)));
    assert_eq!(kms.lab.keys.keys[ONE].grants.len(), 3);
    kms.done(KeyCommand::EndGrant { key: ONE.to_string(), grant: "c".to_string() });
    kms.says(KeyCommand::EndGrant { key: ONE.to_string(), grant: "c".to_string() }, "NotFoundException", "Grant ID c not found");
}

#[test]
fn what_a_new_volume_is_encrypted_with() {
    let mut kms = Kms::new();
    let alone = ("InvalidParameterDependency".to_string(), "The parameter KmsKeyId requires the parameter Encrypted to be set.".to_string());
    assert_eq!(kms.volume(None, None), Ok(None));
    assert_eq!(kms.volume(None, Some(ONE)), Err(alone));
    assert_eq!(kms.volume(Some(true), Some(ONE)), Ok(Some(ONE.to_string())));
    // The key EBS makes for itself, which the daemon makes first.
    assert_eq!(kms.volume(Some(true), None).unwrap_err().0, "InvalidKMSKey.NotFound");
    kms.done(KeyCommand::Create { id: TWO.to_string(), new: NewKey { managed: true, ..NewKey::default() } });
    assert_eq!(kms.volume(Some(true), None), Ok(Some(TWO.to_string())));
    assert_eq!(kms.lab.keys.find(&kms.lab.settings, EBS_ALIAS).unwrap().id, TWO);
    kms.says(
        KeyCommand::Disable { key: EBS_ALIAS.to_string() },
        "AccessDeniedException",
        &format!("{} is an AWS managed key, which cannot be changed.", arn(TWO)),
    );
    kms.done(KeyCommand::EncryptByDefault { encrypt: true });
    assert_eq!(kms.volume(None, None), Ok(Some(TWO.to_string())));
    assert_eq!(kms.volume(Some(false), None), Ok(Some(TWO.to_string())), "encryption by default wins");
    kms.done(KeyCommand::SetDefault { key: Some(arn(ONE)) });
    assert_eq!(kms.volume(None, None), Ok(Some(ONE.to_string())));
    kms.done(KeyCommand::Disable { key: ONE.to_string() });
    let disabled = format!("The KMS key provided is in an incorrect state: {} is disabled.", arn(ONE));
    assert_eq!(kms.volume(None, None), Err(("InvalidKMSKey.InvalidState".to_string(), disabled)));
    kms.done(KeyCommand::SetDefault { key: None });
    assert_eq!(kms.volume(None, None), Ok(Some(TWO.to_string())));
}

#[test]
fn words_of_a_key() {
    let mut kms = Kms::new();
    let update = |description: Option<String>, policy: Option<String>| KeyCommand::Update { key: ONE.to_string(), description, policy };
    kms.done(update(Some("data".to_string()), None));
    kms.done(update(None, Some("{}".to_string())));
    assert_eq!((kms.lab.keys.keys[ONE].new.description.as_str(), kms.lab.keys.keys[ONE].new.policy.as_str()), ("data", "{}"));
    kms.says(update(Some("d".repeat(8_193)), None), "ValidationException", "The description is longer than 8192 bytes.");
    kms.says(update(None, Some("p".repeat(32_769))), "ValidationException", "The policy is longer than 32768 bytes.");
    let tags: BTreeMap<String, String> = (0..51).map(|n| (format!("k{n}"), String::new())).collect();
    let many = KeyCommand::Create { id: TWO.to_string(), new: NewKey { tags, ..NewKey::default() } };
    assert_eq!(kms.decide(Command::Key(many)).unwrap_err().0, "TagException");
    // A checkpoint of the journal gives the keys back.
    let text = serde_json::to_string(&kms.lab).unwrap();
    assert_eq!(serde_json::from_str::<Lab>(&text).unwrap(), kms.lab);
}
