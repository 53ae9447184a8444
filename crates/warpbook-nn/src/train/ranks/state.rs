//! Distributes rank 0's state to all ranks, at the start and after rank 0 has read a checkpoint.

use super::Ranks;
use crate::network::Network;
use crate::train::engine::{ScalerState, State};
use crate::train::{Recipe, Samples, TrainError};
use crate::weights::Weights;
use sha2::{Digest, Sha256};
use warpbook_gemm::Finding;

impl Ranks {
    /// Refuses ranks that train different recipes or data; the message names the difference.
    pub(in crate::train) fn ensure_same_training(&self, recipe: &Recipe, data: Samples<'_>) -> Result<(), TrainError> {
        let options = self.options();
        let settings = Sha256::digest(format!("{recipe:?} {options:?}"));
        let samples = match data {
            Samples::Images(set) => {
                Sha256::digest([&format!("{:?}", set.shape()).into_bytes(), &set.labels()[..]].concat())
            }
            Samples::Rows(rows) => Sha256::digest(format!("{} {:?}", rows.len(), rows.widths())),
        };
        let all = self.all_gather(&[&settings[..], &samples[..]].concat())?;
        for (what, part) in [("recipe", 0..32), ("data set", 32..64)] {
            let first = all[0].get(part.clone());
            if let Some(rank) = all.iter().position(|other| other.get(part.clone()) != first) {
                return Err(TrainError::Setting(format!(
                    "Rank {rank} trains with another {what} than rank 0: start all ranks with the same arguments and files."
                )));
            }
        }
        Ok(())
    }

    /// Distributes rank 0's state and step to all ranks; `own` is this rank's state, for the same network and
    /// optimiser.
    pub(in crate::train) fn share(
        &self,
        network: &Network,
        (own, step): (State, u64),
    ) -> Result<(State, u64), TrainError> {
        let scaler = own.scaler.map_or([0, 0], |s| [s.scale.to_bits(), s.steps]);
        let words = [step, own.updates, u64::from(own.scaler.is_some()), u64::from(scaler[0]), u64::from(scaler[1])];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let all = self.all_gather(&bytes)?;
        let word = |at: usize| {
            let bytes = all[0].get(8 * at..8 * at + 8).and_then(|b| b.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let shared = |weights: &Weights| -> Result<Weights, TrainError> {
            let values = weights.values().iter().map(|values| {
                let mut values = values.clone();
                let broadcast = self.queue(move |ranks| ranks.broadcast(&mut values, 0).map(|()| values));
                broadcast.wait()
            });
            Ok(Weights::new(network, values.collect::<Result<_, _>>()?)?)
        };
        let weights = shared(&own.weights)?;
        let slots = own.slots.iter().map(shared).collect::<Result<_, _>>()?;
        let scaler =
            (word(2) == 1).then(|| ScalerState { scale: f32::from_bits(word(3) as u32), steps: word(4) as u32 });
        let kernels = self.share_kernels(&own.kernels)?;
        Ok((State { weights, slots, updates: word(1), scaler, kernels }, word(0)))
    }

    /// Distributes rank 0's kernels for matrix products to all ranks, so that all compute the same bits.
    pub(in crate::train) fn share_kernels(&self, own: &[Finding]) -> Result<Vec<Finding>, TrainError> {
        let own = if self.rank() == 0 { own } else { &[] };
        let unreadable =
            |why: serde_json::Error| TrainError::Setting(format!("Rank 0's kernels cannot be read: {why}."));
        let all = self.all_gather(&serde_json::to_vec(own).map_err(unreadable)?)?;
        serde_json::from_slice(&all[0]).map_err(unreadable)
    }
}
