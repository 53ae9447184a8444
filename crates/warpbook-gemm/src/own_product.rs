//! Kernels written by the user for the products of linear layers, which are read by name and kept.

use crate::ProductBy;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use warpbook_device::read_kernel;
use warpbook_kernels::matmul::{Row, rows};
use warpbook_record::{Define, Dtype, KernelSpec, LIVE, Rung, Runner, nearest};

/// Seconds after which a learner's kernel is assumed to hang.
pub const OWN_KERNEL_LIMIT_S: f64 = 5.0;

/// Largest size of a tile, which keeps the arithmetic of grids within its types.
const LARGEST: i64 = 1 << 20;

/// Id of the rung that a file replaces, unless the user names another.
const USUAL: &str = "02_coalesced";

/// A kernel written by the user for the products of linear layers: a row of the catalogue with a different source and one tile.
///
/// The handle is `Copy`. The kernel behind the handle is kept until the process ends; equal kernels are kept only once.
#[derive(Clone, Copy)]
pub struct OwnProduct(&'static KeptKernel);

/// The kernel behind a handle.
struct KeptKernel {
    name: String,
    row: Row,
    /// Types in which the kernel was found to be correct.
    right: Mutex<Vec<Dtype>>,
}

impl OwnProduct {
    /// Keeps a kernel under a name, which is the name of its file or of its rung. The kernel is used with the first tile of its row; a row without a kernel is
    /// refused when a product is planned.
    #[must_use]
    pub fn new(name: impl Into<String>, row: Row) -> Self {
        static ALL: Mutex<Vec<&'static KeptKernel>> = Mutex::new(Vec::new());
        let (name, mut row) = (name.into(), row);
        // Since there is only one tile, the row's costs do not matter.
        let tile: Option<&'static str> =
            row.kernel().and_then(|k| k.tiles.first()).map(|t| &*Box::leak(t.id.to_string().into_boxed_str()));
        (row.costs, row.fallback) = (None, tile.map(|id| [id; 2]));
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|kept| kept.name == name && kept.row == row) {
            return Self(known);
        }
        let kept: &'static KeptKernel = Box::leak(Box::new(KeptKernel { name, row, right: Mutex::default() }));
        all.push(kept);
        Self(kept)
    }

    /// Reads a kernel from its name on the command line, in recipes and in PyTorch: a file, `mine.cu`; a file in place of a rung, `mine.cu@03_shared_tile`; a
    /// file in place of a rung with sizes of its tile, `mine.cu@05_register_2d:BM=64,THREADS=128`; or an unchanged rung, `05_register_2d`. A file replaces
    /// `02_coalesced` unless a rung is named, and gets the rung's first tile. Files are looked up in `folder`, and headers in the folder of the file that
    /// includes them.
    ///
    /// # Errors
    /// If a file cannot be read, there is no such rung with a kernel, or a size is not a number from 1 to 1,048,576.
    pub fn read(folder: &Path, text: &str) -> Result<Self, String> {
        let (file, rung, sizes) = split_name(text);
        let all: Vec<Row> = rows().into_iter().filter(|row| row.kernel().is_some()).collect();
        let Some(mut row) = all.iter().find(|row| row.rung.id == *rung).cloned() else {
            return Err(unknown(text, &all));
        };
        let Some(spec) = row.kernel() else { return Err(unknown(text, &all)) };
        let (id, mut spec) = (row.rung.id.clone(), spec.clone());
        spec.tiles.truncate(1);
        if let Some(file) = file {
            let (source, headers) = read_kernel(&folder.join(file))?;
            spec = KernelSpec { file: format!("{LIVE}mine.cu").into(), source: source.into(), headers, ..spec };
            row.rung = Rung { id: format!("{id}+mine").into(), title: "mine".into(), variant_of: Some(id), ..row.rung };
        }
        for size in sizes.split(',').filter(|size| !size.is_empty()) {
            let read = size.parse().ok().filter(|read: &Define| (1..=LARGEST).contains(&read.value));
            let size = read
                .ok_or_else(|| format!("`{size}` is not a size of a tile: write it as BM=64, from 1 to {LARGEST}."))?;
            spec.tiles.iter_mut().for_each(|tile| tile.set(size.clone()));
        }
        if let Runner::Kernels { specs, .. } = &mut row.rung.runner {
            *specs = vec![spec];
        }
        Ok(Self::new(text, row))
    }

    /// Returns the path of the kernel's file as the user wrote it, if the kernel has a file.
    #[must_use]
    pub fn file(self) -> Option<&'static Path> {
        split_name(self.name()).0.map(Path::new)
    }

    /// Returns the name of the kernel.
    #[must_use]
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Returns true if the kernel was found to be correct in a type, in this process.
    #[must_use]
    pub fn is_right(self, dtype: Dtype) -> bool {
        self.0.right.lock().unwrap_or_else(PoisonError::into_inner).contains(&dtype)
    }

    /// Records that the kernel was found to be correct in a type; see [`is_right`](Self::is_right).
    pub fn found_right(self, dtype: Dtype) {
        self.0.right.lock().unwrap_or_else(PoisonError::into_inner).push(dtype);
    }

    /// Returns the catalogue row of the kernel.
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

/// Splits a kernel's name into its file, its rung, and the sizes of its tile.
fn split_name(text: &str) -> (Option<&str>, &str, &str) {
    let (what, sizes) = text.rsplit_once(':').filter(|(_, sizes)| sizes.contains('=')).unwrap_or((text, ""));
    match what.rsplit_once('@') {
        Some((file, rung)) => (Some(file), rung, sizes),
        None if Path::new(what).extension().is_some_and(|end| end.eq_ignore_ascii_case("cu")) => {
            (Some(what), USUAL, sizes)
        }
        None => (None, what, sizes),
    }
}

fn unknown(text: &str, all: &[Row]) -> String {
    let (names, (_, rung, _)) = (ProductBy::ALL.map(ProductBy::name), split_name(text));
    let near = nearest(rung, names.into_iter().chain(all.iter().map(|row| &*row.rung.id)))[0];
    format!(
        "`{rung}` cannot compute a linear layer; did you mean `{near}`? Choose one of {}, a rung such as 05_register_2d, or a file such as mine.cu.",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProductBy;

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

    #[test]
    fn a_product_is_named_by_file_rung_and_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let source =
            rows().into_iter().find(|row| row.rung.id == "03_shared_tile").unwrap().kernel().unwrap().source.clone();
        std::fs::write(folder.path().join("mine.cu"), &*source).unwrap();
        let by = |text: &str| ProductBy::read(folder.path(), text).unwrap();
        assert_eq!((by("stock"), by("tiled-16")), (ProductBy::Stock, ProductBy::Tiled16));
        let rung = |text: &str| by(text).rows()[0].rung.clone();
        assert_eq!(&*rung("mine.cu").id, "02_coalesced+mine");
        let tiled = rung("mine.cu@03_shared_tile:BM=16,BN=16,BK=16,THREADS=256");
        let spec = &tiled.kernels()[0];
        assert_eq!((&*tiled.id, &*spec.file, &*spec.source), ("03_shared_tile+mine", "live/mine.cu", &*source));
        assert_eq!((spec.tiles.len(), spec.tiles[0].get("THREADS")), (1, Some(256)));
        assert_eq!(by("mine.cu@03_shared_tile").to_string(), "mine.cu@03_shared_tile");
        assert_eq!(by("mine.cu"), by("mine.cu"), "the same kernel is the same product");
        let plain = rung("05_register_2d");
        assert_eq!((&*plain.id, &*plain.kernels()[0].file), ("05_register_2d", "matmul/05_register_2d.cu"));
        let file = |text: &str| by(text).kernel().and_then(OwnProduct::file);
        assert_eq!(file("mine.cu@02_coalesced:BM=8,BN=32"), Some(Path::new("mine.cu")));
        assert_eq!((file("02_coalesced"), file("own")), (None, None));
    }

    #[test]
    fn what_is_no_product_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let why = |text: &str| ProductBy::read(folder.path(), text).unwrap_err();
        assert!(why("stok").contains("did you mean `stock`?"), "{}", why("stok"));
        assert!(why("none.cu").contains("none.cu cannot be read"), "{}", why("none.cu"));
        std::fs::write(folder.path().join("k.cu"), "").unwrap();
        assert!(why("k.cu@03_shared").contains("did you mean `03_shared_tile`?"), "{}", why("k.cu@03_shared"));
        assert!(why("cublas").contains("cannot compute a linear layer"), "{}", why("cublas"));
        for size in ["BM=x", "BM=0", "BM=9999999"] {
            assert!(why(&format!("k.cu:{size}")).contains(&format!("`{size}` is not a size")), "{size}");
        }
    }
}
