//! The page as yew's component: `app` holds its state, `view` draws it.

use crate::app::{App, Msg};
use crate::view;
use yew::{Component, Context, Html};

impl Component for App {
    type Message = Msg;
    type Properties = ();

    fn create(ctx: &Context<Self>) -> Self {
        Self::begin(ctx)
    }

    fn update(&mut self, ctx: &Context<Self>, msg: Msg) -> bool {
        self.answer(ctx, msg)
    }

    fn view(&self, ctx: &Context<Self>) -> Html {
        view::page(self, &ctx.link().callback(|msg| msg))
    }

    fn rendered(&mut self, ctx: &Context<Self>, _: bool) {
        self.after_render(ctx);
    }
}
