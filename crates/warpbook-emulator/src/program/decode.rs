//! Decoding of instructions: operands to rows, opcodes to actions.

use super::action::{Action, Comparison, NONE, Row, Step};
use super::flatten::{Flat, Slot, align};
use super::register_bytes;
use crate::Refusal;
use crate::compute::{self, Lanes, each};
use crate::machine::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::ptx::{Instruction, Module, Operand, Register, Space, Type, VariableId};
use std::collections::HashMap;

/// What a row after the registers holds, in all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fixed {
    Constant(u64),
    Special(Special),
}

/// A register that the hardware sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// Index of the thread in its block, by axis.
    Thread(u8),
    /// Threads of a block.
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
    Warps,
    Multiprocessor,
    Multiprocessors,
    GridId,
    /// Lanes in relation to a lane's own.
    MaskEqual,
    MaskLess,
    MaskLessEqual,
    MaskGreater,
    MaskGreaterEqual,
    DynamicSharedBytes,
    SharedBytes,
}

impl Special {
    fn parse(name: &str) -> Option<Self> {
        let axis = |name: &str| match name {
            ".x" => Some(0),
            ".y" => Some(1),
            ".z" => Some(2),
            _ => None,
        };
        let of_axis = |prefix: &str, make: fn(u8) -> Self| Some(make(axis(name.strip_prefix(prefix)?)?));
        let simple = match name {
            "%laneid" => Self::Lane,
            "%warpid" => Self::Warp,
            "%nwarpid" => Self::Warps,
            "%smid" => Self::Multiprocessor,
            "%nsmid" => Self::Multiprocessors,
            "%gridid" => Self::GridId,
            "%lanemask_eq" => Self::MaskEqual,
            "%lanemask_lt" => Self::MaskLess,
            "%lanemask_le" => Self::MaskLessEqual,
            "%lanemask_gt" => Self::MaskGreater,
            "%lanemask_ge" => Self::MaskGreaterEqual,
            "%dynamic_smem_size" => Self::DynamicSharedBytes,
            "%total_smem_size" => Self::SharedBytes,
            _ => {
                return of_axis("%tid", Self::Thread)
                    .or_else(|| of_axis("%ntid", Self::Threads))
                    .or_else(|| of_axis("%ctaid", Self::Block))
                    .or_else(|| of_axis("%nctaid", Self::Blocks));
            }
        };
        Some(simple)
    }
}

/// What is known while the instructions of an entry are decoded.
pub(super) struct Decoder<'a> {
    pub(super) flat: &'a Flat,
    module: &'a Module,
    /// Addresses of the module's variables; those in shared memory are offsets there.
    module_addresses: Vec<u64>,
    /// Addresses of the flat list's variables, in their spaces.
    slot_addresses: Vec<u64>,
    pub(super) shared_bytes: u64,
    /// Offsets and names of the variables in shared memory.
    pub(super) shared: Vec<(u64, String)>,
    pub(super) fixed: Vec<Fixed>,
    rows: HashMap<Fixed, Row>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(module: &'a Module, addresses: &[u64], flat: &'a Flat) -> Result<Self, Refusal> {
        let mut decoder = Self {
            flat,
            module,
            module_addresses: addresses.to_vec(),
            slot_addresses: vec![0; flat.slots.len()],
            shared_bytes: 0,
            shared: Vec::new(),
            fixed: Vec::new(),
            rows: HashMap::new(),
        };
        decoder.lay_out_shared();
        Ok(decoder)
    }

    /// Gives the variables in shared memory that are used their places, arrays whose size the launch sets last.
    fn lay_out_shared(&mut self) {
        let mut used: Vec<VariableId> = Vec::new();
        let operands = self.flat.instructions.iter().flat_map(|i| &i.operands);
        for operand in operands {
            let variable = match operand {
                Operand::Address(base, _) => base,
                other => other,
            };
            if let Operand::Variable(id, _) = variable
                && !used.contains(id)
            {
                used.push(*id);
            }
        }
        let mut dynamic = Vec::new();
        for id in used {
            let (variable, address) = match id {
                VariableId::Module(index) => {
                    (&self.module.variables[index as usize], &mut self.module_addresses[index as usize])
                }
                VariableId::Function(index) => match &self.flat.slots[index as usize] {
                    Slot::Shared(variable) => (variable, &mut self.slot_addresses[index as usize]),
                    Slot::Parameter(offset) | Slot::Frame(offset) => {
                        self.slot_addresses[index as usize] = *offset;
                        continue;
                    }
                },
            };
            if variable.space != Space::Shared {
                continue;
            }
            if variable.bytes == 0 {
                dynamic.push((id, variable.align));
                continue;
            }
            *address = align(self.shared_bytes, variable.align);
            self.shared.push((*address, variable.name.clone()));
            self.shared_bytes = *address + variable.bytes;
        }
        let widest = dynamic.iter().map(|(_, align)| *align).max().unwrap_or(1);
        self.shared_bytes = align(self.shared_bytes, widest);
        for (id, _) in dynamic {
            match id {
                VariableId::Module(index) => self.module_addresses[index as usize] = self.shared_bytes,
                VariableId::Function(index) => self.slot_addresses[index as usize] = self.shared_bytes,
            }
        }
    }

    pub(super) fn refuse<T>(&self, instruction: &Instruction, why: &str) -> Result<T, Refusal> {
        Err(Refusal::new(instruction.at, format!("`{}` {why}", instruction.opcode)))
    }

    /// The row of something that never changes.
    pub(super) fn fixed_row(&mut self, fixed: Fixed) -> Row {
        let first = self.flat.registers.len();
        let fixed_rows = &mut self.fixed;
        *self.rows.entry(fixed).or_insert_with(|| {
            fixed_rows.push(fixed);
            u32::try_from(first + fixed_rows.len() - 1).unwrap_or(NONE)
        })
    }

    pub(super) fn constant(&mut self, value: u64) -> Row {
        self.fixed_row(Fixed::Constant(value))
    }

    /// A variable's space and address.
    pub(super) fn variable(&self, id: VariableId) -> (Space, u64) {
        match id {
            VariableId::Module(index) => {
                (self.module.variables[index as usize].space, self.module_addresses[index as usize])
            }
            VariableId::Function(index) => {
                let space = match &self.flat.slots[index as usize] {
                    Slot::Parameter(_) => Space::Param,
                    Slot::Frame(_) => Space::Local,
                    Slot::Shared(_) => Space::Shared,
                };
                (space, self.slot_addresses[index as usize])
            }
        }
    }

    /// The row of an operand that is read; a constant has so many bytes.
    pub(super) fn row(&mut self, instruction: &Instruction, operand: &Operand, bytes: u64) -> Result<Row, Refusal> {
        let mask = if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        match operand {
            Operand::Register(register) => Ok(register.0),
            Operand::Integer(value) => Ok(self.constant(value & mask)),
            Operand::Single(bits) if bytes == 8 => Ok(self.constant(f64::from(f32::from_bits(*bits)).to_bits())),
            Operand::Single(bits) => Ok(self.constant((*bits).into())),
            #[allow(clippy::cast_possible_truncation)]
            Operand::Double(bits) if bytes == 4 => Ok(self.constant((f64::from_bits(*bits) as f32).to_bits().into())),
            Operand::Double(bits) => Ok(self.constant(*bits)),
            Operand::Special(name) => match Special::parse(name) {
                Some(special) => Ok(self.fixed_row(Fixed::Special(special))),
                None => Err(Refusal::new(instruction.at, format!("The register `{name}` is not supported."))),
            },
            Operand::Variable(id, offset) => {
                let address = self.variable(*id).1.wrapping_add_signed(*offset);
                Ok(self.constant(address & mask))
            }
            _ => self.refuse(instruction, "has an operand of an unexpected form."),
        }
    }

    /// The register that an operand names, for a result; `_` is [`NONE`].
    pub(super) fn result(&self, instruction: &Instruction, operand: &Operand) -> Result<Row, Refusal> {
        match operand {
            Operand::Register(Register(row)) => Ok(*row),
            Operand::Nothing => Ok(NONE),
            _ => self.refuse(instruction, "needs a register for its result."),
        }
    }

    /// A predicate that may be negated.
    pub(super) fn predicate(&mut self, instruction: &Instruction, operand: &Operand) -> Result<(Row, bool), Refusal> {
        match operand {
            Operand::Not(register) => Ok((register.0, true)),
            other => Ok((self.row(instruction, other, 1)?, false)),
        }
    }

    /// The operands, if there are so many.
    pub(super) fn take<'i, const N: usize>(&self, instruction: &'i Instruction) -> Result<&'i [Operand; N], Refusal> {
        match instruction.operands.as_slice().try_into() {
            Ok(operands) => Ok(operands),
            Err(_) => self.refuse(instruction, &format!("takes {N} operands.")),
        }
    }

    /// Decodes one instruction.
    pub(super) fn step(&mut self, instruction: &Instruction) -> Result<Step, Refusal> {
        let (guard, guard_negated) =
            instruction.guard.map_or((NONE, false), |(register, is_negated)| (register.0, is_negated));
        let action = self.action(instruction)?;
        Ok(Step {
            guard,
            guard_negated,
            action,
            opcode: instruction.opcode.as_str().into(),
            meet: NONE,
            line: instruction.at.0,
            place: instruction.place.clone(),
        })
    }

    fn action(&mut self, instruction: &Instruction) -> Result<Action, Refusal> {
        let parts: Vec<&str> = instruction.opcode.split('.').collect();
        match parts[0] {
            "ld" | "ldu" | "st" | "atom" | "red" => self.memory(instruction, &parts),
            "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "activemask" => self.warp(instruction, &parts),
            "setp" => self.compare(instruction, &parts),
            "mov" => self.move_value(instruction, &parts),
            "bra" => match self.take::<1>(instruction)? {
                [Operand::Target(target)] => Ok(Action::Branch(*target)),
                _ => self.refuse(instruction, "needs a label."),
            },
            "brx" => self.branch_table(instruction),
            "call" => self.call(instruction),
            "ret" | "exit" => Ok(Action::Exit),
            "trap" | "brkpt" => Ok(Action::Trap),
            "membar" | "fence" => match parts[1..] {
                ["gl" | "sys"] | ["acq_rel" | "sc", "gpu" | "sys"] => Ok(Action::Fence { is_for_block: false }),
                ["cta"] | ["acq_rel" | "sc", "cta"] => Ok(Action::Fence { is_for_block: true }),
                _ => self.refuse(instruction, "is not supported."),
            },
            "nanosleep" => Ok(Action::Pause),
            "prefetch" | "prefetchu" | "discard" | "applypriority" => Ok(Action::Nothing),
            "cvta" => self.convert_address(instruction, &parts),
            "isspacep" => self.is_in_space(instruction, &parts),
            _ => self.compute(instruction),
        }
    }

    fn compute(&mut self, instruction: &Instruction) -> Result<Action, Refusal> {
        let Some(compute) = compute::find(&instruction.opcode) else {
            return self.refuse(instruction, "is not supported.");
        };
        let (into, inputs) = match instruction.operands.split_first() {
            Some((into, inputs)) if inputs.len() == compute.operands() => (self.result(instruction, into)?, inputs),
            _ => return self.refuse(instruction, &format!("takes {} operands.", compute.operands() + 1)),
        };
        let bytes = operand_bytes(&instruction.opcode);
        let mut from = [NONE; 4];
        for (row, operand) in from.iter_mut().zip(inputs) {
            *row = match operand {
                Operand::Not(_) => return self.refuse(instruction, "takes no negated predicate."),
                other => self.row(instruction, other, bytes)?,
            };
        }
        Ok(Action::Compute { compute, into, from })
    }

    /// `setp.lt.and.s32 p|q, a, b, c;`.
    fn compare(&mut self, instruction: &Instruction, parts: &[&str]) -> Result<Action, Refusal> {
        let (name, combine, ty) = match parts[1..] {
            [name, ty] => (name, None, ty),
            [name, combine, ty] => (name, compute::combination(combine), ty),
            _ => return self.refuse(instruction, "is not supported."),
        };
        let ty = Type::parse(ty).filter(|_| combine.is_some() == (parts.len() == 4));
        let Some((ty, compare)) = ty.and_then(|ty| Some((ty, compute::comparison(name, ty)?))) else {
            return self.refuse(instruction, "is not supported.");
        };
        let operands = &instruction.operands;
        if operands.len() != 3 + usize::from(combine.is_some()) {
            return self.refuse(instruction, "has a wrong number of operands.");
        }
        let (into, opposite_into) = match &operands[0] {
            Operand::Pair(a, b) => (a.map_or(NONE, |r| r.0), b.map_or(NONE, |r| r.0)),
            other => (self.result(instruction, other)?, NONE),
        };
        let from = [self.row(instruction, &operands[1], ty.bytes())?, self.row(instruction, &operands[2], ty.bytes())?];
        let combine = match combine {
            Some(combine) => {
                let (row, is_negated) = self.predicate(instruction, &operands[3])?;
                Some((combine, row, is_negated))
            }
            None => None,
        };
        Ok(Action::Compare(Comparison { compare, from, combine, into, opposite_into }))
    }

    fn move_value(&mut self, instruction: &Instruction, parts: &[&str]) -> Result<Action, Refusal> {
        let [into, from] = self.take::<2>(instruction)?;
        let bytes = parts.get(1).and_then(|ty| Type::parse(ty)).map_or(8, Type::bytes);
        let part_bits = |parts: &[Operand]| u32::try_from(bytes * 8 / parts.len().max(1) as u64).unwrap_or(64);
        match (into, from) {
            (_, Operand::Special(name)) if name.contains("clock") || name == "%globaltimer" => {
                Ok(Action::Clock(self.result(instruction, into)?))
            }
            (Operand::Vector(all), _) if all.len() > 1 => {
                let parts = all.iter().map(|part| self.result(instruction, part)).collect::<Result<_, _>>()?;
                Ok(Action::Unpack { from: self.row(instruction, from, bytes)?, parts, bits: part_bits(all) })
            }
            (_, Operand::Vector(all)) if all.len() > 1 => {
                let bits = part_bits(all);
                let parts = all.iter().map(|part| self.row(instruction, part, (bits / 8).into()));
                let parts = parts.collect::<Result<_, _>>()?;
                Ok(Action::Pack { into: self.result(instruction, into)?, parts, bits })
            }
            _ => self.compute(instruction),
        }
    }

    fn branch_table(&mut self, instruction: &Instruction) -> Result<Action, Refusal> {
        let [index, Operand::Vector(all)] = self.take::<2>(instruction)? else {
            return self.refuse(instruction, "needs a table of labels.");
        };
        let target = |operand: &Operand| match operand {
            Operand::Target(target) => Ok(*target),
            _ => self.refuse(instruction, "needs a table of labels."),
        };
        let targets = all.iter().map(target).collect::<Result<_, _>>()?;
        Ok(Action::BranchTable { index: self.row(instruction, index, 4)?, targets })
    }

    /// A call of the runtime.
    fn call(&mut self, instruction: &Instruction) -> Result<Action, Refusal> {
        let (mut name, mut lists) = ("", Vec::new());
        for operand in &instruction.operands {
            match operand {
                Operand::Function(function) => name = function,
                Operand::List(list) => lists.push(list),
                _ => {}
            }
        }
        let place = |operand: &Operand| match operand {
            Operand::Variable(id @ VariableId::Function(_), 0) => Ok(self.variable(*id).1.cast_signed()),
            _ => self.refuse(instruction, "needs variables for its parameters."),
        };
        match (name, lists.as_slice()) {
            ("vprintf", [results, parameters]) if results.len() == 1 && parameters.len() == 2 => Ok(Action::Print {
                format: place(&parameters[0])?,
                arguments: place(&parameters[1])?,
                result: Some(place(&results[0])?),
            }),
            ("__assertfail", [parameters]) if parameters.len() >= 3 => {
                Ok(Action::Assertion([place(&parameters[0])?, place(&parameters[1])?, place(&parameters[2])?]))
            }
            _ => Err(Refusal::new(instruction.at, format!("A call of `{name}` is not supported."))),
        }
    }

    /// Generic addresses of global memory are those of global memory; shared and local memory have windows.
    fn convert_address(&mut self, instruction: &Instruction, parts: &[&str]) -> Result<Action, Refusal> {
        let (is_to_space, space) = match parts[1..] {
            ["to", space, "u64"] => (true, Space::parse(space)),
            [space, "u64"] => (false, Space::parse(space)),
            _ => return self.refuse(instruction, "is not supported."),
        };
        let window = match space {
            Some(Space::Shared) => SHARED_WINDOW,
            Some(Space::Local) => LOCAL_WINDOW,
            Some(Space::Global | Space::Const) => 0,
            _ => return self.refuse(instruction, "is not supported."),
        };
        let [into, from] = self.take::<2>(instruction)?;
        let (into, from) = (self.result(instruction, into)?, self.row(instruction, from, 8)?);
        let window = self.constant(if is_to_space { window.wrapping_neg() } else { window });
        let Some(compute) = compute::find("add.u64") else { return self.refuse(instruction, "is not supported.") };
        Ok(Action::Compute { compute, into, from: [from, window, NONE, NONE] })
    }

    fn is_in_space(&mut self, instruction: &Instruction, parts: &[&str]) -> Result<Action, Refusal> {
        let is_in: fn(&mut Lanes, &Lanes) = match parts.get(1).and_then(|space| Space::parse(space)) {
            Some(Space::Shared) => |into, a| each(into, |i| u64::from(a[i] & SHARED_WINDOW != 0)),
            Some(Space::Local) => |into, a| each(into, |i| u64::from(a[i] & LOCAL_WINDOW != 0)),
            Some(Space::Global) => |into, a| each(into, |i| u64::from(a[i] & (SHARED_WINDOW | LOCAL_WINDOW) == 0)),
            _ => return self.refuse(instruction, "is not supported."),
        };
        let [into, from] = self.take::<2>(instruction)?;
        let (into, from) = (self.result(instruction, into)?, self.row(instruction, from, 8)?);
        Ok(Action::Compute { compute: compute::Compute::One(is_in), into, from: [from, NONE, NONE, NONE] })
    }

    /// Bytes of the register that a value is loaded into.
    pub(super) fn bytes_of(&self, row: Row) -> u8 {
        self.flat.registers.get(row as usize).map_or(8, |ty| register_bytes(*ty))
    }
}

/// Bytes of an instruction's operands, by its last type.
fn operand_bytes(opcode: &str) -> u64 {
    opcode.rsplit('.').find_map(Type::parse).map_or(8, Type::bytes)
}
