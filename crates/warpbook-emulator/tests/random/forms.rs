//! Lists the forms of instructions that random kernels use, with the kinds of registers of their operands.

/// A kind of register in the random kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Predicate,
    Half,
    Word,
    Double,
}

impl Kind {
    /// Returns the kind of register for a type; `None` for other parts of an opcode.
    pub fn parse(ty: &str) -> Option<Self> {
        Some(match ty {
            "pred" => Self::Predicate,
            "b16" | "u16" | "s16" | "f16" | "bf16" | "b8" | "u8" | "s8" => Self::Half,
            "b32" | "u32" | "s32" | "f32" | "tf32" | "f16x2" | "bf16x2" => Self::Word,
            "b64" | "u64" | "s64" | "f64" => Self::Double,
            _ => return None,
        })
    }
}

/// A form of an instruction: its opcode with all modifiers, and the kinds of register of its result and operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    pub opcode: String,
    pub into: Kind,
    pub from: Vec<Kind>,
    /// Number of results. Only `setp` has two.
    pub results: usize,
    /// True if a constant below 256 is the last operand, as in `lop3`.
    pub has_table: bool,
}

impl Form {
    /// Returns true if the PTX ISA allows an error of some units in the last place, or allows denormals to count as zero.
    pub fn is_approximate(&self) -> bool {
        is_approximate(&self.opcode)
    }

    /// Returns true if the result is a floating-point number, whose payload may be arbitrary if it is NaN.
    pub fn is_float(&self) -> bool {
        self.float_type().is_some()
    }

    /// Returns the type of the result if it is a floating-point number.
    pub fn float_type(&self) -> Option<&str> {
        let mut parts = self.opcode.split('.');
        let is_conversion = parts.next() == Some("cvt");
        let types: Vec<&str> = parts.filter(|part| Kind::parse(part).is_some()).collect();
        let ty = if is_conversion { types.first() } else { types.last() }?;
        let is_move = ["mov", "selp", "setp"].iter().any(|name| self.opcode.starts_with(&format!("{name}.")));
        (!is_move && matches!(*ty, "f16" | "bf16" | "tf32" | "f32" | "f64" | "f16x2" | "bf16x2")).then_some(ty)
    }
}

/// Returns all forms of arithmetic, logic, comparison and conversion that the emulator supports.
pub fn all() -> Vec<Form> {
    let opcodes = warpbook_emulator::supported();
    let computes = |opcode: &&String| !OF_FAMILIES.contains(&family(opcode));
    opcodes
        .iter()
        .filter(computes)
        .map(|opcode| form(opcode).unwrap_or_else(|| panic!("{opcode} has no type")))
        .collect()
}

/// Returns all opcodes that occur in the random kernels, of all families.
pub fn exact_opcodes() -> Vec<String> {
    let mut opcodes = warpbook_emulator::supported();
    opcodes.retain(|opcode| !is_approximate(opcode) && EXCEPTIONS.iter().all(|(name, _)| name != opcode));
    opcodes
}

pub fn is_approximate(opcode: &str) -> bool {
    opcode.split('.').any(|part| matches!(part, "approx" | "ftz" | "full"))
}

/// Returns the first word of an opcode.
pub fn family(opcode: &str) -> &str {
    opcode.split('.').next().unwrap_or_default()
}

/// Opcodes that random kernels cannot contain, with the reason.
pub const EXCEPTIONS: [(&str, &str); 4] = [
    ("brkpt", "stops the kernel on a GPU without a debugger"),
    (
        "call.__assertfail",
        "ends the kernel with an error, after which a process cannot use the GPU; `tests/kernels/learners.rs` runs it",
    ),
    ("call.vprintf", "writes to the standard output of the process; `tests/kernels/learners.rs` runs it"),
    (
        "trap",
        "ends the kernel with an error, after which a process cannot use the GPU; `tests/kernels/learners.rs` runs it",
    ),
];

/// Returns the form of an opcode, with operands as the PTX ISA specifies them.
fn form(opcode: &str) -> Option<Form> {
    let (name, types) = (opcode.split('.').next()?, opcode.split('.').filter_map(Kind::parse).collect::<Vec<_>>());
    let (last, first) = (*types.last()?, *types.first()?);
    let is_wide = opcode.contains(".wide.");
    let twice = if last == Kind::Half { Kind::Word } else { Kind::Double };
    let (into, from): (Kind, Vec<Kind>) = match name {
        "setp" => {
            let combines = [".and.", ".or.", ".xor."].iter().any(|word| opcode.contains(word));
            let third = combines.then_some(Kind::Predicate);
            (Kind::Predicate, [last, last].into_iter().chain(third).collect())
        }
        "cvt" if opcode.contains("x2.") => (first, vec![last, last]),
        "cvt" => (first, vec![last]),
        "mul" if is_wide => (twice, vec![last; 2]),
        "mad" if is_wide => (twice, vec![last, last, twice]),
        "mad" | "fma" | "mad24" | "sad" => (last, vec![last; 3]),
        "shl" | "shr" => (last, vec![last, Kind::Word]),
        "shf" | "prmt" => (last, vec![last; 3]),
        "bfe" => (last, vec![last, Kind::Word, Kind::Word]),
        "bfi" => (last, vec![last, last, Kind::Word, Kind::Word]),
        "popc" | "clz" | "bfind" => (Kind::Word, vec![last]),
        "selp" => (last, vec![last, last, Kind::Predicate]),
        "lop3" => (last, vec![last; 3]),
        "mov" | "neg" | "abs" | "not" | "cnot" | "brev" | "ex2" | "lg2" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos"
        | "tanh" => (last, vec![last]),
        _ => (last, vec![last; 2]),
    };
    let results = if name == "setp" { 2 } else { 1 };
    Some(Form { opcode: opcode.to_owned(), into, from, results, has_table: name == "lop3" })
}

/// Families whose instructions [`super::generate`], [`super::memory`] and [`super::together`] write, because they have more operands than values.
pub const OF_FAMILIES: [&str; 24] = [
    "activemask",
    "atom",
    "bar",
    "barrier",
    "bra",
    "brkpt",
    "brx",
    "call",
    "cvta",
    "exit",
    "fence",
    "isspacep",
    "ld",
    "match",
    "membar",
    "nanosleep",
    "prefetch",
    "red",
    "redux",
    "ret",
    "shfl",
    "st",
    "trap",
    "vote",
];
