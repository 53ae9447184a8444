//! Draws what the 32 lanes of a warp access: on sectors of global memory, or on banks of shared memory.

use crate::draw::text::words::{counted, listed};
use crate::draw::{
    At, BLUE, Canvas, Chart, ChartError, Drawn, Font, Frame, MARGIN, MarkData, Options, Paint, Stroke, Table,
    VERMILLION, clean, is_narrow,
};
use std::collections::BTreeMap;
use warpbook_record::{AccessKind, WarpRequest};

/// Size of a sector of global memory in bytes; `WORD` is the width of a bank of shared memory.
const SECTOR: u64 = 32;
const WORD: u64 = 4;
/// Number of banks of shared memory, which is also the number of lanes of a warp.
const BANKS: usize = 32;
const ROW: f64 = 22.0;
const HEADING: f64 = 24.0;
const LEGEND_LINE: f64 = 20.0;
const HEADER: f64 = 18.0;
const GAP: f64 = 12.0;
const LANE: Font = Font { size: 10.0, bold: false, paint: Paint::INK };

impl Options {
    /// Draws what the lanes of a warp access with the instructions of one source line. For global memory, the chart has a row for each touched line of 128
    /// bytes, with its words in sectors; for shared memory, it has a row for each wavefront, with its banks. Each word shows the number of its lane. `source`
    /// is the line's text.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if no request has an active lane.
    pub fn lanes(&self, requests: &[WarpRequest], source: &str) -> Result<Chart, ChartError> {
        let grids: Vec<Grid> = requests.iter().filter_map(|request| Grid::new(request, self.px())).collect();
        let Some(worst) = worst(&grids) else {
            let why = "No access to global or shared memory was recorded in this line.";
            return Err(ChartError::NothingToDraw(why.into()));
        };
        let mut table = Table::new(["access", "lane", "byte", "sector or bank", "wavefront"]);
        grids.iter().for_each(|grid| grid.fill(&mut table));
        let findings: Vec<String> = grids.iter().map(|grid| format!("{}: {}", grid.name, grid.finding())).collect();
        let request = worst.request;
        let frame = Frame {
            width: self.px(),
            title: format!("Line {}: {} {}", request.line, worst.verb(), worst.finding()),
            subtitle: format!("{} · the first warp here: {}", source.trim(), request.thread),
            description: format!("Accesses of the lanes of a warp in line {}. {}.", request.line, findings.join(". ")),
            notes: Vec::new(),
            table,
        };
        let entries = legend(&grids);
        let legend = legend_lines(&entries, self.px()) as f64 * LEGEND_LINE + 6.0;
        let height = legend + grids.iter().map(Grid::height).sum::<f64>();
        frame.draw(height, |canvas, top| {
            draw_legend(canvas, top, &entries)?;
            let mut y = top + legend;
            for grid in &grids {
                grid.draw(canvas, y)?;
                y += grid.height();
            }
            Ok(())
        })
    }
}

/// Returns the request with the largest ratio of sectors or wavefronts to the fewest possible, which gives the chart of [`Options::lanes`] its title. If several
/// requests are equally bad, the first one is returned.
#[must_use]
pub fn most_wasteful(requests: &[WarpRequest]) -> Option<&WarpRequest> {
    let grids: Vec<Grid> = requests.iter().filter_map(|request| Grid::new(request, f64::INFINITY)).collect();
    worst(&grids).map(|grid| grid.request)
}

fn worst<'g, 'a>(grids: &'g [Grid<'a>]) -> Option<&'g Grid<'a>> {
    grids.iter().rev().max_by(|a, b| a.excess().total_cmp(&b.excess()))
}

/// Lanes that access a word.
type Words = BTreeMap<u64, Vec<usize>>;

/// The words of one line of memory, or of one wavefront.
struct GridRow {
    label: String,
    /// Lanes that access the word, for each column.
    cells: Vec<Vec<usize>>,
    /// For each column, true if the word is moved.
    is_moved: Vec<bool>,
    /// True for a wavefront that a bank conflict adds.
    is_extra: bool,
}

/// A request as rows of words.
struct Grid<'a> {
    request: &'a WarpRequest,
    name: String,
    rows: Vec<GridRow>,
    /// Titles above the columns, each with the index of its column.
    headers: Vec<(usize, String)>,
    /// Number of sectors or wavefronts, and the smallest possible number for these lanes.
    cost: (usize, usize),
    /// For each lane, its number, its sector or bank, and in shared memory its first wavefront.
    places: Vec<(usize, u64, Option<usize>)>,
}

impl<'a> Grid<'a> {
    fn new(request: &'a WarpRequest, width: f64) -> Option<Self> {
        let lanes = request.offsets.iter().take(BANKS).enumerate();
        let active: Vec<(usize, u64)> = lanes.filter_map(|(lane, offset)| Some((lane, (*offset)?))).collect();
        if active.is_empty() || !(1..=16).contains(&request.bytes) {
            return None;
        }
        let verb = match request.kind {
            AccessKind::Load => "load from",
            AccessKind::Store => "store to",
            AccessKind::Atomic => "atomic operation on",
        };
        let name = format!("{verb} {}, {} a lane", clean(&request.buffer), counted(request.bytes as usize, "byte"));
        Some(match request.is_shared {
            true => Self::of_shared(request, name, &active),
            false => Self::of_global(request, name, &active, if is_narrow(width) { 16 } else { 32 }),
        })
    }

    fn of_global(request: &'a WarpRequest, name: String, active: &[(usize, u64)], columns: usize) -> Self {
        let words = words(request, active);
        let row_bytes = columns as u64 * WORD;
        let mut rows: BTreeMap<u64, GridRow> = BTreeMap::new();
        let mut sectors: Vec<u64> = words.keys().map(|word| word * WORD / SECTOR).collect();
        sectors.dedup();
        for sector in &sectors {
            let start = sector * SECTOR / row_bytes * row_bytes;
            let row = rows.entry(start).or_insert_with(|| GridRow::new(format!("byte {start}"), columns, false));
            for word in 0..SECTOR / WORD {
                let word = sector * SECTOR / WORD + word;
                let column = (word * WORD - start) as usize / WORD as usize;
                row.is_moved[column] = true;
                row.cells[column] = words.get(&word).cloned().unwrap_or_default();
            }
        }
        let ideal = (active.len() as u64 * u64::from(request.bytes)).div_ceil(SECTOR) as usize;
        let headers = (0..columns / 8).map(|sector| (sector * 8, format!("sector {sector}"))).collect();
        let places = active.iter().map(|(lane, offset)| (*lane, offset / SECTOR, None)).collect();
        let cost = (sectors.len(), ideal.min(sectors.len()));
        Self { request, name, rows: rows.into_values().collect(), headers, cost, places }
    }

    fn of_shared(request: &'a WarpRequest, name: String, active: &[(usize, u64)]) -> Self {
        let (mut rows, mut places, mut groups): (Vec<GridRow>, _, _) = (Vec::new(), Vec::new(), 0);
        for group in served_together(active, u64::from(request.bytes)) {
            let start = rows.len();
            for (word, lanes) in words(request, &group) {
                let bank = (word % BANKS as u64) as usize;
                let free = (start..rows.len()).find(|row| rows[*row].cells[bank].is_empty());
                let row = free.unwrap_or_else(|| {
                    let label = format!("wavefront {}", rows.len() + 1);
                    rows.push(GridRow::new(label, BANKS, rows.len() > start));
                    rows.len() - 1
                });
                (rows[row].cells[bank], rows[row].is_moved[bank]) = (lanes, true);
            }
            for (lane, offset) in &group {
                let bank = offset / WORD % BANKS as u64;
                let row = (start..rows.len()).find(|row| rows[*row].cells[bank as usize].contains(lane));
                places.push((*lane, bank, row));
            }
            groups += 1;
        }
        let headers = [0, 8, 16, 24].map(|bank| (bank, format!("bank {bank}"))).to_vec();
        let cost = (rows.len(), groups);
        Self { request, name, rows, headers, cost, places }
    }

    /// Returns the ratio of the sectors or wavefronts used to the number needed.
    fn excess(&self) -> f64 {
        self.cost.0 as f64 / self.cost.1.max(1) as f64
    }

    fn verb(&self) -> &'static str {
        match self.request.kind {
            AccessKind::Load => "a load of a warp",
            AccessKind::Store => "a store of a warp",
            AccessKind::Atomic => "an atomic operation of a warp",
        }
    }

    fn finding(&self) -> String {
        let (count, ideal) = self.cost;
        let (verb, unit) = if self.request.is_shared { ("takes", "wavefront") } else { ("touches", "sector") };
        let best = if ideal < count { format!("where {ideal} would do") } else { "the fewest possible".to_owned() };
        let between = if ideal < count { " " } else { ", " };
        format!("{verb} {}{between}{best}", counted(count, unit))
    }

    fn fill(&self, table: &mut Table) {
        for (lane, place, wavefront) in &self.places {
            let byte = self.request.offsets[*lane].unwrap_or_default();
            let wavefront = wavefront.map_or_else(String::new, |row| (row + 1).to_string());
            table.push([self.name.clone(), lane.to_string(), byte.to_string(), place.to_string(), wavefront]);
        }
    }

    fn height(&self) -> f64 {
        HEADING + HEADER + self.rows.len() as f64 * ROW + GAP
    }

    fn draw(&self, canvas: &Canvas<'_>, top: f64) -> Drawn {
        let room = canvas.width() - 2.0 * MARGIN;
        let mut heading = self.name.clone();
        heading[..1].make_ascii_uppercase();
        canvas.elided(&heading, room, (MARGIN, top + HEADING / 2.0), At::Left, Font::HEADING)?;
        let label = self.rows.iter().map(|row| Font::NOTE.width(&row.label)).fold(0.0, f64::max) + 10.0;
        let columns = self.rows.first().map_or(BANKS, |row| row.cells.len());
        let (left, cell) = (MARGIN + label, (room - label) / columns as f64);
        let header = top + HEADING + HEADER / 2.0;
        for (column, title) in &self.headers {
            let x = left + *column as f64 * cell + 1.0;
            canvas.elided(title, 8.0 * cell - 2.0, (x, header), At::Left, Font::SMALL)?;
        }
        for (number, row) in self.rows.iter().enumerate() {
            row.draw(canvas, (left, top + HEADING + HEADER + number as f64 * ROW), cell, self.request.is_shared)?;
        }
        Ok(())
    }
}

/// Returns the lanes, each with its offset, in groups that are served together: the whole warp for accesses of up to 4 bytes, half a warp for 8 bytes, and a
/// quarter for 16 bytes. As in the emulator, two quarters of a half are served together if each lane has the same address as lane `lane ^ 1`, or each has the
/// same as lane `lane ^ 2`.
fn served_together(active: &[(usize, u64)], bytes: u64) -> Vec<Vec<(usize, u64)>> {
    let at_once = BANKS / (bytes.max(WORD) / WORD) as usize;
    let is_shared = |lanes: &[(usize, u64)]| {
        let in_pairs = |apart: usize| {
            lanes.iter().all(|(lane, at)| lanes.iter().all(|(other, there)| *other != lane ^ apart || there == at))
        };
        in_pairs(1) || in_pairs(2)
    };
    let chunks = |size: usize| active.chunk_by(move |a, b| a.0 / size == b.0 / size);
    let halves = chunks(at_once.max(16)).map(<[_]>::to_vec);
    match at_once {
        8 => halves
            .flat_map(|half| match is_shared(&half) {
                true => vec![half],
                false => half.chunk_by(|a, b| a.0 / 8 == b.0 / 8).map(<[_]>::to_vec).collect(),
            })
            .collect(),
        _ => halves.collect(),
    }
}

/// Returns the lanes of each word that a request accesses, by the word's number.
fn words(request: &WarpRequest, active: &[(usize, u64)]) -> Words {
    let mut all = Words::new();
    for (lane, offset) in active {
        for word in offset / WORD..=offset.saturating_add(u64::from(request.bytes) - 1) / WORD {
            all.entry(word).or_default().push(*lane);
        }
    }
    all
}

impl GridRow {
    fn new(label: String, columns: usize, is_extra: bool) -> Self {
        Self { label, cells: vec![Vec::new(); columns], is_moved: vec![false; columns], is_extra }
    }

    fn draw(&self, canvas: &Canvas<'_>, (left, top): (f64, f64), cell: f64, is_shared: bool) -> Drawn {
        let middle = top + ROW / 2.0;
        canvas.text(&self.label, (MARGIN, middle), At::Left, Font::NOTE)?;
        let rows = (top + 1.0, top + ROW - 2.0);
        let mut column = 0;
        while column < self.cells.len() {
            // Neighbouring words of the same lanes are drawn as one box, which never extends past its sector.
            let limit = if is_shared { self.cells.len() } else { (column / 8 + 1) * 8 };
            let is_alike = |other: &usize| {
                self.cells[*other] == self.cells[column] && self.is_moved[*other] == self.is_moved[column]
            };
            let end = (column + 1..limit).find(|other| !is_alike(other)).unwrap_or(limit);
            let x = (left + column as f64 * cell + 0.5, left + end as f64 * cell - 0.5);
            let (lanes, middle) = (&self.cells[column], ((x.0 + x.1) / 2.0, middle));
            match (lanes.is_empty(), self.is_moved[column]) {
                (false, _) => canvas.marked(&self.data(lanes), || {
                    let color = if self.is_extra { VERMILLION } else { BLUE };
                    canvas.rect(x, rows, Paint::faded(color, 0.36))?;
                    outline(canvas, x, rows, self.is_extra)?;
                    let (label, font) = label(lanes);
                    let fits = font.width(&label) <= x.1 - x.0;
                    if fits { canvas.text(&label, middle, At::Middle, font) } else { Ok(()) }
                })?,
                (true, true) => {
                    canvas.rect(x, rows, Paint::FAINT)?;
                    let fits = LANE.width("not used") <= x.1 - x.0;
                    canvas.text(if fits { "not used" } else { "–" }, middle, At::Middle, LANE)?;
                }
                (true, false) => canvas.line(&corners(x, rows), Stroke::new(Paint::FAINT, 0.8))?,
            }
            column = end;
        }
        Ok(())
    }

    fn data(&self, lanes: &[usize]) -> MarkData {
        let numbers: Vec<String> = lanes.iter().map(usize::to_string).collect();
        let name = if lanes.len() == 1 { "lane" } else { "lanes" };
        MarkData { name: self.label.clone(), value: format!("{name} {}", listed(&numbers)), ..MarkData::default() }
    }
}

/// Returns the number of a word's lane, or how many lanes it has, and a font that is smaller for the longest texts.
fn label(lanes: &[usize]) -> (String, Font) {
    let text = match lanes {
        [lane] => lane.to_string(),
        _ => format!("{}×", lanes.len()),
    };
    let size = if lanes.len() > 9 { 8.5 } else { LANE.size };
    (text, Font { size, ..LANE })
}

fn corners(x: (f64, f64), y: (f64, f64)) -> [(f64, f64); 5] {
    [(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1), (x.0, y.0)]
}

/// Draws the outline of a word's box, dashed in wavefronts that a bank conflict adds.
fn outline(canvas: &Canvas<'_>, x: (f64, f64), y: (f64, f64), is_extra: bool) -> Drawn {
    let stroke = if is_extra { Stroke::dashed(Paint::INK, 1.2, 1) } else { Stroke::new(Paint::MUTED, 0.8) };
    canvas.line(&corners(x, y), stroke)
}

/// An entry of the legend: the paint of its box, the sign in the box, and the meaning.
type Entry = (Paint, &'static str, &'static str);

fn legend(grids: &[Grid<'_>]) -> Vec<Entry> {
    let rows = || grids.iter().flat_map(|grid| &grid.rows);
    let mut entries = vec![(Paint::faded(BLUE, 0.36), "7", "accessed by lane 7")];
    if rows().flat_map(|row| &row.cells).any(|lanes| lanes.len() > 1) {
        entries.push((Paint::faded(BLUE, 0.36), "2×", "by 2 lanes"));
    }
    if rows().any(|row| row.is_extra) {
        entries.push((Paint::faded(VERMILLION, 0.36), "7", "bank conflict: a further wavefront"));
    }
    if rows().any(|row| row.cells.iter().zip(&row.is_moved).any(|(lanes, moved)| lanes.is_empty() && *moved)) {
        entries.push((Paint::FAINT, "–", "moved, not used"));
    }
    entries
}

/// Returns the number of lines of the legend: all entries fit into one, except on a phone.
fn legend_lines(entries: &[Entry], width: f64) -> usize {
    if is_narrow(width) { entries.len() } else { 1 }
}

fn draw_legend(canvas: &Canvas<'_>, top: f64, entries: &[Entry]) -> Drawn {
    let (mut x, mut y) = (MARGIN, top + 9.0);
    for (paint, sign, words) in entries {
        let (box_x, box_y) = ((x, x + 20.0), (y - 8.0, y + 8.0));
        canvas.rect(box_x, box_y, *paint)?;
        outline(canvas, box_x, box_y, paint.rgb == VERMILLION)?;
        canvas.text(sign, (x + 10.0, y), At::Middle, LANE)?;
        canvas.text(words, (x + 25.0, y), At::Left, Font::SMALL)?;
        if is_narrow(canvas.width()) {
            y += LEGEND_LINE;
        } else {
            x += 25.0 + Font::SMALL.width(words) + 16.0;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(is_shared: bool, bytes: u32, offset: impl Fn(u64) -> Option<u64>) -> WarpRequest {
        let (buffer, thread) = ("argument 1 (`x`)".into(), "block (0, 0, 0), thread (0, 0, 0)".into());
        let offsets = (0..32).map(offset).collect();
        WarpRequest { line: 7, is_shared, bytes, buffer, thread, offsets, ..WarpRequest::default() }
    }

    fn title(request: WarpRequest) -> String {
        Options::default().lanes(&[request], "y[i] = x[i];").unwrap().title
    }

    #[test]
    fn a_title_states_the_cost() {
        let title_of = |is_shared, bytes, stride| title(request(is_shared, bytes, |lane| Some(lane * stride)));
        assert_eq!(title_of(false, 4, 4), "Line 7: a load of a warp touches 4 sectors, the fewest possible");
        assert_eq!(title_of(false, 4, 128), "Line 7: a load of a warp touches 32 sectors where 4 would do");
        assert_eq!(title_of(false, 16, 16), "Line 7: a load of a warp touches 16 sectors, the fewest possible");
        assert_eq!(title_of(true, 4, 4), "Line 7: a load of a warp takes 1 wavefront, the fewest possible");
        assert_eq!(title_of(true, 4, 128), "Line 7: a load of a warp takes 32 wavefronts where 1 would do");
        assert_eq!(title_of(true, 4, 0), "Line 7: a load of a warp takes 1 wavefront, the fewest possible");
        assert_eq!(title_of(true, 16, 32), "Line 7: a load of a warp takes 8 wavefronts where 4 would do");
    }

    #[test]
    fn the_most_wasteful_request_gives_the_title() {
        let load = |stride| request(false, 4, move |lane| Some(lane * stride));
        let conflict = request(true, 4, |lane| Some(lane * 128));
        let all = [load(4), load(32), conflict.clone(), load(128)];
        assert_eq!(most_wasteful(&all), Some(&conflict));
        assert_eq!(most_wasteful(&[load(4), load(0)]), Some(&load(4)));
        assert_eq!(most_wasteful(&[request(false, 4, |_| None)]), None);
        let title = Options::default().lanes(&all, "").unwrap().title;
        assert_eq!(title, "Line 7: a load of a warp takes 32 wavefronts where 1 would do");
    }

    #[test]
    fn quarters_of_a_warp_that_share_vectors_in_pairs_are_one_wavefront() {
        let title_of = |vector: fn(u64) -> u64| title(request(true, 16, |lane| Some(16 * vector(lane))));
        assert_eq!(title_of(|lane| lane / 2), "Line 7: a load of a warp takes 2 wavefronts, the fewest possible");
        assert_eq!(title_of(|lane| lane % 4), "Line 7: a load of a warp takes 4 wavefronts, the fewest possible");
    }

    #[test]
    fn the_table_has_each_lane_that_takes_part() {
        let odd = request(true, 4, |lane| (lane % 2 == 1).then_some(lane * 128));
        let chart = Options::default().lanes(&[odd], "").unwrap();
        assert_eq!(chart.table.rows.len(), 16);
        assert_eq!(chart.table.rows[1][1..], ["3", "384", "0", "2"]);
        let drawn = chart.svg.as_str();
        assert!(drawn.contains("wavefront 16") && drawn.contains("bank conflict"), "{drawn}");
        let none = Options::default().lanes(&[request(false, 4, |_| None)], "").unwrap_err().to_string();
        assert!(none.contains("No access"), "{none}");
    }

    #[test]
    fn words_without_a_lane_are_told_apart_without_colour() {
        let drawn = Options::default().lanes(&[request(false, 4, |lane| Some(lane * 32))], "").unwrap();
        assert!(drawn.svg.as_str().contains("not used"));
        assert!(drawn.description.contains("touches 32 sectors where 4 would do"), "{}", drawn.description);
    }
}
