//! Starts the ranks of one machine as processes, forwards the lines that they print, and ends them together.

use crate::placement::{LAUNCHED, TOKEN};
use crate::{Error, Result};
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Environment variable that is set if rank 0's standard input is its listening socket.
const LISTENER: &str = "WARPBOOK_LISTENER";
/// Environment variable with the id of the process that started the ranks. The ranks end when that process does.
const LAUNCHER: &str = "WARPBOOK_LAUNCHER";
/// Exit code of a rank that ended because of another rank's failure.
pub const ENDED_BY_ANOTHER: i32 = 4;
/// Interval between two checks of the rank processes.
const POLL: Duration = Duration::from_millis(10);
/// Time to wait for the last lines of processes that have ended.
const LAST_LINES: Duration = Duration::from_secs(5);

/// A line that a rank printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The rank that printed the line.
    pub rank: usize,
    /// True if the line was printed to stderr, false for stdout.
    pub is_error: bool,
    /// The text of the line without its line break. Invalid UTF-8 is replaced.
    pub text: String,
}

/// The result of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code: 0 on success, otherwise the code of the first rank that failed by itself, or 1 if a signal ended that
    /// rank.
    pub code: i32,
    /// The rank that failed first and its failure, as a sentence; `None` if no rank failed.
    pub failed: Option<String>,
    /// Process ids of the ranks, all of which have ended.
    pub processes: Vec<u32>,
}

/// A launch of ranks on this machine.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program that every rank runs.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Number of ranks to start, each a process.
    pub ranks: usize,
    /// Environment variables to set for the ranks; variables that are already set keep their values.
    pub environment: Vec<(String, String)>,
    /// Time that the other ranks have to end by themselves after one has failed.
    pub grace: Duration,
    /// Number of interrupts so far, which the caller increases: the first one is forwarded to the ranks like Ctrl-C,
    /// and further ones kill them.
    pub interrupted: Arc<AtomicU32>,
}

/// Child processes, which are killed when this value is dropped.
struct Processes(Vec<Child>);

impl Processes {
    fn kill(&mut self) {
        self.0.iter_mut().for_each(kill_group);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.kill();
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}

impl Launch {
    /// Returns a launch of `ranks` processes of a program, with ten seconds of grace.
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>, ranks: usize) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            ranks,
            environment: Vec::new(),
            grace: Duration::from_secs(10),
            interrupted: Arc::default(),
        }
    }

    /// Starts all ranks and waits until all have ended. Calls `heard` on this thread with each line that a rank prints.
    ///
    /// The ranks meet at a free port of 127.0.0.1, and rank 0 inherits the listening socket. Each rank has its own
    /// process group, which is killed if it does not end in time. On Linux, the kernel also kills each rank when this
    /// process dies (see [`end_with_launcher`]).
    ///
    /// # Errors
    /// Returns an error if the number of ranks is 0 or a process cannot be started. Processes that were already started
    /// are ended.
    pub fn run(&self, heard: &mut dyn FnMut(&Line)) -> Result<Outcome> {
        if self.ranks == 0 {
            return Err(Error::Launch("Cannot launch 0 ranks: start at least one.".into()));
        }
        let failed = |what: &str, e: std::io::Error| Error::Launch(format!("{what}: {e}."));
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| failed("No port can be opened on 127.0.0.1", e))?;
        let port = listener.local_addr().map_err(|e| failed("No port can be opened on 127.0.0.1", e))?.port();
        let (token, mut listener) = (token(), Some(listener));
        let (to, lines) = mpsc::channel();
        let mut processes = Processes(Vec::new());
        for rank in 0..self.ranks {
            let mut command = self.command(rank, port, &token);
            give_listener(&mut command, listener.take());
            let spawned = command.spawn();
            let mut child = spawned
                .map_err(|e| failed(&format!("Rank {rank}, {}, cannot be started", self.program.display()), e))?;
            forward(rank, false, child.stdout.take(), &to);
            forward(rank, true, child.stderr.take(), &to);
            processes.0.push(child);
        }
        drop(to);
        self.watch(processes, &lines, heard)
    }

    fn command(&self, rank: usize, port: u16, token: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in self.environment.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
            command.env(name, value);
        }
        let number = rank.to_string();
        command.env("RANK", &number).env("LOCAL_RANK", &number).env("WORLD_SIZE", self.ranks.to_string());
        command.env("MASTER_ADDR", Ipv4Addr::LOCALHOST.to_string()).env("MASTER_PORT", port.to_string());
        command.env(TOKEN, token).env(LAUNCHED, "1").env(LAUNCHER, std::process::id().to_string());
        command.env_remove(LISTENER).env_remove("TORCHELASTIC_USE_AGENT_STORE");
        own_group(&mut command);
        command
    }

    fn watch(
        &self,
        mut processes: Processes,
        lines: &mpsc::Receiver<Line>,
        heard: &mut dyn FnMut(&Line),
    ) -> Result<Outcome> {
        let ids: Vec<u32> = processes.0.iter().map(Child::id).collect();
        let mut ended: Vec<Option<ExitStatus>> = vec![None; ids.len()];
        // Failures in the order in which they were detected.
        let mut failures: Vec<(usize, ExitStatus)> = Vec::new();
        let mut killed = vec![false; ids.len()];
        let (mut deadline, mut passed_on) = (None, 0);
        while ended.iter().any(Option::is_none) {
            match lines.recv_timeout(POLL) {
                Ok(line) => {
                    heard(&line);
                    lines.try_iter().take(1000).for_each(|line| heard(&line));
                }
                // All pipes are closed, so the processes are about to end.
                Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            for (rank, child) in processes.0.iter_mut().enumerate() {
                if ended[rank].is_some() {
                    continue;
                }
                let status =
                    child.try_wait().map_err(|e| Error::Launch(format!("Rank {rank} cannot be waited for: {e}.")))?;
                let Some(status) = status else { continue };
                ended[rank] = Some(status);
                // This kills any child processes that the rank has left behind.
                kill_group(child);
                if !status.success() {
                    failures.push((rank, status));
                    deadline.get_or_insert_with(|| Instant::now() + self.grace);
                }
            }
            let asked = self.interrupted.load(Ordering::SeqCst);
            if asked > passed_on {
                passed_on = asked;
                if asked == 1 { processes.0.iter().for_each(interrupt_group) } else { processes.kill() }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let late = (0..ids.len()).filter(|rank| ended[*rank].is_none());
                for rank in late {
                    killed[rank] = true;
                    kill_group(&mut processes.0[rank]);
                }
            }
        }
        // A child process that a rank left behind may keep the pipe open, so this wait has a time limit.
        let until = Instant::now() + LAST_LINES;
        while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            heard(&line);
        }
        let by_itself =
            |(rank, status): &&(usize, ExitStatus)| status.code() != Some(ENDED_BY_ANOTHER) && !killed[*rank];
        let first = failures.iter().find(by_itself).or(failures.first());
        let failed = first.map(|(rank, status)| match status.code() {
            Some(ENDED_BY_ANOTHER) => "The ranks were ended because of the one that they name.".to_owned(),
            _ => format!("Rank {rank} {}.", how(*status)),
        });
        let code = first.map_or(0, |(_, status)| status.code().unwrap_or(1));
        Ok(Outcome { code, failed, processes: ids })
    }
}

/// Describes how a process ended, as the end of a sentence.
fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => by_signal(status),
    }
}

#[cfg(unix)]
fn by_signal(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(9) => "was killed by signal 9 (SIGKILL), as by `kill -9` or for want of memory".into(),
        Some(signal) => format!("was ended by signal {signal}"),
        None => "was ended".into(),
    }
}

#[cfg(not(unix))]
fn by_signal(_: ExitStatus) -> String {
    "was ended".into()
}

/// Returns a token that is unique to this run. It comes from the random numbers that the standard library obtains from
/// the system for its hash tables.
fn token() -> String {
    let word = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", word(), word())
}

/// Starts a thread that forwards each line from a pipe.
fn forward(rank: usize, is_error: bool, pipe: Option<impl Read + Send + 'static>, to: &mpsc::Sender<Line>) {
    let (Some(pipe), to) = (pipe, to.clone()) else { return };
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while lines.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            bytes.clear();
            if to.send(Line { rank, is_error, text }).is_err() {
                return;
            }
        }
    });
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

/// Passes the listener to the first rank as its standard input, so that no other process can take the port in between.
#[cfg(unix)]
fn give_listener(command: &mut Command, listener: Option<TcpListener>) {
    if let Some(listener) = listener {
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener))).env(LISTENER, "stdin");
    }
}

/// On systems other than Unix, the port is released, and the first rank binds it again.
#[cfg(not(unix))]
fn give_listener(_: &mut Command, _: Option<TcpListener>) {}

/// Returns the listening socket that [`Launch`] passed to this process; `None` if there is none.
///
/// # Errors
/// Returns an error if the environment variable announces a listening socket, but standard input is something else.
pub fn launched_listener() -> Result<Option<TcpListener>> {
    if std::env::var_os(LISTENER).is_none() { Ok(None) } else { standard_input().map(Some) }
}

#[cfg(unix)]
fn standard_input() -> Result<TcpListener> {
    use std::os::fd::AsFd;
    let failed = |why: String| {
        Error::Setting(format!(
            "{LISTENER} says that standard input is a listening socket, which it is not: {why}. Unset it."
        ))
    };
    let owned = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| failed(e.to_string()))?;
    let listener = TcpListener::from(owned);
    listener.local_addr().map_err(|e| failed(e.to_string()))?;
    Ok(listener)
}

#[cfg(not(unix))]
fn standard_input() -> Result<TcpListener> {
    Err(Error::Setting(format!("{LISTENER} is for Unix; unset it.")))
}

#[cfg(unix)]
fn group(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(child.id()).ok()?)
}

#[cfg(unix)]
fn kill_group(child: &mut Child) {
    if let Some(group) = group(child) {
        // Usually the group has no processes left; that error is ignored.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(child: &mut Child) {
    let _ = child.kill();
}

#[cfg(unix)]
fn interrupt_group(child: &Child) {
    if let Some(group) = group(child) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::INT);
    }
}

#[cfg(not(unix))]
fn interrupt_group(_: &Child) {}

/// Makes this process end together with its launcher, even if the launcher crashes. It has no effect unless [`Launch`]
/// started this process. It also has no effect outside Linux, where an orphaned rank ends when its next operation
/// fails.
pub fn end_with_launcher() {
    if let Some(launcher) = std::env::var(LAUNCHER).ok().and_then(|text| text.parse::<i32>().ok()) {
        tie(launcher);
    }
}

#[cfg(target_os = "linux")]
fn tie(launcher: i32) {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // The launcher may already have died before this process asked for the signal.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(launcher) {
        std::process::exit(ENDED_BY_ANOTHER);
    }
}

#[cfg(not(target_os = "linux"))]
fn tie(_: i32) {}
