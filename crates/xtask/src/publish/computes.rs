//! One line on what each published experiment computes, since the records do not contain it.

use warpbook_record::Run;

/// Names of experiments, each with its line.
const COMPUTES: [(&str, &str); 33] = [
    ("regression", "A line fitted by gradient descent"),
    ("matmul", "C = A · B"),
    ("softmax", "Softmax of each row of a matrix"),
    ("training", "A training step of a small CNN"),
    ("convolution", "A pass of a convolution layer"),
    ("tensor-parallel", "C = A · B on several GPUs"),
    ("scaling", "Training steps on several GPUs"),
    ("time-to-accuracy", "Training a network until it reaches an accuracy"),
    ("train", "Training a small CNN, logged step by step"),
    ("loop", "Training a small CNN with a loader or with images on the GPU"),
    ("guide-accumulation", "A training step of 32 convolutions, batch 128"),
    ("guide-allocation", "Ten steps that each need an array for their result"),
    ("guide-bank-conflicts", "The transpose of a matrix"),
    ("guide-batches", "4096 samples through a layer of 64 neurons"),
    ("guide-checkpointing", "A training step of 32 convolutions"),
    ("guide-coalescing", "Each word of an array read and written once"),
    ("guide-copy-back", "A hundred sums of products of two matrices' elements"),
    ("guide-divergence", "Work that depends on the kind of each element"),
    ("guide-fusion", "Eight operations on each element of an array"),
    ("guide-gather", "Words read from random places in DRAM"),
    ("guide-jit-expression", "A chain of element-wise operations, given as text"),
    ("guide-latency", "Chains of multiply-adds"),
    ("guide-layout", "A 3 × 3 convolution of images with 64 channels"),
    ("guide-loader", "Sixteen training steps with images from the host"),
    ("guide-made-on-device", "An array of numbers, made for the GPU"),
    ("guide-memory-latency", "A million loads in chains"),
    ("guide-occupancy", "Sums of random lines of DRAM"),
    ("guide-pinned", "An array copied to the GPU and back"),
    ("guide-power", "Twenty matrix products in a row"),
    ("guide-precision", "A product of two square matrices"),
    ("guide-reduction", "The sum of an array"),
    ("guide-small-network", "A thousand passes through a small network"),
    ("guide-vector-loads", "An array read and written"),
];

/// Returns the line on a record's experiment, with the number of GPUs if the record's command names one; empty if the
/// experiment is unknown.
pub(super) fn computes(run: &Run) -> String {
    let line = COMPUTES.iter().find(|(experiment, _)| *experiment == run.experiment).map_or("", |(_, line)| line);
    let mut words = run.command.split_whitespace().skip_while(|word| *word != "--gpus");
    match words.nth(1).and_then(|n| n.parse::<u32>().ok()) {
        Some(n) => line.replace("several GPUs", &format!("{n} GPUs")),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::publish::records;
    use crate::workspace::Workspace;

    #[test]
    fn every_published_record_says_what_it_computes() {
        let published = records(&Workspace::find(false).unwrap()).unwrap();
        assert!(published.len() > 30);
        for record in &published {
            let line = super::computes(&record.run);
            assert!((9..=60).contains(&line.len()) && !line.contains("several"), "{}: {line}", record.file);
        }
        let two = published.iter().find(|r| r.file == "tensor-parallel-h200-x2.json").unwrap();
        assert_eq!(super::computes(&two.run), "C = A · B on 2 GPUs");
    }
}
