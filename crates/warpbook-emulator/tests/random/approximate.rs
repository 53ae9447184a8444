//! Tests approximate instructions. The emulator returns the number nearest to the true value, and a GPU's result must be within the error bounds of the PTX
//! ISA.

use crate::forms::{self, Form, Kind, family};
use crate::generate::HEAD;
use crate::random::Random;
use warpbook_device::testing::{self, PtxModule};
use warpbook_emulator::{Argument, Gpu, Launch, Module};
use warpbook_kernels::Launch as Shape;

/// Number of random operands with which each form is tested.
pub const COUNT: usize = 1 << 16;

/// Error bound of a function, with the interval of its operands. The error is relative to the true value, or to `least` if the value is smaller.
struct Bound {
    name: &'static str,
    operands: (f64, f64),
    error: f64,
    least: f64,
}

/// Error bounds from the PTX ISA 9.0 by function, rounded up to a power of two.
const BOUNDS: [Bound; 10] = [
    Bound { name: "ex2", operands: (-100.0, 100.0), error: 2.4e-7, least: 0.0 },
    Bound { name: "lg2", operands: (1e-30, 1e30), error: 2.4e-7, least: 1.0 },
    Bound { name: "rcp", operands: (-1e30, 1e30), error: 1.2e-7, least: 0.0 },
    Bound { name: "sqrt", operands: (0.0, 1e30), error: 1.2e-7, least: 0.0 },
    Bound { name: "rsqrt", operands: (1e-30, 1e30), error: 2.4e-7, least: 0.0 },
    Bound { name: "sin", operands: (-3.0, 3.0), error: 9.6e-7, least: 1.0 },
    Bound { name: "cos", operands: (-3.0, 3.0), error: 9.6e-7, least: 1.0 },
    Bound { name: "tanh", operands: (-10.0, 10.0), error: 9.8e-4, least: 0.0 },
    Bound { name: "div", operands: (-1e15, 1e15), error: 2.4e-7, least: 0.0 },
    // Approximations in f64 compute only the upper 32 bits.
    Bound { name: "f64", operands: (1e-30, 1e30), error: 2e-6, least: 0.0 },
];

impl Bound {
    fn of_form(form: &Form) -> &'static Self {
        let name = if form.into == Kind::Double { "f64" } else { family(&form.opcode) };
        BOUNDS.iter().find(|bound| bound.name == name).unwrap_or_else(|| panic!("{} has no bound", form.opcode))
    }

    /// Draws a random number from the interval. If the interval spans many orders of magnitude, the logarithm is uniform.
    fn draw(&self, random: &mut Random) -> f64 {
        let share = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let (low, high) = self.operands;
        if high < 1e6 {
            return low + (high - low) * share;
        }
        let magnitude = 10f64.powf(high.log10() * (2.0 * share - 1.0));
        if low < 0.0 && random.next() & 1 == 0 { -magnitude } else { magnitude }
    }
}

/// Returns a row of RANDOM.md for a form: the interval of its operands, the bound of its error, and the number to which the error is relative.
pub fn row(form: &Form) -> String {
    let Bound { operands: (low, high), error, least, .. } = *Bound::of_form(form);
    let sign = if low < 0.0 { "±" } else { "" };
    let operands =
        if high < 1e6 { format!("{low} to {high}") } else { format!("{sign}{:.0e} to {sign}{high:.0e}", 1.0 / high) };
    let relative_to = if least > 0.0 { format!("the value, at least {least}") } else { "the value".to_owned() };
    format!("| `{}` | {operands} | {error:e} | {relative_to} |", form.opcode)
}

/// Returns a kernel that computes one form in each thread. Each operand and result has 8 bytes of memory.
fn kernel(form: &Form) -> String {
    let (ty, letter) = if form.into == Kind::Double { ("b64", 'd') } else { ("b32", 'w') };
    let operands: Vec<String> = (0..form.from.len()).map(|i| format!("%{letter}{i}")).collect();
    format!(
        "{HEAD}.entry k(.param .u64 in, .param .u64 out) {{\n.reg .b32 %w<4>;\n.reg .b32 %t<4>;\n.reg .b64 %d<4>;\n.reg .b64 %a<3>;\n\
         mov.u32 %t0, %tid.x;\nmov.u32 %t1, %ctaid.x;\nmov.u32 %t3, %ntid.x;\nmad.lo.u32 %t2, %t1, %t3, %t0;\nld.param.u64 %a0, [in];\n\
         mad.wide.u32 %a0, %t2, 16, %a0;\nld.param.u64 %a1, [out];\nmad.wide.u32 %a1, %t2, 8, %a1;\n\
         ld.global.{ty} %{letter}0, [%a0];\nld.global.{ty} %{letter}1, [%a0+8];\n{} %{letter}2, {};\nst.global.{ty} [%a1], %{letter}2;\nret;\n}}\n",
        form.opcode,
        operands.join(", ")
    )
}

fn bits(form: &Form, value: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation)]
    if form.into == Kind::Double { value.to_bits() } else { (value as f32).to_bits().into() }
}

fn value(form: &Form, bits: u64) -> f64 {
    if form.into == Kind::Double {
        f64::from_bits(bits)
    } else {
        f32::from_bits(u32::try_from(bits & 0xffff_ffff).unwrap()).into()
    }
}

/// Returns true if the bits are equal, or both numbers are NaN.
fn is_same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn approximations_are_near_a_gpu_s() {
    let Some(device) = testing::gpu("approximations_are_near_a_gpu_s") else { return };
    let mut failures = Vec::new();
    for form in forms::all().into_iter().filter(Form::is_approximate) {
        let (bound, text, mut random) = (Bound::of_form(&form), kernel(&form), Random(7));
        let special = special_cases(&form);
        let mut operands: Vec<u64> = (0..2 * COUNT).map(|_| bits(&form, bound.draw(&mut random))).collect();
        for (slot, (pair, _)) in operands.chunks_mut(2).zip(&special) {
            slot.copy_from_slice(&pair.map(|x| bits(&form, x)));
        }
        let blocks = u32::try_from(COUNT / 256).unwrap();
        let shape = Shape { grid: [blocks, 1, 1], block: [256, 1, 1], dynamic_shared_bytes: 0 };
        let module = PtxModule::load(&device, &text).unwrap();
        // SAFETY: the kernel reads 16 bytes and writes 8 bytes for each of these threads.
        #[allow(unsafe_code)]
        let after = unsafe { module.run("k", shape, &[&bytes(&operands), &[0; 8 * COUNT]]) }.unwrap();
        let theirs = words(&after[1]);
        let ours = emulated(&text, &operands, blocks);
        for (i, (pair, _)) in special.iter().enumerate() {
            let (a, b) = (value(&form, ours[i]), value(&form, theirs[i]));
            if !is_same(a, b) {
                failures.push(format!("{} of {pair:?}: {a:e}, on the GPU {b:e}", form.opcode));
            }
        }
        let mut worst = (0.0, 0);
        for i in special.len()..COUNT {
            let (a, b) = (value(&form, ours[i]), value(&form, theirs[i]));
            // Under `.ftz` a result near the denormal range may become zero.
            let is_tiny = a.abs().max(b.abs()) < 2f64.powi(-125);
            let error =
                if a.to_bits() == b.to_bits() || is_tiny { 0.0 } else { (a - b).abs() / b.abs().max(bound.least) };
            // A NaN counts as the largest error.
            if error.is_nan() || error > worst.0 {
                worst = (error, i);
            }
        }
        println!("{:24} {:.2e} (at most {:.1e})", form.opcode, worst.0, bound.error);
        if worst.0.is_nan() || worst.0 > bound.error {
            let i = worst.1;
            let [x, y] = [0, 1].map(|j| value(&form, operands[2 * i + j]));
            failures.push(format!(
                "{} of {x:e}, {y:e}: {:e}, on the GPU {:e}",
                form.opcode,
                value(&form, ours[i]),
                value(&form, theirs[i])
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn emulated(text: &str, operands: &[u64], blocks: u32) -> Vec<u64> {
    let mut gpu = Gpu::new();
    let kernel = gpu.load(&Module::parse(text).unwrap()).unwrap().kernel("k").unwrap();
    let bytes = bytes(operands);
    let input = gpu.allocate(bytes.len() as u64).unwrap();
    gpu.write(input, &bytes).unwrap();
    let mut results = vec![0; 8 * COUNT];
    let output = gpu.allocate(results.len() as u64).unwrap();
    gpu.write(output, &results).unwrap();
    gpu.launch(&kernel, &Launch::new(blocks, 256), &[input, output].map(Argument::U64)).unwrap();
    gpu.read(output, &mut results).unwrap();
    words(&results)
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Checks that every approximate form has a bound and runs in the emulator.
#[test]
fn approximations_have_bounds() {
    let forms: Vec<Form> = forms::all().into_iter().filter(Form::is_approximate).collect();
    assert!(forms.len() > 15, "{}", forms.len());
    for form in forms {
        let bound = Bound::of_form(&form);
        let operands: Vec<u64> = (0..2 * COUNT).map(|i| bits(&form, bound.draw(&mut Random(i as u64)))).collect();
        let results = emulated(&kernel(&form), &operands, 1);
        assert!(results[..256].iter().all(|bits| !value(&form, *bits).is_nan()), "{}", form.opcode);
    }
}

const INFINITY: f64 = f64::INFINITY;

/// Results for the operands -infinity, -0, 0 and infinity, from the PTX ISA 9.0.
const SPECIAL: [(&str, [f64; 4]); 8] = [
    ("cos", [f64::NAN, 1.0, 1.0, f64::NAN]),
    ("ex2", [0.0, 1.0, 1.0, INFINITY]),
    ("lg2", [f64::NAN, -INFINITY, -INFINITY, INFINITY]),
    ("rcp", [-0.0, -INFINITY, INFINITY, 0.0]),
    ("rsqrt", [f64::NAN, -INFINITY, INFINITY, 0.0]),
    ("sin", [f64::NAN, -0.0, 0.0, f64::NAN]),
    ("sqrt", [f64::NAN, -0.0, 0.0, INFINITY]),
    ("tanh", [-1.0, -0.0, 0.0, 1.0]),
];

/// Returns pairs of operands of a form, with the results that the PTX ISA documents.
fn special_cases(form: &Form) -> Vec<([f64; 2], f64)> {
    let denormal = if form.into == Kind::Double { f64::MIN_POSITIVE / 2.0 } else { (f32::MIN_POSITIVE / 2.0).into() };
    let large = 2f64.powi(127);
    let Some((name, [below, negative, positive, above])) =
        SPECIAL.iter().find(|(name, _)| *name == family(&form.opcode))
    else {
        // Only division has two operands. `div.approx` multiplies by a reciprocal, which is zero above 2^126.
        let of_large =
            [([1.0, large], 0.0), ([-1.0, large], -0.0), ([large, large], 0.0), ([INFINITY, large], f64::NAN)];
        return if form.opcode.starts_with("div.approx.") { of_large.to_vec() } else { Vec::new() };
    };
    let mut cases =
        vec![(-INFINITY, *below), (-0.0, *negative), (0.0, *positive), (INFINITY, *above), (f64::NAN, f64::NAN)];
    if form.opcode.contains(".ftz.") {
        cases.extend([(-denormal, *negative), (denormal, *positive)]);
    }
    cases.extend(match *name {
        "lg2" | "sqrt" | "rsqrt" => vec![(-1.0, f64::NAN), (-1e30, f64::NAN)],
        "ex2" => vec![(-large, 0.0), (large, INFINITY)],
        "tanh" => vec![(-denormal, -denormal), (denormal, denormal), (-large, -1.0), (large, 1.0)],
        _ => Vec::new(),
    });
    cases.into_iter().map(|(operand, result)| ([operand, 0.0], result)).collect()
}

/// Checks results of the emulator for zeros, denormals, infinities, NaN and large numbers, whose documented results are exact.
#[test]
fn special_operands_have_the_documented_results() {
    let mut checked = 0;
    for form in forms::all().into_iter().filter(Form::is_approximate) {
        let cases = special_cases(&form);
        let mut operands: Vec<u64> = cases.iter().flat_map(|(operands, _)| operands.map(|x| bits(&form, x))).collect();
        operands.resize(2 * COUNT, 0);
        let results = emulated(&kernel(&form), &operands, 1);
        for ((operands, documented), got) in cases.iter().zip(results) {
            let got = value(&form, got);
            assert!(is_same(got, *documented), "{} of {operands:?} is {got:e}, not {documented:e}", form.opcode);
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}
