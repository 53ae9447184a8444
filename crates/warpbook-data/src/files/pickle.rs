//! Reads the pickles in CIFAR-10's Python archive, and no other pickles.
//!
//! A pickle is a program for a stack machine that can call anything in Python. This reader knows only the operations that occur in these files
//! (protocol 2, as Python 2 wrote it) and calls nothing: the only objects are a NumPy array of u8 and its type. Reference: the comments of
//! `pickletools.py` in Python's library. `serde-pickle` cannot be used, since it drops an object's state, which is where NumPy keeps the pixels.

use crate::error::{Error, Result};
use crate::files::cifar::{Images, MOST, PIXELS, bad_label};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// Limit on the number of values on the stack, elements of a list and entries of the memo; the published files have about 10,000.
const MOST_VALUES: usize = 40_000;
/// Limit on the number of tuples, and therefore on their nesting depth; the published files have six.
const MOST_TUPLES: usize = 32;

/// Reads the pixels and labels of a batch file.
pub(crate) fn batch(path: &Path, bytes: &[u8]) -> Result<Images> {
    let mut machine = Machine { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memo: Vec::new(), tuples: 0 };
    let result = machine.run().and_then(|entries| machine.images(&entries));
    result.map_err(|refusal| match refusal {
        Refusal::Label { at, i, label } => bad_label(path, at, i, label),
        Refusal::Other(at, why) => Error::format(path, at as u64, format!("{why} Download it again.")),
        Refusal::Python3(at) => Error::format(path, at as u64, AS_PYTHON_3),
    })
}

/// Advice for a pickle that Python 3 has rewritten.
const AS_PYTHON_3: &str = "this pickle was written by Python 3, but only pickles by Python 2 in protocol 2, as in CIFAR-10, can be read. Use the \
    published file (`warpbook data fetch cifar10`), or save yours as the set's binary files: records of a label and 3072 bytes.";

enum Refusal {
    /// The pickle uses another protocol, or has bytes in the form that Python 3 writes in protocol 2.
    Python3(usize),
    Other(usize, String),
    Label {
        at: usize,
        i: usize,
        label: i64,
    },
}

type Step<T = ()> = std::result::Result<T, Refusal>;

/// A value on the stack of the pickle machine. Strings are stored as ranges of the file.
#[derive(Debug, Clone)]
enum Value {
    None,
    Bool(bool),
    /// An integer, with the offset where it was written.
    Int(i64, usize),
    Text(Range<usize>),
    Global(Global),
    Tuple(Rc<[Value]>),
    /// A list of numbers or strings.
    List(Vec<Value>),
    Dict(Vec<(Range<usize>, Value)>),
    /// The NumPy type u8; true once its state is set.
    Dtype(bool),
    /// A NumPy array; it has rows, columns and data once its state is set.
    Array(Option<(usize, usize, Range<usize>)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Global {
    Reconstruct,
    NdArray,
    Dtype,
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    tuples: usize,
}

fn refuse<T>(at: usize, why: impl Into<String>) -> Step<T> {
    Err(Refusal::Other(at, why.into()))
}

impl Machine<'_> {
    /// Runs the pickle program and returns the entries of the resulting dictionary.
    fn run(&mut self) -> Step<Vec<(Range<usize>, Value)>> {
        loop {
            let at = self.at;
            let op = self.byte()?;
            if op == b'.' {
                return match (self.stack.pop(), self.stack.is_empty()) {
                    (Some(Value::Dict(entries)), true) => Ok(entries),
                    _ => refuse(at, "The pickle is not a single dictionary."),
                };
            }
            self.step(op, at)?;
            if self.stack.len() > MOST_VALUES {
                return refuse(
                    at,
                    format!("The pickle holds more than {MOST_VALUES} values; a batch of CIFAR-10 does not."),
                );
            }
        }
    }

    fn step(&mut self, op: u8, at: usize) -> Step {
        match op {
            0x80 => match self.byte()? {
                2 => Ok(()),
                3..=5 => Err(Refusal::Python3(at)),
                n => refuse(at, format!("The pickle has protocol {n}; the files of CIFAR-10 have 2.")),
            },
            b'}' => self.push(Value::Dict(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b'(' => {
                self.marks.push(self.stack.len());
                if self.marks.len() > MOST_TUPLES { refuse(at, "The pickle is nested too deep.") } else { Ok(()) }
            }
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'K' | b'M' | b'J' | 0x8a => self.integer(op, at),
            b'U' | b'T' => self.text(op, at),
            b'c' => self.global(at),
            b'q' | b'r' | b'h' | b'j' => self.remember(op, at),
            0x85..=0x87 => self.tuple(usize::from(op) - 0x84, at),
            b't' => {
                let from = self.mark(at)?;
                self.tuple(self.stack.len() - from, at)
            }
            b'e' | b'a' => self.append(op, at),
            b'u' | b's' => self.set_items(op, at),
            b'R' => self.reduce(at),
            b'b' => self.build(at),
            _ => refuse(at, format!("The pickle has operation 0x{op:02x}, which no file of CIFAR-10 has.")),
        }
    }

    fn byte(&mut self) -> Step<u8> {
        Ok(self.bytes[self.next(1)?][0])
    }

    /// Returns the range of the next `n` bytes, and advances past them.
    fn next(&mut self, n: usize) -> Step<Range<usize>> {
        let from = self.at;
        if n > self.bytes.len() - from {
            return refuse(
                self.bytes.len(),
                format!("The file ends here, but {n} more bytes were expected from byte {from} on."),
            );
        }
        self.at += n;
        Ok(from..self.at)
    }

    /// Reads a little-endian number of `n` bytes.
    fn little(&mut self, n: usize) -> Step<u32> {
        Ok(self.bytes[self.next(n)?].iter().rev().fold(0, |v, b| v << 8 | u32::from(*b)))
    }

    fn push(&mut self, value: Value) -> Step {
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self, at: usize) -> Step<Value> {
        // Values below a mark belong to the operation that set it.
        let bottom = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= bottom {
            return refuse(at, "The pickle takes a value from an empty stack.");
        }
        self.stack.pop().map_or_else(|| refuse(at, "The pickle takes a value from an empty stack."), Ok)
    }

    /// Removes the last mark and returns the height of the stack when the mark was set.
    fn mark(&mut self, at: usize) -> Step<usize> {
        self.marks.pop().map_or_else(|| refuse(at, "The pickle refers to a mark that was not set."), Ok)
    }

    fn integer(&mut self, op: u8, at: usize) -> Step {
        let value = match op {
            b'K' => i64::from(self.little(1)?),
            b'M' => i64::from(self.little(2)?),
            // This is opcode LONG1, a Python 2 `long`, which NumPy used for sizes on some systems.
            0x8a => match self.byte()? {
                n @ 1..=4 => {
                    let unused = 32 - 8 * u32::from(n);
                    i64::from(self.little(usize::from(n))?.wrapping_shl(unused).cast_signed() >> unused)
                }
                n => return refuse(at, format!("The pickle has a number of {n} bytes.")),
            },
            _ => i64::from(self.little(4)?.cast_signed()),
        };
        self.push(Value::Int(value, at))
    }

    fn text(&mut self, op: u8, at: usize) -> Step {
        let length = if op == b'U' { self.little(1)? } else { self.little(4)? };
        if length > i32::MAX as u32 {
            return refuse(at, "The pickle has a string of negative length.");
        }
        let place = self.next(length as usize)?;
        self.push(Value::Text(place))
    }

    fn line(&mut self) -> Step<&[u8]> {
        const LONGEST: usize = 64;
        let rest = &self.bytes[self.at..];
        match rest.iter().take(LONGEST).position(|b| *b == b'\n') {
            Some(n) => {
                self.at += n + 1;
                Ok(&rest[..n])
            }
            None => refuse(self.at, "The pickle names an object that no file of CIFAR-10 has."),
        }
    }

    fn global(&mut self, at: usize) -> Step {
        let module = self.line()?.to_vec();
        let global = match (&*module, self.line()?) {
            (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"_reconstruct") => Global::Reconstruct,
            (b"numpy", b"ndarray") => Global::NdArray,
            (b"numpy", b"dtype") => Global::Dtype,
            (b"_codecs", b"encode") => return Err(Refusal::Python3(at)),
            (module, name) => {
                let (module, name) = (String::from_utf8_lossy(module), String::from_utf8_lossy(name));
                return refuse(
                    at,
                    format!("The pickle would call {module:?} {name:?}, which no file of CIFAR-10 does."),
                );
            }
        };
        self.push(Value::Global(global))
    }

    /// Stores the top of the stack in the memo, or pushes a value from it. For a value that may still change, the memo contains `None`.
    fn remember(&mut self, op: u8, at: usize) -> Step {
        let i = self.little(if matches!(op, b'q' | b'h') { 1 } else { 4 })? as usize;
        if matches!(op, b'h' | b'j') {
            return match self.memo.get(i) {
                Some(Some(value)) => self.push(value.clone()),
                _ => refuse(at, format!("The pickle refers to value {i}, which cannot be referred to.")),
            };
        }
        if i >= MOST_VALUES {
            return refuse(
                at,
                format!("The pickle stores a value under number {i}; a batch of CIFAR-10 has fewer values."),
            );
        }
        if self.memo.len() <= i {
            self.memo.resize(i + 1, None);
        }
        self.memo[i] = match self.stack.last() {
            None => return refuse(at, "The pickle stores the top of an empty stack."),
            Some(Value::List(_) | Value::Dict(_) | Value::Dtype(_) | Value::Array(_)) => None,
            Some(value) => Some(value.clone()),
        };
        Ok(())
    }

    fn tuple(&mut self, n: usize, at: usize) -> Step {
        let bottom = self.marks.last().copied().unwrap_or(0);
        self.tuples += 1;
        if self.tuples > MOST_TUPLES || n > MOST_TUPLES {
            return refuse(at, format!("The pickle has more than {MOST_TUPLES} tuples, or a longer one."));
        }
        if self.stack.len() < bottom + n {
            return refuse(at, "The pickle takes a value from an empty stack.");
        }
        let items = self.stack.split_off(self.stack.len() - n);
        self.push(Value::Tuple(items.into()))
    }

    fn append(&mut self, op: u8, at: usize) -> Step {
        let items = match op {
            b'a' => vec![self.pop(at)?],
            _ => {
                let from = self.mark(at)?;
                self.stack.split_off(from)
            }
        };
        if items.iter().any(|i| !matches!(i, Value::Int(..) | Value::Text(_))) {
            return refuse(at, "The pickle has a list with items other than numbers and strings.");
        }
        match self.stack.last_mut() {
            Some(Value::List(list)) if list.len() + items.len() <= MOST_VALUES => list.extend(items),
            Some(Value::List(_)) => {
                return refuse(at, format!("The pickle has a list of more than {MOST_VALUES} items."));
            }
            _ => return refuse(at, "The pickle appends to an object that is not a list."),
        }
        Ok(())
    }

    fn set_items(&mut self, op: u8, at: usize) -> Step {
        let from = if op == b's' { self.stack.len().saturating_sub(2) } else { self.mark(at)? };
        let mut items = self.stack.split_off(from).into_iter();
        let Some(Value::Dict(entries)) = self.stack.last_mut() else {
            return refuse(at, "The pickle sets an item of an object that is not a dictionary.");
        };
        while let Some(key) = items.next() {
            match (key, items.next()) {
                (_, Some(Value::Dict(_))) => return refuse(at, "The pickle has a nested dictionary."),
                (Value::Text(key), Some(value)) if entries.len() < MOST_TUPLES => entries.push((key, value)),
                _ => return refuse(at, "The pickle has an item that no file of CIFAR-10 has."),
            }
        }
        Ok(())
    }

    /// Runs one of the two supported calls: `_reconstruct(ndarray, (0,), 'b')` and `dtype('u1', ..)`.
    fn reduce(&mut self, at: usize) -> Step {
        let (arguments, function) = (self.pop(at)?, self.pop(at)?);
        let (Value::Tuple(arguments), Value::Global(function)) = (arguments, function) else {
            return refuse(at, "The pickle calls an object that is not a function.");
        };
        match (function, &*arguments) {
            (Global::Reconstruct, [Value::Global(Global::NdArray), ..]) => self.push(Value::Array(None)),
            (Global::Dtype, [Value::Text(name), ..]) if self.bytes[name.clone()] == *b"u1" => {
                self.push(Value::Dtype(false))
            }
            _ => refuse(at, "The pickle creates an object that is neither an array nor the type u1."),
        }
    }

    /// Sets the state of an object. The state of an array is (version, shape, type, true if column-major, data).
    fn build(&mut self, at: usize) -> Step {
        let state = self.pop(at)?;
        match (self.stack.last_mut(), state) {
            (Some(Value::Dtype(built)), Value::Tuple(_)) => *built = true,
            (Some(Value::Array(array)), Value::Tuple(state)) => match &*state {
                [
                    Value::Int(..),
                    Value::Tuple(shape),
                    Value::Dtype(true),
                    Value::Bool(false) | Value::Int(0, _),
                    Value::Text(data),
                ] => {
                    let [Value::Int(rows, _), Value::Int(columns, _)] = &**shape else {
                        return refuse(at, "The array should have two dimensions.");
                    };
                    let (rows, columns) = (*rows, *columns);
                    if !(1..=MOST as i64).contains(&rows) || columns != PIXELS as i64 {
                        let why = format!("The array is {rows} x {columns}, but should be 1 to {MOST} x {PIXELS}.");
                        return refuse(at, why);
                    }
                    let (rows, columns) = (rows as usize, columns as usize);
                    if data.len() != rows * columns {
                        return refuse(at, format!("The array of {rows} x {columns} has {} bytes.", data.len()));
                    }
                    *array = Some((rows, columns, data.clone()));
                }
                _ => return refuse(at, "The array is not a row-major array of u8."),
            },
            _ => return refuse(at, "The pickle sets the state of an object that is neither an array nor a type."),
        }
        Ok(())
    }

    fn images(&self, entries: &[(Range<usize>, Value)]) -> Step<Images> {
        let find = |name: &[u8]| entries.iter().find(|(key, _)| self.bytes[key.clone()] == *name).map(|(_, v)| v);
        let (Some(Value::Array(Some((rows, _, data)))), Some(Value::List(list))) = (find(b"data"), find(b"labels"))
        else {
            return refuse(self.at, "The pickle should have an array `data` and a list `labels`.");
        };
        if list.len() != *rows {
            return refuse(self.at, format!("The pickle has {rows} images and {} labels.", list.len()));
        }
        let label = |(i, value): (usize, &Value)| match value {
            Value::Int(label @ 0..=9, _) => Ok(*label as u8),
            Value::Int(label, at) => Err(Refusal::Label { at: *at, i, label: *label }),
            _ => refuse(self.at, "A label is not a number."),
        };
        let labels = list.iter().enumerate().map(label).collect::<Step<_>>()?;
        Ok((self.bytes[data.clone()].to_vec(), labels))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::files::fuzz::mutate;
    use proptest::prelude::*;

    /// Writes a batch as Python 2's cPickle wrote the files of the archive, operation by operation.
    pub(crate) fn written(images: &[u8], labels: &[u8]) -> Vec<u8> {
        let rows = labels.len() as u16;
        let mut out =
            b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05".to_vec();
        for chunk in labels.chunks(1000) {
            out.push(b'(');
            chunk.iter().for_each(|l| out.extend([b'K', *l]));
            out.push(b'e');
        }
        out.extend(
            b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09",
        );
        out.extend(b"(K\x01M");
        out.extend(rows.to_le_bytes());
        out.extend(b"M\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b");
        out.extend(b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
        out.extend((images.len() as u32).to_le_bytes());
        out.extend(images);
        out.extend(b"tbU\tfilenamesq\x0c]q\x0d(");
        for i in 0..rows {
            out.extend(b"U\x05");
            out.extend(format!("{i:05}").as_bytes());
            out.extend([b'r', (14 + i) as u8, ((14 + i) >> 8) as u8, 0, 0]);
        }
        out.extend(b"eu.");
        out
    }

    fn read(bytes: &[u8]) -> Result<Images> {
        batch(Path::new("data_batch_1"), bytes)
    }

    fn small() -> Vec<u8> {
        let images: Vec<u8> = (0..2 * PIXELS).map(|i| (i % 253) as u8).collect();
        written(&images, &[3, 9])
    }

    #[test]
    fn a_whole_batch_is_read() {
        let images: Vec<u8> = (0..MOST * PIXELS).map(|i| (i % 253) as u8).collect();
        let labels: Vec<u8> = (0..MOST).map(|i| (i % 10) as u8).collect();
        assert!(read(&written(&images, &labels)).unwrap() == (images, labels));
    }

    fn replaced(from: &[u8], to: &[u8]) -> Vec<u8> {
        let bytes = small();
        let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    }

    #[test]
    fn sizes_may_be_long() {
        let long = replaced(b"M\x02\x00M\x00\x0c", b"\x8a\x01\x02\x8a\x02\x00\x0c");
        assert!(read(&long).unwrap() == read(&small()).unwrap());
        let negative = replaced(b"M\x02\x00", b"\x8a\x01\xfe");
        assert!(read(&negative).unwrap_err().to_string().contains("The array is -2 x 3072"));
        assert!(read(b"\x80\x02\x8a\x09").unwrap_err().to_string().contains("a number of 9 bytes"));
    }

    #[test]
    fn other_pickles_are_refused_where_they_differ() {
        let check = |bytes: &[u8], expect: &str| {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.starts_with("data_batch_1, byte ") && error.contains(expect), "{error}");
        };
        check(b"", "byte 0: The file ends here");
        check(b"\x80\x04", "byte 0: this pickle was written by Python 3");
        check(b"\x80\x02c_codecs\nencode\n.", "warpbook data fetch cifar10");
        check(b"\x80\x06", "byte 0: The pickle has protocol 6");
        check(b"\x80\x02cos\nsystem\n(U\x02lst", "byte 2: The pickle would call \"os\" \"system\"");
        check(b"\x80\x02}.", "should have an array `data` and a list `labels`");
        check(b"\x80\x02N.", "byte 3: The pickle is not a single dictionary");
        check(b"\x80\x02\x93", "byte 2: The pickle has operation 0x93");
        check(b"\x80\x02h\x07", "refers to value 7");
        check(b"\x80\x02t", "a mark that was not set");
        check(b"\x80\x02}(K\x01a", "appends to an object that is not a list");
        check(b"\x80\x02\x85", "an empty stack");
        check(b"\x80\x02K\x01r\xff\xff\xff\x7f", "stores a value under number 2147483647");
        check(b"\x80\x02T\xff\xff\xff\x7f", "2147483647 more bytes were expected from byte 7 on");
        check(b"\x80\x02T\xff\xff\xff\xff", "negative length");
        check(&replaced(b"K\x09e", b"K\x0ae"), "label 1 is 10");
        check(&replaced(b"K\x03K\x09e", b"K\x03e"), "2 images and 1 labels");
        check(&replaced(b"M\x00\x0c", b"M\x01\x0c"), "The array is 2 x 3073");
        check(&replaced(b"M\x02\x00", b"J\xff\xff\xff\x7f"), "The array is 2147483647 x 3072");
        check(&replaced(b"U\x02u1", b"U\x02f8"), "neither an array nor the type u1");
        check(&replaced(b"tb\x89T", b"tb\x88T"), "not a row-major array of u8");
        check(&small()[..5000], "byte 5000: The file ends here");
    }

    #[test]
    fn pickles_that_would_swell_are_refused() {
        let many = |op: &[u8]| [b"\x80\x02(".as_slice(), &op.repeat(1 << 20)].concat();
        // The programs build nested tuples, tuples of copies of themselves, marks, lists, numbers and copies of a string.
        for op in [&b"K\x01\x85"[..], b"K\x00\x85q\x01h\x01h\x01\x86q\x01", b"(", b"]", b"K\x01", b"U\x01aq\x01h\x01"] {
            assert!(read(&many(op)).is_err());
        }
        let list = [b"\x80\x02]".as_slice(), &b"K\x01a".repeat(1 << 20)].concat();
        assert!(read(&list).unwrap_err().to_string().contains("a list of more than"));
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(edits in prop::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..6)) {
            let mut bytes = small();
            mutate(&mut bytes, &edits);
            if let Ok((images, labels)) = read(&bytes) {
                prop_assert_eq!(images.len(), labels.len() * PIXELS);
            }
        }

        #[test]
        fn no_program_makes_it_panic(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"}](NKMJUTcqrhjteausRb.\x85\x86\x87\x88\x89".to_vec())], 0..200,
        )) {
            let _ = read(&[b"\x80\x02".as_slice(), &bytes].concat());
        }
    }
}
