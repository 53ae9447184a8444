//! Finds out which files of a crate each file uses, from the tokens of the sources.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of a crate by path below `src`, each with the other files that it uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// The meaning of a name in a module.
enum Name {
    /// A child module.
    Module(usize),
    /// An item that this module defines.
    Item,
    /// An import by `use`, as a path from the module.
    Import(Vec<String>),
}

struct Module {
    file: String,
    parent: usize,
    names: HashMap<String, Name>,
    /// The paths of `use path::*`.
    globs: Vec<Vec<String>>,
}

/// One path of a `use`, with the name that it introduces; `*` for a glob.
struct Leaf {
    path: Vec<String>,
    name: String,
}

#[derive(Default)]
struct Crate {
    modules: Vec<Module>,
    /// The paths in a module's code, each with the module.
    paths: Vec<(usize, Vec<String>)>,
    /// The types that modules define, each with its module.
    types: Vec<(usize, String)>,
}

/// Returns the uses between all files reachable from a crate's root, such as `src/lib.rs`. Test-only code does not
/// count, and neither does a re-export whose name the file does not use itself. Using a re-exported name counts as
/// using the file that defines the item.
pub fn uses(root: &Path) -> Uses {
    let all = Crate::read(root);
    let mut out: Uses = all.modules.iter().map(|m| (m.file.clone(), BTreeSet::new())).collect();
    for (module, path) in &all.paths {
        let from = &all.modules[*module].file;
        if let Some(to) = all.resolve(*module, path, 0).filter(|to| to != from) {
            out.get_mut(from).unwrap().insert(to);
        }
    }
    out
}

/// Returns the names of all types that a crate defines at the level of a module, whether public or not, each with the
/// file of every definition. Test-only code does not count.
pub fn types(root: &Path) -> BTreeMap<String, Vec<String>> {
    let all = Crate::read(root);
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (module, name) in all.types {
        out.entry(name).or_default().push(all.modules[module].file.clone());
    }
    out
}

/// Returns a circle of files in which each uses the next, if there is one.
pub fn circle(uses: &Uses) -> Option<Vec<String>> {
    uses.keys().filter_map(|file| way_back(uses, file)).min_by_key(Vec::len)
}

/// Returns the shortest path from a file back to itself.
fn way_back(uses: &Uses, start: &str) -> Option<Vec<String>> {
    let mut before: HashMap<&str, &str> = HashMap::new();
    let mut next = std::collections::VecDeque::from([start]);
    while let Some(file) = next.pop_front() {
        for to in &uses[file] {
            if to == start {
                let mut way = vec![start.to_owned(), file.to_owned()];
                let mut at = file;
                while at != start {
                    at = before[at];
                    way.push(at.to_owned());
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(to.as_str()) {
                before.insert(to, file);
                next.push_back(to);
            }
        }
    }
    None
}

impl Crate {
    /// Reads all files reachable from a crate's root.
    fn read(root: &Path) -> Self {
        let mut all = Self::default();
        let file = root.file_name().unwrap().to_str().unwrap().to_owned();
        all.read_file(root.parent().unwrap(), file, 0, Path::new(""));
        all
    }

    /// Reads a file as a module; `folder` contains the files of its children.
    fn read_file(&mut self, src: &Path, file: String, parent: usize, folder: &Path) -> usize {
        let text = fs::read_to_string(src.join(&file)).unwrap_or_else(|e| panic!("{file} cannot be read: {e}"));
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{file} cannot be read: {e}"));
        self.read_module(src, file, parent, folder, tokens)
    }

    fn read_module(&mut self, src: &Path, file: String, parent: usize, folder: &Path, tokens: TokenStream) -> usize {
        let id = self.modules.len();
        self.modules.push(Module { file, parent, names: HashMap::new(), globs: Vec::new() });
        let tokens = without_tests(tokens.into_iter().collect());
        let mut code: Vec<TokenTree> = Vec::new();
        let mut exports: Vec<Leaf> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let name = ident(tokens.get(at + 1)).unwrap_or_default();
            match ident(tokens.get(at)).as_deref() {
                Some("mod") => {
                    let child = self.read_child(src, id, folder, &name, &tokens, at);
                    self.modules[id].names.entry(name).or_insert(Name::Module(child));
                    at += 3;
                }
                // `use<'a>` in `impl Trait + use<'a>` is not an import.
                Some("use") if !tokens.get(at + 1).is_some_and(|t| is_punct(t, '<')) => {
                    let end = at + tokens[at..].iter().position(|t| is_punct(t, ';')).unwrap();
                    let leaves = leaves(&tokens[at + 1..end]);
                    // A visibility such as `pub` or `pub(crate)` before the `use` makes it a re-export.
                    let is_export = code.last().is_some_and(|t| {
                        matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis)
                            || is_ident(t, "pub")
                    });
                    for leaf in leaves {
                        if leaf.name == "*" {
                            self.modules[id].globs.push(leaf.path.clone());
                        } else {
                            let import = Name::Import(leaf.path.clone());
                            self.modules[id].names.entry(leaf.name.clone()).or_insert(import);
                        }
                        if is_export {
                            exports.push(leaf);
                        } else {
                            self.paths.push((id, leaf.path));
                        }
                    }
                    at = end + 1;
                }
                Some(kind @ ("fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union")) => {
                    // `union` is a type only before a name, since it is not a keyword.
                    if !matches!(kind, "fn" | "const" | "static") && !name.is_empty() {
                        self.types.push((id, name.clone()));
                    }
                    self.modules[id].names.entry(name).or_insert(Name::Item);
                    code.push(tokens[at].clone());
                    at += 1;
                }
                _ => {
                    code.push(tokens[at].clone());
                    at += 1;
                }
            }
        }
        let mut used = BTreeSet::new();
        self.read_code(id, &code, &mut used);
        self.paths.extend(exports.into_iter().filter(|leaf| used.contains(&leaf.name)).map(|leaf| (id, leaf.path)));
        id
    }

    /// Reads a child declared at `tokens[at..]`: `mod name;` or `mod name { ... }`.
    fn read_child(
        &mut self,
        src: &Path,
        parent: usize,
        folder: &Path,
        name: &str,
        tokens: &[TokenTree],
        at: usize,
    ) -> usize {
        let below = folder.join(name);
        if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
            let file = self.modules[parent].file.clone();
            return self.read_module(src, file, parent, &below, body.stream());
        }
        // `#[path = "..."]` is relative to the folder of the file.
        let named = tokens[..at].iter().rev().take_while(|t| !is_punct(t, ';')).find_map(|t| match t {
            TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket => path_attribute(g.stream()),
            _ => None,
        });
        let beside = Path::new(&self.modules[parent].file).parent().unwrap().to_path_buf();
        let places = match named {
            Some(path) => vec![beside.join(path)],
            None => vec![below.with_extension("rs"), below.join("mod.rs")],
        };
        let file = places.iter().find(|p| src.join(p).is_file()).unwrap_or_else(|| panic!("no file of {places:?}"));
        self.read_file(src, as_text(file), parent, &below)
    }

    /// Collects the paths and names in code, including arguments of macros and imports inside functions.
    fn read_code(&mut self, module: usize, tokens: &[TokenTree], used: &mut BTreeSet<String>) {
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(g) => {
                    let is_visibility = at > 0 && is_ident(&tokens[at - 1], "pub");
                    if !(is_visibility && g.delimiter() == Delimiter::Parenthesis) {
                        self.read_code(module, &without_tests(g.stream().into_iter().collect()), used);
                    }
                    at += 1;
                }
                TokenTree::Ident(i) if i == "use" && !tokens.get(at + 1).is_some_and(|t| is_punct(t, '<')) => {
                    let end = at + tokens[at..].iter().position(|t| is_punct(t, ';')).unwrap_or(tokens.len() - at);
                    let found = leaves(&tokens[at + 1..end]);
                    self.paths.extend(found.into_iter().map(|leaf| (module, leaf.path)));
                    at = end;
                }
                TokenTree::Ident(_) => {
                    let mut path = Vec::new();
                    while let Some(name) = ident(tokens.get(at)) {
                        path.push(name);
                        at += 1;
                        if !is_path_separator(tokens, at) {
                            break;
                        }
                        at += 2;
                    }
                    used.extend(path.first().cloned());
                    if path.len() > 1 {
                        self.paths.push((module, path));
                    }
                }
                _ => at += 1,
            }
        }
    }

    /// Returns the file that defines the item at a path, as seen from a module; `None` for items of other crates.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<String> {
        // Imports can be circular.
        if depth > 32 {
            return None;
        }
        let Some((first, rest)) = path.split_first() else { return Some(self.modules[module].file.clone()) };
        let here = &self.modules[module];
        match first.as_str() {
            "crate" => return self.resolve(0, rest, depth),
            "super" => return self.resolve(here.parent, rest, depth),
            "self" => return self.resolve(module, rest, depth),
            _ => {}
        }
        match here.names.get(first) {
            Some(Name::Module(child)) => self.resolve(*child, rest, depth),
            Some(Name::Item) => Some(here.file.clone()),
            // With `use a::b;`, the path `b::c` is `a::b::c`. An import that names itself belongs to another crate.
            Some(Name::Import(import)) if import.first() != Some(first) || import.len() > 1 => {
                self.resolve(module, &[import, rest].concat(), depth + 1)
            }
            Some(Name::Import(_)) => None,
            None => here.globs.iter().find_map(|glob| self.resolve(module, &[glob, path].concat(), depth + 1)),
        }
    }
}

fn as_text(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|c| c.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(i)) => Some(i.to_string()),
        _ => None,
    }
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(i) if i == name)
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == mark)
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    tokens.get(at..at + 2).is_some_and(|two| two.iter().all(|t| is_punct(t, ':')))
        && matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)))
}

/// Returns the tokens without items that are compiled only for tests.
fn without_tests(tokens: Vec<TokenTree>) -> Vec<TokenTree> {
    let mut out = Vec::new();
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        let of_tests = is_punct(&token, '#')
            && matches!(rest.peek(), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Bracket && is_cfg_test(g.stream()));
        if !of_tests {
            out.push(token);
            continue;
        }
        // An item ends with a semicolon or with its body.
        let is_end =
            |t: &TokenTree| is_punct(t, ';') || matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
        while rest.next().is_some_and(|t| !is_end(&t)) {}
    }
    out
}

/// Returns true if an attribute is `cfg(test)`, or `cfg(all(test, ...))`.
fn is_cfg_test(attribute: TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("cfg(test") || text.starts_with("cfg(all(test")
}

/// Returns the file named by `path = "..."`.
fn path_attribute(attribute: TokenStream) -> Option<PathBuf> {
    let text = attribute.to_string();
    let path = text.strip_prefix("path")?.trim_start().strip_prefix('=')?.trim();
    Some(PathBuf::from(path.trim_matches('"')))
}

/// Returns the paths of a `use`, without the keyword and the semicolon.
fn leaves(tree: &[TokenTree]) -> Vec<Leaf> {
    let mut path = Vec::new();
    for (at, token) in tree.iter().enumerate() {
        match token {
            TokenTree::Ident(i) if i == "as" => {
                let name = ident(tree.get(at + 1)).unwrap_or_default();
                return vec![Leaf { path, name }];
            }
            TokenTree::Ident(i) => path.push(i.to_string()),
            TokenTree::Punct(p) if p.as_char() == '*' => return vec![Leaf { path, name: "*".into() }],
            TokenTree::Group(g) => {
                let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                let each = inner.split(|t| is_punct(t, ',')).filter(|part| !part.is_empty()).flat_map(leaves);
                let below = |leaf: Leaf| Leaf { path: [path.clone(), leaf.path].concat(), name: leaf.name };
                return each.map(below).map(without_self).collect();
            }
            _ => {}
        }
    }
    let name = path.last().cloned().unwrap_or_default();
    vec![Leaf { path, name }]
}

/// Turns `a::b::self` into `a::b`.
fn without_self(mut leaf: Leaf) -> Leaf {
    if leaf.path.len() > 1 && leaf.path.last().is_some_and(|last| last == "self") {
        leaf.path.pop();
        if leaf.name == "self" {
            leaf.name = leaf.path.last().cloned().unwrap_or_default();
        }
    }
    leaf
}
