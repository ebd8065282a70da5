//! Options of a line in addition to its call: it is only decided (`dry_run`), or done once
//! (`token`).
//!
//! A call is served by one thread from its line to its answer, so this is kept by thread: every
//! decision of the call finds it, through whatever part of the engine it comes. Threads that serve
//! no call have none.

use headrace_control::{ClientToken, ErrorKind, Problem};
use std::cell::RefCell;

/// Options of a line in addition to its call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The token under which the call is done once.
    pub token: Option<ClientToken>,
    /// True if the call is only decided, not done.
    pub dry_run: bool,
}

thread_local! {
    static ENVELOPE: RefCell<Envelope> = RefCell::default();
}

/// Does `act` for a call with this envelope.
pub fn under<R>(envelope: Envelope, act: impl FnOnce() -> R) -> R {
    struct Cleared;
    impl Drop for Cleared {
        fn drop(&mut self) {
            ENVELOPE.take();
        }
    }
    let _cleared = Cleared;
    ENVELOPE.replace(envelope);
    act()
}

/// Returns the token of this thread's call, until it was written down.
pub(crate) fn token() -> Option<ClientToken> {
    ENVELOPE.with_borrow(|envelope| envelope.token.clone())
}

/// Forgets the token after a decision was written down with it: later decisions belong to the same
/// call.
pub(crate) fn forget_token() {
    ENVELOPE.with_borrow_mut(|envelope| envelope.token = None);
}

/// Takes the token away, and returns it, for a decision that the call does not ask for.
pub(crate) fn take_token() -> Option<ClientToken> {
    ENVELOPE.with_borrow_mut(|envelope| envelope.token.take())
}

/// Puts the token back.
pub(crate) fn restore_token(token: Option<ClientToken>) {
    ENVELOPE.with_borrow_mut(|envelope| envelope.token = token);
}

/// Returns true if this thread's call is only decided.
pub(crate) fn is_dry_run() -> bool {
    ENVELOPE.with_borrow(|envelope| envelope.dry_run)
}

/// Makes the answer to a call that was only decided and would have been done.
pub(crate) fn dry_run_passed() -> Problem {
    let (rule, source) = ("was a dry run: it would have been done", "docs/reference/lab-protocol.md");
    Problem::new(ErrorKind::DryRun, "dry_run", rule, source, "Call again without dry_run.")
}
