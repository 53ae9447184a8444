//! The backends of a product: the rung that this project chooses, NVIDIA's library, a rung as a beginner would write it, or a learner's kernel.

use crate::OwnProduct;
use std::fmt;
use std::path::Path;
use warpbook_kernels::matmul::{Fallback, Row, rows};

/// Backend for the products of linear layers on a GPU, forward and both gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ProductBy {
    /// The rung of the catalogue that [`crate::Gemm`] chooses for each size.
    #[default]
    Own,
    /// cuBLASLt with the algorithm that its heuristics suggest first, as PyTorch does; biases and ReLUs are separate kernels that run afterwards, so a 16-bit
    /// output is rounded once more than with a fused epilogue.
    Stock,
    /// The first CUDA rung of the ladder: one thread for each element of C, which reads every operand from global memory. It does not support tf32.
    Naive,
    /// The rung with 32 x 32 tiles in shared memory. It does not support tf32.
    Tiled,
    /// Like [`Self::Tiled`], with tiles of 16 x 16.
    Tiled16,
    /// Like [`Self::Tiled`], with tiles of 8 x 8.
    Tiled8,
    /// A kernel that has a single tile size: a learner's kernel, or a rung of the matmul ladder selected by its id.
    Kernel(OwnProduct),
}

impl ProductBy {
    /// All backends that have a fixed name.
    pub const ALL: [Self; 6] = [Self::Own, Self::Stock, Self::Naive, Self::Tiled, Self::Tiled16, Self::Tiled8];

    /// Reads the backend of linear layers: one of [`ProductBy::ALL`] by its name, or a kernel by [`OwnProduct::read`].
    ///
    /// # Errors
    /// Returns the errors of [`OwnProduct::read`].
    pub fn read(folder: &Path, text: &str) -> Result<Self, String> {
        let text = text.trim();
        text.parse().or_else(|_: String| OwnProduct::read(folder, text).map(Self::Kernel))
    }

    /// Returns the backend's name on the command line.
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

    /// Returns true if the backend is one kernel with one tile for all products.
    #[must_use]
    pub fn names_a_rung(self) -> bool {
        !matches!(self, Self::Own | Self::Stock)
    }

    /// Returns the learner's kernel, if the backend is such a kernel.
    #[must_use]
    pub fn kernel(self) -> Option<OwnProduct> {
        match self {
            Self::Kernel(own) => Some(own),
            _ => None,
        }
    }

    /// Returns the rung and the tile that the backend selects; `None` if it does not select one.
    fn rung(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Own | Self::Stock | Self::Kernel(_) => None,
            Self::Naive => Some(("01_naive", "32x8")),
            Self::Tiled => Some(("03_shared_tile", "32x32x32")),
            Self::Tiled16 => Some(("03_shared_tile", "16x16x16")),
            Self::Tiled8 => Some(("03_shared_tile", "8x8x8")),
        }
    }

    /// Returns the rows of the catalogue to choose from: all of this project's kernels, or the single row and tile that the backend selects.
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

impl fmt::Display for ProductBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for ProductBy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|by| by.name() == name)
            .ok_or_else(|| format!("Unknown backend `{name}`: choose one of {}.", known()))
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
            "Unknown backend `fast`: choose one of own, stock, naive, tiled, tiled-16, tiled-8."
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
}
