use crate::settings::Entry;
use crate::{Matmul, Regression, Training};

/// The experiments that the command line and the lab know, in their order.
#[must_use]
pub fn experiments() -> Vec<Entry> {
    vec![Entry::of::<Regression>(), Entry::of::<Matmul>(), Entry::of::<Training>()]
}
