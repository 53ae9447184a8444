//! Updates in groups on a GPU: SGD of all groups in one launch, Muon's filters in a few more.

use super::cuda::{Control, Parameters, check};
use super::groups::{Grouped, MOST};
use super::{OP, Optimizer, grouped_launch, launch};
use crate::ops::error::Check;
use crate::ops::muon::cuda::{FilterPlace, Filters, MuonArrays};
use crate::ops::step_launch::Settings;
use warpbook_device::{CudaDevice, Kernel, Result, Slice, Stream};
use warpbook_gemm::kernel_args::load;
use warpbook_record::Dtype;

/// Parameters begin at multiples of this number of elements; each cell of this size names its group.
pub const CELL: usize = 64;
/// Number of settings of a group in device memory: momentum, weight decay, Nesterov flag, and an unused one.
const GROUP_NUMBERS: usize = 4;
/// Marks cells without a group: frozen, or updated by Muon.
const NO_GROUP: u8 = 255;

/// Arrays that a group's step reads in addition to [`Control`].
#[derive(Debug, Clone, Copy)]
pub struct GroupRates<'a> {
    /// Counters of a training, `[4]`; the third is the slot of the step.
    pub counters: &'a Slice<u32>,
    /// Learning rates of the steps, `[slots][rules]`: see [`Grouped::rates`].
    pub rates: &'a Slice<f32>,
}

/// The kernels of an update in groups, loaded once, with their tables and workspaces.
#[derive(Debug, Clone)]
pub struct GroupedUpdate {
    optimizer: Optimizer,
    dtype: Dtype,
    prepare: Kernel,
    update: Kernel,
    cells: Slice<u8>,
    numbers: Slice<f32>,
    groups: u32,
    filters: Vec<Filters>,
}

impl GroupedUpdate {
    /// Compiles and loads the kernels for parameters that take `n` elements in all. `places` are the ranges of the network's parameters,
    /// each starting at a multiple of [`CELL`]; ranges of parameters without a rule are not read.
    ///
    /// # Errors
    /// If a setting is out of range, or a parameter does not start at a multiple of [`CELL`]; if compiling fails or the device reports an
    /// error.
    pub fn new(
        device: &CudaDevice,
        (optimizer, grouped): (Optimizer, &Grouped),
        (n, places): (usize, &[FilterPlace]),
        dtype: Dtype,
    ) -> Result<Self> {
        optimizer.check()?;
        let (check, rules) = (Check(OP), grouped.rules.len());
        check.value("the number of rules", rules, (1..=MOST).contains(&rules), "1 to 64")?;
        let parameters = grouped.rule_of_parameter.len();
        check.value("the number of places", places.len(), places.len() == parameters, "as many as parameters")?;
        let of_rule = |rule: usize| {
            let its = places.iter().zip(&grouped.rule_of_parameter).filter(move |(_, its)| **its == Some(rule));
            its.map(|(place, _)| place.clone()).collect::<Vec<FilterPlace>>()
        };
        let mut cells = vec![NO_GROUP; n.div_ceil(CELL)];
        let mut filters = Vec::new();
        for (number, rule) in grouped.rules.iter().enumerate() {
            let its = of_rule(number);
            for FilterPlace { at, .. } in &its {
                let starts_a_cell = at.start.is_multiple_of(CELL);
                check.value("the offset of a parameter", at.start, starts_a_cell, "a multiple of 64")?;
                check.value("the end of a parameter", at.end, at.end <= n, "within the array")?;
            }
            match rule.muon {
                Some(muon) if !its.is_empty() => filters.push(Filters::new(device, muon, number, &its, dtype)?),
                Some(_) => {}
                // The cast loses nothing, because there are at most 64 rules.
                None => its.iter().for_each(|p| {
                    cells[p.at.start / CELL..p.at.end.div_ceil(CELL)].fill(number as u8);
                }),
            }
        }
        let numbers: Vec<f32> = grouped
            .rules
            .iter()
            .flat_map(|rule| {
                let (momentum, decay, nesterov) = rule.numbers();
                [momentum as f32, decay as f32, f32::from(u8::from(nesterov)), 0.0]
            })
            .collect();
        let [prepare, update] =
            load(device, [warpbook_kernels::nn::prepare(), warpbook_kernels::nn::update_groups(dtype)])?;
        Ok(Self {
            optimizer,
            dtype,
            prepare,
            update,
            cells: device.buffer_from(&cells)?.range(..),
            numbers: device.buffer_from(&numbers)?.range(..),
            groups: check.word("the number of rules", rules)?,
            filters,
        })
    }

    /// Queues one step of all parameters that have a rule.
    ///
    /// # Errors
    /// If an array has the wrong length, or `state` is not one array; if a launch fails.
    pub fn step(&self, stream: &Stream, p: Parameters<'_>, control: Control<'_>, rates: GroupRates<'_>) -> Result<()> {
        check(&self.optimizer, self.dtype, p, control)?;
        let [momentum] = p.state else {
            return Ok(Check(OP).value("the number of state arrays", p.state.len(), false, "one, the momentum")?);
        };
        let (check, groups) = (Check(OP), self.groups as usize);
        check.lengths(&[
            ("the counters", rates.counters.len(), &[4]),
            ("the groups of the weights", self.cells.len(), &[p.weights.len().div_ceil(CELL)]),
            ("the rates", rates.rates.len(), &[rates.rates.len() / groups, groups]),
            ("the numbers of the groups", self.numbers.len(), &[groups, GROUP_NUMBERS]),
        ])?;
        launch::prepare(&self.prepare, stream, &Settings::new(&self.optimizer), control)?;
        let tables = (&self.cells, &self.numbers);
        grouped_launch::update(&self.update, stream, tables, (control.step, rates, self.groups), (p, momentum))?;
        let arrays = MuonArrays {
            step: control.step,
            counters: rates.counters,
            rates: rates.rates,
            numbers: &self.numbers,
            groups: self.groups,
            weights: p.weights,
            gradients: p.gradients,
            momentum,
            copy: p.copy,
        };
        self.filters.iter().try_for_each(|filters| filters.step(stream, arrays))
    }
}
