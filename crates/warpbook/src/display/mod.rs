//! The display of values in a notebook cell: HTML for browsers, together with text for everything else.

mod code;
mod errors;
mod nn;
mod results;
pub use warpbook_charts::words as figures;
mod html;
mod panel;

pub use code::diff::KernelDiff;
pub use code::headers::Headers;
pub use code::host::HostCode;
pub use code::kernels::{KernelView, Viewed};
pub use code::lines::{lines_against_speed, lines_of_code};
pub use html::printable;
pub use nn::confusion::ConfusionMatrix;
pub use nn::images::ImageRows;
pub use nn::predictions::PredictionGrid;
pub use panel::Panel;
pub use results::progress::{notebook_progress, progress_line};

use html::{STYLE, escape};
use std::path::PathBuf;

/// A value that can be displayed in a browser and in a terminal.
pub trait Show {
    /// Returns HTML without scripts, with all texts escaped.
    fn html(&self) -> String;

    /// Returns plain text without a final newline.
    fn text(&self) -> String;
}

/// Displays a value in a notebook cell; evcxr calls this on the last expression of a cell.
pub trait EvcxrDisplay {
    /// Prints the HTML and the text that the cell shows.
    fn evcxr_display(&self);
}

impl<T: Show + ?Sized> EvcxrDisplay for T {
    fn evcxr_display(&self) {
        let [html, text] = bundle(self);
        evcxr_runtime::mime_type("text/html").text(html);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// The line that JupyterLab shows for a collapsed output, which is the first line of its HTML.
const FIRST_LINE: &str = "<!-- Click to open this output -->\n";

/// Returns the HTML with its style, and the text, in the form that evcxr expects.
fn bundle(value: &(impl Show + ?Sized)) -> [String; 2] {
    let html = format!("{FIRST_LINE}<div class=\"wb\">{STYLE}{}</div>", value.html());
    [guarded(&html), guarded(&printable(&value.text()))]
}

/// Returns text without evcxr's own markers, which would end its content early.
fn guarded(text: &str) -> String {
    text.replace("EVCXR_", "EVCXR\u{200b}_")
}

impl<T: Show + ?Sized> Show for &T {
    fn html(&self) -> String {
        (**self).html()
    }

    fn text(&self) -> String {
        (**self).text()
    }
}

impl<T: Show + ?Sized> Show for Box<T> {
    fn html(&self) -> String {
        (**self).html()
    }

    fn text(&self) -> String {
        (**self).text()
    }
}

impl<T: Show> Show for [T] {
    fn html(&self) -> String {
        self.iter().map(Show::html).collect()
    }

    fn text(&self) -> String {
        self.iter().map(Show::text).collect::<Vec<_>>().join("\n\n")
    }
}

impl<T: Show> Show for Vec<T> {
    fn html(&self) -> String {
        self.as_slice().html()
    }

    fn text(&self) -> String {
        self.as_slice().text()
    }
}

impl<T: Show> Show for Option<T> {
    fn html(&self) -> String {
        self.as_ref().map_or_else(|| "nothing".html(), Show::html)
    }

    fn text(&self) -> String {
        self.as_ref().map_or_else(|| "nothing".into(), Show::text)
    }
}

/// Displays a text as a paragraph, for example between the charts of a panel.
impl Show for str {
    fn html(&self) -> String {
        html::paragraph(self)
    }

    fn text(&self) -> String {
        self.to_owned()
    }
}

/// Displays a text as a paragraph.
impl Show for String {
    fn html(&self) -> String {
        self.as_str().html()
    }

    fn text(&self) -> String {
        self.clone()
    }
}

/// Displays the path, for cells that return the file they wrote.
impl Show for PathBuf {
    fn html(&self) -> String {
        format!("<p><code>{}</code></p>", escape(&self.display().to_string()))
    }

    fn text(&self) -> String {
        self.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "<script>alert('x')</script>&\"\nEVCXR_END_CONTENT\nEVCXR_BEGIN_CONTENT text/html\n<b>";

    #[test]
    fn a_bundle_has_both_forms_and_no_marks_of_evcxr() {
        let [html, text] = bundle(HOSTILE);
        assert!(
            html.starts_with("<!-- Click to open this output -->\n<div class=\"wb\"><style>")
                && html.ends_with("</div>")
        );
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{html}");
        assert!(!html.contains("<script") && !html.contains("EVCXR_") && !text.contains("EVCXR_"));
        assert!(text.contains("<script>"), "text is not escaped: {text}");
    }

    #[test]
    fn lists_and_options_show_what_they_hold() {
        assert_eq!(vec!["a".to_owned(), "<".to_owned()].html(), "<p>a</p><p>&lt;</p>");
        assert_eq!(vec!["a".to_owned(), "b".to_owned()].text(), "a\n\nb");
        assert_eq!(Some("a".to_owned()).text(), "a");
        assert_eq!(None::<String>.text(), "nothing");
        assert_eq!(PathBuf::from("a&b").html(), "<p><code>a&amp;b</code></p>");
    }
}
