//! Statements of random kernels that access memory: loads, stores, atomics, conversions of addresses, and calls, whose parameters are memory, too.
//!
//! A thread accesses only its own places: 16 bytes of its results, of shared memory and of local memory.

use super::forms::Kind;
use super::generate::{CONSTANTS, REGISTERS, Writer};
use std::fmt::Write;

/// Returns functions that copy a parameter of 1, 2, 4, 8 or 16 bytes to their result. Words with an odd number of bits that are 1 are inverted, so that the
/// lanes return at different places.
pub fn functions() -> String {
    let mut text = String::new();
    for (bytes, ty, registers) in
        [(1, "b8", "{%h0}"), (2, "b16", "{%h0}"), (4, "b32", "%w0"), (8, "b64", "%d0"), (16, "v2.b64", "{%d0, %d1}")]
    {
        let registers = if bytes == 16 { registers } else { registers.trim_matches(['{', '}']) };
        _ = write!(
            text,
            ".func (.param .align {bytes} .b8 to[{bytes}]) copy{bytes}(.param .align {bytes} .b8 from[{bytes}]) {{\n.reg .pred %p0;\n.reg .b16 %h<2>;\n\
             .reg .b32 %w<3>;\n.reg .b64 %d<2>;\nld.param.{ty} {registers}, [from];\n"
        );
        if bytes == 4 {
            text += "popc.b32 %w1, %w0;\nand.b32 %w1, %w1, 1;\nsetp.ne.u32 %p0, %w1, 0;\n@%p0 bra INVERTED;\nst.param.b32 [to], %w0;\nret;\n\
                     INVERTED:\nnot.b32 %w0, %w0;\n";
        }
        _ = write!(text, "st.param.{ty} [to], {registers};\nret;\n}}\n");
    }
    text
}

/// The modifiers of a load or store.
struct Parts<'o> {
    /// The state space with a dot, such as `.shared`; empty for generic addresses.
    space: String,
    ty: &'o str,
    /// Size of an element in bytes, and number of elements.
    bytes: usize,
    elements: usize,
}

impl<'o> Parts<'o> {
    fn parse(opcode: &'o str) -> Self {
        let ty = opcode.rsplit('.').next().unwrap_or_default();
        let bits: usize = if ty == "f16x2" { 32 } else { ty[1..].parse().unwrap_or_else(|_| panic!("{opcode}")) };
        let spaces = ["const", "global", "local", "param", "shared"];
        let space = opcode.split('.').find(|part| spaces.contains(part)).map(|space| format!(".{space}"));
        let elements = if opcode.contains(".v4.") { 4 } else { 1 + usize::from(opcode.contains(".v2.")) };
        Self { space: space.unwrap_or_default(), ty, bytes: bits / 8, elements }
    }
}

/// The thread's own places with their registers.
const PLACES: [(&str, &str); 3] = [("global", "%a0"), ("shared", "%a2"), ("local", "%a3")];

/// Returns a register, or a vector of several registers.
fn list(registers: Vec<String>) -> String {
    if registers.len() == 1 { registers.concat() } else { format!("{{{}}}", registers.join(", ")) }
}

impl Writer<'_> {
    /// Returns the address register of the thread's own place in a space. A generic address is made of an address in one of `generic`.
    fn place(&mut self, space: &str, generic: &[(&str, &'static str)]) -> &'static str {
        if let Some((_, register)) = PLACES.iter().find(|(name, _)| space.strip_prefix('.') == Some(name)) {
            return register;
        }
        let (name, register) = self.random.pick(generic);
        self.family(&format!("cvta.{name}.u64"), &format!("%a9, {register}"));
        "%a9"
    }

    /// Returns different registers for the elements of a value. Registers for integers and bits may be wider than the elements.
    fn values(&mut self, parts: &Parts) -> String {
        let narrowest = Kind::parse(parts.ty).unwrap_or(Kind::Word);
        let kinds = [Kind::Half, Kind::Word, Kind::Double];
        let wider: Vec<Kind> = kinds.into_iter().filter(|kind| *kind >= narrowest).collect();
        let kind = if parts.ty.starts_with('f') { narrowest } else { self.random.pick(&wider) };
        let letter = ['p', 'h', 'w', 'd'][kind as usize];
        let first = self.random.below(REGISTERS);
        let all: Vec<String> = (0..parts.elements).map(|i| format!("%{letter}{}", (first + i) % REGISTERS)).collect();
        list(all)
    }

    /// Returns a random offset in the 16 bytes of a place at which a value of this size may be.
    fn offset(&mut self, parts: &Parts) -> usize {
        let size = parts.bytes * parts.elements;
        self.random.below(16 / size) * size
    }

    /// Returns two different registers of 8 bytes.
    fn pair(&mut self) -> String {
        let first = self.random.below(REGISTERS);
        format!("{{%d{first}, %d{}}}", (first + 3) % REGISTERS)
    }

    /// Writes a load from a place that was written before.
    pub fn load(&mut self, opcode: &str) {
        let parts = Parts::parse(opcode);
        let is_constant = parts.space == ".const" || (parts.space.is_empty() && self.random.below(4) == 0);
        let address = if is_constant {
            let index = self.register(Kind::Word);
            self.line(&format!(
                "and.b32 %t5, {index}, {};\nmov.u64 %a8, constants;\nmad.wide.u32 %a8, %t5, 16, %a8;",
                CONSTANTS / 4 - 1
            ));
            if parts.space.is_empty() { self.place("", &[("const", "%a8")]) } else { "%a8" }
        } else {
            let (address, pair) = (self.place(&parts.space, &PLACES), self.pair());
            self.line(&format!("st{}.v2.b64 [{address}], {pair};", parts.space));
            address
        };
        let (values, offset) = (self.values(&parts), self.offset(&parts));
        self.family(opcode, &format!("{values}, [{address}+{offset}]"));
    }

    /// Writes a store to a place whose bytes are known, and loads the whole place.
    pub fn store(&mut self, opcode: &str) {
        let parts = Parts::parse(opcode);
        let (address, before, after) = (self.place(&parts.space, &PLACES), self.pair(), self.pair());
        let (values, offset) = (self.values(&parts), self.offset(&parts));
        self.line(&format!("st{}.v2.b64 [{address}], {before};", parts.space));
        self.family(opcode, &format!("[{address}+{offset}], {values}"));
        self.line(&format!("ld{}.v2.b64 {after}, [{address}];", parts.space));
    }

    /// Writes an atomic operation on the thread's own memory, and loads the new value.
    pub fn update(&mut self, opcode: &str) {
        let parts = Parts::parse(opcode);
        let (space, ty) = (&parts.space, parts.ty);
        let bits = 8 * parts.bytes;
        let kind = Kind::parse(ty).unwrap_or(Kind::Word);
        let [before, into, first, second] = [Kind::Double, kind, kind, kind].map(|kind| self.register(kind));
        let after = self.register(kind);
        let (address, offset) = (self.place(space, &PLACES[..2]), self.offset(&parts));
        self.line(&format!("st{space}.b64 [{address}], {before};\nst{space}.b64 [{address}+8], {before};"));
        let is_exchange = opcode.contains(".cas.");
        if is_exchange && self.random.below(2) == 0 {
            // Makes the comparison succeed.
            self.line(&format!("st{space}.b{bits} [{address}+{offset}], {first};"));
        }
        let result = if opcode.starts_with("atom") { format!("{into}, ") } else { String::new() };
        let last = if is_exchange { format!(", {second}") } else { String::new() };
        self.family(opcode, &format!("{result}[{address}+{offset}], {first}{last}"));
        self.line(&format!("ld.volatile{space}.b{bits} {after}, [{address}+{offset}];"));
        if ty.starts_with('f') {
            self.one_nan(ty, &into);
            self.one_nan(ty, &after);
        }
    }

    /// Writes a conversion of an address, and accesses the same memory through both addresses.
    pub fn convert_address(&mut self, opcode: &str) {
        let space = opcode.split('.').rev().nth(1).unwrap_or_default();
        let (value, pair) = (self.register(Kind::Double), self.pair());
        let own = if space == "const" {
            self.line("mov.u64 %a8, constants;");
            "%a8"
        } else {
            self.place(&format!(".{space}"), &[])
        };
        let generic = format!("cvta.{space}.u64");
        self.family(&generic, &format!("%a9, {own}"));
        let mut specific = own;
        if opcode != generic {
            self.family(opcode, "%a10, %a9");
            specific = "%a10";
        }
        if space != "const" {
            self.line(&format!("st.v2.b64 [%a9], {pair};"));
        }
        self.line(&format!("ld.{space}.b64 {value}, [{specific}+8];"));
    }

    pub fn is_in_space(&mut self, opcode: &str) {
        let address = self.place("", &PLACES);
        let predicate = self.register(Kind::Predicate);
        self.family(opcode, &format!("{predicate}, {address}"));
    }

    /// Writes a call of a function from [`functions`]. A parameter or result of the call is accessed with the opcode.
    pub fn call(&mut self, opcode: &str) {
        let parts = Parts::parse(opcode);
        let (bytes, call) = (parts.bytes * parts.elements, self.label());
        let form = opcode.split_once('.').map_or("", |(_, form)| form);
        let (given, taken) = (self.values(&parts), self.values(&parts));
        self.line(&format!(
            "{{\n.param .align {bytes} .b8 {call}_from[{bytes}];\n.param .align {bytes} .b8 {call}_to[{bytes}];"
        ));
        let given = self.copies(&parts, &given, "%c").map_or(given, |(copies, bits)| {
            copies.iter().for_each(|(copy, value)| self.line(&format!("mov.b{bits} {copy}, {value};")));
            list(copies.into_iter().map(|(copy, _)| copy).collect())
        });
        self.family(&format!("st.{form}"), &format!("[{call}_from], {given}"));
        self.used.push("call.(functions)".to_owned());
        self.line(&format!("call.uni ({call}_to), copy{bytes}, ({call}_from);"));
        if parts.ty == "s8" && parts.elements == 1 && taken.starts_with("%h") {
            // The driver's compiler extends this value to 32 bits, and assumes afterwards that a register of 16 bits has zeros above them.
            self.line(".reg .b32 %e;");
            self.family(&format!("ld.{form}"), &format!("%e, [{call}_to]"));
            self.line(&format!("cvt.u16.u32 {taken}, %e;"));
        } else if let Some((copies, bits)) = self.copies(&parts, &taken, "%e") {
            let loaded = list(copies.iter().map(|(copy, _)| copy.clone()).collect());
            self.family(&format!("ld.{form}"), &format!("{loaded}, [{call}_to]"));
            copies.iter().for_each(|(copy, value)| self.line(&format!("mov.b{bits} {value}, {copy};")));
        } else {
            self.family(&format!("ld.{form}"), &format!("{taken}, [{call}_to]"));
        }
        self.line("}");
    }

    /// Declares registers that take the place of a value's registers if those are wider than its elements. Returns each new register with the old one, and their
    /// number of bits. The driver's compiler converts a parameter between integer and float if another instruction uses its wider register as a float.
    fn copies(&mut self, parts: &Parts, values: &str, name: &str) -> Option<(Vec<(String, String)>, usize)> {
        let values: Vec<&str> = values.trim_matches(['{', '}']).split(", ").collect();
        let bits = match values[0].as_bytes()[1] {
            b'h' => 16,
            b'w' => 32,
            _ => 64,
        };
        if bits <= 8 * parts.bytes {
            return None;
        }
        self.line(&format!(".reg .b{bits} {name}<{}>;", parts.elements));
        Some((values.iter().enumerate().map(|(i, value)| (format!("{name}{i}"), (*value).to_owned())).collect(), bits))
    }

    /// Writes an instruction without a result: a fence or hint between a store and a load.
    pub fn hint(&mut self, opcode: &str) {
        let (before, after) = (self.pair(), self.pair());
        let operands = match opcode.split('.').next() {
            Some("prefetch") => "[%a0]",
            Some("nanosleep") => "20",
            _ => "",
        };
        self.line(&format!("st.global.v2.b64 [%a0], {before};"));
        self.family(opcode, operands);
        self.line(&format!("ld.global.v2.b64 {after}, [%a0];"));
    }
}
