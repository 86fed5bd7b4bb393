//! The choice of the generator behind the keyed streams: the cost of one client step of the Gaussian
//! problem (N = 25, E = 5) when every client has a stream of its own every round.
//!
//! All candidates use the same loop, the same ziggurat and sixteen lanes over clients; they differ in
//! where the words come from. `streams raw` writes the words of short neighbouring streams to
//! standard output instead, for a battery of statistical tests to read.

use std::io::Write;

use fedback_bench::timing::{Candidate, least, report};
use fedback_core::normal::{Ziggurat, ziggurat};
use fedback_core::stream::{Purpose, Seed, Streams};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

const CLIENTS: usize = 25;
const STEPS: usize = 5;
const LANES: usize = 16;
const ROUNDS: u64 = 20_000;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Words of sixteen clients: one row a step, and one to spare for generators that make pairs.
type Words = [[u64; LANES]; STEPS + 1];

fn main() {
    if std::env::args().nth(1).as_deref() == Some("raw") {
        return raw();
    }
    let units = (ROUNDS as usize * CLIENTS * STEPS) as f64;
    let mut candidates = [
        Candidate::new("plain loop, one generator for all", units, plain),
        Candidate::new("keyed counter (shipped)", units, || lanes(counter)),
        Candidate::new("xoshiro256++ seeded per client and round", units, || lanes(xoshiro)),
        Candidate::new("Philox4x32-10", units, || lanes(philox::<10>)),
        Candidate::new("Philox4x32-7", units, || lanes(philox::<7>)),
        Candidate::new("Threefry2x64-20", units, || lanes(threefry::<20>)),
        Candidate::new("Threefry2x64-13", units, || lanes(threefry::<13>)),
    ];
    let best = least(&mut candidates, 9);
    report(
        "Gaussian, N = 25, E = 5, full: where the words come from",
        "client step",
        &candidates,
        &best,
    );
}

fn raw() {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for round in 0.. {
        let streams = Streams::new(Seed(1), round % 7, round, Purpose::Data);
        for client in 0..CLIENTS as u32 {
            for n in 0..STEPS as u64 {
                let word = streams.client(client).word(n);
                if out.write_all(&word.to_le_bytes()).is_err() {
                    return;
                }
            }
        }
    }
}

fn mean(client: usize) -> f64 {
    9.0 + 0.08 * client as f64
}

fn sensitivity(client: usize) -> f64 {
    0.5 + 0.8 / 24.0 * client as f64
}

fn step_size(round: u64, step: usize) -> f64 {
    20.0 / ((round as usize * STEPS + step) as f64 + 1000.0)
}

fn plain() -> f64 {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut theta = 0.0;
    for round in 0..ROUNDS {
        let mut next = 0.0;
        for client in 0..CLIENTS {
            let mut w = theta;
            for step in 0..STEPS {
                let noise: f64 = rng.sample(StandardNormal);
                let z = mean(client) + sensitivity(client) * w + noise;
                w -= step_size(round, step) * (w - z);
            }
            next += w / CLIENTS as f64;
        }
        theta = next;
    }
    theta
}

fn lanes(words_of: impl Fn(u64, &[u32; LANES], &mut Words)) -> f64 {
    let table: &Ziggurat = ziggurat();
    let mut words = [[0; LANES]; STEPS + 1];
    let mut theta = 0.0;
    for round in 0..ROUNDS {
        let sizes: [f64; STEPS] = std::array::from_fn(|step| step_size(round, step));
        let mut next = 0.0;
        for first in (0..CLIENTS).step_by(LANES) {
            let count = LANES.min(CLIENTS - first);
            let ids: [u32; LANES] = std::array::from_fn(|l| (first + l) as u32);
            words_of(round, &ids, &mut words);
            let mut w = [theta; LANES];
            for (size, words) in sizes.iter().zip(&words) {
                let mut noise = [0.0; LANES];
                for l in 0..count {
                    let word = words[l];
                    // The same cheap words after a rejection for all, so that only the first differ.
                    noise[l] = table.normal(word, move |k| mix(word ^ k.wrapping_mul(GOLDEN)));
                }
                for l in 0..LANES {
                    let z = mean(first + l) + sensitivity(first + l) * w[l] + noise[l];
                    w[l] -= size * (w[l] - z);
                }
            }
            next += w[..count].iter().sum::<f64>() / CLIENTS as f64;
        }
        theta = next;
    }
    theta
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn counter(round: u64, ids: &[u32; LANES], words: &mut Words) {
    let streams = Streams::new(Seed(7), 0, round, Purpose::Data);
    let streams = ids.map(|id| streams.client(id));
    for (n, words) in words.iter_mut().take(STEPS).enumerate() {
        *words = streams.map(|stream| stream.word(n as u64));
    }
}

fn xoshiro(round: u64, ids: &[u32; LANES], words: &mut Words) {
    let mut state = [[0u64; LANES]; 4];
    for (l, id) in ids.iter().enumerate() {
        let mut seed = (*id as u64) << 32 ^ round ^ 7;
        for state in &mut state {
            seed = seed.wrapping_add(GOLDEN);
            state[l] = mix(seed);
        }
    }
    for words in words.iter_mut().take(STEPS) {
        for l in 0..LANES {
            let [a, b, c, d] = [state[0][l], state[1][l], state[2][l], state[3][l]];
            words[l] = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
            let (c, d) = (c ^ a, d ^ b);
            state[0][l] = a ^ d;
            state[1][l] = b ^ c;
            state[2][l] = c ^ (b << 17);
            state[3][l] = d.rotate_left(45);
        }
    }
}

fn philox<const TURNS: usize>(round: u64, ids: &[u32; LANES], words: &mut Words) {
    for pair in 0..STEPS.div_ceil(2) {
        let mut c = [[pair as u32; LANES], *ids, [round as u32; LANES], [0; LANES]];
        let (mut k0, mut k1) = (7u32, 0u32);
        for _ in 0..TURNS {
            for l in 0..LANES {
                let a = 0xd251_1f53u64 * c[0][l] as u64;
                let b = 0xcd9e_8d57u64 * c[2][l] as u64;
                let (n0, n2) = ((b >> 32) as u32 ^ c[1][l] ^ k0, (a >> 32) as u32 ^ c[3][l] ^ k1);
                (c[0][l], c[1][l], c[2][l], c[3][l]) = (n0, b as u32, n2, a as u32);
            }
            (k0, k1) = (k0.wrapping_add(0x9e37_79b9), k1.wrapping_add(0xbb67_ae85));
        }
        for l in 0..LANES {
            words[2 * pair][l] = c[0][l] as u64 | (c[1][l] as u64) << 32;
            words[2 * pair + 1][l] = c[2][l] as u64 | (c[3][l] as u64) << 32;
        }
    }
}

fn threefry<const TURNS: usize>(round: u64, ids: &[u32; LANES], words: &mut Words) {
    const TURN: [u32; 8] = [16, 42, 12, 31, 16, 32, 24, 21];
    let key = [7u64, 9, 7 ^ 9 ^ 0x1bd1_1bda_a9fc_1a22];
    for pair in 0..STEPS.div_ceil(2) {
        let mut c = [ids.map(|id| (id as u64) << 32 | pair as u64), [round; LANES]];
        for l in 0..LANES {
            c[0][l] = c[0][l].wrapping_add(key[0]);
            c[1][l] = c[1][l].wrapping_add(key[1]);
        }
        for turn in 0..TURNS {
            for l in 0..LANES {
                c[0][l] = c[0][l].wrapping_add(c[1][l]);
                c[1][l] = c[1][l].rotate_left(TURN[turn % 8]) ^ c[0][l];
            }
            if turn % 4 == 3 {
                let s = turn / 4 + 1;
                for l in 0..LANES {
                    c[0][l] = c[0][l].wrapping_add(key[s % 3]);
                    c[1][l] = c[1][l].wrapping_add(key[(s + 1) % 3].wrapping_add(s as u64));
                }
            }
        }
        (words[2 * pair], words[2 * pair + 1]) = (c[0], c[1]);
    }
}
