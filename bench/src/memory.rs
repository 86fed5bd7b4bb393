//! The memory of this process, from the operating system.

/// Bytes in memory now; `None` where the system does not tell.
pub fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// The most bytes that were in memory at once since [`forget_peak`].
pub fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// Starts a new peak at what is in memory now, where the system allows it.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
