//! PTX with tokens that were changed: it is run, or refused with a line, and never panics. `WARPBOOK_HOSTILE_SECONDS` sets for how long.

use crate::machine::{Machine, ptx};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use warpbook_emulator::{Argument, Launch, Module};
use warpbook_kernels::{guide, nn, regression};
use warpbook_record::{Dtype, KernelSpec};

/// The tokens of a text, with the blanks between them.
fn tokens(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in text.chars() {
        let is_word = |c: char| c.is_alphanumeric() || "_$%.".contains(c);
        match all.last_mut() {
            Some(token) if is_word(c) && is_word(last) || c.is_whitespace() && last.is_whitespace() => token.push(c),
            _ => all.push(c.to_string()),
        }
        last = c;
    }
    all
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Changes up to three tokens.
fn changed(tokens: &[String], random: &mut Random) -> String {
    let mut all = tokens.to_vec();
    for _ in 0..=random.below(3) {
        let (at, other) = (random.below(all.len()), random.below(all.len()));
        let numbers = ["0", "-1", "4294967295", "18446744073709551615", "0x7fffffffffffffff", "1e9", "99999"];
        match random.below(6) {
            0 => all[at].clear(),
            1 => all[at] = all[other].clone(),
            2 => all.swap(at, other),
            3 => all[at] = numbers[random.below(numbers.len())].to_owned(),
            4 => all.insert(at, all[other].clone()),
            _ => {
                let at = (at..all.len()).find(|at| all[*at].starts_with(|c: char| c.is_ascii_digit())).unwrap_or(0);
                all[at] = numbers[random.below(numbers.len())].to_owned();
            }
        }
    }
    all.concat()
}

/// Runs a text as far as it goes; returns true if it ran.
fn attempt(text: &str) -> bool {
    let mut machine = Machine::default();
    let Ok(module) = Module::parse(text) else { return false };
    let Some(name) = module.entries().next().map(str::to_owned) else { return false };
    let Ok(kernel) = machine.gpu.load(&module).map_err(|_| ()).and_then(|loaded| loaded.kernel(&name).map_err(|_| ()))
    else {
        return false;
    };
    let buffer = machine.put(&[1.0f32; 4096]);
    let small = Argument::U32(64);
    let launch = Launch { budget: 20_000, ..Launch::new(2, 64) };
    let lists = [
        vec![buffer.clone(), buffer.clone(), small.clone(), small.clone()],
        vec![buffer.clone(), buffer.clone(), buffer.clone(), buffer, Argument::U64(1000), small.clone(), small],
    ];
    lists.iter().any(|arguments| machine.gpu.launch(&kernel, &launch, arguments).is_ok())
}

#[test]
fn changed_tokens_end_in_a_message() {
    let seconds = std::env::var("WARPBOOK_HOSTILE_SECONDS").ok().and_then(|v| v.parse().ok()).unwrap_or(20);
    let cross_entropy = nn::cross_entropy(Dtype::F16);
    let rungs = regression::rungs();
    let fused = rungs.iter().find(|rung| rung.id == "02_fused").unwrap().kernels()[0].clone();
    let specs: Vec<KernelSpec> = vec![
        guide::sum_blocks(),
        guide::chase_shared(),
        guide::transpose_padded(),
        guide::dense(),
        fused,
        cross_entropy,
    ];
    let texts: Vec<Vec<String>> = specs.iter().map(|spec| tokens(&ptx(spec, &spec.tiles[0]))).collect();
    assert!(attempt(&texts[2].concat()), "the unchanged text runs");
    let (until, mut random) = (Instant::now() + Duration::from_secs(seconds), Random(seconds));
    let (mut tried, mut ran) = (0, 0);
    while Instant::now() < until {
        let text = changed(&texts[random.below(texts.len())], &mut random);
        match catch_unwind(AssertUnwindSafe(|| attempt(&text))) {
            Ok(has_run) => ran += u32::from(has_run),
            Err(_) => {
                let path = std::env::temp_dir().join("warpbook-hostile.ptx");
                std::fs::write(&path, text).unwrap();
                panic!("a panic: the text is {}", path.display());
            }
        }
        tried += 1;
    }
    println!("{tried} texts, of which {ran} ran");
    assert!(tried > 20 && ran > 0, "{tried} {ran}");
}
