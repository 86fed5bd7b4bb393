//! The paper's theorems in words.

use fedback_theory::bounds::{Term, Undefined};
use fedback_theory::constants::How;

use super::short;

/// How a constant was obtained, or why it does not exist.
pub fn how(how: How) -> &'static str {
    match how {
        How::Given => "given",
        How::NoStablePoint => "there is no stable point to measure from",
        How::StartToStable => "|start − stable point|²",
        How::IdentityHessian => "the loss |θ − z|²/2 has the Hessian I",
        How::IdentityGradient => "∇ℓ = θ − z",
        How::Observations => "largest total standard deviation of a client's observations / √batch",
        How::AverageSensitivity => "Σ p_i ε_i of absolute sensitivities",
        How::LargestSensitivity => "the largest absolute sensitivity",
        How::OneDimension => {
            "√ max (ε_i − ε̄)² + r_i², r_i = m_i + ε_i θ^PS − θ^PS; the smallest possible"
        }
        How::SingularValue => "largest singular value of [M_i − M̄, r_i]; the smallest possible",
        How::UpperBound => "√ max |M_i − M̄|² + |r_i|²; an upper bound of the smallest possible",
        How::FlattestHessian => {
            "smallest eigenvalue of the averaged Hessian, at the stable point only: further out the \
             loss may be flatter"
        }
        How::SingularHessian => {
            "the averaged Hessian at the stable point is singular: the risk is not strongly convex"
        }
        How::SteepestRow => {
            "largest derivative of a row's gradient in θ or in the row, at the stable point only; \
             for every θ there is none, because the derivative in the row grows with θ"
        }
        How::BatchNoise => {
            "largest batch noise, at the stable point only; the assumption asks for every θ"
        }
        How::LargestGradient => {
            "largest |∇f_i|, at the stable point only; the assumption asks for every θ"
        }
    }
}

/// Why a constant of the theorems does not exist.
pub fn undefined(why: Undefined) -> String {
    let fixed = match why {
        Undefined::NotKnown(term, why) => {
            return format!("{} is not known: {}", name(term), how(why));
        }
        Undefined::NoDelta { average, threshold } => {
            return format!(
                "no delta is valid: the average of the absolute sensitivities, {}, is not below \
                 mu/L = {}",
                short(average),
                short(threshold)
            );
        }
        Undefined::NotConvex(mu_tilde) => {
            return format!("mu_tilde = {} is not positive: delta is too large", short(mu_tilde));
        }
        Undefined::SmallBeta(least) => {
            return format!("beta is not above 1/mu_tilde = {}", short(least));
        }
        Undefined::SmallBetaOfAlternative(least) => {
            return format!("beta is not above {}", short(least));
        }
        Undefined::LongFirstStep { first, most } => {
            return format!(
                "the first step beta/gamma = {} is above {}, the largest that the proof allows",
                short(first),
                short(most)
            );
        }
        Undefined::FirstArrivals => {
            "the theorems know no first arrivals: their cohorts are drawn by chance, not by speed"
        }
        Undefined::DeployedOnce => {
            "the theorems deploy the model at every local step, this protocol once a round"
        }
        Undefined::UnequalWeights => {
            "sampling without replacement needs equal weights, or scale_objectives = true"
        }
        Undefined::DeltaWithoutReaction => "the average sensitivity is 0, so delta has no effect",
        Undefined::C1WithoutReaction => "the average sensitivity is 0, and c1 divides by it",
        Undefined::AtStablePoint => {
            "the run starts at the stable point, delta_0 = 0, and c4 divides by it"
        }
        Undefined::NoCap => "without noise and heterogeneity there is no cap on the first step",
        Undefined::ConstantStep => "the theorems are about step sizes beta/(t + gamma)",
        Undefined::SmallGamma => "gamma is below local_steps",
        Undefined::OtherScheme { with_replacement: true } => "belongs to sampling with replacement",
        Undefined::OtherScheme { with_replacement: false } => {
            "belongs to sampling without replacement"
        }
        Undefined::NoStablePoint => "there is no stable point",
        Undefined::LongTrajectory => "the trajectory is too long to be followed; lower rounds",
        Undefined::NotExact => "G is known along exact trajectories only",
        Undefined::Unbounded => "the gradients along the trajectory do not stay finite",
        Undefined::TooLarge => "too large to be represented",
    };
    fixed.into()
}

fn name(term: Term) -> &'static str {
    match term {
        Term::Mu => "mu",
        Term::Smoothness => "L",
        Term::Sigma => "sigma",
        Term::Varsigma => "varsigma",
        Term::Delta0 => "delta_0",
    }
}
