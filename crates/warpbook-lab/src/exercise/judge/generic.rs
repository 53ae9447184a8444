//! Causes of wrong values that are tested in every exercise.

use crate::exercise::causes::{Mistake, Wrong};

/// The first launch of the kernel is right, and a later one is wrong.
pub(super) const LATER_LAUNCH: (&str, &str) = (
    "later_launch",
    "On a new GPU this launch is right, but after other launches it is not: the kernel keeps something from launch to launch, such as a `__device__` variable.",
);
/// The kernel is right at smaller sizes, and wrong at this one.
pub(super) const FIXED_SIZE: (&str, &str) = (
    "fixed_size",
    "The sizes before this one are right. Look for a number that should be a parameter, and for what happens only at this size.",
);
/// The result is right, but its bits depend on the order of blocks and warps.
pub(super) const ORDER_NOT_FIXED: (&str, &str) = (
    "order_not_fixed",
    "Two runs with the same inputs gave different bits: the order in which numbers are added depends on which block or warp comes first.",
);
/// The kernel wrote into an array that it should only read.
pub(super) const INPUT_CHANGED: (&str, &str) =
    ("input_changed", "The kernel wrote into an array that it should only read.");
/// The source has no kernel with the name of the task.
pub(super) const NO_SUCH_KERNEL: &str = "no_such_kernel";
/// The parameters of the kernel are not those in the task.
pub(super) const OTHER_PARAMETERS: (&str, &str) = (
    "other_parameters",
    "The launch passes the arguments of the task: keep its signature, with the types and the order of its parameters.",
);

fn wrong_ones(wrong: &Wrong) -> impl Iterator<Item = usize> + Clone {
    (0..wrong.got().len()).filter(|i| wrong.is_wrong(*i))
}

/// Returns true if the array equals the beginning of one of the inputs.
fn is_copy(wrong: &Wrong) -> bool {
    let inputs = wrong.case().arguments().iter().filter(|argument| argument.role.before().is_some());
    inputs.map(|argument| wrong.input(argument.name)).any(|input| {
        let is_as_long = input.len() >= wrong.got().len() && wrong.got().len() > 1;
        // If both arrays are zero, this does not show a copy.
        is_as_long && input.iter().any(|v| *v != 0.0) && wrong.got().iter().zip(&input).all(|(got, input)| got == input)
    })
}

/// Tested in this order, after the mistakes of the exercise.
pub(super) const MISTAKES: [Mistake; 5] = [
    Mistake::new("nothing_written", "No thread has written anything into this array.", |wrong| {
        wrong.written_only(|_| false)
    }),
    Mistake::new(
        "nan",
        "Some elements are NaN: 0 / 0, the root of a negative number, or a value computed from a NaN.",
        |wrong| {
            wrong_ones(wrong).any(|i| wrong.is_written(i) && wrong.got()[i].is_nan() && !wrong.expected()[i].is_nan())
        },
    ),
    Mistake::new("zeros", "All elements are 0.", |wrong| wrong.got().iter().all(|got| *got == 0.0)),
    Mistake::new("copy", "The output equals an input: its elements were copied, or not changed at all.", is_copy),
    Mistake::new(
        "some_not_written",
        "All elements that were written are right, but no thread has written the others.",
        |wrong| wrong_ones(wrong).all(|i| !wrong.is_written(i)),
    ),
];
