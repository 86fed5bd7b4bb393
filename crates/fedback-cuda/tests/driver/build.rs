//! Builds the emulated driver, for tests of this crate and of the command.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the emulated driver into a folder.
pub fn build(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fedback-cuda");
    let library = folder.join("libcuda.so.1");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let built = Command::new(&compiler)
        .args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
        // Nothing fused: what makes the bits those of the engine, here as on a device.
        .args(["-ffp-contract=off", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"])
        .arg("-I")
        .arg(here.join("kernels"))
        .arg("-I")
        .arg(here.join("tests/driver"))
        .arg(here.join("tests/driver/driver.cpp"))
        .arg("-o")
        .arg(&library)
        .status();
    let built = built.unwrap_or_else(|error| panic!("{compiler} (a C++ compiler): {error}"));
    assert!(built.success(), "the kernels do not build for the host");
    library
}

/// Whether tests are to meet the device that the machine's own driver shows.
pub fn is_real() -> bool {
    std::env::var("FEDBACK_DEVICE").is_ok_and(|device| device == "driver")
}
