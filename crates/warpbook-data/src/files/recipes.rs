//! The published data sets: their files, where they are served, and their hashes.

use std::path::PathBuf;

/// A data set that `warpbook data fetch` can download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Name of the data set in commands.
    pub name: &'static str,
    /// Title of the data set for display.
    pub title: &'static str,
    /// Short description of the images.
    pub about: &'static str,
    /// Authors, and the publication that describes the data.
    pub source: &'static str,
    /// Files of the data set.
    pub files: &'static [RemoteFile],
}

/// A file that can be downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteFile {
    /// Name of the file, without a folder.
    pub name: &'static str,
    /// Exact size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file in lower-case hexadecimal.
    pub sha256: &'static str,
    /// URLs of folders that serve the file, in the order in which they are tried. The URL of the file is a folder's URL followed by the name.
    pub mirrors: &'static [&'static str],
}

const MNIST_MIRRORS: &[&str] =
    &["https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"];

const FASHION_MIRRORS: &[&str] = &[
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
];

const CIFAR_MIRRORS: &[&str] =
    &["https://www.cs.toronto.edu/~kriz/", "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/"];

const fn file(name: &'static str, bytes: u64, sha256: &'static str, mirrors: &'static [&'static str]) -> RemoteFile {
    RemoteFile { name, bytes, sha256, mirrors }
}

const RECIPES: [Recipe; 3] = [
    Recipe {
        name: "mnist",
        title: "MNIST",
        about: "handwritten digits, 60,000 + 10,000 grey images of 28 x 28, 10 classes",
        source: "LeCun, Cortes and Burges, 1998",
        files: &[
            file(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                MNIST_MIRRORS,
            ),
            file(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                MNIST_MIRRORS,
            ),
            file(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                MNIST_MIRRORS,
            ),
            file(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                MNIST_MIRRORS,
            ),
        ],
    },
    Recipe {
        name: "fashion-mnist",
        title: "Fashion-MNIST",
        about: "articles of clothing, 60,000 + 10,000 grey images of 28 x 28, 10 classes",
        source: "Xiao, Rasul and Vollgraf, 2017, arXiv:1708.07747",
        files: &[
            file(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                FASHION_MIRRORS,
            ),
            file(
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                FASHION_MIRRORS,
            ),
            file(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                FASHION_MIRRORS,
            ),
            file(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                FASHION_MIRRORS,
            ),
        ],
    },
    Recipe {
        name: "cifar10",
        title: "CIFAR-10",
        about: "photographs, 50,000 + 10,000 colour images of 32 x 32, 10 classes",
        source: "Krizhevsky, \"Learning multiple layers of features from tiny images\", 2009",
        files: &[file(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            CIFAR_MIRRORS,
        )],
    },
];

/// SHA-256 of MNIST's unpacked files, by the name without `.gz`.
pub(crate) const MNIST_UNPACKED: [(&str, &str); 4] = [
    ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
];

/// SHA-256 of CIFAR-10's archives, by name.
pub(crate) const CIFAR_ARCHIVES: [(&str, &str); 2] = [
    ("cifar-10-binary.tar.gz", RECIPES[2].files[0].sha256),
    ("cifar-10-python.tar.gz", "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"),
];

/// MD5 of the files in CIFAR-10's Python archive, as torchvision publishes them.
pub(crate) const CIFAR_PYTHON_FILES: [(&str, &str); 6] = [
    ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
    ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
    ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
    ("data_batch_4", "634d18415352ddfa80567beed471001a"),
    ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ("test_batch", "40351d587109b95175f43aff81a1287e"),
];

/// Returns the data sets that can be downloaded.
#[must_use]
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}

/// Returns the data set with this name.
#[must_use]
pub fn recipe(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|r| r.name == name)
}

/// Returns the default folder of `warpbook data fetch` for a set: a subfolder of the folder that `WARPBOOK_DATA` names, otherwise a subfolder of `data` in the
/// cache. Returns `None` if neither folder is known.
#[must_use]
pub fn folder_for(name: &str) -> Option<PathBuf> {
    variable("WARPBOOK_DATA").map(|folder| folder.join(name)).or_else(|| cache_folder_for(name))
}

pub(crate) fn cache_folder_for(name: &str) -> Option<PathBuf> {
    warpbook_record::cache_folder().map(|cache| cache.join("data").join(name))
}

/// Returns the path in an environment variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_whole() {
        for recipe in recipes() {
            for file in recipe.files {
                assert!(file.bytes > 1000 && file.mirrors.len() > 1, "{}", file.name);
                let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
                assert!(file.sha256.len() == 64 && file.sha256.chars().all(is_hex), "{}", file.name);
                assert!(file.mirrors.iter().all(|m| m.starts_with("https://") && m.ends_with('/')), "{}", file.name);
            }
        }
        assert!(recipe("cifar10").is_some() && recipe("synthetic").is_none());
    }

    #[test]
    fn no_hash_comes_twice() {
        let of_files = RECIPES.iter().flat_map(|r| r.files).map(|f| f.sha256);
        let others = MNIST_UNPACKED.iter().chain(&CIFAR_PYTHON_FILES).chain(&CIFAR_ARCHIVES[1..]).map(|(_, sum)| *sum);
        let mut all: Vec<_> = of_files.chain(others).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|w| w[0] != w[1]));
    }
}
