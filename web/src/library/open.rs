//! Parsing a file into a record, with error sentences for the reader.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use warpbook_record::{MAX_BYTES, Outcome, ReadError, Run};

/// The maximum number of measurements in a record, well above any real one; more would make the page slow.
const MAX_MEASUREMENTS: usize = 20_000;
/// The maximum number of spans of a timeline; more would make its canvas slow.
const MAX_SPANS: usize = 200_000;
const MAX_RUNGS: usize = 500;
const MAX_PROBLEMS: usize = 200;

/// Checks a file's size before it is read.
///
/// # Errors
/// Returns an error with the sentence of [`ReadError::TooLarge`] if the file is too large.
pub fn check_size(bytes: f64) -> Result<(), String> {
    if bytes > MAX_BYTES as f64 { Err(ReadError::TooLarge { bytes: bytes as usize }.to_string()) } else { Ok(()) }
}

/// A record and the hash of its file.
#[derive(Debug)]
pub struct Opened {
    /// The parsed record.
    pub run: Run,
    /// A hash of the file's bytes. Records cannot be compared directly, since a diverged training contains NaN.
    pub hash: u64,
    /// The file's text, if it may fit into a link.
    pub text: Option<String>,
}

/// The maximum number of bytes of a file that may fit into a link after compression.
const MAX_LINKED: usize = 4 << 20;

/// Parses a record and hashes its file.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the bytes are not a record that the page can show.
pub fn open_hashed(bytes: &[u8]) -> Result<Rc<Opened>, String> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let run = open(bytes)?;
    let text = std::str::from_utf8(bytes).ok().filter(|t| t.len() <= MAX_LINKED);
    let text = text.map(|t| t.trim_start_matches('\u{feff}').to_owned());
    Ok(Rc::new(Opened { run, hash: hasher.finish(), text }))
}

/// Parses a record; refuses one that is larger than the page can show.
///
/// # Errors
/// Returns an error, a sentence for the page's reader, if the bytes are not a record or the record is too large.
pub fn open(bytes: &[u8]) -> Result<Run, String> {
    let mut run = Run::from_json(bytes).map_err(|e| e.to_string())?;
    let limits = [
        ("measurements", run.measurements.len(), MAX_MEASUREMENTS),
        ("training logs", run.train_logs.len(), MAX_MEASUREMENTS),
        ("parts", run.parts.len(), MAX_MEASUREMENTS),
        ("spans", run.spans.len(), MAX_SPANS),
        ("X-rayed blocks", run.xrays.iter().map(|x| x.blocks.len()).sum(), MAX_SPANS),
        ("counted kernels", run.profiled.iter().map(|p| p.counters.len()).sum(), MAX_MEASUREMENTS),
        ("rungs", run.rungs.len(), MAX_RUNGS),
        ("problems", run.problems.len(), MAX_PROBLEMS),
    ];
    for (what, found, most) in limits {
        if found > most {
            return Err(format!("The record has {found} {what}; this page shows records with at most {most}."));
        }
    }
    check_times(&run)?;
    tidy_texts(&mut run);
    // A measurement with a time that is not finite counts as failed; the median of its finite samples would look like a valid result.
    for m in run.measurements.iter_mut().filter(|m| m.outcome == Outcome::Measured) {
        if m.samples_us.iter().any(|us| !us.is_finite()) {
            m.outcome = Outcome::Failed { error: "one of its times is not finite".into() };
        }
    }
    Ok(run)
}

/// The longest title, name or author that is shown, in characters.
pub const MAX_TITLE: usize = 200;
/// The longest other text that is shown, in characters.
pub const MAX_TEXT: usize = 2_000;

/// Puts a text on one line, without characters that reorder the text around them, and cuts it after `most` characters.
pub fn tidy(text: &str, most: usize) -> String {
    let line = warpbook_charts::clean(text);
    if line.chars().count() <= most {
        return line;
    }
    let mut cut: String = line.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Tidies the texts that the page shows as headings, names or sentences, since a record may contain any text.
fn tidy_texts(run: &mut Run) {
    let title = |text: &str| tidy(text, MAX_TITLE);
    run.title = title(&run.title);
    run.author = run.author.as_deref().map(title);
    run.environment.device.name = title(&run.environment.device.name);
    for rung in &mut run.rungs {
        rung.title = title(&rung.title).into();
        rung.idea = tidy(&rung.idea, MAX_TEXT).into();
    }
}

/// A time that no run can take: eleven days, in microseconds.
const LONGEST_US: f64 = 1e12;

/// Refuses a record with an impossible time, since speeds are computed from times; the error names the first one. Times
/// that are not finite are allowed: they belong to failed measurements.
fn check_times(run: &Run) -> Result<(), String> {
    let check = |what: &str, samples: &[f64]| {
        let wrong = samples.iter().position(|us| us.is_finite() && !(0.0..=LONGEST_US).contains(us));
        wrong.map_or(Ok(()), |i| {
            Err(format!(
                "{what}[{i}] is {}: a time is a number of microseconds from 0 to {LONGEST_US:e}. The record was changed after it was \
                 written, or by a program that is not Warpbook.",
                samples[i]
            ))
        })
    };
    for (i, m) in run.measurements.iter().enumerate() {
        check(&format!("measurements[{i}].samples_us"), &m.samples_us)?;
        check(&format!("measurements[{i}].wall_us"), &m.wall_us)?;
    }
    for (i, part) in run.parts.iter().enumerate() {
        check(&format!("parts[{i}].samples_us"), &part.samples_us)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{sample, sample_run};
    use serde_json::{Value, json};

    #[test]
    fn unreadable_files_get_a_sentence() {
        fn check(bytes: &[u8], expect: &str) {
            let error = open(bytes).unwrap_err();
            assert!(error.contains(expect), "{error}");
            assert!(error.ends_with('.'), "{error}");
        }
        check(b"", "is empty");
        check(b"\xff\xfe", "not UTF-8");
        check(b"[1]", "no Warpbook record");
        check(b"{\"schema\":99}", "Update Warpbook");
        check("[".repeat(100_000).as_bytes(), "not valid JSON");
        let text = sample().to_string();
        check(&text.as_bytes()[..text.len() / 2], "cut off");
    }

    #[test]
    fn records_beyond_all_measure_are_refused() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            let mut value = sample();
            change(&mut value);
            let error = open(value.to_string().as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check(&|v| v["rungs"] = Value::from(vec![v["rungs"][0].clone(); 501]), "501 rungs");
        check(&|v| v["parts"] = Value::from(vec![v["parts"][0].clone(); 20_001]), "20001 parts");
        check(&|v| v["spans"] = Value::from(vec![v["spans"][0].clone(); 200_001]), "200001 spans");
        let many = |v: &mut Value| {
            let numbered = |i: u64| {
                let mut p = v["problems"][0].clone();
                p["id"] = i.to_string().into();
                p
            };
            let more: Vec<Value> = (0..300).map(numbered).collect();
            v["problems"].as_array_mut().unwrap().extend(more);
        };
        check(&many, "303 problems; this page shows records with at most 200");
        assert!(check_size(f64::from(64 << 20)).is_ok());
        assert!(check_size(f64::from((64 << 20) + 1)).unwrap_err().contains("65 MiB"));
    }

    #[test]
    fn a_problem_whose_numbers_cannot_be_counted_is_still_found() {
        let v1 = |work: Value| {
            let mut value: Value =
                serde_json::from_slice(include_bytes!("../../../crates/warpbook-record/tests/golden/run.v1.json"))
                    .unwrap();
            let problem = &mut value["measurements"][0]["problem"];
            problem.as_object_mut().unwrap().extend(work.as_object().unwrap().clone());
            value
        };
        let check = |value: Value| {
            let run = open(value.to_string().as_bytes()).unwrap();
            let problem = &run.measurements[0].problem;
            assert!(run.problems().contains(&problem) && !run.ladder(problem).is_empty());
        };
        check(v1(json!({"epochs": u64::MAX, "features": u64::MAX})));
        check(v1(json!({"train_points": u64::MAX})));
        check(v1(json!({"noise": "NaN", "learning_rate": "Infinity"})));
        let mut value = sample();
        for field in ["flops", "bytes", "written_bytes", "working_set_bytes", "passes", "items"] {
            value["problems"][0][field] = u64::MAX.into();
        }
        check(value);
    }

    #[test]
    fn a_time_that_is_none_is_refused_with_its_path() {
        for (value, said) in [(json!(-5), "is -5"), (json!(1e308), "is 1")] {
            let mut record = sample();
            record["measurements"][1]["samples_us"][2] = value;
            let why = open(record.to_string().as_bytes()).unwrap_err();
            assert!(why.starts_with("measurements[1].samples_us[2] ") && why.contains(said), "{why}");
        }
        for value in ["NaN", "Infinity"] {
            let mut record = sample();
            record["measurements"][1]["samples_us"][2] = value.into();
            let run = open(record.to_string().as_bytes()).unwrap();
            assert!(!run.is_sound(&run.measurements[1]) && sample_run().is_sound(&run.measurements[2]), "{value}");
        }
        let mut record = sample();
        record["measurements"][0]["wall_us"][0] = json!(-1);
        assert!(open(record.to_string().as_bytes()).unwrap_err().starts_with("measurements[0].wall_us[0]"));
        let mut record = sample();
        record["measurements"][0]["samples_us"][0] = json!(0);
        assert!(open(record.to_string().as_bytes()).is_ok(), "a clock may be too coarse");
    }
}
