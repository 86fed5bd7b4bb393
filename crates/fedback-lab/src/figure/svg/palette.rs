//! Which colour a series has: one of eight that are told apart, or a place on a ramp.

use super::super::Series;
use super::style::SLOTS;

/// The slot of what belongs to no series: the colour of text.
pub(super) const INK: usize = usize::MAX - 1;

/// The colours of a figure.
pub(super) struct Palette {
    /// The slots in use, in ascending order, where they are more than there are colours.
    ramp: Vec<usize>,
}

/// From dark to bright, as seen with any kind of colour vision and on a grey print; all of them
/// differ from white paper, or from a dark screen.
const LIGHT: [[f64; 3]; 5] = [
    [59.0, 15.0, 112.0],
    [59.0, 82.0, 139.0],
    [33.0, 145.0, 140.0],
    [79.0, 179.0, 90.0],
    [201.0, 178.0, 24.0],
];
const DARK: [[f64; 3]; 5] = [
    [137.0, 112.0, 226.0],
    [90.0, 150.0, 226.0],
    [69.0, 186.0, 186.0],
    [130.0, 214.0, 120.0],
    [246.0, 230.0, 90.0],
];

impl Palette {
    pub(super) fn of(series: &[Series]) -> Self {
        let mut ramp: Vec<usize> = series.iter().map(|series| series.colour).collect();
        ramp.sort_unstable();
        ramp.dedup();
        Palette { ramp: if ramp.len() > SLOTS { ramp } else { Vec::new() } }
    }

    /// How the style sheet calls a colour.
    pub(super) fn slot(&self, colour: usize) -> String {
        match self.ramp.binary_search(&colour) {
            _ if colour == INK => "ink".into(),
            Ok(place) => format!("r{place}"),
            Err(_) => (colour % SLOTS).to_string(),
        }
    }

    /// The names of a ramp's colours, with their light and dark values.
    pub(super) fn ramp(&self) -> Vec<(String, String, String)> {
        let last = self.ramp.len().saturating_sub(1).max(1) as f64;
        let colour = |place| {
            let share = place as f64 / last;
            (format!("r{place}"), along(&LIGHT, share), along(&DARK, share))
        };
        (0..self.ramp.len()).map(colour).collect()
    }
}

/// The colour at a share of the light ramp.
pub(super) fn ramp_at(share: f64) -> String {
    along(&LIGHT, share)
}

fn along(stops: &[[f64; 3]; 5], share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let from = (place.floor() as usize).min(stops.len() - 2);
    let part = place - from as f64;
    let mix = |k: usize| stops[from][k] * (1.0 - part) + stops[from + 1][k] * part;
    format!("#{:02x}{:02x}{:02x}", mix(0) as u8, mix(1) as u8, mix(2) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn palette(colours: usize) -> Palette {
        let series = (0..colours).map(|colour| Series::line("", colour, vec![]));
        Palette::of(&series.collect::<Vec<_>>())
    }

    #[test]
    fn many_series_have_colours_of_their_own() {
        assert_eq!(palette(8).slot(7), "7");
        assert!(palette(8).ramp().is_empty());
        let many = palette(12);
        assert_eq!((many.slot(0), many.slot(11)), ("r0".into(), "r11".into()));
        let mut values: Vec<String> = many.ramp().into_iter().map(|colour| colour.1).collect();
        assert_eq!((values[0].as_str(), values[11].as_str()), ("#3b0f70", "#c9b218"));
        values.dedup();
        assert_eq!(values.len(), 12);
    }
}
