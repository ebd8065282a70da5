//! Lines of text in two files of bounded size: when the newer one is full, it takes the place of
//! the older one.
//!
//! Lines are written at once and not forced to disk: a `kill -9` of the daemon loses none, a power
//! cut may lose or tear the newest. An incomplete line is left out when they are read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A log of lines.
pub struct LineLog {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    most_bytes: u64,
}

impl LineLog {
    /// Opens a log whose two files have `most_bytes` each, and returns its lines, oldest first.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn open(path: &Path, most_bytes: u64) -> io::Result<(LineLog, Vec<String>)> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        for file in [older(path), path.to_path_buf()] {
            let content = match fs::read(&file) {
                Ok(content) => content,
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            };
            // A line without its end was torn.
            let whole = content.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            lines.extend(String::from_utf8_lossy(&content[..whole]).lines().map(ToString::to_string));
            bytes = content.len() as u64;
            if whole < content.len() && file == path {
                OpenOptions::new().write(true).open(&file)?.set_len(whole as u64)?;
                bytes = whole as u64;
            }
        }
        Ok((LineLog { path: path.to_path_buf(), file: None, bytes, most_bytes }, lines))
    }

    /// Adds a line, which has no end of line in it.
    ///
    /// # Errors
    /// It could not be written; the log is as before, but for a torn line at worst.
    pub fn append(&mut self, line: &str) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 + 1 > self.most_bytes {
            self.file = None;
            fs::rename(&self.path, older(&self.path))?;
            self.bytes = 0;
        }
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?);
        }
        let file = self.file.as_mut().expect("just opened");
        let written = file.write_all(format!("{line}\n").as_bytes());
        match written {
            Ok(()) => {
                self.bytes += line.len() as u64 + 1;
                Ok(())
            }
            Err(error) => {
                // Half a line must not become the beginning of the next.
                let _ = file.set_len(self.bytes);
                Err(error)
            }
        }
    }
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".old");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_a_torn_one_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut log, lines) = LineLog::open(&path, 50).unwrap();
        assert!(lines.is_empty());
        for number in 0..100 {
            log.append(&format!("line {number}")).unwrap();
        }
        drop(log);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn").unwrap();
        let (mut log, lines) = LineLog::open(&path, 50).unwrap();
        // "line 90" and its end are 8 bytes: 6 lines a file.
        assert_eq!(lines.last().map(String::as_str), Some("line 99"));
        assert!((7..=12).contains(&lines.len()), "{lines:?}");
        assert!(fs::metadata(&path).unwrap().len() <= 50 && fs::metadata(older(&path)).unwrap().len() <= 50);
        log.append("next").unwrap();
        assert_eq!(LineLog::open(&path, 50).unwrap().1.last().map(String::as_str), Some("next"));
    }
}
