//! Random streams, each a pure function of its key.
//!
//! A [`Stream`] is named by (seed, repetition, round, client, [`Purpose`]) and its n-th word can be
//! asked for directly. Nothing is shared and nothing advances, so the same bits come out on one
//! thread or sixty-four, after a resume, and on a client in another building.
//!
//! The construction has three levels, chosen by `bench/src/bin/streams.rs` (docs/architecture.md
//! has the numbers): a 128-bit digest of (seed, purpose, repetition, round) once a round; one mix
//! for a client, which is a bijection of the ids; one mix a word. The mix is the finaliser of
//! SplitMix64 (Steele, Lea and Flood 2014, with Stafford's constants); the second half of the
//! digest enters in the middle of it, so that two streams whose counters overlap still differ. It
//! needs two 64-bit multiplications a word and no state, which suits SIMD lanes over clients,
//! coordinates or draws alike; Philox and Threefry cost more, and a seeded xoshiro pays for its
//! seeding at every round.

use crate::normal;

/// The version of everything that turns a key into numbers: a store written under another format
/// cannot be continued bit for bit.
pub const STREAM_FORMAT: u32 = 1;

pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// First index of the words that rejected normal variates go on to; ordinary indices stay below.
const RETRY: u64 = 1 << 62;

/// The seed that a user gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

/// What a stream is used for. The numbers are part of [`STREAM_FORMAT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client's observations within a round.
    Data = 1,
    /// The server's choice of a cohort.
    Cohort = 2,
    /// Client weights drawn for a problem.
    Weights = 3,
    /// Base means drawn for a problem.
    Means = 4,
    /// Sensitivities drawn for a problem.
    Sensitivities = 5,
    /// The order of a table's rows.
    Shuffle = 6,
    /// The division of a table's rows among clients.
    Partition = 7,
    /// Observations that a risk is estimated from, beside those a model learns from.
    Measure = 9,
    /// Estimates of a response from data.
    Fit = 11,
    /// How long a client takes in a round.
    Latency = 12,
    /// Latencies' parameters drawn for a problem.
    Speeds = 13,
    /// The spread of latencies drawn for a problem.
    Spreads = 14,
    /// The choice of rows that are held out.
    Holdout = 15,
    /// What becomes of the rows that a client draws: moves, new labels, who stays.
    Reaction = 16,
    /// Samples on which a problem with functions is solved.
    Sample = 17,
}

/// The streams of all rounds and clients for one (seed, repetition, purpose).
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    position: u64,
    tweak: u64,
}

/// The streams of all clients for one (seed, repetition, round, purpose).
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    position: u64,
    tweak: u64,
}

/// A client's stream before its last mix, which lanes make together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Key {
    start: u64,
    tweak: u64,
}

/// One stream of 64-bit words, addressed by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    pub(crate) position: u64,
    pub(crate) tweak: u64,
}

#[inline(always)]
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A digest that has taken in one more part of a key.
#[inline(always)]
fn digest(so_far: u64, part: u64) -> u64 {
    mix(so_far.wrapping_mul(GOLDEN) ^ part)
}

impl Rounds {
    /// The streams of all rounds with this key.
    pub fn new(seed: Seed, repetition: u64, purpose: Purpose) -> Self {
        let digest = |start| [seed.0, purpose as u64, repetition].into_iter().fold(start, digest);
        // Two odd constants without structure: the fractional bits of sqrt(2) and of sqrt(3).
        Rounds { position: digest(0x6a09_e667_f3bc_c909), tweak: digest(0xbb67_ae85_84ca_a73b) }
    }

    /// The streams of one round.
    #[inline(always)]
    pub fn round(self, round: u64) -> Streams {
        Streams { position: digest(self.position, round), tweak: digest(self.tweak, round) }
    }
}

impl Streams {
    /// Streams beside these, for another purpose in the same round.
    pub fn beside(self, purpose: Purpose) -> Self {
        let part = purpose as u64;
        Streams { position: digest(self.position, part), tweak: digest(self.tweak, part) }
    }

    /// The family of streams with this key.
    pub fn new(seed: Seed, repetition: u64, round: u64, purpose: Purpose) -> Self {
        Rounds::new(seed, repetition, purpose).round(round)
    }

    /// The stream of one client.
    #[inline(always)]
    pub fn client(self, client: u32) -> Stream {
        self.key(client).stream()
    }

    /// What [`Streams::client`] is made of, for code that makes many at once.
    #[inline(always)]
    pub fn key(self, client: u32) -> Key {
        let start = self.position.wrapping_add((client as u64).wrapping_mul(GOLDEN));
        Key { start, tweak: self.tweak }
    }
}

impl Key {
    /// The stream of this key.
    #[inline(always)]
    pub fn stream(self) -> Stream {
        let position = mix(self.start);
        Stream { position, tweak: self.tweak ^ position.rotate_left(32) }
    }
}

impl Stream {
    /// A stream that belongs to no client: draws made once for a whole problem.
    pub fn for_problem(seed: Seed, purpose: Purpose) -> Self {
        Streams::new(seed, 0, 0, purpose).client(0)
    }

    /// The n-th word.
    #[inline(always)]
    pub fn word(self, n: u64) -> u64 {
        let z = self.position.wrapping_add(n.wrapping_mul(GOLDEN));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_add(self.tweak).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The n-th word as a number in [0, 1), a multiple of 2⁻⁵³.
    #[inline(always)]
    pub fn uniform(self, n: u64) -> f64 {
        unit(self.word(n))
    }

    /// The n-th word as an index below `len`; the bias is at most `len` · 2⁻⁶⁴.
    #[inline(always)]
    pub fn index(self, n: u64, len: usize) -> usize {
        ((self.word(n) as u128 * len as u128) >> 64) as usize
    }

    /// The n-th word as a standard normal variate. A rejected one goes on to words of its own, far
    /// from the others, so the (n+1)-th is where it always is.
    #[inline(always)]
    pub fn normal(self, table: &normal::Ziggurat, n: u64) -> f64 {
        table.normal(self.word(n), self.further(n))
    }

    /// The words that the n-th variate goes on to.
    #[inline(always)]
    pub(crate) fn further(self, n: u64) -> impl Fn(u64) -> u64 {
        move |k| self.word(RETRY + (n << 8) + k)
    }

    /// A cursor over the stream, for draws whose number is not known beforehand.
    pub fn draws(self) -> Draws {
        Draws { stream: self, next: 0 }
    }
}

/// A word as a number in [0, 1).
#[inline(always)]
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Reads a [`Stream`] from its beginning.
#[derive(Clone, Debug)]
pub struct Draws {
    stream: Stream,
    next: u64,
}

impl Draws {
    fn advance(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The next number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        let n = self.advance();
        self.stream.uniform(n)
    }

    /// The next index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        let n = self.advance();
        self.stream.index(n, len)
    }

    /// The next standard normal variate.
    pub fn normal(&mut self) -> f64 {
        let n = self.advance();
        self.stream.normal(normal::ziggurat(), n)
    }

    /// The next exponential variate of mean one.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }

    /// The next gamma variate of the given shape and scale one (Marsaglia and Tsang 2000; shapes
    /// below one by their boosting identity).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(1.0 - self.uniform(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(1.0 - self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v;
            }
        }
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Streams::new(Seed(7), 3, 11, Purpose::Data).client(5)
    }

    #[test]
    fn values_are_pinned() {
        let words: Vec<u64> = (0..4).map(|n| stream().word(n)).collect();
        assert_eq!(words, PINNED);
        let ziggurat = normal::ziggurat();
        let bits: Vec<u64> = (0..3).map(|n| stream().normal(ziggurat, n).to_bits()).collect();
        assert_eq!(bits, PINNED_NORMALS);
    }

    const PINNED: [u64; 4] = [
        10_773_171_015_907_033_705,
        17_620_392_702_821_443_547,
        13_053_381_977_305_326_892,
        8_521_992_805_379_902_642,
    ];
    const PINNED_NORMALS: [u64; 3] =
        [4_597_411_921_874_459_516, 4_602_264_930_475_853_527, 4_605_390_403_042_063_516];

    #[test]
    fn every_part_of_the_key_matters() {
        let key = |seed, repetition, round, purpose, client| {
            Streams::new(Seed(seed), repetition, round, purpose).client(client).word(0)
        };
        let words = [
            key(1, 0, 0, Purpose::Data, 0),
            key(0, 1, 0, Purpose::Data, 0),
            key(0, 0, 1, Purpose::Data, 0),
            key(0, 0, 0, Purpose::Cohort, 0),
            key(0, 0, 0, Purpose::Data, 1),
            key(0, 0, 0, Purpose::Data, 0),
        ];
        let distinct: std::collections::HashSet<u64> = words.into_iter().collect();
        assert_eq!(distinct.len(), words.len());
    }

    /// Short streams side by side are what a simulation uses: the words of neighbouring clients,
    /// rounds and indices must look independent. Each bit of the difference of neighbours is fair.
    #[test]
    fn neighbouring_streams_are_uncorrelated() {
        let count = 20_000u64;
        let mut ones = [[0u32; 64]; 3];
        for k in 0..count {
            let here = Streams::new(Seed(1), 0, k, Purpose::Data).client(0);
            let next_round = Streams::new(Seed(1), 0, k + 1, Purpose::Data).client(0);
            let next_client = Streams::new(Seed(1), 0, k, Purpose::Data).client(1);
            let pairs = [next_round.word(0), next_client.word(0), here.word(1)];
            for (ones, other) in ones.iter_mut().zip(pairs) {
                let differing = here.word(0) ^ other;
                for (bit, ones) in ones.iter_mut().enumerate() {
                    *ones += (differing >> bit & 1) as u32;
                }
            }
        }
        let sd = (count as f64 / 4.0).sqrt();
        for ones in ones.as_flattened() {
            assert!((*ones as f64 - count as f64 / 2.0).abs() < 4.5 * sd, "{ones}");
        }
    }

    #[test]
    fn gamma_has_the_right_moments() {
        for shape in [0.3, 1.0, 4.5] {
            let mut draws = Stream::for_problem(Seed(2), Purpose::Partition).draws();
            let n = 40_000;
            let mean = (0..n).map(|_| draws.gamma(shape)).sum::<f64>() / n as f64;
            assert!((mean - shape).abs() < 4.5 * (shape / n as f64).sqrt(), "{shape}: {mean}");
        }
    }

    #[test]
    fn indices_are_uniform() {
        let mut counts = [0u32; 7];
        for n in 0..70_000 {
            counts[stream().index(n, 7)] += 1;
        }
        let sd = (10_000.0f64 * 6.0 / 7.0).sqrt();
        assert!(counts.iter().all(|&c| (c as f64 - 10_000.0).abs() < 4.5 * sd), "{counts:?}");
    }
}
