//! Files that are written whole or not at all: a full disk takes nothing that was there before.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::error::Error;

/// Writes a file, in place of one that is there.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    replace(path, content.as_ref()).map_err(|error| {
        let why = format!("{} cannot be written: {error}", path.display());
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::ReadOnlyFilesystem => Error::Input(why),
            _ => Error::Failed(why),
        }
    })
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = fs::metadata(path).ok();
    // A pipe or a device cannot be replaced.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(path, content);
    }
    // A link stays one, to the new content.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.clone().into_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let written = File::create(&name).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(old) = old {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&name, &path)).inspect_err(|_| {
        let _ = fs::remove_file(&name);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curve.csv");
        write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_is_none_is_input() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("no/curve.csv"), folder.path().to_path_buf()] {
            let error = write(&path, "new").unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_to_and_a_link_stays_one() {
        assert_eq!(write(Path::new("/dev/full"), "new").unwrap_err().exit_code(), 1);
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("curve.csv"), folder.path().join("link.csv"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }
}
