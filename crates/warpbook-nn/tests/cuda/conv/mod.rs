//! CUDA implementations of the convolution and of the linear layer are compared with the f64 reference.

mod bench;
mod case;
mod compile;
mod few_channels;
mod library;
mod linear;
mod methods;
mod pooled;
mod reference;
mod shapes;
mod shifted_windows;
mod tma_im2col;
mod want;
