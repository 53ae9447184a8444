//! The text form of layers in files: `conv2d 32 3x3 padding 1 name stem`.
//!
//! | layer | words |
//! |---|---|
//! | convolution | `conv2d FILTERS KERNEL [stride S] [padding P] [frozen] [no_bias]` |
//! | linear layer | `linear FEATURES [no_bias]` |
//! | activations | `relu`, `gelu` |
//! | pools | `max_pool SIZE [stride S] [padding P]`, `avg_pool` with the same words |
//! | batch normalisation | `batch_norm [momentum M] [epsilon E] [no_scale]` |
//! | dropout | `dropout P` |
//! | flatten | `flatten` |
//!
//! Kernels, sizes, strides and paddings are `3`, or `3x5` for 3 rows and 5 columns. Every layer may end in `name NAME`. Commas between
//! words are ignored. A residual branch is a list of layers for [`residual`]; with serde it is `{"residual": [..], "name": ".."}`, and
//! every other layer is a string.

use super::NetworkError;
use super::layer::{
    Conv2d, Kind, Layer, avg_pool, batch_norm, conv2d, dropout, flatten, gelu, linear, max_pool, relu, residual,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write;
use std::str::{FromStr, SplitWhitespace};

/// Largest kernel, stride, padding or number of features that is accepted.
const MOST: usize = 1 << 20;

/// First word of the text of each kind of layer.
const KINDS: [&str; 9] =
    ["conv2d", "linear", "relu", "gelu", "max_pool", "avg_pool", "batch_norm", "dropout", "flatten"];

/// The unread words of a layer.
struct LayerWords<'a> {
    kind: &'a str,
    rest: SplitWhitespace<'a>,
}

impl LayerWords<'_> {
    fn wrong(&self, why: &str) -> NetworkError {
        NetworkError(format!("`{}`: {why}", self.kind))
    }

    fn next(&mut self, what: &str) -> Result<&str, NetworkError> {
        self.rest.next().ok_or_else(|| NetworkError(format!("`{}` lacks {what}.", self.kind)))
    }

    fn size(&mut self, what: &str) -> Result<usize, NetworkError> {
        let word = self.next(what)?.to_owned();
        let size = word.parse().ok().filter(|s| *s <= MOST);
        size.ok_or_else(|| self.wrong(&format!("`{word}` is not {what}; write a whole number up to {MOST}.")))
    }

    fn sizes(&mut self, what: &str) -> Result<[usize; 2], NetworkError> {
        let word = self.next(what)?.to_owned();
        let (rows, columns) = word.split_once('x').unwrap_or((&word, &word));
        let size = |s: &str| s.parse().ok().filter(|s| *s <= MOST);
        size(rows).zip(size(columns)).map(|(r, c)| [r, c]).ok_or_else(|| {
            self.wrong(&format!("`{word}` is not {what}; write a number such as 3, or rows and columns such as 3x5."))
        })
    }

    fn number(&mut self, what: &str) -> Result<f32, NetworkError> {
        let word = self.next(what)?.to_owned();
        word.parse().map_err(|_| self.wrong(&format!("`{word}` is not {what}; write a number such as 0.5.")))
    }

    /// Returns the layer with the settings that the remaining words name.
    fn settings(&mut self, mut layer: Layer, allowed: &[&str]) -> Result<Layer, NetworkError> {
        while let Some(word) = self.rest.next() {
            if word != "name" && !allowed.contains(&word) {
                let all = [allowed, &["name"]].concat().join(", ");
                return Err(self.wrong(&format!("`{word}` is not one of its settings; choose from {all}.")));
            }
            layer = match word {
                "stride" => layer.strides(self.sizes("a stride")?),
                "padding" => layer.paddings(self.sizes("a padding")?),
                "momentum" => layer.momentum(self.number("a momentum")?),
                "epsilon" => layer.epsilon(self.number("an epsilon")?),
                "no_bias" => layer.without_bias(),
                "no_scale" => layer.without_scale(),
                "frozen" => layer.frozen(),
                _ => layer.named(self.next("a name")?),
            };
        }
        Ok(layer)
    }
}

impl FromStr for Layer {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let text = text.replace(',', " ");
        let mut rest = text.split_whitespace();
        let kind = rest.next().ok_or_else(|| {
            NetworkError(format!("The layer's text is empty; begin it with one of {}.", KINDS.join(", ")))
        })?;
        let mut words = LayerWords { kind, rest };
        match kind {
            "conv2d" => {
                let filters = words.size("a number of filters")?;
                let kernel = words.sizes("a kernel")?;
                words.settings(conv2d(filters, 1).kernel(kernel), &["stride", "padding", "frozen", "no_bias"])
            }
            "linear" => {
                let features = words.size("a number of features")?;
                words.settings(linear(features), &["no_bias"])
            }
            "max_pool" | "avg_pool" => {
                let size = words.sizes("a size")?;
                let pool = if kind == "max_pool" { max_pool(1) } else { avg_pool(1) };
                words.settings(pool.window(size), &["stride", "padding"])
            }
            "batch_norm" => words.settings(batch_norm(), &["momentum", "epsilon", "no_scale"]),
            "dropout" => {
                let p = words.number("a probability")?;
                words.settings(dropout(p), &[])
            }
            "relu" => words.settings(relu(), &[]),
            "gelu" => words.settings(gelu(), &[]),
            "flatten" => words.settings(flatten(), &[]),
            _ => Err(NetworkError(format!("`{kind}` is not a layer; choose one of {}.", KINDS.join(", ")))),
        }
    }
}

impl Layer {
    /// Returns the text from which [`Layer::from_str`] makes this layer; `None` for a residual branch, which is a list, and for a custom layer, because
    /// its source is part of a program.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let mut text = match &self.kind {
            Kind::Residual(_) | Kind::Own(_) => return None,
            Kind::BatchNorm { momentum, epsilon, scale } => {
                let scale = if *scale { "" } else { " no_scale" };
                format!("batch_norm momentum {momentum} epsilon {epsilon}{scale}")
            }
            _ => self.to_string().replace(',', ""),
        };
        if matches!(&self.kind, Kind::Conv2d(Conv2d { frozen: true, .. })) {
            text.push_str(" frozen");
        }
        if matches!(&self.kind, Kind::Conv2d(Conv2d { bias: false, .. }) | Kind::Linear { bias: false, .. }) {
            text.push_str(" no_bias");
        }
        if let Some(name) = &self.name {
            _ = write!(text, " name {name}");
        }
        Some(text)
    }
}

/// The serialized form of a layer.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Words(String),
    Branch {
        residual: Vec<Layer>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

impl Serialize for Layer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (&self.kind, self.words()) {
            (_, Some(words)) => words.serialize(to),
            (Kind::Residual(layers), None) => {
                Written::Branch { residual: layers.clone(), name: self.name.clone() }.serialize(to)
            }
            (Kind::Own(own), None) => Err(serde::ser::Error::custom(format!(
                "A network with a layer of your own, `{}`, cannot be written to a file: its source is in your program. Save the weights, and \
                 make the network anew where they are loaded.",
                own.name()
            ))),
            (_, None) => Err(serde::ser::Error::custom("This layer cannot be written as text.")),
        }
    }
}

impl<'de> Deserialize<'de> for Layer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Written::deserialize(from)? {
            Written::Words(words) => words.parse().map_err(serde::de::Error::custom),
            Written::Branch { residual: layers, name: Some(name) } => Ok(residual(layers).named(name)),
            Written::Branch { residual: layers, name: None } => Ok(residual(layers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(layer: Layer, expect: &str) {
        let words = layer.words().unwrap();
        assert_eq!(words, expect);
        assert_eq!(words.parse::<Layer>().unwrap(), layer);
    }

    #[test]
    fn every_layer_has_words() {
        check(conv2d(32, 3), "conv2d 32 3x3");
        check(
            conv2d(8, 1).kernel([3, 5]).strides([1, 2]).paddings([1, 2]).without_bias().named("stem"),
            "conv2d 8 3x5 stride 1x2 padding 1x2 no_bias name stem",
        );
        check(linear(10).without_bias().named("head"), "linear 10 no_bias name head");
        check(relu(), "relu");
        check(gelu().named("g"), "gelu name g");
        check(max_pool(3).stride(2).padding(1), "max_pool 3 stride 2 padding 1");
        check(avg_pool(2), "avg_pool 2");
        check(batch_norm().momentum(0.01).epsilon(1e-3), "batch_norm momentum 0.01 epsilon 0.001");
        check(dropout(0.25), "dropout 0.25");
        check(flatten(), "flatten");
        check(conv2d(24, 2).frozen().without_bias(), "conv2d 24 2x2 frozen no_bias");
        check(batch_norm().momentum(0.4).without_scale(), "batch_norm momentum 0.4 epsilon 0.00001 no_scale");
        assert_eq!("conv2d 32, 3, padding 1".parse::<Layer>().unwrap(), conv2d(32, 3).padding(1));
        assert_eq!("batch_norm".parse::<Layer>().unwrap(), batch_norm());
        assert_eq!("max_pool 2 stride 1".parse::<Layer>().unwrap(), max_pool(2).stride(1));
    }

    #[test]
    fn what_is_no_layer_is_said() {
        let check = |text: &str, expect: &str| {
            let sentence = text.parse::<Layer>().unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        check("", "The layer's text is empty");
        check("convolution 3", "`convolution` is not a layer; choose one of conv2d, linear");
        check("conv2d", "`conv2d` lacks a number of filters");
        check("conv2d 8", "`conv2d` lacks a kernel");
        check("conv2d 8 3y3", "`3y3` is not a kernel");
        check("conv2d -8 3", "`-8` is not a number of filters");
        check("conv2d 99999999 3", "up to 1048576");
        check(
            "conv2d 8 3 dilation 2",
            "`dilation` is not one of its settings; choose from stride, padding, frozen, no_bias, name",
        );
        check("relu stride 2", "choose from name");
        check("dropout half", "`half` is not a probability");
        check("linear 10 name", "`linear` lacks a name");
    }

    fn leaf() -> impl Strategy<Value = Layer> {
        let sizes = || [1usize..7, 1usize..7];
        prop_oneof![
            (1usize..99, sizes(), sizes(), sizes(), any::<bool>()).prop_map(|(n, k, s, p, bias)| {
                let conv = conv2d(n, 1).kernel(k).strides(s).paddings(p);
                if bias { conv } else { conv.without_bias() }
            }),
            (1usize..99, any::<bool>()).prop_map(|(n, bias)| if bias { linear(n) } else { linear(n).without_bias() }),
            Just(relu()),
            Just(gelu()),
            (sizes(), sizes(), sizes(), any::<bool>()).prop_map(|(k, s, p, max)| {
                let pool = if max { max_pool(1) } else { avg_pool(1) };
                pool.window(k).strides(s).paddings(p)
            }),
            (0f32..1.0, 0f32..1.0).prop_map(|(m, e)| batch_norm().momentum(m).epsilon(e)),
            (0f32..1.0).prop_map(dropout),
            Just(flatten()),
        ]
    }

    fn named(layer: impl Strategy<Value = Layer>) -> impl Strategy<Value = Layer> {
        (layer, proptest::option::of("[a-z][a-z0-9_.-]{0,8}"))
            .prop_map(|(layer, name)| if let Some(n) = name { layer.named(n) } else { layer })
    }

    proptest! {
        #[test]
        fn layers_come_back_from_json(layers in proptest::collection::vec(named(leaf().prop_recursive(3, 12, 3, |inner| {
            proptest::collection::vec(named(inner), 1..3).prop_map(residual)
        })), 0..6)) {
            let text = serde_json::to_string(&layers).unwrap();
            prop_assert_eq!(serde_json::from_str::<Vec<Layer>>(&text).unwrap(), layers);
        }

        #[test]
        fn no_text_makes_it_panic(text in "(conv2d|linear|max_pool|batch_norm|dropout|x)?( |,|[0-9x.e-]|stride|padding|name|\\PC){0,12}") {
            let _ = text.parse::<Layer>();
        }
    }
}
