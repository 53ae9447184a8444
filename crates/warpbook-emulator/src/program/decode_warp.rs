//! Decoding of barriers, shuffles, votes, matches and reductions.

use super::action::{Action, Barrier, BarrierKind, Collective, CollectiveKind, NONE, Reduction, Row, Shuffle};
use super::decode_memory::reduction;
use super::functions::Decoder;
use crate::Refusal;
use crate::ptx::Operand;

impl<'m> Decoder<'m> {
    pub(super) fn warp(&mut self, parts: &[&str]) -> Result<Action, Refusal> {
        match parts {
            ["activemask", "b32"] => {
                let [into] = self.take::<1>()?;
                Ok(Action::ActiveMask(self.result(into)?))
            }
            ["bar", "warp", "sync"] => {
                let [mask] = self.take::<1>()?;
                let mask = self.row(mask, 4)?;
                Ok(collective(CollectiveKind::Wait, mask, NONE, [NONE; 3]))
            }
            ["bar" | "barrier", rest @ ..] => {
                let words: Vec<&str> =
                    rest.iter().copied().filter(|word| !matches!(*word, "cta" | "aligned")).collect();
                self.barrier(&words)
            }
            ["shfl", "sync", mode, "b32"] => self.shuffle(mode),
            ["vote", "sync", mode, ty] => self.vote(mode, ty),
            ["match", mode, "sync", "b32" | "b64"] => self.matches(mode),
            ["redux", "sync", operation, ty] => {
                let Some(function) = reduction(operation, ty) else {
                    return self.refuse("is not supported.");
                };
                let [into, value, mask] = self.take::<3>()?;
                let (into, value) = (self.result(into)?, self.row(value, 4)?);
                let mask = self.row(mask, 4)?;
                Ok(collective(CollectiveKind::Reduce(function), mask, into, [value, NONE, NONE]))
            }
            _ => self.refuse("is not supported."),
        }
    }

    fn barrier(&mut self, words: &[&str]) -> Result<Action, Refusal> {
        let operands = &self.current.operands;
        let mut number_and_count = |operands: &[Operand]| -> Result<(Row, Row), Refusal> {
            match operands {
                [number] => Ok((self.row(number, 4)?, NONE)),
                [number, count] => Ok((self.row(number, 4)?, self.row(count, 4)?)),
                _ => self.refuse("has a wrong number of operands."),
            }
        };
        let (number, count, kind) = match (words, operands.as_slice()) {
            (["sync"], all) => {
                let (number, count) = number_and_count(all)?;
                (number, count, BarrierKind::Wait)
            }
            (["arrive"], all) => {
                let (number, count) = number_and_count(all)?;
                (number, count, BarrierKind::Arrive)
            }
            (["red", reduction, "u32" | "pred"], [into, middle @ .., from]) => {
                let reduction = match *reduction {
                    "popc" => Reduction::Count,
                    "and" => Reduction::All,
                    "or" => Reduction::Any,
                    _ => return self.refuse("is not supported."),
                };
                let (number, count) = number_and_count(middle)?;
                let (from, is_negated) = self.predicate(from)?;
                let into = self.result(into)?;
                (number, count, BarrierKind::Reduce { reduction, from, is_negated, into })
            }
            _ => return self.refuse("is not supported."),
        };
        Ok(Action::Barrier(Barrier { number, count, kind }))
    }

    /// Decodes `shfl.sync.bfly.b32 d|p, a, b, c, mask;` and the like.
    fn shuffle(&mut self, mode: &str) -> Result<Action, Refusal> {
        let mode = match mode {
            "up" => Shuffle::Up,
            "down" => Shuffle::Down,
            "bfly" => Shuffle::Butterfly,
            "idx" => Shuffle::Index,
            _ => return self.refuse("is not supported."),
        };
        let [results, value, lane, clamp, mask] = self.take::<5>()?;
        let (into, predicate_into) = self.results(results)?;
        let mut row = |operand| self.row(operand, 4);
        let (from, mask) = ([row(value)?, row(lane)?, row(clamp)?], row(mask)?);
        let plain = collective_parts(CollectiveKind::Shuffle(mode), mask, into, from);
        Ok(Action::Collective(Collective { predicate_into, ..plain }))
    }

    fn vote(&mut self, mode: &str, ty: &str) -> Result<Action, Refusal> {
        let kind = match (mode, ty) {
            ("all", "pred") => CollectiveKind::VoteAll,
            ("any", "pred") => CollectiveKind::VoteAny,
            ("uni", "pred") => CollectiveKind::VoteUniform,
            ("ballot", "b32") => CollectiveKind::Ballot,
            _ => return self.refuse("is not supported."),
        };
        let [into, value, mask] = self.take::<3>()?;
        let (value, is_negated) = self.predicate(value)?;
        let (into, mask) = (self.result(into)?, self.row(mask, 4)?);
        let plain = collective_parts(kind, mask, into, [value, NONE, NONE]);
        Ok(Action::Collective(Collective { is_negated, ..plain }))
    }

    fn matches(&mut self, mode: &str) -> Result<Action, Refusal> {
        let kind = match mode {
            "any" => CollectiveKind::MatchAny,
            "all" => CollectiveKind::MatchAll,
            _ => return self.refuse("is not supported."),
        };
        let [results, value, mask] = self.take::<3>()?;
        let (into, predicate_into) = self.results(results)?;
        let (value, mask) = (self.row(value, 8)?, self.row(mask, 4)?);
        let plain = collective_parts(kind, mask, into, [value, NONE, NONE]);
        Ok(Action::Collective(Collective { predicate_into, ..plain }))
    }
}

fn collective(kind: CollectiveKind, mask: Row, into: Row, from: [Row; 3]) -> Action {
    Action::Collective(collective_parts(kind, mask, into, from))
}

fn collective_parts(kind: CollectiveKind, mask: Row, into: Row, from: [Row; 3]) -> Collective {
    Collective { kind, mask, into, predicate_into: NONE, from, is_negated: false }
}
