//! Saving a chart as a PNG file.

use super::{document, save_blob};
use js_sys::{Function, Promise};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, CanvasRenderingContext2d, HtmlCanvasElement, HtmlImageElement};

/// Pixels of the PNG per CSS pixel.
const SCALE: f64 = 2.0;

/// Saves the SVG at an address as a PNG; `size` is in CSS pixels. Returns whether that worked.
pub async fn save_png(name: &str, source: &str, size: (u32, u32)) -> bool {
    let draw = async || -> Result<(), JsValue> {
        let image = HtmlImageElement::new()?;
        image.set_src(source);
        JsFuture::from(image.decode()).await?;
        let canvas: HtmlCanvasElement = document().create_element("canvas")?.dyn_into()?;
        canvas.set_width(size.0 * SCALE as u32);
        canvas.set_height(size.1 * SCALE as u32);
        let context: CanvasRenderingContext2d = canvas.get_context("2d")?.ok_or(JsValue::NULL)?.dyn_into()?;
        let (width, height) = (f64::from(canvas.width()), f64::from(canvas.height()));
        context.draw_image_with_html_image_element_and_dw_and_dh(&image, 0.0, 0.0, width, height)?;
        let blob: Blob = JsFuture::from(blob_of(&canvas)).await?.dyn_into()?;
        save_blob(name, &blob)
    };
    draw().await.is_ok()
}

fn blob_of(canvas: &HtmlCanvasElement) -> Promise {
    Promise::new(&mut |resolve: Function, reject: Function| {
        let done = Closure::once_into_js(move |blob: JsValue| {
            let _ = resolve.call1(&JsValue::NULL, &blob);
        });
        if let Err(why) = canvas.to_blob(done.unchecked_ref()) {
            let _ = reject.call1(&JsValue::NULL, &why);
        }
    })
}
