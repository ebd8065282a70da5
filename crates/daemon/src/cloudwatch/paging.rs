//! Tokens that say where an answer ended: opaque, and good after something was deleted.

use headrace_cloudwatch::{Code, Refusal};

/// Returns the token of a place.
pub fn token(place: &str) -> String {
    place.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the place from a token.
///
/// # Errors
/// It is not a token of [`token`].
pub fn parse_place(token: &str) -> Result<String, Refusal> {
    let wrong = || Refusal::new(Code::InvalidNextToken, token, "The value for NextToken is not one of an earlier answer.");
    if !token.is_ascii() || token.len() % 2 != 0 || token.is_empty() {
        return Err(wrong());
    }
    let bytes: Result<Vec<u8>, _> = (0..token.len()).step_by(2).map(|at| u8::from_str_radix(&token[at..at + 2], 16)).collect();
    String::from_utf8(bytes.map_err(|_| wrong())?).map_err(|_| wrong())
}
