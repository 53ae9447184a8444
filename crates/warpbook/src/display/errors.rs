use super::Show;
use super::html::{escape, printable};
use std::error::Error as StdError;
use warpbook_device::{CompileError, Diagnostic};
use warpbook_nn::train::TrainError;

/// Number of errors to show, since the first one often causes the others.
const SHOWN_ERRORS: usize = 3;

/// Returns a box with the error message. For a kernel that does not compile, the box also shows the line and the
/// compiler's message.
pub(super) fn html_of(error: &(dyn StdError + 'static)) -> String {
    compile_error(error).map_or_else(|| boxed(&escape(&error.to_string())), compile_html)
}

fn boxed(inner: &str) -> String {
    format!("<div class=\"wb-error\" role=\"alert\">{inner}</div>")
}

fn compile_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a CompileError> {
    let of_device = |e: &'a warpbook_device::Error| match e {
        warpbook_device::Error::Compile(compile) => Some(&**compile),
        _ => None,
    };
    if let Some(TrainError::Device(e)) = error.downcast_ref::<TrainError>() {
        return of_device(e);
    }
    match error.downcast_ref::<warpbook_lab::Error>() {
        Some(warpbook_lab::Error::Device(e)) => of_device(e),
        Some(_) => None,
        None => error.downcast_ref::<warpbook_device::Error>().and_then(of_device),
    }
}

fn compile_html(e: &CompileError) -> String {
    let one = |d: &Diagnostic| {
        let kind = if d.is_error { "" } else { "warning: " };
        let excerpt = d.excerpt();
        let excerpt = if excerpt.is_empty() { excerpt } else { format!("<pre>{}</pre>", escape(&excerpt)) };
        let (file, message) = (escape(&d.file), escape(&d.message));
        format!("<p><b><code>{file}</code>, line {}: {kind}{message}</b></p>{excerpt}", d.line)
    };
    // Errors come before warnings, which are seldom urgent.
    let errors: Vec<&Diagnostic> = e.diagnostics.iter().filter(|d| d.is_error).collect();
    let shown: String = errors.iter().take(SHOWN_ERRORS).map(|d| one(d)).collect();
    let place = match errors.len() {
        0 => format!("<p><b><code>{}</code> does not compile for {}</b></p>", escape(&e.path), escape(&e.architecture)),
        n if n > SHOWN_ERRORS => format!("{shown}<p>and {} more below.</p>", n - SHOWN_ERRORS),
        _ => shown,
    };
    let log = format!(
        "<details><summary>What the compiler says, for {}</summary><pre>{}</pre></details>",
        escape(&e.architecture),
        escape(e.log.trim_end())
    );
    boxed(&format!("{place}{log}"))
}

impl Show for CompileError {
    fn html(&self) -> String {
        compile_html(self)
    }

    fn text(&self) -> String {
        printable(&self.to_string())
    }
}

/// Shows the value, or the error.
impl<T: Show, E: StdError + 'static> Show for Result<T, E> {
    fn html(&self) -> String {
        match self {
            Ok(value) => value.html(),
            Err(error) => html_of(error),
        }
    }

    fn text(&self) -> String {
        match self {
            Ok(value) => value.text(),
            Err(error) => printable(&error.to_string()),
        }
    }
}

macro_rules! errors {
    ($($name:ty),*) => {$(
        impl Show for $name {
            fn html(&self) -> String {
                html_of(self)
            }

            fn text(&self) -> String {
                printable(&self.to_string())
            }
        }
    )*};
}
errors!(
    warpbook_lab::Error,
    TrainError,
    warpbook_device::Error,
    warpbook_charts::ChartError,
    warpbook_record::ReadError
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_box_with_its_sentence() {
        let error: warpbook_lab::Result<String> = Err(warpbook_lab::Error::Setting("<b>no</b>".into()));
        assert_eq!(error.html(), "<div class=\"wb-error\" role=\"alert\">&lt;b&gt;no&lt;/b&gt;</div>");
        assert_eq!(error.text(), "<b>no</b>");
        let fine: warpbook_lab::Result<String> = Ok("yes".into());
        assert_eq!(fine.html(), "<p>yes</p>");
    }

    #[test]
    fn a_kernel_that_does_not_compile_shows_its_line_and_log() {
        let compile = CompileError {
            path: "kernels/x.cu".into(),
            architecture: "sm_90".into(),
            diagnostics: vec![Diagnostic {
                file: "kernels/x.cu".into(),
                line: 2,
                column: Some(8),
                is_error: true,
                message: "identifier \"q\" is undefined".into(),
                text: Some("a<b> = q;".into()),
            }],
            log: "kernels/x.cu(2): error\n<1 error>".into(),
        };
        let device = warpbook_device::Error::Compile(Box::new(compile.clone()));
        let nested: warpbook_lab::Result<String> = Err(warpbook_lab::Error::Device(device.clone()));
        let trained: Result<String, TrainError> = Err(device.clone().into());
        for html in [compile.html(), device.html(), nested.html(), trained.html()] {
            assert!(html.contains("<code>kernels/x.cu</code>, line 2: identifier &quot;q&quot;"), "{html}");
            assert!(
                html.contains("    2 | a&lt;b&gt; = q;\n      |        ^</pre>") && html.contains("&lt;1 error&gt;"),
                "{html}"
            );
        }
        assert!(nested.text().starts_with("kernels/x.cu, line 2:"));
    }
}
