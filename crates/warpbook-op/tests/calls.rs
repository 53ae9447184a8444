//! Tests the C interface as a C program would use it: errors on every machine, work if there is a GPU.
#![allow(unsafe_code, reason = "the calls of a C interface")]

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use warpbook_device::{Buffer, CudaDevice, Element, testing};
use warpbook_op::{
    CConvolution, CProduct, Session, warpbook_close, warpbook_conv2d_forward, warpbook_conv2d_input_gradient,
    warpbook_conv2d_weight_gradient, warpbook_error, warpbook_gemm, warpbook_kernel, warpbook_open,
};

fn error() -> String {
    // SAFETY: the text stays valid until the next call on this thread.
    unsafe { CStr::from_ptr(warpbook_error()) }.to_string_lossy().into_owned()
}

const PRODUCT: CProduct = CProduct {
    m: 37,
    n: 24,
    k: 45,
    lda: 45,
    ldb: 45,
    ldc: 24,
    dtype: 0,
    out: 0,
    trans_a: 0,
    trans_b: 1,
    epilogue: 2,
    alpha: 1.0,
    beta: 0.0,
    kernel: 0,
};

#[test]
fn what_cannot_be_done_is_said() {
    assert!(warpbook_open(4711).is_null());
    assert!(!error().is_empty(), "an error has a text");
    // SAFETY: the function refuses null pointers before it reads anything.
    let status = unsafe { warpbook_gemm(null(), null_mut(), &PRODUCT, null(), null(), null(), null(), null_mut()) };
    assert_eq!(status, 1);
    assert!(error().contains("pointer to a session"), "{}", error());
    let of_another_thread = std::thread::spawn(error).join().unwrap();
    assert_eq!(of_another_thread, "");
    // SAFETY: closing null is allowed and does nothing.
    unsafe { warpbook_close(null_mut()) };
}

/// Returns small whole numbers, so that sums are exact in every type.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed * 3) % 11) as f32 - 5.0).collect()
}

fn at<T: Element>(buffer: &Buffer<T>) -> *mut c_void {
    buffer.at(0).address() as *mut c_void
}

struct Opened(*mut Session);

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the test opened the session, and its work has ended.
        unsafe { warpbook_close(self.0) };
    }
}

fn opened(device: &CudaDevice) -> Opened {
    let session = warpbook_open(device.info().index);
    assert!(!session.is_null(), "{}", error());
    Opened(session)
}

/// Waits for the default stream, which waits for all blocking streams.
fn wait(device: &CudaDevice) {
    // SAFETY: null stands for the default stream, which always exists.
    unsafe { device.borrow_stream(null_mut()) }.synchronize().unwrap();
}

#[test]
fn a_product_is_queued_on_a_stream_of_another_on_a_gpu() {
    let Some(device) = testing::gpu("a_product_is_queued_on_a_stream_of_another_on_a_gpu") else { return };
    let session = opened(&device);
    let CProduct { m, n, k, .. } = PRODUCT;
    let [m, n, k] = [m, n, k].map(|size| size as usize);
    let (a, b, bias) = (numbers(m * k, 1), numbers(n * k, 2), numbers(n, 3));
    let arrays = [&a, &b, &bias].map(|v| device.buffer_from(v).unwrap());
    let c = device.zeros::<f32>(m * n).unwrap();
    let call = |product: &CProduct| {
        let [a, b, bias] = [0, 1, 2].map(|i| at(&arrays[i]).cast_const());
        // SAFETY: the arrays have the sizes that the product requires, and are read only after the stream has been waited for.
        unsafe { warpbook_gemm(session.0, null_mut(), product, a, b, bias.cast(), null(), at(&c)) }
    };
    assert_eq!(call(&PRODUCT), 0, "{}", error());
    wait(&device);
    let want: Vec<f32> = (0..m * n)
        .map(|i| {
            let (row, column) = (i / n, i % n);
            let sum: f32 = (0..k).map(|t| a[row * k + t] * b[column * k + t]).sum();
            (sum + bias[column]).max(0.0)
        })
        .collect();
    assert_eq!(c.to_vec().unwrap(), want);
    // Computes the same product with a rung and with a learner's kernel; a wrong kernel is detected before it is used.
    let folder = tempfile::tempdir().unwrap();
    let row = warpbook_kernels::matmul::rows().into_iter().find(|row| row.rung.id == "03_shared_tile").unwrap();
    let source = row.kernel().unwrap().source.to_string();
    std::fs::write(folder.path().join("mine.cu"), &source).unwrap();
    std::fs::write(folder.path().join("wrong.cu"), source.replace("kk < BK;", "kk < BK - 1;")).unwrap();
    let kernel = |name: &str| {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: the session is open, and the name is zero-terminated.
        unsafe { warpbook_kernel(session.0, name.as_ptr(), 0) }
    };
    let named = |file: &str| format!("{}@03_shared_tile", folder.path().join(file).display());
    for name in ["03_shared_tile", "tiled-8", &named("mine.cu")] {
        c.write(&vec![0.0; m * n]).unwrap();
        let number = kernel(name);
        assert!(number > 0, "{name}: {}", error());
        assert_eq!(call(&CProduct { kernel: number, ..PRODUCT }), 0, "{name}: {}", error());
        wait(&device);
        assert_eq!(c.to_vec().unwrap(), want, "{name}");
    }
    assert_eq!(kernel(&named("mine.cu")), 3, "a kernel has one number");
    for (name, why) in [
        (named("wrong.cu"), "elements are wrong"),
        ("none.cu".into(), "cannot be read"),
        ("stock".into(), "is not a single kernel"),
    ] {
        assert_eq!(kernel(&name), 0, "{name}");
        assert!(error().contains(why), "{name}: {}", error());
    }
    assert_eq!(call(&CProduct { kernel: 9, ..PRODUCT }), 1);
    assert!(error().contains("Kernel 9 is not known"), "{}", error());
    assert_eq!(call(&CProduct { ldb: 44, ..PRODUCT }), 1);
    assert!(error().contains("ldb is 44"), "{}", error());
    assert_eq!(call(&CProduct { epilogue: 0, ..PRODUCT }), 1);
    assert!(error().contains("bias is passed"), "{}", error());
}

#[test]
fn all_passes_of_a_convolution_are_queued_on_a_gpu() {
    let Some(device) = testing::gpu("all_passes_of_a_convolution_are_queued_on_a_gpu") else { return };
    let session = opened(&device);
    let (batch, side, channels, filters) = (2, 6, 8, 16);
    let description = CConvolution {
        batch,
        size: [side; 2],
        channels,
        filters,
        kernel: [3; 2],
        stride: [1; 2],
        padding: [1; 2],
        dtype: 0,
        layout: 0,
    };
    let [batch, side, channels, filters] = [batch, side, channels, filters].map(|n| n as usize);
    let (x, dy) = (numbers(batch * side * side * channels, 1), numbers(batch * side * side * filters, 2));
    let (weight, bias) = (numbers(filters * 9 * channels, 3), numbers(filters, 4));
    // Returns all triples of a pixel of y, a filter tap, and the pixel of x that the tap reads.
    let taps = || {
        let pixels = (0..batch).flat_map(move |n| (0..side * side).map(move |p| (n, p / side, p % side)));
        pixels.flat_map(move |(n, row, column)| {
            (0..9).filter_map(move |tap| {
                let (r, c) = ((row + tap / 3).checked_sub(1)?, (column + tap % 3).checked_sub(1)?);
                (r < side && c < side).then_some(((n * side + row) * side + column, tap, (n * side + r) * side + c))
            })
        })
    };
    let mut want_y: Vec<f32> = (0..dy.len()).map(|i| bias[i % filters]).collect();
    let (mut want_dx, mut want_dw) = (vec![0.0; x.len()], vec![0.0; weight.len()]);
    for (to, tap, from) in taps() {
        for o in 0..filters {
            for c in 0..channels {
                let (w, x_at, y_at) = ((o * 9 + tap) * channels + c, from * channels + c, to * filters + o);
                want_y[y_at] += x[x_at] * weight[w];
                want_dx[x_at] += dy[y_at] * weight[w];
                want_dw[w] += dy[y_at] * x[x_at];
            }
        }
    }
    let mut want_db = vec![0.0; filters];
    dy.iter().enumerate().for_each(|(i, v)| want_db[i % filters] += v);

    let given = [&x, &dy, &weight, &bias].map(|v| device.buffer_from(v).unwrap());
    let [x_at, dy_at, weight_at, bias_at] = given.each_ref().map(|b| at(b).cast_const());
    let zeros = |len: usize| device.zeros::<f32>(len).unwrap();
    let (y, dx, dw, db) = (zeros(dy.len()), zeros(x.len()), zeros(weight.len()), zeros(filters));
    // SAFETY: the arrays have the sizes that the convolution requires, and are read only after the stream has been waited for.
    let statuses = unsafe {
        [
            warpbook_conv2d_forward(session.0, null_mut(), &description, x_at, weight_at, bias_at.cast(), 0, at(&y)),
            warpbook_conv2d_input_gradient(session.0, null_mut(), &description, dy_at, weight_at, null(), at(&dx)),
            warpbook_conv2d_weight_gradient(
                session.0,
                null_mut(),
                &description,
                x_at,
                dy_at,
                at(&dw).cast(),
                at(&db).cast(),
            ),
        ]
    };
    assert_eq!(statuses, [0; 3], "{}", error());
    wait(&device);
    for (name, got, want) in [("y", &y, &want_y), ("dx", &dx, &want_dx), ("dw", &dw, &want_dw), ("db", &db, &want_db)] {
        assert_eq!(&got.to_vec().unwrap(), want, "{name}");
    }
    // SAFETY: the call is refused before anything is queued.
    let status =
        unsafe { warpbook_conv2d_forward(session.0, null_mut(), &description, null(), weight_at, null(), 0, at(&y)) };
    assert_eq!(status, 1);
    assert!(error().contains("null"), "{}", error());
}
