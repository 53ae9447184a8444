//! A network as a table.

use super::Network;
use std::fmt;

/// One operation of a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRow {
    /// Its name.
    pub name: String,
    /// The layer as it was written.
    pub layer: String,
    /// The shape of its output for one sample.
    pub output: String,
    /// Numbers that are trained.
    pub parameters: usize,
    /// FLOPs of its forward pass for the whole batch.
    pub flops: u64,
    /// Bytes of its output for the whole batch, in fp32.
    pub output_bytes: u64,
}

/// Layers, shapes, parameters, FLOPs and memory of a network at a batch size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Samples of a batch.
    pub batch: usize,
    /// The shape of the input.
    pub input: String,
    /// The operations in order.
    pub rows: Vec<SummaryRow>,
    /// FLOPs of one training step: forward, and the gradients of weights and inputs.
    pub step_flops: u64,
}

impl Summary {
    pub(super) fn new(network: &Network, batch: usize) -> Self {
        let rows = network.nodes().iter().map(|node| {
            let output = network.value(node.output);
            let trained = node.params.iter().map(|p| &network.params()[*p]).filter(|p| p.role.is_trained());
            SummaryRow {
                name: node.name.clone(),
                layer: node.written.clone(),
                output: output.to_string(),
                parameters: trained.map(super::ParamSpec::len).sum(),
                flops: network.node_flops(node) * batch as u64,
                output_bytes: 4 * (output.elements() as u64) * batch as u64,
            }
        });
        let step_flops = network.training_flops() * batch as u64;
        Self { batch, input: network.input().to_string(), rows: rows.collect(), step_flops }
    }

    /// Numbers that are trained.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.rows.iter().map(|r| r.parameters).sum()
    }
}

impl Network {
    /// Layers, shapes, parameters and FLOPs at a batch size, as a table.
    #[must_use]
    pub fn summary(&self, batch: usize) -> Summary {
        Summary::new(self, batch)
    }
}

/// A table in plain text.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["name", "layer", "output", "parameters", "MFLOP", "MB"].map(str::to_owned);
        let cells = |r: &SummaryRow| {
            let mega = |v: u64| if v == 0 { String::new() } else { format!("{:.1}", v as f64 / 1e6) };
            let parameters = if r.parameters == 0 { String::new() } else { r.parameters.to_string() };
            [r.name.clone(), r.layer.clone(), r.output.clone(), parameters, mega(r.flops), mega(r.output_bytes)]
        };
        let table: Vec<[String; 6]> = std::iter::once(head).chain(self.rows.iter().map(cells)).collect();
        let width = |i: usize| table.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        writeln!(f, "input {}, batch {}", self.input, self.batch)?;
        for row in &table {
            let cell = |i: usize| {
                if i < 3 { format!("{:<1$}", row[i], widths[i]) } else { format!("{:>1$}", row[i], widths[i]) }
            };
            writeln!(f, "{}", (0..6).map(cell).collect::<Vec<_>>().join("  ").trim_end())?;
        }
        write!(f, "{} parameters, {:.2} GFLOP a training step", self.parameters(), self.step_flops as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mnist_cnn;

    #[test]
    fn a_summary_adds_up() {
        let summary = mnist_cnn(0.25, 0.5).summary(512);
        assert_eq!(summary.parameters(), 1_199_882);
        let text = summary.to_string();
        assert!(text.starts_with("input 1 x 28 x 28, batch 512\nname"), "{text}");
        assert!(text.contains("conv2     conv2d 64, 3x3  64 x 24 x 24       18496  10871.6"), "{text}");
        assert!(text.ends_with("1199882 parameters, 36.64 GFLOP a training step"), "{text}");
    }
}
