//! Names of buffers in messages. A buffer is named after the argument that has its address, or after the module's variable.

use super::launch::Argument;
use crate::Kernel;

/// The address and the name of each buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Vec<(u64, String)>);

impl Names {
    pub(crate) fn new(kernel: &Kernel, arguments: &[Argument]) -> Self {
        let mut all = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let number = index + 1;
            let name = match kernel.argument_names.get(index) {
                Some(name) => format!("argument {number} (`{name}`)"),
                None => format!("argument {number}"),
            };
            // A structure may contain several addresses.
            let words = argument.bytes();
            let (words, _) = words.as_chunks::<8>();
            all.extend(words.iter().map(|word| (u64::from_le_bytes(*word), name.clone())));
        }
        all.extend(kernel.variables.iter().map(|(address, name)| (*address, format!("the variable `{name}`"))));
        Self(all)
    }

    /// Returns the name of the buffer that begins at an address.
    pub(crate) fn find(&self, start: u64) -> Option<&str> {
        self.0.iter().find(|(address, _)| *address == start).map(|(_, name)| name.as_str())
    }
}
