//! Tags of resources of any kind: their requests, and the rules of keys and values.

use crate::error::{ControlError, ErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// EC2 user guide, tag restrictions: 50 tags, keys of 128 and values of 256 characters (the API
/// text of 2026 says 127 for the key).
const MAX_TAGS: usize = 50;
const MAX_KEY_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 256;
const TAG_RULE: &str = "EC2 user guide, tag restrictions";
/// Tags of one or more resources: all of them change, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TagRequest {
    /// Ids; a volume also by its name.
    pub resources: Vec<String>,
    /// Tags to add or overwrite, after removing.
    pub set: BTreeMap<String, String>,
    /// Keys to remove.
    pub remove: Vec<String>,
    /// Keys to remove where they have this value.
    pub remove_equal: BTreeMap<String, String>,
}

/// Tags to set, and keys to remove before.
pub(crate) type TagChanges = (BTreeMap<String, String>, Vec<String>);

/// Returns the changes of the tags of a resource of any type; None without any.
pub(crate) fn changed_tags(tags: &BTreeMap<String, String>, request: &TagRequest) -> Result<Option<TagChanges>, ControlError> {
    let TagRequest { set, remove, remove_equal, .. } = request;
    let gone = |key: &String, value: &String| remove.contains(key) || remove_equal.get(key) == Some(value);
    let mut after = tags.clone();
    after.retain(|key, value| !gone(key, value));
    after.extend(set.clone());
    check_tags(set, after.len())?;
    if after == *tags {
        return Ok(None);
    }
    // Only what changes something is kept.
    let removed = tags.iter().filter(|(key, value)| gone(key, value) && !set.contains_key(*key)).map(|(key, _)| key.clone()).collect();
    Ok(Some((set.clone(), removed)))
}

/// Checks that tags may be set on a resource that has `total` of them afterwards.
pub(crate) fn check_tags(set: &BTreeMap<String, String>, total: usize) -> Result<(), ControlError> {
    let wrong = |value: &str, rule: String, hint: &str| Err(ControlError::invalid(value, rule, TAG_RULE, hint));
    for (key, value) in set {
        let (key_chars, value_chars) = (key.chars().count(), value.chars().count());
        if key_chars == 0 || key_chars > MAX_KEY_CHARS {
            return wrong(key, format!("a tag key has 1 to {MAX_KEY_CHARS} characters, this one {key_chars}"), "Shorten the key.");
        }
        if key.starts_with("aws:") {
            return wrong(key, "tag keys that begin with aws: belong to AWS".to_string(), "Choose another prefix.");
        }
        if value_chars > MAX_VALUE_CHARS {
            return wrong(value, format!("a tag value has at most {MAX_VALUE_CHARS} characters, this one {value_chars}"), "Shorten the value.");
        }
    }
    if total > MAX_TAGS {
        let rule = format!("a resource has at most {MAX_TAGS} tags");
        let hint = "Remove tags that are no longer needed.";
        let error = ControlError::new(ErrorKind::LimitExceeded, format!("{total} tags"), rule, TAG_RULE, hint);
        return Err(error.says("TagLimitExceeded", format!("The maximum number of Tags for a resource has been reached. Limit is {MAX_TAGS}")));
    }
    Ok(())
}
