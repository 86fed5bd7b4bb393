//! A recorded run as arrays: a `.npz` file, which `numpy.load` reads without pickle. That is a zip
//! archive of `.npy` files, each a line of Python that says what the numbers after it are.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::error::Error;
use crate::outcome::Outcome;
use crate::recorded::RecordedRun;

/// Its final models and curve:
///
/// | array | shape | |
/// |---|---|---|
/// | `theta` | repetitions × d | the last θ, NaN where a repetition failed |
/// | `coordinates` | d | the names of θ's coordinates, where they have any |
/// | `rounds` | records | rounds closed |
/// | each measurement, by its name | records × repetitions | |
pub fn of(run: &RecordedRun, outcome: &Outcome) -> Result<Vec<u8>, Error> {
    archive(run, outcome)
        .map_err(|error| Error::Failed(format!("arrays cannot be packed: {error}")))
}

fn archive(run: &RecordedRun, outcome: &Outcome) -> zip::result::ZipResult<Vec<u8>> {
    let (dim, repetitions) = (outcome.dim, outcome.repetitions as usize);
    let mut file = ZipWriter::new(Cursor::new(Vec::new()));
    let mut put = |name: &str, kind: &str, shape: &[usize], numbers: Vec<u8>| {
        // The same run is the same bytes: the zip format's first second, and no compression.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(zip::DateTime::default())
            .large_file(numbers.len() > u32::MAX as usize / 2);
        file.start_file(format!("{name}.npy"), options)?;
        file.write_all(&header(kind, shape))?;
        file.write_all(&numbers).map_err(zip::result::ZipError::from)
    };
    let failed = vec![f64::NAN; dim];
    let theta = outcome.final_theta().iter().flat_map(|theta| theta.as_ref().unwrap_or(&failed));
    put("theta", "<f8", &[repetitions, dim], theta.flat_map(|x| x.to_le_bytes()).collect())?;
    if let Some(names) = &outcome.coordinates {
        let length = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(1);
        put("coordinates", &format!("<U{length}"), &[names.len()], text(names, length))?;
    }
    let records = &run.stored.records;
    let rounds = records.iter().flat_map(|record| (record.round as i64).to_le_bytes());
    put("rounds", "<i8", &[records.len()], rounds.collect())?;
    for (column, name) in outcome.keys().iter().enumerate() {
        let of = |values: &[f64]| values[column * repetitions..][..repetitions].to_vec();
        let values = records.iter().flat_map(|record| of(&record.values));
        let values = values.flat_map(f64::to_le_bytes).collect();
        put(name, "<f8", &[records.len(), repetitions], values)?;
    }
    Ok(file.finish()?.into_inner())
}

/// What stands before the numbers of an array, filled up so that they begin at a multiple of 64.
fn header(kind: &str, shape: &[usize]) -> Vec<u8> {
    let shape: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let words = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let magic = b"\x93NUMPY\x01\x00";
    let length = (magic.len() + 2 + words.len() + 1).next_multiple_of(64) - magic.len() - 2;
    let mut bytes = magic.to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{words:<0$}\n", length - 1).into_bytes());
    bytes
}

/// Texts as NumPy has them: four bytes a character, all of one length.
fn text(names: &[String], length: usize) -> Vec<u8> {
    let padded = |name: &String| -> Vec<char> {
        name.chars().chain(std::iter::repeat('\0')).take(length).collect()
    };
    names.iter().flat_map(padded).flat_map(|c| (c as u32).to_le_bytes()).collect()
}
