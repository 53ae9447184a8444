//! Gradients grouped into buckets that are reduced together.

use crate::network::{Network, ParamId};

/// Gradients that are reduced together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Parameters, in the order in which the backward pass computes their gradients.
    pub params: Vec<ParamId>,
    /// Number of elements.
    pub len: usize,
    /// Bytes sent for the bucket.
    pub bytes: usize,
}

/// Largest size of the first bucket: small, so that communication begins while most of the backward pass is still ahead. PyTorch's
/// DistributedDataParallel also uses this value (`_DEFAULT_FIRST_BUCKET_BYTES`).
const FIRST_BUCKET_BYTES: usize = 1 << 20;

/// Plans the buckets of a network's gradients, from its last layer to its first. Each bucket is filled until it has `bucket_bytes`, the
/// first one until it has 1 MiB if that is less; `bytes` gives the size of a value of each parameter. The gradients of one operation stay
/// together, so that a bucket is ready when the operation's backward pass has ended. The exception is a bias whose gradient has another type
/// than the gradient of the weights: the bias goes into the last bucket, because reducing both takes two launches, and the weights need not wait
/// for it. Untrained parameters have no gradient.
#[must_use]
pub fn plan_buckets(network: &Network, bytes: &[usize], bucket_bytes: usize) -> Vec<Bucket> {
    let empty = || Bucket { params: Vec::new(), len: 0, bytes: 0 };
    let mut buckets = Vec::new();
    let (mut open, mut later) = (empty(), empty());
    let add = |to: &mut Bucket, id: ParamId| {
        let spec = &network.params()[id];
        if spec.role.is_trained() && !spec.frozen {
            to.params.push(id);
            to.len += spec.len();
            to.bytes += spec.len() * bytes[id];
        }
    };
    for node in network.nodes().iter().rev() {
        for id in &node.params {
            let is_of_another_type = bytes[*id] != bytes[node.params[0]];
            add(if is_of_another_type { &mut later } else { &mut open }, *id);
        }
        let enough = if buckets.is_empty() { bucket_bytes.min(FIRST_BUCKET_BYTES) } else { bucket_bytes };
        if !open.params.is_empty() && open.bytes >= enough {
            buckets.push(std::mem::replace(&mut open, empty()));
        }
    }
    if !open.params.is_empty() {
        buckets.push(open);
    }
    match buckets.last_mut() {
        Some(last) => later.params.into_iter().for_each(|id| add(last, id)),
        None => buckets.extend(Some(later).filter(|later| !later.params.is_empty())),
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{amp_recipe, batch_norm, cifar10_cnn, conv2d, flatten, linear, relu};
    use proptest::prelude::*;

    /// Returns the same number of bytes for every parameter.
    fn all(network: &Network, bytes: usize) -> Vec<usize> {
        vec![bytes; network.params().len()]
    }

    fn network() -> Network {
        let layers = [conv2d(4, 3).without_bias(), batch_norm(), relu(), conv2d(6, 3), relu(), flatten(), linear(10)];
        Network::new([1, 12, 12], layers).unwrap()
    }

    #[test]
    fn buckets_go_from_the_last_layer_to_the_first() {
        let network = network();
        let names = |buckets: &[Bucket]| -> Vec<Vec<String>> {
            let names_of = |b: &Bucket| b.params.iter().map(|id| network.params()[*id].name.clone()).collect();
            buckets.iter().map(names_of).collect()
        };
        let each = names(&plan_buckets(&network, &all(&network, 4), 1));
        assert_eq!(each[0], ["fc1.weight", "fc1.bias"]);
        assert_eq!(each[1], ["conv2.weight", "conv2.bias"]);
        assert_eq!(
            (each[2].len(), each[3].len(), each.len()),
            (2, 1, 4),
            "the scale and the shift, not the statistics: {each:?}"
        );
        assert_eq!(plan_buckets(&network, &all(&network, 4), usize::MAX).len(), 1);
        // The dense layers have a million weights, whose gradients do not wait for the gradients of the convolutions.
        let cifar = cifar10_cnn();
        let lens = plan_buckets(&cifar, &all(&cifar, 2), 25 << 20).iter().map(|b| b.len).collect::<Vec<_>>();
        assert_eq!(lens, [2049 * 512 + 513 * 10, cifar.parameter_count() - 2049 * 512 - 513 * 10]);
        // 4096 x 4096 weights and 4096 biases per layer.
        let recipe = amp_recipe(4096);
        let layers = plan_buckets(&recipe, &all(&recipe, 2), 25 << 20);
        assert_eq!(layers.iter().map(|b| b.len).collect::<Vec<_>>(), [4097 * 4096; 3]);
        // Gradients of biases in f32 are sent after the last gradients of weights in half precision.
        let bytes: Vec<usize> = recipe.params().iter().map(|p| if p.shape.len() > 1 { 2 } else { 4 }).collect();
        let layers = plan_buckets(&recipe, &bytes, 25 << 20);
        assert_eq!(layers.iter().map(|b| b.len).collect::<Vec<_>>(), [4096 * 4096, 4096 * 4096, 4099 * 4096]);
        assert_eq!(layers[2].bytes, 4096 * 4096 * 2 + 3 * 4096 * 4);
    }

    proptest! {
        #[test]
        fn every_gradient_is_in_one_bucket(bytes in prop_oneof![Just(2usize), Just(4)], bucket_bytes in 0usize..100_000) {
            let network = network();
            let buckets = plan_buckets(&network, &all(&network, bytes), bucket_bytes);
            let mut all: Vec<ParamId> = buckets.iter().flat_map(|b| b.params.clone()).collect();
            all.sort_unstable();
            let trained = |id: &ParamId| network.params()[*id].role.is_trained();
            prop_assert_eq!(all, (0..network.params().len()).filter(trained).collect::<Vec<_>>());
            for (i, bucket) in buckets.iter().enumerate() {
                prop_assert_eq!(bucket.len, bucket.params.iter().map(|id| network.params()[*id].len()).sum::<usize>());
                prop_assert!(i + 1 == buckets.len() || bucket.bytes >= bucket_bytes);
            }
        }
    }
}
