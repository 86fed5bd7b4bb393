//! What is read from outside, with bytes that nobody meant: never a panic, never an answer that is
//! forgotten. Inputs are the corpus, and changes of it from a seed; an input that ever failed is in the
//! corpus.

mod ledgers;
mod mutation;
mod site;

use std::path::Path;

use fedback_site::Policy;
use fedback_site::frame::Frame;
use fedback_site::message::Request;
use mutation::{corpus, draws, inputs, mutate, mutate_frame, survives};

/// The largest question, in bytes.
const MOST: u64 = 1 << 16;

/// Reads what came on the socket, as the service does; every question in it.
fn requests(bytes: &[u8]) -> Vec<Result<Request, String>> {
    let (mut rest, mut found) = (bytes, Vec::new());
    loop {
        let before = rest.len();
        match Frame::read(&mut rest, MOST) {
            Ok(None) => return found,
            Err(error) => {
                found.push(Err(error.to_string()));
                return found;
            }
            Ok(Some(frame)) => {
                let held: usize = frame.arrays.values().map(|array| array.bytes.len()).sum();
                assert!(held as u64 <= MOST && held <= before);
                let mut written = Vec::new();
                frame.write(&mut written).unwrap();
                let again = Frame::read(&mut written.as_slice(), u64::MAX).unwrap();
                assert_eq!(again.as_ref(), Some(&frame));
                found.push(Request::of(frame));
            }
        }
    }
}

/// Whatever comes on the socket is answered or refused, and what is refused is not written down.
#[test]
fn nonsense_on_the_socket_is_refused() {
    let mut site = site::Site::new();
    let mut seeds = site.questions();
    seeds.extend(corpus("frames").into_iter().map(|(_, bytes)| bytes));
    let mut draws = draws(1);
    let (mut read, mut refused) = (0, 0);
    let whole = seeds.clone().into_iter();
    let changed = (0..inputs(4000)).map(|_| {
        let (one, two) = (draws.index(seeds.len()), draws.index(seeds.len()));
        match draws.index(3) {
            0 => mutate(&seeds[one], &seeds[two], &mut draws),
            _ => mutate_frame(&seeds[one], &mut draws),
        }
    });
    for input in whole.chain(changed) {
        for request in survives(&input, requests) {
            let Ok(request) = request else {
                refused += 1;
                continue;
            };
            read += 1;
            survives(&input, |_| site.ask(&request));
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} {refused}");
    assert!(site.answered > 20 && site.refused > 200, "{} {}", site.answered, site.refused);
    site.remembers();
}

/// A policy is read as it is meant, or refused with the file's name and in one line.
#[test]
fn a_policy_that_nobody_wrote_is_refused_in_a_line() {
    let seeds: Vec<Vec<u8>> = corpus("policies").into_iter().map(|(_, text)| text).collect();
    let origin = Path::new("site.toml");
    let mut draws = draws(2);
    let (mut good, mut bad) = (0, 0);
    for place in 0..inputs(4000) as usize + seeds.len() {
        let (one, two) = (draws.index(seeds.len()), draws.index(seeds.len()));
        let input = match seeds.get(place) {
            Some(seed) => seed.clone(),
            None => mutate(&seeds[one], &seeds[two], &mut draws),
        };
        let text = String::from_utf8_lossy(&input);
        match survives(&input, |_| Policy::parse(&text, origin)) {
            Ok(policy) => {
                good += 1;
                let limits = &policy.limits;
                assert!(limits.rows > 0 && limits.answers > 0 && limits.answers_in_all > 0);
                assert!(limits.theta > 0.0 && limits.clip.is_none_or(|clip| clip > 0.0), "{text}");
                assert!(!policy.clients.is_empty() && !policy.name.is_empty());
                let base = |key: &String| key == "problem" || key.starts_with("problem.base");
                assert!(!policy.plan.vary.keys().any(base), "{text}");
            }
            Err(error) => {
                bad += 1;
                let error = error.to_string();
                assert!(error.starts_with("site.toml: "), "{error}");
                assert!(!error.trim_end().contains('\n'), "{error}");
            }
        }
    }
    assert!(good > 100 && bad > 1000, "{good} {bad}");
}
