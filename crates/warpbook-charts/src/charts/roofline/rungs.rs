//! The roofline of a problem's rungs.

use super::roofs_and_points;
use crate::draw::{Chart, ChartError, Options};
use warpbook_record::{Problem, Run};

impl Options {
    /// Draws FLOP/s over FLOP/byte on logarithmic axes: each kernel rung below the measured roof of its memory level. All roofs end at the highest measured
    /// peak of arithmetic, for the problem's type and the points' types. The peak of fp32 is also drawn if it is lower and not among these, since some rungs do
    /// not use tensor cores.
    ///
    /// The memory level of a rung is the one that bounds it or, if arithmetic bounds it, the one at which it moves the most bytes. Rungs whose bytes were not
    /// counted are left out, and listed. Points are numbered from the fastest to the slowest, and named beside the plot, or below a narrow plot.
    ///
    /// # Errors
    /// Returns [`ChartError::NothingToDraw`] if the record has no measurement of the problem, no measured bandwidth, or no valid rung of the device whose
    /// bytes were counted.
    pub fn roofline(&self, run: &Run, problem: &Problem) -> Result<Chart, ChartError> {
        let mut roofs = match roofs_and_points(self, run, problem) {
            Ok(roofs) => roofs,
            // A profile has no timed rungs, so its operations become the points.
            Err(why) => return self.kernel_roofline(run, problem, None).map_err(|_| why),
        };
        roofs.points.sort_by(|a, b| b.flops_per_s().total_cmp(&a.flops_per_s()));
        roofs.draw()
    }
}
