//! Numbers on their way between Rust and NumPy: the bytes of little-endian arrays.
//!
//! `numpy.frombuffer` reads them in place. The crate `numpy` would do the same with types, but brings
//! features of `num-traits` along under which nalgebra asks the system's mathematics library.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::error::InputError;

/// The bytes of numbers.
pub fn pack<'py, const N: usize, T: Copy>(
    py: Python<'py>,
    numbers: impl IntoIterator<Item = T>,
    bytes: fn(T) -> [u8; N],
) -> Bound<'py, PyBytes> {
    let all: Vec<u8> = numbers.into_iter().flat_map(bytes).collect();
    PyBytes::new(py, &all)
}

/// The bytes of floating-point numbers.
pub fn floats<'py>(py: Python<'py>, numbers: impl IntoIterator<Item = f64>) -> Bound<'py, PyBytes> {
    pack(py, numbers, f64::to_le_bytes)
}

/// Floating-point numbers as an array of bytes that Python may write to.
pub fn array<'py>(py: Python<'py>, numbers: &[f64]) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, 8 * numbers.len(), |bytes| {
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(numbers).for_each(|(place, number)| *place = number.to_le_bytes());
        Ok(())
    })
}

/// Writes floating-point numbers from their bytes to where they belong.
pub fn fill(out: &mut [f64], bytes: &[u8]) -> PyResult<()> {
    let (chunks, []) = bytes.as_chunks::<8>() else { return Err(wrong_length(bytes, 8)) };
    if chunks.len() != out.len() {
        return Err(wrong_length(bytes, 8 * out.len()));
    }
    out.iter_mut().zip(chunks).for_each(|(out, chunk)| *out = f64::from_le_bytes(*chunk));
    Ok(())
}

fn wrong_length(bytes: &[u8], needed: usize) -> PyErr {
    let found = bytes.len();
    InputError::new_err(format!("found {found} bytes; needed: a multiple of {needed}"))
}

/// Floating-point numbers from their bytes.
pub fn to_floats(bytes: &[u8]) -> PyResult<Vec<f64>> {
    unpack(bytes, f64::from_le_bytes)
}

/// Numbers from their bytes.
pub fn unpack<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> PyResult<Vec<T>> {
    match bytes.as_chunks::<N>() {
        (chunks, []) => Ok(chunks.iter().map(|chunk| number(*chunk)).collect()),
        _ => Err(wrong_length(bytes, N)),
    }
}
