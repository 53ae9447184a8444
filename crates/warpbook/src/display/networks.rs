//! Networks as tables.

use super::{Show, figures, html};
use crate::charts::Table;
use crate::nn::network::{Network, Summary, SummaryRow};

fn table(summary: &Summary) -> Table {
    let unless_zero = |n: u64, text: String| if n == 0 { String::new() } else { text };
    let row = |r: &SummaryRow| {
        [
            r.name.clone(),
            r.layer.clone(),
            r.output.clone(),
            unless_zero(r.parameters as u64, r.parameters.to_string()),
            unless_zero(r.flops, format!("{:.1}", r.flops as f64 / 1e6)),
            format!("{:.2}", r.output_bytes as f64 / 1e6),
        ]
    };
    let head = ["name", "layer", "output", "parameters", "MFLOP forward", "MB of output"];
    html::table(head, summary.rows.iter().map(row).collect())
}

fn total(summary: &Summary) -> String {
    format!(
        "Input {}, batch {}: {} parameters, {} GFLOP a training step.",
        summary.input,
        summary.batch,
        summary.parameters(),
        figures::number(summary.step_flops as f64 / 1e9)
    )
}

impl Show for Summary {
    fn html(&self) -> String {
        format!("<p>{}</p>{}", html::escape(&total(self)), Show::html(&table(self)))
    }

    fn text(&self) -> String {
        format!("{}\n{}", total(self), Show::text(&table(self)))
    }
}

/// As its summary for one sample.
impl Show for Network {
    fn html(&self) -> String {
        self.summary(1).html()
    }

    fn text(&self) -> String {
        Show::text(&self.summary(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::network::mnist_cnn;

    #[test]
    fn a_network_shows_layers_shapes_and_parameters() {
        let network = mnist_cnn(0.25, 0.5);
        let text = Show::text(&network.summary(512));
        assert!(text.starts_with("Input 1 x 28 x 28, batch 512: 1199882 parameters, 36.6 GFLOP"), "{text}");
        assert!(text.contains("conv2d 64, 3x3") && text.contains("64 x 24 x 24") && text.contains("18496"), "{text}");
        let html = network.html();
        assert!(html.contains("dropout 0.25") && html.contains("1179776"), "{html}");
    }
}
