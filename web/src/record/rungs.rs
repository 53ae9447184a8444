//! Texts and navigation for rungs: names, requirements, the rung that is shown and its neighbours.

use warpbook_record::{Problem, Requires, Run, Rung, Runner};

/// Returns a rung's name.
pub fn title(rung: &Rung) -> &str {
    if rung.title.trim().is_empty() { &rung.id } else { &rung.title }
}

/// Returns the other framework that a rung runs in, if any.
pub fn framework(rung: &Rung) -> Option<&str> {
    rung.framework().map(|name| if name.is_empty() { "another framework" } else { name })
}

/// Describes in a sentence what runs a rung.
pub fn runner(rung: &Rung) -> String {
    match &rung.runner {
        Runner::Kernels { schedule, .. } => format!("Kernels: {}.", schedule.sentence()),
        Runner::Library(name) => format!("Runs in the GPU library {name}."),
        Runner::Cpu(with) => format!("Runs on the CPU: {with}."),
        Runner::External(name) => format!("Runs in another framework: {name}."),
        Runner::Chosen(rule) => format!("Runs the kernels of another rung, chosen by {rule}."),
    }
}

/// Describes in a sentence what a rung needs.
pub fn requires(r: &Requires) -> String {
    match r {
        Requires::Nothing => "Runs on any device.".into(),
        _ => format!("Needs {}.", r.sentence()),
    }
}

/// Returns the rung to show: the requested one, else the problem's fastest kernel rung, else the first rung.
pub fn shown<'a>(run: &'a Run, problem: Option<&Problem>, asked: Option<&str>) -> Option<&'a Rung> {
    let asked = asked.and_then(|id| run.rung(id));
    let fastest = || run.rung(&run.fastest_kernels(problem?)?.0.rung);
    let with_source = || run.rungs.iter().find(|r| !r.kernels().is_empty());
    asked.or_else(fastest).or_else(with_source).or(run.rungs.first())
}

/// Returns the rung `by` steps up the ladder of a problem (down if negative), skipping rungs that were not tried for
/// it.
pub fn neighbour<'a>(run: &'a Run, problem: Option<&Problem>, from: &str, by: isize) -> Option<&'a Rung> {
    let at = run.rungs.iter().position(|r| r.id == from)?;
    let was_tried = |r: &&Rung| problem.is_none_or(|p| run.measurement(&r.id, p).is_some());
    let further = by.unsigned_abs().checked_sub(1)?;
    if by > 0 {
        run.rungs[at + 1..].iter().filter(was_tried).nth(further)
    } else {
        run.rungs[..at].iter().rev().filter(was_tried).nth(further)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample_run;

    #[test]
    fn the_winner_is_shown_where_none_was_asked_for() {
        let mut run = sample_run();
        let small = *run.problems().iter().find(|p| p.short == "1 M").unwrap();
        let id = |rung: Option<&Rung>| rung.map(|r| r.id.to_string());
        assert_eq!(id(shown(&run, Some(small), None)).as_deref(), Some("04_fused_graph"));
        assert_eq!(id(shown(&run, Some(small), Some("pytorch_eager"))).as_deref(), Some("pytorch_eager"));
        assert_eq!(id(shown(&run, Some(small), Some("none"))).as_deref(), Some("04_fused_graph"));
        assert_eq!(id(shown(&run, None, None)).as_deref(), Some("02_fused"));
        run.rungs.clear();
        assert!(shown(&run, None, None).is_none());
    }

    #[test]
    fn steps_go_along_the_rungs_of_a_problem() {
        let run = sample_run();
        let at = |short: &str| *run.problems().iter().find(|p| p.short == short).unwrap();
        let to = |problem, from, by| neighbour(&run, problem, from, by).map(|r| r.id.to_string());
        assert_eq!(to(Some(at("1 M")), "02_fused", 1).as_deref(), Some("04_fused_graph"));
        assert_eq!(to(Some(at("1 M")), "04_fused_graph", -1).as_deref(), Some("02_fused"));
        // PyTorch was not tried for this problem, and it is the last rung.
        assert_eq!(to(Some(at("1 M")), "04_fused_graph", 1), None);
        assert_eq!(to(None, "04_fused_graph", 1).as_deref(), Some("pytorch_eager"));
        assert_eq!(to(None, "02_fused", 2).as_deref(), Some("pytorch_eager"));
        assert_eq!((to(None, "02_fused", -1), to(None, "02_fused", 0), to(None, "none", 1)), (None, None, None));
    }

    #[test]
    fn what_runs_a_rung_is_a_sentence() {
        let run = sample_run();
        let sentence = |id: &str| runner(run.rung(id).unwrap());
        assert_eq!(sentence("02_fused"), "Kernels: launched one after another on one stream.");
        assert_eq!(sentence("04_fused_graph"), "Kernels: captured once as a CUDA graph and replayed.");
        assert_eq!(sentence("pytorch_eager"), "Runs in another framework: PyTorch 2.11.0.");
    }
}
