//! Warpbook's layers in PyTorch, as `notebooks/pytorch/warpbook_op.py` checks them.

use super::super::{foreign, table};
use crate::display::Panel;
use serde::Deserialize;
use std::path::Path;
use std::process::Stdio;
use warpbook_lab::Lab;

/// Check of a layer, as the script prints it with `--json`.
#[derive(Deserialize)]
struct Checked {
    layer: String,
    dtype: String,
    /// Kernel that the script names for this layer.
    by: Option<String>,
    from_float64: String,
    from_differences: String,
    right: bool,
}

impl Checked {
    /// Reads a line of the script's output; `None` if the line is not about a layer.
    fn of_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    fn row(self) -> Vec<String> {
        let layer = self.by.map_or(self.layer.clone(), |by| format!("{} by {by}", self.layer));
        let verdict = if self.right { "ok" } else { "WRONG" };
        vec![layer, self.dtype, self.from_float64, self.from_differences, verdict.into()]
    }
}

/// Shows the program's output, as a table and the remaining lines; if it checked nothing, shows what is missing.
fn panel(python: &str, script: &Path, said: &str, complained: &str) -> Panel {
    let rows: Vec<Vec<String>> = said.lines().filter_map(Checked::of_line).map(Checked::row).collect();
    if rows.is_empty() {
        let why = complained.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        return Panel::column([
            &format!("{python} {} has checked nothing: {why}", script.display()),
            &"To get these figures: `pip install torch` for your GPU in any Python, name that Python in WARPBOOK_PYTHON before you start \
              JupyterLab, and build the library with `cargo build --release -p warpbook-op`.",
        ]);
    }
    let others: Vec<&str> = said.lines().filter(|line| Checked::of_line(line).is_none()).collect();
    let headers = ["layer", "computed in", "error against float64", "error of the differences", "check"];
    Panel::column([&table(&headers, rows), &others.join("\n")])
}

/// Runs the script (from the notebooks' folder, `pytorch/warpbook_op.py`) and shows the errors of Warpbook's layers in PyTorch, or what is missing. The Python
/// interpreter is the one in `WARPBOOK_PYTHON`, or `python3`.
#[must_use]
pub fn checked_in_pytorch(lab: &Lab, script: impl AsRef<Path>) -> Panel {
    if lab.device().cuda().is_none() {
        return Panel::column([&"There is no GPU in this lab, so our layers were not checked in PyTorch here."]);
    }
    let python = std::env::var("WARPBOOK_PYTHON").unwrap_or_else(|_| "python3".into());
    match foreign(&python).arg(script.as_ref()).arg("--json").stdin(Stdio::null()).output() {
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
        let said = r#"libwarpbook_op.so on a GPU
{"layer": "linear (5, 3, 2)", "dtype": "float32", "by": null, "from_float64": "1.2e-07", "from_differences": "3.4e-08", "right": true}
{"layer": "conv2d (2, 3)", "dtype": "float16", "by": "mine.cu", "from_float64": "1.2e-01", "from_differences": "nan", "right": false}
1 layers are wrong.
"#;
        let text = panel("python3", Path::new("op.py"), said, "").text();
        let parts = [
            "linear (5, 3, 2)",
            "float32",
            "3.4e-08",
            "conv2d (2, 3) by mine.cu",
            "WRONG",
            "float16",
            "1 layers are wrong.",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("from_float64"), "{text}");
        assert!(Checked::of_line("All layers are right.").is_none());
        let text = panel("python3", Path::new("op.py"), "", "Traceback\nno module torch\n\n").text();
        assert!(
            text.contains("op.py has checked nothing: no module torch") && text.contains("WARPBOOK_PYTHON"),
            "{text}"
        );
    }
}
