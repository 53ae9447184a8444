//! Tests of `warpbook data` with a local server that misbehaves in many ways.

#[path = "../../src/datasets/download.rs"]
mod download;

use download::{Failed, Got, Step, Wanted, fetch};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STALL: Duration = Duration::from_secs(10);

/// A server's behaviour for one request.
#[derive(Debug, Clone)]
enum Way {
    /// Sends the file, or the requested part.
    Good,
    /// Sends the whole file, even if a part was requested.
    WithoutRange,
    /// Announces the whole length, but closes after this many bytes.
    Truncate(usize),
    /// Announces no length and closes after this many bytes, so that the end looks regular.
    TruncateSilently(usize),
    /// Sends this many bytes and then nothing.
    Stall(usize),
    /// Sends nothing at all.
    Silent,
    /// Announces this length instead of the right one.
    Length(usize),
    /// Sends more than the file has, without announcing a length.
    Endless,
    /// Answers a range request with another range.
    WrongRange,
    /// Answers with the right range header but with the bytes of another range.
    WrongPart,
    /// Sends the right number of wrong bytes.
    WrongBytes,
    /// Answers every range with status 416.
    Unsatisfiable,
    /// Answers with an error status.
    Status(u16),
    /// Redirects to another path.
    Redirect(String),
    /// Sends bytes that are not HTTP.
    Noise,
}

/// The requested range of each request, if it had one.
type Log = Mutex<Vec<Option<String>>>;

/// A server that answers its requests in these ways, one after the other, and all further requests in the last way. It
/// ends with the process of the test.
struct Server {
    address: String,
    seen: Arc<Log>,
}

impl Server {
    fn new(ways: &[Way], content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, ways) = (seen.clone(), ways.to_vec());
        std::thread::spawn(move || {
            for (i, stream) in listener.incoming().flatten().enumerate() {
                let way = ways[i.min(ways.len() - 1)].clone();
                let (log, content) = (log.clone(), content.clone());
                std::thread::spawn(move || {
                    // The client may hang up in the middle of a response.
                    let _ = serve(stream, &way, &content, &log);
                });
            }
        });
        Self { address, seen }
    }

    fn url(&self) -> String {
        format!("{}file.gz", self.address)
    }

    fn ranges(&self) -> Vec<Option<String>> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, way: &Way, content: &[u8], log: &Log) -> std::io::Result<()> {
    let lines = BufReader::new(stream.try_clone()?).lines();
    let mut range = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("range")
        {
            range = Some(value.to_owned());
        }
    }
    log.lock().unwrap().push(range.clone());
    let from: usize = range.iter().find_map(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()).unwrap_or(0);
    let all = content.len();
    let full = format!("HTTP/1.1 200 OK\r\nContent-Length: {all}\r\nConnection: close\r\n\r\n");
    let head = match from {
        0 => full.clone(),
        from => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{all}\r\nConnection: close\r\n\r\n",
            all - from,
            all - 1
        ),
    };
    let unknown = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let mut send = |head: &str, body: &[u8]| stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    match way {
        Way::Good => send(&head, &content[from..]),
        Way::WithoutRange => send(&full, content),
        Way::Truncate(n) => send(&head, &content[from..][..*n]),
        Way::TruncateSilently(n) => send(unknown, &content[..*n]),
        Way::Stall(n) => {
            send(&head, &content[from..][..*n])?;
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        Way::Silent => {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        Way::Length(n) => {
            send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {n}\r\nConnection: close\r\n\r\n"), content)
        }
        Way::Endless => {
            send(unknown, content)?;
            (0..1000).try_for_each(|_| send("", &[0; 1 << 16]))
        }
        Way::WrongRange if from > 0 => {
            let head = head.replace(&format!("bytes {from}-"), &format!("bytes {}-", from - 1));
            send(&head, &content[from..])
        }
        Way::WrongPart if from > 0 => send(&head, &content[..all - from]),
        Way::WrongRange | Way::WrongPart => send(&full, content),
        Way::WrongBytes => send(&full, &vec![b'x'; all]),
        Way::Unsatisfiable if from > 0 => {
            send("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", &[])
        }
        Way::Unsatisfiable => send(&full, content),
        Way::Status(code) => {
            send(&format!("HTTP/1.1 {code} Such\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"), b"no\n")
        }
        Way::Redirect(to) => send(
            &format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            &[],
        ),
        Way::Noise => send("what do you want\r\n\r\n", &[]),
    }
}

fn content() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn wanted(urls: &[String]) -> Wanted {
    let sha256 = Sha256::digest(content()).iter().map(|b| format!("{b:02x}")).collect();
    Wanted { name: "file.gz".into(), bytes: content().len() as u64, sha256, urls: urls.to_vec() }
}

/// Creates a folder and a server with these ways.
fn place(ways: &[Way]) -> (TempDir, Server) {
    (tempfile::tempdir().unwrap(), Server::new(ways, content()))
}

fn load(server: &Server, folder: &Path) -> Result<Got, Failed> {
    fetch(&wanted(&[server.url()]), folder, STALL, &mut |_| {})
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that the folder has only the right file.
#[track_caller]
fn expect_file(folder: &Path) {
    assert_eq!(names(folder), ["file.gz"]);
    assert!(fs::read(folder.join("file.gz")).unwrap() == content());
}

#[track_caller]
fn expect_failure(got: Result<Got, Failed>, parts: &[&str]) {
    let why = got.unwrap_err().to_string();
    for part in parts {
        assert!(why.contains(part), "no `{part}` in: {why}");
    }
}

#[test]
fn a_file_is_loaded_checked_and_then_kept() {
    let (folder, server) = place(&[Way::Good]);
    let inner = folder.path().join("a/b");
    let mut steps = Vec::new();
    let got = fetch(&wanted(&[server.url()]), &inner, STALL, &mut |s| {
        if let Step::At(n) = s {
            steps.push(n);
        }
    });
    assert_eq!(got, Ok(Got::Loaded(server.url())));
    expect_file(&inner);
    assert!(steps.is_sorted() && steps.last() == Some(&300_000));
    assert_eq!(load(&server, &inner), Ok(Got::Present));
    assert_eq!(server.ranges().len(), 1, "what is there is not asked for");
}

#[test]
fn a_file_that_is_there_and_differs_is_neither_used_nor_lost() {
    let (folder, server) = place(&[Way::Good]);
    for other in [vec![b'x'; 300_000], b"short".to_vec()] {
        fs::write(folder.path().join("file.gz"), &other).unwrap();
        expect_failure(load(&server, folder.path()), &["differs from the published file", "Move it away"]);
        assert!(fs::read(folder.path().join("file.gz")).unwrap() == other);
    }
    assert!(server.ranges().is_empty());
}

#[test]
fn what_broke_off_goes_on_where_it_was() {
    let (folder, server) = place(&[Way::Truncate(100_000), Way::Truncate(50_000), Way::Good]);
    assert!(load(&server, folder.path()).is_ok());
    expect_file(folder.path());
    assert_eq!(server.ranges(), [None, Some("bytes=100000-".into()), Some("bytes=150000-".into())]);
}

#[test]
fn the_next_run_goes_on_too() {
    let (folder, server) = place(&[Way::Truncate(100_000), Way::Status(503)]);
    expect_failure(load(&server, folder.path()), &["could not be loaded", "503"]);
    assert_eq!(names(folder.path()), ["file.gz.part"]);
    let good = Server::new(&[Way::Good], content());
    assert!(load(&good, folder.path()).is_ok());
    expect_file(folder.path());
    assert_eq!(good.ranges(), [Some("bytes=100000-".into())]);
}

#[test]
fn a_server_without_ranges_or_that_lies_about_them_starts_over() {
    for way in [Way::WithoutRange, Way::WrongRange, Way::WrongPart, Way::Unsatisfiable] {
        let (folder, server) = place(&[Way::Truncate(200_000), way.clone()]);
        assert!(load(&server, folder.path()).is_ok(), "{way:?}");
        expect_file(folder.path());
    }
}

#[test]
fn a_part_that_is_no_part_of_the_file_is_loaded_again() {
    for part in [vec![b'x'; 1000], vec![b'x'; 300_000], vec![b'x'; 300_001]] {
        let (folder, server) = place(&[Way::Good]);
        fs::write(folder.path().join("file.gz.part"), part).unwrap();
        assert!(load(&server, folder.path()).is_ok());
        expect_file(folder.path());
    }
    // If the file is complete, the server is not asked.
    let (folder, server) = place(&[Way::Status(500)]);
    fs::write(folder.path().join("file.gz.part"), content()).unwrap();
    assert!(load(&server, folder.path()).is_ok());
    assert!(server.ranges().is_empty());
}

#[test]
fn a_bad_mirror_is_named_and_leaves_no_file() {
    let endless_redirect = Way::Redirect("/again".into());
    for (way, part) in [
        (Way::WrongBytes, "serves other bytes than the published ones"),
        (Way::Length(299_999), "it has 299999 bytes, and the published file 300000"),
        (Way::Length(1 << 40), "it has 1099511627776 bytes"),
        (Way::Endless, "it sends more than the 300000 bytes"),
        (Way::Truncate(0), "breaks off after 0 of 300000 bytes"),
        (Way::TruncateSilently(0), "breaks off after 0 of 300000 bytes"),
        (Way::Status(404), "it answers 404"),
        (endless_redirect, "it redirects more than 5 times"),
        (Way::Noise, "file.gz: "),
    ] {
        let (folder, server) = place(std::slice::from_ref(&way));
        let got = load(&server, folder.path());
        expect_failure(got, &["file.gz could not be loaded", &server.url(), part]);
        assert!(names(folder.path()).is_empty(), "{way:?} left {:?}", names(folder.path()));
    }
}

#[test]
fn the_next_mirror_is_tried_and_goes_on() {
    let broken = [Way::WrongBytes, Way::Status(404), Way::Endless].map(|way| Server::new(&[way], content()));
    let half = Server::new(&[Way::Truncate(120_000), Way::Truncate(0)], content());
    let (folder, good) = place(&[Way::Good]);
    let urls: Vec<_> = broken.iter().chain([&half, &good]).map(Server::url).collect();
    let mut failed = Vec::new();
    let got = fetch(&wanted(&urls), folder.path(), STALL, &mut |s| {
        if let Step::Failed { url, .. } = s {
            failed.push(url.to_owned());
        }
    });
    assert_eq!(got, Ok(Got::Loaded(good.url())));
    expect_file(folder.path());
    assert_eq!(good.ranges(), [Some("bytes=120000-".into())]);
    assert!(urls[..4].iter().all(|u| failed.contains(u)), "{failed:?}");
}

#[test]
fn redirects_are_followed() {
    let (folder, good) = place(&[Way::Good]);
    let server = Server::new(&[Way::Redirect("/moved".into()), Way::Redirect(good.url())], content());
    assert!(load(&server, folder.path()).is_ok());
    expect_file(folder.path());
}

#[test]
fn a_silent_server_is_given_up() {
    for way in [Way::Silent, Way::Stall(1000)] {
        let (folder, server) = place(&[way.clone(), Way::Silent]);
        let begin = Instant::now();
        let got = fetch(&wanted(&[server.url()]), folder.path(), Duration::from_millis(500), &mut |_| {});
        expect_failure(got, &["could not be loaded"]);
        assert!(begin.elapsed() < Duration::from_secs(20), "{way:?}: {:?}", begin.elapsed());
    }
}

#[test]
fn two_at_once_do_not_write_into_one_file() {
    let (folder, server) = place(&[Way::Stall(1000), Way::Silent]);
    std::thread::scope(|scope| {
        let path = folder.path();
        let server = &server;
        scope.spawn(move || fetch(&wanted(&[server.url()]), path, Duration::from_secs(2), &mut |_| {}));
        while server.ranges().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        expect_failure(load(server, path), &["is being loaded by another process"]);
    });
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let (folder, server) = place(&[Way::Good]);
    fs::write(folder.path().join("taken"), "").unwrap();
    expect_failure(load(&server, &folder.path().join("taken")), &["taken cannot be written"]);
}

/// Runs the program in an empty home, without settings of the user.
fn program(words: &[&str], home: &Path, mirror: &str) -> Option<Output> {
    let mut c = Command::new(crate::common::program()?);
    c.args(words).current_dir(home).stdin(Stdio::null());
    c.env("WARPBOOK_CACHE", home.join("cache"))
        .env("WARPBOOK_MIRROR", mirror)
        .env("NO_PROXY", "*")
        .env("no_proxy", "*");
    for name in ["WARPBOOK_DATA", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "RUST_BACKTRACE"] {
        c.env_remove(name);
    }
    Some(c.output().unwrap())
}

#[track_caller]
fn expect(output: &Output, code: i32, parts: &[&str]) {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("bug in Warpbook"), "{text}");
}

#[test]
fn offline_it_says_what_failed_and_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    // No process listens on this port any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mirrors = format!("http://{gone}/a/,http://{gone}/b");
    let Some(output) = program(&["data", "fetch", "mnist"], home.path(), &mirrors) else { return };
    let first = "train-images-idx3-ubyte.gz";
    let put = home.path().join("cache/data/mnist").display().to_string();
    let urls = ["a", "b"].map(|m| format!("http://{gone}/{m}/{first}: "));
    expect(&output, 2, &[&urls[0], &urls[1], "could not be loaded", &put, "--data DIR", "`synthetic`"]);
}

#[test]
fn wrong_bytes_from_a_mirror_never_get_the_name() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::new(&[Way::WrongBytes], vec![0; 9_912_422]);
    let words = ["data", "fetch", "mnist", "--dir", "here"];
    let Some(output) = program(&words, home.path(), &server.address) else { return };
    expect(&output, 2, &["serves other bytes than the published ones"]);
    assert!(names(&home.path().join("here")).is_empty());
}

#[test]
fn the_commands_explain_themselves() {
    let home = tempfile::tempdir().unwrap();
    let Some(output) = program(&["data", "list"], home.path(), "") else { return };
    expect(&output, 0, &["mnist", "fashion-mnist", "cifar10", "synthetic", "warpbook data fetch cifar10", "162 MiB"]);
    let run = |words: &[&str], mirror| program(words, home.path(), mirror).unwrap();
    expect(&run(&["data", "fetch", "--help"], ""), 0, &["Examples:", "WARPBOOK_MIRROR", "e.g. a class's server"]);
    expect(&run(&["data", "fetch", "imagenet"], ""), 2, &["`imagenet` is not a data set", "cifar10"]);
    expect(&run(&["data", "fetch", "mnist"], "ftp://x"), 2, &["`ftp://x` is not a mirror"]);
    expect(&run(&["data", "fetch", "mnist", "--timeout", "nan"], ""), 2, &["--timeout NaN"]);
}

/// Downloads the real files if they are available locally. The program checks them as published, and then finds them by
/// name.
#[test]
fn published_files_pass() {
    let Some(data) = std::env::var_os("WARPBOOK_DATA") else {
        println!("skipped: WARPBOOK_DATA names no folder with data sets");
        return;
    };
    let folder = Path::new(&data).join("mnist");
    let home = tempfile::tempdir().unwrap();
    for name in ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"] {
        let Ok(bytes) = fs::read(folder.join(format!("{name}-ubyte.gz"))) else { return };
        let server = Server::new(&[Way::Truncate(3000), Way::Good], bytes);
        let Some(output) = program(&["data", "fetch", "mnist"], home.path(), &server.address) else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(name), "{text}");
    }
    let Some(output) = program(&["data", "list"], home.path(), "") else { return };
    expect(&output, 0, &[&format!("in {}", home.path().join("cache/data/mnist").display())]);
}
