//! What a memory makes of deployments, as numbers: every coordinate is remembered alike.
//!
//! The models answered to and what is remembered next are averages of the deployed model and of those
//! remembered, with weights that sum to one. So nothing changes if all of them are measured from one
//! point, be it the stable one or the one that a client began with. [`Memory`] says what the averages are.

use fedback_core::memory::Memory;
use nalgebra::DMatrix;

/// A memory's averages: of the deployed model first, then of those remembered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recall {
    /// A row for every model that equal parts of a population answer to.
    pub(crate) answered: DMatrix<f64>,
    /// A row for every model that is remembered next.
    pub(crate) taken: DMatrix<f64>,
}

impl Recall {
    pub(crate) fn of(memory: Memory) -> Self {
        let (count, answers) = (memory.models(), memory.answers());
        let mut answered = DMatrix::zeros(answers, 1 + count);
        let mut taken = DMatrix::zeros(count, 1 + count);
        for j in 0..=count {
            let mut models: Vec<f64> = (0..=count).map(|k| f64::from(k == j)).collect();
            let (deployed, past) = models.split_at_mut(1);
            memory.answer(deployed, past, answered.column_mut(j).as_mut_slice());
            memory.take_in(deployed, past);
            taken.column_mut(j).copy_from_slice(past);
        }
        Recall { answered, taken }
    }

    /// Models that are remembered.
    pub(crate) fn count(&self) -> usize {
        self.taken.nrows()
    }

    /// Equal parts that answer to a model of their own.
    pub(crate) fn parts(&self) -> usize {
        self.answered.nrows()
    }

    /// What the parts answer to on average: the weights of all models.
    pub(crate) fn weights(&self) -> Vec<f64> {
        self.answered.row_mean().iter().copied().collect()
    }

    /// How many deployments old what is answered to is on average, deployments being as they are for long.
    pub(crate) fn age(&self) -> f64 {
        // Of models that grow by one at every deployment, those remembered are −(I − T)⁻¹ 1 behind.
        let count = self.count();
        let own = self.taken.columns(1, count);
        let behind = DMatrix::from_element(count, 1, 1.0);
        let solved = (DMatrix::identity(count, count) - own).lu().solve(&behind);
        solved.map_or(f64::INFINITY, |behind| {
            self.weights()[1..].iter().zip(behind.iter()).map(|(w, age)| w * age).sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_those_of_the_memory() {
        let slow = Recall::of(Memory::Inertia { rate: 0.25 });
        assert_eq!(slow.weights(), [0.25, 0.75]);
        assert_eq!(slow.taken, DMatrix::from_row_slice(1, 2, &[0.25, 0.75]));
        let late = Recall::of(Memory::Delay { deployments: 2 });
        assert_eq!(late.weights(), [0.0, 0.0, 1.0]);
        assert_eq!(late.taken, DMatrix::from_row_slice(2, 3, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]));
        let parts = Recall::of(Memory::Staggered { parts: 4 });
        assert_eq!((parts.parts(), parts.weights()), (4, vec![0.25; 4]));
        assert_eq!([slow.age(), late.age(), parts.age()], [3.0, 2.0, 1.5]);
    }
}
