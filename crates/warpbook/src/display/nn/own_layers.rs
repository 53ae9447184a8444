//! The display of learners' own layers and of their checks.

use crate::display::results::counts;
use crate::display::{KernelView, Show, figures, html};
use std::collections::BTreeMap;
use warpbook_charts::Table;
use warpbook_lab::custom_layer::{OwnReport, OwnRow};
use warpbook_nn::ops::custom_layer::OwnLayer;

fn table(report: &OwnReport) -> Table {
    let row = |r: &OwnRow| {
        let passed_over = if r.passed_over == 0 { String::new() } else { r.passed_over.to_string() };
        [
            r.array.clone(),
            r.form.clone(),
            r.against.clone(),
            r.compared.to_string(),
            passed_over,
            format!("{:.1e}", r.error),
            format!("{:.1e}", r.tolerance),
            r.at.clone(),
        ]
    };
    let head = ["array", "form", "compared with", "elements", "at a kink", "largest error", "allowed", "at"];
    html::table(head, report.rows.iter().map(row).collect())
}

/// Describes the registers and the shared memory of the layer's kernels.
fn compiled(report: &OwnReport) -> Option<String> {
    let describe = |s: &warpbook_record::KernelStats| {
        let spills = if s.spill_store_bytes + s.spill_load_bytes > 0 { ", with spills" } else { "" };
        let shared = figures::bytes(s.static_shared_bytes.into());
        format!("{} takes {} registers a thread{spills} and {shared} of shared memory a block", s.entry, s.registers)
    };
    let all: Vec<String> = report.stats.iter().map(describe).collect();
    (!all.is_empty()).then(|| format!("{}.", all.join("; ")))
}

/// Returns the emulator's counts by source line, if the layer ran there.
fn costs(report: &OwnReport) -> Option<Table> {
    counts(report.emulated.as_ref()?, &BTreeMap::new())
}

fn title(report: &OwnReport) -> String {
    format!("{}: {} to {}", report.layer, report.input, report.output)
}

impl Show for OwnReport {
    fn html(&self) -> String {
        let verdict = html::escape(&self.verdict());
        let verdict = match &self.flaw {
            Some(_) => format!("<div class=\"wb-error\" role=\"alert\">{verdict}</div>"),
            None => format!("<p>{verdict}</p>"),
        };
        let rows = if self.rows.is_empty() { String::new() } else { html::scroll(&table(self)) };
        let notes: String = self.notes.iter().map(|n| html::note(n)).collect();
        let compiled = compiled(self).map_or_else(String::new, |c| format!("<p>{}</p>", html::escape(&c)));
        let costs = costs(self).map_or_else(String::new, |table| {
            format!("<p>Costs of both passes in fp32 by source line:</p>{}", html::scroll(&table))
        });
        format!("{}{verdict}{rows}{notes}{costs}{compiled}", html::heading(&title(self)))
    }

    fn text(&self) -> String {
        let rows = (!self.rows.is_empty()).then(|| Show::text(&table(self)));
        let parts = [Some(title(self)), Some(self.verdict()), rows].into_iter().flatten();
        let costs =
            costs(self).map(|table| format!("Costs of both passes in fp32 by source line:\n{}", Show::text(&table)));
        let notes = self.notes.iter().cloned();
        let all: Vec<String> = parts.chain(notes).chain(costs).chain(compiled(self)).collect();
        html::printable(&all.join("\n"))
    }
}

fn view(layer: &OwnLayer) -> KernelView {
    KernelView::whole(&format!("{}{}.cu", warpbook_record::LIVE, layer.name()), layer.source())
}

/// Displays a layer as its source with the compiler's line numbers.
impl Show for OwnLayer {
    fn html(&self) -> String {
        view(self).html()
    }

    fn text(&self) -> String {
        view(self).text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    const SQUARE: &str = "\
__global__ void forward(const T* x, const float* p, T* y, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = *p * x[i] * x[i];
}

__global__ void backward(const T* x, const T* y, const T* dy, const float* p, T* dx, float* dp, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    float v = i < n ? float(x[i]) : 0, g = i < n ? float(dy[i]) : 0;
    if (i < n) dx[i] = 2 * *p * v * g;
    float sum = block_sum(v * v * g);
    if (threadIdx.x == 0) dp[blockIdx.x] = sum;
}
";

    fn square(source: &str, factor: f32) -> OwnLayer {
        let layer = OwnLayer::new("square", source).parameter("p", [1], 0.5);
        layer.on_cpu(
            |c| c.y.iter_mut().zip(c.x).for_each(|(y, x)| *y = c.parameters[0][0] * x * x),
            move |c| {
                for i in 0..c.x.len() {
                    c.dx[i] = factor * c.parameters[0][0] * c.x[i] * c.dy[i];
                    c.gradients[0][0] += c.x[i] * c.x[i] * c.dy[i];
                }
            },
        )
    }

    /// Checks a layer; this needs NVRTC but no GPU, since small layers run in the emulator.
    fn checked(layer: &OwnLayer) -> Result<OwnReport> {
        Lab::open("cpu").unwrap().check_layer(layer, [2, 3, 5])
    }

    #[test]
    fn a_right_layer_shows_its_comparisons_and_registers() {
        let report = checked(&square(SQUARE, 2.0)).unwrap();
        assert!(report.is_right(), "{report}");
        for form in [report.text(), report.html()] {
            for expect in [
                "square: 2 x 3 x 5 to 2 x 3 x 5",
                "slopes of y",
                "dx",
                "dp",
                "registers a thread",
                "Emulator of a GPU",
                "bf16",
            ] {
                assert!(form.contains(expect), "{expect}: {form}");
            }
        }
        assert!(report.html().contains("<table") && !report.html().contains("wb-error"), "{}", report.html());
    }

    #[test]
    fn in_the_emulator_costs_are_shown_and_a_race_is_told_with_its_line() {
        let shown = checked(&square(SQUARE, 2.0)).unwrap();
        for form in [shown.text(), shown.html()] {
            assert!(form.contains("Costs of both passes") && form.contains("square.cu:3"), "{form}");
        }
        let racing = SQUARE.replace(
            "    if (i < n) y[i] = *p * x[i] * x[i];",
            "    __shared__ float held[THREADS];\n    held[threadIdx.x] = i < n ? float(x[i]) : 0;\n    float v = held[threadIdx.x ^ 32];\n    \
             held[threadIdx.x ^ 32] = v;\n    if (i < n) y[i] = *p * x[i] * x[i] + 0 * v;",
        );
        let why = checked(&square(&racing, 2.0)).unwrap_err().to_string();
        assert!(why.contains("live/square.cu") && why.contains("held"), "{why}");
    }

    #[test]
    fn a_wrong_layer_shows_what_is_wrong() {
        let report = checked(&square(SQUARE, 1.0)).unwrap();
        assert!(!report.is_right() && report.html().contains("role=\"alert\">dx["), "{}", report.html());
        assert!(report.text().contains("in CPU and"), "{}", report.text());
    }

    #[test]
    fn a_source_that_does_not_compile_shows_line_and_caret() {
        let shown = checked(&square(&SQUARE.replace("*p * x[i] * x[i]", "q * x[i]"), 2.0));
        let html = shown.html();
        assert!(html.contains("<code>live/square.cu</code>, line 3: identifier &quot;q&quot; is undefined"), "{html}");
        assert!(
            html.contains("    3 |     if (i &lt; n) y[i] = q * x[i];\n      |                       ^</pre>"),
            "{html}"
        );
        // This line compiles in fp32 but not in half precision.
        let sentence = checked(&square(&SQUARE.replace("y[i] = *p", "y[i] = (i > 3 ? x[i] : 0) * *p"), 2.0)).text();
        assert!(sentence.starts_with("live/square.cu, line 3: ambiguous"), "{sentence}");
    }

    #[test]
    fn kernels_alone_are_compiled_and_shown() {
        let layer = OwnLayer::new("square", SQUARE).parameter("p", [1], 0.5);
        assert!(checked(&layer).unwrap().is_right());
        // This input is too large for the emulator.
        let report = Lab::open("cpu").unwrap().check_layer(&layer, [64, 16, 16]).unwrap();
        assert!(!report.is_right() && report.flaw.is_none(), "{report}");
        assert!(report.text().contains("square compiles; it was not run."), "{}", report.text());
        assert!(layer.text().contains("\n   3      if (i < n)"), "{}", layer.text());
        assert!(layer.html().contains("live/square.cu"), "{}", layer.html());
    }
}
