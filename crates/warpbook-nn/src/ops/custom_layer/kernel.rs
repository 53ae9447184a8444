//! Compilation of a layer's source, with messages that tell the author what to change.

use super::{OwnLayer, OwnSizes};
use warpbook_device::{Compiled, Compiler, Error, Result};
use warpbook_kernels::nn::{OwnForm, own_layer};
use warpbook_record::{Dtype, KernelSpec, KernelStats};

/// Names of the kernels.
const ENTRIES: [&str; 2] = ["forward", "backward"];

/// Returns the kernels' specs for an element type and these sizes.
pub(crate) fn specs(layer: &OwnLayer, sizes: &OwnSizes, dtype: Dtype) -> [KernelSpec; 2] {
    let form = OwnForm {
        dtype,
        layout: sizes.layout,
        input: sizes.input.sides(),
        output: sizes.output.sides(),
        threads: layer.0.threads,
    };
    own_layer(layer.name(), layer.source(), layer.parameters().len(), form)
}

/// Compiles a layer for an architecture such as "sm_90", without a GPU. Returns the statistics of `forward` and `backward`.
///
/// # Errors
/// [`Error::Compile`] with the line if the source does not compile; [`Error::Unsupported`] if a kernel is missing or a setting is invalid.
pub fn compile(
    layer: &OwnLayer,
    sizes: &OwnSizes,
    dtype: Dtype,
    compiler: &Compiler,
    architecture: &str,
) -> Result<[KernelStats; 2]> {
    if let Some(why) = layer.flaw() {
        return Err(layer.unsupported(why));
    }
    let [spec, _] = specs(layer, sizes, dtype);
    let compiled = compiler.compile(&spec, &spec.tiles[0], architecture).map_err(|e| explain(layer, e))?;
    entries(layer, &compiled)
}

/// Returns the statistics of both kernels, or an error if one is missing.
fn entries(layer: &OwnLayer, compiled: &Compiled) -> Result<[KernelStats; 2]> {
    let entry_stats = |i: usize| {
        let missing = || {
            let (entry, signature) = (ENTRIES[i], &layer.signatures()[i]);
            // In C++, a function of this name with other parameters is a different function, whose mangled name ends in the parameters.
            let is_other = |s: &KernelStats| s.entry.starts_with(&format!("_Z{}{entry}", entry.len()));
            let what = if compiled.stats.iter().any(is_other) {
                format!("its kernel `{entry}` has the wrong parameters")
            } else {
                format!("live/{}.cu defines no kernel `{entry}`", layer.name())
            };
            layer.unsupported(format!("{what}; write `{signature}`"))
        };
        compiled.stats_of(ENTRIES[i]).cloned().ok_or_else(missing)
    };
    Ok([entry_stats(0)?, entry_stats(1)?])
}

/// Adds the expected parameters to a compiler error about wrong parameters.
pub(super) fn explain(layer: &OwnLayer, error: Error) -> Error {
    let Error::Compile(mut compile) = error else { return error };
    for d in compile.diagnostics.iter_mut().filter(|d| d.is_error) {
        let entry_index = ENTRIES.iter().position(|e| d.message.contains(&format!("\"{e}\"")));
        let Some(i) = entry_index.filter(|_| d.message.contains("linkage") || d.message.contains("redeclared")) else {
            continue;
        };
        d.message = format!("`{}` is not declared as expected; write `{}`", ENTRIES[i], layer.signatures()[i]);
    }
    Error::Compile(compile)
}
