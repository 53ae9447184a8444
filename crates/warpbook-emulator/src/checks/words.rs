//! Wording of messages: names of buffer elements and of source lines.

use crate::machine::{LOCAL_WINDOW, Moment, SHARED_WINDOW};
use crate::program::{Kernel, plain_name};

/// Names the element at a generic address in a message.
pub(super) fn element(address: u64, bytes: u64, moment: &Moment) -> String {
    if address & SHARED_WINDOW != 0 {
        let offset = address ^ SHARED_WINDOW;
        let dynamic = (moment.kernel.shared_bytes, String::new());
        let all = moment.kernel.shared.iter().chain([&dynamic]);
        let (start, name) = all.take_while(|(start, _)| *start <= offset).last().unwrap_or(&dynamic);
        let element = (offset - start) / bytes.max(1);
        return match plain_name(name) {
            "" => format!("element {element} of dynamic shared memory"),
            name => format!("element {element} of the shared variable `{name}`"),
        };
    }
    if address & LOCAL_WINDOW != 0 {
        return format!("offset {} of the thread's local memory", address ^ LOCAL_WINDOW);
    }
    match moment.memory.find(address) {
        Some(buffer) => {
            let name = moment.names.find(buffer.start).unwrap_or("a buffer");
            format!("element {} of {name}", (address - buffer.start) / bytes.max(1))
        }
        None => format!("address {address:#x}"),
    }
}

/// Names the source line of an instruction, or its PTX line if the source line is unknown. Names the file only if the message is reported for another file.
pub(super) fn line(kernel: &Kernel, at: u32, told_at: u32) -> String {
    let step = |at: u32| kernel.steps.get(at as usize);
    let Some(found) = step(at) else { return "an unknown line".into() };
    let told_in = step(told_at).and_then(|step| step.position.as_ref()).map(|position| &position.file);
    match &found.position {
        Some(position) if told_in == Some(&position.file) => format!("line {}", position.line),
        Some(position) => format!("line {} of {}", position.line, position.file),
        None => format!("line {} of the PTX", found.line),
    }
}
