//! One list of instructions for an entry: device functions are put in place of their calls.
//!
//! A call's parameters are variables of the caller; the callee's parameters become the same places in the thread's frame, so nothing is copied. What is left of
//! calls are those of the runtime: `vprintf` and `__assertfail`.

use crate::Refusal;
use crate::ptx::{Function, Instruction, Module, Operand, Register, Space, Type, Variable, VariableId};

/// Instructions that an entry may have with all its calls.
const MOST_INSTRUCTIONS: usize = 1_000_000;
/// Bytes of a thread's frame: the limit of local memory on a GPU.
const MOST_FRAME: u64 = 512 << 10;

/// Where a variable of a function is.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// Among the launch's parameters.
    Parameter(u64),
    /// In the thread's frame.
    Frame(u64),
    /// In the block's shared memory, by name, which is laid out later.
    Shared(Variable),
}

/// An entry with everything that it calls.
pub(super) struct Flat {
    /// Registers, targets and variables of functions are numbered anew: a variable is an index of `slots`.
    pub(super) instructions: Vec<Instruction>,
    pub(super) registers: Vec<Type>,
    pub(super) slots: Vec<Slot>,
    pub(super) frame_bytes: u64,
    pub(super) parameters: Vec<Parameter>,
}

/// A parameter of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Flattens an entry.
pub(super) fn flatten(module: &Module, entry: &Function) -> Result<Flat, Refusal> {
    let flat = Flat {
        instructions: Vec::new(),
        registers: Vec::new(),
        slots: Vec::new(),
        frame_bytes: 0,
        parameters: Vec::new(),
    };
    let mut flattener = Flattener { module, flat, callers: Vec::new() };
    let mut offset = 0;
    for index in &entry.parameters {
        let variable = &entry.variables[*index as usize];
        let start = align(offset, variable.align);
        flattener.flat.parameters.push(Parameter { offset: start, bytes: variable.bytes });
        offset = start + variable.bytes;
    }
    let places = flattener.flat.parameters.iter().map(|p| Slot::Parameter(p.offset)).collect();
    flattener.function(entry, places)?;
    Ok(flattener.flat)
}

/// The next multiple of an alignment.
pub(super) fn align(offset: u64, to: u64) -> u64 {
    offset.next_multiple_of(to.max(1))
}

struct Flattener<'m> {
    module: &'m Module,
    flat: Flat,
    /// Functions being flattened, by name, to find recursion.
    callers: Vec<String>,
}

impl Flattener<'_> {
    /// Appends a function; `places` are its results and parameters.
    fn function(&mut self, function: &Function, places: Vec<Slot>) -> Result<(), Refusal> {
        if self.callers.contains(&function.name) {
            return Err(Refusal::new(
                function.at,
                format!("`{}` calls itself: recursion is not supported.", function.name),
            ));
        }
        self.callers.push(function.name.clone());
        let first_register = count(self.flat.registers.len());
        self.flat.registers.extend(&function.registers);
        let first_slot = self.slots(function, places)?;
        let mut starts = Vec::with_capacity(function.instructions.len() + 1);
        let mut own = Vec::new();
        for instruction in &function.instructions {
            starts.push(count(self.flat.instructions.len()));
            if self.flat.instructions.len() > MOST_INSTRUCTIONS {
                return Err(Refusal::new(
                    function.at,
                    format!("More than {MOST_INSTRUCTIONS} instructions are not supported."),
                ));
            }
            let mut new = instruction.clone();
            if let Some((register, _)) = &mut new.guard {
                register.0 += first_register;
            }
            new.operands.iter_mut().for_each(|operand| renumber(operand, first_register, first_slot));
            match instruction.opcode.split('.').next() {
                Some("call") => self.call(new)?,
                Some("ret") if self.callers.len() > 1 => {
                    new.opcode = "bra".into();
                    new.operands = vec![Operand::Target(count(function.instructions.len()))];
                    own.push(self.flat.instructions.len());
                    self.flat.instructions.push(new);
                }
                _ => {
                    own.push(self.flat.instructions.len());
                    self.flat.instructions.push(new);
                }
            }
        }
        starts.push(count(self.flat.instructions.len()));
        for index in own {
            self.flat.instructions[index].operands.iter_mut().for_each(|operand| retarget(operand, &starts));
        }
        self.callers.pop();
        Ok(())
    }

    /// Gives a function's variables their places; returns the index of the first.
    fn slots(&mut self, function: &Function, places: Vec<Slot>) -> Result<u32, Refusal> {
        let first = self.flat.slots.len();
        let given: Vec<u32> = function.results.iter().chain(&function.parameters).copied().collect();
        for (index, variable) in function.variables.iter().enumerate() {
            let place = given.iter().position(|g| *g as usize == index).and_then(|at| places.get(at).cloned());
            let slot = match (place, variable.space) {
                (Some(place), _) => place,
                (None, Space::Shared) => Slot::Shared(variable.clone()),
                (None, _) => {
                    let start = align(self.flat.frame_bytes, variable.align.max(8));
                    self.flat.frame_bytes = start + variable.bytes;
                    Slot::Frame(start)
                }
            };
            self.flat.slots.push(slot);
        }
        if self.flat.frame_bytes > MOST_FRAME {
            return Err(Refusal::new(function.at, format!("A thread's frame may have {MOST_FRAME} bytes.")));
        }
        Ok(count(first))
    }

    /// Puts a device function in place of its call; calls of the runtime stay.
    fn call(&mut self, call: Instruction) -> Result<(), Refusal> {
        let refuse =
            |message: String| Err(Refusal { place: call.place.as_deref().cloned(), ..Refusal::new(call.at, message) });
        let name = call.operands.iter().find_map(|operand| match operand {
            Operand::Function(name) => Some(name),
            _ => None,
        });
        let Some(name) = name else { return refuse("A call through a pointer is not supported.".into()) };
        let Some(function) = self.module.functions.iter().find(|f| f.name == *name) else {
            return refuse(format!("`{name}` is not known."));
        };
        if !function.has_body {
            self.flat.instructions.push(call);
            return Ok(());
        }
        if call.guard.is_some() {
            return refuse("A call that depends on a predicate is not supported.".into());
        }
        let mut places = Vec::new();
        for operand in &call.operands {
            let Operand::List(list) = operand else { continue };
            for value in list {
                match value {
                    Operand::Variable(VariableId::Function(slot), 0) => {
                        places.push(self.flat.slots[*slot as usize].clone())
                    }
                    _ => return refuse("A call's parameters have to be variables.".into()),
                }
            }
        }
        if places.len() != function.results.len() + function.parameters.len() {
            return refuse(format!("`{name}` takes {} parameters.", function.parameters.len()));
        }
        let function = function.clone();
        self.function(&function, places)
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn renumber(operand: &mut Operand, first_register: u32, first_slot: u32) {
    let move_register = |register: &mut Register| register.0 += first_register;
    match operand {
        Operand::Register(register) | Operand::Not(register) => move_register(register),
        Operand::Pair(a, b) => [a, b].into_iter().flatten().for_each(move_register),
        Operand::Variable(VariableId::Function(index), _) => *index += first_slot,
        Operand::Address(base, _) => renumber(base, first_register, first_slot),
        Operand::Vector(all) | Operand::List(all) => {
            all.iter_mut().for_each(|operand| renumber(operand, first_register, first_slot));
        }
        _ => {}
    }
}

fn retarget(operand: &mut Operand, starts: &[u32]) {
    match operand {
        Operand::Target(target) => *target = starts[*target as usize],
        Operand::Vector(all) => all.iter_mut().for_each(|operand| retarget(operand, starts)),
        _ => {}
    }
}
