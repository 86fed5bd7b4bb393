//! A picture of each client's shift.

use fedback_fit::model::{Direction, Shape};

use super::Fitted;
use super::estimate::displacement;
use crate::figure::{Axis, Figure, Grid, Mark, Series};

/// Clients that one panel can tell apart.
const MOST_CLIENTS: usize = 8;

impl Fitted {
    /// For every moving feature a panel: how far its mean is from that under the reference, over its
    /// coefficient, with what was fitted.
    pub fn figure(&self) -> Grid {
        let percent = 100.0 * self.confidence;
        let shown = self.shown();
        let panels = self.model.features.iter().map(|&f| self.panel(f, &shown)).collect();
        let all = self.clients.len();
        let title = match shown.len() < all {
            true => format!("How far the {} of {all} clients moved that moved most", shown.len()),
            false => "How far clients moved".into(),
        };
        Grid {
            title,
            subtitle: format!(
                "Mean of each feature less that under {}, with {percent:.0}% intervals, over its \
                 coefficient in the deployed model; lines: the fitted response",
                self.input.names[self.reference]
            ),
            panels,
            axes: Vec::new(),
        }
    }

    /// The clients to show, in their order: all, or those with the strongest reaction.
    fn shown(&self) -> Vec<usize> {
        let mut clients: Vec<usize> = (0..self.clients.len()).collect();
        let strength = |client: &usize| self.clients[*client].estimate.values.norm();
        clients.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
        clients.truncate(MOST_CLIENTS);
        clients.sort_unstable();
        clients
    }

    fn panel(&self, feature: usize, shown: &[usize]) -> Figure {
        let deployments = &self.input.deployments.0;
        let mut order: Vec<usize> = (0..deployments.len()).collect();
        order.sort_by(|&a, &b| deployments[a][feature].total_cmp(&deployments[b][feature]));
        let mut series = Vec::new();
        let names = || shown.iter().map(|&client| self.input.clients[client].as_str()).enumerate();
        for (place, name) in names() {
            let client = shown[place];
            let line = order
                .iter()
                .map(|&k| (deployments[k][feature], self.fitted_displacement(client, k, feature)));
            let mark = if self.model.shape == Shape::Matrix { Mark::Dashed } else { Mark::Line };
            series.push(Series::line(name, place, line.collect()).with_mark(mark));
        }
        for (place, name) in names() {
            let client = shown[place];
            let others = order.iter().filter(|k| **k != self.reference);
            let aside = self.aside(place, shown.len(), feature);
            let seen: Vec<(f64, [f64; 3])> = others
                .map(|&k| (deployments[k][feature] + aside, displacement(self, client, k, feature)))
                .collect();
            let points = seen.iter().map(|(x, [value, _, _])| (*x, *value)).collect();
            let bars = seen.iter().map(|(_, [_, low, high])| (*low, *high)).collect();
            let dots = Series::line(name, place, points).with_mark(Mark::Dots);
            series.push(dots.with_band(bars));
        }
        Figure {
            title: self.input.features[feature].clone(),
            subtitle: String::new(),
            x: Axis::linear(format!("coefficient of {}", self.input.features[feature])),
            y: Axis::linear(format!("shift of {}", self.input.features[feature])),
            series,
        }
    }

    /// Clients stand side by side, so that their intervals can be told apart.
    fn aside(&self, place: usize, clients: usize, feature: usize) -> f64 {
        let values = || self.input.deployments.0.iter().map(|theta| theta[feature]);
        let width = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
        let step = width * 0.02_f64.min(0.08 / clients as f64);
        step * (place as f64 - 0.5 * (clients as f64 - 1.0))
    }

    /// What the fitted response says of a feature's mean, less that under the reference.
    fn fitted_displacement(&self, client: usize, deployment: usize, feature: usize) -> f64 {
        let thetas = &self.input.deployments.0;
        let step = |j: usize| thetas[deployment][j] - thetas[self.reference][j];
        let numbers = &self.clients[client].estimate.values;
        let features = &self.model.features;
        let own = features.iter().position(|&j| j == feature).unwrap_or(0);
        let moved: f64 = match self.model.shape {
            Shape::Scalar => numbers[0] * step(feature),
            Shape::Vector => numbers[own] * step(feature),
            Shape::Matrix => {
                let row = features.iter().enumerate();
                row.map(|(at, &j)| numbers[own * features.len() + at] * step(j)).sum()
            }
        };
        match self.model.direction {
            Direction::Location => moved,
            Direction::BestResponse => -moved,
        }
    }
}
