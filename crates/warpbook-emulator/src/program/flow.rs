//! Finds the instructions at which diverged lanes reconverge: the immediate post-dominators of the control flow.
//!
//! The algorithm is from Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), applied to the reversed graph of instructions.

use super::action::{Action, NONE, Step};

/// Sets the field `meet` of every branch.
pub(super) fn find_meeting_points(steps: &mut [Step]) {
    let successors: Vec<Vec<u32>> = (0..steps.len()).map(|at| successors(steps, at)).chain([Vec::new()]).collect();
    let nearest = post_dominators(&successors);
    // Lanes do not reconverge at the exit, because some lanes may wait for lanes that have already exited.
    let is_exit =
        |at: u32| steps.get(at as usize).is_none_or(|step| step.guard.is_none() && matches!(step.action, Action::Exit));
    let meets: Vec<u32> = nearest.into_iter().map(|at| if is_exit(at) { NONE } else { at }).collect();
    steps.iter_mut().zip(meets).for_each(|(step, meet)| step.meet = meet);
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}

/// Returns the indices of the instructions that may run next. The index of the exit is `steps.len()`.
fn successors(steps: &[Step], at: usize) -> Vec<u32> {
    let step = &steps[at];
    let next = step.guard.map(|_| index(at + 1));
    match &step.action {
        Action::Branch(target) => [*target].into_iter().chain(next).collect(),
        Action::BranchTable(_, targets) => targets.iter().copied().chain(next).collect(),
        Action::Exit | Action::Trap => [index(steps.len())].into_iter().chain(next).collect(),
        _ => vec![index(at + 1)],
    }
}

/// Returns the immediate post-dominator of each instruction, given the successors of each; the last entry is the exit. The result is [`NONE`] for the exit, and
/// for instructions that cannot reach it.
fn post_dominators(successors: &[Vec<u32>]) -> Vec<u32> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (at, successors) in successors.iter().enumerate() {
        successors.iter().for_each(|s| predecessors[*s as usize].push(index(at)));
    }
    let exit = successors.len() - 1;
    let order = from_exit(&predecessors, exit);
    let mut place = vec![NONE; successors.len()];
    order.iter().enumerate().for_each(|(i, at)| place[*at as usize] = index(i));
    let mut nearest = vec![NONE; successors.len()];
    nearest[exit] = index(exit);
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for at in order.iter().skip(1).map(|at| *at as usize) {
            let known = successors[at].iter().filter(|s| nearest[**s as usize] != NONE);
            let new = known.copied().reduce(|a, b| common(a, b, &nearest, &place)).unwrap_or(NONE);
            has_changed |= nearest[at] != new;
            nearest[at] = new;
        }
    }
    nearest[exit] = NONE;
    nearest
}

/// Returns the nearest instruction that post-dominates both `a` and `b`.
fn common(mut a: u32, mut b: u32, nearest: &[u32], place: &[u32]) -> u32 {
    while a != b {
        while place[a as usize] > place[b as usize] {
            a = nearest[a as usize];
        }
        while place[b as usize] > place[a as usize] {
            b = nearest[b as usize];
        }
    }
    a
}

/// Returns all instructions that can reach the exit, in reverse postorder of the reversed graph: each follows at least one of its successors.
fn from_exit(predecessors: &[Vec<u32>], exit: usize) -> Vec<u32> {
    let mut is_seen = vec![false; predecessors.len()];
    let mut order = Vec::new();
    let mut stack = vec![(exit, 0)];
    is_seen[exit] = true;
    while let Some((at, next)) = stack.pop() {
        match predecessors[at].get(next) {
            Some(predecessor) => {
                stack.push((at, next + 1));
                let predecessor = *predecessor as usize;
                if !is_seen[predecessor] {
                    is_seen[predecessor] = true;
                    stack.push((predecessor, 0));
                }
            }
            None => order.push(index(at)),
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diamond_meets_at_its_end_and_a_loop_after_it() {
        let diamond = [vec![1, 2], vec![3], vec![3], vec![4], vec![]];
        assert_eq!(post_dominators(&diamond), [3, 3, 3, 4, NONE]);
        let with_loop = [vec![1], vec![1, 2], vec![3], vec![]];
        assert_eq!(post_dominators(&with_loop), [1, 2, 3, NONE]);
        let endless = [vec![1, 2], vec![1], vec![3], vec![]];
        assert_eq!(post_dominators(&endless), [2, NONE, 3, NONE]);
    }
}
