//! Records kept across reloads in the browser's own database (IndexedDB). They never leave the browser.

use super::window;
use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Event, IdbDatabase, IdbObjectStore, IdbOpenDbRequest, IdbRequest, IdbTransactionMode};

const STORE: &str = "records";

/// A kept record.
pub struct Kept {
    /// The file's name.
    pub name: String,
    /// The file's content, which may be anything.
    pub bytes: Vec<u8>,
}

/// Returns every kept record; empty if the browser keeps nothing.
pub async fn all() -> Vec<Kept> {
    let read = async || -> Result<Vec<Kept>, JsValue> {
        let values: Array = result(&store(IdbTransactionMode::Readonly).await?.get_all()?).await?.dyn_into()?;
        let kept = |value: JsValue| {
            let name = Reflect::get(&value, &"name".into()).ok()?.as_string()?;
            let bytes: Uint8Array = Reflect::get(&value, &"bytes".into()).ok()?.dyn_into().ok()?;
            Some(Kept { name, bytes: bytes.to_vec() })
        };
        Ok(values.iter().filter_map(kept).collect())
    };
    read().await.unwrap_or_default()
}

/// Keeps a record under a key; returns whether that worked.
pub async fn keep(key: &str, name: &str, bytes: &[u8]) -> bool {
    let write = async || -> Result<(), JsValue> {
        let value = Object::new();
        Reflect::set(&value, &"name".into(), &name.into())?;
        Reflect::set(&value, &"bytes".into(), &Uint8Array::from(bytes))?;
        let store = store(IdbTransactionMode::Readwrite).await?;
        result(&store.put_with_key(&value, &key.into())?).await.map(drop)
    };
    write().await.is_ok()
}

/// Deletes the record with this key.
pub async fn forget(key: &str) {
    let remove = async || -> Result<(), JsValue> {
        let store = store(IdbTransactionMode::Readwrite).await?;
        result(&store.delete(&key.into())?).await.map(drop)
    };
    let _ = remove().await;
}

/// Deletes all records.
pub async fn forget_all() {
    let clear = async || -> Result<(), JsValue> {
        let store = store(IdbTransactionMode::Readwrite).await?;
        result(&store.clear()?).await.map(drop)
    };
    let _ = clear().await;
}

async fn store(mode: IdbTransactionMode) -> Result<IdbObjectStore, JsValue> {
    let factory = window().indexed_db()?.ok_or(JsValue::NULL)?;
    // Several pages may share one site, so the path is part of the database's name.
    let name = format!("warpbook {}", window().location().pathname().unwrap_or_default());
    let request = factory.open_with_u32(&name, 1)?;
    let upgrade = Closure::once(|event: Event| {
        let request = event.target().and_then(|t| t.dyn_into::<IdbOpenDbRequest>().ok());
        let database = request.and_then(|r| r.result().ok()).and_then(|d| d.dyn_into::<IdbDatabase>().ok());
        let _ = database.map(|d| d.create_object_store(STORE));
    });
    request.set_onupgradeneeded(Some(upgrade.as_ref().unchecked_ref()));
    let database: IdbDatabase = result(&request).await?.dyn_into()?;
    let store = database.transaction_with_str_and_mode(STORE, mode)?.object_store(STORE);
    // The connection closes after its transaction. An open connection would block anyone who deletes the database.
    database.close();
    store
}

/// Waits for the result of a request.
async fn result(request: &IdbRequest) -> Result<JsValue, JsValue> {
    let settled = Promise::new(&mut |resolve, reject| {
        request.set_onsuccess(Some(&resolve));
        request.set_onerror(Some(&reject));
    });
    JsFuture::from(settled).await?;
    request.result()
}
