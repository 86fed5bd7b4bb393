//! Streams side by side: the words and variates of eight [`Stream`]s at once, bit for bit those
//! that each would give alone.

use crate::normal::Ziggurat;
use crate::simd::{LANES, Lanes, Path};
use crate::stream::{GOLDEN, Key, Stream};

/// Eight streams, each read at an index of its own.
#[derive(Clone, Copy, Debug)]
pub struct StreamLanes {
    /// The streams' positions at these indices.
    position: Lanes<u64>,
    tweak: Lanes<u64>,
}

impl StreamLanes {
    /// The streams of eight keys, at these indices.
    #[inline(always)]
    pub fn new(keys: &Lanes<Key>, indices: &Lanes<u64>) -> Self {
        let (mut position, mut tweak) = ([0; LANES], [0; LANES]);
        for l in 0..LANES {
            let stream = keys[l].stream();
            (position[l], tweak[l]) = (stream.position, stream.tweak);
        }
        StreamLanes::at(position, tweak, indices)
    }

    /// One stream, at eight indices in a row.
    #[inline(always)]
    pub fn in_a_row(stream: Stream, first: u64) -> Self {
        let indices = std::array::from_fn(|l| first + l as u64);
        StreamLanes::at([stream.position; LANES], [stream.tweak; LANES], &indices)
    }

    #[inline(always)]
    fn at(position: Lanes<u64>, tweak: Lanes<u64>, indices: &Lanes<u64>) -> Self {
        let mut position = position;
        for l in 0..LANES {
            position[l] = position[l].wrapping_add(indices[l].wrapping_mul(GOLDEN));
        }
        StreamLanes { position, tweak }
    }

    /// Moves every index on by the same number.
    #[inline(always)]
    pub fn advance(&mut self, by: u64) {
        let distance = by.wrapping_mul(GOLDEN);
        for l in 0..LANES {
            self.position[l] = self.position[l].wrapping_add(distance);
        }
    }

    /// The words at the present indices.
    #[inline(always)]
    pub fn words(&self) -> Lanes<u64> {
        let mut words = [0; LANES];
        for l in 0..LANES {
            words[l] = Stream { position: self.position[l], tweak: self.tweak[l] }.word(0);
        }
        words
    }

    /// The words at the present indices as indices below `len`, a number of 32 bits.
    #[inline(always)]
    pub fn indices(&self, len: u32) -> Lanes<u32> {
        let mut indices = [0; LANES];
        let len = u64::from(len);
        for (index, word) in indices.iter_mut().zip(self.words()) {
            // The high half of a product of 64 and 32 bits, in two products of 32.
            *index = (((word >> 32) * len + (((word & 0xffff_ffff) * len) >> 32)) >> 32) as u32;
        }
        indices
    }

    /// The words at the present indices as standard normal variates, and a bit for each lane
    /// whose word does not decide alone: its variate is to be drawn by [`Stream::normal`].
    #[inline(always)]
    pub fn candidates(&self, path: impl Path, ziggurat: &Ziggurat) -> (Lanes<f64>, u8) {
        path.candidates(ziggurat, &self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal;
    use crate::simd::{Kernel, Simd};
    use crate::stream::{Purpose, Seed, Streams};

    /// All words, indices and normals of some rounds, in lanes.
    struct Everything;

    impl Kernel for Everything {
        type Output = (Vec<u64>, Vec<u64>);

        #[inline(always)]
        fn run<P: Path>(self, path: P) -> Self::Output {
            let (mut bits, mut indices) = (Vec::new(), Vec::new());
            for round in 0..400 {
                let streams = Streams::new(Seed(3), 1, round, Purpose::Data);
                let keys = std::array::from_fn(|l| streams.key(l as u32));
                let first = std::array::from_fn(|l| l as u64 % 2);
                let mut lanes = StreamLanes::new(&keys, &first);
                for step in 0..20 {
                    let (mut x, rejected) = lanes.candidates(path, normal::ziggurat());
                    for l in (0..LANES).filter(|l| rejected >> l & 1 == 1) {
                        let n = step * 3 + l as u64 % 2;
                        x[l] = keys[l].stream().normal(normal::ziggurat(), n);
                    }
                    bits.extend(x.map(f64::to_bits));
                    indices.extend(lanes.indices(1_000_003).map(u64::from));
                    lanes.advance(3);
                }
            }
            (bits, indices)
        }
    }

    /// On every path, lanes give what single streams give, except where they say so.
    #[test]
    fn lanes_are_streams() {
        let (mut bits, mut indices) = (Vec::new(), Vec::new());
        for round in 0..400 {
            let streams = Streams::new(Seed(3), 1, round, Purpose::Data);
            for step in 0..20u64 {
                for l in 0..LANES as u64 {
                    let (stream, n) = (streams.client(l as u32), step * 3 + l % 2);
                    bits.push(stream.normal(normal::ziggurat(), n).to_bits());
                    indices.push(stream.index(n, 1_000_003) as u64);
                }
            }
        }
        for path in [Simd::Portable, Simd::Avx2, Simd::Avx512] {
            if path.is_available() {
                assert!(path.run(Everything) == (bits.clone(), indices.clone()), "{path:?}");
            }
        }
    }
}
