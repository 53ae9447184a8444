//! A timeline on a canvas with zoom (wheel, pinch, keys), panning, search and totals.

mod picture;

use super::controls::{Send, button, option, search, select};
use crate::app::{App, ChartMsg, Msg};
use crate::browser;
use crate::plot::trace::{Shown, Sight, Trace, recorded, rungs};
use crate::text::format;
use gloo_events::{EventListener, EventListenerOptions};
use picture::{AXIS, LANE, NAMES, Picture, TONES};
use std::cell::Cell;
use std::rc::Rc;
use warpbook_charts::words;
use warpbook_record::{Problem, Run};
use wasm_bindgen::JsCast;
use web_sys::{HtmlCanvasElement, MouseEvent};
use yew::{AttrValue, Callback, Component, Context, Html, KeyboardEvent, NodeRef, PointerEvent, Properties, html};

/// The address is updated after this many milliseconds without a change.
const REST: i32 = 300;
/// The maximum number of rows in the table of totals.
const TOTALS: usize = 12;

/// Shows the timeline of a problem, starting with the fastest of the recorded rungs.
pub fn timeline(app: &App, send: &Send, run: &Run, problem: &Problem, name: &str) -> Html {
    let problem = recorded(run, problem);
    let traced: Vec<(AttrValue, AttrValue)> = rungs(run, problem)
        .into_iter()
        .map(|id| (id.to_owned().into(), run.rung(id).map_or_else(|| id.to_owned(), |r| r.title.to_string()).into()))
        .collect();
    let us = |id: &str| run.measurement(id, problem).and_then(|m| m.median_us()).unwrap_or(f64::INFINITY);
    let fastest = traced.iter().map(|(id, _)| id.clone()).min_by(|a, b| us(a).total_cmp(&us(b)));
    let Some(first) = fastest else { return Html::default() };
    let shared = Rc::new(traced.iter().map(|(id, _)| (id.clone(), Trace::for_rung(run, problem, id))).collect());
    html! {
        <Timeline key={format!("{name} {}", problem.id)} {first} {traced} traces={Traces(shared)} name={name.to_owned()}
            title={format!("{}: {}", run.title, problem.label)} dark={app.dark}
            shown={app.link.traced.clone()} width={app.options().width} send={send.clone()} />
    }
}

/// The traces of a problem by rung.
#[derive(Clone, PartialEq)]
pub struct Traces(Rc<Vec<(AttrValue, Trace)>>);

impl Traces {
    fn get(&self, rung: &AttrValue) -> Option<&Trace> {
        self.0.iter().find(|t| t.0 == *rung).map(|t| &t.1)
    }
}

/// The properties of the component [`Timeline`].
#[derive(Properties, PartialEq)]
pub struct TimelineProps {
    /// The id of the rung shown first.
    pub first: AttrValue,
    /// The rungs' ids and titles.
    pub traced: Vec<(AttrValue, AttrValue)>,
    /// The rungs' traces.
    pub traces: Traces,
    /// Base name for exported files.
    pub name: AttrValue,
    /// The titles of the record and the problem.
    pub title: AttrValue,
    /// The timeline's state in the address.
    pub shown: Shown,
    /// `true` if the page is dark.
    pub dark: bool,
    /// The width available for a chart, in CSS pixels; the canvas resizes with it.
    pub width: u32,
    /// The receiver of messages to the page.
    pub send: Callback<Msg>,
}

/// A message to a timeline.
pub enum TimelineMsg {
    /// Show this rung.
    Rung(String),
    /// Show this interval.
    See(Sight),
    /// A pointer went down: its number, its place along the canvas, and `true` if it selects.
    Down(i32, f64, bool),
    /// A pointer moved: its number and its place.
    Move(i32, f64),
    /// The pointer with this number went up or is gone.
    Up(i32),
    /// Highlight spans that contain this text.
    Search(String),
    /// Go to the next match of the search.
    Next,
    /// Clear the selection.
    Unselect,
    /// The waiting time after the change with this number is over.
    Rested(u32),
    /// The wheel turned by this much to the right and down, at this place along the canvas; `true` zooms.
    Wheel((f64, f64), f64, bool),
}

/// The component of a timeline.
pub struct Timeline {
    canvas: NodeRef,
    rung: AttrValue,
    sight: Sight,
    /// The selected interval in microseconds.
    selected: Option<(f64, f64)>,
    /// The time at which a selection began.
    selecting: Option<f64>,
    /// The pointers that are down, by number, with their places.
    pointers: Vec<(i32, f64)>,
    wanted: String,
    /// The start of the span that the search found last.
    found: f64,
    /// The number of changes of the view so far.
    changes: u32,
    /// The width of the column of the lanes' names in the last drawing.
    names: Cell<f64>,
    /// The listener on the wheel; it keeps the browser from zooming the page or going back.
    wheel: Option<EventListener>,
}

impl Component for Timeline {
    type Message = TimelineMsg;
    type Properties = TimelineProps;

    fn create(ctx: &Context<Self>) -> Self {
        let mut timeline = Self {
            canvas: NodeRef::default(),
            rung: ctx.props().first.clone(),
            sight: Sight::all(0.0),
            selected: None,
            selecting: None,
            pointers: Vec::new(),
            wanted: String::new(),
            found: -1.0,
            changes: 0,
            names: Cell::new(NAMES.0),
            wheel: None,
        };
        timeline.show(ctx);
        timeline
    }

    fn changed(&mut self, ctx: &Context<Self>, old: &TimelineProps) -> bool {
        // Only a newly opened address changes the state; the address already has the changes made here.
        if ctx.props().shown != old.shown && ctx.props().shown != self.shown(ctx) {
            self.show(ctx);
        }
        true
    }

    fn update(&mut self, ctx: &Context<Self>, msg: TimelineMsg) -> bool {
        if let TimelineMsg::Rested(number) = msg {
            let shown = self.shown(ctx);
            if number == self.changes && shown != ctx.props().shown {
                ctx.props().send.emit(Msg::Chart(ChartMsg::Timeline(shown)));
            }
            return false;
        }
        self.changes += 1;
        let number = self.changes;
        // The address is updated with a delay, since browsers refuse an address that changes with every wheel event.
        ctx.link().send_future(async move {
            browser::wait(REST).await;
            TimelineMsg::Rested(number)
        });
        let end = self.trace(ctx).map_or(0.0, |t| t.end);
        match msg {
            TimelineMsg::Rung(id) => {
                self.rung = id.into();
                (self.selected, self.found) = (None, -1.0);
                self.sight = Sight::all(self.trace(ctx).map_or(0.0, |t| t.end));
            }
            TimelineMsg::See(sight) => self.sight = sight,
            TimelineMsg::Down(number, x, selects) => {
                self.pointers.retain(|p| p.0 != number);
                self.pointers.push((number, x));
                self.selecting = selects.then(|| self.time_at(x));
            }
            TimelineMsg::Move(number, x) => return self.drag(number, x, end),
            TimelineMsg::Up(number) => {
                self.pointers.retain(|p| p.0 != number);
                self.selecting = None;
            }
            TimelineMsg::Search(text) => (self.wanted, self.found) = (text, -1.0),
            TimelineMsg::Next => {
                let next = self.trace(ctx).and_then(|t| t.next(&self.wanted, self.found)).map(|b| (b.from, b.to));
                let Some((from, to)) = next else { return false };
                self.found = from;
                let width = (self.sight.to - self.sight.from).min((to - from).max(1e-3) * 40.0);
                let middle = f64::midpoint(from, to);
                let sight = Sight { from: middle - width / 2.0, to: middle + width / 2.0 };
                self.sight = sight.moved(0.0, end);
                self.selected = Some((from, to));
            }
            TimelineMsg::Unselect => self.selected = None,
            TimelineMsg::Rested(_) => {}
            TimelineMsg::Wheel((_, down), x, true) => {
                self.sight = self.sight.nearer((-down / 300.0).exp(), self.share_at(x), end);
            }
            TimelineMsg::Wheel((right, _), _, false) => self.sight = self.sight.moved(right / self.lanes_width(), end),
        }
        true
    }

    fn view(&self, ctx: &Context<Self>) -> Html {
        let Some(trace) = self.trace(ctx) else { return Html::default() };
        let link = ctx.link();
        let typed = link.callback(TimelineMsg::Search);
        let on_enter = link.batch_callback(|e: KeyboardEvent| (e.key() == "Enter").then_some(TimelineMsg::Next));
        let shown = self.selected.unwrap_or((self.sight.from, self.sight.to));
        html! {
            <section class="trace" aria-label="Timeline">
                <div class="toolbar">
                    { self.rung_choice(ctx) }
                    { search(Some("trace-search".to_owned()), &self.wanted, typed, Some(on_enter)) }
                    { button("Next", link.callback(|_: MouseEvent| TimelineMsg::Next)) }
                    { self.sight_buttons(ctx, trace.end) }
                </div>
                { self.canvas(ctx, trace) }
                <p class="hint">
                    { "Ctrl + wheel or a pinch zooms, dragging moves; Shift + dragging selects. By keyboard: + and − zoom, arrows move, 0 shows all." }
                </p>
                { self.legend(trace) }
                { self.totals(ctx, trace, shown) }
                <div class="row">
                    { self.perfetto_button(ctx) }
                    { self.save_button(ctx) }
                </div>
            </section>
        }
    }

    fn rendered(&mut self, ctx: &Context<Self>, _: bool) {
        let Some(canvas) = self.canvas.cast::<HtmlCanvasElement>() else { return };
        if let Some(trace) = self.trace(ctx) {
            let picture = Picture { trace, sight: self.sight, selected: self.selected, wanted: &self.wanted };
            self.names.set(picture.draw(&canvas).unwrap_or(NAMES.0));
        }
        if self.wheel.is_none() {
            let send = ctx.link().callback(|msg: TimelineMsg| msg);
            let active = EventListenerOptions::enable_prevent_default();
            self.wheel = Some(EventListener::new_with_options(&canvas, "wheel", active, move |event| {
                let Some(e) = event.dyn_ref::<web_sys::WheelEvent>() else { return };
                // A pinch on a trackpad sends wheel events with Ctrl. Vertical wheel events without Ctrl scroll the page.
                if e.ctrl_key() || e.delta_x().abs() > e.delta_y().abs() {
                    e.prevent_default();
                    send.emit(TimelineMsg::Wheel((e.delta_x(), e.delta_y()), f64::from(e.offset_x()), e.ctrl_key()));
                }
            }));
        }
    }
}

impl Timeline {
    /// Restores the state from the address, as far as it is valid.
    fn show(&mut self, ctx: &Context<Self>) {
        let TimelineProps { shown, first, traces, .. } = ctx.props();
        let rung = shown.rung.as_deref().and_then(|id| traces.0.iter().map(|t| &t.0).find(|k| k.as_str() == id));
        self.rung = rung.unwrap_or(first).clone();
        let end = self.trace(ctx).map_or(0.0, |t| t.end);
        let all = Sight::all(end);
        self.sight = shown.sight.map_or(all, |s| if s.to <= end { s } else { s.moved(0.0, end) });
        if self.sight.to - self.sight.from > all.to {
            self.sight = all;
        }
        self.selected = shown.selected.map(|s| (s.from, s.to));
        (self.wanted, self.found) = (shown.search.clone(), -1.0);
    }

    /// Returns the timeline's state for the address.
    fn shown(&self, ctx: &Context<Self>) -> Shown {
        let end = self.trace(ctx).map_or(0.0, |t| t.end);
        let sight = |(from, to): (f64, f64)| Sight { from, to }.rounded();
        Shown {
            rung: Some(self.rung.to_string()).filter(|_| self.rung != ctx.props().first),
            sight: Some(self.sight.rounded()).filter(|_| self.sight != Sight::all(end)),
            selected: self.selected.map(sight),
            search: self.wanted.clone(),
        }
    }

    fn trace<'c>(&self, ctx: &'c Context<Self>) -> Option<&'c Trace> {
        ctx.props().traces.get(&self.rung)
    }

    /// Returns the width of the lanes in CSS pixels.
    fn lanes_width(&self) -> f64 {
        let canvas = self.canvas.cast::<HtmlCanvasElement>();
        canvas.map_or(1.0, |c| f64::from(c.client_width()) - self.names.get()).max(1.0)
    }

    fn share_at(&self, x: f64) -> f64 {
        ((x - self.names.get()) / self.lanes_width()).clamp(0.0, 1.0)
    }

    fn time_at(&self, x: f64) -> f64 {
        self.sight.from + (self.sight.to - self.sight.from) * self.share_at(x)
    }

    fn drag(&mut self, number: i32, x: f64, end: f64) -> bool {
        let Some(at) = self.pointers.iter().position(|p| p.0 == number) else { return false };
        let before = self.pointers[at].1;
        let width = self.lanes_width();
        match (&self.selecting, self.pointers.as_slice()) {
            (Some(from), _) => {
                let to = self.time_at(x);
                self.selected = Some((from.min(to), from.max(to))).filter(|(a, b)| b > a);
            }
            (None, [a, b]) => {
                let other = if a.0 == number { b.1 } else { a.1 };
                let (was, is) = ((before - other).abs().max(8.0), (x - other).abs().max(8.0));
                self.sight = self.sight.nearer(is / was, self.share_at(other), end);
            }
            _ => self.sight = self.sight.moved((before - x) / width, end),
        }
        self.pointers[at].1 = x;
        true
    }

    fn rung_choice(&self, ctx: &Context<Self>) -> Html {
        let options = ctx.props().traced.iter().map(|(id, title)| option(id, title, *id == self.rung));
        select("Rung", Some("trace-rung"), ctx.link().callback(TimelineMsg::Rung), options.collect())
    }

    fn sight_buttons(&self, ctx: &Context<Self>, end: f64) -> Html {
        let sight = self.sight;
        let show = |label: &'static str, to: Sight| {
            button(label, ctx.link().callback(move |_: MouseEvent| TimelineMsg::See(to)))
        };
        html! {
            <>
                { show("Zoom in", sight.nearer(2.0, 0.5, end)) }
                { show("Zoom out", sight.nearer(0.5, 0.5, end)) }
                { show("Show all", Sight::all(end)) }
            </>
        }
    }

    fn canvas(&self, ctx: &Context<Self>, trace: &Trace) -> Html {
        let link = ctx.link();
        let (sight, end) = (self.sight, trace.end);
        let at = |e: &PointerEvent| f64::from(e.offset_x());
        let down = link.callback(move |e: PointerEvent| {
            if let Some(canvas) = e.target().and_then(|t| t.dyn_into::<HtmlCanvasElement>().ok()) {
                let _ = canvas.set_pointer_capture(e.pointer_id());
            }
            TimelineMsg::Down(e.pointer_id(), at(&e), e.shift_key())
        });
        let drag = link.callback(move |e: PointerEvent| TimelineMsg::Move(e.pointer_id(), at(&e)));
        let up = link.callback(|e: PointerEvent| TimelineMsg::Up(e.pointer_id()));
        let gone = up.clone();
        let keys = link.batch_callback(move |e: KeyboardEvent| {
            if e.ctrl_key() || e.alt_key() || e.meta_key() {
                return None;
            }
            let act = match e.key().as_str() {
                "+" | "=" => TimelineMsg::See(sight.nearer(2.0, 0.5, end)),
                "-" => TimelineMsg::See(sight.nearer(0.5, 0.5, end)),
                "ArrowRight" => TimelineMsg::See(sight.moved(0.2, end)),
                "ArrowLeft" => TimelineMsg::See(sight.moved(-0.2, end)),
                "0" | "Home" => TimelineMsg::See(Sight::all(end)),
                "Escape" => TimelineMsg::Unselect,
                _ => return None,
            };
            e.prevent_default();
            Some(act)
        });
        let height = AXIS + LANE * trace.lanes.len() as f64;
        let label = format!(
            "{} spans in {}, from {} to {}; what is in sight is added up below",
            trace.count(),
            words::counted(trace.lanes.len(), "lane"),
            words::time(sight.from),
            words::time(sight.to)
        );
        html! {
            <canvas ref={self.canvas.clone()} tabindex="0" role="img" aria-label={label} style={format!("height:{height}px")}
                onpointerdown={down} onpointermove={drag} onpointerup={up} onpointercancel={gone} onkeydown={keys} />
        }
    }

    fn legend(&self, trace: &Trace) -> Html {
        html! {
            <ul class="picks" aria-label="Kinds of operations">
                { for trace.kinds.iter().zip(TONES).map(|(kind, tone)| html! {
                    <li key={kind.clone()}><span aria-hidden="true" style={format!("color:{tone}")}>{ "■ " }</span>{ kind }</li>
                }) }
            </ul>
        }
    }

    /// Shows the time of each operation in the selection or, without one, in the visible interval.
    fn totals(&self, ctx: &Context<Self>, trace: &Trace, shown: (f64, f64)) -> Html {
        let all = trace.totals(shown, &self.wanted);
        let sum: f64 = all.iter().map(|t| t.us).sum();
        let count: usize = all.iter().map(|t| t.count).sum();
        let what = if self.selected.is_some() { "Selected" } else { "In sight" };
        let caption = format!(
            "{what}, {} to {}: {}, {} in all",
            words::time(shown.0),
            words::time(shown.1),
            words::counted(count, "span"),
            words::time(sum)
        );
        html! {
            <div class="scroll" tabindex="0" role="region" aria-label="Totals">
                <table class="totals">
                    <caption>{ caption }</caption>
                    <thead><tr>
                        <th scope="col">{ "operation" }</th><th scope="col" class="number">{ "time" }</th>
                        <th scope="col" class="number">{ "share" }</th><th scope="col" class="number">{ "spans" }</th>
                    </tr></thead>
                    <tbody>
                        { for all.iter().take(TOTALS).map(|t| html! {
                            <tr key={t.name.clone()}>
                                <th scope="row">{ &t.name }</th><td class="number">{ words::time(t.us) }</td>
                                <td class="number">{ words::percent(t.us / sum.max(1e-12)) }</td><td class="number">{ t.count }</td>
                            </tr>
                        }) }
                    </tbody>
                </table>
                if all.len() > TOTALS { <p>{ format!("{} more.", words::counted(all.len() - TOTALS, "operation")) }</p> }
                if self.selected.is_some() {
                    { button("Add up what is in sight", ctx.link().callback(|_: MouseEvent| TimelineMsg::Unselect)) }
                }
            </div>
        }
    }

    /// Returns a function that builds the trace file on demand.
    fn events(&self, ctx: &Context<Self>) -> impl Fn() -> String + 'static {
        let (traces, rung, title) = (ctx.props().traces.clone(), self.rung.clone(), ctx.props().title.clone());
        move || traces.get(&rung).map_or_else(String::new, |trace| trace.events(&title))
    }

    /// Shows a button that sends the trace to ui.perfetto.dev in another window. Nothing is sent before the reader
    /// presses it.
    fn perfetto_button(&self, ctx: &Context<Self>) -> Html {
        let (events, title, send) = (self.events(ctx), ctx.props().title.clone(), ctx.props().send.clone());
        let press = Callback::from(move |_: MouseEvent| {
            let said = match browser::open_perfetto(&events(), &title) {
                true => "The trace goes to ui.perfetto.dev, in another window, as soon as that answers.",
                false => "The browser does not let this page open another window; save the trace and open it there.",
            };
            send.emit(Msg::say(said));
        });
        html! { <button type="button" class="small perfetto" onclick={press}>{ "Open in Perfetto (ui.perfetto.dev)" }</button> }
    }

    fn save_button(&self, ctx: &Context<Self>) -> Html {
        let (events, send) = (self.events(ctx), ctx.props().send.clone());
        let file = format!("{}.trace.json", format::slug(&[ctx.props().name.as_str()]));
        let press = Callback::from(move |_: MouseEvent| {
            browser::save(&file, "application/json", &events());
            send.emit(Msg::say(format!("Saved {file}.")));
        });
        button("Save the trace", press)
    }
}
