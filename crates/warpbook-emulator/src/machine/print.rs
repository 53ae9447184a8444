//! Runtime calls: `printf` and failed assertions.

use super::access::{read, write};
use super::block::Context;
use super::warp::{Warp, lanes};
use crate::compute::Word;
use crate::ptx::Space;
use crate::{Cause, Fault};

/// Limit on the number of bytes that a launch prints. Like a GPU, the emulator drops further output.
const MOST_PRINTED: usize = 1 << 20;
/// Limit on the length in bytes of a string in a kernel, and of a padded number.
const MOST_TEXT: usize = 4096;

/// Formats and prints the output of each active lane. `vprintf` takes the address of the format, and the address of the arguments, which are contiguous.
pub(super) fn print(
    warp: &mut Warp,
    [format, arguments, result]: [i64; 3],
    context: &mut Context,
) -> Result<(), Fault> {
    for lane in lanes(context.active) {
        let mut call = Call { warp: &mut *warp, context: &mut *context, lane, arguments: 0 };
        call.arguments = call.parameter(arguments);
        let address = call.parameter(format);
        let Some(format) = call.text(address) else {
            let message = "The format of `printf` is outside every buffer.";
            return Err(warp.fault(Cause::OutOfBounds, message, lane, context));
        };
        let line = call.formatted(&format);
        let converted = format.matches('%').count() as u64;
        if let Some(place) = call.warp.bytes(lane, (Space::Local, result.cast_unsigned()), 4, call.context) {
            write(place, converted);
        }
        if context.grid.printed.len() + line.len() <= MOST_PRINTED {
            context.grid.printed.push_str(&line);
        }
    }
    Ok(())
}

/// Returns the fault of a failed assertion.
pub(super) fn assertion(warp: &mut Warp, places: &[i64; 3], context: &mut Context) -> Fault {
    let lane = context.active.trailing_zeros() as usize;
    let mut call = Call { warp: &mut *warp, context: &mut *context, lane, arguments: 0 };
    let address = call.parameter(places[0]);
    let message = format!("The assertion `{}` failed.", call.text(address).unwrap_or_default());
    warp.fault(Cause::Trap, message, lane, context)
}

/// A `printf` or assertion call by one lane.
struct Call<'w, 'c, 'g> {
    warp: &'w mut Warp,
    context: &'w mut Context<'c, 'g>,
    lane: usize,
    /// Address of the next argument.
    arguments: u64,
}

impl Call<'_, '_, '_> {
    /// Reads an 8-byte parameter of the call from the thread's frame.
    fn parameter(&mut self, place: i64) -> u64 {
        self.warp
            .bytes(self.lane, (Space::Local, place.cast_unsigned()), 8, self.context)
            .map_or(0, |bytes| read(bytes))
    }

    /// Reads a string that ends with a zero byte; `None` if it is not in valid memory.
    fn text(&mut self, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        while bytes.len() < MOST_TEXT {
            let at = address.wrapping_add(bytes.len() as u64);
            match self.warp.bytes(self.lane, (Space::Generic, at), 1, self.context)? {
                [0] => break,
                found => bytes.extend_from_slice(found),
            }
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the next argument, which is aligned to its size.
    fn next(&mut self, bytes: usize) -> u64 {
        let at = self.arguments.checked_next_multiple_of(bytes as u64).unwrap_or(0);
        self.arguments = at.wrapping_add(bytes as u64);
        self.warp.bytes(self.lane, (Space::Generic, at), bytes, self.context).map_or(0, |bytes| read(bytes))
    }

    fn formatted(&mut self, format: &str) -> String {
        let mut out = String::new();
        let mut rest = format.chars().peekable();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut flags = String::new();
            while let Some(flag) = rest.next_if(|c| "-+ #0".contains(*c)) {
                flags.push(flag);
            }
            let mut number = |rest: &mut std::iter::Peekable<std::str::Chars>| {
                if rest.next_if_eq(&'*').is_some() {
                    return usize::try_from(self.next(4)).unwrap_or(0).min(MOST_TEXT);
                }
                let mut value = 0;
                while let Some(digit) = rest.next_if(char::is_ascii_digit).and_then(|digit| digit.to_digit(10)) {
                    value = (value * 10 + digit as usize).min(MOST_TEXT);
                }
                value
            };
            let width = number(&mut rest);
            let precision = rest.next_if_eq(&'.').map(|_| number(&mut rest));
            let mut bytes = 4;
            while let Some(length) = rest.next_if(|c| "hlLzjt".contains(*c)) {
                bytes = if length == 'h' { 4 } else { 8 };
            }
            let kind = rest.next().unwrap_or('%');
            let mut text = self.converted(kind, bytes, precision);
            if flags.contains('+') && "dieEfFgG".contains(kind) && !text.starts_with('-') {
                text.insert(0, '+');
            }
            let missing = width.saturating_sub(text.chars().count());
            let digits = usize::from(text.starts_with(['-', '+']));
            out += &match (flags.contains('-'), flags.contains('0') && !"scp".contains(kind)) {
                (true, _) => text + &" ".repeat(missing),
                (false, true) => format!("{}{}{}", &text[..digits], "0".repeat(missing), &text[digits..]),
                (false, false) => " ".repeat(missing) + &text,
            };
        }
        out
    }

    /// Formats the next argument without padding.
    fn converted(&mut self, kind: char, bytes: usize, precision: Option<usize>) -> String {
        match kind {
            '%' => "%".to_owned(),
            'd' | 'i' if bytes == 4 => i32::take(self.next(4)).to_string(),
            'd' | 'i' => i64::take(self.next(8)).to_string(),
            'u' => self.next(bytes).to_string(),
            'x' => format!("{:x}", self.next(bytes)),
            'X' => format!("{:X}", self.next(bytes)),
            'o' => format!("{:o}", self.next(bytes)),
            'p' => format!("{:#x}", self.next(8)),
            'c' => char::from(u8::take(self.next(4))).to_string(),
            's' => {
                let address = self.next(8);
                let text = self.text(address).unwrap_or_default();
                text.chars().take(precision.unwrap_or(MOST_TEXT)).collect()
            }
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' => real(f64::take(self.next(8)), kind, precision.unwrap_or(6)),
            other => format!("%{other}"),
        }
    }
}

/// Formats a floating-point number as C does.
fn real(value: f64, kind: char, precision: usize) -> String {
    let scientific = |precision: usize| {
        let text = format!("{value:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        (exponent, format!("{digits}e{sign}{:02}", exponent.unsigned_abs()))
    };
    match kind.to_ascii_lowercase() {
        _ if !value.is_finite() => value.to_string().to_lowercase(),
        'f' => format!("{value:.precision$}"),
        'e' => scientific(precision).1,
        _ => {
            let (exponent, text) = scientific(precision.max(1) - 1);
            let places = precision.max(1).cast_signed() as i64 - 1 - i64::from(exponent);
            let is_plain = exponent >= -4 && places >= 0;
            let text = if is_plain { format!("{value:.*}", usize::try_from(places).unwrap_or(0)) } else { text };
            let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
            let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
            format!("{digits}{exponent}")
        }
    }
}
