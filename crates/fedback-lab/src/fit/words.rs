//! What was found, in sentences: why a shape was chosen, what to be careful about, what the data cannot
//! tell.

use fedback_fit::model::{Direction, Shape};
use fedback_fit::selection::STRICT;

use super::Fitted;
use crate::words::short;

/// Below this p-value a feature moves beyond doubt.
const CLEAR: f64 = 1e-4;
/// Above this one it is left out without a word: a lower one would come too often by chance.
const UNCLEAR: f64 = 2.0 * STRICT;

/// What to sort names by as people do: numbers in them count by their size.
fn natural(name: &str) -> Vec<(bool, usize, String)> {
    let all: Vec<char> = name.chars().collect();
    let parts = all.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let key = |part: &[char]| {
        let text: String = part.iter().collect();
        match part[0].is_ascii_digit() {
            true => (false, text.trim_start_matches('0').len(), text),
            false => (true, 0, text),
        }
    };
    parts.map(key).collect()
}

impl Fitted {
    /// The places of the clients in the order in which they are shown: c2 before c10.
    pub fn shown_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        order.sort_by_key(|&at| natural(&self.input.clients[at]));
        order
    }

    /// Everything to be careful about.
    pub fn all_warnings(&self) -> Vec<String> {
        self.warnings().into_iter().chain(self.doubts_of_clients()).collect()
    }

    /// What to be careful about, for the federation as a whole.
    pub fn warnings(&self) -> Vec<String> {
        let unused = &self.input.unused;
        let unused = (!unused.is_empty())
            .then(|| format!("no rows under the deployments {}", unused.join(", ")));
        unused.into_iter().chain(doubts(self)).collect()
    }

    /// What to be careful about with the fitted response, wherever it is used.
    pub fn doubts(&self) -> Vec<String> {
        doubts(self).into_iter().chain(self.doubts_of_clients()).collect()
    }

    /// The names of some features.
    pub fn names_of(&self, features: &[usize]) -> Vec<String> {
        features.iter().map(|&j| self.input.features[j].clone()).collect()
    }

    /// Why the shape is what it is.
    pub fn shape_reason(&self) -> String {
        if self.shape_given {
            return "as asked for".into();
        }
        if self.model.features.len() == 1 {
            return "one feature moves: one number per client".into();
        }
        let said = |p: Option<f64>, simple: &str, wide: &str| match p {
            Some(p) if p < STRICT => {
                format!("the data reject {simple} in favour of {wide} (p = {})", short(p))
            }
            Some(p) => format!(
                "the data do not reject {simple} in favour of {wide} (p = {}; rejected below \
                 {STRICT})",
                short(p)
            ),
            None => format!("these deployments cannot tell {simple} from {wide}"),
        };
        let scalar = said(self.choice.scalar, "one number per client", "one per feature");
        let vector = said(self.choice.vector, "one number per feature", "a matrix");
        match self.choice.identified || self.choice.vector.is_none() {
            true => format!("{scalar}; {vector}"),
            false => format!("{scalar}; {vector}; a matrix is not identified"),
        }
    }
}

/// What no analysis of these data can tell.
pub(super) fn not_identified(fitted: &Fitted) -> Vec<String> {
    let (input, features) = (&fitted.input, &fitted.model.features);
    let (size, count) = (features.len(), input.names.len());
    let rank = input.deployments.rank(features);
    let mut all = Vec::new();
    let fixed: Vec<usize> =
        (0..input.features.len()).filter(|&j| !input.deployments.varies(j)).collect();
    if !fixed.is_empty() {
        let names = fitted.names_of(&fixed).join(", ");
        all.push(format!(
            "responses to the coefficients of {names}: they are the same in every deployment"
        ));
    }
    if count == 2 {
        let (a, b) = (&input.names[0], &input.names[1]);
        all.push(format!(
            "how clients would react to other changes of θ than from {a} to {b}, the only one \
             observed"
        ));
    } else if rank < size {
        all.push(format!(
            "responses outside the {rank} of {size} directions in which the deployments vary θ"
        ));
    }
    if rank < size {
        all.push(format!(
            "a matrix of sensitivities: it needs {} deployments with affinely independent θ on the \
             moving features; {}",
            size + 1,
            match rank + 1 {
                all if all == count => format!("there are {count}"),
                independent => format!("of these {count}, {independent} are"),
            }
        ));
    }
    if count - 1 <= rank {
        all.push(format!(
            "whether the response is linear in θ: it needs {} or more deployments",
            rank + 2
        ));
    }
    if let Some(all_equal) = &input.intercepts
        && all_equal.iter().any(|value| *value != all_equal[0])
    {
        all.push("a response to the intercept, which is taken to move nobody".into());
    }
    all.push(
        "what changed between the deployments for other reasons: a drift looks like a response"
            .into(),
    );
    all
}

/// What is doubted for all clients together.
fn doubts(fitted: &Fitted) -> Vec<String> {
    let (input, mut all) = (&fitted.input, Vec::new());
    let moved = &fitted.moving;
    if moved.is_empty() {
        let all_taken = match fitted.features_given || fitted.model.features.len() == 1 {
            true => String::new(),
            false => format!(
                "; {} are all taken, and the intervals hold only if all of them respond: name those \
                 that do with --features",
                fitted.names_of(&fitted.model.features).join(", ")
            ),
        };
        all.push(format!(
            "no feature moves significantly: the estimates may be noise around no \
             response{all_taken}"
        ));
    }
    let unsure: Vec<usize> = (0..input.features.len())
        .filter(|&j| (CLEAR..UNCLEAR).contains(&fitted.anywhere[j]))
        .collect();
    let chosen = !fitted.features_given && fitted.model.direction == Direction::BestResponse;
    if chosen && !unsure.is_empty() {
        all.push(format!(
            "whether {} moves is not clear, and the intervals do not account for the choice: name the \
             features that move with --features",
            fitted.names_of(&unsure).join(", ")
        ));
    }
    let strange: Vec<usize> =
        (moved.iter().copied()).filter(|&j| !input.deployments.varies(j)).collect();
    if !strange.is_empty() {
        all.push(format!(
            "{} moved although their coefficients are the same in every deployment: a drift, or \
             a response to other coefficients",
            fitted.names_of(&strange).join(", ")
        ));
    }
    let left: Vec<usize> = (moved.iter().copied())
        .filter(|j| !fitted.model.features.contains(j) && !strange.contains(j))
        .collect();
    if !left.is_empty() {
        all.push(format!("{} moved too, and were left out", fitted.names_of(&left).join(", ")));
    }
    let reducible = fitted.model.shape == Shape::Vector && !fitted.choice.identified;
    if reducible && fitted.choice.vector.is_some_and(|p| p < STRICT) {
        all.push(
            "the data reject one number per feature, and these deployments do not identify a \
             matrix"
                .into(),
        );
    }
    if fitted.shape_given && fitted.choice.shape > fitted.model.shape {
        all.push(format!(
            "the data reject the shape {}; the simplest that they do not is {}",
            fitted.model.shape.name(),
            fitted.choice.shape.name()
        ));
    }
    if let Some(why) = scales(fitted) {
        all.push(why);
    }
    all
}

/// One number for features of very different units is hardly meant.
fn scales(fitted: &Fitted) -> Option<String> {
    if fitted.model.shape != Shape::Scalar || fitted.model.features.len() < 2 {
        return None;
    }
    let sd = |&j: &usize| -> f64 {
        let rows =
            fitted.input.observations.iter().flat_map(|client| client.rows(fitted.reference));
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for row in rows {
            count += 1.0;
            sum += row[j];
            squares += row[j] * row[j];
        }
        libm::sqrt((squares / count - (sum / count) * (sum / count)).max(0.0))
    };
    let all: Vec<f64> = fitted.model.features.iter().map(sd).collect();
    let (low, high) =
        (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(0.0, f64::max));
    (high > 100.0 * low).then(|| {
        "the moving features have very different units, and one sensitivity moves them alike: \
         standardise them, or use --shape vector"
            .into()
    })
}
