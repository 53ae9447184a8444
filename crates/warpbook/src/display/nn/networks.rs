//! The display of networks as tables.

use crate::display::{Show, figures, html};
use warpbook_charts::Table;
use warpbook_nn::network::Network;
use warpbook_nn::train::{Summary, SummaryRow};

/// Returns the text, or an empty string if `n` is 0.
fn unless_zero(n: u64, text: impl FnOnce() -> String) -> String {
    if n == 0 { String::new() } else { text() }
}

fn table(summary: &Summary) -> Table {
    let bytes = |n: u64| unless_zero(n, || figures::bytes(n));
    let row = |r: &SummaryRow| {
        [
            r.name.clone(),
            r.layer.clone(),
            r.output.clone(),
            unless_zero(r.parameters as u64, || r.parameters.to_string()),
            unless_zero(r.flops, || figures::number(r.flops as f64 / 1e6)),
            bytes(r.output_bytes),
            bytes(r.gradient_bytes),
            bytes(r.other_bytes),
        ]
    };
    let head =
        ["name", "layer", "output", "parameters", "MFLOP forward", "output bytes", "gradient bytes", "other bytes"];
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

/// Returns a sentence such as "In 4 segments: ..."; `None` for a network that keeps all activations.
fn segments(summary: &Summary) -> Option<String> {
    (summary.segments > 1).then(|| {
        format!(
            "In {} segments: what lies inside of them is computed again in the backward pass, which is {} GFLOP more a step, {:.0} % of it.",
            summary.segments,
            figures::number(summary.recomputed_flops as f64 / 1e9),
            100.0 * summary.recomputed_flops as f64 / summary.step_flops.max(1) as f64
        )
    })
}

/// Returns a sentence such as "Planned for a training on a GPU in fp32: 186 MiB = weights 4.58 MiB + ...".
fn memory(summary: &Summary) -> String {
    let m = &summary.memory;
    let parts = [
        ("weights", m.weights),
        ("their copy in half", m.half_copy),
        ("their gradients", m.gradients),
        ("the optimiser's state", m.state),
        ("activations and their gradients", m.activations),
    ];
    let parts = parts.iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = parts.map(|(name, bytes)| format!("{name} {}", figures::bytes(*bytes))).collect();
    format!(
        "Planned for a training on a GPU in {}: {} = {}. Without sharing, activations would take {}.",
        summary.precision,
        figures::bytes(m.total()),
        parts.join(" + "),
        figures::bytes(m.unshared)
    )
}

/// Returns the lines of text below the table.
fn lines(summary: &Summary) -> Vec<String> {
    segments(summary).into_iter().chain([memory(summary)]).collect()
}

impl Show for Summary {
    fn html(&self) -> String {
        let below: String = lines(self).iter().map(|line| format!("<p>{}</p>", html::escape(line))).collect();
        format!("<p>{}</p>{}{below}", html::escape(&total(self)), Show::html(&table(self)))
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}", total(self), Show::text(&table(self)), lines(self).join("\n"))
    }
}

/// Displays a network as its summary for one sample.
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
    use warpbook_nn::network::{conv2d, gelu, mnist_cnn};
    use warpbook_nn::train::{CudaOptions, Precision, Recipe};

    #[test]
    fn a_network_shows_layers_shapes_and_parameters() {
        let network = mnist_cnn(0.25, 0.5);
        let text = Show::text(&network.summary(512));
        assert!(text.starts_with("Input 1 x 28 x 28, batch 512: 1199882 parameters, 36.6 GFLOP"), "{text}");
        let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap().split_whitespace();
        // 512 x 64 x 24 x 24 numbers of 4 bytes take 72 MiB.
        let expect = "conv2 conv2d 64, 3x3 64 x 24 x 24 18496 10872 72 MiB 72 MiB";
        assert!(line("conv2").eq(expect.split(' ')), "{text}");
        assert!(line("relu2").eq("relu2 relu 64 x 24 x 24".split(' ')), "in place: {text}");
        let html = network.html();
        assert!(html.contains("dropout 0.25") && html.contains("1179776"), "{html}");
    }

    #[test]
    fn a_checkpointed_network_says_what_it_computes_again() {
        let layers = (0..8).flat_map(|_| [conv2d(16, 3).padding(1), gelu()]);
        let network = Network::new([16, 32, 32], layers).unwrap();
        assert!(!Show::text(&network.summary(32)).contains("segments"));
        let summary = network.checkpointed(2).unwrap().summary(32);
        // These are the forward FLOPs of the first segment's four convolutions.
        let four: u64 = summary.rows[..8].iter().map(|r| r.flops).sum();
        assert_eq!((summary.segments, summary.recomputed_flops), (2, four));
        let text = Show::text(&summary);
        assert!(text.contains("In 2 segments: ") && text.contains("0.604 GFLOP more a step, 17 % of it"), "{text}");
        assert!(summary.html().contains("<p>In 2 segments: "));
    }

    #[test]
    fn a_summary_tells_where_the_memory_goes() {
        let text = Show::text(&Recipe::mnist().summary(&CudaOptions::new(Precision::AmpFp16)));
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("Planned for a training on a GPU in amp-fp16: "), "{last}");
        for part in ["weights 4.58 MiB", "copy in half 2.29 MiB", "the optimiser's state 4.58 MiB", "Without sharing"] {
            assert!(last.contains(part), "{part} in {last}");
        }
        assert!(!Show::text(&Recipe::mnist().network.summary(1)).contains("in half"), "fp32 has no copy");
    }
}
