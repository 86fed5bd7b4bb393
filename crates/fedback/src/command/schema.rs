//! `fedback schema`.

use fedback::lab::error::Error;
use fedback::lab::spec::Spec;

use crate::output;

pub fn run() -> Result<(), Error> {
    output::print(&format!("{:#}\n", Spec::schema()))
}
