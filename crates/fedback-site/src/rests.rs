//! What an answer rests on: rows, and how often each was drawn.
//!
//! A row has two names: one by what is read of it, so that two people with the same numbers count as
//! one, and one by whom it is about, which is the same when other columns are read.

use fedback_core::protocol::{Batch, Protocol};
use fedback_core::stream::Stream;
use sha2::{Digest, Sha256};

/// The name of a row: the beginning of its digest.
pub type RowName = u64;

/// Rows with their counts, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rests(Vec<(RowName, u32)>);

/// The name of a row by what is read of it, with its label.
pub fn name(features: &[f64], label: Option<f64>) -> RowName {
    let mut digest = Sha256::new();
    features.iter().chain(&label).for_each(|number| digest.update(number.to_le_bytes()));
    let digest = digest.finalize();
    u64::from_le_bytes(std::array::from_fn(|place| digest[place]))
}

impl Rests {
    /// Of rows in any order, each as often as it was drawn.
    pub fn new(rows: impl IntoIterator<Item = RowName>) -> Self {
        let mut rows: Vec<RowName> = rows.into_iter().collect();
        rows.sort_unstable();
        let counted = rows.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32));
        Rests(counted.collect())
    }

    /// Of the rows that each local step of a client's round takes: one entry where all steps take all.
    /// Steps have sizes of their own, so that their sums can be told apart in an update.
    pub fn of_round(rows: &[RowName], stream: Stream, protocol: &Protocol) -> Vec<Self> {
        match protocol.batch {
            Batch::All => vec![Rests::new(rows.iter().copied())],
            Batch::Sampled(size) => (0..protocol.local_steps)
                .map(|step| {
                    let draws = (step * size) as u64..((step + 1) * size) as u64;
                    Rests::new(draws.map(|draw| rows[stream.index(draw, rows.len())]))
                })
                .collect(),
        }
    }

    /// The different rows.
    pub fn rows(&self) -> impl Iterator<Item = RowName> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// How many different rows there are.
    pub fn distinct(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many rows count differently here and there: what the difference of two answers can
    /// rest on.
    pub fn differing(&self, other: &Rests) -> u64 {
        let (mut here, mut there) = (self.0.as_slice(), other.0.as_slice());
        let mut differing = 0;
        while let (Some(a), Some(b)) = (here.first(), there.first()) {
            differing += u64::from(a != b);
            if a.0 <= b.0 {
                here = &here[1..];
            }
            if b.0 <= a.0 {
                there = &there[1..];
            }
        }
        differing + here.len() as u64 + there.len() as u64
    }

    /// The bytes that a ledger keeps.
    pub fn bytes(&self) -> Vec<u8> {
        let each = |(name, count): &(RowName, u32)| {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&name.to_le_bytes());
            bytes[8..].copy_from_slice(&count.to_le_bytes());
            bytes
        };
        self.0.iter().flat_map(each).collect()
    }

    /// The same, read back.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (rows, rest) = bytes.as_chunks::<12>();
        let each = |row: &[u8; 12]| {
            let name = u64::from_le_bytes(std::array::from_fn(|place| row[place]));
            (name, u32::from_le_bytes(std::array::from_fn(|place| row[8 + place])))
        };
        let rows: Vec<(RowName, u32)> = rows.iter().map(each).collect();
        let sound = rest.is_empty() && rows.windows(2).all(|pair| pair[0].0 < pair[1].0);
        sound.then_some(Rests(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_compared() {
        let some = Rests::new([5, 2, 5, 9]);
        assert_eq!(some.distinct(), 3);
        assert_eq!(some.differing(&some), 0);
        // 5 twice and once; 9 is gone, 7 and 11 are new.
        assert_eq!(some.differing(&Rests::new([2, 5, 7, 11])), 4);
        assert_eq!(some.differing(&Rests::default()), 3);
        assert_eq!(Rests::from_bytes(&some.bytes()), Some(some.clone()));
        assert_eq!(Rests::from_bytes(&some.bytes()[1..]), None);
        let mut swapped = some.bytes();
        swapped.rotate_left(12);
        assert_eq!(Rests::from_bytes(&swapped), None);
    }

    #[test]
    fn a_row_is_named_by_what_is_in_it() {
        assert_eq!(name(&[1.0, 2.0], Some(0.0)), name(&[1.0, 2.0], Some(0.0)));
        assert_ne!(name(&[1.0, 2.0], Some(0.0)), name(&[1.0, 2.0], Some(1.0)));
        assert_ne!(name(&[1.0, 2.0], None), name(&[2.0, 1.0], None));
    }
}
