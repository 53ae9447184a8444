//! Reads a rank's placement from the environment variables that its launcher sets.

use crate::{Error, Result};

/// The program that started the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// Warpbook's own launcher: `warpbook train --gpus N` or `--ranks N`.
    Warpbook,
    /// `torchrun`, or any other launcher that sets `RANK` and `WORLD_SIZE`.
    Torchrun,
    /// SLURM's `srun`.
    Slurm,
    /// Open MPI's `mpirun`.
    OpenMpi,
}

impl Launcher {
    /// Returns the names of the environment variables that contain a process's rank and the number of ranks.
    #[must_use]
    pub fn variables(self) -> &'static str {
        match self {
            Self::Warpbook | Self::Torchrun => "RANK and WORLD_SIZE",
            Self::Slurm => "SLURM_PROCID and SLURM_NTASKS",
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE",
        }
    }
}

/// Upper limit on the number of ranks, which catches mistakes.
const MOST: usize = 16_384;

/// A rank's place among the other ranks, and the address where they all meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Index of the process among all ranks, starting from 0.
    pub rank: usize,
    /// Index of the process among the ranks of its machine, starting from 0, which is also the index of its GPU.
    pub local_rank: usize,
    /// Number of ranks.
    pub world: usize,
    /// Name or IP address of rank 0's host.
    pub host: String,
    /// The port at which rank 0 listens.
    pub port: u16,
    /// Token shared by all ranks of this run. Processes that do not know it are refused. The token is sent unencrypted,
    /// so it only keeps runs apart and gives no security.
    pub token: String,
    /// The launcher that started this rank.
    pub launcher: Launcher,
}

/// The environment variable that Warpbook's launcher sets in addition to `RANK`, `LOCAL_RANK`, `WORLD_SIZE`,
/// `MASTER_ADDR` and `MASTER_PORT`.
pub(crate) const TOKEN: &str = "WARPBOOK_TOKEN";
pub(crate) const LAUNCHED: &str = "WARPBOOK_LAUNCHED";

/// First port and number of ports of the range for SLURM, from which the job's number selects a port.
const SLURM_PORTS: (u64, u64) = (20_000, 10_000);

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Placement {
    /// Reads the placement from this process's environment. Returns `None` if no launcher started this process, or if
    /// it is the only rank.
    ///
    /// The following groups of variables are tried in order. torchrun and Warpbook's launcher set `RANK`, `WORLD_SIZE`,
    /// `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`. srun sets `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` or
    /// `SLURM_NTASKS`, and `SLURM_LOCALID`. mpirun sets `OMPI_COMM_WORLD_RANK`, `_SIZE` and `_LOCAL_RANK`.
    /// `MASTER_ADDR` and `MASTER_PORT` take precedence if they are set. If they are not, SLURM's ranks meet at the job
    /// step's first machine, at a port derived from the job's number.
    ///
    /// # Errors
    /// Returns an error if a variable is missing or invalid; the message names the variable.
    pub fn from_environment() -> Result<Option<Self>> {
        Self::read(&|name| std::env::var(name).ok().filter(|v| !v.trim().is_empty()))
    }

    fn read(get: Lookup<'_>) -> Result<Option<Self>> {
        let (launcher, names) = if get("RANK").is_some() || get("WORLD_SIZE").is_some() {
            let launcher = if get(LAUNCHED).is_some() { Launcher::Warpbook } else { Launcher::Torchrun };
            (launcher, ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
        } else if get("SLURM_PROCID").is_some() && get("SLURM_STEP_ID").is_some() {
            // In a job script outside srun, the number of the job's tasks is set although there is only one process.
            let size = if get("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
            (Launcher::Slurm, ["SLURM_PROCID", size, "SLURM_LOCALID"])
        } else if get("OMPI_COMM_WORLD_RANK").is_some() {
            (Launcher::OpenMpi, ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"])
        } else {
            return Ok(None);
        };
        Self::placed(get, launcher, names).map_err(|e| match e {
            Error::Setting(why) => Error::Setting(format!(
                "{why} To work without other ranks, unset {} and {}: an earlier session may have left them.",
                names[0], names[1]
            )),
            e => e,
        })
    }

    fn placed(get: Lookup<'_>, launcher: Launcher, names: [&str; 3]) -> Result<Option<Self>> {
        let [rank, world] = [names[0], names[1]].map(|name| number(get, name));
        let (rank, world) = (rank?, world?);
        if world == 0 {
            return Err(Error::Setting(format!("{} is 0: it must be at least 1.", names[1])));
        }
        if rank >= world {
            return Err(Error::Setting(format!(
                "{} is {rank} and {} is {world}: ranks are numbered from 0 to {}.",
                names[0],
                names[1],
                world - 1
            )));
        }
        if world == 1 {
            return Ok(None);
        }
        if world > MOST {
            return Err(Error::Setting(format!("{} is {world}: at most {MOST} ranks train together.", names[1])));
        }
        let local_rank = match get(names[2]) {
            Some(_) => number(get, names[2])?,
            None if launcher == Launcher::Torchrun => {
                return Err(Error::Setting(
                    "LOCAL_RANK is not set, though RANK and WORLD_SIZE are: set it to the number of the GPU that this rank takes.".into(),
                ));
            }
            None => 0,
        };
        let (host, port) = master(get, launcher)?;
        Ok(Some(Self { rank, local_rank, world, host, port, token: token(get), launcher }))
    }

    /// Returns the host and port of rank 0, such as "10.0.0.1:29500".
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn number(get: Lookup<'_>, name: &str) -> Result<usize> {
    let Some(text) = get(name) else {
        return Err(Error::Setting(format!(
            "{name} is not set, though other variables of its launcher are: start all ranks with the same launcher, or set it."
        )));
    };
    text.trim()
        .parse()
        .map_err(|_| Error::Setting(format!("{name} is `{text}`; it must be a whole number, at least 0.")))
}

fn port(name: &str, text: &str) -> Result<u16> {
    let wrong = || Error::Setting(format!("{name} is `{text}`; it must be a port from 1 to 65535."));
    text.trim().parse().ok().filter(|port| *port > 0).ok_or_else(wrong)
}

/// Returns the host and port at which rank 0 listens.
fn master(get: Lookup<'_>, launcher: Launcher) -> Result<(String, u16)> {
    let host = match (get("MASTER_ADDR"), launcher) {
        (Some(host), _) => host.trim().trim_matches(['[', ']']).to_owned(),
        (None, Launcher::Slurm) => slurm_host(get)?,
        (None, launcher) => return Err(Error::Setting(without("MASTER_ADDR", launcher))),
    };
    let port = match (get("MASTER_PORT"), launcher) {
        (Some(text), _) => port("MASTER_PORT", &text)?,
        (None, Launcher::Slurm) => {
            let job = number(get, "SLURM_JOB_ID")? as u64;
            (SLURM_PORTS.0 + job % SLURM_PORTS.1) as u16
        }
        (None, launcher) => return Err(Error::Setting(without("MASTER_PORT", launcher))),
    };
    // torchrun's agent may already listen at this port; it then sets this variable.
    let is_taken = get("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    Ok((host, if is_taken { port.checked_add(1).unwrap_or(port - 1) } else { port }))
}

fn without(name: &str, launcher: Launcher) -> String {
    let how = match launcher {
        Launcher::OpenMpi => {
            "mpirun does not say where ranks meet: add -x MASTER_ADDR=HOST -x MASTER_PORT=29500, with the host of rank 0 (127.0.0.1 on one machine)."
        }
        _ => {
            "It says where rank 0 listens: set MASTER_ADDR to its host (127.0.0.1 on one machine) and MASTER_PORT to a free port."
        }
    };
    format!("{name} is not set. {how}")
}

/// Returns the first machine of a SLURM job step.
fn slurm_host(get: Lookup<'_>) -> Result<String> {
    let list = get("SLURM_STEP_NODELIST").or_else(|| get("SLURM_JOB_NODELIST")).or_else(|| get("SLURM_NODELIST"));
    list.as_deref().and_then(first_host).ok_or_else(|| Error::Setting(without("MASTER_ADDR", Launcher::Slurm)))
}

/// Returns the first host of a list in SLURM's notation, such as "node07", "node[03-06,9],login" or
/// "rack[1-2]-gpu[0-7]".
fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    while let Some(c) = rest.chars().next() {
        match c {
            ',' => break,
            '[' => {
                let (inside, after) = rest[1..].split_once(']')?;
                host.push_str(inside.split([',', '-']).next()?);
                rest = after;
            }
            c => {
                host.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    (!host.is_empty()).then_some(host)
}

/// Returns the token shared by the ranks of a run. It is set by the user or by Warpbook's launcher; otherwise it is the
/// launcher's name for the run.
fn token(get: Lookup<'_>) -> String {
    let job = || {
        let slurm = get("SLURM_JOB_ID").map(|job| format!("{job}.{}", get("SLURM_STEP_ID").unwrap_or_default()));
        get("TORCHELASTIC_RUN_ID").or(slurm).or_else(|| get("PMIX_NAMESPACE"))
    };
    get(TOKEN).or_else(job).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<Placement>> {
        Placement::read(&|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    fn place(pairs: &[(&str, &str)]) -> Placement {
        read(pairs).unwrap().unwrap()
    }

    const TORCH: [(&str, &str); 5] = [
        ("RANK", "3"),
        ("LOCAL_RANK", "1"),
        ("WORLD_SIZE", "4"),
        ("MASTER_ADDR", "10.0.0.1"),
        ("MASTER_PORT", "29500"),
    ];

    #[test]
    fn a_rank_of_torchrun() {
        let p = place(&TORCH);
        assert_eq!((p.rank, p.local_rank, p.world, p.address().as_str()), (3, 1, 4, "10.0.0.1:29500"));
        assert_eq!((p.launcher, p.token.as_str()), (Launcher::Torchrun, ""));
        let more = [&TORCH[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True"), ("TORCHELASTIC_RUN_ID", "run7")]].concat();
        assert_eq!(
            (place(&more).port, place(&more).token),
            (29501, "run7".to_owned()),
            "the agent has the port itself"
        );
        let own = [&more[..], &[("WARPBOOK_TOKEN", "mine"), ("WARPBOOK_LAUNCHED", "1")]].concat();
        assert_eq!((place(&own).token.as_str(), place(&own).launcher), ("mine", Launcher::Warpbook));
        let v6 = [&TORCH[..3], &[("MASTER_ADDR", "[fe80::1]"), ("MASTER_PORT", "1")]].concat();
        assert_eq!(place(&v6).address(), "[fe80::1]:1");
    }

    #[test]
    fn a_rank_of_slurm() {
        let job = [
            ("SLURM_PROCID", "5"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_JOB_ID", "1234567"),
            ("SLURM_STEP_NODELIST", "gpu[03-06],login1"),
        ];
        assert_eq!(read(&job).unwrap(), None, "the script of a job, outside of srun");
        let step = [&job[..], &[("SLURM_STEP_ID", "2")]].concat();
        let p = place(&step);
        assert_eq!((p.rank, p.local_rank, p.world, p.address().as_str()), (5, 1, 8, "gpu03:24567"));
        assert_eq!((p.launcher, p.token.as_str()), (Launcher::Slurm, "1234567.2"));
        let of_step =
            [&step[..], &[("SLURM_STEP_NUM_TASKS", "6"), ("MASTER_ADDR", "h"), ("MASTER_PORT", "7")]].concat();
        assert_eq!((place(&of_step).world, place(&of_step).address()), (6, "h:7".to_owned()));
    }

    #[test]
    fn a_rank_of_open_mpi() {
        let of_mpi =
            [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_RANK", "1")];
        let why = read(&of_mpi).unwrap_err().to_string();
        assert!(why.starts_with("MASTER_ADDR is not set.") && why.contains("-x MASTER_ADDR=HOST"), "{why}");
        let all = [&of_mpi[..], &[("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")]].concat();
        let p = place(&all);
        assert_eq!((p.rank, p.local_rank, p.world, p.launcher), (1, 1, 2, Launcher::OpenMpi));
    }

    #[test]
    fn nobody_or_one_rank_is_no_group() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap(), None);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |changed: (&str, &str), expect: &str| {
            let pairs = TORCH.map(|pair| if pair.0 == changed.0 { changed } else { pair });
            // A variable that is set to an empty string counts as unset.
            let all = pairs.into_iter().filter(|pair| !pair.1.is_empty()).collect::<Vec<_>>();
            let why = read(&all).unwrap_err().to_string();
            assert!(why.contains(expect), "{why}");
        };
        check(("WORLD_SIZE", "0"), "WORLD_SIZE is 0: it must be at least 1");
        check(("RANK", "4"), "RANK is 4 and WORLD_SIZE is 4: ranks are numbered from 0 to 3");
        check(("RANK", "x"), "RANK is `x`");
        check(("RANK", ""), "RANK is not set");
        check(("WORLD_SIZE", "4000000000"), "at most 16384 ranks");
        check(("LOCAL_RANK", ""), "LOCAL_RANK is not set");
        check(("LOCAL_RANK", ""), "To work without other ranks, unset RANK and WORLD_SIZE");
        check(("MASTER_ADDR", ""), "MASTER_ADDR is not set");
        check(("MASTER_PORT", ""), "MASTER_PORT is not set");
        check(("MASTER_PORT", "70000"), "MASTER_PORT is `70000`");
    }

    #[test]
    fn the_first_host_of_a_list() {
        let check = |list: &str, expect: &str| assert_eq!(first_host(list).as_deref(), Some(expect), "{list}");
        check("node07", "node07");
        check("node[03-06,9],login", "node03");
        check("login,node[1-2]", "login");
        check("rack[1-2]-gpu[0,4-7]", "rack1-gpu0");
        assert_eq!((first_host(""), first_host("node[1")), (None, None));
    }
}
