//! The page's messages, grouped by the part of the app that handles them.

use crate::address::ProblemChoice;
use crate::library::Filter;
use crate::library::class::RankBy;
use crate::library::open::Opened;
use crate::library::origin::Index;
use crate::plot::trace::Shown;
use crate::record::Tab;
use std::rc::Rc;
use warpbook_charts::{Chart, Window};
use warpbook_record::{Progress, Quantity};
use web_sys::File;

/// A message to the app.
#[derive(Clone)]
pub enum Msg {
    /// A message about records from the page's index or from an address.
    Library(LibraryMsg),
    /// A message about records from the disk, the clipboard or a link.
    Disk(DiskMsg),
    /// A message that changes the page's subject.
    View(ViewMsg),
    /// A message about the progress files of a class.
    Class(ClassMsg),
    /// A message about the comparison.
    Compare(CompareMsg),
    /// A message about the charts.
    Chart(ChartMsg),
    /// A message about a rung's panel.
    Rung(RungMsg),
    /// A message about a table.
    Sheet(SheetMsg),
    /// A message for the report.
    Report(ReportMsg),
    /// A message for the reader's notices.
    Notice(NoticeMsg),
    /// A message about the browser's window.
    Window(WindowMsg),
}

impl Msg {
    /// Shows a message and makes screen readers announce it.
    pub fn say(text: impl Into<String>) -> Self {
        Self::Notice(NoticeMsg::Say(text.into()))
    }
}

/// An opened record, or the reason why it could not be opened.
pub type OpenResult = Result<Rc<Opened>, String>;

/// A message about records from the page's index or from an address.
#[derive(Clone)]
pub enum LibraryMsg {
    /// The index of the page's records arrived.
    Index(Result<Index, String>),
    /// The record with this key was read.
    Read(String, OpenResult),
    /// Open (`true`) or skip this record, which is on another site.
    Permit(String, bool),
    /// The address leads to a folder's index; the list contains the addresses of the folder's records.
    Folder(String, Vec<String>),
    /// A shown record was read again.
    Renewed(String, OpenResult),
    /// The page's server answered a poll; `Err` if it did not.
    Live(Result<Option<(String, String)>, ()>),
    /// Close this record.
    Close(String),
}

/// A message about records from the disk, the clipboard or a link.
#[derive(Clone)]
pub enum DiskMsg {
    /// The reader chose or dropped files.
    Files(Vec<File>),
    /// The reader pasted a text.
    Paste(String),
    /// A file was read: its name, the record and its size in bytes.
    Read(String, OpenResult, usize),
    /// A progress file was read: its name, and the progress or why it could not be read.
    Progress(String, Result<Rc<Progress>, String>),
    /// The records kept from an earlier visit were read.
    Kept(Vec<(String, OpenResult, usize)>),
    /// The browser could not keep the record with this key and file name.
    NotKept(String, String),
    /// Delete everything that was opened from disk.
    Forget,
    /// The address has a new fragment.
    Fragment,
    /// The record in the link was read: its file name and content.
    Carried(Result<(String, Rc<Opened>), String>),
    /// Copy a link that carries the record.
    CopyCarrying,
}

/// A message that changes the page's subject.
#[derive(Clone)]
pub enum ViewMsg {
    /// Show all records.
    Overview,
    /// Show the class board at this task.
    Board(String),
    /// Hide the page's own records on the board (`true`), or show them again.
    OpenedOnly(bool),
    /// Filter the overview.
    Filter(Filter),
    /// Show the record with this key.
    Select(String),
    /// Show this tab.
    Tab(Tab),
}

/// A message about the progress files of a class.
#[derive(Clone)]
pub enum ClassMsg {
    /// Show the ranking of this exercise.
    Exercise(String),
    /// Rank people by this criterion.
    RankBy(RankBy),
    /// Show large type (`true`), or type of the usual size.
    Large(bool),
    /// Forget the class.
    Close,
}

/// A message about the comparison.
#[derive(Clone)]
pub enum CompareMsg {
    /// Add (`true`) a record to the comparison, or remove it.
    Tick(String, bool),
    /// Rename a record in comparisons.
    Label(String, String),
    /// Make this ticked record the baseline.
    First(String),
    /// Show (`true`) or hide ratios that are not comparable.
    Anyway(bool),
    /// Divide out the drift of unchanged rungs (`true`), or stop doing so.
    Normalise(bool),
}

/// A message about the charts.
#[derive(Clone)]
pub enum ChartMsg {
    /// Show this problem.
    Problem(ProblemChoice),
    /// Draw this quantity in the ladder and the sweep.
    Quantity(Quantity),
    /// Zoom the plot to this window; `None` shows all of it.
    Zoom(Option<Window>),
    /// The timeline's state changed.
    Timeline(Shown),
    /// Highlight (`true`) this rung's line in a sweep, or stop highlighting it.
    Pick(String, bool),
}

/// A message about a rung's panel, which opens from any view and leads back to it.
#[derive(Clone)]
pub enum RungMsg {
    /// Show this rung in the panel.
    Show(String),
    /// Open the panel of a rung for the problem with this label (any problem if it is empty), and note where the reader
    /// was.
    Open(String, String, OpenedFrom),
    /// Move this many rungs along the ladder.
    Step(isize),
    /// Show the whole source (`true`) or the changes.
    Whole(bool),
    /// Return to the view before the panel.
    Leave,
}

/// The element that had the focus before a rung's panel opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedFrom {
    /// An element with this id.
    Id(String),
    /// A mark, by its number among the page's marks.
    Mark(usize),
}

/// A message about a table; the first value is the table's name.
#[derive(Clone)]
pub enum SheetMsg {
    /// The heading of this column was pressed.
    Sort(&'static str, usize),
    /// Show only rows that contain this text.
    Search(&'static str, String),
    /// Show all rows of a folded table.
    Unfold(&'static str),
}

/// A message for the report.
#[derive(Clone)]
pub enum ReportMsg {
    /// Show the report.
    Show,
    /// Add this chart.
    Add(Rc<Chart>),
    /// Set the report's title.
    Title(String),
    /// Set the note of the chart with this number.
    Note(usize, String),
    /// Move the chart with this number by this many places.
    Shift(usize, isize),
    /// Remove the chart with this number.
    Remove(usize),
    /// Remove all charts.
    Clear,
    /// Save the report as an HTML file.
    Save,
    /// Print the report.
    Print,
}

/// A notice to the reader.
#[derive(Clone)]
pub enum NoticeMsg {
    /// Copy text to the clipboard; the first field describes it in the message that the reader sees.
    Copy(&'static str, String),
    /// Show this message and make screen readers announce it.
    Say(String),
    /// Show this alert until the reader dismisses it.
    Alert(String),
    /// Dismiss the alert with this number.
    Dismiss(usize),
}

/// A message about the browser's window.
#[derive(Clone)]
pub enum WindowMsg {
    /// The width available for charts changed to this many CSS pixels.
    Width(u32),
    /// Switch between light and dark.
    Theme,
    /// The system switched between light and dark.
    SystemTheme,
    /// Files are dragged over the page (`true`), or have left it.
    Hover(bool),
    /// The reader went back or forward in the history.
    Popped,
}
