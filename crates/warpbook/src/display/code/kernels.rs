use crate::display::code::cuda_cpp::highlighted;
use crate::display::code::diff::{KernelDiff, Side};
use crate::display::code::headers::Headers;
use crate::display::html::{Facts, details, escape, heading, printable};
use crate::display::{Show, lines_of_code};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use warpbook_charts::highlight::without_comments;
use warpbook_lab::{Error, LiveKernel, Result};
use warpbook_record::{KernelSpec, Requires, Run, Rung, Runner, nearest, source_path};

/// The source of kernels, or a part of it, with the files' line numbers.
///
/// ```
/// use warpbook::prelude::*;
/// use warpbook::kernels::regression::rungs;
///
/// let fused = rungs().into_iter().find(|r| r.id == "02_fused").unwrap();
/// let whole = KernelView::for_rung(&fused);
/// let kernel = whole.function("pass")?;
/// let ablations = whole.between("For the ablation", "#define WITHOUT_Y")?;
/// assert!(kernel.text().contains("block_sum") && ablations.text().contains("WITHOUT_LOSS"));
/// # Ok::<(), warpbook::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelView {
    parts: Vec<Excerpt>,
}

/// A line and its number, from 1.
type Numbered = (usize, String);

/// Some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    file: String,
    source: String,
    /// First and last line, numbered from 1.
    first: usize,
    last: usize,
}

impl Excerpt {
    fn whole(file: &str, source: &str) -> Self {
        Self { file: file.into(), source: source.into(), first: 1, last: source.lines().count() }
    }

    fn shown(&self) -> String {
        let count = (self.last + 1).saturating_sub(self.first);
        self.source.lines().skip(self.first - 1).take(count).collect::<Vec<_>>().join("\n")
    }

    /// Splits the shown lines, with their numbers, into the code and the lines that say what to expect of the kernel.
    fn apart(&self) -> (Vec<Numbered>, Vec<Numbered>) {
        let numbered = (self.first..).zip(self.shown().lines().map(str::to_owned).collect::<Vec<_>>());
        let mut expected = false;
        numbered.partition(|(_, line)| {
            // The text after `// Expect:` may continue on indented comment lines.
            let is_comment = line.starts_with("//");
            expected = is_comment && (line.starts_with(EXPECT) || (expected && line.starts_with("//  ")));
            !expected
        })
    }

    fn caption(&self) -> String {
        if self.first == 1 && self.last >= self.source.lines().count() {
            return source_path(&self.file);
        }
        format!("{}, lines {} to {}", source_path(&self.file), self.first, self.last)
    }
}

/// Start of the comment line that says what to expect of a kernel, which gives away the answer to a lesson's question.
const EXPECT: &str = "// Expect:";
/// Heading above the folded lines that say what to expect.
const FOLDED: &str = "What its author expects: open it after your guess";

/// Shows a learner's kernel in lessons.
pub trait Viewed {
    /// Returns the kernel's source with the compiler's line numbers.
    fn view(&self) -> KernelView;
}

impl Viewed for LiveKernel {
    fn view(&self) -> KernelView {
        KernelView::for_rung(&self.rung())
    }
}

impl KernelView {
    /// Creates a view of one source.
    pub(crate) fn whole(file: &str, source: &str) -> Self {
        Self { parts: vec![Excerpt::whole(file, source)] }
    }

    /// Returns all files of a rung's kernels, each once.
    #[must_use]
    pub fn for_rung(rung: &Rung) -> Self {
        let mut parts: Vec<Excerpt> = Vec::new();
        for kernel in rung.kernels().iter().filter(|k| !k.source.is_empty()) {
            if !parts.iter().any(|p| p.file == kernel.file) {
                parts.push(Excerpt::whole(&kernel.file, &kernel.source));
            }
        }
        Self { parts }
    }

    /// Returns the kernels of a rung as stored in a record.
    ///
    /// # Errors
    /// If the record has no such rung.
    pub fn of_run(run: &Run, rung: &str) -> Result<Self> {
        let found = run.rung(rung).ok_or_else(|| Error::UnknownRung {
            name: rung.into(),
            nearest: nearest(rung, run.rungs.iter().map(|r| &*r.id)).into_iter().map(str::to_owned).collect(),
        })?;
        let mut parts: Vec<Excerpt> = Vec::new();
        for file in found.kernels().iter().map(|k| &*k.file) {
            if let Some(source) = run.sources.get(file)
                && !parts.iter().any(|p| p.file == file)
            {
                parts.push(Excerpt::whole(file, source));
            }
        }
        Ok(if parts.is_empty() { Self::for_rung(found) } else { Self { parts } })
    }

    /// Shows a file below `kernels/`, or a shared header such as "reduce.cuh".
    ///
    /// # Errors
    /// If there is no such file.
    pub fn file(path: &str) -> Result<Self> {
        let path = path.strip_prefix("kernels/").unwrap_or(path);
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        all.extend(warpbook_kernels::HEADERS.iter().map(|h| (h.path.to_owned(), h.text.to_owned())));
        all.extend(warpbook_kernels::all().iter().map(|(k, _)| (k.file.to_string(), k.source.to_string())));
        match all.get(path) {
            Some(source) => Ok(Self { parts: vec![Excerpt::whole(path, source)] }),
            None => Err(missing("file", path, all.keys().map(String::as_str))),
        }
    }

    /// Keeps only this function, structure or kernel, with the comment above it.
    ///
    /// # Errors
    /// If none of the files defines the function.
    pub fn function(&self, name: &str) -> Result<Self> {
        let found = self.parts.iter().find_map(|p| {
            let (first, last) = definition(&p.source, name)?;
            Some(Excerpt { first, last, ..p.clone() })
        });
        let known: Vec<String> = self.parts.iter().flat_map(|p| defined(&p.source)).collect();
        let part = found.ok_or_else(|| missing("function", name, known.iter().map(String::as_str)))?;
        Ok(Self { parts: vec![part] })
    }

    /// Keeps only the lines from the first that contains `from` to the next that contains `to`, both included.
    ///
    /// # Errors
    /// If no file has such lines.
    pub fn between(&self, from: &str, to: &str) -> Result<Self> {
        let found = self.parts.iter().find_map(|p| {
            let first = p.source.lines().position(|l| l.contains(from))?;
            let length = p.source.lines().skip(first).position(|l| l.contains(to))?;
            Some(Excerpt { first: first + 1, last: first + length + 1, ..p.clone() })
        });
        let sentence = || format!("There are no lines from one with `{from}` to one with `{to}` in {}.", self.names());
        Ok(Self { parts: vec![found.ok_or_else(|| Error::Setting(sentence()))?] })
    }

    /// Keeps only these lines of the first file, numbered from 1.
    ///
    /// # Errors
    /// If the file has no such lines.
    pub fn lines(&self, lines: RangeInclusive<usize>) -> Result<Self> {
        let (first, last) = (*lines.start(), *lines.end());
        match self.parts.first() {
            Some(p) if first >= 1 && first <= last && first <= p.source.lines().count() => {
                Ok(Self { parts: vec![Excerpt { first, last: last.min(p.source.lines().count()), ..p.clone() }] })
            }
            _ => Err(Error::Setting(format!("There are no lines {first} to {last} in {}.", self.names()))),
        }
    }

    /// Returns the shared headers that the files include, folded.
    #[must_use]
    pub fn headers(&self) -> Headers {
        Headers::included_by(self.parts.iter().map(|p| p.source.as_str()))
    }

    /// Returns the included headers like [`KernelView::headers`], but only names the headers that `older` also includes.
    #[must_use]
    pub fn headers_since(&self, older: &Self) -> Headers {
        self.headers().besides(&older.headers())
    }

    /// Returns the changes since an older view, for example from one rung to the next.
    #[must_use]
    pub fn since(&self, older: &Self) -> KernelDiff {
        KernelDiff::new(&older.side(), &self.side())
    }

    fn side(&self) -> Side {
        let names: Vec<String> = self.parts.iter().map(Excerpt::caption).collect();
        let text: Vec<String> = self.parts.iter().map(Excerpt::shown).collect();
        Side { caption: names.join(", "), first: self.parts.first().map_or(1, |p| p.first), text: text.join("\n") }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.parts.iter().map(|p| source_path(&p.file)).collect();
        if names.is_empty() { "a rung without kernels".into() } else { names.join(", ") }
    }
}

fn missing<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let near: Vec<String> = nearest(name, known).into_iter().map(|n| format!("`{n}`")).collect();
    let hint = if near.is_empty() { String::new() } else { format!(" The nearest are {}.", near.join(", ")) };
    Error::Setting(format!("There is no {what} `{name}`.{hint}"))
}

/// Returns the first and the last line of the definition of `name` at the outermost level, including the comment above
/// it.
fn definition(source: &str, name: &str) -> Option<(usize, usize)> {
    outermost(source).into_iter().find(|d| d.name == name).map(|d| (d.first, d.last))
}

fn defined(source: &str) -> Vec<String> {
    outermost(source).into_iter().map(|d| d.name).collect()
}

struct Definition {
    name: String,
    first: usize,
    last: usize,
}

/// Returns every definition at the outermost level that has a body in braces, including the contents of `extern "C"` and `namespace` blocks.
fn outermost(source: &str) -> Vec<Definition> {
    let code = without_comments(source);
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    let mut depth = 0usize;
    // The statement before a brace begins after the last `;`, brace or directive.
    let mut start = 0;
    let mut open: Option<(String, usize)> = None;
    let mut offset = 0;
    for line in code.split_inclusive('\n') {
        let directive = line.trim_start().starts_with('#');
        for (at, c) in line.char_indices().filter(|_| !directive) {
            let here = offset + at;
            match c {
                '{' => {
                    if depth == 0 && open.is_none() {
                        let head = &code[start..here];
                        if head.trim().starts_with("namespace") || head.trim() == "extern \"C\"" {
                            start = here + 1;
                            continue;
                        }
                        open = defined_name(head).map(|name| (name, start + head.len() - head.trim_start().len()));
                    }
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        if let Some((name, from)) = open.take() {
                            let line_of = |at: usize| code[..at].matches('\n').count();
                            let mut first = line_of(from);
                            while first > 0 && lines[first - 1].trim_start().starts_with("//") {
                                first -= 1;
                            }
                            found.push(Definition { name, first: first + 1, last: line_of(here) + 1 });
                        }
                        start = here + 1;
                    }
                }
                ';' if depth == 0 => start = here + 1,
                _ => {}
            }
        }
        offset += line.len();
        if directive && depth == 0 {
            start = offset;
        }
    }
    found
}

/// Returns the name that a head such as `struct Sum` or `template <int N> void add(float (&v)[N])` defines.
fn defined_name(head: &str) -> Option<String> {
    let is_name = |w: &&str| w.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(is_name).map(str::to_owned).collect()
    };
    // The template's parameters do not belong to the name.
    let mut text = head.trim().to_owned();
    while let Some(rest) = text.strip_prefix("template") {
        let mut angle = 0i32;
        let end = rest.char_indices().find_map(|(at, c)| {
            angle += i32::from(c == '<') - i32::from(c == '>');
            (c == '>' && angle == 0).then_some(at + 1)
        })?;
        text = rest[end..].trim().to_owned();
    }
    // The last pair of outermost parentheses contains the parameters; attributes such as __launch_bounds__(..) come
    // before it.
    let mut depth = 0i32;
    let mut last = None;
    for (at, c) in text.char_indices() {
        if c == '(' && depth == 0 {
            last = Some(at);
        }
        depth += i32::from(c == '(') - i32::from(c == ')');
    }
    match last {
        Some(at) => words(&text[..at]).pop(),
        None => {
            let all = words(&text);
            let keyword = all.iter().position(|w| matches!(w.as_str(), "struct" | "class" | "union" | "enum"))?;
            all[keyword + 1..].iter().find(|w| *w != "class" && *w != "struct").cloned()
        }
    }
}

impl Show for KernelView {
    fn html(&self) -> String {
        if self.parts.is_empty() {
            return "<p>This rung has no kernels.</p>".into();
        }
        let part = |p: &Excerpt| {
            let (code, expected) = p.apart();
            let text = |lines: &[(usize, String)]| lines.iter().map(|(_, l)| l.as_str()).collect::<Vec<_>>().join("\n");
            let block = |lines: &[(usize, String)]| match lines.first() {
                Some((first, _)) => format!("<pre class=\"wb-code\">{}</pre>", highlighted(&text(lines), *first)),
                None => String::new(),
            };
            // Lines keep their numbers, so the code before and the code after the folded lines are highlighted separately.
            let at = expected.first().map_or(usize::MAX, |(number, _)| *number);
            let (before, after): (Vec<_>, Vec<_>) = code.into_iter().partition(|(number, _)| *number < at);
            let folded = if expected.is_empty() { String::new() } else { details(FOLDED, &block(&expected)) };
            format!(
                "<p class=\"wb-faint\"><code>{}</code></p>{}{folded}{}",
                escape(&p.caption()),
                block(&before),
                block(&after)
            )
        };
        self.parts.iter().map(part).collect()
    }

    fn text(&self) -> String {
        if self.parts.is_empty() {
            return "This rung has no kernels.".into();
        }
        let part = |p: &Excerpt| {
            let (code, _) = p.apart();
            let numbered = code.iter().map(|(n, l)| format!("{n:4}  {l}")).collect::<Vec<_>>();
            printable(&format!("{}\n{}", p.caption(), numbered.join("\n")))
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join("\n\n")
    }
}

/// Displays a kernel's spec as the source file of the kernel.
impl Show for KernelSpec {
    fn html(&self) -> String {
        KernelView { parts: vec![Excerpt::whole(&self.file, &self.source)] }.html()
    }

    fn text(&self) -> String {
        KernelView { parts: vec![Excerpt::whole(&self.file, &self.source)] }.text()
    }
}

fn rung_facts(r: &Rung) -> Facts {
    let runs = match &r.runner {
        Runner::Kernels { schedule: s, .. } => format!("its own kernels, {}", s.sentence()),
        Runner::Library(name) => format!("the library {name}"),
        Runner::Cpu(how) => format!("the CPU, {how}"),
        Runner::External(name) => name.to_string(),
        Runner::Chosen(rule) => format!("kernels of another rung, chosen by {rule}"),
    };
    let kernels: Vec<String> = r.kernels().iter().map(|k| format!("{} in {}", k.entry, k.path())).collect();
    let requires = (r.requires != Requires::Nothing).then(|| r.requires.sentence());
    let lines = Some(lines_of_code(r)).filter(|n| *n > 0);
    Facts::new()
        .add("id", &*r.id)
        .add("run by", runs)
        .maybe("needs", requires)
        .maybe("kernels", Some(kernels.join("; ")).filter(|k| !k.is_empty()))
        .maybe("lines of code", lines.map(|n| n.to_string()))
}

impl Show for Rung {
    fn html(&self) -> String {
        let view = KernelView::for_rung(self);
        let source = if view.parts.is_empty() { String::new() } else { details("Source", &view.html()) };
        format!("{}<p>{}</p>{}{source}", heading(&self.title), escape(&self.idea), rung_facts(self).html())
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}", printable(&self.title), printable(&self.idea), rung_facts(self).text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::html::line_number;
    use crate::display::results::runs::tests::sample_run;
    use warpbook_kernels::regression::rungs;

    fn fused() -> Rung {
        rungs().into_iter().find(|r| r.id == "02_fused").unwrap()
    }

    const SOURCE: &str = "// About the file: { not code.\n#include \"a.cuh\"\n\n#define F(x) { x }\nconstexpr int N = 4;\n\n\
        // Adds up.\n// Both lines belong to it.\ntemplate <int N, typename T = A<int>>\n__device__ T sum(T (&v)[N]) {\n    \
        if (v) { return sum(v); }\n    return \"}\";\n}\nstruct Pair { int a; };\n\
        extern \"C\" __global__ void __launch_bounds__(N)\nk(float* x /* [n] */,\n  int n) {\n  s[0] = {};\n}\n";

    #[test]
    fn definitions_are_found_with_their_comments() {
        let check = |name: &str, expect: Option<(usize, usize)>| assert_eq!(definition(SOURCE, name), expect, "{name}");
        check("Pair", Some((14, 14)));
        check("k", Some((15, 19)));
        check("N", None);
        check("F", None);
        assert_eq!(defined("namespace a {\nint f() { return 1; }\n}\nint g() { return 2; }\n"), ["f", "g"]);
        assert_eq!(defined("}}}{{{((("), Vec::<String>::new());
    }

    #[test]
    fn a_part_keeps_its_line_numbers() {
        let view = KernelView::for_rung(&fused());
        let pass = view.function("pass").unwrap();
        let source = fused().kernels()[0].source.clone();
        let line = source.lines().position(|l| l.starts_with("pass(")).unwrap() + 1;
        assert!(pass.html().contains(&line_number(&line.to_string())), "{}", pass.html());
        assert!(pass.text().contains(&format!("{line:4}  pass(")), "{}", pass.text());
        assert!(!pass.text().contains("end_epoch"), "the kernel after it is not shown");
        assert_eq!(view.lines(1..=2).unwrap().text().lines().count(), 3);
        assert!(
            KernelView::file("reduce.cuh").unwrap().function("warp_sum").unwrap().text().contains("__shfl_xor_sync")
        );
    }

    #[test]
    fn what_to_expect_is_folded_and_the_other_lines_keep_their_numbers() {
        let view = KernelView::whole("a.cu", "// Idea: a.\n// Expect: twice as fast,\n//   or more.\nint a;\n");
        let (html, text) = (view.html(), view.text());
        let (shown, folded) = html.split_once("<details>").unwrap();
        assert!(shown.contains("Idea: a.") && !shown.contains("twice"), "{html}");
        assert!(folded.contains("twice as fast,") && folded.contains("or more."), "{html}");
        assert!(folded.contains(&line_number("4")) && folded.contains("after your guess"), "{html}");
        assert_eq!(text, "kernels/a.cu\n   1  // Idea: a.\n   4  int a;");
        assert!(!KernelView::whole("b.cu", "// Idea: b.\nint b;\n").html().contains("<details>"));
    }

    #[test]
    fn what_is_not_there_is_an_error_with_the_nearest_name() {
        let view = KernelView::for_rung(&fused());
        let check = |r: Result<KernelView>, expect: &str| {
            let sentence = r.unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        check(view.function("pas"), "`pass`");
        check(KernelView::file("reduce.cu"), "`reduce.cuh`");
        check(view.between("no such line", "x"), "02_fused.cu");
        check(view.lines(0..=2), "no lines 0 to 2");
        check(view.lines(99_999..=100_000), "no lines");
        check(KernelView::of_run(&sample_run(), "02_fuse"), "`02_fused`");
    }

    #[test]
    fn a_record_s_own_source_is_shown_escaped() {
        let mut run = sample_run();
        run.sources.insert("regression/02_fused.cu".into(), "// </pre><script>\nint a;".into());
        let view = KernelView::of_run(&run, "02_fused").unwrap();
        assert!(view.html().contains("&lt;/pre&gt;&lt;script&gt;") && !view.html().contains("<script"));
        assert!(view.text().contains("   2  int a;"));
    }

    #[test]
    fn a_rung_says_what_it_is_and_needs() {
        for form in [fused().text(), fused().html()] {
            assert!(form.contains("02_fused") && form.contains("compute capability 7.5"), "{form}");
            assert!(
                form.contains("one after another") && form.contains("pass in kernels/regression/02_fused.cu"),
                "{form}"
            );
        }
        let cpu = &rungs()[0];
        assert!(!cpu.html().contains("<pre") && KernelView::for_rung(cpu).text().contains("no kernels"));
    }
}
