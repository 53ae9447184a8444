//! Training images as each training step sees them, after augmentation.

use crate::ImageRows;
use crate::figures;
use crate::prelude::nn::*;
use crate::prelude::*;
use warpbook_device::CudaDevice;
use warpbook_nn::ops::Layout;
use warpbook_nn::ops::augment::{self, Augment, Draw};
use warpbook_nn::train::{Augmentation, TrainError};

/// A batch of images as several training steps see it, after augmentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Augmented {
    shape: [usize; 3],
    padding: usize,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    /// Original images, u8 `[channels][height][width]`, with the class.
    originals: Vec<(String, Vec<u8>)>,
    /// Random draws for each image, by step.
    draws: Vec<Vec<Draw>>,
    /// Augmented images of each step, f32 `[image][height][width][channels]`, normalised.
    seen: Vec<Vec<f32>>,
}

/// Augments these images as one batch in each of the first `steps` steps of a recipe. Uses the training kernel of this device, or the CPU.
///
/// # Errors
/// If the images are not of the recipe's shape, or the device reports an error.
pub fn augmented(device: &Device, recipe: &Recipe, images: &Dataset, steps: u32) -> Result<Augmented> {
    recipe.validate(images.shape(), images.classes().len())?;
    let seen = (0..steps).map(|step| one_step(device, &of_step(recipe, images, step), images));
    let all = 0..images.len();
    let draws = |step| {
        let a = of_step(recipe, images, step);
        all.clone().map(|i| a.draw_of(i as u32, i as u32)).collect()
    };
    let class = |i: usize| images.classes()[usize::from(images.label(i))].clone();
    Ok(Augmented {
        shape: images.shape(),
        padding: of_step(recipe, images, 0).padding,
        mean: recipe.mean.clone(),
        deviation: recipe.deviation.clone(),
        originals: all.clone().map(|i| (class(i), images.image(i).to_vec())).collect(),
        draws: (0..steps).map(draws).collect(),
        seen: seen.collect::<Result<_>>()?,
    })
}

/// Returns the recipe's augmentation in a step. If flips alternate between epochs, each step counts as an epoch.
pub(super) fn of_step<'a>(recipe: &'a Recipe, images: &Dataset, step: u32) -> Augment<'a> {
    let [channels, height, width] = images.shape();
    let a = recipe.augmentation.unwrap_or(Augmentation::new(0, false));
    Augment {
        channels,
        height,
        width,
        mean: &recipe.mean,
        deviation: &recipe.deviation,
        padding: a.crop,
        flip: a.flip,
        reflect: a.reflect,
        epoch: a.alternate.then_some(step),
        view: None,
        seed: recipe.seed,
        step,
    }
}

fn one_step(device: &Device, a: &Augment<'_>, images: &Dataset) -> Result<Vec<f32>> {
    let indices: Vec<u32> = (0..images.len() as u32).collect();
    match device.cuda() {
        Some(cuda) => on_gpu(cuda, a, images, &indices),
        None => {
            let mut out = vec![0.0; images.images().len()];
            augment::cpu::gather(a, images.images(), &indices, &mut out).map_err(TrainError::from)?;
            Ok(out)
        }
    }
}

fn on_gpu(cuda: &CudaDevice, a: &Augment<'_>, images: &Dataset, indices: &[u32]) -> Result<Vec<f32>> {
    let kernel = augment::cuda::Gather::new(cuda, a, Dtype::F32, Layout::Nhwc)?;
    let (pixels, indices) = (cuda.buffer_from(images.images())?, cuda.buffer_from(indices)?);
    let (step, out) = (cuda.buffer_from(&[a.step])?, cuda.zeros::<f32>(images.images().len())?);
    let stream = cuda.stream()?;
    kernel.gather(&stream, (&pixels, &indices), &step, &(&out).into())?;
    stream.synchronize()?;
    Ok(out.to_vec()?)
}

impl Augmented {
    /// Returns a row for each image: the original, then the image in each step with its random shift and flip.
    ///
    /// # Errors
    /// If the images are neither grey nor colour.
    pub fn rows(&self) -> Result<ImageRows> {
        let row = |(i, (class, original)): (usize, &(String, Vec<u8>))| {
            let steps = self.draws.iter().zip(&self.seen);
            let seen = steps.map(|(draws, seen)| (self.caption(draws[i]), self.pixels(seen, i)));
            std::iter::once((class.clone(), original.clone())).chain(seen).collect::<Vec<_>>()
        };
        let heading = format!("As they are, and as the first {} see them", figures::counted(self.seen.len(), "step"));
        ImageRows::new(heading, self.shape, self.originals.iter().enumerate().map(row))
    }

    /// Returns the movement of the image, such as "2 up, 1 left; mirrored".
    fn caption(&self, draw: Draw) -> String {
        let moved = |place: usize, [less, more]: [&str; 2]| match place as i64 - self.padding as i64 {
            0 => None,
            by if by < 0 => Some(format!("{} {less}", -by)),
            by => Some(format!("{by} {more}")),
        };
        // A crop that begins further down shows the image further up.
        let crop = [moved(draw.row, ["down", "up"]), moved(draw.column, ["right", "left"])];
        let crop: Vec<String> = crop.into_iter().flatten().collect();
        let crop = if crop.is_empty() { "not moved".to_owned() } else { crop.join(", ") };
        if draw.flip { format!("{crop}; mirrored") } else { crop }
    }

    /// Returns an image as a step sees it, denormalised, as u8 `[channels][height][width]`.
    fn pixels(&self, seen: &[f32], image: usize) -> Vec<u8> {
        let [channels, height, width] = self.shape;
        let image = &seen[image * channels * height * width..][..channels * height * width];
        let value = |c: usize, at: usize| {
            let value = image[at * channels + c] * self.deviation[c] + self.mean[c];
            (value * 255.0).round().clamp(0.0, 255.0) as u8
        };
        (0..channels).flat_map(|c| (0..height * width).map(move |at| value(c, at))).collect()
    }
}

/// Says whether the lab's GPU and the CPU augment these images to the same bits; without a GPU, whether the CPU gives the same bits twice.
///
/// # Errors
/// If [`augmented`] returns an error.
pub fn same_images(lab: &Lab, recipe: &Recipe, images: &Dataset, steps: u32) -> Result<String> {
    let cpu = Device::open(Choice::Cpu)?;
    let (here, on_cpu) = (augmented(lab.device(), recipe, images, steps)?, augmented(&cpu, recipe, images, steps)?);
    let pairs = || here.seen.iter().flatten().zip(on_cpu.seen.iter().flatten());
    let (all, other) = (pairs().count(), pairs().filter(|(a, b)| a.to_bits() != b.to_bits()).count());
    let what = format!("{} in {}", figures::counted(images.len(), "image"), figures::counted(steps as usize, "step"));
    let found = match other {
        0 => format!("all {all} numbers have the same bits"),
        n => format!("{n} of {all} numbers differ"),
    };
    Ok(match lab.device().cuda() {
        Some(_) => format!("{what}, by {} and by the CPU: {found}.", lab.device().info().name),
        None => {
            format!("There is no GPU in this lab to compare the CPU with. {what}, augmented twice by the CPU: {found}.")
        }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use warpbook_nn::network::Network;

    /// Returns a recipe for images with one channel, two rows and three columns.
    pub fn recipe(crop: usize, flip: bool) -> Recipe {
        Recipe {
            network: Network::new([1, 2, 3], [flatten(), linear(2)]).unwrap(),
            mean: vec![0.25],
            deviation: vec![0.5],
            augmentation: Some(Augmentation::new(crop, flip)),
            ..Recipe::cifar10()
        }
    }

    fn images() -> Dataset {
        let pixels: Vec<u8> = (0..24).map(|i| 10 * i).collect();
        Dataset::from_arrays("four", [1, 2, 3], pixels, vec![0, 1, 0, 1], ["a", "b"]).unwrap()
    }

    #[test]
    fn images_are_moved_and_mirrored_as_their_captions_say() {
        let cpu = Device::open(Choice::Cpu).unwrap();
        let (set, recipe) = (images(), recipe(1, true));
        let seen = augmented(&cpu, &recipe, &set, 20).unwrap();
        let mut captions = std::collections::BTreeSet::new();
        for step in 0..20 {
            for i in 0..4 {
                let caption = seen.caption(seen.draws[step][i]);
                let by = |word: &str| i64::from(caption.contains(&format!("1 {word}")));
                let (down, right) = (by("down") - by("up"), by("right") - by("left"));
                let pixels = seen.pixels(&seen.seen[step], i);
                for (at, got) in pixels.iter().enumerate() {
                    let (y, x) = ((at / 3) as i64, (at % 3) as i64);
                    let x = if caption.ends_with("mirrored") { 2 - x } else { x };
                    let (y, x) = (y - down, x - right);
                    let inside = (0..2).contains(&y) && (0..3).contains(&x);
                    let want = if inside { set.image(i)[(y * 3 + x) as usize] } else { 0 };
                    assert_eq!(*got, want, "{caption}, pixel {at} of image {i}");
                }
                captions.insert(caption);
            }
        }
        assert!(captions.len() > 10 && captions.contains("1 up, 1 left") && captions.contains("not moved; mirrored"));
        let rows = seen.rows().unwrap().text();
        assert!(rows.starts_with("As they are, and as the first 20 steps see them\na | "), "{rows}");
        assert_eq!(rows.lines().nth(2).unwrap().split(" | ").count(), 21);
    }

    #[test]
    fn without_augmentation_the_images_come_back() {
        let cpu = Device::open(Choice::Cpu).unwrap();
        let plain = Recipe { augmentation: None, ..recipe(0, false) };
        let seen = augmented(&cpu, &plain, &images(), 1).unwrap();
        assert!((0..4).all(|i| seen.pixels(&seen.seen[0], i) == images().image(i)));
        assert!(augmented(&cpu, &Recipe::cifar10(), &images(), 1).is_err(), "other images");
    }

    #[test]
    fn the_gpu_draws_the_cpu_s_images() {
        let lab = Lab::open("cpu").unwrap();
        let said = same_images(&lab, &recipe(1, true), &images(), 3).unwrap();
        assert!(
            said.contains("no GPU") && said.contains("4 images in 3 steps") && said.contains("all 72 numbers"),
            "{said}"
        );
        if warpbook_device::testing::gpu("the_gpu_draws_the_cpu_s_images").is_none() {
            return;
        }
        let lab = Lab::open("cuda:0").unwrap();
        let said = same_images(&lab, &recipe(1, true), &images(), 3).unwrap();
        assert!(said.contains("and by the CPU: all 72 numbers have the same bits"), "{said}");
    }
}
