//! Checks of the repository's Markdown files: every relative link leads to an existing file and heading, and every path
//! in backticks exists. `tests/rules/maps.rs` limits their lengths.

use super::{BEGIN, END};
use crate::workspace::{Workspace, normal};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The page that readers see first.
pub(super) const README: &str = "README.md";
/// The page with generated tables; their texts come from records and may name files that no longer exist.
const TABLES: &str = "data/README.md";
/// Folders that do not belong to the repository.
const LEFT_OUT: [&str; 3] = ["target", "dist", "node_modules"];

/// Returns the faults in the checkout's Markdown files, one sentence each, and the number of files read.
pub(super) fn faults(w: &Workspace) -> Result<(Vec<String>, usize)> {
    let files = crate::workspace::files_below(&w.root, &LEFT_OUT)?;
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        pages.insert(path.clone(), text);
    }
    let anchors: BTreeMap<&Path, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    let known = known_paths(w, &files);
    let mut faults = Vec::new();
    for (path, text) in &pages {
        let shown = w.show(path);
        let links = links(text).into_iter().filter(|link| !is_external(link));
        faults.extend(
            links.filter_map(|link| Some(format!("{shown}: the link `{link}` {}", broken(path, &link, &anchors)?))),
        );
        let text = if shown == TABLES { &without_tables(text) } else { text };
        let unknown = unknown_paths(w, path, text, (&files, &known));
        faults.extend(unknown.into_iter().map(|path| format!("{shown}: `{path}` does not exist")));
    }
    Ok((faults, pages.len()))
}

/// Returns the text before and after the generated tables.
fn without_tables(text: &str) -> String {
    let (before, rest) = text.split_once(BEGIN).unwrap_or((text, ""));
    format!("{before}{}", rest.split_once(END).map_or("", |(_, after)| after))
}

/// GitHub's own pages, which the README links to relative to the repository, under any account.
const BESIDE: [&str; 2] = ["../../deployments/github-pages", "../../releases"];

/// Returns true if a link leaves the repository: it has a scheme, or leads to one of GitHub's own pages.
fn is_external(link: &str) -> bool {
    BESIDE.contains(&link)
        || link.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Returns a sentence about what is wrong with a link in a file, if anything.
fn broken(from: &Path, link: &str, anchors: &BTreeMap<&Path, BTreeSet<String>>) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let to = if file.is_empty() { from.to_path_buf() } else { normal(&from.parent()?.join(file)) };
    if !to.exists() {
        return Some("leads to no file".into());
    }
    let anchor = anchor?;
    // Only the anchors of Markdown files are known.
    let there = anchors.get(to.as_path())?;
    (!there.contains(anchor)).then(|| "leads to a heading that is not there".into())
}

/// Returns all files and folders by the names that they may have outside of a crate: relative to any folder, and for a
/// crate's folder without "warpbook-". `nn/src/lib.rs` is `crates/warpbook-nn/src/lib.rs`, and `train/cuda/passes/` is
/// a folder inside it.
fn known_paths(w: &Workspace, files: &[PathBuf]) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for file in files {
        let shown = w.show(file);
        let folders = shown.match_indices('/').map(|(at, _)| &shown[..=at]);
        for path in folders.chain([shown.as_str()]) {
            let parts = path.match_indices(['/', '-']).map(|(at, _)| &path[at + 1..]);
            known.extend(parts.chain([path]).map(str::to_owned));
        }
    }
    known
}

/// Finds texts in backticks that look like paths in this repository but do not exist; `{a,b}.rs` means two files. A
/// page of a crate may name its own files and folders alone, or relative to its folder, the crate's folder or `src`;
/// other paths are relative to the root or to `crates/`.
fn unknown_paths(
    w: &Workspace,
    page: &Path,
    text: &str,
    (files, known): (&[PathBuf], &BTreeSet<String>),
) -> Vec<String> {
    let crates = w.path("crates");
    let own = page.strip_prefix(&crates).ok().filter(|below| below.components().count() > 1).map(|below| {
        let folder = crates.join(below.components().next().unwrap_or(Component::CurDir));
        let page = page.parent().unwrap_or(&folder).to_path_buf();
        (folder.clone(), [page, folder.join("src"), folder, w.root.clone(), crates.clone()])
    });
    let is_unknown = |path: &String| match &own {
        Some((folder, places)) => {
            let name = path.trim_end_matches('/');
            // The last component is the file, the others are folders.
            let is_own = |file: &PathBuf| match file.strip_prefix(folder) {
                Ok(below) if path.ends_with('/') => below.parent().is_some_and(|p| p.iter().any(|part| part == name)),
                Ok(below) => below.file_name().is_some_and(|file| file == name),
                Err(_) => false,
            };
            !files.iter().any(is_own) && !places.iter().any(|place| exists(&place.join(path)))
        }
        // The last condition finds folders that contain only hidden files.
        None => !known.contains(path) && !crates.join(path).exists(),
    };
    // Text in backticks may continue on the paragraph's next line.
    let unfenced = unfenced(text).collect::<Vec<_>>().join("\n");
    let in_backticks = unfenced.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    in_backticks.filter(|path| is_path(path)).flat_map(expanded).filter(is_unknown).collect()
}

/// Returns true if a file or folder exists; a path that ends with a slash must be a folder.
fn exists(path: &Path) -> bool {
    if path.to_string_lossy().ends_with('/') { path.is_dir() } else { path.is_file() }
}

/// Returns true if a text looks like one file or folder of this repository; `NN_name.cu` and `train/*/own.rs` match
/// several files.
fn is_path(text: &str) -> bool {
    let extension = text.rsplit_once('.').map(|(stem, extension)| (!stem.is_empty()).then_some(extension));
    let is_file = matches!(extension, Some(Some("rs" | "cu" | "cuh" | "py" | "toml" | "md" | "ipynb" | "sh")));
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./{,}".contains(c));
    is_plain && (is_file || text.ends_with('/')) && !text.contains("NN_")
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((each, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    each.split(',').flat_map(|one| expanded(&format!("{before}{one}{after}"))).collect()
}

/// Returns the lines of a text outside of fenced code.
fn unfenced(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Returns the lines of a text outside of fenced code, without code in backticks.
fn prose(text: &str) -> impl Iterator<Item = String> + '_ {
    // Every second part is between backticks.
    unfenced(text).map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("` `"))
}

/// Returns the targets of links and pictures, `](target)`, in order.
fn links(text: &str) -> Vec<String> {
    let of_line = |line: String| {
        let targets = line.match_indices("](").filter_map(|(at, mark)| {
            let rest = &line[at + mark.len()..];
            Some(rest[..rest.find(')')?].split_whitespace().next()?.to_owned())
        });
        targets.collect::<Vec<_>>()
    };
    prose(text).flat_map(of_line).collect()
}

/// Returns the anchors of a file: its headings as GitHub names them, and `<a id="name">`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let ids = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(ids.map(str::to_owned));
        let title = line.trim_start_matches('#');
        if in_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        // A repeated heading gets a number.
        let numbered = (0..).map(|n| if n == 0 { slug.clone() } else { format!("{slug}-{n}") });
        let free = numbered.into_iter().find(|slug| !anchors.contains(slug));
        anchors.extend(free);
    }
    anchors
}

/// Returns a heading's anchor: lower case, without tags and punctuation, with dashes for spaces.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    let mut in_tag = false;
    for c in title.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ if in_tag => {}
            ' ' => slug.push('-'),
            '-' | '_' => slug.push(c),
            c if c.is_alphanumeric() => slug.extend(c.to_lowercase()),
            _ => {}
        }
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::write_atomic;

    fn in_folder(files: &[(&str, &str)]) -> Vec<String> {
        let tmp = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write_atomic(&tmp.path().join(name), text).unwrap();
        }
        let w = Workspace { root: tmp.path().to_path_buf(), target: tmp.path().join("target"), may_install: false };
        faults(&w).unwrap().0
    }

    #[test]
    fn every_link_and_path_of_this_repository_leads_somewhere() {
        let (faults, files) = faults(&Workspace::find(false).unwrap()).unwrap();
        assert_eq!(faults, Vec::<String>::new());
        assert!(files >= 7, "{files} files");
    }

    #[test]
    fn the_readme_leads_to_what_the_workflows_publish() {
        let w = Workspace::find(false).unwrap();
        let read = |file: &str| fs::read_to_string(w.path(file)).unwrap();
        let readme = links(&read(README));
        assert!(BESIDE.iter().all(|page| readme.iter().any(|link| link == page)), "{readme:?}");
        // The page is found under the name of its environment in GitHub Pages.
        let (ci, release) = (read(".github/workflows/ci.yml"), read(".github/workflows/release.yml"));
        assert!(ci.contains("name: github-pages") && ci.contains("actions/deploy-pages"));
        let steps: Vec<usize> = ["cargo xtask web", "--directory web/dist", "gh release upload"]
            .map(|step| release.find(step).unwrap_or_else(|| panic!("{step}")))
            .into();
        assert!(steps.is_sorted() && release.contains("tags: [\"v*\"]") && release.contains("web/dist/warpbook.html"));
    }

    #[test]
    fn readers_are_told_to_type_warpbook() {
        let w = Workspace::find(false).unwrap();
        let files = crate::workspace::files_below(&w.root, &LEFT_OUT).unwrap();
        let is_read = |path: &&PathBuf| path.extension().is_some_and(|e| e == "md" || e == "ipynb" || e == "py");
        let long = "cargo run --release -p warpbook-cli";
        for path in files.iter().filter(is_read) {
            assert!(!fs::read_to_string(path).unwrap().contains(long), "{}", path.display());
        }
    }

    #[test]
    fn a_missing_file_and_a_missing_heading_are_told_with_their_link() {
        let other =
            ("sub/b.md", "# One\n## Two words, *here*\n### <a id=\"x-1\"></a>Title\n```\n# no heading\n```\n# One\n");
        let good = "[](b.md#one) [](b.md#one-1) [](b.md#two-words-here) [](b.md#x-1) [](b.md#title) [](../sub) [](#here)\n# Here\n\
                    [](https://a.b/c#d) ![p](b.md \"title\") `[](code.md)`\n```\n[](code.md)\n```\n";
        assert_eq!(in_folder(&[("sub/a.md", good), other]), Vec::<String>::new());
        let bad = "[](c.md) [](b.md#no-heading)\n[](#nowhere) ![](gone.png)";
        let expect = [
            "sub/a.md: the link `c.md` leads to no file",
            "sub/a.md: the link `b.md#no-heading` leads to a heading that is not there",
            "sub/a.md: the link `#nowhere` leads to a heading that is not there",
            "sub/a.md: the link `gone.png` leads to no file",
        ];
        assert_eq!(in_folder(&[("sub/a.md", bad), other]), expect);
    }

    #[test]
    fn a_path_of_the_architecture_that_is_none_is_told() {
        const MAP: &str = "crates/ARCHITECTURE.md";
        let there = [("crates/warpbook-nn/src/train/passes/mod.rs", ""), ("crates/warpbook-nn/src/ops/cuda.rs", "")];
        let map = |text: &str| in_folder(&[(MAP, text), there[0], there[1]]);
        let good = "`train/passes/`, `passes/mod.rs`, `nn/src/{ops/cuda,train/passes/mod}.rs`, `ops/`, `warpbook-nn/src/`, `.cu`, `*launch.rs`, `a::b`";
        assert_eq!(map(good), Vec::<String>::new());
        let expect = |path: &str| vec![format!("{MAP}: `{path}` does not exist")];
        for path in ["train/passes.rs", "ops/cuda.rs/", "asses/mod.rs", "nn/ops/cuda.rs"] {
            assert_eq!(map(&format!("`{path}`")), expect(path));
            assert_eq!(map(&format!("`let\nx` `{path}`\n\n```\n`gone.rs`\n```")), expect(path));
        }
        assert_eq!(map("`ops/{cuda,cpu}.rs`"), expect("ops/cpu.rs"));
    }

    #[test]
    fn a_crate_s_page_calls_its_files_from_its_own_folders_on() {
        let page = "crates/warpbook-nn/README.md";
        let room = "crates/warpbook-nn/src/ops/README.md";
        let there = ["crates/warpbook-nn/src/ops/cuda.rs", "crates/warpbook-nn/tests/one.rs", "kernels/nn/add.cu"];
        let read = |page: &str, text: &str| in_folder(&[(page, text), (there[0], ""), (there[1], ""), (there[2], "")]);
        let good = "`cuda.rs`, `ops/`, `ops/cuda.rs`, `src/ops/`, `tests/one.rs`, `kernels/nn/add.cu`, `warpbook-nn/src/ops/{cuda}.rs`";
        for page in [page, room] {
            assert_eq!(read(page, good), Vec::<String>::new());
            for path in ["add.cu", "nn/", "nn/add.cu", "nn/src/ops/cuda.rs", "ops/cuda.rs/"] {
                assert_eq!(read(page, &format!("`{path}`")), [format!("{page}: `{path}` does not exist")]);
            }
        }
        // Only the tables of the generated page may name files that are gone.
        assert_eq!(read(TABLES, &format!("{BEGIN}\n`gone.rs`\n{END}")), Vec::<String>::new());
        assert_eq!(
            read(TABLES, &format!("`a.rs`\n{BEGIN}\n{END}\n`b.rs`")),
            ["a", "b"].map(|name| format!("{TABLES}: `{name}.rs` does not exist"))
        );
    }
}
