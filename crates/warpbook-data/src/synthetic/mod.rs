//! Digits drawn by a program, for use without files. The digits are the same on every machine.
//!
//! A digit is drawn in one of several handwriting styles (`strokes.rs`). Its points are moved, turned, sheared, scaled and shifted; the pen varies in
//! width and brightness; and noise covers the image. All arithmetic consists of IEEE additions, products, divisions and square roots of Philox
//! numbers, so every machine computes the same bits.

mod strokes;

use crate::philox::{gaussian, philox4x32, uniform};
use crate::{Dataset, Origin, Splits};
use rayon::prelude::*;
use strokes::{DIGITS, Stroke};

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;

/// Philox streams of the training and test images. Each set has two streams, one for shapes and one for noise.
const TRAIN: u32 = 0x6469_6700;
const TEST: u32 = 0x6469_6710;
/// Number of random numbers in a stream that are reserved for one image.
const NUMBERS: u64 = 128;

/// Draws `train` and `test` grey 28 x 28 images of digits from a seed. Image `i` depends only on the seed and on `i`. Labels are uniform; training and test
/// images use different random numbers.
#[must_use]
pub fn synthetic_digits(train: usize, test: usize, seed: u64) -> Splits {
    let part = |n: usize, stream: u32| {
        let mut images = vec![0; n * PIXELS];
        let labels =
            images.par_chunks_mut(PIXELS).enumerate().map(|(i, image)| draw(image, seed, stream, i as u64)).collect();
        let classes = (0..10).map(|d| d.to_string()).collect();
        let origin = Origin::Synthetic { seed };
        Dataset::fitting("synthetic digits".into(), [1, SIDE, SIDE], images, labels, classes, origin)
    };
    Splits { train: part(train, TRAIN), test: part(test, TEST) }
}

/// Edge of a coloured image in pixels, as in CIFAR-10.
const COLOUR_SIDE: usize = 32;
/// Philox stream for the colours and positions of coloured digits.
const COLOURS: u32 = 0x6469_6720;

/// Draws `train` and `test` coloured 32 x 32 images of [`synthetic_digits`]. Each digit has one colour, is placed at random in the image, and has a background
/// of another colour and brightness. Image `i` depends only on the seed and on `i`.
#[must_use]
pub fn synthetic_colours(train: usize, test: usize, seed: u64) -> Splits {
    let grey = synthetic_digits(train, test, seed);
    let part = |set: &Dataset, stream: u32| {
        let area = COLOUR_SIDE * COLOUR_SIDE;
        let mut images = vec![0; set.len() * 3 * area];
        images.par_chunks_mut(3 * area).enumerate().for_each(|(i, image)| {
            let mut draws = Draws { seed, stream, next: i as u64 * NUMBERS };
            let (dark, bright) =
                ([(); 3].map(|()| draws.within(0.0, 120.0)), [(); 3].map(|()| draws.within(150.0, 255.0)));
            let (ink, paper) = if draws.below(2) == 0 { (bright, dark) } else { (dark, bright) };
            let (top, left) = (draws.below(COLOUR_SIDE - SIDE + 1), draws.below(COLOUR_SIDE - SIDE + 1));
            let digit = set.image(i);
            for (channel, plane) in image.chunks_mut(area).enumerate() {
                for (at, pixel) in plane.iter_mut().enumerate() {
                    let (y, x) = ((at / COLOUR_SIDE).wrapping_sub(top), (at % COLOUR_SIDE).wrapping_sub(left));
                    let v = if y < SIDE && x < SIDE { f32::from(digit[y * SIDE + x]) / 255.0 } else { 0.0 };
                    *pixel = (paper[channel] + (ink[channel] - paper[channel]) * v) as u8;
                }
            }
        });
        let shape = [3, COLOUR_SIDE, COLOUR_SIDE];
        let (labels, classes) = (set.labels().to_vec(), set.classes().to_vec());
        Dataset::fitting("synthetic coloured digits".into(), shape, images, labels, classes, Origin::Synthetic { seed })
    };
    Splits { train: part(&grey.train, COLOURS), test: part(&grey.test, COLOURS + 1) }
}

/// The random numbers of one image.
struct Draws {
    seed: u64,
    stream: u32,
    next: u64,
}

impl Draws {
    fn index(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn within(&mut self, from: f32, to: f32) -> f32 {
        let index = self.index();
        from + (to - from) * uniform(self.seed, index, self.stream)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.within(0.0, n as f32) as usize).min(n - 1)
    }

    fn normal(&mut self, deviation: f32) -> f32 {
        let index = self.index();
        deviation * gaussian(self.seed, index, self.stream)
    }
}

type Point = (f32, f32);

/// Draws one image and returns its label.
fn draw(image: &mut [u8], seed: u64, stream: u32, i: u64) -> u8 {
    let mut draws = Draws { seed, stream, next: i * NUMBERS };
    let label = draws.below(10);
    let ways = DIGITS[label];
    let strokes = ways[draws.below(ways.len())];
    let place = Placement::random(&mut draws);
    let pen = Pen { radius: draws.within(0.75, 1.75), edge: draws.within(0.7, 1.3) };
    let jitter = draws.within(0.012, 0.04);
    let (ink, paper, noise) = (draws.within(150.0, 255.0), draws.within(0.0, 24.0), draws.within(4.0, 24.0));

    let mut distances = [f32::INFINITY; PIXELS];
    for stroke in strokes {
        let points: Vec<Point> = stroke
            .points
            .iter()
            .map(|(x, y)| place.apply((x + draws.normal(jitter), y + draws.normal(jitter))))
            .collect();
        for ends in path(stroke, &points).windows(2) {
            pen.mark(&mut distances, ends[0], ends[1]);
        }
    }
    let grain = Grain { seed, stream: stream + 1, first: i * (PIXELS as u64 / 8) };
    for (block, (pixels, distances)) in image.chunks_mut(8).zip(distances.chunks(8)).enumerate() {
        for ((pixel, distance), grain) in pixels.iter_mut().zip(distances).zip(grain.block(block as u64)) {
            let value = paper + (ink - paper) * pen.cover(*distance) + noise * grain;
            *pixel = value.clamp(0.0, 255.0) as u8;
        }
    }
    label as u8
}

/// Transformation of a digit from the unit square to pixels.
struct Placement {
    matrix: [f32; 4],
    centre: Point,
}

impl Placement {
    fn random(draws: &mut Draws) -> Self {
        // Sine and cosine follow from the tangent of half the angle without a library function. The angle is at most 20 degrees.
        let t = draws.within(-0.18, 0.18);
        let (cos, sin) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let (width, height) = (draws.within(9.0, 16.0), draws.within(14.0, 21.0));
        let shear = draws.within(-0.35, 0.25);
        let centre = (13.5 + draws.within(-3.0, 3.0), 13.5 + draws.within(-2.5, 2.5));
        let matrix = [cos * width, (cos * shear - sin) * height, sin * width, (sin * shear + cos) * height];
        Self { matrix, centre }
    }

    fn apply(&self, (x, y): Point) -> Point {
        let ([a, b, c, d], x, y) = (self.matrix, x - 0.5, y - 0.5);
        (self.centre.0 + a * x + b * y, self.centre.1 + c * x + d * y)
    }
}

/// Returns the points of a stroke. The points of a smooth stroke are on the Catmull-Rom curve through the given points.
fn path(stroke: &Stroke, points: &[Point]) -> Vec<Point> {
    const STEPS: usize = 6;
    if !stroke.smooth {
        return points.to_vec();
    }
    let last = points.len() - 1;
    let mut path = vec![points[0]];
    for i in 0..last {
        let (before, from, to, after) =
            (points[i.saturating_sub(1)], points[i], points[i + 1], points[(i + 2).min(last)]);
        for step in 1..=STEPS {
            let t = step as f32 / STEPS as f32;
            let along = |p: f32, q: f32, r: f32, s: f32| {
                let (b, c, d) = (r - p, 2.0 * p - 5.0 * q + 4.0 * r - s, 3.0 * (q - r) + s - p);
                q + 0.5 * t * (b + t * (c + t * d))
            };
            path.push((along(before.0, from.0, to.0, after.0), along(before.1, from.1, to.1, after.1)));
        }
    }
    path
}

/// The pen that a stroke is drawn with, in pixels.
struct Pen {
    radius: f32,
    /// Width over which the ink fades, in pixels.
    edge: f32,
}

impl Pen {
    /// Replaces each pixel's distance by its distance from the line from `a` to `b`, if that is smaller.
    fn mark(&self, distances: &mut [f32; PIXELS], a: Point, b: Point) {
        let reach = self.radius + self.edge;
        let bounds = |a: f32, b: f32| {
            let (low, high) = (a.min(b) - reach, a.max(b) + reach);
            let from = low.clamp(0.0, SIDE as f32).ceil() as usize;
            let to = (high + 1.0).clamp(0.0, SIDE as f32).floor() as usize;
            from..to.max(from)
        };
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let squared = (dx * dx + dy * dy).max(1e-12);
        for y in bounds(a.1, b.1) {
            for x in bounds(a.0, b.0) {
                let (px, py) = (x as f32 - a.0, y as f32 - a.1);
                let t = ((px * dx + py * dy) / squared).clamp(0.0, 1.0);
                let (ex, ey) = (px - t * dx, py - t * dy);
                let nearest = &mut distances[y * SIDE + x];
                *nearest = nearest.min((ex * ex + ey * ey).sqrt());
            }
        }
    }

    /// Returns the share of a pixel at this distance that is covered with ink.
    fn cover(&self, distance: f32) -> f32 {
        (0.5 + (self.radius - distance) / self.edge).clamp(0.0, 1.0)
    }
}

/// Triangular noise from -1 to 1. A Philox block provides the bytes for eight pixels.
struct Grain {
    seed: u64,
    stream: u32,
    first: u64,
}

impl Grain {
    /// Returns the noise of eight pixels, starting at pixel 8 * `block`.
    fn block(&self, block: u64) -> [f32; 8] {
        let words = philox4x32(self.seed, self.first + block, self.stream);
        std::array::from_fn(|i| {
            let half = words[i / 2] >> (i % 2 * 16);
            ((half & 255) as f32 + (half >> 8 & 255) as f32 - 255.0) / 255.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn squared(a: impl Iterator<Item = f32>, b: &[u8]) -> f32 {
        a.zip(b).map(|(a, b)| (a - f32::from(*b)).powi(2)).sum()
    }

    /// Returns the share of test images for which `guess` returns the right label.
    fn accuracy(test: &Dataset, guess: impl Fn(&[u8]) -> u8 + Sync) -> f64 {
        let right = (0..test.len()).into_par_iter().filter(|i| guess(test.image(*i)) == test.label(*i)).count();
        right as f64 / test.len() as f64
    }

    fn nearest<I>(candidates: impl Iterator<Item = (I, u8)>, image: &[u8]) -> u8
    where
        I: Iterator<Item = f32>,
    {
        let by_distance = candidates.map(|(c, label)| (squared(c, image), label));
        by_distance.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, label)| label)
    }

    #[test]
    fn they_can_be_learnt_but_not_from_the_mean_alone() {
        let Splits { train, test } = synthetic_digits(4000, 500, 3);
        let mut means = vec![vec![0.0; PIXELS]; 10];
        for i in 0..train.len() {
            let mean = &mut means[usize::from(train.label(i))];
            mean.iter_mut().zip(train.image(i)).for_each(|(m, p)| *m += f32::from(*p));
        }
        for (label, mean) in means.iter_mut().enumerate() {
            let n = train.labels().iter().filter(|l| usize::from(**l) == label).count() as f32;
            mean.iter_mut().for_each(|m| *m /= n);
        }
        let by_mean = accuracy(&test, |image| nearest(means.iter().map(|m| m.iter().copied()).zip(0..), image));
        let by_image = accuracy(&test, |image| {
            let all = (0..train.len()).map(|i| (train.image(i).iter().map(|p| f32::from(*p)), train.label(i)));
            nearest(all, image)
        });
        println!("nearest class mean {by_mean}, nearest image {by_image}");
        assert!((0.4..0.9).contains(&by_mean), "nearest class mean: {by_mean}");
        assert!(by_image > by_mean + 0.1, "nearest of 4000 images: {by_image}, nearest class mean: {by_mean}");
    }

    #[test]
    fn labels_are_balanced() {
        let train = synthetic_digits(10_000, 0, 5).train;
        for label in 0..10 {
            let n = train.labels().iter().filter(|l| **l == label).count() as f64;
            // The tolerance is five standard deviations of a count with probability 1/10.
            assert!((n - 1000.0).abs() < 5.0 * (10_000.0 * 0.1 * 0.9_f64).sqrt(), "{n} of digit {label}");
        }
    }

    #[test]
    fn an_image_depends_on_seed_part_and_index_only() {
        let Splits { train, test } = synthetic_digits(50, 50, 1);
        assert_eq!(synthetic_digits(20, 0, 1).train, train.take(20));
        assert!((0..50).all(|i| train.image(i) != test.image(i)));
        assert_ne!(synthetic_digits(50, 0, 2).train.images(), train.images());
        assert_eq!(train.note(), "synthetic digits: drawn by a program (seed 1)");
    }

    #[test]
    fn no_image_uses_another_s_numbers() {
        let most =
            DIGITS.iter().flat_map(|d| d.iter()).map(|way| way.iter().map(|s| 2 * s.points.len()).sum::<usize>()).max();
        assert!(most.unwrap() + 20 <= NUMBERS as usize);
    }

    #[test]
    fn the_bits_are_the_same_everywhere() {
        let train = synthetic_digits(500, 0, 1).train;
        let hash: String = Sha256::digest(train.images()).iter().take(8).map(|b| format!("{b:02x}")).collect();
        assert_eq!(hash, "52d0e55917e52acf");
    }

    #[test]
    fn coloured_digits_are_the_grey_ones_in_two_colours() {
        let (grey, colour) = (synthetic_digits(30, 5, 4), synthetic_colours(30, 5, 4));
        assert_eq!((colour.train.shape(), colour.train.labels()), ([3, 32, 32], grey.train.labels()));
        assert_eq!(synthetic_colours(7, 0, 4).train, colour.train.take(7));
        for i in 0..30 {
            let planes: Vec<&[u8]> = colour.train.image(i).chunks(32 * 32).collect();
            // Ink and background differ by at least 30 in every channel, and the corner shows the background.
            for plane in &planes {
                let (least, most) = (plane.iter().min().unwrap(), plane.iter().max().unwrap());
                assert!(most - least >= 20, "image {i}: {least} to {most}");
            }
        }
        assert_ne!(colour.train.image(0), colour.train.image(1));
    }
}
