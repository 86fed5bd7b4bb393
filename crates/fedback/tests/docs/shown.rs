//! What a page shows against what a command printed.

/// Lines with what differs from time to time masked and spaces made single, since the width of a
/// column depends on what is masked.
pub fn tidy(text: &str) -> Vec<String> {
    let mut seconds_column = false;
    let mut tidied = Vec::new();
    for line in text.trim_end().lines() {
        let mut words: Vec<String> = line.split_whitespace().map(mask).collect();
        for place in 1..words.len() {
            let is_unit = matches!(words[place].as_str(), "s" | "s,");
            let is_stop = place >= 3 && words[place - 3..place] == ["record", "of", "round"];
            if is_unit && words[place - 1].parse::<f64>().is_ok() {
                words[place - 1] = "SECONDS".into();
            } else if is_stop {
                words[place] = "ROUND;".into();
            }
        }
        let last = words.last_mut();
        let numeric = last.as_ref().is_some_and(|word| word.parse::<f64>().is_ok());
        let header = last.as_ref().is_some_and(|word| *word == "seconds");
        if let Some(last) = last.filter(|_| seconds_column && numeric) {
            *last = "SECONDS".into();
        }
        seconds_column = header || (seconds_column && numeric);
        tidied.push(words.join(" "));
    }
    tidied
}

/// One word with dates, the seconds of JSON and what is zero but for rounding masked.
fn mask(word: &str) -> String {
    if word.parse::<f64>().is_ok_and(|number| number.abs() < 1e-12) {
        return "0".into();
    }
    let is_date = word.len() == 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    if is_date {
        return "DATE".into();
    }
    let Some((before, after)) = word.split_once("\"seconds\":") else { return word.into() };
    let end = after.find([',', '}']).unwrap_or(after.len());
    format!("{before}\"seconds\":SECONDS{}", mask(&after[end..]))
}

/// Whether lines are as shown, where a line `…` stands for any lines and a `…` at the end of one
/// for the rest of it.
pub fn matches_shown(shown: &[String], found: &[String]) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line == "…" => {
            (0..=found.len()).any(|skipped| matches_shown(rest, &found[skipped..]))
        }
        Some((line, rest)) => found.split_first().is_some_and(|(first, others)| {
            let same = match line.strip_suffix('…') {
                Some(beginning) => first.starts_with(beginning.trim_end()),
                None => first == line,
            };
            same && matches_shown(rest, others)
        }),
    }
}

/// What was found with as many lines left out as in what is shown.
pub fn shortened(found: &str, shown: &str) -> String {
    let found: Vec<&str> = found.trim_end().lines().collect();
    let shown: Vec<&str> = shown.lines().collect();
    let Some(gap) = shown.iter().position(|line| line.trim() == "…") else {
        return found.join("\n") + "\n";
    };
    let after = found.len() - (shown.len() - gap - 1);
    [&found[..gap], &["…"], &found[after..]].concat().join("\n") + "\n"
}

#[test]
fn masks_hide_time_and_nothing_else() {
    let a =
        "  run   seconds\n    1   0.08213\n  0.1998 s, recorded as run 4\n x 2026-11-15T09:21:34Z";
    let b = "  run    seconds\n    1   0.1\n  12 s, recorded as run 4\nx 2027-01-01T00:00:00Z";
    assert_eq!(tidy(a), tidy(b));
    assert_ne!(tidy("stable point [5.000]"), tidy("stable point [5.001]"));
    assert_eq!(tidy("price of stability 0"), tidy("price of stability  -4.441e-16"));
    assert_ne!(tidy("price of stability 0"), tidy("price of stability 1e-9"));
    assert_ne!(tidy("run risk\n1 0.5"), tidy("run risk\n1 0.6"));
    assert_eq!(mask("{\"a\":1,\"seconds\":0.25}"), "{\"a\":1,\"seconds\":SECONDS}");
    let lines = |text: &str| tidy(text);
    assert!(matches_shown(&lines("a\n…\nd"), &lines("a\nb\nc\nd")));
    assert!(!matches_shown(&lines("a\n…\nd"), &lines("a\nb\nc")));
    assert!(matches_shown(&lines("a b…"), &lines("a bc")));
    assert!(!matches_shown(&lines("a"), &lines("a\nb")));
}
