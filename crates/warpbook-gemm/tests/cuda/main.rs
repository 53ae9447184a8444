//! Tests of products and random numbers on one GPU, in one executable.

mod choose;
mod gemm;
mod philox;
