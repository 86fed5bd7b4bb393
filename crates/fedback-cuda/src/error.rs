//! Why a run does not start on a device, or does not go on there, in words for a person.

use fedback_engine::backend::AssemblyError;

/// Why a run does not start on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Something is no run, or has no kernel.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The device does not take it.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why there is no device, or why it does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The driver is not installed.
    #[error(
        "no NVIDIA driver was found ({0}); it is all that is needed: install it, or leave \
         device = \"cuda\" out"
    )]
    NoDriver(String),
    /// There is a driver, but nothing that it could drive.
    #[error("the NVIDIA driver finds no device ({0})")]
    NoDevice(String),
    /// The device is older than the kernels.
    #[error("{name} has compute capability {major}.{minor}; needed: 8.0 or later (Ampere, 2020)")]
    TooOld {
        /// The device.
        name: String,
        /// Its compute capability.
        major: i32,
        /// The same, after the point.
        minor: i32,
    },
    /// What a run needs does not fit.
    #[error(
        "the run needs {} of the device's memory, of which {} are free; take fewer repetitions or \
         clients, or device = \"cpu\"",
        bytes(*.needed),
        bytes(*.free)
    )]
    OutOfMemory {
        /// Bytes that the run needs.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// A call failed.
    #[error("the device failed ({call}: {why})")]
    Failed {
        /// Which.
        call: &'static str,
        /// What the driver calls it.
        why: String,
    },
}

/// A number of bytes, to three digits.
fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let power = (0..units.len() - 1).find(|k| count < 1000u64.pow(*k as u32 + 1));
    let power = power.unwrap_or(units.len() - 1);
    let scaled = count as f64 / 1000f64.powi(power as i32);
    let digits = if scaled < 10.0 && power > 0 { 1 } else { 0 };
    format!("{scaled:.digits$} {}", units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_at_a_glance() {
        let counts = [0, 999, 1500, 20_000, 3_400_000_000, 141_000_000_000];
        let words = ["0 B", "999 B", "1.5 kB", "20 kB", "3.4 GB", "141 GB"];
        assert_eq!(counts.map(bytes), words);
    }
}
