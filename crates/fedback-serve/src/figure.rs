//! What a figure is asked to show, as the command asks it.

use fedback_lab::figure::Size;
use fedback_lab::plot::Question;
use serde::Deserialize;

/// The options of `fedback compare`, as a query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    pub runs: Option<String>,
    pub x: Option<String>,
    pub y: Option<String>,
    pub panels: Option<String>,
    pub map: Option<String>,
    pub size: Option<String>,
}

impl Asked {
    pub fn question(&self) -> Question {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let names = some(&self.y).map(|text| text.split(',').map(String::from).collect());
        Question {
            x: some(&self.x),
            y: names.unwrap_or_default(),
            panels: some(&self.panels),
            map: some(&self.map),
        }
    }

    /// Any word but those of paper is the screen's.
    pub fn size(&self) -> Size {
        match self.size.as_deref() {
            Some("single") => Size::Single,
            Some("double") => Size::Double,
            _ => Size::Screen,
        }
    }
}
