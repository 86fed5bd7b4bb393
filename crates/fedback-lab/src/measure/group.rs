//! What is measured of the groups of a table.

use fedback_core::groups::GroupScore;

/// A column of more values is a quantity or a name, whose groups would have a row or two.
pub const MOST_GROUPS: usize = 50;

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that are learned from.
    Training,
    /// Those that are held out.
    Holdout,
}

/// What is measured of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// What its rows cost.
    Risk,
    /// The share of rows on the right side.
    Accuracy,
    /// The share of rows that are predicted to be 1.
    Positive,
    /// The same of rows whose label is 1.
    TruePositive,
    /// The same of rows whose label is 0.
    FalsePositive,
}

impl Rate {
    /// All that is measured of a group under a loss with classes; of others, the risk.
    pub(super) fn all(logistic: bool) -> &'static [Rate] {
        use Rate::*;
        if logistic { &[Risk, Accuracy, Positive, TruePositive, FalsePositive] } else { &[Risk] }
    }

    /// The value of a group.
    pub(super) fn of(self, score: &GroupScore) -> f64 {
        match self {
            Rate::Risk => score.risk,
            Rate::Accuracy => score.accuracy,
            Rate::Positive => score.positive_rate,
            Rate::TruePositive => score.true_positive_rate,
            Rate::FalsePositive => score.false_positive_rate,
        }
    }

    /// The largest less the smallest value of a group; groups without a value are left out. NaN
    /// where fewer than two are left.
    pub(super) fn gap(self, scores: &[GroupScore]) -> f64 {
        let known = || scores.iter().map(|score| self.of(score)).filter(|value| !value.is_nan());
        if known().count() < 2 {
            return f64::NAN;
        }
        let (low, high) = (known().fold(f64::NAN, f64::min), known().fold(f64::NAN, f64::max));
        high - low
    }

    /// The name of a group's value in JSON and CSV.
    pub(super) fn name(self, part: Part) -> &'static str {
        match (self, part) {
            (Rate::Risk, Part::Training) => "risk_by_group",
            (Rate::Risk, Part::Holdout) => "risk_by_group_holdout",
            (Rate::Accuracy, Part::Training) => "accuracy_by_group",
            (Rate::Accuracy, Part::Holdout) => "accuracy_by_group_holdout",
            (Rate::Positive, Part::Training) => "positive_rate_by_group",
            (Rate::Positive, Part::Holdout) => "positive_rate_by_group_holdout",
            (Rate::TruePositive, Part::Training) => "true_positive_rate_by_group",
            (Rate::TruePositive, Part::Holdout) => "true_positive_rate_by_group_holdout",
            (Rate::FalsePositive, Part::Training) => "false_positive_rate_by_group",
            (Rate::FalsePositive, Part::Holdout) => "false_positive_rate_by_group_holdout",
        }
    }

    /// The name of a gap between groups.
    pub(crate) fn gap_name(self, part: Part) -> &'static str {
        match (self, part) {
            (Rate::Risk, Part::Training) => "risk_gap",
            (Rate::Risk, Part::Holdout) => "risk_gap_holdout",
            (Rate::Accuracy, Part::Training) => "accuracy_gap",
            (Rate::Accuracy, Part::Holdout) => "accuracy_gap_holdout",
            (Rate::Positive, Part::Training) => "positive_rate_gap",
            (Rate::Positive, Part::Holdout) => "positive_rate_gap_holdout",
            (Rate::TruePositive, Part::Training) => "true_positive_rate_gap",
            (Rate::TruePositive, Part::Holdout) => "true_positive_rate_gap_holdout",
            (Rate::FalsePositive, Part::Training) => "false_positive_rate_gap",
            (Rate::FalsePositive, Part::Holdout) => "false_positive_rate_gap_holdout",
        }
    }
}
