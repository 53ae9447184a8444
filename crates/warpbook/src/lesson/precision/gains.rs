//! The speed-up of AMP over fp32 at several batch sizes, next to the reader's guesses.

use crate::lesson::{Guesses, guessed};
use crate::prelude::*;

/// Compares guesses of how much faster AMP in fp16 is than fp32 at some batch sizes with the measurement. Each guess gets a sentence and a mark in the ladder.
pub fn amp_gains(run: &Run, guesses: &mut Guesses, asked: &[(u64, Option<f64>)]) -> Panel {
    // The rungs of the published ladder have other names.
    let (half, full) = match run.rung("amp_fp16") {
        Some(_) => ("amp_fp16", "fp32"),
        None => ("06_amp_fp16", "03_implicit_gemm"),
    };
    let all: Vec<&str> = run.rungs.iter().map(|r| &*r.id).collect();
    let mut panel = Panel::column([]);
    for (batch, guess) in asked {
        panel = match run.problems().into_iter().find(|p| p.count("batch") == Some(*batch)) {
            Some(problem) => panel
                .and(&format!("At a batch of {batch}. {}", guesses.faster(run, problem, half, full, *guess)))
                .and(&guessed(run, problem, (half, full), *guess, &all)),
            None => {
                panel.and(&format!("At a batch of {batch} nothing was measured on {}.", run.environment.device.name))
            }
        };
    }
    panel
}
