//! A key in KMS, at AWS or at a server that speaks its protocol: data keys travel there to be
//! wrapped and unwrapped. Requests are signed; credentials come from the environment or a file,
//! never from the command line, and are read anew for each request.

#[cfg(feature = "aws")]
use crate::objects::s3::{check_endpoint, Credentials};
use base64::prelude::{Engine as _, BASE64_STANDARD};
#[cfg(feature = "aws")]
use object_store::aws::{AwsAuthorizer, AwsCredential};
#[cfg(feature = "aws")]
use object_store::client::{HttpConnector, ReqwestConnector};
#[cfg(feature = "aws")]
use object_store::ClientOptions;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
#[cfg(feature = "aws")]
use std::time::Duration;
use zeroize::{Zeroize, Zeroizing};

/// Longest wait for an answer. A guess: KMS answers within some 10 ms; a volume waits for this
/// while it is opened.
#[cfg(feature = "aws")]
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer: KMS encrypts at most 4,096 bytes.
#[cfg(feature = "aws")]
const MOST_ANSWER: usize = 64 << 10;
/// Content type of the protocol (KMS API, awsJson 1.1).
#[cfg(feature = "aws")]
const CONTENT: &str = "application/x-amz-json-1.1";
#[cfg(feature = "aws")]
const TARGET: &str = "TrentService";

/// Address of a key in KMS elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteKey {
    /// https://HOST, or http:// to this machine.
    pub endpoint: String,
    /// Region that requests are signed for.
    pub region: String,
    /// Id, ARN or alias of the key there.
    pub key: String,
    /// Profile of the credentials; None for those of the environment.
    #[serde(default)]
    pub profile: Option<String>,
}

/// Error of a call to KMS elsewhere.
#[derive(Debug)]
pub enum RemoteError {
    /// KMS refused: its code and its sentence.
    Refused(String, String),
    /// KMS was not reached, or its answer was not understood.
    Away(io::Error),
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Refused(code, message) => write!(f, "{code}: {message}"),
            RemoteError::Away(error) => error.fmt(f),
        }
    }
}

fn away_error(sentence: impl Into<String>) -> RemoteError {
    RemoteError::Away(io::Error::other(sentence.into()))
}

impl RemoteKey {
    /// Encrypts under the key.
    ///
    /// # Errors
    /// KMS refuses, or does not answer.
    pub fn encrypt(&self, plaintext: &[u8], context: &BTreeMap<String, String>) -> Result<Vec<u8>, RemoteError> {
        let text = Zeroizing::new(BASE64_STANDARD.encode(plaintext));
        let body = json!({"KeyId": self.key, "Plaintext": text.as_str(), "EncryptionContext": context});
        let answer = self.call("Encrypt", body)?;
        let sealed = answer["CiphertextBlob"].as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
        sealed.ok_or_else(|| away_error("it answered no CiphertextBlob"))
    }

    /// Decrypts a text that was encrypted under the key.
    ///
    /// # Errors
    /// KMS refuses, or does not answer.
    pub fn decrypt(&self, sealed: &[u8], context: &BTreeMap<String, String>) -> Result<Zeroizing<Vec<u8>>, RemoteError> {
        let body = json!({"KeyId": self.key, "CiphertextBlob": BASE64_STANDARD.encode(sealed), "EncryptionContext": context});
        let mut answer = self.call("Decrypt", body)?;
        let text = match answer["Plaintext"].take() {
            Value::String(text) => Zeroizing::new(text),
            _ => return Err(away_error("it answered no Plaintext")),
        };
        BASE64_STANDARD.decode(text.as_bytes()).map(Zeroizing::new).map_err(|_| away_error("its Plaintext is not base64"))
    }

    /// Calls an operation of KMS and returns its answer as JSON. The request, which may hold a key,
    /// is overwritten in memory.
    fn call(&self, operation: &str, body: Value) -> Result<Value, RemoteError> {
        let mut text = body.to_string();
        wipe(body);
        let answered = self.send(operation, text.as_bytes());
        text.zeroize();
        let (status, bytes) = answered.map_err(RemoteError::Away)?;
        let answer: Value = serde_json::from_slice(&bytes).map_err(|_| away_error(format!("it answered with status {status}, and not as KMS does")))?;
        if status == 200 {
            return Ok(answer);
        }
        // com.amazonaws.kms#DisabledException, or the name alone.
        let code = answer["__type"].as_str().unwrap_or("unknown").rsplit('#').next().unwrap_or_default().to_string();
        let message = answer["message"].as_str().or(answer["Message"].as_str()).unwrap_or_default().to_string();
        Err(RemoteError::Refused(code, message))
    }

    #[cfg(not(feature = "aws"))]
    fn send(&self, _operation: &str, _body: &[u8]) -> io::Result<(u16, Zeroizing<Vec<u8>>)> {
        Err(crate::without_aws())
    }

    /// Signs a request and sends it; returns the HTTP status and the body of the answer.
    #[cfg(feature = "aws")]
    fn send(&self, operation: &str, body: &[u8]) -> io::Result<(u16, Zeroizing<Vec<u8>>)> {
        let allow_http = check_endpoint(&self.endpoint)?;
        let credentials = Credentials::find(self.profile.as_deref())?;
        let sentence = "no credentials for KMS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE";
        let credentials = credentials.ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, sentence))?;
        let credential = AwsCredential { key_id: credentials.id, secret_key: credentials.secret, token: credentials.token };
        let mut request = http::Request::post(format!("{}/", self.endpoint.trim_end_matches('/')))
            .header("content-type", CONTENT)
            .header("x-amz-target", format!("{TARGET}.{operation}"))
            .body(body.to_vec().into())
            .map_err(io::Error::other)?;
        AwsAuthorizer::new(&credential, "kms", &self.region).try_authorize(&mut request, None).map_err(io::Error::other)?;
        // An error says that this process has one already: it is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ClientOptions::new().with_timeout(PATIENCE).with_connect_timeout(PATIENCE).with_allow_http(allow_http);
        let client = ReqwestConnector::default().connect(&options).map_err(io::Error::other)?;
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            let answer = client.execute(request).await.map_err(io::Error::other)?;
            let status = answer.status().as_u16();
            let bytes = answer.into_body().bytes().await.map_err(io::Error::other)?;
            if bytes.len() > MOST_ANSWER {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it answered more than KMS does"));
            }
            Ok((status, Zeroizing::new(bytes.to_vec())))
        })
    }
}

/// Overwrites the texts of a request, one of which is a key.
fn wipe(body: Value) {
    if let Value::Object(parts) = body {
        parts.into_iter().for_each(|(_, value)| {
            if let Value::String(mut text) = value {
                text.zeroize();
            }
        });
    }
}
