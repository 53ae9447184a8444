//! Findings: the kernels that were the fastest for certain products, either published or found in a run.

use crate::Product;
use crate::choose::candidates::fits;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use warpbook_kernels::matmul::{Row, rows};
use warpbook_record::{DeviceInfo, Dtype, Tile};

/// Published findings, one file for each device. `data/findings/make.py` makes them from records.
const PUBLISHED: [&str; 2] = [
    include_str!("../../../../data/findings/nvidia-h100.json"),
    include_str!("../../../../data/findings/nvidia-h200.json"),
];
/// Largest distance to another product whose finding is still tried. The distance is the sum of the differences between the sides' binary logarithms.
const NEAR: f64 = 1.5;

/// The fastest rung and tile found for a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Number of rows of C.
    pub m: u32,
    /// Number of columns of C.
    pub n: u32,
    /// Number of terms in each sum.
    pub k: u32,
    /// Type of A and B.
    pub dtype: Dtype,
    /// Type of C, if it differs from the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<Dtype>,
    /// True if A is stored transposed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trans_a: bool,
    /// True if B is stored transposed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trans_b: bool,
    /// Leading dimensions of A, B and C in elements, if there are gaps between rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leading: Option<[u32; 3]>,
    /// Id of the rung.
    pub rung: String,
    /// Id of the tile.
    pub tile: String,
    /// Time in microseconds, measured or expected.
    pub us: f64,
}

impl Finding {
    /// Returns the finding of a rung and a tile for a product.
    #[must_use]
    pub fn new(p: &Product, rung: &str, tile: &str, us: f64) -> Self {
        let (packed, leading) = (Product::new(p.m, p.n, p.k, p.form), [p.lda, p.ldb, p.ldc]);
        Self {
            m: p.m,
            n: p.n,
            k: p.k,
            dtype: p.form.dtype,
            out: Some(p.form.out).filter(|out| *out != usual_out(p.form.dtype)),
            trans_a: p.form.trans_a,
            trans_b: p.form.trans_b,
            leading: Some(leading).filter(|of| *of != [packed.lda, packed.ldb, packed.ldc]),
            rung: rung.to_owned(),
            tile: tile.to_owned(),
            us,
        }
    }

    /// Returns true if the finding is for this product, regardless of its epilogue and its factors.
    #[must_use]
    pub fn is_of(&self, product: &Product) -> bool {
        self.is_like(&Self::new(product, "", "", 0.0))
    }

    /// Returns true if another finding is for the same product.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Returns the key that distinguishes the finding's product from others.
    pub(crate) fn key(&self) -> impl Ord + std::hash::Hash + use<> {
        let types = [Some(self.dtype), self.out].map(|dtype| dtype.map(Dtype::label));
        (self.m, self.n, self.k, types, self.trans_a, self.trans_b, self.leading)
    }

    /// Returns the finding's row and tile, if the catalogue has them and they can run the product on the device.
    pub(crate) fn kernel<'r>(
        &self,
        rows: &'r [Row],
        product: &Product,
        device: &DeviceInfo,
    ) -> Option<(&'r Row, &'r Tile)> {
        let row = rows.iter().find(|row| row.rung.id == *self.rung)?;
        let tile = row.kernel()?.tile(&self.tile).filter(|tile| fits(tile, device))?;
        row.obstacle(product.form, device.compute_capability).is_none().then_some((row, tile))
    }

    /// Returns the distance from the finding's product to another one of the same kind; `None` if they differ in type, transpositions, or
    /// alignment of rows.
    fn distance(&self, p: &Product) -> Option<f64> {
        let width = |dtype: Dtype| if dtype.bytes() == 2 { Dtype::F16 } else { dtype };
        let own = Product::new(self.m, self.n, self.k, p.form);
        let aligned = |p: &Product| [p.lda, p.ldb, p.ldc].map(|ld| ld.is_multiple_of(8));
        let alike = width(self.dtype) == width(p.form.dtype)
            && (self.trans_a, self.trans_b) == (p.form.trans_a, p.form.trans_b)
            && self.leading.is_none()
            && aligned(&own) == aligned(p);
        let apart =
            [(self.m, p.m), (self.n, p.n), (self.k, p.k)].map(|(a, b)| (f64::from(a) / f64::from(b)).log2().abs());
        alike.then(|| apart.iter().sum())
    }
}

/// Returns the usual type of C for operands of this type; files leave it out.
fn usual_out(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype }
}

/// A collection of findings, which may be empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Findings {
    /// The findings, one for each product.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

impl Findings {
    /// Returns the findings published for a device; most devices have none.
    #[must_use]
    pub fn published(device: &DeviceInfo) -> Self {
        static ALL: LazyLock<Vec<Published>> = LazyLock::new(|| {
            // A test reads every file, so reading cannot fail here.
            PUBLISHED.iter().filter_map(|text| Published::read(text).ok()).collect()
        });
        let published = ALL.iter().find(|p| p.device == device.name && p.multiprocessors == device.multiprocessors);
        published.map_or_else(Self::default, |p| Self { findings: p.findings.clone() })
    }

    /// Returns the finding for a product.
    #[must_use]
    pub fn find(&self, product: &Product) -> Option<&Finding> {
        self.findings.iter().find(|f| f.is_of(product))
    }

    /// Returns the finding of the nearest product of the same kind, if that product is close enough.
    #[must_use]
    pub fn nearest(&self, product: &Product) -> Option<&Finding> {
        let near = self.findings.iter().filter_map(|f| Some((f.distance(product).filter(|d| *d <= NEAR)?, f)));
        near.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, finding)| finding)
    }

    /// Adds a finding, replacing an earlier one for the same product.
    pub fn keep(&mut self, product: &Product, finding: Finding) {
        self.findings.retain(|f| !f.is_of(product));
        self.findings.push(finding);
    }
}

/// A file with the findings for a device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// Name of the device, as the driver reports it.
    pub device: String,
    /// Number of the device's multiprocessors, which may differ between devices of one name.
    pub multiprocessors: u32,
    /// Origin of the findings' times.
    pub from: String,
    pub findings: Vec<Finding>,
}

impl Published {
    /// Reads a file of findings.
    ///
    /// # Errors
    /// If its JSON is malformed, the catalogue lacks a kernel, a size or time is not positive, or a product is listed twice.
    pub fn read(text: &str) -> Result<Self, String> {
        let published: Self = serde_json::from_str(text).map_err(|e| format!("The findings cannot be read: {e}."))?;
        let rows = rows();
        let mut seen = std::collections::HashSet::new();
        for f in &published.findings {
            let what = format!("{}x{}x{} {}", f.m, f.n, f.k, f.dtype.label());
            let row = rows.iter().find(|row| row.rung.id == *f.rung && row.tunable);
            let row = row.filter(|row| row.capabilities().is_some_and(|can| can.takes(f.dtype)));
            if row.and_then(|row| row.kernel()?.tile(&f.tile)).is_none() {
                return Err(format!("{what}: the catalogue has no {} with the tile {} for it.", f.rung, f.tile));
            }
            if [f.m, f.n, f.k].contains(&0) || !(f.us.is_finite() && f.us > 0.0) {
                return Err(format!("{what} in {} us: the sizes and the time must be positive.", f.us));
            }
            if !seen.insert(f.key()) {
                return Err(format!("{what} is listed twice: keep one of the two findings."));
            }
        }
        Ok(published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::tests::h200;
    use warpbook_kernels::matmul::Form;

    fn product((m, n, k): (u32, u32, u32)) -> Product {
        Product::new(m, n, k, Form { trans_b: true, ..Form::plain(Dtype::Bf16) })
    }

    #[test]
    fn a_product_has_one_finding() {
        let (p, mut all) = (product((64, 32, 16)), Findings::default());
        for tile in ["128x128s6c2g8", "128x256s4c2g8"] {
            all.keep(&p, Finding::new(&p, "13_persistent_cluster", tile, 1.0));
        }
        let found = |p: &Product| all.find(p).map(|f| &*f.tile);
        assert_eq!((all.findings.len(), found(&p)), (1, Some("128x256s4c2g8")));
        // The factors and the epilogue do not matter; types, transpositions and gaps do.
        assert_eq!(found(&p.scaled(2.0, 1.0)), Some("128x256s4c2g8"));
        assert_eq!(found(&Product { form: Form { trans_b: false, ..p.form }, ldb: 32, ..p }), None);
        assert_eq!(found(&Product { form: Form { out: Dtype::F32, ..p.form }, ..p }), None);
        assert_eq!(found(&p.leading(24, 16, 32)), None);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Findings>(&text).unwrap(), all);
    }

    #[test]
    fn the_nearest_is_of_the_same_kind() {
        let mut all = Findings::default();
        for shape in [(64, 4096, 4096), (4096, 4096, 4096), (4095, 4095, 4095)] {
            all.keep(&product(shape), Finding::new(&product(shape), "14_overlapped_store", "128x256s4c2g8", 1.0));
        }
        let near = |p: Product| all.nearest(&p).map(|f| [f.m, f.n, f.k]);
        assert_eq!(near(product((4096, 4096, 4000))), Some([4096; 3]));
        assert_eq!(near(product((4001, 4095, 4095))), Some([4095; 3]));
        assert_eq!(near(product((80, 4096, 4096))), Some([64, 4096, 4096]));
        assert_eq!(near(product((512, 512, 512))), None);
        assert_eq!(near(Product::new(4096, 4096, 4096, Form::plain(Dtype::Bf16))), None);
    }

    /// Every published file is valid and small, and names kernels that run on its device.
    #[test]
    fn published_findings_are_read() {
        for text in PUBLISHED {
            let published = Published::read(text).unwrap_or_else(|why| panic!("{why}"));
            assert!(text.len() <= 100 << 10 && published.findings.len() > 50 && !published.from.is_empty());
        }
        let device = DeviceInfo { name: "NVIDIA H200".into(), ..h200() };
        let (all, rows) = (Findings::published(&device), rows());
        let cube = Product::new(4096, 4096, 4096, Form::plain(Dtype::Bf16));
        assert!(all.find(&cube).and_then(|f| f.kernel(&rows, &cube, &device)).is_some());
        assert_eq!(Findings::published(&DeviceInfo { name: "NVIDIA H20".into(), ..h200() }), Findings::default());
    }

    #[test]
    fn malformed_findings_are_refused() {
        let file = |finding: &str| {
            let text = format!(r#"{{"device": "d", "multiprocessors": 1, "from": "f", "findings": [{finding}]}}"#);
            Published::read(&text).map(|p| p.findings.len())
        };
        let good = r#"{"m": 8, "n": 8, "k": 8, "dtype": "bf16", "rung": "07_warp_tile", "tile": "64x64x8", "us": 1.5}"#;
        assert_eq!((file(good), file("")), (Ok(1), Ok(0)));
        let refused = |finding: &str| file(finding).unwrap_err();
        assert!(refused(&format!("{good}, {good}")).contains("twice"));
        assert!(refused(&good.replace("64x64x8", "65x64x8")).contains("no 07_warp_tile with the tile 65x64x8"));
        assert!(refused(&good.replace("07_warp_tile", "01_naive")).contains("no 01_naive"));
        assert!(refused(&good.replace("1.5", "0.0")).contains("8x8x8 bf16 in 0 us"));
        assert!(refused(&good.replace("\"m\": 8", "\"m\": 0")).contains("must be positive"));
        assert!(refused(&good.replace("bf16", "bf17")).contains("no 07_warp_tile"));
        for bad in [good.replace("\"us\"", "\"ms\""), good.replace("\"k\": 8, ", "")] {
            assert!(refused(&bad).contains("cannot be read"), "{bad}");
        }
        assert!(Published::read("").is_err() && Published::read("[1").is_err());
    }
}
