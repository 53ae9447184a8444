//! Copies of a few words as calls.
//!
//! The compiler writes a copy of up to 32 bytes out in place, wherever a text or a list is moved: a load and a store for each word. Here the
//! copies of the same words in the same order become calls of one function.

use super::{Functions, operators};
use anyhow::Result;
use std::collections::BTreeMap;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{CodeSection, Function, FunctionSection, Instruction, MemArg, Module};
use wasmparser::{CodeSectionReader, FuncType, FunctionBody, FunctionSectionReader, Operator, Parser, ValType};

/// Copies of fewer bytes, and those in fewer places, stay as they are.
const LEAST_BYTES: i32 = 12;
const LEAST_USES: usize = 3;
/// A word's instructions: the addresses of both ends, the load and the store.
const STEPS: usize = 4;

/// The same module with calls for copies.
pub fn called(wasm: &[u8]) -> Result<Vec<u8>> {
    let mut copiers = Copiers::of(wasm)?;
    let mut module = Module::new();
    let cannot = |e| anyhow::anyhow!("copies in the viewer's WebAssembly cannot become calls: {e}");
    copiers.parse_core_module(&mut module, Parser::new(0), wasm).map_err(cannot)?;
    Ok(module.finish())
}

/// A local that holds an address, and the offset from it.
type Address = (u32, i32);

/// A word that is loaded and stored.
struct Word {
    to: Address,
    from: Address,
    bytes: i32,
    /// Whether the local that it goes to is set just then.
    sets: bool,
}

impl Word {
    fn of(ops: &[Operator<'_>]) -> Option<Self> {
        let [to, Operator::LocalGet { local_index: from }, load, store] = ops else { return None };
        let (Operator::LocalGet { local_index: to } | Operator::LocalTee { local_index: to }) = to else { return None };
        let (load, store, bytes) = match (load, store) {
            (Operator::I32Load { memarg: load }, Operator::I32Store { memarg: store }) => (load, store, 4),
            (Operator::I64Load { memarg: load }, Operator::I64Store { memarg: store }) => (load, store, 8),
            _ => return None,
        };
        let offset = |m: &wasmparser::MemArg| i32::try_from(m.offset).ok();
        let sets = matches!(ops[0], Operator::LocalTee { .. });
        Some(Self { to: (*to, offset(store)?), from: (*from, offset(load)?), bytes, sets })
    }

    /// Whether both are copied between the same addresses, equally far.
    fn goes_on(&self, first: &Self) -> bool {
        let distance = |w: &Self| w.to.1 - w.from.1;
        !self.sets && (self.to.0, self.from.0, distance(self)) == (first.to.0, first.from.0, distance(first))
    }
}

/// The words of a copy in the order of their copying: where each begins, from the lowest, and its bytes.
type Shape = Vec<(i32, i32)>;

/// Words next to each other that are copied one after the other.
struct Copy {
    to: Address,
    from: Address,
    sets: bool,
    shape: Shape,
}

impl Copy {
    /// The one that these instructions begin with.
    fn first(ops: &[Operator<'_>]) -> Option<Self> {
        let mut all = ops.chunks_exact(STEPS).map_while(Word::of);
        let first = all.next()?;
        let (mut low, mut high) = (first.to.1, first.to.1 + first.bytes);
        let mut words = vec![(low, first.bytes)];
        for word in all.take_while(|w| w.goes_on(&first)) {
            let (begin, end) = (word.to.1, word.to.1 + word.bytes);
            if begin != high && end != low {
                break;
            }
            (low, high) = (low.min(begin), high.max(end));
            words.push((begin, word.bytes));
        }
        Some(Self {
            to: (first.to.0, low),
            from: (first.from.0, first.from.1 - first.to.1 + low),
            sets: first.sets,
            shape: words.into_iter().map(|(begin, bytes)| (begin - low, bytes)).collect(),
        })
    }

    fn bytes(&self) -> i32 {
        self.shape.iter().map(|w| w.1).sum()
    }

    fn steps(&self) -> usize {
        STEPS * self.shape.len()
    }

    fn call(&self, copier: u32, function: &mut Function) {
        let (to, from) = (self.to.0, self.from.0);
        function.instruction(&if self.sets { Instruction::LocalTee(to) } else { Instruction::LocalGet(to) });
        add(function, self.to.1);
        function.instruction(&Instruction::LocalGet(from));
        add(function, self.from.1);
        function.instruction(&Instruction::Call(copier));
    }
}

fn add(function: &mut Function, offset: i32) {
    if offset != 0 {
        function.instruction(&Instruction::I32Const(offset)).instruction(&Instruction::I32Add);
    }
}

/// The copies among a function's instructions.
fn copies(ops: &[Operator<'_>]) -> Vec<Copy> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < ops.len() {
        let copy = Copy::first(&ops[at..]);
        at += copy.as_ref().map_or(1, Copy::steps);
        out.extend(copy.filter(|c| c.bytes() >= LEAST_BYTES));
    }
    out
}

/// The functions that copy, by number.
struct Copiers {
    numbers: BTreeMap<Shape, u32>,
    /// The type of a function of two addresses.
    of_type: u32,
}

impl Copiers {
    fn of(wasm: &[u8]) -> Result<Self> {
        let functions = Functions::of(wasm)?;
        let of_two = |t: &FuncType| t.params() == [ValType::I32; 2] && t.results().is_empty();
        let Some(of_type) = functions.signatures.iter().position(of_two) else {
            return Ok(Self { numbers: BTreeMap::new(), of_type: 0 });
        };
        let mut uses: BTreeMap<Shape, usize> = BTreeMap::new();
        for body in &functions.bodies {
            for copy in copies(&operators(body)?) {
                *uses.entry(copy.shape).or_default() += 1;
            }
        }
        let many = uses.into_iter().filter(|(_, n)| *n >= LEAST_USES).map(|(shape, _)| shape);
        let next = functions.imported + u32::try_from(functions.bodies.len())?;
        Ok(Self { numbers: many.zip(next..).collect(), of_type: u32::try_from(of_type)? })
    }
}

/// A function that copies to its first argument from its second, word by word as it was in place.
fn copier(shape: &Shape) -> Function {
    let mut function = Function::new([]);
    for (begin, bytes) in shape {
        let at = MemArg { offset: u64::from(begin.unsigned_abs()), align: 0, memory_index: 0 };
        let (load, store) = match bytes {
            4 => (Instruction::I32Load(at), Instruction::I32Store(at)),
            _ => (Instruction::I64Load(at), Instruction::I64Store(at)),
        };
        function.instruction(&Instruction::LocalGet(0)).instruction(&Instruction::LocalGet(1));
        function.instruction(&load).instruction(&store);
    }
    function.instruction(&Instruction::End);
    function
}

impl Reencode for Copiers {
    type Error = Infallible;

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_function_section(self, functions, section)?;
        self.numbers.iter().for_each(|_| {
            functions.function(self.of_type);
        });
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error<Infallible>> {
        utils::parse_code_section(self, code, section)?;
        self.numbers.keys().for_each(|shape| {
            code.function(&copier(shape));
        });
        Ok(())
    }

    fn parse_function_body(&mut self, code: &mut CodeSection, body: FunctionBody<'_>) -> Result<(), Error<Infallible>> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let ops = operators(&body)?;
        let mut at = 0;
        while at < ops.len() {
            let copy = Copy::first(&ops[at..]);
            if let Some((copy, copier)) = copy.and_then(|c| self.numbers.get(&c.shape).map(|n| (c, *n))) {
                copy.call(copier, &mut function);
                at += copy.steps();
            } else {
                function.instruction(&self.instruction(ops[at].clone())?);
                at += 1;
            }
        }
        code.function(&function);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::tests::module;

    /// The words of a text: its length behind its address and its capacity.
    const TEXT: [(u64, i32); 2] = [(8, 4), (0, 8)];

    /// Copies these words from the second local to the first, which is set before.
    fn copy(words: &[(u64, i32)], from: u64, to: u64) -> Vec<Instruction<'static>> {
        let at = |offset| MemArg { offset, align: 2, memory_index: 0 };
        let word = |(i, (begin, bytes)): (usize, &(u64, i32))| {
            let (load, store) = (at(from + begin), at(to + begin));
            let ends = match i {
                0 => vec![Instruction::LocalGet(0), Instruction::LocalTee(2), Instruction::LocalGet(1)],
                _ => vec![Instruction::LocalGet(2), Instruction::LocalGet(1)],
            };
            let moved = match bytes {
                4 => [Instruction::I32Load(load), Instruction::I32Store(store)],
                _ => [Instruction::I64Load(load), Instruction::I64Store(store)],
            };
            ends.into_iter().chain(moved).collect::<Vec<_>>()
        };
        words.iter().enumerate().flat_map(word).chain([Instruction::End]).collect()
    }

    /// What is in memory after a function has run.
    fn run(functions: &Functions<'_>, number: usize, arguments: [i32; 2], memory: &mut Vec<u8>) {
        let (mut locals, mut stack) = ([arguments[0], arguments[1], 0], Vec::new());
        let place = |address: i64, m: &wasmparser::MemArg| (address as u64 + m.offset) as usize;
        for op in operators(&functions.bodies[number]).unwrap() {
            let mut pop = || stack.pop().unwrap();
            match op {
                Operator::LocalGet { local_index } => stack.push(i64::from(locals[local_index as usize])),
                Operator::LocalTee { local_index } => locals[local_index as usize] = *stack.last().unwrap() as i32,
                Operator::I32Const { value } => stack.push(value.into()),
                Operator::I32Add => {
                    let sum = pop() + pop();
                    stack.push(sum);
                }
                Operator::I32Load { memarg } => {
                    let at = place(pop(), &memarg);
                    stack.push(i32::from_le_bytes(memory[at..at + 4].try_into().unwrap()).into());
                }
                Operator::I64Load { memarg } => {
                    let at = place(pop(), &memarg);
                    stack.push(i64::from_le_bytes(memory[at..at + 8].try_into().unwrap()));
                }
                Operator::I32Store { memarg } => {
                    let (value, at) = (pop() as i32, place(pop(), &memarg));
                    memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
                Operator::I64Store { memarg } => {
                    let (value, at) = (pop(), place(pop(), &memarg));
                    memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
                }
                Operator::Call { function_index } => {
                    let (from, to) = (pop() as i32, pop() as i32);
                    run(functions, (function_index - functions.imported) as usize, [to, from], memory);
                }
                Operator::End => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_call_copies_as_it_was_in_place() {
        let longer = [(16, 8), (8, 8), (0, 8)];
        let bodies = [copy(&TEXT, 0, 0), copy(&TEXT, 4, 20), copy(&TEXT, 20, 0), copy(&longer, 8, 0)];
        let before = module(&[ValType::I32; 2], &[ValType::I32], &bodies);
        let after = called(&before).unwrap();
        let (before, after) = (Functions::of(&before).unwrap(), Functions::of(&after).unwrap());
        // One function for the texts, and none for what is in one place only.
        assert_eq!((before.bodies.len(), after.bodies.len()), (4, 5));
        let calls = |body| operators(body).unwrap().iter().any(|op| matches!(op, Operator::Call { .. }));
        assert_eq!(after.bodies.iter().map(calls).collect::<Vec<_>>(), [true, true, true, false, false]);
        // Also where both ends overlap.
        for (number, to, from) in (0..4).flat_map(|n| [(n, 0, 40), (n, 40, 0), (n, 10, 14), (n, 14, 10), (n, 9, 9)]) {
            let mut memory = [(0..100).collect::<Vec<u8>>(), (0..100).collect()];
            run(&before, number, [to, from], &mut memory[0]);
            run(&after, number, [to, from], &mut memory[1]);
            assert_eq!(memory[0], memory[1], "function {number} from {from} to {to}");
        }
    }

    #[test]
    fn what_only_looks_like_a_copy_stays() {
        let mut apart = copy(&[(0, 8), (12, 4)], 0, 0);
        let again = |body: &Vec<_>| module(&[ValType::I32; 2], &[ValType::I32], &vec![body.clone(); LEAST_USES]);
        assert_eq!(Functions::of(&called(&again(&apart)).unwrap()).unwrap().bodies.len(), LEAST_USES);
        // The second word comes from somewhere else.
        apart = copy(&TEXT, 0, 0);
        apart[6] = Instruction::LocalGet(0);
        assert_eq!(Functions::of(&called(&again(&apart)).unwrap()).unwrap().bodies.len(), LEAST_USES);
    }
}
