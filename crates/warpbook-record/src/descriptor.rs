use crate::MemoryLevel;
use serde::{Deserialize, Serialize};

/// A quantity that rungs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Speed-up over the baseline; longer bars are better.
    SpeedUp,
    /// Effective bandwidth: the problem's bytes over the time; longer bars are better.
    Bandwidth,
    /// FLOP/s, counting each rung's own operations; longer bars are better.
    Throughput,
    /// Items per second, such as images; longer bars are better.
    ItemRate,
    /// Peak memory, the largest amount of device memory in use; shorter bars are better.
    PeakMemory,
    /// Median time of the timed region; shorter bars are better. A quantity that this version does not know is also read as this one.
    #[default]
    #[serde(other)]
    Time,
}

/// The measurement that speed-ups are relative to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The fastest GPU library; the first valid rung if no library was measured.
    FastestLibrary,
    /// The rung with this id; the first valid rung if it was not measured.
    Rung(String),
    /// The first rung of the ladder that has a valid measurement. A baseline that this version does not know is also read as this one.
    #[default]
    #[serde(other)]
    FirstValid,
}

/// The axis of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepAxis {
    /// Caption of the axis, such as "points".
    #[serde(default)]
    pub caption: String,
    /// Unit that follows a size in a sentence, such as "points"; empty if the size needs none.
    #[serde(default)]
    pub unit: String,
    /// True if ticks double from one to the next, as for edges of matrices; otherwise they are powers of ten.
    #[serde(default)]
    pub doubling: bool,
}

/// A column of the ladder's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Column {
    /// Median time of the samples.
    Median,
    /// Median absolute deviation of the samples.
    Mad,
    /// Median time by the host's clock.
    Wall,
    /// Time of one pass over the inputs, such as an epoch.
    PassTime,
    /// Speed-up over the baseline.
    SpeedUp,
    /// Floating-point operations per second (FLOP/s).
    Throughput,
    /// Effective bandwidth.
    Bandwidth,
    /// Items processed per second.
    ItemRate,
    /// Speed-up over the fastest GPU library.
    OfLibrary,
    /// Percent of its bound that the rung reaches.
    OfBound,
    /// The level of memory or the arithmetic that bounds the rung.
    BoundBy,
    /// Result of the check.
    Check,
    /// Id of the tile.
    Tile,
    /// Number of samples.
    Samples,
    /// Peak memory, the largest amount of device memory in use.
    PeakMemory,
    /// Mean accuracy and its standard deviation, if each sample is a training.
    Accuracy,
    /// A column that this version does not know; it is left out.
    #[serde(other)]
    Other,
}

impl Column {
    /// All columns; [`Column::Other`] is the last one.
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

/// A kind of chart that an experiment's records have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChartKind {
    /// The rungs at one problem as bars.
    Ladder,
    /// The headline quantity over the sweep's axis.
    Sweep,
    /// A heat map of problems against rungs, in which each cell is a ratio to the fastest library.
    HeatMap,
    /// FLOP/s over FLOP/byte, below the measured roofs.
    Roofline,
    /// The times of the operations of a pass.
    Operations,
    /// The time that is saved by leaving out a part.
    Ablation,
    /// The times of each rung's tiles.
    Tiles,
    /// The times of copies to the device and back, next to the time of the work.
    Transfers,
    /// The loss over the training.
    Loss,
    /// The share of correctly classified samples, over the epochs.
    Accuracy,
    /// The loss scale, with the skipped steps.
    LossScale,
    /// The learning rate over the steps.
    LearningRate,
    /// The norm of the gradients over the steps.
    GradientNorm,
    /// The device's activity in one run of a rung, operation by operation, and its idle time.
    Breakdown,
    /// The device's activity over time: each kernel, copy and fill.
    Timeline,
    /// The activity of every SM in one run of a rung, block by block and phase by phase.
    Xray,
    /// A chart that this version does not know; it is left out.
    #[serde(other)]
    Other,
}

impl ChartKind {
    /// All kinds of charts; [`ChartKind::Other`] is the last one.
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

/// Tells readers how to show an experiment's records. It stores the differences between experiments as data, so that charts, page and command line contain no
/// code for individual experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Descriptor {
    /// Quantity that is shown first.
    #[serde(default)]
    pub headline: Quantity,
    /// All meaningful quantities, in the order in which they are offered.
    #[serde(default)]
    pub quantities: Vec<Quantity>,
    /// Baseline of the speed-ups.
    #[serde(default)]
    pub baseline: Baseline,
    /// Axis of a sweep.
    #[serde(default)]
    pub axis: SweepAxis,
    /// Columns of the ladder's table after the rung, in order.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// Charts of the records, in order.
    #[serde(default)]
    pub charts: Vec<ChartKind>,
    /// Noun for one pass over the inputs, such as "epoch".
    #[serde(default)]
    pub pass: String,
    /// Plural noun for items, such as "images".
    #[serde(default)]
    pub item: String,
    /// Levels of memory whose ceilings are drawn in a sweep's chart.
    #[serde(default)]
    pub levels: Vec<MemoryLevel>,
    /// Definition of the loss, such as "mean squared error on the training points".
    #[serde(default)]
    pub loss: String,
    /// Reason why a rung may exceed 100 % of its bound, if its bytes are counted in a way that allows that.
    #[serde(default)]
    pub above_bound: String,
    /// The slow and the fast rung whose ratio is the point of the record; empty if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<String>,
    /// Reason for the ratio of the two rungs in `compared`, as sentences; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Plural noun for samples that are more than repetitions, such as "seeds"; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample: String,
}

impl Default for Descriptor {
    /// The default fits any experiment: time, speed-up over the first valid rung, and effective bandwidth.
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
            reason: String::new(),
            sample: String::new(),
        }
    }
}

impl Descriptor {
    /// Returns true if the experiment's records have a chart of this kind.
    #[must_use]
    pub fn has(&self, chart: ChartKind) -> bool {
        self.charts.contains(&chart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the named variants; a missing variant is a compile error.
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
