//! Where the constants of the assumptions come from.

use fedback_theory::constants::How;

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
