//! Describes NVIDIA's libraries: their purpose, where to find them, and the pip packages that contain them.

use crate::libraries::places::{newest_in, site_packages, toolkits};
use std::path::{Path, PathBuf};

/// An NVIDIA library that is loaded on first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// NVRTC, which compiles kernels.
    Nvrtc,
    /// cuBLAS, including cuBLASLt.
    Cublas,
    /// cuDNN 9.
    Cudnn,
    /// NCCL 2.
    Nccl,
    /// CUPTI, NVIDIA's interface for profilers.
    Cupti,
}

/// Facts about a library that are known before it is loaded.
pub(crate) struct About {
    pub name: &'static str,
    /// First part of the error message if the library was not found.
    missing: &'static str,
    /// The pip packages: first for a driver of CUDA 13 or later, then for one of CUDA 12.
    pub packages: [&'static str; 2],
    is_in_toolkit: bool,
    /// Description of the path that the environment variable must contain.
    place: &'static str,
    /// Environment variable that names the library's location. If it is set, no other location is tried.
    pub variable: &'static str,
    /// Name of the library's file, or the part of it that is the same for all versions.
    pub file: &'static str,
    /// Folders to search below pip's folder `nvidia`.
    pip: &'static [&'static str],
    /// Names to request from the system's loader.
    names: &'static [&'static str],
    /// Folders to search within a CUDA toolkit.
    toolkit: &'static [&'static str],
    /// Returns true if a file with this name is the library.
    is_named: fn(&str) -> bool,
}

const NVRTC: About = About {
    name: "NVRTC",
    missing: "NVRTC, which compiles the kernels, was not found",
    packages: ["nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"],
    is_in_toolkit: true,
    place: "the library",
    variable: "WARPBOOK_NVRTC",
    file: "libnvrtc",
    pip: &["cu13/lib", "cuda_nvrtc/lib", "cu13/bin/x86_64", "cuda_nvrtc/bin"],
    names: if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
    } else {
        &["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
    },
    toolkit: &["lib64", "targets/x86_64-linux/lib", "bin"],
    is_named: |name| {
        (name.starts_with("libnvrtc.so") || (name.starts_with("nvrtc64_") && name.ends_with(".dll")))
            && !name.contains("alt")
    },
};

/// cuBLASLt is expected in the same folder.
const CUBLAS: About = About {
    name: "cuBLAS",
    missing: "cuBLAS, NVIDIA's library of matrix products, was not found",
    packages: ["nvidia-cublas", "nvidia-cublas-cu12"],
    is_in_toolkit: true,
    place: "the folder with it and cuBLASLt",
    variable: "WARPBOOK_CUBLAS",
    file: "libcublas",
    pip: &["cu13/lib", "cublas/lib", "cu13/bin/x86_64", "cublas/bin"],
    names: if cfg!(windows) {
        &["cublas64_13.dll", "cublas64_12.dll"]
    } else {
        &["libcublas.so.13", "libcublas.so.12", "libcublas.so"]
    },
    toolkit: &["lib64", "targets/x86_64-linux/lib", "bin/x64", "bin"],
    is_named: |name| name.starts_with("libcublas.so") || (name.starts_with("cublas64_") && name.ends_with(".dll")),
};

const CUDNN_FILE: &str = if cfg!(windows) { "cudnn64_9.dll" } else { "libcudnn.so.9" };
const CUDNN: About = About {
    name: "cuDNN",
    missing: "cuDNN 9, NVIDIA's library of convolutions, was not found",
    packages: ["nvidia-cudnn-cu13", "nvidia-cudnn-cu12"],
    is_in_toolkit: false,
    place: "the folder with libcudnn.so.9",
    variable: "WARPBOOK_CUDNN",
    file: CUDNN_FILE,
    pip: &["cudnn/lib", "cudnn/bin"],
    names: &[CUDNN_FILE],
    toolkit: &["lib64", "lib", "bin/x64", "bin"],
    is_named: |name| name == CUDNN_FILE,
};

/// NCCL does not exist for Windows.
const NCCL_FILE: &str = "libnccl.so.2";
const NCCL: About = About {
    name: "NCCL",
    missing: "NCCL 2, NVIDIA's library for work on several GPUs, was not found",
    packages: ["nvidia-nccl-cu13", "nvidia-nccl-cu12"],
    is_in_toolkit: false,
    place: "the folder with libnccl.so.2",
    variable: "WARPBOOK_NCCL",
    file: NCCL_FILE,
    pip: &["nccl/lib"],
    names: &[NCCL_FILE],
    toolkit: &["lib64", "lib"],
    is_named: |name| name == NCCL_FILE,
};

const CUPTI: About = About {
    name: "CUPTI",
    missing: "CUPTI, NVIDIA's interface for profilers, was not found, so GPU activity cannot be recorded",
    packages: ["nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12"],
    is_in_toolkit: true,
    place: "the folder with libcupti",
    variable: "WARPBOOK_CUPTI",
    file: "libcupti",
    pip: &["cu13/lib", "cuda_cupti/lib", "cu13/bin/x86_64", "cuda_cupti/bin"],
    names: if cfg!(windows) { &[] } else { &["libcupti.so", "libcupti.so.13", "libcupti.so.12"] },
    toolkit: &["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"],
    is_named: |name| name.starts_with("libcupti.so") || (name.starts_with("cupti64_") && name.ends_with(".dll")),
};

impl Library {
    pub(crate) fn about(self) -> &'static About {
        match self {
            Self::Nvrtc => &NVRTC,
            Self::Cublas => &CUBLAS,
            Self::Cudnn => &CUDNN,
            Self::Nccl => &NCCL,
            Self::Cupti => &CUPTI,
        }
    }

    /// Returns the error message: why the library cannot be used, and the remedy. `fault` is the file or folder that was
    /// tried, and the problem with it.
    pub(crate) fn sentence(self, driver_cuda: Option<(u32, u32)>, fault: Option<&(PathBuf, String)>) -> String {
        let About { name, missing, packages: [package, of_12], is_in_toolkit, place, variable, .. } = self.about();
        if self == Self::Nvrtc && cfg!(target_os = "macos") {
            return "There is no NVRTC for macOS, so no kernel can be compiled here: use Linux, or Windows with WSL 2."
                .into();
        }
        if let Some((path, why)) = fault {
            let path = path.display();
            return format!(
                "{name} at {path} cannot be used: {why}. Install it again with `pip install --force-reinstall {package}` ({of_12} for a \
                 driver of CUDA 12)."
            );
        }
        let package = if driver_cuda.is_some_and(|(major, _)| major == 12) { of_12 } else { package };
        let toolkit = if *is_in_toolkit { " (or the CUDA toolkit)" } else { "" };
        format!("{missing}. Install it with `pip install {package}`{toolkit}, or name {place} in {variable}.")
    }
}

impl About {
    /// Returns the library's files in a folder, with the newest first.
    pub fn files_in(&self, folder: &Path) -> Vec<PathBuf> {
        newest_in(folder, self.is_named)
    }

    /// Returns the paths to try in this order: pip's folders, the loader's names, the toolkits' folders.
    pub fn candidates(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for site in site_packages() {
            found.extend(self.pip.iter().flat_map(|folder| self.files_in(&site.join("nvidia").join(folder))));
        }
        found.extend(self.names.iter().map(PathBuf::from));
        for toolkit in toolkits() {
            found.extend(self.toolkit.iter().flat_map(|folder| self.files_in(&toolkit.join(folder))));
        }
        found
    }
}
