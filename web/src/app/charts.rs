//! Messages about charts: problem, quantity, zoom and highlighted lines.

use super::messages::ChartMsg;
use super::state::App;

impl App {
    /// Handles a message about the charts.
    pub(super) fn update_charts(&mut self, msg: ChartMsg) {
        match msg {
            ChartMsg::Problem(choice) => {
                self.link.show_whole_plots();
                self.link.problem = Some(choice);
            }
            ChartMsg::Quantity(quantity) => {
                self.link.show_whole_plots();
                self.link.quantity = Some(quantity);
            }
            ChartMsg::Zoom(window) => self.link.window = window,
            ChartMsg::Timeline(shown) => self.link.traced = shown,
            ChartMsg::Pick(rung, on) => {
                self.link.picked.retain(|r| *r != rung);
                self.link.picked.extend(on.then_some(rung));
            }
        }
    }
}
