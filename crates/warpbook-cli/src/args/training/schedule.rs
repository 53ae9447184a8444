//! The schedule of a training's profiled steps.

use std::fmt;
use std::str::FromStr;

/// Maximum number of steps of each kind.
const MOST: u64 = 1_000_000_000;

/// Numbers of steps of a profile that are skipped, used as a warm-up, and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileSchedule {
    wait: u64,
    warm_up: u64,
    active: u64,
}

impl Default for ProfileSchedule {
    fn default() -> Self {
        Self { wait: 10, warm_up: 2, active: 4 }
    }
}

impl ProfileSchedule {
    /// Returns the numbers of steps as the lab expects them: (wait, warm-up, active).
    pub fn steps(self) -> (u64, u64, u64) {
        (self.wait, self.warm_up, self.active)
    }

    /// Returns the number of steps that a training needs.
    pub fn needed(self) -> u64 {
        self.wait + self.warm_up + self.active
    }

    /// Returns the number of steps that are kept.
    pub fn active(self) -> u64 {
        self.active
    }
}

impl FromStr for ProfileSchedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let [wait, warm_up, active] = words[..] else {
            return Err(format!("write three numbers with commas, such as 10,2,4, not `{text}`"));
        };
        let number = |what: &str, word: &str| {
            let number = word.parse().ok().filter(|n| *n <= MOST);
            number.ok_or_else(|| format!("{what} is `{word}`: write a whole number of steps from 0 to {MOST}"))
        };
        let [wait, warm_up, active] = [number("WAIT", wait)?, number("WARMUP", warm_up)?, number("ACTIVE", active)?];
        if active == 0 {
            return Err("ACTIVE is 0: record at least one step".into());
        }
        Ok(Self { wait, warm_up, active })
    }
}

impl fmt::Display for ProfileSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.wait, self.warm_up, self.active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_a_schedule() {
        let parse = |text: &str| text.parse::<ProfileSchedule>();
        let usual = parse("10, 2,4").unwrap();
        assert_eq!((usual.steps(), usual.needed(), usual.active()), ((10, 2, 4), 16, 4));
        assert_eq!(parse(&usual.to_string()), Ok(usual));
        assert_eq!(parse("0,0,1").unwrap().needed(), 1);
        for (text, why) in [
            ("10,2", "three numbers"),
            ("1,2,3,4", "not `1,2,3,4`"),
            ("", "not ``"),
            ("1,2,0", "at least one step"),
            ("1,-2,3", "WARMUP is `-2`"),
            ("x,2,3", "WAIT is `x`"),
            ("1,2,99999999999", "ACTIVE is"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
