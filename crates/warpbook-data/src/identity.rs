//! Identification of the images that a network was trained on, as stored in the network's files.

use crate::error::{Error, Result};
use crate::{Dataset, NAMES, Origin};
use flate2::Crc;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The way in which an image from a file is scaled to the input size of a network. The image is first turned upright, as its EXIF data say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The whole image is scaled, whatever its aspect ratio, as [`image_folder`](crate::image_folder) does.
    Whole,
    /// The largest centred part with the network's aspect ratio is scaled. This suits networks that were trained on images of a single size, which needed no
    /// scaling.
    Centre,
}

/// The source from which a data set can be opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// A name that [`open`](crate::open) knows, or a folder with a subfolder of images for each class.
    pub data: String,
    /// The folder with the files of a named set; `None` for the default folder.
    pub folder: Option<String>,
}

impl Source {
    /// Returns how images from files were scaled, derived from the source alone, because older files of networks do not record it.
    #[must_use]
    pub fn usual_fit(&self) -> Fit {
        if NAMES.contains(&self.data.as_str()) { Fit::Centre } else { Fit::Whole }
    }
}

impl<S: Into<String>> From<S> for Source {
    fn from(data: S) -> Self {
        Self { data: data.into(), folder: None }
    }
}

/// Identifies the images that a network was trained on. The names of the classes are stored separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// A description of the images, from [`Dataset::note`].
    pub note: String,
    /// The number of images that the checksum covers.
    pub images: usize,
    /// CRC-32 of all labels and then all pixels.
    pub checksum: u32,
    /// The way in which images from files were scaled to the input size.
    pub fit: Fit,
    /// True if a program drew the images.
    #[serde(default)]
    pub is_drawn: bool,
}

/// Writes, for example, "pets: own data, 320 images with checksum 0f3c52a1".
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} images with checksum {:08x}", self.note, self.images, self.checksum)
    }
}

impl Dataset {
    /// Identifies these images by a checksum, for which all images are read.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let mut crc = Crc::new();
        crc.update(self.labels());
        crc.update(self.images());
        let fit = if matches!(self.origin(), Origin::Folder { .. }) { Fit::Whole } else { Fit::Centre };
        let is_drawn = matches!(self.origin(), Origin::Synthetic { .. });
        Identity { note: self.note(), images: self.len(), checksum: crc.sum(), fit, is_drawn }
    }

    /// Returns these images with their labels renumbered to match the positions of their class names in `classes`, such as a network's. The order of the
    /// classes may differ, and `classes` may have additional names.
    ///
    /// # Errors
    /// If a class of the images is not in `classes`; the message names both lists.
    pub fn with_classes(&self, classes: &[String]) -> Result<Self> {
        if self.classes() == classes {
            return Ok(self.clone());
        }
        let place = |name: &String| {
            let mut places = classes.iter().zip(0..=u8::MAX).filter(|(class, _)| *class == name).map(|(_, at)| at);
            places.next().filter(|_| places.next().is_none())
        };
        match self.classes().iter().map(place).collect::<Option<Vec<u8>>>() {
            Some(places) => Ok(self.renumbered(classes, &places)),
            None => Err(Error::Setting(format!(
                "The network was trained on the classes {}, but {} has the classes {}. Choose images of the network's classes.",
                names(classes),
                self.name(),
                names(self.classes())
            ))),
        }
    }
}

/// Joins names in a phrase such as "cat and dog" or "a, b, c and 7 more".
#[must_use]
pub fn names(names: &[String]) -> String {
    const MOST: usize = 10;
    match names {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= MOST => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} more", names[..MOST - 1].join(", "), names.len() - (MOST - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, pixels: Vec<u8>, labels: Vec<u8>, classes: &[&str]) -> Dataset {
        Dataset::from_arrays(name, [1, 1, 1], pixels, labels, classes.iter().copied()).unwrap()
    }

    #[test]
    fn classes_are_matched_by_name() {
        let pets = set("pets", vec![5, 6, 7], vec![0, 1, 1], &["cat", "dog"]);
        let owned = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let check = |classes: &[&str], labels: &[u8]| {
            let matched = pets.with_classes(&owned(classes)).unwrap();
            assert_eq!((matched.labels().as_ref(), matched.classes()), (labels, &owned(classes)[..]));
            assert_eq!(matched.images(), pets.images());
        };
        check(&["cat", "dog"], &[0, 1, 1]);
        check(&["dog", "cat"], &[1, 0, 0]);
        check(&["ape", "dog", "cat"], &[2, 1, 1]);
        let refused = |classes: &[&str]| pets.with_classes(&owned(classes)).unwrap_err().to_string();
        assert_eq!(
            refused(&["apple", "pear"]),
            "The network was trained on the classes apple and pear, but pets has the classes cat and dog. Choose images of the network's classes."
        );
        refused(&["cat"]);
        // If a class name is repeated, it is unclear which of the two classes is meant.
        refused(&["cat", "dog", "cat"]);
        let many: Vec<String> = (0..12).map(|i| i.to_string()).collect();
        assert!(
            pets.with_classes(&many).unwrap_err().to_string().contains("0, 1, 2, 3, 4, 5, 6, 7, 8 and 3 more, but")
        );
    }

    #[test]
    fn other_images_have_another_identity() {
        let one = set("pets", vec![5, 6, 7], vec![0, 1, 1], &["cat", "dog"]).identity();
        assert_eq!(one, set("pets", vec![5, 6, 7], vec![0, 1, 1], &["cat", "dog"]).identity());
        assert_ne!(one.checksum, set("pets", vec![5, 6, 8], vec![0, 1, 1], &["cat", "dog"]).identity().checksum);
        assert_ne!(one.checksum, set("pets", vec![5, 6, 7], vec![0, 0, 1], &["cat", "dog"]).identity().checksum);
        assert!(one.to_string().starts_with("pets: own data, 3 images with checksum "), "{one}");
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Identity>(&text).unwrap(), one);
    }
}
