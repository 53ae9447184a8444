//! What may happen on the page, by the room that it concerns.

use crate::address::ProblemChoice;
use crate::library::Filter;
use crate::library::open::Opened;
use crate::library::origin::Index;
use crate::plot::trace::Shown;
use crate::record::Tab;
use std::rc::Rc;
use warpbook_charts::{Chart, Window};
use warpbook_record::Quantity;
use web_sys::File;

/// What may happen.
#[derive(Clone)]
pub enum Msg {
    /// To the records that come with the page or from an address.
    Library(LibraryMsg),
    /// To records from disk, the clipboard or the link itself.
    Disk(DiskMsg),
    /// To the choice of what the page is about.
    View(ViewMsg),
    /// To the comparison.
    Compare(CompareMsg),
    /// To what the charts show.
    Chart(ChartMsg),
    /// To a rung's panel.
    Rung(RungMsg),
    /// To a table.
    Sheet(SheetMsg),
    /// To the reader's report.
    Report(ReportMsg),
    /// To what the reader is told.
    Notice(NoticeMsg),
    /// To the browser's window.
    Window(WindowMsg),
}

impl Msg {
    /// Shows a message, and reads it out.
    pub fn say(text: impl Into<String>) -> Self {
        Self::Notice(NoticeMsg::Say(text.into()))
    }
}

/// A record that was opened, or why it was not.
pub type Reading = Result<Rc<Opened>, String>;

/// What may happen to the records that come with the page or from an address.
#[derive(Clone)]
pub enum LibraryMsg {
    /// The index of the page's records is there.
    Index(Result<Index, String>),
    /// A record of the list was read.
    Read(String, Reading),
    /// Open this record of another site, or leave it out.
    Permit(String, bool),
    /// The record of that address is a folder's index, of records at these.
    Folder(String, Vec<String>),
    /// A record that is shown was read again.
    Renewed(String, Reading),
    /// The page's server has answered.
    Live(Result<Option<(String, String)>, ()>),
    /// Forget this record.
    Close(String),
}

/// What may happen to records from disk, the clipboard or the link itself.
#[derive(Clone)]
pub enum DiskMsg {
    /// Files were chosen or dropped.
    Files(Vec<File>),
    /// A text was pasted.
    Paste(String),
    /// A file was read: its name, the record and how large it is.
    Read(String, Reading, usize),
    /// What the browser kept of an earlier visit was read.
    Kept(Vec<(String, Reading, usize)>),
    /// The browser does not keep the record of this key and file.
    NotKept(String, String),
    /// Forget everything that was opened from disk.
    Forget,
    /// The address has another fragment.
    Fragment,
    /// What the link carried was read.
    Carried(Result<(String, Rc<Opened>), String>),
    /// Put a link onto the clipboard that carries the record.
    CopyCarrying,
}

/// What the page may be about.
#[derive(Clone)]
pub enum ViewMsg {
    /// Show all records.
    Overview,
    /// Show the class board, at this task.
    Board(String),
    /// Leave the page's own records out of the board, or show them again.
    OpenedOnly(bool),
    /// Show these of all records.
    Filter(Filter),
    /// Show this record.
    Select(String),
    /// Show this part.
    Tab(Tab),
}

/// What may happen to the comparison.
#[derive(Clone)]
pub enum CompareMsg {
    /// Compare this record, or leave it out.
    Tick(String, bool),
    /// Rename a record in comparisons.
    Label(String, String),
    /// Make this record the baseline of the other ticked ones.
    First(String),
    /// Show what is not comparable, or hide it.
    Anyway(bool),
    /// Normalise comparisons to what nobody changed, or stop that.
    Normalise(bool),
}

/// What may happen to the charts.
#[derive(Clone)]
pub enum ChartMsg {
    /// Show this problem.
    Problem(ProblemChoice),
    /// Draw this in ladder and sweep.
    Quantity(Quantity),
    /// Show this part of the plot, or all of it.
    Zoom(Option<Window>),
    /// The timeline shows this.
    Timeline(Shown),
    /// Let the line of this rung stand out of a sweep, or stop that.
    Pick(String, bool),
}

/// What may happen to a rung's panel, which is reached from wherever the reader is, and leads back there.
#[derive(Clone)]
pub enum RungMsg {
    /// Show this rung in the panel.
    Show(String),
    /// Show this rung, at the problem of that label where it is not empty; the reader comes from there.
    Open(String, String, OpenedFrom),
    /// Show the rung that lies so many steps further.
    Step(isize),
    /// Show the whole source, or what changed.
    Whole(bool),
    /// Go back to where the reader came from.
    Leave,
}

/// What had the focus before a rung's panel was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedFrom {
    /// The element of this id.
    Id(String),
    /// The mark of this number among those of the page.
    Mark(usize),
}

/// What may happen to a table, which the first value names.
#[derive(Clone)]
pub enum SheetMsg {
    /// A column's heading was pressed.
    Sort(&'static str, usize),
    /// Show only the rows that have this text.
    Search(&'static str, String),
    /// Show all rows.
    Unfold(&'static str),
}

/// What may happen to the reader's report.
#[derive(Clone)]
pub enum ReportMsg {
    /// Show it.
    Show,
    /// Add this chart.
    Add(Rc<Chart>),
    /// Give it this title.
    Title(String),
    /// Write this to the chart of that number.
    Note(usize, String),
    /// Move the chart of that number by so many places.
    Shift(usize, isize),
    /// Take the chart of that number out.
    Remove(usize),
    /// Take everything out.
    Clear,
    /// Save it as an HTML file.
    Save,
    /// Print it.
    Print,
}

/// What the reader is told.
#[derive(Clone)]
pub enum NoticeMsg {
    /// Put this onto the clipboard; the first says what it is.
    Copy(&'static str, String),
    /// Show this message, and read it out.
    Say(String),
    /// Show this until the reader dismisses it.
    Alert(String),
    /// An alert was read.
    Dismiss(usize),
}

/// What may happen to the browser's window.
#[derive(Clone)]
pub enum WindowMsg {
    /// Charts have so much room, in CSS pixels.
    Width(u32),
    /// Change between light and dark.
    Theme,
    /// The system changed between light and dark.
    SystemTheme,
    /// Files are held over the page (`true`), or have left it.
    Hover(bool),
    /// The history was stepped through.
    Popped,
}
