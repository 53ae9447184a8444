//! Decodes loads, stores and atomics.

use super::action::{Access, Action, NONE, RowIndex, Strength, Update};
use super::functions::Decoder;
use crate::Refusal;
use crate::compute::{Word, add_half, add_halves, add_single, add_single_flushed};
use crate::ptx::{Operand, Space, Type};

/// Modifiers of a load, store or atomic.
struct Modifiers<'a> {
    /// The access, still without its address.
    access: Access,
    ty: Type,
    type_name: &'a str,
    elements: usize,
    /// Name of an atomic's operation, such as `add`.
    operation: Option<&'a str>,
}

impl<'m> Decoder<'m> {
    pub(super) fn memory(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        let Some(modifiers) = modifiers(parts) else { return self.refuse("is not supported.") };
        match parts[0] {
            "st" => {
                let [address, values] = self.take::<2>()?;
                let access = self.access(address, &modifiers)?;
                let values =
                    self.values(values, &modifiers, |decoder, value| decoder.row(value, modifiers.ty.bytes()))?;
                Ok(Action::Store(access, values))
            }
            "ld" | "ldu" => {
                let [values, address] = self.take::<2>()?;
                let mut access = self.access(address, &modifiers)?;
                let values = self.values(values, &modifiers, |decoder, value| decoder.result(value))?;
                if matches!(modifiers.ty, Type::Signed(_)) {
                    access.sign_to = values.iter().map(|row| self.bytes_of(*row)).max().unwrap_or(0);
                }
                Ok(Action::Load(access, values))
            }
            _ => self.atomic(&modifiers, parts[0] == "red"),
        }
    }

    /// Returns the rows of a value, or of the elements of a vector.
    fn values(
        &mut self,
        operand: &Operand,
        modifiers: &Modifiers,
        mut row: impl FnMut(&mut Self, &Operand) -> Result<RowIndex, Refusal>,
    ) -> Result<Vec<RowIndex>, Refusal> {
        let all = match operand {
            Operand::Vector(all) => all.as_slice(),
            single => std::slice::from_ref(single),
        };
        if all.len() != modifiers.elements {
            return self.refuse(&format!("needs {} values.", modifiers.elements));
        }
        all.iter().map(|value| row(self, value)).collect()
    }

    fn access(&mut self, operand: &Operand, modifiers: &Modifiers) -> Result<Access, Refusal> {
        let Operand::Address(base, offset) = operand else { return self.refuse("needs an address.") };
        let mut access = Access { offset: *offset, ..modifiers.access.clone() };
        match &**base {
            Operand::Variable(id, more) => {
                let (space, row) = self.variable(*id, *more);
                access.base = row;
                if access.space == Space::Param {
                    // The parameters of a called function are variables in the thread's frame.
                    access.space = space;
                }
            }
            _ if access.space == Space::Param => {
                return self.refuse("with an address in a register is not supported.");
            }
            base => access.base = self.row(base, 8)?,
        }
        Ok(access)
    }

    fn atomic(&mut self, modifiers: &Modifiers, is_reduction: bool) -> Result<Action, Refusal> {
        let Some(update) = modifiers.operation.and_then(|name| update(name, modifiers.type_name)) else {
            return self.refuse("is not supported.");
        };
        let shared_update = match (modifiers.operation, modifiers.ty) {
            (Some("add"), Type::Float(4)) => |old, b, _| add_single(old, b),
            _ => update,
        };
        if modifiers.elements > 1 {
            return self.refuse("is not supported.");
        }
        let (into, rest) = match self.current.operands.as_slice() {
            [into, rest @ ..] if !is_reduction => (self.result(into)?, rest),
            rest => (NONE, rest),
        };
        let wanted = if modifiers.operation == Some("cas") { 3 } else { 2 };
        if rest.len() != wanted {
            return self.refuse("has a wrong number of operands.");
        }
        let access = self.access(&rest[0], modifiers)?;
        let bytes = modifiers.ty.bytes();
        let first = self.row(&rest[1], bytes)?;
        let second = match rest.get(2) {
            Some(operand) => self.row(operand, bytes)?,
            None => first,
        };
        Ok(Action::Atomic { access, update, shared_update, into, operands: [first, second] })
    }
}

/// Parses the modifiers of an opcode. Returns `None` if one of them is not supported.
fn modifiers<'a>(parts: &[&'a str]) -> Option<Modifiers<'a>> {
    let is_atomic = matches!(parts[0], "atom" | "red");
    let strength = if is_atomic { Strength::Relaxed } else { Strength::Weak };
    let mut access =
        Access { space: Space::Generic, bytes: 0, sign_to: 0, base: NONE, offset: 0, strength, is_for_block: false };
    let (mut ty, mut elements, mut operation) = (None, 1, None);
    for part in &parts[1..] {
        match *part {
            "weak" => access.strength = Strength::Weak,
            "volatile" => access.strength = Strength::Volatile,
            "relaxed" => access.strength = Strength::Relaxed,
            "acquire" => access.strength = Strength::Acquire,
            "release" => access.strength = Strength::Release,
            "acq_rel" => access.strength = Strength::AcquireRelease,
            "cta" => access.is_for_block = true,
            "gpu" | "sys" => {}
            "ca" | "cg" | "cs" | "lu" | "cv" | "nc" | "wb" | "wt" => {}
            "noftz" if operation == Some("add") => operation = Some("add.noftz"),
            "v2" => elements = 2,
            "v4" => elements = 4,
            other if other.starts_with("L1::") || other.starts_with("L2::") => {}
            other => match (Space::parse(other), Type::parse(other)) {
                (Some(found), _) => access.space = found,
                (_, Some(found)) => ty = Some((found, other)),
                _ if is_atomic && operation.is_none() => operation = Some(other),
                _ => return None,
            },
        }
    }
    let (ty, type_name) = ty.filter(|(ty, _)| *ty != Type::Predicate)?;
    access.bytes = ty.bytes();
    Some(Modifiers { access, ty, type_name, elements, operation })
}

/// Returns the function that computes an atomic's new value in global memory from the old value and two operands.
pub(super) fn update(operation: &str, type_name: &str) -> Option<Update> {
    macro_rules! of_type {
        ($t:ident) => {
            match operation {
                "add" => Some(|old, b, _| $t::take(old).wrapping_add($t::take(b)).put()),
                "min" => Some(|old, b, _| $t::take(old).min($t::take(b)).put()),
                "max" => Some(|old, b, _| $t::take(old).max($t::take(b)).put()),
                _ => None,
            }
        };
    }
    match (operation, type_name) {
        ("add.noftz", "f16") => return Some(|old, b, _| add_half(old, b)),
        ("add.noftz", "f16x2") => return Some(|old, b, _| add_halves(old, b)),
        // Atomic additions of bf16 need compute capability 9.0, and PTX has none of s64.
        ("add.noftz", _) | ("add", "s64") | (_, "f16" | "f16x2" | "bf16" | "bf16x2" | "tf32") => return None,
        _ => {}
    }
    match (operation, Type::parse(type_name)?) {
        ("exch", Type::Bits(4 | 8)) => Some(|_, b, _| b),
        ("cas", Type::Bits(2 | 4 | 8)) => Some(|old, b, c| if old == b { c } else { old }),
        ("and", Type::Bits(4 | 8)) => Some(|old, b, _| old & b),
        ("or", Type::Bits(4 | 8)) => Some(|old, b, _| old | b),
        ("xor", Type::Bits(4 | 8)) => Some(|old, b, _| old ^ b),
        ("inc", Type::Unsigned(4)) => Some(|old, b, _| if old >= b { 0 } else { old + 1 }),
        ("dec", Type::Unsigned(4)) => Some(|old, b, _| if old == 0 || old > b { b } else { old - 1 }),
        ("add", Type::Float(4)) => Some(|old, b, _| add_single_flushed(old, b)),
        ("add", Type::Float(8)) => Some(|old, b, _| (f64::take(old) + f64::take(b)).put()),
        (_, Type::Unsigned(4)) => of_type!(u32),
        (_, Type::Unsigned(8)) => of_type!(u64),
        (_, Type::Signed(4)) => of_type!(i32),
        (_, Type::Signed(8)) => of_type!(i64),
        _ => None,
    }
}

/// Returns the function with which `redux` combines two values.
pub(super) fn reduction(operation: &str, ty: &str) -> Option<Update> {
    match (operation, ty) {
        ("add" | "min" | "max", "u32" | "s32") | ("and" | "or" | "xor", "b32") => update(operation, ty),
        _ => None,
    }
}
