//! What is written on the socket, and to the site's own program: a header in JSON, then arrays as raw little-endian bytes.
//!
//! `u32` length of the header, the header, the arrays' bytes one after the other. The header lists
//! the arrays with their shapes, so that a reader knows the size of all before it reads any.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest header.
const HEADER: u32 = 1 << 20;

/// A message between Flower's process and the site's, or between the site's and its program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Texts and counts by name.
    pub fields: Map<String, Value>,
    /// Arrays by name.
    pub arrays: BTreeMap<String, Array>,
}

/// Numbers of eight or four bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// `<f8`, `<u8` or `<u4`.
    pub dtype: String,
    /// Lengths of the axes.
    pub shape: Vec<u64>,
    /// The numbers.
    pub bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    fields: Map<String, Value>,
    arrays: Vec<(String, String, Vec<u64>)>,
}

fn wrong(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Numbers as they are written and hashed.
pub(crate) fn bytes_of<'a>(numbers: impl IntoIterator<Item = &'a f64>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn width(dtype: &str) -> Option<u64> {
    match dtype {
        "<f8" | "<u8" => Some(8),
        "<u4" => Some(4),
        _ => None,
    }
}

impl Frame {
    /// Reads a frame of at most so many bytes; nothing where the other side has hung up.
    pub fn read(from: &mut impl Read, most: u64) -> io::Result<Option<Self>> {
        let mut length = [0; 4];
        match from.read(&mut length[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut length[1..])?,
        }
        let length = u32::from_le_bytes(length);
        if length > HEADER || u64::from(length) > most {
            return Err(wrong(format!("a header of {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        from.read_exact(&mut header)?;
        let header: Header =
            serde_json::from_slice(&header).map_err(|_| wrong("a header that is no header"))?;
        let mut left = most - u64::from(length);
        let mut sizes = Vec::new();
        for (_, dtype, shape) in &header.arrays {
            let width = width(dtype).ok_or_else(|| wrong("an array of unknown type"))?;
            let size = shape.iter().try_fold(width, |size, axis| size.checked_mul(*axis));
            let size = size.filter(|size| *size <= left);
            let size = size.ok_or_else(|| wrong(format!("more than {most} bytes")))?;
            left -= size;
            sizes.push(size);
        }
        let mut arrays = BTreeMap::new();
        for ((name, dtype, shape), size) in header.arrays.into_iter().zip(sizes) {
            let mut bytes = vec![0; size as usize];
            from.read_exact(&mut bytes)?;
            if arrays.insert(name.clone(), Array { dtype, shape, bytes }).is_some() {
                return Err(wrong("two arrays of one name"));
            }
        }
        Ok(Some(Frame { fields: header.fields, arrays }))
    }

    /// Writes a frame.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let arrays = self.arrays.iter();
        let arrays = arrays.map(|(name, a)| (name.clone(), a.dtype.clone(), a.shape.clone()));
        let header = Header { fields: self.fields.clone(), arrays: arrays.collect() };
        let header = serde_json::to_vec(&header).map_err(io::Error::other)?;
        to.write_all(&(header.len() as u32).to_le_bytes())?;
        to.write_all(&header)?;
        self.arrays.values().try_for_each(|array| to.write_all(&array.bytes))?;
        to.flush()
    }
}

impl Array {
    /// Of numbers with so many columns.
    pub fn floats(numbers: &[f64], columns: usize) -> Self {
        let rows = numbers.len().checked_div(columns).unwrap_or(0) as u64;
        Array { dtype: "<f8".into(), shape: vec![rows, columns as u64], bytes: bytes_of(numbers) }
    }

    /// Of one axis.
    pub fn of_u32(numbers: &[u32]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Array { dtype: "<u4".into(), shape: vec![numbers.len() as u64], bytes }
    }

    /// Of one axis.
    pub fn of_u64(numbers: &[u64]) -> Self {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Array { dtype: "<u8".into(), shape: vec![numbers.len() as u64], bytes }
    }

    /// Numbers in two axes, and how many columns they have.
    pub fn to_floats(&self) -> Option<(Vec<f64>, usize)> {
        let [_, columns] = self.shape[..] else { return None };
        let chunks = (self.dtype == "<f8").then(|| self.bytes.as_chunks::<8>().0)?;
        let columns = usize::try_from(columns).ok()?;
        Some((chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(), columns))
    }

    /// Numbers of this very shape.
    pub fn numbers(&self, shape: &[u64]) -> Option<Vec<f64>> {
        let fits = self.dtype == "<f8" && self.shape == shape;
        let chunks = fits.then(|| self.bytes.as_chunks::<8>().0)?;
        Some(chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    /// Numbers in one axis.
    pub fn to_u32(&self) -> Option<Vec<u32>> {
        let fits = self.dtype == "<u4" && self.shape.len() == 1;
        let chunks = fits.then(|| self.bytes.as_chunks::<4>().0)?;
        Some(chunks.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    /// Numbers in one axis.
    pub fn to_u64(&self) -> Option<Vec<u64>> {
        let fits = self.dtype == "<u8" && self.shape.len() == 1;
        let chunks = fits.then(|| self.bytes.as_chunks::<8>().0)?;
        Some(chunks.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }
}
