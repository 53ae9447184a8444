//! Our layers in PyTorch, as `notebooks/pytorch/warpbook_op.py` checks them.

use super::super::{foreign, table};
use crate::display::Panel;
use std::path::Path;
use std::process::Stdio;
use warpbook_lab::Lab;

/// Reads a line of the program about a layer, such as "ok    linear (5, 3, 2) float32: 1.2e-7 from float64, 3.4e-8 from differences".
fn row_of(line: &str) -> Option<Vec<String>> {
    let (checked, errors) = line.split_once(": ")?;
    let (verdict, layer) = checked.split_once(' ')?;
    let (layer, dtype) = layer.trim().rsplit_once(' ')?;
    let (exact, differences) = errors.split_once(" from float64, ")?;
    Some([layer, dtype, exact, differences.strip_suffix(" from differences")?, verdict].map(str::to_owned).to_vec())
}

/// Shows what the program printed, as a table and the rest of its output; if it checked nothing, what is missing.
fn panel(python: &str, script: &Path, said: &str, complained: &str) -> Panel {
    let rows: Vec<Vec<String>> = said.lines().filter_map(row_of).collect();
    if rows.is_empty() {
        let why = complained.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Panel::column([
            &format!("{python} {} has checked nothing: {why}", script.display()),
            &"To get these figures: `pip install torch` for your GPU in any Python, name that Python in WARPBOOK_PYTHON before you start \
              JupyterLab, and build the library with `cargo build --release -p warpbook-op`.",
        ]);
    }
    let others: Vec<&str> = said.lines().filter(|line| row_of(line).is_none()).collect();
    let headers = ["layer", "computed in", "error against float64", "error of the differences", "check"];
    Panel::column([&table(&headers, rows), &others.join("\n")])
}

/// Runs the script (from the notebooks' folder, `pytorch/warpbook_op.py`) and shows the errors of the project's layers in PyTorch, or what it needs.
/// The Python is `WARPBOOK_PYTHON`, or `python3`.
#[must_use]
pub fn checked_in_pytorch(lab: &Lab, script: impl AsRef<Path>) -> Panel {
    if lab.device().cuda().is_none() {
        return Panel::column([&"There is no GPU in this lab, so our layers were not checked in PyTorch here."]);
    }
    let python = std::env::var("WARPBOOK_PYTHON").unwrap_or_else(|_| "python3".into());
    match foreign(&python).arg(script.as_ref()).stdin(Stdio::null()).output() {
        Ok(ended) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            panel(&python, script.as_ref(), &text(&ended.stdout), &text(&ended.stderr))
        }
        Err(why) => Panel::column([&format!("{python} could not be started: {why}.")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::Show;

    #[test]
    fn what_the_script_prints_becomes_a_table() {
        let said = "libwarpbook_op.so on a GPU\nok    linear (5, 3, 2) float32: 1.2e-7 from float64, 3.4e-8 from differences\n\
                    WRONG conv2d (2, 3) float16: 1.2e-1 from float64, 3.4e-2 from differences\n1 layers are wrong.\n";
        let text = panel("python3", Path::new("op.py"), said, "").text();
        for part in ["linear (5, 3, 2)", "float32", "3.4e-8", "WRONG", "float16", "1 layers are wrong."] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(row_of("All layers are right."), None);
        let text = panel("python3", Path::new("op.py"), "", "Traceback\nno module torch\n\n").text();
        assert!(
            text.contains("op.py has checked nothing: no module torch") && text.contains("WARPBOOK_PYTHON"),
            "{text}"
        );
    }
}
