#![allow(unsafe_code)]

use super::choose::{Choice, Findings, choose};
use super::{Aligned, Arrays, Malformed, Plan, Product};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use warpbook_device::{Buffer, CudaDevice, DevicePtr, Element, Error, Result, Stream};
use warpbook_record::Dtype;
use warpbook_record::matmul::{Finish, WORKSPACE_BYTES};

/// An element of a matrix: f32, f16 or bf16.
pub trait MatrixElement: Element {
    /// Its type; `Tf32` products take f32.
    const DTYPE: Dtype;
}
impl MatrixElement for f32 {
    const DTYPE: Dtype = Dtype::F32;
}
impl MatrixElement for half::f16 {
    const DTYPE: Dtype = Dtype::F16;
}
impl MatrixElement for half::bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
}

/// Products on a device: chooses rung and tile by type, shape and device, and keeps compiled kernels and a workspace of 64 MiB.
///
/// The workspace is one: products of one handle run one after another, on one stream or on streams that wait for each other.
#[derive(Debug)]
pub struct Gemm {
    device: CudaDevice,
    findings: Findings,
    workspace: Buffer<u8>,
    plans: Mutex<HashMap<String, Arc<Plan>>>,
}

/// What a product's last step needs beside A, B and C.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a, C> {
    /// f32 `[n]`.
    pub bias: Option<&'a Buffer<f32>>,
    /// As C.
    pub mask: Option<&'a Buffer<C>>,
}

impl Gemm {
    /// A handle, with what was tuned on this device.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new(device: &CudaDevice) -> Result<Self> {
        let findings = Findings::of(device.info());
        let workspace = device.zeros(WORKSPACE_BYTES as usize)?;
        Ok(Self { device: device.clone(), findings, workspace, plans: Mutex::default() })
    }

    /// The rung and tile that a product is given, and why.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where no rung takes its types on this device.
    pub fn choice(&self, product: &Product) -> Result<Choice> {
        choose(product, self.device.info(), &self.findings).ok_or_else(|| Error::Unsupported {
            what: format!("A product in {}", product.form.dtype.label()),
            why: format!("has no rung that runs on {}; choose another type", self.device.info().name),
        })
    }

    /// The compiled plan of a product whose A and B are aligned so; compiles it at most once.
    ///
    /// # Errors
    /// As of [`Gemm::choice`]; a malformed product; the compiler's and the device's.
    pub fn plan(&self, product: &Product, aligned: Aligned) -> Result<Arc<Plan>> {
        product.validate().map_err(refused)?;
        let key = format!("{product:?} {aligned:?}");
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&key) {
            return Ok(plan.clone());
        }
        let choice = self.choice(product)?;
        let plan = match Plan::new(&self.device, &choice.rung, &choice.tile, product, aligned) {
            // Copies that do not fit into the workspace: a rung that takes operands as they are.
            Err(Error::Unsupported { .. }) => self.plan_by_addresses(product)?,
            other => other?,
        };
        let plan = Arc::new(plan);
        plans.insert(key, plan.clone());
        Ok(plan)
    }

    fn plan_by_addresses(&self, product: &Product) -> Result<Plan> {
        let mut older = self.device.info().clone();
        older.compute_capability = older.compute_capability.map(|cc| cc.min((8, 9)));
        let choice = choose(product, &older, &Findings::default()).ok_or_else(|| Error::Unsupported {
            what: "A product of these types".into(),
            why: "has no rung here that takes its operands as they are stored".into(),
        })?;
        Plan::new(&self.device, &choice.rung, &choice.tile, product, [true; 2])
    }

    /// Queues C = f(alpha op(A) op(B) + beta C) on a stream. It waits for nothing; after a first call with the same product and
    /// alignment it also compiles and allocates nothing, so that it can be captured.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with what is wrong, for arrays that are too small or of another type than the product says; the
    /// compiler's and the device's.
    ///
    /// # Safety
    /// The arrays and this handle live, and nobody else writes to them, until the stream has got past the product.
    pub unsafe fn gemm<T: MatrixElement, C: MatrixElement>(
        &self,
        stream: &Stream,
        product: &Product,
        (a, b, c): (&Buffer<T>, &Buffer<T>, &Buffer<C>),
        beside: Beside<'_, C>,
    ) -> Result<()> {
        let form = product.form;
        let wrong = |text: String| Err(refused(Malformed(text)));
        let same = |is: Dtype, said: Dtype| is == said || (is == Dtype::F32 && said == Dtype::Tf32);
        if !same(T::DTYPE, form.dtype) || !same(C::DTYPE, form.out) {
            return wrong(format!(
                "The product is of {} into {}, the arrays are {} and {}.",
                form.dtype.label(),
                form.out.label(),
                T::DTYPE.label(),
                C::DTYPE.label()
            ));
        }
        let plan = self.plan(product, [a.at(0).is_aligned(16), b.at(0).is_aligned(16)])?;
        for (name, has, needs) in [
            ("A", a.len(), product.elements()[0]),
            ("B", b.len(), product.elements()[1]),
            ("C", c.len(), product.elements()[2]),
        ] {
            if has < needs {
                return wrong(format!("{name} has {has} elements, the product needs {needs}."));
            }
        }
        let null = DevicePtr::NULL;
        let bias = match (form.finish, beside.bias) {
            (Finish::Bias | Finish::BiasRelu, Some(bias)) if bias.len() >= product.n as usize => bias.at(0),
            (Finish::Bias | Finish::BiasRelu, _) => return wrong(format!("The bias needs {} elements.", product.n)),
            _ => null,
        };
        let mask = match (form.finish, beside.mask) {
            (Finish::ReluMask, Some(mask)) if mask.len() >= product.elements()[2] => mask.at(0),
            (Finish::ReluMask, _) => return wrong(format!("The mask needs {} elements.", product.elements()[2])),
            _ => null,
        };
        let arrays = Arrays { a: a.at(0), b: b.at(0), c: c.at(0), bias, mask, workspace: self.workspace.at(0) };
        // SAFETY: sizes and types were checked; that the arrays live is the caller's promise.
        unsafe { plan.launch(stream, &arrays) }
    }
}

fn refused(why: Malformed) -> Error {
    let text = why.to_string();
    Error::Unsupported { what: "This product cannot be:".into(), why: text.trim_end_matches('.').to_owned() }
}
