//! Groups of parameters with their own settings, like `param_groups` of `torch.optim`.

use super::{OP, Optimizer};
use crate::network::{Network, Node, ParamSpec, Role};
use crate::ops::error::{Check, OpError, Result};
use crate::ops::muon::Muon;
use crate::ops::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Largest number of groups, including the group of unnamed parameters.
pub const MOST: usize = 64;

/// A set of parameters, and how they are updated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Names of parameters such as `conv1.weight`; a `*` stands for any characters. A parameter belongs to the first group that names it.
    pub params: String,
    /// Factor by which the recipe's learning rate is multiplied.
    pub rate: f64,
    /// Schedule of the rate; `None` for the recipe's schedule. A rate of 0 leaves the weights unchanged.
    pub schedule: Option<Schedule>,
    /// Factor of the previous direction, from 0 to below 1; `None` for the optimiser's factor.
    pub momentum: Option<f64>,
    /// Factor of the weight that is added to the gradient; `None` for the optimiser's factor. Muon has no weight decay.
    pub weight_decay: Option<f64>,
    /// Muon instead of SGD, for filters `[out][in][height][width]`.
    pub muon: Option<Muon>,
}

impl Group {
    /// Creates a group of parameters with these names, updated like all other parameters.
    #[must_use]
    pub fn new(params: impl Into<String>) -> Self {
        Self { params: params.into(), rate: 1.0, schedule: None, momentum: None, weight_decay: None, muon: None }
    }

    /// Returns true if the group contains a parameter with this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let mut parts = self.params.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let parts: Vec<&str> = parts.collect();
        let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
        for part in between {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// The update of a group's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Factor by which the recipe's learning rate is multiplied.
    pub rate: f64,
    /// Schedule, if it differs from the recipe's.
    pub schedule: Option<Schedule>,
    /// SGD with its momentum and its weight decay; Muon uses only the momentum.
    pub optimizer: Optimizer,
    /// Settings of Muon, if Muon updates the parameters instead of SGD.
    pub muon: Option<Muon>,
}

impl Rule {
    /// Returns the momentum, the weight decay, and true for Nesterov's momentum.
    pub(crate) fn numbers(&self) -> (f64, f64, bool) {
        match self.optimizer {
            Optimizer::Sgd { momentum, nesterov, weight_decay } => (momentum, weight_decay, nesterov),
            Optimizer::Adam { .. } | Optimizer::AdamW { .. } => (0.0, 0.0, false),
        }
    }
}

/// The groups of a network's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouped {
    /// Rules; the first applies to the parameters that no group names.
    pub rules: Vec<Rule>,
    /// Index of each parameter's rule; `None` if the parameter is not trained or is frozen.
    pub rule_of_parameter: Vec<Option<usize>>,
}

impl Grouped {
    /// Returns true if Muon updates some parameters.
    #[must_use]
    pub fn has_muon(&self) -> bool {
        self.rules.iter().any(|rule| rule.muon.is_some())
    }

    /// Assigns a network's parameters to groups. `None` if there are no groups and nothing is frozen, so that the optimiser alone decides.
    ///
    /// # Errors
    /// If the optimiser is not SGD with momentum, a setting is out of range, a group has no parameters, or a parameter of a Muon group is
    /// not a filter.
    pub fn new(network: &Network, optimizer: &Optimizer, groups: &[Group]) -> Result<Option<Self>> {
        let is_frozen = network.params().iter().any(|p| p.frozen);
        if groups.is_empty() && !is_frozen {
            return Ok(None);
        }
        let check = Check(OP);
        let allowed = "SGD with a momentum above 0 if parameters are in groups or frozen";
        let slots = optimizer.state_slots();
        check.value("the optimiser", optimizer.name(), optimizer.name() == "SGD" && slots == 1, allowed)?;
        check.value("the number of groups", groups.len(), groups.len() < MOST, "at most 63")?;
        let mut rules = vec![Rule { rate: 1.0, schedule: None, optimizer: *optimizer, muon: None }];
        for group in groups {
            rules.push(rule(optimizer, group)?);
        }
        let find = |p: &ParamSpec| groups.iter().position(|g| g.has(&p.name)).map_or(0, |at| at + 1);
        let rule_of = |p: &ParamSpec| (p.role.is_trained() && !p.frozen).then(|| find(p));
        let rule_of: Vec<Option<usize>> = network.params().iter().map(rule_of).collect();
        for (at, group) in groups.iter().enumerate() {
            let mut its =
                network.params().iter().zip(&rule_of).filter(|(_, rule)| **rule == Some(at + 1)).map(|(p, _)| p);
            let allowed = "names of trained parameters, at least one of which is in no earlier group";
            check.value("the parameters of a group", &group.params, its.clone().next().is_some(), allowed)?;
            let wrong = its.find(|p| group.muon.is_some() && !is_filter(p));
            if let Some(wrong) = wrong {
                let allowed = "the weight of a convolution, since Muon works on filters";
                check.value("a parameter of Muon", &wrong.name, false, allowed)?;
            }
        }
        Ok(Some(Self { rules, rule_of_parameter: rule_of }))
    }

    /// Returns the number of operations at the start of the network whose trained parameters all have rates that stay 0 from this schedule time on; 0 if
    /// none of these operations has trained parameters. Parameters of Muon never count as settled, because Muon rescales weights even if the
    /// rate is 0.
    #[must_use]
    pub fn settled(&self, network: &Network, time: u64) -> usize {
        let is_over = |rule: &Rule| rule.muon.is_none() && rule.schedule.is_some_and(|s| s.is_over(time));
        let rule_of = |param: &usize| self.rule_of_parameter[*param].map(|at| &self.rules[at]);
        let is_settled = |node: &&Node| node.params.iter().filter_map(rule_of).all(is_over);
        let settled = network.nodes().iter().take_while(is_settled).count();
        let had_rules = |node: &Node| node.params.iter().any(|param| rule_of(param).is_some());
        if network.nodes()[..settled].iter().any(had_rules) { settled } else { 0 }
    }

    /// Returns the learning rates of a step, one per rule. `rate` is the recipe's rate at the step, `first` its initial rate, and `time` the schedule's
    /// time.
    ///
    /// # Errors
    /// If a setting of a schedule is out of range.
    pub fn rates(&self, rate: f64, first: f64, time: u64) -> Result<Vec<f64>> {
        let rule_rate = |rule: &Rule| Ok(rule.rate * rule.schedule.map_or(Ok(rate), |s| s.at(first, time))?);
        self.rules.iter().map(rule_rate).collect()
    }
}

fn is_filter(p: &ParamSpec) -> bool {
    p.role == Role::Weight && p.shape.len() == 4
}

fn rule(optimizer: &Optimizer, group: &Group) -> Result<Rule> {
    let Optimizer::Sgd { momentum, nesterov, weight_decay } = *optimizer else {
        return Err(OpError::Value {
            op: OP,
            name: "the optimiser",
            value: optimizer.name().into(),
            allowed: "SGD if parameters are in groups",
        });
    };
    let check = Check(OP);
    check.value("the rate of a group", group.rate, group.rate >= 0.0 && group.rate.is_finite(), "at least 0")?;
    group.schedule.map_or(Ok(()), |s| s.check())?;
    let momentum = group.momentum.unwrap_or(momentum);
    check.value(
        "the momentum of a group",
        momentum,
        (0.0..1.0).contains(&momentum) && momentum > 0.0,
        "above 0, below 1",
    )?;
    let decay = group.weight_decay.unwrap_or(if group.muon.is_some() { 0.0 } else { weight_decay });
    let allowed = "left out: Muon has none";
    check.value("the weight decay of a group", decay, group.muon.is_none() || decay == 0.0, allowed)?;
    group.muon.map_or(Ok(()), |m| m.check())?;
    let optimizer = Optimizer::Sgd { momentum, nesterov, weight_decay: decay };
    optimizer.check()?;
    Ok(Rule { rate: group.rate, schedule: group.schedule, optimizer, muon: group.muon })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{batch_norm, conv2d, flatten, linear};

    fn network() -> Network {
        let layers =
            [conv2d(4, 2).frozen().named("whiten"), conv2d(5, 3).without_bias(), batch_norm(), flatten(), linear(2)];
        Network::new([3, 8, 8], layers).unwrap()
    }

    fn sgd() -> Optimizer {
        Optimizer::Sgd { momentum: 0.9, nesterov: true, weight_decay: 0.1 }
    }

    #[test]
    fn stars_stand_for_any_characters() {
        let check = |pattern: &str, name: &str, expect: bool| {
            assert_eq!(Group::new(pattern).has(name), expect, "{pattern} {name}");
        };
        check("conv1.weight", "conv1.weight", true);
        check("conv1.weight", "conv1.weights", false);
        check("conv*.weight", "conv12.weight", true);
        check("conv*.weight", "conv12.bias", false);
        check("*.bias", "bn1.bias", true);
        check("*", "", true);
        check("*n*.b*s", "bn1.bias", true);
        check("a*a", "a", false);
    }

    #[test]
    fn parameters_find_their_rules() {
        let muon = Group { rate: 0.5, momentum: Some(0.6), muon: Some(Muon::default()), ..Group::new("conv*.weight") };
        let biases = Group { rate: 2.0, weight_decay: Some(0.0), ..Group::new("*.bias") };
        let n = network();
        let g = Grouped::new(&n, &sgd(), &[muon, biases]).unwrap().unwrap();
        let rule_of = |name: &str| g.rule_of_parameter[n.params().iter().position(|p| p.name == name).unwrap()];
        let found = [
            "whiten.weight",
            "whiten.bias",
            "conv2.weight",
            "bn1.weight",
            "bn1.bias",
            "bn1.running_mean",
            "fc1.weight",
        ]
        .map(rule_of);
        assert_eq!(found, [None, Some(2), Some(1), Some(0), Some(2), None, Some(0)]);
        assert_eq!(g.rules[1].numbers(), (0.6, 0.0, true));
        assert_eq!((g.rules[0].numbers(), g.rules[2].numbers()), ((0.9, 0.1, true), (0.9, 0.0, true)));
        assert_eq!(g.rates(0.1, 0.2, 3).unwrap(), [0.1, 0.05, 0.2]);
        let plain = Network::new([3, 4, 4], [flatten(), linear(2)]).unwrap();
        assert_eq!(Grouped::new(&plain, &Optimizer::adam(), &[]), Ok(None));
    }

    #[test]
    fn groups_that_make_no_sense_are_refused() {
        let check = |optimizer: Optimizer, group: Group, expect: &str| {
            let sentence = Grouped::new(&network(), &optimizer, &[group]).unwrap_err().to_string();
            assert!(sentence.contains(expect), "{sentence}");
        };
        check(Optimizer::adam(), Group::new("*"), "SGD with a momentum above 0");
        check(Optimizer::sgd(), Group::new("*"), "SGD with a momentum above 0");
        check(sgd(), Group::new("conv9.*"), "names of trained parameters");
        check(sgd(), Group::new("whiten.weight"), "names of trained parameters");
        check(sgd(), Group { rate: f64::NAN, ..Group::new("*") }, "the rate of a group is NaN");
        check(sgd(), Group { momentum: Some(1.0), ..Group::new("*") }, "the momentum of a group is 1");
        let muon = Group { muon: Some(Muon::default()), ..Group::new("fc1.weight") };
        check(sgd(), muon.clone(), "Muon works on filters");
        check(sgd(), Group { weight_decay: Some(0.1), ..muon }, "Muon has none");
    }
}
