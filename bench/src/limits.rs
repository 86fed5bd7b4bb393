//! What one core can do at most: bytes it reads and multiplications with additions it makes a
//! second, measured with the instructions that a kernel may use.
//!
//! Each probe is one inlined loop over arrays, compiled three times: for any x86-64 (or other)
//! processor, for AVX2 and for AVX-512. Nothing is contracted unless it says so: Rust keeps a
//! multiplication and an addition apart, `mul_add` fuses them.

use crate::timing::timed;

/// Instructions that a probe may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512.
    Avx512,
}

impl Path {
    /// All paths, the narrowest first.
    pub const ALL: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];

    /// Its name, as in the variable FEDBACK_SIMD.
    pub fn name(self) -> &'static str {
        match self {
            Path::Portable => "portable",
            Path::Avx2 => "avx2",
            Path::Avx512 => "avx512",
        }
    }

    /// Whether this machine has it.
    pub fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Path::Portable => true,
            Path::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Path::Avx512 => is_x86_feature_detected!("avx512f"),
        }
        #[cfg(not(target_arch = "x86_64"))]
        return self == Path::Portable;
    }
}

/// Sums over `values`, again and again, in `CHAINS` independent chains.
#[inline(always)]
fn sum<const CHAINS: usize>(values: &[f64], passes: usize) -> f64 {
    let mut sums = [0.0; CHAINS];
    for _ in 0..passes {
        add::<CHAINS>(values, &[], &mut sums);
    }
    sums.iter().sum()
}

/// Adds `values` to the sums, with the lines of `next` on their way meanwhile.
#[inline(always)]
fn add<const CHAINS: usize>(values: &[f64], next: &[f64], sums: &mut [f64; CHAINS]) {
    for (k, chunk) in values.as_chunks::<CHAINS>().0.iter().enumerate() {
        if let Some(next) = next.get(k * CHAINS..(k + 1) * CHAINS) {
            next.iter().step_by(LINE).for_each(prefetch);
        }
        for l in 0..CHAINS {
            sums[l] += chunk[l];
        }
    }
}

/// Sums over rows of a table, with the next row fetched ahead or not.
#[inline(always)]
fn sum_rows<const CHAINS: usize>(table: &[f64], dim: usize, rows: &[usize], ahead: bool) -> f64 {
    let row = |k: usize| &table[rows[k] * dim..][..dim];
    let mut sums = [0.0; CHAINS];
    for k in 0..rows.len() {
        let next = if ahead && k + 1 < rows.len() { row(k + 1) } else { &[] };
        add::<CHAINS>(row(k), next, &mut sums);
    }
    sums.iter().sum()
}

/// Numbers in a line of the cache.
const LINE: usize = 8;

#[inline(always)]
fn prefetch(place: &f64) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "a prefetch of a valid place reads nothing")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Multiplies and adds in registers; two instructions, or one that fuses them.
#[inline(always)]
fn multiply_add<const CHAINS: usize>(turns: u64, [factor, term]: [f64; 2], fuse: bool) -> f64 {
    let mut chains = [1.0f64; CHAINS];
    for _ in 0..turns {
        for l in 0..CHAINS {
            chains[l] = match fuse {
                true => chains[l].mul_add(factor, term),
                false => chains[l] * factor + term,
            };
        }
    }
    chains.iter().sum()
}

/// Compiles the probes for a path, with twelve registers full of chains: more than the latency of an
/// addition asks for, few enough to stay in registers.
macro_rules! compiled {
    ($name:ident, $features:literal, $chains:literal) => {
        #[cfg(target_arch = "x86_64")]
        mod $name {
            #[target_feature(enable = $features)]
            pub fn sum(values: &[f64], passes: usize) -> f64 {
                super::sum::<$chains>(values, passes)
            }
            #[target_feature(enable = $features)]
            pub fn sum_rows(table: &[f64], dim: usize, rows: &[usize], ahead: bool) -> f64 {
                super::sum_rows::<$chains>(table, dim, rows, ahead)
            }
            #[target_feature(enable = $features)]
            pub fn multiply_add(turns: u64, by: [f64; 2], fuse: bool) -> f64 {
                match fuse {
                    true => super::multiply_add::<$chains>(turns, by, true),
                    false => super::multiply_add::<$chains>(turns, by, false),
                }
            }
        }
    };
}
compiled!(avx2, "avx2,fma", 48);
compiled!(avx512, "avx512f,avx512vl,avx512dq,fma", 96);

/// Calls a probe on a path that is here.
macro_rules! dispatch {
    ($path:expr, $probe:ident($($argument:expr),*)) => {
        match $path {
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "the caller has checked that the machine has the path")]
            Path::Avx2 => unsafe { avx2::$probe($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "the caller has checked that the machine has the path")]
            Path::Avx512 => unsafe { avx512::$probe($($argument),*) },
            _ => $probe::<24>($($argument),*),
        }
    };
}

/// A multiple of the chains of every path.
const BLOCK: usize = 96;

/// Bytes a second read from an array of so many bytes, over and over.
pub fn read_bandwidth(path: Path, bytes: usize, tries: usize) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let values = vec![1.0; (bytes / 8).next_multiple_of(BLOCK)];
    let passes = (PROBED / bytes).max(1);
    let read = (8 * values.len() * passes) as f64;
    best(tries, read, || dispatch!(path, sum(&values, passes)))
}

/// Bytes that a probe of a cache reads in all.
const PROBED: usize = 256 << 20;

/// Bytes a second read in whole rows of a table, in the given order; with the next row fetched ahead
/// or not.
pub fn row_bandwidth(
    path: Path,
    table: &[f64],
    dim: usize,
    rows: &[usize],
    ahead: bool,
    tries: usize,
) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let read = (8 * dim * rows.len()) as f64;
    best(tries, read, || dispatch!(path, sum_rows(table, dim, rows, ahead)))
}

/// Multiplications and additions a second (two for each pair) in registers, fused or apart.
pub fn arithmetic(path: Path, fuse: bool, tries: usize) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let chains = match path {
        Path::Portable => 24,
        Path::Avx2 => 48,
        Path::Avx512 => 96,
    };
    let turns = 400_000;
    let by = std::hint::black_box([0.999, 0.001]);
    best(tries, (2 * chains * turns) as f64, || dispatch!(path, multiply_add(turns, by, fuse)))
}

fn best(tries: usize, units: f64, mut work: impl FnMut() -> f64) -> f64 {
    (0..tries).map(|_| units / timed(&mut work).1.cpu).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_compute_the_same() {
        let values: Vec<f64> = (0..10 * BLOCK).map(|k| k as f64).collect();
        for path in Path::ALL.into_iter().filter(|path| path.is_here()) {
            assert_eq!(dispatch!(path, sum(&values, 2)), 959.0 * 960.0);
            for ahead in [false, true] {
                let sum = dispatch!(path, sum_rows(&values, 96, &[0, 0], ahead));
                assert_eq!(sum, 95.0 * 96.0);
            }
            let fixed = dispatch!(path, multiply_add(100_000, [0.5, 1.0], false));
            let chains = [24.0, 48.0, 96.0][path as usize];
            assert_eq!(fixed, 2.0 * chains);
        }
    }
}
