//! The data before any model is deployed.

mod gaussian;
mod partition;
mod raw_table;
mod split;
mod standardization;
mod table;

pub use gaussian::Gaussian;
pub use partition::Partition;
pub use raw_table::RawTable;
pub use split::{Groups, Marks, Share, Split};
pub use standardization::{Standardization, average_of_sums};
pub use table::{Preparation, Table, TableError};

use crate::misfit::Misfit;

/// One of the built-in bases.
#[derive(Clone, Debug)]
pub enum Base {
    /// Normal observations without a label.
    Gaussian(Gaussian),
    /// The rows of a table.
    Table(Table),
}

impl Base {
    /// The number of coordinates of an observation.
    #[inline]
    pub fn width(&self) -> usize {
        match self {
            Base::Gaussian(gaussian) => gaussian.dim,
            Base::Table(table) => table.dim,
        }
    }

    /// The number of clients that hold data.
    pub fn clients(&self) -> usize {
        match self {
            Base::Gaussian(gaussian) => gaussian.mean.len() / gaussian.dim.max(1),
            Base::Table(table) => table.clients(),
        }
    }

    /// Refuses data that are none.
    pub(crate) fn check(&self) -> Result<(), Misfit> {
        match self {
            Base::Gaussian(gaussian) => gaussian.check(),
            Base::Table(table) => table.check(),
        }
    }

    /// Moves all data of one client by the same vector.
    pub fn translate(&mut self, client: usize, shift: &[f64]) {
        match self {
            Base::Gaussian(gaussian) => {
                let mean = &mut gaussian.mean[client * gaussian.dim..][..gaussian.dim];
                mean.iter_mut().zip(shift).for_each(|(mean, shift)| *mean += shift);
            }
            Base::Table(table) => table.translate(client, shift),
        }
    }
}
