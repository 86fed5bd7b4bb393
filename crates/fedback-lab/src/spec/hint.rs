//! A guess at what was meant by a word that a spec does not know.

use super::algorithm::RoundKeys;

/// Words of papers and other libraries, and the keys that they are here.
const SYNONYMS: [(&str, &str); 14] = [
    ("E", "local_steps"),
    ("K", "cohort"),
    ("T", "rounds"),
    ("batch_size", "batch"),
    ("clients_per_round", "cohort"),
    ("epsilon", "sensitivity"),
    ("eta", "step_size"),
    ("lambda", "l2"),
    ("learning_rate", "step_size"),
    ("lr", "step_size"),
    ("mu", "proximal"),
    ("participation", "scheme"),
    ("sampling", "scheme"),
    ("steps", "local_steps"),
];

/// Where keys belong that are easily put into the wrong section.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("", &["name", "seed", "repetitions", "rounds"]),
    ("algorithm.", &RoundKeys::ALL),
    (
        "measure.",
        &[
            "every",
            "distance",
            "risk",
            "consensus",
            "accuracy",
            "auc",
            "client_risk",
            "retained",
            "base_risk",
            "group",
            "sample",
        ],
    ),
    ("problem.", &["weights", "base", "response", "loss"]),
    ("problem.response.", &["sensitivity", "strength", "rate", "floor", "smoothing", "budget"]),
];

/// "allowed: a, b, c", with a guess at what was meant.
pub(crate) fn choices(found: &str, allowed: &[&str]) -> String {
    listed(closest(found, allowed).map(String::from), allowed)
}

/// The same for a key, which may belong to another section.
pub(super) fn keys(found: &str, allowed: &[&str]) -> String {
    let synonym = SYNONYMS.iter().find(|(word, _)| *word == found).map(|(_, key)| *key);
    let here = synonym.filter(|key| allowed.contains(key)).or_else(|| closest(found, allowed));
    let elsewhere = || {
        let key = synonym.unwrap_or(found);
        let section = SECTIONS.iter().find(|(_, keys)| keys.contains(&key));
        section.map(|(section, _)| format!("{section}{key}"))
    };
    listed(here.map(String::from).or_else(elsewhere), allowed)
}

fn listed(guess: Option<String>, allowed: &[&str]) -> String {
    let list = if allowed.is_empty() { "no further keys".into() } else { allowed.join(", ") };
    match guess {
        Some(guess) => format!("did you mean {guess}? (allowed: {list})"),
        None => format!("allowed: {list}"),
    }
}

/// The choice that is a slip of the pen away.
pub(crate) fn closest<'a>(found: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace('_', "-");
    let found = plain(found);
    let apart = |choice: &&str| strsim::damerau_levenshtein(&found, &plain(choice));
    let (distance, choice) = allowed.iter().map(|choice| (apart(choice), *choice)).min()?;
    (distance <= 2 && distance < found.chars().count()).then_some(choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_field_lead_to_keys() {
        let guess = |found: &str| keys(found, &RoundKeys::ALL);
        assert!(guess("E").starts_with("did you mean local_steps?"));
        assert!(guess("local-steps").starts_with("did you mean local_steps?"));
        assert!(guess("rounds").starts_with("did you mean rounds?"));
        assert!(guess("every").starts_with("did you mean measure.every?"));
        assert!(guess("x").starts_with("allowed:"));
        assert!(keys("lr", &["rounds"]).starts_with("did you mean algorithm.step_size?"));
    }

    #[test]
    fn every_place_exists() {
        let schema = super::super::Spec::schema().to_string();
        for key in SECTIONS.iter().flat_map(|(_, keys)| keys.iter()) {
            assert!(schema.contains(&format!("\"{key}\":")), "{key}");
        }
    }
}
