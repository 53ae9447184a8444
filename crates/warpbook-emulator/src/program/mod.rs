//! From a module's tree to what the interpreter runs: calls are flattened, operands become rows of registers, branches know where their lanes meet again.

mod action;
mod decode;
mod decode_memory;
mod decode_warp;
mod flow;
mod functions;
mod rows;
mod supported;

pub(crate) use action::{
    Access, Action, Barrier, BarrierKind, Collective, CollectiveKind, Comparison, NONE, Reduction, Row, Shuffle, Step,
    Strength, Update,
};
pub(crate) use rows::{Lane, RowKind, SPECIALS};
pub use supported::supported;

use crate::Refusal;
use crate::ptx::Module;
use functions::{Decoder, Parameter};

/// An entry of a module, ready to be launched.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    /// Initial contents of a warp's rows.
    pub(crate) rows: Vec<RowKind>,
    pub(crate) parameters: Vec<Parameter>,
    /// Size in bytes of the kernel's own shared memory; dynamic shared memory follows it.
    pub(crate) shared_bytes: u64,
    /// Size in bytes of a thread's local memory.
    pub(crate) frame_bytes: u64,
    /// The limit on a block's threads, from `.maxntid`.
    pub(crate) most_threads: u64,
    /// Addresses and names of the module's variables in global and constant memory.
    pub(crate) variables: Vec<(u64, String)>,
    /// Offsets and names of the variables in shared memory, in order.
    pub(crate) shared: Vec<(u64, String)>,
    /// The arguments' names in the source; empty if they are not known.
    pub(crate) argument_names: Vec<String>,
}

impl Kernel {
    /// Decodes an entry; `addresses` has the address of each of the module's variables.
    pub(crate) fn new(module: &Module, addresses: &[u64], name: &str) -> Result<Self, Refusal> {
        let Some(entry) = module.functions.iter().find(|f| f.is_entry && f.name == name) else {
            let known: Vec<&str> = module.entries().collect();
            return Err(Refusal::new((0, 0), format!("There is no entry `{name}`; there are {}.", known.join(", "))));
        };
        if let Some((name, _)) = entry.directives.iter().find(|(name, _)| name.contains("cluster")) {
            let message = format!("`{name}` is not supported: clusters need compute capability 9.0.");
            return Err(Refusal::new(entry.at, message));
        }
        let (decoder, parameters) = Decoder::entry(module, addresses, entry)?;
        let Decoder { mut steps, rows, frame_bytes, shared_bytes, shared, .. } = decoder;
        let mut shared: Vec<(u64, String)> =
            shared.into_iter().map(|((_, name), start)| (start, name.to_owned())).collect();
        shared.sort();
        flow::find_meeting_points(&mut steps);
        give_places(&mut steps);
        let maxntid = entry.directives.iter().find(|(name, _)| name == ".maxntid");
        let most_threads = maxntid.map_or(1024, |(_, sizes)| sizes.iter().fold(1, |a, b| u64::saturating_mul(a, *b)));
        let named = module.variables.iter().zip(addresses).filter(|(_, address)| **address != 0);
        Ok(Self {
            name: name.to_owned(),
            steps,
            rows,
            parameters,
            shared_bytes,
            frame_bytes,
            most_threads,
            variables: named.map(|(variable, address)| (*address, variable.name.clone())).collect(),
            shared,
            argument_names: Vec::new(),
        })
    }

    /// Returns the kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the names that messages give to the arguments.
    #[must_use]
    pub fn with_argument_names(self, names: &[&str]) -> Self {
        Self { argument_names: names.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// Returns true if a branch leads to itself, as in a loop that waits for a variable which was read once before it.
    pub(crate) fn waits_blindly(&self) -> bool {
        (0..).zip(&self.steps).any(|(at, step)| matches!(step.action, Action::Branch(target) if target == at))
    }

    /// Returns the number of instructions, including those of the functions that it calls.
    #[must_use]
    pub fn instructions(&self) -> usize {
        self.steps.len()
    }
}

/// Gives the instructions before a function's first place this place, because the compiler hoists loads there.
fn give_places(steps: &mut [Step]) {
    let mut next = None;
    for step in steps.iter_mut().rev() {
        match &step.place {
            Some(place) => next = Some(place.clone()),
            None => step.place.clone_from(&next),
        }
    }
}

/// Returns the last name in a mangled one, such as `tile` in `_ZZ1kE4tile`.
pub(crate) fn plain_name(mangled: &str) -> &str {
    let Some(rest) = mangled.strip_prefix("_Z") else { return mangled };
    let starts = rest.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| &rest[at..]);
    let mut names = starts.filter_map(|text| {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        text[digits..].get(..text[..digits].parse().ok()?)
    });
    names.next_back().unwrap_or(mangled)
}
