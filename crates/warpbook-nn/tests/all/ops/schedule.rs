use super::common::refused;
use warpbook_nn::ops::schedule::Schedule;

#[track_caller]
fn check(schedule: Schedule, rate: f64, want: &[(u64, f64)]) {
    for (time, want) in want {
        let got = schedule.at(rate, *time).unwrap();
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1e-3), "{schedule:?} at {time}: {got} {want}");
    }
}

#[test]
fn rates_are_pytorch_s() {
    check(Schedule::Constant, 0.1, &[(0, 0.1), (u64::MAX, 0.1)]);
    check(Schedule::Step { every: 3, gamma: 0.5 }, 0.8, &[(0, 0.8), (2, 0.8), (3, 0.4), (6, 0.2), (8, 0.2)]);
    let cosine = Schedule::Cosine { period: 4, minimum: 0.2 };
    let quarter = 0.5 * std::f64::consts::FRAC_1_SQRT_2;
    check(cosine, 1.0, &[(0, 1.0), (1, 0.6 + 0.8 * quarter), (2, 0.6), (4, 0.2), (6, 0.6), (8, 1.0)]);
    // The rate rises until step 0.3 * 10 - 1 = 2; half of each rise or fall is reached halfway.
    let cycle = Schedule::one_cycle(10);
    let fall = |at: f64| 4e-6 + (1.0 - 4e-6) * 0.5 * (1.0 + (std::f64::consts::PI * at).cos());
    check(cycle, 1.0, &[(0, 0.04), (1, 0.52), (2, 1.0), (3, fall(1.0 / 7.0)), (9, 4e-6), (100, 4e-6)]);
}

#[test]
fn short_cycles_have_rates() {
    for total in 1..12 {
        for rise in [0.0, 0.1, 0.25, 0.5, 1.0] {
            let cycle = Schedule::OneCycle { total, rise, start_divisor: 25.0, end_divisor: 1e4 };
            for time in 0..total + 2 {
                let rate = cycle.at(1.0, time).unwrap();
                assert!((4e-6 - 1e-12..=1.0).contains(&rate), "{cycle:?} at {time}: {rate}");
            }
        }
    }
}

#[test]
fn what_is_out_of_range_is_said() {
    refused(Schedule::Step { every: 0, gamma: 0.5 }.at(0.1, 0), "every is 0");
    refused(Schedule::Step { every: 1, gamma: f64::NAN }.at(0.1, 0), "gamma is NaN");
    refused(Schedule::Cosine { period: 0, minimum: 0.0 }.check(), "period is 0");
    refused(Schedule::one_cycle(0).check(), "total is 0");
    let cycle = Schedule::OneCycle { total: 9, rise: 1.5, start_divisor: 25.0, end_divisor: 1e4 };
    refused(cycle.check(), "rise is 1.5");
}

#[test]
fn schedules_are_data() {
    let text = r#"{"kind":"step","every":3,"gamma":0.5}"#;
    let schedule: Schedule = serde_json::from_str(text).unwrap();
    assert_eq!(schedule, Schedule::Step { every: 3, gamma: 0.5 });
    assert_eq!(serde_json::to_string(&schedule).unwrap(), text);
}

#[test]
fn a_line_ends_where_it_is_told() {
    check(Schedule::Linear { total: 4, end: 0.0 }, 0.8, &[(0, 0.8), (1, 0.6), (3, 0.2), (4, 0.0), (9, 0.0)]);
    check(Schedule::Linear { total: 2, end: 0.5 }, 1.0, &[(0, 1.0), (1, 0.75), (2, 0.5), (u64::MAX, 0.5)]);
    refused(Schedule::Linear { total: 0, end: 0.0 }.check(), "total is 0");
    refused(Schedule::Linear { total: 1, end: f64::NAN }.check(), "end is NaN");
}
