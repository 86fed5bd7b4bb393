//! A plan of which it is not known beforehand whether its problem is built in.

use std::ops::Deref;
use std::path::Path;

use fedback_core::base::Base;

use super::{CustomPlan, Outline, Plan};
use crate::error::Error;
use crate::spec::Point;

/// A plan, whatever its problem is.
#[derive(Clone, Debug)]
pub enum Built {
    /// Built in.
    Whole(Plan),
    /// In part a function or a real site.
    Custom(CustomPlan),
}

impl Built {
    /// Checks and builds one point of a spec.
    pub fn new(point: Point, directory: &Path, origin: &str) -> Result<Self, Error> {
        match point.spec.problem.custom_part() {
            None => Plan::new(point, directory, origin).map(Built::Whole),
            Some(_) => CustomPlan::new(point, directory, origin).map(Built::Custom),
        }
    }

    /// The plan of a problem that is built in.
    pub fn whole(&self) -> Option<&Plan> {
        match self {
            Built::Whole(plan) => Some(plan),
            Built::Custom(_) => None,
        }
    }

    /// The data, where they are built in.
    pub fn base(&self) -> Option<&Base> {
        match self {
            Built::Whole(plan) => Some(plan.federation().base()),
            Built::Custom(plan) => plan.populations().population.as_ref().map(|(base, _)| base),
        }
    }
}

impl Deref for Built {
    type Target = Outline;

    fn deref(&self) -> &Outline {
        match self {
            Built::Whole(plan) => plan,
            Built::Custom(plan) => plan,
        }
    }
}
