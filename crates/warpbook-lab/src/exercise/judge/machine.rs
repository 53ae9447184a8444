//! The emulated GPU on which a learner's attempt runs.

use crate::exercise::case::{Case, Role, Values};
use warpbook_emulator::{Argument, Cause, Fault, Gpu, Kernel, Launch, Module, Order, Refusal, Touched, Verdict};

/// Number of thread instructions that a verdict may take, in all launches together.
pub(super) const MOST_THREAD_STEPS: u64 = 10_000_000;
/// Number of warp instructions after which a launch is assumed to loop forever, even if few of its threads are active.
const BUDGET: u64 = 1_000_000;

/// An emulated GPU with a kernel. Its module variables keep their values from launch to launch.
pub(super) struct Machine {
    gpu: Gpu,
    kernel: Kernel,
    /// Number of thread instructions that are left for further launches.
    pub(super) left: u64,
}

/// The reason why a kernel cannot be launched.
pub(super) enum Unusable {
    /// The source has no kernel with the required name, but has kernels with these names.
    NoEntry(Vec<String>),
    /// The emulator does not support the kernel.
    Refused(Box<Refusal>),
    /// The module's variables do not fit into memory.
    TooLarge(Fault),
}

/// The results of a launch that ended.
pub(super) struct Ran {
    pub(super) verdict: Verdict,
    /// For each argument, the elements of the array after the launch; `None` for a scalar.
    pub(super) after: Vec<Option<Values>>,
    /// For each argument, the threads that accessed the array; `None` for a scalar.
    pub(super) touched: Vec<Option<Touched>>,
}

impl Machine {
    /// Loads PTX into an empty GPU, whose launches may take `left` thread instructions together.
    pub(super) fn new(ptx: &str, entry: &str, left: u64) -> Result<Self, Unusable> {
        let module = Module::parse(ptx).map_err(|refusal| Unusable::Refused(Box::new(refusal)))?;
        if !module.entries().any(|name| name == entry) {
            return Err(Unusable::NoEntry(module.entries().map(str::to_owned).collect()));
        }
        let mut gpu = Gpu::new();
        let loaded = gpu.load(&module).map_err(Unusable::TooLarge)?;
        let kernel = loaded.kernel(entry).map_err(|refusal| Unusable::Refused(Box::new(refusal)))?;
        Ok(Self { gpu, kernel, left })
    }

    /// Runs a case with all checks enabled. A launch that takes more instructions than are left is assumed to loop forever. Every array is new, so nothing remains from an earlier launch. Outputs are NaN and marked as unwritten, and there
    /// are red zones between arrays.
    pub(super) fn run(&mut self, case: &Case, order: Order) -> Result<Ran, Fault> {
        let mut addresses = Vec::new();
        let ran = self.run_at(case, order, &mut addresses);
        addresses.into_iter().flatten().for_each(|address| self.gpu.free(address));
        ran
    }

    fn run_at(&mut self, case: &Case, order: Order, addresses: &mut Vec<Option<u64>>) -> Result<Ran, Fault> {
        let arguments = case.arguments();
        let mut values = Vec::new();
        for argument in arguments {
            let array = argument.role.array();
            let address = match array {
                Some(array) => Some(self.gpu.allocate(4 * array.len().max(1) as u64)?),
                None => None,
            };
            addresses.push(address);
            if let (Some(address), Some(before)) = (address, argument.role.before()) {
                self.gpu.write(address, &before.bytes())?;
            }
            values.push(match (&argument.role, address) {
                (_, Some(address)) => Argument::U64(address),
                (Role::Float(value), _) => Argument::F32(*value),
                (Role::Unsigned(value), _) => Argument::U32(*value),
                (Role::Int(value), _) => Argument::U32(value.cast_unsigned()),
                // This case cannot occur: all other roles are arrays.
                _ => Argument::U64(0),
            });
        }
        let size = |role: &Role| role.array().map_or(0, Values::len);
        let arrays = arguments.iter().zip(addresses.iter());
        let buffers: Vec<(u64, usize)> = arrays.filter_map(|(a, at)| Some(((*at)?, size(&a.role)))).collect();
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name).collect();
        let kernel = self.kernel.clone().with_argument_names(&names);
        let launch = Launch {
            grid: case.grid(),
            block: case.block(),
            dynamic_shared: case.dynamic_shared_bytes().into(),
            order,
            budget: BUDGET,
            thread_budget: self.left,
            ..Launch::new(1, 1)
        };
        let (verdict, touched) = self.gpu.launch_recorded(&kernel, &launch, &values, &buffers)?;
        self.left -= verdict.report.thread_steps;
        let mut touched = touched.into_iter();
        let touched = addresses.iter().map(|address| address.and_then(|_| touched.next())).collect();
        let mut after = Vec::new();
        for (argument, address) in arguments.iter().zip(&*addresses) {
            after.push(match (argument.role.array(), address) {
                (Some(array), Some(address)) => {
                    let mut bytes = vec![0; 4 * array.len()];
                    self.gpu.read(*address, &mut bytes)?;
                    Some(array.with_bytes(&bytes))
                }
                _ => None,
            });
        }
        Ok(Ran { verdict, after, touched })
    }
}

/// Returns true if a launch was refused because the parameters of the kernel are not those in the task.
pub(super) fn is_about_parameters(fault: &Fault) -> bool {
    fault.cause == Cause::Launch && fault.message.contains("rgument")
}
