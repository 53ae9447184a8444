//! What the page shows, as it stands in the page's address: a link shows the same view.

use warpbook_record::{Problem, Run};

/// A part of the page about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// Time, speed-up or bandwidth of each rung.
    Ladder,
    /// The same over several sizes.
    Sweep,
    /// Each rung below the ceilings of the device.
    Roofline,
    /// The losses of the trainings.
    Loss,
    /// What a pass is made of.
    Operations,
    /// Every figure.
    Table,
    /// The source of a rung's kernels.
    Source,
    /// Where and with what the record was made.
    Environment,
    /// Two or more records side by side.
    Compare,
}

impl Tab {
    /// All, in the order of the page.
    pub const ALL: [Self; 9] = [
        Self::Ladder,
        Self::Sweep,
        Self::Roofline,
        Self::Loss,
        Self::Operations,
        Self::Table,
        Self::Source,
        Self::Environment,
        Self::Compare,
    ];

    /// Its name in an address.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Sweep => "sweep",
            Self::Roofline => "roofline",
            Self::Loss => "loss",
            Self::Operations => "operations",
            Self::Table => "table",
            Self::Source => "source",
            Self::Environment => "environment",
            Self::Compare => "compare",
        }
    }

    /// Its name on the page.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ladder => "Ladder",
            Self::Sweep => "Sweep",
            Self::Roofline => "Roofline",
            Self::Loss => "Loss",
            Self::Operations => "Operations",
            Self::Table => "Table",
            Self::Source => "Kernel source",
            Self::Environment => "Environment",
            Self::Compare => "Compare",
        }
    }

    /// Whether what it shows is of one size, so that the size can be chosen.
    pub const fn has_size(self) -> bool {
        matches!(self, Self::Ladder | Self::Roofline | Self::Loss | Self::Operations | Self::Table | Self::Compare)
    }

    /// Those that a record has something for.
    pub fn of(run: &Run) -> Vec<Self> {
        let main = run.main_problem();
        let sized = |p: &&Problem| main.is_some_and(|m| p.same_but_for_size(m) && p.size() != m.size());
        let has = |tab: &Self| match tab {
            Self::Sweep => run.problems().iter().any(sized),
            Self::Roofline => run.measurements.iter().any(|m| !m.traffic.is_empty()),
            Self::Loss => !run.train_logs.is_empty(),
            Self::Operations => !run.spans.is_empty(),
            Self::Source => !run.rungs.is_empty(),
            _ => true,
        };
        Self::ALL.into_iter().filter(has).collect()
    }
}

/// What a ladder draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Time of the region.
    Time,
    /// Against the first rung.
    SpeedUp,
    /// Effective bandwidth.
    Bandwidth,
    /// Operations a second.
    Throughput,
}

impl Quantity {
    /// All, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Time, Self::SpeedUp, Self::Bandwidth, Self::Throughput];

    /// Those that say something of a problem: passes over data are held against bandwidth, products against arithmetic.
    pub fn of(problem: &Problem) -> Vec<Self> {
        let left_out = if matches!(problem, Problem::Matmul { .. }) { Self::Bandwidth } else { Self::Throughput };
        Self::ALL.into_iter().filter(|q| *q != left_out).collect()
    }

    /// The one that the page begins with: what people compare by. That of a product is operations a second.
    pub fn first(problem: &Problem) -> Self {
        if matches!(problem, Problem::Matmul { .. }) { Self::Throughput } else { Self::Time }
    }

    /// Its name in an address.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::SpeedUp => "speed-up",
            Self::Bandwidth => "bandwidth",
            Self::Throughput => "throughput",
        }
    }

    /// Its name on the page.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Time => "Time",
            Self::SpeedUp => "Speed-up",
            Self::Bandwidth => "Bandwidth",
            Self::Throughput => "Operations a second",
        }
    }
}

impl From<Quantity> for warpbook_charts::Quantity {
    fn from(q: Quantity) -> Self {
        match q {
            Quantity::Time => Self::Time,
            Quantity::SpeedUp => Self::SpeedUp,
            Quantity::Bandwidth => Self::Bandwidth,
            Quantity::Throughput => Self::Throughput,
        }
    }
}

/// A problem of a record: its size, and its number among those of that size (which differ in something else).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The points of a regression.
    pub size: u64,
    /// 0 for the first of that size.
    pub nth: usize,
}

impl Size {
    /// That of a record's problem.
    pub fn of(run: &Run, problem: &Problem) -> Self {
        let size = problem.size();
        let nth = run.problems().iter().filter(|p| p.size() == size).position(|p| *p == problem).unwrap_or(0);
        Self { size, nth }
    }

    /// The problem of a record.
    pub fn find(self, run: &Run) -> Option<&Problem> {
        run.problems().into_iter().filter(|p| p.size() == self.size).nth(self.nth)
    }

    /// As in an address: "5000000", "5000000-2".
    pub fn id(self) -> String {
        if self.nth == 0 { self.size.to_string() } else { format!("{}-{}", self.size, self.nth + 1) }
    }

    /// Reads what [`Size::id`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (size, nth) = text.split_once('-').unwrap_or((text, "1"));
        Some(Self { size: size.parse().ok()?, nth: nth.parse::<usize>().ok()?.checked_sub(1)? })
    }
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Addresses of records to fetch (`?src=`), which may be several.
    pub sources: Vec<String>,
    /// The key of the record that is shown.
    pub record: Option<String>,
    /// The keys of the records that are ticked for comparison.
    pub ticked: Vec<String>,
    /// The part that is shown.
    pub tab: Option<Tab>,
    /// The size that is shown.
    pub size: Option<Size>,
    /// What the ladder draws, if one was asked for.
    pub quantity: Option<Quantity>,
    /// The rung whose source is shown.
    pub rung: Option<String>,
}

impl Link {
    /// Reads the query of an address, with or without its question mark. What it does not know is passed over.
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
                "tab" => link.tab = Tab::ALL.into_iter().find(|t| t.id() == value),
                "size" => link.size = Size::parse(&value),
                "show" => link.quantity = Quantity::ALL.into_iter().find(|q| q.id() == value),
                "rung" => link.rung = Some(value),
                _ => {}
            }
        }
        link
    }

    /// As the query of an address, with its question mark; empty when everything is as the page begins.
    pub fn query(&self) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        pairs.extend(self.sources.iter().map(|s| ("src", s.clone())));
        pairs.extend(self.record.iter().map(|r| ("record", r.clone())));
        pairs.extend(self.tab.iter().filter(|t| **t != Tab::Ladder).map(|t| ("tab", t.id().into())));
        pairs.extend(self.size.iter().map(|s| ("size", s.id())));
        pairs.extend(self.quantity.iter().map(|q| ("show", q.id().into())));
        pairs.extend(self.rung.iter().map(|r| ("rung", r.clone())));
        pairs.extend(self.ticked.iter().map(|t| ("compare", t.clone())));
        let text: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        if text.is_empty() { String::new() } else { format!("?{}", text.join("&")) }
    }
}

fn push_new(list: &mut Vec<String>, value: String) {
    if !list.contains(&value) {
        list.push(value);
    }
}

/// Percent-encodes all that has a meaning in a query; a slash and a colon have none there, and stay readable.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b':' | b'@' => {
                out.push(byte as char);
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Undoes [`encode`], reading `+` as a space; a broken escape stays as it is.
pub fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let escaped = (bytes[i] == b'%')
            .then(|| bytes.get(i + 1..i + 3))
            .flatten()
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match escaped {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(if bytes[i] == b'+' { b' ' } else { bytes[i] });
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_survives_the_address() {
        let link = Link {
            sources: vec!["https://example.org/a b.json?x=1&y=2#z".into(), "data/ü.json".into()],
            record: Some("regression-h200.json".into()),
            ticked: vec!["a.json".into(), "@1".into()],
            tab: Some(Tab::Source),
            size: Some(Size { size: 5_000_000, nth: 1 }),
            quantity: Some(Quantity::Bandwidth),
            rung: Some("04_fused_graph".into()),
        };
        assert_eq!(Link::parse(&link.query()), link);
        assert_eq!(Link::default().query(), "");
        assert_eq!(Link { tab: Some(Tab::Ladder), ..Link::default() }.query(), "");
    }

    #[test]
    fn problems_of_one_size_are_told_apart() {
        let run = crate::open::tests::sample_run();
        let (one, several) = (Size { size: 5_000_000, nth: 0 }, Size { size: 5_000_000, nth: 1 });
        assert_eq!(one.find(&run).map(|p| p.label()).as_deref(), Some("5 M points, 200 epochs"));
        assert_eq!(several.find(&run).map(|p| p.label()).as_deref(), Some("5 M points of 16 features, 200 epochs"));
        assert_eq!(several.find(&run).map(|p| Size::of(&run, p).id()).as_deref(), Some("5000000-2"));
    }

    #[test]
    fn tabs_are_those_that_have_something() {
        let mut run = crate::open::tests::sample_run();
        assert!(Tab::of(&run).contains(&Tab::Roofline) && Tab::of(&run).contains(&Tab::Sweep));
        // Another number of features is no other size.
        run.measurements.retain(|m| m.problem.size() == 5_000_000);
        assert!(run.problems().len() == 2 && !Tab::of(&run).contains(&Tab::Sweep));
        assert!(!Tab::of(&run).contains(&Tab::Roofline), "no bytes were counted");
        assert_eq!(Link::parse("?tab=roofline").tab, Some(Tab::Roofline));
    }

    #[test]
    fn an_address_may_hold_anything() {
        fn check(query: &str, expect: Link) {
            assert_eq!(Link::parse(query), expect, "{query}");
        }
        check("", Link::default());
        check("?", Link::default());
        check("?tab=nothing&size=-1&show=%&rung=&&&=&x", Link::default());
        check("?size=18446744073709551616", Link::default());
        check("?size=7-0", Link::default());
        check("?rung=%zz%4", Link { rung: Some("%zz%4".into()), ..Link::default() });
        check("?rung=a+b%20c", Link { rung: Some("a b c".into()), ..Link::default() });
        check("?rung=%ff%", Link { rung: Some("\u{fffd}%".into()), ..Link::default() });
        check("?src=a&src=a", Link { sources: vec!["a".into()], ..Link::default() });
    }
}
