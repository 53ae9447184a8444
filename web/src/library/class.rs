//! A class: the progress files of its members, their standing in each exercise, and the ranking of an exercise.

use super::open::{MAX_TITLE, tidy};
use std::cmp::Ordering;
use warpbook_record::{ExerciseProgress, Progress, TargetCount, Try, Verdict};

/// The maximum number of people on the board.
pub const MAX_PEOPLE: usize = 200;
/// The maximum number of exercises in a file.
const MAX_EXERCISES: usize = 100;
/// A text that a progress file contains, and a record does not.
const MARK: &[u8] = b"\"warpbook-progress\"";

/// A person's progress in an exercise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The exercise was not opened.
    Untouched,
    /// The exercise was opened, or its stub was handed in.
    Begun,
    /// This many tries were made, none of them right.
    Tried(u32),
    /// An answer is right.
    Right,
    /// An answer is right, and its counts are on target.
    OnTarget,
}

impl Standing {
    /// Returns the state in words; empty if nothing was done.
    pub fn words(self) -> String {
        match self {
            Self::Untouched => String::new(),
            Self::Begun => "begun".into(),
            Self::Tried(1) => "1 try".into(),
            Self::Tried(count) => format!("{count} tries"),
            Self::Right => "✓ right".into(),
            Self::OnTarget => "★ on target".into(),
        }
    }

    /// Returns the CSS class of the cell that shows the state.
    pub fn class(self) -> &'static str {
        match self {
            Self::Untouched => "",
            Self::Begun => "begun",
            Self::Tried(_) => "tried",
            Self::Right => "right",
            Self::OnTarget => "target",
        }
    }
}

/// A person's place in an exercise.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// The person's name.
    pub person: &'a str,
    /// The person's progress.
    pub progress: &'a ExerciseProgress,
    /// The right try that counts here: with the best count, or the largest share of its device's ceiling.
    pub best: Option<&'a Try>,
}

/// The criterion that people are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RankBy {
    /// The first count that has a target, then the minutes to the first right answer.
    #[default]
    Counts,
    /// The share of the ceiling that was measured on each person's own GPU.
    Share,
}

/// The progress files that were opened.
#[derive(Debug, Default)]
pub struct Class {
    people: Vec<Progress>,
    /// The exercise of the ranking; if empty, the first exercise that somebody has begun.
    pub exercise: String,
    /// The order of the ranking.
    pub by: RankBy,
    /// `true` for large type.
    pub is_large: bool,
}

/// Returns `true` if a file is meant to be a progress file.
pub fn is_progress(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(400)];
    head.windows(MARK.len()).any(|part| part == MARK)
}

/// Parses a progress file.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the file is not a valid progress file.
pub fn open_progress(bytes: &[u8]) -> Result<Progress, String> {
    let mut progress = Progress::from_json(bytes).map_err(|e| e.to_string())?;
    if progress.exercises.len() > MAX_EXERCISES {
        let found = progress.exercises.len();
        return Err(format!("The file has {found} exercises; this page shows at most {MAX_EXERCISES} per person."));
    }
    progress.person = tidy(&progress.person, MAX_TITLE);
    for exercise in &mut progress.exercises {
        exercise.exercise = tidy(&exercise.exercise, 20);
        for tried in &mut exercise.tries {
            tried.gpu = tried.gpu.as_deref().map(|gpu| tidy(gpu, MAX_TITLE));
            tried.counts.iter_mut().for_each(|count| count.name = tidy(&count.name, MAX_TITLE));
        }
    }
    Ok(progress)
}

impl Class {
    /// Adds a person, or replaces the person of the same name.
    ///
    /// # Errors
    /// Returns an error if the board is full.
    pub fn add(&mut self, progress: Progress) -> Result<(), String> {
        let at = self.people.partition_point(|p| p.person < progress.person);
        if self.people.get(at).is_some_and(|p| p.person == progress.person) {
            self.people[at] = progress;
        } else if self.people.len() < MAX_PEOPLE {
            self.people.insert(at, progress);
        } else {
            return Err(format!("The board has room for {MAX_PEOPLE} people."));
        }
        Ok(())
    }

    /// Removes all people.
    pub fn clear(&mut self) {
        *self = Self { is_large: self.is_large, ..Self::default() };
    }

    /// Returns the people, sorted by name.
    pub fn people(&self) -> &[Progress] {
        &self.people
    }

    /// Returns the ids of all exercises that somebody has begun, in order.
    pub fn exercises(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.people.iter().flat_map(|p| &p.exercises).map(|e| e.exercise.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Returns the exercise of the ranking; `None` if nobody has begun one.
    pub fn ranked_exercise(&self) -> Option<&str> {
        let all = self.exercises();
        all.iter().find(|id| **id == self.exercise).or(all.first()).copied()
    }

    /// Returns `true` if somebody has a time on a GPU with its share of the ceiling.
    pub fn has_shares(&self, exercise: &str) -> bool {
        self.people.iter().filter_map(|p| p.exercise(exercise)).any(|e| e.fastest().is_some())
    }

    /// Returns the people who have begun an exercise, the leading ones first.
    pub fn ranking(&self, exercise: &str) -> Vec<Placed<'_>> {
        let by = if self.has_shares(exercise) { self.by } else { RankBy::Counts };
        let begun = self.people.iter().filter_map(|p| Some((p, p.exercise(exercise)?)));
        let mut all: Vec<Placed<'_>> = begun
            .map(|(p, progress)| {
                let best = match by {
                    RankBy::Counts => leanest(progress),
                    RankBy::Share => progress.fastest(),
                };
                Placed { person: &p.person, progress, best }
            })
            .collect();
        all.sort_by(|a, b| match by {
            RankBy::Counts => order_by_counts(a, b),
            RankBy::Share => share(b).total_cmp(&share(a)),
        });
        all
    }
}

/// Returns a person's standing in an exercise.
pub fn standing(progress: Option<&ExerciseProgress>) -> Standing {
    let Some(progress) = progress else { return Standing::Untouched };
    match progress.best() {
        Some(Verdict::RightAndOnTarget) => Standing::OnTarget,
        Some(Verdict::Right) => Standing::Right,
        Some(Verdict::NotYet) => Standing::Tried(progress.count),
        Some(Verdict::Unchanged) | None => Standing::Begun,
    }
}

fn share(placed: &Placed<'_>) -> f64 {
    placed.best.and_then(|tried| tried.share).unwrap_or(-1.0)
}

fn first_count(tried: &Try) -> Option<&TargetCount> {
    tried.counts.first().filter(|count| count.count.is_some_and(f64::is_finite))
}

/// Returns the right try whose first count is the best; if there are no counts, the first right try.
fn leanest(progress: &ExerciseProgress) -> Option<&Try> {
    let right = progress.tries.iter().filter(|tried| tried.verdict.is_right());
    right.min_by(|a, b| b.verdict.cmp(&a.verdict).then_with(|| order_of_counts(first_count(a), first_count(b))))
}

/// Puts the better count first: the smaller count if its bound is a maximum, the larger count if its bound is a
/// minimum.
fn order_of_counts(a: Option<&TargetCount>, b: Option<&TargetCount>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => {
            let order = a.count.unwrap_or(0.0).total_cmp(&b.count.unwrap_or(0.0));
            if a.is_most { order } else { order.reverse() }
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Puts the better verdict first, then the better count, then the person who took less time.
fn order_by_counts(a: &Placed<'_>, b: &Placed<'_>) -> Ordering {
    let minutes = |p: &Placed<'_>| p.progress.minutes_to_right.unwrap_or(f64::INFINITY);
    b.progress
        .best()
        .cmp(&a.progress.best())
        .then_with(|| order_of_counts(a.best.and_then(first_count), b.best.and_then(first_count)))
        .then_with(|| minutes(a).total_cmp(&minutes(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(verdict: Verdict, count: Option<f64>, share: Option<f64>) -> Try {
        let counts = count.map(|count| TargetCount {
            name: "sectors a request".into(),
            count: Some(count),
            bound: 4.0,
            is_most: true,
            is_met: count <= 4.0,
        });
        let counts = counts.into_iter().collect();
        Try { at: 120, verdict, source: "s".into(), cause: None, counts, time_us: None, share, gpu: None }
    }

    fn person(name: &str, tries: Vec<Try>) -> Progress {
        let mut progress = Progress::new(name);
        let exercise = progress.begin("E05", 60);
        tries.into_iter().for_each(|t| exercise.add(t));
        progress
    }

    fn class() -> Class {
        let mut class = Class::default();
        let (right, target) = (Verdict::Right, Verdict::RightAndOnTarget);
        class.add(person("Cid", vec![tried(Verdict::NotYet, None, None)])).unwrap();
        class
            .add(person("Ada", vec![tried(right, Some(32.0), Some(0.5)), tried(target, Some(4.0), Some(0.4))]))
            .unwrap();
        class.add(person("Bob", vec![tried(right, Some(8.0), Some(0.9))])).unwrap();
        class.add(person("Dan", Vec::new())).unwrap();
        class
    }

    #[test]
    fn states_have_words() {
        let class = class();
        let states: Vec<String> = class.people().iter().map(|p| standing(p.exercise("E05")).words()).collect();
        assert_eq!(states, ["★ on target", "✓ right", "1 try", "begun"]);
        assert_eq!(Standing::Tried(3).words(), "3 tries");
        assert_eq!(standing(class.people()[0].exercise("E06")), Standing::Untouched);
    }

    #[test]
    fn people_are_ranked_by_counts_or_by_shares() {
        let mut class = class();
        let names =
            |class: &Class| -> Vec<String> { class.ranking("E05").iter().map(|p| p.person.to_owned()).collect() };
        assert_eq!(names(&class), ["Ada", "Bob", "Cid", "Dan"]);
        assert_eq!(class.ranking("E05")[0].best.and_then(first_count).and_then(|c| c.count), Some(4.0));
        class.by = RankBy::Share;
        assert_eq!(names(&class)[..2], ["Bob", "Ada"]);
        assert!(class.has_shares("E05") && !class.has_shares("E06") && class.ranking("E06").is_empty());
    }

    #[test]
    fn a_person_is_renewed_and_the_board_has_an_end() {
        let mut class = class();
        class.add(person("Dan", vec![tried(Verdict::Right, None, None)])).unwrap();
        assert_eq!((class.people().len(), standing(class.people()[3].exercise("E05"))), (4, Standing::Right));
        for i in 0..MAX_PEOPLE {
            let _ = class.add(person(&format!("P{i}"), Vec::new()));
        }
        assert_eq!(class.people().len(), MAX_PEOPLE);
        assert!(class.add(person("Zoe", Vec::new())).unwrap_err().contains("room for 200"));
        assert_eq!((class.ranked_exercise(), class.exercises()), (Some("E05"), vec!["E05"]));
        class.clear();
        assert_eq!((class.people().len(), class.ranked_exercise()), (0, None));
    }

    #[test]
    fn files_are_told_from_records_and_damaged_ones_get_a_sentence() {
        let text = person("Ada\n\u{202e}<b>", vec![tried(Verdict::Right, Some(1.0), None)]).to_json();
        assert!(is_progress(text.as_bytes()) && !is_progress(b"{\"schema\": 2}") && !is_progress(b""));
        let opened = open_progress(text.as_bytes()).unwrap();
        assert!(!opened.person.contains(['\n', '\u{202e}']), "{:?}", opened.person);
        let why = open_progress(&text.as_bytes()[..text.len() / 2]).unwrap_err();
        assert!(why.ends_with('.') && why.contains("JSON"), "{why}");
        let mut many = Progress::new("Ada");
        for i in 0..101 {
            many.begin(&format!("E{i:03}"), 0);
        }
        assert!(open_progress(many.to_json().as_bytes()).unwrap_err().contains("101 exercises"));
    }
}
