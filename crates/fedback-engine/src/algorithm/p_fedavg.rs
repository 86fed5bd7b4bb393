//! P-FedAvg's local work (Jin et al., "Performative Federated Learning", section 2.4).
//!
//! Client i starts at the broadcast θ and makes E steps w ← w − η_t ∇ℓ(w; Z), where Z is a fresh
//! batch from D_i. Under `deploy = "step"` the population reacts to the local w of that very
//! step; under `deploy = "round"` to the θ last broadcast. Requires nothing of the problem but
//! gradients; converges to the stable point where `fedback solve` calls it attracting, for steps
//! that are small enough.
//!
//! Where coordinates do not mix (normal data, diagonal response) every coordinate of every client is
//! a lane of its own (`gaussian.rs`). Elsewhere a few clients work together (`clients.rs`): on the rows
//! of a table (`rows.rs`), or on normal data that a matrix mixes (`normals.rs`). The mean of a normal
//! batch is drawn as such, N(mean, noise²/batch), since the gradient depends on the batch through it
//! alone.

pub(super) mod clients;
pub(super) mod gaussian;
mod normals;
mod rows;

use fedback_core::base::Base;
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::{Logistic, Loss, Squared};

use super::{Order, Scratch, Task, Work, WorkError};
use clients::EachClient;
use normals::GaussianBatch;
use rows::{Margin, RowMean};

impl Work for Federation {
    fn dim(&self) -> usize {
        self.base.dim()
    }

    fn work(
        &self,
        order: &Order<'_>,
        tasks: &[Task<'_>],
        deltas: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<(), WorkError> {
        if let Base::Gaussian(base) = &self.base
            && self.response.is_diagonal()
        {
            gaussian::work(self, base, order, tasks, deltas, &mut scratch.block);
            return Ok(());
        }
        let clients =
            EachClient { federation: self, order, tasks, deltas, vectors: &mut scratch.vectors };
        match (&self.base, self.loss) {
            (Base::Gaussian(base), _) => clients.work(&GaussianBatch(base)),
            (Base::Table(table), Loss::Mean) => clients.work(&RowMean(table)),
            (Base::Table(table), Loss::Squared { .. }) => clients.work(&Margin(table, Squared)),
            (Base::Table(table), Loss::Logistic { .. }) => clients.work(&Margin(table, Logistic)),
        }
        Ok(())
    }
}

/// What a client's gradients are multiplied with.
fn objective_scale(federation: &Federation, order: &Order<'_>, client: ClientId) -> f64 {
    match order.scale_objectives {
        true => federation.clients() as f64 * federation.weights[client.0 as usize],
        false => 1.0,
    }
}
