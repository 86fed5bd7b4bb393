//! Runs on a device, as users start them: the emulated one, found where the driver would be.
#![cfg(target_os = "linux")]

mod binary;
#[path = "../../fedback-cuda/tests/driver/build.rs"]
mod driver;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Where the emulated driver lies.
fn emulated() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        driver::build(folder.path());
        folder
    };
    FOLDER.get_or_init(build).path()
}

/// The command on a machine with a device, which the variables may make a poor one.
fn on_device(folder: &Path, variables: &[(&str, &str)], args: &str) -> Output {
    let args: Vec<&str> = args.split(' ').collect();
    let mut command = binary::command(folder, &args);
    if !driver::is_real() {
        command.env("LD_LIBRARY_PATH", emulated());
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

const SPEC: &str = r#"
rounds = 60
repetitions = 70
[problem]
base = { kind = "gaussian", mean = [1.0, 4.0, 2.0] }
response = { kind = "location", sensitivity = [0.5, 0.9, -0.2] }
loss = { kind = "mean" }
[algorithm]
kind = "scaffold"
scheme = "without-replacement"
cohort = 2
local_steps = 3
step_size = { beta = 4.0, gamma = 20.0 }
[measure]
every = 5
consensus = true
"#;

/// A folder with a spec in it.
fn folder(spec: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("spec.toml"), spec).unwrap();
    folder
}

/// What a recorded run came to: every model, and every record.
fn results(folder: &Path, id: u32) -> [String; 2] {
    ["theta", "csv"]
        .map(|format| printed(on_device(folder, &[], &format!("export {id} --format {format}"))))
}

/// Models and records are those of the processor; the plan is the same, and the device is told.
#[test]
fn a_run_comes_to_the_same_on_both_devices() {
    let folder = folder(SPEC);
    let here = folder.path();
    printed(on_device(here, &[], "run spec.toml --quiet"));
    printed(on_device(here, &[], "run spec.toml --quiet --device cuda"));
    assert_eq!(results(here, 1), results(here, 2));
    let shown = [1, 2].map(|id| printed(on_device(here, &[], &format!("show {id} --json"))));
    let of = |shown: &str, key: &str| {
        let line = shown.split(&format!("\"{key}\":")).nth(1).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    assert_eq!(of(&shown[0], "plan"), of(&shown[1], "plan"));
    assert!(!of(&shown[0], "machine").contains("cuda"), "{}", shown[0]);
    assert!(of(&shown[1], "machine").contains("; cuda: "), "{}", shown[1]);
}

/// The paper's own specs, shortened, and its largest as they are on a device that is real.
#[test]
fn the_papers_specs_come_to_the_same_on_both_devices() {
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/paper");
    let mut found = 0;
    for entry in fs::read_dir(paper).unwrap() {
        let path = entry.unwrap().path();
        // The credit table has to be fetched.
        if path.file_name().unwrap().to_string_lossy().starts_with("credit") {
            continue;
        }
        found += 1;
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let shorter = match driver::is_real() {
            true => "",
            false => " --set rounds=12 --set repetitions=3 --set measure.every=4",
        };
        let run = format!("run {} --quiet --store none --json{shorter}", path.display());
        let one = printed(on_device(here, &[], &run));
        let other = printed(on_device(here, &[], &format!("{run} --device cuda")));
        let untimed = |text: &str| {
            let lines = text.split(',').filter(|part| !part.contains("\"seconds\""));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(untimed(&one) == untimed(&other), "{}", path.display());
    }
    assert!(found >= 6, "{found} specs");
}

/// A device that falls from the bus ends the run; it goes on from the last checkpoint on the other.
#[test]
fn a_run_whose_device_fails_goes_on_on_the_other() {
    if driver::is_real() {
        return;
    }
    let folder = folder(SPEC);
    let here = folder.path();
    let failed = on_device(here, &[("EMULATED_LAUNCHES", "9")], "run spec.toml --device cuda");
    assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
    let why = said(&failed);
    assert!(
        why.contains("the device failed (cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED)"),
        "{why}"
    );
    assert!(why.contains("can go on with device = \"cpu\""), "{why}");
    printed(on_device(here, &[], "resume 1 --quiet"));
    printed(on_device(here, &[], "run spec.toml --quiet"));
    assert_eq!(results(here, 1), results(here, 2));
}

/// What cannot be had is refused before anything is written.
#[track_caller]
fn refused(spec: &str, variables: &[(&str, &str)], args: &str, why: &[&str]) {
    let folder = folder(spec);
    let output = on_device(folder.path(), variables, &format!("run spec.toml {args}"));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(why.iter().all(|why| said.contains(why)), "{said}");
    assert!(!folder.path().join("fedback.db").exists(), "{said}");
}

#[test]
fn devices_that_will_not_do_are_named() {
    if driver::is_real() {
        return;
    }
    let cuda = "--device cuda";
    refused(SPEC, &[("EMULATED_DEVICES", "0")], cuda, &["the NVIDIA driver finds no device"]);
    refused(SPEC, &[("EMULATED_MAJOR", "7")], cuda, &["compute capability 7.0; needed: 8.0"]);
    let small = ["the run needs", "of which 20 kB are free; take fewer repetitions"];
    refused(SPEC, &[("EMULATED_MEMORY", "20000")], cuda, &small);
    refused(SPEC, &[], "--device gpu", &["found \"gpu\"; allowed: cpu, cuda, auto"]);
}

#[test]
fn without_a_driver_it_is_said_what_is_missing() {
    if driver::is_real() {
        return;
    }
    let nothing = [("LD_LIBRARY_PATH", "")];
    let missing = ["spec.toml: device: no NVIDIA driver was found", "it is all that is needed"];
    refused(SPEC, &nothing, "--device cuda", &missing);
    let folder = folder(SPEC);
    let chosen = on_device(folder.path(), &nothing, "run spec.toml --device auto");
    assert!(said(&chosen).contains("device: cpu (no NVIDIA driver was found"), "{}", said(&chosen));
}

/// Parts without a kernel are refused by their key; `auto` takes the processor for them.
#[test]
fn parts_without_a_kernel_are_refused_by_name() {
    let with = |from: &str, to: &str| {
        assert!(SPEC.contains(from));
        SPEC.replace(from, to)
    };
    let matrix = with("mean = [1.0, 4.0, 2.0] }", "dim = 2, mean = 1.0 }\nclients = 3").replace(
        "[0.5, 0.9, -0.2]",
        "[[[0.1, 0.2], [0.0, 0.1]], [[0.1, 0.2], [0.0, 0.1]], [[0.1, 0.2], [0.0, 0.1]]]",
    );
    let saturating = with("kind = \"location\"", "kind = \"saturating\", limit = 2.0");
    let first = with(
        "scheme = \"without-replacement\"",
        "scheme = \"first-arrivals\"\nlatency = { kind = \"exponential\", mean = 1.0 }",
    );
    for (spec, key, what) in [
        (&matrix, "problem.response.sensitivity", "a matrix of sensitivities"),
        (&saturating, "problem.response.limit", "a response that saturates"),
        (&first, "algorithm.scheme", "a cohort of first arrivals"),
    ] {
        let why =
            format!("{key}: {what} has no kernel for device = \"cuda\"; use device = \"cpu\"");
        refused(spec, &[], "--device cuda", &[&why]);
        let folder = folder(spec);
        let chosen = on_device(folder.path(), &[], "run spec.toml --device auto");
        assert!(chosen.status.success(), "{}", said(&chosen));
        assert!(said(&chosen).contains(&format!("device: cpu ({why})")), "{}", said(&chosen));
    }
}

#[test]
fn what_is_left_open_is_chosen_by_the_repetitions() {
    let folder = folder(SPEC);
    let here = folder.path();
    let many = on_device(here, &[], "run spec.toml --device auto");
    assert!(said(&many).contains("device: cuda ("), "{}", said(&many));
    let few = on_device(here, &[], "run spec.toml --device auto --set repetitions=2");
    assert!(said(&few).contains("device: cpu (found 2 repetitions; cuda is taken from 64 on)"));
}
