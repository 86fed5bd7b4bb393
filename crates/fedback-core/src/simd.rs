//! One source, three machines: AVX-512, AVX2 and plain code, chosen once a process.
//!
//! A [`Kernel`] is written once, over arrays of eight lanes, and compiled for every [`Path`]; the
//! compiler turns the loops over lanes into the vectors at hand. Nothing may depend on the path but
//! speed: lanes never mix, nothing is fused or reassociated, so the same bits come out everywhere.
//! What the compiler does not find by itself, the table look-up of eight normal candidates, is an
//! operation of the path.
//!
//! `FEDBACK_SIMD=portable`, `avx2` or `avx512` forces a path, for tests and measurements.

use std::ops::{Add, Mul, Sub};
use std::sync::OnceLock;

use crate::normal::Ziggurat;

/// Lanes of every kernel: one AVX-512 vector of 64-bit numbers, two of AVX2.
pub const LANES: usize = 8;

/// One number a lane.
pub type Lanes<T> = [T; LANES];

/// Work that is compiled for every path.
pub trait Kernel {
    /// What it returns.
    type Output;
    /// The work. Must be `#[inline(always)]`, and so must everything hot that it calls: what is
    /// inlined is compiled for the path, what is called is not.
    fn run<P: Path>(self, path: P) -> Self::Output;
}

/// Proof that the machine has the instructions of a path, and what the path does in its own way.
pub trait Path: Copy {
    /// Four numbers in a register.
    type Four: Copy;

    /// The candidates of eight words, and a bit for each that the ziggurat does not accept at once.
    fn candidates(self, ziggurat: &Ziggurat, words: &Lanes<u64>) -> (Lanes<f64>, u8);

    /// Four numbers from memory.
    fn load(self, from: &[f64; 4]) -> Self::Four;
    /// Four numbers to memory.
    fn store(self, numbers: Self::Four, to: &mut [f64; 4]);
    /// One number four times.
    fn splat(self, number: f64) -> Self::Four;
    /// a + b.
    fn add(self, a: Self::Four, b: Self::Four) -> Self::Four;
    /// a − b.
    fn sub(self, a: Self::Four, b: Self::Four) -> Self::Four;
    /// a · b.
    fn mul(self, a: Self::Four, b: Self::Four) -> Self::Four;
    /// The numbers whose bit masks are set, and zero elsewhere.
    fn mask(self, a: Self::Four, mask: &[u64; 4]) -> Self::Four;
    /// Four rows as four columns.
    fn transpose(self, rows: [Self::Four; 4]) -> [Self::Four; 4];
    /// Says that these numbers will be read soon.
    fn prefetch(self, numbers: &[f64; 4]);
}

/// A number, or several in a register: what is written once for both. The same operations in the
/// same order, so the same bits.
pub trait Number: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// A number in every place, in the form of this one.
    fn like(self, number: f64) -> Self;
}

impl Number for f64 {
    #[inline(always)]
    fn like(self, number: f64) -> f64 {
        number
    }
}

/// Four numbers of a path.
#[derive(Clone, Copy)]
pub struct Fours<P: Path>(pub P, pub P::Four);

impl<P: Path> Fours<P> {
    /// Four numbers from memory.
    #[inline(always)]
    pub fn load(path: P, from: &[f64; 4]) -> Self {
        Fours(path, path.load(from))
    }
}

impl<P: Path> Number for Fours<P> {
    #[inline(always)]
    fn like(self, number: f64) -> Self {
        Fours(self.0, self.0.splat(number))
    }
}

impl<P: Path> Add for Fours<P> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Fours(self.0, self.0.add(self.1, other.1))
    }
}

impl<P: Path> Sub for Fours<P> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Fours(self.0, self.0.sub(self.1, other.1))
    }
}

impl<P: Path> Mul for Fours<P> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Fours(self.0, self.0.mul(self.1, other.1))
    }
}

/// The names of the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simd {
    /// What every machine of the architecture has.
    Portable,
    /// 256-bit vectors.
    Avx2,
    /// 512-bit vectors, with 64-bit multiplication.
    Avx512,
}

/// Why a path that was asked for cannot be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimdError {
    /// No path has this name.
    #[error(
        "FEDBACK_SIMD = \"{0}\" is no path; use \"portable\", \"avx2\" or \"avx512\", or unset it"
    )]
    Unknown(String),
    /// The machine lacks it.
    #[error("FEDBACK_SIMD: found \"{0}\"; this machine has no such instructions: unset it")]
    Missing(String),
}

impl Simd {
    /// The path of this process: the fastest that the machine has, or the one that `FEDBACK_SIMD`
    /// names. Looks once.
    pub fn chosen() -> Result<Simd, SimdError> {
        Simd::looked_up().clone()
    }

    fn looked_up() -> &'static Result<Simd, SimdError> {
        static CHOSEN: OnceLock<Result<Simd, SimdError>> = OnceLock::new();
        CHOSEN.get_or_init(|| Simd::named(std::env::var("FEDBACK_SIMD").ok().as_deref()))
    }

    fn named(name: Option<&str>) -> Result<Simd, SimdError> {
        let wanted = match name {
            None | Some("") => return Ok(Simd::best()),
            Some("portable") => Simd::Portable,
            Some("avx2") => Simd::Avx2,
            Some("avx512") => Simd::Avx512,
            Some(other) => return Err(SimdError::Unknown(other.into())),
        };
        match wanted.is_available() {
            true => Ok(wanted),
            false => Err(SimdError::Missing(name.unwrap_or_default().into())),
        }
    }

    fn best() -> Simd {
        let fastest = [Simd::Avx512, Simd::Avx2].into_iter().find(|path| path.is_available());
        fastest.unwrap_or(Simd::Portable)
    }

    /// Whether this machine has the path.
    pub fn is_available(self) -> bool {
        match self {
            Simd::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => x86::Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512 => x86::Avx512::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Runs a kernel on this path, or on the portable one where the machine lacks it.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512 => match x86::Avx512::detect() {
                Some(path) => path.run(kernel),
                None => kernel.run(Portable),
            },
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => match x86::Avx2::detect() {
                Some(path) => path.run(kernel),
                None => kernel.run(Portable),
            },
            _ => kernel.run(Portable),
        }
    }
}

/// Runs a kernel on the path of this process.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    // A path that cannot be taken is the caller's to report; the numbers are the same on any.
    Simd::looked_up().as_ref().copied().unwrap_or(Simd::Portable).run(kernel)
}

/// Plain code.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Path for Portable {
    type Four = [f64; 4];

    #[inline(always)]
    fn load(self, from: &[f64; 4]) -> [f64; 4] {
        *from
    }

    #[inline(always)]
    fn store(self, numbers: [f64; 4], to: &mut [f64; 4]) {
        *to = numbers;
    }

    #[inline(always)]
    fn splat(self, number: f64) -> [f64; 4] {
        [number; 4]
    }

    #[inline(always)]
    fn add(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
    }

    #[inline(always)]
    fn sub(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        [a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3]]
    }

    #[inline(always)]
    fn mul(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        [a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3]]
    }

    #[inline(always)]
    fn mask(self, a: [f64; 4], mask: &[u64; 4]) -> [f64; 4] {
        let keep = |l: usize| f64::from_bits(a[l].to_bits() & mask[l]);
        [keep(0), keep(1), keep(2), keep(3)]
    }

    #[inline(always)]
    fn transpose(self, rows: [[f64; 4]; 4]) -> [[f64; 4]; 4] {
        let [a, b, c, d] = rows;
        let column = |l: usize| [a[l], b[l], c[l], d[l]];
        [column(0), column(1), column(2), column(3)]
    }

    #[inline(always)]
    fn prefetch(self, _numbers: &[f64; 4]) {}

    #[inline(always)]
    fn candidates(self, ziggurat: &Ziggurat, words: &Lanes<u64>) -> (Lanes<f64>, u8) {
        let (mut x, mut next) = ([0.0; LANES], [0.0; LANES]);
        for l in 0..LANES {
            (x[l], next[l]) = ziggurat.candidate(words[l]);
        }
        let mut any = 0;
        for l in 0..LANES {
            any |= u64::from(x[l].abs() >= next[l]);
        }
        match any {
            0 => (x, 0),
            _ => (x, rejected(&x, &next)),
        }
    }
}

#[cold]
fn rejected(x: &Lanes<f64>, next: &Lanes<f64>) -> u8 {
    let bit = |l: usize| u8::from(x[l].abs() >= next[l]) << l;
    (0..LANES).map(bit).fold(0, |bits, bit| bits | bit)
}

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(Simd::named(Some("portable")), Ok(Simd::Portable));
        assert_eq!(Simd::named(None), Ok(Simd::best()));
        assert_eq!(Simd::named(Some("avx3")), Err(SimdError::Unknown("avx3".into())));
        let missing = [Simd::Avx2, Simd::Avx512].into_iter().zip(["avx2", "avx512"]);
        for (path, name) in missing.filter(|(path, _)| !path.is_available()) {
            assert_eq!(Simd::named(Some(name)), Err(SimdError::Missing(name.into())), "{path:?}");
        }
    }
}
