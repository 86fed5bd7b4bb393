//! How the gradient of a batch varies around its mean near one point.
//!
//! A row x with label y, moved by M φ, has the gradient ℓ′ x̃ + ridge with x̃ = x + M φ, and its own
//! derivative R = [∂/∂w, ∂/∂φ] with ∂/∂w = ℓ″ x̃ x̃ᵀ and ∂/∂φ = ℓ′ M + ℓ″ x̃ (Mᵀθ)ᵀ. Rows differ, so the
//! noise of a batch grows with the error z = (w, φ) that it meets: its covariance is S at the point
//! and S + E(R̂ z zᵀ R̂ᵀ)/batch away from it, R̂ = R − E R. The loss `mean` has constant derivatives and
//! only S. Where equal parts of a population answer to models of their own, z has all of these, and an observation
//! ∂/∂φ at that of its part: what is drawn is a row and a part, and of the loss `mean` the part alone.

use fedback_core::base::Base;
use fedback_core::federation::Federation;
use fedback_core::loss::{Logistic, Loss, MarginLoss, Squared};
use fedback_core::protocol::{Deploy, Protocol};
use nalgebra::{DMatrix, DVector};

use super::block::Block;
use super::client;
use super::recall::Recall;

/// Up to this many entries of R its Kronecker square is averaged over rows.
const MOST_ENTRIES: usize = 256;

/// The part of a client's gradient noise that grows with the error.
#[derive(Clone)]
pub(crate) enum Grows {
    /// E(R̂ ⊗ R̂)/batch, exactly.
    Exact(DMatrix<f64>),
    /// W with E(R̂ Y R̂ᵀ)/batch ≤ W · trace Y, where the exact one is too large, and the length of z.
    Bound(DMatrix<f64>, usize),
    /// J D Jᵀ/batch, D being the covariance of the models that so many equal parts answer to: J and 1/batch.
    Ages(DMatrix<f64>, usize, f64),
}

impl Grows {
    /// The noise of one client near `theta`; none where gradients have constant derivatives.
    pub(crate) fn of(
        federation: &Federation,
        protocol: &Protocol,
        client: usize,
        theta: &[f64],
    ) -> Option<Self> {
        let (dim, theta) = (theta.len(), DVector::from_column_slice(theta));
        let recall = federation.memory().map(Recall::of);
        let scale = client::scale(federation, protocol, client);
        let Some(rows) = rows(federation, client, &theta) else {
            let near = federation.population(client).expand(theta.as_slice(), theta.as_slice());
            return Grows::of_ages(protocol, recall.as_ref()?, near.reaction * scale);
        };
        let count: f64 = rows.iter().map(|row| row.weight).sum();
        // Of rows that react one by one each has its own.
        let common = federation.population(client).shift_matrix(theta.as_slice());
        let nothing = DMatrix::zeros(dim, dim);
        let parts = recall.as_ref().map_or(1, Recall::parts);
        // The two derivatives are in one where φ is the local θ.
        let width = match (protocol.deploy, &recall) {
            (Deploy::Step, None) => dim,
            (Deploy::Step | Deploy::Round, _) => (1 + parts) * dim,
        };
        // R of a row in a part.
        let derivative = |row: &Moved, part: usize| {
            let Moved { x, slope, curvature, .. } = row;
            let matrix = row.moves.as_ref().or(common.as_ref()).unwrap_or(&nothing);
            let pull = matrix.tr_mul(&theta);
            let own = x * x.transpose() * *curvature;
            let mut reaction = matrix * *slope + x * pull.transpose() * *curvature;
            if !row.label.is_empty() {
                // ∂ℓ′/∂y = −1.
                reaction.ger(-1.0, x, &DVector::from_column_slice(&row.label), 1.0);
            }
            if width == dim {
                return own + reaction;
            }
            let mut both = own.resize_horizontally(width, 0.0);
            both.columns_mut((1 + part) * dim, dim).copy_from(&reaction);
            both
        };
        let rows = rows.iter().flat_map(|row| (0..parts).map(move |part| (row, part)));
        let weighted = |(row, part): (&Moved, usize)| derivative(row, part) * row.weight;
        let zero = || DMatrix::zeros(dim, width);
        let count = count * parts as f64;
        let mean = rows.clone().fold(zero(), |sum, one| sum + weighted(one)) / count;
        let share = scale * scale / (count * protocol.batch.size());
        let apart = rows.map(|(row, part)| (row.weight, derivative(row, part) - &mean));
        if dim * width <= MOST_ENTRIES {
            let nothing = DMatrix::zeros(dim * dim, width * width);
            let squares =
                apart.fold(nothing, |sum, (weight, row)| sum + row.kronecker(&row) * weight);
            return Some(Grows::Exact(squares * share));
        }
        let squares = apart.fold(DMatrix::zeros(dim, dim), |sum, (weight, row)| {
            sum + &row * row.transpose() * weight
        });
        Some(Grows::Bound(squares * share, width))
    }

    /// The same of the loss `mean`, whose gradients answer by J to an average of models; none where all of a
    /// population answer to one, or nobody is drawn.
    pub(super) fn of_ages(
        protocol: &Protocol,
        recall: &Recall,
        reaction: DMatrix<f64>,
    ) -> Option<Self> {
        let share = 1.0 / protocol.batch.size();
        let noisy = recall.parts() > 1 && share > 0.0;
        noisy.then(|| Grows::Ages(reaction, recall.parts(), share))
    }

    /// The length of z: the local error, and the deployed one where that is another.
    pub(crate) fn width(&self) -> usize {
        match self {
            Grows::Exact(square) => square.ncols().isqrt(),
            Grows::Bound(_, width) => *width,
            Grows::Ages(reaction, parts, _) => (1 + parts) * reaction.nrows(),
        }
    }

    /// E(R̂ Y R̂ᵀ)/batch, or an upper bound of it.
    pub(crate) fn apply(&self, y: &DMatrix<f64>) -> DMatrix<f64> {
        match self {
            Grows::Exact(square) => {
                let flat = square * DVector::from_column_slice(y.as_slice());
                let dim = flat.len().isqrt();
                DMatrix::from_column_slice(dim, dim, flat.as_slice())
            }
            Grows::Bound(bound, _) => bound * y.trace(),
            Grows::Ages(reaction, parts, share) => {
                let dim = reaction.nrows();
                let part = |j: usize, k: usize| y.view(((1 + j) * dim, (1 + k) * dim), (dim, dim));
                let of = 1.0 / *parts as f64;
                let mut apart = DMatrix::zeros(dim, dim);
                for j in 0..*parts {
                    apart += part(j, j) * of;
                    (0..*parts).for_each(|k| apart -= part(j, k) * (of * of));
                }
                reaction.around(&apart) * *share
            }
        }
    }
}

/// A row x̃ as θ has moved it, or one of the things that may have become of it.
pub(crate) struct Moved {
    /// How many rows it stands for: one, where it is certain.
    pub(crate) weight: f64,
    pub(crate) x: DVector<f64>,
    /// ℓ′ and ℓ″.
    pub(crate) slope: f64,
    pub(crate) curvature: f64,
    /// ∂x̃/∂φ, where it is not that of all rows.
    moves: Option<DMatrix<f64>>,
    /// ∂y/∂φ, where there is any.
    label: Vec<f64>,
}

/// A client's rows as θ moves them; none where gradients have constant derivatives.
pub(crate) fn rows(
    federation: &Federation,
    client: usize,
    theta: &DVector<f64>,
) -> Option<Vec<Moved>> {
    let Base::Table(table) = &federation.base() else { return None };
    let derivatives: fn(f64, f64) -> (f64, f64) = match federation.loss() {
        Loss::Mean => return None,
        Loss::Squared { .. } => |m, y| (Squared.slope(m, y), Squared.curvature(m, y)),
        Loss::Logistic { .. } => |m, y| (Logistic.slope(m, y), Logistic.curvature(m, y)),
    };
    let Some(shift) = federation.shift() else {
        let count = table.block(client).1.len() as f64;
        let mut all = Vec::new();
        federation.population(client).fates(theta.as_slice(), &mut |fate| {
            let x = DVector::from_column_slice(fate.x);
            let (slope, curvature) = derivatives(x.dot(theta), fate.label);
            let moves = fate.slopes.and_then(|slopes| slopes.x.clone());
            let label = fate.slopes.map_or(Vec::new(), |slopes| slopes.label.clone());
            all.push(Moved { weight: fate.share * count, x, slope, curvature, moves, label });
        });
        return Some(all);
    };
    let mut moved = DVector::zeros(theta.len());
    shift.apply(client, theta.as_slice(), moved.as_mut_slice());
    let one = |(row, label): (&[f64], f64)| {
        let x = DVector::from_column_slice(row) + &moved;
        let (slope, curvature) = derivatives(x.dot(theta), label);
        Moved { weight: 1.0, x, slope, curvature, moves: None, label: Vec::new() }
    };
    Some(table.rows_of(client).map(one).collect())
}
