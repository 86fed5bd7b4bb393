//! A device that is this processor: the kernels as the host's compiler understands them, behind a
//! driver that is found as the real one would be.

#![allow(unsafe_code, reason = "the emulated driver is a C library")]
#![allow(dead_code, reason = "every test uses a part of this")]

use std::sync::{Mutex, MutexGuard, OnceLock};

use libloading::Library;

#[path = "../driver/build.rs"]
mod driver;

pub use driver::is_real;

/// The device that runs meet, for one test at a time: the emulated one, unless a real one is asked for.
pub fn held() -> Option<MutexGuard<'static, Library>> {
    (!is_real()).then(device)
}

/// The emulated device. Loaded here, it is what is found when the driver is looked for: the loader knows
/// a library by its name.
pub fn device() -> MutexGuard<'static, Library> {
    static DEVICE: OnceLock<Mutex<Library>> = OnceLock::new();
    let load = || {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: our own library, which does nothing when it is loaded.
        Mutex::new(unsafe { Library::new(driver::build(folder.path())) }.unwrap())
    };
    DEVICE.get_or_init(load).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
