//! Tests of the chart of a confusion matrix.

use warpbook_charts::{Confusion, draw};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn a_matrix_says_what_was_taken_for_what() {
    let classes = names(&["cat", "dog", "<ship>"]);
    let confusion = Confusion { title: "T", subtitle: "S", classes: &classes, counts: &[8, 2, 0, 1, 9, 0, 0, 5, 0] };
    let chart = draw().confusion(&confusion).unwrap();
    assert_eq!(
        chart.description,
        "Confusion matrix of 3 classes: 17 of 25 samples are right (68 %). The most frequent mistakes: <ship> predicted as dog (5), \
         cat predicted as dog (2) and dog predicted as cat (1)."
    );
    assert_eq!(chart.table.headers, ["class", "as cat", "as dog", "as <ship>", "right, %"]);
    assert_eq!(chart.table.rows[0], ["cat", "8", "2", "0", "80.0"]);
    assert_eq!(chart.table.rows[2], ["<ship>", "0", "5", "0", "0.0"]);
    let document = roxmltree::Document::parse(chart.svg.as_str()).unwrap();
    let texts: Vec<&str> = document
        .descendants()
        .filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")))
        .filter_map(|n| n.descendants().rfind(roxmltree::Node::is_text)?.text())
        .collect();
    for expect in ["true class", "predicted class", "80 %", "90 %", "0 %", "<ship>"] {
        assert!(texts.contains(&expect), "{expect} in {texts:?}");
    }
    // Every nonzero count has a figure: 8, 2, 1, 9 and 5.
    let figures: Vec<&str> = texts.iter().filter(|t| t.chars().all(|c| c.is_ascii_digit())).copied().collect();
    assert_eq!(figures, ["8", "2", "1", "9", "5"]);
    // There are five cells, and ten rectangles in the legend.
    assert_eq!(chart.svg.as_str().matches("<rect").count(), 5 + 10);
    let title = document.descendants().find(|n| n.attribute("id").is_some_and(|id| id.ends_with("-d"))).unwrap();
    assert_eq!(title.text(), Some(&*chart.description));
}

#[test]
fn many_classes_are_in_the_table() {
    let classes: Vec<String> = (0..100).map(|i| format!("a long name of class {i}")).collect();
    let counts: Vec<u64> = (0..10_000).map(|i| if i / 100 == i % 100 { u64::MAX >> 20 } else { i % 3 }).collect();
    let chart = draw().confusion(&Confusion { title: "T", subtitle: "", classes: &classes, counts: &counts }).unwrap();
    assert!(chart.svg.as_str().contains("32 of 100 classes are drawn"));
    assert_eq!((chart.table.rows.len(), chart.table.headers.len()), (100, 102));
    roxmltree::Document::parse(chart.svg.as_str()).unwrap();
}

#[test]
fn what_is_no_matrix_is_refused() {
    let classes = names(&["a", "b"]);
    let check = |counts: &[u64], expect: &str| {
        let why = draw()
            .confusion(&Confusion { title: "", subtitle: "", classes: &classes, counts })
            .unwrap_err()
            .to_string();
        assert!(why.contains(expect), "{why}");
    };
    check(&[1, 2, 3], "2 x 2 counts, and there are 3");
    check(&[0; 4], "Nothing was classified");
}
