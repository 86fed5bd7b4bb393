//! Getting the credit table into the user's cache.
//!
//! The Python package `whynot` carries a copy; pip knows where packages are to be had on the user's
//! machine, so pip fetches it (the wheel only: nothing of it is installed or run). Wheel, archive
//! and table must each have the hash they had when they were verified. Without pip or a network the
//! user brings the wheel or Kaggle's own file. The table is written beside its place and renamed,
//! so it is there in full or not at all.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fedback_lab::credit::{ROWS, SHA256, place, recognise, sha256};
use fedback_lab::error::Error;
use serde::{Serialize, Serializer};
use zip::ZipArchive;

const PACKAGE: &str = "whynot==0.12.0";
const WHEEL_SHA256: &str = "d1cfea71ec740ba69f72c5e2b403c443395112392e4849fda392787b6075e3b9";
const ARCHIVE: &str = "whynot/simulators/credit/credit_data.zip";
const ARCHIVE_SHA256: &str = "6fe2abf0bc50f8cd5ef45549b7560f74d4691eca0b6c9af24b9851f9e3ad6de5";

/// What the table may be called inside an archive, whatever folder it is in.
const NAMES: [&str; 3] = ["credit_data.zip", "credit_data.csv", "cs-training.csv"];

/// Nothing that is looked for is larger.
const MOST_BYTES: u64 = 1 << 26;

/// The table in its place.
#[derive(Clone, Debug, Serialize)]
pub struct Fetched {
    /// Where it is.
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    /// Its hash.
    pub sha256: String,
    /// Its size.
    pub bytes: usize,
    /// Its rows.
    pub rows: usize,
    /// Whether its bytes are those that results were verified with.
    pub verified: bool,
    /// Whether it had to be written.
    pub written: bool,
}

/// A path that is not UTF-8 is shown as well as it can be.
fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Fetched {
    fn new(path: PathBuf, table: &[u8], written: bool) -> Self {
        let sha256 = sha256(table);
        let verified = sha256 == SHA256;
        Fetched { path, sha256, bytes: table.len(), rows: ROWS, verified, written }
    }

    /// What is to be said of a copy that was not verified.
    pub fn doubt(&self) -> Option<&'static str> {
        (!self.verified).then_some(
            "the columns and rows are those of the credit table, but the bytes are not those of \
             the copy that results were verified with; numbers may differ",
        )
    }
}

/// Puts the table into the user's cache: out of a file where one is given, fetched where the
/// verified copy is not there already. `hear` is told what takes time; stops soon after `stop` is
/// set.
pub fn provide(
    file: Option<&Path>,
    hear: &dyn Fn(&str),
    stop: &AtomicBool,
) -> Result<Fetched, Error> {
    if let Some(file) = file {
        return from_file(file);
    }
    if let Some(present) = present()? {
        return Ok(present);
    }
    hear("fetching with pip (7.5 MB)");
    with_pip(stop)
}

/// Takes the table from a file: `cs-training.csv`, an archive with it, or the wheel.
fn from_file(path: &Path) -> Result<Fetched, Error> {
    let wrong = |why: String| Error::input(path.display(), why);
    let size = fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if size.is_dir() || size.len() > MOST_BYTES {
        return Err(wrong("is no file of that kind; needed: cs-training.csv or the wheel".into()));
    }
    let bytes = fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let table = match bytes.starts_with(b"PK") {
        true => unpack(bytes).map_err(wrong)?,
        false => bytes,
    };
    recognise(&table).map_err(wrong)?;
    keep(&table)
}

/// The table in the cache, where it is the verified copy already.
fn present() -> Result<Option<Fetched>, Error> {
    let path = place().map_err(Error::Failed)?;
    let there = fs::read(&path).map(|table| Fetched::new(path, &table, false));
    Ok(there.ok().filter(|there| there.verified))
}

/// Fetches the wheel with pip and takes the table out of it.
fn with_pip(stop: &AtomicBool) -> Result<Fetched, Error> {
    let folder = tempfile::tempdir()
        .map_err(|error| Error::Failed(format!("no temporary folder can be made: {error}")))?;
    let wheel = download(folder.path(), stop)?;
    let refuse =
        |why: String| Error::Failed(format!("{why}; nothing was written. {}", otherwise()));
    verify("the wheel that pip brought", &wheel, WHEEL_SHA256).map_err(refuse)?;
    let archive = entry(&wheel, |name| name == ARCHIVE).map_err(refuse)?;
    verify("the archive in the wheel", &archive, ARCHIVE_SHA256).map_err(refuse)?;
    let table = unpack(archive).map_err(refuse)?;
    verify("the table in the wheel", &table, SHA256).map_err(refuse)?;
    keep(&table)
}

/// What to do where pip cannot help.
fn otherwise() -> String {
    format!(
        "Either run `python3 -m pip download --no-deps {PACKAGE}` where there is a network, bring \
         the wheel here and give it by `fedback data credit --from \
         whynot-0.12.0-py3-none-any.whl`; or download cs-training.csv of the Kaggle competition \
         GiveMeSomeCredit, whose terms are yours to accept, and give it by `fedback data credit \
         --from cs-training.csv`"
    )
}

fn download(folder: &Path, stop: &AtomicBool) -> Result<Vec<u8>, Error> {
    let fail = |why: String| {
        Error::Failed(format!("the credit data cannot be fetched: {why}. {}", otherwise()))
    };
    let log = folder.join("pip.log");
    let output = || fs::File::create(&log).map_err(|error| fail(error.to_string()));
    let mut child = Command::new("python3")
        .args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"])
        .args(["--disable-pip-version-check", "--quiet", "-d"])
        .arg(folder)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output()?)
        .spawn()
        .map_err(|error| fail(format!("python3 cannot be started ({error})")))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.load(Ordering::Relaxed) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Interrupted("interrupted; nothing was written".into()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(fail(error.to_string())),
        }
    };
    if !status.success() {
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason");
        return Err(fail(format!("pip ended with {status} ({})", last.trim())));
    }
    let wheel = fs::read_dir(folder).ok().and_then(|entries| {
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"))
    });
    let wheel = wheel.ok_or_else(|| fail("pip left no wheel".into()))?;
    fs::read(wheel).map_err(|error| fail(error.to_string()))
}

fn verify(what: &str, bytes: &[u8], expected: &str) -> Result<(), String> {
    match sha256(bytes) {
        found if found == expected => Ok(()),
        found => Err(format!("{what} has the SHA-256 {found}, expected was {expected}")),
    }
}

/// The table inside an archive, or inside an archive in it.
fn unpack(archive: Vec<u8>) -> Result<Vec<u8>, String> {
    let wanted = |name: &str| NAMES.contains(&name.rsplit('/').next().unwrap_or(name));
    let found = entry(&archive, wanted)?;
    match found.starts_with(b"PK") {
        true => entry(&found, wanted),
        false => Ok(found),
    }
}

/// The first entry of an archive whose name is wanted.
fn entry(archive: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Vec<u8>, String> {
    let broken = |error: zip::result::ZipError| format!("cannot be read as an archive: {error}");
    let mut archive = ZipArchive::new(Cursor::new(archive)).map_err(broken)?;
    let name = archive.file_names().flatten().find(|name| wanted(name)).map(String::from);
    let name = name.ok_or_else(|| {
        "the credit table is not in this archive; needed: cs-training.csv, an archive with it, or \
         the whynot wheel"
            .to_string()
    })?;
    let mut bytes = Vec::new();
    let file = archive.by_name(&name).map_err(broken)?;
    file.take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{name} in the archive cannot be read: {error}"))?;
    Ok(bytes)
}

/// Puts the table in its place, whole or not at all.
fn keep(table: &[u8]) -> Result<Fetched, Error> {
    let path = place().map_err(Error::Failed)?;
    let new = fs::read(&path).map_or(true, |there| there != table);
    if new {
        write(&path, table).map_err(|error| {
            Error::Failed(format!("{} cannot be written: {error}", path.display()))
        })?;
    }
    Ok(Fetched::new(path, table, new))
}

fn write(path: &Path, table: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(table)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::write::SimpleFileOptions;

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn a_table_is_found_in_archives_in_archives() {
        let inner = archive(&[("credit_data.csv", b"a,b\n1,2\n")]);
        let wheel = archive(&[("whynot/__init__.py", b""), (ARCHIVE, &inner)]);
        assert_eq!(unpack(wheel).unwrap(), b"a,b\n1,2\n");
        let kaggle = archive(&[("cs-test.csv", b"no"), ("cs-training.csv", b"yes")]);
        assert_eq!(unpack(kaggle).unwrap(), b"yes");
    }

    #[test]
    fn other_archives_are_refused() {
        let other = archive(&[("readme.txt", b"hello")]);
        assert!(unpack(other.clone()).unwrap_err().contains("not in this archive"));
        assert!(unpack(other[..other.len() / 2].to_vec()).unwrap_err().contains("archive"));
        let message = verify("the wheel", &other, WHEEL_SHA256).unwrap_err();
        assert!(message.contains(WHEEL_SHA256), "{message}");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fedback").join("credit.csv");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
