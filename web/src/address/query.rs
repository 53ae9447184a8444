//! Conversion of a [`Link`] to the query of an address and back.

use super::link::Link;
use super::percent::{decode, encode};
use super::problem_choice::ProblemChoice;
use crate::plot::zoom::{parse_window, window_text};
use crate::record::Tab;
use crate::record::quantities::{QUANTITIES, quantity_id};

/// Names in an address for views that are not part of one record.
const OVERVIEW: &str = "records";
const BOARD: &str = "board";
const REPORT: &str = "report";

impl Link {
    /// Parses the query of an address, with or without its question mark; unknown parameters are ignored.
    pub fn parse(query: &str) -> Self {
        let mut link = Self::default();
        for pair in query.trim_start_matches('?').split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            if value.is_empty() {
                continue;
            }
            match name {
                "src" => push_new(&mut link.sources, value),
                "record" => link.record = Some(value),
                "compare" => push_new(&mut link.ticked, value),
                // A label belongs to the ticked record before it.
                "label" => drop(link.ticked.last().cloned().map(|key| link.label(key, &value))),
                "anyway" => link.anyway = value == "1",
                "normalised" => link.normalised = value == "1",
                "tab" => link.tab = Tab::ALL.into_iter().find(|t| t.id() == value),
                "problem" => link.problem = Some(ProblemChoice::Id(value)),
                // The id wins if a link has both: only versions that know ids write both.
                "size" => link.problem = link.problem.take().or_else(|| ProblemChoice::parse_size(&value)),
                "show" => link.quantity = QUANTITIES.into_iter().find(|q| quantity_id(*q) == value),
                "rung" => link.rung = Some(value),
                "code" => link.whole = value == "source",
                "view" if value == BOARD => link.board = Some(link.board.take().unwrap_or_default()),
                "view" => (link.overview, link.report) = (value == OVERVIEW, value == REPORT),
                "task" => link.board = Some(value),
                "opened" => link.opened_only = value == "only",
                "zoom" => link.window = parse_window(&value),
                "trace" | "sight" | "span" | "find" => link.traced.read(name, value),
                "pick" => push_new(&mut link.picked, value),
                _ => {}
            }
        }
        link
    }

    /// Returns the query of an address, with its question mark; it is empty for the page's first view.
    pub fn query(&self) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        pairs.extend(self.sources.iter().map(|s| ("src", s.clone())));
        pairs.extend(self.record.iter().map(|r| ("record", r.clone())));
        pairs.extend(self.tab.iter().filter(|t| **t != Tab::Ladder).map(|t| ("tab", t.id().into())));
        pairs.extend(self.problem.iter().map(ProblemChoice::pair));
        pairs.extend(self.quantity.iter().map(|q| ("show", quantity_id(*q).into())));
        pairs.extend(self.rung.iter().map(|r| ("rung", r.clone())));
        pairs.extend(self.window.iter().map(|w| ("zoom", window_text(w))));
        pairs.extend(self.picked.iter().map(|r| ("pick", r.clone())));
        pairs.extend(self.traced.pairs());
        pairs.extend(self.whole.then(|| ("code", "source".into())));
        for key in &self.ticked {
            pairs.push(("compare", key.clone()));
            pairs.extend(self.labels.get(key).map(|label| ("label", label.clone())));
        }
        pairs.extend(self.anyway.then(|| ("anyway", "1".into())));
        pairs.extend(self.normalised.then(|| ("normalised", "1".into())));
        let is_named = self.overview && (!self.sources.is_empty() || !self.ticked.is_empty());
        pairs.extend(is_named.then(|| ("view", OVERVIEW.into())));
        if let Some(task) = &self.board {
            pairs.push(("view", BOARD.into()));
            pairs.extend((!task.is_empty()).then(|| ("task", task.clone())));
            pairs.extend(self.opened_only.then(|| ("opened", "only".into())));
        } else {
            pairs.extend(self.report.then(|| ("view", REPORT.into())));
        }
        let text: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        if text.is_empty() { String::new() } else { format!("?{}", text.join("&")) }
    }
}

fn push_new(list: &mut Vec<String>, value: String) {
    if !list.contains(&value) {
        list.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::trace::Shown;
    use crate::testing::sample_run;
    use warpbook_charts::{MAX_LABEL, Window};
    use warpbook_record::Quantity;

    #[test]
    fn a_link_survives_the_address() {
        let link = Link {
            sources: vec!["https://example.org/a b.json?x=1&y=2#z".into(), "data/ü.json".into()],
            record: Some("regression-h200.json".into()),
            ticked: vec!["a.json".into(), "@1".into()],
            labels: [("@1".to_owned(), "mine & <b>yours</b>".to_owned())].into(),
            anyway: true,
            normalised: true,
            tab: Some(Tab::Source),
            problem: Some(ProblemChoice::Id("m=4096 n=4096 k=4096 +1% bf16&".into())),
            quantity: Some(Quantity::Bandwidth),
            rung: Some("04_fused_graph".into()),
            window: Window::new((256.0, 4096.0), (0.5, 1e15)),
            traced: Shown::default(),
            picked: vec!["01_naive".into(), "a&b".into()],
            whole: true,
            overview: false,
            board: None,
            opened_only: false,
            report: false,
        };
        assert_eq!(Link::parse(&link.query()), link);
        assert!(!link.shows_all() && Link::default().shows_all());
        let mut all = link.clone();
        all.show_all();
        assert!(all.shows_all() && all.sources == link.sources && all.ticked == link.ticked);
        assert_eq!(Link::parse(&all.query()), all);
        all.sources.clear();
        all.ticked.clear();
        assert!(all.query().is_empty() && Link::parse("").shows_all());
        assert!(link.query().contains("&problem=m=4096+n=4096+k=4096+%2B1%25+bf16%26&"), "{}", link.query());
        let earlier = Link { problem: Some(ProblemChoice::Size { size: 5_000_000, nth: 1 }), ..link };
        assert_eq!(Link::parse(&earlier.query()), earlier);
        assert_eq!(Link::default().query(), "");
        let compared = |query: &str| {
            let mut link = Link::parse(query);
            link.compare_sources();
            (link.ticked, link.tab)
        };
        assert_eq!(compared("?src=a&src=b"), (vec!["@a".into(), "@b".into()], Some(Tab::Compare)));
        assert_eq!(compared("?src=a&src=b&tab=table"), (vec![], Some(Tab::Table)));
        assert_eq!(compared("?src=a"), (vec![], None));
        let many: String = (0..9).map(|i| format!("src={i}&")).collect();
        let mut class = Link::parse(&many);
        class.compare_sources();
        assert_eq!((class.board.as_deref(), class.ticked.len()), (Some(""), 0), "more than can be compared");
        let labels = Link::parse("?label=none&compare=a&label=++one++&compare=b&label=%20&anyway=0");
        assert_eq!(labels.labels, [("a".to_owned(), "one".to_owned())].into());
        assert!(
            !labels.anyway
                && Link::parse(&format!("compare=a&label={}", "x".repeat(500))).labels["a"].len() == MAX_LABEL
        );
        assert_eq!(Link { tab: Some(Tab::Ladder), ..Link::default() }.query(), "");
        for tab in Tab::ALL {
            let link = Link { tab: Some(tab), ..Link::default() };
            assert_eq!(Link::parse(&link.query()).tab, link.tab.filter(|t| *t != Tab::Ladder));
        }
        for quantity in QUANTITIES {
            assert_eq!(Link::parse(&format!("?show={}", quantity_id(quantity))).quantity, Some(quantity));
        }
    }

    #[test]
    fn problems_are_found_by_id_and_by_the_size_of_an_earlier_link() {
        let run = sample_run();
        let check = |query: &str, expect: Option<&str>| {
            let found = Link::parse(query).problem.and_then(|c| c.find(&run).map(|p| p.label.clone()));
            assert_eq!(found.as_deref(), expect, "{query}");
        };
        let (one, several) = ("5 M points, 200 epochs", "5 M points of 16 features, 200 epochs");
        check("?size=5000000", Some(one));
        check("?size=5000000-2", Some(several));
        check("?size=5000000-9", Some(one));
        check("?size=1000000", Some("1 M points, 200 epochs"));
        check("?size=7", None);
        check("?size=0", None);
        check("?problem=points=5000000+features=16+epochs=200+fp32", Some(several));
        check("?size=1000000&problem=points=5000000+epochs=200+fp32", Some(one));
        check("?problem=points=5000000+epochs=200+fp32&size=1000000", Some(one));
        check("?problem=gone", None);
    }

    #[test]
    fn an_address_may_hold_anything() {
        fn check(query: &str, expect: Link) {
            assert_eq!(Link::parse(query), expect, "{query}");
        }
        check("", Link::default());
        check("?", Link::default());
        check("?tab=nothing&size=-1&show=%&rung=&problem=&&&=&x", Link::default());
        check("?size=18446744073709551616", Link::default());
        check("?size=7-0", Link::default());
        check("?rung=%zz%4", Link { rung: Some("%zz%4".into()), ..Link::default() });
        check("?rung=a+b%20c", Link { rung: Some("a b c".into()), ..Link::default() });
        check("?rung=%ff%", Link { rung: Some("\u{fffd}%".into()), ..Link::default() });
        check("?src=a&src=a", Link { sources: vec!["a".into()], ..Link::default() });
    }
}
