//! Where lanes that part meet again: immediate post-dominators of the control flow.
//!
//! The algorithm is by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on the reversed graph of basic blocks.

use super::action::{Action, NONE, Step};

/// Sets `meet` of all branches.
pub(super) fn find_meeting_points(steps: &mut [Step]) {
    let blocks = blocks(steps);
    let nearest = post_dominators(&blocks);
    // Lanes do not meet at the exit, because some may wait for lanes that have already left.
    let is_exit =
        |at: u32| steps.get(at as usize).is_none_or(|step| step.guard == NONE && matches!(step.action, Action::Exit));
    let meets = blocks.iter().zip(&nearest).map(|(block, nearest)| {
        let meet = blocks.get(*nearest as usize).map(|block| block.first).filter(|at| !is_exit(*at));
        (block.last, meet.unwrap_or(NONE))
    });
    let meets: Vec<(u32, u32)> = meets.collect();
    for (last, meet) in meets {
        if let Some(step) = steps.get_mut(last as usize) {
            step.meet = meet;
        }
    }
}

/// Instructions that run one after another.
struct Block {
    first: u32,
    last: u32,
    /// By their indices.
    successors: Vec<u32>,
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}

/// Returns the possible next instructions; `steps.len()` is the exit.
fn successors(steps: &[Step], at: usize) -> Vec<u32> {
    let step = &steps[at];
    let next = (step.guard != NONE).then(|| index(at + 1));
    match &step.action {
        Action::Branch(target) => [*target].into_iter().chain(next).collect(),
        Action::BranchTable { targets, .. } => targets.iter().copied().chain(next).collect(),
        Action::Exit | Action::Trap => [index(steps.len())].into_iter().chain(next).collect(),
        _ => vec![index(at + 1)],
    }
}

fn is_end(step: &Step) -> bool {
    matches!(step.action, Action::Branch(_) | Action::BranchTable { .. } | Action::Exit | Action::Trap)
}

/// Returns the basic blocks in order, with the exit last.
fn blocks(steps: &[Step]) -> Vec<Block> {
    let mut is_first = vec![false; steps.len() + 1];
    is_first[0] = true;
    is_first[steps.len()] = true;
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| is_end(step)) {
        is_first[at + 1] = true;
        match &step.action {
            Action::Branch(target) => is_first[*target as usize] = true,
            Action::BranchTable { targets, .. } => targets.iter().for_each(|t| is_first[*t as usize] = true),
            _ => {}
        }
    }
    let firsts: Vec<usize> = (0..=steps.len()).filter(|at| is_first[*at]).collect();
    let block_of = |at: u32| index(firsts.partition_point(|first| *first < at as usize));
    let inner = firsts.windows(2).map(|pair| {
        let (first, last) = (index(pair[0]), pair[1] - 1);
        let successors = successors(steps, last).into_iter().map(block_of).collect();
        Block { first, last: index(last), successors }
    });
    let exit = Block { first: index(steps.len()), last: index(steps.len()), successors: Vec::new() };
    inner.chain([exit]).collect()
}

/// Returns each block's nearest post-dominator; [`NONE`] for the exit, and for blocks that cannot reach it.
fn post_dominators(blocks: &[Block]) -> Vec<u32> {
    let mut predecessors = vec![Vec::new(); blocks.len()];
    for (at, block) in blocks.iter().enumerate() {
        block.successors.iter().for_each(|s| predecessors[*s as usize].push(index(at)));
    }
    let exit = blocks.len() - 1;
    let order = from_exit(&predecessors, exit);
    let mut place = vec![NONE; blocks.len()];
    order.iter().enumerate().for_each(|(i, block)| place[*block as usize] = index(i));
    let mut nearest = vec![NONE; blocks.len()];
    nearest[exit] = index(exit);
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for block in order.iter().skip(1) {
            let known = blocks[*block as usize].successors.iter().filter(|s| nearest[**s as usize] != NONE);
            let new = known.copied().reduce(|a, b| common(a, b, &nearest, &place)).unwrap_or(NONE);
            if nearest[*block as usize] != new {
                nearest[*block as usize] = new;
                has_changed = true;
            }
        }
    }
    nearest[exit] = NONE;
    nearest
}

/// Returns the nearest block that post-dominates both.
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

/// Returns all blocks that can reach the exit, each after at least one of its successors (reverse postorder of the reversed graph).
fn from_exit(predecessors: &[Vec<u32>], exit: usize) -> Vec<u32> {
    let mut is_seen = vec![false; predecessors.len()];
    let mut order = Vec::new();
    let mut stack = vec![(exit, 0)];
    is_seen[exit] = true;
    while let Some((block, next)) = stack.pop() {
        match predecessors[block].get(next) {
            Some(predecessor) => {
                stack.push((block, next + 1));
                let predecessor = *predecessor as usize;
                if !is_seen[predecessor] {
                    is_seen[predecessor] = true;
                    stack.push((predecessor, 0));
                }
            }
            None => order.push(index(block)),
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(successors: &[u32]) -> Block {
        Block { first: 0, last: 0, successors: successors.to_vec() }
    }

    #[test]
    fn a_diamond_meets_at_its_end_and_a_loop_after_it() {
        let diamond = [block(&[1, 2]), block(&[3]), block(&[3]), block(&[4]), block(&[])];
        assert_eq!(post_dominators(&diamond), [3, 3, 3, 4, NONE]);
        let with_loop = [block(&[1]), block(&[1, 2]), block(&[3]), block(&[])];
        assert_eq!(post_dominators(&with_loop), [1, 2, 3, NONE]);
        let endless = [block(&[1, 2]), block(&[1]), block(&[3]), block(&[])];
        assert_eq!(post_dominators(&endless), [2, NONE, 3, NONE]);
    }
}
