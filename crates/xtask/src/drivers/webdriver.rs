//! Headless browsers for the checks: Chromium, by a small WebDriver client for chromedriver, and [`Firefox`].

use crate::drivers::marionette::Firefox;
use crate::process::{Guard, command, log_file, on_path};
use crate::tools::apt;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

const REMEDY: &str =
    "Chromium and chromedriver are missing: install both (on Debian: apt-get install chromium chromium-driver)";
const START_LIMIT: Duration = Duration::from_secs(30);

/// The paths of Chromium and its driver.
#[derive(Debug, Clone)]
struct Programs {
    chromium: PathBuf,
    driver: PathBuf,
}

impl Programs {
    /// Finds Chromium and its driver; installs them if they are missing.
    fn ensure(w: &Workspace) -> Result<Self> {
        if let Some(found) = Self::find() {
            return Ok(found);
        }
        apt::install(w, &["chromium", "chromium-driver", "fonts-dejavu-core"], "about 1 minute", REMEDY)?;
        Self::find().with_context(|| REMEDY)
    }

    fn find() -> Option<Self> {
        let chromium = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(on_path)?;
        let driver = on_path("chromedriver")?;
        Some(Self { chromium, driver })
    }
}

/// A browser that a check drives.
pub trait Engine {
    /// Opens an address and waits until it is loaded.
    fn open(&self, url: &str) -> Result<()>;
    /// Runs the body of a JavaScript function in the page; returns its result, or the result of its promise.
    fn eval(&self, script: &str) -> Result<Value>;
    /// Returns the console's errors since the last call.
    fn console_errors(&self) -> Result<Vec<String>>;
    /// Returns the whole page as PNG.
    fn png(&self) -> Result<Vec<u8>>;
    /// Sets the page's size in CSS pixels, as on a phone or on a desktop.
    fn window(&self, width: u32, height: u32, phone: bool) -> Result<()>;
    /// Emulates the medium "print" or, if `medium` is empty, the screen. The scheme is "light", "dark" or, only in
    /// Chromium, "forced": the system's colours replace the page's.
    fn media(&self, medium: &str, scheme: &str) -> Result<()>;
    /// Presses a key and releases it; `code` is the legacy key code.
    fn key(&self, key: &str, code: u32) -> Result<()>;
    /// Drags the mouse along points of the window, with the left button down.
    fn drag(&self, places: &[(f64, f64)]) -> Result<()>;
    /// Runs a script at the start of every later page.
    fn at_start(&self, script: &str) -> Result<()>;
    /// Deletes all storage of an origin.
    fn forget(&self, origin: &str) -> Result<()>;
}

/// A browser with one window.
pub struct Browser {
    engine: Box<dyn Engine>,
}

impl Browser {
    /// Starts headless Chromium with a new profile.
    pub fn chromium(w: &Workspace) -> Result<Self> {
        Ok(Self { engine: Box::new(Chromium::start(w, &Programs::ensure(w)?)?) })
    }

    /// Starts headless Firefox with a new profile.
    pub fn firefox(w: &Workspace) -> Result<Self> {
        Ok(Self { engine: Box::new(Firefox::start(w)?) })
    }

    /// Waits until a JavaScript expression holds.
    pub fn wait_until(&self, what: &str, expression: &str, limit: Duration) -> Result<()> {
        let script = format!("return !!({expression});");
        wait(limit, what, || Ok((self.eval(&script)? == json!(true)).then_some(())))
    }

    /// Saves the whole page as a PNG file.
    pub fn screenshot(&self, file: &Path) -> Result<()> {
        crate::workspace::write_atomic(file, self.png()?)
    }
}

impl std::ops::Deref for Browser {
    type Target = dyn Engine;

    fn deref(&self) -> &Self::Target {
        &*self.engine
    }
}

struct Chromium {
    agent: ureq::Agent,
    session: String,
    profile: PathBuf,
    _driver: Guard,
}

impl Chromium {
    fn start(w: &Workspace, programs: &Programs) -> Result<Self> {
        let log = w.log("chromedriver");
        let port_file = log.with_extension("port");
        let driver = command(&programs.driver)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(log_file(&port_file)?)
            .stderr(log_file(&log)?)
            .spawn()
            .context("chromedriver cannot be started")?;
        let mut driver = Guard::new(driver);
        let port = wait(START_LIMIT, "chromedriver's port", || {
            if let Some(status) = driver.child().try_wait()? {
                bail!("chromedriver ended ({status}): see {}", w.show(&log));
            }
            Ok(fs::read_to_string(&port_file).ok().and_then(|t| port_in(&t)))
        })?;
        let profile = w.target.join(format!("xtask/chromium-{}", std::process::id()));
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let mut browser = Self { agent, session: format!("http://127.0.0.1:{port}/session"), profile, _driver: driver };
        let mut args: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-proxy-server",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1280,900",
        ]
        .map(str::to_owned)
        .to_vec();
        args.push(format!("--user-data-dir={}", browser.profile.display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": programs.chromium, "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let answer = browser.post("", &wanted)?;
        let id = answer["sessionId"].as_str().context("chromedriver gave no session")?.to_owned();
        browser.session = format!("{}/{id}", browser.session);
        // Without this, elements in an inactive window do not get focus events.
        browser.devtools("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }))?;
        Ok(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.session);
        let mut response = self.agent.post(&url).send_json(body).context("chromedriver does not answer")?;
        let status = response.status();
        let mut answer: Value = response.body_mut().with_config().limit(256 << 20).read_json()?;
        let value = answer["value"].take();
        if !status.is_success() {
            let message = value["message"].as_str().unwrap_or("no reason given");
            bail!("the browser refused: {}", message.lines().next().unwrap_or_default());
        }
        Ok(value)
    }

    /// Sends a command of the DevTools protocol.
    fn devtools(&self, name: &str, params: &Value) -> Result<Value> {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": params }))
    }
}

impl Engine for Chromium {
    fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    fn eval(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn console_errors(&self) -> Result<Vec<String>> {
        let log = self.post("/se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|e| e["level"] == "SEVERE");
        Ok(severe.map(|e| e["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    fn png(&self) -> Result<Vec<u8>> {
        let shot =
            self.devtools("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true }))?;
        Ok(STANDARD.decode(shot["data"].as_str().unwrap_or_default())?)
    }

    fn window(&self, width: u32, height: u32, phone: bool) -> Result<()> {
        let scale = if phone { 2 } else { 1 };
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics).map(drop)
    }

    fn media(&self, medium: &str, scheme: &str) -> Result<()> {
        let (chosen, forced) = if scheme == "forced" { ("light", "active") } else { (scheme, "none") };
        let features = [
            json!({ "name": "prefers-color-scheme", "value": chosen }),
            json!({ "name": "forced-colors", "value": forced }),
        ];
        self.devtools("Emulation.setEmulatedMedia", &json!({ "media": medium, "features": features })).map(drop)
    }

    fn key(&self, key: &str, code: u32) -> Result<()> {
        // Controls react to Enter's character, not to its key code.
        let (down, text) = if key == "Enter" { ("keyDown", "\r") } else { ("rawKeyDown", "") };
        for kind in [down, "keyUp"] {
            let text = if kind == "keyUp" { "" } else { text };
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.devtools("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    fn drag(&self, places: &[(f64, f64)]) -> Result<()> {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(()) };
        let send = |kind: &str, (x, y): &(f64, f64), buttons: u32| {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
            self.devtools("Input.dispatchMouseEvent", &event).map(drop)
        };
        send("mouseMoved", first, 0)?;
        send("mousePressed", first, 1)?;
        places.iter().skip(1).try_for_each(|place| send("mouseMoved", place, 1))?;
        send("mouseReleased", last, 0)
    }

    fn at_start(&self, script: &str) -> Result<()> {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script })).map(drop)
    }

    fn forget(&self, origin: &str) -> Result<()> {
        self.devtools("Storage.clearDataForOrigin", &json!({ "origin": origin, "storageTypes": "all" })).map(drop)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Deleting the session ends the browser; dropping the driver's guard ends the driver.
        let _ = self.agent.delete(&self.session).call();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// Calls `ask` repeatedly until it returns an answer, or until the limit.
pub fn wait<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        if begin.elapsed() > limit {
            bail!("{what} did not come within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the port from "ChromeDriver was started successfully on port 1234."
fn port_in(text: &str) -> Option<u16> {
    let (_, after) = text.split_once("started successfully on port ")?;
    let (digits, _) = after.split_once('.')?;
    digits.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_once_it_is_whole() {
        assert_eq!(port_in("x\nChromeDriver was started successfully on port 36123.\n"), Some(36123));
        assert_eq!(port_in("ChromeDriver was started successfully on port 36"), None);
        assert_eq!(port_in(""), None);
    }

    #[test]
    fn a_wait_ends() {
        let error = wait(Duration::from_millis(10), "the plot", || Ok(None::<()>)).unwrap_err();
        assert!(error.to_string().starts_with("the plot did not come"));
    }
}
