//! The parts of the kernels one by one, as the host's compiler understands them, against the core and
//! the engine: to the bit, the rare paths included.

#![allow(unsafe_code, reason = "the parts are C functions")]

mod device;

use fedback_core::exp::exp_neg;
use fedback_core::loss::{Logistic, MarginLoss, Squared};
use fedback_core::normal::ziggurat;
use fedback_core::stream::{Purpose, Seed, Stream, Streams};
use fedback_engine::rule::{Coordinate, Descent, Proximal, Rule, Scaffold, StepSizes};
use libloading::{Library, Symbol};

fn piece<'a, F>(library: &'a Library, name: &str) -> Symbol<'a, F> {
    // SAFETY: every test names the type that `pieces.h` gives the function.
    unsafe { library.get(name.as_bytes()) }.unwrap()
}

/// Numbers of all sizes and signs, from a stream.
fn sizes(stream: Stream) -> impl Iterator<Item = f64> {
    (0..).map(move |n| {
        let size = 10f64.powf(40.0 * stream.uniform(2 * n) - 20.0);
        if stream.word(2 * n + 1) & 1 == 1 { size } else { -size }
    })
}

fn stream(purpose: Purpose) -> Stream {
    Stream::for_problem(Seed(17), purpose)
}

#[track_caller]
fn same(kernel: f64, engine: f64, at: impl std::fmt::Debug) {
    assert_eq!(kernel.to_bits(), engine.to_bits(), "{kernel:e} {engine:e} at {at:?}");
}

/// The streams of the kernels are made of the parts of their key as those of the core are.
#[test]
fn words_are_the_streams() {
    let library = device::device();
    type Words = extern "C" fn(u64, u64, u64, u64, u32, u64) -> u64;
    let word: Symbol<'_, Words> = piece(&library, "piece_word");
    let keys = stream(Purpose::Data);
    for k in 0..20_000 {
        let [seed, repetition, round, n] = [0, 1, 2, 3].map(|part| keys.word(8 * k + part));
        let (repetition, round, n) = (repetition >> 40, round >> 30, n >> (n % 64));
        let client = keys.word(8 * k + 4) as u32;
        let purpose = if k % 2 == 0 { Purpose::Data } else { Purpose::Cohort };
        let engine = Streams::new(Seed(seed), repetition, round, purpose).client(client).word(n);
        assert_eq!(word(seed, repetition, round, purpose as u64, client, n), engine);
    }
}

#[test]
fn indices_and_units_are_those_of_the_streams() {
    let library = device::device();
    let index: Symbol<'_, extern "C" fn(u64, u64) -> u64> = piece(&library, "piece_index");
    let unit: Symbol<'_, extern "C" fn(u64) -> f64> = piece(&library, "piece_unit");
    let words = stream(Purpose::Shuffle);
    for n in 0..50_000 {
        let length = 1 + (words.word(n + 1) >> (n % 40 + 24)) as usize;
        assert_eq!(index(words.word(n), length as u64), words.index(n, length) as u64);
        same(unit(words.word(n)), words.uniform(n), n);
    }
}

/// Half a million variates, of which some two thousand need more than a word and a few dozen are of
/// the tail.
#[test]
fn normals_are_those_of_the_core() {
    let library = device::device();
    type Normal = extern "C" fn(*const f64, *const f64, u64, u64, u32, u64) -> f64;
    let normal: Symbol<'_, Normal> = piece(&library, "piece_normal");
    let table = ziggurat();
    let (edge, density) = (table.edges().as_ptr(), table.densities().as_ptr());
    let (mut beyond, mut undecided) = (0, 0);
    for round in 0..500 {
        let client = round as u32 % 7;
        let theirs = Streams::new(Seed(5), 0, round, Purpose::Data).client(client);
        for n in 0..1000 {
            let engine = theirs.normal(table, n);
            same(normal(edge, density, 5, round, client, n), engine, (round, n));
            let word = theirs.word(n);
            let layer = word as usize % 1024;
            let uniform = f64::from_bits(0x4000_0000_0000_0000 | (word >> 12)) - 3.0;
            let accepted = (uniform * table.edges()[layer]).abs() < table.edges()[layer + 1];
            undecided += u32::from(!accepted);
            beyond += u32::from(engine.abs() > table.edges()[1]);
        }
    }
    assert!(undecided > 1500 && beyond > 10, "{undecided} {beyond}");
}

#[test]
fn exponentials_are_those_of_the_core() {
    let library = device::device();
    let ours: Symbol<'_, extern "C" fn(f64) -> f64> = piece(&library, "piece_exp_neg");
    let edges = [0.0, 708.0, 708.000_000_1, 707.999, 1e4, 1e308, f64::INFINITY, 5e-324, 0.5];
    for x in edges.into_iter().chain(sizes(stream(Purpose::Fit)).map(f64::abs).take(100_000)) {
        same(ours(x), exp_neg(x), x);
    }
    for k in 0..200_000 {
        let x = k as f64 * 0.003_541;
        same(ours(x), exp_neg(x), x);
    }
    assert!(ours(f64::NAN).is_nan());
}

/// exp and log, which decide about rejected variates, are those of the library that the core uses, on
/// all that a variate may ask of them.
#[test]
fn rejections_are_decided_by_the_same_functions() {
    let library = device::device();
    let exp: Symbol<'_, extern "C" fn(f64) -> f64> = piece(&library, "piece_exp");
    let log: Symbol<'_, extern "C" fn(f64) -> f64> = piece(&library, "piece_log");
    let uniforms = stream(Purpose::Sample);
    for n in 0..300_000 {
        let x = -9.0 * uniforms.uniform(n);
        same(exp(x), libm::exp(x), x);
        same(exp(x * 1e-3), libm::exp(x * 1e-3), x * 1e-3);
        let u = 1.0 - uniforms.uniform(n);
        same(log(u), libm::log(u), u);
        let small = (1.0f64 / (1u64 << 53) as f64) * (1 + n) as f64;
        same(log(small), libm::log(small), small);
    }
    for x in [0.0, -0.0, -1e-9, -1e-300, -0.346, -0.347, -1.03, -1.04, -700.0] {
        same(exp(x), libm::exp(x), x);
    }
    same(log(1.0), libm::log(1.0), 1.0);
}

#[test]
fn slopes_are_those_of_the_losses() {
    let library = device::device();
    type Slope = extern "C" fn(u64, f64, f64) -> f64;
    let slope: Symbol<'_, Slope> = piece(&library, "piece_slope");
    let extremes = [0.0, -0.0, 708.0, -708.0, 709.0, -709.0, 1e300, -1e300, 36.7, -36.7];
    for margin in extremes.into_iter().chain(sizes(stream(Purpose::Means)).take(100_000)) {
        for label in [0.0, 1.0] {
            same(slope(1, margin, label), Logistic.slope(margin, label), margin);
            same(slope(0, margin, label), Squared.slope(margin, label), margin);
        }
    }
}

#[test]
fn steps_are_those_of_the_rules() {
    let library = device::device();
    type Step = extern "C" fn(u64, f64, *const f64, f64, f64, f64) -> f64;
    let step: Symbol<'_, Step> = piece(&library, "piece_step");
    let mut all = sizes(stream(Purpose::Weights));
    let mut next = || all.next().unwrap_or_default();
    for _ in 0..50_000 {
        let (w, theta, control, gradient) = (next(), next(), next(), next());
        let (plain, scaled, proximal) = (next().abs(), next().abs(), next().abs());
        let at = Coordinate { w, theta, control };
        let size = StepSizes { plain, gradient: scaled };
        let ours =
            |rule| step(rule, proximal, [w, theta, control].as_ptr(), gradient, plain, scaled);
        same(ours(0), Descent.step(at, gradient, size), at);
        same(ours(1), Proximal(proximal).step(at, gradient, size), at);
        same(ours(2), Scaffold.step(at, gradient, size), at);
    }
}

/// What is committed rounds every product before it is added: an operation on doubles that does not say
/// so may be fused where it is compiled for a device.
#[test]
fn nothing_is_fused() {
    let ptx = include_str!("../kernels/rounds.ptx");
    let (mut rounded, mut others) = (0, Vec::new());
    for line in ptx.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        let is_sum =
            ["add", "sub", "mul", "div", "sqrt"].contains(&word.split('.').next().unwrap());
        match word.ends_with(".f64") && (is_sum || word.starts_with("fma")) {
            true if word.contains(".rn.") && is_sum => rounded += 1,
            true => others.push(line),
            false => {}
        }
    }
    assert!(rounded > 1000 && others.is_empty(), "{rounded}, {others:?}");
}
