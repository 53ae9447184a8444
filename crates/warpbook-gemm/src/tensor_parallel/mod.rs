//! Computes a product on several GPUs of one process: tensor parallelism, by rows and by K.
//!
//! - **By rows** each GPU has some rows of A and all of B, and computes these rows of C. The first GPU's rows are already in place; the other GPUs send their
//!   rows.
//! - **By K** each GPU has some columns of A and the same rows of B, and computes a partial product of the size of C, in f32. The first GPU adds them up in
//!   the order of the GPUs (NCCL: in its own order), and rounds once to the type of C.
//!
//! Either way C is computed in panels of rows: while a GPU multiplies a panel, the previous one is on its way to the first GPU. The kernel is the one that
//! [`Gemm`] chooses for one GPU, with the same tile everywhere and panels that end at its tiles. Therefore a product by rows has the same bits as on one GPU. A
//! product by K is summed differently: each further GPU adds an f32 rounding error of 2^-24 of the sum of the magnitudes.
//!
//! With a split by rows, the other GPUs can also store their results directly into the first GPU's memory, if they can access that memory. The kernel's
//! epilogue is then the communication, tile by tile while the next tiles are multiplied. There are no panels, and nothing is left to copy at the end.
//!
//! Otherwise communication is by copies from GPU to GPU, which copy engines make while all SMs multiply, or by NCCL, whose kernels need SMs of both GPUs. A
//! persistent kernel of this project occupies every SM until it finishes, so with NCCL the first GPU also works in panels, and all communication is on
//! streams of higher priority.
//!
//! Without NCCL the same device may be listed several times. Its shares are then computed on separate streams, which is no faster but tests that the work is
//! ordered correctly.

mod add_launch;
mod plan;
mod queue;
mod timeline;

pub use plan::{copied_panels, panel_count, panels, shares, tapered};
pub use timeline::{Doing, Stretch, Timeline};

use crate::Malformed;
use crate::{BoundPlan, DeviceArray, DeviceArrays, Gemm, Plan, Product, Workspace, expected_us, refused};
use add_launch::AddPartials;
use plan::MOST_CHOSEN;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use warpbook_device::{Buffer, Communicator, CudaDevice, Error, Event, Result, Route, Stream};
use warpbook_kernels::matmul::{Row, rows};
use warpbook_record::{Dim, Dtype, Tile};

/// The shares of K are multiples of this number of terms, except the last share, so that the rows of each part of A begin at multiples of 16 bytes.
const K_UNIT: u32 = 64;

/// Link speed in bytes per second that is assumed if it was not measured. The number of panels is proportional to the square root of the speed.
const ASSUMED_LINK: f64 = 200e9;

/// Ways to split a product over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// Each GPU computes some rows of C.
    Rows,
    /// Each GPU sums some of the terms of every element of C.
    K,
}

/// Ways to transport results to the first GPU.
#[derive(Debug, Clone)]
pub enum Carrier {
    /// Copies from GPU to GPU, or through host memory if the GPUs cannot access each other's memory.
    Copies,
    /// The multiplying kernels store directly into the first GPU's memory. This requires a split by rows and GPUs that can access each other's memory.
    Stores,
    /// NCCL, with one communicator for each device, in the order of the devices; see [`Communicator::all`].
    Nccl(Arc<Vec<Communicator>>),
}

/// Options of a product over several GPUs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The way in which the product is split.
    pub split: Split,
    /// The way in which panels reach the first GPU.
    pub carrier: Carrier,
    /// Number of panels of each GPU. If it is `None`, [`copied_panels`] chooses the panels, or [`panel_count`] if all GPUs must have the same number, as with a
    /// split by K or with NCCL. With [`Carrier::Stores`] there is one panel.
    pub panels: Option<u32>,
    /// Measured speed of the link in bytes per second, if known, from which the number of panels is chosen.
    pub link_bytes_per_s: Option<f64>,
}

impl Options {
    /// Returns options for copies, with an automatic number of panels.
    #[must_use]
    pub fn new(split: Split) -> Self {
        Self { split, carrier: Carrier::Copies, panels: None, link_bytes_per_s: None }
    }

    /// Makes the multiplying kernels store into the first GPU's memory.
    #[must_use]
    pub fn stores(self) -> Self {
        Self { carrier: Carrier::Stores, ..self }
    }

    /// Uses NCCL for the communication.
    #[must_use]
    pub fn nccl(self, communicators: Arc<Vec<Communicator>>) -> Self {
        Self { carrier: Carrier::Nccl(communicators), ..self }
    }

    /// Sets the number of panels on each GPU, which is at most the number of tiles.
    #[must_use]
    pub fn panels(self, panels: u32) -> Self {
        Self { panels: Some(panels), ..self }
    }
}

/// A panel of rows on a GPU.
#[derive(Debug)]
struct Panel {
    rows: Range<u32>,
    multiply: BoundPlan,
    /// The panel's part of C, or of the partial product.
    result: DeviceArray,
    /// Event after the multiplication of the panel.
    computed: Event,
    /// Event after the transfer of the panel to the first GPU.
    arrived: Event,
}

/// One of the GPUs, with its part of the product.
#[derive(Debug)]
struct Member {
    device: CudaDevice,
    /// Stream that multiplies; `None` for the first GPU, which uses the caller's stream.
    multiplying: Option<Stream>,
    /// Stream for communication; the first GPU's stream also adds up the partial products.
    communicating: Stream,
    /// Event after all communication of this GPU.
    done: Event,
    panels: Vec<Panel>,
    /// The GPU's share of the rows, or of k.
    share: Range<u32>,
    a: DeviceArray,
    b: DeviceArray,
}

/// A planned product C = A B over several GPUs. Launching it compiles and allocates nothing.
pub struct TensorParallel {
    product: Product,
    split: Split,
    carrier: Carrier,
    members: Vec<Member>,
    /// A, B and C on the first device.
    arrays: DeviceArrays,
    /// Event before all work of a run.
    begin: Event,
    sum: Option<Sum>,
    routes: Vec<Route>,
    kernel: String,
}

/// The buffers and the kernel for adding up partial products.
#[derive(Debug)]
struct Sum {
    add: AddPartials,
    /// Partial products from the other GPUs, stored one after another.
    received: Buffer<f32>,
}

impl fmt::Debug for TensorParallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorParallel({})", self.description())
    }
}

/// The kernel that all GPUs use for multiplying.
struct Chosen {
    row: Row,
    tile: Tile,
}

impl Chosen {
    /// Returns the kernel that is chosen for one GPU.
    fn new(device: &CudaDevice, product: &Product) -> Result<Self> {
        let plan = Gemm::untuned(device).plan(product, [true; 2])?;
        let row = rows().into_iter().find(|r| r.rung.id == plan.rung());
        let found = row.and_then(|row| Some((row.kernel()?.tile(plan.tile())?.clone(), row)));
        let (tile, row) = found.ok_or_else(|| Error::Unsupported {
            what: format!("{} with the tile {}", plan.rung(), plan.tile()),
            why: "is not a kernel of the catalogue".into(),
        })?;
        Ok(Self { row, tile })
    }

    /// Returns the number of rows of C that a tile, or a cluster of tiles, computes.
    fn unit(&self) -> u32 {
        let down = self.tile.size(Dim::Cluster) / self.tile.size(Dim::ClusterN).max(1);
        u32::try_from(self.tile.size(Dim::Bm) * down.max(1)).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the kernel's expected time for a product in microseconds. If the product cannot run as a whole, the time is based on a rate that many GPUs
    /// reach.
    fn expected_us(&self, device: &CudaDevice, product: &Product) -> f64 {
        let flops = 2.0 * f64::from(product.m) * f64::from(product.n) * f64::from(product.k);
        expected_us(&self.row, &self.tile, product, device.info()).unwrap_or(flops / 1e8)
    }
}

impl TensorParallel {
    /// Plans a product over some devices and copies its operands to each. `arrays` are on the first device, where C is written.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no device; if operands are transposed; if there is an epilogue, a factor or a gap between rows; if the arrays do not
    /// fit the product; if the communicators do not belong to the devices; or if the memory is too small. Also returns errors of the compiler and the devices.
    pub fn new(devices: &[CudaDevice], product: &Product, arrays: &DeviceArrays, options: &Options) -> Result<Self> {
        let Some(first) = devices.first() else { return Err(malformed("needs a GPU")) };
        check(devices, product, &options.carrier)?;
        check_arrays(first, product, arrays)?;
        let is_nccl = matches!(options.carrier, Carrier::Nccl(_));
        let stores = matches!(options.carrier, Carrier::Stores);
        let mut routes = Vec::new();
        for device in &devices[1..] {
            routes.push(first.connect(device)?);
        }
        if stores && options.split == Split::K {
            return Err(malformed("by K cannot store into the first GPU: split it by rows, or use copies"));
        }
        if stores && routes.contains(&Route::Host) {
            return Err(malformed("by stores needs GPUs that can access each other's memory: use copies"));
        }
        // With a split by K and only one GPU, there is nothing to add up.
        let of_k = shares(product.k, devices.len(), K_UNIT);
        let by_k = options.split == Split::K && of_k.iter().filter(|s| !s.is_empty()).count() > 1;
        let on_one = if by_k {
            let Range { start, end } = of_k[0];
            let form = warpbook_kernels::matmul::Form { out: Dtype::F32, ..product.form };
            Product { form, ..Product::new(product.m, product.n, end - start, form) }
        } else {
            *product
        };
        let chosen = Chosen::new(first, &on_one)?;
        let unit = chosen.unit();
        if by_k && is_nccl && of_k.iter().any(Range::is_empty) {
            let (k, gpus) = (product.k, devices.len());
            return Err(malformed(&format!(
                "by NCCL needs a share of {K_UNIT} terms for each of {gpus} GPUs, but k is {k}: name fewer GPUs"
            )));
        }
        let split: Vec<(Range<u32>, Range<u32>)> = match options.split {
            Split::K if by_k => of_k.into_iter().map(|k| (0..product.m, k)).collect(),
            // If there are too few terms to share, the first GPU gets all of them.
            Split::K => {
                (0..devices.len()).map(|rank| (if rank == 0 { 0..product.m } else { 0..0 }, 0..product.k)).collect()
            }
            Split::Rows => shares(product.m, devices.len(), unit).into_iter().map(|m| (m, 0..product.k)).collect(),
        };
        let link = options.link_bytes_per_s.filter(|rate| *rate > 0.0).unwrap_or(ASSUMED_LINK);
        // Each height is estimated only once, since the same heights occur repeatedly.
        let expected: RefCell<HashMap<u32, f64>> = RefCell::default();
        let us_of = |rows: u32| {
            let us = || chosen.expected_us(first, &Product { m: rows, ..on_one });
            *expected.borrow_mut().entry(rows).or_insert_with(us)
        };
        let equal = || {
            let most = split.iter().map(|(m, _)| (m.end - m.start).div_ceil(unit)).max().unwrap_or(1);
            let rows = split[0].0.end - split[0].0.start;
            let us = |count: u32| {
                let panel = rows.div_ceil(count).next_multiple_of(unit).min(rows.max(1));
                f64::from(rows.div_ceil(panel)) * us_of(panel)
            };
            panel_count(most.min(MOST_CHOSEN), us, crossing(product, &split, by_k) as f64 / link * 1e6)
        };
        let mut members = Vec::new();
        for (rank, (device, (of_m, of_k))) in devices.iter().zip(&split).enumerate() {
            // The first GPU's rows are in place: it has nothing to send, and needs panels only so that NCCL's kernels can run in between.
            let in_place = stores || (rank == 0 && !by_k && !(is_nccl && devices.len() > 1));
            let panels = match options.panels {
                _ if in_place => panels(of_m.clone(), 1, unit),
                Some(count) => panels(of_m.clone(), count, unit),
                None if by_k || is_nccl => panels(of_m.clone(), equal(), unit),
                None => {
                    let row_us = (u64::from(product.n) * product.form.out.bytes()) as f64 / link * 1e6;
                    copied_panels(of_m, unit, us_of, row_us)
                }
            };
            let part = GpuShare { rank, rows: of_m.clone(), terms: of_k.clone(), by_k, stores, panels };
            members.push(part.member(device, product, arrays, &chosen)?);
        }
        let sum = if by_k {
            let partial = product.m as usize * product.n as usize;
            let received = if is_nccl { 0 } else { (members.len() - 1) * partial };
            Some(Sum { add: AddPartials::new(first, product.form.out)?, received: first.zeros(received)? })
        } else {
            None
        };
        let this = Self {
            product: *product,
            split: options.split,
            carrier: options.carrier.clone(),
            members,
            arrays: arrays.clone(),
            begin: first.untimed_event()?,
            sum,
            routes,
            kernel: format!("{} with the tile {}", chosen.row.rung.id, chosen.tile.id),
        };
        this.distribute()?;
        Ok(this)
    }

    /// Copies the current A and B from the first device to the other devices, and waits for the copies.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn distribute(&self) -> Result<()> {
        let Some(first) = self.members.first() else { return Ok(()) };
        let (stream, p) = (&first.communicating, &self.product);
        let row = |array: &DeviceArray, ld: u32, row: u32, columns: Range<u32>| {
            let at = row as usize * ld as usize;
            array.range(at + columns.start as usize..at + columns.end as usize)
        };
        for member in self.members[1..].iter().filter(|m| !m.share.is_empty()) {
            let Range { start, end } = member.share.clone();
            if self.sum.is_some() {
                for r in 0..p.m {
                    let from = row(&self.arrays.a, p.lda, r, start..end);
                    let to = row(&member.a, end - start, r, 0..end - start);
                    stream.copy_across(from.bytes(), to.bytes())?;
                }
                let of_b = self.arrays.b.range(start as usize * p.n as usize..end as usize * p.n as usize);
                stream.copy_across(of_b.bytes(), member.b.bytes())?;
            } else {
                let of_a = self.arrays.a.range(start as usize * p.k as usize..end as usize * p.k as usize);
                stream.copy_across(of_a.bytes(), member.a.bytes())?;
                let of_b = self.arrays.b.range(0..p.k as usize * p.n as usize);
                stream.copy_across(of_b.bytes(), member.b.bytes())?;
            }
        }
        stream.synchronize()
    }

    /// Returns the number of GPUs that have a share of the work.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.members.iter().filter(|m| !m.share.is_empty()).count()
    }

    /// Returns the number of bytes that cross the link of the first GPU in a run.
    #[must_use]
    pub fn link_bytes(&self) -> u64 {
        let by_k = self.sum.is_some();
        let split: Vec<(Range<u32>, Range<u32>)> = self
            .members
            .iter()
            .map(|m| if by_k { (0..self.product.m, m.share.clone()) } else { (m.share.clone(), 0..self.product.k) })
            .collect();
        match self.carrier {
            // Ranks add up the sums that pass through them, so the first rank receives one sum.
            Carrier::Nccl(_) if by_k && self.members.len() > 1 => partial_bytes(&self.product),
            _ => crossing(&self.product, &split, by_k),
        }
    }

    /// Describes in sentences the kernel, the shares, the number of panels, and how the panels reach the first GPU.
    #[must_use]
    pub fn description(&self) -> String {
        let shares: Vec<String> = self
            .members
            .iter()
            .map(|m| {
                let (n, what) = (m.share.end - m.share.start, if self.sum.is_some() { "terms" } else { "rows" });
                let heights: Vec<u32> = m.panels.iter().map(|p| p.rows.end - p.rows.start).collect();
                let panels = match (heights.len(), heights.first(), heights.last()) {
                    (1, ..) => "one panel".to_owned(),
                    (n, Some(most), Some(last)) if most > last => format!("{n} panels of {most} to {last} rows"),
                    (n, ..) => format!("{n} panels"),
                };
                format!("{n} {what} in {panels} on cuda:{}", m.device.info().index)
            })
            .collect();
        let how = match &self.carrier {
            _ if self.members.len() == 1 => String::new(),
            Carrier::Nccl(all) => format!(" Communication by NCCL {}.", all.first().map_or(0, Communicator::version)),
            Carrier::Copies => {
                let slowest = self.routes.iter().max().copied().unwrap_or(Route::Within);
                format!(" Copies go {slowest}.")
            }
            Carrier::Stores => {
                let slowest = self.routes.iter().max().copied().unwrap_or(Route::Within);
                format!(" Kernels store {slowest}.")
            }
        };
        format!("{}: {}.{how}", self.kernel, shares.join(", "))
    }
}

/// Returns the number of bytes of a partial product.
fn partial_bytes(product: &Product) -> u64 {
    u64::from(product.m) * u64::from(product.n) * 4
}

/// Returns the number of bytes that are copied to the first GPU.
fn crossing(product: &Product, split: &[(Range<u32>, Range<u32>)], by_k: bool) -> u64 {
    let others = split.iter().skip(1).filter(|(m, k)| !m.is_empty() && !k.is_empty());
    others
        .map(|(m, _)| {
            let elements = u64::from(m.end - m.start) * u64::from(product.n);
            elements * if by_k { 4 } else { product.form.out.bytes() }
        })
        .sum()
}

fn malformed(why: &str) -> Error {
    refused(Malformed(format!("A product over several GPUs {why}.")))
}

/// Returns an error unless the product can be split, and the communicators belong to the devices.
fn check(devices: &[CudaDevice], product: &Product, carrier: &Carrier) -> Result<()> {
    product.validate().map_err(refused)?;
    let plain = Product::new(product.m, product.n, product.k, product.form);
    if *product != plain || product.form.trans_a || product.form.trans_b {
        return Err(malformed(
            "needs A and B without transposition, alpha 1, beta 0, and rows without gaps between them",
        ));
    }
    if product.form.epilogue != warpbook_kernels::matmul::Epilogue::None {
        return Err(malformed("has no epilogue: add a bias or an activation after the product"));
    }
    let Carrier::Nccl(all) = carrier else { return Ok(()) };
    let are_theirs = all.len() == devices.len() && all.iter().enumerate().all(|(i, c)| c.rank() == i);
    if !are_theirs {
        return Err(malformed(
            "by NCCL needs a communicator for each GPU, in their order: make them by Communicator::all",
        ));
    }
    Ok(())
}

/// Returns an error unless A, B and C fit the product and are on the first device.
fn check_arrays(first: &CudaDevice, product: &Product, arrays: &DeviceArrays) -> Result<()> {
    let stored = |dtype| if dtype == Dtype::Tf32 { Dtype::F32 } else { dtype };
    let (form, [a, b, c]) = (product.form, product.elements());
    for (name, array, dtype, len) in
        [("A", &arrays.a, form.dtype, a), ("B", &arrays.b, form.dtype, b), ("C", &arrays.c, form.out, c)]
    {
        let (is, needs) = (array.dtype(), stored(dtype));
        if stored(is) != needs || array.len() < len {
            let (n, is, needs) = (array.len(), is.label(), needs.label());
            return Err(malformed(&format!("needs {len} elements of {needs} in {name}, but got {n} of {is}")));
        }
        let (on, index) = (array.bytes().device_index(), first.info().index);
        if on != index {
            return Err(malformed(&format!("needs {name} on the first GPU, cuda:{index}, but it is on cuda:{on}")));
        }
    }
    if arrays.epilogue.bias.is_some() || arrays.epilogue.mask.is_some() || arrays.bias_gradient.is_some() {
        return Err(malformed("takes only A, B and C: leave out biases and masks"));
    }
    Ok(())
}

/// A GPU's share, before its memory is allocated.
struct GpuShare {
    rank: usize,
    rows: Range<u32>,
    terms: Range<u32>,
    by_k: bool,
    /// True if the GPU writes its rows of C into the first GPU's memory.
    stores: bool,
    /// Ranges of rows of the panels.
    panels: Vec<Range<u32>>,
}

impl GpuShare {
    fn member(self, device: &CudaDevice, product: &Product, arrays: &DeviceArrays, chosen: &Chosen) -> Result<Member> {
        let (p, first) = (product, self.rank == 0);
        let (m, k) = (self.rows.end - self.rows.start, self.terms.end - self.terms.start);
        let is_idle = m == 0 || k == 0;
        let array = |rows: u32, columns: u32, dtype: Dtype| -> Result<DeviceArray> {
            let elements = if is_idle { 0 } else { rows as usize * columns as usize };
            Ok((&crate::product::storage::Storage::zeros(device, elements, dtype)?).into())
        };
        let out = if self.by_k { Dtype::F32 } else { p.form.out };
        // The first GPU reads A and B in place. With a split by rows, it also writes C in place.
        let (a, b, lda) = if first {
            (arrays.a.clone(), arrays.b.clone(), p.lda)
        } else {
            (array(m, k, p.form.dtype)?, array(k, p.n, p.form.dtype)?, k)
        };
        let c = if first && !self.by_k {
            arrays.c.clone()
        } else if self.stores && !is_idle {
            let at = |row: u32| row as usize * p.n as usize;
            arrays.c.range(at(self.rows.start)..at(self.rows.end))
        } else {
            array(m, p.n, out)?
        };
        let form = warpbook_kernels::matmul::Form { out, ..p.form };
        let mut plans: HashMap<(u32, [bool; 2]), Arc<Plan>> = HashMap::new();
        let mut planned = Vec::new();
        let ranges = if is_idle { Vec::new() } else { self.panels };
        for rows in ranges {
            let (height, above) = (rows.end - rows.start, (rows.start - self.rows.start) as usize);
            let part = Product::new(height, p.n, k, form).leading(lda, p.n, p.n);
            let [of_a, of_b, of_c] = part.elements();
            let at = |array: &DeviceArray, from: usize, len: usize| array.range(from..from + len);
            let inputs = [at(&a, above * lda as usize, of_a), at(&b, 0, of_b)];
            let result = at(&c, above * p.n as usize, of_c);
            let aligned = inputs.each_ref().map(|x| x.address().is_aligned(16));
            let plan = match plans.get(&(height, aligned)) {
                Some(plan) => plan.clone(),
                None => Arc::new(Plan::new(device, &chosen.row, &chosen.tile, &part, aligned)?),
            };
            plans.insert((height, aligned), plan.clone());
            let [of_a, of_b] = inputs;
            planned.push((rows, plan, DeviceArrays::new(of_a, of_b, result.clone()), result));
        }
        let workspace = Workspace::for_plans(device, planned.iter().map(|(_, plan, ..)| &**plan))?;
        let mut panels = Vec::new();
        for (rows, plan, arrays, result) in planned {
            panels.push(Panel {
                rows,
                multiply: plan.bind(&arrays, &workspace)?,
                result,
                computed: device.untimed_event()?,
                arrived: device.untimed_event()?,
            });
        }
        Ok(Member {
            device: device.clone(),
            multiplying: if first { None } else { Some(device.stream()?) },
            communicating: device.urgent_stream()?,
            done: device.untimed_event()?,
            panels,
            share: if is_idle {
                0..0
            } else if self.by_k {
                self.terms
            } else {
                self.rows
            },
            a,
            b,
        })
    }
}
