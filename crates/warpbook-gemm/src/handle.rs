//! The entry point for all products, which chooses kernels, makes plans and checks arrays.

use crate::choose::measured;
use crate::{
    Aligned, Arrays, Budget, Choice, DeviceArrays, Finding, Findings, LibraryPlan, Malformed, Plan, Planned, Product,
    ProductBy, Tuning, Workspace, choose_from,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_device::{CublasLt, CudaDevice, Cudnn, Error, Result, Stream};
use warpbook_kernels::matmul::{Form, Operands, Row, rows};

/// Multiplies matrices on a device. Chooses the rung and tile by type, shape and device, and keeps the plans.
///
/// The handle owns no arrays: each call is given a [`Workspace`], so that products on different streams may run at once.
#[derive(Debug)]
pub struct Gemm {
    device: CudaDevice,
    /// Findings published for the device.
    published: Findings,
    /// Time that the first plan of a product may spend on timing; `None` if nothing is timed.
    budget: Option<Budget>,
    /// Kernels chosen for products, whether they have been planned yet or not.
    chosen: Mutex<Findings>,
    plans: Mutex<HashMap<Key, Arc<Plan>>>,
    /// NVIDIA's libraries, opened on first use.
    cublaslt: Mutex<Option<CublasLt>>,
    cudnn: Mutex<Option<Cudnn>>,
}

/// Returns a library, opening it in the first call.
fn opened<L: Clone>(library: &Mutex<Option<L>>, open: impl FnOnce() -> Result<L>) -> Result<L> {
    let mut there = library.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match &*there {
        Some(there) => there.clone(),
        None => there.insert(open()?).clone(),
    })
}

/// Key by which a plan is kept.
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
    /// Returns a handle that times kernels in the mode that `WARPBOOK_TUNE` sets, or in the default mode if that variable is malformed; see
    /// [`Tuning::of_environment`].
    #[must_use]
    pub fn new(device: &CudaDevice) -> Self {
        Self::with_tuning(device, Tuning::of_environment().unwrap_or_default())
    }

    /// Returns a handle that times nothing; see [`Tuning::Off`].
    #[must_use]
    pub fn untuned(device: &CudaDevice) -> Self {
        Self::with_tuning(device, Tuning::Off)
    }

    /// Returns a handle that times kernels in this mode.
    #[must_use]
    pub fn with_tuning(device: &CudaDevice, tuning: Tuning) -> Self {
        let published = Findings::published(device.info());
        // Full tuning ignores the published findings and times those products too.
        let published = if tuning == Tuning::Full { Findings::default() } else { published };
        Self {
            device: device.clone(),
            published,
            budget: tuning.budget(),
            chosen: Mutex::default(),
            plans: Mutex::default(),
            cublaslt: Mutex::default(),
            cudnn: Mutex::default(),
        }
    }

    /// Sets the budget for the first plan of a product; with `None` nothing is timed.
    #[must_use]
    pub fn within(self, budget: Option<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// Ignores the findings published for the device.
    #[must_use]
    pub fn without_published(self) -> Self {
        Self { published: Findings::default(), ..self }
    }

    /// Chooses the rung and tile for a product, with a reason: by the choice already made by this handle, otherwise by a finding that was published or timed on
    /// this kind of device or is timed now, otherwise by the cost model. Nothing is timed while this thread measures something or captures a graph.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if no rung supports the product's types on this device.
    pub fn choice(&self, product: &Product) -> Result<Choice> {
        let (rows, info) = (rows(), self.device.info());
        if let Some(choice) = self.chosen_for(product, &rows) {
            return Ok(choice);
        }
        let mut choice = choose_from(&rows, product, info, &self.published).ok_or_else(|| Error::Unsupported {
            what: format!("A product in {}", product.form.dtype.label()),
            why: format!("has no rung that runs on {}; choose another type", info.name),
        })?;
        if let Some(budget) = self.budget.filter(|_| self.published.find(product).is_none()) {
            match measured::choose(&self.device, product, &budget, &self.published) {
                Ok(timed) => choice = timed,
                Err(why) => choice.why = format!("{}; not timed: {why}", choice.why),
            }
        }
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have made the choice in the meantime.
        if chosen.find(product).is_none() {
            chosen.keep(product, Finding::new(product, &choice.row.rung.id, &choice.tile.id, choice.us));
            return Ok(choice);
        }
        drop(chosen);
        Ok(self.chosen_for(product, &rows).unwrap_or(choice))
    }

    fn chosen_for(&self, product: &Product, rows: &[Row]) -> Option<Choice> {
        let chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let finding = chosen.find(product)?;
        let (row, tile) = finding.kernel(rows, product, self.device.info())?;
        let why = format!("the kernel chosen for the product in this run: {:.1} us", finding.us);
        Some(Choice { row: row.clone(), tile: tile.clone(), why, us: finding.us })
    }

    /// Returns the kernels chosen for all products so far, sorted by the products' sizes. A run with the same kernels gives the same bits.
    #[must_use]
    pub fn chosen(&self) -> Vec<Finding> {
        let mut all = self.chosen.lock().unwrap_or_else(PoisonError::into_inner).findings.clone();
        all.sort_by_key(Finding::key);
        all
    }

    /// Sets the kernels of products, for example to the kernels of an earlier run or of another rank, instead of choosing them. Products that had a different
    /// kernel are planned again. Returns true if there were such products.
    pub fn take(&self, kernels: &[Finding]) -> bool {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for kernel in kernels {
            match chosen.findings.iter_mut().find(|f| f.is_like(kernel)) {
                Some(own) => {
                    changed |= (&own.rung, &own.tile) != (&kernel.rung, &kernel.tile);
                    own.clone_from(kernel);
                }
                None => chosen.findings.push(kernel.clone()),
            }
        }
        if changed {
            self.plans.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| key.by != ProductBy::Own);
        }
        changed
    }

    /// Returns the plan of a product with this alignment of A and B. The first call compiles and loads its kernels.
    ///
    /// # Errors
    /// Returns the errors of [`Gemm::choice`], an error if the product is malformed, and errors of the compiler and the device.
    pub fn plan(&self, product: &Product, aligned: Aligned) -> Result<Arc<Plan>> {
        self.plan_from(ProductBy::Own, product, aligned)
    }

    /// Returns the plan of a product by a given backend, for arrays that begin at multiples of 16 bytes.
    ///
    /// # Errors
    /// Returns the errors of [`Gemm::plan`], and an error if the library is missing or has no algorithm for the product.
    pub fn plan_by(&self, by: ProductBy, product: &Product) -> Result<Planned> {
        Ok(match by {
            ProductBy::Stock => {
                let library = opened(&self.cublaslt, || CublasLt::open(&self.device))?;
                Planned::Library(Arc::new(LibraryPlan::new(&self.device, &library, product)?))
            }
            by => Planned::Kernel(self.plan_from(by, product, [true; 2])?),
        })
    }

    /// Returns cuDNN on the device, opening it in the first call.
    ///
    /// # Errors
    /// If cuDNN is not found, or does not load or start.
    pub fn cudnn(&self) -> Result<Cudnn> {
        opened(&self.cudnn, || Cudnn::open(&self.device))
    }

    /// Chooses among the tiles of the only row that the backend allows.
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

    /// Returns the plan of a product with this alignment of A and B, computed by a kernel of this project or of a learner; a library has no such plan.
    ///
    /// # Errors
    /// If the product is malformed, no rung of the backend supports it, a kernel does not compile, or the device reports an error.
    pub fn plan_from(&self, by: ProductBy, product: &Product, aligned: Aligned) -> Result<Arc<Plan>> {
        product.validate().map_err(refused)?;
        let key = Key::new(product, aligned, by);
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans().get(&key) {
            return Ok(plan.clone());
        }
        // This runs outside the lock, so that other threads may plan and launch while this one compiles.
        let choice = if by == ProductBy::Own { self.choice(product)? } else { self.only_choice(by, product)? };
        let plan = match Plan::new(&self.device, &choice.row, &choice.tile, product, aligned) {
            // The copies of the operands may not fit into the workspace.
            Err(Error::Unsupported { .. }) if by == ProductBy::Own => self.plan_by_addresses(product)?,
            other => other?,
        };
        Ok(plans().entry(key).or_insert_with(|| Arc::new(plan)).clone())
    }

    /// Returns the plan of a product for these arrays, like [`Gemm::plan`] with the alignment of the arrays.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if an array does not fit the product, and the errors of [`Gemm::plan`].
    pub fn plan_for(&self, product: &Product, arrays: &DeviceArrays) -> Result<Arc<Plan>> {
        product.check(&arrays.specs()).map_err(refused)?;
        self.plan(product, alignment(arrays))
    }

    /// Plans a product for these arrays with a prescribed kernel: see [`ProductBy::names_a_rung`].
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if `by` is a library or the choice among all rungs, if its rung does not support the product, or if an array does not fit
    /// the product. Also returns errors of the compiler and the device.
    pub fn plan_with(&self, by: ProductBy, product: &Product, arrays: &DeviceArrays) -> Result<Arc<Plan>> {
        if !by.names_a_rung() {
            return Err(Error::Unsupported {
                what: format!("The {by} product"),
                why: "is not a single kernel: name a rung or a file".into(),
            });
        }
        product.check(&arrays.specs()).map_err(refused)?;
        self.plan_from(by, product, alignment(arrays))
    }

    /// Queues C = f(alpha op(A) op(B) + beta C) on a stream, and waits for nothing. After a first call with the same product and
    /// alignment, or after [`Gemm::plan`], it compiles nothing and allocates no device memory, so it can be captured.
    ///
    /// # Errors
    /// Returns the errors of [`Gemm::plan`] and [`Plan::launch_checked`].
    pub fn gemm(&self, stream: &Stream, product: &Product, arrays: &DeviceArrays, workspace: &Workspace) -> Result<()> {
        self.plan_for(product, arrays)?.launch_checked(stream, arrays, workspace)
    }

    /// Returns the plan of a rung that reads operands as they are stored.
    fn plan_by_addresses(&self, product: &Product) -> Result<Plan> {
        let by_address = |row: &Row| row.capabilities().is_some_and(|c| c.operands == Operands::Addresses);
        let rows: Vec<Row> = rows().into_iter().filter(by_address).collect();
        let choice = choose_from(&rows, product, self.device.info(), &Findings::default()).ok_or_else(|| {
            Error::Unsupported {
                what: format!("A product in {} with k = {}", product.form.dtype.label(), product.k),
                why: "has no rung here that can read its operands in their stored layout; align their rows to 16 bytes"
                    .into(),
            }
        })?;
        Plan::new(&self.device, &choice.row, &choice.tile, product, [true; 2])
    }
}

impl Plan {
    /// Returns the addresses of the arrays, after checking that their types, lengths and alignment match the plan.
    ///
    /// # Errors
    /// If an array has the wrong type, length or alignment, or if the workspace is too small or not aligned.
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

/// Converts the reason why a product cannot be computed to an [`Error`] of the device.
#[must_use]
pub fn refused(why: Malformed) -> Error {
    let text = why.to_string();
    Error::Unsupported { what: "This product is not possible:".into(), why: text.trim_end_matches('.').to_owned() }
}
