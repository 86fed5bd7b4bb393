//! The words of the report follow from its numbers, whatever the seed.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use fedback_lab::words::short;
use fedback_paper::figures::FIGURES;
use fedback_paper::report::{Claim, Verdict};
use fedback_paper::reproduce::{Request, reproduce};

/// The numbers whose names contain a text, in their order.
fn numbers(claim: &Claim, text: &str) -> Vec<f64> {
    claim.numbers.iter().filter(|(name, _)| name.contains(text)).map(|(_, x)| *x).collect()
}

fn claims(seed: u64) -> BTreeMap<&'static str, Claim> {
    let folder = tempfile::tempdir().unwrap();
    let ids = FIGURES.iter().map(|figure| figure.id.to_string()).filter(|id| id != "credit");
    let (figures, folder) = (ids.collect(), folder.path().into());
    let request = Request { figures, quick: true, seed: Some(seed), folder };
    let made = reproduce(&request, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!(made.report.verdicts()["seeds"], serde_json::json!([seed]));
    made.report.claims().map(|claim| (claim.id, claim.clone())).collect()
}

#[test]
fn the_words_of_claims_agree_with_their_numbers_under_three_seeds() {
    for seed in [7, 1, 2] {
        let claims = claims(seed);
        let says = |id: &str, words: &str| claims[id].reason.contains(words);
        for claim in claims.values() {
            assert!(!claim.reason.contains("NaN"), "seed {seed}: {}", claim.reason);
        }

        let cohort = &claims["scheme-2-not-monotone-in-k"];
        let left = numbers(cohort, "left at the end");
        let falls = left.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12));
        assert_eq!(says(cohort.id, "every larger K is closer"), falls, "seed {seed}: {left:?}");
        let closest = numbers(cohort, "ends closest");
        let smaller = 100.0 * closest[..closest.len() - 1].iter().sum::<f64>();
        assert!(!falls || says(cohort.id, &format!("in {smaller:.0} % of them")), "seed {seed}");

        let larger_e = &claims["larger-e-faster"];
        let mirrored = numbers(larger_e, "mirrored");
        let schemes: Vec<&[f64]> = mirrored.chunks_exact(mirrored.len() / 2).collect();
        let rises = |times: &&[f64]| times[..times.len() - 1].windows(2).all(|t| t[1] > t[0]);
        let slower = schemes.iter().all(rises);
        assert_eq!(says(larger_e.id, "every larger E slower"), slower, "seed {seed}: {schemes:?}");

        let rounds = &claims["rounds-over-e"];
        let contradicted = rounds.verdict == Verdict::DoesNotHold;
        assert_eq!(says(rounds.id, "the other way round"), contradicted, "seed {seed}");

        let order = &claims["b1-above-b2"];
        let (b1, b2) = (numbers(order, "B1")[0], numbers(order, "B2")[0]);
        let left = numbers(order, "left at the end");
        let agree = (b1 > b2) == (left[0] > left[1]);
        assert_eq!(says(order.id, "expectations agree"), agree, "seed {seed}: {left:?}");

        let unequal = &claims["scheme-2-fails-with-unequal-weights"];
        let left = numbers(unequal, "left at the end");
        let fails = unequal.verdict != Verdict::DoesNotHold;
        assert_eq!(fails, left[0] > 1.0, "seed {seed}: {left:?}");
        assert!(says(unequal.id, &format!("{} times the first distance", short(left[0]))));
        let most = 100.0 * left[1..].iter().copied().fold(0.0, f64::max);
        assert!(says(unequal.id, &format!("at most {most:.0} %")), "seed {seed}: {left:?}");
    }
}
