//! The matrix product and the convolutions as a C library, `libwarpbook_op`, for another framework in the same process.
//! It takes that framework's device pointers and stream, in the device's primary context, and only queues work.
//! `notebooks/pytorch/warpbook_op.py` calls it through ctypes.
//!
//! ```c
//! const char *warpbook_error(void);              // of this thread's last call that failed
//! warpbook *warpbook_open(uint32_t device);      // NULL where it failed
//! void warpbook_close(warpbook *);
//! uint32_t warpbook_kernel(warpbook *, const char *name, int32_t dtype);
//! int32_t warpbook_gemm(warpbook *, cudaStream_t, const warpbook_product *, const void *a, const void *b, const float *bias,
//!                       const void *mask, void *c);
//! int32_t warpbook_conv2d_forward(warpbook *, cudaStream_t, const warpbook_convolution *, const void *x, const void *weight,
//!                                 const float *bias, int32_t relu, void *y);
//! int32_t warpbook_conv2d_input_gradient(warpbook *, cudaStream_t, const warpbook_convolution *, const void *dy, const void *weight,
//!                                        const void *mask, void *dx);
//! int32_t warpbook_conv2d_weight_gradient(warpbook *, cudaStream_t, const warpbook_convolution *, const void *x, const void *dy,
//!                                         float *dweight, float *dbias);
//! ```
//!
//! `warpbook_kernel` returns the number of a kernel for `warpbook_product`, or 0 if it failed. The other calls return 0, or 1 if they failed. Pointers to
//! unused arrays must be null. The structs are [`CProduct`] and [`CConvolution`]. All functions may be called from several threads at once. The first call with
//! a shape compiles its kernels, which takes seconds, and the first call on a stream allocates a workspace. Work may be captured into a CUDA graph, which can
//! be launched while the session is open.
#![allow(unsafe_code, reason = "C pointers; every function states its requirements")]

mod arguments;
mod session;

pub use arguments::{CConvolution, CProduct, Convolution2d};
pub use session::{ConvolutionPass, Queue, Session};

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use warpbook_device::{Element, Error, Result, Slice};
use warpbook_gemm::{DeviceArray, DeviceArrays};
use warpbook_record::Dtype;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Returns the error of this thread's last failed call; empty if none has failed. The text is valid until the next
/// failing call.
#[unsafe(no_mangle)]
pub extern "C" fn warpbook_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}

fn keep(why: &str) {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with_borrow_mut(|last| *last = text);
}

/// Returns the result of a call; on an error, stores the error and returns `None`. Panics count as errors, since no panic may unwind into C.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => keep(&error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            keep(&format!("Internal error in Warpbook: {text}"));
        }
    }
    None
}

fn status(call: impl FnOnce() -> Result<()>) -> i32 {
    i32::from(guarded(call).is_none())
}

fn null(name: &str) -> Error {
    Error::Unsupported { what: format!("The pointer to {name}"), why: "must not be null".into() }
}

/// Opens a device by its CUDA index; returns null if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn warpbook_open(device: u32) -> *mut Session {
    guarded(|| Session::open(device)).map_or(std::ptr::null_mut(), |session| Box::into_raw(Box::new(session)))
}

/// Closes a session from [`warpbook_open`]; null is ignored.
///
/// # Safety
/// The session must no longer be in use, neither by another thread nor by a graph captured with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbook_close(session: *mut Session) {
    if !session.is_null() {
        // SAFETY: `warpbook_open` returned the pointer, and the caller no longer uses it.
        let session = unsafe { Box::from_raw(session) };
        let _ = guarded(|| {
            drop(session);
            Ok(())
        });
    }
}

/// Returns the session, the queue and the description that were passed to a call.
///
/// # Safety
/// `session` must come from [`warpbook_open`], `description` must point to a T, and the stream must live as long as the session.
unsafe fn opened<'a, T>(
    session: *const Session,
    stream: *mut c_void,
    description: *const T,
) -> Result<(&'a Session, Arc<Queue>, &'a T)> {
    // SAFETY: the caller guarantees that a pointer that is not null points to an open session.
    let session = unsafe { session.as_ref() }.ok_or_else(|| null("a session"))?;
    // SAFETY: the caller guarantees that a pointer that is not null points to a T.
    let description = unsafe { description.as_ref() }.ok_or_else(|| null("a description of the work"))?;
    // SAFETY: the caller guarantees that the stream belongs to the device's primary context and lives as long as the session.
    let queue = session.queue(stream as usize, |device| unsafe { device.borrow_stream(stream) })?;
    Ok((session, queue, description))
}

/// Wraps a caller's array with elements of a type.
///
/// # Safety
/// See [`warpbook_device::CudaDevice::borrow_array`].
unsafe fn array(session: &Session, at: *const c_void, len: usize, dtype: Dtype) -> Result<DeviceArray> {
    /// # Safety
    /// The requirements of `array` apply.
    unsafe fn typed<T: Element>(session: &Session, at: *const c_void, len: usize) -> Result<Slice<T>> {
        // SAFETY: the caller guarantees that `at` points to `len` elements on the device, which live long enough.
        unsafe { session.device().borrow_array(at as u64, len) }
    }
    // SAFETY: the caller guarantees that `at` points to `len` elements on the device, which live long enough.
    unsafe {
        Ok(match dtype {
            Dtype::F16 => (&typed::<half::f16>(session, at, len)?).into(),
            Dtype::Bf16 => (&typed::<half::bf16>(session, at, len)?).into(),
            _ => (&typed::<f32>(session, at, len)?).into(),
        })
    }
}

/// Like [`array`], but returns `None` for a null pointer.
///
/// # Safety
/// See [`array()`].
unsafe fn optional(session: &Session, at: *const c_void, len: usize, dtype: Dtype) -> Result<Option<DeviceArray>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees that `at` points to `len` elements on the device, which live long enough.
    unsafe { array(session, at, len, dtype) }.map(Some)
}

/// Wraps a caller's f32 array; returns `None` for a null pointer.
///
/// # Safety
/// See [`array()`].
unsafe fn floats(session: &Session, at: *const f32, len: usize) -> Result<Option<Slice<f32>>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees that `at` points to `len` elements on the device, which live long enough.
    unsafe { session.device().borrow_array(at as u64, len) }.map(Some)
}

/// Returns the number of a kernel for use in [`CProduct`]: a rung, such as "03_shared_tile", or a learner's file, such
/// as "mine.cu" or "mine.cu@03_shared_tile". A learner's kernel is first checked in `dtype`, numbered as in
/// [`CProduct`]. Returns 0 if that fails.
///
/// # Safety
/// The session must be open, and `name` must be null or a zero-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbook_kernel(session: *const Session, name: *const c_char, dtype: i32) -> u32 {
    guarded(|| {
        // SAFETY: the caller guarantees that a pointer that is not null points to an open session.
        let session = unsafe { session.as_ref() }.ok_or_else(|| null("a session"))?;
        if name.is_null() {
            return Err(null("a kernel's name"));
        }
        // SAFETY: the pointer is not null, and the caller guarantees that it points to a zero-terminated string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        session.kernel(&name, arguments::dtype(dtype)?)
    })
    .unwrap_or(0)
}

/// Queues C = f(alpha op(A) op(B) + beta C). If the epilogue needs them, `bias` is f32 `[n]` and `mask` has C's shape
/// and type.
///
/// # Safety
/// The session must be open, `product` must point to a [`CProduct`], and the stream must belong to the device's primary
/// context and live as long as the session. The arrays must be on the device and as large as the product says, until
/// the queued work has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbook_gemm(
    session: *const Session,
    stream: *mut c_void,
    product: *const CProduct,
    a: *const c_void,
    b: *const c_void,
    bias: *const f32,
    mask: *const c_void,
    c: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: the caller guarantees everything that the called functions require.
        unsafe {
            let (session, queue, product) = opened(session, stream, product)?;
            let (product, kernel) = (product.product()?, product.kernel);
            let (form, [a_len, b_len, c_len]) = (product.form, product.elements());
            let mut arrays = DeviceArrays::new(
                array(session, a, a_len, form.dtype)?,
                array(session, b, b_len, form.dtype)?,
                array(session, c, c_len, form.out)?,
            );
            arrays.epilogue.bias = optional(session, bias.cast(), product.n as usize, Dtype::F32)?;
            arrays.epilogue.mask = optional(session, mask, c_len, form.out)?;
            session.product(&queue, (&product, kernel), &arrays)
        }
    })
}

/// Queues y = f(x * w + b), where f is a ReLU unless `relu` is 0. `bias` is f32 `[filters]` or null.
///
/// # Safety
/// See [`warpbook_gemm()`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbook_conv2d_forward(
    session: *const Session,
    stream: *mut c_void,
    convolution: *const CConvolution,
    x: *const c_void,
    weight: *const c_void,
    bias: *const f32,
    relu: i32,
    y: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: the caller guarantees everything that the called functions require.
        unsafe {
            let (session, queue, description) = opened(session, stream, convolution)?;
            let call = description.convolution()?;
            let (g, dtype) = (call.geometry, call.dtype);
            let pass = ConvolutionPass::Forward {
                x: array(session, x, g.input_len(), dtype)?,
                weight: array(session, weight, g.weight_len(), dtype)?,
                bias: floats(session, bias, g.filters)?,
                relu: relu != 0,
                y: array(session, y, g.output_len()?, dtype)?,
            };
            session.convolve(&queue, &*session.convolution(&call)?, &pass)
        }
    })
}

/// Queues the input gradient dx from dy and w. With `mask`, an array of x's shape and type, dx is 0 where the mask is 0
/// or less.
///
/// # Safety
/// See [`warpbook_gemm()`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbook_conv2d_input_gradient(
    session: *const Session,
    stream: *mut c_void,
    convolution: *const CConvolution,
    dy: *const c_void,
    weight: *const c_void,
    mask: *const c_void,
    dx: *mut c_void,
) -> i32 {
    status(|| {
        // SAFETY: the caller guarantees everything that the called functions require.
        unsafe {
            let (session, queue, description) = opened(session, stream, convolution)?;
            let call = description.convolution()?;
            let (g, dtype) = (call.geometry, call.dtype);
            let pass = ConvolutionPass::InputGradient {
                dy: array(session, dy, g.output_len()?, dtype)?,
                weight: array(session, weight, g.weight_len(), dtype)?,
                mask: optional(session, mask, g.input_len(), dtype)?,
                dx: array(session, dx, g.input_len(), dtype)?,
            };
            session.convolve(&queue, &*session.convolution(&call)?, &pass)
        }
    })
}

/// Queues the weight gradient dw, f32 in the weights' layout, and the bias gradient, f32 `[filters]`, unless `dbias` is
/// null.
///
/// # Safety
/// See [`warpbook_gemm()`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbook_conv2d_weight_gradient(
    session: *const Session,
    stream: *mut c_void,
    convolution: *const CConvolution,
    x: *const c_void,
    dy: *const c_void,
    dweight: *mut f32,
    dbias: *mut f32,
) -> i32 {
    status(|| {
        // SAFETY: the caller guarantees everything that the called functions require.
        unsafe {
            let (session, queue, description) = opened(session, stream, convolution)?;
            let call = description.convolution()?;
            let (g, dtype) = (call.geometry, call.dtype);
            let pass = ConvolutionPass::WeightGradient {
                x: array(session, x, g.input_len(), dtype)?,
                dy: array(session, dy, g.output_len()?, dtype)?,
                dweight: floats(session, dweight, g.weight_len())?.ok_or_else(|| null("dweight"))?,
                dbias: floats(session, dbias, g.filters)?,
            };
            session.convolve(&queue, &*session.convolution(&call)?, &pass)
        }
    })
}
