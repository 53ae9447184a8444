use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::str::FromStr;

/// Folder name for kernels that a user wrote in a notebook; it contains no file of Warpbook.
pub const LIVE: &str = "live/";

/// Returns the path of a source for messages. It starts with `kernels/`, except for a learner's own kernel.
#[must_use]
pub fn source_path(file: &str) -> String {
    if file.starts_with(LIVE) { file.to_owned() } else { format!("kernels/{file}") }
}

/// An implementation of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rung {
    /// Identifier, such as `04_fused_graph`, which never changes.
    pub id: Cow<'static, str>,
    /// Title of the rung in a few words.
    pub title: Cow<'static, str>,
    /// Idea of the rung in one sentence.
    pub idea: Cow<'static, str>,
    /// Hardware that the rung requires.
    pub requires: Requires,
    /// The runner of the work: kernels, a library, the CPU or another framework.
    pub runner: Runner,
    /// Id of the rung that this rung is a variant of, for example if it is a learner's own kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant_of: Option<Cow<'static, str>>,
}

/// The hardware that a rung requires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Requires {
    /// Any device.
    Nothing,
    /// A GPU of at least this compute capability (major, minor).
    AtLeast(u32, u32),
    /// A GPU of exactly this architecture, such as "sm_90a": later chips do not run its code.
    Exactly(Cow<'static, str>),
}

impl Requires {
    /// Returns true if a device of this compute capability meets the requirement; `None` means a CPU.
    #[must_use]
    pub fn met_by(&self, compute_capability: Option<(u32, u32)>) -> bool {
        match (self, compute_capability) {
            (Self::Nothing, _) => true,
            (_, None) => false,
            (Self::AtLeast(major, minor), Some(cc)) => cc >= (*major, *minor),
            (Self::Exactly(arch), Some((major, minor))) => arch.trim_end_matches('a') == format!("sm_{major}{minor}"),
        }
    }

    /// Returns the architectures for which tests compile the kernels.
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
                // Hopper's architecture-specific form is compiled too, since later rungs build on it.
                if (*major, *minor) <= (9, 0) {
                    all.push("sm_90a".into());
                }
                all
            }
        }
    }

    /// Returns the requirement in words, such as "a GPU of compute capability 7.5 or later".
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::AtLeast(major, minor) => format!("a GPU of compute capability {major}.{minor} or later"),
            Self::Exactly(arch) => format!("a GPU of architecture {arch} exactly"),
        }
    }
}

/// The implementation of a rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Kernels of Warpbook or of a learner.
    Kernels {
        /// Kernels of the rung, with the ways to compile them.
        specs: Vec<KernelSpec>,
        /// The way in which the kernels are launched.
        schedule: Schedule,
    },
    /// A GPU library, by name.
    Library(Cow<'static, str>),
    /// The CPU; the text says what part of it is used, such as "1 thread".
    Cpu(Cow<'static, str>),
    /// Another framework, by name.
    External(Cow<'static, str>),
    /// Kernels of another rung, which a rule picks for each size; the text describes the rule. A measurement names the
    /// chosen kernels in its `choice`.
    Chosen(Cow<'static, str>),
}

/// Name of the [`Runner::Library`] for work that the CUDA driver does on its own.
pub const CUDA_DRIVER: &str = "the CUDA driver";

/// The way in which the kernels of a rung are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Schedule {
    /// One launch after another on one stream.
    Launches,
    /// Launches on this many streams, joined by events.
    Streams(u32),
    /// A graph that is captured once and replayed.
    Graph,
    /// A graph that is captured once and replayed with programmatic dependent launch: a kernel begins while its
    /// predecessor is ending, and waits before it first uses the predecessor's results.
    OverlappedGraph,
    /// One cooperative launch of a grid whose blocks are all resident at once.
    Cooperative,
    /// A launch in clusters; the tile's `CLUSTER` or `SPLIT` is the number of thread blocks in a cluster.
    Clusters,
}

impl Schedule {
    /// Returns the schedule in words, such as "captured once as a CUDA graph and replayed".
    #[must_use]
    pub fn sentence(self) -> String {
        match self {
            Self::Launches => "launched one after another on one stream".into(),
            Self::Streams(n) => format!("launched over {n} streams, joined by events"),
            Self::Graph => "captured once as a CUDA graph and replayed".into(),
            Self::OverlappedGraph => "captured as a CUDA graph with programmatic dependent launch and replayed".into(),
            Self::Cooperative => "one cooperative launch".into(),
            Self::Clusters => "launched in clusters whose size is given by the tile".into(),
        }
    }
}

/// A macro that a kernel is compiled with, as `-D NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Define {
    /// Name of the macro.
    pub name: Cow<'static, str>,
    /// Value of the macro.
    pub value: i64,
}

impl Define {
    /// Creates the macro `-D name=value`.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, value: i64) -> Self {
        Self { name: name.into(), value }
    }
}

/// Parses text such as "BM=64"; spaces around name and value are allowed.
impl FromStr for Define {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |n: &str| {
            n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match text.split_once('=').map(|(name, value)| (name.trim(), value.trim().parse())) {
            Some((name, Ok(value))) if is_name(name) => Ok(Self::new(name.to_owned(), value)),
            _ => Err(format!("`{text}` is not a size: write a macro's name and a whole number, such as BM=64.")),
        }
    }
}

/// A permitted set of sizes for compiling a kernel.
///
/// `THREADS` (of a block), `ITEMS` (of a thread) and `BLOCKS_PER_SM` also determine the shape of the launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tile {
    /// Identifier, such as "t512x8".
    pub id: Cow<'static, str>,
    /// Sizes of the tile, as macros.
    pub defines: Vec<Define>,
}

impl Tile {
    /// Creates a tile with these sizes.
    #[must_use]
    pub fn new(id: impl Into<Cow<'static, str>>, sizes: &[(&'static str, i64)]) -> Self {
        Self { id: id.into(), defines: sizes.iter().map(|(n, v)| Define::new(*n, *v)).collect() }
    }

    /// Sets or adds a size; the tile's id becomes "own".
    pub fn set(&mut self, size: Define) {
        match self.defines.iter_mut().find(|d| d.name == size.name) {
            Some(define) => define.value = size.value,
            None => self.defines.push(size),
        }
        self.id = "own".into();
    }

    /// Returns a size by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<i64> {
        self.defines.iter().find(|d| d.name == name).map(|d| d.value)
    }

    /// Returns a size that determines the shape of a launch; 1 if the tile does not have it.
    #[must_use]
    pub fn size(&self, dim: Dim) -> u64 {
        self.get(dim.name()).and_then(|v| u64::try_from(v).ok()).filter(|v| *v > 0).unwrap_or(1)
    }

    /// Returns the dynamic shared memory of a block in bytes.
    #[must_use]
    pub fn dynamic_shared_bytes(&self) -> u64 {
        self.get("DYNAMIC_SHARED_BYTES").and_then(|v| u64::try_from(v).ok()).unwrap_or(0)
    }

    /// Returns the number of tiles in a cluster that share loads, along the rows and along the columns of C.
    #[must_use]
    pub fn cluster_shape(&self) -> [u64; 2] {
        let across = self.size(Dim::ClusterN);
        [self.size(Dim::Cluster) / across, across]
    }

    /// Returns the number of blocks in a cluster: the blocks that share rows and columns, times the blocks that share a
    /// tile's k.
    #[must_use]
    pub fn cluster_blocks(&self) -> u64 {
        self.size(Dim::Cluster).saturating_mul(self.size(Dim::Split))
    }
}

/// The sizes of a tile that determine launches. They are enum variants, so that misspelt names do not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// `THREADS`: number of threads in a block.
    Threads,
    /// `ITEMS`: number of items that a thread processes.
    Items,
    /// `BLOCKS_PER_SM`: number of resident blocks on an SM.
    BlocksPerSm,
    /// `BM`: number of rows in a tile of C.
    Bm,
    /// `BN`: number of columns in a tile of C.
    Bn,
    /// `BK`: number of terms of a sum that are loaded at a time.
    Bk,
    /// `SPLIT`: number of blocks that share the k of one tile.
    Split,
    /// `CLUSTER`: number of blocks in a cluster.
    Cluster,
    /// `CLUSTER_N`: number of blocks in a cluster along n.
    ClusterN,
    /// `STAGES`: number of tiles in flight.
    Stages,
    /// `FEATURES_PER_THREAD`: number of features that a thread processes.
    FeaturesPerThread,
}

impl Dim {
    /// Returns the name of the size's macro.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "THREADS",
            Self::Items => "ITEMS",
            Self::BlocksPerSm => "BLOCKS_PER_SM",
            Self::Bm => "BM",
            Self::Bn => "BN",
            Self::Bk => "BK",
            Self::Split => "SPLIT",
            Self::Cluster => "CLUSTER",
            Self::ClusterN => "CLUSTER_N",
            Self::Stages => "STAGES",
            Self::FeaturesPerThread => "FEATURES_PER_THREAD",
        }
    }
}

/// The rule for the number of blocks of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Grid {
    /// The launch has one block.
    One,
    /// As many blocks as are needed to cover the items, with `THREADS` x `ITEMS` items per block.
    Cover,
    /// `BLOCKS_PER_SM` blocks for each SM, or fewer if fewer cover the items; each block strides over the items.
    Resident,
    /// `SPLIT` blocks for each tile of `BM` x `BN` elements of a matrix, or one block if there is no `SPLIT`.
    Tiles,
    /// One block for each SM, or for each tile if there are fewer; whole clusters of `CLUSTER` blocks process the
    /// tiles.
    ResidentTiles,
}

impl Grid {
    /// Returns the rule in words, such as "enough blocks to cover the items".
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::One => "one block",
            Self::Cover => "enough blocks to cover the items",
            Self::Resident => "a resident grid that strides over the items",
            Self::Tiles => "one block for each tile of the result, or several that share its k",
            Self::ResidentTiles => "a block for each SM, which goes through tiles of the result",
        }
    }
}

/// A file of CUDA C++, identified by its path below `kernels/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Path below `kernels/`, with forward slashes.
    pub path: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

/// A header file that comes with a kernel's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Path by which the kernel includes the header.
    pub path: String,
    /// Text of the file.
    pub text: String,
}

/// A kernel: its source, and the ways to compile it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelSpec {
    /// Path of the source below `kernels/`.
    pub file: Cow<'static, str>,
    /// Name of the entry (`extern "C"`).
    pub entry: Cow<'static, str>,
    /// Text of the source; a record stores it once, under [`Run::sources`](crate::Run::sources).
    #[serde(skip)]
    pub source: Cow<'static, str>,
    /// The author's headers that the kernel includes; a record stores them among the sources.
    #[serde(skip)]
    pub headers: Vec<Header>,
    /// Macros that the kernel is always compiled with, in addition to the macros of its tile.
    #[serde(default)]
    pub defines: Vec<Define>,
    /// Permitted tiles; the first one is the default.
    pub tiles: Vec<Tile>,
    /// Rule for the number of blocks in a launch.
    pub grid: Grid,
    /// Required hardware, if that is more than the rung requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<Requires>,
    /// True if the kernel first waits for the kernel before it, and so may be launched before that kernel ends.
    #[serde(skip)]
    pub waits: bool,
}

impl KernelSpec {
    /// Creates a kernel from an entry of a source file and its permitted tiles, of which the first is the default.
    #[must_use]
    pub fn new(source: Source, entry: &'static str, tiles: &[Tile], grid: Grid) -> Self {
        Self {
            file: Cow::Borrowed(source.path),
            entry: Cow::Borrowed(entry),
            source: Cow::Borrowed(source.text),
            headers: Vec::new(),
            defines: Vec::new(),
            tiles: tiles.to_vec(),
            grid,
            requires: None,
            waits: false,
        }
    }

    /// Returns the kernel marked as one that first waits for its predecessor.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Returns the kernel with the macro `-D NAME=value`, which replaces an earlier value.
    #[must_use]
    pub fn define(mut self, name: &'static str, value: i64) -> Self {
        self.defines.retain(|d| d.name != name);
        self.defines.push(Define::new(name, value));
        self
    }

    /// Returns the kernel restricted to newer hardware.
    #[must_use]
    pub fn needs(mut self, requires: Requires) -> Self {
        self.requires = Some(requires);
        self
    }

    /// Returns the kernel with the macro `-D NAME=1` for each of these names.
    #[must_use]
    pub fn with(mut self, names: &[&'static str]) -> Self {
        self.defines.extend(names.iter().map(|n| Define::new(*n, 1)));
        self
    }

    /// Returns the path of the source for messages. It starts with `kernels/`, except for a learner's own kernel.
    #[must_use]
    pub fn path(&self) -> String {
        source_path(&self.file)
    }

    /// Returns the tile with this id.
    #[must_use]
    pub fn tile(&self, id: &str) -> Option<&Tile> {
        self.tiles.iter().find(|t| t.id == id)
    }
}

impl Rung {
    /// Creates a rung that runs on the CPU; `what` says what part of it is used, such as "1 thread".
    #[must_use]
    pub fn cpu(id: &'static str, title: &'static str, idea: &'static str, what: &'static str) -> Self {
        let runner = Runner::Cpu(what.into());
        Self {
            id: id.into(),
            title: title.into(),
            idea: idea.into(),
            requires: Requires::Nothing,
            runner,
            variant_of: None,
        }
    }

    /// Creates a rung with a single kernel, for GPUs of compute capability 7.5 or later unless the kernel requires
    /// more.
    #[must_use]
    pub fn cuda(id: &'static str, title: &'static str, idea: &'static str, kernel: KernelSpec) -> Self {
        let requires = kernel.requires.clone().unwrap_or(Requires::AtLeast(7, 5));
        let runner = Runner::Kernels { specs: vec![kernel], schedule: Schedule::Launches };
        Self { id: id.into(), title: title.into(), idea: idea.into(), requires, runner, variant_of: None }
    }

    /// Returns the kernels of the rung; empty if it has none.
    #[must_use]
    pub fn kernels(&self) -> &[KernelSpec] {
        match &self.runner {
            Runner::Kernels { specs, .. } => specs,
            _ => &[],
        }
    }

    /// Returns the launch schedule, if the rung has kernels.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        match &self.runner {
            Runner::Kernels { schedule, .. } => Some(*schedule),
            _ => None,
        }
    }

    /// Returns the kernel with this entry.
    #[must_use]
    pub fn kernel(&self, entry: &str) -> Option<&KernelSpec> {
        self.kernels().iter().find(|k| k.entry == entry)
    }

    /// Returns true if the rung runs on the CPU.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        matches!(self.runner, Runner::Cpu(_))
    }

    /// Returns true if the CUDA driver does the work without a kernel, as for copies.
    #[must_use]
    pub fn is_driver(&self) -> bool {
        matches!(&self.runner, Runner::Library(name) if name == CUDA_DRIVER)
    }

    /// Returns true if the rung belongs to a GPU library or the driver.
    #[must_use]
    pub fn is_library(&self) -> bool {
        matches!(self.runner, Runner::Library(_))
    }

    /// Returns the framework that runs the rung, if it is another program.
    #[must_use]
    pub fn framework(&self) -> Option<&str> {
        match &self.runner {
            Runner::External(name) => Some(name),
            _ => None,
        }
    }
}

/// Returns up to three names of `known` that are the most similar to a misspelt name, the most similar first.
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

/// Returns the Levenshtein distance, counted in characters.
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
    fn sizes_of_tiles_are_read() {
        assert_eq!(" BM = 64".parse(), Ok(Define::new("BM", 64)));
        for bad in ["BM", "BM=x", "=3", "B M=3", "3B=3"] {
            assert!(bad.parse::<Define>().unwrap_err().contains("as BM=64"), "{bad}");
        }
    }

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
}
