//! Compression by the browser (Compression Streams).

use super::{read_stream, window};
use js_sys::{Array, Function, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Blob, ReadableStream};

const NO_STREAMS: &str = "This browser cannot compress: a newer one can (from 2023 on).";

/// Compresses bytes to raw DEFLATE.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the browser cannot compress.
pub async fn pack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let packed = through("CompressionStream", bytes).map_err(|_| NO_STREAMS.to_owned())?;
    read_stream(&packed).await.map_err(|why| why.unwrap_or_else(|| NO_STREAMS.into()))
}

/// Undoes [`pack`]; stops at the largest size that a record may have.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the bytes are not valid or too large when unpacked.
pub async fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let unpacked = through("DecompressionStream", bytes).map_err(|_| NO_STREAMS.to_owned())?;
    read_stream(&unpacked)
        .await
        .map_err(|why| why.unwrap_or_else(|| "The record in the link is damaged or cut off.".into()))
}

fn through(stream: &str, bytes: &[u8]) -> Result<ReadableStream, JsValue> {
    let make: Function = Reflect::get(&window(), &stream.into())?.dyn_into()?;
    let pipe = Reflect::construct(&make, &Array::of1(&"deflate-raw".into()))?;
    let source = Blob::new_with_u8_array_sequence(&Array::of1(&Uint8Array::from(bytes)))?.stream();
    let connect: Function = Reflect::get(&source, &"pipeThrough".into())?.dyn_into()?;
    connect.call1(&source, &pipe)?.dyn_into()
}
