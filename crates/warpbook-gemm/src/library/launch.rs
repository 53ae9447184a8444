//! Launches the kernels for the work that a library does not do.
#![allow(unsafe_code)]

use crate::library::AfterLibrary;
use crate::{DeviceArray, Malformed, refused};
use warpbook_device::{KernelArg, Result, Slice, Stream};

/// Returns the number of elements as a 32-bit word.
fn word(len: usize) -> Result<u32> {
    u32::try_from(len).map_err(|_| refused(Malformed(format!("An array has {len} elements; the limit is 2^32 - 1."))))
}

impl AfterLibrary {
    /// Queues y = f(y + bias), where y is `[..][channels][pixels]` and f is a ReLU or the identity.
    ///
    /// # Errors
    /// If an array has the wrong length or type, there are no channels or pixels, or the launch is refused.
    pub fn bias(
        &self,
        stream: &Stream,
        y: &DeviceArray,
        bias: &Slice<f32>,
        [channels, pixels]: [u32; 2],
        relu: bool,
    ) -> Result<()> {
        let (n, relu) = (word(y.len())?, u32::from(relu));
        self.holds("The output", y, y.len())?;
        if channels == 0 || pixels == 0 || bias.len() < channels as usize {
            let text = format!("The bias has {} elements, but {channels} channels need {channels}.", bias.len());
            return Err(refused(Malformed(text)));
        }
        let args: [&dyn KernelArg; 6] = [y.bytes(), bias, &channels, &pixels, &relu, &n];
        // SAFETY: the arguments match `bias_forward(y, bias, channels, pixels, relu, n)`; the type and the lengths were checked.
        unsafe { self.bias.launch(stream, self.bias.shape(n.into()), &args) }
    }

    /// Queues y = max(y, 0); NaN stays NaN.
    ///
    /// # Errors
    /// If the array has the wrong type, or the launch is refused.
    pub fn relu(&self, stream: &Stream, y: &DeviceArray) -> Result<()> {
        self.holds("The output", y, y.len())?;
        let (n, kernel) = (y.len() as u64, &self.relu[0]);
        // SAFETY: the arguments match `relu_forward(x, y, n)`, where x and y may be the same array; the type was checked.
        unsafe { kernel.launch(stream, kernel.shape(n), &[y.bytes(), y.bytes(), &n]) }
    }

    /// Queues a kernel that sets dx to 0 where the mask is 0 or less.
    ///
    /// # Errors
    /// If an array has the wrong type, the mask is too short, or the launch is refused.
    pub fn mask(&self, stream: &Stream, mask: &DeviceArray, dx: &DeviceArray) -> Result<()> {
        self.holds("The mask", mask, dx.len())?;
        self.holds("The gradient", dx, dx.len())?;
        let (n, kernel) = (dx.len() as u64, &self.relu[1]);
        // SAFETY: the arguments match `relu_backward(y, dy, dx, n)`, where dx may be dy; types and lengths were checked.
        unsafe { kernel.launch(stream, kernel.shape(n), &[mask.bytes(), dx.bytes(), dx.bytes(), &n]) }
    }

    /// Queues a copy of `from` to `to`, converted to f32.
    ///
    /// # Errors
    /// If `from` has the wrong type or is too short, there are too many elements, or the launch is refused.
    pub fn widen(&self, stream: &Stream, from: &DeviceArray, to: &Slice<f32>) -> Result<()> {
        self.holds("The narrow array", from, to.len())?;
        let n = word(to.len())?;
        // SAFETY: the arguments match `widen(from, to, n)`; types and lengths were checked.
        unsafe { self.widen.launch(stream, self.widen.shape(n.into()), &[from.bytes(), to, &n]) }
    }
}
