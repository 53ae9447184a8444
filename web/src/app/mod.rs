//! The page's state and its message handlers; each group of messages has a file.

mod charts;
mod comparison;
mod loading;
mod messages;
mod navigation;
mod notices;
mod report;
mod rung_panel;
mod sheets;
mod state;
mod update;
mod window;

pub use messages::{
    ChartMsg, ClassMsg, CompareMsg, DiskMsg, LibraryMsg, Msg, NoticeMsg, OpenedFrom, ReportMsg, RungMsg, SheetMsg,
    ViewMsg, WindowMsg,
};
pub use rung_panel::HEADING as RUNG_HEADING;
pub use state::{App, HEADING, SwipeStart};
