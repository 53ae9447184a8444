//! Matrix products, C = f(alpha op(A) op(B) + beta C), f being the epilogue.
//!
//! On a GPU a [`Plan`] compiles and loads everything for one [`Product`]; launching it only queues kernels. [`Gemm`] chooses the rung
//! and the tile, and keeps the plans; [`ProductBy`] restricts the choice, or leaves it to a library. The bias gradient next to a weight gradient ([`Product::bias_gradient`]) is a separate kernel
//! that the plan queues first: fused into every rung it would cost registers where there are none to spare, while reading B once more
//! costs little next to the product, and it sums in the same order on every rung. [`cpu::gemm`] computes the same products on the CPU.

mod args_launch;
mod arrays;
mod by;
mod choose;
mod copies;
pub mod cpu;
mod epilogue;
mod expect;
mod findings;
mod flaw;
mod handle;
mod judge;
mod judge_launch;
mod launch;
mod learned;
mod library;
mod library_launch;
mod own;
mod parts;
mod plan;
mod product;
mod rehearsal;
mod streamed;
mod sums;
mod sums_launch;

pub use arrays::{Arrays, DeviceArray, DeviceArrays, EpilogueInputs, MatrixElement, Workspace};
pub use by::ProductBy;
pub use choose::{Choice, Expected, Wanted, cheapest, cheapest_of, choose, choose_from};
pub use epilogue::{gelu, gelu_derivative};
pub use findings::{Finding, Findings};
pub use flaw::{Evidence, Flaw};
pub use handle::Gemm;
pub(crate) use handle::refused;
pub use judge::{Judge, Verdict};
pub use launch::BoundPlan;
pub(crate) use library::{AfterLibrary, LibraryPlan, Planned};
pub use own::{OWN_KERNEL_LIMIT_S, OwnProduct};
pub use plan::{Aligned, Plan};
pub use product::{Malformed, Product};
pub use rehearsal::{Rehearsed, rehearse};
pub(crate) use sums::{RowsOf, Sums};
