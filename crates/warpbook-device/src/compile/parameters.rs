//! Extracts the names of a kernel's parameters from its source.

/// Returns the names of an entry's parameters, in order; empty if the source does not declare the entry in the usual way. The names are used only in
/// messages.
pub(crate) fn parameter_names(source: &str, entry: &str) -> Vec<String> {
    let code = without_comments(source);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut places = code.match_indices(entry).filter(|(at, _)| !code[..*at].ends_with(is_name));
    let list = places.find_map(|(at, _)| {
        let is_kernel = code[..at].rfind("__global__").is_some_and(|from| !code[from..at].contains([';', '{', '}']));
        let list = code[at + entry.len()..].trim_start().strip_prefix('(')?;
        is_kernel.then(|| list.split(')').next().unwrap_or_default())
    });
    let name = |parameter: &str| parameter.trim().rsplit(|c| !is_name(c)).next().unwrap_or_default().to_owned();
    let names: Vec<String> = list.unwrap_or_default().split(',').map(name).collect();
    if names.iter().any(String::is_empty) { Vec::new() } else { names }
}

/// Returns C++ without its comments.
fn without_comments(source: &str) -> String {
    let mut left = source;
    let mut code = String::with_capacity(source.len());
    while let Some(at) = left.find("//").into_iter().chain(left.find("/*")).min() {
        code.push_str(&left[..at]);
        let end = if left[at..].starts_with("//") { "\n" } else { "*/" };
        left = left[at..].split_once(end).map_or("", |(_, rest)| rest);
        code.push(' ');
    }
    code + left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernels_signature() {
        let check = |source: &str, expect: &[&str]| assert_eq!(parameter_names(source, "sum"), expect, "{source}");
        check("extern \"C\" __global__ void sum(const float* x, float *y, int n) {}", &["x", "y", "n"]);
        check(
            "// sum(a)\nextern \"C\" __global__ void __launch_bounds__(64)\nsum(const float* __restrict__ x /* [n, m] */, unsigned n) { }",
            &["x", "n"],
        );
        check("__device__ int sum(int a); __global__ void sum_all(float* z); __global__ void sum(float* y);", &["y"]);
        check("__global__ void sum(const float*, int n) {}", &[]);
        check("__global__ void other(int n) {}", &[]);
        check("__global__ void sum() {}", &[]);
        check("/* no end", &[]);
    }
}
