//! What computes a product: our choice of a rung, NVIDIA's library, a rung as a beginner writes it, or a kernel that a learner wrote.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use warpbook_kernels::matmul::{Fallback, Row, rows};

/// What computes the products of linear layers on a GPU, forwards and both gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ProductBy {
    /// The rung of the catalogue that [`super::Gemm`] chooses for each size.
    #[default]
    Own,
    /// cuBLASLt with the algorithm that its heuristics suggest first, as PyTorch does; biases and ReLUs are kernels of ours after it, so
    /// a 16-bit output is rounded once more than in an epilogue.
    Stock,
    /// The first CUDA rung of the ladder: a thread an element of C, every operand from global memory. It takes no tf32.
    Naive,
    /// The rung with 32 x 32 tiles in shared memory. It takes no tf32.
    Tiled,
    /// The same rung with tiles of 16 x 16.
    Tiled16,
    /// The same rung with tiles of 8 x 8.
    Tiled8,
    /// A kernel with one tile: a learner's, or a rung by its id.
    Kernel(OwnProduct),
}

impl ProductBy {
    /// Those that have a name of their own.
    pub const ALL: [Self; 6] = [Self::Own, Self::Stock, Self::Naive, Self::Tiled, Self::Tiled16, Self::Tiled8];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Stock => "stock",
            Self::Naive => "naive",
            Self::Tiled => "tiled",
            Self::Tiled16 => "tiled-16",
            Self::Tiled8 => "tiled-8",
            Self::Kernel(own) => own.name(),
        }
    }

    /// Returns `true` if it is one kernel with one tile, whatever the product.
    #[must_use]
    pub fn names_a_rung(self) -> bool {
        !matches!(self, Self::Own | Self::Stock)
    }

    /// The learner's kernel, if it is one.
    #[must_use]
    pub fn kernel(self) -> Option<OwnProduct> {
        match self {
            Self::Kernel(own) => Some(own),
            _ => None,
        }
    }

    /// The rung and the tile that it names, where it names one.
    fn rung(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Own | Self::Stock | Self::Kernel(_) => None,
            Self::Naive => Some(("01_naive", "32x8")),
            Self::Tiled => Some(("03_shared_tile", "32x32x32")),
            Self::Tiled16 => Some(("03_shared_tile", "16x16x16")),
            Self::Tiled8 => Some(("03_shared_tile", "8x8x8")),
        }
    }

    /// The rows of the catalogue that a choice is made from: those of our kernels, or the one row, with the one tile.
    #[must_use]
    pub fn rows(self) -> Vec<Row> {
        if let Self::Kernel(own) = self {
            return vec![own.row().clone()];
        }
        let Some((id, tile)) = self.rung() else { return rows() };
        let fallback: Option<Fallback> = Some([tile; 2]);
        rows().into_iter().filter(|row| row.rung.id == id).map(|row| Row { fallback, ..row }).collect()
    }
}

/// A kernel of one's own for the products of linear layers: a row of the catalogue with another source and one tile.
///
/// It is a handle that can be copied. The kernel behind it is kept until the process ends, once for each distinct kernel.
#[derive(Clone, Copy)]
pub struct OwnProduct(&'static Kept);

/// What a handle leads to.
struct Kept {
    name: String,
    row: Row,
}

impl OwnProduct {
    /// Keeps a kernel under a name: that of its file, or of the rung that it is. It is used with the first tile of its row; a row without a kernel
    /// is refused when a product is planned.
    #[must_use]
    pub fn new(name: impl Into<String>, row: Row) -> Self {
        static ALL: Mutex<Vec<&'static Kept>> = Mutex::new(Vec::new());
        let (name, mut row) = (name.into(), row);
        // A row's tiles are chosen by costs, where it has some.
        let tile: Option<&'static str> =
            row.kernel().and_then(|k| k.tiles.first()).map(|t| &*Box::leak(t.id.to_string().into_boxed_str()));
        (row.costs, row.fallback) = (None, tile.map(|id| [id; 2]));
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|kept| kept.name == name && kept.row == row) {
            return Self(known);
        }
        let kept: &'static Kept = Box::leak(Box::new(Kept { name, row }));
        all.push(kept);
        Self(kept)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Its row.
    #[must_use]
    pub fn row(self) -> &'static Row {
        &self.0.row
    }
}

impl PartialEq for OwnProduct {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for OwnProduct {}

impl Hash for OwnProduct {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl fmt::Debug for OwnProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnProduct").field(&self.name()).finish()
    }
}

impl From<OwnProduct> for ProductBy {
    fn from(own: OwnProduct) -> Self {
        Self::Kernel(own)
    }
}

impl fmt::Display for ProductBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for ProductBy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|by| by.name() == name).ok_or_else(|| format!("`{name}` is none of {}.", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_known_by_its_name() {
        for by in ProductBy::ALL {
            assert_eq!(by.to_string().parse(), Ok(by));
        }
        assert_eq!(
            "fast".parse::<ProductBy>().unwrap_err(),
            "`fast` is none of own, stock, naive, tiled, tiled-16, tiled-8."
        );
    }

    #[test]
    fn the_rungs_and_tiles_are_in_the_catalogue() {
        for by in ProductBy::ALL.into_iter().filter(|by| by.names_a_rung()) {
            let rows = by.rows();
            let [row] = &rows[..] else { panic!("{by}: {} rows", rows.len()) };
            let [tile, _] = row.fallback.unwrap();
            assert!(row.kernel().unwrap().tile(tile).is_some(), "{by}");
            assert!(row.costs.is_none(), "{by}: costs would choose another tile");
        }
        assert!(ProductBy::Own.rows().len() > 10);
    }

    #[test]
    fn a_kernel_of_one_s_own_is_one_row_with_one_tile() {
        let row = |id: &str| rows().into_iter().find(|row| row.rung.id == id).unwrap();
        let own = OwnProduct::new("mine.cu", row("05_register_2d"));
        assert_eq!(own, OwnProduct::new("mine.cu", row("05_register_2d")), "the same kernel is kept once");
        assert_ne!(own, OwnProduct::new("mine.cu", row("04_register_1d")));
        assert_ne!(own, OwnProduct::new("other.cu", row("05_register_2d")));
        let by = ProductBy::from(own);
        assert!(by.names_a_rung() && by.to_string() == "mine.cu" && by.kernel() == Some(own));
        let all = by.rows();
        let tile = &all[0].kernel().unwrap().tiles[0].id;
        assert_eq!((all.len(), all[0].fallback.map(|[a, _]| a), all[0].costs.as_ref()), (1, Some(&**tile), None));
    }
}
