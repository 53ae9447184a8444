//! The definition of an exercise: plain data, with functions that draw its inputs and compute its reference.

use super::case::{Case, Size};
use super::causes::Mistake;
use super::draw::Draw;
use super::targets::Target;

/// An exercise. Its texts (task, stub, hints, solution) are files in its folder, which are read when they are asked for.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Id, such as "E05", which is never given to another exercise.
    pub id: &'static str,
    /// Name of its folder below `notebooks/exercises`, such as "E05_saxpy".
    pub folder: &'static str,
    /// Lesson that it belongs to, such as "`00_hello_gpu`".
    pub lesson: &'static str,
    /// Title, such as "SAXPY, and its bytes".
    pub title: &'static str,
    /// The task.
    pub task: Task,
}

/// The task of an exercise.
#[derive(Debug, Clone)]
pub enum Task {
    /// A kernel in CUDA C++.
    Kernel(KernelTask),
    /// Answers to questions.
    Answers(&'static [Question]),
    /// A Rust function, in the notebook only.
    Function(FunctionTask),
}

/// An exercise that asks for a kernel.
#[derive(Debug, Clone)]
pub struct KernelTask {
    /// The kernel's name.
    pub entry: &'static str,
    /// The whole signature in CUDA C++, such as "`__global__ void saxpy(const float* x, float* y, float a, int n)`".
    pub signature: &'static str,
    /// Sizes, each of which is launched several times with new inputs: some of them odd. Targets are counted at the last one, the largest.
    pub sizes: &'static [Size],
    /// Draws the inputs of a size and computes the reference on the host.
    pub case: fn(Size, &mut Draw) -> Case,
    /// Bounds on counts. All of them have to be met for RIGHT AND ON TARGET; an exercise without a target ends at RIGHT.
    pub targets: &'static [Target],
    /// A target in time, a second star on a GPU.
    pub time: Option<TimeTarget>,
    /// Likely causes of wrong values; the first that holds is shown. The engine recognises these by itself, after those of the exercise:
    /// `nothing_written`, `some_not_written`, `nan`, `zeros`, `copy` (of an input), `fixed_size` (right at some sizes only); and before them
    /// `later_launch` (right on a GPU that has not run the kernel before, and wrong afterwards).
    pub mistakes: &'static [Mistake],
    /// Likeliest meanings of the emulator's faults in this exercise: id of the fault (`out_of_bounds`, `misaligned`, `unwritten`, `race`,
    /// `barrier`, `endless`), and a sentence.
    pub faults: &'static [(&'static str, &'static str)],
}

/// A bound on the time of a large case, as the least share of a ceiling that is measured on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeTarget {
    /// Size of the case.
    pub size: Size,
    /// Bytes that have to move between GPU memory and the chip.
    pub bytes: u64,
    /// The ceiling.
    pub ceiling: Ceiling,
    /// Least share of the ceiling, such as 0.85.
    pub share: f64,
}

/// A bandwidth of GPU memory that is measured on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// Bandwidth of a copy.
    Copy,
    /// Bandwidth of reading.
    Read,
}

/// A question with one right answer.
#[derive(Debug, Clone)]
pub struct Question {
    /// The question.
    pub text: &'static str,
    /// Answers to choose from, as "a", "b" and so on; empty if a number is asked for.
    pub choices: &'static [&'static str],
    /// The right answer.
    pub right: Answer,
    /// Wrong answers that people give, each with a sentence that says why it is not right.
    pub causes: &'static [(&'static str, &'static str)],
    /// Why the right answer is right; shown once it is given.
    pub why: &'static str,
}

/// The right answer to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// A choice, by its letter.
    Choice(char),
    /// A number, and how far an answer may be from it.
    Number(f64, f64),
}

/// An exercise that asks for a Rust function from some lists of numbers to others.
#[derive(Debug, Clone)]
pub struct FunctionTask {
    /// The signature in Rust, as the learner writes it.
    pub signature: &'static str,
    /// Sizes, some of them odd.
    pub sizes: &'static [Size],
    /// Draws the arguments of a size and computes the reference.
    pub case: fn(Size, &mut Draw) -> FunctionCase,
}

/// One call of a learner's Rust function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCase {
    /// The sizes in words.
    pub name: String,
    /// Arguments.
    pub arguments: Vec<Vec<f64>>,
    /// The reference.
    pub expected: Vec<Vec<f64>>,
    /// Largest |got - expected|.
    pub tolerance: f64,
}
