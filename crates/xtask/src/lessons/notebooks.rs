//! Execution of notebooks on this machine's device, and the time to the first plot.

use crate::lessons::outside::Outside;
use crate::process::{Guard, command, log_file, run as run_seen};
use crate::steps::{Report, say, seconds};
use crate::tools::python::Venv;
use crate::tools::{evcxr, nvrtc};
use crate::workspace::{Workspace, files_below};
use crate::yardstick;
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const EXECUTE: &str = include_str!("execute.py");
/// Lesson whose first plot is timed.
const MEASURED: &str = "10_fused_regression.ipynb";
/// Time limit from the first cell to the first plot, in an empty build folder; the next constant is the limit in a build folder that another kernel has used.
/// Both are longer on a slower machine, see [`yardstick`].
const COLD_LIMIT: Duration = Duration::from_secs(100);
const WARM_LIMIT: Duration = Duration::from_secs(15);
const CELL_LIMIT: Duration = Duration::from_secs(600);
const NOTEBOOK_LIMIT: Duration = Duration::from_secs(1800);

/// Sets up Jupyter with the Rust kernel.
pub fn set_up(w: &Workspace) -> Result<Venv> {
    let venv = Venv::ensure(w)?;
    venv.ensure_jupyter(w)?;
    let kernel = evcxr::ensure(w)?;
    evcxr::register(w, &venv, &kernel)?;
    Ok(venv)
}

/// Sets up the environment, with the compiler for the kernels of the notebooks; only a GPU requires the compiler.
fn set_up_with_nvrtc(w: &Workspace) -> Result<Venv> {
    let cuda = nvrtc::Cuda::probe(w);
    if cuda.devices > 0 {
        nvrtc::ensure(w, &cuda)?;
    } else {
        nvrtc::offer(w, &cuda);
    }
    set_up(w)
}

/// Runs `cargo xtask notebooks`.
pub fn run(w: &Workspace, write: bool) -> Result<ExitCode> {
    let venv = set_up_with_nvrtc(w)?;
    let mut code = ExitCode::SUCCESS;
    for notebook in all(w)? {
        say(&w.show(&notebook));
        let begin = Instant::now();
        let options: &[&str] = if write { &["--write"] } else { &[] };
        let folders = ExecutionFolders { builds: &w.target.join("evcxr"), kernels: None };
        let run = execute(w, &venv, &notebook, options, &folders)?;
        match run.error {
            None => println!("{} cells in {}", run.cells, seconds(begin.elapsed())),
            Some(error) => {
                eprintln!("error: {}: {error}", w.show(&notebook));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// Runs the step of `cargo xtask test`: the first plot twice, with nothing else running, then every notebook, two at a time, and one notebook outside of the
/// repository. The folder `kernels` has the kernels that were compiled before.
pub fn check(w: &Workspace, kernels: &Path) -> Result<Report> {
    let venv = set_up_with_nvrtc(w)?;
    let builds = w.target.join("xtask/evcxr");
    if builds.exists() {
        fs::remove_dir_all(&builds).context("the notebooks' build folder cannot be emptied")?;
    }
    let folders = ExecutionFolders { builds: &builds, kernels: Some(kernels) };
    let notebooks = all(w)?;
    let measured =
        notebooks.iter().find(|n| n.ends_with(MEASURED)).with_context(|| format!("{MEASURED} is missing"))?;
    let mut outcomes = Vec::new();
    let mut waits = Vec::new();
    let mut slowness = yardstick::slowness(w)?;
    for (when, limit) in [("cold", COLD_LIMIT), ("warm", WARM_LIMIT)] {
        println!("{}, its first plot ({when})", w.show(measured));
        let run = execute(w, &venv, measured, &["--until-plot"], &folders)?;
        // The slowness is measured before and after: other work may have begun in between.
        slowness = slowness.max(yardstick::slowness(w)?);
        waits.extend(run.first_plot.map(|t| format!("{when} {}", seconds(t))));
        let error = run.error.or_else(|| too_late(run.first_plot, when, limit.mul_f64(slowness)));
        outcomes.push((measured.as_path(), error));
    }
    // A second kernel starts with a copy of the first kernel's build.
    copy_builds(&builds.join("0"), &builds.join("1"))?;
    let outside = Outside::new(w)?;
    // The notebook outside of the repository comes first, since it compiles this repository's packages again, which takes long.
    let first = std::iter::once(&outside.notebook);
    let queue: Mutex<VecDeque<&PathBuf>> = Mutex::new(first.chain(longest_first(&notebooks)).collect());
    let ran: Mutex<Vec<(&Path, Option<String>)>> = Mutex::default();
    let tries: Mutex<Vec<f64>> = Mutex::default();
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(notebook) = next else { return };
            let begin = Instant::now();
            let run = execute(w, &venv, notebook, &[], &folders);
            println!("{}: {}", w.show(notebook), seconds(begin.elapsed()));
            if let Ok(run) = &run {
                tries.lock().unwrap_or_else(PoisonError::into_inner).extend(&run.tries_s);
            }
            let error = run.map_or_else(|e| Some(format!("{e:#}")), |run| run.error);
            ran.lock().unwrap_or_else(PoisonError::into_inner).push((notebook, error));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    outcomes.extend(ran.into_inner().unwrap_or_else(PoisonError::into_inner));
    let mut report = Report::default();
    for (notebook, error) in outcomes {
        match error {
            None => report.passed += 1,
            Some(e) => {
                report.failed += 1;
                report.errors.push(format!("{}: {e}", w.show(notebook)));
            }
        }
    }
    let tries = of_tries(tries.into_inner().unwrap_or_else(PoisonError::into_inner));
    report.note = format!("first cell to first plot: {}; limits times {slowness:.2}; {tries}", waits.join(", "));
    Ok(report)
}

/// Returns a sentence about the seconds of the cells that try an exercise.
fn of_tries(mut seconds: Vec<f64>) -> String {
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| seconds.get((share * seconds.len() as f64) as usize).copied().unwrap_or_default();
    let (median, late) = (at(0.5), at(0.95));
    format!("{} cells with a try took {median:.1} s in the median, 95 % of them at most {late:.1} s", seconds.len())
}

/// Copies a kernel's build folder with the times of its files, by which Cargo detects finished builds.
fn copy_builds(from: &Path, to: &Path) -> Result<()> {
    let mut copy = command("cp");
    copy.arg("-a").arg(from).arg(to);
    run_seen(&mut copy)
}

/// Sorts notebooks by size, the largest first, since it would end long after all others if it began last.
fn longest_first(notebooks: &[PathBuf]) -> Vec<&PathBuf> {
    let mut all: Vec<&PathBuf> = notebooks.iter().collect();
    all.sort_by_key(|n| std::cmp::Reverse(fs::read_to_string(n).map_or(0, |text| text.matches("\"code\"").count())));
    all
}

/// Returns a sentence about the time of a first plot if it exceeds the limit; `None` if it is within the limit.
fn too_late(first_plot: Option<Duration>, when: &str, limit: Duration) -> Option<String> {
    match first_plot {
        None => Some("no cell drew a plot".into()),
        Some(t) if t > limit => Some(format!(
            "first cell to first plot, {when}, took {}; at most {} is allowed",
            seconds(t),
            seconds(limit)
        )),
        Some(_) => None,
    }
}

/// Returns the notebooks, by path.
pub fn all(w: &Workspace) -> Result<Vec<PathBuf>> {
    let mut notebooks = files_below(&w.path("notebooks"), &[])?;
    notebooks.retain(|p| p.extension().is_some_and(|e| e == "ipynb"));
    if notebooks.is_empty() {
        bail!("notebooks/ holds no notebook");
    }
    Ok(notebooks)
}

/// The folders that executed notebooks use.
struct ExecutionFolders<'a> {
    /// Folder below which each kernel builds its cells.
    builds: &'a Path,
    /// Folder for compiled kernels; the user's cache if `None`.
    kernels: Option<&'a Path>,
}

/// Outcome of an execution.
#[derive(Debug, PartialEq)]
struct Run {
    cells: u64,
    first_plot: Option<Duration>,
    /// Seconds of each cell that tries an exercise.
    tries_s: Vec<f64>,
    error: Option<String>,
}

fn execute(w: &Workspace, venv: &Venv, notebook: &Path, options: &[&str], folders: &ExecutionFolders) -> Result<Run> {
    let stem = notebook.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let log = w.log(&format!("notebook-{stem}"));
    let mut python = venv.run_python();
    python.args(["-c", EXECUTE]).arg(notebook).arg(CELL_LIMIT.as_secs().to_string()).args(options);
    python.env("WARPBOOK_EVCXR_DIR", folders.builds).env_remove("EVCXR_TMPDIR").current_dir(&w.root);
    // The tries of these runs do not belong to the user's progress.
    python.env("WARPBOOK_PROGRESS", w.target.join("xtask/progress"));
    if let Some(kernels) = folders.kernels {
        python.env("WARPBOOK_CACHE", kernels);
    }
    python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file(&log)?);
    let mut child = Guard::new(python.spawn().context("Python cannot be started")?);
    let mut stdout = child.child().stdout.take().context("its output is piped")?;
    // The output is read while waiting: a full pipe would stop the program.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    if child.wait_for(NOTEBOOK_LIMIT)?.is_none() {
        bail!("{} had not ended after {}", w.show(notebook), seconds(NOTEBOOK_LIMIT));
    }
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    let Some(run) = parse(&text) else {
        eprint!("{}", tail(&fs::read_to_string(&log).unwrap_or_default(), 30));
        bail!("{} could not be executed: see {}", w.show(notebook), w.show(&log));
    };
    if run.error.is_some() {
        eprint!("{}", tail(&fs::read_to_string(&log).unwrap_or_default(), 60));
    }
    Ok(run)
}

fn parse(stdout: &str) -> Option<Run> {
    let v: serde_json::Value = serde_json::from_str(stdout.lines().last()?).ok()?;
    Some(Run {
        cells: v["cells"].as_u64()?,
        first_plot: v["first_plot_s"].as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok()),
        tries_s: v["tries_s"].as_array()?.iter().filter_map(serde_json::Value::as_f64).collect(),
        error: v["error"].as_str().map(str::to_owned),
    })
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|l| format!("  {l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns the code cells of every notebook, each with the notebook's name.
    fn code_cells() -> Vec<(String, serde_json::Value)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../notebooks");
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|e| e != "ipynb") {
                continue;
            }
            let book: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let cells = book["cells"].as_array().unwrap().iter().filter(|c| c["cell_type"] == "code");
            found.extend(cells.map(|c| (name.clone(), c.clone())));
        }
        found
    }

    fn source(cell: &serde_json::Value) -> String {
        cell["source"].as_array().unwrap().iter().filter_map(serde_json::Value::as_str).collect()
    }

    #[test]
    fn outputs_that_answer_a_question_are_collapsed_until_they_are_opened() {
        let is_answer = |c: &serde_json::Value| {
            c["metadata"]["tags"].as_array().is_some_and(|tags| tags.iter().any(|t| t == "answer"))
        };
        let cells = code_cells();
        for (name, cell) in &cells {
            let hidden = cell["metadata"]["jupyter"]["outputs_hidden"] == true;
            assert_eq!(
                is_answer(cell),
                hidden,
                "{name}: the tag `answer` and outputs_hidden belong together: {}",
                source(cell)
            );
        }
        // Lessons with the numbers of their guesses and edits.
        let lessons = [
            ("10_fused_regression.ipynb", 6, 3),
            ("11_persistent_regression.ipynb", 7, 6),
            ("20_matmul_ladder.ipynb", 7, 7),
            ("21_tensor_cores.ipynb", 4, 4),
            ("22_persistent_product.ipynb", 7, 4),
        ];
        for (lesson, guesses_asked, edits_asked) in lessons {
            let own: Vec<&serde_json::Value> = cells.iter().filter(|(n, _)| n == lesson).map(|(_, c)| c).collect();
            // A guess is asked for, and a later, collapsed cell uses it.
            let guesses = own.iter().enumerate().filter_map(|(i, c)| {
                let text = source(c);
                let name =
                    text.lines().find_map(|l| l.strip_prefix("let guess_")?.split(':').next().map(str::to_owned));
                name.map(|n| (i, format!("guess_{n}")))
            });
            let mut asked = 0;
            for (i, guess) in guesses {
                asked += 1;
                assert!(!is_answer(own[i]), "{lesson}: {guess} is hidden");
                let users: Vec<_> = own[i + 1..].iter().filter(|c| source(c).contains(&guess)).collect();
                assert!(!users.is_empty() && users.iter().all(|c| is_answer(c)), "{lesson}: {guess}");
            }
            let is_edit = |text: &str| text.contains("// Your edit") || text.contains("// Your choice");
            let edits = own.iter().filter(|c| is_edit(&source(c))).count();
            assert!(asked >= guesses_asked && edits >= edits_asked, "{lesson}: {asked} guesses, {edits} edits");
        }
    }

    /// Returns the cells of every lesson, each with its kind and its source, and the lesson's name.
    fn lessons() -> Vec<(String, Vec<(String, String)>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../notebooks");
        let mut lessons = Vec::new();
        for file in fs::read_dir(folder).unwrap().flatten().map(|e| e.path()) {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            if file.extension().is_some_and(|e| e == "ipynb") {
                let book: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
                let cells = book["cells"].as_array().unwrap().iter();
                let kind = |c: &serde_json::Value| c["cell_type"].as_str().unwrap_or_default().to_owned();
                lessons.push((name, cells.map(|c| (kind(c), source(c))).collect()));
            }
        }
        assert!(lessons.len() >= 18, "{}", lessons.len());
        lessons
    }

    /// Returns what the first cell of a lesson from 10 on lacks, if anything. The first three lessons open in words for beginners.
    fn fault_of_opening(cells: &[(String, String)]) -> Option<String> {
        let (_, first) = cells.first()?;
        let parts = [
            "**Afterwards you can**",
            "**You need**",
            "**You should know**",
            " minutes**, an estimate",
            "ARCHITECTURE.md#glossary",
        ];
        let lacking = parts.into_iter().find(|part| !first.contains(part))?;
        Some(format!("its first cell lacks `{lacking}`"))
    }

    /// Returns what is wrong with the guesses, the summary or the exercises of a lesson, if anything.
    fn fault_of_form(cells: &[(String, String)]) -> Option<String> {
        let code: Vec<&str> = cells.iter().filter(|(kind, _)| kind == "code").map(|(_, text)| text.as_str()).collect();
        let guesses: Vec<&str> =
            code.iter().flat_map(|text| text.lines()).filter(|l| l.starts_with("let guess_")).collect();
        let is_answered =
            |line: &&&str| line.split("//").next().is_none_or(|code| !code.trim_end().ends_with("> = None;"));
        if let Some(answered) = guesses.iter().find(is_answered) {
            return Some(format!("a guess does not begin as None: {answered}"));
        }
        let is_item = |l: &&str| l.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let words: Vec<&str> = cells.iter().filter(|(kind, _)| kind == "markdown").map(|(_, t)| t.as_str()).collect();
        let summary = words.iter().find(|t| {
            let is_title = |title: &str| title.contains("to take away") || title.starts_with("## Summary");
            t.lines().next().is_some_and(is_title) || t.starts_with("These carry over to")
        });
        match summary.map(|text| text.lines().filter(is_item).count()) {
            Some(5) => {}
            lines => return Some(format!("its summary has {lines:?} lines, and should have five")),
        }
        let exercises = |text: &&&str| {
            text.lines().filter(|l| l.starts_with("**") && l[2..].starts_with(|c: char| c.is_ascii_digit())).count() > 1
        };
        words
            .iter()
            .find(exercises)
            .map(|text| format!("two exercises are in one cell: {}", &text[..text.len().min(60)]))
    }

    #[test]
    fn lessons_open_and_close_alike_and_ask_before_they_answer() {
        for (name, cells) in lessons() {
            assert_eq!(fault_of_form(&cells), None, "{name}");
            assert_eq!(fault_of_opening(&cells).filter(|_| !name.starts_with('0')), None, "{name}");
        }
    }

    #[test]
    fn a_guess_with_a_number_and_a_long_summary_are_faults() {
        let (_, cells) = lessons().into_iter().find(|(name, _)| name.starts_with("43")).unwrap();
        type Cells = Vec<(String, String)>;
        let with = |edit: &dyn Fn(&mut Cells)| {
            let mut changed = cells.clone();
            edit(&mut changed);
            fault_of_opening(&changed).or_else(|| fault_of_form(&changed)).unwrap_or_default()
        };
        assert!(with(&|c| c[0].1.clear()).contains("first cell lacks"));
        assert!(
            with(&|c| c.push(("code".into(), "let guess_x: f64 = 2.0;".into()))).contains("does not begin as None")
        );
        assert!(with(&|c| c.retain(|(_, text)| !text.contains("to take away"))).contains("its summary has None"));
        assert!(with(&|c| c.push(("markdown".into(), "**1. A.**\n\n**2. B.**".into()))).contains("two exercises"));
    }

    /// The cell that shows the score of a lesson, and saves its guesses in the learner's progress file.
    const SCORE: &str = "guesses.score(&lab)";

    /// Returns the variables of a cell that wait for a number or a word: `let name: Option<...> = None;`.
    fn asked_in(text: &str) -> Vec<&str> {
        let asked = |line: &str| line.split("//").next().is_some_and(|code| code.trim_end().ends_with("> = None;"));
        let variables = text.lines().filter(|line| asked(line)).filter_map(|line| line.strip_prefix("let "));
        let names = variables.filter_map(|rest| rest.split_once(": Option<")).map(|(name, _)| name);
        names.filter(|name| !name.contains(' ')).collect()
    }

    /// Returns the reason why a guess of a lesson would be lost with the notebook's kernel, if one would be.
    fn fault_of_guesses(lesson: &str, cells: &[(String, String)]) -> Option<String> {
        let code: Vec<&str> = cells.iter().filter(|(kind, _)| kind == "code").map(|(_, text)| text.as_str()).collect();
        let last = code.iter().rposition(|text| *text == SCORE);
        for (i, text) in code.iter().enumerate() {
            for asked in asked_in(text) {
                // The answer hands the guess to the list of guesses, in a later cell or in the rest of this one.
                let keeps = |at: usize| {
                    let uses = code[at].matches(asked).count();
                    code[at].contains("guesses") && uses > usize::from(at == i)
                };
                match (i..code.len()).find(|at| keeps(*at)) {
                    None => return Some(format!("`{asked}` is not among the guesses")),
                    Some(at) if last.is_none_or(|last| at >= last) => {
                        return Some(format!("no cell `{SCORE}` follows the answer to `{asked}`"));
                    }
                    Some(_) => {}
                }
            }
        }
        last?;
        if !code.iter().any(|text| text.contains(&format!("Guesses::new(\"{lesson}\")"))) {
            return Some(format!("its guesses are not kept under its name, {lesson}"));
        }
        let is_bare =
            |text: &&&str| text.split("write_record(").skip(1).any(|rest| !rest.starts_with("&guesses.kept_in("));
        code.iter().find(is_bare).map(|text| format!("a record is written without the guesses: {text}"))
    }

    #[test]
    fn each_lesson_with_guesses_keeps_them() {
        let (mut number, mut asked) = (0, 0);
        for (name, cells) in lessons() {
            assert_eq!(fault_of_guesses(&name, &cells), None, "{name}");
            number += usize::from(cells.iter().any(|(_, text)| text == SCORE));
            asked += cells.iter().map(|(_, text)| asked_in(text).len()).sum::<usize>();
        }
        // Lesson 60 asks for no guess.
        assert!(number >= 18 && asked >= 110, "{number} lessons keep {asked} guesses");
    }

    #[test]
    fn a_guess_that_would_be_lost_is_a_fault() {
        let (name, cells) = lessons().into_iter().find(|(name, _)| name.starts_with("10")).unwrap();
        type Cells = Vec<(String, String)>;
        let with = |edit: &dyn Fn(&mut Cells)| {
            let mut changed = cells.clone();
            edit(&mut changed);
            fault_of_guesses(&name, &changed).unwrap_or_default()
        };
        assert_eq!(with(&|_| ()), "");
        assert!(with(&|c| c.retain(|(_, text)| text != SCORE)).contains("no cell `guesses.score(&lab)` follows"));
        let ask = ("code".to_owned(), "let rows: Option<u64> = None; // such as Some(4)".to_owned());
        assert!(with(&|c| c.push(ask.clone())).contains("`rows` is not among the guesses"));
        let late = ("code".to_owned(), "guesses.count(\"rows\", rows, None)".to_owned());
        assert!(with(&|c| c.extend([ask.clone(), late.clone()])).contains("follows the answer to `rows`"));
        let edit = |from: &'static str, to: &'static str| {
            with(&move |c: &mut Cells| c.iter_mut().for_each(|(_, text)| *text = text.replace(from, to)))
        };
        assert!(edit("Guesses::new(\"10_", "Guesses::new(\"11_").contains("not kept under its name"));
        assert!(edit("&guesses.kept_in(&run)", "&run").contains("without the guesses"));
    }

    /// Checks that outputs are complete without style: JupyterLab, GitHub and others remove `<svg>`, `<style>` and `data-` attributes from outputs that their
    /// reader has not produced.
    #[test]
    fn stored_outputs_say_all_they_say_without_style() {
        let (mut charts, mut outputs) = (0, 0);
        for (name, cell) in code_cells() {
            for output in cell["outputs"].as_array().unwrap() {
                let Some(lines) = output["data"]["text/html"].as_array() else { continue };
                let html: String = lines.iter().filter_map(serde_json::Value::as_str).collect();
                assert!(!html.contains("<svg") && !html.contains(" data-"), "{name}: {}", source(&cell));
                assert!(html.starts_with("<!-- Click to open this output -->\n"), "{name}: {}", source(&cell));
                for image in html.split("<img ").skip(1) {
                    let (_, alt) = image.split_once(" alt=\"").unwrap_or_else(|| panic!("{name}: {}", source(&cell)));
                    assert!(!alt.starts_with('"'), "{name}: {}", source(&cell));
                }
                charts += html.matches("src=\"data:image/svg+xml;base64,").count();
                outputs += 1;
            }
        }
        assert!(charts > 150 && outputs > 350, "{charts} charts in {outputs} outputs");
    }

    /// Checks that the X-rays of a lesson show nearly all of the time that the text describes.
    #[test]
    fn x_rays_in_stored_outputs_have_most_of_their_marks() {
        let missing = |output: &str| -> Vec<f64> {
            let sentences = output.match_indices(" no marks were kept").map(|(end, _)| &output[..end]);
            let shares = sentences.filter_map(|text| text.rsplit("For ").next());
            shares
                .flat_map(|text| text.split(" % of the time").filter_map(|t| t.split(' ').next_back()?.parse().ok()))
                .collect()
        };
        assert_eq!(
            missing("X. For 89 % of the time of gemm's warps no marks were kept; shares are of the rest."),
            [89.0]
        );
        let mut shares = 0;
        for (name, cell) in code_cells() {
            for percent in missing(&cell["outputs"].to_string()) {
                assert!(percent <= 10.0, "{name}: {percent} % of the time has no marks: {}", source(&cell));
                shares += 1;
            }
        }
        assert!(shares > 0, "no output has the sentence that is looked for");
    }

    /// Notebooks are downloaded with every clone, and GitHub does not show much larger ones.
    #[test]
    fn notebooks_with_their_outputs_stay_small() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../notebooks");
        let mut total = 0;
        for file in fs::read_dir(folder).unwrap().flatten().map(|e| e.path()) {
            if file.extension().is_some_and(|e| e == "ipynb") {
                let bytes = fs::metadata(&file).unwrap().len();
                assert!(bytes <= 1_000_000, "{}: {bytes} bytes", file.display());
                total += bytes;
            }
        }
        assert!(total <= 7_000_000, "{total} bytes");
        let mut styles: BTreeMap<String, usize> = BTreeMap::new();
        for (name, cell) in code_cells() {
            *styles.entry(name).or_default() += cell["outputs"].to_string().matches("<style>.wb{").count();
        }
        assert!(styles.values().all(|n| *n <= 1), "a style is stored once: cargo xtask notebooks --write: {styles:?}");
    }

    #[test]
    fn every_notebook_says_since_when_its_outputs_are_stored() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../notebooks");
        let line = EXECUTE.lines().find_map(|l| l.strip_prefix("STORED = \"")?.strip_suffix('"')).unwrap();
        let (before, after) = line.split_once("{}").unwrap();
        for file in fs::read_dir(folder).unwrap().flatten().map(|e| e.path()) {
            if file.extension().is_some_and(|e| e == "ipynb") {
                let book: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
                let first = source(&book["cells"][0]);
                assert!(first.contains(before) && first.contains(after), "{}", file.display());
            }
        }
    }

    #[test]
    fn the_last_line_is_the_result() {
        let run = parse("noise\n{\"cells\": 3, \"first_plot_s\": 1.5, \"tries_s\": [0.5], \"error\": null}\n").unwrap();
        let first_plot = Some(Duration::from_millis(1500));
        assert_eq!(run, Run { cells: 3, first_plot, tries_s: vec![0.5], error: None });
        assert!(
            of_tries(vec![3.0, 1.0, 2.0])
                .starts_with("3 cells with a try took 2.0 s in the median, 95 % of them at most 3.0 s")
        );
        let run = parse("{\"cells\": 0, \"first_plot_s\": null, \"tries_s\": [], \"error\": \"E: no\"}").unwrap();
        assert_eq!(run.error.as_deref(), Some("E: no"));
        assert_eq!(parse("Traceback (most recent call last)"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_late_or_missing_plot_is_an_error() {
        assert_eq!(too_late(Some(WARM_LIMIT), "warm", WARM_LIMIT), None);
        let late = too_late(Some(WARM_LIMIT + Duration::from_secs(1)), "warm", WARM_LIMIT).unwrap();
        assert!(late.contains("16 s") && late.contains("at most 15 s"), "{late}");
        assert!(too_late(None, "cold", COLD_LIMIT).is_some());
    }

    #[test]
    fn the_largest_notebook_begins_first() {
        let tmp = tempfile::tempdir().unwrap();
        let write = |name: &str, cells: usize| {
            let path = tmp.path().join(name);
            fs::write(&path, r#"{"cell_type": "code"}"#.repeat(cells)).unwrap();
            path
        };
        let notebooks = [write("small", 1), write("large", 30), write("middle", 2)];
        let order: Vec<_> = longest_first(&notebooks).iter().map(|p| p.file_name().unwrap()).collect();
        assert_eq!(order, ["large", "middle", "small"]);
    }

    #[test]
    fn a_tail_is_no_longer_than_its_text() {
        assert_eq!(tail("a\nb\nc", 2), "  b\n  c\n");
        assert_eq!(tail("a", 5), "  a\n");
    }
}
