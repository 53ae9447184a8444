//! The convolution layers of the trained networks, as problems of the experiment.

use warpbook_nn::ops::conv2d::Geometry;
use warpbook_nn::ops::conv2d::cuda::Pass;
use warpbook_record::{Dtype, Problem, SweepPoint, count, setting};

/// A convolution of a trained network: 3 x 3 filters with a stride of one pixel.
#[derive(Debug, PartialEq, Eq)]
pub struct ConvolutionLayer {
    /// Name on the command line.
    pub name: &'static str,
    /// Title in a few words.
    pub title: &'static str,
    /// Height and width of the images in pixels.
    side: usize,
    channels: usize,
    filters: usize,
    padding: usize,
    /// True for the first layer of a network, which does not need an input gradient.
    is_first: bool,
    /// Batch sizes of the published figures.
    pub(super) batches: [u64; 2],
}

const KERNEL: usize = 3;
const MNIST: [u64; 2] = [512, 1024];
const CIFAR: [u64; 2] = [128, 512];
const SPEEDRUN: [u64; 2] = [1000, 2000];

/// All convolution layers of the trained networks.
pub const LAYERS: [ConvolutionLayer; 7] = [
    ConvolutionLayer {
        name: "mnist-1",
        title: "MNIST conv 1-32",
        side: 28,
        channels: 1,
        filters: 32,
        padding: 0,
        is_first: true,
        batches: MNIST,
    },
    ConvolutionLayer {
        name: "mnist-2",
        title: "MNIST conv 32-64",
        side: 26,
        channels: 32,
        filters: 64,
        padding: 0,
        is_first: false,
        batches: MNIST,
    },
    ConvolutionLayer {
        name: "cifar10-1",
        title: "CIFAR-10 conv 3-32",
        side: 32,
        channels: 3,
        filters: 32,
        padding: 1,
        is_first: true,
        batches: CIFAR,
    },
    ConvolutionLayer {
        name: "cifar10-2",
        title: "CIFAR-10 conv 32-64",
        side: 16,
        channels: 32,
        filters: 64,
        padding: 1,
        is_first: false,
        batches: CIFAR,
    },
    ConvolutionLayer {
        name: "cifar10-3",
        title: "CIFAR-10 conv 64-128",
        side: 8,
        channels: 64,
        filters: 128,
        padding: 1,
        is_first: false,
        batches: CIFAR,
    },
    ConvolutionLayer {
        name: "speedrun-4",
        title: "Speedrun conv 64-256",
        side: 15,
        channels: 64,
        filters: 256,
        padding: 1,
        is_first: false,
        batches: SPEEDRUN,
    },
    ConvolutionLayer {
        name: "speedrun-5",
        title: "Speedrun conv 256-256",
        side: 7,
        channels: 256,
        filters: 256,
        padding: 1,
        is_first: false,
        batches: SPEEDRUN,
    },
];

/// Returns the name of a pass in settings and problems.
pub(super) const fn name_of(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::InputGradient => "input-gradient",
        Pass::WeightGradient => "weight-gradient",
    }
}

impl ConvolutionLayer {
    /// Returns the layer with this name.
    ///
    /// # Errors
    /// If there is no such layer; the message lists the known names.
    pub fn named(name: &str) -> Result<&'static Self, String> {
        let known = || LAYERS.iter().map(|l| l.name).collect::<Vec<_>>().join(", ");
        let found = LAYERS.iter().find(|l| l.name == name.trim());
        found.ok_or_else(|| format!("`{name}` is not a layer: choose {}", known()))
    }

    /// Returns true for a layer of the speedrun, whose recipe is a file of the command line; the other layers belong to built-in networks.
    pub(super) fn is_of_speedrun(&self) -> bool {
        self.name.starts_with("speedrun")
    }

    /// Returns the layer's shapes for a batch.
    #[must_use]
    pub fn geometry(&self, batch: usize) -> Geometry {
        Geometry {
            batch,
            height: self.side,
            width: self.side,
            channels: self.channels,
            filters: self.filters,
            kernel: [KERNEL; 2],
            stride: [1; 2],
            padding: [self.padding; 2],
        }
    }

    /// Returns the passes of the layer that training needs.
    pub fn passes(&self) -> impl Iterator<Item = Pass> + use<> {
        let is_first = self.is_first;
        Pass::ALL.into_iter().filter(move |pass| !(is_first && *pass == Pass::InputGradient))
    }
}

/// A task: one pass of one layer, with a batch size and a data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub layer: &'static ConvolutionLayer,
    pub batch: u64,
    pub pass: Pass,
    pub dtype: Dtype,
}

impl Task {
    pub fn geometry(&self) -> Geometry {
        self.layer.geometry(usize::try_from(self.batch).unwrap_or(usize::MAX))
    }

    /// Returns the number of elements of each of the two inputs and of the output.
    pub fn lengths(&self) -> [usize; 3] {
        let g = self.geometry();
        let [x, weight, y] = [g.input_len(), g.weight_len(), g.output_len().unwrap_or(usize::MAX)];
        match self.pass {
            Pass::Forward => [x, weight, y],
            Pass::InputGradient => [y, weight, x],
            Pass::WeightGradient => [x, y, weight],
        }
    }

    /// Returns the data type in which the output is stored.
    pub fn out(&self) -> Dtype {
        if self.pass == Pass::WeightGradient || self.dtype == Dtype::Tf32 { Dtype::F32 } else { self.dtype }
    }

    /// Returns the task as a problem. FLOPs: two for each multiply-add of the definition, including those in the padding. Bytes: both inputs are read once and
    /// the output is written once; a weight gradient is in fp32.
    pub fn problem(&self) -> Problem {
        let Self { layer, batch, pass, dtype } = *self;
        let sizes = vec![
            setting("layer", layer.name),
            setting("pass", name_of(pass)),
            count("batch", batch, "images"),
            count("side", layer.side as u64, "pixels"),
            count("channels", layer.channels as u64, ""),
            count("filters", layer.filters as u64, ""),
            count("kernel", KERNEL as u64, "pixels"),
            count("padding", layer.padding as u64, "pixels"),
        ];
        let (flops, [a, b, out]) = (self.geometry().flops().unwrap_or(u64::MAX), self.lengths().map(|n| n as u64));
        let line = format!("{}, {}", layer.title, name_of(pass).replace('-', " "));
        let short = format!("{} {} {batch}", layer.name, name_of(pass));
        Problem::new(format!("{line}, batch {batch}, {}", dtype.label()), short, sizes, dtype).with(|p| {
            p.flops = flops;
            p.written_bytes = out.saturating_mul(self.out().bytes());
            p.bytes = a.saturating_add(b).saturating_mul(dtype.bytes()).saturating_add(p.written_bytes);
            p.working_set_bytes = p.bytes;
            p.items = Some(batch);
            p.sweep = Some(SweepPoint { size: batch, line: line.clone() });
        })
    }

    /// Returns the task that a problem describes; `None` if the problem has no such task.
    pub fn from_problem(problem: &Problem) -> Option<Self> {
        let layer = ConvolutionLayer::named(problem.text("layer")?).ok()?;
        let name = problem.text("pass")?;
        let pass = Pass::ALL.into_iter().find(|pass| name_of(*pass) == name)?;
        Some(Self { layer, batch: problem.count("batch")?, pass, dtype: problem.dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_nn::network::Op;
    use warpbook_nn::train::Recipe;

    #[test]
    fn the_layers_are_those_of_the_networks() {
        let mut found = Vec::new();
        for recipe in [Recipe::mnist(), Recipe::cifar10()] {
            let network = &recipe.network;
            let convolutions = network.nodes().iter().filter(|node| matches!(node.op, Op::Conv2d(_)));
            found.extend(convolutions.map(|node| network.conv_geometry(node, 7)));
        }
        let of_networks = LAYERS.iter().filter(|layer| !layer.is_of_speedrun());
        assert_eq!(of_networks.map(|l| l.geometry(7)).collect::<Vec<_>>(), found);
    }

    #[test]
    fn a_problem_counts_its_work_and_is_known_again() {
        let mut ids = std::collections::HashSet::new();
        for layer in &LAYERS {
            for pass in layer.passes() {
                for dtype in [Dtype::F32, Dtype::F16] {
                    let task = Task { layer, batch: 6, pass, dtype };
                    let p = task.problem();
                    assert_eq!(Task::from_problem(&p), Some(task));
                    assert_eq!(p.flops, layer.geometry(6).flops().unwrap());
                    assert!(ids.insert(p.id.clone()), "{}", p.id);
                }
            }
        }
        let task = |pass| Task { layer: &LAYERS[0], batch: 2, pass, dtype: Dtype::F16 };
        let (x, y, w) = (2 * 28 * 28, 2 * 26 * 26 * 32, 32 * 9);
        assert_eq!(task(Pass::Forward).problem().flops, 2 * 9 * y);
        assert_eq!(task(Pass::Forward).problem().bytes, 2 * (x + y + w));
        assert_eq!(task(Pass::WeightGradient).problem().bytes, 2 * (x + y) + 4 * w);
        assert!(!LAYERS[0].passes().any(|pass| pass == Pass::InputGradient));
        assert!(ConvolutionLayer::named("mnist").unwrap_err().contains("choose mnist-1, mnist-2"));
    }
}
