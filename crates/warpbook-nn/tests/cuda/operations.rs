//! Steps on a GPU that are made one operation at a time.

use warpbook_data::synthetic_digits;
use warpbook_device::testing;
use warpbook_nn::train::{CudaOptions, Place, Precision, Recipe, StepOperation, StepOutcome, TrainError, Trainer};

#[test]
fn a_step_by_operation_is_a_step() {
    let Some(device) = testing::gpu("a_step_by_operation_is_a_step") else { return };
    let recipe = Recipe { batch: 32, ..Recipe::mnist() };
    let digits = synthetic_digits(256, 0, 1).train;
    for (precision, last_block) in [(Precision::Fp32, false), (Precision::AmpFp16, false), (Precision::AmpFp16, true)] {
        let place = Place::Cuda(device.clone(), CudaOptions { last_block, ..CudaOptions::new(precision) });
        let trainer = || {
            let mut trainer = Trainer::on(&place, recipe.clone(), &digits, None).unwrap();
            trainer.prepare_steps(&digits).unwrap();
            trainer
        };
        let (mut one, mut other) = (trainer(), trainer());
        let mut operations: Vec<StepOperation> = Vec::new();
        for step in 0..4 {
            one.queue_step().unwrap();
            if step == 2 {
                other.step_by_operation(&mut |o| {
                    operations.push(o.clone());
                    Ok(())
                })
            } else {
                other.queue_step()
            }
            .unwrap();
        }
        let outcomes: [Vec<StepOutcome>; 2] = [&mut one, &mut other].map(|t| t.step_outcomes(4).unwrap());
        assert_eq!(outcomes[0], outcomes[1], "{precision:?}");
        let names: Vec<&str> = operations.iter().map(|o| o.name.as_str()).collect();
        let last = if last_block { "optimiser" } else { "end of the step" };
        assert_eq!((names.first(), names.last()), (Some(&"batch"), Some(&last)), "{names:?}");
        for expected in ["conv1 forward", "conv2 weight gradient", "fc1 input gradient", "loss", "optimiser"] {
            assert!(names.contains(&expected), "{expected} in {names:?}");
        }
        let flops: u64 = operations.iter().map(|o| o.flops).sum();
        assert_eq!(flops, 32 * recipe.network.training_flops(), "{operations:?}");
        assert!(operations.iter().all(|o| o.written_bytes <= o.bytes), "{operations:?}");
        // An error of the caller's function ends the step.
        let refused = one.step_by_operation(&mut |_| Err(TrainError::Setting("enough".into())));
        assert_eq!(refused.unwrap_err().to_string(), "enough");
    }
}

#[test]
fn there_are_no_operations_on_the_cpu() {
    let recipe = Recipe { batch: 8, ..Recipe::mnist() };
    let digits = synthetic_digits(8, 0, 1).train;
    let mut trainer = Trainer::on(&Place::Cpu, recipe, &digits, None).unwrap();
    trainer.prepare_steps(&digits).unwrap();
    let error = trainer.step_by_operation(&mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("Only a GPU can run a step one operation at a time"), "{error}");
}
