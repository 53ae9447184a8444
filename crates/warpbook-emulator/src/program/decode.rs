//! Decodes instructions: turns operands into register rows, and opcodes into actions.

use super::action::{Action, Comparison, NONE, RowIndex};
use super::functions::{Decoder, VariablePlace};
use super::rows::{RowKind, SPECIALS};
use crate::Refusal;
use crate::compute::{self, Apply, Compute, each, mask};
use crate::machine::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::ptx::{Operand, Register, Space, Type, VariableId};

impl<'m> Decoder<'m> {
    pub(super) fn refuse<T>(&self, why: &str) -> Result<T, Refusal> {
        Err(Refusal::new(self.current.at, format!("`{}` {why}", self.current.opcode)))
    }

    pub(super) fn constant(&mut self, value: u64) -> RowIndex {
        self.fixed_row(RowKind::Constant(value))
    }

    /// Returns the state space of a variable, and a row with the variable's address plus an offset.
    pub(super) fn variable(&mut self, id: VariableId, offset: i64) -> (Space, RowIndex) {
        let (space, start) = match self.storage_of(id) {
            VariablePlace::Parameter(start) => (Space::Param, start),
            VariablePlace::Frame(start) => (Space::Local, start),
            VariablePlace::Shared(start) => (Space::Shared, start),
            VariablePlace::DynamicShared => return (Space::Shared, self.fixed_row(RowKind::DynamicShared(offset))),
            VariablePlace::Memory(space, start) => (space, start),
        };
        (space, self.constant(start.wrapping_add_signed(offset)))
    }

    /// Returns the row of a source operand. `bytes` is the operand's size, which constants need.
    pub(super) fn row(&mut self, operand: &Operand, bytes: u8) -> Result<RowIndex, Refusal> {
        match operand {
            Operand::Register(register) => Ok(self.register(*register)),
            Operand::Integer(value) => Ok(self.constant(value & mask(bytes))),
            Operand::Single(bits) if bytes == 8 => Ok(self.constant(f64::from(f32::from_bits(*bits)).to_bits())),
            Operand::Single(bits) => Ok(self.constant((*bits).into())),
            #[allow(clippy::cast_possible_truncation)]
            Operand::Double(bits) if bytes == 4 => Ok(self.constant((f64::from_bits(*bits) as f32).to_bits().into())),
            Operand::Double(bits) => Ok(self.constant(*bits)),
            Operand::Special(name) => match SPECIALS.iter().position(|(known, _)| known == name) {
                Some(special) => Ok(self.fixed_row(RowKind::Special(special))),
                None => Err(Refusal::new(self.current.at, format!("The register `{name}` is not supported."))),
            },
            Operand::Variable(id, offset) => Ok(self.variable(*id, *offset).1),
            _ => self.refuse("has an operand of an unexpected form."),
        }
    }

    /// Returns the row of one register in a pair of results; [`NONE`] for `_`.
    fn either(&self, register: Option<Register>) -> RowIndex {
        register.map_or(NONE, |register| self.register(register))
    }

    /// Returns the rows of one or two results. The second row is [`NONE`] if there is one result.
    pub(super) fn results(&self, operand: &Operand) -> Result<(RowIndex, RowIndex), Refusal> {
        match operand {
            Operand::Pair(a, b) => Ok((self.either(*a), self.either(*b))),
            other => Ok((self.result(other)?, NONE)),
        }
    }

    /// Returns the row of a result register; [`NONE`] for `_`.
    pub(super) fn result(&self, operand: &Operand) -> Result<RowIndex, Refusal> {
        match operand {
            Operand::Register(register) => Ok(self.register(*register)),
            Operand::Nothing => Ok(NONE),
            _ => self.refuse("needs a register for its result."),
        }
    }

    /// Returns the row of a predicate operand, and true if the predicate is negated.
    pub(super) fn predicate(&mut self, operand: &Operand) -> Result<(RowIndex, bool), Refusal> {
        match operand {
            Operand::Not(register) => Ok((self.register(*register), true)),
            other => Ok((self.row(other, 1)?, false)),
        }
    }

    /// Returns the instruction's operands if there are exactly `N`.
    pub(super) fn take<const N: usize>(&self) -> Result<&'m [Operand; N], Refusal> {
        match self.current.operands.as_slice().try_into() {
            Ok(operands) => Ok(operands),
            Err(_) => self.refuse(&format!("takes {N} operands.")),
        }
    }

    pub(super) fn action(&mut self) -> Result<Action, Refusal> {
        let parts: Vec<&str> = self.current.opcode.split('.').collect();
        match parts[0] {
            "ld" | "ldu" | "st" | "atom" | "red" => self.memory(&parts),
            "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "activemask" => self.warp(&parts),
            "setp" => self.compare(&parts),
            "mov" => self.move_value(&parts),
            "bra" => match self.take::<1>()? {
                [Operand::Target(target)] => Ok(Action::Branch(*target)),
                _ => self.refuse("needs a label."),
            },
            "brx" => self.branch_table(),
            "call" => self.call(),
            "ret" | "exit" => Ok(Action::Exit),
            "trap" | "brkpt" => Ok(Action::Trap),
            "membar" | "fence" => match parts[1..] {
                ["gl" | "sys"] | ["acq_rel" | "sc", "gpu" | "sys"] => Ok(Action::Fence { is_for_block: false }),
                ["cta"] | ["acq_rel" | "sc", "cta"] => Ok(Action::Fence { is_for_block: true }),
                _ => self.refuse("is not supported."),
            },
            "nanosleep" => Ok(Action::Pause),
            "prefetch" | "prefetchu" | "discard" | "applypriority" => Ok(Action::Nothing),
            "cvta" => self.convert_address(&parts),
            "isspacep" => self.is_in_space(&parts),
            _ => self.compute(),
        }
    }

    fn compute(&mut self) -> Result<Action, Refusal> {
        let Some(compute) = compute::find(&self.current.opcode) else {
            return self.refuse("is not supported.");
        };
        let (into, inputs) = match self.current.operands.split_first() {
            Some((into, inputs)) if inputs.len() == compute.operands() => (self.result(into)?, inputs),
            _ => return self.refuse(&format!("takes {} operands.", compute.operands() + 1)),
        };
        let compute = match compute {
            Compute::Convert(conversion) => Compute::Convert(conversion.into_register(self.bytes_of(into))),
            other => other,
        };
        // The last type in the opcode is the operands' type, except that the addend of a wide product has twice the width.
        let bytes = self.current.opcode.rsplit('.').find_map(Type::parse).map_or(8, Type::bytes);
        let is_wide = self.current.opcode.starts_with("mad.wide");
        let mut from = [0; 4];
        for (place, (row, operand)) in from.iter_mut().zip(inputs).enumerate() {
            *row = self.row(operand, if is_wide && place == 2 { 2 * bytes } else { bytes })?;
        }
        Ok(Action::Compute { compute, into, from })
    }

    /// Decodes comparisons such as `setp.lt.and.s32 p|q, a, b, c;`.
    fn compare(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        let (name, combine, ty) = match parts[1..] {
            [name, ty] => (name, Some(None), ty),
            [name, combine, ty] => (name, compute::combination(combine).map(Some), ty),
            _ => return self.refuse("is not supported."),
        };
        let compare = Type::parse(ty).and_then(|ty| Some((ty, compute::comparison(name, ty)?)));
        let (Some((ty, compare)), Some(combine)) = (compare, combine) else {
            return self.refuse("is not supported.");
        };
        let operands = &self.current.operands;
        if operands.len() != 3 + usize::from(combine.is_some()) {
            return self.refuse("has a wrong number of operands.");
        }
        let (into, opposite_into) = self.results(&operands[0])?;
        let from = [self.row(&operands[1], ty.bytes())?, self.row(&operands[2], ty.bytes())?];
        let combine = match combine {
            Some(combine) => {
                let (row, is_negated) = self.predicate(&operands[3])?;
                Some((combine, row, is_negated))
            }
            None => None,
        };
        Ok(Action::Compare(Comparison { compare, from, combine, into, opposite_into }))
    }

    fn move_value(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        let [into, from] = self.take::<2>()?;
        let bytes = parts.get(1).and_then(|ty| Type::parse(ty)).map_or(8, Type::bytes);
        let part_bits = |parts: &[Operand]| u64::from(bytes) * 8 / (parts.len() as u64).max(1);
        match (into, from) {
            (_, Operand::Special(name)) if name.contains("clock") || name == "%globaltimer" => {
                Ok(Action::Clock(self.result(into)?))
            }
            (Operand::Vector(all), _) if all.len() > 1 => {
                let parts = all.iter().map(|part| self.result(part)).collect::<Result<_, _>>()?;
                Ok(Action::Unpack { from: self.row(from, bytes)?, parts, bits: part_bits(all) })
            }
            (_, Operand::Vector(all)) if all.len() > 1 => {
                let bits = part_bits(all);
                let parts = all.iter().map(|part| self.row(part, u8::try_from(bits.div_ceil(8).max(1)).unwrap_or(8)));
                let parts = parts.collect::<Result<_, _>>()?;
                Ok(Action::Pack { into: self.result(into)?, parts, bits })
            }
            _ => self.compute(),
        }
    }

    fn branch_table(&mut self) -> Result<Action, Refusal> {
        let [index, Operand::Vector(all)] = self.take::<2>()? else {
            return self.refuse("needs a table of labels.");
        };
        let target = |operand: &Operand| match operand {
            Operand::Target(target) => Ok(*target),
            _ => self.refuse("needs a table of labels."),
        };
        let targets = all.iter().map(target).collect::<Result<_, _>>()?;
        Ok(Action::BranchTable(self.row(index, 4)?, targets))
    }

    /// Decodes a call of `vprintf` or `__assertfail`.
    fn call(&mut self) -> Result<Action, Refusal> {
        let (name, lists) = self.call_parts();
        let mut place = |operand: &Operand| match operand {
            Operand::Variable(id @ VariableId::Function(_), 0) => match self.storage_of(*id) {
                VariablePlace::Frame(start) => Ok(start.cast_signed()),
                _ => self.refuse("needs variables for its parameters."),
            },
            _ => self.refuse("needs variables for its parameters."),
        };
        match (name.unwrap_or_default(), lists.as_slice()) {
            ("vprintf", [results, parameters]) if results.len() == 1 && parameters.len() == 2 => {
                Ok(Action::Print([place(&parameters[0])?, place(&parameters[1])?, place(&results[0])?]))
            }
            ("__assertfail", [parameters]) if parameters.len() >= 3 => {
                Ok(Action::Assertion([place(&parameters[0])?, place(&parameters[1])?, place(&parameters[2])?]))
            }
            (name, _) => Err(Refusal::new(self.current.at, format!("A call of `{name}` is not supported."))),
        }
    }

    /// Decodes a conversion to or from generic addresses. Addresses in shared and local memory gain or lose their window bit; global addresses stay the same.
    fn convert_address(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        let (is_to_space, space) = match parts[1..] {
            ["to", space, "u64"] => (true, Space::parse(space)),
            [space, "u64"] => (false, Space::parse(space)),
            _ => return self.refuse("is not supported."),
        };
        let window = match space {
            Some(Space::Shared) => SHARED_WINDOW,
            Some(Space::Local) => LOCAL_WINDOW,
            Some(Space::Global | Space::Const) => 0,
            _ => return self.refuse("is not supported."),
        };
        let [into, from] = self.take::<2>()?;
        let (into, from) = (self.result(into)?, self.row(from, 8)?);
        let window = self.constant(if is_to_space { window.wrapping_neg() } else { window });
        let Some(compute) = compute::find("add.u64") else { return self.refuse("is not supported.") };
        Ok(Action::Compute { compute, into, from: [from, window, 0, 0] })
    }

    fn is_in_space(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        let is_in: Apply = match parts.get(1).and_then(|space| Space::parse(space)) {
            Some(Space::Shared) => |into, a, _, _, _| each(into, |i| u64::from(a[i] & SHARED_WINDOW != 0)),
            Some(Space::Local) => |into, a, _, _, _| each(into, |i| u64::from(a[i] & LOCAL_WINDOW != 0)),
            Some(Space::Global) => {
                |into, a, _, _, _| each(into, |i| u64::from(a[i] & (SHARED_WINDOW | LOCAL_WINDOW) == 0))
            }
            _ => return self.refuse("is not supported."),
        };
        let [into, from] = self.take::<2>()?;
        let (into, from) = (self.result(into)?, self.row(from, 8)?);
        Ok(Action::Compute { compute: Compute::Plain(1, is_in), into, from: [from, 0, 0, 0] })
    }

    /// Returns the size in bytes of the register in which a loaded value is stored.
    pub(super) fn bytes_of(&self, row: RowIndex) -> u8 {
        match self.rows.get(row as usize) {
            Some(RowKind::Register(bytes)) => *bytes,
            _ => 8,
        }
    }
}
