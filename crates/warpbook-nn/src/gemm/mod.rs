//! Matrix products, C = f(alpha op(A) op(B) + beta C).

mod choose;
pub mod cpu;
mod flaw;
mod handle;
mod judge;
mod plan;
mod product;
mod rehearsal;

pub use choose::{Choice, Finding, Findings, choose};
pub use flaw::{Evidence, Flaw};
pub use handle::{Beside, Gemm, MatrixElement};
pub use judge::{Judge, Verdict};
pub use plan::{Aligned, Arrays, Plan, obstacle};
pub use product::{Malformed, Product};
pub use rehearsal::{Rehearsed, rehearse};
