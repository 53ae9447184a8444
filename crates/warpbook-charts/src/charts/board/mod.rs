//! A class board: each person's best figure at each task, and the people without a valid figure.

mod chart;

use crate::draw::text::words::significant;
use crate::draw::{Table, clean};
use crate::record::{device, is_own, label, name, verdict};
use std::cmp::Reverse;
use warpbook_record::{L2State, Measurement, Outcome, Problem, Run, Rung, Runner, TimedBy};

/// Records of several people, grouped by task. Tasks with the most people come first; among equals, the main problems of records come first.
#[derive(Debug, Clone)]
pub struct Board<'a> {
    /// Tasks, those with the most people first.
    pub tasks: Vec<BoardTask<'a>>,
    /// Names of all people, in the order of their records.
    pub people: Vec<String>,
}

/// A problem of an experiment on one kind of device, timed in one way. Only figures of the same task are compared.
#[derive(Debug, Clone)]
pub struct BoardTask<'a> {
    /// Name of the experiment, as in the records.
    pub experiment: &'a str,
    /// Problem that the records measured.
    pub problem: &'a Problem,
    /// Name of the device.
    pub device: String,
    /// One entry for each person: the fastest first, people without a valid figure last.
    pub entries: Vec<BoardEntry<'a>>,
    /// Names of the people who have records but none for this task.
    pub absent: Vec<String>,
    /// Figures from outside the class: for each published record, a label such as "published: On the chip" and its best time in microseconds.
    pub published: Vec<(String, f64)>,
    by: (TimedBy, L2State),
    /// A record with this task; it supplies the properties that all records with the task share.
    run: &'a Run,
}

/// One person's result at a task.
#[derive(Debug, Clone)]
pub struct BoardEntry<'a> {
    /// The record's author or, if it names none, the file's name.
    pub person: String,
    /// Index of the record that the figure comes from.
    pub record: usize,
    /// Title of the rung with the best figure; empty if there is no figure.
    pub rung: String,
    /// The fastest figure that passed its check, with its time in microseconds.
    pub best: Option<(&'a Measurement, f64)>,
    /// Reasons why other results do not count, such as "Fused: its result was not checked".
    pub missing: Vec<String>,
}

impl<'a> Board<'a> {
    /// Sorts records into tasks. A record belongs to its author or, if it names none, to the name given with it, such as the file name.
    ///
    /// The figure of a record is the best of the learner's own kernels if it has any, else of all kernels, else of all rungs. If libraries always counted,
    /// everybody would have the time of the fastest library.
    #[must_use]
    pub fn from_records(records: &[(&str, &'a Run)]) -> Self {
        let mut board = Self { tasks: Vec::new(), people: Vec::new() };
        for (record, (file, run)) in records.iter().enumerate() {
            let person = person(run, file);
            if !board.people.contains(&person) {
                board.people.push(person.clone());
            }
            for problem in run.problems() {
                if let Some(entry) = BoardEntry::new(run, problem, record, &person) {
                    board.task(run, problem).add(entry);
                }
            }
        }
        for task in &mut board.tasks {
            let time = |e: &BoardEntry<'_>| e.best.map_or(f64::INFINITY, |(_, us)| us);
            task.entries.sort_by(|a, b| time(a).total_cmp(&time(b)));
            let is_there = |p: &&String| task.entries.iter().any(|e| e.person == **p);
            task.absent = board.people.iter().filter(|p| !is_there(p)).cloned().collect();
        }
        let is_main = |t: &BoardTask<'_>| t.run.main_problem() == Some(t.problem);
        board.tasks.sort_by_key(|t| (Reverse(t.entries.len()), !is_main(t)));
        board
    }

    /// Adds the best figure of each published record to its tasks; these figures are not ranked.
    #[must_use]
    pub fn with_published(mut self, records: &[&Run]) -> Self {
        for (run, problem) in records.iter().flat_map(|run| run.problems().into_iter().map(move |p| (*run, p))) {
            let Some(task) = self.tasks.iter_mut().find(|t| t.is_of(run, problem)) else { continue };
            let best = BoardEntry::new(run, problem, 0, "").and_then(|e| Some((e.rung, e.best?.1)));
            task.published.extend(best.map(|(rung, us)| (format!("published: {rung}"), us)));
        }
        self
    }

    fn task(&mut self, run: &'a Run, problem: &'a Problem) -> &mut BoardTask<'a> {
        let place = self.tasks.iter().position(|t| t.is_of(run, problem)).unwrap_or_else(|| {
            self.tasks.push(BoardTask {
                experiment: &run.experiment,
                problem,
                device: device(run),
                entries: Vec::new(),
                absent: Vec::new(),
                published: Vec::new(),
                by: (run.policy.timed_by, run.policy.l2),
                run,
            });
            self.tasks.len() - 1
        });
        &mut self.tasks[place]
    }

    /// Returns all tasks in one table.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(["experiment", "problem", "device"].into_iter().chain(COLUMNS));
        for task in &self.tasks {
            let before = [task.experiment.to_owned(), label(task.problem), task.device.clone()];
            for row in task.rows() {
                table.push(before.iter().cloned().chain(row));
            }
        }
        table
    }
}

const COLUMNS: [&str; 9] = [
    "place",
    "person",
    "rung",
    "median in µs",
    "MAD in µs",
    "samples",
    "relative error",
    "tolerance",
    "does not count",
];

impl<'a> BoardTask<'a> {
    /// Returns the task's name for a menu: experiment, problem and device, and the way of timing if it is unusual.
    #[must_use]
    pub fn name(&self) -> String {
        let cold = if self.by.1 == L2State::Cold { ", cold L2" } else { "" };
        format!("{}: {}, {}{cold}", clean(self.experiment), label(self.problem), self.device)
    }

    /// Returns an id of the task for addresses of pages; tasks with equal experiments, problems and devices have equal ids.
    #[must_use]
    pub fn id(&self) -> String {
        format!(
            "{}/{}/{}{}",
            self.experiment,
            self.problem.id,
            self.device,
            if self.by.1 == L2State::Cold { "/cold" } else { "" }
        )
    }

    /// Returns the entries with a valid figure, the fastest first.
    pub fn ranked(&self) -> impl Iterator<Item = (&BoardEntry<'a>, &'a Measurement, f64)> {
        self.entries.iter().filter_map(|e| e.best.map(|(m, us)| (e, m, us)))
    }

    /// Returns the people without a valid figure, with the reasons: their results were not checked, or failed the check.
    pub fn unchecked(&self) -> impl Iterator<Item = &BoardEntry<'a>> {
        self.entries.iter().filter(|e| !e.missing.is_empty())
    }

    /// Returns true if a record's figures for a problem belong to this task.
    fn is_of(&self, run: &Run, problem: &Problem) -> bool {
        let by = (run.policy.timed_by, run.policy.l2);
        self.experiment == run.experiment && self.problem == problem && self.device == device(run) && self.by == by
    }

    /// Adds a person's entry. If the person already has an entry, the better figure stays.
    fn add(&mut self, new: BoardEntry<'a>) {
        let Some(old) = self.entries.iter_mut().find(|e| e.person == new.person) else {
            self.entries.push(new);
            return;
        };
        let more: Vec<String> = new.missing.iter().filter(|m| !old.missing.contains(m)).cloned().collect();
        old.missing.extend(more);
        let is_better = match (old.best, new.best) {
            (Some((_, old)), Some((_, new))) => new < old,
            (old, new) => old.is_none() && new.is_some(),
        };
        if is_better {
            (old.record, old.rung, old.best) = (new.record, new.rung, new.best);
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let figure = |v: f64, digits| significant(v, digits);
        let row = |(i, e): (usize, &BoardEntry<'_>)| {
            let (mut cells, missing) = (Vec::new(), e.missing.join("; "));
            cells.push(e.best.map(|_| (i + 1).to_string()).unwrap_or_default());
            cells.extend([e.person.clone(), e.rung.clone()]);
            match e.best {
                Some((m, us)) => {
                    cells.push(figure(us, 4));
                    cells.push(m.mad_us().map(|d| figure(d, 3)).unwrap_or_default());
                    cells.push(m.samples_total.max(m.samples_us.len() as u64).to_string());
                    cells.push(m.check.as_ref().map(|c| figure(c.max_rel_error, 2)).unwrap_or_default());
                    cells.push(m.check.as_ref().map(|c| figure(c.tolerance, 2)).unwrap_or_default());
                }
                None => cells.extend(std::iter::repeat_n(String::new(), 5)),
            }
            cells.push(missing);
            cells
        };
        self.entries.iter().enumerate().map(row).collect()
    }
}

impl<'a> BoardEntry<'a> {
    /// Makes a person's entry; `None` if the record has no measurement of the problem.
    fn new(run: &'a Run, problem: &Problem, record: usize, person: &str) -> Option<Self> {
        let all: Vec<&Measurement> = run
            .measurements
            .iter()
            .filter(|m| {
                let ran = m.emulated.is_some() || !matches!(m.outcome, Outcome::Skipped { .. });
                m.problem == *problem && ran && !run.repeats_a_rung(m)
            })
            .collect();
        let of_kind = |kind: fn(&Rung) -> bool| -> Vec<&'a Measurement> {
            all.iter().copied().filter(|m| run.rung(&m.rung).is_some_and(kind)).collect()
        };
        let kinds: [fn(&Rung) -> bool; 2] = [is_own, |r| matches!(r.runner, Runner::Kernels { .. })];
        let counted = kinds.into_iter().map(of_kind).find(|k| !k.is_empty()).unwrap_or_else(|| all.clone());
        if counted.is_empty() {
            return None;
        }
        let sound = counted.iter().filter(|m| run.is_sound(m) && !m.does_less());
        let best = sound.filter_map(|m| Some((*m, m.median_us()?))).min_by(|a, b| a.1.total_cmp(&b.1));
        let clause = |m: &&Measurement| Some(format!("{}: {}", name(run, &m.rung), verdict(run, m).err()?));
        Some(Self {
            person: person.to_owned(),
            record,
            rung: best.map(|(m, _)| name(run, &m.rung)).unwrap_or_default(),
            best,
            missing: counted.iter().filter_map(clause).collect(),
        })
    }
}

/// Returns the record's author or, if it names none, the file's name without its extension.
fn person(run: &Run, file: &str) -> String {
    let author = clean(run.author.as_deref().unwrap_or_default());
    let file = clean(file);
    let stem = file.strip_suffix(".json").unwrap_or(&file);
    let named = [author.trim(), stem.trim()].into_iter().find(|n| !n.is_empty()).unwrap_or("somebody");
    named.chars().take(crate::record::names::MAX_LABEL).collect()
}
