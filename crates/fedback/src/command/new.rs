//! `fedback new [PATH]`.

use crate::core::exp::exp_neg;
use crate::core::stream::{Purpose, Seed, Stream};
use crate::lab::error::Error;

use crate::args::{NewArgs, NewKind};
use crate::output;

const GAUSSIAN: &str = include_str!("../../templates/gaussian.toml");
const TABLE: &str = include_str!("../../templates/table.toml");

pub fn run(args: NewArgs) -> Result<(), Error> {
    let rows = args.path.with_extension("csv");
    let mut files = vec![args.path.as_path()];
    let spec = match args.kind {
        NewKind::Gaussian => GAUSSIAN.to_string(),
        NewKind::Table => {
            files.push(&rows);
            let name = rows.file_name().map(|name| name.to_string_lossy().into_owned());
            TABLE.replace("people.csv", &name.unwrap_or_default())
        }
    };
    if let Some(taken) = files.iter().find(|file| file.exists()) {
        let why = "exists already; choose another name: fedback new PATH";
        return Err(Error::input(taken.display(), why));
    }
    let is_table = args.kind == NewKind::Table;
    if is_table {
        output::write_file(&rows, example_rows())?;
    }
    output::write_file(&args.path, &spec).inspect_err(|_| {
        if is_table {
            let _ = std::fs::remove_file(&rows);
        }
    })?;
    let path = args.path.display();
    output::print(&format!("wrote {path}; now: fedback run {path}\n"))
}

/// Made-up applicants of three banks; those with high utilisation and income troubles default.
fn example_rows() -> String {
    let mut draws = Stream::for_problem(Seed(2024), Purpose::Data).draws();
    let mut text = String::from("bank,utilisation,open_lines,income,default\n");
    for k in 0..600 {
        let bank = ["alder", "birch", "cedar"][k % 3];
        let level = [0.0, 0.4, -0.3][k % 3];
        let (u, lines, income) = (draws.normal() + level, draws.normal(), draws.normal());
        let score = 1.2 * u + 0.4 * lines - 0.9 * income - 0.8;
        let odds = exp_neg(f64::abs(score));
        let rare = draws.uniform() < odds / (1.0 + odds);
        let defaults = rare != (score > 0.0);
        let (share, lines, money) = (
            (0.4 + 0.15 * u).clamp(0.0, 1.5),
            (6.0 + 2.0 * lines).round().max(0.0),
            (3200.0 + 800.0 * income).round(),
        );
        text.push_str(&format!("{bank},{share:.3},{lines},{money},{}\n", u8::from(defaults)));
    }
    text
}
