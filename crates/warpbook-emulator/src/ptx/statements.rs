//! The parser for function bodies: registers, variables, labels and instructions.

use super::lexer::TokenKind;
use super::parser::{Parser, index};
use super::tree::{Function, Instruction, Operand, Register, SourcePosition, VariableId};
use super::types::Type;
use crate::Refusal;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of registers in a function.
const MOST_REGISTERS: u64 = 50_000;

/// The state of parsing a body.
struct Body<'f> {
    function: &'f mut Function,
    /// Registers and variables by name, in one map for each scope; the innermost scope is last.
    scopes: Vec<HashMap<String, Operand>>,
    labels: HashMap<String, u32>,
    /// Labels that are jumped to, with the positions of the jumps. Until the end of the body, a jump target is an index into this list.
    wanted: Vec<(String, (u32, u32))>,
    /// Jump tables of `brx.idx`, by name.
    tables: HashMap<String, Operand>,
    position: Option<Arc<SourcePosition>>,
}

impl Body<'_> {
    fn named(&self, name: &str) -> Option<&Operand> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn declare(&mut self, name: &str, named: Operand) {
        let innermost = self.scopes.last_mut().expect("a body has a scope");
        innermost.insert(name.to_owned(), named);
    }
}

impl Parser<'_> {
    /// Parses a function body, from its opening brace to its closing brace.
    pub(super) fn body(&mut self, function: &mut Function) -> Result<(), Refusal> {
        self.expect('{')?;
        let parameters = function.variables.iter().enumerate();
        let of_variable = |i| Operand::Variable(VariableId::Function(index(i)), 0);
        let scope = parameters.map(|(i, v)| (v.name.clone(), of_variable(i))).collect();
        let (labels, tables) = (HashMap::new(), HashMap::new());
        let mut body =
            Body { function, scopes: vec![scope, HashMap::new()], labels, wanted: Vec::new(), tables, position: None };
        // The first scope has the function's parameters, so one scope remains at the end of the body.
        while body.scopes.len() > 1 {
            self.statement(&mut body)?;
        }
        resolve(&mut body)
    }

    fn statement(&mut self, body: &mut Body) -> Result<(), Refusal> {
        match self.peek() {
            TokenKind::Symbol('{') if body.scopes.len() < 64 => {
                self.next();
                body.scopes.push(HashMap::new());
            }
            TokenKind::Symbol('}') => {
                self.next();
                body.scopes.pop();
            }
            TokenKind::Symbol(';') => {
                self.next();
            }
            TokenKind::Word(".reg") => self.registers(body)?,
            TokenKind::Word(".local" | ".shared" | ".param") => {
                let variable = self.variable()?;
                self.expect(';')?;
                let id = VariableId::Function(index(body.function.variables.len()));
                body.declare(&variable.name, Operand::Variable(id, 0));
                body.function.variables.push(variable);
            }
            TokenKind::Word(".loc") => body.position = self.source_position()?,
            TokenKind::Word(".pragma") => self.skip_past(';', "Expected `;`.")?,
            TokenKind::Word(label) if self.peek_second() == TokenKind::Symbol(':') => {
                self.next();
                self.next();
                if self.takes_token(TokenKind::Word(".branchtargets")) {
                    let targets = self.operands(body, ';', 0)?;
                    body.tables.insert(label.to_owned(), Operand::Vector(targets));
                } else {
                    body.labels.insert(label.to_owned(), index(body.function.instructions.len()));
                }
            }
            _ => {
                let instruction = self.instruction(body)?;
                body.function.instructions.push(instruction);
            }
        }
        Ok(())
    }

    /// Parses a declaration of registers, such as `.reg .f32 %f<3>, %g;`.
    fn registers(&mut self, body: &mut Body) -> Result<(), Refusal> {
        self.next();
        let Some(ty) = self.word()?.strip_prefix('.').and_then(Type::parse) else {
            return self.refuse("Expected a register's type; vectors of registers are not supported.");
        };
        loop {
            let prefix = self.word()?;
            let count = if self.takes('<') {
                let count = self.integer()?;
                self.expect('>')?;
                Some(count)
            } else {
                None
            };
            if count.unwrap_or(1).saturating_add(body.function.registers.len() as u64) > MOST_REGISTERS {
                return self.refuse(format!("More than {MOST_REGISTERS} registers are not supported."));
            }
            for i in 0..count.unwrap_or(1) {
                let register = Register(index(body.function.registers.len()));
                body.function.registers.push(ty);
                let name = if count.is_some() { format!("{prefix}{i}") } else { prefix.to_owned() };
                body.declare(&name, Operand::Register(register));
            }
            if !self.takes(',') {
                return self.expect(';');
            }
        }
    }

    /// Parses a source position, such as `.loc 1 61 13, function_name $L__info_string0, inlined_at 1 69 5`.
    fn source_position(&mut self) -> Result<Option<Arc<SourcePosition>>, Refusal> {
        let line_of_ptx = self.position().0;
        self.next();
        let file_line_column = |parser: &mut Self| -> Result<_, Refusal> {
            let (file, line, column) = (parser.integer()?, parser.integer()?, parser.integer()?);
            let number = |v: u64| u32::try_from(v).unwrap_or(0);
            Ok((parser.files.get(&file).cloned(), number(line), number(column)))
        };
        let (file, line, column) = file_line_column(self)?;
        let mut inlined_at = None;
        while self.position().0 == line_of_ptx && self.peek() != TokenKind::End {
            if self.next() == TokenKind::Word("inlined_at") {
                let (file, line, _) = file_line_column(self)?;
                inlined_at = file.map(|file| (file, line));
            }
        }
        // Line 0 marks code that has no source line.
        let position = file.filter(|_| line > 0).map(|file| SourcePosition { file, line, column, inlined_at });
        Ok(position.map(Arc::new))
    }

    fn instruction(&mut self, body: &mut Body) -> Result<Instruction, Refusal> {
        let at = self.position();
        let guard = if self.takes('@') {
            let is_negated = self.takes('!');
            let name = self.word()?;
            match body.named(name) {
                Some(Operand::Register(register)) => Some((*register, is_negated)),
                _ => return self.refuse(format!("`{name}` is not a predicate.")),
            }
        } else {
            None
        };
        let opcode = self.word()?.to_owned();
        let operands = self.operands(body, ';', 0)?;
        Ok(Instruction { at, position: body.position.clone(), guard, opcode, operands })
    }

    /// Parses operands up to a closing symbol, such as `;` or `}`.
    fn operands(&mut self, body: &mut Body, end: char, depth: u32) -> Result<Vec<Operand>, Refusal> {
        if depth > 3 {
            return self.refuse("Operands are nested too deep.");
        }
        let mut all = Vec::new();
        while !self.takes(end) {
            all.push(self.operand(body, depth + 1)?);
            if !self.takes(',') && self.peek() != TokenKind::Symbol(end) {
                return self.refuse(format!("Expected `,` or `{end}` after an operand."));
            }
        }
        Ok(all)
    }

    fn operand(&mut self, body: &mut Body, depth: u32) -> Result<Operand, Refusal> {
        if self.takes('{') {
            return Ok(Operand::Vector(self.operands(body, '}', depth)?));
        }
        if self.takes('(') {
            return Ok(Operand::List(self.operands(body, ')', depth)?));
        }
        if self.takes('[') {
            let (base, offset) = match self.simple_operand(body)? {
                Operand::Variable(id, offset) => (Operand::Variable(id, 0), offset),
                other => (other, self.offset()?),
            };
            self.expect(']')?;
            return Ok(Operand::Address(Box::new(base), offset));
        }
        if self.takes('!') {
            return match self.simple_operand(body)? {
                Operand::Register(register) => Ok(Operand::Not(register)),
                _ => self.refuse("Expected a predicate after `!`."),
            };
        }
        let first = self.simple_operand(body)?;
        if !self.takes('|') {
            return Ok(first);
        }
        let second = self.simple_operand(body)?;
        let register = |operand| match operand {
            Operand::Register(register) => Ok(Some(register)),
            Operand::Nothing => Ok(None),
            _ => self.refuse("Expected a register next to `|`."),
        };
        Ok(Operand::Pair(register(first)?, register(second)?))
    }

    /// Parses an operand that is a single name or number.
    fn simple_operand(&mut self, body: &mut Body) -> Result<Operand, Refusal> {
        let at = self.position();
        let is_negative = self.takes('-');
        let number = match self.peek() {
            TokenKind::Integer(v) if is_negative => Operand::Integer(v.wrapping_neg()),
            TokenKind::Integer(v) => Operand::Integer(v),
            TokenKind::Single(v) => Operand::Single(v ^ u32::from(is_negative) << 31),
            TokenKind::Double(v) => Operand::Double(v ^ u64::from(is_negative) << 63),
            TokenKind::Word(name) if !is_negative => {
                self.next();
                return self.name(body, name, at);
            }
            _ => return self.refuse("Expected an operand."),
        };
        self.next();
        Ok(number)
    }

    fn name(&mut self, body: &mut Body, name: &str, at: (u32, u32)) -> Result<Operand, Refusal> {
        match body.named(name).or(self.names.get(name)) {
            Some(Operand::Variable(id, _)) => return Ok(Operand::Variable(*id, self.offset()?)),
            Some(register) => return Ok(register.clone()),
            None => {}
        }
        if name == "_" {
            return Ok(Operand::Nothing);
        }
        if name == "WARP_SZ" {
            return Ok(Operand::Integer(32));
        }
        if name.starts_with('%') {
            return Ok(Operand::Special(name.to_owned()));
        }
        if self.module.functions.iter().any(|f| f.name == name) || body.function.name == name {
            return Ok(Operand::Function(name.to_owned()));
        }
        body.wanted.push((name.to_owned(), at));
        Ok(Operand::Target(index(body.wanted.len() - 1)))
    }

    /// Parses an optional offset: `+16`, `+-4`, `-8` or nothing.
    fn offset(&mut self) -> Result<i64, Refusal> {
        let is_more = self.takes('+');
        let is_less = self.takes('-');
        if !is_more && !is_less {
            return Ok(0);
        }
        let bytes = self.integer()?.cast_signed();
        Ok(if is_less { bytes.wrapping_neg() } else { bytes })
    }
}

/// Replaces the labels in operands with indices of instructions.
fn resolve(body: &mut Body) -> Result<(), Refusal> {
    let (labels, tables, wanted) = (&body.labels, &body.tables, &body.wanted);
    let target = |operand: &Operand| -> Result<Operand, Refusal> {
        let Operand::Target(name) = operand else { return Ok(operand.clone()) };
        let (name, at) = &wanted[*name as usize];
        match labels.get(name) {
            Some(place) => Ok(Operand::Target(*place)),
            None => Err(Refusal::new(*at, format!("`{name}` is not known."))),
        }
    };
    for instruction in &mut body.function.instructions {
        for operand in &mut instruction.operands {
            let Operand::Target(name) = operand else { continue };
            *operand = match tables.get(&wanted[*name as usize].0) {
                Some(Operand::Vector(targets)) => {
                    Operand::Vector(targets.iter().map(target).collect::<Result<_, _>>()?)
                }
                _ => target(operand)?,
            };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::Module;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 table[8] = {1, 2};\n.entry k(.param .u64 a)\n{\n";

    fn parsed(body: &str) -> Result<Function, Refusal> {
        Module::parse(&format!("{HEAD}{body}\n}}\n.file 1 \"k.cu\"")).map(|mut module| module.functions.remove(0))
    }

    #[test]
    fn instructions_have_guard_operands_and_places() {
        let body = "\t.reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %d;\n\t.loc 1 7 3, function_name $x, inlined_at 1 9 5\n\
            @!%p1 ld.global.v2.b32 {%r1, %r2}, [%d+-8];\nsetp.lt.s32 %p0|_, %r1, -5;\nmov.u64 %d, table+4;\nL: bra L;";
        let function = parsed(body).unwrap();
        let [load, compare, address, branch] = function.instructions.as_slice() else { panic!("{function:?}") };
        let (r1, r2, d) = (Register(3), Register(4), Register(5));
        assert_eq!((load.guard, load.at), (Some((Register(1), true)), (11, 1)));
        let vector = Operand::Vector(vec![Operand::Register(r1), Operand::Register(r2)]);
        assert_eq!(load.operands, [vector, Operand::Address(Box::new(Operand::Register(d)), -8)]);
        assert_eq!(load.position.as_ref().unwrap().to_string(), "k.cu, line 7 (called in line 9)");
        assert_eq!(compare.operands[0], Operand::Pair(Some(Register(0)), None));
        assert_eq!(compare.operands[2], Operand::Integer(5u64.wrapping_neg()));
        assert_eq!(address.operands[1], Operand::Variable(VariableId::Module(0), 4));
        assert_eq!(branch.operands, [Operand::Target(3)]);
    }

    #[test]
    fn names_end_with_their_braces_and_tables_hold_labels() {
        let body = ".reg .b32 %a;\n{ .reg .b64 %a; mov.u64 %a, 0; }\nmov.u32 %a, 0f3F800000;\nT: .branchtargets A, B;\nbrx.idx %a, T;\nA: ret;\nB: ret;";
        let function = parsed(body).unwrap();
        let registers: Vec<&Operand> = function.instructions[..2].iter().map(|i| &i.operands[0]).collect();
        assert_eq!(registers, [&Operand::Register(Register(1)), &Operand::Register(Register(0))]);
        assert_eq!(function.instructions[1].operands[1], Operand::Single(0x3f80_0000));
        assert_eq!(function.instructions[2].operands[1], Operand::Vector(vec![Operand::Target(3), Operand::Target(4)]));
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_column() {
        for (body, message) in [
            ("ret", "Expected an operand. (PTX line 8, column 1)"),
            ("mov.b32 1 2;", "Expected `,` or `;` after an operand. (PTX line 7, column 11)"),
            ("bra L;", "`L` is not known. (PTX line 7, column 5)"),
            ("mov.u32 %x, 0x;", "`0x` is not a number. (PTX line 7, column 13)"),
            ("@x ret;", "`x` is not a predicate. (PTX line 7, column 4)"),
            (
                ".reg .v4 %a;",
                "Expected a register's type; vectors of registers are not supported. (PTX line 7, column 10)",
            ),
            ("/* ret;", "A comment has no end. (PTX line 7, column 1)"),
        ] {
            assert_eq!(parsed(body).unwrap_err().to_string(), message, "{body}");
        }
    }
}
