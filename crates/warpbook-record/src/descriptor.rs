use crate::MemoryLevel;
use serde::{Deserialize, Serialize};

/// A figure that rungs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// How many times as fast as the baseline; longer is better.
    SpeedUp,
    /// Effective bandwidth: the problem's bytes over the time; longer is better.
    Bandwidth,
    /// FLOP/s, counting each rung's own operations; longer is better.
    Throughput,
    /// The problem's items a second, as images; longer is better.
    ItemRate,
    /// The most memory of the device that was held; shorter is better.
    PeakMemory,
    /// Median time of the timed region; shorter is better. Also what a version shows that does not know the quantity.
    #[default]
    #[serde(other)]
    Time,
}

/// What speed-ups are relative to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The fastest GPU library; the first valid rung where no library was measured.
    FastestLibrary,
    /// The rung of that id; the first valid rung where it was not measured.
    Rung(String),
    /// The first rung of the ladder that has a valid measurement. Also what a version uses that does not know the baseline.
    #[default]
    #[serde(other)]
    FirstValid,
}

/// The axis of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepAxis {
    /// Its caption, as "points".
    #[serde(default)]
    pub caption: String,
    /// What follows a size in a sentence, as "points"; empty where the size says it all.
    #[serde(default)]
    pub unit: String,
    /// Whether its ticks double from one to the next, as for edges of matrices; else they are powers of ten.
    #[serde(default)]
    pub doubling: bool,
}

/// A column of the ladder's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Column {
    /// Median time.
    Median,
    /// Median absolute deviation of the samples.
    Mad,
    /// Median time by the host's clock.
    Wall,
    /// Time of one pass, as of an epoch.
    PassTime,
    /// Times as fast as the baseline.
    SpeedUp,
    /// FLOP/s.
    Throughput,
    /// Effective bandwidth.
    Bandwidth,
    /// Items a second.
    ItemRate,
    /// Times as fast as the fastest GPU library.
    OfLibrary,
    /// Percent of the rung's bound.
    OfBound,
    /// What bounds the rung.
    BoundBy,
    /// The check.
    Check,
    /// The tile.
    Tile,
    /// Samples taken.
    Samples,
    /// The most memory of the device that was held.
    PeakMemory,
    /// Mean accuracy of the trainings that the samples are, with its standard deviation.
    Accuracy,
    /// One that this version does not know; it is left out.
    #[serde(other)]
    Other,
}

impl Column {
    /// All of them, [`Column::Other`] last.
    pub const ALL: [Self; 17] = [
        Self::Median,
        Self::Mad,
        Self::Wall,
        Self::PassTime,
        Self::SpeedUp,
        Self::Throughput,
        Self::Bandwidth,
        Self::ItemRate,
        Self::OfLibrary,
        Self::OfBound,
        Self::BoundBy,
        Self::Check,
        Self::Tile,
        Self::Samples,
        Self::PeakMemory,
        Self::Accuracy,
        Self::Other,
    ];
}

/// A chart that an experiment's records have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChartKind {
    /// Every rung at one problem.
    Ladder,
    /// The headline quantity over the sweep's axis.
    Sweep,
    /// Problems against rungs, each cell a ratio to the fastest library.
    HeatMap,
    /// FLOP/s over FLOP/byte, below the measured roofs.
    Roofline,
    /// The operations that a pass consists of.
    Operations,
    /// What leaving a part out saves.
    Ablation,
    /// The tiles of each rung.
    Tiles,
    /// Copies to the device and back, next to the time of the work.
    Transfers,
    /// The loss over the training.
    Loss,
    /// The share of samples that are classified right, over the epochs.
    Accuracy,
    /// What the loss was scaled by, with the steps that were skipped.
    LossScale,
    /// The learning rate over the steps.
    LearningRate,
    /// The norm of the gradients over the steps.
    GradientNorm,
    /// What the device did in one run of a rung, operation by operation, and when it did nothing.
    Breakdown,
    /// The same over time: each kernel, copy and fill.
    Timeline,
    /// What every SM did in one run of a rung, block by block and phase by phase.
    Xray,
    /// One that this version does not know; it is left out.
    #[serde(other)]
    Other,
}

impl ChartKind {
    /// All of them, [`ChartKind::Other`] last.
    pub const ALL: [Self; 17] = [
        Self::Ladder,
        Self::Sweep,
        Self::HeatMap,
        Self::Roofline,
        Self::Operations,
        Self::Ablation,
        Self::Tiles,
        Self::Transfers,
        Self::Loss,
        Self::Accuracy,
        Self::LossScale,
        Self::LearningRate,
        Self::GradientNorm,
        Self::Breakdown,
        Self::Timeline,
        Self::Xray,
        Self::Other,
    ];
}

/// How an experiment's records are read: what differs between experiments, as data, so that charts, page and command line know
/// none by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Descriptor {
    /// The quantity that is shown first.
    #[serde(default)]
    pub headline: Quantity,
    /// All quantities that make sense, in the order they are offered.
    #[serde(default)]
    pub quantities: Vec<Quantity>,
    /// What speed-ups are relative to.
    #[serde(default)]
    pub baseline: Baseline,
    /// The axis of a sweep.
    #[serde(default)]
    pub axis: SweepAxis,
    /// Columns of the ladder's table after the rung, in their order.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// The charts that records have, in their order.
    #[serde(default)]
    pub charts: Vec<ChartKind>,
    /// What one pass over the inputs is called, as "epoch".
    #[serde(default)]
    pub pass: String,
    /// What items are called, as "images".
    #[serde(default)]
    pub item: String,
    /// Levels of memory whose ceilings are drawn in a sweep's chart.
    #[serde(default)]
    pub levels: Vec<MemoryLevel>,
    /// What the loss is, as "mean squared error on the training points".
    #[serde(default)]
    pub loss: String,
    /// Why a rung may exceed 100 % of bound, where its bytes are counted in a way that allows that.
    #[serde(default)]
    pub above_bound: String,
    /// The rungs whose ratio is the point of the record, the slow way and the fast one; empty where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<String>,
    /// What samples are, in the plural, where each is more than a repetition of the same, as "seeds"; empty elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample: String,
}

impl Default for Descriptor {
    /// Time, speed-up over the first valid rung and effective bandwidth: what fits any experiment.
    fn default() -> Self {
        use Column::{Check, Mad, Median, OfBound, SpeedUp};
        Self {
            headline: Quantity::Time,
            quantities: vec![Quantity::Time, Quantity::SpeedUp, Quantity::Bandwidth],
            baseline: Baseline::FirstValid,
            axis: SweepAxis { caption: "size".into(), ..SweepAxis::default() },
            columns: vec![Median, Mad, SpeedUp, Column::Bandwidth, OfBound, Check],
            charts: vec![ChartKind::Ladder, ChartKind::Sweep, ChartKind::Roofline],
            pass: String::new(),
            item: String::new(),
            levels: vec![MemoryLevel::Dram, MemoryLevel::L2],
            loss: String::new(),
            above_bound: String::new(),
            compared: Vec::new(),
            sample: String::new(),
        }
    }
}

impl Descriptor {
    /// Whether its records have a chart.
    #[must_use]
    pub fn has(&self, chart: ChartKind) -> bool {
        self.charts.contains(&chart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variants that are named; it does not compile without one of them.
    macro_rules! all {
        ($of:ident: $($name:ident)*) => {{
            let _ = |one: $of| match one { $($of::$name => {})* };
            [$($of::$name),*]
        }};
    }

    #[test]
    fn all_columns_and_charts_are_listed() {
        let columns = all![
            Column: Median Mad Wall PassTime SpeedUp Throughput Bandwidth ItemRate OfLibrary OfBound BoundBy Check Tile Samples PeakMemory Accuracy Other
        ];
        assert_eq!(Column::ALL, columns);
        let charts = all![
            ChartKind: Ladder Sweep HeatMap Roofline Operations Ablation Tiles Transfers Loss Accuracy LossScale LearningRate GradientNorm
                Breakdown Timeline Xray Other
        ];
        assert_eq!(ChartKind::ALL, charts);
    }
}
