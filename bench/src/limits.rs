//! What one core can do at most: bytes it reads and multiplications with additions it makes a
//! second, measured with the instructions that a kernel may use.
//!
//! The probes are written with the vectors of each path (SSE2, which every x86-64 processor has,
//! AVX2, AVX-512), since a compiler left to itself may spill or not vectorise them, and a limit has to
//! be one.

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

/// Registers that a probe sums into: more than the latency of an addition asks for, few enough to
/// stay registers.
const CHAINS: usize = 12;

/// Numbers in a line of the cache.
const LINE: usize = 8;

/// The probes of a path: its vectors, the numbers in one, and its operations.
#[cfg(target_arch = "x86_64")]
macro_rules! probes {
    ($name:ident, $features:literal, $vector:ty, $lanes:literal,
     $splat:ident, $load:ident, $add:ident, $multiply:ident, |$a:ident, $b:ident, $c:ident| $fuse:expr) => {
        #[expect(unsafe_code, reason = "limits are measured with the very instructions")]
        mod $name {
            use std::arch::x86_64::*;

            use super::{CHAINS, LINE};

            pub const WIDTH: usize = CHAINS * $lanes;

            /// Adds `values` to the sums, with the lines of `next` on their way meanwhile.
            #[inline]
            #[target_feature(enable = $features)]
            fn add(values: &[f64], next: &[f64], sums: &mut [$vector; CHAINS]) {
                for (k, chunk) in values.as_chunks::<WIDTH>().0.iter().enumerate() {
                    for line in next.iter().skip(k * WIDTH).take(WIDTH).step_by(LINE) {
                        // SAFETY: a prefetch changes nothing, and the place is valid.
                        #[allow(unused_unsafe, reason = "older compilers ask for it")]
                        unsafe {
                            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast())
                        };
                    }
                    for l in 0..CHAINS {
                        // SAFETY: the chunk has as many numbers as all chains together.
                        let loaded = unsafe { $load(chunk.as_ptr().add(l * $lanes)) };
                        sums[l] = $add(sums[l], loaded);
                    }
                }
            }

            fn total(sums: [$vector; CHAINS]) -> f64 {
                // SAFETY: a vector is its numbers.
                let numbers: [f64; WIDTH] = unsafe { std::mem::transmute(sums) };
                numbers.iter().sum()
            }

            #[target_feature(enable = $features)]
            pub fn sum(values: &[f64], passes: usize) -> f64 {
                let mut sums = [$splat(0.0); CHAINS];
                (0..passes).for_each(|_| add(values, &[], &mut sums));
                total(sums)
            }

            #[target_feature(enable = $features)]
            pub fn sum_rows(table: &[f64], dim: usize, rows: &[usize], ahead: bool) -> f64 {
                let row = |k: usize| &table[rows[k] * dim..][..dim];
                let mut sums = [$splat(0.0); CHAINS];
                for k in 0..rows.len() {
                    let next = if ahead && k + 1 < rows.len() { row(k + 1) } else { &[] };
                    add(row(k), next, &mut sums);
                }
                total(sums)
            }

            #[target_feature(enable = $features)]
            pub fn multiply_add(turns: u64, [factor, term]: [f64; 2], fuse: bool) -> f64 {
                let (factor, term) = ($splat(factor), $splat(term));
                let mut chains = [$splat(1.0); CHAINS];
                for _ in 0..turns {
                    for l in 0..CHAINS {
                        chains[l] = if fuse {
                            let ($a, $b, $c) = (chains[l], factor, term);
                            $fuse
                        } else {
                            $add($multiply(chains[l], factor), term)
                        };
                    }
                }
                total(chains)
            }
        }
    };
}
// Without the instruction nothing is fused.
#[cfg(target_arch = "x86_64")]
probes!(
    portable,
    "sse2",
    __m128d,
    2,
    _mm_set1_pd,
    _mm_loadu_pd,
    _mm_add_pd,
    _mm_mul_pd,
    |a, b, c| _mm_add_pd(_mm_mul_pd(a, b), c)
);
#[cfg(target_arch = "x86_64")]
probes!(
    avx2,
    "avx2,fma",
    __m256d,
    4,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    |a, b, c| _mm256_fmadd_pd(a, b, c)
);
#[cfg(target_arch = "x86_64")]
probes!(
    avx512,
    "avx512f",
    __m512d,
    8,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    |a, b, c| _mm512_fmadd_pd(a, b, c)
);

/// Elsewhere, what the compiler makes of plain loops.
#[cfg(not(target_arch = "x86_64"))]
mod portable {
    use super::CHAINS;

    pub const WIDTH: usize = CHAINS;

    pub fn sum(values: &[f64], passes: usize) -> f64 {
        let mut sums = [0.0; WIDTH];
        for chunk in (0..passes).flat_map(|_| values.as_chunks::<WIDTH>().0) {
            sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
        }
        sums.iter().sum()
    }

    pub fn sum_rows(table: &[f64], dim: usize, rows: &[usize], _ahead: bool) -> f64 {
        rows.iter().map(|row| sum(&table[row * dim..][..dim], 1)).sum()
    }

    pub fn multiply_add(turns: u64, [factor, term]: [f64; 2], _fuse: bool) -> f64 {
        let mut chains = [1.0; WIDTH];
        for _ in 0..turns {
            chains.iter_mut().for_each(|chain| *chain = *chain * factor + term);
        }
        chains.iter().sum()
    }
}

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
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "every machine of the architecture has SSE2")]
            Path::Portable => unsafe { portable::$probe($($argument),*) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => portable::$probe($($argument),*),
        }
    };
}

impl Path {
    /// Numbers that a probe works on at once.
    fn width(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => avx2::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => avx512::WIDTH,
            _ => portable::WIDTH,
        }
    }
}

/// Bytes a second read from an array of so many bytes, over and over.
pub fn read_bandwidth(path: Path, bytes: usize, tries: usize) -> f64 {
    assert!(path.is_here(), "{path:?} is not on this machine");
    let values = vec![1.0; (bytes / 8).next_multiple_of(path.width())];
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
    let turns = 400_000;
    let operations = (2 * path.width() as u64 * turns) as f64;
    let by = std::hint::black_box([0.999, 0.001]);
    best(tries, operations, || dispatch!(path, multiply_add(turns, by, fuse)))
}

fn best(tries: usize, units: f64, mut work: impl FnMut() -> f64) -> f64 {
    (0..tries).map(|_| units / timed(&mut work).1.cpu).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_compute_the_same() {
        let values: Vec<f64> = (0..960).map(|k| k as f64).collect();
        for path in Path::ALL.into_iter().filter(|path| path.is_here()) {
            assert_eq!(dispatch!(path, sum(&values, 2)), 959.0 * 960.0);
            for ahead in [false, true] {
                let sum = dispatch!(path, sum_rows(&values, 96, &[0, 0], ahead));
                assert_eq!(sum, 95.0 * 96.0);
            }
            let fixed = dispatch!(path, multiply_add(100_000, [0.5, 1.0], false));
            assert_eq!(fixed, 2.0 * path.width() as f64);
        }
    }
}
