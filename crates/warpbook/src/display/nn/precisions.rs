//! The display of a numeric precision, such as AMP in fp16, as a table.

use crate::display::{Show, html};
use warpbook_charts::Table;
use warpbook_nn::train::{Precision, PrecisionRow, PrecisionTable};

fn table(t: &PrecisionTable) -> Table {
    let row =
        |r: &PrecisionRow| [r.operations.to_owned(), r.stored.label().to_owned(), r.arithmetic.label().to_owned()];
    html::table(["operations", "stored in", "computed in"], t.rows.iter().map(row).collect())
}

/// Returns a title such as "amp-fp16, the loss scaled".
fn title(t: &PrecisionTable) -> String {
    format!("{}{}", t.precision, if t.precision.scales_the_loss() { ", the loss scaled" } else { "" })
}

impl Show for PrecisionTable {
    fn html(&self) -> String {
        format!("<p>{}</p>{}", html::escape(&title(self)), Show::html(&table(self)))
    }

    fn text(&self) -> String {
        format!("{}\n{}", title(self), Show::text(&table(self)))
    }
}

/// Displays a precision as its table.
impl Show for Precision {
    fn html(&self) -> String {
        self.table().html()
    }

    fn text(&self) -> String {
        Show::text(&self.table())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_shows_what_is_computed_in_half() {
        let text = Show::text(&Precision::AmpFp16);
        assert!(text.starts_with("amp-fp16, the loss scaled\n"), "{text}");
        let ends = |row: &str| text.lines().find(|l| l.starts_with(row)).unwrap().split_whitespace().rev().take(2);
        assert!(ends("convolutions, linear layers: operands").eq(["fp16", "fp16"]), "{text}");
        assert!(ends("losses").eq(["fp32", "fp16"]), "{text}");
        assert!(ends("optimisers").eq(["fp32", "fp32"]), "{text}");
        let html = Precision::Tf32.html();
        assert!(html.contains("<p>tf32</p>") && html.matches("tf32").count() == 2, "{html}");
    }
}
