//! Errors that concern several ranks. Every message suggests a remedy.

use std::time::Duration;

/// An error in launching ranks, in their rendezvous or in their work.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An environment variable is missing or invalid.
    #[error("{0}")]
    Setting(String),
    /// Rank 0 cannot listen at its address because the port is in use.
    #[error(
        "Rank 0 cannot listen at {address}: the port is in use, by another training or another program. Choose another MASTER_PORT, or end that program."
    )]
    PortInUse {
        /// Host and port at which rank 0 tried to listen.
        address: String,
    },
    /// Rank 0 cannot listen at its address for another reason.
    #[error("Rank 0 cannot listen at {address}: {why}. MASTER_ADDR must be an address of rank 0's machine.")]
    CannotListen {
        /// Host and port at which rank 0 tried to listen.
        address: String,
        /// The operating system's error.
        why: String,
    },
    /// Rank 0 could not be reached.
    #[error(
        "Rank {rank} did not reach rank 0 at {address} within {waited:.0?}: {why}. Check that rank 0 was started, that MASTER_ADDR and MASTER_PORT are the same for all ranks, and that no firewall is in between."
    )]
    Unreachable {
        /// The rank that tried to reach rank 0.
        rank: usize,
        /// Host and port of rank 0.
        address: String,
        /// Time during which the rank tried to connect.
        waited: Duration,
        /// The error of the last connection attempt.
        why: String,
    },
    /// Some ranks did not arrive in time.
    #[error(
        "{} not reached rank 0 at {address} within {waited:.0?}. Check that all {world} ranks were started, with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE.",
        missing_words(.missing)
    )]
    Missing {
        /// The missing ranks.
        missing: Vec<usize>,
        /// Number of ranks.
        world: usize,
        /// Host and port of rank 0.
        address: String,
        /// Time during which rank 0 waited.
        waited: Duration,
    },
    /// The ranks do not belong together; the message says why.
    #[error("{0}")]
    Refused(String),
    /// Another rank has failed, died or stopped responding; the message names that rank.
    #[error("{0}")]
    Lost(String),
    /// The ranks' processes cannot be started.
    #[error("{0}")]
    Launch(String),
}

/// Lists ranks, as in "rank 1" or "ranks 1, 2". After the first eight, only the number of further
/// ranks is given.
pub(crate) fn others(missing: &[usize]) -> String {
    const MOST: usize = 8;
    let named: Vec<String> = missing.iter().take(MOST).map(ToString::to_string).collect();
    match &named[..] {
        [one] => format!("rank {one}"),
        all if missing.len() > MOST => format!("ranks {} and {} more", all.join(", "), missing.len() - MOST),
        all => format!("ranks {}", all.join(", ")),
    }
}

fn missing_words(missing: &[usize]) -> String {
    format!("R{} {}", &others(missing)[1..], if missing.len() == 1 { "has" } else { "have" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_named() {
        let missing = |missing: &[usize]| {
            let (address, waited) = ("127.0.0.1:1".into(), Duration::from_secs(30));
            Error::Missing { missing: missing.to_vec(), world: 4, address, waited }.to_string()
        };
        assert!(
            missing(&[2]).starts_with("Rank 2 has not reached rank 0 at 127.0.0.1:1 within 30s."),
            "{}",
            missing(&[2])
        );
        assert!(missing(&[1, 3]).starts_with("Ranks 1, 3 have not reached"));
        let many: Vec<usize> = (1..16_000).collect();
        assert!(missing(&many).starts_with("Ranks 1, 2, 3, 4, 5, 6, 7, 8 and 15991 more have not reached"));
    }
}
