//! The table of the paper's credit experiment: `source = "credit"` in a spec.
//!
//! It is the training table of the Kaggle competition GiveMeSomeCredit: 150,000 people, ten
//! features, and whether they were seriously late with a payment within two years. It is never part
//! of this repository: `fedback data credit` puts it into the user's cache, and a plan takes it
//! from there. A copy is known by its hash; one that is not is taken if it has the right shape,
//! because copies of the same table differ in line ends and number formats.
//!
//! The rows are prepared as by Perdomo, Zrnic, Mendler-Dünner and Hardt (2020, section 5): rows
//! with missing cells are dropped, every feature is standardised over all that are left, and only
//! then all positives and the first 10,000 negatives are kept.

use std::path::{Path, PathBuf};

use fedback_core::base::{RawTable, Standardization, TableError};
use sha2::{Digest, Sha256};

use crate::csv_file::CsvFile;
use crate::spec::{KeyError, Missing};
use crate::table_file::{self, Columns, TableFile};

/// The column to predict: seriously late within two years.
pub const LABEL: &str = "SeriousDlqin2yrs";

/// The features in their order.
pub const FEATURES: [&str; 10] = [
    "RevolvingUtilizationOfUnsecuredLines",
    "age",
    "NumberOfTime30-59DaysPastDueNotWorse",
    "DebtRatio",
    "MonthlyIncome",
    "NumberOfOpenCreditLinesAndLoans",
    "NumberOfTimes90DaysLate",
    "NumberRealEstateLoansOrLines",
    "NumberOfTime60-89DaysPastDueNotWorse",
    "NumberOfDependents",
];

/// Rows of the table.
pub const ROWS: usize = 150_000;

/// The SHA-256 of the copy that `fedback data credit` fetches.
pub const SHA256: &str = "1bd46da486a5708c58c7b01a034fae2a13b327f6f7b62ea7ba4fe3b5824b24ac";

/// Negatives that are kept.
const NEGATIVES: usize = 10_000;

/// Where the table is kept: `fedback/credit.csv` in `$XDG_CACHE_HOME`, or in `~/.cache`.
pub fn place() -> Result<PathBuf, String> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = given.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        home.map(|home| home.join(".cache"))
    });
    cache.map(|cache| cache.join("fedback").join("credit.csv")).ok_or_else(|| {
        "there is no cache directory: set XDG_CACHE_HOME to an absolute path".to_string()
    })
}

/// Whether the table can be loaded.
pub fn is_there() -> bool {
    place().and_then(|place| load(&place)).is_ok()
}

/// The bytes of the table in the cache, checked.
pub fn load(place: &Path) -> Result<Vec<u8>, String> {
    let bytes = std::fs::read(place).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{} is not there; get it with `fedback data credit`", place.display())
        }
        _ => format!("{} cannot be read: {error}", place.display()),
    })?;
    recognise(&bytes).map_err(|why| {
        format!("{}: {why}; get it anew with `fedback data credit`", place.display())
    })?;
    Ok(bytes)
}

/// Tells the table from anything else, by its hash or its shape, or says what is wrong.
pub fn recognise(bytes: &[u8]) -> Result<(), String> {
    if sha256(bytes) == SHA256 {
        return Ok(());
    }
    let mut file = CsvFile::new(bytes)?;
    let expected = std::iter::once(LABEL).chain(FEATURES);
    if !file.names.iter().skip(1).eq(expected) {
        return Err(format!(
            "is not the credit table: its columns must be a row number, {LABEL}, {}",
            FEATURES.join(", ")
        ));
    }
    let mut rows = 0;
    while file.next_row()?.is_some() {
        rows += 1;
    }
    if rows != ROWS {
        return Err(format!("has {rows} rows; the credit table has {ROWS}"));
    }
    read(Path::new("the table"), bytes, None, true).map(|_| ()).map_err(|wrong| wrong.message)
}

/// Reads the table; rows with missing cells are left out.
pub(crate) fn read(
    place: &Path,
    bytes: &[u8],
    client: Option<&str>,
    binary: bool,
) -> Result<TableFile, KeyError> {
    let unlike = |why: String| KeyError::new("problem.base", format!("{}: {why}", place.display()));
    let header = CsvFile::new(bytes).map_err(unlike)?.names;
    let columns = Columns {
        label: Some(LABEL),
        client,
        features: None,
        ignore: &header[..1],
        one_hot: &[],
        group: None,
        cell: None,
        held: None,
        missing: Missing::Drop,
        identity: None,
        binary,
    };
    table_file::read(place, bytes, &columns)
}

/// Standardises over all rows where asked to, then keeps all positives and the first
/// 10,000 negatives.
pub(crate) fn prepare(
    mut raw: RawTable,
    standardize: bool,
) -> Result<(RawTable, Option<Standardization>), TableError> {
    let constants = if standardize { Some(raw.standardize()?) } else { None };
    let mut negatives = 0;
    let kept: Vec<usize> = (0..raw.labels.len())
        .filter(|&row| {
            let negative = raw.labels[row] == 0.0;
            negatives += usize::from(negative);
            !negative || negatives <= NEGATIVES
        })
        .collect();
    let features = raw.features.len();
    let rows = kept.iter().flat_map(|&row| &raw.values[row * features..][..features]);
    let table = RawTable {
        values: rows.copied().collect(),
        labels: kept.iter().map(|&row| raw.labels[row]).collect(),
        clients: raw.clients.map(|names| kept.iter().map(|&row| names[row].clone()).collect()),
        features: raw.features,
    };
    Ok((table, constants))
}

/// The SHA-256 of some bytes, as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: usize) -> String {
        let mut text = format!(",{LABEL},{}\r\n", FEATURES.join(","));
        for k in 0..rows {
            let cells: Vec<String> = (0..10).map(|j| (k * (j + 3) % 101).to_string()).collect();
            text.push_str(&format!("{},{},{}\r\n", k + 1, u8::from(k % 9 == 0), cells.join(",")));
        }
        text
    }

    #[test]
    fn other_copies_are_known_by_their_shape() {
        assert_eq!(recognise(table(ROWS).as_bytes()), Ok(()));
        for (bytes, part) in [
            (table(ROWS - 1), "149999 rows"),
            (table(3).replace("age", "years"), "columns"),
            ("a,b\n1,2\n".into(), "columns"),
            (table(ROWS).replacen("3,0,", "3,0,x", 1), "\"x"),
        ] {
            let message = recognise(bytes.as_bytes()).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }

    /// Constants come from all complete rows, although only some of them are kept.
    #[test]
    fn rows_are_chosen_after_standardising() {
        let text = table(30_000).replacen("\r\n5,0,12,", "\r\n5,0,NA,", 1);
        let raw = read(Path::new("t"), text.as_bytes(), None, true).unwrap().raw;
        assert_eq!((raw.labels.len(), raw.features.len()), (29_999, 10));
        let column: Vec<f64> = raw.values.iter().step_by(10).copied().collect();
        let mean = column.iter().sum::<f64>() / 29_999.0;
        let positives = raw.labels.iter().filter(|y| **y == 1.0).count();
        let (kept, constants) = prepare(raw.clone(), true).unwrap();
        assert_eq!(kept.labels.len(), positives + NEGATIVES);
        let constants = constants.unwrap();
        assert!((constants.mean[0] - mean).abs() < 1e-12);
        assert_eq!(kept.values[0], (raw.values[0] - constants.mean[0]) / constants.sd[0]);
        let (plain, none) = prepare(raw.clone(), false).unwrap();
        assert!(none.is_none() && plain.values[..10] == raw.values[..10]);
    }
}
