//! The headers that kernels include, folded next to the kernels.

use crate::display::Show;
use crate::display::code::cuda_cpp::highlighted;
use crate::display::html::{details, escape, printable};
use warpbook_kernels::{HEADERS, Include, includes};
use warpbook_record::{Source, source_path};

/// The headers that a kernel's source includes, directly or indirectly, each once and in the order of inclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    files: Vec<&'static Source>,
    /// Headers that an earlier view already showed; only their names are repeated.
    known: Vec<&'static Source>,
}

impl Headers {
    pub(crate) fn included_by<'a>(sources: impl Iterator<Item = &'a str>) -> Self {
        let mut files: Vec<&'static Source> = Vec::new();
        for source in sources {
            include(source, &mut files);
        }
        Self { files, known: Vec::new() }
    }

    /// Returns these headers, with only the names of the headers that `older` also has.
    pub(crate) fn besides(self, older: &Self) -> Self {
        let seen = |h: &&'static Source| older.files.iter().chain(&older.known).any(|o| o.path == h.path);
        let (known, files) = self.files.into_iter().partition(seen);
        Self { files, known }
    }

    /// Returns a sentence that names the headers shown earlier; `None` if there are none.
    fn shown_before(&self) -> Option<String> {
        let names: Vec<String> = self.known.iter().map(|h| source_path(h.path)).collect();
        (!names.is_empty()).then(|| format!("Included as before: {}.", names.join(", ")))
    }
}

/// Adds the headers of a source, each after the headers that it includes, as the compiler reads them.
fn include(source: &str, files: &mut Vec<&'static Source>) {
    for name in includes(source).into_iter().filter_map(Include::name) {
        if let Some(header) = HEADERS.iter().find(|h| h.path == name)
            && !files.iter().any(|f| f.path == header.path)
        {
            files.push(header);
            include(header.text, files);
        }
    }
}

/// Describes a header: its path, its length, and its first line.
fn summary(header: &Source) -> String {
    let says = header.text.lines().next().and_then(|l| l.strip_prefix("// ")).unwrap_or_default();
    format!("{}, {} lines: {says}", source_path(header.path), header.text.lines().count())
}

impl Show for Headers {
    fn html(&self) -> String {
        let unfolded =
            |h: &&Source| details(&summary(h), &format!("<pre class=\"wb-code\">{}</pre>", highlighted(h.text, 1)));
        let faint = |text: &str| format!("<p class=\"wb-faint\">{}</p>", escape(text));
        match self.files.is_empty() {
            true => faint(&self.text()),
            false => self.files.iter().map(unfolded).chain(self.shown_before().map(|names| faint(&names))).collect(),
        }
    }

    /// Plain text has only the names, since a source has hundreds of lines.
    fn text(&self) -> String {
        let lines: Vec<String> = self.files.iter().map(|h| summary(h)).chain(self.shown_before()).collect();
        if lines.is_empty() { "It includes no building blocks.".into() } else { printable(&lines.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::KernelView;

    #[test]
    fn headers_are_those_of_the_kernel_and_of_its_headers() {
        let headers_of = |file: &str| -> Vec<&str> {
            KernelView::file(file).unwrap().headers().files.iter().map(|h| h.path).collect()
        };
        assert_eq!(
            headers_of("regression/02_fused.cu"),
            ["regression/descent.cuh", "launch.cuh", "reduce.cuh", "xray.cuh"]
        );
        assert_eq!(headers_of("matmul/01_naive.cu"), ["matmul/gemm.cuh", "xray.cuh"]);
        assert!(headers_of("matmul/13_persistent_cluster.cu").contains(&"matmul/wgmma.cuh"));
        assert!(headers_of("peaks/fma.cu").is_empty());
    }

    #[test]
    fn headers_that_an_older_view_has_are_only_named() {
        let view = |file: &str| KernelView::file(file).unwrap();
        let (fused, persistent) = (view("regression/02_fused.cu"), view("regression/05_persistent.cu"));
        let (html, text) = (persistent.headers_since(&fused).html(), persistent.headers_since(&fused).text());
        assert!(
            html.contains("<summary>kernels/exchange.cuh") && !html.contains("<summary>kernels/reduce.cuh"),
            "{html}"
        );
        assert!(text.contains("Included as before: ") && text.contains("kernels/reduce.cuh"), "{text}");
        let none = fused.headers_since(&fused);
        assert!(!none.html().contains("<details>") && none.text().starts_with("Included as before: "));
    }

    #[test]
    fn each_is_folded_with_what_it_says_of_itself() {
        let headers = KernelView::file("matmul/07_warp_tile.cu").unwrap().headers();
        let html = headers.html();
        assert_eq!(html.matches("<details>").count(), 3);
        assert!(html.contains("Code that the rungs on CUDA cores share") && html.contains("read_fragment"));
        assert_eq!(headers.text().lines().count(), 3);
        assert!(KernelView::file("peaks/fma.cu").unwrap().headers().html().contains("no building blocks"));
    }
}
