//! Times a kernel on a GPU: launches alternate between two inputs, and the results of the timed launches themselves are checked.

use super::gpu_launch::{Arrays, LIMIT_S};
use crate::exercise::case::{Case, Size};
use crate::exercise::definition::KernelTask;
use crate::exercise::draw::Draw;
use warpbook_device::{Bench, CudaDevice, Kernel, Result, Stream};

/// First random stream for the timed inputs, so that they differ from the inputs of the other sizes.
const TIMED: u32 = 1 << 20;

/// Launches of a kernel that alternate between two inputs, each with arrays of its own.
struct InTurn<'k> {
    both: [Arrays; 2],
    kernel: &'k Kernel,
    stream: Stream,
}

impl<'k> InTurn<'k> {
    fn new(device: &CudaDevice, kernel: &'k Kernel, case: impl Fn(u32) -> Case) -> Result<Self> {
        let arrays = |input: u32| Arrays::new(device, case(input))?.with_copies(device);
        Ok(Self { both: [arrays(0)?, arrays(1)?], kernel, stream: device.stream()? })
    }

    /// Restores the arrays of both inputs.
    fn restore(&self) -> Result<()> {
        self.both.iter().try_for_each(|arrays| arrays.restore(&self.stream))
    }

    /// Launches the kernel once with each input. A sample has no further launches: they could find the result of an earlier one, and skip their work.
    fn launch(&self) -> Result<()> {
        self.both.iter().try_for_each(|arrays| arrays.launch(self.kernel, &self.stream))
    }

    /// Returns a sentence about the first error in the arrays that the last launch with each input has left; `None` if all of them are right.
    fn wrong(&self) -> Result<Option<String>> {
        self.stream.synchronize_within(LIMIT_S)?;
        for arrays in &self.both {
            if let Some(wrong) = arrays.wrong()? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    /// Checks the results of one launch with each input, calls `samples`, which restores the arrays before each of its samples and launches the kernel, and
    /// checks the arrays that the last sample has left. Returns the result of `samples`, or a sentence that says what is wrong.
    fn checked<T>(&self, samples: impl FnOnce() -> Result<T>) -> Result<std::result::Result<T, String>> {
        self.restore()?;
        self.launch()?;
        if let Some(wrong) = self.wrong()? {
            return Ok(Err(wrong));
        }
        let sampled = samples()?;
        Ok(match self.wrong()? {
            Some(wrong) => Err(wrong),
            None => Ok(sampled),
        })
    }
}

/// Times a kernel at the size of its time target. A sample is one launch with each of two inputs, whose results are compared with the reference before timing.
/// Before each sample outputs are poisoned, and updated arrays restored; after the last sample, its own results are compared, so that a kernel that does less
/// once it is timed is wrong. Returns the median time of a launch in microseconds, or a sentence that says what is wrong.
pub(in crate::exercise) fn time_on_gpu(
    device: &CudaDevice,
    bench: &Bench,
    kernel: &Kernel,
    (task, size): (&KernelTask, Size),
    seed: u64,
) -> Result<std::result::Result<f64, String>> {
    let turns = InTurn::new(device, kernel, |input| (task.case)(size, &mut Draw::new(seed, TIMED + input)))?;
    turns.checked(|| {
        let samples = bench.cuda(device, &turns.stream, None, Some(&mut || turns.restore()), || turns.launch())?;
        Ok(samples.median_us() / 2.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exercise::case::Tolerance;
    use crate::exercise::judge::spec;

    /// `y` becomes `3 * x`, and `z` becomes `z + x`.
    fn case(input: u32) -> Case {
        let mut draw = Draw::new(7, input);
        let (x, z) = (draw.floats(300), draw.floats(300));
        let tolerance = Tolerance::Within { relative: 1e-6, scale: 1e-6 };
        let three: Vec<f32> = x.iter().map(|x| 3.0 * x).collect();
        let sums: Vec<f32> = x.iter().zip(&z).map(|(x, z)| x + z).collect();
        let case = Case::new("n = 300").over(300, 64).input("x", x).output("y", three, tolerance);
        case.update("z", z, sums, tolerance).int("n", 300)
    }

    /// Takes five samples of a kernel in the emulator, which has no times, by the code that takes them on a GPU. `body` computes both results. `launch` is the
    /// number of the launch, from 0: each block adds 1 to `blocks`.
    fn sampled(body: &str) -> std::result::Result<u32, String> {
        let source = format!(
            "__device__ unsigned blocks;\nextern \"C\" __global__ void both(const float* x, float* y, float* z, int n) {{\n\
             __shared__ unsigned launch;\nif (threadIdx.x == 0) launch = atomicAdd(&blocks, 1u) / gridDim.x;\n__syncthreads();\n\
             int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i >= n) return;\n{body}\n}}"
        );
        let device = CudaDevice::emulated();
        let (spec, tile) = spec(("E97.cu", "both"), &source);
        let kernel = device.kernel(&spec, &tile).unwrap();
        let turns = InTurn::new(&device, &kernel, case).unwrap();
        let samples = || {
            for _ in 0..5 {
                turns.restore()?;
                turns.launch()?;
            }
            Ok(5)
        };
        turns.checked(samples).unwrap()
    }

    #[test]
    fn a_right_kernel_is_right_in_every_sample() {
        assert_eq!(sampled("y[i] = 3 * x[i]; z[i] += x[i];"), Ok(5));
    }

    #[test]
    fn results_of_timed_launches_are_checked_and_not_those_of_launches_before() {
        let wrong = |body: &str, part: &str| {
            let why = sampled(body).unwrap_err();
            assert!(why.contains(part), "{why}");
        };
        // Launches 0 and 1 are checked before timing. A kernel that writes nothing from the third launch on leaves poison.
        wrong("if (launch < 2) { y[i] = 3 * x[i]; z[i] += x[i]; }", "`y[0]` is NaN");
        // The results of the first samples do not count for the last one.
        wrong("if (launch < 8) { y[i] = 3 * x[i]; } z[i] += x[i];", "`y[0]` is NaN");
        wrong("y[i] = 3 * x[i]; if (launch < 8) z[i] += x[i];", "`z[0]` is");
        // The last launch with the second input writes nothing.
        wrong("if (launch != 11) y[i] = 3 * x[i]; z[i] += x[i];", "`y[0]` is NaN");
        wrong("y[i] = 2 * x[i]; z[i] += x[i];", "`y[0]` is");
        wrong(
            "y[i] = 3 * x[i]; z[i] += x[i]; if (launch == 5) const_cast<float*>(x)[i] = 0;",
            "`x` has other elements",
        );
    }

    #[test]
    fn no_launch_finds_the_result_of_an_earlier_one() {
        // A lazy kernel computes `y` only where it finds poison. This one writes 0 where it would be lazy, so that a second launch with the same input in a
        // sample would leave a wrong result.
        assert_eq!(sampled("y[i] = __float_as_uint(y[i]) == ~0u ? 3 * x[i] : 0; z[i] += x[i];"), Ok(5));
    }
}
