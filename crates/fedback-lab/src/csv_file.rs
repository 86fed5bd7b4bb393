//! A CSV file with a header, row by row: the one reader of everything that comes as CSV.
//!
//! It recognises what is between cells, and knows in which line a row begins whatever ends lines.

use std::io::{self, Read};
use std::ops::Index;

/// More than this is not looked at to tell what is between cells.
const LONGEST_HEADER: usize = 1 << 20;

/// A file whose header was read.
pub struct CsvFile<R> {
    /// The names of the columns, which differ.
    pub names: Vec<String>,
    reader: csv::Reader<LineEnds<Looked<R>>>,
    record: csv::StringRecord,
}

/// A file whose beginning was looked at.
type Looked<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// A row and where it begins.
pub struct Row<'a> {
    /// The line in the file, from 1.
    pub line: u64,
    cells: &'a csv::StringRecord,
}

impl Row<'_> {
    /// The cells in their order.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.iter()
    }
}

/// A cell; one that a short row lacks is empty.
impl Index<usize> for Row<'_> {
    type Output = str;

    fn index(&self, column: usize) -> &str {
        self.cells.get(column).unwrap_or_default()
    }
}

impl<R: Read> CsvFile<R> {
    /// Reads the header, or says in one sentence what is wrong with it.
    pub fn new(bytes: R) -> Result<Self, String> {
        let (delimiter, bytes) =
            delimited(bytes).map_err(|error| format!("cannot be read: {error}"))?;
        let reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .delimiter(delimiter)
            .flexible(true)
            .has_headers(false)
            .buffer_capacity(1 << 16)
            .from_reader(LineEnds { from: bytes, last: b'\n', after_return: false });
        let mut file = CsvFile { names: Vec::new(), reader, record: csv::StringRecord::new() };
        let name = |cell: &str| cell.trim_start_matches('\u{feff}').trim().to_string();
        file.names = file.read()?.iter().flat_map(Row::cells).map(name).collect();
        let mut sorted: Vec<&String> = file.names.iter().collect();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("line 1: two columns are called \"{}\"", pair[0])),
            None => Ok(file),
        }
    }

    /// Refuses a first line of numbers, which names no columns.
    pub fn with_names(self) -> Result<Self, String> {
        match self.names.iter().all(|name| name.is_empty() || name.parse::<f64>().is_ok()) {
            true => Err("line 1: no header: the first line must name the columns".into()),
            false => Ok(self),
        }
    }

    /// The next row, with a cell for every column.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, String> {
        self.row(self.names.len())
    }

    /// The next row, from which the last cells may be missing.
    pub fn next_short_row(&mut self) -> Result<Option<Row<'_>>, String> {
        self.row(0)
    }

    fn row(&mut self, fewest: usize) -> Result<Option<Row<'_>>, String> {
        let columns = self.names.len();
        match self.read()? {
            Some(row) if !(fewest..=columns).contains(&row.cells.len()) => {
                let (line, found) = (row.line, row.cells.len());
                Err(format!("line {line}: found {found} cells; the header has {columns} columns"))
            }
            row => Ok(row),
        }
    }

    fn read(&mut self) -> Result<Option<Row<'_>>, String> {
        let read = self.reader.read_record(&mut self.record);
        // The reader's own line of a row is that of the blank lines before it. Every row ends with
        // its line, and may have line ends within its cells.
        let end = self.reader.position().line() - 1;
        match read {
            Ok(false) => Ok(None),
            Ok(true) => {
                let inside =
                    self.record.iter().flat_map(str::bytes).filter(|b| *b == b'\n').count();
                let line = end.saturating_sub(inside as u64);
                Ok(Some(Row { line, cells: &self.record }))
            }
            Err(error) => Err(match error.kind() {
                csv::ErrorKind::Utf8 { .. } => format!("line {end}: is not UTF-8 text"),
                csv::ErrorKind::Io(error) => format!("cannot be read: {error}"),
                _ => format!("line {end}: cannot be read as CSV: {error}"),
            }),
        }
    }
}

/// Whether a cell says that there is nothing.
pub fn is_missing(cell: &str) -> bool {
    ["", "na", "n/a", "nan"].iter().any(|missing| cell.eq_ignore_ascii_case(missing))
}

/// A cell as a number, or what is `allowed` instead.
pub fn number(cell: &str, allowed: &str) -> Result<f64, String> {
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(format!("found {cell}; allowed: finite numbers")),
        Err(_) if cell.replacen(',', ".", 1).parse::<f64>().is_ok() => {
            Err(format!("found \"{cell}\"; allowed: numbers with a decimal point, as in 0.5"))
        }
        Err(_) => Err(format!("found \"{cell}\"; allowed: {allowed}")),
    }
}

/// A cell as it is written.
pub fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.into(),
    }
}

/// The character between cells, which is the most frequent one in the header, and the file from its
/// beginning. Without any of them it is a comma, and the file has one column.
fn delimited<R: Read>(mut bytes: R) -> io::Result<(u8, Looked<R>)> {
    let mut header = Vec::new();
    let mut block = [0; 1 << 12];
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    while !header.iter().any(is_end) && header.len() < LONGEST_HEADER {
        match bytes.read(&mut block)? {
            0 => break,
            count => header.extend_from_slice(&block[..count]),
        }
    }
    let line = header.split(is_end).next().unwrap_or_default();
    let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    let delimiter = [b'|', b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
    Ok((delimiter, io::Cursor::new(header).chain(bytes)))
}

/// Makes every line end with one line feed, the last line too.
struct LineEnds<R> {
    from: R,
    last: u8,
    after_return: bool,
}

impl<R: Read> Read for LineEnds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.from.read(buffer)?;
            if count == 0 {
                if self.last == b'\n' || buffer.is_empty() {
                    return Ok(0);
                }
                (buffer[0], self.last) = (b'\n', b'\n');
                return Ok(1);
            }
            let mut kept = 0;
            for at in 0..count {
                let byte = buffer[at];
                let second = byte == b'\n' && self.after_return;
                self.after_return = byte == b'\r';
                if !second {
                    buffer[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            if kept > 0 {
                self.last = buffer[kept - 1];
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is before a mark in a file, whatever its line ends, tells in which line the mark is.
    #[test]
    fn lines_are_counted_whatever_ends_them() {
        let text = "a,b\n1,2\n\n\n3,\"x\ny\"\nmark,4\n5,6";
        for end in ["\n", "\r\n", "\r"] {
            let bytes = text.replace('\n', end);
            let mut file = CsvFile::new(bytes.as_bytes()).unwrap();
            let mut lines = Vec::new();
            while let Some(row) = file.next_row().unwrap() {
                lines.push((row.line, row[0].to_string()));
            }
            let expected = [(2, "1"), (5, "3"), (7, "mark"), (8, "5")];
            assert_eq!(lines, expected.map(|(line, cell)| (line, cell.to_string())), "{end:?}");
            let short = format!("a,b{end}1,2{end}3{end}");
            let mut file = CsvFile::new(short.as_bytes()).unwrap();
            file.next_row().unwrap();
            let said = file.next_row().err().unwrap();
            assert_eq!(said, "line 3: found 1 cells; the header has 2 columns");
            let wrong = [b"a,b", end.as_bytes(), b"1,2", end.as_bytes(), b"\xff,1"].concat();
            let mut file = CsvFile::new(&wrong[..]).unwrap();
            file.next_row().unwrap();
            assert_eq!(file.next_row().err().unwrap(), "line 3: is not UTF-8 text");
        }
    }

    #[test]
    fn a_file_without_rows_has_none() {
        for text in ["", "\n", "a,b", "a,b\r\n"] {
            assert!(CsvFile::new(text.as_bytes()).unwrap().next_row().unwrap().is_none());
        }
        assert!(CsvFile::new(&b"1,2\n"[..]).unwrap().with_names().is_err());
    }
}
