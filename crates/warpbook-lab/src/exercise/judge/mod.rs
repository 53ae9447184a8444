//! The judge of kernels: runs a learner's attempt in the emulator, compares its results with the reference, and counts its events.

mod compile;
mod generic;
mod gpu_launch;
mod habits;
mod in_turn;
mod layout;
mod machine;
#[cfg(test)]
mod tests;

pub(crate) use compile::code;
pub(super) use compile::{compile, spec};
pub(super) use gpu_launch::wrong_on_gpu;
pub(super) use habits::hint;
pub(super) use in_turn::time_on_gpu;

use super::case::{Case, Role, Values};
use super::causes::{Mistake, Wrong};
use super::definition::KernelTask;
use super::draw::Draw;
use super::picture::Picture;
use super::targets::{Bound, Costs, Target};
use machine::{MOST_THREAD_STEPS, Machine, Ran, Unusable, is_about_parameters};
use warpbook_device::recorded_verdict;
use warpbook_emulator::{Cause, Fault, Order};
use warpbook_record::{Emulated, Finding, TargetCount};

/// The likely cause if an attempt is wrong or misses a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikelyCause {
    /// Id, such as "race", "zeros" or "`no_block_index`"; "off target" if a target is missed for no known reason.
    pub id: String,
    /// Explains the cause to the learner in one sentence.
    pub sentence: String,
}

impl LikelyCause {
    fn new((id, sentence): (&str, &str)) -> Self {
        Self { id: id.into(), sentence: sentence.into() }
    }
}

/// The first wrong element of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongElement {
    /// Name of the case, such as "n = 1000".
    pub case: String,
    /// Name of the kernel's argument that holds the array.
    pub array: String,
    /// Index of the element in the array, from 0.
    pub index: usize,
    /// Value of the element, as text.
    pub got: String,
    /// Expected value, as text.
    pub expected: String,
    /// The thread that wrote the element last, such as "block (1, 0, 0), thread (3, 0, 0)"; `None` if no thread did.
    pub writer: Option<String>,
    /// Number of wrong elements, and total number of elements.
    pub count: (usize, usize),
}

/// The judge's findings about an attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    pub(super) is_right: bool,
    /// Describes the error in one line; empty if there is none.
    pub(super) sentence: String,
    pub(super) cause: Option<LikelyCause>,
    pub(super) wrong: Option<WrongElement>,
    pub(super) targets: Vec<TargetCount>,
    /// The case whose costs were counted.
    pub(super) counted: Option<String>,
    /// The source line with the most wasteful accesses to memory, if a target is missed because of them.
    pub(super) worst_line: Option<u32>,
    pub(super) emulated: Emulated,
    pub(super) printed: String,
    pub(super) picture: Option<Picture>,
    /// Number of thread instructions in all launches that ended.
    pub(super) thread_steps: u64,
}

/// One launch at a size: the index of the input (0 or 1), and the order in which blocks and warps run.
type Turn = (u32, Order);

/// The launches at every size, which alternate between two inputs.
const TURNS: [Turn; 3] = [(0, Order::Forwards), (1, Order::Backwards), (0, Order::Random(0x5eed))];
/// An additional launch for kernels that must give the same bits in every order.
const ONE_MORE: Turn = (0, Order::Backwards);

/// Judges a kernel in PTX: runs it at every size and compares its results with the reference.
pub(super) fn judge(task: &KernelTask, ptx: &str, seed: u64) -> Judged {
    let mut judged = Judged::default();
    let mut machine = match Machine::new(ptx, task.entry, MOST_THREAD_STEPS) {
        Ok(machine) => machine,
        Err(unusable) => return unusable_kernel(task, unusable),
    };
    for (at, size) in (0u32..).zip(task.sizes) {
        let case = |input: u32| (task.case)(*size, &mut Draw::new(seed, 2 * at + input));
        let inputs = [case(0), case(1)];
        let mut first: Option<Ran> = None;
        let turns = TURNS.into_iter().chain(inputs[0].needs_same_bits().then_some(ONE_MORE));
        for (input, order) in turns {
            let case = &inputs[input as usize];
            let ran = match machine.run(case, order) {
                Ok(ran) => ran,
                Err(fault) => return of_fault(task, case, &fault, judged),
            };
            judged.thread_steps = MOST_THREAD_STEPS - machine.left;
            if judged.printed.is_empty() {
                judged.printed.clone_from(&ran.verdict.report.printed);
            }
            if let Some(wrong) = first_wrong(case, &ran) {
                let is_new = at == 0 && first.is_none();
                let is_later = !is_new && is_right_alone(ptx, task, case, (order, machine.left));
                return of_wrong(task, &wrong, &ran, (at, is_later), judged);
            }
            if let Some(name) = changed_input(case, &ran) {
                let sentence = format!("At {}, `{name}` has other elements than before the launch.", case.name());
                let cause = Some(LikelyCause::new(generic::INPUT_CHANGED));
                return Judged { sentence, cause, ..judged };
            }
            match &first {
                Some(first) if input == 0 && case.needs_same_bits() && !same_bits(case, first, &ran) => {
                    let sentence =
                        format!("At {}, the bits of the result depend on the order of blocks and warps.", case.name());
                    let cause = Some(LikelyCause::new(generic::ORDER_NOT_FIXED));
                    return Judged { sentence, cause, ..judged };
                }
                Some(_) => {}
                None => first = Some(ran),
            }
        }
        let (Some(ran), [case, _]) = (first, &inputs) else { continue };
        if judged.picture.is_none() {
            judged.picture = output(case).and_then(|array| picture(case, &ran, array));
        }
        if at as usize + 1 == task.sizes.len() {
            count(task, case, &ran, &mut judged);
        }
    }
    judged.is_right = true;
    judged
}

fn unusable_kernel(task: &KernelTask, unusable: Unusable) -> Judged {
    let (sentence, id, advice) = match unusable {
        Unusable::NoEntry(known) => {
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            let advice = format!("Keep the first line of the task: `{}`.", task.signature);
            let sentence = format!("The source has no kernel `{}`; it has {known}.", task.entry);
            (sentence, generic::NO_SUCH_KERNEL, advice)
        }
        Unusable::Refused(refusal) => {
            let advice = "The emulator, which judges exercises, does not know this instruction. No exercise needs it.";
            (refusal.to_string(), "unsupported", advice.into())
        }
        Unusable::TooLarge(fault) => {
            (fault.to_string(), fault.cause.id(), "Its variables are larger than the emulated GPU's memory.".into())
        }
    };
    Judged { sentence, cause: Some(LikelyCause { id: id.into(), sentence: advice }), ..Judged::default() }
}

fn of_fault(task: &KernelTask, case: &Case, fault: &Fault, judged: Judged) -> Judged {
    let id = fault.cause.id();
    let known = task.faults.iter().find(|(of, _)| *of == id);
    let cause = match known {
        _ if is_about_parameters(fault) => LikelyCause::new(generic::OTHER_PARAMETERS),
        Some(known) => LikelyCause::new(*known),
        None => LikelyCause::new((id, usual_meaning(&fault.cause))),
    };
    // For an inlined function, report the line that calls it.
    let place = fault.position.as_ref().map(|at| at.inlined_at.clone().unwrap_or_else(|| (at.file.clone(), at.line)));
    let (file, line) = place.map(|(file, line)| (file.to_string(), line)).unzip();
    let finding = Some(Finding { cause: id.into(), message: fault.to_string(), file, line });
    let emulated = Emulated { finding, ..judged.emulated };
    let sentence = format!("At {}: {fault}", case.name());
    Judged { sentence, cause: Some(cause), emulated, ..judged }
}

/// Returns the general meaning of a fault, for exercises that do not explain the fault themselves.
fn usual_meaning(cause: &Cause) -> &'static str {
    match cause {
        Cause::OutOfBounds => {
            "A thread touches memory outside of the array: is there a guard for threads without an element?"
        }
        Cause::Misaligned => "An address is not a multiple of the size that is read or written there.",
        Cause::Unwritten => "A value is used that nobody has written.",
        Cause::Race => "Two threads touch the same place, one of them writes, and nothing orders them.",
        Cause::Barrier => "Not all threads of the block arrive at the same barrier.",
        Cause::Endless => "The kernel does not come to an end.",
        Cause::Trap => "The kernel stopped itself.",
        Cause::Launch => "The kernel cannot be launched like this.",
        Cause::Unsupported => "The emulator cannot do this.",
    }
}

/// Returns the values of the first array that has a wrong element; `None` if all arrays are right.
fn first_wrong<'a>(case: &'a Case, ran: &Ran) -> Option<Wrong<'a>> {
    let mut arrays = case.arguments().iter().zip(&ran.after).zip(&ran.touched);
    arrays.find_map(|((argument, after), touched)| {
        let ((expected, tolerance), after, touched) = (argument.role.expected()?, after.as_ref()?, touched.as_ref()?);
        let (got, expected) = (after.numbers(), expected.numbers());
        let written = (0..got.len()).map(|i| touched.writer(i).is_some()).collect();
        let wrong = Wrong { case, array: argument.name, got, expected, tolerance, written };
        (wrong.count() > 0).then_some(wrong)
    })
}

/// Returns true if a launch is right on a GPU that has run nothing before, within the thread instructions that are left.
fn is_right_alone(ptx: &str, task: &KernelTask, case: &Case, (order, left): (Order, u64)) -> bool {
    let ran = Machine::new(ptx, task.entry, left).ok().and_then(|mut machine| machine.run(case, order).ok());
    ran.is_some_and(|ran| first_wrong(case, &ran).is_none())
}

fn of_wrong(task: &KernelTask, wrong: &Wrong, ran: &Ran, (at, is_later): (u32, bool), judged: Judged) -> Judged {
    let holds = |mistake: &&Mistake| (mistake.holds)(wrong);
    let named = |mistake: &Mistake| (mistake.id, mistake.sentence);
    let cause = match is_later {
        true => Some(generic::LATER_LAUNCH),
        false => (task.mistakes.iter().find(holds).map(named))
            .or_else(|| (at > 0).then_some(generic::FIXED_SIZE))
            .or_else(|| generic::MISTAKES.iter().find(holds).map(named)),
    };
    let element = wrong_element(wrong, ran);
    let WrongElement { case, array, index, got, expected, writer, count: (count, all) } = &element;
    let who = match writer {
        Some(writer) => format!("{writer} wrote it"),
        None if got == "NaN" => "no thread wrote it, and outputs begin as NaN".into(),
        None => "no thread wrote it".into(),
    };
    let many = if *all == 1 { String::new() } else { format!(" {count} of {all} elements are wrong.") };
    let sentence = format!("At {case}, `{array}[{index}]` is {got} and should be {expected}; {who}.{many}");
    let picture = picture(wrong.case, ran, wrong.array);
    Judged { sentence, cause: cause.map(LikelyCause::new), wrong: Some(element), picture, ..judged }
}

/// Returns the index of an argument by its name.
fn argument_index(case: &Case, array: &str) -> Option<usize> {
    case.arguments().iter().position(|argument| argument.name == array)
}

fn wrong_element(wrong: &Wrong, ran: &Ran) -> WrongElement {
    let index = wrong.first();
    let at = argument_index(wrong.case, wrong.array);
    let after = at.and_then(|at| ran.after[at].as_ref());
    let expected = wrong.case.argument(wrong.array).and_then(Role::expected);
    let touched = at.and_then(|at| ran.touched[at].as_ref());
    WrongElement {
        case: wrong.case.name().into(),
        array: wrong.array.into(),
        index,
        got: after.map_or_else(String::new, |values| element(values, index)),
        expected: expected.map_or_else(String::new, |(values, _)| element(values, index)),
        writer: touched.and_then(|touched| touched.writer(index)).map(|thread| thread.to_string()),
        count: (wrong.count(), wrong.got.len()),
    }
}

/// Formats an element with as few digits as its type needs.
fn element(values: &Values, index: usize) -> String {
    match values {
        Values::F32(all) => all.get(index).map(ToString::to_string),
        Values::I32(all) => all.get(index).map(ToString::to_string),
        Values::U32(all) => all.get(index).map(ToString::to_string),
    }
    .unwrap_or_default()
}

/// Returns the name of the first array that is compared with the reference.
fn output(case: &Case) -> Option<&'static str> {
    case.arguments().iter().find(|argument| argument.role.expected().is_some()).map(|argument| argument.name)
}

fn picture(case: &Case, ran: &Ran, array: &str) -> Option<Picture> {
    let at = argument_index(case, array)?;
    let (expected, tolerance) = case.arguments()[at].role.expected()?;
    let (after, expected) = (ran.after[at].as_ref()?.numbers(), expected.numbers());
    let is_right = after.iter().zip(&expected).map(|(got, expected)| tolerance.holds(*got, *expected)).collect();
    Some(Picture::new(case, array, is_right, ran.touched[at].as_ref()?).with_reads(case, &ran.touched))
}

/// Returns the name of an input that the launch changed.
fn changed_input(case: &Case, ran: &Ran) -> Option<&'static str> {
    let mut arrays = case.arguments().iter().zip(&ran.after);
    let found = arrays.find(|(argument, after)| match (&argument.role, after) {
        (Role::Input(before), Some(after)) => before.bytes() != after.bytes(),
        _ => false,
    });
    found.map(|(argument, _)| argument.name)
}

fn same_bits(case: &Case, first: &Ran, other: &Ran) -> bool {
    let mut compared = case.arguments().iter().zip(first.after.iter().zip(&other.after));
    compared.all(|(argument, (first, other))| {
        argument.role.expected().is_none() || first.as_ref().map(Values::bytes) == other.as_ref().map(Values::bytes)
    })
}

/// Counts what the launch cost, and compares it with the targets.
fn count(task: &KernelTask, case: &Case, ran: &Ran, judged: &mut Judged) {
    let costs = Costs::new(case, &ran.verdict.counts);
    let measured = |target: &Target| {
        let count = (target.measure)(&costs);
        let (bound, is_most) = match target.bound {
            Bound::AtMost(most) => (most, true),
            Bound::AtLeast(least) => (least, false),
        };
        let is_met = target.is_met(count);
        TargetCount { name: target.name.into(), count: count.is_finite().then_some(count), bound, is_most, is_met }
    };
    judged.targets = task.targets.iter().map(measured).collect();
    let missed = || task.targets.iter().zip(&judged.targets).filter(|(_, count)| !count.is_met).map(|(t, _)| t);
    let other =
        ("off target", "The answer is right, but it costs more than the target allows: the table says on which line.");
    let cause = missed().next().map(|target| LikelyCause::new(target.missed.unwrap_or(other)));
    judged.worst_line = layout::worst_line(missed(), case, &ran.verdict.counts);
    judged.cause = cause;
    judged.counted = Some(case.name().into());
    let orders = ["forwards", "backwards", "random"].map(str::to_owned).to_vec();
    judged.emulated = Emulated { orders, ..recorded_verdict(ran.verdict.clone()) };
}
