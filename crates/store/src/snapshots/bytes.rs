//! Numbers and texts in a row of bytes, little-endian, and the error when they end early.

use std::io;

/// Reads from the front of some bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

/// Makes the error of damage, said in words.
pub(crate) fn damaged(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, bytes: usize) -> io::Result<&'a [u8]> {
        let Some((front, rest)) = self.0.split_at_checked(bytes) else {
            return Err(damaged(format!("it ends {} bytes early", bytes - self.0.len())));
        };
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn digest(&mut self) -> io::Result<[u8; 16]> {
        self.array()
    }

    pub(crate) fn text(&mut self) -> io::Result<String> {
        let bytes = self.u32()? as usize;
        String::from_utf8(self.take(bytes)?.to_vec()).map_err(|_| damaged("a text in it is not UTF-8"))
    }
}

pub(crate) fn put_u32(into: &mut Vec<u8>, number: u32) {
    into.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u64(into: &mut Vec<u8>, number: u64) {
    into.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_text(into: &mut Vec<u8>, text: &str) {
    put_u32(into, text.len() as u32);
    into.extend_from_slice(text.as_bytes());
}

/// Puts `magic`, the length and the checksum of `body` in front of it.
pub(crate) fn framed(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(FRAME_BYTES + body.len());
    all.extend_from_slice(magic);
    put_u64(&mut all, body.len() as u64);
    put_u32(&mut all, crc32c::crc32c(body));
    all.extend_from_slice(body);
    all
}

/// Bytes in front of a framed body: magic, length, checksum.
pub(crate) const FRAME_BYTES: usize = 8 + 8 + 4;

/// Returns the size of a framed body with its frame, bytes, from its first bytes.
pub(crate) fn framed_bytes(magic: &[u8; 8], bytes: &[u8]) -> io::Result<u64> {
    let mut reader = Reader(bytes);
    if reader.take(8)? != magic {
        return Err(damaged(format!("it does not begin with {}: it is something else, or of another version", String::from_utf8_lossy(magic))));
    }
    reader.u64()?.checked_add(FRAME_BYTES as u64).ok_or_else(|| damaged("its length is damaged"))
}

/// Returns the body that [`framed`] was given, and what follows it. Fails when a bit of it is
/// wrong.
pub(crate) fn unframed<'a>(magic: &[u8; 8], bytes: &'a [u8]) -> io::Result<(&'a [u8], &'a [u8])> {
    let length = framed_bytes(magic, bytes)? - FRAME_BYTES as u64;
    let mut reader = Reader(&bytes[16..]);
    let written = reader.u32()?;
    let body = reader.take(usize::try_from(length).map_err(|_| damaged("its length is damaged"))?)?;
    let computed = crc32c::crc32c(body);
    if computed != written {
        return Err(damaged(format!("its checksum is {computed:08x} where {written:08x} was written: it is damaged")));
    }
    Ok((body, reader.0))
}
