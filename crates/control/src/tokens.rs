//! Client tokens: the same call with the same token is done once, however often it is sent.
//!
//! A token is written down with the events of the decision it was given with, so a crash keeps
//! both or neither. It is remembered for a day of lab time, and longer while there are few: where
//! lab time runs fast, a day may be over before a client has tried again.

use crate::error::{ControlError, ErrorKind, LAB_RULE};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Time for which a token counts at least, milliseconds of lab time: a day, the time EC2 names for
/// RunInstances (EC2 API, "Ensuring idempotency").
const KEPT_MS: u64 = 86_400_000;
/// Tokens that are kept however old they are. A guess: more than a client has under way at once.
const KEPT_ANYWAY: usize = 1_024;
/// Most tokens at once: some 200 bytes each, so 20 MB of a checkpoint at most.
const MOST_TOKENS: usize = 100_000;
/// Longest token (EC2 API, ClientToken: "up to 64 ASCII characters").
const MAX_TOKEN_CHARS: usize = 64;

/// A token as it came with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientToken {
    /// Text that the client chose.
    pub token: String,
    /// The name of the call and a digest of its arguments: what must be the same again.
    pub request: String,
}

/// A change of the tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenChange {
    /// A call was done under this token.
    Used {
        /// The token.
        token: String,
        /// Call and digest.
        request: String,
        /// Id of the thing that the call made or changed; None for a thing without an id.
        #[serde(default)]
        subject: Option<String>,
    },
}

/// A token that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedToken {
    /// Call and digest.
    pub request: String,
    /// Id of what the call made or changed.
    #[serde(default)]
    pub subject: Option<String>,
}

/// The tokens that count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    used: BTreeMap<String, UsedToken>,
    /// Lab time of use and token, oldest first.
    order: VecDeque<(u64, String)>,
}

impl Tokens {
    /// Returns the record of a token; None if it was not used yet.
    ///
    /// # Errors
    /// [`ErrorKind::IdempotentParameterMismatch`] when that was another call or had other
    /// arguments; [`ErrorKind::InvalidParameter`] for what cannot be a token.
    pub fn find(&self, given: &ClientToken) -> Result<Option<&UsedToken>, ControlError> {
        let token = &given.token;
        if token.is_empty() || token.len() > MAX_TOKEN_CHARS || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let rule = format!("a client token has 1 to {MAX_TOKEN_CHARS} ASCII characters without spaces");
            return Err(ControlError::invalid(token.as_str(), rule, "EC2 API, ClientToken", "Use a UUID."));
        }
        match self.used.get(token) {
            Some(used) if used.request != given.request => Err(refuse_mismatch(token)),
            entry => Ok(entry),
        }
    }

    /// Makes the change that notes a token, with what its call changed.
    pub(crate) fn claim(&self, given: &ClientToken, subject: Option<String>) -> Result<TokenChange, ControlError> {
        // Used a moment ago, by a call that ran at the same time: a second look finds it.
        if self.find(given)?.is_some() {
            return Err(refuse_mismatch(&given.token));
        }
        if self.order.len() >= MOST_TOKENS {
            let rule = format!("{MOST_TOKENS} client tokens were used in the last 24 hours of lab time, and more are not kept");
            let error = ControlError::new(ErrorKind::LimitExceeded, given.token.as_str(), rule, LAB_RULE, "Wait, or call without a token.");
            return Err(error.says("RequestLimitExceeded", "Request limit exceeded."));
        }
        Ok(TokenChange::Used { token: given.token.clone(), request: given.request.clone(), subject })
    }

    /// Notes a token that was used at the lab time `at_ms`, Unix milliseconds, and forgets those
    /// older than [`KEPT_MS`] beyond the newest [`KEPT_ANYWAY`].
    pub(crate) fn apply(&mut self, change: &TokenChange, at_ms: u64) {
        let TokenChange::Used { token, request, subject } = change;
        self.used.insert(token.clone(), UsedToken { request: request.clone(), subject: subject.clone() });
        self.order.push_back((at_ms, token.clone()));
        while self.order.len() > KEPT_ANYWAY && self.order.front().is_some_and(|(used_ms, _)| used_ms + KEPT_MS < at_ms) {
            if let Some((_, token)) = self.order.pop_front() {
                self.used.remove(&token);
            }
        }
    }
}

/// Makes the refusal of a token that another request has used.
fn refuse_mismatch(token: &str) -> ControlError {
    ControlError::new(
        ErrorKind::IdempotentParameterMismatch,
        token,
        "was used as the token of another call, or with other arguments",
        "EC2 API, \"Ensuring idempotency\"",
        "Use a new token for a new request, and the same arguments to repeat one.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str, request: &str) -> ClientToken {
        ClientToken { token: name.to_string(), request: request.to_string() }
    }

    fn used(tokens: &mut Tokens, name: &str, at_ms: u64) {
        let change = tokens.claim(&token(name, "volume.create 1"), Some("vol-1".to_string())).expect("free");
        tokens.apply(&change, at_ms);
    }

    #[test]
    fn the_same_again_and_nothing_else() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.find(&token("a", "volume.create 1")), Ok(None));
        used(&mut tokens, "a", 5);
        assert_eq!(tokens.find(&token("a", "volume.create 1")).unwrap().unwrap().subject.as_deref(), Some("vol-1"));
        for other in ["volume.create 2", "snapshot.create 1"] {
            let error = tokens.find(&token("a", other)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IdempotentParameterMismatch);
            assert_eq!(error.problem().code, "IdempotentParameterMismatch");
        }
        assert_eq!(tokens.claim(&token("a", "volume.create 1"), None).unwrap_err().kind(), ErrorKind::IdempotentParameterMismatch);
        for bad in ["", "a b", "ä", &"t".repeat(65)] {
            assert_eq!(tokens.find(&token(bad, "x")).unwrap_err().kind(), ErrorKind::InvalidParameter);
        }
    }

    #[test]
    fn a_day_and_longer_while_there_are_few() {
        let mut tokens = Tokens::default();
        for n in 0..KEPT_ANYWAY as u64 {
            used(&mut tokens, &format!("t{n}"), n);
        }
        let remembers = |tokens: &Tokens, name: &str| tokens.find(&token(name, "volume.create 1")).unwrap().is_some();
        // One more, a day and a millisecond after the first: only the first is too old.
        used(&mut tokens, "late", KEPT_MS + 1);
        assert!(!remembers(&tokens, "t0") && remembers(&tokens, "t1") && remembers(&tokens, "late"));
        assert_eq!((tokens.used.len(), tokens.order.len()), (KEPT_ANYWAY, KEPT_ANYWAY));
        // Exactly a day old stays, whatever the number.
        used(&mut tokens, "later", KEPT_MS + 1);
        assert!(remembers(&tokens, "t1"));
        // A year later most are old, and few enough are kept anyway.
        used(&mut tokens, "much-later", 365 * KEPT_MS);
        assert_eq!(tokens.order.len(), KEPT_ANYWAY);
        let again: Tokens = serde_json::from_str(&serde_json::to_string(&tokens).unwrap()).unwrap();
        assert_eq!(again, tokens);
    }
}
