//! Edits of the regression's kernels by a learner.

use crate::prelude::*;
use warpbook_kernels::regression::rungs;
use warpbook_record::nearest;

/// Returns a rung of the regression as a live kernel, to be edited.
///
/// # Errors
/// If there is no such rung, or it has no kernel.
pub fn variant(rung: &str) -> Result<LiveKernel> {
    let all = rungs();
    let Some(found) = all.iter().find(|r| r.id == rung) else {
        let near = nearest(rung, all.iter().filter(|r| !r.is_cpu()).map(|r| &*r.id));
        return Err(Error::UnknownRung { name: rung.into(), nearest: near.into_iter().map(str::to_owned).collect() });
    };
    LiveKernel::variant(found)
}

/// Compiles an edited kernel of the regression, checks it, and times it together with the unedited rung at 5 M points. Without a GPU the kernel runs in the
/// emulator, with few points and without a time.
///
/// # Errors
/// If [`Lab::attempt_at`] returns an error.
pub fn attempt(lab: &Lab, live: &LiveKernel) -> Result<Attempt> {
    let descent = Regression::new().parts(false);
    let problem = descent.problems().swap_remove(0);
    lab.attempt_at(&descent, &problem, live)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rung_is_found_by_its_id_and_others_are_named() {
        assert!(variant("02_fused").unwrap().text().contains("struct Accumulator"));
        assert!(variant("2_fused").unwrap_err().to_string().contains("02_fused"));
        assert!(variant("cpu_1_thread").unwrap_err().to_string().contains("no kernel"));
    }
}
