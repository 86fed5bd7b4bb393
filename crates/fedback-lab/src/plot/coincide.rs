//! Curves that lie on each other: the last would hide the others, so they are drawn once, under all
//! of their names.

use crate::figure::{Figure, Series};

/// Joins the series that coincide in all panels.
pub(super) fn join(panels: &mut [Figure]) {
    let mut alike: Vec<Vec<String>> = Vec::new();
    for name in names(panels) {
        match alike.iter_mut().find(|known| coincide(panels, &known[0], &name)) {
            Some(known) => known.push(name),
            None => alike.push(vec![name]),
        }
    }
    for names in alike {
        let [first, .., last] = &names[..] else { continue };
        let joined = format!("{} and {last}", names[..names.len() - 1].join(", "));
        for panel in panels.iter_mut() {
            panel.series.retain(|one| !names[1..].iter().any(|name| belongs(one, name)));
            let own = panel.series.iter_mut().filter(|one| belongs(one, first));
            own.for_each(|one| one.name = one.name.replacen(first.as_str(), &joined, 1));
        }
    }
}

/// The entries of the legend that one series has to itself.
fn names(panels: &[Figure]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let own = panels.iter().flat_map(|panel| &panel.series).filter(|one| one.shared.is_none());
    for one in own {
        if !names.contains(&one.name) {
            names.push(one.name.clone());
        }
    }
    names
}

/// Whether a series is the named one, or what is exact beside it.
fn belongs(one: &Series, name: &str) -> bool {
    match &one.shared {
        None => one.name == name,
        Some(entry) => one.name.strip_suffix(entry.as_str()) == Some(&format!("{name}, ")),
    }
}

fn coincide(panels: &[Figure], one: &str, other: &str) -> bool {
    let drawn = |panel: &Figure, name: &str| -> Vec<Vec<[u64; 2]>> {
        let own = panel.series.iter().filter(|series| belongs(series, name));
        let bits = |&(x, y): &(f64, f64)| [x.to_bits(), y.to_bits()];
        own.map(|series| series.points.iter().map(bits).collect()).collect()
    };
    panels.iter().all(|panel| drawn(panel, one) == drawn(panel, other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Axis;

    #[test]
    fn curves_that_coincide_are_drawn_once() {
        let series = |name: &str, y: f64| Series::line(name, 0, vec![(0.0, y), (1.0, f64::NAN)]);
        let exact = |name: &str| series(&format!("{name}, exact"), 9.0).sharing("exact");
        let panel = |series| Figure {
            title: String::new(),
            subtitle: String::new(),
            x: Axis::linear("step"),
            y: Axis::linear("risk"),
            series,
        };
        let first = panel(vec![series("a", 1.0), exact("a"), series("b", 1.0), exact("b")]);
        let apart = panel(vec![series("a", 1.0), exact("a"), series("b", 2.0), exact("b")]);
        let names = |panels: &mut [Figure]| {
            join(panels);
            let names = |panel: &Figure| -> Vec<String> {
                panel.series.iter().map(|one| one.name.clone()).collect()
            };
            panels.iter().map(names).collect::<Vec<_>>()
        };
        assert_eq!(names(&mut [first.clone()]), [["a and b", "a and b, exact"]]);
        let both = names(&mut [first, apart]);
        assert_eq!(both, [["a", "a, exact", "b", "b, exact"]; 2]);
        let mut three = [panel(["a", "b", "c"].map(|name| series(name, 1.0)).to_vec())];
        assert_eq!(names(&mut three), [["a, b and c"]]);
    }
}
