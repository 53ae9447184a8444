use super::activity::{ActivityKind, Call};
use super::library::{ActivityCalls, Complete, Cupti, DRIVER_CALLS, LOADED, Request};
use super::records::*;
use super::session::{OWN_RANGES, Session};
use crate::libraries::loader::tests::{errors_say_what_to_do, installed};
use crate::libraries::loader::{Loadable, Status};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_missing_library_is_an_error_with_its_remedy() {
    errors_say_what_to_do::<Cupti>(&["libcupti.so.13"]);
}

#[test]
fn every_function_is_in_the_library() {
    let Some(library) = installed(&LOADED, "every_function_is_in_the_library") else { return };
    assert!(library.cuda_major().is_some_and(|major| (12..100).contains(&major)), "{library:?}");
    assert_eq!(library.describe(35), "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
    let sentence = |status| library.check("x", status).unwrap_err().to_string();
    assert!(sentence(35).contains("run as root"), "{}", sentence(35));
    assert!(sentence(39).contains("ncu"), "{}", sentence(39));
    assert!(sentence(8).contains("CUPTI_ERROR_OUT_OF_MEMORY"), "{}", sentence(8));
}

/// A mock of CUPTI. A flush returns a buffer with a kernel, a copy, a fill, a record of a kind that was not requested, a
/// kernel without times, the range of a call, and the call itself.
mod fake {
    use super::*;

    pub static ENABLED: AtomicU64 = AtomicU64::new(0);
    pub static RANGES: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    pub static REFUSED: AtomicU32 = AtomicU32::new(0);
    pub static BUFFERS: Mutex<Option<(Request, Complete)>> = Mutex::new(None);
    const AT: [usize; 7] = [0, 200, 288, 376, 384, 584, 608];
    const END: usize = 648;
    const NAME: &CStr = c"_Z4axpyPfS_f";

    pub fn library() -> Arc<Cupti> {
        let calls = ActivityCalls {
            version,
            result_string,
            timestamp,
            register,
            enable,
            disable,
            flush,
            next_record,
            dropped,
            push,
            pop,
            callback_name,
        };
        Arc::new(Cupti { calls, _file: None, path: "fake".into(), version: 130_000 })
    }

    unsafe extern "C" fn version(_: *mut u32) -> Status {
        0
    }
    unsafe extern "C" fn result_string(_: Status, text: *mut *const c_char) -> Status {
        // SAFETY: the caller passes a pointer to a live pointer.
        unsafe { text.write(c"CUPTI_ERROR_OF_A_TEST".as_ptr()) };
        0
    }
    unsafe extern "C" fn timestamp(now: *mut u64) -> Status {
        // SAFETY: the caller passes a pointer to a live integer.
        unsafe { now.write(1000) };
        0
    }
    unsafe extern "C" fn register(request: Request, complete: Complete) -> Status {
        *BUFFERS.lock().unwrap() = Some((request, complete));
        0
    }
    unsafe extern "C" fn enable(kind: u32) -> Status {
        if REFUSED.load(Ordering::SeqCst) == kind {
            return 39;
        }
        ENABLED.fetch_or(1_u64 << kind, Ordering::SeqCst);
        0
    }
    unsafe extern "C" fn disable(kind: u32) -> Status {
        ENABLED.fetch_and(!(1_u64 << kind), Ordering::SeqCst);
        0
    }
    unsafe extern "C" fn push(kind: u32, id: u64) -> Status {
        assert_eq!(kind, OWN_RANGES);
        RANGES.lock().unwrap().push(id);
        0
    }
    unsafe extern "C" fn pop(kind: u32, id: *mut u64) -> Status {
        assert_eq!(kind, OWN_RANGES);
        let Some(last) = RANGES.lock().unwrap().pop() else { return 22 };
        // SAFETY: the caller passes a pointer to a live integer.
        unsafe { id.write(last) };
        0
    }
    unsafe extern "C" fn callback_name(domain: u32, callback: u32, name: *mut *const c_char) -> Status {
        assert_eq!(domain, DRIVER_CALLS);
        // SAFETY: the caller passes a pointer to a live pointer.
        unsafe { name.write(if callback == 307 { c"cuLaunchKernel_v9".as_ptr() } else { std::ptr::null() }) };
        0
    }
    unsafe extern "C" fn dropped(_: *mut c_void, _: u32, count: *mut usize) -> Status {
        // SAFETY: the caller passes a pointer to a live integer.
        unsafe { count.write(2) };
        0
    }
    unsafe extern "C" fn next_record(buffer: *mut u8, valid: usize, record: *mut *mut u8) -> Status {
        // SAFETY: `flush` passes its own buffer, and `*record` is null or points to a record in this buffer.
        unsafe {
            let last = *record;
            let next = if last.is_null() { 0 } else { AT.iter().position(|a| buffer.add(*a) == last).unwrap() + 1 };
            let Some(at) = AT.get(next).filter(|a| **a < valid) else { return 12 };
            record.write(buffer.add(*at));
        }
        0
    }
    unsafe extern "C" fn flush(_: u32) -> Status {
        let (request, complete) = BUFFERS.lock().unwrap().unwrap();
        let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 0, 1);
        request(&raw mut buffer, &raw mut size, &raw mut most);
        assert!(!buffer.is_null() && buffer.addr().is_multiple_of(8) && size >= END && most == 0);
        let u32s =
            |at: usize, values: &[u32]| values.iter().enumerate().for_each(|(i, v)| write(buffer, at + 4 * i, *v));
        // SAFETY: the buffer has `size` bytes.
        unsafe { buffer.write_bytes(0, size) };
        for (at, times) in [(AT[0], [3000, 3500]), (AT[4], [0, 0])] {
            u32s(at, &[CONCURRENT_KERNEL]);
            write(buffer, at + 6, 42u16);
            times.into_iter().enumerate().for_each(|(i, t)| write::<u64>(buffer, at + 16 + 8 * i, t));
            u32s(at + 48, &[7, 10, 20, 30, 128, 2, 1, 512, 1024]);
            u32s(at + 92, &[99]);
            write(buffer, at + 104, NAME.as_ptr().addr());
            write(buffer, at + 144, 5_000_000_001u64);
            u32s(at + 156, &[3]);
        }
        for (at, head, bytes, start) in [(AT[1], [MEMCPY, 8], 4096u64, 2000u64), (AT[2], [MEMSET, 0], 64, 2500)] {
            u32s(at, &head);
            [bytes, start, start + 100].into_iter().enumerate().for_each(|(i, v)| write(buffer, at + 8 + 8 * i, v));
            u32s(at + 40, &[8, 98]);
        }
        u32s(AT[3], &[5]);
        u32s(AT[5], &[EXTERNAL_CORRELATION, OWN_RANGES, 17, 0, 99]);
        u32s(AT[6], &[DRIVER, 307]);
        [1200u64, 1250].into_iter().enumerate().for_each(|(i, t)| write(buffer, AT[6] + 8 + 8 * i, t));
        u32s(AT[6] + 24, &[1, 4321, 99]);
        complete(std::ptr::null_mut(), 0, buffer, size, END);
        0
    }
    fn write<T>(buffer: *mut u8, at: usize, value: T) {
        // SAFETY: `flush` passes only offsets that lie within the buffer and are aligned for T.
        unsafe { buffer.add(at).cast::<T>().write(value) };
    }
}

#[test]
fn records_are_read_and_kinds_disabled_again() {
    let session = Session::start(fake::library(), false).unwrap();
    assert_eq!(fake::ENABLED.load(Ordering::SeqCst), 1 << CONCURRENT_KERNEL | 1 << MEMCPY | 1 << MEMSET, "no calls");
    let second = Session::start(fake::library(), false).unwrap_err().to_string();
    assert!(second.contains("another recorder is active"), "{second}");
    let recorded = session.take().unwrap();
    assert_eq!(recorded.lost, 3, "two that were dropped, and one without times");
    let told: Vec<_> = recorded
        .activities
        .iter()
        .map(|a| (a.name.as_str(), a.start_ns, a.duration_ns, a.stream, a.correlation))
        .collect();
    let expect = [("copy on the device", 1000, 100, 8, 98), ("fill", 1500, 100, 8, 98), ("axpy", 2000, 500, 7, 99)];
    assert_eq!(told, expect, "in the order of their starts, from the recorder's start");
    let kernel = &recorded.activities[2];
    assert_eq!(kernel.graph, Some((3, 5_000_000_001)));
    let shape = ActivityKind::Kernel { grid: [10, 20, 30], block: [128, 2, 1], registers: 42, shared_bytes: 1536 };
    assert_eq!(kernel.kind, shape);
    assert_eq!(recorded.activities[0].kind, ActivityKind::Copy { bytes: 4096 });
    let call = Call { name: "cuLaunchKernel".into(), start_ns: 200, duration_ns: 50, thread: 4321, correlation: 99 };
    assert_eq!(recorded.calls, [call], "by its name without its version");
    assert_eq!(recorded.ranges, BTreeMap::from([(99, 17)]));
    assert_eq!(session.now_ns().unwrap(), 0, "the clock of this library does not move");
    drop(session);
    assert_eq!(fake::ENABLED.load(Ordering::SeqCst), 0, "dropping disables");

    let calling = Session::start(fake::library(), true).unwrap();
    assert_eq!(
        fake::ENABLED.load(Ordering::SeqCst),
        1 << CONCURRENT_KERNEL | 1 << MEMCPY | 1 << MEMSET | 1 << DRIVER | 1 << EXTERNAL_CORRELATION
    );
    calling.push(5).unwrap();
    calling.push(6).unwrap();
    assert!(calling.pop());
    assert_eq!(*fake::RANGES.lock().unwrap(), [5]);
    drop(calling);
    assert!(fake::RANGES.lock().unwrap().is_empty(), "what was not left");
    assert_eq!(fake::ENABLED.load(Ordering::SeqCst), 0, "calls too");

    // No record from the last flush appears in the next session, and a session that fails to start leaves no kind of
    // activity enabled.
    fake::REFUSED.store(MEMCPY, Ordering::SeqCst);
    let refused = Session::start(fake::library(), false).unwrap_err().to_string();
    assert!(refused.contains("compute-sanitizer"), "{refused}");
    assert_eq!(fake::ENABLED.load(Ordering::SeqCst), 0);
    fake::REFUSED.store(0, Ordering::SeqCst);
    let again = Session::start(fake::library(), false).unwrap();
    assert_eq!(again.take().unwrap().activities.len(), 3);
}
