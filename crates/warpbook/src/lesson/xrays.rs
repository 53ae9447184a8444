//! X-rays in a lesson.

use crate::prelude::*;
use warpbook_lab::{Error, Result};

/// Shows an X-ray that [`Lab::xray`] took. If it cannot be taken here, for example on a CPU or on another GPU than the rung is made for, shows the reason
/// instead.
///
/// # Errors
/// If the device or the compiler reports an error.
pub fn xray_or_why(taken: Result<XrayRun>) -> Result<Panel> {
    match taken {
        Ok(taken) => Ok(Panel::column([&taken as &dyn Show])),
        Err(Error::Setting(why)) => Ok(Panel::column([&why as &dyn Show])),
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a CPU, a lesson's cells show the reason in place of each X-ray.
    #[test]
    fn on_a_cpu_the_reason_is_shown_in_place_of_the_picture() {
        let lab = Lab::open("cpu").unwrap();
        let descent = Regression::new().points([5_000_000]).epochs(20).parts(false);
        let product = |dtype| Matmul::new().shapes([(2048, 2048, 2048)]).dtypes([dtype]).transfers(false);
        let cells: [(&dyn Experiment, &str); 8] = [
            (&descent, "05_persistent"),
            (&descent, "06_on_chip"),
            (&product(Dtype::F32), "03_shared_tile"),
            (&product(Dtype::F32), "08_double_buffered"),
            (&product(Dtype::Bf16), "11_wgmma_tma"),
            (&product(Dtype::Bf16), "12_warp_specialised"),
            (&product(Dtype::Bf16), "13_persistent_cluster"),
            (&product(Dtype::Bf16), "14_overlapped_store"),
        ];
        for (experiment, rung) in cells {
            let shown = xray_or_why(lab.xray(experiment, rung)).unwrap().text();
            assert!(shown.contains("An X-ray needs a GPU") && shown.contains(rung), "{shown}");
        }
        assert!(xray_or_why(lab.xray(&descent, "05_persistant")).is_err(), "a wrong name is an error");
    }
}
