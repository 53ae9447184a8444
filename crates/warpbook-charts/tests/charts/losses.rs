//! Tests of the charts of losses and of the other logs of a training.

use crate::common::{cell, check_layout, check_svg, row};
use crate::sample;
use warpbook_charts::*;

#[test]
fn a_diverged_loss_ends_and_is_never_zero() {
    let (run, problem) = (sample::troubled(), sample::problem(100_000));
    let chart = draw().loss_curve(&run, &problem).unwrap();
    assert!(chart.svg.as_str().contains("diverged at epoch 70"));
    assert!(chart.description.contains("diverged at epoch 70"), "{}", chart.description);
    assert!(chart.title.contains("diverge"), "{}", chart.title);
    let last = chart.table.rows.iter().find(|r| r[0] == "200").unwrap();
    assert!(last.contains(&"NaN".to_owned()), "{last:?}");

    let mut nothing = run;
    nothing.train_logs.retain(|l| l.rung == "03_fused_streams");
    let error = draw().loss_curve(&nothing, &problem).unwrap_err();
    let expect = "No training of 100 k points, 200 epochs has a finite loss: Fused over streams diverged at epoch 10.";
    assert_eq!(error, ChartError::NothingToDraw(expect.into()));
}

#[test]
fn a_loss_scale_is_told_as_a_power_of_two() {
    let (mut run, problem) = (sample::trained(), sample::training_problem());
    let scales = &mut run.train_logs[0].course.as_mut().unwrap().loss_scales;
    scales.iter_mut().zip([40, 39, 38, 19, 18]).for_each(|(p, e)| p.value = 2f64.powi(e));
    let chart = draw().loss_scale(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    let ticks: Vec<String> =
        crate::common::texts(&chart).into_iter().map(|t| t.3).filter(|t| t.starts_with("2^")).collect();
    assert!(ticks.len() >= 4 && ticks.contains(&"2^39".to_owned()), "{ticks:?}");
    assert!(!chart.svg.as_str().contains(">1.09"));
    assert_eq!(cell(&chart.table, "1", "loss scale"), "1099511627776");
}

#[test]
fn coinciding_curves_are_drawn_once_and_all_named() {
    let (run, problem) = (sample::h200(), sample::problem(5_000_000));
    let chart = draw().loss_curve(&run, &problem).unwrap();
    for rung in &run.rungs {
        assert!(chart.svg.as_str().contains(&format!(">{}</text>", rung.title)), "{}", rung.title);
    }
    assert!(chart.svg.as_str().contains("7 alike within 0.1 %"));
    assert!(chart.title.starts_with("The loss of 7 rungs, alike within 0.1 %, falls to "), "{}", chart.title);
}

#[test]
fn losses_are_drawn_over_steps_where_all_have_steps() {
    let (mut run, problem) = (sample::h200(), sample::problem(5_000_000));
    for point in run.train_logs.iter_mut().flat_map(|l| &mut l.losses) {
        point.step = Some(point.epoch * 469);
        point.epoch = point.epoch.div_ceil(20);
    }
    let chart = draw().loss_curve(&run, &problem).unwrap();
    check_svg(&chart);
    check_layout(&chart);
    assert!(chart.svg.as_str().contains(">step</text>") && chart.description.contains("at step 4690 to"));
    assert_eq!((chart.table.headers[0].as_str(), chart.table.rows[0][0].as_str()), ("step", "4690"));
    assert!(chart.svg.as_str().contains("learning rate 0.01"));
    assert!(chart.svg.as_str().contains("mean squared error on the training points; logarithmic scale"));
    // The curve of a diverged training says at which step it diverged.
    let mut diverged = run.clone();
    diverged.train_logs[0].losses[3].loss = f64::NAN;
    assert!(draw().loss_curve(&diverged, &problem).unwrap().svg.as_str().contains("diverged at step 18760"));
    // If one loss has no step, all curves are drawn over epochs, each with the epoch's last loss.
    let last = run.train_logs[0].losses[1].loss;
    run.train_logs[6].losses.iter_mut().for_each(|p| p.step = None);
    let chart = draw().loss_curve(&run, &problem).unwrap();
    assert!(chart.svg.as_str().contains(">epoch</text>"));
    assert_eq!(
        (chart.table.rows[0][0].as_str(), chart.table.rows[0][1].parse::<f64>().unwrap()),
        ("1", { (last * 1e5).round() / 1e5 })
    );
}

#[test]
fn a_training_is_drawn_from_what_was_logged() {
    let (run, problem) = (sample::trained(), sample::training_problem());
    assert_eq!(run.main_problem(), Some(&problem), "nothing was measured");
    let charts: Vec<Chart> = run.descriptor.charts.iter().map(|k| draw().chart(&run, &problem, *k).unwrap()).collect();
    for chart in &charts {
        check_svg(chart);
        check_layout(chart);
        assert!(chart.svg.as_str().contains("mnist, batch 512, synthetic digits"), "{}", chart.title);
    }
    let titles: Vec<&str> = charts.iter().map(|c| c.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "The loss falls to 0.08024 at step 590, from 2.165",
            "99.20 % of the test samples are right after 5 epochs",
            "Training of mnist: learning rate, from 0.05 to 0.0125",
            "Training of mnist: loss scale, 3 of 590 steps skipped",
            "Training of mnist: gradient norm, at most 6.95",
        ]
    );
    let [losses, accuracies, rates, scales, norms] = charts.try_into().unwrap_or_else(|_| panic!("five"));
    // The table has every step's loss, and the test loss after each epoch.
    assert_eq!(losses.table.headers, ["step", "Fused in a graph", "test loss"]);
    assert_eq!(losses.table.rows.len() as u64, sample::STEPS + 2);
    assert!(!row(&losses.table, "118")[2].is_empty() && row(&losses.table, "119")[2].is_empty());
    assert!(losses.svg.as_str().contains(">test samples<") && losses.svg.as_str().contains(">training batches<"));
    assert_eq!(row(&accuracies.table, "5")[..4], ["5", "590", "99.20", "97.00"]);
    assert_eq!(rates.table.rows, [["1", "0.05000000"], ["237", "0.02500000"], ["473", "0.01250000"]]);
    assert_eq!(row(&scales.table, "3"), ["3", "32768", "left as they were"]);
    assert_eq!(row(&scales.table, "2"), ["2", "", "left as they were"]);
    assert_eq!(row(&scales.table, "all")[2], "3 skipped");
    assert!(scales.svg.as_str().contains(">2^16<") && scales.svg.as_str().contains(">skipped steps<"));
    assert_eq!(norms.table.rows.len() as u64, sample::STEPS - 3);
}

#[test]
fn what_was_not_logged_is_not_drawn() {
    let (mut run, problem) = (sample::trained(), sample::training_problem());
    let course = run.train_logs[0].course.as_mut().unwrap();
    (course.loss_scales, course.gradient_norms) = (Vec::new(), Vec::new());
    course.epochs.iter_mut().for_each(|p| (p.test, p.train) = (None, None));
    let error = |e: Result<Chart, ChartError>| e.unwrap_err().to_string();
    let topic = "of mnist, batch 512, synthetic digits.";
    assert_eq!(error(draw().accuracy(&run, &problem)), format!("The record has no accuracy {topic}"));
    assert_eq!(error(draw().loss_scale(&run, &problem)), format!("The record has no loss scale {topic}"));
    assert_eq!(error(draw().gradient_norm(&run, &problem)), format!("The record has no gradient norm {topic}"));
    assert!(draw().learning_rate(&run, &problem).is_ok());
    // The ladder's records have losses but no course.
    assert!(draw().learning_rate(&sample::h200(), &sample::problem(5_000_000)).is_err());
    run.train_logs.clear();
    assert!(error(draw().learning_rate(&run, &problem)).contains("of no training"));
}

#[test]
fn two_trainings_share_their_charts() {
    let (mut run, problem) = (sample::trained(), sample::training_problem());
    let mut other = run.train_logs[0].clone();
    other.rung = "02_fused".into();
    other.losses.iter_mut().for_each(|p| p.loss *= 1.5);
    let course = other.course.as_mut().unwrap();
    course.epochs.pop();
    (course.skipped_steps, course.skipped_total) = (Vec::new(), 0);
    run.train_logs.push(other);
    for kind in run.descriptor.charts.clone() {
        let chart = draw().chart(&run, &problem, kind).unwrap();
        check_svg(&chart);
        check_layout(&chart);
        assert!(chart.svg.as_str().contains("Fused in a graph"), "{}", chart.title);
    }
    let chart = draw().accuracy(&run, &problem).unwrap();
    assert_eq!(chart.title, "Fused in a graph gets the most test samples right: 99.20 % after 5 epochs");
    let losses = draw().loss_curve(&run, &problem).unwrap().title;
    assert!(losses.starts_with("Fused in a graph ends at the lowest loss: 0.0"), "{losses}");
    assert_eq!(cell(&chart.table, "5", "Fused: test accuracy %"), "", "it ended after four");
    // A training that ended within an epoch has its last point within that epoch.
    let course = run.train_logs[0].course.as_mut().unwrap();
    course.epochs[4].step = 500;
    assert_eq!(row(&draw().accuracy(&run, &problem).unwrap().table, "5")[1], "500");
}
