//! The kernels of a layer whose source was written by a learner.

use super::Layout;
use crate::matmul::type_number;
use std::borrow::Cow;
use std::fmt::Write;
use warpbook_record::{Define, Dtype, Grid, KernelSpec, LIVE, Tile};

/// The form that a layer's source is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnForm {
    /// Type of x, y and their gradients.
    pub dtype: Dtype,
    /// Layout of images in memory.
    pub layout: Layout,
    /// Channels, height and width of each sample of x.
    pub input: [usize; 3],
    /// Channels, height and width of each sample of y.
    pub output: [usize; 3],
    /// Number of threads per block, a multiple of 32.
    pub threads: u32,
}

/// Returns the kernels `forward(x, parameters.., y, n)` and `backward(x, y, dy, parameters.., dx, gradients of the parameters.., n)`. The source is
/// compiled after `nn/own_layer.cuh` and declarations of both kernels, so that wrong parameters are reported at the author's own line. Messages
/// count lines from the start of the author's text and call the file `live/NAME.cu`.
#[must_use]
pub fn own_layer(name: &str, source: &str, parameters: usize, form: OwnForm) -> [KernelSpec; 2] {
    let (read, written) = (", const float*".repeat(parameters), ", float*".repeat(parameters));
    let mut text = String::from("#include \"nn/own_layer.cuh\"\n");
    let bounds = "extern \"C\" __global__ void __launch_bounds__(THREADS)";
    _ = writeln!(text, "{bounds} forward(const T*{read}, T*, unsigned);");
    _ = writeln!(text, "{bounds} backward(const T*, const T*, const T*{read}, T*{written}, unsigned);");
    text.push_str("#line 1\n");
    text.push_str(source);
    let size = |v: usize| i64::try_from(v).unwrap_or(i64::MAX);
    let sizes = ["SIZE_C", "SIZE_H", "SIZE_W", "OUT_C", "OUT_H", "OUT_W"].into_iter();
    let mut defines: Vec<Define> =
        sizes.zip(form.input.into_iter().chain(form.output)).map(|(name, v)| Define::new(name, size(v))).collect();
    defines.push(Define::new("IN", type_number(form.dtype)));
    defines.push(Define::new("CHANNELS_FIRST", i64::from(form.layout == Layout::Nchw)));
    let tile = Tile::new(format!("t{}", form.threads), &[("THREADS", i64::from(form.threads))]);
    ["forward", "backward"].map(|entry| KernelSpec {
        file: format!("{LIVE}{name}.cu").into(),
        entry: Cow::Borrowed(entry),
        source: text.clone().into(),
        headers: Vec::new(),
        defines: defines.clone(),
        tiles: vec![tile.clone()],
        grid: Grid::Cover,
        requires: None,
        waits: false,
    })
}
