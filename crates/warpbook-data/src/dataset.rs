//! Labelled images in memory.

use crate::error::{Error, Result};
use crate::parallel::chunks;
use crate::philox::fill_permutation;
use std::fmt;
use std::sync::Arc;

/// Labelled images of one size. Clones share the pixels.
#[derive(Clone, PartialEq)]
pub struct Dataset {
    name: String,
    shape: [usize; 3],
    classes: Arc<[String]>,
    images: Arc<[u8]>,
    labels: Arc<[u8]>,
    origin: Origin,
}

/// Training and test images of one data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Splits {
    /// Images that a network is trained on; [`Dataset::split`] can split off a validation set.
    pub train: Dataset,
    /// Images on which the trained network is evaluated at the end.
    pub test: Dataset,
}

impl Splits {
    /// Adds a note to the training and test images; see [`Dataset::noted`].
    #[must_use]
    pub fn noted(self, what: &str) -> Self {
        Self { train: self.train.noted(what), test: self.test.noted(what) }
    }
}

/// The origin of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The published files, byte for byte.
    Original,
    /// Files in the published layout that are not known to be the published files.
    Modified {
        /// The difference, or the reason why it is not known, as a sentence without its full stop.
        why: String,
    },
    /// Files in the published layout with other images, described by a note; see [`Dataset::noted`].
    Noted {
        /// Description of the images as a sentence without its full stop, such as "recompressed as JPEG q75".
        what: String,
    },
    /// Images drawn by [`synthetic_digits`](crate::synthetic_digits).
    Synthetic {
        /// The seed with which the images were drawn.
        seed: u64,
    },
    /// Images read from a folder by [`image_folder`](crate::image_folder).
    Folder {
        /// The skipped entries, such as "9 .webp and 1 .bmp"; empty if there were none.
        passed_over: String,
    },
    /// Images that the user passed as arrays.
    Own,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.write_str("the original files"),
            Self::Modified { why: text } | Self::Noted { what: text } => f.write_str(text),
            Self::Synthetic { seed } => write!(f, "drawn by a program (seed {seed})"),
            Self::Folder { passed_over } if !passed_over.is_empty() => {
                write!(f, "own data ({passed_over} skipped: only PNG and JPEG images in the class folders are read)")
            }
            Self::Folder { .. } | Self::Own => f.write_str("own data"),
        }
    }
}

/// The size of a part that is split off: a count of images, or a fraction of the images between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SplitSize {
    /// Number of images in the part.
    Count(usize),
    /// A share of the images, rounded to a whole image.
    Fraction(f64),
}

impl From<usize> for SplitSize {
    fn from(count: usize) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for SplitSize {
    fn from(fraction: f64) -> Self {
        Self::Fraction(fraction)
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [c, h, w] = self.shape;
        let (n, classes) = (self.len(), self.classes.len());
        write!(f, "{n} images {c} x {h} x {w} of {classes} classes; {}", self.note())
    }
}

impl Dataset {
    /// Creates a data set from the caller's arrays: `images` u8 `[n][channels][height][width]`, `labels` u8 `[n]`, each the index of a class.
    ///
    /// # Errors
    /// If the lengths of the arrays do not match, or a label is not the index of a class.
    pub fn from_arrays(
        name: impl Into<String>,
        shape: [usize; 3],
        images: Vec<u8>,
        labels: Vec<u8>,
        classes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self> {
        let classes = classes.into_iter().map(Into::into).collect();
        Self::checked(name.into(), shape, images, labels, classes, Origin::Own)
    }

    pub(crate) fn checked(
        name: String,
        shape: [usize; 3],
        images: Vec<u8>,
        labels: Vec<u8>,
        classes: Vec<String>,
        origin: Origin,
    ) -> Result<Self> {
        let refuse = |why: String| Err(Error::Setting(format!("{name}: {why}")));
        let [c, h, w] = shape;
        let (n, found) = (labels.len(), images.len());
        let Some(pixels) = c.checked_mul(h).and_then(|p| p.checked_mul(w)).filter(|p| *p > 0) else {
            return refuse(format!(
                "images of {c} x {h} x {w} have no pixels; the shape is [channels, height, width]."
            ));
        };
        if pixels.checked_mul(n) != Some(found) {
            return refuse(format!(
                "{n} labels and images of {c} x {h} x {w} need {n} x {pixels} bytes of pixels, but there are {found} ({} images).",
                found as f64 / pixels as f64
            ));
        }
        if classes.is_empty() || classes.len() > 256 {
            return refuse(format!("{} classes: choose 1 to 256, since a label is a byte.", classes.len()));
        }
        if let Some(i) = labels.iter().position(|l| usize::from(*l) >= classes.len()) {
            let (label, last) = (labels[i], classes.len() - 1);
            return refuse(format!("label {i} is {label}, but the classes are numbered 0 to {last}."));
        }
        Ok(Self::fitting(name, shape, images, labels, classes, origin))
    }

    /// Creates a data set from arrays whose lengths are known to match.
    pub(crate) fn fitting(
        name: String,
        shape: [usize; 3],
        images: Vec<u8>,
        labels: Vec<u8>,
        classes: Vec<String>,
        origin: Origin,
    ) -> Self {
        Self { name, shape, classes: classes.into(), images: images.into(), labels: labels.into(), origin }
    }

    /// Returns the name of the data set.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the shape of an image, `[channels, height, width]`.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Returns the number of channels of an image: 1 for grey, 3 for red, green and blue.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.shape[0]
    }

    /// Returns the height of an image in pixels.
    #[must_use]
    pub fn height(&self) -> usize {
        self.shape[1]
    }

    /// Returns the width of an image in pixels.
    #[must_use]
    pub fn width(&self) -> usize {
        self.shape[2]
    }

    /// Returns the number of bytes of an image, channels x height x width.
    #[must_use]
    pub fn pixels(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the names of the classes; a label is an index into this list.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns all pixels, u8 `[n][channels][height][width]`.
    #[must_use]
    pub fn images(&self) -> &Arc<[u8]> {
        &self.images
    }

    /// Returns all labels, u8 `[n]`.
    #[must_use]
    pub fn labels(&self) -> &Arc<[u8]> {
        &self.labels
    }

    /// Returns the origin of the images.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns a note that describes these images, to be shown with any result on them. It is a sentence without its full stop.
    #[must_use]
    pub fn note(&self) -> String {
        format!("{}: {}", self.name, self.origin)
    }

    /// Returns these images with a note that describes them, such as "recompressed as JPEG q75"; the note is shown with any result on them. Only files with
    /// unknown content get the note; it is ignored for the published files, synthetic images and the user's own arrays.
    #[must_use]
    pub fn noted(mut self, what: impl Into<String>) -> Self {
        if matches!(self.origin, Origin::Modified { .. } | Origin::Noted { .. }) {
            self.origin = Origin::Noted { what: what.into() };
        }
        self
    }

    /// Returns the number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if there are no images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the pixels of image `i`, u8 `[channels][height][width]`.
    ///
    /// # Panics
    /// If there is no such image.
    #[must_use]
    pub fn image(&self, i: usize) -> &[u8] {
        let pixels = self.pixels();
        &self.images[i * pixels..][..pixels]
    }

    /// Returns the label of image `i`.
    ///
    /// # Panics
    /// If there is no such image.
    #[must_use]
    pub fn label(&self, i: usize) -> u8 {
        self.labels[i]
    }

    /// Returns the first `n` images, or all if there are fewer.
    #[must_use]
    pub fn take(&self, n: usize) -> Self {
        if n >= self.len() {
            return self.clone();
        }
        self.with(self.images[..n * self.pixels()].into(), self.labels[..n].into())
    }

    /// Returns the images with these indices, in this order; an index may be repeated.
    ///
    /// # Errors
    /// If an index is past the end.
    pub fn subset(&self, indices: &[usize]) -> Result<Self> {
        if let Some(i) = indices.iter().find(|i| **i >= self.len()) {
            let n = self.len();
            return Err(Error::Setting(format!(
                "{}: there is no image {i}; the {n} images are numbered from 0.",
                self.name
            )));
        }
        Ok(self.gather(indices))
    }

    /// Splits off a random part as a validation set; returns the rest and the part, both in random order. The same seed gives the same split.
    ///
    /// # Errors
    /// If the part is empty, or not smaller than the set.
    pub fn split(&self, validation: impl Into<SplitSize>, seed: u64) -> Result<(Self, Self)> {
        let (n, part) = (self.len(), validation.into());
        let count = match part {
            SplitSize::Count(count) => count,
            SplitSize::Fraction(f) if f > 0.0 && f < 1.0 => (n as f64 * f).round() as usize,
            SplitSize::Fraction(f) => {
                return Err(Error::Setting(format!(
                    "A fraction of {f} cannot be split off; choose one between 0 and 1, such as 0.1."
                )));
            }
        };
        if count == 0 || count >= n {
            return Err(Error::Setting(format!(
                "{count} of the {n} images of {} cannot be split off: both parts need at least one.",
                self.name
            )));
        }
        let mut order = vec![0; n];
        fill_permutation(&mut order, seed, 0, n as u64);
        let order: Vec<usize> = order.into_iter().map(|i| i as usize).collect();
        let (validation, train) = order.split_at(count);
        Ok((self.gather(train), self.gather(validation)))
    }

    /// Returns the images with these indices, all of which must exist.
    fn gather(&self, indices: &[usize]) -> Self {
        let pixels = self.pixels();
        let mut images = vec![0; indices.len() * pixels];
        chunks(&mut images, pixels, &|slot, to| to.copy_from_slice(self.image(indices[slot])));
        self.with(images.into(), indices.iter().map(|i| self.labels[*i]).collect())
    }

    /// Returns the images with these classes; each label is replaced by its entry in `places`.
    pub(crate) fn renumbered(&self, classes: &[String], places: &[u8]) -> Self {
        let labels = self.labels.iter().map(|label| places[usize::from(*label)]).collect();
        Self { classes: classes.into(), labels, ..self.clone() }
    }

    fn with(&self, images: Arc<[u8]>, labels: Arc<[u8]>) -> Self {
        let Self { name, shape, classes, origin, .. } = self;
        Self { name: name.clone(), shape: *shape, classes: classes.clone(), images, labels, origin: origin.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(n: u8) -> Dataset {
        let images = (0..n).flat_map(|i| [i, i, i, 255 - i]).collect();
        Dataset::from_arrays("own", [1, 2, 2], images, (0..n).map(|i| i % 3).collect(), ["a", "b", "c"]).unwrap()
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let check = |shape, images: usize, labels: &[u8], classes: &[&str], expect: &str| {
            let made = Dataset::from_arrays("mine", shape, vec![0; images], labels.to_vec(), classes.iter().copied());
            let error = made.unwrap_err().to_string();
            assert!(error.starts_with("mine: ") && error.contains(expect), "{error}");
        };
        check([1, 2, 2], 7, &[0, 1], &["a", "b"], "need 2 x 4 bytes of pixels, but there are 7 (1.75 images)");
        check([1, 0, 2], 0, &[], &["a"], "[channels, height, width]");
        check([usize::MAX, 2, 2], 0, &[], &["a"], "[channels, height, width]");
        check([1, 1, usize::MAX], 1, &[0, 0], &["a"], "need 2 x");
        check([1, 1, 1], 3, &[0, 1, 2], &["a", "b"], "label 2 is 2, but the classes are numbered 0 to 1");
        check([1, 1, 1], 1, &[0], &[], "0 classes");
        check([1, 1, 1], 1, &[0], &["x"; 257], "257 classes");
    }

    #[test]
    fn images_are_found_by_index() {
        let data = numbered(6);
        assert_eq!((data.len(), data.image(4), data.label(4)), (6, &[4, 4, 4, 251][..], 1));
        assert_eq!((data.take(2).len(), data.take(2).image(1), data.take(99)), (2, data.image(1), data.clone()));
        let some = data.subset(&[5, 0, 5]).unwrap();
        assert_eq!((some.labels().as_ref(), some.image(2)), (&[2, 0, 2][..], data.image(5)));
        assert!(data.subset(&[0, 6]).unwrap_err().to_string().contains("there is no image 6"));
        assert_eq!(data.note(), "own: own data");
    }

    #[test]
    fn files_that_nobody_knows_have_an_honest_name() {
        let with_origin = |origin: Origin| Dataset { origin, ..numbered(4) };
        let unknown = || with_origin(Origin::Modified { why: "not verified as the original files".into() });
        let noted = unknown().noted("recompressed as JPEG q75");
        assert_eq!(noted.note(), "own: recompressed as JPEG q75");
        assert_eq!((noted.take(2).note(), noted.images()), (noted.note(), unknown().images()));
        assert_eq!(noted.noted("at 24 pixels").note(), "own: at 24 pixels");
        let folder = Origin::Folder { passed_over: String::new() };
        for known in [Origin::Original, Origin::Synthetic { seed: 1 }, folder, Origin::Own] {
            assert_eq!(with_origin(known.clone()).noted("something else").origin(), &known);
        }
        let splits = Splits { train: unknown(), test: with_origin(Origin::Original) }.noted("recompressed");
        assert_eq!(
            (splits.train.note(), splits.test.note()),
            ("own: recompressed".into(), "own: the original files".into())
        );
    }

    #[test]
    fn a_part_is_neither_nothing_nor_everything() {
        let data = numbered(10);
        assert_eq!(data.split(3, 1).unwrap().1.len(), 3);
        assert_eq!(data.split(0.25, 1).unwrap().0.len(), 7);
        for bad in [SplitSize::Count(0), SplitSize::Count(10), SplitSize::Fraction(0.01), SplitSize::Fraction(0.99)] {
            assert!(data.split(bad, 1).unwrap_err().to_string().contains("both parts need at least one"), "{bad:?}");
        }
        for bad in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(data.split(bad, 1).unwrap_err().to_string().contains("between 0 and 1"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_split_is_disjoint_and_covers_and_follows_its_seed(n in 2u8..200, part in 1usize..199, seed: u64) {
            let data = numbered(n);
            let part = part.min(data.len() - 1);
            let (train, validation) = data.split(part, seed).unwrap();
            prop_assert_eq!(validation.len(), part);
            let mut seen: Vec<u8> = [&train, &validation].iter().flat_map(|d| (0..d.len()).map(|i| d.image(i)[0])).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..n).collect::<Vec<_>>());
            for set in [&train, &validation] {
                prop_assert!((0..set.len()).all(|i| set.label(i) == set.image(i)[0] % 3));
            }
            prop_assert_eq!(data.split(part, seed).unwrap(), (train, validation));
        }
    }
}
