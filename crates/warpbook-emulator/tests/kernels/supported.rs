//! Checks which of Warpbook's kernels the emulator accepts, and how it refuses the rest.

use crate::machine::ptx;
use warpbook_emulator::{Gpu, Module};

/// The beginnings of the messages that refuse tensor cores and asynchronous copies.
const REFUSED: [&str; 4] = ["`cp.async.", "`ldmatrix.", "`mma.", "`wmma."];

#[test]
fn kernels_on_cuda_cores_are_taken_and_others_refused_by_instruction_and_line() {
    let (mut taken, mut refused) = (0, 0);
    for (spec, needs) in warpbook_kernels::all() {
        if !spec.requires.as_ref().unwrap_or(&needs).met_by(Some((8, 0))) {
            continue;
        }
        let module = Module::parse(&ptx(&spec, &spec.tiles[0])).unwrap_or_else(|e| panic!("{}: {e}", spec.file));
        match Gpu::new().load(&module).unwrap().kernel(&spec.entry) {
            Ok(_) => taken += 1,
            Err(refusal) => {
                refused += 1;
                let is_known = REFUSED.iter().any(|start| refusal.message.starts_with(start));
                assert!(
                    is_known && refusal.position.is_some() && refusal.line > 0,
                    "{} {}: {refusal}",
                    spec.file,
                    spec.entry
                );
            }
        }
    }
    assert!(taken > 300 && refused > 20, "{taken} taken, {refused} refused");
}
