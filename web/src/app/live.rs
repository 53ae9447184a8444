//! A page that `warpbook view --live` serves: it asks again and again whether its records have changed.

use super::{App, Msg};
use crate::browser;
use crate::open::open_marked;
use crate::origin::Index;
use yew::Context;

const INDEX: &str = "data/index.json";
/// Milliseconds between two questions.
const EVERY: i32 = 700;
/// The same while the server does not answer.
const AGAIN: i32 = 3_000;

/// A page's server.
#[derive(Debug, Default)]
pub struct Live {
    /// Whether the page has one.
    pub on: bool,
    /// Whether it does not answer any more.
    pub lost: bool,
    mark: String,
}

impl App {
    /// Asks for the first time.
    pub(super) fn begin_live(&mut self, ctx: &Context<Self>) {
        self.live.on = true;
        self.ask(ctx, 0);
    }

    fn ask(&self, ctx: &Context<Self>, after: i32) {
        let mark = self.live.mark.clone();
        ctx.link().send_future(async move {
            browser::wait(after).await;
            Msg::Live(browser::fetch_new(INDEX, &mark).await)
        });
    }

    /// The server has answered, or not; gives whether the page looks otherwise now.
    pub(super) fn answered(&mut self, ctx: &Context<Self>, answer: Result<Option<(String, String)>, ()>) -> bool {
        let was_lost = self.live.lost;
        self.live.lost = answer.is_err();
        self.ask(ctx, if self.live.lost { AGAIN } else { EVERY });
        let first = !self.index_came;
        match answer {
            Ok(Some((text, mark))) => {
                self.live.mark = mark;
                match Index::parse(&text) {
                    Ok(index) => {
                        for key in self.library.renew(index) {
                            self.read_again(ctx, key);
                        }
                    }
                    Err(why) => self.alert(why),
                }
            }
            Ok(None) if !was_lost => return false,
            Ok(None) => {}
            Err(()) if was_lost => return false,
            Err(()) => self.said = "The program that serves this page has ended; what is shown stays.".into(),
        }
        if first {
            self.pending -= 1;
            self.index_came = true;
            self.check_link();
        }
        true
    }

    /// Reads a record that is shown already.
    fn read_again(&self, ctx: &Context<Self>, key: String) {
        let address = format!("data/{}", js_sys::encode_uri_component(&key));
        ctx.link().send_future(async move {
            let reading = browser::fetch(&address).await.and_then(|bytes| open_marked(&bytes));
            Msg::Renewed(key, reading)
        });
    }
}
