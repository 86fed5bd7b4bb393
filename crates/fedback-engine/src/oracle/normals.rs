//! Gradients over normal data whose coordinates mix through the response.

use fedback_core::base::Gaussian;
use fedback_core::lanes::StreamLanes;
use fedback_core::normal;
use fedback_core::simd::{LANES, Path};
use fedback_core::stream::Stream;

use super::group::{Blocks, Drawn, Local, Members, Oracle, Pool, Vectors};

/// The mean of a normal batch, drawn as such.
pub struct NormalBatch<'a>(pub &'a Gaussian);

/// A client's mean.
#[derive(Clone, Copy, Default)]
pub struct Mean<'a>(&'a [f64]);

impl Pool for Mean<'_> {
    type Draw = f64;

    #[inline(always)]
    fn room(vectors: &mut Vectors) -> (&mut Vec<f64>, &mut Local) {
        (&mut vectors.normals, &mut vectors.local)
    }

    #[inline(always)]
    fn draws(dim: usize, _batch: usize) -> usize {
        dim
    }

    #[inline(always)]
    fn draw(self, path: impl Path, stream: Stream, out: &mut [f64]) {
        let ziggurat = normal::ziggurat();
        let mut lanes = StreamLanes::in_a_row(stream, 0);
        for (group, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let rejected;
            (*out, rejected) = lanes.candidates(path, ziggurat);
            for l in (0..LANES).filter(|l| rejected >> l & 1 == 1) {
                out[l] = stream.normal(ziggurat, (group * LANES + l) as u64);
            }
            lanes.advance(LANES as u64);
        }
    }

    /// No noise: the expectation.
    #[inline(always)]
    fn everything(self, out: &mut Vec<f64>) -> usize {
        out.clear();
        out.resize(self.0.len(), 0.0);
        usize::MAX
    }
}

impl<'a> Oracle for NormalBatch<'a> {
    const SPECIAL: bool = false;
    type Pool = Mean<'a>;

    #[inline(always)]
    fn pool(&self, client: usize) -> Mean<'a> {
        Mean(self.0.mean(client))
    }

    #[inline(always)]
    fn gradients<B: Blocks>(
        &self,
        _path: impl Path,
        members: &Members<'_, Mean<'a>, B>,
        drawn: Drawn<'_, f64>,
        local: &mut Local,
    ) {
        let noise = self.0.noise / (members.batch as f64).sqrt();
        let vectors = members.each(&local.theta).zip(members.each(&local.shift));
        let vectors = vectors.zip(members.each_mut(&mut local.gradient));
        for (member, (mean, ((theta, shift), gradient))) in
            members.pools.iter().zip(vectors).enumerate()
        {
            let (theta, shift) = (theta.as_flattened(), shift.as_flattened());
            let (gradient, xi) = (gradient.as_flattened_mut(), drawn.of(member));
            for j in 0..members.dim {
                let z = mean.0[j] + shift[j] + noise * xi[j];
                gradient[j] = theta[j] - z;
            }
        }
    }

    /// The expectation given the batch's mean: how far observations are from it is not drawn.
    #[inline(always)]
    fn loss<B: Blocks>(
        &self,
        path: impl Path,
        members: &Members<'_, Mean<'a>, B>,
        drawn: Drawn<'_, f64>,
        local: &mut Local,
    ) -> f64 {
        let within = self.0.noise * self.0.noise * (1.0 - 1.0 / members.batch as f64);
        self.gradients(path, members, drawn, local);
        let away = &local.gradient.as_flattened()[..members.dim];
        0.5 * away.iter().map(|away| away * away + within).sum::<f64>()
    }
}
