//! Statements of random kernels in which the lanes of a warp, or the threads of a block, work together.

use super::forms::Kind;
use super::generate::Writer;

impl Writer<'_> {
    /// Writes a shuffle, vote, match, reduction or barrier.
    pub fn together(&mut self, opcode: &str) {
        let [word, from] = [(); 2].map(|()| self.register(Kind::Word));
        let [predicate, other] = [(); 2].map(|()| self.register(Kind::Predicate));
        let double = self.register(Kind::Double);
        let parts: Vec<&str> = opcode.split('.').collect();
        match parts[..] {
            ["shfl", ..] => self.shuffle(opcode, &format!("{word}|{predicate}, {from}")),
            ["vote", .., "b32"] => self.family(opcode, &format!("{word}, {other}, 0xffffffff")),
            ["vote", ..] => {
                self.family(opcode, &format!("{predicate}, {other}, 0xffffffff"));
                self.pass_through_memory(&predicate);
            }
            ["match", kind, _, ty] => {
                let into = if kind == "all" { format!("{word}|{predicate}") } else { word };
                let value = if ty == "b64" { double } else { from };
                self.family(opcode, &format!("{into}, {value}, 0xffffffff"));
            }
            ["redux", ..] => self.family(opcode, &format!("{word}, {from}, 0xffffffff")),
            ["activemask", _] => {
                // The bit of the thread's own lane is 1, whatever lanes the hardware runs together.
                self.family(opcode, "%t5");
                self.line(&format!(
                    "and.b32 %t4, %t0, 31;\nshr.u32 %t5, %t5, %t4;\nand.b32 %t5, %t5, 1;\nadd.u32 {word}, {word}, %t5;"
                ));
            }
            ["bar", "warp", _] => self.meet(),
            ["bar", "red", "popc", _] => {
                self.meet();
                self.family(opcode, &format!("{word}, 0, {other}"));
            }
            ["bar", "red", ..] => {
                self.meet();
                self.family(opcode, &format!("{predicate}, 0, {other}"));
                self.pass_through_memory(&predicate);
            }
            ["bar", "arrive"] => self.arrive(),
            ["bar" | "barrier", "sync"] => self.exchange(opcode),
            _ => panic!("no statement has `{opcode}`"),
        }
    }

    fn shuffle(&mut self, opcode: &str, operands: &str) {
        let clamp = if opcode.contains(".up.") { 0 } else { 31 };
        let width = self.random.pick(&[0, 16, 24, 28]);
        let lane =
            if self.random.below(2) == 0 { self.random.below(32).to_string() } else { self.register(Kind::Word) };
        self.family(opcode, &format!("{operands}, {lane}, {}, 0xffffffff", clamp | width << 8));
    }

    /// Writes code in which each thread stores to its place in shared memory and, after a barrier, loads a neighbour's.
    pub fn exchange(&mut self, barrier: &str) {
        let types = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"];
        let ty = self.random.pick(&types);
        let kind = Kind::parse(ty).unwrap_or(Kind::Word);
        let stored = self.register(kind);
        let (words, all) = ([self.register(Kind::Word), self.register(Kind::Word)], self.register(Kind::Double));
        self.line(&format!("st.shared.b64 [%a2], {all};"));
        if self.random.below(3) == 0 {
            self.family("st.shared.v2.b32", &format!("[%a2], {{{}, {}}}", words[0], words[1]));
        } else {
            self.family(&format!("st.shared.{ty}"), &format!("[%a2], {stored}"));
        }
        self.meet();
        self.family(barrier, "0");
        if self.random.below(3) == 0 {
            self.line("mov.b32 %t5, 0;");
            self.family("ld.shared.v2.b32", "{%t5, %t4}, [%a4]");
            self.line(&format!("add.u32 {}, %t5, %t4;", words[0]));
        } else {
            let into = self.register(kind);
            self.family(&format!("ld.shared.{ty}"), &format!("{into}, [%a4]"));
        }
        self.meet();
        self.line("bar.sync 0;");
    }

    /// Writes code in which the first warp stores to shared memory and arrives at a barrier, where the second warp waits before it loads.
    fn arrive(&mut self) {
        let (before, after) = (self.register(Kind::Double), self.register(Kind::Double));
        let (first, end) = (self.label(), self.label());
        self.line(&format!("st.shared.b64 [%a2], {before};"));
        self.meet();
        self.line(&format!("setp.lt.u32 %q1, %t0, 32;\n@%q1 bra {first};\nbar.sync 1, 64;"));
        self.line(&format!("ld.shared.b64 {after}, [%a2+-512];\nbra {end};\n{first}:"));
        self.family("bar.arrive", "1, 64");
        self.line(&format!("{end}:"));
        self.meet();
        self.line("bar.sync 0;");
    }
}
