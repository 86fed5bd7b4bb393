//! Colours and the style sheet.
//!
//! Colours are CSS variables scoped to the figure's class, with a dark set chosen by the reader's
//! system; a page may override them. Every use gives the light value first, for converters that know
//! no variables. Dashed and dotted curves are drawn thinner and nearer to the ink than solid ones, for
//! they mostly show an expectation on top of a simulated mean of the same colour.

use super::super::Size;
use super::palette::Palette;

/// Name, light value, dark value. The series colours come from Okabe and Ito's, moved apart in
/// lightness so that the first ones differ on a grey print too.
const COLOURS: [(&str, &str, &str); 13] = [
    ("paper", "#ffffff", "#14171c"),
    ("ink", "#1c2127", "#eceff3"),
    ("muted", "#57606a", "#a3adb8"),
    ("grid", "#e8ebef", "#2a3038"),
    ("axis", "#8b949e", "#6b7682"),
    ("c0", "#00589f", "#4390dc"),
    ("c1", "#cc5200", "#f58a4b"),
    ("c2", "#20b186", "#74e4c1"),
    ("c3", "#4d1a50", "#9656b6"),
    ("c4", "#d99000", "#f2bf45"),
    ("c5", "#4aa5dc", "#93d0f5"),
    ("c6", "#c25f92", "#f0a3c8"),
    ("c7", "#6e7681", "#b4bcc6"),
];
/// How many palette slots there are.
pub(super) const SLOTS: usize = 8;

/// The content of the figure's `<style>`.
pub(super) fn sheet(palette: &Palette, size: Size) -> String {
    let known = COLOURS
        .iter()
        .map(|(name, light, dark)| (name.to_string(), light.to_string(), dark.to_string()));
    let colours: Vec<(String, String, String)> = known.chain(palette.ramp()).collect();
    let variables = |dark: bool| -> String {
        let set = |(name, light, night): &(String, String, String)| {
            format!("--{name}:{};", if dark { night } else { light })
        };
        colours.iter().map(set).collect()
    };
    let rule = |selector: &str, property: &str, name: &str| {
        let light = &colours.iter().find(|colour| colour.0 == name).expect("a known colour").1;
        let variable = format!(";{property}:var(--{name})");
        let variable = if size.is_paper() { "" } else { &variable };
        format!(".fedback-figure {selector}{{{property}:{light}{variable}}}\n")
    };
    let slot = |slot: &str, name: &str| rule(&format!("[data-colour=\"{slot}\"]"), "color", name);
    let slots = (0..SLOTS).map(|place| slot(&place.to_string(), &format!("c{place}")));
    let ramp = palette.ramp().into_iter().map(|(name, ..)| slot(&name, &name));
    let slots: String = slots.chain(ramp).chain([slot("ink", "ink")]).collect();
    // A printed page is white, and most programs that place a figure on it know no variables.
    let (themes, thin) = match size.is_paper() {
        true => (["font:12px Helvetica,Arial,sans-serif}\n".to_string(), String::new()], ""),
        false => (
            [
                format!(
                    "max-width:100%;height:auto;font:12px system-ui,-apple-system,\
                     \"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif;{}}}\n",
                    variables(false)
                ),
                format!(
                    "@media screen and (prefers-color-scheme:dark){{.fedback-figure{{{}}}}}\n",
                    variables(true)
                ),
            ],
            ";stroke:color-mix(in srgb,currentColor 40%,var(--ink))",
        ),
    };
    [
        ".fedback-figure{",
        &themes.concat(),
        &rule(".paper", "fill", "paper"),
        &rule("text", "fill", "ink"),
        &rule(".quiet", "fill", "muted"),
        &rule(".grid", "stroke", "grid"),
        &rule(".axis", "stroke", "axis"),
        &slots,
        ".fedback-figure .title{font-size:17px;font-weight:600}\n\
         .fedback-figure .subtitle{font-size:13px}\n\
         .fedback-figure .band{fill:currentColor;opacity:.16}\n\
         .fedback-figure .curve{fill:none;stroke:currentColor;stroke-width:2.4;\
         stroke-linejoin:round;stroke-linecap:round}\n\
         .fedback-figure .Joined{stroke-width:1.2}\n\
         .fedback-figure .Dashed,.fedback-figure .Dotted{stroke-width:1.6",
        thin,
        "}\n.fedback-figure .Dashed{stroke-dasharray:5 5}\n\
         .fedback-figure .Dotted{stroke-dasharray:0 4.5;stroke-width:2.2}\n\
         .fedback-figure .lone{stroke-width:6}\n",
        &rule(".Dots", "fill", "paper"),
        ".fedback-figure .Dots{stroke-width:1.5}\n",
    ]
    .concat()
}
