//! What calls about keys are given and answer. Bytes are text in base64.

use crate::message::message;
use serde_json::Value;
use std::collections::BTreeMap;

message! {
    /// A new key.
    #[serde(deny_unknown_fields)]
    pub struct NewKey {
        /// Description.
        pub description: Option<String> = "none";
        /// Policy document, as JSON text; kept and told, not enforced.
        pub policy: Option<String> = "the account may do everything";
        /// Tags.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// It is a key in KMS elsewhere: its endpoint, https://HOST, or http:// to this machine.
        pub kms_endpoint: Option<String> = "it is made here";
        /// Id, ARN or alias of that key.
        pub kms_key: Option<String> = "none";
        /// Region of that key.
        pub kms_region: Option<String> = "as its ARN says, else the lab's";
        /// Profile of the credentials for it, in a file that the daemon can read.
        pub kms_profile: Option<String> = "as the environment of the daemon says";
    }
}

message! {
    /// A key.
    #[serde(deny_unknown_fields)]
    pub struct OneKey {
        /// Id, ARN, alias (`alias/mysql`) or the ARN of an alias.
        pub key: String;
    }
}

message! {
    /// A key that another lab exported.
    #[serde(deny_unknown_fields)]
    pub struct ImportKey {
        /// The id that it had there, a UUID: what it encrypted names it.
        pub id: String;
        /// Its 32 bytes, in base64.
        pub material: String;
        /// Description.
        pub description: Option<String> = "none";
    }
}

message! {
    /// When a key is deleted.
    #[serde(deny_unknown_fields)]
    pub struct KeyDeletion {
        /// Id, ARN or alias.
        pub key: String;
        /// In how many days of lab time, 7 to 30.
        pub days: Option<u32> = "30";
    }
}

message! {
    /// What changes of a key.
    #[serde(deny_unknown_fields)]
    pub struct KeyUpdate {
        /// Id, ARN or alias.
        pub key: String;
        /// Description.
        pub description: Option<String> = "as it is";
        /// Policy document, as JSON text.
        pub policy: Option<String> = "as it is";
        /// Tags to add or overwrite, after removing.
        pub set: Option<BTreeMap<String, String>> = "none";
        /// Keys of tags to remove.
        pub remove: Option<Vec<String>> = "none";
    }
}

message! {
    /// An alias of a key.
    #[serde(deny_unknown_fields)]
    pub struct SetAlias {
        /// Its name, with `alias/`.
        pub alias: String;
        /// Id or ARN of the key it leads to.
        pub key: String;
        /// Whether there is such an alias, which leads to another key from now on.
        pub exists: Option<bool> = "false";
    }
}

message! {
    /// An alias.
    #[serde(deny_unknown_fields)]
    pub struct OneAlias {
        /// Its name, with `alias/`.
        pub alias: String;
    }
}

message! {
    /// A grant; kept and told, not enforced.
    #[serde(deny_unknown_fields)]
    pub struct NewGrant {
        /// Id or ARN of the key.
        pub key: String;
        /// Who may use it.
        pub grantee: String;
        /// What for.
        pub operations: Vec<String>;
        /// Who may end the grant.
        pub retiring: Option<String> = "nobody";
        /// Name.
        pub name: Option<String> = "none";
        /// Constraints, as KMS has them.
        pub constraints: Option<Value> = "none";
    }
}

message! {
    /// A grant of a key.
    #[serde(deny_unknown_fields)]
    pub struct OneGrant {
        /// Id or ARN of the key.
        pub key: String;
        /// Id of the grant.
        pub grant: String;
    }
}

message! {
    /// Something to encrypt.
    #[serde(deny_unknown_fields)]
    pub struct Encrypt {
        /// Id, ARN or alias.
        pub key: String;
        /// At most 4,096 bytes, in base64.
        pub plaintext: String;
        /// Encryption context: must be the same to decrypt.
        pub context: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// Something to decrypt.
    #[serde(deny_unknown_fields)]
    pub struct Decrypt {
        /// In base64.
        pub ciphertext: String;
        /// Encryption context.
        pub context: Option<BTreeMap<String, String>> = "none";
        /// Only under this key.
        pub key: Option<String> = "that which the ciphertext names";
    }
}

message! {
    /// Something to encrypt under another key.
    #[serde(deny_unknown_fields)]
    pub struct ReEncrypt {
        /// In base64.
        pub ciphertext: String;
        /// Id, ARN or alias of the new key.
        pub key: String;
        /// Encryption context of the ciphertext.
        pub source_context: Option<BTreeMap<String, String>> = "none";
        /// Only from this key.
        pub source_key: Option<String> = "that which the ciphertext names";
        /// New encryption context.
        pub context: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// A data key that is asked for.
    #[serde(deny_unknown_fields)]
    pub struct DataKeyRequest {
        /// Id, ARN or alias of the key that wraps it.
        pub key: String;
        /// Its length, 1 to 1,024.
        pub bytes: Option<usize> = "32";
        /// Encryption context.
        pub context: Option<BTreeMap<String, String>> = "none";
        /// Also in the clear.
        pub plaintext: Option<bool> = "true";
    }
}

message! {
    /// What is encrypted by default.
    #[serde(deny_unknown_fields)]
    pub struct SetEncryption {
        /// Whether new volumes are encrypted when they do not say so.
        pub by_default: Option<bool> = "as it is";
        /// The key of new encrypted volumes that name none: id, ARN or alias; "" for the one that
        /// EBS makes for itself.
        pub key: Option<String> = "as it is";
    }
}

message! {
    /// Who may use a key for what, next to its policy.
    pub struct KeyGrant {
        /// Id.
        pub id: String;
        /// Who may use the key.
        pub grantee: String;
        /// Who may end the grant.
        pub retiring: Option<String>;
        /// What for.
        pub operations: Vec<String>;
        /// Name.
        pub name: Option<String>;
        /// Constraints, as JSON text.
        pub constraints: Option<String>;
        /// Lab time of its creation.
        pub created_at: String;
    }
}

message! {
    /// A key, without its material.
    pub struct KeyView with KeyGrant {
        /// Id: a UUID.
        pub id: String;
        /// Amazon Resource Name.
        pub arn: String;
        /// Description.
        pub description: String;
        /// Policy document, as JSON text; "": the default one.
        pub policy: String;
        /// `Enabled`, `Disabled` or `PendingDeletion`.
        pub state: String;
        /// Whether EBS made it for itself.
        pub managed: bool;
        /// Which key of which KMS it is; null: it is kept here.
        pub elsewhere: Option<String>;
        /// Lab time of its creation.
        pub created_at: String;
        /// When it will be deleted.
        pub deletion_at: Option<String>;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Its aliases.
        pub aliases: Vec<String>;
        /// Its grants.
        pub grants: Vec<KeyGrant>;
    }
}

message! {
    /// A key with its material, for another lab. Who has it can read whatever the key protects.
    pub struct ExportedKey {
        /// Id: a UUID.
        pub id: String;
        /// Amazon Resource Name in this lab.
        pub arn: String;
        /// Description.
        pub description: String;
        /// Its 32 bytes, in base64.
        pub material: String;
    }
}

message! {
    /// A name of a key.
    pub struct KeyAlias {
        /// Its name, with `alias/`.
        pub alias: String;
        /// Amazon Resource Name.
        pub arn: String;
        /// Id of the key.
        pub key: String;
        /// Lab time of its creation.
        pub created_at: String;
        /// Lab time since which it leads to this key.
        pub updated_at: String;
    }
}

message! {
    /// Keys and aliases.
    pub struct KeyList with KeyView KeyAlias {
        /// Keys, by id.
        pub keys: Vec<KeyView>;
        /// Aliases, by name.
        pub aliases: Vec<KeyAlias>;
    }
}

message! {
    /// What was encrypted.
    pub struct Ciphertext {
        /// In base64.
        pub ciphertext: String;
        /// ARN of the key.
        pub key: String;
    }
}

message! {
    /// What was decrypted.
    pub struct Plaintext {
        /// In base64.
        pub plaintext: String;
        /// ARN of the key.
        pub key: String;
    }
}

message! {
    /// What was encrypted under another key.
    pub struct ReEncrypted {
        /// In base64.
        pub ciphertext: String;
        /// ARN of the key.
        pub key: String;
        /// ARN of the key before.
        pub source_key: String;
    }
}

message! {
    /// A data key.
    pub struct DataKey {
        /// Wrapped, in base64.
        pub ciphertext: String;
        /// In the clear, in base64; null: not asked for.
        pub plaintext: Option<String>;
        /// ARN of the key that wraps it.
        pub key: String;
    }
}

message! {
    /// What is encrypted by default.
    pub struct EncryptionDefaults {
        /// Whether new volumes are encrypted when they do not say so.
        pub by_default: bool;
        /// ARN of the key of new encrypted volumes that name none; `alias/aws/ebs` where that is
        /// the one that EBS makes for itself.
        pub key: String;
    }
}
