//! A part of the page that reacts to swipes: left for the next item, right for the previous.

use crate::app::SwipeStart;
use wasm_bindgen::JsCast;
use web_sys::{Element, PointerEvent};
use yew::{Callback, Html, html};

/// The shortest swipe, in CSS pixels.
const LEAST: f64 = 48.0;

/// Wraps content whose swipes send 1 (next) or -1 (previous) to `on_step`. Swipes that start in a field or in anything
/// that scrolls sideways are ignored.
pub fn swipe(begun: &SwipeStart, on_step: Callback<isize>, content: Html) -> Html {
    let at = |e: &PointerEvent| (f64::from(e.client_x()), f64::from(e.client_y()));
    let down = {
        let begun = begun.clone();
        Callback::from(move |e: PointerEvent| {
            let target = e.target().and_then(|t| t.dyn_into::<Element>().ok());
            let scrolls = target.is_some_and(|t| t.closest(".scroll, select, input").ok().flatten().is_some());
            let is_touch = e.pointer_type() == "touch" && e.is_primary() && !scrolls;
            begun.set(is_touch.then(|| at(&e)));
        })
    };
    let cancel = {
        let begun = begun.clone();
        Callback::from(move |_: PointerEvent| begun.set(None))
    };
    let up = {
        let begun = begun.clone();
        Callback::from(move |e: PointerEvent| {
            if let Some(by) = begun.take().and_then(|from| direction(from, at(&e))) {
                on_step.emit(by);
            }
        })
    };
    html! {
        <div class="swipe" onpointerdown={down} onpointerup={up} onpointercancel={cancel}>{ content }</div>
    }
}

/// Returns the step that a finger's path asks for; `None` if the path is short or not sideways.
fn direction(from: (f64, f64), to: (f64, f64)) -> Option<isize> {
    let (along, down) = (to.0 - from.0, to.1 - from.1);
    (along.abs() >= LEAST && along.abs() > 2.0 * down.abs()).then_some(if along < 0.0 { 1 } else { -1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swipe_is_long_and_level() {
        assert_eq!(direction((200.0, 10.0), (100.0, 20.0)), Some(1));
        assert_eq!(direction((100.0, 10.0), (200.0, -20.0)), Some(-1));
        assert_eq!(direction((100.0, 10.0), (130.0, 10.0)), None);
        assert_eq!(direction((100.0, 10.0), (200.0, 90.0)), None);
    }
}
