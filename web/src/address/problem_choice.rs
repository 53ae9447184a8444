//! The problem that an address names.

use warpbook_record::{Problem, Run};

/// A problem of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemChoice {
    /// By its id.
    Id(String),
    /// By the size that a sweep runs over, and its number among those of that size, as links of earlier versions say it.
    Size {
        /// The size.
        size: u64,
        /// 0 for the first of that size.
        nth: usize,
    },
}

impl ProblemChoice {
    /// The problem of a record; of a size without so many problems the first.
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

    /// As in an address: its parameter and value.
    pub fn pair(&self) -> (&'static str, String) {
        match self {
            Self::Id(id) => ("problem", id.clone()),
            Self::Size { size, nth: 0 } => ("size", size.to_string()),
            Self::Size { size, nth } => ("size", format!("{size}-{}", nth + 1)),
        }
    }
}
