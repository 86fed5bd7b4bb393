//! Numbers as little-endian blobs, and the checksums of rows.

use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Error, Row};

/// Bytes per 64-bit number.
pub(super) const WORD: usize = 8;

/// The words of `numbers`, as `to_bytes` writes each (`f64::to_le_bytes`, `u32::to_le_bytes`).
pub(super) fn encode<T: Copy, const SIZE: usize>(
    numbers: impl IntoIterator<Item = T>,
    count: usize,
    to_bytes: fn(T) -> [u8; SIZE],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * SIZE);
    for number in numbers {
        bytes.extend_from_slice(&to_bytes(number));
    }
    bytes
}

/// The numbers in `bytes`; a rest shorter than a word is left out.
pub(super) fn decode<T, const SIZE: usize>(
    bytes: &[u8],
    from_bytes: fn([u8; SIZE]) -> T,
) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&word| from_bytes(word)).collect()
}

/// The numbers in a blob column, which must be whole words.
pub(super) fn column<T, const SIZE: usize>(
    row: &Row<'_>,
    index: usize,
    from_bytes: fn([u8; SIZE]) -> T,
) -> rusqlite::Result<Vec<T>> {
    let bytes = row.get_ref(index)?.as_blob()?;
    check(index, bytes, bytes.len().next_multiple_of(SIZE))?;
    Ok(decode(bytes, from_bytes))
}

/// The bytes of a blob column, which must be `length` long.
pub(super) fn bytes<'r>(
    row: &'r Row<'_>,
    index: usize,
    length: usize,
) -> rusqlite::Result<&'r [u8]> {
    let bytes = row.get_ref(index)?.as_blob()?;
    check(index, bytes, length)?;
    Ok(bytes)
}

fn check(index: usize, bytes: &[u8], expected_size: usize) -> rusqlite::Result<()> {
    if bytes.len() == expected_size {
        return Ok(());
    }
    let mismatch = FromSqlError::InvalidBlobSize { expected_size, blob_size: bytes.len() };
    Err(Error::FromSqlConversionFailure(index, Type::Blob, Box::new(mismatch)))
}

/// The CRC-32 of a row, its keys included, so that a row in the wrong place is noticed too.
#[derive(Default)]
pub(super) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Takes in whole numbers.
    pub(super) fn numbers(mut self, numbers: &[u64]) -> Self {
        numbers.iter().for_each(|number| self.0.update(&number.to_le_bytes()));
        self
    }

    /// Takes in some bytes and how many they are.
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self = self.numbers(&[bytes.len() as u64]);
        self.0.update(bytes);
        self
    }

    pub(super) fn finish(self) -> i64 {
        i64::from(self.0.finalize())
    }
}
