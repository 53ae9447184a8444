//! A local web server for `warpbook view --live` and the developer's commands, which show its pages in a browser.
//!
//! The server listens at 127.0.0.1 and answers only requests for that name; requests for any other name that points to
//! this address are refused. Each connection has its own task, since browsers keep connections open for minutes.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY};
use hyper::header::{HeaderName, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Number of ports to try after the first.
const PORTS: u16 = 100;
/// Pause after a failed accept, for example because too many files are open.
const RESPITE: Duration = Duration::from_millis(50);

/// A port of 127.0.0.1 with a listener that does not answer yet.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    /// Number of the port on 127.0.0.1.
    pub number: u16,
}

impl Port {
    /// Reserves the first free port among `from` and the hundred ports after it, or any free port if `from` is 0.
    ///
    /// # Errors
    /// Returns an error if none of these ports is free.
    pub fn free(from: u16) -> io::Result<Self> {
        let last = from.saturating_add(PORTS);
        let listener = (from..=last).find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
        let none =
            || io::Error::new(io::ErrorKind::AddrInUse, format!("no port from {from} to {last} is free on 127.0.0.1"));
        let listener = listener.ok_or_else(none)?;
        let number = listener.local_addr()?.port();
        Ok(Self { listener, number })
    }

    /// Returns the site's address, with a final slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.number)
    }
}

/// The content at an address.
#[derive(Debug)]
pub struct Found {
    /// The content as bytes.
    pub body: Vec<u8>,
    /// MIME type of the content.
    pub mime: &'static str,
    /// A version tag of letters and digits that changes with the body. A browser with the current version is not sent
    /// the body again.
    pub etag: Option<String>,
}

/// A site that answers until it is dropped.
#[derive(Debug)]
pub struct Site {
    /// The port on 127.0.0.1.
    pub port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    /// Starts answering at a port. `find` returns the content for a URL's path, or a status if there is none. The path
    /// begins with a slash, is not decoded, and has no query.
    ///
    /// # Errors
    /// Returns an error if the system cannot provide a thread or an event queue.
    pub fn start<F>(port: Port, find: F) -> io::Result<Self>
    where
        F: Fn(&str) -> Result<Found, u16> + Send + Sync + 'static,
    {
        let Port { listener, number } = port;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let find = Arc::new(find);
        let serve = async move {
            // The conversion must run inside the runtime, which watches the socket.
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(RESPITE).await;
                    continue;
                };
                let find = Arc::clone(&find);
                let service = service_fn(move |asked| answer(Arc::clone(&find), number, asked));
                let connection =
                    http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
                // A browser that stops reading must not block other browsers.
                tokio::spawn(async move { drop(connection.await) });
            }
        };
        let thread = thread::Builder::new().name("site".into()).spawn(move || {
            runtime.spawn(serve);
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { port: number, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the site's address, with a final slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Serves until the program ends.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn answer<F>(find: Arc<F>, port: u16, asked: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible>
where
    F: Fn(&str) -> Result<Found, u16> + Send + Sync + 'static,
{
    let text = |name: HeaderName| asked.headers().get(name).and_then(|v| v.to_str().ok());
    if let Some(status) = refuse(port, asked.method(), text(HOST)) {
        return Ok(empty(status));
    }
    let known = text(IF_NONE_MATCH).map(str::to_owned);
    let path = asked.uri().path().to_owned();
    // `find` may read files; other connections are answered in the meantime.
    let found = match spawn_blocking(move || find(&path)).await {
        Ok(Ok(found)) => found,
        Ok(Err(status)) => return Ok(empty(status)),
        Err(_) => return Ok(empty(500)),
    };
    let tag = found.etag.map(|etag| format!("\"{etag}\""));
    let mut response = if tag.is_some() && known == tag { empty(304) } else { Response::new(Full::from(found.body)) };
    let headers = response.headers_mut();
    if let Some(tag) = tag.and_then(|t| HeaderValue::try_from(t).ok()) {
        headers.insert(ETAG, tag);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(found.mime));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn empty(status: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// Returns an error status for a request that does not come from a browser on this machine.
fn refuse(port: u16, method: &Method, host: Option<&str>) -> Option<u16> {
    // Browsers omit the default port of http.
    let is_port = |end: &str| end == format!(":{port}") || port == 80 && end.is_empty();
    let local = |h: &str| ["127.0.0.1", "localhost"].iter().any(|name| h.strip_prefix(name).is_some_and(is_port));
    if !host.is_some_and(local) {
        Some(403)
    } else if !matches!(*method, Method::GET | Method::HEAD) {
        Some(405)
    } else {
        None
    }
}

/// Decodes percent escapes in a URL's path; `None` if a percent sign is not followed by two digits, or if the result is
/// not UTF-8.
#[must_use]
pub fn percent_decode(text: &str) -> Option<String> {
    let is_code = |t: &str| t.as_bytes().get(..2).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn site() -> Site {
        let find = |path: &str| match path {
            "/a" => Ok(Found { body: b"whole".to_vec(), mime: "text/plain", etag: Some("m1".into()) }),
            "/slow" => {
                thread::sleep(Duration::from_secs(2));
                Err(404)
            }
            "/panic" => panic!("of a test"),
            _ => Err(404),
        };
        Site::start(Port::free(0).unwrap(), find).unwrap()
    }

    /// Returns the response to a request with this first line, on a connection that is then closed.
    fn asked(site: &Site, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
        write!(stream, "{request}Connection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn get(site: &Site, path: &str) -> String {
        asked(site, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", site.port))
    }

    #[test]
    fn only_this_machine_may_read() {
        let ask = |method: Method, host: Option<&str>| refuse(80, &method, host);
        assert_eq!(ask(Method::GET, Some("127.0.0.1:80")), None);
        assert_eq!(ask(Method::HEAD, Some("localhost:80")), None);
        assert_eq!(ask(Method::GET, Some("evil.example:80")), Some(403));
        assert_eq!(ask(Method::GET, None), Some(403));
        assert_eq!(refuse(8080, &Method::GET, Some("localhost")), Some(403), "without its port, another site's");
        let at_80 = |host| refuse(80, &Method::GET, Some(host));
        assert_eq!(["localhost", "127.0.0.1", "localhost:80"].map(at_80), [None; 3]);
        assert_eq!(["evil.example", "localhost.evil.example", "localhost:8080"].map(at_80), [Some(403); 3]);
        assert_eq!(ask(Method::POST, Some("localhost:80")), Some(405));
        let site = site();
        let refused = asked(&site, "GET /a HTTP/1.1\r\nHost: evil.example\r\n");
        assert!(refused.starts_with("HTTP/1.1 403") && !refused.contains("whole"), "{refused}");
    }

    #[test]
    fn names_are_decoded() {
        assert_eq!(percent_decode("a%20b.json").as_deref(), Some("a b.json"));
        for bad in ["%", "%z1", "%+1", "%ff", "%e", "%é"] {
            assert_eq!(percent_decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_body_comes_with_its_type_and_once() {
        let site = site();
        let first = get(&site, "/a?b=1");
        assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("\r\n\r\nwhole"), "{first}");
        for header in ["content-type: text/plain", "etag: \"m1\"", "content-length: 5", "nosniff", "no-cache"] {
            assert!(first.contains(header), "no {header}: {first}");
        }
        let known =
            |etag: &str| format!("GET /a HTTP/1.1\r\nHost: localhost:{}\r\nIf-None-Match: \"{etag}\"\r\n", site.port);
        let again = asked(&site, &known("m1"));
        assert!(again.starts_with("HTTP/1.1 304") && !again.contains("whole"), "{again}");
        assert!(asked(&site, &known("m0")).ends_with("whole"));
        let head = asked(&site, &format!("HEAD /a HTTP/1.1\r\nHost: localhost:{}\r\n", site.port));
        assert!(head.contains("content-length: 5") && !head.contains("whole"), "{head}");
        assert!(get(&site, "/b").starts_with("HTTP/1.1 404"));
        assert!(get(&site, "/panic").starts_with("HTTP/1.1 500"));
        assert!(get(&site, "/a").starts_with("HTTP/1.1 200"), "after a panic");
    }

    #[test]
    fn connections_that_are_kept_open_hold_up_no_other() {
        let site = site();
        let connect = || {
            let stream = TcpStream::connect(("127.0.0.1", site.port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream
        };
        // All requests run at once, as in a browser: no connection closes before the last is answered, and one request
        // takes long.
        let mut slow = connect();
        write!(slow, "GET /slow HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", site.port).unwrap();
        let mut all: Vec<TcpStream> = (0..40).map(|_| connect()).collect();
        for round in 0..2 {
            for (i, stream) in all.iter_mut().enumerate().rev() {
                write!(stream, "GET /a HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", site.port).unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"whole") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap_or_else(|e| panic!("{i} in round {round}: {e}"));
                    answer.push(byte[0]);
                }
            }
        }
    }

    #[test]
    fn a_busy_port_gives_way_and_a_dropped_site_frees_its_own() {
        let first = site();
        let second = Site::start(Port::free(first.port).unwrap(), |_| Err(404)).unwrap();
        assert!(second.port > first.port && second.url() == format!("http://127.0.0.1:{}/", second.port));
        // One browser keeps its connection open.
        let _open = TcpStream::connect(("127.0.0.1", second.port)).unwrap();
        let port = second.port;
        drop(second);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "port {port} is still answered");
    }
}
