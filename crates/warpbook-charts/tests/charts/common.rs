//! All charts of a record, and the checks that every chart passes.

use warpbook_charts::diagram::{Diagram, Matrix, Product, Sign, Timeline};
use warpbook_charts::*;
use warpbook_record::{Problem, Run};

pub const QUANTITIES: [Quantity; 6] = [
    Quantity::Time,
    Quantity::SpeedUp,
    Quantity::Bandwidth,
    Quantity::Throughput,
    Quantity::ItemRate,
    Quantity::PeakMemory,
];

/// Draws all charts of a record and a problem that need no items. Charts of several records are drawn with this record alone and with it twice.
pub fn all(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    vec![
        draw().ladder(run, problem, Quantity::Time),
        draw().ladder(run, problem, Quantity::SpeedUp),
        draw().ladder(run, problem, Quantity::Bandwidth),
        draw().ladder(run, problem, Quantity::Throughput),
        draw().sweep(&[run]),
        draw().sweep(&[run, run]),
        draw().sweep_bandwidth(&[run]),
        draw().sweep_throughput(&[run], None, None),
        draw().sweep_of(&[run], Quantity::SpeedUp, None, None),
        draw().loss_curve(run, problem),
        draw().operations(run, problem),
        draw().ablation(run, problem),
        draw().roofline(run, problem),
        draw().compare(&[run, run], problem.size()),
    ]
}

/// Draws the charts of trainings that were recorded step by step.
pub fn of_trainings(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    let charts = [Options::accuracy, Options::loss_scale, Options::learning_rate, Options::gradient_norm];
    charts.map(|chart| chart(&draw(), run, problem)).into()
}

/// Draws the charts of records with libraries, tiles and transfers.
pub fn of_products(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    let dtype = problem.dtype;
    let rungs = ["01_naive", "14_overlapped_store", "a", "b"];
    vec![
        draw().sweep_throughput(&[run, run], Some(dtype), Some(&rungs)),
        draw().shapes(run, dtype),
        draw().tiles(run, problem),
        draw().transfers(run, problem),
    ]
}

/// Draws the charts of a device's activity in one run.
pub fn of_recorded(run: &Run, problem: &Problem) -> Vec<Result<Chart, ChartError>> {
    let rungs = ["01_unfused", "a", "b", "04_fused_graph"];
    vec![
        draw().breakdown(run, problem),
        draw().timeline(run, problem),
        draw().timelines(run, problem, &rungs),
        draw().xray(run, problem),
    ]
}

/// Checks that a chart is well-formed, inline and as a file, has a name, runs no scripts and has finite numbers only.
pub fn check_svg(chart: &Chart) {
    for text in [chart.svg.as_str().to_owned(), chart.svg.standalone()] {
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let root = document.root_element();
        assert_eq!(root.tag_name().name(), "svg");
        assert_eq!(root.attribute("role"), Some("img"));
        let named: Vec<&str> = root.attribute("aria-labelledby").unwrap().split(' ').collect();
        for (tag, id) in ["title", "desc"].into_iter().zip(named) {
            let node = root.children().find(|n| n.has_tag_name(("http://www.w3.org/2000/svg", tag))).unwrap();
            assert_eq!(node.attribute("id"), Some(id));
            assert!(!node.text().unwrap_or_default().is_empty());
        }
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let known =
                ["svg", "g", "title", "desc", "text", "line", "rect", "polyline", "polygon", "circle", "path", "style"];
            assert!(known.contains(&node.tag_name().name()), "{:?}", node.tag_name());
            // A path contains the rectangles of a row that were merged, as pieces of a line.
            let of_path = node.attribute("d").unwrap_or_default();
            assert!(of_path.chars().all(|c| c.is_ascii_digit() || "M hm-.".contains(c)), "{of_path}");
            for a in node.attributes() {
                assert!(!a.name().starts_with("on") && a.name() != "href", "{a:?}");
                // Black is the colour of the text around the chart, and no coordinate may be NaN.
                assert!(!["#000000", "NaN", "inf"].contains(&a.value()), "{a:?}");
            }
        }
        assert!(!text.contains("<script"), "{text}");
    }
    assert!(!chart.svg.as_str().contains("<style"), "a style would reach the rest of the page");
    let html = chart.table.html();
    roxmltree::Document::parse(&html).unwrap_or_else(|e| panic!("{e}\n{html}"));
    assert!(chart.table.rows.iter().all(|r| r.len() == chart.table.headers.len()), "{:?}", chart.table);
}

/// Checks that all of a chart's title is drawn, on as many lines as it needs.
pub fn check_title(chart: &Chart) {
    let lines: Vec<String> = texts(chart).into_iter().map(|(.., text)| text).collect();
    let whole = (1..=lines.len().min(4)).any(|n| lines[..n].join(" ") == chart.title);
    assert!(whole, "{:?} is not drawn whole: {:?}", chart.title, &lines[..lines.len().min(5)]);
}

/// Returns the texts of a chart with their boxes in CSS pixels: (left, right, y, text). Widths are approximately the widths of DejaVu Sans.
pub fn texts(chart: &Chart) -> Vec<(f64, f64, f64, String)> {
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    // The root has the font size of most texts.
    let number = |n: &roxmltree::Node<'_, '_>, a: &str| {
        n.ancestors().find_map(|n| n.attribute(a)).unwrap().parse::<f64>().unwrap() / 10.0
    };
    let texts = document.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts
        .flat_map(|n| {
            let text: String = n.children().filter(roxmltree::Node::is_text).filter_map(|c| c.text()).collect();
            let narrow = |c: char| "ijltfr.,:;'|()[] ·".contains(c);
            let em: f64 = text.chars().map(|c| if narrow(c) { 0.33 } else { 0.6 }).sum();
            let (x, width) = (number(&n, "x"), em * number(&n, "font-size"));
            let y = number(&n, "y");
            if let Some(turn) = n.attribute("transform") {
                // A rotated text is cut into small pieces along its line. The text is centred at its position or starts there.
                let degrees: f64 = turn.trim_start_matches("rotate(").split(' ').next().unwrap().parse().unwrap();
                let (sin, cos) = degrees.to_radians().sin_cos();
                let pieces = (width / 6.0).ceil() as i32;
                let before = if n.attribute("text-anchor").is_none() { 0.0 } else { 0.5 };
                return (0..=pieces)
                    .map(|i| f64::from(i) / f64::from(pieces.max(1)) - before)
                    .map(|at| (x + at * width * cos, y + at * width * sin))
                    .map(|(x, y)| (x - 3.0, x + 3.0, y, text.clone()))
                    .collect();
            }
            let left = match n.attribute("text-anchor").unwrap_or("start") {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            vec![(left, left + width, y, text)]
        })
        .collect()
}

/// Checks that no text leaves the canvas or covers another.
pub fn check_layout(chart: &Chart) {
    let (w, h) = chart.svg.size();
    let all = texts(chart);
    for (i, (left, right, y, text)) in all.iter().enumerate() {
        assert!(*left >= 0.0 && *right <= f64::from(w), "{text:?} from {left} to {right} in {}", chart.title);
        assert!(*y >= 0.0 && *y <= f64::from(h), "{text:?} at {y} in {}", chart.title);
        for (l, r, other_y, other) in &all[..i] {
            // The pieces of one rotated text may overlap.
            let apart = text == other || (y - other_y).abs() >= 11.0 || left >= r || right <= l;
            assert!(apart, "{text:?} and {other:?} overlap in {}", chart.title);
        }
    }
}

pub fn row<'a>(table: &'a Table, first: &str) -> Vec<&'a str> {
    table.rows.iter().find(|r| r[0] == first).unwrap().iter().map(String::as_str).collect()
}

/// Returns the cell below a header in the first row that begins with `first`.
pub fn cell<'a>(table: &'a Table, first: &str, header: &str) -> &'a str {
    let at = table.headers.iter().position(|h| h == header);
    row(table, first)[at.unwrap_or_else(|| panic!("no {header:?} in {:?}", table.headers))]
}

/// Makes a diagram with this text in every place that can have a text.
pub fn diagram_of(text: &str, (rows, columns): (usize, usize), tone: usize) -> Result<Chart, ChartError> {
    let matrix = || {
        Matrix::new(text, rows, columns)
            .cell(14.0, 13.0)
            .shade(0..rows / 2 + 1, 1..columns, tone, text)
            .tint(rows..rows + 4, 0..2, tone, text)
            .frame(0..1, 0..columns)
            .fill(text, |r, c| (r == c).then_some(tone))
            .write(|r, c| if (r + c) % 3 == 0 { text.to_owned() } else { String::new() })
            .at_row(rows, text)
            .at_column(0, text)
            .rule(2, 0)
            .caption(text)
    };
    let at = tone as f64;
    Diagram::new(text)
        .subtitle(text)
        .describe(text)
        .note(text)
        .row(text)
        .put(matrix())
        .put(Sign::arrow(text))
        .put(matrix())
        .row(text)
        .put(Product::new(matrix(), matrix(), matrix()))
        .put(Sign::new(text))
        .row(text)
        .put(
            Timeline::new(&[text, text]).span(0, (0.0, at), tone, text, text).wait(1, (at, 9.0), 1, text, "").until(at),
        )
        .put(Timeline::new(&[text]).link((0, 0.0), (0, at)).span(7, (0.0, 1.0), 0, text, text))
        .table([text, text])
        .figures([text])
        .draw()
}

/// Checks that every form has as many cells as headers, that each row has figures or a reason, and that at most one
/// rung is the fastest.
pub fn check_table(table: &LadderTable) {
    for form in [table.table(), table.file()] {
        assert!(form.rows.iter().all(|r| r.len() == form.headers.len()), "{form:?}");
        roxmltree::Document::parse(&form.html()).unwrap();
    }
    for row in &table.rows {
        assert_eq!(row.cells.len(), table.headers.len());
        assert!(row.cells.iter().all(|c| c.number.is_none_or(f64::is_finite)), "{row:?}");
        assert!(row.note.as_ref().is_none_or(|n| !n.is_empty() && !row.fastest), "{row:?}");
    }
    assert!(table.rows.iter().filter(|r| r.fastest).count() <= 1);
}
