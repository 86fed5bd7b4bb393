//! How large a figure is drawn.

/// Where a figure is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// On a screen, following its light or dark theme.
    #[default]
    Screen,
    /// In one column of a printed page, 85 mm wide.
    Single,
    /// Across both columns, 178 mm wide.
    Double,
}

/// A unit on paper: text of 12 units is then of 8.5 points.
const MILLIMETRES: f64 = 0.25;

impl Size {
    /// In units.
    pub(super) fn width(self) -> f64 {
        match self {
            Size::Screen => 760.0,
            Size::Single => 340.0,
            Size::Double => 712.0,
        }
    }

    /// The height of the only panel.
    pub(super) fn panel_height(self) -> f64 {
        match self {
            Size::Screen => 350.0,
            Size::Single => 190.0,
            Size::Double => 300.0,
        }
    }

    /// Labelled intervals of an axis, at most.
    pub(super) fn intervals(self) -> usize {
        if self == Size::Single { 5 } else { 8 }
    }

    /// Whether it is for paper: a caption instead of a heading, literal colours.
    pub(super) fn is_paper(self) -> bool {
        self != Size::Screen
    }

    /// A length as SVG has it.
    pub(super) fn length(self, units: f64) -> String {
        match self {
            Size::Screen => units.to_string(),
            Size::Single | Size::Double => format!("{}mm", units * MILLIMETRES),
        }
    }
}
