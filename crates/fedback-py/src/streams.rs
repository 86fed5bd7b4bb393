//! The random streams of a block of clients, for Python functions that draw for all of them at once.

use std::sync::atomic::{AtomicU64, Ordering};

use fedback_core::normal::{self, Ziggurat};
use fedback_core::stream::Stream;
use fedback_engine::plain::Member;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::numbers::pack;

/// One stream a client; a draw takes the same number of words of each.
#[pyclass(frozen)]
pub struct Streams {
    streams: Vec<Stream>,
    next: AtomicU64,
}

impl Streams {
    /// Those of a block's members.
    pub fn new(members: &[Member]) -> Self {
        let stream = |member: &Member| member.streams.client(member.client.0);
        Streams { streams: members.iter().map(stream).collect(), next: AtomicU64::new(0) }
    }

    /// So many numbers of every stream, made of its next words.
    fn draw<'py, T>(
        &self,
        py: Python<'py>,
        each: usize,
        number: impl Fn(Stream, u64) -> T,
        bytes: fn(T) -> [u8; 8],
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let length = each.checked_mul(8).and_then(|each| each.checked_mul(self.streams.len()));
        let length = length.filter(|length| *length <= isize::MAX as usize);
        let length = length.ok_or_else(|| PyMemoryError::new_err("too many numbers to draw"))?;
        let first = self.next.fetch_add(each as u64, Ordering::Relaxed);
        PyByteArray::new_with(py, length, |all| {
            if each > 0 {
                for (stream, own) in self.streams.iter().zip(all.chunks_exact_mut(8 * each)) {
                    for (n, place) in (first..).zip(own.chunks_exact_mut(8)) {
                        place.copy_from_slice(&bytes(number(*stream, n)));
                    }
                }
            }
            Ok(())
        })
    }
}

#[pymethods]
impl Streams {
    fn __len__(&self) -> usize {
        self.streams.len()
    }

    /// Standard normal variates.
    fn normals<'py>(&self, py: Python<'py>, each: usize) -> PyResult<Bound<'py, PyByteArray>> {
        let table: &Ziggurat = normal::ziggurat();
        self.draw(py, each, |stream, n| stream.normal(table, n), f64::to_le_bytes)
    }

    /// Numbers in [0, 1).
    fn uniforms<'py>(&self, py: Python<'py>, each: usize) -> PyResult<Bound<'py, PyByteArray>> {
        self.draw(py, each, Stream::uniform, f64::to_le_bytes)
    }

    /// Integers below a number.
    fn integers<'py>(
        &self,
        py: Python<'py>,
        high: usize,
        each: usize,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        self.draw(py, each, |stream, n| stream.index(n, high) as u64, u64::to_le_bytes)
    }

    /// Words.
    fn words<'py>(&self, py: Python<'py>, each: usize) -> PyResult<Bound<'py, PyByteArray>> {
        self.draw(py, each, Stream::word, u64::to_le_bytes)
    }

    /// The two words that begin every stream: keys of generators.
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let keys = self.streams.iter().flat_map(|stream| [stream.word(0), stream.word(1)]);
        pack(py, keys, u64::to_le_bytes)
    }
}
