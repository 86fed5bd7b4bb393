//! Gradients over the rows of a table. A row is read where it lies: what the population's shift adds
//! to it enters as one number in the margin and one multiple of the shift in the gradient.

use fedback_core::base::Table;
use fedback_core::lanes::StreamLanes;
use fedback_core::loss::MarginLoss;
use fedback_core::simd::{LANES, Path};
use fedback_core::stream::Stream;

use super::group::{Block, Blocks, Drawn, GROUP, Local, Members, Oracle, Pool, Vectors};

/// Rows under the loss `mean`.
pub struct MeanRows<'a>(pub &'a Table);

impl<'a> Oracle for MeanRows<'a> {
    const SPECIAL: bool = false;
    type Pool = Rows<'a>;

    #[inline(always)]
    fn pool(&self, client: usize) -> Rows<'a> {
        Rows::of(self.0, client)
    }

    #[inline(always)]
    fn gradients<B: Blocks>(
        &self,
        _path: impl Path,
        members: &Members<'_, Rows<'a>, B>,
        drawn: Drawn<'_, u32>,
        local: &mut Local,
    ) {
        let dim = members.dim;
        let share = 1.0 / members.batch as f64;
        let vectors = members.each(&local.theta).zip(members.each(&local.shift));
        let vectors = vectors.zip(members.each_mut(&mut local.gradient));
        for (member, (rows, ((theta, shift), gradient))) in
            members.pools.iter().zip(vectors).enumerate()
        {
            let (theta, shift) = (theta.as_flattened(), shift.as_flattened());
            let gradient = &mut gradient.as_flattened_mut()[..dim];
            gradient.fill(0.0);
            for &row in drawn.of(member) {
                for (sum, x) in gradient.iter_mut().zip(&rows.values[row as usize * dim..]) {
                    *sum += x;
                }
            }
            for j in 0..dim {
                gradient[j] = theta[j] - shift[j] - gradient[j] * share;
            }
        }
    }

    #[inline(always)]
    fn loss<B: Blocks>(
        &self,
        _path: impl Path,
        members: &Members<'_, Rows<'a>, B>,
        drawn: Drawn<'_, u32>,
        local: &mut Local,
    ) -> f64 {
        let (theta, shift) = (local.theta.as_flattened(), local.shift.as_flattened());
        let mut sum = 0.0;
        for &row in drawn.of(0) {
            let row = &members.pools[0].values[row as usize * members.dim..][..members.dim];
            for ((x, theta), shift) in row.iter().zip(theta).zip(shift) {
                sum += 0.5 * (theta - shift - x) * (theta - shift - x);
            }
        }
        sum / members.batch as f64
    }
}

/// Rows under a loss of the margin.
pub struct MarginRows<'a, L>(pub &'a Table, pub L);

/// Numbers in rows that are used twice, for the margin and for the gradient, before the first cache
/// loses them.
const NUMBERS: usize = 1 << 13;

impl<'a, L: MarginLoss> Oracle for MarginRows<'a, L> {
    const SPECIAL: bool = true;
    type Pool = Rows<'a>;

    #[inline(always)]
    fn pool(&self, client: usize) -> Rows<'a> {
        Rows::of(self.0, client)
    }

    #[inline(always)]
    fn gradients<B: Blocks>(
        &self,
        path: impl Path,
        members: &Members<'_, Rows<'a>, B>,
        drawn: Drawn<'_, u32>,
        local: &mut Local,
    ) {
        let size = members.pools.len();
        // What the shift adds to every margin of a member, and the sum of its slopes.
        let (mut moved, mut total) = ([0.0; GROUP], [0.0; GROUP]);
        let vectors = members.each(&local.shift).zip(members.each(&local.theta));
        let vectors = vectors.zip(members.each_mut(&mut local.gradient));
        for (moved, ((shift, theta), gradient)) in moved.iter_mut().zip(vectors).take(size) {
            *moved = dot(path, shift, theta, members.dim, members.blocks);
            for gradient in gradient {
                *gradient = [0.0; 4];
            }
        }
        let part = (NUMBERS / members.dim).clamp(8, 64);
        for first in (0..members.batch).step_by(part) {
            let count = part.min(members.batch - first);
            // Whole vectors of rows and of lanes; what is too much is zero and adds nothing.
            let each = count.next_multiple_of(4);
            local.slopes.resize((size * each).next_multiple_of(LANES), 0.0);
            local.labels.resize(local.slopes.len(), 0.0);
            let numbers = local.slopes.chunks_mut(each).zip(local.labels.chunks_mut(each));
            let thetas = members.each(&local.theta).zip(&moved);
            for (member, ((rows, (theta, &moved)), (margins, labels))) in
                members.pools.iter().zip(thetas).zip(numbers).enumerate()
            {
                let drawn = &drawn.of(member)[first..][..count];
                rows.margins(path, drawn, theta, members.blocks, moved, margins);
                rows.labels(drawn, labels);
            }
            let lanes = local.slopes.as_chunks_mut::<LANES>().0.iter_mut();
            for (slope, label) in lanes.zip(local.labels.as_chunks::<LANES>().0) {
                let mut values = *slope;
                for l in 0..LANES {
                    values[l] = self.1.slope(values[l], label[l]);
                }
                *slope = values;
            }
            let sums = total.iter_mut().zip(members.each_mut(&mut local.gradient));
            let parts = members.pools.iter().zip(local.slopes.chunks(each)).zip(sums);
            for (member, ((rows, slopes), (total, gradient))) in parts.enumerate() {
                let slopes = &slopes[..count];
                for slope in slopes {
                    *total += slope;
                }
                let (drawn, ahead) = drawn.from(member)[first..].split_at(count);
                rows.add(path, drawn, ahead, slopes, members.blocks, gradient);
            }
        }
        let share = path.splat(1.0 / members.batch as f64);
        let vectors = members.each(&local.shift).zip(members.each_mut(&mut local.gradient));
        for (&total, (shift, gradient)) in total.iter().zip(vectors).take(size) {
            let total = path.splat(total);
            for j in 0..members.blocks.count() {
                let moved = path.mul(total, path.load(&shift[j]));
                let sum = path.add(path.load(&gradient[j]), moved);
                path.store(path.mul(sum, share), &mut gradient[j]);
            }
        }
    }

    #[inline(always)]
    fn loss<B: Blocks>(
        &self,
        path: impl Path,
        members: &Members<'_, Rows<'a>, B>,
        drawn: Drawn<'_, u32>,
        local: &mut Local,
    ) -> f64 {
        let (rows, drawn) = (members.pools[0], drawn.of(0));
        let moved = dot(path, &local.shift, &local.theta, members.dim, members.blocks);
        local.slopes.resize(drawn.len().next_multiple_of(4), 0.0);
        local.labels.resize(drawn.len(), 0.0);
        rows.margins(path, drawn, &local.theta, members.blocks, moved, &mut local.slopes);
        rows.labels(drawn, &mut local.labels);
        let each = local.slopes.iter().zip(&local.labels);
        each.map(|(margin, label)| self.1.value(*margin, *label)).sum::<f64>()
            / members.batch as f64
    }
}

/// A client's rows. They are read in whole vectors, a few numbers beyond their end: θ is zero there,
/// and nobody reads the gradient.
#[derive(Clone, Copy, Default)]
pub struct Rows<'a> {
    dim: usize,
    /// The rows and what lies behind them.
    values: &'a [f64],
    labels: &'a [f64],
}

impl Pool for Rows<'_> {
    type Draw = u32;

    #[inline(always)]
    fn room(vectors: &mut Vectors) -> (&mut Vec<u32>, &mut Local) {
        (&mut vectors.rows, &mut vectors.local)
    }

    #[inline(always)]
    fn draws(_dim: usize, batch: usize) -> usize {
        batch
    }

    #[inline(always)]
    fn draw(self, _path: impl Path, stream: Stream, out: &mut [u32]) {
        let mut lanes = StreamLanes::in_a_row(stream, 0);
        for out in out.as_chunks_mut::<LANES>().0 {
            *out = lanes.indices(self.labels.len() as u32);
            lanes.advance(LANES as u64);
        }
    }

    #[inline(always)]
    fn everything(self, out: &mut Vec<u32>) -> usize {
        let count = self.labels.len();
        out.clear();
        out.extend(0..count as u32);
        count
    }
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn of(table: &'a Table, client: usize) -> Self {
        Rows { dim: table.dim, values: table.rows_from(client), labels: table.block(client).1 }
    }

    #[inline(always)]
    fn row(&self, row: u32, blocks: impl Blocks) -> &'a [Block] {
        let first = row as usize * self.dim;
        self.values[first..][..4 * blocks.count()].as_chunks::<4>().0
    }

    /// Writes x·θ + `moved` of some rows; where they are no multiple of four, the first one stands
    /// for what is missing.
    #[inline(always)]
    fn margins(
        &self,
        path: impl Path,
        drawn: &[u32],
        theta: &[Block],
        blocks: impl Blocks,
        moved: f64,
        out: &mut [f64],
    ) {
        let moved = path.splat(moved);
        let out = out.as_chunks_mut::<4>().0;
        let (fours, rest) = drawn.as_chunks::<4>();
        for (drawn, out) in fours.iter().zip(&mut *out) {
            let rows = drawn.map(|row| self.row(row, blocks));
            let products = dots(path, &rows, theta, self.dim, blocks);
            path.store(path.add(products, moved), out);
        }
        if let [first, others @ ..] = rest {
            let mut rows = [self.row(*first, blocks); 4];
            for (place, &row) in others.iter().enumerate() {
                rows[place + 1] = self.row(row, blocks);
            }
            let products = dots(path, &rows, theta, self.dim, blocks);
            path.store(path.add(products, moved), &mut out[fours.len()]);
        }
    }

    #[inline(always)]
    fn labels(&self, drawn: &[u32], out: &mut [f64]) {
        for (label, &row) in out.iter_mut().zip(drawn) {
            *label = self.labels[row as usize];
        }
    }

    /// Adds the multiples of some rows to their sum, in the order of the rows, while the rows ahead
    /// are on their way.
    #[inline(always)]
    fn add<B: Blocks>(
        &self,
        path: impl Path,
        drawn: &[u32],
        ahead: &[u32],
        slopes: &[f64],
        blocks: B,
        sum: &mut [Block],
    ) {
        let (fours, ones) = drawn.as_chunks::<4>();
        let (four_slopes, one_slopes) = slopes.as_chunks::<4>();
        let mut ahead = ahead.as_chunks::<4>().0.iter();
        for (drawn, slopes) in fours.iter().zip(four_slopes) {
            let rows = drawn.map(|row| self.row(row, blocks));
            let next = match ahead.next() {
                Some(next) if B::LONG => next.map(|row| self.row(row, blocks)),
                _ => rows,
            };
            add_rows(path, &rows, &next, slopes, blocks, sum);
        }
        for (&row, &slope) in ones.iter().zip(one_slopes) {
            let row = [self.row(row, blocks)];
            add_rows(path, &row, &row, &[slope], blocks, sum);
        }
    }
}

#[inline(always)]
fn add_rows<const ROWS: usize, B: Blocks>(
    path: impl Path,
    rows: &[&[Block]; ROWS],
    ahead: &[&[Block]; ROWS],
    slopes: &[f64; ROWS],
    blocks: B,
    out: &mut [Block],
) {
    for j in 0..blocks.count() {
        if B::LONG && j % 2 == 0 {
            for k in 0..ROWS {
                path.prefetch(&ahead[k][j]);
            }
        }
        let mut sum = path.load(&out[j]);
        for k in 0..ROWS {
            let multiple = path.mul(path.splat(slopes[k]), path.load(&rows[k][j]));
            sum = path.add(sum, multiple);
        }
        path.store(sum, &mut out[j]);
    }
}

/// The inner products of four rows with one vector: four interleaved sums over whole blocks, and
/// then the products of what is left, one after the other. The order is the same on every path.
#[inline(always)]
fn dots<P: Path>(
    path: P,
    rows: &[&[Block]; 4],
    theta: &[Block],
    dim: usize,
    blocks: impl Blocks,
) -> P::Four {
    let (zero, whole) = (path.splat(0.0), dim / 4);
    let mut sums = [zero; 4];
    for j in 0..blocks.count() {
        if j == whole {
            break;
        }
        let theta = path.load(&theta[j]);
        for k in 0..4 {
            sums[k] = path.add(sums[k], path.mul(path.load(&rows[k][j]), theta));
        }
    }
    let [a, b, c, d] = path.transpose(sums);
    let total = path.add(path.add(a, c), path.add(b, d));
    if whole == blocks.count() {
        return total;
    }
    let theta = path.load(&theta[whole]);
    let mut products = [zero; 4];
    for k in 0..4 {
        products[k] = path.mul(path.load(&rows[k][whole]), theta);
    }
    let [a, b, c, d] = path.transpose(products);
    path.add(total, path.add(path.add(path.add(a, b), c), d))
}

/// The inner product of two vectors, in the order of [`dots`].
#[inline(always)]
fn dot(path: impl Path, a: &[Block], b: &[Block], dim: usize, blocks: impl Blocks) -> f64 {
    let whole = dim / 4;
    let mut sums = path.splat(0.0);
    let mut rest = sums;
    for j in 0..blocks.count() {
        let product = path.mul(path.load(&a[j]), path.load(&b[j]));
        match j == whole {
            true => rest = product,
            false => sums = path.add(sums, product),
        }
    }
    let [mut s, mut r] = [[0.0; 4]; 2];
    path.store(sums, &mut s);
    path.store(rest, &mut r);
    ((s[0] + s[2]) + (s[1] + s[3])) + (((r[0] + r[1]) + r[2]) + r[3])
}
