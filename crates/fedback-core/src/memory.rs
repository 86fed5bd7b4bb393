//! Populations that remember: what they answer to is not the model deployed last, or not it alone.
//!
//! | memory | the data come from | remembered |
//! |---|---|---|
//! | [`Inertia`](Memory::Inertia) | D(s), s ← (1 − rate) s + rate φ at every deployment φ | s |
//! | [`Delay`](Memory::Delay) | D of the model deployed so many deployments ago | those in between |
//! | [`Staggered`](Memory::Staggered) | equal parts of D of the last so many | all but the last |
//! | [`Renewal`](Memory::Renewal) | shares of those who have stayed so far, and who is new | the shares |
//!
//! A deployment is a broadcast, which all clients see, or under `deploy = "step"` a client's own local
//! step. Stable and optimal points are those without memory; how they are reached is not (Brown, Hod
//! and Kalemaj 2022; Izzo, Zou and Ying 2022).

use std::sync::Arc;

use crate::misfit::Misfit;

/// How populations remember.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// They follow what is deployed at a rate.
    Inertia {
        /// How much of the way they go at a deployment, above 0 and below 1.
        rate: f64,
    },
    /// They answer late.
    Delay {
        /// By so many deployments, at least one.
        deployments: usize,
    },
    /// Equal parts answer 0, 1, 2 … deployments late.
    Staggered {
        /// So many parts, at least two.
        parts: usize,
    },
    /// Those who leave come back slowly ([`Retention`](crate::response::Retention)).
    Renewal {
        /// Shares of a client: of its cells, or its own.
        shares: usize,
        /// Whether they are the clients' weights, which all broadcasts change, whatever is deployed.
        weights: bool,
    },
}

/// A memory, and what is remembered before anything is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// How populations remember.
    pub memory: Memory,
    /// The model that they have been answering to all along; of those who leave the shares, client after
    /// client.
    pub start: Arc<[f64]>,
}

impl Memory {
    /// What is left of a memory that is checked: nothing, where it forgets at once.
    ///
    /// ```
    /// use fedback_core::memory::Memory;
    /// assert_eq!(Memory::Delay { deployments: 0 }.check(), Ok(None));
    /// assert!(Memory::Inertia { rate: 0.0 }.check().is_err());
    /// ```
    pub fn check(self) -> Result<Option<Self>, Misfit> {
        let fail = |key, found: &dyn std::fmt::Display, allowed: &str| {
            Err(Misfit::new(key, format!("found {found}; allowed: {allowed}")))
        };
        match self {
            Memory::Inertia { rate } if !(rate > 0.0 && rate <= 1.0) => fail(
                "problem.response.memory.rate",
                &rate,
                "above 0, up to 1 (which forgets at once)",
            ),
            Memory::Staggered { parts: 0 } => {
                fail("problem.response.memory.parts", &0, "1 (which forgets at once) or more")
            }
            Memory::Inertia { rate: 1.0 }
            | Memory::Delay { deployments: 0 }
            | Memory::Staggered { parts: 1 } => Ok(None),
            Memory::Inertia { .. }
            | Memory::Delay { .. }
            | Memory::Staggered { .. }
            | Memory::Renewal { .. } => Ok(Some(self)),
        }
    }

    /// How many models are remembered.
    #[inline]
    pub fn models(self) -> usize {
        match self {
            Memory::Inertia { .. } => 1,
            Memory::Delay { deployments } => deployments,
            Memory::Staggered { parts } => parts - 1,
            Memory::Renewal { .. } => 0,
        }
    }

    /// How many models a population answers to at a time, in equal parts.
    #[inline]
    pub fn answers(self) -> usize {
        match self {
            Memory::Inertia { .. } | Memory::Delay { .. } | Memory::Renewal { .. } => 1,
            Memory::Staggered { parts } => parts,
        }
    }

    /// Writes the models that a population with this past answers to where φ is deployed, the newest
    /// first.
    ///
    /// ```
    /// use fedback_core::memory::Memory;
    /// let (mut past, mut answered) = ([1.0, 0.0], [9.0]);
    /// let late = Memory::Delay { deployments: 2 };
    /// late.answer(&[5.0], &past, &mut answered);
    /// late.take_in(&[5.0], &mut past);
    /// assert_eq!((answered, past), ([0.0], [5.0, 1.0]));
    /// ```
    #[inline]
    pub fn answer(self, deployed: &[f64], past: &[f64], answered: &mut [f64]) {
        let dim = deployed.len();
        match self {
            Memory::Inertia { rate } => {
                for ((answered, s), phi) in answered.iter_mut().zip(past).zip(deployed) {
                    *answered = (1.0 - rate) * s + rate * phi;
                }
            }
            Memory::Delay { .. } => answered.copy_from_slice(&past[past.len() - dim..]),
            Memory::Renewal { .. } => answered.copy_from_slice(deployed),
            Memory::Staggered { .. } => {
                answered[..dim].copy_from_slice(deployed);
                answered[dim..].copy_from_slice(past);
            }
        }
    }

    /// What is remembered once φ was deployed. Shares are renewed by whoever knows the rows.
    #[inline]
    pub fn take_in(self, deployed: &[f64], past: &mut [f64]) {
        match self {
            Memory::Inertia { rate } => {
                for (s, phi) in past.iter_mut().zip(deployed) {
                    *s = (1.0 - rate) * *s + rate * phi;
                }
            }
            Memory::Renewal { .. } => {}
            Memory::Delay { .. } | Memory::Staggered { .. } => {
                past.rotate_right(deployed.len());
                past[..deployed.len()].copy_from_slice(deployed);
            }
        }
    }
}

impl Past {
    /// What is remembered before anything is deployed: by everybody alike, or client after client.
    pub fn beginning(&self) -> Vec<f64> {
        match self.memory {
            Memory::Renewal { .. } => self.start.to_vec(),
            Memory::Inertia { .. } | Memory::Delay { .. } | Memory::Staggered { .. } => {
                self.start.repeat(self.memory.models())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered to under deployments 1, 2, 3 …, from a past of zeros.
    fn answers(memory: Memory, count: usize) -> Vec<Vec<f64>> {
        let past = Past { memory, start: Arc::from([0.0]) };
        let (mut past, mut answered) = (past.beginning(), vec![0.0; memory.answers()]);
        let deployments = (1..=count).map(|t| {
            memory.answer(&[t as f64], &past, &mut answered);
            memory.take_in(&[t as f64], &mut past);
            answered.clone()
        });
        deployments.collect()
    }

    #[test]
    fn what_is_remembered_fades_is_late_or_comes_in_parts() {
        let halves = answers(Memory::Inertia { rate: 0.5 }, 3);
        assert_eq!(halves, [[0.5], [1.25], [2.125]]);
        let late = answers(Memory::Delay { deployments: 2 }, 4);
        assert_eq!(late, [[0.0], [0.0], [1.0], [2.0]]);
        let parts = answers(Memory::Staggered { parts: 3 }, 3);
        assert_eq!(parts, [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [3.0, 2.0, 1.0]]);
    }

    #[test]
    fn memories_that_forget_at_once_are_none() {
        for memory in [
            Memory::Inertia { rate: 1.0 },
            Memory::Delay { deployments: 0 },
            Memory::Staggered { parts: 1 },
        ] {
            assert_eq!(memory.check(), Ok(None), "{memory:?}");
        }
        for wrong in [0.0, -0.5, 1.5, f64::NAN] {
            assert!(Memory::Inertia { rate: wrong }.check().is_err(), "{wrong}");
        }
        assert!(Memory::Staggered { parts: 0 }.check().is_err());
    }
}
