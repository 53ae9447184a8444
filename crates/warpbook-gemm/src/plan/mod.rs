//! A plan is one way to compute one product, with its kernels compiled and loaded and its launches determined.

mod args_launch;
pub(crate) mod copies;
pub(crate) mod launch;
pub(crate) mod parts;
pub(crate) mod streamed;
pub(crate) mod sums;
mod sums_launch;
pub(crate) mod trial;

use crate::choose::cost_model;
use crate::plan::copies::{CopyArgs, Layouts, OperandCopy, in_one_launch};
use crate::plan::parts::{COLUMNS, Parts};
use crate::plan::streamed::{ExchangeArgs, Streamed};
use crate::{Arrays, Product};
use warpbook_device::{CudaDevice, DevicePtr, Error, Kernel, LaunchOptions, MatrixShape, Result, TensorMap};
use warpbook_kernels::Launch;
use warpbook_kernels::matmul::{Form, Operands, Row, column_sums, sum_parts};
use warpbook_record::{Dim, Dtype, Grid, KernelSpec, KernelStats, Tile};

/// True for A and for B if they start at multiples of 16 bytes.
pub type Aligned = [bool; 2];

/// One way to compute one product on one device.
///
/// Creating it compiles and loads everything. Launching it allocates no device memory and waits for nothing, so it can be captured;
/// [`Plan::bind`] also prepares the arguments of every launch beforehand.
#[derive(Debug)]
pub struct Plan {
    device: CudaDevice,
    product: Product,
    /// Form for which the kernel is compiled. It may differ from the product's form, since copies may store A and B differently.
    given: Form,
    kernel: Kernel,
    options: LaunchOptions,
    operands: Operands,
    /// True for A and for B if they have to start at multiples of 16 bytes.
    needs_aligned: Aligned,
    /// Largest grid of resident blocks; it depends on how many clusters the device holds.
    most_blocks: u32,
    copies: [Option<OperandCopy>; 2],
    /// Number of rows of op(A) and of columns of op(B) that are copied and multiplied at a time.
    panel: [u32; 2],
    bias_gradient: Option<ColumnSums>,
    /// The parts of k whose sums are in the workspace, and the kernel that adds them.
    parts: Option<(Parts, Kernel)>,
    /// True if the rung cuts tiles along k; `streamed` says how it cuts the tiles of this product, if any are cut.
    streams: bool,
    streamed: Option<Streamed>,
    rung: String,
}

/// Column sums of op(B) in two levels: first over chunks of its rows, then over the chunks' sums.
#[derive(Debug)]
struct ColumnSums {
    /// Kernel of the first level; `None` if there is only one chunk.
    chunks: Option<Kernel>,
    total: Kernel,
    /// Number of rows in a chunk.
    rows: u32,
    /// Offset in the workspace of the chunks' sums, f32 `[chunks][n]`.
    offset: u64,
    bytes: u64,
}

/// Arguments of one launch of a plan.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, or once for each launch in a bound plan")]
pub(crate) enum Step {
    ColumnSums(Summed),
    /// A launch that copies one operand or both.
    Copy(Copied, Option<Copied>),
    Multiply(Multiplied),
    SumParts(Added),
}

/// Arguments of `column_sums(b, ldb, n, k, rows, alpha, beta, out)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summed {
    pub is_total: bool,
    pub b: DevicePtr,
    pub ldb: u32,
    pub k: u32,
    pub rows: u32,
    pub alpha: f32,
    pub beta: f32,
    pub out: DevicePtr,
}

/// Arguments of `repack(first, second)`, each a `Copy`, or of `repack_transposed(from, to, rows, columns, ld_from, ld_to)`; for A (0) or B
/// (1).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copied {
    pub which: usize,
    pub args: CopyArgs,
}

/// Arguments of `gemm(...)` for a panel, see [`KernelOperands`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiplied {
    pub operands: KernelOperands,
    /// Address of C, or of the sums of the parts.
    pub c: DevicePtr,
    pub m: u32,
    pub n: u32,
    pub ldc: u32,
    pub alpha: f32,
    pub beta: f32,
    pub bias: DevicePtr,
    pub mask: DevicePtr,
}

/// Arguments of `sum_parts(sums, parts, ld, c, m, n, ldc, epilogue)` for a panel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Added {
    pub sums: DevicePtr,
    pub k_splits: u32,
    pub ld: u32,
    pub c: DevicePtr,
    pub m: u32,
    pub n: u32,
    pub bias: DevicePtr,
    pub mask: DevicePtr,
}

/// Operands of a kernel; the variant determines the kernel's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KernelOperands {
    /// Operands of `gemm(a, b, c, m, n, k, lda, ldb, ldc, epilogue)`.
    Addresses { a: DevicePtr, b: DevicePtr, lda: u32, ldb: u32 },
    /// Operands of `gemm(map_a, map_b, c, m, n, k, ldc, epilogue)`.
    Maps([TensorMap; 2]),
    /// Operands of `gemm(map_a, map_b, map_c, by_copy, c, m, n, k, ldc, epilogue)`.
    MapsAndC { maps: [TensorMap; 3], by_copy: bool },
    /// Operands of `gemm(map_a, map_b, map_c, by_copy, c, m, n, k, ldc, cut, exchange, epilogue)`.
    Streamed { maps: [TensorMap; 3], by_copy: bool, cut: u32, exchange: ExchangeArgs },
}

impl Plan {
    /// Compiles and loads a row's kernel with one of its tiles for a product, and the kernels of the copies before it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the row does not support the product on this device, or its copies do not fit into the workspace. Also returns errors of the
    /// compiler and the device.
    pub fn new(device: &CudaDevice, row: &Row, tile: &Tile, product: &Product, aligned: Aligned) -> Result<Self> {
        let refused = |why: String| Error::Unsupported { what: row.rung.id.to_string(), why };
        if let Some(why) = row.obstacle(product.form, device.info().compute_capability) {
            return Err(refused(why));
        }
        let (Some(can), Some(spec)) = (row.capabilities(), Self::spec(row, product)) else {
            return Err(refused("is computed by a library, not by a kernel of the catalogue".into()));
        };
        let layouts = match can.operands {
            Operands::Addresses => Layouts::none(product),
            operands => Layouts::new(product, tile, operands, aligned).ok_or_else(|| {
                refused(format!("would copy its operands, which with k = {} do not fit into the workspace", product.k))
            })?,
        };
        let parts = if can.in_parts {
            let parts = cost_model::divide_k(row, tile, product, device.info(), &layouts)
                .ok_or_else(|| refused("would keep partial sums that do not fit into the workspace".into()))?;
            let spec = sum_parts(product.form);
            Some((parts, device.kernel(&spec, &spec.tiles[0])?))
        } else {
            None
        };
        let [a, b] = layouts.copies.map(|l| l.map(|l| OperandCopy::new(device, product, l)).transpose());
        let bias_gradient =
            product.bias_gradient.then(|| ColumnSums::new(device, product, layouts.end())).transpose()?;
        let kernel = device.kernel(&spec, tile)?;
        let blocks = tile.cluster_blocks();
        let cluster = (blocks > 1).then(|| u32::try_from(blocks).unwrap_or(u32::MAX));
        let most_blocks = match cluster {
            Some(size) if kernel.spec().grid == Grid::ResidentTiles => {
                kernel.resident_clusters(size, kernel.tiles_shape(u64::from(size), 1))?.max(1) * size
            }
            _ => u32::MAX,
        };
        let streams = can.streams.then(|| {
            let resident = kernel.tiles_shape(u32::MAX.into(), u32::MAX.into()).grid[0].min(most_blocks);
            Streamed::new(product, tile, &layouts, u64::from(resident) / blocks)
        });
        Ok(Self {
            device: device.clone(),
            product: *product,
            given: can.operands.given(product.form),
            kernel,
            options: LaunchOptions {
                cluster,
                programmatic: can.overlaps && device.has_programmatic_launch(),
                ..LaunchOptions::default()
            },
            operands: can.operands,
            needs_aligned: if can.operands == Operands::Addresses { [false; 2] } else { aligned },
            most_blocks,
            copies: [a?, b?],
            panel: parts.as_ref().map_or(layouts.panel, |(parts, _)| parts.panel),
            bias_gradient,
            parts,
            streams: can.streams,
            streamed: streams.flatten(),
            rung: row.rung.id.to_string(),
        })
    }

    /// Returns a row's kernel, compiled for a product; `None` for a row without a kernel.
    #[must_use]
    pub fn spec(row: &Row, product: &Product) -> Option<KernelSpec> {
        Some(row.capabilities()?.compiled_for(product.form).apply_to(row.kernel()?))
    }

    /// Returns the planned product.
    #[must_use]
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Returns the id of the rung.
    #[must_use]
    pub fn rung(&self) -> &str {
        &self.rung
    }

    /// Returns the id of the tile.
    #[must_use]
    pub fn tile(&self) -> &str {
        &self.kernel.tile().id
    }

    /// Returns the number of bytes of workspace that a launch needs.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        let copies = self.copies.iter().flatten().map(|c| c.layout.offset + c.layout.bytes);
        let sums = self.bias_gradient.iter().map(|s| if s.bytes == 0 { 0 } else { s.offset + s.bytes });
        let parts = self.parts.iter().map(|(parts, _)| parts.offset + parts.bytes);
        let exchange = self.streamed.iter().map(Streamed::end);
        copies.chain(sums).chain(parts).chain(exchange).max().unwrap_or(0)
    }

    /// Returns the statistics of the plan's kernels, in the order of their launches.
    #[must_use]
    pub fn stats(&self) -> Vec<KernelStats> {
        let sums = self.bias_gradient.iter().flat_map(|s| s.chunks.iter().chain([&s.total]));
        let before = sums.chain(self.copies.iter().flatten().map(|c| &c.kernel)).map(|k| k.stats().clone());
        let mut own = self.kernel.stats().clone();
        own.grid = Some(self.shape(self.product.m.min(self.panel[0]), self.product.n.min(self.panel[1])).grid);
        before.chain([own]).chain(self.parts.iter().map(|(_, kernel)| kernel.stats().clone())).collect()
    }

    /// Returns the number of parts into which k is divided, each with its sums in the workspace; 1 if k is not divided.
    #[must_use]
    pub fn k_splits(&self) -> u32 {
        self.parts.as_ref().map_or(1, |(parts, _)| parts.count)
    }

    /// Describes in a sentence the copies made before the product and the parts of k, if there are any.
    #[must_use]
    pub fn preparation(&self) -> Option<String> {
        let parts = self.parts.as_ref().map(|(parts, _)| match parts.count {
            1 => "k is one part; its sums go through the workspace.".to_owned(),
            count => format!("k is divided into {count} parts, whose sums another kernel adds."),
        });
        let sentences: Vec<String> = self.copies_made().into_iter().chain(parts).chain(self.cut_tiles()).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Describes the tiles that are cut along k in the first panel.
    fn cut_tiles(&self) -> Option<String> {
        if !self.streams {
            return None;
        }
        let [m, n] = [self.product.m.min(self.panel[0]), self.product.n.min(self.panel[1])];
        Some(match self.streamed.as_ref().map(|s| (s.cut(m, n), s.tiles(m, n), s.clusters())) {
            None | Some((0, ..)) => "No tile is cut along k.".to_owned(),
            Some((cut, tiles, ranges)) => format!("{cut} of {tiles} tiles are cut along k into {ranges} ranges."),
        })
    }

    fn copies_made(&self) -> Option<String> {
        let sentence = |(copy, name): (&Option<OperandCopy>, &str)| {
            let how = if copy.as_ref()?.layout.transpose {
                "transposed"
            } else {
                "copied into rows of a multiple of 16 bytes"
            };
            Some(format!("{name} is {how} first"))
        };
        let all: Vec<String> = self.copies.iter().zip(["A", "B"]).filter_map(sentence).collect();
        (!all.is_empty()).then(|| format!("{}; the time includes it.", all.join(", ")))
    }

    pub(crate) fn needs_aligned(&self) -> Aligned {
        self.needs_aligned
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub(crate) fn options(&self) -> LaunchOptions {
        self.options
    }

    /// Returns the kernel that copies A (0) or B (1), and true if it transposes.
    pub(crate) fn copy(&self, which: usize) -> Option<(&Kernel, bool)> {
        self.copies[which].as_ref().map(|c| (&c.kernel, c.layout.transpose))
    }

    /// Returns the kernel that adds the sums of the parts.
    pub(crate) fn adder(&self) -> Option<&Kernel> {
        self.parts.as_ref().map(|(_, kernel)| kernel)
    }

    /// Returns the kernel for the second level of the column sums if `is_total`, otherwise for the first.
    pub(crate) fn sums(&self, is_total: bool) -> Option<&Kernel> {
        let sums = self.bias_gradient.as_ref()?;
        if is_total { Some(&sums.total) } else { sums.chunks.as_ref() }
    }

    /// Returns the shape of a launch for a panel of C.
    pub(crate) fn shape(&self, m: u32, n: u32) -> Launch {
        let mut shape = self.kernel.tiles_shape(m.into(), n.into());
        shape.grid[0] = shape.grid[0].min(self.most_blocks);
        shape.grid[1] = self.k_splits();
        if let Some(streamed) = self.streamed.as_ref().filter(|s| s.cut(m, n) > 0) {
            // Every resident cluster gets a range of the cut tiles, even if there are few tiles.
            let blocks = u32::try_from(self.kernel.tile().cluster_blocks()).unwrap_or(1);
            shape.grid[0] = streamed.clusters() * blocks;
        }
        shape
    }

    /// Calls `step` with the arguments of each launch, in order.
    pub(crate) fn steps(&self, arrays: &Arrays, mut step: impl FnMut(Step) -> Result<()>) -> Result<()> {
        let p = &self.product;
        if let Some(sums) = &self.bias_gradient {
            sums.steps(p, arrays, &mut step)?;
        }
        let [step_m, step_n] = self.panel;
        for row in (0..p.m).step_by(step_m as usize) {
            let m = step_m.min(p.m - row);
            let (a, mut copy_of_a) = self.operand(0, arrays, row, m);
            for column in (0..p.n).step_by(step_n as usize) {
                let n = step_n.min(p.n - column);
                let (b, copy_of_b) = self.operand(1, arrays, column, n);
                self.copy_steps([copy_of_a.take(), copy_of_b], &mut step)?;
                let in_c = (u64::from(row) * u64::from(p.ldc) + u64::from(column)) * p.form.out.bytes();
                let c = arrays.c.offset(in_c);
                let (bias, mask) = (arrays.bias.offset(u64::from(column) * 4), arrays.mask.offset(in_c));
                let operands = self.kernel_operands(a, b, c, (m, n))?;
                let operands = self.with_exchange(operands, arrays.workspace, (m, n));
                let Some((parts, _)) = &self.parts else {
                    let (ldc, alpha, beta) = (p.ldc, p.alpha, p.beta);
                    step(Step::Multiply(Multiplied { operands, c, m, n, ldc, alpha, beta, bias, mask }))?;
                    continue;
                };
                let sums = arrays.workspace.offset(parts.offset);
                // The kernel copies whole words, unless it would read columns of B that do not exist.
                let by_address = self.operands == Operands::Addresses;
                let (n_of_sums, ldc) = (if by_address { n } else { n.next_multiple_of(COLUMNS) }, parts.ld);
                let product = Multiplied { operands, c: sums, m, n: n_of_sums, ldc, alpha: 1.0, beta: 0.0, bias, mask };
                step(Step::Multiply(product))?;
                step(Step::SumParts(Added { sums, k_splits: parts.count, ld: parts.ld, c, m, n, bias, mask }))?;
            }
        }
        Ok(())
    }

    /// Adds to the operands the arguments that a rung needs if it cuts tiles.
    fn with_exchange(&self, operands: KernelOperands, workspace: DevicePtr, (m, n): (u32, u32)) -> KernelOperands {
        match operands {
            KernelOperands::MapsAndC { maps, by_copy } if self.streams => {
                let cut = self.streamed.as_ref().map_or(0, |s| s.cut(m, n));
                let exchange = self.streamed.as_ref().map_or_else(ExchangeArgs::none, |s| s.exchange(workspace));
                KernelOperands::Streamed { maps, by_copy, cut, exchange }
            }
            operands => operands,
        }
    }

    /// Calls `step` with the launches that copy operands: one launch for both, unless a copy is transposed.
    fn copy_steps(&self, copies: [Option<Copied>; 2], mut step: impl FnMut(Step) -> Result<()>) -> Result<()> {
        let layouts = self.copies.each_ref().map(|copy| copy.as_ref().map(|copy| copy.layout));
        match copies {
            [Some(a), Some(b)] if in_one_launch(layouts) => step(Step::Copy(a, Some(b))),
            each => each.into_iter().flatten().try_for_each(|copy| step(Step::Copy(copy, None))),
        }
    }

    /// Returns the address and leading dimension of `count` rows of op(A) or columns of op(B), starting at `first`, or of their copy if there is one.
    fn operand(&self, which: usize, arrays: &Arrays, first: u32, count: u32) -> ((DevicePtr, u32), Option<Copied>) {
        let p = &self.product;
        let (from, ld, along_outer) =
            if which == 0 { (arrays.a, p.lda, p.form.trans_a) } else { (arrays.b, p.ldb, !p.form.trans_b) };
        let skipped = if along_outer { u64::from(first) } else { u64::from(first) * u64::from(ld) };
        let from = from.offset(skipped * p.form.dtype.bytes());
        let Some(copy) = &self.copies[which] else { return ((from, ld), None) };
        let to = arrays.workspace.offset(copy.layout.offset);
        let (rows, columns) = if along_outer != copy.layout.transpose { (p.k, count) } else { (count, p.k) };
        let ld_to = copy.layout.ld;
        ((to, ld_to), Some(Copied { which, args: CopyArgs { from, to, rows, columns, ld_from: ld, ld_to } }))
    }

    /// Returns the operands of a panel in the form that the kernel reads.
    fn kernel_operands(
        &self,
        (a, lda): (DevicePtr, u32),
        (b, ldb): (DevicePtr, u32),
        c: DevicePtr,
        (m, n): (u32, u32),
    ) -> Result<KernelOperands> {
        let (p, tile) = (&self.product, self.kernel.tile());
        let size = |dim| u32::try_from(tile.size(dim)).unwrap_or(u32::MAX);
        let map = |dtype, address, (rows, columns): (u32, u32), ld: u32, (box_rows, box_columns)| {
            let shape =
                MatrixShape { dtype, rows: rows.into(), columns: columns.into(), ld: ld.into(), box_rows, box_columns };
            TensorMap::new(&self.device, address, shape)
        };
        // Number of elements in the 128 bytes of a row of a TMA box.
        let in_row = |dtype: Dtype| u32::try_from(128 / dtype.bytes()).unwrap_or(1);
        let (dtype, out) = (p.form.dtype, p.form.out);
        let in_row_of_input = in_row(dtype);
        let maps = || -> Result<[TensorMap; 2]> {
            let map_a = if self.given.trans_a {
                map(dtype, a, (p.k, m), lda, (in_row_of_input, 64))
            } else {
                map(dtype, a, (m, p.k), lda, (size(Dim::Bm) / size(Dim::ClusterN), in_row_of_input))
            };
            let map_b = if self.given.trans_b {
                let rows = size(Dim::Bn) / (size(Dim::Cluster) / size(Dim::ClusterN));
                map(dtype, b, (n, p.k), ldb, (rows, in_row_of_input))
            } else {
                map(dtype, b, (p.k, n), ldb, (in_row_of_input, in_row_of_input))
            };
            Ok([map_a?, map_b?])
        };
        Ok(match self.operands {
            Operands::Addresses => KernelOperands::Addresses { a, b, lda, ldb },
            Operands::TensorMaps => KernelOperands::Maps(maps()?),
            Operands::TensorMapsAndC | Operands::BInRegisters => {
                let [map_a, map_b] = maps()?;
                // TMA writes end at multiples of 16 bytes.
                let by_copy =
                    MatrixShape::suits(out, p.ldc.into(), c) && (u64::from(n) * out.bytes()).is_multiple_of(16);
                let box_rows = if self.operands == Operands::BInRegisters { 32 } else { 64 };
                let map_c = if by_copy { map(out, c, (m, n), p.ldc, (box_rows, in_row(out)))? } else { map_a };
                KernelOperands::MapsAndC { maps: [map_a, map_b, map_c], by_copy }
            }
        })
    }
}

impl ColumnSums {
    fn new(device: &CudaDevice, p: &Product, offset: u64) -> Result<Self> {
        let load = |spec: &KernelSpec| device.kernel(spec, &spec.tiles[0]);
        let first = column_sums(p.form.dtype, p.form.trans_b);
        let rows = u32::try_from(first.tiles[0].size(Dim::Bm)).unwrap_or(u32::MAX);
        if p.k <= rows {
            return Ok(Self { chunks: None, total: load(&first)?, rows, offset, bytes: 0 });
        }
        let total = load(&column_sums(Dtype::F32, false))?;
        let bytes = u64::from(p.k.div_ceil(rows)) * u64::from(p.n) * 4;
        Ok(Self { chunks: Some(load(&first)?), total, rows, offset, bytes })
    }

    fn steps(&self, p: &Product, arrays: &Arrays, mut step: impl FnMut(Step) -> Result<()>) -> Result<()> {
        let (alpha, beta, out) = (p.alpha, p.beta, arrays.bias_gradient);
        let (b, ldb, k, rows) = (arrays.b, p.ldb, p.k, self.rows);
        if self.chunks.is_none() {
            return step(Step::ColumnSums(Summed { is_total: true, b, ldb, k, rows, alpha, beta, out }));
        }
        let sums = arrays.workspace.offset(self.offset);
        step(Step::ColumnSums(Summed { is_total: false, b, ldb, k, rows, alpha: 1.0, beta: 0.0, out: sums }))?;
        let chunks = k.div_ceil(rows);
        let total = Summed { is_total: true, b: sums, ldb: p.n, k: chunks, rows: chunks, alpha, beta, out };
        step(Step::ColumnSums(total))
    }
}
