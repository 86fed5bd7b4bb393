//! Local rules: what a client makes of a gradient. One file a rule.
//!
//! A rule is about one coordinate at a time, so that the same three lines serve every kernel: lanes
//! of normal data, groups of clients over rows, the plain loop over functions. It is chosen once a
//! block of clients ([`with_rule`]) and compiled into the kernels; no call is virtual.

mod descent;
mod proximal;
mod scaffold;

use fedback_core::protocol::LocalRule;
use fedback_core::simd::Number;

pub use descent::Descent;
pub use proximal::Proximal;
pub use scaffold::Scaffold;

/// A coordinate of a client in the middle of its round, or several in a register.
#[derive(Clone, Copy, Debug)]
pub struct Coordinate<N> {
    /// The local model.
    pub w: N,
    /// The model as broadcast.
    pub theta: N,
    /// What [`Rule::control`] made of what was sent and kept.
    pub control: N,
}

/// The size of a local step.
#[derive(Clone, Copy, Debug)]
pub struct StepSizes<N> {
    /// η.
    pub plain: N,
    /// What the gradient is multiplied with: η, times N·p_i where objectives are scaled and the
    /// gradient is not yet.
    pub gradient: N,
}

/// What a client makes of a gradient, one coordinate at a time.
pub trait Rule: Copy + Send + Sync {
    /// Whether the rule reads more than the local model and the gradient.
    const READS: bool;

    /// The local model after a step along a gradient.
    fn step<N: Number>(self, at: Coordinate<N>, gradient: N, size: StepSizes<N>) -> N;

    /// What enters all steps of a round, of what the server sent and what the client kept.
    #[inline(always)]
    fn control(self, _sent: f64, _kept: f64) -> f64 {
        0.0
    }

    /// What the client keeps after a round that moved its model by `delta` in steps of `total`
    /// size. Asked only of rules that keep something ([`LocalRule::keeps`]).
    #[inline(always)]
    fn keep(self, _control: f64, _delta: f64, _total: f64) -> f64 {
        0.0
    }
}

/// Something to be done with a rule once it is known which.
pub trait WithRule {
    /// What comes of it.
    type Output;
    /// Does it.
    fn with<R: Rule>(self, rule: R) -> Self::Output;
}

/// The rule that a description stands for. The only match on local rules in the engine.
#[inline]
pub fn with_rule<W: WithRule>(rule: LocalRule, work: W) -> W::Output {
    match rule {
        LocalRule::Descent => work.with(Descent),
        LocalRule::Proximal { proximal } => work.with(Proximal(proximal)),
        LocalRule::Scaffold => work.with(Scaffold),
    }
}

/// Shortens the deltas of `dim` coordinates that are longer than `longest`.
pub(crate) fn clip(deltas: &mut [f64], dim: usize, longest: f64) {
    for delta in deltas.chunks_exact_mut(dim.max(1)) {
        let length = length(delta);
        if length > longest && length.is_finite() {
            delta.iter_mut().for_each(|d| *d *= longest / length);
        }
    }
}

/// |v|, also where the squares of its coordinates leave the range of numbers.
pub(crate) fn length(vector: &[f64]) -> f64 {
    let largest = vector.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * vector.iter().map(|v| (v / largest) * (v / largest)).sum::<f64>().sqrt()
}

/// What clients keep after a round, written over what they kept before it; `sent` is what the server
/// sent to them, and all vectors have its length.
pub(crate) fn keep<R: Rule>(rule: R, sent: &[f64], kept: &mut [f64], deltas: &[f64], total: f64) {
    if let [sent] = sent {
        for (kept, delta) in kept.iter_mut().zip(deltas) {
            *kept = rule.keep(rule.control(*sent, *kept), *delta, total);
        }
        return;
    }
    let dim = sent.len().max(1);
    for (kept, delta) in kept.chunks_exact_mut(dim).zip(deltas.chunks_exact(dim)) {
        for ((kept, sent), delta) in kept.iter_mut().zip(sent).zip(delta) {
            *kept = rule.keep(rule.control(*sent, *kept), *delta, total);
        }
    }
}

/// What clients keep by a rule after a round of steps of Σ η_t in all, written over what they kept
/// before it.
pub(crate) fn keep_by_rule(
    rule: LocalRule,
    total: f64,
    sent: &[f64],
    kept: &mut [f64],
    deltas: &[f64],
) {
    struct Keeping<'a>(&'a [f64], &'a mut [f64], &'a [f64], f64);

    impl WithRule for Keeping<'_> {
        type Output = ();

        fn with<R: Rule>(self, rule: R) {
            keep(rule, self.0, self.1, self.2, self.3);
        }
    }

    with_rule(rule, Keeping(sent, kept, deltas, total));
}
