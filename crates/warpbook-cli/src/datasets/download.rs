//! Downloads a published file over HTTP from the first mirror that has it. Interrupted downloads are resumed, and the
//! file gets its final name only once its hash is right.

use sha2::{Digest, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

/// A file to download.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub name: String,
    /// Exact size of the file; nothing is read beyond it.
    pub bytes: u64,
    /// SHA-256 of the file in lower-case hexadecimal.
    pub sha256: String,
    /// URLs of the file, in the order in which they are tried.
    pub urls: Vec<String>,
}

/// The outcome of a successful request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// The file was already in the folder, with the right hash.
    Present,
    /// The file was downloaded from this URL.
    Loaded(String),
}

/// A step of a download, for progress reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A mirror is asked for the file, of which an earlier attempt has received `from` bytes.
    Asking { url: &'a str, from: u64 },
    /// This number of bytes has arrived so far.
    At(u64),
    /// The mirror failed for this reason.
    Failed { url: &'a str, why: &'a str },
}

/// The reason, in a few sentences, why the file could not be downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// No mirror could provide the file; the text has the reason for each.
    Mirrors(String),
    /// The folder is not writable, or has a different file with this name.
    Here(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Mirrors(why) | Self::Here(why)) = self;
        f.write_str(why)
    }
}

/// The reason why a mirror's answer is useless.
enum Trouble {
    /// This mirror failed, but another may work.
    Mirror(String),
    /// The server cannot continue the file or has changed it, so the whole file must be requested.
    StartOver,
    /// No mirror can help, for example because the disk is full.
    Here(String),
}

/// Number of times that a mirror is asked again after it broke off, if it had sent anything.
const TRIES: usize = 4;
const MOST_REDIRECTS: u32 = 5;

/// Downloads a file into a folder, which is created if missing. After an interruption, `NAME.part` has the bytes
/// received so far, and the next attempt continues from there.
///
/// # Errors
/// See [`Failed`].
pub fn fetch(wanted: &Wanted, folder: &Path, stall: Duration, step: &mut dyn FnMut(Step)) -> Result<Got, Failed> {
    let path = folder.join(&wanted.name);
    if path.exists() {
        return present(wanted, &path);
    }
    let here = |e: io::Error| Failed::Here(format!("{} cannot be written: {e}.", folder.display()));
    fs::create_dir_all(folder).map_err(here)?;
    let part = folder.join(format!("{}.part", wanted.name));
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&part).map_err(here)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failed::Here(format!("{} is being loaded by another process.", path.display())));
        }
        // Some file systems do not support locks.
        Err(TryLockError::Error(_)) => {}
    }
    let mut failures = Vec::new();
    for url in &wanted.urls {
        match from_mirror(wanted, url, &mut file, stall, step) {
            Ok(()) => {
                file.sync_all().map_err(here)?;
                drop(file);
                fs::rename(&part, &path).map_err(here)?;
                return Ok(Got::Loaded(url.clone()));
            }
            Err(Trouble::Here(why)) => {
                return Err(Failed::Here(format!("{} cannot be written: {why}.", part.display())));
            }
            Err(Trouble::Mirror(why)) => failures.push(format!("  {url}: {why}")),
            Err(Trouble::StartOver) => failures.push(format!("  {url}: it sends other parts than it was asked for")),
        }
    }
    if file.metadata().is_ok_and(|m| m.len() == 0) {
        drop(file);
        let _ = fs::remove_file(&part);
    }
    Err(Failed::Mirrors(format!("{} could not be loaded:\n{}", wanted.name, failures.join("\n"))))
}

fn present(wanted: &Wanted, path: &Path) -> Result<Got, Failed> {
    let refuse = |why: String| Err(Failed::Here(format!("{}: {why}", path.display())));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) => return refuse(format!("it is there and cannot be read ({e}).")),
    };
    match is_right(wanted, &mut file) {
        Ok(true) => Ok(Got::Present),
        Ok(false) => refuse(
            "it is there and differs from the published file. Move it away or delete it, and fetch again.".into(),
        ),
        Err(e) => refuse(format!("it is there and cannot be read ({e}).")),
    }
}

/// Returns true if a file has the right size and hash.
fn is_right(wanted: &Wanted, file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() != wanted.bytes {
        return Ok(false);
    }
    file.rewind()?;
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            n => hash.update(&chunk[..n]),
        }
    }
    let hash: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    Ok(hash == wanted.sha256)
}

/// Downloads the whole file from one mirror, which may break off a few times.
fn from_mirror(
    wanted: &Wanted,
    url: &str,
    file: &mut File,
    stall: Duration,
    step: &mut dyn FnMut(Step),
) -> Result<(), Trouble> {
    let agent = agent(url, stall);
    let mut why = String::new();
    for _ in 0..TRIES {
        let before = length(file)?;
        let done = match ask(wanted, url, &agent, file, step) {
            Err(Trouble::StartOver) => {
                file.set_len(0).map_err(here)?;
                ask(wanted, url, &agent, file, step)
            }
            done => done,
        };
        match done {
            Ok(()) if is_right(wanted, file).map_err(here)? => return Ok(()),
            Ok(()) => {
                file.set_len(0).map_err(here)?;
                why = "it serves other bytes than the published ones (the SHA-256 differs)".into();
                step(Step::Failed { url, why: &why });
                // The first part may come from another mirror.
                if before == 0 {
                    break;
                }
            }
            Err(Trouble::Mirror(reason)) => {
                step(Step::Failed { url, why: &reason });
                why = reason;
                if length(file)? <= before {
                    break;
                }
            }
            Err(other) => return Err(other),
        }
    }
    Err(Trouble::Mirror(why))
}

fn here(e: io::Error) -> Trouble {
    Trouble::Here(e.to_string())
}

fn length(file: &File) -> Result<u64, Trouble> {
    file.metadata().map(|m| m.len()).map_err(here)
}

/// Returns a client for a mirror; it refuses redirects from https to http.
fn agent(url: &str, stall: Duration) -> Agent {
    Agent::config_builder()
        .https_only(url.starts_with("https:"))
        .max_redirects(MOST_REDIRECTS)
        .http_status_as_error(false)
        .timeout_resolve(Some(stall))
        .timeout_connect(Some(stall))
        .timeout_send_request(Some(stall))
        .timeout_recv_response(Some(stall))
        .timeout_per_read(Some(stall))
        .user_agent(concat!("warpbook/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// Requests the missing part of the file and writes it.
fn ask(wanted: &Wanted, url: &str, agent: &Agent, file: &mut File, step: &mut dyn FnMut(Step)) -> Result<(), Trouble> {
    let mut have = length(file)?;
    if have > wanted.bytes {
        file.set_len(0).map_err(here)?;
        have = 0;
    }
    step(Step::Asking { url, from: have });
    if have == wanted.bytes {
        return Ok(());
    }
    // The body must come as stored; with compression it would have another length.
    let mut request = agent.get(url).header(header::ACCEPT_ENCODING, "identity");
    if have > 0 {
        request = request.header(header::RANGE, format!("bytes={have}-"));
    }
    let mut response = request.call().map_err(|e| Trouble::Mirror(words_of(&e)))?;
    let from = start(&response, have, wanted.bytes)?;
    file.set_len(from).map_err(here)?;
    file.seek(io::SeekFrom::Start(from)).map_err(here)?;
    receive(response.body_mut().as_reader(), from, wanted.bytes, file, step)
}

/// Returns the position in the file where the bytes of a response belong.
fn start<B>(response: &Response<B>, have: u64, bytes: u64) -> Result<u64, Trouble> {
    let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    match response.status() {
        StatusCode::OK => match header(header::CONTENT_LENGTH).and_then(|l| l.parse::<u64>().ok()) {
            Some(length) if length != bytes => {
                Err(Trouble::Mirror(format!("it has {length} bytes, and the published file {bytes}")))
            }
            _ => Ok(0),
        },
        StatusCode::PARTIAL_CONTENT if have > 0 => {
            let expect = format!("bytes {have}-{}/", bytes - 1);
            let total = header(header::CONTENT_RANGE).and_then(|range| range.strip_prefix(&expect));
            if total.is_some_and(|t| t == "*" || t.parse() == Ok(bytes)) { Ok(have) } else { Err(Trouble::StartOver) }
        }
        StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => Err(Trouble::StartOver),
        status => Err(Trouble::Mirror(format!("it answers {status}"))),
    }
}

/// Appends a body to the file.
fn receive(
    mut body: impl Read,
    from: u64,
    bytes: u64,
    file: &mut File,
    step: &mut dyn FnMut(Step),
) -> Result<(), Trouble> {
    let (mut at, mut chunk) = (from, vec![0; 1 << 16]);
    while let n @ 1.. = body
        .read(&mut chunk)
        .map_err(|e| Trouble::Mirror(format!("it breaks off after {at} of {bytes} bytes ({e})")))?
    {
        if at + n as u64 > bytes {
            // The hash is wrong, so no part of the file can be trusted.
            file.set_len(0).map_err(here)?;
            return Err(Trouble::Mirror(format!("it sends more than the {bytes} bytes of the published file")));
        }
        file.write_all(&chunk[..n]).map_err(here)?;
        at += n as u64;
        step(Step::At(at));
    }
    if at < bytes {
        return Err(Trouble::Mirror(format!("it breaks off after {at} of {bytes} bytes")));
    }
    Ok(())
}

/// Describes the error for a user who may be offline.
fn words_of(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "its name is not found; is there a network?".into(),
        ureq::Error::Io(e) if e.to_string().contains("failed to lookup address") => {
            format!("its name is not found; is there a network? ({e})")
        }
        ureq::Error::Io(e) => e.to_string(),
        ureq::Error::RequireHttpsOnly(to) => format!("it leads from https to {to}, which is not encrypted"),
        ureq::Error::TooManyRedirects => format!("it redirects more than {MOST_REDIRECTS} times"),
        ureq::Error::Timeout(which) => format!("it does not answer in time ({which})"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_encrypted_stays_so() {
        let stall = Duration::from_secs(1);
        // A redirect from https to http is refused before any request is sent.
        let refused = agent("https://mirror/", stall).get("http://127.0.0.1:9/file").call().unwrap_err();
        assert!(words_of(&refused).contains("not encrypted"), "{}", words_of(&refused));
        assert!(!agent("http://own/", stall).config().https_only());
    }

    #[test]
    fn a_range_counts_only_if_it_is_the_one_that_was_asked_for() {
        let part = |range: &str| {
            let response = Response::builder().status(206).header(header::CONTENT_RANGE, range).body(()).unwrap();
            start(&response, 100, 1000).ok()
        };
        assert_eq!(part("bytes 100-999/1000"), Some(100));
        assert_eq!(part("bytes 100-999/*"), Some(100));
        for bad in
            ["bytes 0-999/1000", "bytes 100-998/1000", "bytes 100-999/1001", "bytes 100-999", "items 100-999/1000", ""]
        {
            assert_eq!(part(bad), None, "{bad}");
        }
    }
}
