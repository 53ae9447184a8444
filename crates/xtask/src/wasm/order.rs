//! The order of a module's functions, which decides how far it can be compressed.
//!
//! Functions of a type lie next to each other, the shorter about first and those alike in a row, and those with the same code are one. A list of types and one of lengths that hardly change
//! compress to next to nothing, and like follows like.

use super::Functions;
use anyhow::Result;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{
    CodeSection, DataCountSection, DataSection, ElementSection, ExportSection, FunctionSection, GlobalSection,
    ImportSection, MemorySection, Module, StartSection, TableSection, TypeSection,
};
use wasmparser::{FunctionSectionReader, Parser, Payload};

/// The same module with its functions in that order, and without sections that no browser reads.
pub fn ordered(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut wasm = wasm.to_vec();
    // Callers of two functions that have become one may have the same code then.
    loop {
        let functions = Functions::of(&wasm)?;
        let (rewritten, merged) = functions.rewritten(&wasm)?;
        if merged == 0 {
            return Ok(rewritten);
        }
        wasm = rewritten;
    }
}

/// Bytes that functions are compared by, and how many of the next ones are compared.
const GRAM: usize = 5;
const AHEAD: usize = 1000;
/// What each function that is left for later costs of the likeness that is found further on.
const AWAY: f64 = 1e-4;

impl<'w> Functions<'w> {
    /// The same order with each function followed by that of the next few of its type that is most like it.
    fn by_likeness(&self, order: &[usize]) -> Vec<usize> {
        let of = |i: &usize| -> HashSet<&'w [u8]> { self.bodies[*i].as_bytes().windows(GRAM).collect() };
        let mut grams: Vec<HashSet<&[u8]>> = order.iter().map(of).collect();
        let mut left: Vec<usize> = (0..order.len()).collect();
        let mut out = Vec::new();
        let mut last: (Option<u32>, HashSet<&[u8]>) = (None, HashSet::new());
        while !left.is_empty() {
            let next = left.iter().take(AHEAD).take_while(|p| Some(self.types[order[**p]]) == last.0);
            let likeness = |(away, place): (usize, &usize)| {
                let shared = grams[*place].intersection(&last.1).count();
                shared as f64 / (1 + grams[*place].len()) as f64 - away as f64 * AWAY
            };
            let all = next.enumerate().map(likeness).enumerate();
            let best = all.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at);
            let place = left.remove(best);
            last = (Some(self.types[order[place]]), std::mem::take(&mut grams[place]));
            out.push(order[place]);
        }
        out
    }

    /// The module with these functions in order, and how many became another.
    fn rewritten(&self, wasm: &[u8]) -> Result<(Vec<u8>, usize)> {
        let mut first: HashMap<(u32, &[u8]), usize> = HashMap::new();
        let same: Vec<usize> = self
            .types
            .iter()
            .zip(&self.bodies)
            .enumerate()
            .map(|(i, (of, body))| *first.entry((*of, body.as_bytes())).or_insert(i))
            .collect();
        let mut order: Vec<usize> = (0..same.len()).filter(|i| same[*i] == *i).collect();
        order.sort_by_key(|i| (self.types[*i], self.bodies[*i].as_bytes().len()));
        let order = self.by_likeness(&order);
        let mut places = vec![0; same.len()];
        for (place, i) in order.iter().enumerate() {
            places[*i] = self.imported + u32::try_from(place)?;
        }
        let imported = 0..self.imported;
        let numbers = imported.chain(same.iter().map(|i| places[*i])).collect();
        let merged = same.len() - order.len();
        let mut renumbered = Renumbered { numbers, types: order.iter().map(|i| self.types[*i]).collect() };
        let mut code = CodeSection::new();
        for i in &order {
            renumbered.parse_function_body(&mut code, self.bodies[*i].clone()).map_err(said)?;
        }
        Ok((renumbered.module(wasm, &code)?, merged))
    }
}

fn said(error: Error<Infallible>) -> anyhow::Error {
    anyhow::anyhow!("the viewer's WebAssembly cannot be written again: {error}")
}

/// Puts each function's new number in place of its old one.
struct Renumbered {
    /// By the old numbers.
    numbers: Vec<u32>,
    /// In the new order.
    types: Vec<u32>,
}

impl Reencode for Renumbered {
    type Error = Infallible;

    fn function_index(&mut self, old: u32) -> Result<u32, Error<Infallible>> {
        Ok(self.numbers[old as usize])
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        _: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        for of in &self.types {
            functions.function(*of);
        }
        Ok(())
    }
}

impl Renumbered {
    fn module(&mut self, wasm: &[u8], code: &CodeSection) -> Result<Vec<u8>> {
        let mut module = Module::new();
        macro_rules! section {
            ($section:ident, $parse:ident, $reader:ident) => {{
                let mut section = $section::new();
                self.$parse(&mut section, $reader).map_err(said)?;
                module.section(&section);
            }};
        }
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(all) => section!(TypeSection, parse_type_section, all),
                Payload::ImportSection(all) => section!(ImportSection, parse_import_section, all),
                Payload::FunctionSection(all) => section!(FunctionSection, parse_function_section, all),
                Payload::TableSection(all) => section!(TableSection, parse_table_section, all),
                Payload::MemorySection(all) => section!(MemorySection, parse_memory_section, all),
                Payload::GlobalSection(all) => section!(GlobalSection, parse_global_section, all),
                Payload::ExportSection(all) => section!(ExportSection, parse_export_section, all),
                Payload::ElementSection(all) => section!(ElementSection, parse_element_section, all),
                Payload::DataSection(all) => section!(DataSection, parse_data_section, all),
                Payload::StartSection { func, .. } => {
                    module.section(&StartSection { function_index: self.numbers[func as usize] });
                }
                Payload::DataCountSection { count, .. } => {
                    module.section(&DataCountSection { count });
                }
                Payload::CodeSectionStart { .. } => {
                    module.section(code);
                }
                Payload::TagSection(_) => {
                    anyhow::bail!("the viewer's WebAssembly has tags, which are not expected in it")
                }
                _ => {}
            }
        }
        Ok(module.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{ExportKind, Function, Instruction, ValType};
    use wasmparser::FunctionBody;

    /// Functions 0 (imported, without a result), 1 (calls 3), 2 and 3 (the same), 4 (calls 2): numbers, but for the import.
    fn sample() -> Vec<u8> {
        let (mut types, mut imports, mut functions) =
            (TypeSection::new(), ImportSection::new(), FunctionSection::new());
        types.ty().function([], [ValType::I32]);
        types.ty().function([], []);
        imports.import("a", "b", wasm_encoder::EntityType::Function(1));
        (0..4).for_each(|_| {
            functions.function(0);
        });
        let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
        exports.export("first", ExportKind::Func, 1).export("last", ExportKind::Func, 4);
        let calls = |number| [Instruction::Call(0), Instruction::Call(number), Instruction::End];
        let constant = || [Instruction::I32Const(7), Instruction::End];
        for body in [&calls(3)[..], &constant(), &constant(), &calls(2)] {
            let mut function = Function::new([]);
            body.iter().for_each(|i| {
                function.instruction(i);
            });
            code.function(&function);
        }
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
        module.finish()
    }

    #[test]
    fn equal_functions_become_one_and_so_do_their_callers() {
        let wasm = ordered(&sample()).unwrap();
        let all = Functions::of(&wasm).unwrap();
        assert_eq!((all.imported, all.bodies.len()), (1, 2));
        let calls = |body: &FunctionBody<'_>| -> Vec<u32> {
            let operators = body.get_operators_reader().unwrap().into_iter();
            let call = |o| match o {
                wasmparser::Operator::Call { function_index } => Some(function_index),
                _ => None,
            };
            operators.filter_map(|o| call(o.unwrap())).collect()
        };
        // The constant is the shorter one, and both exports are what calls it.
        assert_eq!(all.bodies.iter().map(calls).collect::<Vec<_>>(), [vec![], vec![0, 1]]);
        let exported = Parser::new(0).parse_all(&wasm).find_map(|p| match p.unwrap() {
            Payload::ExportSection(all) => Some(all.into_iter().map(|e| e.unwrap().index).collect::<Vec<_>>()),
            _ => None,
        });
        assert_eq!(exported.unwrap(), [2, 2]);
        let again = ordered(&wasm).unwrap();
        assert_eq!(Functions::of(&again).unwrap().bodies.len(), 2);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(ordered(b"\0asm").is_err());
    }
}
