//! Arithmetic expressions in one variable, given as text: evaluated on the CPU, or translated to CUDA C++.

use std::fmt::Write;
use warpbook_record::KernelSpec;

/// Maximum nesting depth that the parser accepts.
const DEEPEST: usize = 64;

/// Functions: the name, the number of arguments, and the name in CUDA C++.
const FUNCTIONS: [(&str, usize, &str); 6] = [
    ("abs", 1, "fabsf"),
    ("exp", 1, "expf"),
    ("sqrt", 1, "sqrtf"),
    ("tanh", 1, "tanhf"),
    ("max", 2, "fmaxf"),
    ("min", 2, "fminf"),
];

/// An expression in `x`, such as `max(x * 0.9 + 0.1, 0)`, made of numbers, `+ - * /`, parentheses, and `abs exp sqrt
/// tanh max min`. On a GPU, all arithmetic is in f32.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    node: Node,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    X,
    Number(f32),
    Negated(Box<Node>),
    Binary(char, Box<[Node; 2]>),
    /// Index of a function in `FUNCTIONS`, and its arguments.
    Call(usize, Vec<Node>),
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// If the text is not an expression; the message says where the mistake is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let node = reader.sum()?;
        match reader.peek() {
            None => Ok(Self { node, text: text.trim().to_owned() }),
            Some(c) => Err(reader.wrong(&format!("`{c}` was not expected"))),
        }
    }

    /// Returns the text from which the expression was parsed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates the expression at `x` in f64.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.node.at(x)
    }

    /// Evaluates the expression for each element in f32. Each operation runs on the whole array before the next one, as
    /// in a framework that does not compile.
    #[must_use]
    pub fn array_by_array(&self, x: &[f32]) -> Vec<f32> {
        self.node.array(x)
    }

    /// Returns the number of operations for each element.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.node.operations()
    }

    /// Returns the kernel in `guide/expression.cu`, specialised for this expression.
    #[must_use]
    pub fn kernel(&self) -> KernelSpec {
        let spec = warpbook_kernels::guide::expression();
        let source = format!("#define EXPRESSION {}\n#line 1\n{}", self.cuda(), spec.source);
        KernelSpec { source: source.into(), ..spec }
    }

    /// Returns the expression in CUDA C++, where `v` is a float.
    #[must_use]
    pub fn cuda(&self) -> String {
        let mut text = String::new();
        self.node.write(&mut text);
        text
    }
}

impl Node {
    fn at(&self, x: f64) -> f64 {
        match self {
            Self::X => x,
            Self::Number(v) => f64::from(*v),
            Self::Negated(a) => -a.at(x),
            Self::Binary(of, both) => {
                let [a, b] = both.each_ref().map(|n| n.at(x));
                match of {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
            Self::Call(function, of) => {
                let (a, b) = (of[0].at(x), of.get(1).map_or(0.0, |n| n.at(x)));
                match FUNCTIONS[*function].0 {
                    "abs" => a.abs(),
                    "exp" => a.exp(),
                    "sqrt" => a.sqrt(),
                    "tanh" => a.tanh(),
                    "max" => a.max(b),
                    _ => a.min(b),
                }
            }
        }
    }

    fn array(&self, x: &[f32]) -> Vec<f32> {
        let each = |a: Vec<f32>, f: fn(f32) -> f32| a.into_iter().map(f).collect();
        let both = |nodes: [&Self; 2], f: fn(f32, f32) -> f32| {
            let [a, b] = nodes.map(|n| n.array(x));
            a.into_iter().zip(b).map(|(a, b)| f(a, b)).collect()
        };
        match self {
            Self::X => x.to_vec(),
            Self::Number(v) => vec![*v; x.len()],
            Self::Negated(a) => each(a.array(x), |a| -a),
            Self::Binary(of, nodes) => {
                let f: fn(f32, f32) -> f32 = match of {
                    '+' => |a, b| a + b,
                    '-' => |a, b| a - b,
                    '*' => |a, b| a * b,
                    _ => |a, b| a / b,
                };
                both(nodes.each_ref(), f)
            }
            Self::Call(function, of) => match FUNCTIONS[*function].0 {
                "abs" => each(of[0].array(x), f32::abs),
                "exp" => each(of[0].array(x), f32::exp),
                "sqrt" => each(of[0].array(x), f32::sqrt),
                "tanh" => each(of[0].array(x), f32::tanh),
                "max" => both([&of[0], &of[1]], f32::max),
                _ => both([&of[0], &of[1]], f32::min),
            },
        }
    }

    fn operations(&self) -> u64 {
        match self {
            Self::X | Self::Number(_) => 0,
            Self::Negated(a) => 1 + a.operations(),
            Self::Binary(_, both) => 1 + both.iter().map(Self::operations).sum::<u64>(),
            Self::Call(_, of) => 1 + of.iter().map(Self::operations).sum::<u64>(),
        }
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::X => text.push('v'),
            Self::Number(v) => {
                // `{:?}` always writes a decimal point or an exponent; without these, the suffix `f` would be invalid.
                let _ = write!(text, "{v:?}f");
            }
            Self::Negated(a) => {
                text.push_str("(-");
                a.write(text);
                text.push(')');
            }
            Self::Binary(of, both) => {
                text.push('(');
                both[0].write(text);
                let _ = write!(text, " {of} ");
                both[1].write(text);
                text.push(')');
            }
            Self::Call(function, of) => {
                text.push_str(FUNCTIONS[*function].2);
                for (i, node) in of.iter().enumerate() {
                    text.push_str(if i == 0 { "(" } else { ", " });
                    node.write(text);
                }
                text.push(')');
            }
        }
    }
}

/// A recursive-descent parser.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!(
            "The expression `{}` cannot be read: {what} at character {}. It may have x, numbers, + - * /, parentheses, and {}.",
            self.text.trim(),
            self.text[..self.at].chars().count() + 1,
            FUNCTIONS.map(|f| f.0).join(", ")
        )
    }

    /// Returns the next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn takes(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += if is { c.len_utf8() } else { 0 };
        is
    }

    fn needs(&mut self, c: char) -> Result<(), String> {
        if self.takes(c) { Ok(()) } else { Err(self.wrong(&format!("`{c}` is missing"))) }
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.chain(['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Node, String> {
        self.chain(['*', '/'], Self::factor)
    }

    fn chain(&mut self, signs: [char; 2], of: fn(&mut Self) -> Result<Node, String>) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > 2 * DEEPEST {
            return Err(self.wrong("parentheses are nested too deeply"));
        }
        let mut node = of(self)?;
        // A long chain also makes a deep tree.
        let mut length = 0;
        while let Some(sign) = signs.into_iter().find(|sign| self.takes(*sign)) {
            length += 1;
            if length > DEEPEST {
                return Err(self.wrong("there are too many operations in a row"));
            }
            node = Node::Binary(sign, Box::new([node, of(self)?]));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn factor(&mut self) -> Result<Node, String> {
        match self.peek() {
            Some('-') => {
                self.at += 1;
                self.depth += 1;
                if self.depth > 2 * DEEPEST {
                    return Err(self.wrong("there are too many signs"));
                }
                let node = Node::Negated(Box::new(self.factor()?));
                self.depth -= 1;
                Ok(node)
            }
            Some('(') => {
                self.at += 1;
                let node = self.sum()?;
                self.needs(')')?;
                Ok(node)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(),
            Some(c) => Err(self.wrong(&format!("`{c}` is neither a number nor x nor a function"))),
            None => Err(self.wrong("something is missing")),
        }
    }

    fn number(&mut self) -> Result<Node, String> {
        let rest = &self.text[self.at..];
        let mut last = ' ';
        let ends = |c: char| {
            let goes_on = c.is_ascii_digit() || ".eE".contains(c) || ("+-".contains(c) && "eE".contains(last));
            last = c;
            !goes_on
        };
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        match word.parse::<f32>() {
            Ok(v) if v.is_finite() => {
                self.at += word.len();
                Ok(Node::Number(v))
            }
            _ => Err(self.wrong(&format!("`{word}` is not an fp32 number"))),
        }
    }

    fn name(&mut self) -> Result<Node, String> {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())];
        if word == "x" {
            self.at += 1;
            return Ok(Node::X);
        }
        let Some(function) = FUNCTIONS.iter().position(|f| f.0 == word) else {
            return Err(self.wrong(&format!("there is no function `{word}`")));
        };
        self.at += word.len();
        self.needs('(')?;
        let mut arguments = vec![self.sum()?];
        while arguments.len() < FUNCTIONS[function].1 {
            self.needs(',')?;
            arguments.push(self.sum()?);
        }
        self.needs(')')?;
        Ok(Node::Call(function, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_has_the_usual_order() {
        let check = |text: &str, x: f64, expect: f64| {
            let e = Expression::parse(text).unwrap();
            assert_eq!(e.at(x), expect, "{text}");
            assert_eq!(e.array_by_array(&[x as f32]), [expect as f32], "{text}");
        };
        check("x", 3.0, 3.0);
        check("1 + 2 * x - 4 / 2", 3.0, 5.0);
        check("8 - 4 - 2", 0.0, 2.0);
        check(" -x * -(2) ", 3.0, 6.0);
        check("max(x, 0) + min(x, 1) * abs(-3)", -2.0, -6.0);
        check("sqrt(x) / 2.5e-1 + tanh(0) + exp(0)", 4.0, 9.0);
    }

    #[test]
    fn it_is_written_as_cuda() {
        let e = Expression::parse("max(x * 0.9 + 1e-7, 2) / -x").unwrap();
        assert_eq!(e.cuda(), "(fmaxf(((v * 0.9f) + 1e-7f), 2.0f) / (-v))");
        assert_eq!((e.operations(), e.text()), (5, "max(x * 0.9 + 1e-7, 2) / -x"));
        let source = e.kernel().source;
        assert!(
            source.starts_with("#define EXPRESSION (fmaxf(") && source.contains("\n#line 1\n// Idea: "),
            "{source}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |text: &str, expect: &str| {
            let why = Expression::parse(text).unwrap_err();
            assert!(why.contains(expect), "{why}");
        };
        check("", "something is missing at character 1");
        check("x +", "something is missing");
        check("x y", "`y` was not expected at character 3");
        check("(x", "`)` is missing");
        check("max(x)", "`,` is missing");
        check("sin(x)", "no function `sin`");
        check("1e99", "`1e99` is not an fp32 number");
        check("1.2.3", "`1.2.3` is not an fp32 number");
        check("x; asm", "`;` was not expected");
        check("x é", "`é` was not expected");
        check(&"(".repeat(9999), "too deeply");
        check(&"-".repeat(9999), "too many signs");
        check(&"x+".repeat(9999), "too many operations in a row");
    }
}
