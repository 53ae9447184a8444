use crate::display::html::{Facts, details, escape, heading, note, picture, printable, scroll, table};
use crate::display::results::counters;
use crate::display::{Show, figures};
use warpbook_charts::{Chart, LadderTable, LadderTableRow, Table, ladder_table};
use warpbook_record::{DeviceKind, LossPoint, Measurement, Outcome, Problem, Run, Runner, TrainLog};

/// Describes the outcome of a measurement.
fn outcome(m: &Measurement) -> String {
    match &m.outcome {
        Outcome::Measured => "measured".into(),
        Outcome::Skipped { why } => format!("skipped: {why}"),
        Outcome::Failed { error } => format!("failed: {error}"),
    }
}

/// Returns the ladder's table as HTML. The best row is highlighted; in a row without a time, the reason spans the
/// columns.
fn ladder_html(run: &Run, problem: &Problem) -> String {
    let table = LadderTable::for_problem(run, problem);
    let class = |numeric: bool| if numeric { " class=\"wb-num\"" } else { "" };
    let head: String = (table.headers.iter())
        .map(|h| format!("<th scope=\"col\"{}>{}</th>", class(h.numeric), escape(&h.text)))
        .collect();
    let row = |row: &LadderTableRow| {
        let first = format!("<td>{}</td>", escape(&row.rung));
        if let Some(why) = &row.note {
            return format!(
                "<tr class=\"wb-out\">{first}<td class=\"wb-why\" colspan=\"{}\">{}</td></tr>",
                table.headers.len(),
                escape(why)
            );
        }
        let cells: String = (row.cells.iter().zip(&table.headers))
            .map(|(c, h)| format!("<td{}>{}</td>", class(h.numeric), escape(&c.text)))
            .collect();
        let of_row = if row.fastest { " class=\"wb-best\"" } else { "" };
        format!("<tr{of_row}>{first}{cells}</tr>")
    };
    let body: String = table.rows.iter().map(row).collect();
    format!(
        "<div class=\"wb-scroll\"><table class=\"wb-table\"><thead><tr><th scope=\"col\">rung</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}

fn title(run: &Run) -> String {
    let title = if run.title.is_empty() { &run.experiment } else { &run.title };
    format!("{title} on {}", run.environment.device.name)
}

/// Returns notices that a reader of the figures needs.
fn notices(run: &Run) -> Vec<String> {
    let mut notices = Vec::new();
    let ran = |m: &&Measurement| m.outcome == Outcome::Measured;
    let by_cpu = |m: &Measurement| matches!(run.rung(&m.rung).map(|r| &r.runner), Some(Runner::Cpu(_)));
    if run.environment.device.kind == DeviceKind::Cpu {
        let rungs = if run.measurements.is_empty() { "" } else { "; the GPU's rungs are listed as skipped" };
        notices.push(format!("This record was made on a CPU{rungs}."));
    }
    if run.environment.device.kind == DeviceKind::Emulator {
        notices.push("This record was made in the emulator: results were checked, and nothing was timed.".into());
    }
    if run.environment.debug_assertions && run.measurements.iter().filter(ran).any(by_cpu) {
        notices.push(warpbook_charts::DEBUG_ASSERTIONS.into());
    }
    if let Some(clocks) = run.environment.clocks.as_ref().filter(|c| !c.throttling.is_empty()) {
        notices.push(format!("The GPU's clocks were limited during the run by: {}.", clocks.throttling.join(", ")));
    }
    notices.extend(run.notes.iter().cloned());
    notices
}

/// Returns the record's problems, starting with the problem that the ladder shows.
fn problems(run: &Run) -> Vec<&Problem> {
    let Some(main) = run.main_problem().filter(|_| !run.measurements.is_empty()) else { return Vec::new() };
    std::iter::once(main).chain(run.problems().into_iter().filter(|p| *p != main)).collect()
}

impl Show for Run {
    fn html(&self) -> String {
        let mut out = heading(&title(self));
        for (i, problem) in problems(self).into_iter().enumerate() {
            let ladder = ladder_html(self, problem);
            match i {
                0 => out += &format!("<p>{}</p>{ladder}", escape(&problem.label)),
                _ => out += &details(&problem.label, &ladder),
            }
        }
        match self.measurements.is_empty() {
            true if self.train_logs.is_empty() => out += "<p>Nothing was measured.</p>",
            true => out.extend(self.train_logs.iter().map(Show::html)),
            false => {}
        }
        let counted = counters::of_rungs(self);
        out.extend(counted.iter().map(|(title, table)| details(title, &scroll(table))));
        if !counted.is_empty() {
            out += &note(&counters::meaning(self));
        }
        out.extend(notices(self).iter().map(|n| note(n)));
        out += &details("Where it was made, and how it is repeated", &environment(self).html());
        out
    }

    fn text(&self) -> String {
        let mut parts = vec![printable(&title(self))];
        for problem in problems(self) {
            parts.push(format!("{}\n{}", problem.label, ladder_table(self, problem).text()));
            parts.extend(fits(self, problem));
        }
        match self.measurements.is_empty() {
            true if self.train_logs.is_empty() => parts.push("Nothing was measured.".into()),
            true => parts.extend(self.train_logs.iter().map(Show::text)),
            false => {}
        }
        let counted = counters::of_rungs(self);
        parts.extend(counted.iter().map(|(title, table)| format!("{}\n{}", printable(title), table.text())));
        if !counted.is_empty() {
            parts.push(printable(&counters::meaning(self)));
        }
        parts.extend(notices(self).iter().map(|n| printable(n)));
        parts.join("\n\n")
    }
}

/// Maximum number of parameters that are shown individually.
const MOST_PARAMETERS: usize = 4;

/// Returns the final loss of each descent on a problem, and the logged losses of the fastest; `None` if there are no
/// descents.
fn fits(run: &Run, problem: &Problem) -> Option<String> {
    let logs: Vec<&TrainLog> =
        run.train_logs.iter().filter(|l| l.problem == *problem && !l.parameters.is_empty()).collect();
    let names: Vec<&str> = logs.first()?.parameters.keys().map(String::as_str).collect();
    // Parameters are listed as w, b: the constant comes last.
    let (last, mut names): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|n| *n == "b");
    names.extend(last);
    names.truncate(if names.len() > MOST_PARAMETERS { 0 } else { MOST_PARAMETERS });
    let row = |l: &&TrainLog| {
        let values = names.iter().map(|n| l.parameters.get(*n).map(|v| format!("{v:.6}")).unwrap_or_default());
        let losses = [l.train_loss, l.test_loss].map(|v| if v.is_nan() { String::new() } else { figures::number(v) });
        std::iter::once(printable(&l.rung)).chain(values).chain(losses).collect()
    };
    let headers = ["rung"].into_iter().chain(names.iter().copied()).chain(["training loss", "test loss"]);
    let table = Table { headers: headers.map(printable).collect(), rows: logs.iter().map(row).collect() };
    let fastest = run.fastest(problem).and_then(|m| logs.iter().find(|l| l.rung == m.rung)).or_else(|| logs.first())?;
    let point = |p: &LossPoint| format!("{} in epoch {}", figures::number(p.loss), p.epoch);
    let logged = fastest.losses.iter().map(point).collect::<Vec<_>>().join(", ");
    let logged = if logged.is_empty() { logged } else { format!("\n\nLosses of {}: {logged}.", fastest.rung) };
    Some(format!("Fitted:\n{}{}", table.text(), printable(&logged)))
}

/// Returns facts about the record other than its figures.
fn environment(run: &Run) -> Facts {
    let e = &run.environment;
    Facts::new()
        .add("created", run.created.clone())
        .maybe("driver", e.driver.clone())
        .maybe("CUDA of the driver", e.cuda.clone())
        .maybe("NVRTC", e.nvrtc.clone())
        .add("CPU", format!("{}, {} threads", e.cpu, e.cpu_threads))
        .add("system", e.os.clone())
        .add("Warpbook", e.warpbook.clone())
        .maybe("commit", e.commit.clone())
        .add("repeated by", run.command.clone())
}

impl Show for Chart {
    fn html(&self) -> String {
        format!("<figure>{}{}</figure>", picture(self), details("The figures", &scroll(&self.table)))
    }

    fn text(&self) -> String {
        format!("{}\n{}\n\n{}", printable(&self.title), printable(&self.description), self.table.text())
    }
}

impl Show for Table {
    fn html(&self) -> String {
        scroll(self)
    }

    fn text(&self) -> String {
        Self::text(self)
    }
}

fn measurement_facts(m: &Measurement) -> Facts {
    let samples = match m.samples_total.max(m.samples_us.len() as u64) {
        0 => None,
        n => Some(n.to_string()),
    };
    let check = m.check.as_ref().map(|c| {
        let verdict = if c.passed { "passed" } else { "FAILED" };
        let (error, bound) = (figures::number(c.max_rel_error), figures::number(c.tolerance));
        format!("{verdict}: relative error {error}, tolerance {bound}, against {}", c.reference)
    });
    let valid = m.is_valid();
    Facts::new()
        .add("rung", m.rung.clone())
        .add("work", m.problem.label.clone())
        .maybe("tile", m.tile.clone())
        .add("outcome", outcome(m))
        .maybe("median", m.median_us().map(figures::time))
        .maybe("MAD", m.mad_us().map(figures::time))
        .maybe("samples", samples)
        .maybe("wall time, median", m.median_wall_us().map(figures::time))
        .maybe("a pass", m.pass_us().map(figures::time))
        .maybe("effective bandwidth", m.effective_bytes_per_s().filter(|_| valid).map(figures::bandwidth))
        .maybe("peak memory", m.peak_bytes.map(figures::bytes))
        .maybe("check", check)
}

fn kernels_table(m: &Measurement) -> Option<Table> {
    let rows: Vec<[String; 6]> = m
        .kernels
        .iter()
        .map(|k| {
            [
                k.entry.clone(),
                k.architecture.clone(),
                k.registers.to_string(),
                figures::bytes(u64::from(k.static_shared_bytes) + u64::from(k.dynamic_shared_bytes)),
                figures::bytes(u64::from(k.spill_store_bytes) + u64::from(k.spill_load_bytes)),
                k.occupancy.map(figures::percent).unwrap_or_default(),
            ]
        })
        .collect();
    let headers = ["kernel", "architecture", "registers", "shared memory", "spills", "occupancy"];
    (!rows.is_empty()).then(|| table(headers, rows))
}

impl Show for Measurement {
    fn html(&self) -> String {
        measurement_facts(self).html() + &kernels_table(self).map(|t| scroll(&t)).unwrap_or_default()
    }

    fn text(&self) -> String {
        let kernels = kernels_table(self).map(|t| format!("\n\n{}", t.text()));
        measurement_facts(self).text() + &kernels.unwrap_or_default()
    }
}

fn training_facts(l: &TrainLog) -> Facts {
    let parameters: Vec<String> = l.parameters.iter().map(|(name, v)| format!("{name} = {v:.6}")).collect();
    if let Some(course) = &l.course {
        return crate::display::nn::trainings::facts(l, course);
    }
    Facts::new()
        .add("rung", l.rung.clone())
        .add("work", l.problem.label.clone())
        .maybe("parameters", Some(parameters.join(", ")).filter(|p| !p.is_empty()))
        .add("loss on the training points", figures::number(l.train_loss))
        // The loss is NaN if there are no test points.
        .maybe(
            "loss on the test points",
            Some(l.test_loss).filter(|t| !t.is_nan() || l.diverged()).map(figures::number),
        )
}

fn losses_table(l: &TrainLog) -> Table {
    let by_step = l.losses.iter().all(|p| p.step.is_some());
    let place = |p: &LossPoint| p.step.filter(|_| by_step).unwrap_or(p.epoch).to_string();
    let rows = l.losses.iter().map(|p| [place(p), figures::number(p.loss)]).collect();
    table([if by_step { "step" } else { "epoch" }, "loss"], rows)
}

const DIVERGED: &str = "The training diverged: its loss is no longer a finite number. Try a smaller learning rate.";

impl Show for TrainLog {
    fn html(&self) -> String {
        let diverged = if self.diverged() { note(DIVERGED) } else { String::new() };
        let epochs = crate::display::nn::trainings::epochs(self).map(|t| scroll(&t)).unwrap_or_default();
        training_facts(self).html() + &epochs + &diverged + &details("The logged losses", &scroll(&losses_table(self)))
    }

    fn text(&self) -> String {
        let diverged = if self.diverged() { format!("\n{DIVERGED}") } else { String::new() };
        let epochs =
            crate::display::nn::trainings::epochs(self).map(|t| format!("\n\n{}", t.text())).unwrap_or_default();
        format!("{}{epochs}{diverged}\n\n{}", training_facts(self).text(), losses_table(self).text())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use warpbook_experiments::Regression;
    use warpbook_kernels::regression::rungs;
    use warpbook_lab::Experiment;
    use warpbook_record::{Check, Environment, L2State, Policy, TimedBy};

    fn experiment() -> Regression {
        Regression::new()
    }

    fn problem() -> Problem {
        experiment().problems().remove(0)
    }

    /// Returns a record with measurements on the CPU and on a GPU, including a failed and a skipped one. Its texts
    /// contain HTML that must be escaped.
    pub(crate) fn sample_run() -> Run {
        let measured = |rung: &str, us: f64| {
            let mut m = Measurement::without_samples(rung, problem(), Outcome::Measured);
            m.set_samples(vec![us], vec![us]);
            m.check = Some(Check::compare("f64", &[(1.0, 1.0)], 1.0, 1e-3));
            m
        };
        let without = |rung: &str, outcome| Measurement::without_samples(rung, problem(), outcome);
        let device = warpbook_device::Device::open(warpbook_device::Choice::Cpu).unwrap().info().clone();
        let environment = Environment {
            device,
            driver: None,
            cuda: None,
            nvrtc: None,
            clocks: None,
            cpu: "c".into(),
            cpu_threads: 2,
            os: "o".into(),
            warpbook: "0".into(),
            commit: None,
            debug_assertions: true,
            libraries: Vec::new(),
        };
        let policy = Policy {
            timed_by: TimedBy::WallClock,
            l2: L2State::Warm,
            warmup: 1,
            samples: 1,
            budget_s: 1.0,
            batch_below_us: 50.0,
            inputs: "i".into(),
        };
        Run {
            command: "warpbook run '<b>'".into(),
            descriptor: experiment().plan(None).unwrap().descriptor,
            problems: vec![problem()],
            rungs: rungs().into_iter().filter(|r| r.id != "01_unfused").collect(),
            measurements: vec![
                measured("cpu_1_thread", 200_000.0),
                measured("02_fused", 4_000.0),
                without("04_fused_graph", Outcome::Failed { error: "the <b>descent</b> diverged".into() }),
                without("01_unfused", Outcome::Skipped { why: "needs a GPU\u{1b}[2J".into() }),
            ],
            notes: vec!["a <script> note".into()],
            ..Run::empty("regression", "<i>Fused</i>", environment, policy)
        }
    }

    #[test]
    fn a_run_shows_its_ladder_and_its_notices() {
        let run = sample_run();
        let text = run.text();
        for part in [
            "200 ms",
            "4.00 ms",
            "50.0×",
            "failed: the <b>descent</b>",
            "debug assertions",
            "on a CPU",
            "a <script> note",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'));
        let html = run.html();
        for bad in ["<script", "<b>", "<i>", "\u{1b}"] {
            assert!(!html.contains(bad), "{bad}: {html}");
        }
        assert!(html.contains("<tr class=\"wb-best\"><td>02_fused</td>"), "{html}");
        assert!(html.contains("<tr class=\"wb-out\"><td>04_fused_graph</td>"), "{html}");
    }

    #[test]
    fn a_fit_shows_its_parameters_and_losses() {
        let log = |rung: &str, w| TrainLog {
            rung: rung.into(),
            problem: problem(),
            losses: [(10, 9.5), (20, 0.25)].map(|(epoch, loss)| LossPoint { epoch, step: None, loss }).into(),
            parameters: BTreeMap::from([("b".into(), 1.25), ("w".into(), w)]),
            train_loss: 0.125,
            test_loss: f64::NAN,
            course: None,
        };
        let mut run = sample_run();
        assert!(!run.text().contains("Fitted"));
        run.train_logs = vec![log("cpu_1_thread", 2.75), log("02_fused", 3.0)];
        let text = run.text();
        let row = |start: &str| {
            let line = text[text.find("Fitted").unwrap()..].lines().find(|l| l.starts_with(start)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("rung"), ["rung", "w", "b", "training", "loss", "test", "loss"]);
        assert_eq!(row("02_fused"), ["02_fused", "3.000000", "1.250000", "0.125"]);
        assert!(text.contains("Losses of 02_fused: 9.50 in epoch 10, 0.250 in epoch 20."), "{text}");
        // With many weights, they are not listed.
        run.train_logs[0].parameters.extend((0..9).map(|i| (format!("w{i}"), 1.0)));
        assert!(run.text().lines().any(|l| l.starts_with("cpu_1_thread") && l.ends_with("0.125")), "{}", run.text());
    }

    #[test]
    fn a_run_without_measurements_is_shown_too() {
        let mut run = sample_run();
        run.measurements.clear();
        assert!(run.text().contains("Nothing was measured.") && run.html().contains("Nothing was measured."));
    }

    #[test]
    fn a_measurement_and_its_kernels_are_shown() {
        let mut m = sample_run().measurements.swap_remove(1);
        m.kernels.push(warpbook_record::KernelStats { entry: "<pass>".into(), registers: 40, ..Default::default() });
        assert!(m.text().contains("passed: relative error 0") && m.text().contains("40"), "{}", m.text());
        assert!(m.html().contains("&lt;pass&gt;"));
    }

    #[test]
    fn a_diverged_training_says_so() {
        let log = |loss| TrainLog {
            rung: "r".into(),
            problem: problem(),
            losses: vec![LossPoint { epoch: 10, step: None, loss }],
            parameters: BTreeMap::from([("w".into(), 3.0)]),
            train_loss: loss,
            test_loss: f64::NAN,
            course: None,
        };
        assert!(log(f64::NAN).text().contains("diverged") && log(f64::NAN).text().contains("not a number"));
        assert!(log(f64::NAN).html().contains("wb-note"));
        assert!(!log(0.01).text().contains("diverged") && log(0.01).text().contains("w = 3.000000"));
        assert!(!log(0.01).text().contains("test points"));
    }

    #[test]
    fn a_chart_has_its_picture_and_its_figures() {
        let run = sample_run();
        let chart = warpbook_charts::draw().ladder(&run, &problem(), warpbook_charts::Quantity::Time);
        let html = chart.html();
        assert!(
            html.contains("<img src=\"data:image/svg+xml;base64,")
                && html.contains("<details><summary>The figures</summary>"),
            "{html}"
        );
        assert!(chart.text().lines().count() > 4, "{}", chart.text());
        let nothing = warpbook_charts::draw().sweep(&[]);
        assert!(nothing.is_err() && nothing.html().contains("wb-error"));
    }

    #[test]
    fn lines_stand_against_speed() {
        let table = crate::display::lines_against_speed(&sample_run());
        let row = table.rows.iter().find(|r| r[0] == "Fused").unwrap();
        assert!(row[1].parse::<usize>().unwrap() > 20 && row[3] == "50.0×", "{row:?}");
        assert_eq!(table.rows.iter().find(|r| r[0] == "CPU, one thread").unwrap()[1], "");
    }
}
