//! Turns an entry into one list of steps, by inlining the device functions that it calls.
//!
//! The parameters of a call are variables of the caller. The callee's parameters use the same addresses in the thread's frame, so nothing is copied. The only
//! calls that remain are runtime calls: `vprintf` and `__assertfail`.

use super::action::{Action, NONE, RowIndex, Step};
use super::rows::RowKind;
use crate::Refusal;
use crate::ptx::{Function, Instruction, Module, Operand, Space, Variable, VariableId};
use std::collections::HashMap;

/// Limit on the number of steps, and on the number of register rows, of a kernel including all functions it calls.
const MOST: usize = 200_000;
/// Maximum size of a thread's frame in bytes: the limit of local memory on a GPU.
const MOST_FRAME: u64 = 512 << 10;

/// The place in which a variable is stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum VariablePlace {
    /// An offset in the parameters of the launch.
    Parameter(u64),
    /// An offset in the thread's frame, which is its local memory.
    Frame(u64),
    Shared(u64),
    /// The start of dynamic shared memory.
    DynamicShared,
    Memory(Space, u64),
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Rounds an offset up to a multiple of an alignment.
fn align(offset: u64, to: u64) -> u64 {
    offset.next_multiple_of(to.max(1))
}

pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}

/// The state of decoding an entry.
pub(super) struct Decoder<'m> {
    module: &'m Module,
    /// Addresses of the module's variables in global and constant memory.
    addresses: &'m [u64],
    pub(super) steps: Vec<Step>,
    pub(super) rows: Vec<RowKind>,
    /// Rows whose values never change, by their contents.
    fixed: HashMap<RowKind, RowIndex>,
    pub(super) frame_bytes: u64,
    pub(super) shared_bytes: u64,
    /// Alignment of dynamic shared memory, whose size the launch sets.
    dynamic_align: u64,
    /// Addresses of variables in shared memory, by function and variable name.
    pub(super) shared: HashMap<(&'m str, &'m str), u64>,
    /// Names of the functions that are being decoded, from the entry to the innermost call.
    callers: Vec<&'m str>,
    /// First register row of the innermost function, and the places of that function's variables.
    first_register: u32,
    places: Vec<VariablePlace>,
    /// The instruction that is being decoded.
    pub(super) current: &'m Instruction,
}

impl<'m> Decoder<'m> {
    /// Decodes an entry of a module. Also returns the parameters of the entry.
    pub(super) fn entry(
        module: &'m Module,
        addresses: &'m [u64],
        entry: &'m Function,
    ) -> Result<(Self, Vec<Parameter>), Refusal> {
        let Some(current) = entry.instructions.first() else {
            return Err(Refusal::new(entry.at, format!("`{}` has no instructions.", entry.name)));
        };
        let mut decoder = Self {
            module,
            addresses,
            steps: Vec::new(),
            rows: Vec::new(),
            fixed: HashMap::new(),
            frame_bytes: 0,
            shared_bytes: 0,
            dynamic_align: 1,
            shared: HashMap::new(),
            callers: Vec::new(),
            first_register: 0,
            places: Vec::new(),
            current,
        };
        let mut parameters: Vec<Parameter> = Vec::new();
        for variable in entry.parameters.iter().map(|index| &entry.variables[*index as usize]) {
            let end = parameters.last().map_or(0, |last| last.offset + last.bytes);
            parameters.push(Parameter { offset: align(end, variable.align), bytes: variable.bytes });
        }
        let places: Vec<VariablePlace> = parameters.iter().map(|p| VariablePlace::Parameter(p.offset)).collect();
        decoder.function(entry, &places)?;
        let line = decoder.steps.last().map_or(entry.at.0, |last| last.line);
        let (action, opcode) = (Action::Exit, "".into());
        decoder.steps.push(Step { guard: None, action, opcode, meet: NONE, line, position: None });
        decoder.shared_bytes = align(decoder.shared_bytes, decoder.dynamic_align);
        Ok((decoder, parameters))
    }

    /// Appends the steps of a function. `given` has the places of its results and parameters.
    fn function(&mut self, function: &'m Function, given: &[VariablePlace]) -> Result<(), Refusal> {
        if self.callers.contains(&&*function.name) {
            let message = format!("`{}` calls itself: recursion is not supported.", function.name);
            return Err(Refusal::new(function.at, message));
        }
        self.callers.push(&function.name);
        let outer_register = std::mem::replace(&mut self.first_register, count(self.rows.len()));
        self.rows.extend(function.registers.iter().map(|ty| RowKind::Register(ty.bytes())));
        let places = self.place_variables(function, given);
        let outer_places = std::mem::replace(&mut self.places, places);
        let (mut starts, mut own) = (Vec::with_capacity(function.instructions.len() + 1), Vec::new());
        for instruction in &function.instructions {
            starts.push(count(self.steps.len()));
            if self.steps.len().max(self.rows.len()) > MOST || self.frame_bytes > MOST_FRAME {
                let message = format!(
                    "More than {MOST} instructions or registers, or {MOST_FRAME} bytes of arrays, are not supported."
                );
                return Err(Refusal::new(function.at, message));
            }
            self.current = instruction;
            let decoded = match self.callee() {
                Ok(Some((callee, places))) => self.function(callee, &places),
                Ok(None) => {
                    own.push(self.steps.len());
                    self.step(count(function.instructions.len()))
                }
                Err(refusal) => Err(refusal),
            };
            decoded.map_err(|refusal| {
                let position = refusal.position.or_else(|| instruction.position.as_deref().cloned());
                Refusal { position, ..refusal }
            })?;
        }
        starts.push(count(self.steps.len()));
        // Converts branch targets from indices of the function's instructions to indices of steps.
        for step in own {
            match &mut self.steps[step].action {
                Action::Branch(target) => *target = starts[*target as usize],
                Action::BranchTable(_, targets) => targets.iter_mut().for_each(|t| *t = starts[*t as usize]),
                _ => {}
            }
        }
        self.callers.pop();
        (self.first_register, self.places) = (outer_register, outer_places);
        Ok(())
    }

    /// Decodes the current instruction. `end` is the index of the function's end, to which a return jumps.
    fn step(&mut self, end: u32) -> Result<(), Refusal> {
        let instruction = self.current;
        let guard = instruction.guard.map(|(register, is_negated)| (self.register(register), is_negated));
        let is_return = self.callers.len() > 1 && instruction.opcode.split('.').next() == Some("ret");
        let action = if is_return { Action::Branch(end) } else { self.action()? };
        let (line, position, opcode) =
            (instruction.at.0, instruction.position.clone(), instruction.opcode.as_str().into());
        self.steps.push(Step { guard, action, opcode, meet: NONE, line, position });
        Ok(())
    }

    /// Assigns places to the variables of a function. Results and parameters have the places in `given`.
    fn place_variables(&mut self, function: &'m Function, given: &[VariablePlace]) -> Vec<VariablePlace> {
        let order: Vec<u32> = function.results.iter().chain(&function.parameters).copied().collect();
        let mut places = Vec::new();
        for (index, variable) in function.variables.iter().enumerate() {
            let place = order.iter().position(|at| *at as usize == index).and_then(|at| given.get(at));
            places.push(match (place, variable.space) {
                (Some(place), _) => *place,
                (None, Space::Shared) => self.shared_place(&function.name, variable),
                (None, _) => {
                    let start = align(self.frame_bytes, variable.align.max(8));
                    self.frame_bytes = start + variable.bytes;
                    VariablePlace::Frame(start)
                }
            });
        }
        places
    }

    /// Returns the place of a variable in shared memory, which is the same in every call of its function.
    fn shared_place(&mut self, function: &'m str, variable: &'m Variable) -> VariablePlace {
        if variable.bytes == 0 {
            self.dynamic_align = self.dynamic_align.max(variable.align);
            return VariablePlace::DynamicShared;
        }
        let start = *self.shared.entry((function, &variable.name)).or_insert_with(|| {
            let start = align(self.shared_bytes, variable.align);
            self.shared_bytes = start + variable.bytes;
            start
        });
        VariablePlace::Shared(start)
    }

    /// Returns the place where a variable is stored.
    pub(super) fn storage_of(&mut self, id: VariableId) -> VariablePlace {
        match id {
            VariableId::Function(index) => self.places[index as usize],
            VariableId::Module(index) => {
                let variable = &self.module.variables[index as usize];
                match variable.space {
                    Space::Shared => self.shared_place("", variable),
                    space => VariablePlace::Memory(space, self.addresses[index as usize]),
                }
            }
        }
    }

    /// Returns the row of a value that never changes, and adds the row if it is new.
    pub(super) fn fixed_row(&mut self, kind: RowKind) -> RowIndex {
        let rows = &mut self.rows;
        *self.fixed.entry(kind).or_insert_with(|| {
            rows.push(kind);
            count(rows.len() - 1)
        })
    }

    /// Returns the row of a register in the function that is being decoded.
    pub(super) fn register(&self, register: crate::ptx::Register) -> RowIndex {
        self.first_register + register.0
    }

    /// Returns the name of the called function, and the lists of results and parameters of the call.
    pub(super) fn call_parts(&self) -> (Option<&'m str>, Vec<&'m [Operand]>) {
        let (mut name, mut lists) = (None, Vec::new());
        for operand in &self.current.operands {
            match operand {
                Operand::Function(function) => name = name.or(Some(function.as_str())),
                Operand::List(list) => lists.push(list.as_slice()),
                _ => {}
            }
        }
        (name, lists)
    }

    /// Returns the device function that the current instruction calls, with the places of results and parameters. Returns `None` for runtime calls and for
    /// other instructions.
    fn callee(&mut self) -> Result<Option<(&'m Function, Vec<VariablePlace>)>, Refusal> {
        let call = self.current;
        if call.opcode.split('.').next() != Some("call") {
            return Ok(None);
        }
        let refuse = |message: String| Err(Refusal::new(call.at, message));
        let (name, lists) = self.call_parts();
        let Some(name) = name else { return refuse("A call through a pointer is not supported.".into()) };
        let Some(function) = self.module.functions.iter().find(|f| f.name == name) else {
            return refuse(format!("`{name}` is not known."));
        };
        if !function.has_body {
            return Ok(None);
        }
        if call.guard.is_some() {
            return refuse("A call that depends on a predicate is not supported.".into());
        }
        let mut places = Vec::new();
        for value in lists.into_iter().flatten() {
            let Operand::Variable(id @ VariableId::Function(_), 0) = value else {
                return refuse("A call's parameters have to be variables.".into());
            };
            places.push(self.storage_of(*id));
        }
        if places.len() != function.results.len() + function.parameters.len() {
            return refuse(format!("`{name}` takes {} parameters.", function.parameters.len()));
        }
        Ok(Some((function, places)))
    }
}
