//! Theory's answers in single words, those of the JSON contract.

use fedback_theory::certificate::Verdict;
use fedback_theory::constants::How;
use fedback_theory::stable::Stability;

/// What retraining does.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Settles => "settles",
        Verdict::SettlesWithSmallSteps => "settles-with-small-steps",
        Verdict::MinimisationOnly => "minimisation-only",
        Verdict::DoesNotSettle => "does-not-settle",
        Verdict::Unknown => "unknown",
    }
}

/// What small steps do near a stable point.
pub fn stability(stability: Stability) -> &'static str {
    match stability {
        Stability::Attracting => "attracting",
        Stability::Repelling => "repelling",
        Stability::None => "none",
        Stability::Unknown => "unknown",
    }
}

/// Where the value of a constant comes from.
pub fn origin(how: How) -> &'static str {
    match how {
        How::Given => "given",
        How::FlattestHessian | How::SteepestRow | How::BatchNoise | How::LargestGradient => {
            "estimated"
        }
        How::NoStablePoint
        | How::StartToStable
        | How::IdentityHessian
        | How::IdentityGradient
        | How::Observations
        | How::AverageSensitivity
        | How::LargestSensitivity
        | How::OneDimension
        | How::SingularValue
        | How::UpperBound
        | How::SingularHessian => "derived",
    }
}
