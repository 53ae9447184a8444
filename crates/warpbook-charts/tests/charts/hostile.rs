//! Tests of hostile texts in records.

use crate::common::{
    QUANTITIES, all, check_svg, check_table, diagram_of, of_products, of_recorded, of_trainings, texts,
};
use crate::sample;
use std::collections::BTreeMap;
use warpbook_charts::*;
use warpbook_record::{Dtype, Outcome, Problem, Run, Runner, TrainLog};

pub const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\" onload=\"alert(1)\" x='",
    "]]> &amp; <!-- --> <![CDATA[",
    "nul\0 bell\u{7} escape\u{1b}[31m del\u{7f} \u{FFFE}\u{FFFF}",
    "\u{202E}gnp.exe \u{2066}שלום עולם مرحبا\u{2069}",
    "\u{E000}title\u{E001} </text></svg><svg onload=alert(1)>",
    "x\n</svg>\n<text x=\"1\">\n",
    "\" stroke=\"#010203\" fill=\"#010203",
];

/// Returns the record with a text in every text field.
fn with_text(mut run: Run, text: &str) -> Run {
    run.title = text.into();
    run.created = text.into();
    run.environment.device.name = text.into();
    for r in &mut run.rungs {
        r.title = format!("{text}{}", r.id).into();
        r.idea = text.to_owned().into();
        if let Runner::External(name) = &mut r.runner {
            *name = text.to_owned().into();
        }
    }
    for p in &mut run.parts {
        p.name = format!("{text}{}", p.name);
        p.problem = worded(&p.problem, text);
    }
    for b in &mut run.breakdowns {
        b.problem = worded(&b.problem, text);
        b.source = text.into();
        for o in &mut b.operations {
            o.name = format!("{text}{}", o.name);
            o.kernels.iter_mut().for_each(|k| *k = format!("{text}{k}"));
        }
    }
    for s in &mut run.spans {
        s.problem = worded(&s.problem, text);
        for words in [&mut s.name, &mut s.operation, &mut s.stream] {
            *words = format!("{text}{words}");
        }
    }
    for x in &mut run.xrays {
        x.problem = worded(&x.problem, text);
        x.phases.iter_mut().for_each(|p| *p = format!("{text}{p}"));
        for k in &mut x.kernels {
            (k.entry, k.file, k.tile) = (text.into(), text.into(), text.into());
        }
    }
    let d = &mut run.descriptor;
    for words in [&mut d.axis.caption, &mut d.axis.unit, &mut d.pass, &mut d.item, &mut d.loss, &mut d.above_bound] {
        *words = text.into();
    }
    for m in &mut run.measurements {
        m.problem = worded(&m.problem, text);
        m.tile = m.tile.as_ref().map(|tile| format!("{text}{tile}"));
        match &mut m.outcome {
            Outcome::Skipped { why: words } | Outcome::Failed { error: words } => *words = text.into(),
            Outcome::Measured => {}
        }
    }
    for l in &mut run.train_logs {
        l.problem = worded(&l.problem, text);
        l.parameters = BTreeMap::from([(text.to_owned(), 1.0)]);
    }
    run
}

/// Returns a record with every kind of recording.
fn recorded() -> Run {
    Run { xrays: sample::xrayed().xrays, ..sample::recorded() }
}

/// Returns the problem with all of its texts replaced.
fn worded(problem: &Problem, text: &str) -> Problem {
    problem.with(|p| {
        (p.label, p.short) = (format!("{text}{}", p.label), format!("{text}{}", p.short));
        p.sweep.iter_mut().for_each(|s| s.line = format!("{text}{}", s.line));
    })
}

#[test]
fn hostile_texts_are_harmless() {
    let long = "very long ".repeat(5_000);
    let unbroken = "W".repeat(100_000);
    let cjk = "回帰".repeat(2_000);
    for text in HOSTILE.into_iter().chain([long.as_str(), &unbroken, &cjk, "", " "]) {
        let mut trained = with_text(sample::trained(), text);
        let problem = worded(&sample::training_problem(), text);
        trained.train_logs[0].problem = problem.clone();
        trained.train_logs.push(TrainLog { rung: text.into(), ..trained.train_logs[0].clone() });
        of_trainings(&trained, &problem).into_iter().for_each(|chart| check_svg(&chart.unwrap()));
        let (run, problem) = (with_text(sample::h200(), text), worded(&sample::problem(5_000_000), text));
        for chart in all(&run, &problem) {
            check_svg(&chart.unwrap());
        }
        check_table(&LadderTable::for_problem(&run, &problem));
        for chart in all(&with_text(sample::full(), text), &problem).into_iter().flatten() {
            check_svg(&chart);
        }
        let of_recorded = of_recorded(&with_text(recorded(), text), &problem);
        of_recorded.into_iter().for_each(|chart| check_svg(&chart.unwrap()));
        let small = worded(&sample::problem(100_000), text);
        for chart in all(&with_text(sample::troubled(), text), &small).into_iter().flatten() {
            check_svg(&chart);
        }
        let (run, problem) = (with_text(sample::products(), text), worded(&sample::cube(4096, Dtype::Bf16), text));
        for chart in all(&run, &problem).into_iter().chain(of_products(&run, &problem)).flatten() {
            check_svg(&chart);
        }
        let (run, problem) = (with_text(sample::softmax(), text), worded(&sample::rows(65_536), text));
        for chart in QUANTITIES
            .iter()
            .flat_map(|q| [draw().ladder(&run, &problem, *q), draw().sweep_of(&[&run], *q, None, None)])
        {
            check_svg(&chart.unwrap());
        }
        check_table(&LadderTable::for_problem(&run, &problem));
        check_svg(&diagram_of(text, (3, 40), 7).unwrap());
    }
    for text in [long.as_str(), &unbroken] {
        let (run, products) = (with_text(sample::h200(), text), with_text(sample::products(), text));
        let (problem, product) = (sample::problem(5_000_000), sample::cube(4096, Dtype::Bf16));
        let (problem, product) = (worded(&problem, text), worded(&product, text));
        let of_products = of_products(&products, &product);
        let softmax = with_text(sample::softmax(), text);
        let rows = worded(&sample::rows(65_536), text);
        let of_rows = [
            draw().ladder(&softmax, &rows, Quantity::ItemRate),
            draw().sweep_of(&[&softmax], Quantity::ItemRate, None, None),
        ];
        let of_recorded = of_recorded(&with_text(recorded(), text), &problem);
        let charts = all(&run, &problem).into_iter().chain(of_products).chain(of_rows).chain(of_recorded);
        for chart in charts.chain([Ok(diagram_of(text, (3, 40), 7).unwrap())]) {
            let chart = chart.unwrap();
            let (w, _) = chart.svg.size();
            let texts = texts(&chart);
            let outside = texts.iter().find(|t| t.0 < -1.0 || t.1 > f64::from(w) + 1.0);
            assert_eq!(
                outside,
                None,
                "{} of {}",
                chart.description.chars().take(40).collect::<String>(),
                chart.svg.size().1
            );
        }
    }
}
