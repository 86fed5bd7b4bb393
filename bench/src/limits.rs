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

/// Independent sums or chains that hide the latency of an addition; a multiple of every width.
const CHAINS: usize = 96;

#[inline(always)]
fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; CHAINS];
    for chunk in values.as_chunks::<CHAINS>().0 {
        for l in 0..CHAINS {
            sums[l] += chunk[l];
        }
    }
    sums.iter().sum()
}

#[inline(always)]
fn sum_rows(table: &[f64], dim: usize, rows: &[usize]) -> f64 {
    rows.iter().map(|row| sum(&table[row * dim..][..dim])).sum()
}

#[inline(always)]
fn multiply_then_add(turns: u64, factor: f64, term: f64) -> f64 {
    let mut chains = [1.0; CHAINS];
    for _ in 0..turns {
        for l in 0..CHAINS {
            chains[l] = chains[l] * factor + term;
        }
    }
    chains.iter().sum()
}

#[inline(always)]
fn fused(turns: u64, factor: f64, term: f64) -> f64 {
    let mut chains = [1.0f64; CHAINS];
    for _ in 0..turns {
        for l in 0..CHAINS {
            chains[l] = chains[l].mul_add(factor, term);
        }
    }
    chains.iter().sum()
}

/// Compiles the probes for a path.
macro_rules! compiled {
    ($name:ident, $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        mod $name {
            #[target_feature(enable = $features)]
            pub fn sum(values: &[f64]) -> f64 {
                super::sum(values)
            }
            #[target_feature(enable = $features)]
            pub fn sum_rows(table: &[f64], dim: usize, rows: &[usize]) -> f64 {
                super::sum_rows(table, dim, rows)
            }
            #[target_feature(enable = $features)]
            pub fn multiply_then_add(turns: u64, factor: f64, term: f64) -> f64 {
                super::multiply_then_add(turns, factor, term)
            }
            #[target_feature(enable = $features)]
            pub fn fused(turns: u64, factor: f64, term: f64) -> f64 {
                super::fused(turns, factor, term)
            }
        }
    };
}
compiled!(avx2, "avx2,fma");
compiled!(avx512, "avx512f,avx512vl,avx512dq,fma");

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
            _ => $probe($($argument),*),
        }
    };
}

/// Bytes a second read from an array of so many bytes, over and over.
pub fn read_bandwidth(path: Path, bytes: usize, tries: usize) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let values = vec![1.0; (bytes / 8).next_multiple_of(CHAINS)];
    let passes = (PROBED / bytes).max(1);
    let read = (8 * values.len() * passes) as f64;
    best(tries, read, || {
        (0..passes).map(|_| dispatch!(path, sum(std::hint::black_box(&values)))).sum()
    })
}

/// Bytes a second read in whole rows of a table of so many bytes, in random order.
pub fn row_bandwidth(path: Path, bytes: usize, dim: usize, tries: usize) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let table = vec![1.0; bytes / 8];
    let count = table.len() / dim;
    // A full cycle through the rows that looks like none: steps of a golden share of them.
    let stride = (0.618 * count as f64) as usize | 1;
    let rows: Vec<usize> = (0..count).map(|k| k * stride % count).collect();
    best(tries, (8 * dim * count) as f64, || dispatch!(path, sum_rows(&table, dim, &rows)))
}

/// Multiplications and additions a second (two for each pair) in registers, fused or apart.
pub fn arithmetic(path: Path, fuse: bool, tries: usize) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let turns = 200_000;
    let [factor, term] = std::hint::black_box([0.999, 0.001]);
    best(tries, (2 * CHAINS as u64 * turns) as f64, || match fuse {
        true => dispatch!(path, fused(turns, factor, term)),
        false => dispatch!(path, multiply_then_add(turns, factor, term)),
    })
}

/// Bytes that a probe of a cache reads in all.
const PROBED: usize = 256 << 20;

fn best(tries: usize, units: f64, mut work: impl FnMut() -> f64) -> f64 {
    (0..tries).map(|_| units / timed(&mut work).1.cpu).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_compute_the_same() {
        let values: Vec<f64> = (0..10 * CHAINS).map(|k| k as f64).collect();
        for path in Path::ALL.into_iter().filter(|path| path.is_here()) {
            assert_eq!(dispatch!(path, sum(&values)), 959.0 * 480.0);
            assert_eq!(dispatch!(path, sum_rows(&values, 96, &[0, 0])), 95.0 * 96.0);
            let fixed = dispatch!(path, multiply_then_add(100_000, 0.5, 1.0));
            assert_eq!(fixed, 2.0 * CHAINS as f64);
        }
    }
}
