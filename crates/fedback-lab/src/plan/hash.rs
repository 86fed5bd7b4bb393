//! The name of everything that decides the bits of a run.

use fedback_core::stream::STREAM_FORMAT;
use fedback_engine::ARITHMETIC_FORMAT;
use sha2::{Digest, Sha256};

use super::Outline;
use crate::spec::Spec;

pub(super) fn hash(spec: &Spec, files: &[Vec<u8>; 2]) -> String {
    hash_with(spec, &ARITHMETIC_FORMAT.to_le_bytes(), files)
}

/// The hash, with what names the arithmetic.
fn hash_with(spec: &Spec, arithmetic: &[u8], files: &[Vec<u8>; 2]) -> String {
    let mut digest = Sha256::new();
    // Resamples of a response and doubts decide no bit of a run.
    let mut spec = spec.clone();
    spec.doubts.clear();
    spec.problem.response = spec.problem.response.without_resamples();
    let (formats, files) = (STREAM_FORMAT.to_le_bytes(), files.concat());
    for part in [spec.canonical().as_bytes(), &formats, arithmetic, &files] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Outline {
    /// The SHA-256 of every file that the spec names, in hexadecimal.
    pub fn data(&self) -> Vec<String> {
        self.files.concat().chunks(32).map(hex).collect()
    }

    /// The hash under which runs were recorded before stores kept [`Facts`](crate::facts::Facts):
    /// a version of fedback stood for its arithmetic.
    pub(crate) fn hash_of_version(&self, version: &str) -> String {
        hash_with(&self.spec, version.as_bytes(), &self.files)
    }
}
