//! The tables of `data/README.md`: figures at the records' main problems, and comparisons with libraries and other
//! frameworks.

use super::{Record, whole};
use std::collections::HashSet;
use warpbook_charts::{LadderTable, words};
use warpbook_record::{Column, Measurement, Problem, Quantity, Requires, Run, Rung, Runner};

/// Returns the tables. Each record has a table of the ladder for its main problem, and tables that compare all problems with GPU
/// libraries and with other frameworks if it has such rungs. Trainings and the guide's pairs come last.
pub(super) fn results(records: &[Record]) -> Option<String> {
    let tables = |r: &Record| {
        let main = r.run.main_problem()?;
        let dtypes = dtypes(&r.run, main);
        let ladder = if dtypes.len() > 1 { side_by_side(r, main, &dtypes) } else { ladder(r, main) };
        Some([ladder, about_the_choice(&r.run), against_libraries(&r.run), against_frameworks(&r.run)])
    };
    let (pairs, others): (Vec<&Record>, Vec<&Record>) = records.iter().partition(|r| is_of_the_guide(r));
    let ladders = others.into_iter().filter_map(tables).flatten().flatten();
    let tables: Vec<String> =
        ladders.chain(whole::trainings(records)).chain(whole::logged(records)).chain(guide(&pairs)).collect();
    (!tables.is_empty()).then(|| tables.join("\n\n"))
}

/// Returns true if a record belongs to one of the guide's pairs, which share a table.
pub(super) fn is_of_the_guide(record: &Record) -> bool {
    record.run.experiment.starts_with("guide-")
}

/// Returns a table with one row for each pair of the guide, for the record's main problem: see [`Run::slow_and_fast`].
fn guide(pairs: &[&Record]) -> Option<String> {
    let row = |r: &&Record| {
        let problem = r.run.main_problem()?;
        let (slow, fast) = r.run.slow_and_fast(problem)?;
        let (slow_us, fast_us) = (slow.median_us()?, fast.median_us()?);
        Some(vec![
            format!("[{}](results/{})", cell(&r.run.title), r.file),
            cell(&problem.label),
            cell(&title(&r.run, slow)),
            words::time(slow_us),
            cell(&title(&r.run, fast)),
            words::time(fast_us),
            words::times(slow_us / fast_us),
            cell(&r.run.environment.device.name),
            date(&r.run).to_owned(),
        ])
    };
    let rows: Vec<Vec<String>> = pairs.iter().filter_map(row).collect();
    let headers = [
        words_head("pair"),
        words_head("with"),
        words_head("slow"),
        figures_head(""),
        words_head("fastest of the other ways"),
        figures_head(""),
        figures_head("times as fast"),
        words_head("on"),
        words_head("date"),
    ];
    Some(format!("{}{}", heading(GUIDE, "The optimisation guide's pairs"), markdown(&headers, &rows)?))
}

/// Anchors of the tables of the guide's pairs, of trainings and of surveys.
pub(super) const GUIDE: &str = "guide";
pub(super) const WHOLE_TRAININGS: &str = "whole-trainings";
pub(super) const LOGGED_TRAININGS: &str = "logged-trainings";
pub(super) const SURVEYS: &str = "surveys";

/// Returns a heading with a fixed anchor that does not depend on its words.
pub(super) fn heading(anchor: &str, title: &str) -> String {
    format!("### <a id=\"{anchor}\"></a>{}\n\n", cell(title))
}

/// Returns the anchor of a record's first table.
pub(super) fn anchor(record: &Record) -> &str {
    record.file.trim_end_matches(".json")
}

/// Returns the date of a record without the time.
pub(super) fn date(run: &Run) -> &str {
    run.created.get(..10).unwrap_or("undated")
}

/// Returns the devices of a record, such as "4 × NVIDIA H200".
pub(super) fn devices(run: &Run, problem: &Problem) -> String {
    let device = cell(&run.environment.device.name);
    match run.gpus_at(problem) {
        gpus @ 2.. => format!("{gpus} × {device}"),
        _ => device,
    }
}

/// Returns the title of a measurement's rung.
pub(super) fn title(run: &Run, m: &Measurement) -> String {
    run.rung(&m.rung).map_or_else(|| m.rung.clone(), |rung| rung.title.to_string())
}

/// Returns a record's heading and a description of its first table: the work, the device, the record and its date.
fn opening(record: &Record, problem: &Problem, of: &str) -> String {
    let run = &record.run;
    let title = if run.title.is_empty() { &run.experiment } else { &run.title };
    let (heading, on, file) = (heading(anchor(record), title), devices(run, problem), &record.file);
    format!("{heading}{}, on {on} ([record](results/{file}), {}):\n\n", cell(of), date(run))
}

/// If the record has the rung `as_chosen`, explains how the choice was made, and why the record does not test it.
fn about_the_choice(run: &Run) -> Option<String> {
    run.rung("as_chosen")?;
    Some(format!(
        "`as_chosen` is the rung and the tile that `gemm()` picks without tuning: from the published findings for the device if they have the product, \
         else by a cost model. The findings come from an earlier measurement of these products, so this row does not test the choice; \
         [the surveys](#{SURVEYS}) of other products do."
    ))
}

/// Returns a Markdown table with right-aligned columns of figures; `None` if there are no rows.
pub(super) fn markdown(headers: &[(String, bool)], rows: &[Vec<String>]) -> Option<String> {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(headers.iter().map(|h| h.0.as_str()).collect());
    text += &format!("|{}|\n", headers.iter().map(|h| if h.1 { "---:" } else { "---" }).collect::<Vec<_>>().join("|"));
    text.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    (!rows.is_empty()).then(|| text.trim_end().to_owned())
}

pub(super) fn words_head(text: &str) -> (String, bool) {
    (cell(text), false)
}

pub(super) fn figures_head(text: &str) -> (String, bool) {
    (cell(text), true)
}

/// Formats an id as code, without backticks inside, which would end it.
pub(super) fn code(id: &str) -> String {
    format!("`{}`", cell(id).replace('`', ""))
}

/// Returns a figure, or a dash if there is none.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.filter(|t| !t.is_empty()).unwrap_or_else(|| "–".into())
}

/// Returns a table of all rungs for a problem with the columns of the record's descriptor. Each rung's bound follows the
/// column "% of bound".
fn ladder(record: &Record, problem: &Problem) -> Option<String> {
    let run = &record.run;
    let mut columns: Vec<Column> = LadderTable::for_problem(run, problem).headers.iter().map(|h| h.column).collect();
    if let Some(at) = columns.iter().position(|c| *c == Column::OfBound)
        && !columns.contains(&Column::BoundBy)
    {
        columns.insert(at + 1, Column::BoundBy);
    }
    let table = LadderTable::with(run, problem, &columns);
    let remark = |row: &warpbook_charts::LadderTableRow| {
        let less = row.less_work.map(|share| format!("does {} of the operations", words::percent(share)));
        row.note.clone().or(less)
    };
    let remarks = table.rows.iter().any(|row| remark(row).is_some());
    let mut headers = vec![words_head("rung"), words_head("")];
    headers.extend(table.headers.iter().map(|h| (cell(&h.text), h.numeric)));
    headers.extend(remarks.then(|| words_head("")));
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let figures = row.cells.iter().map(|c| or_dash(Some(cell(&c.text))));
            let mut cells: Vec<String> = [code(&row.rung), cell(&row.title)].into_iter().chain(figures).collect();
            cells.extend(remarks.then(|| cell(&remark(row).unwrap_or_default())));
            cells
        })
        .collect();
    let over = table.baseline.filter(|_| columns.contains(&Column::SpeedUp));
    let note = over.map_or_else(String::new, |base| format!("\n\nSpeed-ups are relative to {}.", cell(&base)));
    Some(opening(record, problem, &problem.label) + &markdown(&headers, &rows)? + &note)
}

/// Returns this problem and the problems that differ from it only in their type, one for each type.
fn dtypes<'a>(run: &'a Run, main: &'a Problem) -> Vec<&'a Problem> {
    let mut seen = HashSet::new();
    let alike = run.problems().into_iter().filter(|p| p.short == main.short && (p.dtype != main.dtype || *p == main));
    alike.filter(|p| run.fastest(p).is_some() && seen.insert(p.dtype)).collect()
}

/// Returns a table of the ladder at problems that differ in type. Each type has the median, the headline figure, and
/// the ratio to the fastest library or, without one, to the baseline. Units are in the headers, so that many types fit.
fn side_by_side(record: &Record, main: &Problem, dtypes: &[&Problem]) -> Option<String> {
    let run = &record.run;
    let libraries = dtypes.iter().any(|p| run.fastest_library(p).is_some());
    let relative = if libraries { Column::OfLibrary } else { Column::SpeedUp };
    let columns: Vec<Column> = [Some(Column::Median), rate(run), Some(relative)].into_iter().flatten().collect();
    let tables: Vec<LadderTable> = dtypes.iter().map(|p| LadderTable::with(run, p, &columns)).collect();
    let mut headers = vec![words_head("rung"), words_head("")];
    for (problem, table) in dtypes.iter().zip(&tables) {
        for (i, h) in table.headers.iter().enumerate() {
            let unit = if h.column == Column::Median { "ms" } else { &h.in_file };
            let dtype = if i == 0 { format!("{}, ", problem.dtype.label()) } else { String::new() };
            headers.push(figures_head(&(dtype + unit)));
        }
    }
    let rows = run.rungs.iter().filter_map(|rung| {
        let of_rung = tables.iter().map(|t| t.rows.iter().find(|r| r.rung == rung.id));
        // Near 1, the third decimal matters.
        let figure = |(column, v): (&Column, f64)| match column {
            Column::OfLibrary => format!("{v:.3}"),
            _ => words::significant(v, 3),
        };
        let numbers = of_rung.flat_map(|row| {
            columns.iter().enumerate().map(move |(i, column)| Some((column, row?.cells.get(i)?.number?)))
        });
        let figures: Vec<String> = numbers.map(|number| number.map_or_else(String::new, figure)).collect();
        let any = figures.iter().any(|f| !f.is_empty());
        any.then(|| [code(&rung.id), cell(&rung.title)].into_iter().chain(figures).collect())
    });
    Some(opening(record, main, &main.short) + &markdown(&headers, &rows.collect::<Vec<_>>())?)
}

/// Returns a table of all problems of a record with GPU libraries: Warpbook's fastest rung compared with the fastest
/// library.
fn against_libraries(run: &Run) -> Option<String> {
    let libraries: Vec<String> = run.rungs.iter().filter(|r| r.is_library()).map(|r| cell(&r.title)).collect();
    let tiled = run.measurements.iter().any(|m| m.tile.is_some());
    let mut headers = vec![words_head("problem"), words_head("type"), figures_head("library"), figures_head("ours")];
    headers.extend([figures_head(""), words_head(if tiled { "rung, tile" } else { "rung" }), figures_head("ratio")]);
    let row = |p: &Problem| {
        let (library, library_us) = run.fastest_library(p)?;
        // The comparison stays within a type if possible, since bf16 moves half the bytes of fp32.
        let in_its_type = |r: &Rung| {
            let ours = matches!(r.runner, Runner::Kernels { .. } | Runner::Chosen(_));
            let arithmetic = run.measurement(&r.id, p).map(Measurement::arithmetic_type);
            ours && arithmetic == Some(library.arithmetic_type())
        };
        let (best, us) = run.fastest_of(p, in_its_type).or_else(|| run.fastest_kernels(p))?;
        let dtype = best.arithmetic_type();
        let tile = best.tile.as_ref().map_or_else(String::new, |tile| format!(", {}", cell(tile)));
        let table = LadderTable::with(run, p, &rate(run).into_iter().collect::<Vec<_>>());
        let figures = table.rows.iter().find(|r| r.rung == best.rung);
        let second = figures.and_then(|r| r.cells.first()).map_or_else(String::new, |c| cell(&c.text));
        let (library, ours) = (words::time(library_us), words::time(us));
        let ratio = format!("{:.3}", library_us / us);
        Some(vec![cell(&p.short), dtype.label().into(), library, ours, second, code(&best.rung) + &tile, ratio])
    };
    let rows: Vec<Vec<String>> = run.problems().into_iter().filter_map(row).collect();
    let summary = format!(
        "Every problem of the same record: the fastest GPU library ({}) and our fastest rung in the same type. A ratio above 1 means that ours is faster.",
        words::listed(&libraries)
    );
    markdown(&headers, &rows).map(|table| format!("<details><summary>{summary}</summary>\n\n{table}\n\n</details>"))
}

/// Returns the column of the headline quantity, if that is a rate.
pub(super) fn rate(run: &Run) -> Option<Column> {
    match run.descriptor.headline {
        Quantity::Bandwidth => Some(Column::Bandwidth),
        Quantity::Throughput => Some(Column::Throughput),
        Quantity::ItemRate => Some(Column::ItemRate),
        Quantity::Time | Quantity::SpeedUp | Quantity::PeakMemory => None,
    }
}

/// The maximum number of columns of other frameworks in a table.
const MOST_OTHERS: usize = 5;

/// Returns the rungs of other frameworks on the run's device. If a table would be too wide, only the fastest are kept,
/// by the mean logarithm of their times relative to the fastest for each problem.
fn shown_of_frameworks<'a>(run: &'a Run, all: &[&'a Rung]) -> Vec<&'a Rung> {
    let problems = run.problems();
    let slowness = |rung: &Rung| {
        let relative = problems.iter().filter_map(|p| {
            let (_, fastest) = run.fastest_of(p, |r| all.iter().any(|o| o.id == r.id))?;
            let us = run.measurement(&rung.id, p).filter(|m| run.is_sound(m))?.median_us()?;
            Some((us / fastest).ln())
        });
        let logarithms: Vec<f64> = relative.collect();
        if logarithms.is_empty() { f64::INFINITY } else { logarithms.iter().sum::<f64>() / logarithms.len() as f64 }
    };
    let mut by_speed: Vec<(f64, &Rung)> = all.iter().map(|rung| (slowness(rung), *rung)).collect();
    by_speed.sort_by(|a, b| a.0.total_cmp(&b.0));
    by_speed.truncate(MOST_OTHERS);
    all.iter().copied().filter(|rung| by_speed.iter().any(|(_, shown)| shown.id == rung.id)).collect()
}

/// Returns the rungs of other frameworks that were measured on the CPU next to the run's device.
fn frameworks_on_the_cpu(run: &Run) -> Vec<&Rung> {
    let measured = |rung: &Rung| run.measurements.iter().any(|m| m.rung == rung.id && run.is_sound(m));
    let is_there = |r: &&Rung| r.framework().is_some() && r.requires == Requires::Nothing && measured(r);
    run.rungs.iter().filter(is_there).collect()
}

/// Returns a table of all problems of a record with rungs of other frameworks, on the same device and on the CPU,
/// compared with Warpbook's fastest rung.
fn against_frameworks(run: &Run) -> Option<String> {
    let all: Vec<&Rung> =
        run.rungs.iter().filter(|r| r.framework().is_some() && r.requires != Requires::Nothing).collect();
    let others = shown_of_frameworks(run, &all);
    let on_the_cpu = frameworks_on_the_cpu(run);
    let mut names: Vec<String> = others.iter().filter_map(|r| r.framework().map(cell)).collect();
    names.dedup();
    let mut lines: Vec<&str> = Vec::new();
    let mut problems = run.problems();
    // Rows are sorted by line and size; problems without a line come last.
    problems.sort_by_cached_key(|p| {
        let place = p.sweep.as_ref().map(|s| {
            lines.iter().position(|l| *l == s.line).unwrap_or_else(|| {
                lines.push(&s.line);
                lines.len() - 1
            })
        });
        (place.unwrap_or(usize::MAX), p.size())
    });
    let several_types = problems.iter().any(|p| p.dtype != problems[0].dtype);
    let mut headers = vec![words_head("problem")];
    headers.extend(several_types.then(|| words_head("type")));
    headers.extend(on_the_cpu.iter().chain(&others).map(|r| (code(&r.id), true)));
    headers.extend([
        figures_head("our fastest"),
        words_head("rung"),
        figures_head("times as fast as the fastest of them"),
    ]);
    let row = |p: &&Problem| {
        // A problem measured by only one side allows no comparison.
        let (best, us) = run.fastest_kernels(p)?;
        let (_, theirs) = run.fastest_of(p, |r| others.iter().any(|o| o.id == r.id))?;
        let time = |r: &&Rung| {
            let sound = run.measurement(&r.id, p).filter(|m| run.is_sound(m));
            or_dash(sound.and_then(Measurement::median_us).map(words::time))
        };
        let mut cells = vec![cell(&p.short)];
        cells.extend(several_types.then(|| p.dtype.label().to_owned()));
        cells.extend(on_the_cpu.iter().chain(&others).map(time));
        cells.extend([words::time(us), code(&best.rung), words::times(theirs / us)]);
        Some(cells)
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in problems.iter().filter_map(row) {
        // On one rank, weak and strong scaling are the same problem, measured once.
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let less = run.measurements.iter().any(Measurement::does_less);
    let less = if less { " Rungs that do less of the work are not in this table." } else { "" };
    let fewer = match all.len() > others.len() {
        true => format!(" Of its {} rungs the {} fastest are in this table.", all.len(), others.len()),
        false => String::new(),
    };
    let ids: Vec<String> = on_the_cpu.iter().map(|r| code(&r.id)).collect();
    let cpu = if ids.is_empty() {
        String::new()
    } else {
        let (ids, name) = (words::listed(&ids), cell(&run.environment.cpu));
        format!(" {ids} ran on the CPU, {name}; the last column leaves it out.")
    };
    markdown(&headers, &rows).map(|table| {
        format!("Every problem of the same record, next to {}.{less}{fewer}{cpu}\n\n{table}", words::listed(&names))
    })
}

/// Escapes text for one cell of a Markdown table, so that it is neither markup nor a second cell.
pub(super) fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('\\', "\\\\").replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::{pictures, tests::record};
    use super::*;
    use serde_json::{Value, json};

    fn names(record: &Record) -> Vec<String> {
        pictures(record).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_record_of_any_experiment_has_its_own_columns_and_pictures() {
        let record = record(|_| {});
        assert_eq!(names(&record), ["softmax-h200-ladder.svg", "softmax-h200-sweep.svg", "softmax-h200-roofline.svg"]);
        let text = results(&[record]).unwrap();
        let opening = "### <a id=\"softmax-h200\"></a>Row softmax\n\n65536 × 1024 fp32, on NVIDIA H200 ([record](results/softmax-h200.json), 2026-11-21):\n\n|";
        assert!(text.starts_with(opening), "{text}");
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        has("| rung |  | median | MAD | effective bandwidth | % of bound | bound by | speed-up | check |");
        has("|---|---|---:|---:|---:|---:|---|---:|---|");
        has("| `03_online` | One pass | 131 µs | ± 655 ns | 4098 GB/s | 96 % | DRAM | 32.1× | passed |");
        has("| `cpu_1_thread` | CPU, one thread | 611 ms | ± 3.06 ms | 0.879 GB/s | – | – | 0.00689× | passed |");
        has("Speed-ups are relative to Naive.");
        has("Every problem of the same record, next to PyTorch 2.11.0.");
        has("| problem | `pytorch_eager` | our fastest | rung | times as fast as the fastest of them |");
        has("| 65536 × 4096 | 602 µs | 516 µs | `03_online` | 1.17× |");
        assert!(!text.contains("GPU library"), "it has none: {text}");
    }

    #[test]
    fn of_many_rungs_of_a_framework_the_fastest_are_shown() {
        // The record has copies of PyTorch's rung, each slower than the last; the final one has no measurement.
        let record = record(|v| {
            let at = v["rungs"].as_array().unwrap().iter().position(|r| r["id"] == "pytorch_eager").unwrap();
            for i in 1..8 {
                let id = format!("pytorch_{i}");
                let mut rung = v["rungs"][at].clone();
                rung["id"] = id.as_str().into();
                v["rungs"].as_array_mut().unwrap().push(rung);
                let all = v["measurements"].as_array().unwrap();
                let of_it: Vec<Value> = all.iter().filter(|m| m["rung"] == "pytorch_eager" && i < 7).cloned().collect();
                for mut m in of_it {
                    m["rung"] = id.as_str().into();
                    for sample in m["samples_us"].as_array_mut().unwrap() {
                        *sample = (sample.as_f64().unwrap() * f64::from(i + 1)).into();
                    }
                    v["measurements"].as_array_mut().unwrap().push(m);
                }
            }
        });
        let text = results(&[record]).unwrap();
        let header = text.lines().find(|l| l.starts_with("| problem | `pytorch_eager`")).unwrap_or_default();
        let shown: Vec<bool> = (1..8).map(|i| header.contains(&format!("`pytorch_{i}`"))).collect();
        assert_eq!(shown, [true, true, true, true, false, false, false], "{text}");
        assert!(text.contains("next to PyTorch 2.11.0. Of its 8 rungs the 5 fastest are in this table."), "{text}");
    }

    #[test]
    fn a_framework_on_the_cpu_has_a_column_where_it_was_measured() {
        let on_the_cpu = |measured: bool| {
            record(move |v| {
                let at = v["rungs"].as_array().unwrap().iter().position(|r| r["id"] == "pytorch_eager").unwrap();
                let mut rung = v["rungs"][at].clone();
                (rung["id"], rung["requires"]) = ("pytorch_cpu".into(), "nothing".into());
                v["rungs"].as_array_mut().unwrap().insert(at, rung);
                let all = v["measurements"].as_array().unwrap();
                let mut row = all.iter().find(|m| m["rung"] == "pytorch_eager").unwrap().clone();
                row["rung"] = "pytorch_cpu".into();
                if measured {
                    // The row is the fastest of all, but the last column must not say so.
                    row["samples_us"] = json!([50.0, 50.0, 50.0]);
                } else {
                    row["outcome"] = json!({ "status": "skipped", "why": "takes too long" });
                }
                v["measurements"].as_array_mut().unwrap().push(row);
                v["environment"]["cpu"] = "A <CPU>".into();
            })
        };
        let text = results(&[on_the_cpu(true)]).unwrap();
        let header =
            "| problem | `pytorch_cpu` | `pytorch_eager` | our fastest | rung | times as fast as the fastest of them |";
        assert!(text.lines().any(|l| l == header), "{text}");
        let rows: Vec<&str> =
            text.lines().skip_while(|l| *l != header).skip(2).take_while(|l| l.starts_with('|')).collect();
        assert!(rows.len() > 1 && rows.iter().filter(|r| r.contains("| 50.0 µs |")).count() == 1, "{rows:?}");
        assert!(rows.contains(&"| 65536 × 4096 | – | 602 µs | 516 µs | `03_online` | 1.17× |"), "{rows:?}");
        let fast = rows.iter().find(|r| r.contains("| 50.0 µs |")).unwrap();
        assert!(!fast.contains("| 0."), "the ratio is to a GPU's way: {fast}");
        assert!(text.contains("`pytorch_cpu` ran on the CPU, A &lt;CPU>; the last column leaves it out."), "{text}");
        let without = results(&[on_the_cpu(false)]).unwrap();
        assert!(without.contains("| problem | `pytorch_eager` | our fastest |") && !without.contains("ran on the CPU"));
    }

    #[test]
    fn a_rung_without_figures_says_why() {
        let text = results(&[record(|v| {
            v["measurements"][11]["check"]["passed"] = false.into();
            v["measurements"][10]["outcome"] = json!({ "status": "skipped", "why": "needs | a GPU" });
        })])
        .unwrap();
        let has = |line: &str| assert!(text.lines().any(|l| l.starts_with(line)), "{line}\n{text}");
        has("| `02_warp` | A warp a row | – | – | – | – | – | – | passed | skipped: needs \\| a GPU |");
        has("| `03_online` | One pass | – | – | – | – | – | – | FAILED | check failed: relative error");
        has("| 65536 × 1024 | 141 µs | 4.21 ms | `01_naive` |");
    }

    #[test]
    fn what_chooses_is_said_where_a_choice_is_shown() {
        let chosen = |id: &'static str| {
            results(&[record(move |v| {
                let rung = json!({ "id": id, "title": "As chosen", "idea": "", "requires": "nothing", "runner": { "chosen": "a rule" } });
                v["rungs"].as_array_mut().unwrap().push(rung);
            })])
            .unwrap()
        };
        let note =
            "The findings come from an earlier measurement of these products, so this row does not test the choice";
        assert!(chosen("as_chosen").contains(note), "{}", chosen("as_chosen"));
        assert!(!chosen("rows_peer").contains(note));
    }

    #[test]
    fn trainings_for_an_accuracy_have_it_and_their_seeds() {
        let text = results(&[record(|v| {
            v["descriptor"]["columns"] = json!(["median", "accuracy", "check", "samples"]);
            v["descriptor"]["sample"] = "seeds".into();
            let all = [9035, 9049].map(|correct| json!({ "correct": correct, "of": 10_000 }));
            for m in v["measurements"].as_array_mut().unwrap() {
                m["samples_us"] = json!([1_480_000.0, 1_500_000.0]);
                m["samples_total"] = 2.into();
                m["test"] = all.to_vec().into();
            }
        })])
        .unwrap();
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        has("| rung |  | median | mean accuracy | check | seeds |");
        has("|---|---|---:|---:|---|---:|");
        has("| `03_online` | One pass | 1.49 s | 90.42 % ± 0.10 | passed | 2 |");
        has("| 65536 × 1024 | 1.49 s | 1.49 s | `01_naive` | 1.00× |");
    }

    #[test]
    fn libraries_stand_next_to_ours_and_types_stand_side_by_side() {
        let record = record(|v| {
            v["descriptor"]["charts"] = json!(["ladder", "heat_map", "sweep"]);
            v["rungs"][2]["runner"] = json!({ "library": "cuDNN" });
            let mut half = v["problems"][1].clone();
            (half["id"], half["dtype"]) = ("half".into(), "f16".into());
            v["problems"].as_array_mut().unwrap().push(half);
            let of_half = |m: &Value| {
                let mut m = m.clone();
                m["problem"] = "half".into();
                m
            };
            let more: Vec<Value> = [8, 9].map(|i| of_half(&v["measurements"][i])).to_vec();
            v["measurements"].as_array_mut().unwrap().extend(more);
        });
        assert_eq!(names(&record), ["softmax-h200-ladder.svg", "softmax-h200-shapes.svg"]);
        let text = results(&[record]).unwrap();
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        assert!(text.contains("\n\n65536 × 1024, on NVIDIA H200 ("), "{text}");
        let unit = "effective bandwidth (GB/s) | of fastest library";
        has(&format!("| rung |  | fp32, ms | {unit} | fp16, ms | {unit} |"));
        has("| `01_naive` | Naive | 4.21 | 128 | 0.033 | 4.21 | 128 | 0.033 |");
        has("| `03_online` | One pass | 0.131 | 4098 | 1.076 |  |  |  |");
        has("| 65536 × 256 | fp32 | 39.2 µs | 36.1 µs | 3718 GB/s | `03_online`, t256 | 1.086 |");
        has("| 65536 × 1024 | fp16 | 141 µs | 4.21 ms | 128 GB/s | `01_naive`, t256 | 0.033 |");
        assert!(
            text.contains("<details><summary>Every problem of the same record") && text.contains("(PyTorch)"),
            "{text}"
        );
        assert!(!text.contains("next to PyTorch 2.11.0"), "it has no other framework's rung: {text}");
    }

    #[test]
    fn cells_hold_no_markup() {
        assert_eq!(cell("a|b\n<img>"), "a\\|b &lt;img>");
    }
}
