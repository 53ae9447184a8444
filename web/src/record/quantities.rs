//! The quantities that a ladder or a sweep can draw.

use warpbook_record::{Problem, Quantity, Run};

/// All quantities that an address can name.
pub const QUANTITIES: [Quantity; 6] = [
    Quantity::Time,
    Quantity::SpeedUp,
    Quantity::Bandwidth,
    Quantity::Throughput,
    Quantity::ItemRate,
    Quantity::PeakMemory,
];

/// Returns a quantity's name in an address.
pub const fn quantity_id(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Time => "time",
        Quantity::SpeedUp => "speed-up",
        Quantity::Bandwidth => "bandwidth",
        Quantity::Throughput => "throughput",
        Quantity::ItemRate => "items",
        Quantity::PeakMemory => "memory",
    }
}

/// Returns the quantities that a record offers and that have values for a problem, in the record's order; one of them is
/// the headline quantity.
pub fn quantities(run: &Run, problem: &Problem) -> Vec<Quantity> {
    let d = &run.descriptor;
    let says = |q: &Quantity| match q {
        Quantity::Time | Quantity::SpeedUp => true,
        Quantity::Bandwidth => problem.bytes > 0,
        Quantity::Throughput => problem.flops > 0,
        Quantity::ItemRate => problem.items.is_some_and(|n| n > 0),
        Quantity::PeakMemory => {
            run.measurements.iter().any(|m| m.problem == *problem && m.peak_bytes.is_some_and(|b| b > 0))
        }
    };
    let headline = (!d.quantities.contains(&d.headline)).then_some(d.headline);
    let mut out = Vec::new();
    for q in headline.into_iter().chain(d.quantities.iter().copied()).filter(says) {
        if !out.contains(&q) {
            out.push(q);
        }
    }
    if out.is_empty() { vec![Quantity::Time] } else { out }
}

/// Returns the quantity to show: the requested one, else the record's headline quantity, else the first with values.
pub fn quantity(run: &Run, problem: &Problem, asked: Option<Quantity>) -> Quantity {
    let offered = quantities(run, problem);
    asked.into_iter().chain([run.descriptor.headline]).find(|q| offered.contains(q)).unwrap_or(offered[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn quantities_are_the_descriptors_that_say_something() {
        use Quantity::{Bandwidth, ItemRate, SpeedUp, Throughput, Time};
        let mut run = sample_run();
        let problem = run.main_problem().unwrap().clone();
        assert_eq!(quantities(&run, &problem), [Time, SpeedUp, Bandwidth]);
        assert_eq!(quantity(&run, &problem, None), Time);
        assert_eq!(quantity(&run, &problem, Some(Bandwidth)), Bandwidth);
        assert_eq!(quantity(&run, &problem, Some(Throughput)), Time, "not offered");
        (run.descriptor.headline, run.descriptor.quantities) = (Throughput, vec![ItemRate, Time, Time]);
        assert_eq!(quantities(&run, &problem), [Throughput, Time], "no items are known");
        assert_eq!(quantity(&run, &problem, None), Throughput);
        let without = problem.with(|p| (p.flops, p.items) = (0, Some(3)));
        assert_eq!(quantities(&run, &without), [ItemRate, Time]);
        assert_eq!(quantity(&run, &without, None), ItemRate);
        run.descriptor.quantities.clear();
        assert_eq!(quantity(&run, &without, None), Time);
        run.descriptor.quantities = vec![Quantity::PeakMemory, Time];
        run.descriptor.headline = Time;
        assert_eq!(quantities(&run, &problem), [Time], "no memory was counted");
        run.measurements.iter_mut().filter(|m| m.problem == problem).for_each(|m| m.peak_bytes = Some(1 << 20));
        assert_eq!(quantities(&run, &problem), [Quantity::PeakMemory, Time]);
    }
}
