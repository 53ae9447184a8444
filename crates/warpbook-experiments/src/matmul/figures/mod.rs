//! Figures that explain the rungs of the matrix product, drawn with the formulas in their kernels.

mod cuda_cores;
mod hopper;
mod tensor_cores;

use warpbook_charts::Chart;
use warpbook_charts::diagram::Diagram;
use warpbook_kernels::matmul::{Figure, Row, rows};
use warpbook_record::{Rung, Tile};

/// Returns the figure that explains a rung of the matrix product, given the id of the rung: which thread reads and
/// computes which elements, or which work overlaps. `None` for a rung that is not a kernel of the catalogue.
#[must_use]
pub fn matmul_figure(rung: &str) -> Option<Chart> {
    rows().iter().find(|row| row.rung.id == rung).and_then(figure_of_row)
}

/// Draws the rung of a record. A variant, such as a learner's kernel, gets the figure of its base rung.
#[must_use]
pub fn figure_of(rung: &Rung) -> Option<Chart> {
    matmul_figure(rung.variant_of.as_deref().unwrap_or(&rung.id))
}

/// Returns the figure of a row with its default tile.
#[must_use]
pub fn figure_of_row(row: &Row) -> Option<Chart> {
    let draw = match row.figure? {
        Figure::RowAccess => cuda_cores::naive,
        Figure::ColumnAccess => cuda_cores::coalesced,
        Figure::SharedTile => cuda_cores::shared_tile,
        Figure::RegisterColumn => cuda_cores::register_1d,
        Figure::RegisterSquare => cuda_cores::register_2d,
        Figure::VectorAccess => cuda_cores::vectorised,
        Figure::WarpTile => cuda_cores::warp_tile,
        Figure::DoubleBuffer => cuda_cores::double_buffered,
        Figure::WmmaFragments => tensor_cores::wmma,
        Figure::Swizzle => tensor_cores::mma_swizzled,
        Figure::Warpgroup => hopper::wgmma_tma,
        Figure::Specialisation => hopper::warp_specialised,
        Figure::ClusterOrder => hopper::persistent_cluster,
        Figure::OverlappedStore => hopper::overlapped_store,
        Figure::SplitK => hopper::split_k,
        Figure::RegisterOperand => hopper::tf32_registers,
    };
    let tile = row.kernel()?.tiles.first()?;
    draw(&Subject { rung: &row.rung, tile }).draw().ok()
}

/// The subject of a drawing: a rung with its default tile.
struct Subject<'a> {
    rung: &'a Rung,
    tile: &'a Tile,
}

impl Subject<'_> {
    /// Creates a figure whose heading has the number and title of the rung.
    fn figure(&self, what: &str) -> Diagram {
        let number = self.rung.id.split('_').next().unwrap_or_default();
        Diagram::new(&format!("{number} {}: {what}", self.rung.title))
    }
}

/// Returns a named size of a tile for drawing; 1 if the tile does not have this size.
fn size(tile: &Tile, name: &str) -> usize {
    tile.get(name).and_then(|v| usize::try_from(v).ok()).unwrap_or(1).clamp(1, 512)
}

/// Colours of the operands, the same in all figures.
const A: usize = 0;
const B: usize = 4;
const C: usize = 2;
/// Colour of waits and bank conflicts.
const STOP: usize = 1;
const LANES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the default tile of a row.
    pub(super) fn first_tile(rung: &str) -> Tile {
        let row = rows().into_iter().find(|r| r.rung.id == rung).unwrap();
        row.kernel().unwrap().tiles[0].clone()
    }

    #[test]
    fn every_kernel_has_a_figure_and_nothing_else_has() {
        for row in rows() {
            assert_eq!(figure_of(&row.rung).is_some(), row.capabilities().is_some(), "{}", row.rung.id);
        }
        assert_eq!(matmul_figure("cublas"), None);
        assert_eq!(matmul_figure(""), None);
    }

    #[test]
    fn a_variant_has_the_figure_of_its_rung() {
        let row = rows().into_iter().find(|r| r.figure == Some(Figure::ColumnAccess)).unwrap();
        let mut mine = row.rung.clone();
        mine.variant_of = Some(row.rung.id.clone());
        mine.id = format!("{}+mine", row.rung.id).into();
        assert_eq!(figure_of(&mine), figure_of_row(&row));
        assert!(figure_of(&mine).is_some() && matmul_figure(&mine.id).is_none());
    }

    fn row<'a>(figure: &'a Chart, first: &str) -> Vec<&'a str> {
        figure.table.rows.iter().find(|r| r[0] == first).unwrap().iter().map(String::as_str).collect()
    }

    #[test]
    fn figures_explain_every_kernel_of_the_product() {
        let mut titles: Vec<String> = Vec::new();
        for row in rows().iter().filter(|r| r.capabilities().is_some()) {
            let (id, chart) = (&row.rung.id, figure_of_row(row).unwrap());
            check_layout(&chart);
            assert!(chart.description.ends_with('.') && !chart.table.rows.is_empty(), "{id}");
            assert!(chart.table.rows.iter().all(|r| r.len() == chart.table.headers.len()), "{id}");
            assert_eq!(chart.svg.size().0, 720);
            assert!(!titles.contains(&chart.title), "{}", chart.title);
            titles.push(chart.title);
        }
        assert!(titles.len() >= 5, "{titles:?}");
        let naive = matmul_figure("01_naive").unwrap();
        assert_eq!(row(&naive, "A, each step")[2..], ["32", "32"]);
        let coalesced = matmul_figure("02_coalesced").unwrap();
        assert_eq!(row(&coalesced, "B, each step")[2..], ["32", "1"]);
        let sums = matmul_figure("11_wgmma_tma").unwrap();
        assert_eq!(row(&sums, "31")[1..], ["7, 15", "6, 7", "d[0], d[1], d[2], d[3]"]);
    }

    /// Returns the value of an attribute of an element.
    fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
        let begin = tag.find(&format!(" {name}=\""))? + name.len() + 3;
        tag[begin..].split('"').next()
    }

    /// Checks that elements are closed in order, that there is no script, and that no coordinate is NaN.
    fn check_elements(svg: &str) {
        let known = ["svg", "title", "desc", "text", "line", "rect", "polyline", "polygon", "circle", "path"];
        let mut open: Vec<&str> = Vec::new();
        for tag in svg.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
            assert!(known.contains(&name) && !tag.contains("\"NaN\"") && !tag.contains("\"inf\""), "{tag}");
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, true) => {}
                (false, false) => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    /// Checks that no text leaves the canvas or overlaps another text. Widths are roughly those of DejaVu Sans.
    fn check_layout(chart: &Chart) {
        let svg = chart.svg.as_str();
        check_elements(svg);
        let (w, h) = chart.svg.size();
        let mut seen: Vec<(f64, f64, f64, String)> = Vec::new();
        for piece in svg.split("<text ").skip(1) {
            let (tag, rest) = piece.split_once('>').unwrap();
            let tag = format!(" {tag}");
            // The full text is in a title element, before the shortened text.
            let shown = rest.split("</text>").next().unwrap();
            let shown = shown.split("</title>").last().unwrap();
            let entities = [("&lt;", "<"), ("&gt;", ">"), ("&apos;", "'"), ("&quot;", "\""), ("&amp;", "&")];
            let text = entities.iter().fold(shown.to_owned(), |text, (from, to)| text.replace(from, to));
            let number = |name| attribute(&tag, name).map_or(120.0, |v| v.parse::<f64>().unwrap()) / 10.0;
            assert_eq!(attribute(&tag, "transform"), None, "diagrams turn no text: {text}");
            let narrow = |c: char| "ijltfr.,:;'|()[] ·".contains(c);
            let em: f64 = text.chars().map(|c| if narrow(c) { 0.33 } else { 0.6 }).sum();
            let (x, y, width) = (number("x"), number("y"), em * number("font-size"));
            let left = match attribute(&tag, "text-anchor").unwrap_or("start") {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            let right = left + width;
            assert!(left >= 0.0 && right <= f64::from(w), "{text:?} from {left} to {right} in {}", chart.title);
            assert!(y >= 0.0 && y <= f64::from(h), "{text:?} at {y} in {}", chart.title);
            for (l, r, other_y, other) in &seen {
                let apart = text == *other || (y - other_y).abs() >= 11.0 || left >= *r || right <= *l;
                assert!(apart, "{text:?} and {other:?} overlap in {}", chart.title);
            }
            seen.push((left, right, y, text));
        }
        assert!(!seen.is_empty(), "{}", chart.title);
    }
}
