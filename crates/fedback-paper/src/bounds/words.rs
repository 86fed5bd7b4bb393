//! Why a theorem says nothing, in words.

use fedback_lab::words::{factor, how, short};
use fedback_theory::asymptotic::NoLaw;
use fedback_theory::bounds::{Term, Undefined};

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
        Undefined::Remembered => {
            "the theorems' populations answer to the model deployed last, these remember earlier ones"
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

/// Why there is no law of large t, in words.
pub(super) fn no_law(why: &NoLaw) -> String {
    match why {
        NoLaw::NotAffine => {
            "the law is computed for affine problems (the loss \"mean\") only".into()
        }
        NoLaw::NoStablePoint => "there is no stable point".into(),
        NoLaw::ConstantStep => {
            "with a constant step size the error does not vanish: it tends to a \
                                bias and a noise floor, not to a law of order 1/t"
                .into()
        }
        NoLaw::FirstArrivals => {
            "the law is not computed for first arrivals of unequal speed".into()
        }
        NoLaw::Rescaled => "unequal weights without replacement, aggregating iterates: every \
                            aggregation rescales θ at random, and the error does not vanish"
            .into(),
        NoLaw::TooLarge(most) => {
            format!("matrix responses in more than {most} dimensions are too many unknowns")
        }
        NoLaw::NotSolved => "the Lyapunov equation is singular".into(),
        NoLaw::TooSlow { twice_rate, beta } => format!(
            "2 · beta · (smallest real part of an eigenvalue of I − Σ p_i M_i) is {}, not \
             above 1: the error decays more slowly than 1/t; choose beta above {}",
            factor(*twice_rate),
            short(*beta)
        ),
    }
}
