//! As many records of a long curve as a picture can show: in every stretch of it those where a
//! measurement is lowest and highest, so that no extreme is lost.

use super::run::Record;

/// Measurements whose extremes are kept, at most: those of single clients come last, and may be many.
const MOST_COLUMNS: usize = 12;

/// Takes in record after record, and keeps some.
pub(super) struct Thinning {
    /// Records to a stretch.
    stretch: usize,
    repetitions: usize,
    waiting: Vec<Record>,
    kept: Vec<Record>,
}

impl Thinning {
    /// Of `total` records of so many repetitions, about `most` are kept; all where there are no more.
    pub(super) fn new(total: usize, most: usize, repetitions: usize) -> Self {
        let stretch = if total <= most { 1 } else { (4 * total).div_ceil(most.max(1)) };
        let repetitions = repetitions.max(1);
        Thinning { stretch, repetitions, waiting: Vec::new(), kept: Vec::new() }
    }

    pub(super) fn take(&mut self, record: Record) {
        self.waiting.push(record);
        if self.waiting.len() == self.stretch {
            self.close();
        }
    }

    /// What was kept, the first and the last record among it.
    pub(super) fn finish(mut self) -> Vec<Record> {
        let last = self.waiting.last().cloned();
        self.close();
        if let Some(last) = last.filter(|last| self.kept.last() != Some(last)) {
            self.kept.push(last);
        }
        self.kept
    }

    fn close(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if self.stretch == 1 {
            return self.kept.extend(waiting);
        }
        let width = waiting.first().map_or(0, |record| record.values.len());
        let columns = (width / self.repetitions).min(MOST_COLUMNS);
        let mut places = if self.kept.is_empty() { vec![0] } else { Vec::new() };
        for column in 0..columns {
            let own = column * self.repetitions..(column + 1) * self.repetitions;
            let level = |record: &Record| {
                record.values.get(own.clone()).map_or(f64::NAN, |values| values.iter().sum())
            };
            let levels: Vec<f64> = waiting.iter().map(level).collect();
            let finite = || (0..levels.len()).filter(|&place| levels[place].is_finite());
            places.extend(finite().min_by(|&a, &b| levels[a].total_cmp(&levels[b])));
            places.extend(finite().max_by(|&a, &b| levels[a].total_cmp(&levels[b])));
        }
        places.sort_unstable();
        places.dedup();
        let mut waiting: Vec<Option<Record>> = waiting.into_iter().map(Some).collect();
        self.kept.extend(places.into_iter().filter_map(|place| waiting[place].take()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(total: u64, most: usize, value: impl Fn(u64) -> f64) -> Vec<Record> {
        let mut thinning = Thinning::new(total as usize, most, 2);
        for round in 0..total {
            let values = vec![value(round), value(round), -value(round), 1.0];
            thinning.take(Record { round, seconds: None, values });
        }
        thinning.finish()
    }

    #[test]
    fn a_short_curve_stays_whole() {
        assert_eq!(thinned(100, 100, |round| round as f64).len(), 100);
    }

    #[test]
    fn no_extreme_of_a_long_curve_is_lost() {
        let value = |round: u64| match round {
            7_777 => 1e9,
            7_778 => -1e9,
            _ => (round % 13) as f64,
        };
        let kept = thinned(100_003, 400, value);
        assert!((100..=800).contains(&kept.len()), "{} records", kept.len());
        let rounds: Vec<u64> = kept.iter().map(|record| record.round).collect();
        assert!(rounds.is_sorted_by(|a, b| a < b));
        for wanted in [0, 7_777, 7_778, 100_002] {
            assert!(rounds.contains(&wanted), "round {wanted}");
        }
    }
}
