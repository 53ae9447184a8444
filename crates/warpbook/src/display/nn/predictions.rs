//! Images with a network's predictions.

use crate::display::Show;
use crate::display::html::{escape, heading, printable, table};
use crate::display::nn::images::encoded;
use warpbook_data::Dataset;
use warpbook_lab::{Error, Result};
use warpbook_nn::infer::Prediction;

/// Maximum number of images in a grid; more would make a notebook cell slow.
const MOST: usize = 400;

/// A grid of images, each with its prediction and confidence. A wrong prediction has a cross, the true class and a
/// dashed frame.
///
/// ```
/// use warpbook::prelude::nn::*;
/// use warpbook::prelude::*;
///
/// let digits = synthetic_digits(64, 8, 1);
/// let trainer = Trainer::new(Recipe { steps: Some(1), ..Recipe::mnist() }, &digits.train, None)?;
/// let frozen = Frozen::new(trainer.recipe(), &trainer.weights()?, digits.test.classes())?;
/// let predictions = frozen.predict(digits.test.images())?;
/// let first = PredictionGrid::first(&digits.test, &predictions, 4)?;
/// let mistakes = PredictionGrid::mistakes(&digits.test, &predictions, 4)?;
/// assert!(first.text().contains("image 3"));
/// # let _ = mistakes;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionGrid {
    heading: String,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq)]
struct Cell {
    /// Index of the image in its set.
    image: usize,
    /// The image as a PNG file in base64.
    png: String,
    label: String,
    taken_for: String,
    confidence: f32,
    right: bool,
}

/// Returns an error unless each image of the set has a prediction within the set's classes.
pub(crate) fn check(set: &Dataset, predictions: &[Prediction]) -> Result<()> {
    if set.len() != predictions.len() {
        return Err(Error::Setting(format!(
            "{} has {} images, and there are {} predictions: predict all images of the set, in its order.",
            set.name(),
            set.len(),
            predictions.len()
        )));
    }
    let n = set.classes().len();
    match predictions.iter().find(|p| p.class >= n) {
        Some(p) => Err(Error::Setting(format!(
            "A prediction is of class {}, and {} has {n} classes: they are of another network.",
            p.class,
            set.name()
        ))),
        None => Ok(()),
    }
}

impl PredictionGrid {
    /// Shows the first `n` images of a set, given predictions for all images.
    ///
    /// # Errors
    /// If the number of predictions differs from the number of images, a prediction is outside the set's classes, or
    /// the images are neither grey nor in colour.
    pub fn first(set: &Dataset, predictions: &[Prediction], n: usize) -> Result<Self> {
        check(set, predictions)?;
        let n = n.min(set.len()).min(MOST);
        let heading = format!("The first {n} of {} images: {}", set.len(), set.name());
        Self::new(heading, set, predictions, (0..n).collect())
    }

    /// Shows the `n` mistakes with the highest confidence, sorted by confidence.
    ///
    /// # Errors
    /// See [`PredictionGrid::first`].
    pub fn mistakes(set: &Dataset, predictions: &[Prediction], n: usize) -> Result<Self> {
        check(set, predictions)?;
        let is_wrong = |i: &usize| usize::from(set.label(*i)) != predictions[*i].class;
        let mut wrong: Vec<usize> = (0..set.len()).filter(is_wrong).collect();
        let (all, images) = (wrong.len(), set.len());
        wrong.sort_by(|a, b| predictions[*b].confidence.total_cmp(&predictions[*a].confidence));
        wrong.truncate(n.min(MOST));
        let heading = match wrong.len() {
            _ if all == 0 => format!("No mistakes among {images} images: {}", set.name()),
            n => format!("The {n} most confident of {all} mistakes among {images} images: {}", set.name()),
        };
        Self::new(heading, set, predictions, wrong)
    }

    fn new(heading: String, set: &Dataset, predictions: &[Prediction], images: Vec<usize>) -> Result<Self> {
        let cell = |image: usize| {
            let (label, prediction) = (usize::from(set.label(image)), &predictions[image]);
            Ok(Cell {
                image,
                png: encoded(set.shape(), set.image(image))?,
                label: set.classes()[label].clone(),
                taken_for: set.classes()[prediction.class].clone(),
                confidence: prediction.confidence,
                right: label == prediction.class,
            })
        };
        Ok(Self { heading, cells: images.into_iter().map(cell).collect::<Result<_>>()? })
    }
}

impl Cell {
    fn confidence(&self) -> String {
        format!("{:.1} %", 100.0 * self.confidence)
    }

    fn html(&self) -> String {
        let [label, taken_for] = [&self.label, &self.taken_for].map(|t| escape(t));
        let (class, caption) = if self.right {
            ("wb-right", format!("✓ {taken_for}<br>{}", self.confidence()))
        } else {
            ("wb-wrong", format!("✗ <strong>{taken_for}</strong>, is {label}<br>{}", self.confidence()))
        };
        format!(
            "<figure class=\"{class}\" style=\"display:inline-block;width:7.2em\"><img src=\"data:image/png;base64,{}\" \
             alt=\"image {}, {label}\" style=\"width:100%\"><figcaption>{caption}</figcaption></figure>",
            self.png, self.image
        )
    }
}

impl Show for PredictionGrid {
    fn html(&self) -> String {
        let cells: String = self.cells.iter().map(Cell::html).collect();
        format!("{}<div class=\"wb-images\">{cells}</div>", heading(&self.heading))
    }

    fn text(&self) -> String {
        let row = |c: &Cell| {
            let verdict = if c.right { "right" } else { "wrong" };
            [format!("image {}", c.image), c.label.clone(), c.taken_for.clone(), c.confidence(), verdict.to_owned()]
        };
        let title = printable(&self.heading);
        if self.cells.is_empty() {
            return title;
        }
        let rows = table(["image", "is", "predicted", "confidence", ""], self.cells.iter().map(row).collect());
        format!("{title}\n{}", Show::text(&rows))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// Returns four images of 2 x 2 pixels, of the classes 0, 0, 1 and 1.
    pub fn set(channels: usize) -> Dataset {
        let images: Vec<u8> = (0..4 * 4 * channels).map(|i| (i * 10 % 256) as u8).collect();
        Dataset::from_arrays("two", [channels, 2, 2], images, vec![0, 0, 1, 1], ["<cat>", "dog"]).unwrap()
    }

    /// Returns predictions for the images of [`set`]; the second prediction is wrong.
    pub fn predictions() -> Vec<Prediction> {
        let predicted = |(class, confidence): (usize, f32)| Prediction { class, confidence, probabilities: Vec::new() };
        [(0, 0.6), (1, 0.9), (1, 0.7), (1, 1.0)].map(predicted).to_vec()
    }

    #[test]
    fn a_grid_shows_images_and_marks_what_is_wrong() {
        for channels in [1, 3] {
            let set = set(channels);
            let grid = PredictionGrid::first(&set, &predictions(), 3).unwrap();
            let html = grid.html();
            assert!(html.contains("The first 3 of 4 images: two"), "{html}");
            assert_eq!((html.matches("<figure").count(), html.matches("class=\"wb-wrong\"").count()), (3, 1));
            assert!(
                html.contains("✓ &lt;cat&gt;<br>60.0 %")
                    && html.contains("✗ <strong>dog</strong>, is &lt;cat&gt;<br>90.0 %")
            );
            assert!(html.contains("alt=\"image 2, dog\""));
            // The picture has the pixels of the set's image.
            let encoded = html.split("base64,").nth(2).unwrap().split('"').next().unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), STANDARD.decode(encoded).unwrap()).unwrap();
            let fitted = warpbook_data::fit_image(file.path(), set.shape(), warpbook_data::Fit::Whole).unwrap();
            assert_eq!(fitted.pixels, set.image(1));
            let text = Show::text(&grid);
            assert!(
                text.lines().any(|l| l.split_whitespace().eq("image 1 <cat> dog 90.0 % wrong".split(' '))),
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes_begin_with_the_surest() {
        let set = set(1);
        let mut all = predictions();
        all[2] = Prediction { class: 0, confidence: 0.95, probabilities: Vec::new() };
        let grid = PredictionGrid::mistakes(&set, &all, 5).unwrap();
        assert_eq!(grid.cells.iter().map(|c| c.image).collect::<Vec<_>>(), [2, 1]);
        assert!(grid.html().contains("The 2 most confident of 2 mistakes among 4 images"));
        let one = PredictionGrid::mistakes(&set, &all, 1).unwrap();
        assert!(Show::text(&one).contains("The 1 most confident of 2 mistakes"));
        all[1].class = 0;
        all[2].class = 1;
        assert_eq!(Show::text(&PredictionGrid::mistakes(&set, &all, 5).unwrap()), "No mistakes among 4 images: two");
    }

    #[test]
    fn predictions_of_another_set_are_refused() {
        let mut all = predictions();
        let refused =
            |all: &[Prediction], channels| PredictionGrid::first(&set(channels), all, 2).unwrap_err().to_string();
        assert!(refused(&all[..3], 1).contains("4 images, and there are 3 predictions"));
        assert!(refused(&all, 2).contains("choose 1 channel (grey) or 3 (colour)"));
        all[3].class = 2;
        assert!(refused(&all, 1).contains("class 2, and two has 2 classes"));
    }
}
