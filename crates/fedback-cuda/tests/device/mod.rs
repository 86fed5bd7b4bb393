//! A device that is this processor: the kernels as the host's compiler understands them, behind a
//! driver that is found as the real one would be.

#![allow(unsafe_code, reason = "the emulated driver is a C library")]
#![allow(dead_code, reason = "every test uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};

use libloading::Library;

/// Builds the emulated driver into a folder.
pub fn build(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
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

/// The device, for one test at a time. Loaded here, it is what is found when the driver is looked for:
/// the loader knows a library by its name.
pub fn device() -> MutexGuard<'static, Library> {
    static DEVICE: OnceLock<Mutex<Library>> = OnceLock::new();
    let load = || {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: our own library, which does nothing when it is loaded.
        Mutex::new(unsafe { Library::new(build(folder.path())) }.unwrap())
    };
    DEVICE.get_or_init(load).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
