//! State kept between calls: plans for products and convolutions, and a stream and a workspace for each stream of the
//! caller.

use crate::arguments::Convolution2d;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warpbook_device::{CudaDevice, Error, Result, Slice, Stream, outside_of_a_capture};
use warpbook_gemm::{DeviceArray, DeviceArrays, Gemm, Product, ProductBy, Workspace, check_own_product};
use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::{Convolution, Epilogue, Form, Method};
use warpbook_record::Dtype;

/// A device with the plans of all calls so far.
#[derive(Debug)]
pub struct Session {
    device: CudaDevice,
    gemm: Gemm,
    /// Kernels requested by name; the number of a kernel is its position, counted from 1.
    kernels: Mutex<Vec<ProductBy>>,
    convolutions: Mutex<HashMap<(Geometry, Form), Arc<Convolution>>>,
    streams: Mutex<HashMap<usize, Arc<Queue>>>,
}

/// A caller's stream, with memory for intermediate results.
#[derive(Debug)]
pub struct Queue {
    stream: Stream,
    /// The last workspace is in use; earlier workspaces became too small. They are kept, since a graph that captured one
    /// of them may still be launched.
    workspaces: Mutex<Vec<Workspace>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the value for a key. A missing value is created outside the lock, so that other threads continue while
/// kernels are compiled.
fn kept<K: Hash + Eq, V>(map: &Mutex<HashMap<K, Arc<V>>>, key: K, make: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
    if let Some(there) = locked(map).get(&key) {
        return Ok(there.clone());
    }
    let made = Arc::new(outside_of_a_capture(make)?);
    Ok(match locked(map).entry(key) {
        Entry::Occupied(there) => there.get().clone(),
        Entry::Vacant(free) => free.insert(made).clone(),
    })
}

impl Session {
    /// Opens device `index` in its primary context.
    ///
    /// # Errors
    /// If there is no driver, or no such device.
    pub fn open(index: u32) -> Result<Self> {
        let device = CudaDevice::open(index)?;
        let gemm = Gemm::new(&device);
        let (kernels, convolutions) = (Mutex::default(), Mutex::default());
        Ok(Self { device, gemm, kernels, convolutions, streams: Mutex::default() })
    }

    /// Returns the number of a kernel, named as [`ProductBy::read`] reads it, with the file in the working directory or
    /// given by an absolute path. A learner's kernel is checked once in `dtype`, as a linear layer would use it.
    ///
    /// # Errors
    /// If there is no such kernel, if it is a library, or if its results are wrong; the message says where.
    pub fn kernel(&self, name: &str, dtype: Dtype) -> Result<u32> {
        let refuse = |why: String| Error::Unsupported { what: format!("The kernel {name}"), why };
        let by = ProductBy::read(Path::new(""), name).map_err(|why| refuse(format!("cannot be used: {why}")))?;
        if !by.names_a_rung() {
            return Err(refuse("is not a single kernel: name a rung, or a file such as mine.cu".into()));
        }
        let mut all = locked(&self.kernels);
        if let Some(own) = by.kernel()
            && let Some(why) = outside_of_a_capture(|| check_own_product(&self.device, own, dtype))?
        {
            return Err(refuse(format!("cannot compute linear layers: {why}")));
        }
        let at = all.iter().position(|known| *known == by).unwrap_or_else(|| {
            all.push(by);
            all.len() - 1
        });
        Ok(at as u32 + 1)
    }

    /// Returns the session's device.
    #[must_use]
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// Returns the queue for a caller's stream, given its handle; `make` wraps the stream in the first call.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn queue(&self, handle: usize, make: impl FnOnce(&CudaDevice) -> Stream) -> Result<Arc<Queue>> {
        kept(&self.streams, handle, || {
            Ok(Queue { stream: make(&self.device), workspaces: Mutex::new(vec![Workspace::new(&self.device, 0)?]) })
        })
    }

    /// Queues a product, computed by a kernel from [`Session::kernel`] or, if the number is 0, by the kernel that
    /// Warpbook chooses.
    ///
    /// # Errors
    /// See [`Gemm::gemm`]; also if no kernel has this number.
    pub fn product(&self, queue: &Queue, (product, kernel): (&Product, u32), arrays: &DeviceArrays) -> Result<()> {
        let named = || {
            let by = kernel.checked_sub(1).and_then(|at| locked(&self.kernels).get(at as usize).copied());
            by.ok_or_else(|| Error::Unsupported {
                what: format!("Kernel {kernel}"),
                why: "is not known: pass a number that warpbook_kernel has returned".into(),
            })
        };
        let plan = outside_of_a_capture(|| match kernel {
            0 => self.gemm.plan_for(product, arrays),
            _ => self.gemm.plan_with(named()?, product, arrays),
        })?;
        queue.with_workspace(&self.device, plan.workspace_bytes(), |stream, workspace| {
            plan.launch_checked(stream, arrays, workspace)
        })
    }

    /// Returns the kernels of a convolution.
    ///
    /// # Errors
    /// See [`Convolution::new`].
    pub fn convolution(&self, of: &Convolution2d) -> Result<Arc<Convolution>> {
        let form = Form { method: Method::ManyChannels, dtype: of.dtype, layout: of.layout };
        kept(&self.convolutions, (of.geometry, form), || Convolution::new(&self.device, &self.gemm, &of.geometry, form))
    }

    /// Queues a pass of a convolution.
    ///
    /// # Errors
    /// If an array's length does not match its shape, or a launch is refused.
    pub fn convolve(&self, queue: &Queue, convolution: &Convolution, pass: &ConvolutionPass) -> Result<()> {
        queue.with_workspace(&self.device, convolution.workspace_bytes(), |stream, workspace| match pass {
            ConvolutionPass::Forward { x, weight, bias, relu, y } => {
                let epilogue = if *relu { Epilogue::Relu } else { Epilogue::None };
                convolution.forward(stream, x, weight, bias.as_ref(), epilogue, y, workspace)
            }
            ConvolutionPass::InputGradient { dy, weight, mask, dx } => {
                convolution.input_gradient(stream, dy, weight, mask.as_ref(), dx, workspace)
            }
            ConvolutionPass::WeightGradient { x, dy, dweight, dbias } => {
                convolution.weight_gradient(stream, x, dy, dweight, dbias.as_ref(), workspace)
            }
        })
    }
}

/// The arrays for a pass of a convolution.
#[derive(Debug)]
pub enum ConvolutionPass {
    /// The forward pass, y = f(x * w + b).
    Forward {
        /// Input images.
        x: DeviceArray,
        /// Weights of the filters.
        weight: DeviceArray,
        /// Bias f32 `[filters]`.
        bias: Option<Slice<f32>>,
        /// True if f is a ReLU.
        relu: bool,
        /// Output of the convolution.
        y: DeviceArray,
    },
    /// The input gradient dx from dy and w.
    InputGradient {
        /// Gradient of the loss with respect to y.
        dy: DeviceArray,
        /// Weights of the filters.
        weight: DeviceArray,
        /// Array of x's shape; dx is 0 where the mask is 0 or less.
        mask: Option<DeviceArray>,
        /// Array for the resulting gradient.
        dx: DeviceArray,
    },
    /// The weight gradient dw in f32, from x and dy.
    WeightGradient {
        /// Input images.
        x: DeviceArray,
        /// Gradient of the loss with respect to y.
        dy: DeviceArray,
        /// Array for the resulting gradient.
        dweight: Slice<f32>,
        /// Array for the bias gradient, the sums of dy for each filter, if requested.
        dbias: Option<Slice<f32>>,
    },
}

impl Queue {
    /// Calls `queue` with the stream and a workspace of at least this size. Work on one stream runs in order, so it can
    /// use the same workspace.
    fn with_workspace(
        &self,
        device: &CudaDevice,
        bytes: u64,
        queue: impl FnOnce(&Stream, &Workspace) -> Result<()>,
    ) -> Result<()> {
        let mut workspaces = locked(&self.workspaces);
        if workspaces.last().is_none_or(|last| last.bytes() < bytes) {
            workspaces.push(outside_of_a_capture(|| Workspace::new(device, bytes))?);
        }
        queue(&self.stream, &workspaces[workspaces.len() - 1])
    }
}
