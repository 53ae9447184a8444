//! The viewer: compiled to WebAssembly, and laid out as static files.

use crate::process::{cargo, command, is_executable, on_path, output, run as run_seen, run_logged};
use crate::publish::{self, Record};
use crate::steps::{Report, say};
use crate::tools::apt;
use crate::workspace::{Workspace, files_below, replace_dir, write_atomic};
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";
const PLACEHOLDER: &str = "<!-- warpbook:script -->";
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"style.css\">";
/// A script that starts the module next to the page; the page says why if that fails.
const LOADER: &str = "STOPPED\nimport(\"./warpbook.js\").then((viewer) => viewer.default()).catch(FAILED);";
/// A script that reports a panic, after which nothing on the page responds.
const STOPPED: &str = "for (const kind of [\"error\", \"unhandledrejection\"]) addEventListener(kind, (event) => { \
    if ((event.error ?? event.reason) instanceof WebAssembly.RuntimeError) \
    document.getElementById(\"warpbook-stopped\")?.removeAttribute(\"hidden\"); });";
const FAILED: &str = "(error) => { console.error(error); \
    document.getElementById(\"warpbook-failed\")?.removeAttribute(\"hidden\"); }";
const NO_TARGET: &str = "The source of Rust's standard library is missing: run `rustup component add rust-src` \
    (or, on Debian: apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev)";
/// Debian's packages for building the target's standard library from source.
const DEBIAN: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "libstd-rust-web-dev"];

/// Runs `cargo xtask web`.
pub fn run(w: &Workspace) -> Result<ExitCode> {
    let dist = build(w)?;
    println!("The viewer is in {}; warpbook.html there opens from disk.", w.show(&dist));
    Ok(ExitCode::SUCCESS)
}

/// Builds the viewer with the published records into `web/dist`.
pub fn build(w: &Workspace) -> Result<PathBuf> {
    let built = Built::ensure(w)?;
    let dist = w.path("web/dist");
    lay_out(w, &built, &publish::records(w)?, &dist)?;
    into_program(w, &built)?;
    Ok(dist)
}

/// A picture that other sites show with a link to the page.
const CARD: &str = "data/images/page.png";
/// The place of the picture's address in the page's HTML.
const CARD_PLACE: &str = "content=\"card.png\"";
/// An environment variable with the published page's address, since other sites accept only absolute addresses of
/// pictures.
const PAGE_URL: &str = "WARPBOOK_PAGE_URL";

/// The size limit of WebAssembly and JavaScript together, compressed by `gzip -9`, in units of 1,000 bytes.
const MOST_KB: f64 = 650.0;

/// The sizes of the files that a browser loads, compressed by `gzip -9`, in bytes.
#[derive(Debug)]
pub struct Weight {
    wasm: usize,
    script: usize,
}

impl Weight {
    /// Compares the size with [`MOST_KB`].
    pub fn check(&self) -> Result<Report> {
        let kb = |bytes: usize| bytes as f64 / 1e3;
        let all = kb(self.wasm + self.script);
        let said = format!(
            "{all:.0} KB gzip: {:.0} KB of WebAssembly, {:.0} KB of JavaScript",
            kb(self.wasm),
            kb(self.script)
        );
        if all > MOST_KB {
            bail!(
                "the viewer is too large, {said}; at most {MOST_KB} KB together. It is larger without the source of Rust's standard library, \
                 which `rustup component add rust-src` installs."
            );
        }
        Ok(Report::one(said))
    }
}

/// Measures the page in `dist`.
pub fn weight(dist: &Path) -> Result<Weight> {
    let gzip = |file: &str| -> Result<usize> {
        let path = dist.join(file);
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?)?;
        Ok(packed.finish()?.len())
    };
    Ok(Weight { wasm: gzip("warpbook_bg.wasm")?, script: gzip("warpbook.js")? })
}

/// Returns the page with its address and the absolute address of its picture, if the page's address is known.
fn published(page: &str, url: Option<&str>) -> Result<String> {
    let Some(url) = url.map(|u| u.trim_end_matches('/')).filter(|u| !u.is_empty()) else { return Ok(page.to_owned()) };
    if !url.starts_with("https://") || url.contains(['"', '<', '>', ' ', '&']) {
        bail!(
            "{PAGE_URL}={url} is not the address of a page: it begins with https:// and has no quotes, spaces or ampersands"
        );
    }
    let place = format!("content=\"{url}/card.png\">\n<meta property=\"og:url\" content=\"{url}/\"");
    replace_once(page, CARD_PLACE, &place)
}

/// Returns the page without the parts for other sites, since a shared file has no address.
fn unpublished(page: &str) -> String {
    let of_sites = |l: &&str| !l.starts_with("<meta property=\"og:") && !l.starts_with("<meta name=\"twitter:");
    page.lines().filter(of_sites).map(|l| format!("{l}\n")).collect()
}

/// A file with the viewer that the `warpbook` program includes at compile time.
const INSIDE: &str = "crates/warpbook-cli/viewer/warpbook.html.gz";

/// Writes the single-file page with the published records to the place where the program's next build includes it;
/// returns true if it changed.
pub fn into_program(w: &Workspace, built: &Built) -> Result<bool> {
    let page = single_page(w, built, &publish::records(w)?)?;
    let mut file = GzEncoder::new(Vec::new(), Compression::best());
    file.write_all(page.as_bytes())?;
    let (file, path) = (file.finish()?, w.path(INSIDE));
    // Rewriting an unchanged file would recompile the program.
    if fs::read(&path).is_ok_and(|old| old == file) {
        return Ok(false);
    }
    write_atomic(&path, file)?;
    Ok(true)
}

/// The compiled viewer in two forms: a module for a site, and a classic script for a single file.
pub struct Built {
    dir: PathBuf,
}

impl Built {
    /// Compiles the viewer if any of its sources changed.
    pub fn ensure(w: &Workspace) -> Result<Self> {
        let dir = w.target.join("web/built");
        let stamp = stamp(w)?;
        if fs::read_to_string(dir.join("stamp")).is_ok_and(|s| s == stamp) {
            return Ok(Self { dir });
        }
        let wasm = compile(w)?;
        replace_dir(&dir, |dir| {
            glue(&wasm, &dir.join("module"), true)?;
            glue(&wasm, &dir.join("script"), false)?;
            write_atomic(&dir.join("stamp"), &stamp)
        })?;
        Ok(Self { dir })
    }

    fn read(&self, file: &str) -> Result<Vec<u8>> {
        let path = self.dir.join(file);
        fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))
    }

    fn text(&self, file: &str) -> Result<String> {
        String::from_utf8(self.read(file)?).with_context(|| format!("{file} is not text"))
    }
}

/// Returns a hash of all sources of the viewer. It may differ between releases of Rust, which costs one build.
fn stamp(w: &Workspace) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for folder in ["web", "crates/warpbook-record", "crates/warpbook-charts", "kernels"] {
        for file in files_below(&w.path(folder), &["dist", "target"])? {
            file.strip_prefix(&w.root).unwrap_or(&file).hash(&mut hasher);
            fs::read(&file)?.hash(&mut hasher);
        }
    }
    for file in ["Cargo.toml", "Cargo.lock", "crates/xtask/src/site/web.rs", "crates/xtask/src/site/interrupted.js"] {
        fs::read(w.path(file)).unwrap_or_default().hash(&mut hasher);
    }
    rustc(w, &["-V"]).hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}

fn rustc(w: &Workspace, args: &[&str]) -> Option<String> {
    output(command(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).args(args).current_dir(&w.root))
}

/// Returns a Cargo command that compiles a package for WebAssembly into the viewer's build folder. `package` is its
/// name, followed by options.
fn cargo_build(w: &Workspace, package: &[&str]) -> Result<Command> {
    let toolchain = Toolchain::ensure(w)?;
    let mut build = toolchain.cargo(w);
    build.args(["build", "--profile", "web", "--target", TARGET, "--package"]).args(package);
    build.args(toolchain.build_std());
    build.env("CARGO_TARGET_DIR", w.target.join("web")).env_remove("RUSTFLAGS");
    Ok(build)
}

/// Compiles the emulator's library for WebAssembly. Its example `page` is left out, because Cargo would also compile
/// the dev-dependencies, which load libraries of the operating system.
pub fn compile_emulator(w: &Workspace) -> Result<()> {
    run_seen(&mut cargo_build(w, &["warpbook-emulator", "--lib"])?)
}

/// Compiles the crate; returns the path of the `.wasm` file.
fn compile(w: &Workspace) -> Result<PathBuf> {
    let mut build = cargo_build(w, &["warpbook-web"])?;
    say("Building the viewer for WebAssembly (1 to 4 minutes the first time)");
    run_seen(&mut build)?;
    let wasm = w.target.join("web").join(TARGET).join("web/warpbook-web.wasm");
    if !wasm.exists() {
        bail!("the build of the viewer left no {}", w.show(&wasm));
    }
    Ok(wasm)
}

/// A toolchain that compiles for WebAssembly.
#[derive(Debug, PartialEq)]
enum Toolchain {
    /// The default toolchain; it builds the standard library too, if it has the source.
    Ordinary { with_source: bool },
    /// The distribution's toolchain, which also builds the standard library.
    Distribution { cargo: PathBuf, rustc: PathBuf, linker: PathBuf },
}

impl Toolchain {
    /// Returns the first available or installable toolchain: the default one with the standard library's source, the
    /// distribution's, and the default one with a compiled standard library, which makes a larger page.
    /// `WARPBOOK_WASM=distribution` allows only the second of these.
    fn ensure(w: &Workspace) -> Result<Self> {
        let any = std::env::var_os("WARPBOOK_WASM").is_none_or(|v| v != "distribution");
        let rustup = |args: &[&str]| {
            let mut add = command("rustup");
            add.args(args).current_dir(&w.root);
            w.may_install
                && on_path("rustup").is_some()
                && run_logged(&mut add, &w.log("rustup"), Duration::from_secs(300)).is_ok()
        };
        if any && (has_source(w) || rustup(&["component", "add", "rust-src"]) && has_source(w)) {
            return Ok(Self::Ordinary { with_source: true });
        }
        if let Some(found) = Self::of_distribution(w) {
            return Ok(found);
        }
        if any && (has_std(w) || rustup(&["target", "add", TARGET]) && has_std(w)) {
            return Ok(Self::Ordinary { with_source: false });
        }
        apt::install(w, &DEBIAN, "about 2 minutes", NO_TARGET)?;
        Self::of_distribution(w).context(NO_TARGET)
    }

    fn of_distribution(w: &Workspace) -> Option<Self> {
        let files = output(command("dpkg").arg("-L").args(DEBIAN))?;
        let program = |name: &str| {
            let file = |l: &&str| l.ends_with(&format!("/bin/{name}")) && is_executable(Path::new(l));
            files.lines().filter(file).min_by_key(|l| l.len()).map(PathBuf::from)
        };
        let (cargo, rustc) = (program("cargo")?, program("rustc")?);
        let sysroot = output(command(&rustc).args(["--print", "sysroot"]))?;
        Path::new(&sysroot).join("lib/rustlib/src/rust/library/std").is_dir().then_some(())?;
        Some(Self::Distribution { cargo, rustc, linker: linker(w)? })
    }

    fn cargo(&self, w: &Workspace) -> Command {
        let mut c = match self {
            Self::Ordinary { .. } => cargo(w),
            Self::Distribution { cargo, rustc, linker } => {
                let mut c = command(cargo);
                c.current_dir(&w.root).env("RUSTC", rustc);
                c.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                c.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC_WRAPPER").env_remove("RUSTDOC");
                c
            }
        };
        if *self != (Self::Ordinary { with_source: false }) {
            // The page itself reports that it has stopped; panic messages would be a tenth of the download.
            c.env("RUSTC_BOOTSTRAP", "1");
            let flags = "-Zunstable-options -Zlocation-detail=none -Zfmt-debug=none -Cpanic=immediate-abort";
            c.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", flags);
        }
        c
    }

    /// Returns the arguments that follow `build`.
    fn build_std(&self) -> &'static [&'static str] {
        match self {
            Self::Ordinary { with_source: false } => &[],
            _ => &["-Z", "build-std=std,panic_abort", "-Z", "build-std-features=optimize_for_size"],
        }
    }
}

fn has_source(w: &Workspace) -> bool {
    rustc(w, &["--print", "sysroot"]).is_some_and(|s| Path::new(&s).join("lib/rustlib/src/rust/library/std").is_dir())
}

fn has_std(w: &Workspace) -> bool {
    let Some(dir) = rustc(w, &["--print", "target-libdir", "--target", TARGET]) else { return false };
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|e| e.file_name()).any(|n| n.to_string_lossy().starts_with("libstd-"))
}

/// Returns a linker for WebAssembly: the linker of rustup's compiler, or LLVM's.
fn linker(w: &Workspace) -> Option<PathBuf> {
    let host = rustc(w, &["-vV"])?.lines().find_map(|l| l.strip_prefix("host: ").map(str::to_owned))?;
    let shipped = Path::new(&rustc(w, &["--print", "sysroot"])?).join("lib/rustlib").join(host).join("bin/rust-lld");
    Some(shipped).filter(|p| is_executable(p)).or_else(|| on_path("wasm-ld"))
}

/// Writes `warpbook.js` and the file that it loads, `warpbook_bg.wasm`.
fn glue(wasm: &Path, out: &Path, module: bool) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(wasm).out_name("warpbook").typescript(false);
    // Names are a quarter of the file, and browsers do not need them.
    bindgen.remove_name_section(true).remove_producers_section(true);
    // The single-file page has no other file to load by default.
    if module { bindgen.web(true)? } else { bindgen.no_modules(true)? }.omit_default_module_path(!module);
    bindgen.generate(out).context("wasm-bindgen could not write the viewer's JavaScript")?;
    let script = out.join("warpbook.js");
    write_atomic(&script, uncommented(&guarded(&fs::read_to_string(&script)?)?))
}

/// Removes comments and indentation from the script, a tenth of its size. This is safe, since wasm-bindgen writes no
/// multi-line strings.
fn uncommented(script: &str) -> String {
    let is_code = |line: &&str| !["//", "/**", "* ", "*/"].iter().any(|c| line.starts_with(c)) && !line.is_empty();
    script.lines().map(str::trim).filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

/// A script that keeps callbacks from entering a module whose call the browser has aborted.
const INTERRUPTED: &str = include_str!("interrupted.js");

/// Inserts [`INTERRUPTED`] between the script's callbacks and the module.
fn guarded(script: &str) -> Result<String> {
    let unknown = |what: &str| {
        anyhow::anyhow!("wasm-bindgen's JavaScript has no `{what}`, where this version of xtask guards the module")
    };
    let mut guarded = script.to_owned();
    for (what, with) in [
        // This matches every closure that the module gives to the browser.
        ("const real = (...args) => {", "const real = uninterrupted((...args) => {"),
        ("wasm.__wbindgen_start();", "uninterrupted(wasm.__wbindgen_start)();"),
        // In a classic script, the code goes inside its function.
        ("function __wbg_get_imports() {", &format!("{INTERRUPTED}\nfunction __wbg_get_imports() {{")),
    ] {
        if !guarded.contains(what) {
            return Err(unknown(what));
        }
        guarded = guarded.replace(what, with);
    }
    // wasm-bindgen writes this statement after the script of each closure.
    const NEXT: &str = "real._wbg_cb_unref = ";
    let pieces: Vec<&str> = guarded.split(NEXT).collect();
    let (last, closures) = pieces.split_last().filter(|(_, before)| !before.is_empty()).ok_or_else(|| unknown(NEXT))?;
    let mut closed = String::new();
    for before in closures {
        let body = before.trim_end().strip_suffix("};").ok_or_else(|| unknown(NEXT))?;
        closed += &format!("{body}}});\n{NEXT}");
    }
    Ok(closed + last)
}

/// Lays out the viewer with these records, opening the first: `index.html` with its files for any static server, and
/// `warpbook.html` for opening from disk.
pub fn lay_out(w: &Workspace, built: &Built, records: &[Record], place: &Path) -> Result<()> {
    let (template, style) = template(w)?;
    let page = with_scripts(&template, "", &LOADER.replace("STOPPED", STOPPED).replace("FAILED", FAILED))?;
    let page = published(&page, std::env::var(PAGE_URL).ok().as_deref())?;
    let single = single_page(w, built, records)?;
    replace_dir(place, |dir| {
        write_atomic(&dir.join("index.html"), page)?;
        write_atomic(&dir.join("style.css"), &style)?;
        write_atomic(&dir.join("card.png"), fs::read(w.path(CARD)).with_context(|| format!("{CARD} cannot be read"))?)?;
        write_atomic(&dir.join("warpbook.html"), single)?;
        for file in ["warpbook.js", "warpbook_bg.wasm"] {
            write_atomic(&dir.join(file), built.read(&format!("module/{file}"))?)?;
        }
        write_atomic(&dir.join("data/index.json"), publish::pretty(&publish::index(records))?)?;
        records.iter().try_for_each(|r| write_atomic(&dir.join("data").join(&r.file), &r.text))
    })
}

/// Returns the page's HTML and its style.
fn template(w: &Workspace) -> Result<(String, String)> {
    let read = |file: &str| fs::read_to_string(w.path(file)).with_context(|| format!("{file} cannot be read"));
    Ok((read("web/index.html")?, read("web/style.css")?))
}

/// Returns the [`single_file`] of the compiled viewer.
fn single_page(w: &Workspace, built: &Built, records: &[Record]) -> Result<String> {
    let (template, style) = template(w)?;
    let (script, wasm) = (built.text("script/warpbook.js")?, built.read("script/warpbook_bg.wasm")?);
    single_file(&unpublished(&template), &style, &script, &wasm, &publish::index(records), records)
}

/// Writes one self-contained HTML file, which does not even need the right to fetch.
fn single_file(
    template: &str,
    style: &str,
    script: &str,
    wasm: &[u8],
    index: &Value,
    records: &[Record],
) -> Result<String> {
    if style.to_ascii_lowercase().contains("</style") {
        bail!("web/style.css holds `</style`, which would end it early");
    }
    let mut texts = Map::new();
    for r in records {
        texts.insert(r.file.clone(), serde_json::from_str(&r.text)?);
    }
    let embedded = serde_json::to_string(&json!({ "index": index, "records": texts }))?;
    let data = format!(
        "<script type=\"application/json\" id=\"warpbook-embedded\">{}</script>\n\
         <script type=\"text/plain\" id=\"warpbook-wasm\">{}</script>\n",
        json_in_html(&embedded),
        STANDARD.encode(wasm),
    );
    let script = format!(
        "{STOPPED}\n{}\nconst text = atob(document.getElementById(\"warpbook-wasm\").textContent);\n\
         wasm_bindgen({{ module_or_path: Uint8Array.from(text, (c) => c.charCodeAt(0)) }}).catch({FAILED});\n",
        script_in_html(script),
    );
    let page = replace_once(template, STYLE_LINK, &format!("<style>\n{style}</style>"))?;
    with_scripts(&page, &data, &script)
}

/// Inserts data and the script, and adds the script's hash to the page's security policy, if it has one, so that no
/// other inline script runs.
fn with_scripts(page: &str, data: &str, script: &str) -> Result<String> {
    let hash = format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)));
    let page = match page.split_once("'sha256-") {
        None => page.to_owned(),
        Some((before, after)) => {
            let (_, after) = after.split_once('\'').context("web/index.html has a hash that does not end")?;
            format!("{before}{hash}{after}")
        }
    };
    replace_once(&page, PLACEHOLDER, &format!("{data}<script>{script}</script>"))
}

/// Escapes JSON so that it can neither end its script element nor open a comment; JSON has `<` only in strings.
fn json_in_html(json: &str) -> String {
    json.replace("</", "<\\/").replace("<!--", "\\u003c!--")
}

/// Escapes JavaScript like JSON; the glue can have such text only in string literals.
fn script_in_html(script: &str) -> String {
    script.replace("</script", "<\\/script").replace("<!--", "\\u003c!--")
}

fn replace_once(text: &str, what: &str, with: &str) -> Result<String> {
    match text.split_once(what) {
        Some((before, after)) if !after.contains(what) => Ok(format!("{before}{with}{after}")),
        _ => bail!("web/index.html needs `{what}` once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "<html><head><meta content=\"script-src 'self' 'sha256-AA='\"><link rel=\"stylesheet\" href=\"style.css\"></head>\
        <body><!-- warpbook:script --></body></html>";

    #[test]
    fn embedded_json_says_the_same_and_closes_nothing() {
        let value = json!({ "a": "</script><script>x()</script><!-- <SCRIPT> \u{2028}" });
        let text = json_in_html(&value.to_string());
        assert!(!text.contains("</") && !text.contains("<!--"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn the_single_file_holds_everything() {
        let page =
            single_file(TEMPLATE, "b{}", "let x = \"</script>\";", b"\0asm", &json!({"records": []}), &[]).unwrap();
        assert!(page.contains("<style>\nb{}</style>") && page.contains("AGFzbQ=="));
        assert!(!page.contains("sha256-AA=") && page.contains("script-src 'self' 'sha256-"));
        assert!(!page.contains("href=") && !page.contains("src=") && !page.contains("type=\"module\""));
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(single_file(TEMPLATE, "</STYLE>", "", b"", &json!({}), &[]).is_err());
    }

    #[test]
    fn the_module_is_guarded_or_the_build_fails() {
        let closure = "    const real = (...args) => {\n    };\n    real._wbg_cb_unref = () => {};\n";
        let script = format!("function __wbg_get_imports() {{\n}}\n{closure}{closure}wasm.__wbindgen_start();");
        let guarded = guarded(&script).unwrap();
        assert!(guarded.starts_with(INTERRUPTED) && guarded.ends_with("uninterrupted(wasm.__wbindgen_start)();"));
        assert_eq!(
            guarded.matches("const real = uninterrupted((...args) => {\n    });\nreal._wbg_cb_unref = ").count(),
            2
        );
        for missing in ["__wbg_get_imports", "const real", "_wbg_cb_unref", "wasm.__wbindgen_start"] {
            assert!(super::guarded(&script.replace(missing, "other")).is_err(), "{missing}");
        }
    }

    #[test]
    fn a_page_that_is_too_large_is_refused() {
        let said = Weight { wasm: 400_000, script: 12_400 }.check().unwrap().note;
        assert_eq!(said, "412 KB gzip: 400 KB of WebAssembly, 12 KB of JavaScript");
        assert!(Weight { wasm: 650_000, script: 1 }.check().is_err());
    }

    #[test]
    fn the_policy_names_the_script() {
        // The hash is the output of `printf %s 'alert(1)' | openssl dgst -sha256 -binary | base64`.
        let page = with_scripts(TEMPLATE, "<i></i>", "alert(1)").unwrap();
        assert!(page.contains("'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"), "{page}");
        assert!(page.contains("<i></i><script>alert(1)</script>"));
    }

    #[test]
    fn other_sites_are_told_of_the_published_page_only() {
        let page = fs::read_to_string(Workspace::find(false).unwrap().path("web/index.html")).unwrap();
        for tag in ["og:title", "og:description", "og:image", "twitter:card"] {
            assert!(page.contains(&format!("\"{tag}\"")), "{tag}");
        }
        assert_eq!(published(&page, None).unwrap(), page);
        let at = published(&page, Some("https://a.example/lab/")).unwrap();
        assert!(at.contains("\"og:image\" content=\"https://a.example/lab/card.png\""), "{at}");
        assert!(at.contains("\"og:url\" content=\"https://a.example/lab/\""));
        for bad in ["http://a.example", "https://a/\"><script>", "a b"] {
            assert!(published(&page, Some(bad)).is_err(), "{bad}");
        }
        let file = unpublished(&page);
        assert!(!file.contains("og:") && !file.contains("twitter:") && !file.contains("card.png"));
        assert!(file.contains(PLACEHOLDER) && file.contains(STYLE_LINK) && file.contains("<title>"));
    }

    #[test]
    fn a_template_without_its_place_is_refused() {
        assert!(replace_once("a", PLACEHOLDER, "x").is_err());
        assert!(replace_once(&PLACEHOLDER.repeat(2), PLACEHOLDER, "x").is_err());
        assert_eq!(replace_once("a-b", "-", "+").unwrap(), "a+b");
    }
}
