//! Objects in an S3 bucket, by the crate `object_store`. Retries are bounded; credentials come from
//! the environment or a file, never from the URL or the command line.

use super::{Bucket, Listed, MOST_OBJECT_BYTES};
use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Tries after the first. With the waits below the last one comes about 8 s later. A guess: longer
/// and a guest's read of a cold block looks like a hang.
const RETRIES: usize = 5;
/// The first wait between tries, doubled each time, and the longest. Guesses.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// No try begins later than this after the first. A guess.
const RETRY_WITHIN: Duration = Duration::from_secs(30);
/// One request. A segment of 16 MiB over a line of 2 Mbit/s takes 67 s; doubled.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(135);
/// A server that does not take the connection by then is not there. A guess.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct S3 {
    store: AmazonS3,
    prefix: String,
    runtime: Runtime,
}

impl S3 {
    /// Opens the bucket of a URL; `rest` is what follows `s3://`. Nothing is asked of the server
    /// yet.
    pub(super) fn open(rest: &str) -> io::Result<S3> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() {
            return Err(invalid("the URL names no bucket: s3://BUCKET/PREFIX"));
        }
        if !prefix.is_empty() {
            super::check_name(prefix)?;
        }
        let options = parse_options(query)?;
        let region = options.get("region").cloned().or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
        let mut builder =
            AmazonS3Builder::new().with_bucket_name(bucket).with_region(region.unwrap_or_else(|| "us-east-1".to_string())).with_retry(RetryConfig {
                backoff: BackoffConfig { init_backoff: FIRST_WAIT, max_backoff: LONGEST_WAIT, base: 2.0 },
                max_retries: RETRIES,
                retry_timeout: RETRY_WITHIN,
            });
        let mut client = ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT);
        if let Some(endpoint) = options.get("endpoint") {
            client = client.with_allow_http(check_endpoint(endpoint)?);
            builder = builder.with_endpoint(endpoint);
        }
        match Credentials::find(None)? {
            Some(credentials) => {
                builder = builder.with_access_key_id(credentials.id).with_secret_access_key(credentials.secret);
                if let Some(token) = credentials.token {
                    builder = builder.with_token(token);
                }
            }
            None if options.contains_key("endpoint") => {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE",
                ));
            }
            // On an EC2 instance: its role.
            None => {}
        }
        // An error says that this process has one already: it is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = builder.with_client_options(client).build().map_err(|error| invalid(&error.to_string()))?;
        // One thread drives all requests while others wait for theirs.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(S3 { store, prefix: prefix.to_string(), runtime })
    }

    fn path(&self, name: &str) -> Path {
        let name = name.trim_end_matches('/');
        Path::from(if self.prefix.is_empty() { name.to_string() } else { format!("{}/{name}", self.prefix) })
    }
}

impl Bucket for S3 {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        self.runtime.block_on(self.store.put(&self.path(name), data.to_vec().into())).map(drop).map_err(convert_error)
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        self.runtime.block_on(async {
            let object = self.store.get_opts(&self.path(name), options).await.map_err(convert_error)?;
            let bytes = object.range.end - object.range.start;
            if bytes > MOST_OBJECT_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has {bytes} bytes; the largest object has {MOST_OBJECT_BYTES}")));
            }
            object.bytes().await.map(Vec::from).map_err(convert_error)
        })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match self.runtime.block_on(self.store.delete(&self.path(name))) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            done => done.map_err(convert_error),
        }
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        let path = self.path(prefix);
        let objects: Vec<_> = self.runtime.block_on(self.store.list(Some(&path)).try_collect()).map_err(convert_error)?;
        let skipped = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        let listed = objects.into_iter().filter_map(|meta| Some(Listed { name: meta.location.as_ref().get(skipped..)?.to_string(), bytes: meta.size }));
        Ok(listed.collect())
    }
}

fn invalid(sentence: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, sentence)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Converts an error of the S3 client, with the kind that callers look at.
fn convert_error(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}

/// Reads `endpoint` and `region` from the query of a URL; refuses any other key.
fn parse_options(query: &str) -> io::Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key @ ("endpoint" | "region"), value)) if !value.is_empty() => options.insert(key.to_string(), value.to_string()),
            _ => return Err(invalid("after '?' come endpoint=URL and region=NAME, with '&' between them")),
        };
    }
    Ok(options)
}

/// Returns true if HTTP without TLS must be allowed, which it is only to this machine.
pub(crate) fn check_endpoint(endpoint: &str) -> io::Result<bool> {
    if endpoint.starts_with("https://") {
        return Ok(false);
    }
    let authority = endpoint.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or(""));
    let host = authority.map(|authority| match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    });
    let loopback = host.is_some_and(|host| host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()));
    if loopback {
        return Ok(true);
    }
    Err(invalid("an endpoint is https://HOST; http:// is for a server on this machine (127.0.0.1, localhost)"))
}

/// A key pair, and the token of a session where it has one.
pub(crate) struct Credentials {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl Credentials {
    /// Finds the credentials of the environment or of a profile in a file; those of a named profile
    /// always come from the file.
    pub(crate) fn find(profile: Option<&str>) -> io::Result<Option<Credentials>> {
        if let (None, Some(id), Some(secret)) = (profile, variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            return Ok(Some(Credentials { id, secret, token: variable("AWS_SESSION_TOKEN") }));
        }
        let usual = || variable("HOME").filter(|_| profile.is_some()).map(|home| PathBuf::from(home).join(".aws/credentials"));
        let Some(path) = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from).or_else(usual) else { return Ok(None) };
        let text = std::fs::read_to_string(&path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        if std::fs::metadata(&path)?.mode() & 0o077 != 0 {
            let sentence = format!("{} can be read by others than its owner: chmod 600 it", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence));
        }
        let profile = profile.map(str::to_string).or_else(|| variable("AWS_PROFILE")).unwrap_or_else(|| "default".to_string());
        match Credentials::parse_profile(&text, &profile) {
            Some(credentials) => Ok(Some(credentials)),
            None => Err(invalid(&format!("{} has no profile {profile} with aws_access_key_id and aws_secret_access_key", path.display()))),
        }
    }

    /// Reads the credentials of a profile from the text of a credentials file; None if key or
    /// secret is missing.
    fn parse_profile(text: &str, profile: &str) -> Option<Credentials> {
        let mut values = BTreeMap::new();
        let mut is_in_profile = false;
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                is_in_profile = name.trim() == profile;
            } else if let Some((key, value)) = line.split_once('=').filter(|_| is_in_profile) {
                values.insert(key.trim(), value.trim().to_string());
            }
        }
        let (id, secret) = (values.remove("aws_access_key_id")?, values.remove("aws_secret_access_key")?);
        Some(Credentials { id, secret, token: values.remove("aws_session_token") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_for_this_machine_alone() {
        for endpoint in ["http://127.0.0.1:9000", "http://localhost:1", "http://[::1]:9000/"] {
            assert!(check_endpoint(endpoint).unwrap(), "{endpoint}");
        }
        assert!(!check_endpoint("https://s3.example.org").unwrap());
        for endpoint in ["http://10.0.0.1:9000", "http://127.0.0.1.example.org", "http://localhost@example.org", "ftp://localhost", "localhost:9000", "http://"]
        {
            check_endpoint(endpoint).expect_err(endpoint);
        }
    }

    #[test]
    fn a_profile_is_found_among_others() {
        let text = "[a]\naws_access_key_id = 1\naws_secret_access_key=2\n# [b]\n[b]\naws_access_key_id=3\naws_secret_access_key = x=4\naws_session_token=5\n";
        let credentials = Credentials::parse_profile(text, "b").unwrap();
        assert_eq!((credentials.id.as_str(), credentials.secret.as_str(), credentials.token.as_deref()), ("3", "x=4", Some("5")));
        assert!(Credentials::parse_profile(text, "c").is_none());
        assert!(Credentials::parse_profile("[c]\naws_access_key_id=1", "c").is_none(), "half a profile");
    }

    #[test]
    fn a_url_that_is_wrong_is_refused_in_words() {
        for rest in ["", "/prefix", "bucket/../x", "bucket?endpoint=http://example.org", "bucket?key=secret", "bucket/a b"] {
            assert!(S3::open(rest).is_err(), "{rest}");
        }
    }
}
