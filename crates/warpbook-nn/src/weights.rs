//! A network's weights on the host, with PyTorch's names and layouts, and their files.

use crate::network::{Network, ParamSpec, Role};
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use warpbook_data::philox;
use warpbook_device::read_file;
use warpbook_gemm::storage::decoded;

/// The reason why weights cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error that the operating system reported.
        source: io::Error,
    },
    /// A file is not in the safetensors format.
    #[error("{path} is not a safetensors file, or it is damaged: {why}", path = .path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Message that says what is wrong with the file.
        why: String,
    },
    /// The tensors do not match the network's parameters.
    #[error("{0}")]
    Mismatch(String),
}

/// The parameters of a network, f32, each in PyTorch's layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    specs: Vec<ParamSpec>,
    values: Vec<Vec<f32>>,
}

impl Weights {
    /// Draws PyTorch's initial values: weights and biases uniform in ±1 / sqrt(fan-in) (`kaiming_uniform_` with a = sqrt 5); for batch
    /// normalisation scale and variance 1, shift and mean 0. A number depends only on the seed and its position among the parameters.
    #[must_use]
    pub fn init(network: &Network, seed: u64) -> Self {
        let value = |(id, spec): (usize, &ParamSpec)| match spec.role {
            Role::Weight | Role::Bias => {
                let mut values = vec![0.0; spec.len()];
                philox::fill_uniforms(&mut values, seed, id as u32, 0);
                let bound = 1.0 / (spec.fan_in as f32).sqrt();
                values.iter_mut().for_each(|v| *v = (2.0 * *v - 1.0) * bound);
                values
            }
            Role::Scale | Role::RunningVariance => vec![1.0; spec.len()],
            Role::Shift | Role::RunningMean => vec![0.0; spec.len()],
            Role::Own => vec![network.initial(id); spec.len()],
        };
        let values = network.params().iter().enumerate().map(value).collect();
        Self { specs: network.params().to_vec(), values }
    }

    /// Creates weights from one array per parameter of the network.
    ///
    /// # Errors
    /// If the number of arrays or a length does not match.
    pub fn new(network: &Network, values: Vec<Vec<f32>>) -> Result<Self, WeightsError> {
        let specs = network.params().to_vec();
        if values.len() != specs.len() {
            let why = format!("The network has {} parameters; {} arrays were given.", specs.len(), values.len());
            return Err(WeightsError::Mismatch(why));
        }
        match specs.iter().zip(&values).find(|(s, v)| s.len() != v.len()) {
            Some((s, v)) => {
                let why =
                    format!("{} has the shape {:?}, {} elements; {} were given.", s.name, s.shape, s.len(), v.len());
                Err(WeightsError::Mismatch(why))
            }
            None => Ok(Self { specs, values }),
        }
    }

    /// Checks that every value is finite. Weights from files and weights of frozen networks are checked.
    ///
    /// # Errors
    /// If a value is not finite; the message names the first one.
    pub fn ensure_finite(&self) -> Result<(), WeightsError> {
        for (spec, values) in self.specs.iter().zip(&self.values) {
            if let Some(at) = values.iter().position(|v| !v.is_finite()) {
                return Err(WeightsError::Mismatch(format!(
                    "{} has the value {} at element {at} of {}: every weight must be a finite number. The training that made them has \
                     diverged: use an earlier checkpoint, or train again with a lower learning rate.",
                    spec.name,
                    values[at],
                    values.len()
                )));
            }
        }
        Ok(())
    }

    /// Returns zeros of the same shapes.
    #[must_use]
    pub fn zeros(&self) -> Self {
        Self { specs: self.specs.clone(), values: self.values.iter().map(|v| vec![0.0; v.len()]).collect() }
    }

    /// Names and shapes of the parameters.
    #[must_use]
    pub fn specs(&self) -> &[ParamSpec] {
        &self.specs
    }

    /// Returns all values, in the order of [`Weights::specs`].
    #[must_use]
    pub fn values(&self) -> &[Vec<f32>] {
        &self.values
    }

    /// Returns the values of the parameter with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        let place = self.specs.iter().position(|s| s.name == name)?;
        Some(&self.values[place])
    }

    /// Reads a safetensors file of f32, f16 or bf16 tensors with the network's names and shapes: a `state_dict` written by
    /// `safetensors.torch.save_file`, or a checkpoint. It ignores `num_batches_tracked`, which PyTorch's batch normalisation adds.
    ///
    /// # Errors
    /// If the file cannot be read, or a tensor is missing or unknown, has another shape or type, or has a value that is not finite; the message
    /// names it.
    pub fn load(network: &Network, path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let bytes = read_tensors(path)?;
        let format = |e| WeightsError::Format { path: path.into(), why: why_not(&bytes, &e) };
        Self::from_tensors(network, &SafeTensors::deserialize(&bytes).map_err(format)?, |name| !name.starts_with(STATE))
            .map_err(|e| {
                if let WeightsError::Mismatch(why) = e {
                    WeightsError::Mismatch(format!("{}: {why}", path.display()))
                } else {
                    e
                }
            })
    }

    /// Like [`Weights::load`], from tensors already read; `is_weight` returns true for the names of weights.
    pub(crate) fn from_tensors(
        network: &Network,
        tensors: &SafeTensors<'_>,
        is_weight: impl Fn(&str) -> bool,
    ) -> Result<Self, WeightsError> {
        let is_known = |n: &&str| is_weight(n) && !n.ends_with("num_batches_tracked");
        let mut names: Vec<&str> = tensors.names().into_iter().filter(is_known).collect();
        names.sort_unstable();
        if let Some(prefix) = wrapper(network, &names) {
            return Err(WeightsError::Mismatch(format!(
                "The tensors' names begin with `{prefix}`, which a wrapper added, such as DistributedDataParallel (`module.`) or torch.compile \
                 (`_orig_mod.`). Save the state_dict() of the model inside it: model.module.state_dict(), or model._orig_mod.state_dict()."
            )));
        }
        if let Some(unknown) = names.iter().find(|n| network.params().iter().all(|s| s.name != **n)) {
            let known: Vec<&str> = network.params().iter().map(|s| s.name.as_str()).collect();
            let why = format!(
                "The file has a tensor `{unknown}`, which is not one of the network's parameters: {}.",
                known.join(", ")
            );
            return Err(WeightsError::Mismatch(why));
        }
        let read = |spec: &ParamSpec| read(tensors, &spec.name, spec, &names);
        Self::with_finite_values(network, network.params().iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Creates weights from a file's values, which must all be finite.
    fn with_finite_values(network: &Network, values: Vec<Vec<f32>>) -> Result<Self, WeightsError> {
        let all = Self { specs: network.params().to_vec(), values };
        all.ensure_finite()?;
        Ok(all)
    }

    /// Reads the arrays of trained parameters, whose names in the file have a prefix; other parameters get zeros.
    pub(crate) fn with_prefix(
        network: &Network,
        tensors: &SafeTensors<'_>,
        prefix: &str,
    ) -> Result<Self, WeightsError> {
        let names = tensors.names();
        let read = |spec: &ParamSpec| {
            if spec.role.is_trained() {
                read(tensors, &format!("{prefix}{}", spec.name), spec, &names)
            } else {
                Ok(vec![0.0; spec.len()])
            }
        };
        Self::with_finite_values(network, network.params().iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Writes a safetensors file under a temporary name, then renames it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), WeightsError> {
        let arrays = self
            .specs
            .iter()
            .zip(&self.values)
            .map(|(s, v)| (s.name.clone(), (s.shape.clone(), v.as_slice())))
            .collect();
        write(&arrays, None, path.as_ref())
    }
}

/// Reads a tensor that has a parameter's shape.
fn read(tensors: &SafeTensors<'_>, name: &str, spec: &ParamSpec, names: &[&str]) -> Result<Vec<f32>, WeightsError> {
    let mismatch = |why: String| Err(WeightsError::Mismatch(why));
    let Ok(tensor) = tensors.tensor(name) else {
        let prefixed = |prefix: &&&str| tensors.tensor(&format!("{prefix}{name}")).is_ok();
        let hint = match ["module._orig_mod.", "_orig_mod.module.", "module.", "_orig_mod."].iter().find(prefixed) {
            Some(prefix) => format!(
                " DistributedDataParallel and torch.compile put `{prefix}` before the names: save the state_dict() of the model that they were given."
            ),
            None => String::new(),
        };
        return mismatch(format!("The file has no tensor `{name}`. Its tensors: {}.{hint}", names.join(", ")));
    };
    if tensor.shape() != spec.shape {
        return mismatch(format!(
            "{name} has the shape {:?} in the file and {:?} in the network.",
            tensor.shape(),
            spec.shape
        ));
    }
    match decode(&tensor) {
        Some(values) => Ok(values),
        None => mismatch(format!("{name} is {:?} in the file: save it as f32, f16 or bf16.", tensor.dtype())),
    }
}

/// Prefix of the names of an optimiser's state in a checkpoint; no layer's name begins with it.
pub(crate) const STATE: &str = "optimizer.";

/// Shapes and values by name.
pub(crate) type NamedArrays<'a> = BTreeMap<String, (Vec<usize>, &'a [f32])>;

/// Key of this crate's entry in a file's metadata. There is only one entry: the order of several entries would change from run to run, and so
/// would the file's bytes.
const ENTRY: &str = "warpbook";

/// Writes f32 tensors, with JSON as metadata; the file appears whole or not at all.
pub(crate) fn write(arrays: &NamedArrays<'_>, metadata: Option<String>, path: &Path) -> Result<(), WeightsError> {
    let metadata = metadata.map(|text| HashMap::from([(ENTRY.to_owned(), text)]));
    let format = |e: SafeTensorError| WeightsError::Format { path: path.into(), why: e.to_string() };
    let io = |source| WeightsError::Io { path: path.into(), source };
    let bytes: Vec<(&String, &Vec<usize>, Vec<u8>)> = arrays
        .iter()
        .map(|(name, (shape, values))| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let mut views = Vec::new();
    for (name, shape, bytes) in &bytes {
        views.push((name.as_str(), TensorView::new(Dtype::F32, (*shape).clone(), bytes).map_err(format)?));
    }
    let file = safetensors::serialize(views, metadata).map_err(format)?;
    warpbook_device::write_atomic_with_folder(path, &file).map_err(io)
}

/// Returns the prefix that all names in the file have and the network's names lack, if the names without it are parameters of the network.
fn wrapper<'n>(network: &Network, names: &[&'n str]) -> Option<&'n str> {
    let first = *names.first()?;
    let ends = first.match_indices('.').map(|(at, _)| &first[..=at]);
    let is_known = |name: &str| network.params().iter().any(|spec| spec.name == name);
    ends.into_iter().find(|prefix| names.iter().all(|name| name.strip_prefix(prefix).is_some_and(is_known)))
}

/// Explains why a file is not a safetensors file.
fn why_not(file: &[u8], error: &SafeTensorError) -> String {
    let (zip, start) = (file.starts_with(b"PK\x03\x04"), file.trim_ascii_start());
    let has = |text: &[u8]| file.windows(text.len()).take(1 << 16).any(|part| part == text);
    // PyTorch writes a zip archive since version 1.6; earlier versions wrote a bare pickle.
    match () {
        () if zip && has(b".npy") => {
            "it is an .npz archive of NumPy. Save the weights with safetensors.numpy.save_file".into()
        }
        () if zip || matches!(file, [0x80, 2..=5, ..]) => {
            "it is a file of torch.save, which only Python reads. Save the weights there with \
             safetensors.torch.save_file(model.state_dict(), \"weights.safetensors\")"
                .into()
        }
        () if start.starts_with(b"<") => {
            "it is a web page that was saved instead of the file. Download it again".into()
        }
        () if start.starts_with(b"version https://git-lfs") => {
            "it is a Git LFS pointer instead of the file. Get the file itself with `git lfs pull`".into()
        }
        () if start.starts_with(b"\x1f\x8b") => "it is packed by gzip. Unpack it first".into(),
        () if start.starts_with(b"\x89HDF") => "it is an HDF5 file. Save the weights as safetensors".into(),
        () => error.to_string(),
    }
}

/// Reads a safetensors file. It reads the header of a regular file first, and the rest only if the file has the length that its header states.
pub(crate) fn read_tensors(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let io = |source| WeightsError::Io { path: path.into(), source };
    let about = fs::metadata(path).map_err(io)?;
    if about.is_file() {
        let start = read_start(path).map_err(io)?;
        let format = |e| WeightsError::Format { path: path.into(), why: why_not(&start, &e) };
        let header = header_of(&start).map_err(format)?;
        if start.len() as u64 + header.data_len() as u64 != about.len() {
            return Err(format(SafeTensorError::MetadataIncompleteBuffer));
        }
    }
    read_file(path, u64::MAX).map_err(io)
}

/// Reads a safetensors file's header, with the length in front; from another kind of file, reads at most enough to recognise the kind.
fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    /// Longest header that the safetensors crate reads.
    const MOST: u64 = 100_000_000;
    const OF_OTHERS: u64 = 1 << 16;
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    (&mut file).take(8).read_to_end(&mut start)?;
    let length = start.as_slice().try_into().map_or(0, u64::from_le_bytes);
    file.take(if length > MOST { OF_OTHERS } else { length }).read_to_end(&mut start)?;
    Ok(start)
}

/// Parses the header at a file's start, after its length.
fn header_of(start: &[u8]) -> Result<Metadata, SafeTensorError> {
    match SafeTensors::read_metadata(start) {
        Ok((_, header)) => Ok(header),
        // `start` ends before the tensors, so this error is expected.
        Err(SafeTensorError::MetadataIncompleteBuffer) => {
            serde_json::from_slice(&start[8..]).map_err(SafeTensorError::InvalidHeaderDeserialization)
        }
        Err(e) => Err(e),
    }
}

/// Returns the JSON in a file's metadata; `None` if there is none, or the file is not safetensors. Reads only the header of a regular file.
pub(crate) fn metadata_of_file(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.is_file() {
        return entry(&header_of(&read_start(path).ok()?).ok()?);
    }
    metadata(&read_file(path, u64::MAX).ok()?).ok()?
}

/// Returns true if a file's metadata mark it as a training checkpoint. Reads only the header of the file.
#[must_use]
pub fn is_checkpoint(path: impl AsRef<Path>) -> bool {
    let text = metadata_of_file(path.as_ref());
    let about = text.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    about.is_some_and(|about| about.get("checkpoint").is_some())
}

fn entry(header: &Metadata) -> Option<String> {
    header.metadata().as_ref()?.get(ENTRY).cloned()
}

/// Returns the JSON in a file's metadata, if any.
pub(crate) fn metadata(file: &[u8]) -> Result<Option<String>, String> {
    let (_, header) = SafeTensors::read_metadata(file).map_err(|e| why_not(file, &e))?;
    Ok(entry(&header))
}

/// Decodes a tensor's values to f32; `None` for an unsupported type.
fn decode(tensor: &TensorView<'_>) -> Option<Vec<f32>> {
    let dtype = match tensor.dtype() {
        Dtype::F32 => warpbook_record::Dtype::F32,
        Dtype::F16 => warpbook_record::Dtype::F16,
        Dtype::BF16 => warpbook_record::Dtype::Bf16,
        _ => return None,
    };
    Some(decoded(tensor.data(), dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{batch_norm, conv2d, flatten, linear};

    fn network() -> Network {
        Network::new([2, 4, 4], [conv2d(3, 3), batch_norm(), flatten(), linear(5)]).unwrap()
    }

    #[test]
    fn names_with_a_wrapper_s_prefix_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.st");
        let network = Network::new([1, 2, 2], [flatten(), linear(2)]).unwrap();
        for prefix in ["module.", "_orig_mod.", "module._orig_mod."] {
            let values: Vec<(String, Vec<usize>, Vec<u8>)> = network
                .params()
                .iter()
                .map(|p| (format!("{prefix}{}", p.name), p.shape.clone(), vec![0; 4 * p.len()]))
                .collect();
            let view = |shape: &Vec<usize>, bytes| TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
            let views: Vec<_> = values.iter().map(|(name, shape, bytes)| (name.as_str(), view(shape, bytes))).collect();
            fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
            let why = Weights::load(&network, &path).unwrap_err().to_string();
            assert!(why.contains(&format!("begin with `{prefix}`")) && why.contains("w.st"), "{why}");
        }
    }

    #[test]
    fn initial_values_are_within_their_bounds() {
        let w = Weights::init(&network(), 1);
        let within = |name: &str, bound: f32| {
            let values = w.get(name).unwrap();
            let most = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            assert!(most <= bound && most > bound / 2.0, "{name}: {most} of {bound}");
        };
        within("conv1.weight", 1.0 / 18f32.sqrt());
        within("fc1.weight", 1.0 / 12f32.sqrt());
        assert_eq!(w.get("bn1.weight"), Some(&[1.0; 3][..]));
        assert_eq!(w.get("bn1.running_mean"), Some(&[0.0; 3][..]));
        assert_ne!(w, Weights::init(&network(), 2));
        assert_eq!(w, Weights::init(&network(), 1));
    }

    #[test]
    fn a_file_holds_them_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/weights.safetensors");
        let w = Weights::init(&network(), 3);
        w.save(&path).unwrap();
        assert_eq!(Weights::load(&network(), &path).unwrap(), w);
        assert!(metadata_of_file(&path).is_none() && !is_checkpoint(&path));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    /// Sparse files of zeros take no room on disk but would not fit into memory.
    #[test]
    fn a_file_is_read_no_further_than_its_header_says() {
        const HUGE: u64 = 1 << 40;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let error_of_file = |start: &[u8], bytes: u64| {
            fs::write(&path, start).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            assert!(metadata_of_file(&path).is_none());
            Weights::load(&network(), &path).unwrap_err().to_string()
        };
        Weights::init(&network(), 3).save(&path).unwrap();
        let good = fs::read(&path).unwrap();
        let length = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
        for (start, bytes) in [
            (&b""[..], HUGE),
            (b"{\"schema\": 2}", HUGE),
            (b"\x02\0\0\0\0\0\0\0{}", HUGE),
            (&good[..length], HUGE),
            (&good, good.len() as u64 - 1),
            (b"", 0),
        ] {
            let why = error_of_file(start, bytes);
            assert!(why.contains("is not a safetensors file, or it is damaged"), "{why}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = Weights::init(&network(), 3).values().to_vec();
            values[1][2] = bad;
            let name = network().params()[1].name.clone();
            Weights::new(&network(), values).unwrap().save(&path).unwrap();
            let sentence = Weights::load(&network(), &path).unwrap_err().to_string();
            assert!(sentence.contains(&format!(": {name} has the value {bad} at element 2 of 3")), "{sentence}");
        }
    }

    #[test]
    fn what_is_not_the_network_s_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        Weights::init(&network(), 3).save(&path).unwrap();
        let check = |layers: Vec<crate::network::Layer>, expect: &str| {
            let other = Network::new([2, 4, 4], layers).unwrap();
            let sentence = Weights::load(&other, &path).unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        check(vec![conv2d(3, 3), flatten(), linear(5)], "`bn1.");
        check(
            vec![conv2d(3, 3), batch_norm(), flatten(), linear(6)],
            "fc1.weight has the shape [5, 12] in the file and [6, 12]",
        );
        check(vec![conv2d(3, 3), batch_norm(), flatten(), linear(5), linear(2)], "no tensor `fc2.weight`");
        fs::write(&path, b"nonsense").unwrap();
        assert!(Weights::load(&network(), &path).unwrap_err().to_string().contains("not a safetensors file"));
        assert!(Weights::load(&network(), folder.path().join("none")).unwrap_err().to_string().contains("none"));
        assert!(Weights::new(&network(), vec![]).unwrap_err().to_string().contains("8 parameters; 0 arrays"));
    }
}
