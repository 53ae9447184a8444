//! Launches the matrix product, after checking its arrays.
#![allow(unsafe_code)]

use crate::handle::refused;
use crate::plan::args_launch::{EpilogueArgs, Keeping, KeptArrays};
use crate::plan::copies::CopyArgs;
use crate::plan::parts::COLUMNS;
use crate::plan::{Added, Copied, KernelOperands, Multiplied, Step, Summed};
use crate::product::ArraySpec;
use crate::{Arrays, DeviceArray, DeviceArrays, Plan, Workspace};
use std::sync::Arc;
use warpbook_device::{Error, Kernel, KernelArg, LaunchOptions, Result, Slice, Stream};
use warpbook_kernels::Launch;

/// A plan with the arguments of all its launches for certain arrays, which it co-owns. Launching it computes no addresses and encodes no
/// tensor maps.
#[derive(Debug)]
pub struct BoundPlan {
    plan: Arc<Plan>,
    steps: Vec<Step>,
    kept: KeptArrays,
}

impl Plan {
    /// Queues the product for arrays given by their addresses.
    ///
    /// # Errors
    /// If a launch is refused.
    ///
    /// # Safety
    /// The arrays must be as large as the product says, the workspace at least [`Plan::workspace_bytes`], and all aligned as in the plan. They must live until
    /// the stream has passed the product. If the product is captured, they must live as long as the graph, and as long as every graph that captures that graph.
    pub unsafe fn launch(&self, stream: &Stream, arrays: &Arrays) -> Result<()> {
        // SAFETY: the caller guarantees the sizes, alignment and lifetime of the arrays.
        self.steps(arrays, |step| unsafe { step.launch(self, stream, None) })
    }

    /// Queues the product after checking types, lengths and alignment, without waiting. A graph that captures the product owns the arrays and the workspace.
    ///
    /// C and the bias gradient must overlap no other array, and nothing else may write to the arrays or use the workspace until the stream
    /// has passed the product: otherwise the results are undefined.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if an array or the workspace does not fit the product; an error if a launch is refused.
    pub fn launch_checked(&self, stream: &Stream, arrays: &DeviceArrays, workspace: &Workspace) -> Result<()> {
        let addresses = self.check(arrays, workspace)?;
        let kept = KeptArrays::new(arrays, workspace);
        // SAFETY: the types, lengths and alignment were checked. Freeing an array waits for running kernels, and a graph that captures the product owns its
        // arrays.
        self.steps(&addresses, |step| unsafe { step.launch(self, stream, Some(&kept)) })
    }

    /// Queues the product like [`Plan::launch_checked`], and waits until it has ended, for at most `limit_s` seconds if that is given.
    ///
    /// # Errors
    /// Returns the errors of [`Plan::launch_checked`] and [`Stream::synchronize_within`].
    pub fn run(
        &self,
        stream: &Stream,
        arrays: &DeviceArrays,
        workspace: &Workspace,
        limit_s: Option<f64>,
    ) -> Result<()> {
        self.launch_checked(stream, arrays, workspace)?;
        limit_s.map_or_else(|| stream.synchronize(), |limit_s| stream.synchronize_within(limit_s))
    }

    /// Prepares all launches for certain arrays, after checking them as [`Plan::launch_checked`] does.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if an array or the workspace does not fit the product; an error if a tensor map cannot be encoded.
    pub fn bind(self: &Arc<Self>, arrays: &DeviceArrays, workspace: &Workspace) -> Result<BoundPlan> {
        let mut steps = Vec::new();
        self.steps(&self.check(arrays, workspace)?, |step| {
            steps.push(step);
            Ok(())
        })?;
        Ok(BoundPlan { plan: self.clone(), steps, kept: KeptArrays::new(arrays, workspace) })
    }
}

impl BoundPlan {
    /// Returns the plan whose arguments were prepared.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Queues the product like [`Plan::launch_checked`].
    ///
    /// # Errors
    /// If a launch is refused.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: `bind` has checked the arrays. Freeing an array waits for running kernels, and a graph that captures the product owns its arrays.
        self.steps.iter().try_for_each(|step| unsafe { step.launch(&self.plan, stream, Some(&self.kept)) })
    }
}

impl Step {
    /// Queues the kernel launch of this step.
    ///
    /// # Safety
    /// The requirements of [`Plan::launch`], unless the arrays are kept.
    unsafe fn launch(&self, plan: &Plan, stream: &Stream, kept: Option<&KeptArrays>) -> Result<()> {
        // SAFETY: the caller guarantees the sizes, alignment and lifetime of the arrays.
        unsafe {
            match self {
                Self::ColumnSums(s) => s.launch(plan, stream, kept),
                Self::Copy(first, second) => first.launch(second.as_ref(), plan, stream, kept),
                Self::Multiply(m) => m.launch(plan, stream, kept),
                Self::SumParts(a) => a.launch(plan, stream, kept),
            }
        }
    }
}

/// Returns the error for a step whose kernel the plan lacks, since the step belongs to another plan.
fn no_kernel(what: &str) -> Error {
    Error::Unsupported { what: what.to_owned(), why: "has no kernel in this plan".into() }
}

impl Summed {
    unsafe fn launch(&self, plan: &Plan, stream: &Stream, kept: Option<&KeptArrays>) -> Result<()> {
        let Self { is_total, b, ldb, k, rows, alpha, beta, out } = self;
        let kernel = plan.sums(*is_total).ok_or_else(|| no_kernel("Column sums"))?;
        let columns = Columns { n: plan.product().n, k: *k, ld: *ldb, rows: *rows };
        // SAFETY: the caller guarantees the sizes, alignment and lifetime of the arrays.
        unsafe { columns.launch(kernel, stream, [*alpha, *beta], b, &Keeping { argument: *out, kept }) }
    }
}

/// Column sums of op(B), `[k][n]`, over chunks of `rows` of its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    pub n: u32,
    pub k: u32,
    /// Number of elements from one stored row of B to the next.
    pub ld: u32,
    pub rows: u32,
}

impl Columns {
    /// Returns the number of sums: one for each column of each chunk of rows.
    pub fn sums(&self) -> usize {
        self.k.div_ceil(self.rows) as usize * self.n as usize
    }

    /// Queues `out` = alpha times the sums + beta `out`.
    ///
    /// # Safety
    /// B must have the elements of its shape, and `out` must be f32 `[ceil(k / rows)][n]`.
    unsafe fn launch(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        [alpha, beta]: [f32; 2],
        b: &dyn KernelArg,
        out: &dyn KernelArg,
    ) -> Result<()> {
        let Self { n, k, ld, rows } = self;
        // There is a block for each chunk and each tile of columns.
        let one_chunk = kernel.tiles_shape(1, (*n).into());
        let shape = Launch { grid: [one_chunk.grid[0].saturating_mul(k.div_ceil(*rows)), 1, 1], ..one_chunk };
        // SAFETY: the arguments match `column_sums(b, ldb, n, k, rows, alpha, beta, out)`, and the caller guarantees the sizes of B and `out`.
        unsafe { kernel.launch(stream, shape, &[b, ld, n, k, rows, &alpha, &beta, out]) }
    }

    /// Queues the sums of B with `kernel`, which is `column_sums` for B's type and transposition.
    ///
    /// # Errors
    /// If an array is too short, or the launch is refused.
    pub fn queue(
        &self,
        kernel: &Kernel,
        is_transposed: bool,
        stream: &Stream,
        b: &DeviceArray,
        out: &Slice<f32>,
    ) -> Result<()> {
        let (rows, columns) = if is_transposed { (self.n, self.k) } else { (self.k, self.n) };
        let len = (rows as usize).saturating_sub(1) * self.ld as usize + columns as usize;
        for (name, array, len) in [("B", b.clone(), len), ("The sums' array", out.into(), self.sums())] {
            array.spec().holds(name, ArraySpec { dtype: array.dtype(), len }).map_err(refused)?;
        }
        // SAFETY: the lengths of B and of `out` were checked.
        unsafe { self.launch(kernel, stream, [1.0, 0.0], b.bytes(), out) }
    }
}

impl Copied {
    /// Queues this copy, and in the same launch the copy `also`, if neither of them transposes.
    unsafe fn launch(
        &self,
        also: Option<&Self>,
        plan: &Plan,
        stream: &Stream,
        kept: Option<&KeptArrays>,
    ) -> Result<()> {
        let (kernel, is_transposed) = plan.copy(self.which).ok_or_else(|| no_kernel("The copy of an operand"))?;
        let shape = |copy: &CopyArgs| kernel.tiles_shape(copy.rows.into(), copy.columns.into());
        let own = shape(&self.args);
        if is_transposed {
            let CopyArgs { from, to, rows, columns, ld_from, ld_to } = &self.args;
            let ld_to = Keeping { argument: *ld_to, kept };
            // SAFETY: the arguments match `repack_transposed(from, to, rows, columns, ld_from, ld_to)`. The workspace has room for the panel, and the caller
            // guarantees the sizes, alignment and lifetime of the arrays.
            return unsafe { kernel.launch(stream, own, &[from, to, rows, columns, ld_from, &ld_to]) };
        }
        let also = also.map_or(CopyArgs::NONE, |also| also.args);
        let both = Launch { grid: [own.grid[0].saturating_add(shape(&also).grid[0]), 1, 1], ..own };
        let options = LaunchOptions { programmatic: plan.options().programmatic, ..LaunchOptions::default() };
        // SAFETY: the arguments match `repack(first, second)`, where `second` has no rows if there is only one copy. The workspace has room for the panels, and
        // the caller guarantees the sizes, alignment and lifetime of the arrays.
        unsafe { kernel.launch_with(stream, both, options, &[&self.args, &Keeping { argument: also, kept }]) }
    }
}

impl Multiplied {
    unsafe fn launch(&self, plan: &Plan, stream: &Stream, kept: Option<&KeptArrays>) -> Result<()> {
        let Self { operands, c, m, n, ldc, alpha, beta, bias, mask } = self;
        let k = &plan.product().k;
        let argument = EpilogueArgs { alpha: *alpha, beta: *beta, bias: *bias, mask: *mask };
        let epilogue = &Keeping { argument, kept };
        let launch = |args: &[&dyn KernelArg]| {
            // SAFETY: the arguments match the kernel's parameters, which `KernelOperands` lists, and the caller guarantees the sizes, alignment and lifetime of
            // the arrays.
            unsafe { plan.kernel().launch_with(stream, plan.shape(*m, *n), plan.options(), args) }
        };
        match operands {
            KernelOperands::Addresses { a, b, lda, ldb } => launch(&[a, b, c, m, n, k, lda, ldb, ldc, epilogue]),
            KernelOperands::Maps([map_a, map_b]) => launch(&[map_a, map_b, c, m, n, k, ldc, epilogue]),
            KernelOperands::MapsAndC { maps: [map_a, map_b, map_c], by_copy } => {
                launch(&[map_a, map_b, map_c, &u32::from(*by_copy), c, m, n, k, ldc, epilogue])
            }
            KernelOperands::Streamed { maps: [map_a, map_b, map_c], by_copy, cut, exchange } => {
                launch(&[map_a, map_b, map_c, &u32::from(*by_copy), c, m, n, k, ldc, cut, exchange, epilogue])
            }
        }
    }
}

impl Added {
    unsafe fn launch(&self, plan: &Plan, stream: &Stream, kept: Option<&KeptArrays>) -> Result<()> {
        let Self { sums, k_splits, ld, c, m, n, bias, mask } = self;
        let (kernel, p) = (plan.adder().ok_or_else(|| no_kernel("The sum over parts of k"))?, plan.product());
        let argument = EpilogueArgs { alpha: p.alpha, beta: p.beta, bias: *bias, mask: *mask };
        let shape = kernel.shape(u64::from(*m) * u64::from(ld / COLUMNS));
        let options = LaunchOptions { programmatic: plan.options().programmatic, ..LaunchOptions::default() };
        let args: [&dyn KernelArg; 8] = [sums, k_splits, ld, c, m, n, &p.ldc, &Keeping { argument, kept }];
        // SAFETY: the arguments match `sum_parts(sums, parts, ld, c, m, n, ldc, epilogue)`. The workspace has room for the sums, and the caller guarantees the
        // sizes, alignment and lifetime of the arrays.
        unsafe { kernel.launch_with(stream, shape, options, &args) }
    }
}
