//! The viewer's WebAssembly, rewritten so that it can be compressed further. Each of its steps changes how code is written and not what it does.

mod copies;
mod locals;
mod order;

use anyhow::Result;
use wasmparser::{FuncType, FunctionBody, Operator, Parser, Payload, TypeRef};

/// The same module, of which a reader loads less.
pub fn small(wasm: &[u8]) -> Result<Vec<u8>> {
    let wasm = copies::called(wasm)?;
    let wasm = locals::renumbered(&wasm)?;
    order::ordered(&wasm)
}

/// The functions that a module defines.
struct Functions<'w> {
    /// Those that come before them by number.
    imported: u32,
    /// What each type takes and gives, by its number.
    signatures: Vec<FuncType>,
    types: Vec<u32>,
    bodies: Vec<FunctionBody<'w>>,
}

impl<'w> Functions<'w> {
    fn of(wasm: &'w [u8]) -> Result<Self> {
        let mut found = Self { imported: 0, signatures: Vec::new(), types: Vec::new(), bodies: Vec::new() };
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(all) => {
                    found.signatures = all.into_iter_err_on_gc_types().collect::<Result<_, _>>()?;
                }
                Payload::ImportSection(all) => {
                    for import in all.into_imports() {
                        found.imported += u32::from(matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
                    }
                }
                Payload::FunctionSection(all) => found.types = all.into_iter().collect::<Result<_, _>>()?,
                Payload::CodeSectionEntry(body) => found.bodies.push(body),
                _ => {}
            }
        }
        Ok(found)
    }
}

fn operators<'w>(body: &FunctionBody<'w>) -> Result<Vec<Operator<'w>>, wasmparser::BinaryReaderError> {
    body.get_operators_reader()?.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{
        CodeSection, Function, FunctionSection, Instruction, MemorySection, MemoryType, Module, TypeSection,
    };
    use wasmparser::ValType;

    /// A module of these functions, which have the same arguments and the same other locals.
    pub fn module(arguments: &[ValType], locals: &[ValType], bodies: &[Vec<Instruction<'_>>]) -> Vec<u8> {
        let encoded = |t: &ValType| wasm_encoder::ValType::try_from(*t).unwrap();
        let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
        let (mut memories, mut code) = (MemorySection::new(), CodeSection::new());
        types.ty().function(arguments.iter().map(encoded), []);
        memories.memory(MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None });
        for body in bodies {
            functions.function(0);
            let mut function = Function::new_with_locals_types(locals.iter().map(encoded));
            body.iter().for_each(|i| {
                function.instruction(i);
            });
            code.function(&function);
        }
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&memories).section(&code);
        module.finish()
    }
}
