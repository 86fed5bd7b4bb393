//! Numbers as people read them: one style for tables, sentences and figures.

use fedback_core::protocol::StepSize;

/// What stands for a number that is not there.
pub const NOTHING: &str = "–";

/// A number to four significant digits, without zeros at its end.
pub fn short(number: f64) -> String {
    if number.is_nan() {
        return NOTHING.into();
    }
    if number == 0.0 {
        return "0".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "over 1e308" } else { "below -1e308" }.into();
    }
    // The exponent after rounding: 99.996 is 100, not 100.00.
    let scientific = format!("{number:.3e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(small @ -3..=5) => trimmed(&format!("{number:.*}", (3 - small).max(0) as usize)).into(),
        _ => format!("{}e{exponent}", trimmed(digits)),
    }
}

fn trimmed(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

/// What something is multiplied by; close to one it shows on which side.
pub fn factor(by: f64) -> String {
    match short(by).as_str() {
        "1" if by > 1.0 => format!("1 + {}", short(by - 1.0)),
        "1" if by < 1.0 => format!("1 − {}", short(1.0 - by)),
        text => text.into(),
    }
}

/// A time in seconds: milliseconds are the finest that is worth reading.
pub fn seconds(time: f64) -> String {
    short(libm::ceil(1e3 * time) / 1e3)
}

/// Step sizes as a formula; those that hardly change within `horizon` local steps say so.
pub fn steps(step_size: StepSize, horizon: f64) -> String {
    match step_size {
        StepSize::Constant(size) => format!("constant {}", short(size)),
        StepSize::Decaying { beta, gamma } => {
            let formula = format!("{}/(t + {})", short(beta), short(gamma));
            match horizon < 0.01 * gamma {
                true => format!("nearly constant {}, {formula}", short(beta / gamma)),
                false => formula,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_no_idle_zeros() {
        let expected = [
            (0.0, "0"),
            (-0.0, "0"),
            (f64::INFINITY, "over 1e308"),
            (f64::NEG_INFINITY, "below -1e308"),
            (5.0, "5"),
            (0.5, "0.5"),
            (99.996, "100"),
            (0.78004, "0.78"),
            (-1.23456, "-1.235"),
            (123_456.0, "123456"),
            (1e6, "1e6"),
            (1.601e-4, "1.601e-4"),
            (2.7e-9, "2.7e-9"),
            (0.001, "0.001"),
            (f64::NAN, "–"),
        ];
        for (number, text) in expected {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn factors_are_on_the_right_side_of_one() {
        assert_eq!(
            [1.000_002, 0.999_999, 1.0, 1.5].map(factor),
            ["1 + 2e-6", "1 − 1e-6", "1", "1.5"]
        );
    }

    #[test]
    fn times_are_whole_milliseconds() {
        assert_eq!([1.601e-4, 0.008_274, 12.345_6].map(seconds), ["0.001", "0.009", "12.35"]);
    }

    #[test]
    fn steps_that_hardly_change_are_called_so() {
        let slow = StepSize::Decaying { beta: 5e5, gamma: 5e5 };
        assert_eq!(steps(slow, 1000.0), "nearly constant 1, 500000/(t + 500000)");
        assert_eq!(steps(StepSize::Decaying { beta: 4.0, gamma: 20.0 }, 1000.0), "4/(t + 20)");
        assert_eq!(steps(StepSize::Constant(0.1), 1000.0), "constant 0.1");
    }
}
