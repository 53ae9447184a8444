//! Hints for compiler errors that are typical of Rust programmers.

/// Pairs of a part of the compiler's message and a hint.
const HABITS: [(&str, &str); 13] = [
    ("identifier \"let\" is undefined", "C++ has no `let`: a variable begins with its type, as in `int i = 0;`."),
    ("identifier \"fn\" is undefined", "C++ has no `fn`: a function begins with the type of its result."),
    ("identifier \"f32\" is undefined", "Rust's `f32` is `float` in C++."),
    ("identifier \"i32\" is undefined", "Rust's `i32` is `int` in C++."),
    ("identifier \"u32\" is undefined", "Rust's `u32` is `unsigned` in C++."),
    ("identifier \"usize\" is undefined", "C++ has no `usize`: here an index is an `int`."),
    ("identifier \"mut\" is undefined", "C++ has no `&mut`: the address of an element is `&count[0]`."),
    (
        "expression must have class type",
        "Numbers and pointers have no methods in C++: call a function, such as `atomicAdd(&count[0], 1)`.",
    ),
    (
        "expected a \"(\"",
        "The conditions of `if` and `while` stand in round brackets, and a loop is `for (int j = 0; j < n; ++j)`.",
    ),
    ("expected a \";\"", "A `;` is missing, often at the end of the line before."),
    ("expression must be a modifiable lvalue", "What is left of `=` is `const`: it can be read, but not written."),
    (
        "no instance of overloaded function \"atomicAdd\"",
        "`atomicAdd` takes an address and a value: write `&` before the element, as in `atomicAdd(&count[0], 1)`.",
    ),
    ("\"const uint3\"", "`threadIdx`, `blockIdx` and `blockDim` have parts: write `.x` (or `.y`)."),
];

/// Returns a hint for a message of the compiler; `None` for an unknown message.
pub(in crate::exercise) fn hint(message: &str) -> Option<&'static str> {
    HABITS.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exercise::judge::compile;
    use warpbook_device::Compiler;

    #[test]
    fn every_habit_gets_its_hint_from_the_compiler_s_message() {
        let compiler = Compiler::new(None).unwrap_or_else(|e| panic!("{e}"));
        let bodies = [
            "let i = 0;",
            "fn f() {}",
            "f32 v = 0;",
            "i32 v = 0;",
            "u32 v = 0;",
            "usize i = 0;",
            "atomicAdd(&mut y[0], 1);",
            "y[0].fetch_add(1);",
            "while n > 0 { y[0] = 1; }",
            "int i = 0\n y[0] = i;",
            "x[0] = 1;",
            "atomicAdd(y[0], 1);",
            "int i = threadIdx;",
        ];
        for (body, (_, expected)) in bodies.into_iter().zip(HABITS) {
            let text = format!("extern \"C\" __global__ void k(const int* x, int* y, int n) {{\n{body}\n}}\n");
            let error = compile(&compiler, ("t.cu", "k"), &text).unwrap().unwrap_err();
            let first = error.diagnostics.iter().find(|d| d.is_error).unwrap();
            assert_eq!(hint(&first.message), Some(expected), "{body}: {}", first.message);
        }
    }
}
