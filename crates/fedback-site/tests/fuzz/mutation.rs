//! Bytes from outside, changed at random from a seed, and the corpus that they start from.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fedback_core::stream::{Draws, Purpose, Seed, Stream};

/// How many inputs a test makes: `usual`, or that times what `FEDBACK_FUZZ` says.
pub fn inputs(usual: u64) -> u64 {
    let times = std::env::var("FEDBACK_FUZZ").ok();
    let times = times.map(|times| times.parse::<u64>().expect("FEDBACK_FUZZ is a number"));
    usual * times.unwrap_or(1).max(1)
}

/// The same of files, which are written and opened anew: a twenty-fifth of what is asked for.
pub fn damages(usual: u64) -> u64 {
    usual.max(inputs(usual) / 25)
}

pub fn draws(seed: u64) -> Draws {
    Stream::for_problem(Seed(seed), Purpose::Data).draws()
}

/// The files of a folder of the corpus, by name.
pub fn corpus(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Hands an input over; one that makes the reader panic is shown, to be put into the corpus.
pub fn survives<T>(input: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| read(input))).unwrap_or_else(|_| {
        panic!("this input belongs into the corpus: {:?}", String::from_utf8_lossy(input))
    })
}

/// Numbers at which lengths and counts go wrong.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// The same as text.
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "1e999",
    "nan",
    "-inf",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "null",
    "[]",
    "{}",
    "\"\"",
    "\u{1f332}",
    "[[[[[[[[",
];

/// One to four changes of the bytes; some are spliced with another input.
pub fn mutate(bytes: &[u8], other: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=draws.index(4) {
        change(&mut bytes, other, draws);
    }
    bytes
}

/// A frame whose header says other numbers, or whose arrays have other bytes, and that can be read.
pub fn mutate_frame(frame: &[u8], draws: &mut Draws) -> Vec<u8> {
    let length = frame.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let Some((header, data)) = frame.get(4..).and_then(|rest| rest.split_at_checked(length)) else {
        return frame.to_vec();
    };
    let (mut header, mut data) = (header.to_vec(), data.to_vec());
    for _ in 0..=draws.index(2) {
        let place = draws.index(header.len() + 1);
        match draws.index(3) {
            0 => replace_number(&mut header, place, WORDS[draws.index(WORDS.len())].as_bytes()),
            1 => replace_number(&mut header, place, &[b'0' + draws.index(4) as u8]),
            _ if data.is_empty() => {}
            _ => {
                let place = draws.index(data.len());
                data[place] = [0, 1, 2, 0x7f, 0x80, 0xff][draws.index(6)];
            }
        }
    }
    let mut bytes = (header.len() as u32).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], draws: &mut Draws) {
    let len = bytes.len();
    let from = draws.index(len + 1);
    let to = (from + draws.index(16)).min(len);
    match draws.index(11) {
        0 if from < len => bytes[from] ^= 1 << draws.index(8),
        1 if from < len => bytes[from] = draws.index(256) as u8,
        2 => bytes.truncate(from),
        3 => drop(bytes.drain(from..to)),
        4 => {
            let again = bytes[from..to].to_vec();
            drop(bytes.splice(from..from, again));
        }
        5 => {
            let new: Vec<u8> = (0..draws.index(16)).map(|_| draws.index(256) as u8).collect();
            drop(bytes.splice(from..from, new));
        }
        6 => {
            let edge = EDGES[draws.index(EDGES.len())].to_le_bytes();
            let width = [1, 2, 4, 8][draws.index(4)];
            let end = (from + width).min(len);
            bytes[from..end].copy_from_slice(&edge[..end - from]);
        }
        7 | 8 => replace_number(bytes, from, WORDS[draws.index(WORDS.len())].as_bytes()),
        9 if len > 0 => {
            let (a, b) = (draws.index(len), draws.index(len));
            bytes.swap(a, b);
        }
        _ => {
            let cut = draws.index(other.len() + 1);
            bytes.truncate(from);
            bytes.extend_from_slice(&other[cut..]);
        }
    }
}

/// Puts a word in place of the first number from a place on.
fn replace_number(bytes: &mut Vec<u8>, from: usize, word: &[u8]) {
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else { return };
    let start = from + start;
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    drop(bytes.splice(start..start + digits, word.iter().copied()));
}

#[test]
fn changes_are_the_same_for_the_same_seed() {
    let (one, two) = (&b"length 12, width 7"[..], &b"another"[..]);
    let all = |seed| {
        let mut draws = draws(seed);
        (0..200).map(|_| mutate(one, two, &mut draws)).collect::<Vec<_>>()
    };
    assert_eq!(all(1), all(1));
    assert_ne!(all(1), all(2));
    assert!(all(1).iter().filter(|changed| changed[..] != *one).count() > 150);
}
