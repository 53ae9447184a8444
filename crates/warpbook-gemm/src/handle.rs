//! One entry to all products: chooses, plans and checks.

use crate::{
    Aligned, Arrays, Choice, DeviceArrays, Findings, LibraryPlan, Malformed, Plan, Planned, Product, ProductBy,
    Workspace, choose, choose_from,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_device::{CublasLt, CudaDevice, Cudnn, Error, Result, Stream};
use warpbook_kernels::matmul::{Form, Operands, Row, rows};

/// Products on a device: chooses rung and tile by type, shape and device, and keeps the plans.
///
/// It owns no arrays: each call is given a [`Workspace`], so that products on different streams may run at once.
#[derive(Debug)]
pub struct Gemm {
    device: CudaDevice,
    findings: Findings,
    plans: Mutex<HashMap<Key, Arc<Plan>>>,
    /// NVIDIA's libraries, opened when they are first asked for.
    cublaslt: Mutex<Option<CublasLt>>,
    cudnn: Mutex<Option<Cudnn>>,
}

/// A library, opened at the first call.
fn opened<L: Clone>(library: &Mutex<Option<L>>, open: impl FnOnce() -> Result<L>) -> Result<L> {
    let mut there = library.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match &*there {
        Some(there) => there.clone(),
        None => there.insert(open()?).clone(),
    })
}

/// What a plan was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    by: ProductBy,
    sizes: [u32; 3],
    leading: [u32; 3],
    form: Form,
    factors: [u32; 2],
    bias_gradient: bool,
    aligned: Aligned,
}

impl Key {
    fn new(p: &Product, aligned: Aligned, by: ProductBy) -> Self {
        Self {
            by,
            sizes: [p.m, p.n, p.k],
            leading: [p.lda, p.ldb, p.ldc],
            form: p.form,
            factors: [p.alpha.to_bits(), p.beta.to_bits()],
            bias_gradient: p.bias_gradient,
            aligned,
        }
    }
}

impl Gemm {
    /// A handle, with what tuning found on this device.
    #[must_use]
    pub fn new(device: &CudaDevice) -> Self {
        Self::with_findings(device, Findings::of(device.info()))
    }

    /// A handle that chooses by expected times alone, without what tuning found.
    #[must_use]
    pub fn untuned(device: &CudaDevice) -> Self {
        Self::with_findings(device, Findings::default())
    }

    fn with_findings(device: &CudaDevice, findings: Findings) -> Self {
        Self {
            device: device.clone(),
            findings,
            plans: Mutex::default(),
            cublaslt: Mutex::default(),
            cudnn: Mutex::default(),
        }
    }

    /// The rung and tile for a product, and why.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where no rung takes its types on this device.
    pub fn choice(&self, product: &Product) -> Result<Choice> {
        choose(product, self.device.info(), &self.findings).ok_or_else(|| Error::Unsupported {
            what: format!("A product in {}", product.form.dtype.label()),
            why: format!("has no rung that runs on {}; choose another type", self.device.info().name),
        })
    }

    /// The plan of a product whose A and B are aligned so. It is compiled and loaded at the first call.
    ///
    /// # Errors
    /// As of [`Gemm::choice`]; a malformed product; the compiler's and the device's.
    pub fn plan(&self, product: &Product, aligned: Aligned) -> Result<Arc<Plan>> {
        self.plan_from(ProductBy::Own, product, aligned)
    }

    /// The plan of a product of arrays that begin at multiples of 16 bytes, by what it is told to be computed by.
    ///
    /// # Errors
    /// As of [`Gemm::plan`]; the library is not there, or has no algorithm for the product.
    pub fn plan_by(&self, by: ProductBy, product: &Product) -> Result<Planned> {
        Ok(match by {
            ProductBy::Stock => {
                let library = opened(&self.cublaslt, || CublasLt::open(&self.device))?;
                Planned::Library(Arc::new(LibraryPlan::new(&self.device, &library, product)?))
            }
            by => Planned::Kernel(self.plan_from(by, product, [true; 2])?),
        })
    }

    /// cuDNN on the device, opened at the first call.
    pub fn cudnn(&self) -> Result<Cudnn> {
        opened(&self.cudnn, || Cudnn::open(&self.device))
    }

    /// The choice from one row.
    fn only_choice(&self, by: ProductBy, product: &Product) -> Result<Choice> {
        let (rows, info) = (by.rows(), self.device.info());
        choose_from(&rows, product, info, &Findings::default()).ok_or_else(|| {
            let why = rows.iter().find_map(|row| row.obstacle(product.form, info.compute_capability));
            Error::Unsupported {
                what: format!("The {by} product"),
                why: why.unwrap_or_else(|| "has no rung in the catalogue".into()),
            }
        })
    }

    /// The plan of a product whose A and B are aligned so, by a kernel of ours or of a learner's; a library has no such plan.
    pub fn plan_from(&self, by: ProductBy, product: &Product, aligned: Aligned) -> Result<Arc<Plan>> {
        product.validate().map_err(refused)?;
        let key = Key::new(product, aligned, by);
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans().get(&key) {
            return Ok(plan.clone());
        }
        // Not under the lock: others may plan, and launch what is planned, while this compiles.
        let choice = if by == ProductBy::Own { self.choice(product)? } else { self.only_choice(by, product)? };
        let plan = match Plan::new(&self.device, &choice.row, &choice.tile, product, aligned) {
            // Copies that do not fit into the workspace.
            Err(Error::Unsupported { .. }) if by == ProductBy::Own => self.plan_by_addresses(product)?,
            other => other?,
        };
        Ok(plans().entry(key).or_insert_with(|| Arc::new(plan)).clone())
    }

    /// The plan of a product of these arrays: [`Gemm::plan`] with their alignment.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where an array does not fit the product; as of [`Gemm::plan`].
    pub fn plan_for(&self, product: &Product, arrays: &DeviceArrays) -> Result<Arc<Plan>> {
        product.check(&arrays.specs()).map_err(refused)?;
        self.plan(product, alignment(arrays))
    }

    /// Plans a product of these arrays by one kernel, whatever would be chosen: see [`ProductBy::names_a_rung`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is a library or the choice among all, if its rung does not take the product, or if an array does not fit the
    /// product; the compiler's and the device's.
    pub fn plan_with(&self, by: ProductBy, product: &Product, arrays: &DeviceArrays) -> Result<Arc<Plan>> {
        if !by.names_a_rung() {
            return Err(Error::Unsupported { what: format!("The {by} product"), why: "is not one kernel".into() });
        }
        product.check(&arrays.specs()).map_err(refused)?;
        self.plan_from(by, product, alignment(arrays))
    }

    /// Queues C = f(alpha op(A) op(B) + beta C) on a stream, and waits for nothing. After a first call with the same product and
    /// alignment, or after [`Gemm::plan`], it compiles nothing and allocates no device memory, so it can be captured.
    ///
    /// # Errors
    /// As of [`Gemm::plan`] and [`Plan::launch_checked`].
    pub fn gemm(&self, stream: &Stream, product: &Product, arrays: &DeviceArrays, workspace: &Workspace) -> Result<()> {
        self.plan_for(product, arrays)?.launch_checked(stream, arrays, workspace)
    }

    /// The plan of a rung that reads operands as they are stored.
    fn plan_by_addresses(&self, product: &Product) -> Result<Plan> {
        let by_address = |row: &Row| row.capabilities().is_some_and(|c| c.operands == Operands::Addresses);
        let rows: Vec<Row> = rows().into_iter().filter(by_address).collect();
        let choice = choose_from(&rows, product, self.device.info(), &Findings::default()).ok_or_else(|| {
            Error::Unsupported {
                what: format!("A product in {} with k = {}", product.form.dtype.label(), product.k),
                why: "has no rung here that reads its operands as they are stored; align their rows to 16 bytes".into(),
            }
        })?;
        Plan::new(&self.device, &choice.row, &choice.tile, product, [true; 2])
    }
}

impl Plan {
    /// The addresses of arrays whose types, lengths and alignment are those that the plan was made for.
    pub fn check(&self, arrays: &DeviceArrays, workspace: &Workspace) -> Result<Arrays> {
        self.product().check(&arrays.specs()).map_err(refused)?;
        workspace.check(self.workspace_bytes()).map_err(refused)?;
        let (is, needs) = (alignment(arrays), self.needs_aligned());
        for (name, is, needs) in [("A", is[0], needs[0]), ("B", is[1], needs[1])] {
            if needs && !is {
                let text = format!("{name} is not aligned to 16 bytes, but the plan was made for an array that is.");
                return Err(refused(Malformed(text)));
            }
        }
        Ok(arrays.addresses(workspace))
    }
}

fn alignment(arrays: &DeviceArrays) -> Aligned {
    [&arrays.a, &arrays.b].map(|x| x.address().is_aligned(16))
}

/// A product that cannot be computed, as a device's error.
#[must_use]
pub fn refused(why: Malformed) -> Error {
    let text = why.to_string();
    Error::Unsupported { what: "This product is not possible:".into(), why: text.trim_end_matches('.').to_owned() }
}
