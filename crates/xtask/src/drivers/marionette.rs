//! Headless Firefox, driven by the Marionette protocol, which geckodriver also uses; no other program is needed.
//!
//! A message consists of its length in decimal, a colon and JSON: `[0, id, command, parameters]` is answered by `[1,
//! id, error, result]`.

use crate::drivers::webdriver::{Engine, wait};
use crate::process::{Guard, command, log_file, on_path};
use crate::tools::apt;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

const REMEDY: &str = "Firefox is missing: install it (on Debian: apt-get install firefox-esr)";
const START_LIMIT: Duration = Duration::from_secs(60);
/// The maximum size of a message in bytes, large enough for a screenshot.
const MOST_BYTES: usize = 256 << 20;
/// Preferences: no start page, no updates, no background requests, and a port chosen by the operating system.
const PREFERENCES: &str = r#"user_pref("marionette.port", 0);
user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.sessionhistory.max_total_viewers", 0);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage", "about:blank");
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.proxy.type", 0);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
user_pref("toolkit.telemetry.reportingpolicy.firstRun", false);
"#;
/// A script that sizes the page, since the browser's window has a minimum width.
const SIZE: &str = "
    const [width, height] = arguments;
    const { style } = gBrowser.selectedBrowser;
    for (const [name, px] of [['width', width], ['height', height]])
        for (const bound of ['min-', 'max-', '']) style.setProperty(bound + name, px + 'px');";
const MEDIA: &str = "
    const [medium, scheme] = arguments;
    gBrowser.selectedBrowser.browsingContext.top.mediumOverride = medium;
    Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', scheme === 'dark' ? 0 : 1);";
const FORGET: &str = "
    return new Promise((done) =>
        Services.clearData.deleteData(Ci.nsIClearDataService.CLEAR_ALL, { onDataDeleted: () => done(true) }));";
/// A script that returns the errors of pages, without the errors of the browser's own scripts.
const ERRORS: &str = "
    const all = Services.console.getMessageArray().filter((m) => m instanceof Ci.nsIScriptError)
        .filter((m) => !(m.flags & Ci.nsIScriptError.warningFlag) && /^(http|file)/.test(m.sourceName))
        .map((m) => m.errorMessage);
    Services.console.reset();
    return all;";

/// A Firefox with one window.
pub struct Firefox {
    stream: RefCell<(TcpStream, u64)>,
    profile: PathBuf,
    _process: Guard,
}

impl Firefox {
    /// Starts Firefox with a new profile; installs it if it is missing.
    pub fn start(w: &Workspace) -> Result<Self> {
        let find = || ["firefox-esr", "firefox"].into_iter().find_map(on_path);
        if find().is_none() {
            apt::install(w, &["firefox-esr"], "about 1 minute", REMEDY)?;
        }
        let program = find().context(REMEDY)?;
        let profile = w.target.join(format!("xtask/firefox-{}", std::process::id()));
        let _ = fs::remove_dir_all(&profile);
        fs::create_dir_all(&profile).with_context(|| format!("{} cannot be made", profile.display()))?;
        fs::write(profile.join("user.js"), PREFERENCES)?;
        let log = w.log("firefox");
        let file = log_file(&log)?;
        let mut start = command(program);
        start.args(["--headless", "--no-remote", "--marionette", "--remote-allow-system-access", "--profile"]);
        start.arg(&profile).args(["--width", "1600", "--height", "1200"]);
        // Firefox does not start if its home is not writable, as in some containers.
        start.env("HOME", &profile).env("MOZ_CRASHREPORTER_DISABLE", "1").env_remove("DISPLAY");
        start.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut process = Guard::new(start.spawn().context("Firefox cannot be started")?);
        let port_file = profile.join("MarionetteActivePort");
        let stream = wait(START_LIMIT, "Firefox's port", || {
            if let Some(status) = process.child().try_wait()? {
                bail!("Firefox ended ({status}): see {}", w.show(&log));
            }
            let port = fs::read_to_string(&port_file).ok().and_then(|t| t.trim().parse::<u16>().ok());
            Ok(port.and_then(|port| TcpStream::connect(("127.0.0.1", port)).ok()))
        })?;
        stream.set_read_timeout(Some(Duration::from_secs(90)))?;
        stream.set_nodelay(true)?;
        let browser = Self { stream: RefCell::new((stream, 0)), profile, _process: process };
        let hello = receive(&mut browser.stream.borrow_mut().0)?;
        if hello["marionetteProtocol"] != 3 {
            bail!("Firefox speaks another version of Marionette: {hello}");
        }
        browser.send("WebDriver:NewSession", &json!({ "strictFileInteractability": false }))?;
        Ok(browser)
    }

    fn send(&self, name: &str, parameters: &Value) -> Result<Value> {
        let (stream, id) = &mut *self.stream.borrow_mut();
        *id += 1;
        let message = json!([0, *id, name, parameters]).to_string();
        write!(stream, "{}:{message}", message.len()).context("Firefox does not answer")?;
        loop {
            let mut answer = receive(stream)?;
            if answer[1] != *id {
                continue;
            }
            if let Some(error) = answer[2].as_object() {
                let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                bail!("the browser refused: {}: {}", text("error"), text("message"));
            }
            return Ok(answer[3].take());
        }
    }

    fn execute(&self, script: &str, arguments: &Value) -> Result<Value> {
        let parameters = json!({ "script": script, "args": arguments, "sandbox": null });
        Ok(self.send("WebDriver:ExecuteScript", &parameters)?["value"].take())
    }

    /// Runs a script with the browser's privileges.
    fn privileged(&self, script: &str, arguments: &Value) -> Result<Value> {
        self.send("Marionette:SetContext", &json!({ "value": "chrome" }))?;
        let result = self.execute(script, arguments);
        self.send("Marionette:SetContext", &json!({ "value": "content" }))?;
        result
    }

    fn act(&self, source: Value) -> Result<()> {
        self.send("WebDriver:PerformActions", &json!({ "actions": [source] })).map(drop)
    }
}

impl Engine for Firefox {
    fn open(&self, url: &str) -> Result<()> {
        self.send("WebDriver:Navigate", &json!({ "url": url })).map(drop)
    }

    fn eval(&self, script: &str) -> Result<Value> {
        self.execute(script, &json!([]))
    }

    fn console_errors(&self) -> Result<Vec<String>> {
        Ok(serde_json::from_value(self.privileged(ERRORS, &json!([]))?)?)
    }

    fn png(&self) -> Result<Vec<u8>> {
        let shot = self.send("WebDriver:TakeScreenshot", &json!({ "full": true, "hash": false }))?;
        Ok(STANDARD.decode(shot["value"].as_str().unwrap_or_default())?)
    }

    fn window(&self, width: u32, height: u32, _phone: bool) -> Result<()> {
        self.privileged(SIZE, &json!([width, height]))?;
        wait(START_LIMIT, "a page of that size", || {
            let size = self.eval("return [innerWidth, innerHeight];")?;
            Ok((size == json!([width, height])).then_some(()))
        })
    }

    fn media(&self, medium: &str, scheme: &str) -> Result<()> {
        self.privileged(MEDIA, &json!([medium, scheme])).map(drop)
    }

    fn key(&self, key: &str, _code: u32) -> Result<()> {
        let value = character(key).with_context(|| format!("there is no key {key}"))?;
        let stroke = [json!({ "type": "keyDown", "value": value }), json!({ "type": "keyUp", "value": value })];
        self.act(json!({ "type": "key", "id": "keyboard", "actions": stroke }))
    }

    fn drag(&self, places: &[(f64, f64)]) -> Result<()> {
        let to = |&(x, y): &(f64, f64)| json!({ "type": "pointerMove", "x": x.round() as i64, "y": y.round() as i64, "duration": 0 });
        let mut actions: Vec<Value> = places.iter().map(to).collect();
        actions.insert(1.min(actions.len()), json!({ "type": "pointerDown", "button": 0 }));
        actions.push(json!({ "type": "pointerUp", "button": 0 }));
        self.act(
            json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": actions }),
        )
    }

    fn at_start(&self, _script: &str) -> Result<()> {
        bail!("Firefox runs no script before a page's own")
    }

    fn forget(&self, _origin: &str) -> Result<()> {
        self.privileged(FORGET, &json!([])).map(drop)
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.send("Marionette:Quit", &json!({ "flags": ["eForceQuit"] }));
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// Returns WebDriver's character for a key, given the key's name in events.
fn character(key: &str) -> Option<char> {
    let special = [
        ("Tab", '\u{e004}'),
        ("Enter", '\u{e007}'),
        ("Escape", '\u{e00c}'),
        ("End", '\u{e010}'),
        ("Home", '\u{e011}'),
        ("ArrowLeft", '\u{e012}'),
        ("ArrowUp", '\u{e013}'),
        ("ArrowRight", '\u{e014}'),
        ("ArrowDown", '\u{e015}'),
    ];
    let named = special.iter().find(|(name, _)| *name == key).map(|(_, c)| *c);
    let mut typed = key.chars();
    named.or_else(|| typed.next().filter(|_| typed.next().is_none()))
}

/// Receives a whole message.
fn receive(stream: &mut impl Read) -> Result<Value> {
    let mut length = 0_usize;
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("Firefox does not answer")?;
        match byte[0] {
            b':' => break,
            digit @ b'0'..=b'9' if length < MOST_BYTES => length = length * 10 + usize::from(digit - b'0'),
            other => bail!("Firefox sent byte {other} where a message's length was expected"),
        }
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).context("Firefox does not answer")?;
    Ok(serde_json::from_slice(&message)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_one_by_one() {
        let mut bytes = "15:[1,1,null,\"µ\"]2:{}".as_bytes();
        assert_eq!(receive(&mut bytes).unwrap(), json!([1, 1, null, "µ"]));
        assert_eq!(receive(&mut bytes).unwrap(), json!({}));
        assert!(receive(&mut bytes).is_err());
        assert!(receive(&mut "x:{}".as_bytes()).is_err());
        assert!(receive(&mut "99999999999:{}".as_bytes()).is_err());
        assert!(receive(&mut "3:{}".as_bytes()).is_err());
    }

    #[test]
    fn keys_have_characters() {
        assert_eq!(character("Escape"), Some('\u{e00c}'));
        assert_eq!(character("["), Some('['));
        assert_eq!(character("NoSuchKey"), None);
    }
}
