use crate::charts::parts::group::{Group, TimedPart, groups, signed_percent};
use crate::draw::text::words::{counted, plain, significant, time, times};
use crate::draw::{
    Axis, BLUE, Bar, BarRow, Bars, Chart, ChartError, Content, Frame, GREY, LOG_FROM, MarkData, Options, ReferenceLine,
    Table, clean, less_is_better,
};
use crate::record::{Measure, device, heading, joined, l2, label, median_of, missing, policy_note, usable, verdict};
use warpbook_record::{Define, PartGroup, Problem, Run, Tile};

/// Maximum number of tiles that are read.
const MAX_TILES: usize = 400;
/// Number of bars for one rung's tiles; one more is drawn if it would be the only tile left out.
const A_RUNG: usize = 4;

impl Options {
    /// Draws the time of each rung with each of its tiles relative to its time with the chosen tile, which shows what another tile would cost or gain. Rungs
    /// are listed one below another, each with the chosen tile in its own colour and the fastest of the other tiles; one row summarises the rest. A tile is
    /// named by the meaning of its id.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no rung with several tiles for the problem.
    pub fn tiles(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let mut left = MAX_TILES;
        let mut tiled = Vec::new();
        for g in groups(run, problem, PartGroup::Tile, MAX_TILES) {
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
            rows.push(r.heading());
            let base = r.base();
            let (shown, rest) = r.shown();
            for t in &r.tiles {
                let over = t.part.us.zip(base).map(|(us, base)| us / base);
                let rung_data = MarkData { rung: r.group.rung.clone(), ..MarkData::of_problem(problem) };
                if shown.iter().any(|s| std::ptr::eq(*s, t)) {
                    rows.push(t.row(rung_data, t.part.us.and_then(speed).map(|v| rate.text(v)), over));
                }
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
            rows.extend(rest);
        }
        let values: Vec<f64> =
            rows.iter().filter_map(|r| if let Content::Bar(b) = &r.content { Some(b.value) } else { None }).collect();
        let (low, high) = values.iter().fold((f64::MAX, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
        let far = high > LOG_FROM * low;
        let axis = if far { Axis::from_decade(values) } else { Axis::from_zero(values) };
        Bars {
            frame: frame(self, run, problem, &tiled, left == 0, table),
            rows,
            axis: Some(axis),
            base: None,
            tick: |v| format!("{}×", plain(v)),
            caption: format!("time relative to the chosen tile{}", less_is_better(far)),
            reference_lines: vec![ReferenceLine {
                value: 1.0,
                label: CHOSEN.into(),
                solid: false,
                data: MarkData::reference(CHOSEN),
            }],
            legend: vec![(BLUE, "chosen tile".into()), (GREY, "other tiles".into())],
        }
        .draw()
    }
}

/// Name of the reference line at a ratio of 1.
const CHOSEN: &str = "the chosen tile";

struct Tiled {
    part: TimedPart,
    chosen: bool,
    /// Sizes of the tile, such as "BM 128, BN 256".
    sizes: String,
    /// Meaning of the sizes, such as "128 × 256, 4 stages"; empty if the sizes are not known.
    decoded: String,
    /// Reason why the tile has no time.
    why: String,
}

struct TiledRung {
    group: Group,
    tiles: Vec<Tiled>,
}

/// Returns a rung's tiles, including the chosen one, in the order in which they are listed.
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
        tiles.push(Tiled {
            part: TimedPart { name, us, mad, samples },
            chosen: true,
            sizes: String::new(),
            decoded: String::new(),
            why,
        });
    }
    for part in group.parts.drain(..) {
        // The chosen tile's time in the ladder replaces the one among the parts.
        if !tiles.iter().any(|t| t.part.name == part.name) {
            tiles.push(Tiled {
                part,
                chosen: false,
                sizes: String::new(),
                decoded: String::new(),
                why: "no usable time".into(),
            });
        }
    }
    // Sizes that all tiles of a rung share are left out, except for the block.
    let varying: Vec<&str> = known
        .iter()
        .flat_map(|k| &k.defines)
        .filter(|d| known.iter().any(|k| k.defines.iter().all(|o| o.name != d.name || o.value != d.value)))
        .map(|d| d.name.as_ref())
        .collect();
    let place = |t: &Tiled| known.iter().position(|k| clean(&k.id) == t.part.name);
    tiles.sort_by_cached_key(|t| place(t).unwrap_or(usize::MAX));
    for t in &mut tiles {
        let sizes = place(t).map_or(&[][..], |i| &known[i].defines);
        t.sizes = joined(sizes.iter().map(|d| format!("{} {}", clean(&d.name), d.value)));
        t.decoded = decoded(sizes, &varying);
    }
    TiledRung { group, tiles }
}

/// Describes sizes in words: the block first, then the sizes that vary among the rung's tiles.
fn decoded(sizes: &[Define], varying: &[&str]) -> String {
    let size = |name: &str| sizes.iter().find(|d| d.name == name).map(|d| d.value);
    let block: Vec<String> = ["BM", "BN", "BK"].iter().filter_map(|n| Some(size(n)?.to_string())).collect();
    let worded = |d: &Define| match d.name.as_ref() {
        "BM" | "BN" | "BK" | "DYNAMIC_SHARED_BYTES" => None,
        name if !varying.contains(&name) => None,
        "STAGES" => Some(counted(usize::try_from(d.value).unwrap_or(0), "stage")),
        "CLUSTER" if d.value > 1 => Some(format!("cluster of {}", d.value)),
        "CLUSTER_N" if d.value > 1 => Some(format!("{} of them along n", d.value)),
        "CLUSTER" | "CLUSTER_N" => None,
        "GROUP" => Some(format!("groups of {}", d.value)),
        "THREADS" => Some(format!("{} threads", d.value)),
        "TM" | "TN" => Some(format!("{} {} a thread", d.value, if d.name == "TM" { "rows" } else { "columns" })),
        "SPLITS" | "SPLIT" => Some(format!("k in {} parts", d.value)),
        name => Some(format!("{} {}", clean(name).to_ascii_lowercase().replace('_', " "), d.value)),
    };
    // The least informative size is last, where the text may be cut off.
    let (last, first): (Vec<&Define>, Vec<&Define>) = sizes.iter().partition(|d| d.name == "THREADS");
    joined([block.join(" × ")].into_iter().chain(first.into_iter().chain(last).filter_map(worded)))
}

impl TiledRung {
    fn heading(&self) -> BarRow {
        let count = counted(self.tiles.len(), "tile");
        let note = joined([self.group.id.clone(), count]);
        BarRow { content: Content::Heading(note), ..self.group.heading() }
    }

    /// Returns the tiles that have a row, in order, and the row that summarises the rest.
    fn shown(&self) -> (Vec<&Tiled>, Option<BarRow>) {
        let mut order: Vec<&Tiled> = self.tiles.iter().collect();
        let us = |t: &Tiled| t.part.us.unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| (!a.chosen).cmp(&!b.chosen).then(us(a).total_cmp(&us(b))));
        let rest = if order.len() > A_RUNG + 1 { order.split_off(A_RUNG) } else { Vec::new() };
        let range = rest
            .iter()
            .filter_map(|t| t.part.us)
            .fold(None, |r, us| Some(r.map_or((us, us), |(a, b): (f64, f64)| (a.min(us), b.max(us)))));
        let row = range.map(|(low, high)| {
            let base = self.base().unwrap_or(low);
            let far = |us: f64| if us < 2.0 * base { signed_percent(us / base - 1.0) } else { times(us / base) };
            let why = format!("{} to {}, {} to {}; in the table", time(low), time(high), far(low), far(high));
            BarRow { name: format!("{} more", rest.len()), id: String::new(), content: Content::Reason(why) }
        });
        (order, row)
    }

    fn chosen(&self) -> Option<(&Tiled, f64)> {
        self.tiles.iter().find(|t| t.chosen).and_then(|t| Some((t, t.part.us?)))
    }

    fn fastest(&self) -> Option<(&Tiled, f64)> {
        self.tiles.iter().filter_map(|t| Some((t, t.part.us?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the time that tiles are compared with: the time of the chosen tile or, if it has none, the fastest time.
    fn base(&self) -> Option<f64> {
        self.chosen().or(self.fastest()).map(|t| t.1)
    }
}

impl Tiled {
    fn row(&self, of: MarkData, speed: Option<String>, over: Option<f64>) -> BarRow {
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
                    data: MarkData { series: series.into(), ..self.part.data(of, label.clone()) },
                    label,
                    note: String::new(),
                    remark: String::new(),
                    color: if self.chosen { BLUE } else { GREY },
                    hollow: false,
                    parts: Vec::new(),
                })
            }
        };
        match self.decoded.is_empty() {
            true => BarRow { name: self.part.name.clone(), id: String::new(), content },
            false => BarRow { name: self.decoded.clone(), id: self.part.name.clone(), content },
        }
    }
}

/// Counts the rungs whose chosen tile is the fastest.
fn claim(tiled: &[TiledRung]) -> Option<String> {
    let pairs: Vec<(f64, f64)> = tiled.iter().filter_map(|r| Some((r.chosen()?.1, r.fastest()?.1))).collect();
    let best = pairs.iter().filter(|(chosen, fastest)| *chosen <= 1.01 * fastest).count();
    match pairs.len() {
        0 => None,
        all if all == best => Some(format!("The chosen tile is the fastest for all of {}", counted(all, "rung"))),
        all => Some(format!("The chosen tile is within 1 % of the fastest for {best} of {}", counted(all, "rung"))),
    }
}

fn frame(options: &Options, run: &Run, problem: &Problem, tiled: &[TiledRung], full: bool, table: Table) -> Frame {
    let drawn = || tiled.iter().flat_map(|r| &r.tiles).filter(|t| t.part.us.is_some());
    let medians = format!("{} ± MAD", median_of(drawn().map(|t| t.part.samples)));
    // A reader should know which choices are not the best.
    let better: Vec<String> = tiled
        .iter()
        .filter_map(|r| {
            let ((_, chosen), (fastest, us)) = (r.chosen()?, r.fastest()?);
            let name = &fastest.part.name;
            (us < 0.99 * chosen).then(|| {
                format!("\u{201c}{}\u{201d} with {name} ({})", r.group.title, signed_percent(us / chosen - 1.0))
            })
        })
        .collect();
    let mut notes: Vec<String> = policy_note(run, true).into_iter().collect();
    if !better.is_empty() {
        notes.push(format!("Faster with another tile than with the chosen one: {}.", better.join("; ")));
    }
    let unchosen = tiled.iter().filter(|r| r.chosen().is_none() && r.base().is_some()).count();
    if unchosen > 0 {
        let what = counted(unchosen, "rung");
        notes.push(format!("{what} without a time with the chosen tile: there 1× is the fastest tile."));
    }
    if full {
        notes.push(format!("At most {} are compared.", counted(MAX_TILES, "tile")));
    }
    let phrases: Vec<String> = tiled
        .iter()
        .filter_map(|r| {
            let (fastest, us) = r.fastest()?;
            let slowest = r.tiles.iter().filter_map(|t| t.part.us).fold(us, f64::max);
            let name = &fastest.part.name;
            Some(format!(
                "\u{201c}{}\u{201d} is fastest with {name}, {}, and slowest with {}",
                r.group.title,
                time(us),
                time(slowest)
            ))
        })
        .collect();
    Frame {
        width: options.px(),
        title: claim(tiled).unwrap_or_else(|| format!("{}: time over tiles", heading(run))),
        subtitle: joined([
            format!("{}: time over tiles", heading(run)),
            device(run),
            label(problem),
            medians,
            l2(run).to_owned(),
        ]),
        description: format!(
            "Bars of the time with {} of {} on {}, {}, relative to the chosen tile: {}.",
            counted(drawn().count(), "tile"),
            counted(tiled.len(), "rung"),
            device(run),
            label(problem),
            phrases.join("; ")
        ),
        notes,
        table,
    }
}
