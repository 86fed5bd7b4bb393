//! Client weights where people leave: p_i, or q_i at a deployed φ.

use nalgebra::{DMatrix, DVector};

use crate::base::Base;
use crate::federation::Federation;
use crate::memory::Memory;
use crate::population::{Expansion, Performative};
use crate::response::{By, Response, Rest, renew};
use crate::state::Repetition;

/// What clients count for where φ is deployed.
#[derive(Clone, Debug)]
pub struct Turnout {
    /// One share a client; they sum to one.
    pub shares: Vec<f64>,
    /// Their derivatives in φ, client after client; nothing where they were not asked for, or are zero.
    pub slopes: Vec<DVector<f64>>,
    /// Σ p_i Σ s_k ρ_k: how many of all people stay.
    pub retained: f64,
}

impl Federation {
    /// Whether client weights react.
    pub fn weighs(&self) -> bool {
        self.retention().is_some_and(|retention| retention.weighs())
    }

    /// What clients count for at a deployed φ; with derivatives, if `slopes` are wanted.
    pub fn turnout(&self, deployed: &[f64], slopes: bool) -> Turnout {
        let weights = self.weights();
        let Some(retention) = self.retention() else {
            let retained = self.retained_by_own(deployed);
            return Turnout { shares: weights.to_vec(), slopes: Vec::new(), retained };
        };
        let (mut logs, mut own_slopes) = (Vec::new(), Vec::new());
        for client in 0..self.clients() {
            let (log, slope) = match self.rows(client).filter(|_| retention.by != By::Client) {
                Some(rows) if weights[client] > 0.0 => {
                    let reacted = retention.reacted(&rows, deployed, slopes);
                    (reacted.log_retained, DVector::from_vec(reacted.retained_slope))
                }
                // Nobody asks for a client without weight.
                _ if weights[client] == 0.0 => (0.0, DVector::zeros(deployed.len())),
                _ => {
                    let (loss, gradient) = self.base_loss(client, deployed);
                    let staying = retention.staying(client, loss);
                    (staying.log, gradient * staying.slope)
                }
            };
            logs.push(log);
            own_slopes.push(slope);
        }
        let retained = weights.iter().zip(&logs).map(|(p, log)| p * libm::exp(*log)).sum();
        if !retention.weighs() {
            return Turnout { shares: weights.to_vec(), slopes: Vec::new(), retained };
        }
        let Rest { shares, pull } = Rest::of(weights.to_vec(), &logs, retention.renewal);
        if !slopes {
            return Turnout { shares, slopes: Vec::new(), retained };
        }
        let (mut mean, pulled) = (DVector::zeros(deployed.len()), pull.iter().sum::<f64>());
        if pulled > 0.0 {
            let both = pull.iter().zip(&own_slopes);
            both.for_each(|(pull, slope)| mean.axpy(pull / pulled, slope, 1.0));
        }
        let each = pull.iter().zip(own_slopes).map(|(pull, slope)| (slope - &mean) * *pull);
        let slopes = each.collect();
        Turnout { shares, slopes, retained }
    }

    /// What was broadcast is deployed to those who come back slowly: their shares become what is left of
    /// them. Costs a look at all clients; where that is already one's weights, at their rows.
    pub fn renew(&self, repetition: &mut Repetition) {
        let (Some(Memory::Renewal { shares, weights }), Some(retention)) =
            (self.memory(), self.retention())
        else {
            return;
        };
        let theta = repetition.theta().to_vec();
        let past = repetition.past_mut();
        if weights {
            let log = |client| match self.weights()[client] > 0.0 {
                true => retention.staying(client, self.base_loss(client, &theta).0).log,
                false => 0.0,
            };
            let logs: Vec<f64> = (0..self.clients()).map(log).collect();
            return renew(past, self.weights(), &logs, retention.renewal);
        }
        for (client, shares) in past.chunks_exact_mut(shares).enumerate() {
            if let Some(rows) = self.rows(client) {
                retention.renew(&rows, &theta, shares);
            }
        }
    }

    /// How many of all people somebody's own rule lets stay.
    fn retained_by_own(&self, deployed: &[f64]) -> f64 {
        let Response::Own(own) = self.response() else { return 1.0 };
        if !own.leaves() {
            return 1.0;
        }
        let each = self.counting().filter_map(|client| Some((client, self.rows(client)?)));
        each.map(|(client, rows)| self.weights()[client] * own.retained(&rows, deployed)).sum()
    }

    /// What the cells of a client's rows count for where φ is deployed; none where rows do not leave.
    pub fn shares(&self, client: usize, deployed: &[f64]) -> Option<Vec<f64>> {
        let retention = self.retention().filter(|retention| retention.by != By::Client)?;
        Some(retention.reacted(&self.rows(client)?, deployed, false).shares)
    }

    /// The mean loss of a client's base observations at θ, without penalty, and its gradient.
    pub fn base_loss(&self, client: usize, theta: &[f64]) -> (f64, DVector<f64>) {
        let mut gradient = DVector::zeros(theta.len());
        let Some(rows) = self.rows(client) else {
            let mean = self.population(client).base_mean();
            let noise: f64 = self.population(client).base_variance().iter().sum();
            for j in 0..theta.len() {
                gradient[j] = theta[j] - mean[j];
            }
            return (0.5 * (gradient.norm_squared() + noise), gradient);
        };
        let share = 1.0 / rows.table.block(client).1.len() as f64;
        let mut value = 0.0;
        for (x, label) in rows.table.rows_of(client) {
            value += share * self.loss().value(theta, x, label);
            self.loss().add_gradient(theta, x, label, share, gradient.as_mut_slice());
        }
        (value, gradient)
    }

    /// What a cell is called: the value of its column, or its label.
    pub fn cell_name(&self, cell: usize) -> String {
        let Base::Table(table) = self.base() else { return cell.to_string() };
        match &table.cells {
            Some(groups) => groups.names[cell].clone(),
            None => {
                let mut labels = table.labels().to_vec();
                labels.sort_by(f64::total_cmp);
                labels.dedup();
                labels.get(cell).map_or(cell.to_string(), |label| format!("label {label}"))
            }
        }
    }

    /// What one cell alone would cost, of all clients together, and its derivatives in θ, penalty
    /// included; a client, where whole clients leave.
    pub fn cell(&self, cell: usize, theta: &[f64]) -> Performative {
        let Some(cells) = self.cells() else {
            let Expansion { risk, gradient, curvature, .. } =
                self.population(cell).expand(theta, theta);
            return Performative { risk, gradient, hessian: curvature };
        };
        let dim = theta.len();
        let (mut risk, mut total) = (0.0, 0.0);
        let (mut gradient, mut hessian) = (DVector::zeros(dim), DMatrix::zeros(dim, dim));
        let clients = self.counting().filter_map(|client| Some((client, self.rows(client)?)));
        for (client, rows) in clients {
            let (features, labels) = rows.table.block(client);
            let share = self.weights()[client] / labels.len() as f64;
            for &row in cells.rows(client, cell) {
                let (row, loss) = (row as usize, self.loss());
                let (x, label) = (&features[row * dim..][..dim], labels[row]);
                total += share;
                risk += share * loss.value(theta, x, label);
                loss.add_gradient(theta, x, label, share, gradient.as_mut_slice());
                match loss.curvature(theta, x, label) {
                    Some(curvature) => {
                        let x = DVector::from_column_slice(x);
                        hessian.ger(share * curvature, &x, &x, 1.0);
                    }
                    None => (0..dim).for_each(|j| hessian[(j, j)] += share),
                }
            }
        }
        let ridge = self.ridge();
        let penalty = ridge.component_mul(&DVector::from_column_slice(theta));
        Performative {
            risk: risk / total + self.penalty(theta),
            gradient: gradient / total + penalty,
            hessian: hessian / total + DMatrix::from_diagonal(&ridge),
        }
    }

    /// Σ p_i f_i(θ) over base observations and with the weights that clients had: what it would cost if
    /// nobody had reacted.
    pub fn base_risk(&self, theta: &[f64]) -> f64 {
        let own = |client: usize| self.weights()[client] * self.base_loss(client, theta).0;
        self.counting().map(own).sum::<f64>() + self.penalty(theta)
    }
}
