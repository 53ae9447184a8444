//! Messages that change the page's subject: overview, class board, record, tab.

use super::messages::{ClassMsg, ViewMsg};
use super::sheets::Sheets;
use super::state::App;

impl App {
    /// Handles a message about the progress files of a class.
    pub(super) fn update_class(&mut self, msg: ClassMsg) {
        match msg {
            ClassMsg::Exercise(id) => self.class.exercise = id,
            ClassMsg::RankBy(by) => self.class.by = by,
            ClassMsg::Large(on) => self.class.is_large = on,
            ClassMsg::Close => self.class.clear(),
        }
    }

    /// Handles a message that changes the page's subject.
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
                // Another record may have other columns, so tables lose their sorting.
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
