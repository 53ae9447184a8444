//! Choice of the backend of a single layer on a GPU.

use super::layer::{Kind, Layer};
use crate::ops::conv2d::cuda::Method;
use warpbook_gemm::ProductBy;

/// Backends that compute one layer on a GPU, forward and backward, instead of those in the training options.
///
/// Set in code only: a layer's text, files and checkpoints do not contain it, and the CPU ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct By {
    /// Method of a convolution.
    pub convolution: Option<Method>,
    /// Implementation of the matrix products in a linear layer, or in a convolution that uses [`Method::Im2col`].
    pub product: Option<ProductBy>,
}

impl Layer {
    /// Computes this convolution or linear layer with NVIDIA's library on a GPU: cuDNN or cuBLASLt. See [`By`].
    #[must_use]
    pub fn stock(self) -> Self {
        match self.kind {
            Kind::Linear { .. } => self.product(ProductBy::Stock),
            _ => self.method(Method::Stock),
        }
    }

    /// Chooses the implementation of the layer's matrix products on a GPU, such as a kernel of your own. The layer must be a linear layer or a
    /// convolution; a convolution is then computed by [`Method::Im2col`]. See [`By`].
    #[must_use]
    pub fn product(mut self, by: impl Into<ProductBy>) -> Self {
        match (&self.kind, self.by.convolution) {
            (Kind::Linear { .. }, _) => {}
            (Kind::Conv2d(_), None | Some(Method::Im2col)) => self.by.convolution = Some(Method::Im2col),
            (Kind::Conv2d(_), Some(_)) => return self.without_setting("product with this method"),
            _ => return self.without_setting("product"),
        }
        self.by.product = Some(by.into());
        self
    }

    /// Computes this convolution with the given method on a GPU. See [`By`].
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        if !matches!(self.kind, Kind::Conv2d(_)) {
            return self.without_setting("method of a convolution");
        }
        if self.by.product.is_some() && method != Method::Im2col {
            return self.without_setting("product with this method");
        }
        self.by.convolution = Some(method);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;

    #[test]
    fn a_layer_s_choice_is_its_node_s() {
        let layers = [
            conv2d(4, 3).stock(),
            conv2d(4, 3).padding(1).product(ProductBy::Tiled),
            residual([conv2d(4, 3).padding(1).stock()]),
            flatten(),
            linear(5).product(ProductBy::Naive).named("head"),
            linear(3).stock(),
            linear(2),
        ];
        let network = Network::new([2, 6, 6], layers).unwrap();
        let backend_of = |i: usize| network.nodes()[i].by;
        let stock = Some(Method::Stock);
        assert_eq!(backend_of(0), By { convolution: stock, product: None });
        assert_eq!(backend_of(1), By { convolution: Some(Method::Im2col), product: Some(ProductBy::Tiled) });
        assert_eq!((backend_of(2).convolution, backend_of(3), backend_of(4)), (stock, By::default(), By::default()));
        assert_eq!((backend_of(5).product, backend_of(6).product), (Some(ProductBy::Naive), Some(ProductBy::Stock)));
        assert_eq!(backend_of(7), By::default());
        // The choice is kept in a network rebuilt from its layers, but not in the text of the layers, which files contain.
        let again = Network::new(network.input(), network.layers()).unwrap();
        assert_eq!(again, network);
        let words: Layer = network.layers()[5].words().unwrap().parse().unwrap();
        assert_eq!(words.by, By::default());
    }

    #[test]
    fn what_a_layer_has_not_is_refused() {
        let refused = |layer: Layer, what: &str| {
            let error = Network::new([1, 4, 4], [layer]).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        refused(relu().stock(), "has no method of a convolution");
        refused(relu().product(ProductBy::Tiled), "has no product:");
        refused(conv2d(2, 3).product(ProductBy::Tiled).stock(), "has no product with this method");
        refused(conv2d(2, 3).stock().product(ProductBy::Tiled), "has no product with this method");
        refused(flatten().method(Method::Stock), "has no method");
    }
}
