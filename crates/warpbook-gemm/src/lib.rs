//! Matrix products, C = f(alpha op(A) op(B) + beta C), where f is the epilogue.
//!
//! On a GPU a [`Plan`] compiles and loads everything for one [`Product`]; launching it only queues kernels. [`Gemm`] chooses the rung and the tile, and keeps
//! the plans; [`ProductBy`] restricts the choice, or leaves the product to a library. The bias gradient next to a weight gradient ([`Product::bias_gradient`])
//! is a separate kernel that the plan queues first. Fusing it into every rung would cost registers that the rungs cannot spare, while reading B once more costs
//! little compared with the product. A separate kernel also sums in the same order for every rung. [`cpu::gemm`] computes the same products on the CPU.
//! [`tensor_parallel`] splits a product over several GPUs, and [`philox`] draws random numbers on a GPU.

#![deny(unsafe_code)]

mod backend;
mod check;
mod choose;
pub mod cpu;
mod handle;
pub mod kernel_args;
mod library;
mod own_product;
pub mod philox;
mod plan;
mod product;
pub mod tensor_parallel;
mod tuning;

pub use backend::ProductBy;
pub use check::flaw::{Evidence, Flaw, FlawKind};
pub use check::judge::{Judge, Verdict};
pub use check::own_product::check_own_product;
pub use check::rehearsal::{Rehearsed, rehearse};
pub use choose::findings::{Finding, Findings};
pub use choose::measured::{keep_finding, tell_of_tuning};
pub use choose::{Choice, choose, choose_from, expected_us};
pub use handle::{Gemm, refused};
pub use library::{AfterLibrary, LibraryPlan, Planned};
pub use own_product::{OWN_KERNEL_LIMIT_S, OwnProduct};
pub use plan::launch::BoundPlan;
pub use plan::sums::{RowsOf, Sums};
pub use plan::{Aligned, Plan};
pub use product::arrays::{Arrays, DeviceArray, DeviceArrays, EpilogueInputs, MatrixElement, Workspace};
pub use product::epilogue::{gelu, gelu_derivative};
pub use product::storage;
pub use product::{Malformed, Product};
pub use tuning::{Budget, Tuning};
