//! Tests of the pages that the program writes and serves.

use crate::common::place::{Done, Place};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use warpbook_record::Run;

const BEFORE: &str = "<html><meta http-equiv=\"Content-Security-Policy\" content=\"connect-src *\"><style>b{}</style>\
    <script type=\"application/json\" id=\"warpbook-embedded\">";
const AFTER: &str = "</script><script>go()</script></html>";

/// Writes a record whose text would end the script element around it, and a file that looks like the viewer.
fn prepare(place: &Place) -> Run {
    let mut run = place.record("a.json");
    run.title = "</script><script>alert(1)</script><!--".into();
    place.write("b.json", run.to_json().unwrap());
    place.write("viewer.html", format!("{BEFORE}{{\"index\":{{\"records\":[]}},\"records\":{{}}}}{AFTER}"));
    run
}

fn with_viewer(place: &Place, words: &[&str]) -> Done {
    let mut c = place.command(words);
    Done::new(words, c.env("WARPBOOK_VIEWER", place.path("viewer.html")).output().unwrap())
}

/// Returns the content of the page's element for records, after checking that nothing in the content ends the element.
fn content(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"warpbook-embedded\">").unwrap();
    let json = rest.strip_suffix(AFTER).unwrap();
    assert!(!json.contains('<'), "nothing can end the element");
    serde_json::from_str(json).unwrap()
}

fn names(content: &serde_json::Value) -> Vec<&str> {
    let records = content["index"]["records"].as_array().unwrap();
    records.iter().map(|r| r["file"].as_str().unwrap()).collect()
}

#[test]
fn the_viewer_gets_the_records_and_nothing_of_them_ends_its_script() {
    let Some(place) = Place::new() else { return };
    let run = prepare(&place);
    let done = with_viewer(&place, &["view", "--no-open", "a.json", "b.json", "./a.json"]);
    let page = fs::read_to_string(done.expect(0, "warpbook.html").out.trim()).unwrap();
    assert!(page.starts_with(BEFORE));
    let json = content(&page);
    assert_eq!(names(&json), ["a.json", "b.json", "a-2.json"]);
    assert_eq!(Run::from_json(json["records"]["b.json"].to_string().as_bytes()).unwrap(), run);
    let entry = &json["index"]["records"][0];
    assert!(entry["headline"].as_str().unwrap().contains("fastest") && entry["ladder"].as_array().unwrap().len() > 1);
    with_viewer(&place, &["view", "--no-open"]).expect(0, "viewer.html");
    place.write("viewer.html", "<html></html>");
    for words in
        [&["view", "--no-open", "a.json"][..], &["share", "a.json"], &["view", "--live", "--no-open", "a.json"]]
    {
        with_viewer(&place, words).expect(2, "not a viewer of Warpbook");
    }
}

#[test]
fn records_are_shared_as_one_file_that_connects_to_nothing() {
    let Some(place) = Place::new() else { return };
    let run = prepare(&place);
    with_viewer(&place, &["share", "a.json"]).expect(0, "a.html").expect(0, "1 record and the viewer");
    // A second page does not replace the first.
    with_viewer(&place, &["share", "a.json"]).expect(0, "a-2.html");
    fs::create_dir(place.path("class")).unwrap();
    for name in ["b.json", "a.json"] {
        fs::copy(place.path(name), place.path("class").join(name)).unwrap();
    }
    with_viewer(&place, &["share", "class", "--out", "class.html"]).expect(0, "2 records and the viewer");
    let page = fs::read_to_string(place.path("class.html")).unwrap();
    let json = content(&page);
    assert_eq!(names(&json), ["a.json", "b.json"]);
    assert_eq!(Run::from_json(json["records"]["b.json"].to_string().as_bytes()).unwrap(), run);
    // The hashes come from `printf %s 'go()' | openssl dgst -sha256 -binary | base64`, and the same for `b{}`.
    let policy = page.split('"').find(|p| p.contains("default-src 'none'")).unwrap();
    assert!(
        policy.contains("script-src 'wasm-unsafe-eval' 'sha256-5KYv+PUboo5h+0+YAtGRPbwv5d/QxzHslP4YGnUaxRw=';"),
        "{policy}"
    );
    assert!(policy.contains("style-src 'sha256-7yqHVAesot11p6HczDsgKRipvI5UPgs97z80zNXlans=';"), "{policy}");
    assert!(policy.contains("connect-src 'none'") && !policy.contains('*'), "{policy}");

    place.write("broken.json", "{");
    with_viewer(&place, &["share", "broken.json"]).expect(2, "broken.json");
    assert!(!place.path("broken.html").exists());
    with_viewer(&place, &["share", "broken.json", "a.json", "--out", "some.html"]).expect(2, "broken.json");
    assert!(place.path("some.html").exists(), "what could be read is shared");
    with_viewer(&place, &["share", "a.json", "--out", "nowhere/a.html"]).expect(2, "the folder nowhere does not exist");
    place.run(&["share", "a.json"]).expect(2, "cargo xtask web");
    place.run(&["view", "--live", "a.json"]).expect(2, "cargo xtask web");
}

/// A server that ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A response: status line, headers and body.
struct Answer {
    head: String,
    body: String,
}

impl Answer {
    fn get(port: &str, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let host = if more.contains("Host:") { String::new() } else { format!("Host: 127.0.0.1:{port}\r\n") };
        write!(stream, "GET {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Self { head: head.to_owned(), body: body.to_owned() }
    }

    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn tag(&self) -> &str {
        let fields = self.head.lines().filter_map(|l| l.split_once(": "));
        fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("ETag")).unwrap().1
    }
}

#[test]
fn a_record_that_is_written_while_it_is_shown_is_told_apart() {
    let Some(place) = Place::new() else { return };
    let run = prepare(&place);
    let mut command = place.command(&["view", "--live", "--no-open", "--port", "20617", "b.json", "later.json"]);
    command.env("WARPBOOK_VIEWER", place.path("viewer.html")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut serving = Serving(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("http://127.0.0.1:").unwrap().trim_end_matches('/').to_owned();

    let page = Answer::get(&port, "/?tab=table", "");
    assert_eq!(page.status(), "200");
    assert_eq!(content(&page.body)["live"], true);
    let get = |path: &str| Answer::get(&port, path, "");
    let index = get("/data/index.json");
    let records = |a: &Answer| serde_json::from_str::<serde_json::Value>(&a.body).unwrap()["records"].clone();
    assert_eq!(records(&index).as_array().unwrap().len(), 1, "{}", index.body);
    let record = get("/data/b.json");
    assert_eq!(Run::from_json(record.body.as_bytes()).unwrap(), run);
    for path in ["/data/a.json", "/data/../a.json", "/b.json", "/data/later.json", "/viewer.html"] {
        assert_eq!(get(path).status(), "404", "{path}");
    }
    let evil = Answer::get(&port, "/data/b.json", "Host: evil.example\r\n");
    assert_eq!(evil.status(), "403");
    let known = |a: &Answer| format!("If-None-Match: {}\r\n", a.tag());
    assert_eq!(Answer::get(&port, "/data/index.json", &known(&index)).status(), "304");

    // If a file is broken for a moment, which Warpbook itself never causes, the page keeps the file's last contents.
    place.write("b.json", "{");
    assert_eq!(Answer::get(&port, "/data/index.json", &known(&index)).status(), "304");
    place.write("b.json", Run { title: "New".into(), ..run.clone() }.to_json().unwrap());
    place.write("later.json", run.to_json().unwrap());
    let begun = Instant::now();
    let new = loop {
        let answer = Answer::get(&port, "/data/index.json", &known(&index));
        if answer.status() == "200" {
            break answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the change is not seen");
    };
    let (old, new) = (records(&index), records(&new));
    assert_eq!((&new[0]["title"], &new[1]["file"]), (&"New".into(), &"later.json".into()));
    assert_ne!(old[0]["mark"], new[0]["mark"]);
    assert!(get("/data/b.json").body.contains("\"New\""));
    assert_eq!(Answer::get(&port, "/data/b.json", &known(&record)).status(), "200");
}
