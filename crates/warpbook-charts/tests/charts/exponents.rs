//! Tests of histograms of exponents.

use warpbook_charts::{ExponentRow, FormatRange, draw};

const FP16: FormatRange<'_> = FormatRange { name: "fp16", least: -25, normal: -14, largest: 15 };

#[test]
fn exponents_are_those_of_the_numbers() {
    let row = ExponentRow::from_values(
        "x",
        [1.0, -1.5, 2.0, 0.0, -0.0, 0.49, f32::from_bits(1), f32::MAX, f32::NAN, f32::INFINITY],
    );
    let counts: Vec<(i32, u64)> = row.counts.iter().map(|(e, n)| (*e, *n)).collect();
    assert_eq!(counts, [(-149, 1), (-2, 1), (0, 2), (1, 1), (127, 1)]);
    assert_eq!((row.zeros, row.not_finite, row.counted()), (2, 2, 6));
    // The numbers are every power of two, and the largest number below the next.
    for e in -149..=127 {
        let power = (2f64.powi(e)) as f32;
        assert_eq!(ExponentRow::from_values("", [power]).counts.keys().collect::<Vec<_>>(), [&e]);
        if e > -126 {
            let below = f32::from_bits(power.to_bits() - 1);
            assert_eq!(ExponentRow::from_values("", [below]).counts.keys().collect::<Vec<_>>(), [&(e - 1)]);
        }
    }
}

#[test]
fn what_a_format_loses_is_counted_and_drawn() {
    // There is one number for each exponent from 2^-30 to 2^17: five vanish, eleven lose digits, two overflow.
    let all = ExponentRow::from_values("gradients", (-30..=17).map(|e| 2f64.powi(e) as f32).chain([0.0]));
    let scaled = ExponentRow::from_values("times 65536", (-14..=3).map(|e| 2f64.powi(e) as f32));
    let chart = draw().exponents("T", "S", &FP16, &[all, scaled]).unwrap();
    assert_eq!(chart.table.rows[0], ["gradients", "1", "5", "11", "30", "2", "2^-30", "2^17"]);
    assert_eq!(chart.table.rows[1], ["times 65536", "0", "0", "0", "18", "0", "2^-14", "2^3"]);
    assert!(chart.description.contains("of gradients that are not 0, 10 % vanish"), "{}", chart.description);
    assert!(chart.description.contains("of times 65536 that are not 0, 0 % vanish"), "{}", chart.description);
    let svg = chart.svg.as_str();
    // There is a bar for each exponent, and three shaded parts in each of two plots.
    assert_eq!(svg.matches("<rect").count(), 48 + 18 + 2 * 3);
    for text in ["0 in fp16", "fewer digits", "all digits of fp16", "overflow", "2^-24", "2^16"] {
        assert!(svg.contains(&format!(">{text}<")), "{text} in {svg}");
    }
    roxmltree::Document::parse(svg).unwrap();
}

#[test]
fn without_numbers_there_is_no_chart() {
    for values in [vec![], vec![0.0, -0.0], vec![f32::NAN]] {
        let why = draw().exponents("T", "", &FP16, &[ExponentRow::from_values("x", values)]).unwrap_err().to_string();
        assert!(why.contains("No number is both finite"), "{why}");
    }
}
