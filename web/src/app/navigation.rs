//! What the page is about: all records, the class board, a record and its part.

use super::messages::ViewMsg;
use super::sheets::Sheets;
use super::state::App;

impl App {
    /// Shows something else.
    pub(super) fn update_view(&mut self, msg: ViewMsg) {
        match msg {
            ViewMsg::Overview => self.link.show_all(),
            ViewMsg::Board(task) => self.link.show_board(task),
            ViewMsg::OpenedOnly(on) => self.link.opened_only = on,
            ViewMsg::Filter(filter) => self.filter = filter,
            ViewMsg::Select(key) => {
                self.link.show_whole_plots();
                self.link.overview = false;
                self.link.leave_apart();
                self.library.retry(&key);
                // Another record's columns may be others.
                self.sheets = Sheets::default();
                self.came_from = None;
                self.link.record = Some(key);
            }
            ViewMsg::Tab(tab) => {
                self.link.show_whole_plots();
                self.link.tab = Some(tab);
                self.came_from = None;
            }
        }
    }
}
