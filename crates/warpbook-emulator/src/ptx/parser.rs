//! The parser for modules: directives, variables, and function headers. Function bodies are parsed in `statements.rs`.

use super::lexer::{Token, TokenKind, tokens};
use super::tree::{Function, Module, Operand, Variable, VariableId};
use super::types::{Space, Type};
use crate::Refusal;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum size of a variable in bytes.
const MOST_BYTES: u64 = 1 << 30;

impl Module {
    /// Parses the text of a PTX module.
    ///
    /// # Errors
    /// If the text is not valid PTX. The refusal has the line and the column.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let tokens = tokens(text)?;
        let mut parser = Parser {
            files: files(&tokens),
            tokens,
            at: 0,
            module: Self { variables: Vec::new(), functions: Vec::new() },
            names: HashMap::new(),
        };
        while parser.peek() != TokenKind::End {
            parser.item()?;
        }
        Ok(parser.module)
    }

    /// Returns the names of the module's entries.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().filter(|f| f.is_entry).map(|f| f.name.as_str())
    }
}

/// Returns the source files by number. The `.file` directives are at the end, after the instructions that refer to them.
fn files(tokens: &[Token]) -> HashMap<u64, Arc<str>> {
    let triples = tokens.windows(3).filter_map(|t| match (t[0].kind, t[1].kind, t[2].kind) {
        (TokenKind::Word(".file"), TokenKind::Integer(number), TokenKind::Text(name)) => Some((number, name.into())),
        _ => None,
    });
    triples.collect()
}

pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    pub(super) files: HashMap<u64, Arc<str>>,
    pub(super) module: Module,
    /// The module's variables by name, as operands.
    pub(super) names: HashMap<String, Operand>,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> TokenKind<'a> {
        self.tokens[self.at].kind
    }

    /// Returns the token after the next one, without consuming any token.
    pub(super) fn peek_second(&self) -> TokenKind<'a> {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    pub(super) fn position(&self) -> (u32, u32) {
        self.tokens[self.at].at
    }

    pub(super) fn next(&mut self) -> TokenKind<'a> {
        let kind = self.peek();
        // Stays at the last token, which marks the end of the text.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    pub(super) fn refuse<T>(&self, message: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::new(self.position(), message))
    }

    /// Consumes the next token if it is the given symbol. Returns true if it was.
    pub(super) fn takes(&mut self, symbol: char) -> bool {
        self.takes_token(TokenKind::Symbol(symbol))
    }

    pub(super) fn takes_token(&mut self, token: TokenKind) -> bool {
        let is_next = self.peek() == token;
        if is_next {
            self.next();
        }
        is_next
    }

    pub(super) fn expect(&mut self, symbol: char) -> Result<(), Refusal> {
        if self.takes(symbol) { Ok(()) } else { self.refuse(format!("Expected `{symbol}`.")) }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, Refusal> {
        let TokenKind::Word(word) = self.peek() else { return self.refuse("Expected a name.") };
        self.next();
        Ok(word)
    }

    pub(super) fn integer(&mut self) -> Result<u64, Refusal> {
        let TokenKind::Integer(number) = self.peek() else { return self.refuse("Expected a number.") };
        self.next();
        Ok(number)
    }

    /// Skips the rest of a line, for directives that do not end with a semicolon.
    pub(super) fn skip_line(&mut self) {
        let line = self.position().0;
        while self.position().0 == line && self.peek() != TokenKind::End {
            self.next();
        }
    }

    /// Parses a directive, variable or function of the module.
    fn item(&mut self) -> Result<(), Refusal> {
        while matches!(self.peek(), TokenKind::Word(".extern" | ".visible" | ".weak" | ".common")) {
            self.next();
        }
        let TokenKind::Word(word) = self.peek() else { return self.refuse("Expected a directive.") };
        match word {
            ".version" | ".target" | ".address_size" | ".file" => self.skip_line(),
            ".section" => self.skip_past('}', "A section has no end.")?,
            ".pragma" => self.skip_past(';', "Expected `;`.")?,
            ".entry" | ".func" => self.function()?,
            ".global" | ".const" | ".shared" => {
                let variable = self.variable()?;
                self.expect(';')?;
                let id = VariableId::Module(index(self.module.variables.len()));
                self.names.insert(variable.name.clone(), Operand::Variable(id, 0));
                self.module.variables.push(variable);
            }
            _ => return self.refuse(format!("`{word}` is not supported.")),
        }
        Ok(())
    }

    /// Skips all tokens up to and including a symbol. If the text ends first, returns `complaint` as the error.
    pub(super) fn skip_past(&mut self, symbol: char, complaint: &str) -> Result<(), Refusal> {
        while !self.takes(symbol) {
            if self.next() == TokenKind::End {
                return self.refuse(complaint);
            }
        }
        Ok(())
    }

    /// Parses a variable's declaration up to its initial values or its semicolon.
    pub(super) fn variable(&mut self) -> Result<Variable, Refusal> {
        let space = match self.word()? {
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            other => return self.refuse(format!("`{other}` is not supported.")),
        };
        let (mut align, mut vector, mut ty) = (None, 1, None);
        while let TokenKind::Word(word) = self.peek() {
            let Some(directive) = word.strip_prefix('.') else { break };
            self.next();
            match directive {
                "align" => align = Some(self.integer()?.clamp(1, 4096)),
                "v2" => vector = 2,
                "v4" => vector = 4,
                "ptr" => {
                    // Skips the state space and the alignment of the memory that a pointer parameter refers to.
                    if matches!(self.peek(), TokenKind::Word(".global" | ".const" | ".shared" | ".local")) {
                        self.next();
                    }
                    if self.takes_token(TokenKind::Word(".align")) {
                        self.integer()?;
                    }
                }
                name => match Type::parse(name) {
                    Some(found) => ty = Some(found),
                    None => return self.refuse(format!("`.{name}` is not supported.")),
                },
            }
        }
        let Some(ty) = ty else { return self.refuse("Expected a type.") };
        let name = self.word()?.to_owned();
        let element = u64::from(ty.bytes()) * vector;
        let mut bytes = element;
        while self.takes('[') {
            let count = if self.peek() == TokenKind::Symbol(']') { 0 } else { self.integer()? };
            self.expect(']')?;
            bytes = bytes.saturating_mul(count);
        }
        if bytes > MOST_BYTES {
            return self.refuse(format!("`{name}` has more than {MOST_BYTES} bytes."));
        }
        let mut initial = Vec::new();
        if self.takes('=') {
            self.initial(ty, &mut initial, 0)?;
            if initial.len() as u64 > bytes {
                return self.refuse(format!("`{name}` has more values than elements."));
            }
        }
        Ok(Variable { name, space, align: align.unwrap_or(element), bytes, initial })
    }

    /// Parses the initial values of a variable, and appends their bytes to `bytes`.
    fn initial(&mut self, ty: Type, bytes: &mut Vec<u8>, depth: u32) -> Result<(), Refusal> {
        if self.takes('{') {
            if depth > 8 {
                return self.refuse("Values are nested too deep.");
            }
            while !self.takes('}') {
                self.initial(ty, bytes, depth + 1)?;
                self.takes(',');
            }
            return Ok(());
        }
        let is_negative = self.takes('-');
        let bits = match self.peek() {
            TokenKind::Integer(v) if is_negative => v.wrapping_neg(),
            TokenKind::Integer(v) | TokenKind::Double(v) => v,
            TokenKind::Single(v) => v.into(),
            _ => return self.refuse("Only numbers are supported as initial values."),
        };
        self.next();
        let length = usize::from(ty.bytes());
        bytes.extend(&bits.to_le_bytes()[..length]);
        Ok(())
    }

    fn function(&mut self) -> Result<(), Refusal> {
        let at = self.position();
        let is_entry = self.word()? == ".entry";
        let mut variables = Vec::new();
        let results = if is_entry { Vec::new() } else { self.parameters(&mut variables)? };
        let name = self.word()?.to_owned();
        let parameters = self.parameters(&mut variables)?;
        let mut directives = Vec::new();
        while let TokenKind::Word(word) = self.peek() {
            self.next();
            let mut numbers = Vec::new();
            while let TokenKind::Integer(number) = self.peek() {
                numbers.push(number);
                self.next();
                self.takes(',');
            }
            directives.push((word.to_owned(), numbers));
        }
        let has_body = !self.takes(';');
        let mut function = Function {
            name,
            is_entry,
            results,
            parameters,
            directives,
            has_body,
            variables,
            at,
            ..Function::default()
        };
        if has_body {
            self.body(&mut function)?;
        }
        // A definition replaces an earlier declaration of the same function.
        self.module.functions.retain(|f| f.name != function.name);
        self.module.functions.push(function);
        Ok(())
    }

    /// Parses a list of parameters in parentheses, if there is one. Returns their indices in `variables`.
    fn parameters(&mut self, variables: &mut Vec<Variable>) -> Result<Vec<u32>, Refusal> {
        let mut all = Vec::new();
        if !self.takes('(') {
            return Ok(all);
        }
        while !self.takes(')') {
            all.push(index(variables.len()));
            variables.push(self.variable()?);
            self.takes(',');
        }
        Ok(all)
    }
}

/// Converts a length to a 32-bit index of the tree, which suffices for any text below 4 GB.
pub(super) fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
