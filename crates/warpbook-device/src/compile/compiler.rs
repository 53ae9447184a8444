//! The kernel compiler: NVRTC, the headers that kernels include, and a cache of compiled kernels.

use crate::compile::cache::Cache;
use crate::compile::compiled::{Compiled, stats, tells_of};
use crate::compile::headers::{self, Headers};
use crate::compile::nvrtc::Compilation;
use crate::{CompileError, Error, Nvrtc, Result};
use std::cell::LazyCell;
use warpbook_record::{KernelSpec, Source, Tile};

/// Compiles kernels with NVRTC and caches the results. Needs no GPU.
#[derive(Debug, Clone)]
pub struct Compiler {
    nvrtc: Nvrtc,
    headers: &'static [Source],
    cache: Cache,
}

impl Compiler {
    /// Loads an NVRTC of the same or an older major version than `driver_cuda`, the CUDA version that the driver supports; any version if there is no driver.
    ///
    /// # Errors
    /// The errors of [`Nvrtc::load`].
    pub fn new(driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        Ok(Self { nvrtc: Nvrtc::load(driver_cuda)?, headers: warpbook_kernels::HEADERS, cache: Cache::for_user() })
    }

    /// Returns a compiler with other building blocks, and without a cache.
    #[cfg(test)]
    pub(crate) fn with_headers(headers: &'static [Source]) -> Result<Self> {
        Ok(Self { headers, cache: Cache::none(), ..Self::new(None)? })
    }

    /// Returns the loaded NVRTC.
    #[must_use]
    pub fn nvrtc(&self) -> &Nvrtc {
        &self.nvrtc
    }

    /// Compiles a kernel's file with one of its tiles for an architecture such as "sm_90".
    ///
    /// # Errors
    /// [`Error::Compile`] with the path, the line and the log.
    pub fn compile(&self, spec: &KernelSpec, tile: &Tile, architecture: &str) -> Result<Compiled> {
        self.compile_with(Some(&self.cache), spec, tile, architecture)
    }

    /// Compiles like [`Compiler::compile`], but does not use the disk cache. This measures the cost of a kernel's first call when nothing is
    /// cached.
    ///
    /// # Errors
    /// The errors of [`Compiler::compile`].
    pub fn compile_anew(&self, spec: &KernelSpec, tile: &Tile, architecture: &str) -> Result<Compiled> {
        self.compile_with(None, spec, tile, architecture)
    }

    /// Compiles a kernel's file with one of its tiles to PTX for a virtual architecture such as "compute_80".
    ///
    /// # Errors
    /// The errors of [`Compiler::compile`].
    pub fn compile_to_ptx(&self, spec: &KernelSpec, tile: &Tile, architecture: &str) -> Result<String> {
        let text = self.compile_with(Some(&self.cache), spec, tile, architecture)?.cubin;
        Ok(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
    }

    fn compile_with(
        &self,
        cache: Option<&Cache>,
        spec: &KernelSpec,
        tile: &Tile,
        architecture: &str,
    ) -> Result<Compiled> {
        let mut options = vec![
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".into(),
            "--generate-line-info".into(),
            "--ptxas-options=-v".into(),
        ];
        options.extend(tile.defines.iter().chain(&spec.defines).map(|d| format!("-D{}={}", d.name, d.value)));
        let version = format!("{:?}", self.nvrtc.version());
        let major = self.nvrtc.version().0;
        let folders = LazyCell::new(|| headers::folders(self.nvrtc.path(), major));
        let is_elsewhere = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
        // The key covers only files that this source can include, so adding an unrelated building block does not recompile every kernel.
        let headers = Headers::find(&spec.source, &spec.headers, self.headers, &is_elsewhere);
        // If some headers were not found, the compiler may read files that the key does not cover, so the cache is not used.
        let cache = cache.filter(|_| !headers.is_incomplete);
        if headers.is_incomplete {
            options.extend(folders.iter().map(|folder| format!("--include-path={}", folder.display())));
        }
        let parts = [&*spec.source, &*spec.file, &version].into_iter().chain(options.iter().map(String::as_str));
        let key = Cache::key(parts.chain(headers.found.iter().flat_map(|(name, text)| [&**name, &**text])));
        if let Some(found) = cache.and_then(|cache| cache.read(&key)) {
            return Ok(found);
        }
        // The kernel's path serves as its file name in the compiler, so that an error points to the real line.
        let path = spec.path();
        let mut named: Vec<(&str, &str)> = headers.found.iter().map(|(name, text)| (&**name, &**text)).collect();
        if headers.is_incomplete {
            named.extend(headers::for_cuda(&headers.found));
        }
        let build = |alone| {
            self.nvrtc.compile(&spec.source, &path, &named, &options, alone).map_err(|log| {
                let mut sources = named.clone();
                sources.push((&path, numbered(&spec.source)));
                let mut error = CompileError::new(path.clone(), architecture.into(), log, &sources);
                if let Some(first) = error.diagnostics.iter_mut().find(|d| d.is_error)
                    && let Some(hint) = headers::hint(&first.message, major, &folders)
                {
                    first.message = format!("{}. {hint}", first.message);
                }
                Error::Compile(Box::new(error))
            })
        };
        let mut built = build(false)?;
        // If several threads compile at once, the assembler's logs can get lost or mixed up.
        if !built.was_alone && !tells_of(&built.log, &built.code) {
            built = build(true)?;
        }
        let Compilation { code, log, .. } = built;
        let cubin = if architecture.starts_with("compute_") { named_as_given(&code) } else { code };
        let stats = stats(&cubin, &log, &spec.file, architecture);
        let compiled = Compiled { cubin, stats, from_cache: false };
        if let Some(cache) = cache {
            cache.write(&key, &compiled);
        }
        Ok(compiled)
    }
}

/// Removes the working directory that the compiler puts in front of the file names in PTX.
fn named_as_given(ptx: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(ptx);
    let folder = std::env::current_dir().map(|folder| format!("\"{}/", folder.display()));
    folder.map_or_else(|_| ptx.to_vec(), |folder| text.replace(&folder, "\"").into_bytes())
}

/// Returns the lines that the author wrote: everything after `#line 1`, before which there may be generated declarations.
fn numbered(text: &str) -> &str {
    text.split_once("\n#line 1\n").map_or(text, |(_, counted)| counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_compile_at_once_has_its_own_words() {
        let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
        let all: Vec<KernelSpec> = warpbook_kernels::all().into_iter().map(|(spec, _)| spec).collect();
        let some: Vec<&KernelSpec> =
            ["guide/divergence.cu", "matmul/05_register_2d.cu", "matmul/06_vectorised.cu", "matmul/add_partials.cu"]
                .iter()
                .filter_map(|file| all.iter().find(|spec| spec.file == *file))
                .collect();
        assert!(some.len() > 2, "{} files", some.len());
        let code = |spec: &KernelSpec| {
            let built = compiler.compile_anew(spec, &spec.tiles[0], "sm_80").unwrap_or_else(|e| panic!("{e}"));
            (built.cubin, built.stats)
        };
        let expect: Vec<_> = some.iter().map(|spec| code(spec)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (some, expect) = (&some, &expect);
                scope.spawn(move || {
                    for i in 0..2 * some.len() {
                        let at = (thread + i) % some.len();
                        assert!(code(some[at]) == expect[at], "{}", some[at].file);
                    }
                });
            }
        });
        let log = "ptxas info    : Compiling entry function 'a' for 'sm_80'\nptxas info    : Used 7 registers\n";
        assert!(!tells_of(log, &expect[0].0) && !tells_of("", &expect[0].0));
    }

    #[test]
    fn a_header_that_has_changed_is_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
        let compiler = Compiler { cache: Cache::at(&folder.path().join("cache")), ..compiler };
        let header = folder.path().join("mine.cuh");
        let path = header.display();
        let by_path = format!("#include \"{path}\"\n");
        // The name of the included file comes from a macro, so only the compiler can resolve it.
        let by_macro = format!("#define WHERE \"{path}\"\n#include WHERE\n");
        for (include, is_kept) in [(by_path, true), (by_macro, false)] {
            let spec = KernelSpec {
                source: format!("{include}extern \"C\" __global__ void k(int* x) {{ *x = X; }}\n").into(),
                ..warpbook_kernels::all()[0].0.clone()
            };
            let compile = || compiler.compile(&spec, &spec.tiles[0], "sm_80");
            std::fs::write(&header, "#define X 1\n").unwrap();
            assert!(!compile().unwrap().from_cache);
            assert_eq!(compile().unwrap().from_cache, is_kept);
            std::fs::write(&header, "#error \"changed\"\n").unwrap();
            assert!(compile().unwrap_err().to_string().contains("changed"), "{include}");
        }
    }

    #[test]
    fn lines_before_the_author_s_are_not_counted() {
        assert_eq!(numbered("#include \"a.cuh\"\n#line 1\nint a;\nint b;"), "int a;\nint b;");
        assert_eq!(numbered("int a;\nint b;"), "int a;\nint b;");
    }
}
