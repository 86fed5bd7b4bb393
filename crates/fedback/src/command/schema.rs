//! `fedback schema`.

use crate::lab::error::Error;
use crate::lab::spec::Spec;

use crate::output;

pub fn run() -> Result<(), Error> {
    output::print(&format!("{:#}\n", Spec::schema()))
}
