use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where the sources of kernels stand that somebody wrote in a notebook: no file of ours.
pub const LIVE: &str = "live/";

/// A source as messages name it: below `kernels/`, but for a learner's own.
#[must_use]
pub fn source_path(file: &str) -> String {
    if file.starts_with(LIVE) { file.to_owned() } else { format!("kernels/{file}") }
}

/// The rung that a rung is a variant of, by id: `02_coalesced` of `02_coalesced+mine`, and of itself.
#[must_use]
pub fn base(id: &str) -> &str {
    id.split('+').next().unwrap_or(id)
}

/// One way to do the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rung {
    /// Its id, as in `04_fused_graph`; never renumbered.
    pub id: Cow<'static, str>,
    /// A few words.
    pub title: Cow<'static, str>,
    /// The idea in a sentence.
    pub idea: Cow<'static, str>,
    /// The hardware it needs.
    pub requires: Requires,
    /// What runs it.
    pub runner: Runner,
}

/// The hardware that a rung needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Requires {
    /// Any device.
    Nothing,
    /// A GPU of at least this compute capability (major, minor).
    AtLeast(u32, u32),
    /// A GPU of exactly this architecture, as "sm_90a": later chips do not run its code.
    Exactly(Cow<'static, str>),
}

impl Requires {
    /// Whether a device of this compute capability will do; `None` is a processor.
    #[must_use]
    pub fn met_by(&self, compute_capability: Option<(u32, u32)>) -> bool {
        match (self, compute_capability) {
            (Self::Nothing, _) => true,
            (_, None) => false,
            (Self::AtLeast(major, minor), Some(cc)) => cc >= (*major, *minor),
            (Self::Exactly(arch), Some((major, minor))) => arch.trim_end_matches('a') == format!("sm_{major}{minor}"),
        }
    }

    /// The architectures that its kernels are compiled for in tests.
    #[must_use]
    pub fn architectures(&self) -> Vec<Cow<'static, str>> {
        const ALL: [(&str, (u32, u32)); 7] = [
            ("sm_75", (7, 5)),
            ("sm_80", (8, 0)),
            ("sm_86", (8, 6)),
            ("sm_89", (8, 9)),
            ("sm_90", (9, 0)),
            ("sm_100", (10, 0)),
            ("sm_120", (12, 0)),
        ];
        match self {
            Requires::Nothing => Vec::new(),
            Requires::Exactly(arch) => vec![arch.clone()],
            Requires::AtLeast(major, minor) => {
                let mut all: Vec<Cow<'static, str>> =
                    ALL.iter().filter(|(_, cc)| *cc >= (*major, *minor)).map(|(name, _)| (*name).into()).collect();
                // The architecture-specific form of Hopper is compiled too: it is what later rungs add to.
                if (*major, *minor) <= (9, 0) {
                    all.push("sm_90a".into());
                }
                all
            }
        }
    }

    /// As in "a GPU of compute capability 7.5 or later".
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::AtLeast(major, minor) => format!("a GPU of compute capability {major}.{minor} or later"),
            Self::Exactly(arch) => format!("a GPU of architecture {arch} exactly"),
        }
    }
}

/// What runs a rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Kernels of ours.
    Kernels {
        /// Each kernel.
        specs: Vec<KernelSpec>,
        /// How they are launched.
        schedule: Schedule,
    },
    /// A GPU library, by name.
    Library(Cow<'static, str>),
    /// The processor: what it uses, as in "1 thread".
    Cpu(Cow<'static, str>),
    /// Another framework, by name.
    External(Cow<'static, str>),
}

/// How the kernels of a rung are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Schedule {
    /// One launch after another on one stream.
    Launches,
    /// Over this many streams, joined by events.
    Streams(u32),
    /// Captured once as a graph and replayed.
    Graph,
    /// The same with programmatic dependent launch: a kernel begins while its predecessor ends, and waits for its results
    /// where it first needs them.
    OverlappedGraph,
    /// One cooperative launch of a grid that is resident all at once.
    Cooperative,
    /// Launched in clusters of this many thread blocks.
    Cluster(u32),
}

/// A name and a value that a kernel is compiled with, as `-D NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Define {
    /// The macro's name.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: i64,
}

impl Define {
    /// `-D name=value`.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, value: i64) -> Self {
        Self { name: name.into(), value }
    }
}

/// A permitted choice of the sizes that a kernel is compiled with.
///
/// `THREADS` (of a block), `ITEMS` (of a thread) and `BLOCKS_PER_SM` also give the launch its shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tile {
    /// Its id, as in "t512x8".
    pub id: Cow<'static, str>,
    /// The sizes.
    pub defines: Vec<Define>,
}

impl Tile {
    /// One of these sizes.
    #[must_use]
    pub fn new(id: impl Into<Cow<'static, str>>, sizes: &[(&'static str, i64)]) -> Self {
        Self { id: id.into(), defines: sizes.iter().map(|(n, v)| Define::new(*n, *v)).collect() }
    }

    /// A size by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<i64> {
        self.defines.iter().find(|d| d.name == name).map(|d| d.value)
    }

    /// A size by name; 1 where it has none of that name.
    #[must_use]
    pub fn size(&self, name: &str) -> u64 {
        self.get(name).and_then(|v| u64::try_from(v).ok()).filter(|v| *v > 0).unwrap_or(1)
    }
}

/// How many blocks a kernel is launched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Grid {
    /// One block.
    One,
    /// As many as cover the items, `THREADS` x `ITEMS` a block.
    Cover,
    /// `BLOCKS_PER_SM` for each multiprocessor, or as many as cover the items if that is fewer; each block strides over them.
    Resident,
    /// For each tile of `BM` x `BN` of a matrix as many blocks as `SPLIT` says, or one.
    Tiles,
    /// One for each multiprocessor, or one for each tile if there are fewer of these; in whole clusters of `CLUSTER` blocks,
    /// which go through the tiles.
    ResidentTiles,
}

/// The shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
}

/// A file of CUDA C++, known by its path below `kernels/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Path below `kernels/`, with forward slashes.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A kernel: where its source is and how it may be compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelSpec {
    /// Path of its source below `kernels/`.
    pub file: Cow<'static, str>,
    /// Name of the entry (`extern "C"`).
    pub entry: Cow<'static, str>,
    /// The text of its source; a record keeps it once, under [`Run::sources`](crate::Run::sources).
    #[serde(skip)]
    pub source: Cow<'static, str>,
    /// What it is always compiled with, beside its tile.
    #[serde(default)]
    pub defines: Vec<Define>,
    /// The permitted tiles, the default first.
    pub tiles: Vec<Tile>,
    /// How many blocks it takes.
    pub grid: Grid,
    /// The hardware that it needs, where that is more than its rung does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<Requires>,
}

impl KernelSpec {
    /// An entry of a source file with its permitted tiles, the default first.
    #[must_use]
    pub fn new(source: Source, entry: &'static str, tiles: &[Tile], grid: Grid) -> Self {
        Self {
            file: Cow::Borrowed(source.path),
            entry: Cow::Borrowed(entry),
            source: Cow::Borrowed(source.text),
            defines: Vec::new(),
            tiles: tiles.to_vec(),
            grid,
            requires: None,
        }
    }

    /// The same compiled with `-D NAME=value`, in place of another value that it may have had.
    #[must_use]
    pub fn define(mut self, name: &'static str, value: i64) -> Self {
        self.defines.retain(|d| d.name != name);
        self.defines.push(Define::new(name, value));
        self
    }

    /// The same for newer hardware only.
    #[must_use]
    pub fn needs(mut self, requires: Requires) -> Self {
        self.requires = Some(requires);
        self
    }

    /// The same compiled with `-D NAME=1` for each of these names.
    #[must_use]
    pub fn with(mut self, names: &[&'static str]) -> Self {
        self.defines.extend(names.iter().map(|n| Define::new(*n, 1)));
        self
    }

    /// Its file as messages name it: below `kernels/`, but for a learner's own.
    #[must_use]
    pub fn path(&self) -> String {
        source_path(&self.file)
    }

    /// The tile of that id.
    #[must_use]
    pub fn tile(&self, id: &str) -> Option<&Tile> {
        self.tiles.iter().find(|t| t.id == id)
    }

    /// The shape of a launch over `items` with one of its tiles on a device of so many multiprocessors.
    #[must_use]
    pub fn launch(&self, tile: &Tile, items: u64, multiprocessors: u32) -> Launch {
        let threads = tile.size("THREADS");
        let cover = items.div_ceil(threads.saturating_mul(tile.size("ITEMS"))).max(1);
        let blocks = match self.grid {
            Grid::One => 1,
            Grid::Cover | Grid::Tiles | Grid::ResidentTiles => cover,
            Grid::Resident => cover.min(u64::from(multiprocessors.max(1)).saturating_mul(tile.size("BLOCKS_PER_SM"))),
        };
        self.launch_blocks(tile, blocks)
    }

    /// The shape of a launch over the tiles of an `m` x `n` matrix.
    #[must_use]
    pub fn launch_tiles(&self, tile: &Tile, m: u64, n: u64, multiprocessors: u32) -> Launch {
        let (rows, columns) = (m.div_ceil(tile.size("BM")), n.div_ceil(tile.size("BN")));
        let cluster = tile.size("CLUSTER");
        let blocks = match self.grid {
            Grid::ResidentTiles => {
                let beside = tile.size("CLUSTER_N");
                let tiles = rows.next_multiple_of(cluster / beside).saturating_mul(columns.next_multiple_of(beside));
                tiles.min(u64::from(multiprocessors) / cluster * cluster).max(cluster)
            }
            _ => rows.saturating_mul(columns).saturating_mul(tile.size("SPLIT")),
        };
        self.launch_blocks(tile, blocks)
    }

    fn launch_blocks(&self, tile: &Tile, blocks: u64) -> Launch {
        let threads = tile.size("THREADS");
        let clamp = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
        Launch {
            grid: [clamp(blocks), 1, 1],
            block: [clamp(threads), 1, 1],
            dynamic_shared_bytes: clamp(tile.get("DYNAMIC_SHARED_BYTES").map_or(0, |b| b.max(0).cast_unsigned())),
        }
    }
}

impl Rung {
    /// The kernels, if it is made of kernels.
    #[must_use]
    pub fn kernels(&self) -> &[KernelSpec] {
        match &self.runner {
            Runner::Kernels { specs, .. } => specs,
            _ => &[],
        }
    }

    /// How its kernels are launched, if it is made of kernels.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        match &self.runner {
            Runner::Kernels { schedule, .. } => Some(*schedule),
            _ => None,
        }
    }

    /// Its kernel of that name.
    #[must_use]
    pub fn kernel(&self, entry: &str) -> Option<&KernelSpec> {
        self.kernels().iter().find(|k| k.entry == entry)
    }

    /// The shape of a launch of one of its kernels; `None` of a kernel it does not have.
    #[must_use]
    pub fn launch(&self, entry: &str, tile: &Tile, items: u64, multiprocessors: u32) -> Option<Launch> {
        Some(self.kernel(entry)?.launch(tile, items, multiprocessors))
    }
}

/// Up to three of `known` that are nearest to a misspelt name, nearest first.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<_> = known
        .into_iter()
        .map(|k| {
            let part = !name.is_empty() && k.contains(name);
            (if part { 0 } else { 1 + edit_distance(name, k) }, k)
        })
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, k)| k).collect()
}

/// Levenshtein's distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_their_neighbours() {
        let known = ["01_unfused", "02_fused", "04_fused_graph", "cpu_1_thread"];
        assert_eq!(nearest("graph", known)[0], "04_fused_graph");
        assert_eq!(nearest("02_fuzed", known)[0], "02_fused");
        assert_eq!(nearest("", known).len(), 3);
    }

    #[test]
    fn hardware_is_compared_by_capability_or_exactly() {
        let check = |r: Requires, cc, expect| assert_eq!(r.met_by(cc), expect, "{r:?} {cc:?}");
        check(Requires::Nothing, None, true);
        check(Requires::AtLeast(7, 5), None, false);
        check(Requires::AtLeast(7, 5), Some((9, 0)), true);
        check(Requires::AtLeast(9, 0), Some((8, 9)), false);
        check(Requires::Exactly("sm_90a".into()), Some((9, 0)), true);
        check(Requires::Exactly("sm_90a".into()), Some((10, 0)), false);
    }

    #[test]
    fn a_launch_covers_its_items() {
        let tiles = [Tile::new("t", &[("THREADS", 256), ("ITEMS", 4), ("BLOCKS_PER_SM", 2)])];
        let source = Source { path: "x.cu", text: "" };
        let check = |grid, items, expect| {
            let spec = KernelSpec::new(source, "k", &tiles, grid);
            assert_eq!(spec.launch(&tiles[0], items, 10).grid[0], expect, "{grid:?} {items}");
        };
        check(Grid::One, 1 << 20, 1);
        check(Grid::Cover, 1025, 2);
        check(Grid::Cover, 0, 1);
        check(Grid::Resident, 1 << 20, 20);
        check(Grid::Resident, 3000, 3);
    }

    #[test]
    fn tiles_cover_a_matrix() {
        let source = Source { path: "x.cu", text: "" };
        let check = |grid, sizes: &[(&'static str, i64)], (m, n), expect| {
            let tiles = [Tile::new("t", sizes)];
            let spec = KernelSpec::new(source, "k", &tiles, grid);
            assert_eq!(spec.launch_tiles(&tiles[0], m, n, 132).grid, [expect, 1, 1], "{grid:?} {sizes:?} {m} {n}");
        };
        let tile = [("BM", 128), ("BN", 256), ("THREADS", 384)];
        check(Grid::Tiles, &tile, (129, 256), 2);
        check(Grid::Tiles, &[&tile[..], &[("SPLIT", 4)]].concat(), (129, 257), 16);
        check(Grid::ResidentTiles, &tile, (129, 256), 2);
        check(Grid::ResidentTiles, &tile, (8192, 8192), 132);
        check(Grid::ResidentTiles, &[&tile[..], &[("CLUSTER", 2)]].concat(), (1, 1), 2);
        check(Grid::ResidentTiles, &[&tile[..], &[("CLUSTER", 2)]].concat(), (300, 256), 4);
    }
}
