//! Many rounds at once, where coordinates do not mix and rounds share their maps.
//!
//! A round takes the mean m of a coordinate and its variance V to g m + d and f V + s m² + 2 c m + k.
//! Such maps compose to maps of the same kind, so those of 2, 4, 8, … rounds follow from each other, and a
//! million rounds take as long as twenty.

/// What some rounds do to one coordinate under one scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rounds {
    /// g.
    pub(super) gain: f64,
    /// d.
    pub(super) drift: f64,
    /// f.
    pub(super) factor: f64,
    /// s.
    pub(super) square: f64,
    /// c.
    pub(super) cross: f64,
    /// k.
    pub(super) constant: f64,
}

impl Rounds {
    /// The same rounds twice.
    fn doubled(&self) -> Rounds {
        let Rounds { gain, drift, factor, square, cross, constant } = *self;
        Rounds {
            gain: gain * gain,
            drift: gain * drift + drift,
            factor: factor * factor,
            square: factor * square + square * gain * gain,
            cross: factor * cross + square * gain * drift + cross * gain,
            constant: factor * constant + (square * drift + 2.0 * cross) * drift + constant,
        }
    }

    /// Moves a variance; `mean` is the one before.
    fn spread(&self, mean: f64, variance: f64) -> f64 {
        let source = (self.square * mean + 2.0 * self.cross) * mean + self.constant;
        self.factor * variance + source.max(0.0)
    }
}

/// The maps of 1, 2, 4, … rounds for several schemes.
pub(super) struct Leaps {
    dim: usize,
    /// For each power of two: scheme after scheme, coordinate after coordinate.
    levels: Vec<Vec<Rounds>>,
}

impl Leaps {
    /// Doubles a round as long as at most `most` rounds come out, and errors decay by a share of at
    /// most `decay`.
    pub(super) fn new(round: Vec<Rounds>, dim: usize, most: u64, decay: f64) -> Self {
        let change = |r: &Rounds| (1.0 - r.gain).abs().max((1.0 - r.factor).abs());
        let fastest = round.iter().map(change).fold(0.0, f64::max);
        let mut levels = vec![round];
        while 2u64 << levels.len() <= most.min(1 << 50)
            && fastest * libm::exp2(levels.len() as f64) <= decay
        {
            let doubled = levels[levels.len() - 1].iter().map(Rounds::doubled).collect();
            levels.push(doubled);
        }
        Leaps { dim, levels }
    }

    /// The largest power of two of rounds.
    pub(super) fn highest(&self) -> usize {
        self.levels.len() - 1
    }

    /// Writes the mean after 2^level rounds.
    pub(super) fn aggregate(&self, level: usize, mean: &[f64], after: &mut [f64]) {
        for (j, after) in after.iter_mut().enumerate() {
            let rounds = &self.levels[level][j];
            *after = rounds.gain * mean[j] + rounds.drift;
        }
    }

    /// Writes a scheme's variances after 2^level rounds, and returns their sum; `mean` is the one
    /// before.
    pub(super) fn spread(
        &self,
        level: usize,
        scheme: usize,
        mean: &[f64],
        before: &[f64],
        after: &mut [f64],
    ) -> f64 {
        let rounds = &self.levels[level][scheme * self.dim..];
        let mut total = 0.0;
        for j in 0..self.dim {
            after[j] = rounds[j].spread(mean[j], before[j]);
            total += after[j];
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_is_so_many_rounds() {
        let round = Rounds {
            gain: 0.99,
            drift: 0.02,
            factor: 0.985,
            square: 0.001,
            cross: -0.002,
            constant: 0.03,
        };
        let leaps = Leaps::new(vec![round], 1, 9, 0.1);
        assert_eq!(leaps.highest(), 2);
        let (mut mean, mut variance) = (3.0, 0.5);
        for _ in 0..4 {
            (mean, variance) = (0.99 * mean + 0.02, round.spread(mean, variance));
        }
        let (mut after, mut spread) = ([0.0], [0.0]);
        leaps.aggregate(2, &[3.0], &mut after);
        leaps.spread(2, 0, &[3.0], &[0.5], &mut spread);
        assert!((after[0] - mean).abs() < 1e-14 && (spread[0] - variance).abs() < 1e-14);
    }
}
