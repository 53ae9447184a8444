//! Decodes barriers, shuffles, votes, matches and reductions.

use super::action::{Action, Barrier, BarrierKind, Collective, CollectiveKind, NONE, Reduction, Shuffle};
use super::decode_memory::reduction;
use super::functions::Decoder;
use crate::Refusal;

impl Decoder<'_> {
    pub(super) fn warp(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        match parts {
            ["activemask", "b32"] => {
                let [into] = self.take::<1>()?;
                Ok(Action::ActiveMask(self.result(into)?))
            }
            ["bar", "warp", "sync"] => self.collective(parts),
            ["bar" | "barrier", rest @ ..] => {
                let is_plain = |word: &&str| !matches!(*word, "cta" | "aligned");
                let words: Vec<&str> = rest.iter().copied().filter(is_plain).collect();
                self.barrier(&words)
            }
            _ => self.collective(parts),
        }
    }

    fn barrier(&mut self, words: &[&str]) -> Result<Action, Refusal> {
        let (operands, kind) = match (words, self.current.operands.as_slice()) {
            (["sync"], all) => (all, BarrierKind::Wait),
            (["arrive"], all) => (all, BarrierKind::Arrive),
            (["red", reduction, "u32" | "pred"], [into, middle @ .., from]) => {
                let reduction = match *reduction {
                    "popc" => Reduction::Count,
                    "and" => Reduction::All,
                    "or" => Reduction::Any,
                    _ => return self.refuse("is not supported."),
                };
                let (from, is_negated) = self.predicate(from)?;
                let into = self.result(into)?;
                (middle, BarrierKind::Reduce { reduction, from, is_negated, into })
            }
            _ => return self.refuse("is not supported."),
        };
        let (number, count) = match operands {
            [number] => (self.row(number, 4)?, NONE),
            [number, count] => (self.row(number, 4)?, self.row(count, 4)?),
            _ => return self.refuse("has a wrong number of operands."),
        };
        Ok(Action::Barrier(Barrier { number, count, kind }))
    }

    /// Decodes instructions such as `shfl.sync.bfly.b32 d|p, a, b, c, mask;`, with results, values, and a mask of lanes.
    fn collective(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        let Some(kind) = collective_kind(parts) else { return self.refuse("is not supported.") };
        let operands = match kind {
            CollectiveKind::Wait => self.take::<1>()?.as_slice(),
            CollectiveKind::Shuffle(_) => self.take::<5>()?,
            _ => self.take::<3>()?,
        };
        let mask = self.row(&operands[operands.len() - 1], 4)?;
        let mut collective =
            Collective { kind, mask, into: NONE, predicate_into: NONE, from: [NONE; 3], is_negated: false };
        let [results, values @ .., _] = operands else { return Ok(Action::Collective(collective)) };
        (collective.into, collective.predicate_into) = match parts[0] {
            "shfl" | "match" => self.results(results)?,
            _ => (self.result(results)?, NONE),
        };
        if parts[0] == "vote" {
            (collective.from[0], collective.is_negated) = self.predicate(&values[0])?;
        } else {
            let bytes = if parts[0] == "match" { 8 } else { 4 };
            for (row, value) in collective.from.iter_mut().zip(values) {
                *row = self.row(value, bytes)?;
            }
        }
        Ok(Action::Collective(collective))
    }
}

/// Returns the collective operation that an opcode names; `None` if it is not supported.
fn collective_kind(parts: &[&str]) -> Option<CollectiveKind> {
    Some(match parts {
        ["bar", "warp", "sync"] => CollectiveKind::Wait,
        ["shfl", "sync", "up", "b32"] => CollectiveKind::Shuffle(Shuffle::Up),
        ["shfl", "sync", "down", "b32"] => CollectiveKind::Shuffle(Shuffle::Down),
        ["shfl", "sync", "bfly", "b32"] => CollectiveKind::Shuffle(Shuffle::Butterfly),
        ["shfl", "sync", "idx", "b32"] => CollectiveKind::Shuffle(Shuffle::Index),
        ["vote", "sync", "all", "pred"] => CollectiveKind::VoteAll,
        ["vote", "sync", "any", "pred"] => CollectiveKind::VoteAny,
        ["vote", "sync", "uni", "pred"] => CollectiveKind::VoteUniform,
        ["vote", "sync", "ballot", "b32"] => CollectiveKind::Ballot,
        ["match", "any", "sync", "b32" | "b64"] => CollectiveKind::MatchAny,
        ["match", "all", "sync", "b32" | "b64"] => CollectiveKind::MatchAll,
        ["redux", "sync", operation, ty] => CollectiveKind::Reduce(reduction(operation, ty)?),
        _ => return None,
    })
}
