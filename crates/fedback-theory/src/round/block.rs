//! Numbers and matrices alike: what a round is written in.

use nalgebra::DMatrix;

/// A number, or a matrix of any shape.
pub(crate) trait Block: Clone {
    /// Σ (L e + l)(R e + r)ᵀ over pairs of affine functions of an error e, gathered.
    type Drawn: Clone + Default;

    fn identity(dim: usize) -> Self;
    /// Column after column.
    fn of_slice(rows: usize, columns: usize, entries: &[f64]) -> Self;
    fn slice(&self) -> &[f64];
    fn times(&self, right: &Self) -> Self;
    fn turned(&self) -> Self;
    /// Adds `times` · `other`.
    fn add(&mut self, times: f64, other: &Self);
    fn matrix(&self) -> DMatrix<f64>;
    fn rows(&self) -> usize;
    /// With rows and columns cut off, or of zeros added; numbers stay.
    fn resized(self, rows: usize, columns: usize) -> Self;

    /// One more pair.
    fn gather(drawn: &mut Self::Drawn, left: (&Self, &Self), right: (&Self, &Self));
    /// Σ L V Rᵀ.
    fn carried(drawn: &Self::Drawn, spread: &Self) -> Self;
    /// Σ (L m + l)(R m + r)ᵀ.
    fn source(drawn: &Self::Drawn, mean: &Self) -> Self;

    /// What a weight P of spreads is before the draw: Σ (Lᵀ P R + Rᵀ P L)/2, the same with shifts, and
    /// Σ lᵀ P r.
    fn pulled(drawn: &Self::Drawn, weight: &DMatrix<f64>) -> (DMatrix<f64>, DMatrix<f64>, f64);

    /// Zeros of the same shape.
    fn emptied(&self) -> Self;

    /// The sum with `times` · `other`.
    #[inline(always)]
    fn plus(mut self, times: f64, other: &Self) -> Self {
        self.add(times, other);
        self
    }

    /// A multiple.
    #[inline(always)]
    fn scaled(&self, by: f64) -> Self {
        self.emptied().plus(by, self)
    }

    /// A V Aᵀ.
    fn around(&self, spread: &Self) -> Self {
        self.times(spread).times(&self.turned())
    }
}

/// Pairs of numbers: a polynomial of the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parabola {
    /// Σ L R.
    pub(crate) square: f64,
    /// Σ (L r + l R)/2.
    pub(crate) cross: f64,
    /// Σ l r.
    pub(crate) constant: f64,
}

impl Block for f64 {
    type Drawn = Parabola;

    fn identity(_: usize) -> Self {
        1.0
    }

    fn of_slice(_: usize, _: usize, entries: &[f64]) -> Self {
        entries[0]
    }

    fn slice(&self) -> &[f64] {
        std::slice::from_ref(self)
    }

    #[inline(always)]
    fn times(&self, right: &Self) -> Self {
        self * right
    }

    #[inline(always)]
    fn turned(&self) -> Self {
        *self
    }

    #[inline(always)]
    fn add(&mut self, times: f64, other: &Self) {
        *self += times * other;
    }

    #[inline(always)]
    fn emptied(&self) -> Self {
        0.0
    }

    fn matrix(&self) -> DMatrix<f64> {
        DMatrix::from_element(1, 1, *self)
    }

    #[inline(always)]
    fn rows(&self) -> usize {
        1
    }

    #[inline(always)]
    fn resized(self, _: usize, _: usize) -> Self {
        self
    }

    #[inline(always)]
    fn gather(drawn: &mut Parabola, left: (&f64, &f64), right: (&f64, &f64)) {
        drawn.square += left.0 * right.0;
        drawn.cross += 0.5 * (left.0 * right.1 + left.1 * right.0);
        drawn.constant += left.1 * right.1;
    }

    fn carried(drawn: &Parabola, spread: &f64) -> f64 {
        drawn.square * spread
    }

    fn pulled(drawn: &Parabola, weight: &DMatrix<f64>) -> (DMatrix<f64>, DMatrix<f64>, f64) {
        (weight * drawn.square, weight * drawn.cross, weight[0] * drawn.constant)
    }

    fn source(drawn: &Parabola, mean: &f64) -> f64 {
        ((drawn.square * mean + 2.0 * drawn.cross) * mean + drawn.constant).max(0.0)
    }
}

/// L, l, R, r.
type Pair = [DMatrix<f64>; 4];

impl Block for DMatrix<f64> {
    type Drawn = Vec<Pair>;

    fn identity(dim: usize) -> Self {
        DMatrix::identity(dim, dim)
    }

    fn of_slice(rows: usize, columns: usize, entries: &[f64]) -> Self {
        DMatrix::from_column_slice(rows, columns, entries)
    }

    fn slice(&self) -> &[f64] {
        self.as_slice()
    }

    fn times(&self, right: &Self) -> Self {
        self * right
    }

    fn turned(&self) -> Self {
        self.transpose()
    }

    fn add(&mut self, times: f64, other: &Self) {
        self.zip_apply(other, |own, other| *own += times * other);
    }

    fn emptied(&self) -> Self {
        DMatrix::zeros(self.nrows(), self.ncols())
    }

    fn matrix(&self) -> DMatrix<f64> {
        self.clone()
    }

    fn rows(&self) -> usize {
        self.nrows()
    }

    fn resized(self, rows: usize, columns: usize) -> Self {
        self.resize(rows, columns, 0.0)
    }

    fn gather(drawn: &mut Vec<Pair>, left: (&Self, &Self), right: (&Self, &Self)) {
        drawn.push([left.0, left.1, right.0, right.1].map(Self::clone));
    }

    fn carried(drawn: &Vec<Pair>, spread: &Self) -> Self {
        drawn.iter().map(|[left, _, right, _]| left * spread * right.transpose()).sum()
    }

    fn pulled(drawn: &Vec<Pair>, weight: &DMatrix<f64>) -> (DMatrix<f64>, DMatrix<f64>, f64) {
        let width = weight.nrows();
        let (mut square, mut cross) = (DMatrix::zeros(width, width), DMatrix::zeros(width, 1));
        let mut constant = 0.0;
        for [left, l, right, r] in drawn {
            let (turned, weighted) = (left.transpose() * weight, weight * right);
            square += &turned * right;
            cross += (turned * r + weighted.transpose() * l) * 0.5;
            constant += (l.transpose() * weight * r)[0];
        }
        ((&square + square.transpose()) * 0.5, cross, constant)
    }

    fn source(drawn: &Vec<Pair>, mean: &Self) -> Self {
        let squares = drawn
            .iter()
            .map(|[left, l, right, r]| (left * mean + l) * (right * mean + r).transpose());
        squares.sum()
    }
}
