//! An interactive drawing: its marks can be hovered, touched and reached with the arrow keys.
//!
//! The drawing is the same as in a notebook; the interaction uses only the attributes of its marks.

use crate::app::{ChartMsg, Msg, OpenedFrom, RungMsg};
use crate::browser::marks::{
    LEGEND, MarkNames, STOPS, all, current, focus, is_mark, on_page, places, prepare, stop_at, stop_of,
};
use crate::plot::marks::{Reading, step};
use crate::plot::zoom::Plot;
use crate::view::controls::button;
use std::cell::Cell;
use std::rc::Rc;
use warpbook_charts::Window;
use wasm_bindgen::JsCast;
use web_sys::{Element, Node, SvgElement};
use yew::{
    AttrValue, Callback, Component, Context, FocusEvent, Html, KeyboardEvent, MouseEvent, NodeRef, PointerEvent,
    Properties, classes, html,
};

/// The smallest width of a tooltip, in CSS pixels.
const TIP_WIDTH: f64 = 272.0;

/// The properties of the component [`Drawing`].
#[derive(Properties, PartialEq)]
pub struct DrawingProps {
    /// An `<svg>` drawn by `warpbook-charts`.
    pub svg: AttrValue,
    /// The receiver of messages to the page.
    pub send: Callback<Msg>,
}

/// A message to a drawing.
pub enum DrawingMsg {
    /// The pointer is at a mark; `true` if it was chosen by focus or press, so that its tooltip stays.
    Look(Element, bool),
    /// The pointer has left, or Escape was pressed (`true`).
    Leave(bool),
    /// The pointer is at this series of the legend, or at none.
    Hover(Option<String>),
    /// Show this series alone, or all series if it already is alone.
    Isolate(String),
    /// The pointer went down at this point of the box around the drawing, in CSS pixels.
    Brush((f64, f64)),
    /// The pointer moved to this point.
    Drag((f64, f64)),
    /// The pointer was released (`true`), which zooms to the brush, or left the drawing.
    Drop(bool),
}

/// A tooltip; positions are in CSS pixels of the box around the drawing.
struct Tip {
    reading: Reading,
    at: (f64, f64),
    /// The mark's left, top, width and height.
    mark: (f64, f64, f64, f64),
    stays: bool,
}

/// The component of an interactive drawing.
#[derive(Default)]
pub struct Drawing {
    root: NodeRef,
    tip: Option<Tip>,
    hovered: Option<String>,
    isolated: Option<String>,
    /// The brush's start and current point, in CSS pixels of the box around the drawing.
    brush: Option<((f64, f64), (f64, f64))>,
    /// `true` if the next click only ends a brush.
    brushed: Rc<Cell<bool>>,
    /// The index of the mark or legend entry that had the focus in the previous drawing.
    focused: Option<usize>,
    /// `true` if the next drawing must take the focus because the previous drawing had it.
    refocus: Rc<Cell<bool>>,
}

impl Component for Drawing {
    type Message = DrawingMsg;
    type Properties = DrawingProps;

    fn create(_: &Context<Self>) -> Self {
        Self::default()
    }

    fn changed(&mut self, ctx: &Context<Self>, old: &DrawingProps) -> bool {
        if ctx.props().svg != old.svg {
            (self.tip, self.hovered, self.brush) = (None, None, None);
            let active = self.root.cast::<Element>().and_then(|r| r.owner_document()).and_then(|d| d.active_element());
            let stops = self.svg().map(|svg| all(&svg, STOPS)).unwrap_or_default();
            self.focused = stops.iter().position(|stop| active.as_ref() == Some(stop));
        }
        true
    }

    fn update(&mut self, ctx: &Context<Self>, msg: DrawingMsg) -> bool {
        match msg {
            DrawingMsg::Look(mark, stays) => {
                // A passing pointer does not replace a chosen mark's tooltip.
                if !stays && self.tip.as_ref().is_some_and(|t| t.stays) {
                    return false;
                }
                self.tip = self.tip_of(&mark, stays);
            }
            DrawingMsg::Leave(escaped) => {
                if !escaped && self.tip.as_ref().is_none_or(|t| t.stays) {
                    return false;
                }
                self.tip = None;
            }
            DrawingMsg::Hover(series) => {
                if self.hovered == series {
                    return false;
                }
                self.hovered = series;
                self.dim();
            }
            DrawingMsg::Brush(at) => {
                self.brushed.set(false);
                let inside = self.plot().zip(self.in_drawing(at)).is_some_and(|(plot, at)| plot.has(at));
                self.brush = inside.then_some((at, at));
                return false;
            }
            DrawingMsg::Drag(at) => match &mut self.brush {
                Some(brush) => brush.1 = at,
                None => return false,
            },
            DrawingMsg::Drop(up) => {
                let Some((a, b)) = self.brush.take() else { return false };
                let ends = self.plot().zip(self.in_drawing(a)).zip(self.in_drawing(b));
                let window = ends.filter(|_| up).and_then(|((plot, a), b)| plot.brushed(a, b));
                if let Some(window) = window {
                    self.brushed.set(true);
                    ctx.props().send.emit(Msg::Chart(ChartMsg::Zoom(Some(window))));
                }
            }
            DrawingMsg::Isolate(series) => {
                self.isolated = Some(series).filter(|s| self.isolated.as_ref() != Some(s));
                self.dim();
            }
        }
        true
    }

    fn view(&self, ctx: &Context<Self>) -> Html {
        let link = ctx.link();
        let over = {
            let root = self.root.clone();
            link.batch_callback(move |e: PointerEvent| match e.buttons() {
                0 => pointed(&e),
                _ => place_in(&root, &e).map(DrawingMsg::Drag).into_iter().collect(),
            })
        };
        let leave = link.batch_callback(|_: PointerEvent| {
            vec![DrawingMsg::Leave(false), DrawingMsg::Hover(None), DrawingMsg::Drop(false)]
        });
        let press = {
            let brushed = self.brushed.clone();
            link.batch_callback(move |e: MouseEvent| if brushed.take() { Vec::new() } else { pressed(&e) })
        };
        let down = self.at_pointer(ctx, |e, at| (e.button() == 0 && !in_tip(e)).then_some(DrawingMsg::Brush(at)));
        let up = link.callback(|_: PointerEvent| DrawingMsg::Drop(true));
        let focus = link.batch_callback(|e: FocusEvent| stop_of(&e).filter(is_mark).map(|s| DrawingMsg::Look(s, true)));
        let blur = {
            let root = self.root.clone();
            link.batch_callback(move |e: FocusEvent| {
                let to = e.related_target().and_then(|t| t.dyn_into::<Node>().ok());
                let inside = root.get().is_some_and(|r| to.is_some_and(|to| r.contains(Some(&to))));
                (!inside).then_some(DrawingMsg::Leave(true))
            })
        };
        let keys = {
            let (root, send, refocus) = (self.root.clone(), ctx.props().send.clone(), self.refocus.clone());
            link.batch_callback(move |e: KeyboardEvent| {
                let root = root.cast::<Element>()?;
                if let Some(window) = zoom_key(&root, &e) {
                    e.prevent_default();
                    refocus.set(true);
                    send.emit(Msg::Chart(ChartMsg::Zoom(window)));
                    return None;
                }
                key(&root, &send, &e)
            })
        };
        let zooms = ctx.props().svg.contains("<g data-plot=\"");
        html! {
            <div ref={self.root.clone()} class={classes!("marks", zooms.then_some("zooms"))} onpointerdown={down} onpointerup={up} onpointermove={over} onpointerleave={leave} onclick={press}
                onfocusin={focus} onfocusout={blur} onkeydown={keys}>
                // warpbook-charts escapes all text, and the page's policy lets no script in it run.
                <div class="drawing">{ Html::from_html_unchecked(ctx.props().svg.clone()) }</div>
                // The tooltip and the brush are always one child each. If the number of children changed, yew would rebuild the drawing
                // and lose its focus.
                { self.tip.as_ref().map_or_else(Html::default, |tip| self.tip(ctx, tip)) }
                { self.brush.map_or_else(Html::default, brush) }
                { if zooms { self.zoom_buttons(ctx) } else { Html::default() } }
            </div>
        }
    }

    fn rendered(&mut self, _: &Context<Self>, _: bool) {
        if let Some(svg) = self.svg().filter(|svg| svg.get_attribute("role").as_deref() != Some("group")) {
            prepare(&svg);
            // The same chart at another width keeps the isolated series and the focus.
            let entries = all(&svg, LEGEND);
            self.isolated = self
                .isolated
                .take()
                .filter(|s| entries.iter().any(|e| e.get_attribute("data-legend").as_ref() == Some(s)));
            self.dim();
            let stops = all(&svg, STOPS);
            if let Some(stop) = self.focused.take().and_then(|i| stops.get(i)).and_then(|s| s.dyn_ref::<SvgElement>()) {
                let _ = stop.focus();
            }
            if self.refocus.take() {
                let _ = svg.dyn_ref::<SvgElement>().map(SvgElement::focus);
            }
        }
    }
}

impl Drawing {
    fn svg(&self) -> Option<Element> {
        self.root.cast::<Element>()?.query_selector("svg").ok().flatten()
    }

    /// Returns the plot that can be brushed.
    fn plot(&self) -> Option<Plot> {
        plot_in(&self.root.cast::<Element>()?)
    }

    /// Converts a point of the box to a point of the drawing, whose pixels may be larger.
    fn in_drawing(&self, at: (f64, f64)) -> Option<(f64, f64)> {
        let (svg, root) = (self.svg()?, self.root.cast::<Element>()?.get_bounding_client_rect());
        let bounds = svg.get_bounding_client_rect();
        // The viewBox counts tenths of a pixel.
        let wide = svg.get_attribute("viewBox")?.split(' ').nth(2).and_then(|width| width.parse::<f64>().ok())? / 10.0;
        let scale = wide / bounds.width();
        Some(((at.0 + root.left() - bounds.left()) * scale, (at.1 + root.top() - bounds.top()) * scale))
    }

    fn at_pointer(
        &self,
        ctx: &Context<Self>,
        act: impl Fn(&PointerEvent, (f64, f64)) -> Option<DrawingMsg> + 'static,
    ) -> Callback<PointerEvent> {
        let root = self.root.clone();
        ctx.link().batch_callback(move |e: PointerEvent| place_in(&root, &e).and_then(|at| act(&e, at)))
    }

    /// Shows zoom buttons for readers without a pointer.
    fn zoom_buttons(&self, ctx: &Context<Self>) -> Html {
        let zoom_button = |label: &'static str, of: fn(&Plot) -> Option<Option<Window>>| {
            let (root, send) = (self.root.clone(), ctx.props().send.clone());
            let press = Callback::from(move |e: MouseEvent| {
                e.stop_propagation();
                let plot = root.cast::<Element>().and_then(|r| plot_in(&r));
                if let Some(window) = plot.and_then(|p| of(&p)) {
                    send.emit(Msg::Chart(ChartMsg::Zoom(window)));
                }
            });
            button(label, press)
        };
        html! {
            <div class="zoom" role="group" aria-label="What the plot shows">
                { zoom_button("Zoom in", |p| p.nearer(true).map(Some)) }
                { zoom_button("Zoom out", |p| p.nearer(false).map(Some)) }
                { zoom_button("Show all", |_| Some(None)) }
                <p class="hint">{ "Drag over the plot to see a part of it; + and − zoom, Shift and arrows move, 0 shows all." }</p>
            </div>
        }
    }

    fn tip_of(&self, mark: &Element, stays: bool) -> Option<Tip> {
        let (around, bounds) =
            (self.root.cast::<Element>()?.get_bounding_client_rect(), mark.get_bounding_client_rect());
        let mark_at = (bounds.left() - around.left(), bounds.top() - around.top(), bounds.width(), bounds.height());
        let left = (mark_at.0 + mark_at.2 / 2.0).min(around.width() - TIP_WIDTH).max(0.0);
        let reading = MarkNames::from_drawing(&self.svg()?).reading(mark);
        Some(Tip { reading, at: (left, mark_at.1 + mark_at.3 + 10.0), mark: mark_at, stays })
    }

    /// Shows the tooltip, which consists of text nodes only.
    fn tip(&self, ctx: &Context<Self>, tip: &Tip) -> Html {
        let Tip { reading, at, mark, .. } = tip;
        let open = {
            let (send, root) = (ctx.props().send.clone(), self.root.clone());
            Callback::from(move |_: MouseEvent| {
                root.cast::<Element>().and_then(|r| current(&r)).iter().for_each(|mark| open_rung(&send, mark))
            })
        };
        let ring = format!(
            "left:{:.1}px;top:{:.1}px;width:{:.1}px;height:{:.1}px",
            mark.0 - 3.0,
            mark.1 - 3.0,
            mark.2 + 6.0,
            mark.3 + 6.0
        );
        html! {
            <>
                <span class="ring" aria-hidden="true" style={ring}></span>
                <div class="tip" role="tooltip" style={format!("left:{:.1}px;top:{:.1}px", at.0, at.1)}>
                    <strong>{ &reading.name }</strong>
                    { for reading.lines().into_iter().map(|line| html! { <span>{ line }</span> }) }
                    if tip.stays && !reading.rung.is_empty() {
                        <button type="button" class="small" tabindex="-1" onclick={open}>{ "Open the rung" }</button>
                    }
                </div>
            </>
        }
    }

    /// Dims everything outside the series that is isolated or hovered.
    fn dim(&self) {
        let Some(svg) = self.svg() else { return };
        let shown = self.isolated.as_ref().or(self.hovered.as_ref());
        for element in all(&svg, "[data-series],[data-legend]") {
            let own = element.get_attribute("data-series").or_else(|| element.get_attribute("data-legend"));
            let _ = match shown.is_some_and(|s| own.as_ref() != Some(s)) {
                true => element.set_attribute("data-off", ""),
                false => element.remove_attribute("data-off"),
            };
        }
        for entry in all(&svg, LEGEND) {
            let on = self.isolated.is_some() && entry.get_attribute("data-legend") == self.isolated;
            let _ = entry.set_attribute("aria-pressed", if on { "true" } else { "false" });
        }
    }
}

/// Returns the pointer's place in the box around the drawing, in CSS pixels.
fn place_in(root: &NodeRef, event: &PointerEvent) -> Option<(f64, f64)> {
    let bounds = root.cast::<Element>()?.get_bounding_client_rect();
    Some((f64::from(event.client_x()) - bounds.left(), f64::from(event.client_y()) - bounds.top()))
}

fn plot_in(root: &Element) -> Option<Plot> {
    Plot::parse(&root.query_selector("[data-plot]").ok()??.get_attribute("data-plot")?)
}

fn zoom_key(root: &Element, event: &KeyboardEvent) -> Option<Option<Window>> {
    let other = event.ctrl_key() || event.alt_key() || event.meta_key();
    // Events on the buttons below the drawing are ignored.
    let target: Element = event.target()?.dyn_into().ok()?;
    target.closest("svg.wb-chart").ok().flatten().filter(|_| !other)?;
    plot_in(root)?.key(&event.key(), event.shift_key())
}

/// Shows the brush.
fn brush((a, b): ((f64, f64), (f64, f64))) -> Html {
    let style = format!(
        "left:{:.0}px;top:{:.0}px;width:{:.0}px;height:{:.0}px",
        a.0.min(b.0),
        a.1.min(b.1),
        (a.0 - b.0).abs(),
        (a.1 - b.1).abs()
    );
    html! { <span class="brush" aria-hidden="true" style={style}></span> }
}

fn pointed(event: &PointerEvent) -> Vec<DrawingMsg> {
    // A finger has no position until it touches.
    if event.pointer_type() == "touch" || in_tip(event) {
        return Vec::new();
    }
    match stop_at(event) {
        Some(stop) if is_mark(&stop) => vec![DrawingMsg::Hover(None), DrawingMsg::Look(stop, false)],
        Some(entry) => vec![DrawingMsg::Leave(false), DrawingMsg::Hover(entry.get_attribute("data-legend"))],
        None => vec![DrawingMsg::Leave(false), DrawingMsg::Hover(None)],
    }
}

fn in_tip(event: &web_sys::Event) -> bool {
    let target = event.target().and_then(|t| t.dyn_into::<Element>().ok());
    target.is_some_and(|t| t.closest(".tip").ok().flatten().is_some())
}

fn pressed(event: &MouseEvent) -> Vec<DrawingMsg> {
    if in_tip(event) {
        return Vec::new();
    }
    match stop_at(event) {
        Some(mark) if is_mark(&mark) => {
            focus(&mark);
            vec![DrawingMsg::Look(mark, true)]
        }
        Some(entry) => entry.get_attribute("data-legend").map(DrawingMsg::Isolate).into_iter().collect(),
        None => vec![DrawingMsg::Leave(true)],
    }
}

fn key(root: &Element, send: &Callback<Msg>, event: &KeyboardEvent) -> Option<DrawingMsg> {
    if event.ctrl_key() || event.alt_key() || event.meta_key() || in_tip(event) {
        return None;
    }
    let svg = root.query_selector("svg").ok().flatten()?;
    let stops = all(&svg, STOPS);
    let here = stop_of(event);
    match event.key().as_str() {
        "Escape" => {
            // The focus returns to the whole chart; arrow keys then continue from the same mark.
            event.prevent_default();
            svg.dyn_ref::<SvgElement>().map(SvgElement::focus);
            Some(DrawingMsg::Leave(true))
        }
        "Enter" | " " => {
            let here = here?;
            event.prevent_default();
            if let Some(series) = here.get_attribute("data-legend") {
                return Some(DrawingMsg::Isolate(series));
            }
            open_rung(send, &here);
            None
        }
        key => {
            let current = || svg.query_selector("[tabindex='0']").ok().flatten();
            let from = here.clone().or_else(current).and_then(|e| stops.iter().position(|s| *s == e)).unwrap_or(0);
            let to = step(&places(&stops), from, key)?;
            event.prevent_default();
            // From the whole chart, the first arrow key goes to the chart's current mark.
            focus(stops.get(if here.is_some() { to } else { from })?);
            let legend = stops[to].get_attribute("data-legend");
            legend.map(|_| DrawingMsg::Leave(true))
        }
    }
}

/// Opens the panel of a mark's rung.
fn open_rung(send: &Callback<Msg>, mark: &Element) {
    let said = &places(std::slice::from_ref(mark))[0];
    if said.rung.is_empty() {
        return;
    }
    let nth = on_page().iter().position(|m| m == mark).unwrap_or(0);
    send.emit(Msg::Rung(RungMsg::Open(said.rung.clone(), said.problem.clone(), OpenedFrom::Mark(nth))));
}
