//! The filter of the overview.

use super::entries::Entry;
use crate::text::search::folded;

/// The reader's filter; empty texts accept every record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Words that must occur in a record's title, experiment, device, author, date, file or headline, in any order.
    pub text: String,
    /// The chosen experiment.
    pub experiment: String,
    /// The chosen device.
    pub device: String,
}

impl Filter {
    /// Returns `true` if the filter accepts a record.
    pub fn keeps(&self, entry: &Entry) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let texts = [
            &entry.title,
            &entry.experiment,
            &entry.device,
            &entry.author,
            &entry.created,
            &entry.name,
            &entry.headline,
        ];
        let all = texts.map(|t| folded(t)).join("\n");
        is(&self.experiment, &entry.experiment)
            && is(&self.device, &entry.device)
            && folded(&self.text).split_whitespace().all(|word| all.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;
    use crate::library::open::open_hashed;
    use crate::testing::sample;

    #[test]
    fn records_are_found_by_their_words() {
        let mut library = Library::default();
        let key = library.add_read("mine.json", open_hashed(sample().to_string().as_bytes()).unwrap());
        let entry = library.get(&key).unwrap();
        let text = |text: &str| Filter { text: text.into(), ..Filter::default() }.keeps(entry);
        assert!(text("") && text("h200 REGRESSION") && text("mine.json") && text("passed the check"));
        assert!(!text("h100") && !text("regression softmax"));
        let keeps = |experiment: &str, device: &str| {
            let filter = Filter { experiment: experiment.into(), device: device.into(), ..Filter::default() };
            filter.keeps(entry)
        };
        assert!(keeps("regression", "") && keeps("", &entry.device) && keeps("regression", &entry.device));
        assert!(!keeps("matmul", "") && !keeps("regression", "NVIDIA"));
    }
}
