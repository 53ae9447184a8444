//! X-rays: lanes of SMs, then some warps block by block, and the figures derived from them.

use crate::draw::text::words::{counted, percent, significant, time, time_tick, times};
use crate::draw::text::wrap;
use crate::draw::{
    AMBER, At, BLUE, BROWN, Canvas, Chart, ChartError, Drawn, Font, Frame, GREY, MARGIN, MarkData, Options, PURPLE,
    Paint, Rgb, SERIES, SKY, Stroke, Table, VERMILLION, clean, is_narrow, line_height, linear_ticks,
};
use crate::record::{device, heading, joined, label, missing, names};
use warpbook_record::xray::{PhaseSpan, PhaseTime, Role, phase};
use warpbook_record::{Problem, Run, Xray, XrayBlock, XrayWarp};

/// Largest number of rectangles in the lanes of SMs; beyond it the drawing becomes coarser.
const MOST_RECTS: usize = 7000;
/// Largest number of SMs with a lane; a larger GPU shows every second, every third and so on.
const MOST_SMS: usize = 512;
const MOST_SMS_LIGHT: usize = 17;
/// Maximum number of warps that are drawn one by one, with their phases.
const MOST_WARPS: usize = 14;
const MOST_PHASES: usize = 60;
/// Height of all SM lanes together; `LANE` is the largest height of one lane.
const LANES: f64 = 330.0;
const LANE: f64 = 9.0;
/// Width of the longest name in the legend.
const LABEL: f64 = 150.0;
const WARPS: &str = "Some warps, phase by phase (block · warp)";
/// Height of a warp's lane.
const WARP: f64 = 15.0;

impl Options {
    /// Draws the activity of every SM in one run of the first rung that was X-rayed for the problem. The table has the time by phase, the tail of the
    /// last wave, the spread of warps' arrivals at barriers and the lead of loads.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no rung was X-rayed.
    pub fn xray(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let shown = run.xrays.iter().find(|x| x.problem == *problem && x.end_ns() > 0);
        let Some(x) = shown else { return Err(missing("X-ray", problem)) };
        self.xray_of(run, x)
    }

    /// Draws one X-ray of the record, as [`Options::xray`] does.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the X-ray has no block with a time.
    pub fn xray_of(&self, run: &Run, x: &Xray) -> Result<Chart, ChartError> {
        if x.end_ns() == 0 {
            return Err(missing("X-ray", &x.problem));
        }
        let picture = Picture::new(self, x);
        frame(self, run, x, &picture).draw(picture.height(), |canvas, top| picture.draw(canvas, top))
    }
}

struct SmLane {
    sm: u64,
    error_ns: f64,
    blocks: usize,
    end_ns: u64,
    /// Stretches of (phase index, start, end), times in nanoseconds; the phase is `None` if only the block is known.
    runs: Vec<(Option<usize>, u64, u64)>,
}

struct WarpLane<'x> {
    name: String,
    spans: Vec<PhaseSpan<'x>>,
}

struct Picture<'x> {
    of: &'x Xray,
    width: f64,
    names: f64,
    end_ns: u64,
    sms: Vec<SmLane>,
    /// Number of SMs in the X-ray; `sms` may contain only some of them.
    all_sms: usize,
    light: bool,
    /// Time in nanoseconds at which the first SM has no block left.
    tail_ns: Option<u64>,
    warps: Vec<WarpLane<'x>>,
    window: (u64, u64),
}

impl<'x> Picture<'x> {
    fn new(options: &Options, x: &'x Xray) -> Self {
        let width = options.px();
        let names = if is_narrow(width) { 44.0 } else { 92.0 };
        let end_ns = x.end_ns().max(1);
        let mut columns = (width - 2.0 * MARGIN - names).max(40.0) as usize;
        let known = known_sms(x);
        let most = if options.light { MOST_SMS_LIGHT } else { MOST_SMS };
        let every = known.len().div_ceil(most).max(1);
        let shown: Vec<u64> = known.iter().copied().step_by(every).collect();
        let mut sms = sm_lanes(x, &shown, end_ns, columns);
        while sms.iter().map(|l| l.runs.len()).sum::<usize>() > MOST_RECTS && columns > 8 {
            columns /= 2;
            sms = sm_lanes(x, &shown, end_ns, columns);
        }
        let largest = largest_kernel(x);
        let (warps, window) = warp_lanes(x, largest);
        let all_sms = known.len();
        Self {
            of: x,
            width,
            names,
            end_ns,
            sms,
            all_sms,
            light: options.light,
            tail_ns: x.tail(largest).map(|t| t.from_ns),
            warps,
            window,
        }
    }

    fn lane(&self) -> f64 {
        (LANES / self.sms.len().max(1) as f64).min(LANE)
    }

    fn legend(&self) -> Vec<(usize, &'x str)> {
        let drawn = |p: usize| {
            self.sms.iter().any(|l| l.runs.iter().any(|r| r.0 == Some(p)))
                || self.warps.iter().any(|w| w.spans.iter().any(|s| s.phase == self.of.phases[p]))
        };
        let all = self.of.phases.iter().enumerate().filter(|(p, _)| drawn(*p));
        all.map(|(p, name)| (p, name.as_str())).take(12).collect()
    }

    /// Breaks the legend into lines.
    fn legend_rows(&self) -> Vec<Vec<(usize, String, f64)>> {
        let mut rows: Vec<Vec<(usize, String, f64)>> = vec![Vec::new()];
        let mut x = MARGIN;
        for (p, name) in self.legend() {
            let name = clean(name);
            let room = 16.0 + Font::SMALL.width(&name).min(LABEL) + 14.0;
            if x + room > self.width - MARGIN && x > MARGIN {
                rows.push(Vec::new());
                x = MARGIN;
            }
            if let Some(row) = rows.last_mut() {
                row.push((p, name, x));
            }
            x += room;
        }
        rows
    }

    fn sms_height(&self) -> f64 {
        self.sms.len() as f64 * self.lane()
    }

    fn title(&self) -> String {
        format!("{}: the most frequent phase at each moment", self.shown_sms())
    }

    /// Returns the text "132 SMs", or "33 of 132 SMs" if not all have a lane.
    fn shown_sms(&self) -> String {
        let all = counted(self.all_sms, "SM");
        if self.sms.len() == self.all_sms { all } else { format!("{} of {all}", self.sms.len()) }
    }

    /// Draws a heading on as many lines as needed.
    fn heading(&self, canvas: &Canvas<'_>, text: &str, y: f64) -> Drawn {
        canvas.wrapped(text, self.width - 2.0 * MARGIN, 3, (MARGIN, y), Font::HEADING)
    }

    fn heading_height(&self, text: &str) -> f64 {
        let lines = wrap(text, self.width - 2.0 * MARGIN, Font::HEADING.size, Font::HEADING.bold, 3).len().max(1);
        18.0 + (lines - 1) as f64 * line_height(Font::HEADING)
    }

    fn height(&self) -> f64 {
        let of_warps = || 8.0 + self.heading_height(WARPS) + self.warps.len() as f64 * WARP + 26.0;
        let warps = if self.warps.is_empty() { 0.0 } else { of_warps() };
        self.legend_rows().len() as f64 * 18.0
            + 4.0
            + self.heading_height(&self.title())
            + self.sms_height()
            + 26.0
            + warps
    }

    fn draw(&self, canvas: &Canvas<'_>, top: f64) -> Drawn {
        let mut y = top + 8.0;
        for row in self.legend_rows() {
            for (p, name, x) in row {
                canvas.marked(&MarkData::legend(name.clone()), || {
                    canvas.rect((x, x + 10.0), (y - 5.0, y + 5.0), self.paint(Some(p)))?;
                    canvas.elided(&name, LABEL, (x + 15.0, y), At::Left, Font::SMALL)
                })?;
            }
            y += 18.0;
        }
        let begin = MARGIN + self.names;
        let end = self.width - MARGIN;
        let title = self.title();
        self.heading(canvas, &title, y + 4.0)?;
        y += self.heading_height(&title);
        let at = |ns: u64| begin + ns.min(self.end_ns) as f64 / self.end_ns as f64 * (end - begin);
        let lane = self.lane();
        // Only every nth lane has a name, so that names do not overlap.
        let every = (12.0 / lane).ceil() as usize;
        for (i, sm) in self.sms.iter().enumerate() {
            let (upper, lower) =
                (y + i as f64 * lane, y + (i as f64 + 1.0) * lane - if lane > 4.0 { 1.0 } else { 0.2 });
            if i % every == 0 {
                let middle = f64::midpoint(upper, lower);
                canvas.text(&format!("SM {}", sm.sm), (begin - 6.0, middle), At::Right, Font::SMALL)?;
            }
            let value = format!("{} until {}", counted(sm.blocks, "block"), time(sm.end_ns as f64 / 1e3));
            let data = MarkData { name: format!("SM {}", sm.sm), value, ..MarkData::default() };
            canvas.marked(&data, || {
                for (phase, from, to) in &sm.runs {
                    let (a, b) = (at(*from), at(*to));
                    canvas.rect((a, b.max(a + 0.3)), (upper, lower), self.paint(*phase))?;
                }
                // The recorded end of the last block may be wrong by this much.
                let off = sm.error_ns / self.end_ns as f64 * (end - begin);
                if sm.blocks > 0 && off.is_finite() && off > 0.0 {
                    let (x, middle) = (at(sm.end_ns), f64::midpoint(upper, lower));
                    let ends = [((x - off).max(begin), middle), ((x + off).min(end), middle)];
                    canvas.line(&ends, Stroke::new(Paint::INK, (lane / 3.0).clamp(0.4, 1.2)))?;
                }
                Ok(())
            })?;
        }
        let bottom = y + self.sms_height();
        if let Some(tail) = self.tail_ns.filter(|t| *t < self.end_ns) {
            let x = at(tail);
            canvas.line(&[(x, y - 3.0), (x, bottom + 4.0)], Stroke::dashed(Paint::INK, 1.2, 1))?;
        }
        axis(canvas, (begin, end), bottom, (0.0, self.end_ns as f64 / 1e3))?;
        if self.warps.is_empty() {
            return Ok(());
        }
        self.draw_warps(canvas, bottom + 26.0)
    }

    fn draw_warps(&self, canvas: &Canvas<'_>, mut y: f64) -> Drawn {
        let (from, to) = self.window;
        let begin = MARGIN + self.names;
        let end = self.width - MARGIN;
        self.heading(canvas, WARPS, y + 6.0)?;
        y += 2.0 + self.heading_height(WARPS);
        let span = to.saturating_sub(from).max(1) as f64;
        let at = |ns: u64| begin + ns.clamp(from, to).saturating_sub(from) as f64 / span * (end - begin);
        for (i, warp) in self.warps.iter().enumerate() {
            let (upper, lower) = (y + i as f64 * WARP + 1.0, y + (i as f64 + 1.0) * WARP - 1.0);
            let middle = f64::midpoint(upper, lower);
            canvas.elided(&warp.name, self.names - 6.0, (begin - 6.0, middle), At::Right, Font::SMALL)?;
            let visible = || warp.spans.iter().filter(|s| s.to > from && s.from < to);
            let draw = |s: &PhaseSpan<'_>| {
                let place = self.of.phases.iter().position(|p| p == s.phase);
                let (a, b) = (at(s.from), at(s.to));
                canvas.rect((a + 0.2, (b - 0.2).max(a + 0.4)), (upper, lower), self.paint(place))
            };
            if self.light {
                let data = MarkData { name: warp.name.clone(), ..MarkData::default() };
                canvas.marked(&data, || visible().try_for_each(draw))?;
                continue;
            }
            for s in visible() {
                let value = time((s.to - s.from) as f64 / 1e3);
                let data = MarkData { name: format!("{}: {}", warp.name, s.phase), value, ..MarkData::default() };
                canvas.marked(&data, || draw(s))?;
            }
        }
        let bottom = y + self.warps.len() as f64 * WARP;
        axis(canvas, (begin, end), bottom, (from as f64 / 1e3, to as f64 / 1e3))
    }

    fn paint(&self, place: Option<usize>) -> Paint {
        let Some(place) = place else { return Paint::faded(GREY, 0.35) };
        let name = self.of.phases.get(place).map_or("", String::as_str);
        match name {
            phase::START => Paint::faded(GREY, 0.6),
            phase::NOT_KEPT => Paint::faded(GREY, 0.25),
            _ => Paint::solid(color(name, place)),
        }
    }
}

/// Returns a phase's colour; phases that kernels share always have the same one.
fn color(name: &str, place: usize) -> Rgb {
    match name {
        phase::MULTIPLY | phase::COMPUTE => BLUE,
        phase::LOAD => SERIES[2],
        phase::WAIT => VERMILLION,
        phase::STORE => PURPLE,
        phase::BARRIER => AMBER,
        "exchange" => SKY,
        "reduce" => BROWN,
        _ => SERIES[place % SERIES.len()],
    }
}

/// Draws a time axis with round times at height `y`.
fn axis(canvas: &Canvas<'_>, (begin, end): (f64, f64), y: f64, (from_us, to_us): (f64, f64)) -> Drawn {
    canvas.line(&[(begin, y + 3.0), (end, y + 3.0)], Stroke::new(Paint::MUTED, 1.0))?;
    for us in linear_ticks(from_us, to_us, ((end - begin) / 48.0) as usize) {
        let x = begin + (us - from_us) / (to_us - from_us).max(1e-9) * (end - begin);
        let text = time_tick(us);
        let half = Font::SMALL.width(&text) / 2.0;
        canvas.line(&[(x, y + 3.0), (x, y + 6.0)], Stroke::new(Paint::MUTED, 1.0))?;
        canvas.text(&text, (x.clamp(begin + half, end - half), y + 14.0), At::Middle, Font::SMALL)?;
    }
    Ok(())
}

/// Returns the kernel whose blocks have the largest total time.
fn largest_kernel(x: &Xray) -> usize {
    let time = |k: usize| x.blocks_of(k).map(|b| b.end_ns.saturating_sub(b.start_ns) as f64).sum::<f64>();
    let kernels = 0..x.kernels.len().max(1);
    kernels.max_by(|a, b| time(*a).total_cmp(&time(*b)).then(b.cmp(a))).unwrap_or(0)
}

/// Returns the warp that represents a block in its lane: the first that multiplies or computes, else the first of all.
fn leading(x: &Xray, block: &XrayBlock) -> Option<usize> {
    let works = |w: &XrayWarp| w.spans(&x.phases).any(|s| phase::is_work(s.phase));
    block.warps.iter().position(works).or(if block.warps.is_empty() { None } else { Some(0) })
}

/// Returns the SMs of an X-ray in order.
fn known_sms(x: &Xray) -> Vec<u64> {
    let mut sms: Vec<u64> = x.sms.iter().map(|s| s.sm).chain(x.blocks.iter().map(|b| b.sm)).collect();
    sms.sort();
    sms.dedup();
    sms
}

/// Makes lanes for these SMs. Each column has the phase that took most of its time, and equal columns are joined.
fn sm_lanes(x: &Xray, sms: &[u64], end_ns: u64, columns: usize) -> Vec<SmLane> {
    let column = (end_ns as f64 / columns as f64).max(1.0);
    let lane = |sm: u64| {
        let blocks: Vec<&XrayBlock> = x.blocks.iter().filter(|b| b.sm == sm).collect();
        // `times` has each column's time by phase; the last entry is for blocks without known phases.
        let unknown = x.phases.len();
        let mut time = vec![vec![0.0f64; unknown + 1]; columns];
        let mut add = |p: usize, from: u64, to: u64| {
            let (from, to) = (from.min(end_ns) as f64, to.min(end_ns) as f64);
            let first = ((from / column) as usize).min(columns - 1);
            let last = ((to / column) as usize).min(columns - 1);
            for (c, of) in time.iter_mut().enumerate().take(last + 1).skip(first) {
                let (begin, end) = (c as f64 * column, (c as f64 + 1.0) * column);
                of[p] += (to.min(end) - from.max(begin)).max(0.0);
            }
        };
        for block in &blocks {
            match leading(x, block).and_then(|w| block.warps.get(w)) {
                Some(warp) => {
                    for s in warp.spans(&x.phases) {
                        if let Some(p) = x.phases.iter().position(|n| n == s.phase) {
                            add(p, s.from, s.to);
                        }
                    }
                }
                None => add(unknown, block.start_ns, block.end_ns),
            }
        }
        let mut runs: Vec<(Option<usize>, u64, u64)> = Vec::new();
        for (c, of) in time.iter().enumerate() {
            let most = (0..=unknown).max_by(|a, b| of[*a].total_cmp(&of[*b]).then(b.cmp(a))).unwrap_or(unknown);
            let busy: f64 = of.iter().sum();
            // A column that is mostly idle is left empty.
            if busy < column / 2.0 {
                continue;
            }
            let place = (most < unknown).then_some(most);
            let (from, to) = ((c as f64 * column) as u64, ((c as f64 + 1.0) * column) as u64);
            match runs.last_mut() {
                Some((p, _, end)) if *p == place && *end >= from => *end = to,
                _ => runs.push((place, from, to)),
            }
        }
        SmLane {
            sm,
            error_ns: x.sms.iter().find(|s| s.sm == sm).map_or(0.0, |s| s.error_ns),
            blocks: blocks.len(),
            end_ns: blocks.iter().map(|b| b.end_ns).max().unwrap_or(0),
            runs,
        }
    };
    sms.iter().copied().map(lane).collect()
}

/// Makes lanes for the warps of the block with the most recorded warps, then of blocks that ran at the same time, up to
/// the limit. Also returns a stretch of time in which single phases are visible.
fn warp_lanes(x: &Xray, kernel: usize) -> (Vec<WarpLane<'_>>, (u64, u64)) {
    let mut blocks: Vec<&XrayBlock> = x.blocks_of(kernel).filter(|b| !b.warps.is_empty()).collect();
    blocks.sort_by_key(|block| std::cmp::Reverse(block.warps.len()));
    let Some(first) = blocks.first() else { return (Vec::new(), (0, 1)) };
    let start = first.warps.iter().map(|w| w.start_ns).min().unwrap_or(0);
    let mut lanes = Vec::new();
    let mut end = start.saturating_add(1);
    // Only blocks that ran at the same time as the first block are shown beside it.
    let beside = blocks.iter().filter(|b| b.start_ns <= first.end_ns && b.end_ns >= first.start_ns);
    for block in beside {
        for warp in &block.warps {
            if lanes.len() == MOST_WARPS {
                break;
            }
            let spans: Vec<PhaseSpan<'_>> = warp.spans(&x.phases).take(4 * MOST_PHASES).collect();
            if block.block == first.block {
                let shown = spans.iter().filter(|s| s.phase != phase::NOT_KEPT).take(MOST_PHASES).last();
                end = end.max(shown.map_or(0, |s| s.to));
            }
            lanes.push(WarpLane { name: format!("{} · {}", block.block, warp.warp), spans });
        }
    }
    // The interval ends with the earliest of these warps, since a warp with few marks would extend it and hide the phases of the others.
    let typical: Vec<u64> = first
        .warps
        .iter()
        .filter_map(|w| w.spans(&x.phases).take(MOST_PHASES).last().map(|s| s.to))
        .filter(|to| *to > start)
        .collect();
    let least = typical.iter().copied().min().unwrap_or(end);
    (lanes, (start, end.min(least.max(start.saturating_add(1))).max(start.saturating_add(1))))
}

/// Names the phase in which the warps of each role spent most of their time, for the end of a sentence; empty if nothing is known.
fn most_in_words(times: &[PhaseTime]) -> String {
    let mut roles: Vec<Role> = times.iter().map(|t| t.role).collect();
    roles.dedup();
    let most = |role: Role| {
        let largest = times.iter().filter(|t| t.role == role).max_by(|a, b| a.share.total_cmp(&b.share))?;
        Some(format!(", {} of the {}' time in {}", percent(largest.share), whose(role), clean(&largest.phase)))
    };
    roles.into_iter().filter_map(most).collect()
}

/// Returns the finding about the warps that compute: the phase in which they spend most of their time.
fn claim(times: &[PhaseTime]) -> Option<String> {
    let role = times.first()?.role;
    let most = times.iter().filter(|t| t.role == role).max_by(|a, b| a.share.total_cmp(&b.share))?;
    Some(format!("{} spend {} of their time in {}", whose(role), percent(most.share), clean(&most.phase)))
}

/// Returns the noun for the warps of a role.
fn whose(role: Role) -> &'static str {
    if role == Role::Every { "warps" } else { role.label() }
}

fn frame(options: &Options, run: &Run, x: &Xray, picture: &Picture<'_>) -> Frame {
    let mut table =
        Table::new(["kernel", "warps", "what", "times", "share", "of all warps", "median (µs)", "longest (µs)"]);
    let mut tail_note = String::new();
    // The columns after the kernel's name are role, quantity, count, shares, and the median and the longest in microseconds;
    // unknown values are empty.
    let mut push =
        |[kernel, warps, what]: [&str; 3], times: usize, shares: [Option<f64>; 2], figures: [Option<f64>; 2]| {
            let [median, longest] = figures.map(|us| us.map(|us| significant(us, 4)).unwrap_or_default());
            let times = if times > 0 { times.to_string() } else { String::new() };
            let [share, of_all] = shares.map(|s| s.map(percent).unwrap_or_default());
            table.push([kernel.to_owned(), warps.to_owned(), what.to_owned(), times, share, of_all, median, longest]);
        };
    let us = |ns: f64| Some(ns / 1e3);
    let largest = largest_kernel(x);
    // The kernel is named only if there are several.
    let named = x.kernels.get(largest).filter(|_| x.kernels.len() > 1).map(|k| clean(&k.entry));
    for (k, kernel) in x.kernels.iter().enumerate() {
        let name = &kernel.entry;
        for p in x.phase_times(k) {
            let figures = [us(p.median_ns), us(p.longest_ns as f64)];
            let shares = [Some(p.share), Some(p.share_of_all)];
            push([name, p.role.label(), &format!("phase {}", p.phase)], p.count, shares, figures);
        }
        let mut row = |what: &str, times, share, figures| push([name, "", what], times, [share, None], figures);
        if let Some(tail) = x.tail(k) {
            let length = tail.to_ns.saturating_sub(tail.from_ns) as f64;
            row("tail of the last wave", 0, Some(tail.lost), [None, us(length)]);
            if tail.unused > 0 {
                row(&format!("{} without a block", counted(tail.unused, "SM")), 0, None, [None; 2]);
            }
            if length > 0.0 && k == largest {
                let whose = named.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
                tail_note = format!(
                    "In the last {}{whose} (dashed) SMs run out of blocks, which loses {} of their time",
                    time(length / 1e3),
                    percent(tail.lost)
                );
            }
        }
        for (what, spread) in [("within a block", x.spread_in_blocks(k)), ("over all blocks", x.spread_over_blocks(k))]
        {
            let Some(s) = spread else { continue };
            let figures = [us(s.median_ns), us(s.longest_ns as f64)];
            row(&format!("spread of the barrier, {what}"), s.count, None, figures);
        }
        if let Some(lead) = x.lead(k) {
            let what = format!("lead of loads, {} tiles", significant(lead.median_tiles, 2));
            row(&what, lead.count, None, [us(lead.median_ns), None]);
        }
    }
    push(["clocks", "", "error of an SM's clock at most"], 0, [None; 2], [None, us(x.error_ns())]);
    let mut notes = Vec::new();
    if let Some(perturbation) = x.perturbation() {
        let [with, without] = [&x.marked_us, &x.unmarked_us].map(|s| warpbook_record::stats::median(s).unwrap_or(0.0));
        push(["marks", "", "time with them"], x.marked_us.len(), [None; 2], [Some(with), None]);
        push(["marks", "", "time without"], x.unmarked_us.len(), [None; 2], [Some(without), None]);
        notes.push(format!(
            "The picture begins with the first mark and ends with the last, which is {} of {}; the whole run with marks also has the launch before \
             and the end after. It takes {} as long as without marks: {} and {}.",
            percent(x.end_ns() as f64 / 1e3 / with.max(1e-9)),
            time(with),
            times(perturbation),
            time(with),
            time(without)
        ));
    }
    if !tail_note.is_empty() {
        notes.push(tail_note + ".");
    }
    let said_of_marks = [x.not_kept_in_words(), x.unmarked_in_words()];
    notes.extend(said_of_marks.into_iter().flatten().map(|words| clean(&words)));
    notes.push(format!(
        "Times on two SMs compare within {} (the short lines at the ends); on one SM they are exact. A lane shows the first warp of each block that \
         computes; a read into registers is waited for where it is used.",
        time((2.0 * x.error_ns() / 1e3).max(1e-3))
    ));
    let rung = names(run, &x.rung).0;
    let blocks = x.kernels.iter().fold(0u64, |sum, k| sum.saturating_add(k.blocks));
    let end = time(x.end_ns() as f64 / 1e3);
    let among = named.map(|name| format!(", of which {name} is the largest"));
    let phases = x.phase_times(largest);
    let most = among.unwrap_or_default() + &most_in_words(&phases);
    let topic = format!("the activity of every SM in {end}");
    Frame {
        width: options.px(),
        title: format!("“{rung}”: {}", claim(&phases).unwrap_or_else(|| topic.clone())),
        subtitle: joined([
            format!("{}: {topic}", heading(run)),
            device(run),
            label(&x.problem),
            counted(usize::try_from(blocks).unwrap_or(usize::MAX), "block"),
            format!("SM clock {} MHz", significant(x.clock_mhz, 4)),
        ]),
        description: format!(
            "Lanes of {} over {end}, coloured by what the first computing warp of their blocks did, of {rung} on {}, {}{most}.",
            picture.shown_sms(),
            device(run),
            label(&x.problem),
        ),
        notes,
        table,
    }
}
