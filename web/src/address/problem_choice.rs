//! The problem that an address names.

use warpbook_record::{Problem, Run};

/// A problem of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemChoice {
    /// The problem with this id.
    Id(String),
    /// The problem with this size in a sweep, and its number among problems of that size, as in links of earlier versions.
    Size {
        /// The size.
        size: u64,
        /// 0 for the first of that size.
        nth: usize,
    },
}

impl ProblemChoice {
    /// Finds the problem in a record; the first of its size where there are not so many.
    pub fn find<'a>(&self, run: &'a Run) -> Option<&'a Problem> {
        let mut problems = run.every_problem().into_iter();
        match self {
            Self::Id(id) => problems.find(|p| p.id == *id),
            Self::Size { size, nth } => {
                let of_size: Vec<&Problem> = problems.filter(|p| *size > 0 && p.size() == *size).collect();
                of_size.get(*nth).or(of_size.first()).copied()
            }
        }
    }

    /// Reads a size of an earlier version's link: "5000000", "5000000-2".
    pub fn parse_size(text: &str) -> Option<Self> {
        let (size, nth) = text.split_once('-').unwrap_or((text, "1"));
        Some(Self::Size { size: size.parse().ok()?, nth: nth.parse::<usize>().ok()?.checked_sub(1)? })
    }

    /// Its parameter and value in an address.
    pub fn pair(&self) -> (&'static str, String) {
        match self {
            Self::Id(id) => ("problem", id.clone()),
            Self::Size { size, nth: 0 } => ("size", size.to_string()),
            Self::Size { size, nth } => ("size", format!("{size}-{}", nth + 1)),
        }
    }
}
