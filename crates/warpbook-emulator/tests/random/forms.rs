//! Lists the forms of instructions that random kernels use, with the kinds of registers of their operands.

use warpbook_emulator::{Gpu, Module};

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
    fn parse(ty: &str) -> Option<Self> {
        Some(match ty {
            "pred" => Self::Predicate,
            "b16" | "u16" | "s16" | "f16" | "bf16" | "u8" | "s8" => Self::Half,
            "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => Self::Word,
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
        self.opcode.split('.').any(|part| matches!(part, "approx" | "ftz" | "full"))
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
        (!is_move && matches!(*ty, "f16" | "bf16" | "f32" | "f64" | "f16x2" | "bf16x2")).then_some(ty)
    }
}

/// Returns all forms of arithmetic, logic, comparison and conversion that the emulator supports.
pub fn all() -> Vec<Form> {
    let mut opcodes: Vec<String> = warpbook_emulator::supported().iter().map(|name| (*name).to_owned()).collect();
    // Leaves out families with special operands, and those that are added below, such as `setp` and `cvt`.
    opcodes.retain(|opcode| !OF_FAMILIES.contains(&opcode.split('.').next().unwrap_or_default()));
    opcodes.extend(comparisons());
    opcodes.extend(conversions());
    opcodes.sort();
    opcodes.dedup();
    opcodes.iter().filter_map(|opcode| form(opcode)).filter(is_taken).collect()
}

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

fn comparisons() -> Vec<String> {
    let mut all = Vec::new();
    let signed = ["eq", "ne", "lt", "le", "gt", "ge"];
    let unsigned = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"];
    let float = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
    let groups: [(&[&str], &[&str]); 4] = [
        (&["s16", "s32", "s64"], &signed),
        (&["u16", "u32", "u64"], &unsigned),
        (&["b16", "b32", "b64"], &["eq", "ne"]),
        (&["f32", "f64"], &float),
    ];
    for (types, names) in groups {
        for (ty, name) in types.iter().flat_map(|ty| names.iter().map(move |name| (ty, name))) {
            all.push(format!("setp.{name}.{ty}"));
            let word = ["and", "or", "xor"][all.len() % 3];
            all.push(format!("setp.{name}.{word}.{ty}"));
        }
    }
    all
}

/// Returns the conversions. Floating-point numbers are rounded if they become narrower. Integers saturate if the new type does not include all of their values.
fn conversions() -> Vec<String> {
    let mut all = Vec::new();
    let integers = [
        ("u8", 8, false),
        ("s8", 8, true),
        ("u16", 16, false),
        ("s16", 16, true),
        ("u32", 32, false),
        ("s32", 32, true),
        ("u64", 64, false),
        ("s64", 64, true),
    ];
    let floats = ["f16", "f32", "f64"];
    for (to, to_bits, to_signed) in integers {
        for (from, from_bits, from_signed) in integers.iter().filter(|(from, ..)| *from != to) {
            all.push(format!("cvt.{to}.{from}"));
            let holds_all = match (to_signed, from_signed) {
                (true, false) => to_bits > *from_bits,
                (false, true) => false,
                _ => to_bits >= *from_bits,
            };
            if !holds_all {
                all.push(format!("cvt.sat.{to}.{from}"));
            }
        }
        for float in floats {
            all.extend(["rni", "rzi", "rmi", "rpi"].map(|rounding| format!("cvt.{rounding}.{to}.{float}")));
            all.extend(["rn", "rz", "rm", "rp"].map(|rounding| format!("cvt.{rounding}.{float}.{to}")));
        }
    }
    for (to, to_type) in floats.iter().enumerate() {
        for (from, from_type) in floats.iter().enumerate() {
            let roundings: &[&str] = match to.cmp(&from) {
                std::cmp::Ordering::Less => &["rn.", "rz.", "rm.", "rp.", "rn.sat."],
                std::cmp::Ordering::Equal => &["rni.", "rzi.", "rmi.", "rpi.", "sat."],
                std::cmp::Ordering::Greater => &["", "sat."],
            };
            all.extend(roundings.iter().map(|rounding| format!("cvt.{rounding}{to_type}.{from_type}")));
        }
    }
    for rounding in ["rn", "rz"] {
        all.extend(["f16x2", "bf16x2"].map(|to| format!("cvt.{rounding}.{to}.f32")));
        all.push(format!("cvt.{rounding}.bf16.f32"));
    }
    all
}

/// Returns true if the emulator accepts the form and compute capability 8.0 supports it.
fn is_taken(form: &Form) -> bool {
    let needs_more = NEEDS_MORE.iter().any(|opcode| form.opcode.starts_with(opcode));
    let text = super::generate::one_instruction(form);
    let decoded = Module::parse(&text).and_then(|module| {
        let mut gpu = Gpu::new();
        let loaded = gpu.load(&module).map_err(|fault| panic!("{fault}"));
        loaded.and_then(|loaded| loaded.kernel("k"))
    });
    !needs_more && decoded.is_ok()
}

/// Instruction families that are not taken from the emulator's table, because [`super::generate`] writes them itself, because they compute nothing, or because
/// their forms are listed in this file.
const OF_FAMILIES: [&str; 29] = [
    "activemask",
    "applypriority",
    "atom",
    "bar",
    "barrier",
    "bra",
    "brkpt",
    "brx",
    "call",
    "cvt",
    "cvta",
    "discard",
    "exit",
    "fence",
    "isspacep",
    "ld",
    "ldu",
    "match",
    "membar",
    "nanosleep",
    "prefetch",
    "prefetchu",
    "red",
    "redux",
    "ret",
    "setp",
    "shfl",
    "st",
    "vote",
];

/// Opcodes that begin like this need a compute capability above 8.0, according to the PTX ISA.
const NEEDS_MORE: [&str; 6] = ["add.bf16", "add.rn.bf16", "sub.bf16", "sub.rn.bf16", "mul.bf16", "mul.rn.bf16"];
