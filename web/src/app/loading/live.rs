//! Polling of a server started by `warpbook view --live`, whose records may change.

use crate::app::messages::{LibraryMsg, Msg};
use crate::app::state::App;
use crate::browser;
use crate::library::open::open_hashed;
use crate::library::origin::Index;
use yew::Context;

const INDEX: &str = "data/index.json";
/// Milliseconds between two polls.
const EVERY: i32 = 700;
/// Milliseconds between two polls while the server does not answer.
const AGAIN: i32 = 3_000;

impl App {
    /// Starts polling.
    pub(in crate::app) fn begin_live(&mut self, ctx: &Context<Self>) {
        self.live.on = true;
        self.ask(ctx, 0);
    }

    fn ask(&self, ctx: &Context<Self>, after: i32) {
        let etag = self.live.etag.clone();
        ctx.link().send_future(async move {
            browser::wait(after).await;
            Msg::Library(LibraryMsg::Live(browser::fetch_new(INDEX, &etag).await))
        });
    }

    /// Handles the server's answer to a poll, or the lack of an answer; returns whether the page must be redrawn.
    pub(in crate::app) fn answered(
        &mut self,
        ctx: &Context<Self>,
        answer: Result<Option<(String, String)>, ()>,
    ) -> bool {
        let was_lost = self.live.lost;
        self.live.lost = answer.is_err();
        self.ask(ctx, if self.live.lost { AGAIN } else { EVERY });
        let first = !self.loading.index_came;
        match answer {
            Ok(Some((text, etag))) => {
                self.live.etag = etag;
                match Index::parse(&text) {
                    Ok(index) => {
                        for key in self.library.renew(index) {
                            self.read_again(ctx, key);
                        }
                    }
                    Err(why) => self.notices.alert(why),
                }
            }
            Ok(None) if !was_lost => return false,
            Ok(None) => {}
            Err(()) if was_lost => return false,
            Err(()) => self.notices.said = "The program that serves this page has ended; what is shown stays.".into(),
        }
        if first {
            self.loading.pending -= 1;
            self.loading.index_came = true;
            self.check_link();
        }
        true
    }

    /// Rereads a record that is already shown.
    fn read_again(&self, ctx: &Context<Self>, key: String) {
        let address = format!("data/{}", js_sys::encode_uri_component(&key));
        ctx.link().send_future(async move {
            let reading = browser::fetch(&address).await.and_then(|bytes| open_hashed(&bytes));
            Msg::Library(LibraryMsg::Renewed(key, reading))
        });
    }
}
