//! Rungs that did not change between two records: libraries and frameworks of the same version, and kernels with the
//! same source.

use warpbook_record::{Run, Rung, Runner};

/// Returns true for a library or framework, whose time does not depend on Warpbook's code.
pub(super) fn is_reference(rung: &Rung) -> bool {
    matches!(rung.runner, Runner::Library(_) | Runner::External(_))
}

/// Returns true if a rung runs the same code on the same kind of device, so that a change of its time is drift.
pub(super) fn unchanged(a: &Run, b: &Run, rung: &str) -> bool {
    let (ea, eb) = (&a.environment, &b.environment);
    let (Some(x), Some(y)) = (a.rung(rung), b.rung(rung)) else { return false };
    if ea.device.name != eb.device.name {
        return false;
    }
    match (&x.runner, &y.runner) {
        (Runner::Library(m), Runner::Library(n)) => m == n && ea.cuda == eb.cuda && ea.libraries == eb.libraries,
        (Runner::External(m), Runner::External(n)) => m == n,
        (Runner::Kernels { specs: m, schedule: s }, Runner::Kernels { specs: n, schedule: t }) => {
            let same = |x: &warpbook_record::KernelSpec, y: &warpbook_record::KernelSpec| {
                x.entry == y.entry && x.defines == y.defines && same_text(a, b, &x.file, &y.file)
            };
            s == t
                && !m.is_empty()
                && m.len() == n.len()
                && ea.nvrtc == eb.nvrtc
                && m.iter().zip(n).all(|(x, y)| same(x, y))
        }
        _ => false,
    }
}

/// Returns true if a file and all of its includes have the same text in both records.
fn same_text(a: &Run, b: &Run, file_a: &str, file_b: &str) -> bool {
    if file_a != file_b || !a.sources.contains_key(file_a) {
        return false;
    }
    let mut seen: Vec<String> = Vec::new();
    let mut left = vec![file_a.to_owned()];
    while let Some(file) = left.pop() {
        let (x, y) = (a.sources.get(&file), b.sources.get(&file));
        if x != y {
            return false;
        }
        if let Some(text) = x.filter(|_| !seen.contains(&file)) {
            left.extend(included(text, &file, a));
            seen.push(file);
        }
    }
    true
}

/// Returns the files of a record that a source includes, by the path as written or relative to the file.
fn included(text: &str, file: &str, run: &Run) -> Vec<String> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let name = |line: &str| {
        let name = line
            .trim_start()
            .strip_prefix('#')?
            .trim_start()
            .strip_prefix("include")?
            .trim_start()
            .strip_prefix('"')?;
        name.split_once('"').map(|(name, _)| name.to_owned())
    };
    let below = |name: String| [format!("{folder}/{name}"), name].into_iter().find(|n| run.sources.contains_key(n));
    text.lines().filter_map(name).filter_map(below).collect()
}
