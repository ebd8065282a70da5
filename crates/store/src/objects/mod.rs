//! Objects under names: where snapshots lie. A folder (`file://`) or an S3 bucket (`s3://`).
//!
//! | URL | where |
//! |---|---|
//! | `file:///var/backups/lab` | a folder; an object is a file that appears whole and is on disk when `put` returns |
//! | `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1` | a bucket; `endpoint` for servers other than AWS |
//!
//! Every error says the URL, the operation, the object and what to do.

mod folder;
#[cfg(feature = "aws")]
pub(crate) mod s3;

pub(crate) use folder::{make_folder, sync_folder};

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The largest object, bytes. A manifest of a 16 TiB volume that is full has 0.6 GB.
pub const MOST_OBJECT_BYTES: u64 = 1 << 30;
/// The longest name, bytes. S3 allows 1,024; prefixes are added in front.
const MOST_NAME_BYTES: usize = 512;

/// One object as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Name of the object.
    pub name: String,
    /// Size of the object, bytes.
    pub bytes: u64,
}

/// Operations of a store of objects. Names have been checked.
pub trait Bucket: Send + Sync {
    /// Writes an object whole, or not at all. It is durable when this returns.
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()>;
    /// Reads an object, or a range of it: the bytes up to the end of the object, when it ends
    /// within the range.
    fn get(&self, name: &str, range: Option<Range<u64>>) -> io::Result<Vec<u8>>;
    /// Writes an object that need not be durable before [`Bucket::settle`]: the process may die,
    /// the machine may not. Calls `rest` now and then.
    fn put_lazily(&self, name: &str, data: &[u8], _rest: &dyn Fn()) -> io::Result<()> {
        self.put(name, data)
    }
    /// Objects that were put lazily are durable when this returns. Calls `rest` now and then.
    fn settle(&self, _names: &[String], _rest: &dyn Fn()) -> io::Result<()> {
        Ok(())
    }
    /// Returns true if an object may differ from the written bytes because the machine stopped
    /// before it was settled.
    fn is_lazy(&self) -> bool {
        false
    }
    /// Removes an object. One that does not exist counts as removed.
    fn delete(&self, name: &str) -> io::Result<()>;
    /// Lists all objects whose names begin with `prefix`, in order of name. A prefix ends with `/`.
    fn list(&self, prefix: &str) -> io::Result<Vec<Listed>>;
}

/// A store of objects. Cheap to clone; may be used by many threads.
#[derive(Clone)]
pub struct Objects {
    url: String,
    bucket: Arc<dyn Bucket>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Objects({})", self.url)
    }
}

impl Objects {
    /// Opens `file://` or `s3://`. Nothing is asked of an S3 server yet.
    pub fn open(url: &str) -> io::Result<Objects> {
        Objects::open_by(url, folder::Folder::open)
    }

    /// Opens the store of another lab, to read it: a folder must be there.
    pub fn open_existing(url: &str) -> io::Result<Objects> {
        Objects::open_by(url, folder::Folder::open_existing)
    }

    /// Opens the store of a URL; `folder` opens the path of a `file://` URL.
    fn open_by(url: &str, folder: impl FnOnce(&str) -> io::Result<folder::Folder>) -> io::Result<Objects> {
        let bucket: Arc<dyn Bucket> = match url.split_once("://") {
            Some(("file", path)) => Arc::new(folder(path).map_err(|error| explain(url, "open", "", &error))?),
            #[cfg(feature = "aws")]
            Some(("s3", rest)) => Arc::new(s3::S3::open(rest).map_err(|error| explain(url, "open", "", &error))?),
            #[cfg(not(feature = "aws"))]
            Some(("s3", _)) => return Err(explain(url, "open", "", &crate::without_aws())),
            _ => {
                let sentence = format!("{url}: not the URL of an object store. Write file:///FOLDER or s3://BUCKET/PREFIX");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
            }
        };
        Ok(Objects { url: url.to_string(), bucket })
    }

    /// Makes a store over a bucket of the caller's, under a name for its errors.
    pub fn over(url: &str, bucket: Arc<dyn Bucket>) -> Objects {
        Objects { url: url.to_string(), bucket }
    }

    /// Returns the URL of the store. It never has credentials in it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Writes an object whole, or not at all. It is durable when this returns.
    pub fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        self.put_by(name, data, |bucket| bucket.put(name, data))
    }

    /// Writes an object whole, or not at all. It is durable after [`Objects::settle`]. `rest` is
    /// called between parts of the work, to let others go first.
    pub fn put_lazily(&self, name: &str, data: &[u8], rest: &dyn Fn()) -> io::Result<()> {
        self.put_by(name, data, |bucket| bucket.put_lazily(name, data, rest))
    }

    /// Makes objects that were put lazily durable before it returns. `rest` is called between parts
    /// of the work.
    pub fn settle(&self, names: &[String], rest: &dyn Fn()) -> io::Result<()> {
        names.iter().try_for_each(|name| self.check("put", name))?;
        self.bucket.settle(names, rest).map_err(|error| explain(&self.url, "put", names.first().map_or("", String::as_str), &error))
    }

    /// Returns true if an object that was put lazily and not settled may be damaged.
    pub(crate) fn is_lazy(&self) -> bool {
        self.bucket.is_lazy()
    }

    /// Checks the name and the size of an object, and calls `put` with the bucket.
    fn put_by(&self, name: &str, data: &[u8], put: impl FnOnce(&dyn Bucket) -> io::Result<()>) -> io::Result<()> {
        self.check("put", name)?;
        if data.len() as u64 > MOST_OBJECT_BYTES {
            let error = io::Error::new(io::ErrorKind::InvalidInput, format!("{} bytes are more than an object may have ({MOST_OBJECT_BYTES})", data.len()));
            return Err(explain(&self.url, "put", name, &error));
        }
        put(&*self.bucket).map_err(|error| explain(&self.url, "put", name, &error))
    }

    /// Reads an object.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.check("get", name)?;
        self.bucket.get(name, None).map_err(|error| explain(&self.url, "get", name, &error))
    }

    /// Reads bytes `range` of an object: exactly as many as asked for, or it is an error.
    pub fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.check("get", name)?;
        let bytes = range.end.saturating_sub(range.start);
        let data = self.bucket.get(name, Some(range.clone())).map_err(|error| explain(&self.url, "get", name, &error))?;
        if data.len() as u64 != bytes {
            let sentence = format!("bytes {} to {} were asked for and {} came: the object was cut", range.start, range.end, data.len());
            return Err(explain(&self.url, "get", name, &io::Error::new(io::ErrorKind::InvalidData, sentence)));
        }
        Ok(data)
    }

    /// Reads the first bytes of an object: `most`, or all it has.
    pub fn get_front(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        self.check("get", name)?;
        self.bucket.get(name, Some(0..most)).map_err(|error| explain(&self.url, "get", name, &error))
    }

    /// Removes an object. One that does not exist counts as removed.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        self.check("delete", name)?;
        self.bucket.delete(name).map_err(|error| explain(&self.url, "delete", name, &error))
    }

    /// Lists all objects whose names begin with `prefix` (a folder: it ends with `/`), in order of
    /// name.
    pub fn list(&self, prefix: &str) -> io::Result<Vec<Listed>> {
        self.check("list", prefix.trim_end_matches('/'))?;
        let mut listed = self.bucket.list(prefix).map_err(|error| explain(&self.url, "list", prefix, &error))?;
        listed.sort();
        Ok(listed)
    }

    /// Checks the name of an object; the error names the operation.
    fn check(&self, operation: &str, name: &str) -> io::Result<()> {
        check_name(name).map_err(|error| explain(&self.url, operation, name, &error))
    }
}

/// Checks that a name is made of parts of letters, digits, `.`, `_` and `-` with `/` between them;
/// a part does not begin with a dot. Nothing else reaches a file system or a server.
fn check_name(name: &str) -> io::Result<()> {
    let good = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if name.len() <= MOST_NAME_BYTES && name.split('/').all(good) {
        return Ok(());
    }
    let sentence = format!("a name is parts of letters, digits, '.', '_' and '-' with '/' between them, at most {MOST_NAME_BYTES} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, sentence))
}

/// Checks that a name may be that of a snapshot: one part of an object's name.
pub(crate) fn check_part(name: &str) -> io::Result<()> {
    if check_name(name).is_ok() && !name.contains('/') {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a name for a snapshot: letters, digits, '.', '_' and '-' make one")))
}

/// Adds the URL, the operation, the object and advice to an error.
fn explain(url: &str, operation: &str, name: &str, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "Check that the store is the one the object was written to, and that nobody removed it",
        io::ErrorKind::PermissionDenied => "Check the owner and mode of the folder, or the credentials and the bucket's policy",
        io::ErrorKind::StorageFull => "Free space there, or delete snapshots, and try again",
        io::ErrorKind::InvalidInput => "Correct the name or the URL",
        io::ErrorKind::InvalidData => "Delete the snapshot it belongs to, and make it again",
        _ => "Check that the store can be reached, and try again",
    };
    let place = if name.is_empty() { String::new() } else { format!(" {name}") };
    io::Error::new(error.kind(), format!("{url}: {operation}{place}: {error}. {hint}"))
}
