//! Signs of mistakes that several exercises share.

use warpbook_lab::exercise::Wrong;

/// Returns true if exactly those elements were written for which `is_written` holds, and it does not hold for all: in a small case the first block has
/// all elements, and says nothing about the others.
pub(crate) fn only_written(wrong: &Wrong, is_written: impl Fn(usize) -> bool) -> bool {
    !(0..wrong.got().len()).all(&is_written) && wrong.written_only(is_written)
}
