//! Generates random kernels with straight arithmetic, divergent branches, loops, shuffles and votes, shared and local memory, and atomics whose order does not
//! matter.

use super::forms::{self, Form, Kind};
use super::random::Random;
use std::fmt::Write;
use std::sync::LazyLock;

/// Number of blocks in a launch.
pub const BLOCKS: u32 = 2;
/// Number of threads in a block.
pub const THREADS: u32 = 64;
/// Number of registers of each kind that a kernel uses for its computations.
pub const REGISTERS: usize = 10;
/// Size in bytes of a thread's inputs, which are words and doublewords. Halves and predicates are derived from the words.
pub const IN_BYTES: usize = REGISTERS * (4 + 8);
/// Size in bytes of a thread's results: doublewords, words, halves, a word whose bits are the predicates, and padding to a multiple of 16.
pub const OUT_BYTES: usize = REGISTERS * (8 + 4 + 4) + 16;
/// Size in bytes of the sums to which all threads add.
pub const SUM_BYTES: usize = 256;
/// Number of words in constant memory.
pub const CONSTANTS: usize = 64;
/// Offset of the part of the sums that stays zero.
const ZEROS: usize = SUM_BYTES - 8;

/// Words that are edge cases of arithmetic: NaN, infinities, denormals, -0, the largest and smallest integers, shifts of 32 and more, and pairs of halves with
/// such values.
const WORDS: [u32; 30] = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    64,
    65,
    255,
    0x8000_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0xffff_fffe,
    0x7fc0_0000,
    0x7f80_0000,
    0xff80_0000,
    0x0000_0003,
    0x807f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f7f_ffff,
    0x4b00_0000,
    0x4f00_0000,
    0x7e00_fc00,
    0x0001_8001,
    0x3c00_bc00,
    0x7bff_8000,
    0x3fc0_7f80,
];

const DOUBLES: [u64; 18] = [
    0,
    1,
    63,
    64,
    1 << 63,
    i64::MAX.cast_unsigned(),
    u64::MAX,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x8000_0000_0000_0001,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0xffff_ffff,
];

/// Returns the inputs of all threads; half of them are edge cases.
pub fn inputs(seed: u64) -> Vec<u8> {
    let mut random = Random(seed ^ 0x5eed);
    let mut bytes = Vec::new();
    for _ in 0..BLOCKS * THREADS {
        for _ in 0..REGISTERS {
            let any = random.next();
            let word = if any & 1 == 0 { random.pick(&WORDS) } else { u32::try_from(any >> 32).unwrap() };
            bytes.extend(word.to_le_bytes());
        }
        for _ in 0..REGISTERS {
            let any = random.next();
            bytes.extend(if any & 1 == 0 { random.pick(&DOUBLES) } else { any }.to_le_bytes());
        }
    }
    bytes
}

/// The PTX of a kernel, and the forms of instructions in it.
pub struct Generated {
    pub text: String,
    pub forms: Vec<String>,
}

/// The directives at the start of a module.
pub const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

/// Returns the start of a module of random kernels: the directives, constants, and the functions that [`Writer::call`] calls.
pub fn head() -> String {
    let words = WORDS.iter().cycle().take(CONSTANTS).map(u32::to_string).collect::<Vec<_>>().join(", ");
    format!("{HEAD}.const .align 16 .b32 constants[{CONSTANTS}] = {{{words}}};\n{}", super::memory::functions())
}

/// Number of random statements in a kernel.
const STATEMENTS: usize = 24;

/// Returns the random kernel for a seed. All lanes execute each opcode in `turn`.
pub fn kernel(name: &str, seed: u64, turn: &[String]) -> Generated {
    let mut writer = Writer::new(seed, &FORMS);
    for i in 0..STATEMENTS {
        writer.statement();
        let due = turn.len() * i / STATEMENTS..turn.len() * (i + 1) / STATEMENTS;
        turn[due].iter().for_each(|opcode| writer.opcode(opcode));
    }
    finished(name, writer)
}

/// Returns a kernel that contains a single opcode several times, with inputs as operands. Arithmetic around it, as in the paths of a branch, only moves words.
pub fn kernel_of_opcode(name: &str, opcode: &str) -> Generated {
    let moves: Vec<Form> = FORMS.iter().filter(|form| form.opcode == "mov.b32").cloned().collect();
    let mut writer = Writer::new(1, &moves);
    for _ in 0..8 {
        writer.opcode(opcode);
    }
    finished(name, writer)
}

fn finished(name: &str, mut writer: Writer) -> Generated {
    // The last two instructions.
    writer.used.extend(["exit", "ret"].map(str::to_owned));
    let text = format!(
        ".entry {name}(.param .u64 {name}_in, .param .u64 {name}_out, .param .u64 {name}_sum) {{\n{}.shared .align 16 .b8 {name}_shared[{}];\n\
         .local .align 16 .b8 {name}_local[64];\n{}{}{}}}\n",
        registers(),
        THREADS * 16,
        prologue(name),
        writer.body.replace("NAME", name),
        epilogue(),
    );
    Generated { text, forms: writer.used }
}

fn registers() -> String {
    format!(
        ".reg .pred %p<{REGISTERS}>;\n.reg .b16 %h<{REGISTERS}>;\n.reg .b32 %w<{REGISTERS}>;\n.reg .b64 %d<{REGISTERS}>;\n\
         .reg .b16 %zh;\n.reg .b32 %zw;\n.reg .b64 %zd;\n\
         .reg .pred %q<4>;\n.reg .b16 %s<4>;\n.reg .b32 %t<8>;\n.reg .b32 %n<4>;\n.reg .b64 %a<12>;\n"
    )
}

/// Returns the start of a kernel, which reads a thread's inputs. `%a0` to `%a4` are addresses: the thread's results, the sums, the thread's place in shared
/// memory, its place in local memory, and a neighbour's place in shared memory.
/// `%t0` is the number of the thread in its block.
fn prologue(name: &str) -> String {
    let mut text = format!(
        "mov.u32 %t0, %tid.x;\nmov.u32 %t1, %ctaid.x;\nmad.lo.u32 %t2, %t1, {THREADS}, %t0;\n\
         ld.param.u64 %a5, [{name}_in];\nmad.wide.u32 %a5, %t2, {IN_BYTES}, %a5;\n\
         ld.param.u64 %a0, [{name}_out];\nmad.wide.u32 %a0, %t2, {OUT_BYTES}, %a0;\n\
         ld.param.u64 %a1, [{name}_sum];\nld.global.b16 %zh, [%a1+{ZEROS}];\nld.global.b32 %zw, [%a1+{ZEROS}];\nld.global.b64 %zd, [%a1+{ZEROS}];\n\
         mov.u64 %a2, {name}_shared;\nmad.wide.u32 %a4, %t0, 16, %a2;\nadd.u32 %t3, %t0, 7;\nand.b32 %t3, %t3, {};\nmad.wide.u32 %a6, %t3, 16, %a2;\n\
         mov.u64 %a2, %a4;\nmov.u64 %a4, %a6;\nmov.u64 %a3, {name}_local;\n",
        THREADS - 1
    );
    for i in 0..REGISTERS {
        let _ = writeln!(
            text,
            "ld.global.b32 %w{i}, [%a5+{}];\nld.global.b64 %d{i}, [%a5+{}];",
            4 * i,
            4 * REGISTERS + 8 * i
        );
    }
    for i in 0..REGISTERS {
        let _ = writeln!(
            text,
            "mov.b32 {{%h{i}, %s0}}, %w{i};\nand.b32 %t3, %w{i}, {};\nsetp.ne.u32 %p{i}, %t3, 0;",
            1u32 << (i + 3)
        );
    }
    text
}

/// Returns the end of a kernel, which stores a thread's registers in its results.
fn epilogue() -> String {
    let mut text = "mov.u32 %t3, 0;\n".to_owned();
    for i in 0..REGISTERS {
        let _ = writeln!(
            text,
            "st.global.b64 [%a0+{}], %d{i};\nst.global.b32 [%a0+{}], %w{i};\ncvt.u32.u16 %t4, %h{i};\nst.global.b32 [%a0+{}], %t4;\n\
             selp.b32 %t4, {}, 0, %p{i};\nor.b32 %t3, %t3, %t4;",
            8 * i,
            8 * REGISTERS + 4 * i,
            12 * REGISTERS + 4 * i,
            1 << i,
        );
    }
    let _ = writeln!(text, "st.global.b32 [%a0+{}], %t3;\n@%p0 exit;\nret;", 16 * REGISTERS);
    text
}

/// The opcodes that random kernels contain.
pub static OPCODES: LazyLock<Vec<String>> = LazyLock::new(forms::exact_opcodes);

/// The forms of arithmetic, logic, comparison and conversion among them, sorted by opcode.
static FORMS: LazyLock<Vec<Form>> =
    LazyLock::new(|| forms::all().into_iter().filter(|form| !form.is_approximate()).collect());

/// Writes the statements of a kernel.
pub struct Writer<'a> {
    pub random: Random,
    forms: &'a [Form],
    body: String,
    /// The forms of instructions so far, each as often as it occurs.
    pub used: Vec<String>,
    labels: usize,
}

impl<'a> Writer<'a> {
    fn new(seed: u64, forms: &'a [Form]) -> Self {
        Self { random: Random(seed), forms, body: String::new(), used: Vec::new(), labels: 0 }
    }

    pub fn line(&mut self, text: &str) {
        self.body += text;
        self.body += "\n";
    }

    /// Writes an instruction of a family that [`super::forms`] does not list, and records its form.
    pub fn family(&mut self, form: &str, operands: &str) {
        self.used.push(form.to_owned());
        let space = if operands.is_empty() { "" } else { " " };
        self.line(&format!("{form}{space}{operands};"));
    }

    pub fn register(&mut self, kind: Kind) -> String {
        let letter = match kind {
            Kind::Predicate => 'p',
            Kind::Half => 'h',
            Kind::Word => 'w',
            Kind::Double => 'd',
        };
        format!("%{letter}{}", self.random.below(REGISTERS))
    }

    pub fn label(&mut self) -> String {
        self.labels += 1;
        format!("NAME_L{}", self.labels)
    }

    /// Writes a statement that all threads of the block execute together.
    fn statement(&mut self) {
        match self.random.below(16) {
            0 => self.branch(),
            1 => self.repeat(),
            2 => self.pick(&["shfl"]),
            3 => self.pick(&["vote", "match", "redux"]),
            4 => self.exchange("bar.sync"),
            5 => self.local(),
            6 => self.atomic(),
            7 => self.pick(&["bar"]),
            8 => self.packed(),
            9 => self.pick(&["ld", "st"]),
            _ => self.arithmetic(),
        }
    }

    /// Writes a random opcode of some families.
    fn pick(&mut self, families: &[&str]) {
        let family = self.random.pick(families);
        let all: Vec<&String> = OPCODES.iter().filter(|opcode| forms::family(opcode) == family).collect();
        let opcode = self.random.pick(&all);
        self.opcode(opcode);
    }

    /// Writes a statement with an opcode, which all threads of the block execute together.
    pub fn opcode(&mut self, opcode: &str) {
        if let Ok(place) = FORMS.binary_search_by(|form| form.opcode.as_str().cmp(opcode)) {
            return self.instruction(&FORMS[place]);
        }
        match forms::family(opcode) {
            "ld" | "st" if opcode.contains(".param") => self.call(opcode),
            "call" => self.call("st.param.b32"),
            "ld" => self.load(opcode),
            "st" => self.store(opcode),
            "atom" | "red" => self.update(opcode),
            "cvta" => self.convert_address(opcode),
            "isspacep" => self.is_in_space(opcode),
            "prefetch" | "membar" | "fence" | "nanosleep" => self.hint(opcode),
            "bra" => self.two_ways(),
            "brx" => self.table(),
            // Each kernel ends with them.
            "exit" | "ret" => {}
            _ => self.together(opcode),
        }
    }

    fn arithmetic(&mut self) {
        let form = &self.forms[self.random.below(self.forms.len())];
        self.instruction(form);
    }

    /// Writes an instruction. A NaN result is replaced with a fixed NaN, because its payload may differ. The instruction is followed by an exclusive or with a
    /// zero that the assembler cannot predict; otherwise the assembler could fuse two instructions and get a different result for NaN or for the least integer.
    pub fn instruction(&mut self, form: &Form) {
        self.used.push(form.opcode.clone());
        let mut operands: Vec<String> = form.from.iter().map(|kind| self.register(*kind)).collect();
        // PTX does not define the result of a division by zero.
        if form.opcode.starts_with("div.") && !form.is_float() || form.opcode.starts_with("rem.") {
            let (suffix, temporary) = match form.into {
                Kind::Half => ("b16", "%s3"),
                Kind::Word => ("b32", "%t7"),
                _ => ("b64", "%a7"),
            };
            self.line(&format!("or.{suffix} {temporary}, {}, 1;", operands[1]));
            operands[1] = temporary.to_owned();
        }
        // PTX does not define the result for positions and lengths above 255.
        if form.opcode.starts_with("bfe.") || form.opcode.starts_with("bfi.") {
            let last = operands.len() - 2;
            for (operand, temporary) in operands[last..].iter_mut().zip(["%t5", "%t7"]) {
                self.body += &format!("and.b32 {temporary}, {operand}, 255;\n");
                temporary.clone_into(operand);
            }
        }
        if form.has_table {
            operands.push(self.random.below(256).to_string());
        }
        let mut into = self.register(form.into);
        if form.results == 2 && self.random.below(2) == 0 {
            let other = (0..REGISTERS).map(|i| format!("%p{i}")).find(|other| *other != into);
            into = format!("{into}|{}", other.unwrap_or_default());
        }
        self.line(&format!("{} {into}, {};", form.opcode, operands.join(", ")));
        if let Some(ty) = form.float_type() {
            self.one_nan(ty, &into);
        }
        // The lowest bits of a TF32 number have no meaning.
        if form.float_type() == Some("tf32") {
            self.line(&format!("and.b32 {into}, {into}, 0xffffe000;"));
        }
        match form.into {
            Kind::Predicate => {}
            Kind::Half => self.line(&format!("xor.b16 {into}, {into}, %zh;")),
            Kind::Word => self.line(&format!("xor.b32 {into}, {into}, %zw;")),
            Kind::Double => self.line(&format!("xor.b64 {into}, {into}, %zd;")),
        }
    }

    /// Replaces every NaN in a register with the same NaN.
    pub fn one_nan(&mut self, ty: &str, register: &str) {
        let half = |writer: &mut Self, infinity: u32, nan: u32, register: &str| {
            writer.line(&format!("and.b16 %s1, {register}, 32767;\nsetp.gt.u16 %q0, %s1, {infinity};\nselp.b16 {register}, {nan}, {register}, %q0;"));
        };
        match ty {
            "f32" | "tf32" => self
                .line(&format!("and.b32 %t6, {register}, 0x7fffffff;\nsetp.gt.u32 %q0, %t6, 0x7f800000;\nselp.b32 {register}, 0x7fffffff, {register}, %q0;")),
            "f64" => self.line(&format!(
                "and.b64 %a7, {register}, 0x7fffffffffffffff;\nsetp.gt.u64 %q0, %a7, 0x7ff0000000000000;\n\
                 selp.b64 {register}, 0x7fffffffffffffff, {register}, %q0;"
            )),
            "f16" => half(self, 0x7c00, 0x7fff, register),
            "bf16" => half(self, 0x7f80, 0x7fff, register),
            _ => {
                let infinity = if ty == "f16x2" { 0x7c00 } else { 0x7f80 };
                self.line(&format!("mov.b32 {{%s2, %s3}}, {register};"));
                half(self, infinity, 0x7fff, "%s2");
                half(self, infinity, 0x7fff, "%s3");
                self.line(&format!("mov.b32 {register}, {{%s2, %s3}};"));
            }
        }
    }

    /// Writes a branch at which lanes diverge and reconverge. The lanes take two paths, or several paths through a jump table.
    fn branch(&mut self) {
        if self.random.below(4) == 0 { self.table() } else { self.two_ways() }
    }

    fn two_ways(&mut self) {
        let (other, end) = (self.label(), self.label());
        let (predicate, not) = (self.register(Kind::Predicate), self.random.pick(&["", "!"]));
        self.used.push("bra".to_owned());
        // The instructions in the two paths may overwrite this predicate, which the emulator must tolerate.
        self.line(&format!("@{not}{predicate} bra {other};"));
        (0..1 + self.random.below(4)).for_each(|_| self.arithmetic());
        self.line(&format!("bra {end};\n{other}:"));
        (0..self.random.below(4)).for_each(|_| self.arithmetic());
        if self.random.below(3) == 0 {
            self.branch();
        }
        self.line(&format!("{end}:"));
    }

    fn table(&mut self) {
        let labels = [(); 3].map(|()| self.label());
        let (end, list) = (self.label(), self.label());
        let index = self.register(Kind::Word);
        self.line(&format!("rem.u32 %t5, {index}, 3;\n{list}: .branchtargets {};", labels.join(", ")));
        self.family("brx.idx", &format!("%t5, {list}"));
        for label in &labels {
            self.line(&format!("{label}:"));
            (0..1 + self.random.below(3)).for_each(|_| self.arithmetic());
            self.line(&format!("bra {end};"));
        }
        self.line(&format!("{end}:"));
    }

    /// Writes a loop whose number of rounds differs between lanes.
    fn repeat(&mut self) {
        let (begin, counter) = (self.label(), self.register(Kind::Word));
        self.line(&format!("and.b32 %n0, {counter}, 3;\n{begin}:"));
        (0..1 + self.random.below(4)).for_each(|_| self.arithmetic());
        self.line(&format!("setp.ne.u32 %q1, %n0, 0;\nsub.u32 %n0, %n0, 1;\n@%q1 bra {begin};"));
    }

    fn local(&mut self) {
        let (index, from, into) = (self.register(Kind::Word), self.register(Kind::Word), self.register(Kind::Word));
        self.line(&format!("and.b32 %t5, {index}, 15;\nmad.wide.u32 %a5, %t5, 4, %a3;\nst.local.b32 [%a3], {index};"));
        self.family("st.local.b32", &format!("[%a5], {from}"));
        self.family("ld.local.b32", &format!("{into}, [%a3]"));
    }

    /// Writes an atomic operation. Memory that all threads share is only updated by operations whose order does not matter; a thread's own memory by any
    /// operation.
    fn atomic(&mut self) {
        let common = [
            "add.u32", "add.u64", "min.u32", "max.u32", "min.s32", "max.s32", "min.u64", "max.u64", "min.s64",
            "max.s64", "and.b32", "or.b32", "xor.b32", "and.b64", "or.b64", "xor.b64",
        ];
        if self.random.below(2) == 0 {
            return self.pick(&["atom", "red"]);
        }
        let form = self.random.pick(&common);
        let place = (0..common.len()).find(|i| common[*i] == form).unwrap_or(0) * 8;
        let value = self.register(if form.ends_with("64") { Kind::Double } else { Kind::Word });
        self.family(&format!("red.global.{form}"), &format!("[%a1+{place}], {value}"));
    }

    /// Synchronises the lanes of a warp. A barrier of the block would need complete warps.
    pub fn meet(&mut self) {
        self.family("bar.warp.sync", "0xffffffff");
    }

    /// Stores a predicate on which all lanes agree, and loads it again. Otherwise `ptxas` 13.0 repeats the vote or the barrier's reduction in a later branch
    /// that uses the predicate, where some of the lanes are missing.
    pub fn pass_through_memory(&mut self, predicate: &str) {
        self.line(&format!(
            "selp.b32 %t5, 1, 0, {predicate};\nst.volatile.global.b32 [%a0], %t5;\nld.volatile.global.b32 %t5, [%a0];\n\
             setp.ne.u32 {predicate}, %t5, 0;"
        ));
    }

    fn packed(&mut self) {
        let halves = [(); 2].map(|()| self.register(Kind::Half));
        let words = [self.register(Kind::Word), "%t5".to_owned()];
        let (word, double) = (self.register(Kind::Word), self.register(Kind::Double));
        self.line(&format!("mov.b32 %t5, {word};"));
        match self.random.below(3) {
            0 => self.family("mov.b32", &format!("{word}, {{{}, {}}}", halves[0], halves[1])),
            1 => self.family("mov.b64", &format!("{double}, {{{}, {}}}", words[0], words[1])),
            _ => {
                self.family("mov.b64", &format!("{{%t4, %t5}}, {double}"));
                self.line(&format!("xor.b32 {word}, %t4, %t5;"));
            }
        }
    }
}
