//! The vector paths of x86-64.
//!
//! Holding an [`Avx2`] or an [`Avx512`] proves that the machine was asked, which is all that the
//! unsafe calls below need.

#![expect(
    unsafe_code,
    reason = "calls into functions compiled for instructions that were detected"
)]

use std::arch::x86_64::*;
use std::mem::transmute;

use super::{Kernel, Lanes, Path};
use crate::normal::Ziggurat;

/// A machine with AVX2.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// A machine with AVX-512 F, DQ, VL and BW.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx2 {
    #[inline]
    pub fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }

    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2")]
        fn compiled<K: Kernel>(kernel: K, path: Avx2) -> K::Output {
            kernel.run(path)
        }
        // SAFETY: the machine has AVX2.
        unsafe { compiled(kernel, self) }
    }
}

impl Avx512 {
    #[inline]
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw"))
        .then_some(Avx512(()))
    }

    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
        fn compiled<K: Kernel>(kernel: K, path: Avx512) -> K::Output {
            kernel.run(path)
        }
        // SAFETY: the machine has AVX-512 F, DQ, VL and BW.
        unsafe { compiled(kernel, self) }
    }
}

/// Four numbers in an AVX register, which both paths have.
macro_rules! four_in_avx {
    () => {
        type Four = __m256d;

        #[inline(always)]
        fn load(self, from: &[f64; 4]) -> __m256d {
            // SAFETY: the machine has AVX; four numbers are read from where four are.
            unsafe { _mm256_loadu_pd(from.as_ptr()) }
        }

        #[inline(always)]
        fn store(self, numbers: __m256d, to: &mut [f64; 4]) {
            // SAFETY: the machine has AVX; four numbers are written to where four are.
            unsafe { _mm256_storeu_pd(to.as_mut_ptr(), numbers) }
        }

        #[inline(always)]
        fn splat(self, number: f64) -> __m256d {
            // SAFETY: the machine has AVX.
            unsafe { _mm256_set1_pd(number) }
        }

        #[inline(always)]
        fn add(self, a: __m256d, b: __m256d) -> __m256d {
            // SAFETY: the machine has AVX.
            unsafe { _mm256_add_pd(a, b) }
        }

        #[inline(always)]
        fn sub(self, a: __m256d, b: __m256d) -> __m256d {
            // SAFETY: the machine has AVX.
            unsafe { _mm256_sub_pd(a, b) }
        }

        #[inline(always)]
        fn mul(self, a: __m256d, b: __m256d) -> __m256d {
            // SAFETY: the machine has AVX.
            unsafe { _mm256_mul_pd(a, b) }
        }

        #[inline(always)]
        fn mask(self, a: __m256d, mask: &[u64; 4]) -> __m256d {
            // SAFETY: the machine has AVX; four numbers are read from where four are.
            unsafe { _mm256_and_pd(a, _mm256_loadu_pd(mask.as_ptr().cast())) }
        }

        #[inline(always)]
        fn transpose(self, rows: [__m256d; 4]) -> [__m256d; 4] {
            let [a, b, c, d] = rows;
            // SAFETY: the machine has AVX.
            unsafe {
                let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
                [
                    _mm256_permute2f128_pd::<0x20>(ab_even, cd_even),
                    _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd),
                    _mm256_permute2f128_pd::<0x31>(ab_even, cd_even),
                    _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
                ]
            }
        }

        #[inline(always)]
        fn prefetch(self, numbers: &[f64; 4]) {
            // SAFETY: a hint, about memory that is there.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(numbers.as_ptr().cast()) }
        }
    };
}

/// A word as a number in [2, 4), by its 52 highest bits.
const TWO: i64 = 0x4000_0000_0000_0000;

impl Path for Avx2 {
    four_in_avx!();

    #[inline(always)]
    fn candidates(self, ziggurat: &Ziggurat, words: &Lanes<u64>) -> (Lanes<f64>, u8) {
        /// Layers are loaded in pairs, edge and next edge, and then sorted into two vectors.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn four(ziggurat: &Ziggurat, words: [u64; 4]) -> ([f64; 4], u8) {
            let pair = |l: usize| {
                let [edge, next] = ziggurat.layer(words[l]);
                _mm_set_pd(next, edge)
            };
            let even = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(pair(0)), pair(2));
            let odd = _mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(pair(1)), pair(3));
            let (edge, next) = (_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd));
            // SAFETY: four 64-bit numbers either way.
            let words: __m256i = unsafe { transmute(words) };
            let bits = _mm256_or_si256(_mm256_set1_epi64x(TWO), _mm256_srli_epi64::<12>(words));
            let uniform = _mm256_sub_pd(_mm256_castsi256_pd(bits), _mm256_set1_pd(3.0));
            let x = _mm256_mul_pd(uniform, edge);
            let size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
            let rejected = _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NLT_UQ>(size, next));
            // SAFETY: four 64-bit numbers either way.
            (unsafe { transmute::<__m256d, [f64; 4]>(x) }, rejected as u8)
        }
        let [a, b, c, d, e, f, g, h] = *words;
        // SAFETY: the machine has AVX2.
        let ((low, rejected_low), (high, rejected_high)) =
            unsafe { (four(ziggurat, [a, b, c, d]), four(ziggurat, [e, f, g, h])) };
        let ([a, b, c, d], [e, f, g, h]) = (low, high);
        ([a, b, c, d, e, f, g, h], rejected_low | rejected_high << 4)
    }
}

impl Path for Avx512 {
    four_in_avx!();

    #[inline(always)]
    fn candidates(self, ziggurat: &Ziggurat, words: &Lanes<u64>) -> (Lanes<f64>, u8) {
        #[inline]
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
        fn eight(ziggurat: &Ziggurat, words: &Lanes<u64>) -> (Lanes<f64>, u8) {
            let pair = |l: usize| {
                let [edge, next] = ziggurat.layer(words[l]);
                _mm_set_pd(next, edge)
            };
            let even = _mm512_castpd128_pd512(pair(0));
            let even = _mm512_insertf64x2::<1>(even, pair(2));
            let even = _mm512_insertf64x2::<2>(even, pair(4));
            let even = _mm512_insertf64x2::<3>(even, pair(6));
            let odd = _mm512_castpd128_pd512(pair(1));
            let odd = _mm512_insertf64x2::<1>(odd, pair(3));
            let odd = _mm512_insertf64x2::<2>(odd, pair(5));
            let odd = _mm512_insertf64x2::<3>(odd, pair(7));
            let (edge, next) = (_mm512_unpacklo_pd(even, odd), _mm512_unpackhi_pd(even, odd));
            // SAFETY: eight 64-bit numbers either way.
            let words: __m512i = unsafe { transmute(*words) };
            let bits = _mm512_or_si512(_mm512_set1_epi64(TWO), _mm512_srli_epi64::<12>(words));
            let uniform = _mm512_sub_pd(_mm512_castsi512_pd(bits), _mm512_set1_pd(3.0));
            let x = _mm512_mul_pd(uniform, edge);
            let rejected = _mm512_cmp_pd_mask::<_CMP_NLT_UQ>(_mm512_abs_pd(x), next);
            // SAFETY: eight 64-bit numbers either way.
            (unsafe { transmute::<__m512d, Lanes<f64>>(x) }, rejected)
        }
        // SAFETY: the machine has AVX-512 F, DQ, VL and BW.
        unsafe { eight(ziggurat, words) }
    }
}
