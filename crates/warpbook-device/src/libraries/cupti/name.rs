//! Demangles the names of kernels.

/// Returns a kernel's name as it is written in the source: a mangled name is reduced to the namespaces and the function, without arguments and template
/// arguments. Names that are not mangled, such as those of this project's kernels, or that are mangled in an unknown way, stay unchanged.
pub(super) fn readable(name: &str) -> String {
    qualified(name).unwrap_or_else(|| name.to_owned())
}

/// Parses `_Z` name, or `_ZN` name name .. `E`, in the Itanium C++ ABI. Each name is a length followed by that many letters, and may be followed by template
/// arguments between `I` and `E`.
fn qualified(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let Some(mut rest) = rest.strip_prefix('N') else { return source_name(rest).map(|(name, _)| name.to_owned()) };
    let mut parts = Vec::new();
    while let Some((part, after)) = source_name(rest) {
        // Skips the compiler's name for an anonymous namespace.
        if !part.starts_with("_GLOBAL__N_") && !part.starts_with("_INTERNAL_") {
            parts.push(part);
        }
        rest = after;
    }
    (!parts.is_empty()).then(|| parts.join("::"))
}

fn source_name(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok()?;
    let rest = &text[digits..];
    (length > 0 && rest.is_char_boundary(length.min(rest.len()))).then_some(())?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_are_read() {
        let check = |name: &str, expect: &str| assert_eq!(readable(name), expect);
        check("gather_images", "gather_images");
        check("_Z4axpyPfS_f", "axpy");
        check("_ZN5cudnn3cnn11conv2d_gridILb1ELi3EEEvPKf", "cudnn::cnn::conv2d_grid");
        check("_ZN8internal20_GLOBAL__N_0000000003fooEv", "internal::foo");
        // These names are not valid in the ABI, or use features that this function does not parse.
        for odd in ["", "_Z", "_ZN", "_Z99x", "_ZN99x", "_ZZ4mainE3foo", "_Z0", "_Z1é", "9x"] {
            check(odd, odd);
        }
    }
}
