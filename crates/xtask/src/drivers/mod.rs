//! Drivers for browsers: WebDriver for Chromium, Marionette for Firefox.

pub(crate) mod marionette;
pub(crate) mod webdriver;
