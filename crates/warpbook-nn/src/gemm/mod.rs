//! Matrix products, C = f(alpha op(A) op(B) + beta C).

pub mod cpu;
mod judge;
mod plan;
mod product;

pub use judge::{Judge, Verdict};
pub use plan::{Aligned, Arrays, Plan, obstacle};
pub use product::{Malformed, Product};
