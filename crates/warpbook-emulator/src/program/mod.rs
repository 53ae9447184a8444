//! Turns a module's syntax tree into a program for the interpreter: inlines calls, assigns operands to register rows, and finds where diverged lanes
//! reconverge.

mod action;
mod decode;
mod decode_memory;
mod decode_warp;
mod flow;
mod functions;
mod rows;
mod supported;

pub(crate) use action::{
    Access, Action, Barrier, BarrierKind, Collective, CollectiveKind, Comparison, NONE, Reduction, RowIndex, Shuffle,
    Step, Strength, Update,
};
pub(crate) use rows::{Lane, RowKind, SPECIALS};
pub use supported::supported;

use crate::Refusal;
use crate::ptx::Module;
use functions::{Decoder, Parameter};

/// An entry function of a module, ready to be launched.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    /// Initial contents of a warp's register rows.
    pub(crate) rows: Vec<RowKind>,
    pub(crate) parameters: Vec<Parameter>,
    /// Size in bytes of the kernel's static shared memory, which dynamic shared memory follows.
    pub(crate) shared_bytes: u64,
    /// Size in bytes of a thread's local memory.
    pub(crate) frame_bytes: u64,
    /// Maximum number of threads in a block, from `.maxntid`.
    pub(crate) most_threads: u64,
    /// Addresses and names of the module's variables in global and constant memory.
    pub(crate) variables: Vec<(u64, String)>,
    /// Offsets and names of the variables in shared memory, in ascending order.
    pub(crate) shared: Vec<(u64, String)>,
    /// Names of the arguments in the source; empty if they are unknown.
    pub(crate) argument_names: Vec<String>,
}

impl Kernel {
    /// Decodes an entry. `addresses` has the address of each variable of the module.
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

    /// Sets the names of the arguments for use in messages.
    #[must_use]
    pub fn with_argument_names(self, names: &[&str]) -> Self {
        Self { argument_names: names.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// Returns true if a branch jumps to itself. This happens if a loop waits for a variable that the compiler reads only once, before the loop.
    pub(crate) fn waits_blindly(&self) -> bool {
        (0..).zip(&self.steps).any(|(at, step)| matches!(step.action, Action::Branch(target) if target == at))
    }

    /// Returns the number of instructions, including the instructions of called functions.
    #[must_use]
    pub fn instructions(&self) -> usize {
        self.steps.len()
    }
}

/// Gives each instruction without a source position the position of the next instruction that has one. The compiler hoists loads above a function's first
/// line.
fn give_places(steps: &mut [Step]) {
    let mut next = None;
    for step in steps.iter_mut().rev() {
        match &step.position {
            Some(position) => next = Some(position.clone()),
            None => step.position.clone_from(&next),
        }
    }
}

/// Returns the last identifier in a mangled name, such as `tile` in `_ZZ1kE4tile`.
pub(crate) fn plain_name(mangled: &str) -> &str {
    let Some(rest) = mangled.strip_prefix("_Z") else { return mangled };
    let starts = rest.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| &rest[at..]);
    let mut names = starts.filter_map(|text| {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        text[digits..].get(..text[..digits].parse().ok()?)
    });
    names.next_back().unwrap_or(mangled)
}
