//! The display of trainings: a row of charts, and the results.

use crate::display::html::{Facts, heading, note, printable, table};
use crate::display::{Panel, Show, figures};
use warpbook_charts::{Chart, Table};
use warpbook_experiments::TrainingRun;
use warpbook_record::{Course, EpochPoint, Run, TrainLog};

/// Returns the facts about a training: settings and results.
pub(crate) fn facts(log: &TrainLog, course: &Course) -> Facts {
    let last = course.epochs.last();
    let steps = match course.first_step {
        0 => course.steps.to_string(),
        first => format!("{}, of which {first} were made before", course.steps),
    };
    let skipped = (!course.loss_scales.is_empty()).then(|| match course.skipped_total {
        0 => "none".to_owned(),
        n => format!("{n}, since a gradient had overflowed"),
    });
    let seconds = if course.total_s.is_finite() { figures::time(course.total_s * 1e6) } else { String::new() };
    let recipe: Vec<String> = course.recipe.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    Facts::new()
        .add("work", log.problem.label.clone())
        .add("samples", course.data.clone())
        .maybe("test accuracy", last.and_then(accuracy))
        .maybe("test loss", Some(log.test_loss).filter(|l| !l.is_nan()).map(figures::number))
        .add("training loss", figures::number(log.train_loss))
        .add("steps", steps)
        .maybe("skipped steps", skipped)
        .add("total time", seconds)
        .maybe("kernels chosen and compiled before, in", course.planning_s.map(|s| figures::time(s * 1e6)))
        .maybe("peak bytes allocated", course.peak_allocated_bytes.map(figures::bytes))
        .maybe("peak bytes reserved", course.peak_reserved_bytes.map(figures::bytes))
        .add("ended", course.ended.clone())
        .add("recipe", recipe.join("; "))
}

/// Formats an accuracy, such as "98.93 % (9893 of 10000)".
fn accuracy(point: &EpochPoint) -> Option<String> {
    let right = point.test?;
    Some(format!("{:.2} % ({} of {})", 100.0 * right.accuracy()?, right.correct, right.of))
}

/// Returns a table of a training's evaluations.
pub(crate) fn epochs(log: &TrainLog) -> Option<Table> {
    let course = log.course.as_ref().filter(|c| !c.epochs.is_empty())?;
    let row = |p: &EpochPoint| {
        [
            p.epoch.to_string(),
            p.step.to_string(),
            figures::number(p.seconds),
            figures::number(p.train_loss),
            figures::number(p.test_loss),
            accuracy(p).unwrap_or_default(),
        ]
    };
    let headers = ["epoch", "step", "seconds", "training loss", "test loss", "test accuracy"];
    Some(table(headers, course.epochs.iter().map(row).collect()))
}

/// Draws the charts that the record's descriptor lists and that the record has data for.
fn charts(run: &Run) -> Vec<Chart> {
    let Some(problem) = run.main_problem() else { return Vec::new() };
    run.descriptor.charts.iter().filter_map(|kind| warpbook_charts::draw().chart(run, problem, *kind).ok()).collect()
}

impl Show for TrainingRun {
    fn html(&self) -> String {
        let run = self.record();
        let row = charts(run).iter().fold(Panel::row([]), |panel, chart| panel.and(chart));
        let log = self.log();
        let facts = log.course.as_ref().map(|c| facts(log, c).html()).unwrap_or_default();
        let notes: String = notes(self).iter().map(|n| note(n)).collect();
        format!("{}{}{notes}{facts}", heading(&title(run)), row.html())
    }

    fn text(&self) -> String {
        let run = self.record();
        let notes: String = notes(self).iter().map(|n| format!("\n\n{}", printable(n))).collect();
        let log = self.log();
        let facts = log.course.as_ref().map(|c| facts(log, c).text()).unwrap_or_default();
        let epochs = epochs(log).map(|t| format!("\n\n{}", t.text())).unwrap_or_default();
        format!("{}{notes}\n\n{facts}{epochs}", printable(&title(run)))
    }
}

/// Returns the record's notes, and the reason if the record could not be written.
fn notes(training: &TrainingRun) -> Vec<String> {
    let unwritten = training.written().and_then(Result::err).map(ToString::to_string);
    training.record().notes.iter().cloned().chain(unwritten).collect()
}

fn title(run: &Run) -> String {
    format!("{} on {}", run.title, run.environment.device.name)
}
