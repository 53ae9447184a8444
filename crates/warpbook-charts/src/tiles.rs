use crate::bars::{Bar, Bars, Content, Mark, Row};
use crate::canvas::Frame;
use crate::common::{device, heading, joined, l2, label, median_of, usable, verdict};
use crate::facts::Facts;
use crate::ladder::{LOG_FROM, less_is_better};
use crate::measure::Measure;
use crate::palette::{BLUE, GREY};
use crate::parts::{Group, Part, groups, missing, signed_percent};
use crate::text::clean;
use crate::ticks::Axis;
use crate::words::{counted, plain, significant, time, times};
use crate::{Chart, ChartError, Table};
use warpbook_record::{PartGroup, Problem, Run, Tile};

/// More rows are not drawn.
const MAX_ROWS: usize = 96;

/// The time of each rung with each of its tiles, over that with the tile that was chosen: what a change of the tile costs or
/// brings. Rungs are listed one below another, tiles in the order of the rung's row; the chosen one has its own colour.
///
/// # Errors
/// [`ChartError::NothingToDraw`] where the record has no rung with several tiles at the problem.
pub fn tiles(run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
    let mut left = MAX_ROWS;
    let mut tiled = Vec::new();
    for g in groups(run, problem, PartGroup::Tile, MAX_ROWS) {
        let mut rung = tiled_rung(run, problem, g);
        rung.tiles.truncate(left);
        left -= rung.tiles.len();
        tiled.push(rung);
    }
    if tiled.iter().all(|r| r.base().is_none()) {
        return Err(missing("times with several tiles", problem));
    }
    let rate = Measure::rate(run);
    let (rate_header, unit) = rate.in_file();
    let speed = |us: f64| Some(rate.of_work(problem, us, None)).filter(|v| *v > 0.0);
    let mut rows = Vec::new();
    let mut table = Table::new([
        "rung",
        "tile",
        "time (ms)",
        "MAD (ms)",
        rate_header.as_str(),
        "over the chosen tile's",
        "chosen",
        "sizes",
    ]);
    for r in &tiled {
        rows.push(r.group.heading());
        let base = r.base();
        for t in &r.tiles {
            let over = t.part.us.zip(base).map(|(us, base)| us / base);
            let of = Facts { rung: r.group.rung.clone(), ..Facts::of_problem(problem) };
            rows.push(t.row(of, t.part.us.and_then(speed).map(|v| rate.text(v)), over));
            let digits = |v: Option<f64>, n| v.map(|v| significant(v, n)).unwrap_or_default();
            table.push([
                clean(&r.group.rung),
                t.part.name.clone(),
                digits(t.part.us.map(|us| us / 1e3), 5),
                digits(t.part.mad.map(|us| us / 1e3), 2),
                digits(t.part.us.and_then(speed).map(|v| v / unit), 4),
                digits(over, 4),
                if t.chosen { "yes" } else { "" }.to_owned(),
                t.sizes.clone(),
            ]);
        }
    }
    let values: Vec<f64> =
        rows.iter().filter_map(|r| if let Content::Bar(b) = &r.content { Some(b.value) } else { None }).collect();
    let (low, high) = values.iter().fold((f64::MAX, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
    let far = high > LOG_FROM * low;
    let axis = if far { Axis::from_decade(values) } else { Axis::from_zero(values) };
    Bars {
        frame: frame(run, problem, &tiled, left == 0, table),
        rows,
        axis: Some(axis),
        base: None,
        tick: |v| format!("{}×", plain(v)),
        caption: format!("time over that with the chosen tile{}", less_is_better(far)),
        marks: vec![Mark { value: 1.0, label: CHOSEN.into(), solid: false, facts: Facts::reference(CHOSEN) }],
        legend: vec![(BLUE, "chosen tile".into()), (GREY, "other tiles".into())],
    }
    .draw()
}

/// What the line at 1 is called.
const CHOSEN: &str = "the chosen tile";

struct Tiled {
    part: Part,
    chosen: bool,
    /// As in "BM 128, BN 256".
    sizes: String,
    /// Why there is no time.
    why: String,
}

struct TiledRung {
    group: Group,
    tiles: Vec<Tiled>,
}

/// A rung's tiles in the order of its row, the chosen one among them.
fn tiled_rung(run: &Run, problem: &Problem, mut group: Group) -> TiledRung {
    let known: Vec<&Tile> =
        run.rung(&group.rung).map_or(&[][..], |r| r.kernels()).iter().flat_map(|k| &k.tiles).collect();
    let measurement = run.measurement(&group.rung, problem);
    let chosen = measurement.and_then(|m| m.tile.as_deref()).map(clean);
    let mut tiles = Vec::new();
    if let Some((m, name)) = measurement.zip(chosen.clone()) {
        let (us, why) = match verdict(run, m) {
            Ok(us) => (Some(us), String::new()),
            Err(why) => (None, why),
        };
        let mad = us.and(m.mad_us()).filter(|d| d.is_finite() && *d > 0.0);
        let samples = m.samples_total.max(m.samples_us.len() as u64);
        tiles.push(Tiled { part: Part { name, us, mad, samples }, chosen: true, sizes: String::new(), why });
    }
    for part in group.parts.drain(..) {
        // The measurement of the chosen tile is the one that the ladder shows.
        if !tiles.iter().any(|t| t.part.name == part.name) {
            tiles.push(Tiled { part, chosen: false, sizes: String::new(), why: "no usable time".into() });
        }
    }
    let place = |t: &Tiled| known.iter().position(|k| clean(&k.id) == t.part.name);
    tiles.sort_by_key(|t| place(t).unwrap_or(usize::MAX));
    for t in &mut tiles {
        let sizes = place(t).map_or(&[][..], |i| &known[i].defines);
        t.sizes = joined(sizes.iter().map(|d| format!("{} {}", clean(&d.name), d.value)));
    }
    TiledRung { group, tiles }
}

impl TiledRung {
    fn chosen(&self) -> Option<(&Tiled, f64)> {
        self.tiles.iter().find(|t| t.chosen).and_then(|t| Some((t, t.part.us?)))
    }

    fn fastest(&self) -> Option<(&Tiled, f64)> {
        self.tiles.iter().filter_map(|t| Some((t, t.part.us?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The time that the others are held against: with the chosen tile, or with the fastest where that has none.
    fn base(&self) -> Option<f64> {
        self.chosen().or(self.fastest()).map(|t| t.1)
    }
}

impl Tiled {
    fn row(&self, of: Facts, speed: Option<String>, over: Option<f64>) -> Row {
        let content = match self.part.us.zip(over).filter(|(_, over)| usable(Some(*over)).is_some()) {
            None => Content::Reason(self.why.clone()),
            Some((us, over)) => {
                let speed = speed.map_or(String::new(), |text| format!(" · {text}"));
                let difference = match over - 1.0 {
                    _ if self.chosen => String::new(),
                    d if d < 1.0 => format!(" · {}", signed_percent(d)),
                    _ => format!(" · {}", times(over)),
                };
                let spread = self.part.mad.map(|d| ((us - d).max(us * 1e-3) * over / us, (us + d) * over / us));
                let label = format!("{}{speed}{difference}", time(us));
                let series = if self.chosen { "chosen tile" } else { "other tiles" };
                Content::Bar(Bar {
                    value: over,
                    spread,
                    facts: Facts { series: series.into(), ..self.part.facts(of, label.clone()) },
                    label,
                    note: String::new(),
                    color: if self.chosen { BLUE } else { GREY },
                    hollow: false,
                    parts: Vec::new(),
                })
            }
        };
        Row { name: self.part.name.clone(), id: String::new(), content }
    }
}

fn frame(run: &Run, problem: &Problem, tiled: &[TiledRung], full: bool, table: Table) -> Frame {
    let drawn = || tiled.iter().flat_map(|r| &r.tiles).filter(|t| t.part.us.is_some());
    let medians = format!("{} ± MAD", median_of(drawn().map(|t| t.part.samples)));
    // What a reader should know before he takes the choice for the best.
    let better: Vec<String> = tiled
        .iter()
        .filter_map(|r| {
            let ((_, chosen), (fastest, us)) = (r.chosen()?, r.fastest()?);
            let name = &fastest.part.name;
            (us < 0.99 * chosen)
                .then(|| format!("{} with {name} ({})", r.group.title, signed_percent(us / chosen - 1.0)))
        })
        .collect();
    let mut notes = Vec::new();
    if !better.is_empty() {
        notes.push(format!("Faster with another tile than with the chosen one: {}.", better.join("; ")));
    }
    let unchosen = tiled.iter().filter(|r| r.chosen().is_none() && r.base().is_some()).count();
    if unchosen > 0 {
        let what = counted(unchosen, "rung");
        notes.push(format!("Of {what} the time with the chosen tile is missing; there 1× is the fastest tile."));
    }
    if full {
        notes.push(format!("At most {} are drawn.", counted(MAX_ROWS, "row")));
    }
    let said: Vec<String> = tiled
        .iter()
        .filter_map(|r| {
            let (fastest, us) = r.fastest()?;
            let slowest = r.tiles.iter().filter_map(|t| t.part.us).fold(us, f64::max);
            let name = &fastest.part.name;
            Some(format!("{} is fastest with {name}, {}, and slowest with {}", r.group.title, time(us), time(slowest)))
        })
        .collect();
    Frame {
        title: format!("{}: time over tiles", heading(run)),
        subtitle: joined([device(run), label(problem), medians, l2(run).to_owned()]),
        description: format!(
            "Bars of the time with {} of {} on {}, {}, over that with the chosen tile: {}.",
            counted(drawn().count(), "tile"),
            counted(tiled.len(), "rung"),
            device(run),
            label(problem),
            said.join("; ")
        ),
        notes,
        table,
    }
}
