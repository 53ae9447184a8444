//! `printf` and assertions: calls of the runtime.

use super::access::{read, write};
use super::block::Context;
use super::warp::{Warp, lanes};
use crate::ptx::Space;
use crate::{Cause, Fault};

/// Bytes that a launch may print; what is beyond them is dropped, as a GPU's buffer drops it.
const MOST_PRINTED: usize = 1 << 20;
/// Bytes of a text that a kernel hands over.
const MOST_TEXT: usize = 4096;

/// Prints each active lane's line. The parameters of `vprintf` are two addresses: of the format, and of the arguments one after another.
pub(super) fn print(
    warp: &mut Warp,
    (format, arguments): (i64, i64),
    result: Option<i64>,
    active: u32,
    context: &mut Context,
) -> Result<(), Fault> {
    for lane in lanes(active) {
        let (format, arguments) =
            (frame_value(warp, lane, format, context), frame_value(warp, lane, arguments, context));
        let (Some(format), Some(arguments)) = (format, arguments) else { continue };
        let Some(format) = text(warp, lane, format, context) else {
            return Err(warp.fault(
                Cause::OutOfBounds,
                "The format of `printf` is outside every buffer.",
                lane,
                context,
            ));
        };
        let mut arguments = Arguments { warp, lane, at: arguments };
        let line = formatted(&format, &mut arguments, context);
        if context.progress.printed.len() + line.len() <= MOST_PRINTED {
            context.progress.printed.push_str(&line);
        }
        if let Some(place) = result {
            let count = u32::try_from(format.matches('%').count()).unwrap_or(0);
            if let Some(bytes) = warp.bytes(lane, (Space::Local, place.cast_unsigned()), 4, context) {
                write(bytes, count.into());
            }
        }
    }
    Ok(())
}

/// The fault of an assertion that failed.
pub(super) fn assertion(warp: &mut Warp, places: &[i64; 3], active: u32, context: &mut Context) -> Fault {
    let lane = active.trailing_zeros() as usize;
    let message = frame_value(warp, lane, places[0], context).and_then(|address| text(warp, lane, address, context));
    let message = format!("The assertion `{}` failed.", message.unwrap_or_default());
    warp.fault(Cause::Trap, message, lane, context)
}

/// 8 bytes of a thread's frame.
fn frame_value(warp: &mut Warp, lane: usize, offset: i64, context: &mut Context) -> Option<u64> {
    warp.bytes(lane, (Space::Local, offset.cast_unsigned()), 8, context).map(|bytes| read(bytes))
}

/// A text that ends with a zero byte.
fn text(warp: &mut Warp, lane: usize, address: u64, context: &mut Context) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < MOST_TEXT {
        match warp.bytes(lane, (Space::Generic, address.wrapping_add(bytes.len() as u64)), 1, context)? {
            [0] => break,
            [byte] => bytes.push(*byte),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The arguments of a call, each at a multiple of its size.
struct Arguments<'w> {
    warp: &'w mut Warp,
    lane: usize,
    at: u64,
}

impl Arguments<'_> {
    fn next(&mut self, bytes: u64, context: &mut Context) -> u64 {
        self.at = self.at.checked_next_multiple_of(bytes).unwrap_or(0);
        let length = usize::try_from(bytes).unwrap_or(8);
        let value =
            self.warp.bytes(self.lane, (Space::Generic, self.at), length, context).map_or(0, |found| read(found));
        self.at = self.at.wrapping_add(bytes);
        value
    }
}

/// A conversion specification, such as `%-8.3f`.
#[derive(Default)]
struct Specification {
    flags: String,
    width: usize,
    precision: Option<usize>,
    is_long: bool,
}

fn formatted(format: &str, arguments: &mut Arguments, context: &mut Context) -> String {
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut specification = Specification::default();
        while let Some(flag) = rest.next_if(|c| "-+ #0".contains(*c)) {
            specification.flags.push(flag);
        }
        let mut number = |rest: &mut std::iter::Peekable<std::str::Chars>| {
            if rest.next_if_eq(&'*').is_some() {
                return usize::try_from(arguments.next(4, context)).unwrap_or(0).min(MOST_TEXT);
            }
            let mut value = 0usize;
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                value = (value * 10 + digit.to_digit(10).unwrap_or(0) as usize).min(MOST_TEXT);
            }
            value
        };
        specification.width = number(&mut rest);
        if rest.next_if_eq(&'.').is_some() {
            specification.precision = Some(number(&mut rest));
        }
        while let Some(length) = rest.next_if(|c| "hlLzjt".contains(*c)) {
            specification.is_long |= length != 'h';
        }
        match rest.next() {
            Some('%') => out.push('%'),
            Some(kind) => {
                let value = converted(kind, &specification, arguments, context);
                out.push_str(&padded(value, kind, &specification));
            }
            None => out.push('%'),
        }
    }
    out
}

/// An argument as text, without padding.
fn converted(kind: char, specification: &Specification, arguments: &mut Arguments, context: &mut Context) -> String {
    let bytes = if specification.is_long { 8 } else { 4 };
    let precision = specification.precision.unwrap_or(6);
    let plus = if specification.flags.contains('+') { "+" } else { "" };
    let with_sign = |text: String| if text.starts_with('-') { text } else { format!("{plus}{text}") };
    match kind {
        'd' | 'i' => {
            let value = arguments.next(bytes, context);
            let unused = 64 - 8 * u32::try_from(bytes).unwrap_or(8);
            with_sign(((value << unused).cast_signed() >> unused).to_string())
        }
        'u' => arguments.next(bytes, context).to_string(),
        'x' => format!("{:x}", arguments.next(bytes, context)),
        'X' => format!("{:X}", arguments.next(bytes, context)),
        'o' => format!("{:o}", arguments.next(bytes, context)),
        'p' => format!("{:#x}", arguments.next(8, context)),
        'c' => char::from(u8::try_from(arguments.next(4, context) & 0xff).unwrap_or(b'?')).to_string(),
        's' => {
            let address = arguments.next(8, context);
            let text = text(arguments.warp, arguments.lane, address, context).unwrap_or_default();
            text.chars().take(specification.precision.unwrap_or(MOST_TEXT)).collect()
        }
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            let value = f64::from_bits(arguments.next(8, context));
            with_sign(real(value, kind, precision))
        }
        other => format!("%{other}"),
    }
}

/// A number as C prints it.
fn real(value: f64, kind: char, precision: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".into() } else { format!("{value}") };
    }
    let scientific = |precision: usize| {
        let text = format!("{value:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
    };
    match kind {
        'f' | 'F' => format!("{value:.precision$}"),
        'e' | 'E' => scientific(precision),
        _ => {
            let precision = precision.max(1);
            let text = format!("{value:.*e}", precision - 1);
            let exponent: i64 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
            let (most, trim) = (precision.cast_signed() as i64, |text: &str| {
                if text.contains('.') {
                    text.trim_end_matches('0').trim_end_matches('.').to_owned()
                } else {
                    text.to_owned()
                }
            });
            if exponent < -4 || exponent >= most {
                let text = scientific(precision - 1);
                let (digits, rest) = text.split_once('e').unwrap_or((&text, "+00"));
                format!("{}e{rest}", trim(digits))
            } else {
                let digits = usize::try_from(most - 1 - exponent).unwrap_or(0);
                trim(&format!("{value:.digits$}"))
            }
        }
    }
}

fn padded(mut text: String, kind: char, specification: &Specification) -> String {
    let missing = specification.width.saturating_sub(text.chars().count());
    if specification.flags.contains('-') {
        return text + &" ".repeat(missing);
    }
    let is_number = !matches!(kind, 's' | 'c' | 'p');
    if specification.flags.contains('0') && is_number {
        let digits_from = usize::from(text.starts_with(['-', '+']));
        text.insert_str(digits_from, &"0".repeat(missing));
        return text;
    }
    " ".repeat(missing) + &text
}
