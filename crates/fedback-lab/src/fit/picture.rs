//! A picture of each client's shift.

use fedback_fit::model::{Direction, Shape};

use super::Fitted;
use super::estimate::displacement;
use crate::figure::{Axis, Figure, Grid, Mark, Series};

impl Fitted {
    /// For every moving feature a panel: how far its mean is from that under the reference, over its
    /// coefficient, with what was fitted.
    pub fn figure(&self) -> Grid {
        let percent = 100.0 * self.confidence;
        let panels = self.model.features.iter().map(|&feature| self.panel(feature)).collect();
        Grid {
            title: "How far clients moved".into(),
            subtitle: format!(
                "Mean of each feature less that under {}, with {percent:.0}% intervals, over its \
                 coefficient in the deployed model; lines: the fitted response",
                self.input.names[self.reference]
            ),
            panels,
        }
    }

    fn panel(&self, feature: usize) -> Figure {
        let deployments = &self.input.deployments.0;
        let mut order: Vec<usize> = (0..deployments.len()).collect();
        order.sort_by(|&a, &b| deployments[a][feature].total_cmp(&deployments[b][feature]));
        let mut series = Vec::new();
        for (client, name) in self.input.clients.iter().enumerate() {
            let line = order
                .iter()
                .map(|&k| (deployments[k][feature], self.fitted_displacement(client, k, feature)));
            let mark = if self.model.shape == Shape::Matrix { Mark::Dashed } else { Mark::Line };
            series.push(Series::line(name.as_str(), client, line.collect()).with_mark(mark));
        }
        for (client, name) in self.input.clients.iter().enumerate() {
            let others = order.iter().filter(|k| **k != self.reference);
            let aside = self.aside(client, feature);
            let seen: Vec<(f64, [f64; 3])> = others
                .map(|&k| (deployments[k][feature] + aside, displacement(self, client, k, feature)))
                .collect();
            let points = seen.iter().map(|(x, [value, _, _])| (*x, *value)).collect();
            let bars = seen.iter().map(|(_, [_, low, high])| (*low, *high)).collect();
            let dots = Series::line(name.as_str(), client, points).with_mark(Mark::Dots);
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
    fn aside(&self, client: usize, feature: usize) -> f64 {
        let values = || self.input.deployments.0.iter().map(|theta| theta[feature]);
        let width = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
        let clients = self.clients.len() as f64;
        let step = width * 0.02_f64.min(0.08 / clients);
        step * (client as f64 - 0.5 * (clients - 1.0))
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
