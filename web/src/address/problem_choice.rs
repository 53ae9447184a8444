//! The problem that an address names, by id or by size.

use warpbook_record::{Problem, Run};

/// A reference to a problem of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemChoice {
    /// The problem's id, as in current links.
    Id(String),
    /// A size in a sweep and a number among the problems of that size, as in links of earlier versions.
    Size {
        /// The problem's size.
        size: u64,
        /// The number among problems of that size, from 0.
        nth: usize,
    },
}

impl ProblemChoice {
    /// Finds the problem in a record. If there are fewer problems of the size than `nth`, the first of them is returned.
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

    /// Parses a size from an earlier version's link, such as "5000000" or "5000000-2".
    pub fn parse_size(text: &str) -> Option<Self> {
        let (size, nth) = text.split_once('-').unwrap_or((text, "1"));
        Some(Self::Size { size: size.parse().ok()?, nth: nth.parse::<usize>().ok()?.checked_sub(1)? })
    }

    /// Returns the query parameter's name and value.
    pub fn pair(&self) -> (&'static str, String) {
        match self {
            Self::Id(id) => ("problem", id.clone()),
            Self::Size { size, nth: 0 } => ("size", size.to_string()),
            Self::Size { size, nth } => ("size", format!("{size}-{}", nth + 1)),
        }
    }
}
