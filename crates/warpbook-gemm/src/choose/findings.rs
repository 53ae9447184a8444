//! What tuning found on a device, kept in a file.

use crate::Product;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use warpbook_kernels::matmul::{Form, Row};
use warpbook_record::{DeviceInfo, Dtype};

/// The fastest rung and tile that tuning found for a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// Terms of a sum.
    pub k: u32,
    /// Type of A and B.
    pub dtype: Dtype,
    /// Whether A is stored transposed.
    #[serde(default)]
    pub trans_a: bool,
    /// Whether B is stored transposed.
    #[serde(default)]
    pub trans_b: bool,
    /// The rung's id.
    pub rung: String,
    /// The tile's id.
    pub tile: String,
    /// Its median time in microseconds.
    pub us: f64,
    /// Ids of the rungs that were tried.
    #[serde(default)]
    pub tried: Vec<String>,
}

impl Finding {
    /// Whether every tunable row that takes a product of this form today was tried. A finding made before a rung existed, or without
    /// it, says nothing about that rung, so it must not overrule the costs.
    #[must_use]
    pub fn covers(&self, rows: &[Row], form: Form, compute_capability: Option<(u32, u32)>) -> bool {
        let mut candidates =
            rows.iter().filter(|r| r.tunable && r.obstacle(form, compute_capability).is_none()).map(|r| &r.rung.id);
        !self.tried.is_empty() && candidates.all(|id| self.tried.iter().any(|tried| tried == id))
    }
}

/// What tuning found on one device. Never required.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Findings {
    /// One for each product.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

impl Findings {
    /// The file for a device, next to the compiled kernels; `None` where nothing is cached.
    #[must_use]
    pub fn path(device: &DeviceInfo) -> Option<PathBuf> {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = device.name.chars().map(letters).collect();
        Some(warpbook_record::cache_folder()?.join(format!("tuned-matmul-{name}.json")))
    }

    /// The findings for a device; none where there is no file, or one that cannot be read.
    #[must_use]
    pub fn of(device: &DeviceInfo) -> Self {
        Self::path(device).map(|p| Self::read(&p)).unwrap_or_default()
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The finding for a product.
    #[must_use]
    pub fn find(&self, p: &Product) -> Option<&Finding> {
        let Form { dtype, trans_a, trans_b, .. } = p.form;
        self.findings
            .iter()
            .find(|f| (f.m, f.n, f.k, f.dtype, f.trans_a, f.trans_b) == (p.m, p.n, p.k, dtype, trans_a, trans_b))
    }

    /// Adds a finding; it replaces an earlier one for the same product.
    pub fn keep(&mut self, finding: Finding) {
        let key = |f: &Finding| (f.m, f.n, f.k, f.dtype, f.trans_a, f.trans_b);
        self.findings.retain(|f| key(f) != key(&finding));
        self.findings.push(finding);
    }

    /// Writes the file under a temporary name and renames it.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        warpbook_device::write_atomic_with_folder(path, (text + "\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_kernels::matmul::rows;

    fn finding(tile: &str) -> Finding {
        Finding {
            m: 64,
            n: 32,
            k: 16,
            dtype: Dtype::Bf16,
            trans_a: false,
            trans_b: true,
            rung: "13_persistent_cluster".into(),
            tile: tile.into(),
            us: 1.0,
            tried: vec!["13_persistent_cluster".into()],
        }
    }

    #[test]
    fn a_product_has_one_finding() {
        let mut all = Findings::default();
        all.keep(finding("128x128s6c2g8"));
        all.keep(finding("128x256s4c2g8"));
        let form = Form { trans_b: true, ..Form::plain(Dtype::Bf16) };
        let found = |form| all.find(&Product::new(64, 32, 16, form)).map(|f| &*f.tile);
        assert_eq!((all.findings.len(), found(form)), (1, Some("128x256s4c2g8")));
        assert_eq!(found(Form { trans_b: false, ..form }), None);
    }

    #[test]
    fn a_finding_counts_while_no_untried_row_could_win() {
        let (rows, cc) = (rows(), Some((9, 0)));
        let ids = |form: Form| -> Vec<String> {
            let taking = rows.iter().filter(|r| r.tunable && r.obstacle(form, cc).is_none());
            taking.map(|r| r.rung.id.to_string()).collect()
        };
        let tf32 = Form { out: Dtype::F32, ..Form::plain(Dtype::Tf32) };
        let all = Finding { tried: ids(tf32), ..finding("t") };
        assert!(all.tried.iter().any(|id| id == "16_tf32_registers") && all.covers(&rows, tf32, cc));
        for missing in 0..all.tried.len() {
            let mut fewer = all.clone();
            fewer.tried.remove(missing);
            assert!(!fewer.covers(&rows, tf32, cc), "without {}", all.tried[missing]);
        }
        // Rungs that do not take the type need not have been tried.
        let bf16 = Form::plain(Dtype::Bf16);
        assert!(!ids(bf16).contains(&"16_tf32_registers".to_owned()));
        assert!(Finding { tried: ids(bf16), ..finding("t") }.covers(&rows, bf16, cc));
        assert!(!Finding { tried: Vec::new(), ..finding("t") }.covers(&[], bf16, cc));
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_an_old_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        let all = Findings { findings: vec![finding("t")] };
        all.write(&path).unwrap();
        assert_eq!(Findings::read(&path), all);
        let files = || std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files(), 1);
        // A file from before rungs were listed.
        let old = std::fs::read_to_string(&path).unwrap().replace("tried", "something_else");
        std::fs::write(&path, old).unwrap();
        let read = Findings::read(&path);
        assert_eq!((read.findings.len(), read.findings[0].tried.len()), (1, 0));
        std::fs::write(&path, "{\"findings\": [{").unwrap();
        assert_eq!(Findings::read(&path), Findings::default());
    }
}
