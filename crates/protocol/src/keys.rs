//! Arguments and answers of calls about keys. Bytes are text in base64.

use crate::message::message;
use serde_json::Value;
use std::collections::BTreeMap;

message! {
    /// A new key.
    #[serde(deny_unknown_fields)]
    pub struct NewKey {
        /// Description.
        pub description: Option<String> = "none";
        /// Policy document, as JSON text; kept and shown, not enforced.
        pub policy: Option<String> = "the account may do everything";
        /// Tags.
        pub tags: Option<BTreeMap<String, String>> = "none";
        /// Endpoint of a key in KMS elsewhere: https://HOST, or http:// to this machine.
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
        /// The id that it had there, a UUID, which is in the ciphertexts of the key.
        pub id: String;
        /// The 32 bytes of the key, in base64.
        pub material: String;
        /// Description.
        pub description: Option<String> = "none";
    }
}

message! {
    /// Deletion of a key.
    #[serde(deny_unknown_fields)]
    pub struct KeyDeletion {
        /// Id, ARN or alias.
        pub key: String;
        /// Days of lab time until it is deleted, 7 to 30.
        pub days: Option<u32> = "30";
    }
}

message! {
    /// Changes of a key.
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
        /// Name of the alias, with `alias/`.
        pub alias: String;
        /// Id or ARN of the key it leads to.
        pub key: String;
        /// True to lead an existing alias to another key.
        pub exists: Option<bool> = "false";
    }
}

message! {
    /// An alias.
    #[serde(deny_unknown_fields)]
    pub struct OneAlias {
        /// Name of the alias, with `alias/`.
        pub alias: String;
    }
}

message! {
    /// A grant; kept and shown, not enforced.
    #[serde(deny_unknown_fields)]
    pub struct NewGrant {
        /// Id or ARN of the key.
        pub key: String;
        /// Principal that may use the key.
        pub grantee: String;
        /// Operations of KMS that the grant allows.
        pub operations: Vec<String>;
        /// Principal that may end the grant.
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
        /// Bytes to encrypt, at most 4,096, in base64.
        pub plaintext: String;
        /// Encryption context: must be the same to decrypt.
        pub context: Option<BTreeMap<String, String>> = "none";
    }
}

message! {
    /// Something to decrypt.
    #[serde(deny_unknown_fields)]
    pub struct Decrypt {
        /// Ciphertext in base64.
        pub ciphertext: String;
        /// Encryption context.
        pub context: Option<BTreeMap<String, String>> = "none";
        /// Id, ARN or alias of the key that it must be encrypted under.
        pub key: Option<String> = "that which the ciphertext names";
    }
}

message! {
    /// Something to encrypt under another key.
    #[serde(deny_unknown_fields)]
    pub struct ReEncrypt {
        /// Ciphertext in base64.
        pub ciphertext: String;
        /// Id, ARN or alias of the new key.
        pub key: String;
        /// Encryption context of the ciphertext.
        pub source_context: Option<BTreeMap<String, String>> = "none";
        /// Id, ARN or alias of the key that it must be encrypted under.
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
        /// Length of the data key, bytes, 1 to 1,024.
        pub bytes: Option<usize> = "32";
        /// Encryption context.
        pub context: Option<BTreeMap<String, String>> = "none";
        /// True to return it in the clear too.
        pub plaintext: Option<bool> = "true";
    }
}

message! {
    /// Encryption by default.
    #[serde(deny_unknown_fields)]
    pub struct SetEncryption {
        /// True if new volumes are encrypted that do not ask for it.
        pub by_default: Option<bool> = "as it is";
        /// The key of new encrypted volumes that name none: id, ARN or alias; "" for the key that
        /// EBS makes for itself.
        pub key: Option<String> = "as it is";
    }
}

message! {
    /// A permission to use a key, next to its policy.
    pub struct KeyGrant {
        /// Id.
        pub id: String;
        /// Principal that may use the key.
        pub grantee: String;
        /// Principal that may end the grant.
        pub retiring: Option<String>;
        /// Operations of KMS that the grant allows.
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
        /// True if EBS made it for itself.
        pub managed: bool;
        /// Key and endpoint in KMS elsewhere; null if the key is kept here.
        pub elsewhere: Option<String>;
        /// Lab time of its creation.
        pub created_at: String;
        /// Lab time of its deletion; null if none is planned.
        pub deletion_at: Option<String>;
        /// Tags.
        pub tags: BTreeMap<String, String>;
        /// Names of its aliases.
        pub aliases: Vec<String>;
        /// Grants of the key.
        pub grants: Vec<KeyGrant>;
    }
}

message! {
    /// A key with its material, for another lab. The owner of this material can read all that the
    /// key protects.
    pub struct ExportedKey {
        /// Id: a UUID.
        pub id: String;
        /// Amazon Resource Name in this lab.
        pub arn: String;
        /// Description.
        pub description: String;
        /// The 32 bytes of the key, in base64.
        pub material: String;
    }
}

message! {
    /// A name of a key.
    pub struct KeyAlias {
        /// Name of the alias, with `alias/`.
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
    /// A ciphertext.
    pub struct Ciphertext {
        /// Ciphertext in base64.
        pub ciphertext: String;
        /// ARN of the key.
        pub key: String;
    }
}

message! {
    /// A plaintext.
    pub struct Plaintext {
        /// Plaintext in base64.
        pub plaintext: String;
        /// ARN of the key.
        pub key: String;
    }
}

message! {
    /// A ciphertext under another key.
    pub struct ReEncrypted {
        /// Ciphertext in base64.
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
        /// The data key, wrapped, in base64.
        pub ciphertext: String;
        /// The data key in the clear, in base64; null if the request did not ask for it.
        pub plaintext: Option<String>;
        /// ARN of the key that wraps it.
        pub key: String;
    }
}

message! {
    /// Encryption by default.
    pub struct EncryptionDefaults {
        /// True if new volumes are encrypted that do not ask for it.
        pub by_default: bool;
        /// ARN of the key of new encrypted volumes that name none; `alias/aws/ebs` for the key that
        /// EBS makes for itself.
        pub key: String;
    }
}
