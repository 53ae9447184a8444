//! Compiles a learner's attempt to PTX for compute capability 8.0, on every machine.

use crate::{Error, Result};
use warpbook_device::{CompileError, Compiler};
use warpbook_record::{Grid, KernelSpec, LIVE, Source, Tile};

/// The virtual architecture for every try; counts are then the same on every machine.
const ARCHITECTURE: &str = "compute_80";

/// Returns the kernel spec of a source, with a placeholder tile since exercises have no tiles.
pub(in crate::exercise) fn spec((file, entry): (&str, &'static str), text: &str) -> (KernelSpec, Tile) {
    let tile = Tile::new("exercise", &[]);
    let mut spec = KernelSpec::new(Source { path: "", text: "" }, entry, std::slice::from_ref(&tile), Grid::One);
    spec.file = format!("{LIVE}{file}").into();
    spec.source = text.to_owned().into();
    (spec, tile)
}

/// Compiles a source to PTX. A source that does not compile is returned as the inner error.
pub(in crate::exercise) fn compile(
    compiler: &Compiler,
    (file, entry): (&str, &'static str),
    text: &str,
) -> Result<std::result::Result<String, Box<CompileError>>> {
    let (spec, tile) = spec((file, entry), text);
    match compiler.compile_to_ptx(&spec, &tile, ARCHITECTURE) {
        Ok(ptx) => Ok(Ok(ptx)),
        Err(warpbook_device::Error::Compile(error)) => Ok(Err(error)),
        Err(error) => Err(Error::Device(error)),
    }
}

/// Returns PTX without comments, file names, line numbers and debug sections.
pub(crate) fn code(ptx: &str) -> String {
    let mut code = String::new();
    let mut is_section = false;
    for line in ptx.lines().map(str::trim) {
        is_section |= line.starts_with(".section");
        let is_place = [".loc", ".file", "//"].iter().any(|start| line.starts_with(start));
        // Only line information refers to these labels.
        let is_mark = line.starts_with("$L__tmp") || line.starts_with("$L__func");
        if !(is_section || is_place || is_mark || line.is_empty()) {
            code.push_str(line);
            code.push('\n');
        }
        is_section &= line != "}";
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_no_part_of_the_code() {
        let with = "// made by NVRTC\n.version 9.0\n\t.loc 1 3 5\n\tret;\n.file 1 \"live/E05.cu\"\n.section .debug_str\n{\n.b8 1\n}\nend\n";
        assert_eq!(code(with), ".version 9.0\nret;\nend\n");
        assert_eq!(code(&with.replace("3 5", "7 9")), code(with));
    }

    #[test]
    fn a_comment_changes_nothing_and_a_statement_does() {
        let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
        let code_of_body = |body: &str| {
            let text = format!("extern \"C\" __global__ void k(float* x)\n{{\n{body}\n}}\n");
            code(&compile(&compiler, ("t.cu", "k"), &text).unwrap().unwrap())
        };
        assert_eq!(code_of_body(""), code_of_body("\n\n    // TODO\n"));
        assert_ne!(code_of_body(""), code_of_body("x[0] = 1;"));
    }

    #[test]
    fn what_does_not_compile_is_told_with_its_line() {
        let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
        let error = compile(&compiler, ("t.cu", "k"), "__global__ void k() {\n  int a = b;\n}\n").unwrap().unwrap_err();
        let first = error.diagnostics.iter().find(|d| d.is_error).unwrap();
        assert_eq!((error.path.as_str(), first.line), ("live/t.cu", 2));
    }
}
