//! One launch of an exercise: its arguments, its shape, and the expected results.

/// Sizes of a case along up to three axes; axes that an exercise does not use are 1.
pub type Size = [u32; 3];

/// Elements of an array, of one of the supported types.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Elements of type `float`.
    F32(Vec<f32>),
    /// Elements of type `int`.
    I32(Vec<i32>),
    /// Elements of type `unsigned int`.
    U32(Vec<u32>),
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Self::F32(values)
    }
}

impl From<Vec<i32>> for Values {
    fn from(values: Vec<i32>) -> Self {
        Self::I32(values)
    }
}

impl From<Vec<u32>> for Values {
    fn from(values: Vec<u32>) -> Self {
        Self::U32(values)
    }
}

impl Values {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(all) => all.len(),
            Self::I32(all) => all.len(),
            Self::U32(all) => all.len(),
        }
    }

    /// Returns true if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements in double precision, which represents all of these types exactly.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            Self::F32(all) => all.iter().map(|v| f64::from(*v)).collect(),
            Self::I32(all) => all.iter().map(|v| f64::from(*v)).collect(),
            Self::U32(all) => all.iter().map(|v| f64::from(*v)).collect(),
        }
    }

    /// Returns the bytes of the elements as they are on a GPU, 4 bytes per element.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::F32(all) => all.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::I32(all) => all.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::U32(all) => all.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    /// Returns elements of the same type, made from these bytes.
    #[must_use]
    pub fn with_bytes(&self, bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        match self {
            Self::F32(_) => Self::F32(words.iter().map(|w| f32::from_le_bytes(*w)).collect()),
            Self::I32(_) => Self::I32(words.iter().map(|w| i32::from_le_bytes(*w)).collect()),
            Self::U32(_) => Self::U32(words.iter().map(|w| u32::from_le_bytes(*w)).collect()),
        }
    }
}

/// The permitted difference between a result and the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// The results must have the same bits as the reference.
    Exact,
    /// |got - expected| is at most `relative` * max(|expected|, `scale`). NaN fails.
    Within {
        /// Largest permitted relative error.
        relative: f64,
        /// Lower limit of the magnitude that the error is divided by.
        scale: f64,
    },
}

impl Tolerance {
    pub(crate) fn holds(&self, got: f64, expected: f64) -> bool {
        match *self {
            Self::Exact => got.to_bits() == expected.to_bits(),
            Self::Within { relative, scale } => (got - expected).abs() <= relative * expected.abs().max(scale),
        }
    }
}

/// The role of a kernel's argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// An array that the kernel reads. It must not change.
    Input(Values),
    /// An array that the kernel writes. Before each launch it is filled with NaN and marked as unwritten.
    Output {
        /// The reference, computed on the host; it is never copied to the device.
        expected: Values,
        /// Permitted difference from the reference.
        tolerance: Tolerance,
    },
    /// An array that the kernel reads and writes.
    Update {
        /// Elements before the launch.
        before: Values,
        /// The reference, computed on the host; it is never copied to the device.
        expected: Values,
        /// Permitted difference from the reference.
        tolerance: Tolerance,
    },
    /// An array for intermediate results, which is not compared. Before each launch it is filled with NaN and marked as unwritten.
    Scratch(Values),
    /// A scalar of type `int`.
    Int(i32),
    /// A scalar of type `unsigned int`.
    Unsigned(u32),
    /// A scalar of type `float`.
    Float(f32),
}

/// An argument of a kernel: its name in the signature, and its role.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseArgument {
    /// Name of the argument in the signature.
    pub name: &'static str,
    /// The argument's role, with its values.
    pub role: Role,
}

/// One launch of the kernel that an exercise asks for: name, shape, and arguments in the order of the signature.
///
/// ```
/// use warpbook_lab::exercise::{Case, Draw, Tolerance};
///
/// fn case([n, ..]: [u32; 3], draw: &mut Draw) -> Case {
///     let (x, y, a) = (draw.floats(n as usize), draw.floats(n as usize), draw.float());
///     let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
///     Case::new(format!("n = {n}"))
///         .over(n, 256)
///         .input("x", x)
///         .update("y", y, expected, Tolerance::Within { relative: 1e-6, scale: 1.0 })
///         .float("a", a)
///         .int("n", n)
/// }
/// assert_eq!(case([1000, 1, 1], &mut Draw::new(1, 0)).grid(), [4, 1, 1]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    name: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: Vec<CaseArgument>,
    elements: Option<u64>,
    same_bits: bool,
}

impl Case {
    /// Creates a case with one block of one thread. The name describes the sizes, such as "n = 1000".
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments: Vec::new(),
            elements: None,
            same_bits: false,
        }
    }

    /// Launches enough blocks of `threads` threads for `n` items.
    #[must_use]
    pub fn over(self, n: u32, threads: u32) -> Self {
        self.launch([n.div_ceil(threads).max(1), 1, 1], [threads, 1, 1])
    }

    /// Sets the number of blocks of the grid and of threads of a block along each axis.
    #[must_use]
    pub fn launch(self, grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, ..self }
    }

    /// Sets the bytes of dynamic shared memory of the launch.
    #[must_use]
    pub fn shared_bytes(self, shared_bytes: u32) -> Self {
        Self { shared_bytes, ..self }
    }

    /// Requires the same bits in every order in which blocks and warps run, for example of a sum whose order is fixed.
    #[must_use]
    pub fn same_bits(self) -> Self {
        Self { same_bits: true, ..self }
    }

    /// Sets the number of elements for costs "per element". The default is the number of elements of the first array that the kernel writes.
    #[must_use]
    pub fn elements(self, elements: u64) -> Self {
        Self { elements: Some(elements), ..self }
    }

    /// Adds an array that the kernel reads.
    #[must_use]
    pub fn input(self, name: &'static str, values: impl Into<Values>) -> Self {
        self.with(name, Role::Input(values.into()))
    }

    /// Adds an array that the kernel writes, with its reference.
    #[must_use]
    pub fn output(self, name: &'static str, expected: impl Into<Values>, tolerance: Tolerance) -> Self {
        self.with(name, Role::Output { expected: expected.into(), tolerance })
    }

    /// Adds an array that the kernel reads and writes, with its reference.
    #[must_use]
    pub fn update(
        self,
        name: &'static str,
        before: impl Into<Values>,
        expected: impl Into<Values>,
        tolerance: Tolerance,
    ) -> Self {
        self.with(name, Role::Update { before: before.into(), expected: expected.into(), tolerance })
    }

    /// Adds an array of `n` floats for intermediate results.
    #[must_use]
    pub fn scratch(self, name: &'static str, n: usize) -> Self {
        self.with(name, Role::Scratch(Values::F32(vec![f32::NAN; n])))
    }

    /// Adds a scalar of type `int`.
    #[must_use]
    pub fn int(self, name: &'static str, value: u32) -> Self {
        self.with(name, Role::Int(value.cast_signed()))
    }

    /// Adds a scalar of type `unsigned int`.
    #[must_use]
    pub fn unsigned(self, name: &'static str, value: u32) -> Self {
        self.with(name, Role::Unsigned(value))
    }

    /// Adds a scalar of type `float`.
    #[must_use]
    pub fn float(self, name: &'static str, value: f32) -> Self {
        self.with(name, Role::Float(value))
    }

    fn with(mut self, name: &'static str, role: Role) -> Self {
        self.arguments.push(CaseArgument { name, role });
        self
    }

    /// Returns the name of the case, which describes its sizes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of blocks of the grid along each axis.
    #[must_use]
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// Returns the number of threads of a block along each axis.
    #[must_use]
    pub fn block(&self) -> [u32; 3] {
        self.block
    }

    /// Returns the bytes of dynamic shared memory.
    #[must_use]
    pub fn dynamic_shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Returns the arguments in the order of the signature.
    #[must_use]
    pub fn arguments(&self) -> &[CaseArgument] {
        &self.arguments
    }

    /// Returns true if every order of blocks and warps must give the same bits.
    #[must_use]
    pub fn needs_same_bits(&self) -> bool {
        self.same_bits
    }

    /// Returns the number of elements for costs "per element".
    #[must_use]
    pub fn element_count(&self) -> u64 {
        let of_output = || self.arguments.iter().find_map(|argument| argument.role.expected()).map(|(v, _)| v.len());
        self.elements.unwrap_or_else(|| of_output().unwrap_or(1) as u64).max(1)
    }

    /// Returns the role of an argument by its name.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&Role> {
        self.arguments.iter().find(|argument| argument.name == name).map(|argument| &argument.role)
    }
}

impl Role {
    /// Returns the reference and the tolerance if this array is compared.
    #[must_use]
    pub fn expected(&self) -> Option<(&Values, Tolerance)> {
        match self {
            Self::Output { expected, tolerance } | Self::Update { expected, tolerance, .. } => {
                Some((expected, *tolerance))
            }
            _ => None,
        }
    }

    /// Returns the elements before the launch, for an array that has them.
    #[must_use]
    pub fn before(&self) -> Option<&Values> {
        match self {
            Self::Input(values) | Self::Update { before: values, .. } => Some(values),
            _ => None,
        }
    }

    /// Returns values with the element type and the length of this argument, if it is an array.
    #[must_use]
    pub fn array(&self) -> Option<&Values> {
        match self {
            Self::Input(values) | Self::Scratch(values) => Some(values),
            Self::Output { expected, .. } | Self::Update { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_bits_as_bytes() {
        let check = |values: Values| assert_eq!(values.with_bytes(&values.bytes()), values);
        check(vec![1.5f32, -0.0].into());
        check(vec![-7i32, i32::MAX].into());
        check(vec![u32::MAX].into());
    }

    #[test]
    fn nan_is_within_no_tolerance() {
        let within = Tolerance::Within { relative: 0.1, scale: 1.0 };
        assert!(within.holds(0.05, 0.0) && !within.holds(f64::NAN, 0.0) && !within.holds(0.2, 0.0));
        assert!(!within.holds(f64::INFINITY, f64::INFINITY));
        assert!(Tolerance::Exact.holds(1.0, 1.0) && !Tolerance::Exact.holds(-0.0, 0.0));
    }
}
