//! Lets linear layers use learners' kernels for their matrix products.

use super::LiveKernel;
use warpbook_gemm::{OwnProduct, ProductBy};
use warpbook_kernels::matmul::{Row, rows};
use warpbook_record::{LIVE, Rung, Runner};

/// Lets a learner's kernel compute a linear layer: `linear(128).product(&mine)`.
impl From<&LiveKernel> for ProductBy {
    fn from(live: &LiveKernel) -> Self {
        let (id, rung) = (live.id(), live.rung());
        // A kernel of another experiment does not compute a matrix product; planning the layer then fails.
        let none = || {
            let runner = Runner::Library(id.clone().into());
            Row { rung: Rung { runner, ..rung.clone() }, ..rows().swap_remove(0) }
        };
        let base = rows().into_iter().find(|row| Some(&row.rung.id) == rung.variant_of.as_ref());
        let row = base.map_or_else(none, |base| Row { rung: rung.clone(), ..base });
        OwnProduct::new(&*id, row).into()
    }
}

/// Lets a learner's kernel compute a linear layer: `linear(128).product(mine)`.
impl From<LiveKernel> for ProductBy {
    fn from(live: LiveKernel) -> Self {
        (&live).into()
    }
}

impl LiveKernel {
    /// Returns the learner's kernel behind a product; `None` for an unchanged rung.
    #[must_use]
    pub fn of_product(own: OwnProduct) -> Option<Self> {
        let rung = &own.row().rung;
        let base = rows().into_iter().find(|row| Some(&row.rung.id) == rung.variant_of.as_ref())?.rung;
        let spec = rung.kernels().first().filter(|spec| spec.file.starts_with(LIVE))?;
        let tile = spec.tiles.first()?.clone();
        let live = Self::variant(&base).ok()?;
        Some(Self { source: spec.source.to_string(), headers: spec.headers.clone(), tile, ..live })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_kernel_is_a_product_and_comes_back() {
        let mine = LiveKernel::for_rung("05_register_2d").unwrap().named("mine").size("BM", 64);
        let own = ProductBy::from(&mine).kernel().unwrap();
        assert_eq!((own.name(), &*own.row().rung.id), ("05_register_2d+mine", "05_register_2d+mine"));
        let again = LiveKernel::of_product(own).unwrap();
        assert_eq!((again.text(), again.id(), &again.tile), (mine.text(), mine.id(), &mine.tile));
        let rung = OwnProduct::read(std::path::Path::new(""), "05_register_2d").unwrap();
        assert!(LiveKernel::of_product(rung).is_none());
        let other = LiveKernel::variant(
            &warpbook_kernels::regression::rungs().into_iter().find(|r| r.id == "02_fused").unwrap(),
        );
        assert!(ProductBy::from(other.unwrap()).rows()[0].kernel().is_none());
    }
}
