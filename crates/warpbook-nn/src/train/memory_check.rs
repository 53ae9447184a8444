//! Checks that a batch fits into a device's memory.

use super::TrainError;

/// Refuses a batch that needs more bytes than are free; the message names the largest batch that fits. `memory` is the name of the device's memory.
pub(super) fn ensure_it_fits(
    batch: usize,
    (free, memory): (u64, &str),
    bytes: impl Fn(usize) -> u64,
) -> Result<(), TrainError> {
    let needed = bytes(batch);
    if needed <= free {
        return Ok(());
    }
    let (mut fits, mut too_large) = (0, batch);
    while too_large - fits > 1 {
        let middle = usize::midpoint(fits, too_large);
        if bytes(middle) <= free {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    let mib = |bytes: u64| bytes >> 20;
    let remedy = match fits {
        0 => "Not even one sample fits: make the network smaller.".to_owned(),
        fits => format!("A batch of {fits} fits."),
    };
    Err(TrainError::Setting(format!(
        "A batch of {batch} needs {} MiB of {memory}, and {} MiB are free. {remedy}",
        mib(needed),
        mib(free)
    )))
}

/// Checks the host's memory in the same way, if the system reports how much of it is free.
///
/// # Errors
/// If the batch does not fit.
pub fn ensure_host_memory(batch: usize, bytes: impl Fn(usize) -> u64) -> Result<(), TrainError> {
    let Some(free) = warpbook_device::free_host_memory() else { return Ok(()) };
    ensure_it_fits(batch, (free, "memory"), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_batch_that_fits_is_named() {
        // Test case: 7 MiB of weights, and 3 MiB for each sample.
        let check = |batch, free: u64| {
            ensure_it_fits(batch, (free << 20, "memory"), |n| (7 + 3 * n as u64) << 20).map_err(|e| e.to_string())
        };
        assert_eq!(check(31, 100), Ok(()));
        let refused = |batch, free| check(batch, free).unwrap_err();
        assert_eq!(
            refused(32, 100),
            "A batch of 32 needs 103 MiB of memory, and 100 MiB are free. A batch of 31 fits."
        );
        assert!(refused(5000, 100).ends_with("A batch of 31 fits."));
        assert!(refused(2, 10).ends_with("A batch of 1 fits."));
        for batch in [1, 2, 5000] {
            assert!(refused(batch, 9).ends_with("Not even one sample fits: make the network smaller."));
        }
    }
}
