//! The display of exercises and tries.

use super::emulated::counts;
use super::lanes::places;
use crate::display::Show;
use crate::display::code::cuda_cpp::highlighted;
use crate::display::figures;
use crate::display::html::{details, escape, heading, note, paragraph, printable, scroll, table};
use std::collections::BTreeMap;
use std::ops::Range;
use warpbook_charts::{Chart, Table};
use warpbook_lab::exercise::{ArrayReads, Exercise, Hint, Picture, Solution, TargetCount, Task, Tried, Verdict};

/// Side length of the square drawn for an element, in pixels.
const SIDE: usize = 12;
/// Maximum number of ranges of elements in a sentence about reads.
const MOST_RANGES: usize = 6;

/// Returns the counts that have targets as a table.
fn targets(tried: &Tried) -> Option<Table> {
    let number = |v: f64| figures::significant(v, 4);
    let row = |target: &TargetCount| {
        let bound = format!("{} {}", if target.is_most { "at most" } else { "at least" }, number(target.bound));
        let count = target.count.map_or_else(|| "none".into(), number);
        [target.name.clone(), count, bound, if target.is_met { "on target" } else { "missed" }.into()]
    };
    let rows: Vec<_> = tried.targets.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(["count", "yours", "target", ""], rows))
}

/// Returns the costs of a right answer by source line.
fn costs(tried: &Tried) -> Option<Table> {
    let sources = BTreeMap::from([(tried.path.clone(), tried.source.clone())]);
    counts(&tried.emulated, &sources)
}

/// Says how wasteful the accesses of the worst line are, and how to draw those of any line.
fn wasteful(tried: &Tried, chart: &Chart, line: u32) -> String {
    let name = format!("tried_{}", tried.exercise.to_lowercase());
    format!("{}. In a notebook, `{name}.lanes({line})?` draws what each lane accesses in this line.", chart.title)
}

/// Returns the time on a GPU in a sentence.
fn time(tried: &Tried) -> Option<String> {
    let time = tried.time.as_ref()?;
    let star = if time.is_on_target() { "second star" } else { "no second star yet" };
    let (share, target) = (figures::percent(time.share), figures::percent(time.target));
    Some(format!(
        "{} on {}: {share} of the measured ceiling, target {target}: {star}.",
        figures::time(time.us),
        time.gpu
    ))
}

/// Returns the sentences below the verdict.
fn sentences(tried: &Tried) -> Vec<String> {
    let cause = tried.cause.as_ref().map(|cause| match tried.verdict {
        Verdict::NotYet if tried.compile_error.is_none() => format!("Likely cause: {}", cause.sentence),
        _ => cause.sentence.clone(),
    });
    let notes = tried.emulated.notes.iter().cloned();
    cause.into_iter().chain(time(tried)).chain(notes).chain(tried.remarks.iter().cloned()).collect()
}

/// Returns a line with the seed that reproduces a verdict, if the inputs were random.
fn seed(tried: &Tried) -> Option<String> {
    (tried.seed != 0).then(|| format!("Inputs were drawn anew, with seed {}.", tried.seed))
}

/// Returns the picture's title.
fn picture_title(picture: &Picture) -> String {
    let Picture { case, array, first, length, cells, .. } = picture;
    let shown = match cells.len() == *length {
        true => "each element".to_owned(),
        false => format!("elements {first} to {}", first + cells.len().saturating_sub(1)),
    };
    format!("Who wrote {shown} of `{array}`, at {case}")
}

/// Says in a sentence how often the elements of an array were read.
fn reads(reads: &ArrayReads) -> String {
    let runs = reads.runs();
    let range = |(elements, times): &(Range<usize>, u32)| {
        let (first, last) = (elements.start, elements.end - 1);
        let (which, verb) = match first == last {
            true => (format!("element {first}"), "was"),
            false => (format!("elements {first} to {last}"), "were"),
        };
        match times {
            0 => format!("{which} {verb} never read"),
            1 => format!("{which} {verb} read once"),
            _ => format!("{which} {verb} read {times} times"),
        }
    };
    let ranges: Vec<String> = runs.iter().take(MOST_RANGES).map(range).collect();
    let more = if runs.len() > MOST_RANGES { ", and so on" } else { "" };
    format!("In `{}`, {}{more}.", reads.array, ranges.join(", "))
}

/// Draws which thread wrote each element. Each square is an element, and each row has the 32 elements of a warp. Neighbouring blocks have different colours,
/// wrong elements have a cross, and elements that no thread wrote have an empty frame.
fn draw(picture: &Picture) -> String {
    let rows = picture.cells.chunks(32);
    let (width, height) = (32 * SIDE + 70, rows.len() * SIDE + 2);
    let square = |x: usize, y: usize, class: &str, title: &str| {
        format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{0}\" height=\"{0}\" {class}><title>{title}</title></rect>",
            SIDE - 2
        )
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\" font-family=\"monospace\" font-size=\"10\">",
        escape(&picture_title(picture))
    );
    for (row, cells) in rows.enumerate() {
        let y = row * SIDE + 1;
        let index = picture.first + 32 * row;
        svg += &format!("<text x=\"62\" y=\"{}\" text-anchor=\"end\" fill=\"currentColor\">{index}</text>", y + 9);
        for (column, cell) in cells.iter().enumerate() {
            let x = 68 + column * SIDE;
            let i = index + column;
            let (fill, title) = match cell.writer {
                None => ("fill=\"none\" stroke=\"#888\"", format!("element {i}: nobody wrote it")),
                Some((block, thread)) => {
                    let fill = ["fill=\"#4c78a8\"", "fill=\"#72b7b2\"", "fill=\"#9ecae9\""][block as usize % 3];
                    let is_wrong = if cell.is_right { "" } else { ", wrong" };
                    (fill, format!("element {i}: block {block}, thread {thread}{is_wrong}"))
                }
            };
            svg += &square(x, y, fill, &title);
            if cell.writer.is_some() && !cell.is_right {
                let (a, b, c, d) = (x + 1, y + 1, x + SIDE - 3, y + SIDE - 3);
                svg += &format!("<path d=\"M{a} {b}L{c} {d}M{a} {d}L{c} {b}\" stroke=\"#d62728\" stroke-width=\"2\"/>");
            }
        }
    }
    svg + "</svg>"
}

impl Show for Tried {
    fn html(&self) -> String {
        let title = heading(&format!("{} {}: {}", self.exercise, self.title, self.verdict.words()));
        let more: String = sentences(self).iter().map(|sentence| note(sentence)).collect();
        if let Some(error) = &self.compile_error {
            return format!("{title}{more}{}", error.html());
        }
        let said = match self.verdict {
            Verdict::NotYet => format!("<div class=\"wb-error\" role=\"alert\">{}</div>", escape(&self.sentence)),
            _ => format!("<p>{}</p>", escape(&self.sentence)),
        };
        let printed = match self.printed.is_empty() {
            true => String::new(),
            false => format!("<p>It printed:</p><pre>{}</pre>", escape(&self.printed)),
        };
        let targets = targets(self).map_or_else(String::new, |table| scroll(&table));
        let costs = match (costs(self), &self.counted) {
            (Some(table), Some(case)) => format!("<p>Costs by source line, at {}:</p>{}", escape(case), scroll(&table)),
            _ => String::new(),
        };
        let lanes = self.worst_lanes().zip(self.worst_line).map_or_else(String::new, |(chart, line)| {
            note(&wasteful(self, &chart, line)) + &details("What the lanes of this warp access", &chart.html())
        });
        let picture = self.picture.as_ref().map_or_else(String::new, |picture| {
            let read: String = picture.reads.iter().map(|array| paragraph(&reads(array))).collect();
            details(&picture_title(picture), &(draw(picture) + &read))
        });
        let seed = seed(self).map_or_else(String::new, |seed| format!("<p class=\"wb-faint\">{}</p>", escape(&seed)));
        format!("{title}{said}{more}{printed}{targets}{costs}{lanes}{picture}{seed}")
    }

    fn text(&self) -> String {
        let mut parts = vec![printable(&self.line())];
        parts.extend(sentences(self).iter().map(|sentence| printable(sentence)));
        if let Some(error) = &self.compile_error {
            parts.push(error.text());
            return parts.join("\n");
        }
        if !self.printed.is_empty() {
            parts.push(printable(&format!("It printed:\n{}", self.printed.trim_end())));
        }
        parts.extend(targets(self).map(|table| printable(&table.text())));
        if let (Some(table), Some(case)) = (costs(self), &self.counted) {
            parts.push(printable(&format!("Costs by source line, at {case}:\n{}", table.text())));
        }
        if let (Some(chart), Some(request)) = (self.worst_lanes(), self.worst_request()) {
            let places = places(&request);
            parts.push(printable(&format!(
                "{}\n{}",
                wasteful(self, &chart, request.line),
                places.trim_end_matches('\n')
            )));
        }
        // If every element is right, a picture made of letters adds nothing to the verdict.
        if let Some(picture) = self.picture.as_ref().filter(|_| self.wrong.is_some()) {
            let legend = "digits: the last digit of the block; x: wrong; .: nobody wrote it";
            parts.push(printable(&format!("{} ({legend}):\n{}", picture_title(picture), picture.text().trim_end())));
            parts.extend(picture.reads.iter().map(|array| printable(&reads(array))));
        }
        parts.extend(seed(self));
        parts.join("\n")
    }
}

/// Returns the questions of an exercise, with their choices.
fn questions(exercise: &Exercise) -> String {
    let Task::Answers(questions) = exercise.definition().task else { return String::new() };
    let one = |(number, question): (usize, &warpbook_lab::exercise::Question)| {
        let letters = ('a'..='z').zip(question.choices);
        let choices: String = letters.map(|(letter, choice)| format!("\n   {letter}  {choice}")).collect();
        format!("{number}. {}{choices}", question.text)
    };
    (1..).zip(questions).map(one).collect::<Vec<_>>().join("\n")
}

impl Show for Exercise {
    fn html(&self) -> String {
        let title = heading(&format!("{} {}", self.definition().id, self.definition().title));
        // The lesson has the task in Markdown above the cell.
        let text = match self.definition().task {
            Task::Answers(_) => questions(self),
            _ => self.task().lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n"),
        };
        let task = details("The task", &format!("<pre>{}</pre>", escape(text.trim())));
        let file = file(self).map_or_else(String::new, |file| note(&file));
        format!("{title}{}{file}{task}", paragraph(&standing(self)))
    }

    fn text(&self) -> String {
        let task = match self.definition().task {
            Task::Answers(_) => {
                format!("# {}: {}\n\n{}", self.definition().id, self.definition().title, questions(self))
            }
            _ => self.task().trim_end().to_owned(),
        };
        let file = file(self).map_or_else(String::new, |file| format!("{file}\n"));
        printable(&format!("{task}\n\n{file}{}", standing(self)))
    }
}

/// Says where the learner's file is, or how to create it; `None` if the exercise asks for no kernel.
fn file(exercise: &Exercise) -> Option<String> {
    let Task::Kernel(_) = exercise.definition().task else { return None };
    let (id, path) = (exercise.definition().id, exercise.file().display());
    Some(match exercise.file().is_file() {
        true => format!("Your file: {path}"),
        false => format!(
            "You have no file for it yet: `open()` in a notebook, or `warpbook exercise try {id}` in a terminal, puts the stub into {path}."
        ),
    })
}

/// Describes the learner's progress on the exercise.
fn standing(exercise: &Exercise) -> String {
    let progress = exercise.progress();
    match (progress.best(), progress.count) {
        (None, _) => "Not tried yet.".into(),
        (Some(best), 1) => format!("{}, after one try.", best.words()),
        (Some(best), count) => format!("{}, after {count} tries.", best.words()),
    }
}

impl Show for Hint {
    fn html(&self) -> String {
        note(&self.text())
    }

    fn text(&self) -> String {
        printable(&format!("Hint {} of {}: {}", self.number, self.of, self.text.trim()))
    }
}

impl Show for Solution {
    fn html(&self) -> String {
        let title = format!("A solution of {}", self.exercise);
        format!("{}<pre class=\"wb-code\">{}</pre>", heading(&title), highlighted(self.source.trim_end(), 1))
    }

    fn text(&self) -> String {
        printable(self.source.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exercises, Lab};

    fn exercises() -> std::path::PathBuf {
        warpbook_device::testing::manifest_dir(env!("CARGO_MANIFEST_DIR")).join("../../notebooks/exercises")
    }

    fn exercise(folder: &tempfile::TempDir) -> Exercise {
        let lab = Lab::open("cpu").unwrap().with_author("ada");
        let definition = warpbook_lab::exercise::find_exercise(&warpbook_exercises::all(), "E05").unwrap();
        Exercise::in_folders(&lab, definition, &exercises(), Some(folder.path().into())).unwrap()
    }

    #[test]
    fn a_try_shows_verdict_cause_picture_and_costs() {
        let Ok(solution) = std::fs::read_to_string(exercises().join("E05_saxpy/solution.cu")) else {
            println!("skipped: a_try_shows_verdict_cause_picture_and_costs needs a solution, and this is a hand-out");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let exercise = exercise(&folder);
        assert!(exercise.text().contains("SAXPY") && exercise.text().ends_with("Not tried yet."));
        let solution = solution.replace("// two", "// <b> two");
        let tried = |text: &str| exercise.try_source(text).unwrap();
        let wrong = tried(&solution.replace("a * x", "x"));
        let (text, html) = (wrong.text(), wrong.html());
        assert!(text.starts_with("E05 NOT YET: At n = ") && text.contains("Likely cause: "), "{text}");
        assert!(text.contains("y[0]  xxxx"), "{text}");
        assert!(html.contains("NOT YET") && html.contains("<svg") && html.contains("wrong</title>"), "{html}");
        for shown in [&text, &html] {
            assert!(shown.contains("In `x`, elements 0 to 999 were read once."), "{shown}");
            assert!(shown.contains("In `y`, elements 0 to 999 were read once."), "{shown}");
        }
        let right = tried(&solution);
        let (text, html) = (right.text(), right.html());
        assert!(text.starts_with("E05 RIGHT AND ON TARGET: ") && text.contains("on target"), "{text}");
        assert!(text.contains("E05.cu:5") && text.contains("y[i] = a * x[i] + y[i];"), "{text}");
        assert!(!html.contains("<b>") && html.contains("Costs by source line"), "{html}");
        let rust = tried(&solution.replace("int i =", "let i ="));
        for shown in [rust.text(), rust.html()] {
            assert!(shown.contains("C++ has no") && shown.contains("is undefined"), "{shown}");
        }
        assert!(exercise.html().contains("after 3 tries"));
        assert!(exercise.solution().unwrap().text().contains("saxpy"));
        assert!(exercise.hint(1).unwrap().text().starts_with("Hint 1 of 3: "));
    }

    #[test]
    fn a_right_answer_with_wasteful_accesses_shows_what_the_lanes_of_a_warp_access() {
        let folder = tempfile::tempdir().unwrap();
        let exercise = exercise(&folder);
        let stub = exercise.stub().unwrap();
        let body = |body: &str| stub.replace("// TODO: each thread computes one element of y.", body);
        // Neighbouring threads read and write elements that are as far apart as there are blocks.
        let slow = body(
            "int i = threadIdx.x * gridDim.x + blockIdx.x;\n    float v = 0;\n    if (i < n) v = x[i];\n    if (i < n) y[i] = a * v + y[i];",
        );
        let tried = exercise.try_source(&slow).unwrap();
        assert_eq!(tried.verdict, Verdict::Right, "{}", tried.text());
        let line = tried.worst_line.expect("a line is named");
        assert!(slow.lines().nth(line as usize - 1).unwrap().contains("y[i] = a * v"), "{}", tried.text());
        let (text, html) = (tried.text(), tried.html());
        for shown in [&text, &html] {
            assert!(shown.contains("draws what each lane accesses in this line"), "{shown}");
            assert!(shown.contains(&format!("tried_e05.lanes({line})?")), "{shown}");
            assert!(shown.contains("sectors where 4 would do"), "{shown}");
        }
        assert!(text.contains("sectors of lanes  0 to  7:"), "{text}");
        assert!(html.contains("data:image/svg+xml;base64,"), "{html}");
        let picture = tried.worst_lanes().unwrap().svg.picture().len();
        assert!(picture < 40_000, "a verdict is kept short, and its picture has {picture} bytes");
        // Reads are drawn too, with a table of all lanes.
        let read = line - 1;
        let chart = tried.lanes(read).unwrap();
        assert!(chart.title.contains("a load of a warp touches") && chart.table.rows.len() == 32, "{}", chart.title);
        let why = tried.lanes(1).unwrap_err().to_string();
        assert!(why.contains("these lines do: "), "{why}");
        let wrong = exercise.try_source(&body("y[0] = 1;")).unwrap();
        assert!(wrong.lanes(1).unwrap_err().to_string().contains("once the kernel is right"));
        assert!(wrong.worst_lanes().is_none() && !wrong.text().contains("draws what each lane"));
    }

    #[test]
    fn an_exercise_that_was_never_opened_says_how_to_get_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let texts = folder.path().join("exercises/E05_saxpy");
        std::fs::create_dir_all(&texts).unwrap();
        for name in ["task.md", "stub.cu"] {
            std::fs::copy(exercises().join("E05_saxpy").join(name), texts.join(name)).unwrap();
        }
        let lab = Lab::open("cpu").unwrap().with_author("ada");
        let definition = exercise(&folder).definition().clone();
        let new = Exercise::in_folders(&lab, definition, &folder.path().join("exercises"), None).unwrap();
        for shown in [new.text(), new.html()] {
            assert!(shown.contains("no file for it yet") && shown.contains("exercise try E05"), "{shown}");
        }
        new.open().unwrap();
        for shown in [new.text(), new.html()] {
            assert!(shown.contains("Your file: ") && !shown.contains("no file for it yet"), "{shown}");
        }
        let quiz = warpbook_lab::exercise::find_exercise(&warpbook_exercises::all(), "Q00").unwrap();
        assert_eq!(file(&Exercise::in_folders(&lab, quiz, &exercises(), None).unwrap()), None);
    }

    #[test]
    fn a_sentence_about_reads_names_some_ranges_and_says_that_there_are_more() {
        let said = |counts: &[u32]| reads(&ArrayReads { array: "x".into(), counts: counts.to_vec() });
        assert_eq!(
            said(&[1, 1, 0, 2, 2]),
            "In `x`, elements 0 to 1 were read once, element 2 was never read, elements 3 to 4 were read 2 times."
        );
        let strided = said(&[1, 0].repeat(50));
        assert!(strided.ends_with("element 5 was never read, and so on."), "{strided}");
    }

    #[test]
    fn an_unknown_exercise_is_refused() {
        let lab = Lab::open("cpu").unwrap();
        assert!(lab.exercise("E99").unwrap_err().to_string().contains("no exercise `E99`"));
    }
}
