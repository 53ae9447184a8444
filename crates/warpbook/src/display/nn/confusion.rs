//! The display of a confusion matrix.

use crate::display::Show;
use crate::display::html::note;
use crate::display::nn::predictions::check;
use warpbook_charts::{Chart, ChartError, Confusion, draw};
use warpbook_data::Dataset;
use warpbook_nn::infer::Prediction;

/// A confusion matrix: how often each class of a data set was predicted as each class.
///
/// ```
/// use warpbook::prelude::nn::*;
/// use warpbook::prelude::*;
///
/// let digits = synthetic_digits(64, 8, 1);
/// let trainer = Trainer::new(Recipe { steps: Some(1), ..Recipe::mnist() }, &digits.train, None)?;
/// let frozen = Frozen::new(trainer.recipe(), &trainer.weights()?, digits.test.classes())?;
/// let predictions = frozen.predict(digits.test.images())?;
/// let matrix = ConfusionMatrix::from_predictions(&digits.test, &predictions)?;
/// assert!(matrix.text().contains("of 8 samples are right"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfusionMatrix {
    title: String,
    subtitle: String,
    classes: Vec<String>,
    /// The counts, `[class][predicted class]`.
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// Creates the matrix from predictions for all images of a set, in the set's order.
    ///
    /// # Errors
    /// If the number of predictions differs from the number of images, or a prediction is outside the set's classes.
    pub fn from_predictions(set: &Dataset, predictions: &[Prediction]) -> warpbook_lab::Result<Self> {
        check(set, predictions)?;
        let classes = set.classes().to_vec();
        let mut counts = vec![0; classes.len() * classes.len()];
        for (label, prediction) in set.labels().iter().zip(predictions) {
            counts[usize::from(*label) * classes.len() + prediction.class] += 1;
        }
        let title = format!("{}: true and predicted classes", set.name());
        Ok(Self { title, subtitle: format!("{} images; {}", set.len(), set.note()), classes, counts })
    }

    /// Returns how many images of one class were predicted as another; both are indices.
    #[must_use]
    pub fn count(&self, class: usize, taken_for: usize) -> u64 {
        let n = self.classes.len();
        if class < n && taken_for < n { self.counts[class * n + taken_for] } else { 0 }
    }

    /// Draws the matrix as a chart.
    ///
    /// # Errors
    /// If the set has no images.
    pub fn chart(&self) -> Result<Chart, ChartError> {
        let Self { title, subtitle, classes, counts } = self;
        draw().confusion(&Confusion { title, subtitle, classes, counts })
    }
}

impl Show for ConfusionMatrix {
    fn html(&self) -> String {
        self.chart().map_or_else(|why| note(&why.to_string()), |chart| chart.html())
    }

    fn text(&self) -> String {
        self.chart().map_or_else(|why| why.to_string(), |chart| Show::text(&chart))
    }
}

#[cfg(test)]
mod tests {
    use super::super::predictions::tests::{predictions, set};
    use super::*;

    #[test]
    fn counts_are_by_class_and_prediction() {
        let matrix = ConfusionMatrix::from_predictions(&set(1), &predictions()).unwrap();
        assert_eq!(matrix.counts, [1, 1, 0, 2]);
        assert_eq!((matrix.count(0, 1), matrix.count(1, 1), matrix.count(2, 0)), (1, 2, 0));
        let text = matrix.text();
        assert!(text.starts_with("two: true and predicted classes\nConfusion matrix of 2 classes"), "{text}");
        assert!(
            text.contains("3 of 4 samples are right (75 %)") && text.contains("<cat> predicted as dog (1)"),
            "{text}"
        );
        let html = matrix.html();
        assert!(
            html.contains("alt=\"two: true and predicted classes. Confusion matrix")
                && html.contains("&lt;cat&gt; predicted as dog (1)"),
            "{html}"
        );
        assert!(html.contains("<td>&lt;cat&gt;</td><td class=\"wb-num\">1</td>"), "{html}");
    }

    #[test]
    fn a_set_without_images_says_so() {
        let none = set(1).take(0);
        let matrix = ConfusionMatrix::from_predictions(&none, &[]).unwrap();
        assert!(matrix.text().contains("Nothing was classified") && matrix.html().contains("wb-note"));
        assert!(ConfusionMatrix::from_predictions(&none, &predictions()).is_err());
    }
}
