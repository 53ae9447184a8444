//! The definition of an exercise: plain data, with functions that draw its inputs and compute its reference.

use super::case::{Case, Size};
use super::causes::Mistake;
use super::draw::Draw;
use super::targets::Target;

/// An exercise. The texts (task, stub, hints, solution) are files in its folder, which are read when they are needed.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Id, such as "E05", which is never reused for another exercise.
    pub id: &'static str,
    /// Name of the exercise's folder in `notebooks/exercises`, such as "E05_saxpy".
    pub folder: &'static str,
    /// Id of the lesson that the exercise belongs to, such as "`00_hello_gpu`".
    pub lesson: &'static str,
    /// Title, such as "SAXPY, and its bytes".
    pub title: &'static str,
    /// The work that the learner has to do.
    pub task: Task,
}

/// The task of an exercise.
#[derive(Debug, Clone)]
pub enum Task {
    /// Write a kernel in CUDA C++.
    Kernel(KernelTask),
    /// Answer questions.
    Answers(&'static [Question]),
    /// Write a Rust function, only in a notebook.
    Function(FunctionTask),
}

/// An exercise that asks for a kernel.
#[derive(Debug, Clone)]
pub struct KernelTask {
    /// Name of the kernel in the source, such as "saxpy".
    pub entry: &'static str,
    /// The complete signature in CUDA C++, such as "`__global__ void saxpy(const float* x, float* y, float a, int n)`".
    pub signature: &'static str,
    /// Sizes to test, some of them odd. Each is launched several times with new inputs. Targets are checked at the last size, which is the largest.
    pub sizes: &'static [Size],
    /// Draws the inputs for a size and computes the reference on the host.
    pub case: fn(Size, &mut Draw) -> Case,
    /// Bounds on counts. All of them must be met for RIGHT AND ON TARGET. Without targets, the best verdict is RIGHT.
    pub targets: &'static [Target],
    /// A target for the time, which earns a second star on a GPU.
    pub time: Option<TimeTarget>,
    /// Likely causes of wrong values; the first one that matches is shown. After these, the engine tests for general causes: `nothing_written`,
    /// `some_not_written`, `nan`, `zeros`, `copy` (of an input), `fixed_size` (right at some sizes only). Before these, it tests for `later_launch` (right on a
    /// GPU that has not run the kernel before, and wrong afterwards).
    pub mistakes: &'static [Mistake],
    /// The most likely meanings of the emulator's faults in this exercise: the id of the fault (`out_of_bounds`, `misaligned`, `unwritten`, `race`, `barrier`,
    /// `endless`), and a sentence.
    pub faults: &'static [(&'static str, &'static str)],
}

/// A bound on the time of a large case, as a minimum share of a ceiling that is measured on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeTarget {
    /// Size of the case that is timed.
    pub size: Size,
    /// Minimum amount of work: bytes to move between GPU memory and the chip, or floating-point operations for [`Ceiling::MultiplyAdds`].
    pub work: u64,
    /// The measured rate to compare with.
    pub ceiling: Ceiling,
    /// Minimum share of the ceiling, such as 0.85.
    pub share: f64,
}

/// A rate that is measured on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// Bandwidth of a copy within GPU memory.
    Copy,
    /// Bandwidth of a kernel that only reads GPU memory.
    Read,
    /// Floating-point operations per second of a kernel that only multiplies and adds in fp32. A multiply-add counts as two.
    MultiplyAdds,
}

/// A question with one right answer.
#[derive(Debug, Clone)]
pub struct Question {
    /// The question as the learner reads it.
    pub text: &'static str,
    /// Answers to choose from, labelled "a", "b" and so on; empty if the answer is a number.
    pub choices: &'static [&'static str],
    /// The right answer to the question.
    pub right: Answer,
    /// Common wrong answers, each with a sentence that says why the answer is wrong.
    pub causes: &'static [(&'static str, &'static str)],
    /// Explains why the right answer is right; shown after the learner has given the right answer.
    pub why: &'static str,
}

/// The right answer to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// The letter of a choice.
    Choice(char),
    /// A number, and the largest permitted difference from it.
    Number(f64, f64),
}

/// An exercise that asks for a Rust function that maps lists of numbers to lists of numbers.
#[derive(Debug, Clone)]
pub struct FunctionTask {
    /// The signature in Rust, as the learner writes it.
    pub signature: &'static str,
    /// Sizes to test, some of them odd.
    pub sizes: &'static [Size],
    /// Draws the arguments for a size and computes the reference.
    pub case: fn(Size, &mut Draw) -> FunctionCase,
}

/// One call of a learner's Rust function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCase {
    /// Describes the sizes, such as "n = 1000".
    pub name: String,
    /// Lists of numbers that are passed to the function.
    pub arguments: Vec<Vec<f64>>,
    /// Expected lists of numbers.
    pub expected: Vec<Vec<f64>>,
    /// Largest permitted |got - expected|.
    pub tolerance: f64,
}
