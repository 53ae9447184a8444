//! The numbers of functions' locals, a quarter of what a reader loads.

use super::{Functions, operators};
use anyhow::Result;
use std::cmp::Reverse;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Function, Instruction, MemArg, Module};
use wasmparser::{FunctionBody, Operator, Parser, ValType};

/// The same module with a function's locals numbered from those that are used most, so that functions which do alike have more in common.
///
/// It says nothing of alignment either, which is a hint that browsers do not use.
pub fn renumbered(wasm: &[u8]) -> Result<Vec<u8>> {
    let all = Functions::of(wasm)?;
    let arguments: Vec<usize> = all.types.iter().map(|t| all.signatures[*t as usize].params().len()).collect();
    let mut rewritten = Renumbered { arguments: arguments.into_iter(), numbers: Vec::new() };
    let mut module = Module::new();
    let cannot = |e| anyhow::anyhow!("locals in the viewer's WebAssembly cannot be numbered: {e}");
    rewritten.parse_core_module(&mut module, Parser::new(0), wasm).map_err(cannot)?;
    Ok(module.finish())
}

/// A local that is not an argument.
struct Local {
    old: usize,
    of_type: ValType,
    uses: usize,
    first_use: usize,
}

impl Local {
    /// Those of a type are declared together; those that are used about equally often are in the order of their use.
    fn place(&self) -> (u8, Reverse<u32>, usize) {
        let of_type = match self.of_type {
            ValType::I32 => 0,
            ValType::F64 => 1,
            ValType::I64 => 2,
            ValType::F32 => 3,
            _ => 4,
        };
        (of_type, Reverse(usize::BITS - self.uses.leading_zeros()), self.first_use)
    }
}

/// The locals that are used, in their new order.
fn locals(body: &FunctionBody<'_>, arguments: usize) -> Result<Vec<Local>, wasmparser::BinaryReaderError> {
    let mut all = Vec::new();
    for of in body.get_locals_reader()? {
        let (count, of_type) = of?;
        for _ in 0..count {
            all.push(Local { old: arguments + all.len(), of_type, uses: 0, first_use: usize::MAX });
        }
    }
    for (at, op) in operators(body)?.iter().enumerate() {
        if let Some(local) = local_of(op).and_then(|i| all.get_mut(i.checked_sub(arguments)?)) {
            local.uses += 1;
            local.first_use = local.first_use.min(at);
        }
    }
    all.retain(|l| l.uses > 0);
    all.sort_by_key(Local::place);
    Ok(all)
}

fn local_of(op: &Operator<'_>) -> Option<usize> {
    match op {
        Operator::LocalGet { local_index }
        | Operator::LocalSet { local_index }
        | Operator::LocalTee { local_index } => Some(*local_index as usize),
        _ => None,
    }
}

struct Renumbered {
    /// How many arguments each function has that is yet to come.
    arguments: std::vec::IntoIter<usize>,
    /// The new numbers in the function at hand, by the old ones.
    numbers: Vec<u32>,
}

impl Renumbered {
    fn number(&self, old: u32) -> u32 {
        self.numbers[old as usize]
    }
}

impl Reencode for Renumbered {
    type Error = Infallible;

    fn mem_arg(&mut self, arg: wasmparser::MemArg) -> Result<MemArg, Error<Infallible>> {
        Ok(MemArg { align: 0, ..utils::mem_arg(self, arg)? })
    }

    fn instruction<'a>(&mut self, arg: Operator<'a>) -> Result<Instruction<'a>, Error<Infallible>> {
        Ok(match utils::instruction(self, arg)? {
            Instruction::LocalGet(old) => Instruction::LocalGet(self.number(old)),
            Instruction::LocalSet(old) => Instruction::LocalSet(self.number(old)),
            Instruction::LocalTee(old) => Instruction::LocalTee(self.number(old)),
            other => other,
        })
    }

    fn parse_function_body(&mut self, code: &mut CodeSection, body: FunctionBody<'_>) -> Result<(), Error<Infallible>> {
        let arguments = self.arguments.next().unwrap_or_default();
        let locals = locals(&body, arguments)?;
        let least = locals.iter().map(|l| l.old + 1).fold(arguments, usize::max);
        self.numbers = (0..).take(least).collect();
        let mut types = Vec::new();
        for (number, local) in (arguments..).zip(&locals) {
            self.numbers[local.old] = number as u32;
            types.push(self.val_type(local.of_type)?);
        }
        let mut function = Function::new_with_locals_types(types);
        for op in operators(&body)? {
            function.instruction(&self.instruction(op)?);
        }
        code.function(&function);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::tests::module;

    #[test]
    fn locals_are_numbered_by_their_use() {
        // An argument; a number that is used once, one that is not, one that is used often, and two others.
        let locals = [ValType::F64, ValType::I32, ValType::I32, ValType::I32, ValType::F64];
        let used = [1, 2, 4, 4, 4, 0, 5].map(Instruction::LocalGet);
        let body = used.into_iter().flat_map(|get| [get, Instruction::Drop]).chain([Instruction::End]).collect();
        let wasm = renumbered(&module(&[ValType::I32], &locals, &[body])).unwrap();
        let all = Functions::of(&wasm).unwrap();
        let numbers: Vec<usize> = operators(&all.bodies[0]).unwrap().iter().filter_map(local_of).collect();
        assert_eq!(numbers, [3, 2, 1, 1, 1, 0, 4]);
        let declared: Vec<_> = all.bodies[0].get_locals_reader().unwrap().into_iter().map(|l| l.unwrap()).collect();
        assert_eq!(declared, [(2, ValType::I32), (2, ValType::F64)]);
    }
}
