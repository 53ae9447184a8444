//! The rendezvous: all ranks connect to rank 0, which tells each rank the address of its neighbour.

use crate::error::others;
use crate::group::Limits;
use crate::wire::Message;
use crate::{Error, Placement, Result};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Time limit for the peer of a new connection to identify itself.
const GREETING: Duration = Duration::from_secs(5);
/// Interval between two checks for new connections, and between two connection attempts.
const POLL: Duration = Duration::from_millis(10);
/// Extra time that other ranks wait beyond the limit, so that rank 0, which knows more, reports an error first.
const MARGIN: Duration = Duration::from_secs(5);

/// Delay before missing ranks are first reported, and interval between further reports.
const FIRST_WORD: Duration = Duration::from_secs(2);
const NEXT_WORD: Duration = Duration::from_secs(10);

/// The connections of a rank after the rendezvous.
pub(crate) struct Met {
    /// On rank 0, one connection to each other rank, in rank order; on any other rank, a single connection to rank 0.
    pub control: Vec<TcpStream>,
    /// The connections to the next rank, and from the previous rank.
    pub ring: [TcpStream; 2],
}

/// Connects this rank with the others; a single rank is its own neighbour. Rank 0 uses `listener` if there is one, and
/// otherwise listens at its placement's address.
pub(crate) fn meet(p: &Placement, limits: &Limits, listener: Option<TcpListener>, tell: fn(&str)) -> Result<Met> {
    let deadline = Instant::now() + limits.join;
    let waiting = Waiting::start(p, deadline, tell);
    if p.rank == 0 { host(p, limits, listener, deadline, &waiting) } else { guest(p, limits, deadline) }
}

/// Reports missing ranks until it is dropped. It has its own thread, because looking up a host name cannot be
/// interrupted.
struct Waiting {
    whom: Arc<Mutex<String>>,
    /// Dropping this sender ends the thread.
    _alive: mpsc::Sender<()>,
}

impl Waiting {
    fn start(p: &Placement, deadline: Instant, tell: fn(&str)) -> Self {
        let whom = if p.rank == 0 { others(&(1..p.world).collect::<Vec<_>>()) } else { "rank 0".to_owned() };
        let whom = Arc::new(Mutex::new(whom));
        let (alive, ended) = mpsc::channel::<()>();
        let (of_thread, rank, address, variables) = (whom.clone(), p.rank, p.address(), p.launcher.variables());
        std::thread::spawn(move || {
            let mut next = FIRST_WORD;
            while ended.recv_timeout(next) == Err(mpsc::RecvTimeoutError::Timeout) && Instant::now() < deadline {
                let whom = of_thread.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
                tell(&format!(
                    "Rank {rank} waits for {whom} at {address}, for {left} s more. ({variables} say that there are other ranks; without them this process trains alone.)"
                ));
                next = NEXT_WORD;
            }
        });
        Self { whom, _alive: alive }
    }

    fn set(&self, missing: &[usize]) {
        *self.whom.lock().unwrap_or_else(PoisonError::into_inner) = others(missing);
    }
}

/// Looks up rank 0's addresses on a separate thread, because the lookup may take longer than the deadline allows.
fn addresses(p: &Placement, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    let (to, found) = mpsc::channel();
    let (host, port) = (p.host.clone(), p.port);
    std::thread::spawn(move || {
        let all = (host.as_str(), port).to_socket_addrs().map(|all| all.collect::<Vec<SocketAddr>>());
        let _ = to.send(all);
    });
    let left = deadline.saturating_duration_since(Instant::now());
    let late = || io::Error::new(io::ErrorKind::TimedOut, "its name is still being looked up");
    let all = found.recv_timeout(left).map_err(|_| late())??;
    if all.is_empty() { Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address")) } else { Ok(all) }
}

fn listen(p: &Placement, deadline: Instant) -> Result<TcpListener> {
    let address = p.address();
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::AddrInUse => Error::PortInUse { address: address.clone() },
        _ => Error::CannotListen { address: address.clone(), why: e.to_string() },
    };
    TcpListener::bind(&*addresses(p, deadline).map_err(&failed)?).map_err(failed)
}

/// A connection whose greeting has been read or has failed.
struct Guest {
    stream: TcpStream,
    from: SocketAddr,
    greeting: io::Result<Message>,
}

/// Reads the greeting of a new connection on a separate thread, so that other connections do not have to wait.
fn greet(stream: TcpStream, from: SocketAddr, to: mpsc::Sender<Guest>) {
    std::thread::spawn(move || {
        let greeting = (|| {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(GREETING))?;
            stream.set_write_timeout(Some(GREETING))?;
            Message::read(&mut &stream)
        })();
        let _ = to.send(Guest { stream, from, greeting });
    });
}

fn refuse(stream: &TcpStream, why: &str) {
    let _ = Message::Refused(why.to_owned()).write(&mut &*stream);
    let _ = stream.shutdown(Shutdown::Write);
}

fn host(
    p: &Placement,
    limits: &Limits,
    listener: Option<TcpListener>,
    deadline: Instant,
    waiting: &Waiting,
) -> Result<Met> {
    let listener = listener.map_or_else(|| listen(p, deadline), Ok)?;
    let failed = |e: io::Error| Error::CannotListen { address: p.address(), why: e.to_string() };
    let own = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let ring = TcpListener::bind((own.ip(), 0)).map_err(failed)?;
    let ring_port = ring.local_addr().map_err(failed)?.port();
    let mut guests: Vec<Option<(TcpStream, SocketAddr, u16)>> = (0..p.world).map(|_| None).collect();
    let (to, door) = mpsc::channel();
    let everybody = |guests: &[Option<(TcpStream, SocketAddr, u16)>], why: &Error| {
        guests.iter().flatten().for_each(|(stream, ..)| refuse(stream, &why.to_string()));
    };
    while guests.iter().skip(1).any(Option::is_none) {
        while let Ok((stream, from)) = listener.accept() {
            greet(stream, from, to.clone());
        }
        match door.recv_timeout(POLL) {
            Ok(guest) => match take(p, &guests, &guest) {
                Ok(Some((rank, port))) => {
                    guests[rank] = Some((guest.stream, guest.from, port));
                    waiting.set(&(1..p.world).filter(|rank| guests[*rank].is_none()).collect::<Vec<_>>());
                }
                Ok(None) => {}
                Err(why) => {
                    refuse(&guest.stream, &why.to_string());
                    everybody(&guests, &why);
                    return Err(why);
                }
            },
            Err(_) if Instant::now() >= deadline => {
                let missing = (1..p.world).filter(|rank| guests[*rank].is_none()).collect();
                let why = Error::Missing { missing, world: p.world, address: p.address(), waited: limits.join };
                everybody(&guests, &why);
                return Err(why);
            }
            Err(_) => {}
        }
    }
    let mut places = vec![(String::new(), ring_port)];
    places.extend(guests.iter().flatten().map(|(_, from, port)| (from.ip().to_string(), *port)));
    let control: Vec<TcpStream> = guests.into_iter().flatten().map(|(stream, ..)| stream).collect();
    for (rank, stream) in (1..).zip(&control) {
        let told = Message::Welcome { places: places.clone() }.write(&mut &*stream);
        told.map_err(|e| Error::Lost(format!("Rank {rank} left during the rendezvous: {e}.")))?;
    }
    let next = place_of(&places, 1 % p.world, own.ip())?;
    Ok(Met { ring: neighbours(p, &ring, next, deadline)?, control })
}

/// Returns the rank and the ring port of a guest, or `None` if it is not a rank of this run. The error ends the
/// rendezvous, because the ranks do not match.
fn take(p: &Placement, guests: &[Option<(TcpStream, SocketAddr, u16)>], guest: &Guest) -> Result<Option<(usize, u16)>> {
    let Ok(Message::Hello { token, rank, world, port }) = &guest.greeting else {
        refuse(&guest.stream, "it is not a rank of Warpbook");
        return Ok(None);
    };
    let (rank, from) = (*rank as usize, guest.from);
    if *token != p.token {
        refuse(
            &guest.stream,
            &format!(
                "Rank 0 at {} belongs to another run: its token is another. Choose another MASTER_PORT, or set the same WARPBOOK_TOKEN for all ranks of a run.",
                p.address()
            ),
        );
        return Ok(None);
    }
    if *world as usize != p.world {
        return Err(Error::Refused(format!(
            "Rank {rank} (from {from}) was started as one of {world} ranks, and rank 0 as one of {}: start all with the same WORLD_SIZE.",
            p.world
        )));
    }
    let before = if rank == 0 { Some(None) } else { guests.get(rank).and_then(Option::as_ref).map(|g| Some(g.1)) };
    match before {
        Some(before) => {
            let before = before.map_or_else(|| "that at the rendezvous".to_owned(), |b| format!("one from {b}"));
            Err(Error::Refused(format!(
                "Two processes say that they are rank {rank}, {before} and one from {from}: give every process another RANK."
            )))
        }
        None if rank >= p.world => {
            Err(Error::Refused(format!("A process from {from} says that it is rank {rank} of {}.", p.world)))
        }
        None => Ok(Some((rank, *port))),
    }
}

fn guest(p: &Placement, limits: &Limits, deadline: Instant) -> Result<Met> {
    let (begun, margin) = (Instant::now(), MARGIN.min(limits.join / 2));
    let unreachable =
        |why: String| Error::Unreachable { rank: p.rank, address: p.address(), waited: begun.elapsed(), why };
    let stream = connect(|| addresses(p, deadline), deadline).map_err(|e| unreachable(e.to_string()))?;
    let io = |e: io::Error| unreachable(e.to_string());
    let (own, first) = (stream.local_addr().map_err(io)?, stream.peer_addr().map_err(io)?);
    let ring = TcpListener::bind((own.ip(), 0)).map_err(io)?;
    let (rank, world) = (p.rank as u32, p.world as u32);
    let port = ring.local_addr().map_err(io)?.port();
    stream.set_write_timeout(Some(GREETING)).map_err(io)?;
    Message::Hello { token: p.token.clone(), rank, world, port }.write(&mut &stream).map_err(io)?;
    let left = deadline.saturating_duration_since(Instant::now()) + margin;
    stream.set_read_timeout(Some(left)).map_err(io)?;
    let places = match Message::read(&mut &stream) {
        Ok(Message::Welcome { places }) if places.len() == p.world => places,
        Ok(Message::Refused(why)) => return Err(Error::Refused(why)),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            return Err(unreachable("the program that listens there did not answer".into()));
        }
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(unreachable("the program that listens there closed the connection".into()));
        }
        Err(e) => return Err(unreachable(e.to_string())),
        Ok(_) => return Err(unreachable("the program that listens there is not rank 0 of Warpbook".into())),
    };
    let next = place_of(&places, (p.rank + 1) % p.world, first.ip())?;
    Ok(Met { ring: neighbours(p, &ring, next, deadline + margin)?, control: vec![stream] })
}

/// Returns the address of a rank. For rank 0, this is the address at which it was reached.
fn place_of(places: &[(String, u16)], rank: usize, first: IpAddr) -> Result<SocketAddr> {
    let (host, port) = &places[rank];
    let ip = if host.is_empty() { Ok(first) } else { host.parse() };
    ip.map(|ip| SocketAddr::new(ip, *port))
        .map_err(|_| Error::Lost(format!("Rank {rank} cannot be reached at `{host}`: this is not an IP address.")))
}

/// Tries to connect until it succeeds or the deadline has passed. The error is the one of the last attempt that the
/// deadline did not cut short.
fn connect(to: impl Fn() -> io::Result<Vec<SocketAddr>>, deadline: Instant) -> io::Result<TcpStream> {
    let mut before = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(POLL);
        let tried = to().and_then(|all| {
            let each = all.iter().map(|address| TcpStream::connect_timeout(address, left.min(GREETING)));
            each.reduce(|before, next| before.or(next)).unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
        });
        match tried {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(e) if Instant::now() >= deadline => return Err(before.unwrap_or(e)),
            Err(e) => {
                before = Some(e);
                std::thread::sleep(5 * POLL);
            }
        }
    }
}

/// Returns the connections to the next rank and from the previous rank.
fn neighbours(p: &Placement, ring: &TcpListener, next: SocketAddr, deadline: Instant) -> Result<[TcpStream; 2]> {
    let (after, before) = ((p.rank + 1) % p.world, (p.rank + p.world - 1) % p.world);
    let lost = |rank: usize, why: &dyn std::fmt::Display| {
        Error::Lost(format!("Rank {} did not get its connection with rank {rank}: {why}.", p.rank))
    };
    let stream = connect(|| Ok(vec![next]), deadline).map_err(|e| lost(after, &e))?;
    let (rank, world) = (p.rank as u32, p.world as u32);
    let hello = Message::Hello { token: p.token.clone(), rank, world, port: 0 };
    hello.write(&mut &stream).map_err(|e| lost(after, &e))?;
    ring.set_nonblocking(true).map_err(|e| lost(before, &e))?;
    let (to, door) = mpsc::channel();
    loop {
        while let Ok((stream, from)) = ring.accept() {
            greet(stream, from, to.clone());
        }
        match door.recv_timeout(POLL) {
            Ok(Guest { stream: from_before, greeting: Ok(Message::Hello { token, rank, .. }), .. })
                if token == p.token && rank as usize == before =>
            {
                return Ok([stream, from_before]);
            }
            Err(_) if Instant::now() >= deadline => return Err(lost(before, &"it did not come in time")),
            _ => {}
        }
    }
}
