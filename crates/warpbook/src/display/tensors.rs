//! Tensors, and what is made of them.

use super::{Show, html};
use crate::nn::tensor::Tensor;

/// Type, shape, place and the first values.
impl Show for Tensor {
    fn html(&self) -> String {
        format!("<p><code>{}</code></p>", html::escape(&self.to_string()))
    }

    fn text(&self) -> String {
        self.to_string()
    }
}
