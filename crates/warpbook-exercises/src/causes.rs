//! Tests for mistakes that several exercises share.

use warpbook_lab::exercise::Wrong;

/// Returns true if the written elements are exactly those for which `is_written` returns true. Returns false if these are all elements: in a small case the
/// first block has all elements, which does not show the mistake.
pub(crate) fn only_written(wrong: &Wrong, is_written: impl Fn(usize) -> bool) -> bool {
    !(0..wrong.got().len()).all(&is_written) && wrong.written_only(is_written)
}
