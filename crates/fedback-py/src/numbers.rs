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
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    })
}

/// Floating-point numbers from their bytes.
pub fn to_floats(bytes: &[u8]) -> PyResult<Vec<f64>> {
    unpack(bytes, f64::from_le_bytes)
}

/// Numbers from their bytes.
pub fn unpack<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> PyResult<Vec<T>> {
    match bytes.as_chunks::<N>() {
        (chunks, []) => Ok(chunks.iter().map(|chunk| number(*chunk)).collect()),
        _ => Err(InputError::new_err(format!(
            "found {} bytes; needed: a multiple of {N}",
            bytes.len()
        ))),
    }
}
