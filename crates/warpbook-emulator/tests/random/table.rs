//! RANDOM.md: how often each supported opcode occurs in the random kernels.

use crate::approximate;
use crate::forms::{self, EXCEPTIONS, family};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the text of RANDOM.md.
pub fn page(counts: &BTreeMap<String, usize>) -> String {
    let mut families: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (opcode, count) in counts {
        families.entry(family(opcode)).or_default().push((&opcode[family(opcode).len()..], *count));
    }
    let mut page = format!(
        "# Opcodes in the random kernels\n\nHow often each opcode of [OPCODES.md](OPCODES.md) occurs in the {} kernels that `tests/random/` runs in the \
         emulator and, if there is one,\non a GPU, where no bit may differ. Kernel {} is the exception: ptxas compiles it wrongly, because it takes a \
         shift's unsigned amount as signed.\nEach of these {} opcodes occurs at least {} times; {} kernels, whose results are stored, contain each at \
         least once.\nTo update this page, run `WARPBOOK_WRITE_RANDOM=1 cargo test -p warpbook-emulator --test random`.\n\n\
         | opcode | forms | fewest | all | each form |\n|---|--:|--:|--:|---|\n",
        crate::ALL,
        crate::MISCOMPILED,
        counts.len(),
        crate::LEAST,
        crate::STORED,
    );
    for (name, forms) in families {
        let fewest = forms.iter().map(|(_, count)| count).min().copied().unwrap_or(0);
        let all: usize = forms.iter().map(|(_, count)| count).sum();
        let each: Vec<String> = forms.iter().map(|(form, count)| form_with_count(form, *count)).collect();
        _ = writeln!(page, "| `{name}` | {} | {fewest} | {all} | {} |", forms.len(), each.join(", "));
    }
    page += "\nOpcodes that no random kernel can contain:\n\n| opcode | reason |\n|---|---|\n";
    for (opcode, reason) in EXCEPTIONS {
        _ = writeln!(page, "| `{opcode}` | {reason} |");
    }
    _ = writeln!(
        page,
        "\n`tests/random/approximate.rs` compares {} results of each approximate opcode with a GPU. The operands are random, and the bounds of the \
         error are from the PTX\nISA 9.0. Results below 2^-125 count as equal, because `.ftz` may replace them with zero. For zeros,\n\
         denormals, infinities and NaN, the results that the PTX ISA documents are checked in the emulator and on the GPU.\n\n\
         | opcode | operands | error | relative to |\n|---|---|--:|---|",
        approximate::COUNT
    );
    for form in forms::all().iter().filter(|form| form.is_approximate()) {
        _ = writeln!(page, "{}", approximate::row(form));
    }
    page
}

fn form_with_count(form: &str, count: usize) -> String {
    if form.is_empty() { count.to_string() } else { format!("`{form}` {count}") }
}
