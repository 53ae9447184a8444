#![allow(unsafe_code)]

use super::Product;
use std::ffi::c_void;
use warpbook_device::{
    CudaDevice, DevicePtr, Kernel, KernelArg, LaunchOptions, MatrixShape, Result, Stream, TensorMap,
};
use warpbook_record::matmul::{Form, Operands, WORKSPACE_BYTES, repack, takes};
use warpbook_record::{Dtype, Grid, KernelSpec, KernelStats, Launch, Rung, Tile, base};

/// Where a product's arrays are. The bias and the mask are only looked at where the product's last step asks for them.
#[derive(Debug, Clone, Copy)]
pub struct Arrays {
    /// A as it is stored.
    pub a: DevicePtr,
    /// B as it is stored.
    pub b: DevicePtr,
    /// C.
    pub c: DevicePtr,
    /// f32 `[n]`.
    pub bias: DevicePtr,
    /// As C.
    pub mask: DevicePtr,
    /// At least [`Plan::workspace_bytes`], at a multiple of 1024 bytes.
    pub workspace: DevicePtr,
}

/// `Finish` of `kernels/matmul/gemm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LastStep {
    alpha: f32,
    beta: f32,
    bias: DevicePtr,
    mask: DevicePtr,
}

// SAFETY: the layout is that of the kernel's struct: two floats and two pointers.
unsafe impl KernelArg for LastStep {
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// One way to compute one product on one device: kernels compiled, launches known. Launching allocates nothing and waits for
/// nothing, so it can be captured.
#[derive(Debug)]
pub struct Plan {
    device: CudaDevice,
    product: Product,
    /// What the kernel is given: after copies A and B may be stored in another way.
    form: Form,
    kernel: Kernel,
    options: LaunchOptions,
    operands: Operands,
    copies: [Option<Copied>; 2],
    /// Of a grid whose blocks stay, so that all of them are there at once: chips differ in how many clusters they hold.
    most_blocks: u32,
    /// Rows of A and columns of B whose copies are in the workspace at one time.
    panel: [u32; 2],
    rung: String,
}

/// A matrix that is copied before it is read.
#[derive(Debug)]
struct Copied {
    kernel: Kernel,
    transpose: bool,
    ld: u32,
    offset: u64,
    bytes: u64,
}

/// Whether A and B begin at multiples of 16 bytes.
pub type Aligned = [bool; 2];

/// Why a rung's kernel does not take a product here; `None` if it does.
#[must_use]
pub fn obstacle(rung: &Rung, form: Form, compute_capability: Option<(u32, u32)>) -> Option<String> {
    let taken = takes(&rung.id)?;
    if !rung.requires.met_by(compute_capability) {
        return Some(format!("needs {}", rung.requires.sentence()));
    }
    if !taken.dtypes.contains(&form.dtype) {
        let known: Vec<&str> = taken.dtypes.iter().map(|d| d.label()).collect();
        return Some(format!("takes {}, not {}", known.join(", "), form.dtype.label()));
    }
    if taken.operands == Operands::BInRegisters && form.out.bytes() != 4 {
        return Some(format!("writes fp32, not {}", form.out.label()));
    }
    // wmma's bf16 came with compute capability 8.0.
    if base(&rung.id) == "09_wmma" && form.dtype == Dtype::Bf16 && compute_capability < Some((8, 0)) {
        return Some("takes bf16 from compute capability 8.0 on".into());
    }
    None
}

impl Plan {
    /// Compiles a rung's kernel with one of its tiles for a product.
    ///
    /// # Errors
    /// The device's; a product whose k is too long for its copies to fit into the workspace.
    pub fn new(device: &CudaDevice, rung: &Rung, tile: &Tile, product: &Product, aligned: Aligned) -> Result<Self> {
        let refused = |why: String| warpbook_device::Error::Unsupported { what: rung.id.to_string(), why };
        let cc = device.info().compute_capability;
        if let Some(why) = obstacle(rung, product.form, cc) {
            return Err(refused(why));
        }
        let Some(taken) = takes(&rung.id) else { return Err(refused("is no rung of kernels".into())) };
        let compiled_for = Self::spec(rung, product).ok_or_else(|| refused("is no rung of kernels".into()))?;
        let (form, copies, panel) = match taken.operands {
            Operands::Addresses => (product.form, [None, None], [product.m, product.n]),
            operands => copies(device, product, tile, operands, aligned)?.ok_or_else(|| {
                refused(format!(
                    "would copy its operands, and with k = {} they do not fit into the workspace",
                    product.k
                ))
            })?,
        };
        let kernel = device.kernel(&compiled_for, tile)?;
        let blocks = tile.size("CLUSTER").max(tile.size("SPLIT"));
        let cluster = (blocks > 1).then(|| u32::try_from(blocks).unwrap_or(u32::MAX));
        let stays = kernel.spec().grid == Grid::ResidentTiles;
        let most_blocks = match cluster {
            Some(size) if stays => {
                kernel.resident_clusters(size, kernel.tiles_shape(u64::from(size), 1))?.max(1) * size
            }
            _ => u32::MAX,
        };
        Ok(Self {
            most_blocks,
            device: device.clone(),
            product: *product,
            form,
            kernel,
            options: LaunchOptions {
                cluster,
                programmatic: taken.overlaps && device.has_programmatic_launch(),
                ..LaunchOptions::default()
            },
            operands: taken.operands,
            copies,
            panel,
            rung: rung.id.to_string(),
        })
    }

    /// The kernel of a rung as a product needs it compiled; `None` of a rung that has none.
    #[must_use]
    pub fn spec(rung: &Rung, product: &Product) -> Option<KernelSpec> {
        let taken = takes(&rung.id)?;
        Some(given(product.form, taken.operands).of(rung.kernels().first()?))
    }

    /// The rung's id.
    #[must_use]
    pub fn rung(&self) -> &str {
        &self.rung
    }

    /// The tile's id.
    #[must_use]
    pub fn tile(&self) -> &str {
        &self.kernel.tile().id
    }

    /// Memory that a launch uses beside the matrices, in bytes.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.copies.iter().flatten().map(|c| c.offset + c.bytes).max().unwrap_or(0)
    }

    /// What the compiler and the device say of its kernels, copies first.
    #[must_use]
    pub fn stats(&self) -> Vec<KernelStats> {
        let copies = self.copies.iter().flatten().map(|c| c.kernel.stats().clone());
        let mut own = self.kernel.stats().clone();
        own.grid = Some(self.shape(self.product.m.min(self.panel[0]), self.product.n.min(self.panel[1])).grid);
        copies.chain([own]).collect()
    }

    /// A sentence on what is done before the product, where something is.
    #[must_use]
    pub fn preparation(&self) -> Option<String> {
        let of = |c: &Option<Copied>, name: &str| {
            c.as_ref().map(|c| {
                format!(
                    "{name} is {} first",
                    if c.transpose { "transposed" } else { "copied into rows of a multiple of 16 bytes" }
                )
            })
        };
        let all: Vec<String> = [of(&self.copies[0], "A"), of(&self.copies[1], "B")].into_iter().flatten().collect();
        (!all.is_empty()).then(|| format!("{}, inside the timed region.", all.join("; ")))
    }

    fn shape(&self, m: u32, n: u32) -> Launch {
        let mut shape = self.kernel.tiles_shape(m.into(), n.into());
        shape.grid[0] = shape.grid[0].min(self.most_blocks);
        shape
    }

    /// Queues it.
    ///
    /// # Errors
    /// A launch that is refused.
    ///
    /// # Safety
    /// The arrays live, and hold what the product says, until the stream has got past it; C overlaps none of the others.
    pub unsafe fn launch(&self, stream: &Stream, arrays: &Arrays) -> Result<()> {
        let p = &self.product;
        let [step_m, step_n] = self.panel;
        for row in (0..p.m).step_by(step_m as usize) {
            let m = step_m.min(p.m - row);
            // SAFETY: the caller's; the panel lies within A, its copy within the workspace.
            let (a, lda) = unsafe { self.operand(stream, 0, arrays, row, m)? };
            for column in (0..p.n).step_by(step_n as usize) {
                let n = step_n.min(p.n - column);
                // SAFETY: as above, of B.
                let (b, ldb) = unsafe { self.operand(stream, 1, arrays, column, n)? };
                let out = p.form.out.bytes();
                let in_c = (u64::from(row) * u64::from(p.ldc) + u64::from(column)) * out;
                let step = LastStep {
                    alpha: p.alpha,
                    beta: p.beta,
                    bias: arrays.bias.offset(u64::from(column) * 4),
                    mask: arrays.mask.offset(in_c),
                };
                // SAFETY: as above; the panel of C lies within C.
                unsafe { self.launch_panel(stream, (a, lda), (b, ldb), arrays.c.offset(in_c), (m, n), step)? };
            }
        }
        Ok(())
    }

    /// Address and leading dimension of `count` rows of op(A), or columns of op(B), from `first` on, copied where they have to be.
    unsafe fn operand(
        &self,
        stream: &Stream,
        which: usize,
        arrays: &Arrays,
        first: u32,
        count: u32,
    ) -> Result<(DevicePtr, u32)> {
        let p = &self.product;
        let (from, ld, transposed) =
            if which == 0 { (arrays.a, p.lda, p.form.trans_a) } else { (arrays.b, p.ldb, !p.form.trans_b) };
        // Rows of op(A) and columns of op(B) run along k where they are stored so.
        let in_array = if transposed { u64::from(first) } else { u64::from(first) * u64::from(ld) };
        let from = from.offset(in_array * p.form.dtype.bytes());
        let Some(copied) = &self.copies[which] else { return Ok((from, ld)) };
        let to = arrays.workspace.offset(copied.offset);
        let (rows, columns) = if transposed != copied.transpose { (p.k, count) } else { (count, p.k) };
        let shape = copied.kernel.tiles_shape(rows.into(), columns.into());
        // SAFETY: repack(from, to, rows, columns, ld_from, ld_to), as the caller promises; `to` has room for the panel.
        unsafe { copied.kernel.launch(stream, shape, &[&from, &to, &rows, &columns, &ld, &copied.ld])? };
        Ok((to, copied.ld))
    }

    unsafe fn launch_panel(
        &self,
        stream: &Stream,
        (a, lda): (DevicePtr, u32),
        (b, ldb): (DevicePtr, u32),
        c: DevicePtr,
        (m, n): (u32, u32),
        step: LastStep,
    ) -> Result<()> {
        let (p, shape) = (&self.product, self.shape(m, n));
        let launch = |args: &[&dyn KernelArg]| {
            // SAFETY: the arguments are those of the kernel, see below; the arrays are the caller's promise.
            unsafe { self.kernel.launch_with(stream, shape, self.options, args) }
        };
        if self.operands == Operands::Addresses {
            // gemm(a, b, c, m, n, k, lda, ldb, ldc, finish)
            return launch(&[&a, &b, &c, &m, &n, &p.k, &lda, &ldb, &p.ldc, &step]);
        }
        let tile = self.kernel.tile();
        let size = |name| u32::try_from(tile.size(name)).unwrap_or(u32::MAX);
        let dtype = p.form.dtype;
        let along = u32::try_from(128 / dtype.bytes()).unwrap_or(1);
        let map = |address, (rows, columns): (u32, u32), ld: u32, (box_rows, box_columns)| {
            let shape =
                MatrixShape { dtype, rows: rows.into(), columns: columns.into(), ld: ld.into(), box_rows, box_columns };
            TensorMap::new(&self.device, address, shape)
        };
        let map_a = if self.form.trans_a {
            map(a, (p.k, m), lda, (along, 64))
        } else {
            map(a, (m, p.k), lda, (size("BM") / size("CLUSTER_N"), along))
        }?;
        let map_b = if self.form.trans_b {
            map(b, (n, p.k), ldb, (size("BN") / (size("CLUSTER") / size("CLUSTER_N")), along))
        } else {
            map(b, (p.k, n), ldb, (along, along))
        }?;
        if self.operands == Operands::TensorMaps {
            // gemm(map_a, map_b, c, m, n, k, ldc, finish)
            return launch(&[&map_a, &map_b, &c, &m, &n, &p.k, &p.ldc, &step]);
        }
        let out = p.form.out;
        // TMA cuts what it writes off at multiples of 16 bytes.
        let by_copy = MatrixShape::suits(out, p.ldc.into(), c) && (u64::from(n) * out.bytes()).is_multiple_of(16);
        let map_c = if by_copy {
            let box_columns = u32::try_from(128 / out.bytes()).unwrap_or(1);
            let box_rows = if self.operands == Operands::BInRegisters { 32 } else { 64 };
            let shape =
                MatrixShape { dtype: out, rows: m.into(), columns: n.into(), ld: p.ldc.into(), box_rows, box_columns };
            TensorMap::new(&self.device, c, shape)?
        } else {
            map_a
        };
        // gemm(map_a, map_b, map_c, by_copy, c, m, n, k, ldc, finish)
        launch(&[&map_a, &map_b, &map_c, &u32::from(by_copy), &c, &m, &n, &p.k, &p.ldc, &step])
    }
}

/// The form that a kernel is given: 32-bit tiles that tensor cores read from shared memory have to run along k, and those that go
/// through registers along n; copies see to it.
pub(super) fn given(form: Form, operands: Operands) -> Form {
    if operands != Operands::Addresses && form.dtype.bytes() == 4 {
        Form { trans_a: false, trans_b: operands != Operands::BInRegisters, ..form }
    } else {
        form
    }
}

type Copies = (Form, [Option<Copied>; 2], [u32; 2]);

/// Which matrices are copied first, and how much of them at a time; `None` where not even a tile's part fits.
fn copies(
    device: &CudaDevice,
    p: &Product,
    tile: &Tile,
    operands: Operands,
    aligned: Aligned,
) -> Result<Option<Copies>> {
    let (form, given) = (p.form, given(p.form, operands));
    let bytes = form.dtype.bytes();
    let rows_suit = |ld: u32| (u64::from(ld) * bytes).is_multiple_of(16);
    let turn = [form.trans_a != given.trans_a, form.trans_b != given.trans_b];
    let copy = [turn[0] || !aligned[0] || !rows_suit(p.lda), turn[1] || !aligned[1] || !rows_suit(p.ldb)];
    let wanted = copy.iter().filter(|c| **c).count() as u64;
    let per_copy = WORKSPACE_BYTES / wanted.max(1) / 1024 * 1024;
    let mut panel = [p.m, p.n];
    let mut found: [Option<Copied>; 2] = [None, None];
    let mut offset = 0;
    for which in 0..2 {
        if !copy[which] {
            continue;
        }
        let along_k = if which == 0 { !given.trans_a } else { given.trans_b };
        let piece = u32::try_from(16 / bytes).unwrap_or(1);
        let step = u32::try_from(
            tile.size(if which == 0 { "BM" } else { "BN" }) * if which == 0 { tile.size("CLUSTER") } else { 1 },
        )
        .unwrap_or(u32::MAX);
        let whole = panel[which];
        let bytes_of = |count: u32| {
            let (rows, columns) = if along_k { (count, p.k) } else { (p.k, count) };
            u64::from(rows) * u64::from(columns.next_multiple_of(piece)) * bytes
        };
        let mut count = whole;
        // One matrix may have more than its half where the other needs less.
        let room = if which == 1 {
            WORKSPACE_BYTES - offset
        } else if copy[1] {
            per_copy
        } else {
            WORKSPACE_BYTES
        };
        let room = if which == 0 && copy[1] {
            room.max(WORKSPACE_BYTES.saturating_sub(other_bytes(p, bytes, piece)))
        } else {
            room
        };
        while bytes_of(count) > room {
            if count <= step {
                return Ok(None);
            }
            count = (count / 2).next_multiple_of(step);
        }
        let columns = if along_k { p.k } else { count };
        let spec: KernelSpec = repack(bytes, turn[which]);
        let size = bytes_of(count);
        found[which] = Some(Copied {
            kernel: device.kernel(&spec, &spec.tiles[0])?,
            transpose: turn[which],
            ld: columns.next_multiple_of(piece),
            offset,
            bytes: size,
        });
        panel[which] = count;
        offset = (offset + size).next_multiple_of(1024);
    }
    Ok(Some((given, found, panel)))
}

/// Bytes of a copy of the whole of B.
fn other_bytes(p: &Product, bytes: u64, piece: u32) -> u64 {
    let (rows, columns) = p.stored_b();
    u64::from(rows) * u64::from(columns.next_multiple_of(piece)) * bytes + 1024
}
