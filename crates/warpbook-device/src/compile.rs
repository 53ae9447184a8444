use crate::cache::Cache;
use crate::{CompileError, Error, Nvrtc, Result};
use warpbook_record::{KernelSpec, KernelStats, Source, Tile};

/// A file compiled for one architecture.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The machine code.
    pub cubin: Vec<u8>,
    /// What the assembler said of each entry in the file.
    pub stats: Vec<KernelStats>,
    /// Whether it came from the disk.
    pub from_cache: bool,
}

impl Compiled {
    /// What the assembler said of one entry.
    #[must_use]
    pub fn stats_of(&self, entry: &str) -> Option<&KernelStats> {
        self.stats.iter().find(|s| s.entry == entry)
    }
}

/// NVRTC, the building blocks that kernels include, and the cache. Needs no GPU.
#[derive(Debug, Clone)]
pub struct Compiler {
    nvrtc: Nvrtc,
    headers: &'static [Source],
    cache: Cache,
}

impl Compiler {
    /// Loads NVRTC for a driver that supports `driver_cuda`, or any where there is no driver.
    ///
    /// # Errors
    /// Those of [`Nvrtc::load`].
    pub fn new(driver_cuda: Option<(u32, u32)>) -> Result<Self> {
        Ok(Self {
            nvrtc: Nvrtc::load(driver_cuda)?,
            headers: warpbook_record::kernels::HEADERS,
            cache: Cache::of_user(),
        })
    }

    /// Its NVRTC.
    #[must_use]
    pub fn nvrtc(&self) -> &Nvrtc {
        &self.nvrtc
    }

    /// Compiles a kernel's file with one of its tiles for an architecture such as "sm_90".
    ///
    /// # Errors
    /// [`Error::Compile`] with the path, the line and the log.
    pub fn compile(&self, spec: &KernelSpec, tile: &Tile, architecture: &str) -> Result<Compiled> {
        let mut options = vec![
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".into(),
            "--generate-line-info".into(),
            "--ptxas-options=-v".into(),
        ];
        options.extend(tile.defines.iter().chain(&spec.defines).map(|d| format!("-D{}={}", d.name, d.value)));
        let version = format!("{:?}", self.nvrtc.version());
        // Only what the file can include: a new building block elsewhere does not recompile everything.
        let headers = reachable(&spec.source, self.headers);
        let parts = [&*spec.source, &*spec.file, &version].into_iter().chain(options.iter().map(String::as_str));
        let key = Cache::key(parts.chain(headers.iter().flat_map(|h| [h.path, h.text])));
        if let Some(found) = self.cache.read(&key) {
            return Ok(found);
        }
        // The kernel's path is its name for the compiler, so that an error points at the real line.
        let path = format!("kernels/{}", spec.file);
        let named: Vec<(&str, &str)> = headers.iter().map(|h| (h.path, h.text)).collect();
        let (cubin, log) = self.nvrtc.compile(&spec.source, &path, &named, &options).map_err(|log| {
            let mut sources = named.clone();
            sources.push((&path, &spec.source));
            Error::Compile(Box::new(CompileError::new(path.clone(), architecture.into(), log, &sources)))
        })?;
        let compiled = Compiled { cubin, stats: parse_log(&log, &spec.file, architecture), from_cache: false };
        self.cache.write(&key, &compiled);
        Ok(compiled)
    }
}

/// The headers that a text includes, directly or through another.
fn reachable(text: &str, headers: &[Source]) -> Vec<Source> {
    let mut found: Vec<Source> = Vec::new();
    let mut texts = vec![text];
    while let Some(text) = texts.pop() {
        for name in text.lines().filter_map(|l| l.trim().strip_prefix("#include \"")?.split('"').next()) {
            if let Some(h) = headers.iter().find(|h| h.path == name)
                && !found.contains(h)
            {
                found.push(*h);
                texts.push(h.text);
            }
        }
    }
    found.sort_by_key(|h| h.path);
    found
}

/// Reads what `ptxas -v` says of each entry: registers, shared memory and spills.
fn parse_log(log: &str, file: &str, architecture: &str) -> Vec<KernelStats> {
    let mut all: Vec<KernelStats> = Vec::new();
    for line in log.lines() {
        if let Some(entry) = line.split("Compiling entry function '").nth(1).and_then(|r| r.split('\'').next()) {
            all.push(KernelStats {
                file: file.into(),
                entry: entry.into(),
                architecture: architecture.into(),
                ..KernelStats::default()
            });
        }
        let Some(kernel) = all.last_mut() else { continue };
        let number_before = |unit: &str| -> Option<u32> {
            line.split(unit)
                .next()
                .filter(|head| head.len() < line.len())?
                .rsplit([' ', ','])
                .find(|w| !w.is_empty())?
                .parse()
                .ok()
        };
        if let Some(n) = number_before(" bytes spill stores") {
            kernel.spill_store_bytes = n;
        }
        if let Some(n) = number_before(" bytes spill loads") {
            kernel.spill_load_bytes = n;
        }
        if let Some(n) = number_before(" registers") {
            kernel.registers = n;
        }
        if let Some(n) = number_before(" bytes smem") {
            kernel.static_shared_bytes = n;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assembler_s_words_are_read() {
        let log = "ptxas info    : 24 bytes gmem\n\
            ptxas info    : Compiling entry function 'update' for 'sm_90'\n\
            ptxas info    : Function properties for update\n\
            ptxas         .     0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 32 registers, used 1 barriers, 192 bytes smem\n\
            ptxas info    : Compiling entry function 'pass' for 'sm_90'\n\
            ptxas info    : Used 64 registers, used 0 barriers\n";
        let stats = parse_log(log, "f.cu", "sm_90");
        let seen: Vec<_> = stats
            .iter()
            .map(|s| (s.entry.as_str(), s.registers, s.static_shared_bytes, s.spill_store_bytes, s.spill_load_bytes))
            .collect();
        assert_eq!(seen, [("update", 32, 192, 4, 8), ("pass", 64, 0, 0, 0)]);
    }

    #[test]
    fn headers_are_followed() {
        const HEADERS: &[Source] = &[
            Source { path: "a.cuh", text: "#include \"b.cuh\"" },
            Source { path: "b.cuh", text: "" },
            Source { path: "c.cuh", text: "" },
        ];
        let names: Vec<_> = reachable("// x\n#include \"a.cuh\"\n", HEADERS).iter().map(|h| h.path).collect();
        assert_eq!(names, ["a.cuh", "b.cuh"]);
    }
}
