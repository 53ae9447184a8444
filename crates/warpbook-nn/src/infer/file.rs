//! File format of a frozen network: safetensors, with everything except the weights as JSON in the metadata.

use super::Frozen;
use crate::train::{Description, Place, TrainError, Views};
use crate::weights::{self, Weights, WeightsError};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Largest number of activation elements for one image.
const MOST: usize = 1 << 28;

/// Contents of the JSON text in the metadata of the file.
#[derive(Serialize, Deserialize)]
struct FrozenMetadata {
    /// Version of the format.
    frozen: u32,
    #[serde(flatten)]
    network: Description,
}

/// The version field alone, which every version of the format has.
#[derive(Deserialize)]
struct Version {
    frozen: u32,
}

impl Frozen {
    /// Writes a safetensors file with weights, layers, normalisation and classes. The file is first written under a temporary name and then renamed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let network = Description {
            recipe: self.recipe.clone(),
            data: self.source.as_ref().map(|s| s.data.clone()),
            folder: self.source.as_ref().and_then(|s| s.folder.clone()),
            input: self.shape,
            layers: self.network.layers(),
            mean: self.mean.clone(),
            deviation: self.deviation.clone(),
            loss: self.loss,
            // A frozen network sees each image once.
            views: Views::One,
            classes: Some(self.classes.clone()),
            trained_on: self.identity.clone(),
        };
        let about = FrozenMetadata { frozen: 1, network };
        let text = serde_json::to_string(&about).map_err(|e| TrainError::Setting(e.to_string()))?;
        let named = self.weights.specs().iter().zip(self.weights.values());
        let arrays = named.map(|(s, v)| (s.name.clone(), (s.shape.clone(), v.as_slice()))).collect();
        Ok(weights::write(&arrays, Some(text), path.as_ref())?)
    }

    /// Reads a file written by [`Frozen::save`].
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or holds no frozen network.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TrainError> {
        let path = path.as_ref();
        Self::from_bytes(path, &weights::read_tensors(path)?)
    }

    /// Returns true if the metadata of a file mark it as a frozen network of any version.
    #[must_use]
    pub fn is_in(path: impl AsRef<Path>) -> bool {
        version(weights::metadata_of_file(path.as_ref()).as_deref()).is_some()
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, TrainError> {
        let format = |why: String| WeightsError::Format { path: path.into(), why };
        let text = weights::metadata(bytes).map_err(format)?;
        let shown = path.display();
        match version(text.as_deref()) {
            Some(1) => {}
            Some(v) => {
                return Err(TrainError::Setting(format!(
                    "{shown} is a frozen network of format {v}, and this program reads format 1: freeze it again, or update the program."
                )));
            }
            None => {
                // The command that freezes a checkpoint needs no recipe.
                let recipe = if describes_a_network(text.as_deref()) { "" } else { "RECIPE " };
                return Err(TrainError::Setting(format!(
                    "{shown} is not a frozen network. Convert it: warpbook freeze {recipe}{shown} --out FILE"
                )));
            }
        }
        let about: FrozenMetadata =
            serde_json::from_str(&text.unwrap_or_default()).map_err(|e| format(e.to_string()))?;
        let network = about.network.network().map_err(format)?;
        if network.values().iter().fold(0usize, |all, v| all.saturating_add(v.elements())) > MOST {
            return Err(format("its network needs more than 2^28 values for an image".into()).into());
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| format(e.to_string()))?;
        let weights = Weights::from_tensors(&network, &tensors, |_| true)
            .map_err(|e| TrainError::Setting(format!("{shown} cannot be used: {e}")))?;
        let source = about.network.source();
        let Description { recipe, input: shape, mean, deviation, loss, classes, trained_on: identity, .. } =
            about.network;
        let classes = classes.ok_or_else(|| format("it has no classes".into()))?;
        Self { recipe, source, identity, network, weights, shape, mean, deviation, classes, loss, place: Place::Cpu }
            .checked()
            .map_err(|e| format(e.to_string()).into())
    }
}

/// Returns true if the metadata describe a network, as they do in a checkpoint.
fn describes_a_network(text: Option<&str>) -> bool {
    let described = text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    described.is_some_and(|about| about["network"].is_object())
}

fn version(text: Option<&str>) -> Option<u32> {
    serde_json::from_str::<Version>(text?).ok().map(|v| v.frozen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::*;
    use crate::train::{Loss, Recipe};
    use proptest::prelude::*;
    use std::collections::HashMap;
    use warpbook_data::{Dataset, Fit, Source};

    fn small() -> Frozen {
        let layers = [
            batch_norm(),
            conv2d(2, 3).padding(1).without_bias(),
            batch_norm(),
            residual([conv2d(2, 1), gelu(), dropout(0.1)]),
            avg_pool(2),
            flatten(),
            linear(3),
        ];
        let recipe = Recipe {
            network: Network::new([1, 4, 4], layers).unwrap(),
            loss: Loss::CrossEntropy { smoothing: 0.1 },
            ..Recipe::mnist()
        };
        let weights = Weights::init(&recipe.network, 3);
        Frozen::new(&recipe, &weights, &["a", "b", "c"].map(str::to_owned)).unwrap().with_data("synthetic")
    }

    fn bytes(frozen: &Frozen) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.safetensors");
        frozen.save(&path).unwrap();
        std::fs::read(&path).unwrap()
    }

    #[test]
    fn a_file_holds_all_that_a_prediction_needs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/f.safetensors");
        let frozen = small();
        frozen.save(&path).unwrap();
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
        let again = Frozen::load(&path).unwrap();
        assert_eq!((again.recipe(), again.source(), again.shape()), ("mnist", Some(&"synthetic".into()), [1, 4, 4]));
        assert_eq!((again.identity(), again.fit()), (None, Fit::Centre), "nobody told what it was trained on");
        let set = Dataset::from_arrays("mine", [1, 4, 4], vec![0; 16], vec![1], ["c", "a"]).unwrap();
        let told = frozen
            .clone()
            .with_data(Source { data: "mnist".into(), folder: Some("there".into()) })
            .trained_on(set.identity());
        told.save(&path).unwrap();
        assert_eq!(Frozen::load(&path).unwrap(), told);
        frozen.clone().with_data("pictures/pets").save(&path).unwrap();
        assert_eq!(Frozen::load(&path).unwrap().fit(), Fit::Whole, "a folder's images were always scaled whole");
        assert_eq!(again.classes(), ["a", "b", "c"]);
        let images: Vec<u8> = (0..5 * 16).map(|i| i as u8 * 3).collect();
        assert_eq!(again.predict(&images).unwrap(), frozen.predict(&images).unwrap());
        assert_eq!(again, frozen);
        assert_eq!(bytes(&again), bytes(&frozen));
        assert!(Frozen::is_in(&path) && !Frozen::is_in(folder.path().join("none")));
    }

    #[test]
    fn the_format_stays() {
        // The exact text that version 1 first wrote, with the classes before the loss.
        let text = concat!(
            r#"{"frozen":1,"recipe":"mnist","data":"synthetic","input":[1,4,4],"#,
            r#""layers":["batch_norm momentum 0.1 epsilon 0.00001 name bn1","conv2d 2 3x3 padding 1 name conv1","#,
            r#"{"residual":["conv2d 2 1x1 name conv2","gelu name gelu1"],"name":"residual1"},"avg_pool 2 name pool1","#,
            r#""flatten name flatten1","linear 3 name fc1"],"mean":[0.1307],"deviation":[0.3081],"#,
            r#""classes":["a","b","c"],"loss":{"kind":"cross_entropy","smoothing":0.1}}"#
        );
        let frozen = small();
        let written = weights::metadata(&bytes(&frozen)).unwrap().unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(json(&written), json(text));
        let named = frozen.weights.specs().iter().zip(frozen.weights.values());
        let arrays = named.map(|(s, v)| (s.name.clone(), (s.shape.clone(), v.as_slice()))).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.safetensors");
        weights::write(&arrays, Some(text.into()), &path).unwrap();
        assert_eq!(Frozen::load(&path).unwrap(), frozen);
    }

    #[test]
    fn what_is_no_frozen_network_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.safetensors");
        let check = |expect: &str| {
            let error = Frozen::load(&path).unwrap_err().to_string();
            assert!(error.contains("f.safetensors") && error.contains(expect), "{error}");
        };
        check("No such file");
        std::fs::write(&path, "text").unwrap();
        check("not a safetensors file");
        Weights::init(&Recipe::mnist().network, 1).save(&path).unwrap();
        check("Convert it: warpbook freeze RECIPE ");
        // The replacements keep the length, so the file's offsets stay valid.
        let whole = bytes(&small());
        let replaced = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let at = whole.windows(from.len()).position(|w| w == from.as_bytes()).expect(from);
            let mut bytes = whole.clone();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            std::fs::write(&path, bytes).unwrap();
        };
        replaced(r#"frozen\":1"#, r#"frozen\":2"#);
        check("format 2");
        replaced("linear 3", "linear 4");
        check("fc1.weight");
        replaced("conv2d 2 3x3", "conv3d 2 3x3");
        check("`conv3d` is not a layer");
        replaced(r#"\"b\""#, "    1");
        check("not a safetensors file, or it is damaged");
        replaced("0.3081", "-0.308");
        check("deviations above 0");
        replaced(r#"input\":[1"#, r#"input\":[2"#);
        check("f.safetensors");
    }

    #[test]
    fn a_network_that_would_fill_the_memory_is_refused() {
        let mut about = serde_json::json!({
            "frozen": 1, "recipe": "r", "data": null, "input": [1, 1, 1], "mean": [0.5], "deviation": [0.5],
            "classes": ["a"], "loss": {"kind": "cross_entropy", "smoothing": 0.0},
            "layers": ["avg_pool 16384 stride 1 padding 8192"],
        });
        let load = |about: &serde_json::Value| {
            let metadata = HashMap::from([("warpbook".to_owned(), about.to_string())]);
            let none: Vec<(&str, safetensors::tensor::TensorView<'_>)> = Vec::new();
            let file = safetensors::serialize(none, Some(metadata)).unwrap();
            Frozen::from_bytes(Path::new("f"), &file).map(|f| f.predict(&[0]).map(|_| ())).map_err(|e| e.to_string())
        };
        let large = vec!["avg_pool 16384 stride 1 padding 8192"; 16385];
        for layers in [large.clone(), vec!["conv2d 1048576 1024 padding 1048576"], vec!["flatten", "linear 1048576"]] {
            about["layers"] = serde_json::json!(layers);
            assert!(load(&about).is_err());
        }
        let mut deep = serde_json::json!(["relu"]);
        for _ in 0..2000 {
            deep = serde_json::json!([{ "residual": deep }]);
        }
        about["layers"] = deep;
        assert!(load(&about).unwrap_err().contains("recursion limit"));
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(edits in prop::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..6)) {
            let mut bytes = bytes(&small());
            for (at, value, kind) in edits {
                // Most mutations hit the header.
                let at = usize::from(at) * bytes.len() / (1 << 16);
                match kind {
                    _ if bytes.is_empty() => bytes.push(value),
                    0 => bytes[at] ^= value,
                    1 => bytes[at] = b'0' + value % 10,
                    2 => bytes.insert(at, value),
                    _ => bytes.truncate(at),
                }
            }
            if let Ok(frozen) = Frozen::from_bytes(Path::new("f"), &bytes) {
                let _ = frozen.predict(&vec![7; frozen.shape().iter().product()]);
            }
        }
    }
}
