//! The charts that a record has data for, and their file names.

use super::problems::{dtypes_with_library, lines};
use warpbook_charts::{Chart, ChartError, Options};
use warpbook_record::{ChartKind, PartGroup, Problem, Run};

/// Returns `true` if the chart shows logs of trainings.
pub fn is_of_training(chart: ChartKind) -> bool {
    use ChartKind::{Accuracy, GradientNorm, LearningRate, Loss, LossScale};
    matches!(chart, Loss | Accuracy | LossScale | LearningRate | GradientNorm)
}

/// Returns the training charts that the descriptor names and that have data, with their file names; losses come first.
pub fn training_charts(
    options: &Options,
    run: &Run,
    problem: &Problem,
) -> Vec<(&'static str, Result<Chart, ChartError>)> {
    let name = |kind| match kind {
        ChartKind::Accuracy => "accuracy",
        ChartKind::LossScale => "loss-scale",
        ChartKind::LearningRate => "learning-rate",
        ChartKind::GradientNorm => "gradient-norm",
        _ => "loss",
    };
    let others = run.descriptor.charts.iter().filter(|k| is_of_training(**k) && **k != ChartKind::Loss);
    let others = others.map(|k| (name(*k), options.chart_but_timeline(run, problem, *k))).filter(|(_, c)| c.is_ok());
    std::iter::once(("loss", options.chart_but_timeline(run, problem, ChartKind::Loss))).chain(others).collect()
}

/// Returns the file name of a chart in the tab "Breakdown"; `None` for other charts.
pub fn breakdown_name(chart: ChartKind) -> Option<String> {
    match chart {
        ChartKind::Breakdown => Some("run".into()),
        ChartKind::Timeline => Some("timeline".into()),
        _ => part_group(chart).map(|(_, name)| name.into()),
    }
}

/// Returns the group of parts that a chart shows, and its file name; `None` if it shows none.
pub fn part_group(chart: ChartKind) -> Option<(PartGroup, &'static str)> {
    match chart {
        ChartKind::Operations => Some((PartGroup::Operation, "Operation")),
        ChartKind::Ablation => Some((PartGroup::Ablation, "Ablation")),
        ChartKind::Tiles => Some((PartGroup::Tile, "Tile")),
        ChartKind::Transfers => Some((PartGroup::Transfer, "Transfer")),
        _ => None,
    }
}

/// Returns `true` if a record has data for a chart.
pub fn has_data(run: &Run, chart: ChartKind) -> bool {
    match chart {
        ChartKind::Sweep => !lines(run).is_empty(),
        ChartKind::HeatMap => !dtypes_with_library(run).is_empty(),
        ChartKind::Roofline => run.measurements.iter().any(|m| !m.traffic.is_empty()),
        ChartKind::Breakdown => !run.breakdowns.is_empty(),
        ChartKind::Timeline => !run.spans.is_empty(),
        ChartKind::Xray => !run.xrays.is_empty(),
        _ if is_of_training(chart) => !run.train_logs.is_empty(),
        _ => part_group(chart).is_none_or(|(group, _)| run.parts.iter().any(|p| p.group == group)),
    }
}
