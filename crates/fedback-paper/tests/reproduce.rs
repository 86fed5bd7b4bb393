//! One flow: figures by their ids to a page, verdicts, and what was left out.

use std::sync::atomic::AtomicBool;

use fedback_lab::error::Error;
use fedback_paper::reproduce::{Reproduced, Request, reproduce};
use tempfile::TempDir;

fn quick(figures: &[&str], folder: &TempDir, stop: bool) -> Result<Reproduced, Error> {
    let request = Request {
        figures: figures.iter().map(|id| id.to_string()).collect(),
        quick: true,
        seed: Some(1),
        folder: folder.path().join("page"),
    };
    reproduce(&request, &mut (), &AtomicBool::new(stop))
}

/// A figure that is named twice is made once, and the page says only what there is.
#[test]
fn a_part_says_that_it_is_one() {
    let folder = TempDir::new().unwrap();
    let made = quick(&["cohort", "cohort"], &folder, false).unwrap();
    assert_eq!((made.report.sections.len(), made.left_out.len()), (1, 0));
    let page = std::fs::read_to_string(&made.page).unwrap();
    assert!(page.contains("This page has 1 of the 8 parts of the reproduction."));
    assert!(page.contains("Of 2 claims 1 holds, 1 does not hold.") && page.contains(" · seed 1<"));
    let json = made.report.verdicts();
    assert_eq!((&json["tally"]["claims"], &json["tally"]["not_decidable"]), (&2.into(), &0.into()));
    let claim = &json["verdicts"][0];
    assert_eq!((&claim["figure"], &claim["section"]), (&"cohort".into(), &"section 4.1".into()));
    assert_eq!((&claim["verdict"], claim["numbers"].is_object()), (&"holds".into(), true));
}

#[test]
fn what_is_refused_or_stopped_writes_nothing() {
    let folder = TempDir::new().unwrap();
    let unknown = quick(&["cohort", "figure-7"], &folder, false).unwrap_err();
    assert!(unknown.exit_code() == 2 && unknown.to_string().contains("convergence"), "{unknown}");
    assert_eq!(quick(&["cohort"], &folder, true).unwrap_err().exit_code(), 130);
    let page = folder.path().join("page");
    assert!(!page.exists());
    std::fs::write(&page, "mine").unwrap();
    let taken = quick(&["cohort"], &folder, false).unwrap_err();
    assert!(taken.exit_code() == 2 && taken.to_string().contains("is a file"), "{taken}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
}
