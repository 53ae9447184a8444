//! Checks the list of supported opcodes in OPCODES.md, and that the emulator accepts each of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use warpbook_emulator::{Gpu, Module, supported};

/// Returns the text of OPCODES.md, which lists the opcodes by their first word.
fn page() -> String {
    let all = supported();
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for opcode in &all {
        let (name, rest) = opcode.split_at(opcode.find(['.', ' ']).unwrap_or(opcode.len()));
        by_name.entry(name).or_default().push(rest.trim_start_matches(' '));
    }
    let mut page = format!(
        "# Opcodes\n\nThe {} opcodes of PTX that the emulator supports, taken from its own tables; `tests/opcodes.rs` compares and decodes them. Hints for caches,\n\
         `.volatile`, `.relaxed`, `.acquire`, `.release`, scopes and `.aligned` are accepted too. Everything else is refused with its name and line.\n\n\
         | opcode | forms |\n|---|---|\n",
        all.len()
    );
    for (name, forms) in by_name {
        // Opcodes that differ only in their type share an entry.
        let mut by_start: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for form in forms {
            let (start, ty) = form.rsplit_once('.').unwrap_or((form, ""));
            by_start.entry(start).or_default().push(ty);
        }
        let parts = by_start.into_iter().map(|(start, types)| match types.as_slice() {
            [""] => start.to_owned(),
            [one] => format!("{start}.{one}"),
            more => format!("{start}.{{{}}}", more.join(",")),
        });
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).map(|part| format!("`{part}`")).collect();
        _ = writeln!(page, "| `{name}` | {} |", parts.join(" "));
    }
    page
}

fn path() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("OPCODES.md")
}

/// Compares the page with the interpreter's opcodes. If `WARPBOOK_WRITE_OPCODES` is set, writes the page first.
#[test]
fn the_page_lists_what_the_interpreter_supports() {
    if std::env::var_os("WARPBOOK_WRITE_OPCODES").is_some() {
        std::fs::write(path(), page()).unwrap();
    }
    let written = std::fs::read_to_string(path()).unwrap_or_default();
    assert!(written == page(), "run `WARPBOOK_WRITE_OPCODES=1 cargo test -p warpbook-emulator --test opcodes`");
}

/// Returns a statement with this opcode and operands of suitable types; `None` for a call.
fn statement(opcode: &str) -> Option<String> {
    let words: Vec<&str> = opcode.split('.').collect();
    let register = |ty: &str| match ty {
        "pred" => "%p1",
        "f32" => "%f1",
        "f64" => "%g1",
        _ if ty.ends_with("64") => "%d1",
        "f16" | "bf16" => "%h1",
        _ if ty.ends_with("16") => "%h1",
        _ => "%r1",
    };
    let last = words.last()?;
    let own = register(last);
    let value = match words.iter().find(|word| matches!(**word, "v2" | "v4")) {
        Some(&"v2") => format!("{{{own}, {own}}}"),
        Some(_) => format!("{{{own}, {own}, {own}, {own}}}"),
        None => own.to_owned(),
    };
    let address = if words.contains(&"param") { "[a]" } else { "[%d2]" };
    let operands = match words[0] {
        "call" => return None,
        "ld" => format!("{value}, {address}"),
        "st" if words.contains(&"param") => return None,
        "st" => format!("{address}, {value}"),
        "atom" if words.contains(&"cas") => format!("{own}, [%d2], {own}, {own}"),
        "atom" => format!("{own}, [%d2], {own}"),
        "red" => format!("[%d2], {own}"),
        "setp" if words.len() == 4 => format!("%p1|%p2, {own}, {own}, !%p3"),
        "setp" => format!("%p1, {own}, {own}"),
        "cvt" if last == &"f32" && words.iter().any(|word| word.ends_with("x2")) => format!("%r1, {own}, {own}"),
        "cvt" => format!("{}, {own}", register(words[words.len() - 2])),
        "bra" => "L".into(),
        "brx" => "%r1, T".into(),
        "bar" | "barrier" => match words[1..] {
            ["warp", "sync"] => "-1".into(),
            ["red", ..] => format!("{own}, 0, %p1"),
            ["arrive"] => "1, 64".into(),
            _ => "0".into(),
        },
        "shfl" => "%r1|%p1, %r2, 1, 31, -1".into(),
        "vote" | "redux" if last == &"b32" && words[0] == "vote" => "%r1, %p1, -1".into(),
        "vote" | "redux" => format!("{own}, {own}, -1"),
        "match" => format!("%r1, {own}, -1"),
        "activemask" => "%r1".into(),
        "nanosleep" => "%r1".into(),
        "prefetch" => "[%d2]".into(),
        "isspacep" => "%p1, %d1".into(),
        "ret" | "exit" | "trap" | "brkpt" | "membar" | "fence" => String::new(),
        _ => return compute(opcode, own),
    };
    Some(format!("{opcode} {operands};"))
}

/// Returns an arithmetic statement. The caller replaces `#` with further operands, and tries several numbers of operands.
fn compute(opcode: &str, own: &str) -> Option<String> {
    Some(format!("{opcode} #;").replace('#', &format!("%d3, {own}#")))
}

fn decodes(statement: &str) -> Result<(), String> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) {{\n.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; \
         .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .f64 %g<4>;\nT: .branchtargets L, L;\nL:\n{statement}\nret;\n}}"
    );
    let module = Module::parse(&text).map_err(|e| e.to_string())?;
    Gpu::new().load(&module).unwrap().kernel("k").map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn every_opcode_of_the_list_is_taken() {
    let all = supported();
    assert!(all.len() > 500, "{}", all.len());
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None);
    for opcode in &all {
        let Some(statement) = statement(opcode) else { continue };
        let outcome = match statement.split_once('#') {
            None => decodes(&statement),
            Some((start, end)) => {
                let own = start.rsplit(' ').next().unwrap_or_default();
                (0..4)
                    .map(|more| decodes(&format!("{start}{}{end}", format!(", {own}").repeat(more))))
                    .find(Result::is_ok)
                    .unwrap_or(Err("no number of operands is right".into()))
            }
        };
        assert!(outcome.is_ok(), "{statement}: {outcome:?}");
    }
}

#[test]
fn what_is_not_in_the_list_is_refused_by_name_and_line() {
    for opcode in [
        "wgmma.fence.sync.aligned",
        "mad.rn.f16",
        "add.cc.u32",
        "setp.lt.b32",
        "ld.global.v8.f32",
        "mul.f8",
        "atom.add.noftz.bf16",
        "red.global.add.noftz.bf16x2",
        "atom.add.f16x2",
        "atom.add.noftz.f32",
        "atom.add.s64",
        "setp.lo.s32",
        "cvt.sat.s32.s16",
    ] {
        let refusal = decodes(&format!("{opcode} %r1, %r1, %r1;")).unwrap_err();
        assert!(refusal.contains(&format!("`{opcode}`")) && refusal.contains("PTX line 8"), "{refusal}");
    }
}
