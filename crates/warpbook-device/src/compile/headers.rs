//! Finds the headers that a kernel includes: the author's, this project's building blocks, files by path, the C library's, and CUDA's.

use crate::libraries::places::{site_packages, toolkits};
use std::path::{Path, PathBuf};
use warpbook_kernels::{Include, includes};
use warpbook_record::{Header, Source};

/// Size in bytes of the longest header that is read here; the compiler handles longer ones.
const LONGEST: u64 = 16 << 20;

/// The parts of C headers that kernels need and that NVRTC does not provide by itself. The types of stdint.h match those of CUDA's
/// `cuda/std/cstdint`.
const OF_C: [(&[&str], &str); 4] = [
    (
        &[
            "assert.h",
            "cassert",
            "stdio.h",
            "cstdio",
            "stdlib.h",
            "cstdlib",
            "string.h",
            "cstring",
            "stddef.h",
            "cstddef",
            "stdbool.h",
        ],
        "",
    ),
    (
        &["stdint.h", "cstdint"],
        "#pragma once\n\
         typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;\n\
         typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long long uint64_t;\n\
         namespace std { using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::uint8_t; using ::uint16_t; using ::uint32_t; \
         using ::uint64_t; }\n\
         #ifndef UINT32_MAX\n\
         #define INT8_MAX 127\n#define INT16_MAX 32767\n#define INT32_MAX 2147483647\n#define INT64_MAX 9223372036854775807LL\n\
         #define UINT8_MAX 255\n#define UINT16_MAX 65535\n#define UINT32_MAX 4294967295U\n#define UINT64_MAX 18446744073709551615ULL\n\
         #endif\n",
    ),
    (
        &["math.h", "cmath"],
        "#pragma once\n\
         #ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif\n\
         #ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif\n\
         #ifndef M_PI\n#define M_PI 3.14159265358979323846\n#endif\n",
    ),
    (
        &["float.h", "cfloat", "limits.h", "climits"],
        "#pragma once\n\
         #define FLT_MAX 3.402823466e+38F\n#define FLT_MIN 1.175494351e-38F\n#define FLT_EPSILON 1.192092896e-07F\n\
         #define DBL_MAX 1.7976931348623158e+308\n#define DBL_MIN 2.2250738585072014e-308\n#define DBL_EPSILON 2.2204460492503131e-16\n\
         #define CHAR_BIT 8\n#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define UINT_MAX 4294967295U\n\
         #define LLONG_MAX 9223372036854775807LL\n#define LLONG_MIN (-LLONG_MAX - 1)\n#define ULLONG_MAX 18446744073709551615ULL\n",
    ),
];
/// CUDA headers that may be missing, because NVRTC already provides everything in them.
const UNNEEDED: [&str; 4] = ["cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "device_launch_parameters.h"];
/// Headers of the host's C++ library that people often try to include.
const OF_HOST: [&str; 12] = [
    "algorithm",
    "fstream",
    "iomanip",
    "iostream",
    "map",
    "memory",
    "mutex",
    "random",
    "sstream",
    "string",
    "thread",
    "vector",
];
/// Headers of the C++ standard library that CUDA also provides for kernels, such as <cuda/std/array>.
const OF_BOTH: [&str; 11] = [
    "array",
    "atomic",
    "chrono",
    "complex",
    "functional",
    "limits",
    "optional",
    "ratio",
    "tuple",
    "type_traits",
    "utility",
];

/// The headers that a source includes.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// Names and texts of the headers that were found, sorted by name.
    pub found: Vec<(String, String)>,
    /// True if some headers were not found, so the compiler has to look for them.
    pub is_incomplete: bool,
}

impl Headers {
    /// Finds all headers that a text includes, directly or indirectly: the author's, the building blocks, files named by an absolute path, and the
    /// C library's. `is_elsewhere` returns true if the compiler finds a header of this name by itself.
    pub(crate) fn find(text: &str, own: &[Header], blocks: &[Source], is_elsewhere: &dyn Fn(&str) -> bool) -> Self {
        let mut all = Self::default();
        // Texts still to be searched, each with its folder if that is known.
        let mut texts: Vec<(String, Option<PathBuf>)> = vec![(text.to_owned(), None)];
        while let Some((text, folder)) = texts.pop() {
            // `__has_include` makes the compiler look for files that no `#include` line names.
            all.is_incomplete |= text.contains("__has_include");
            for include in includes(&text) {
                let Some(name) = include.name() else {
                    all.is_incomplete = true;
                    continue;
                };
                if all.found.iter().any(|(known, _)| known == name) {
                    continue;
                }
                let next_to =
                    folder.as_ref().filter(|_| include == Include::Quoted(name)).map(|folder| folder.join(name));
                let place = next_to
                    .filter(|path| path.is_file())
                    .or_else(|| Some(PathBuf::from(name)).filter(|p| p.is_absolute()));
                let found = own
                    .iter()
                    .find(|h| h.path == name)
                    .map(|h| h.text.clone())
                    .or_else(|| place.as_deref().and_then(read))
                    .or_else(|| blocks.iter().find(|h| h.path == name).map(|h| h.text.to_owned()))
                    .or_else(|| {
                        OF_C.iter().find(|(names, _)| names.contains(&name)).map(|(_, text)| (*text).to_owned())
                    })
                    .or_else(|| (UNNEEDED.contains(&name) && !is_elsewhere(name)).then(String::new));
                match found {
                    Some(text) => {
                        let folder = place.and_then(|path| path.parent().map(Path::to_owned));
                        all.found.push((name.to_owned(), text.clone()));
                        texts.push((text, folder));
                    }
                    None => all.is_incomplete = true,
                }
            }
        }
        all.found.sort();
        all
    }
}

/// Returns the C headers that CUDA's own headers may include, without those already in `found`.
pub(crate) fn for_cuda(found: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let all = OF_C.iter().flat_map(|(names, text)| names.iter().map(move |name| (*name, *text)));
    all.filter(|(name, _)| found.iter().all(|(known, _)| known != name))
}

/// Returns the file's text if it is short enough.
fn read(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok()?;
    if about.is_file() && about.len() <= LONGEST { std::fs::read_to_string(path).ok() } else { None }
}

/// Returns the folders of CUDA headers, from pip or a toolkit, that match an NVRTC's major version. Folders next to that NVRTC come first.
pub(crate) fn folders(nvrtc: &Path, major: u32) -> Vec<PathBuf> {
    let below: &[&str] = match major {
        ..=12 => &["cuda_runtime/include", "cuda_nvcc/include", "cuda_cccl/include"],
        _ => &["cu13/include", "cu13/include/cccl"],
    };
    let in_toolkit = |toolkit: &Path| ["include", "include/cccl"].map(|b| toolkit.join(b));
    let in_pip = |nvidia: &Path| below.iter().map(|b| nvidia.join(b)).collect::<Vec<_>>();
    // Examples are nvidia/cu13/lib/libnvrtc.so.13 and /usr/local/cuda/lib64/libnvrtc.so.
    let mut all: Vec<PathBuf> = nvrtc.ancestors().nth(2).map(in_toolkit).into_iter().flatten().collect();
    all.extend(nvrtc.ancestors().nth(3).filter(|nvidia| nvidia.ends_with("nvidia")).map(in_pip).into_iter().flatten());
    all.extend(site_packages().iter().flat_map(|site| in_pip(&site.join("nvidia"))));
    all.extend(toolkits().iter().flat_map(|toolkit| in_toolkit(toolkit)));
    let mut there: Vec<PathBuf> = Vec::new();
    for folder in all.into_iter().filter(|folder| folder.is_absolute() && folder.is_dir()) {
        if !there.contains(&folder) {
            there.push(folder);
        }
    }
    there
}

/// Suggests a remedy if the compiler's message says that it cannot open a header.
pub(crate) fn hint(message: &str, major: u32, folders: &[PathBuf]) -> Option<String> {
    // The message says "could not open" or "cannot open", depending on whether include folders are searched.
    let (_, rest) = message.split_once(" open source file \"")?;
    let name = rest.split('"').next()?;
    if OF_HOST.contains(&name) {
        return Some(format!("<{name}> belongs to the host's C++ library, which a kernel cannot use."));
    }
    if OF_BOTH.contains(&name) {
        return Some(format!(
            "<{name}> belongs to the host's C++ library, which a kernel cannot use; <cuda/std/{name}> is CUDA's."
        ));
    }
    let packages = match major {
        ..=12 if name.starts_with("curand") => "nvidia-curand-cu12",
        _ if name.starts_with("curand") => "nvidia-curand",
        ..=12 => "nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-cuda-cccl-cu12",
        _ => "nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl",
    };
    let looked = match folders {
        [] => "CUDA's headers were not found".to_owned(),
        all => format!(
            "It is not in {}",
            all.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", nor in ")
        ),
    };
    Some(format!(
        "{looked}. `pip install {packages}` installs CUDA's headers, and CUDA_HOME names a toolkit; a header of your own has to lie next to the \
         kernel's file, and its name has to stand in quotes after #include. printf, assert and the functions of math.h need none."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_followed_and_what_is_missing_is_known() {
        const BLOCKS: &[Source] = &[
            Source { path: "a.cuh", text: "#include \"b.cuh\"" },
            Source { path: "b.cuh", text: "// block" },
            Source { path: "c.cuh", text: "" },
        ];
        let found = |text: &str, own: &[Header]| {
            let all = Headers::find(text, own, BLOCKS, &|_: &str| false);
            (all.found.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), all.is_incomplete)
        };
        assert_eq!(found("#include <a.cuh>\n", &[]), (vec!["a.cuh".into(), "b.cuh".into()], false));
        assert!(!found("#include <stdio.h>\n#include <cuda_runtime.h>", &[]).1);
        assert!(found("#include \"a.cuh\"\n#include <mma.h>", &[]).1);
        assert_eq!(found("#include WHICH", &[]), (vec![], true));
        assert!(
            found("#if __has_include(\"a.cuh\")\n#endif\n#include <stdio.h>", &[]).1,
            "it is not kept: the answer may change"
        );
        let own = [Header { path: "b.cuh".into(), text: "#include \"gone.cuh\"".into() }];
        assert_eq!(
            found("#include \"a.cuh\"", &own),
            (vec!["a.cuh".into(), "b.cuh".into()], true),
            "the author's own comes first"
        );
    }

    #[test]
    fn files_named_from_the_root_on_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("mine.cuh", "#include \"next.cuh\"\n#include <other.cuh>");
        write("next.cuh", "int next;");
        write("other.cuh", "");
        let text = format!("#include \"{}\"", folder.path().join("mine.cuh").display());
        let all = Headers::find(&text, &[], &[], &|_: &str| false);
        assert!(all.found.iter().any(|(name, text)| name == "next.cuh" && text == "int next;"), "{all:?}");
        assert!(all.found.len() == 2 && all.is_incomplete, "an angle bracket is not looked for there: {all:?}");
    }

    #[test]
    fn a_missing_header_is_explained() {
        let words = |name: &str| {
            hint(&format!("could not open source file \"{name}\" (no directories in search list)"), 13, &[]).unwrap()
        };
        assert!(words("mma.h").contains("pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl`"));
        assert!(words("curand_kernel.h").contains("pip install nvidia-curand`"));
        assert!(words("array").contains("<cuda/std/array> is CUDA's") && !words("vector").contains("cuda/std"));
        assert_eq!(hint("identifier \"x\" is undefined", 13, &[]), None);
    }
}
