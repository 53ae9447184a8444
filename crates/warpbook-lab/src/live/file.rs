//! Kernel files: their text, and headers in the same folder.

use super::LiveKernel;
use crate::{Error, Result};
use std::path::Path;
use warpbook_device::read_kernel;

impl LiveKernel {
    /// Reads a file of CUDA C++ in UTF-8, with the headers that it includes from the same folder.
    ///
    /// # Errors
    /// If a file cannot be read, or is not UTF-8 text; the message names the line.
    pub fn file(mut self, path: impl AsRef<Path>) -> Result<Self> {
        (self.source, self.headers) = read_kernel(path.as_ref()).map_err(Error::Setting)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_of_a_file_go_with_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("k.cu"), "#include \"mine.cuh\"").unwrap();
        std::fs::write(folder.path().join("mine.cuh"), "// mine").unwrap();
        let live = LiveKernel::for_rung("02_coalesced").unwrap().file(folder.path().join("k.cu")).unwrap();
        assert_eq!(live.rung().kernels()[0].headers.len(), 1);
        assert!(live.source("int x;").headers.is_empty(), "another source has none of them");
    }
}
