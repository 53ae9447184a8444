//! Messages between ranks. Each consists of a kind, a length, and a body.

use std::io::{self, Read, Write};

/// The first bytes of every greeting, which include the protocol's version.
const MAGIC: &[u8; 8] = b"warprnk1";
/// Longest message of a rendezvous in bytes. The limit protects against strangers, who may send anything.
const LONGEST: usize = 1 << 20;

/// A message between rank 0 and another rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A rank's greeting: its number, and the port at which its neighbour can reach it.
    Hello { token: String, rank: u32, world: u32, port: u16 },
    /// Rank 0's list of the addresses (host and port) of all ranks. The host is empty for rank 0 itself.
    Welcome { places: Vec<(String, u16)> },
    /// Rank 0 refuses a rank, with the given reason.
    Refused(String),
    /// A heartbeat: the number of operations that the rank has started, and the milliseconds that it has been waiting
    /// in the current operation.
    Beat { begun: u64, waiting_ms: u64 },
    /// The work is over, because the sender has failed or noticed another rank's failure.
    Abort(String),
    /// The sender has finished its work.
    Bye,
}

impl Message {
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, body) = match self {
            Self::Hello { token, rank, world, port } => {
                let mut body = MAGIC.to_vec();
                body.extend(rank.to_le_bytes());
                body.extend(world.to_le_bytes());
                body.extend(port.to_le_bytes());
                body.extend(token.as_bytes());
                (1, body)
            }
            Self::Welcome { places } => {
                let lines: Vec<String> = places.iter().map(|(host, port)| format!("{host} {port}")).collect();
                (2, lines.join("\n").into_bytes())
            }
            Self::Refused(why) => (3, why.clone().into_bytes()),
            Self::Beat { begun, waiting_ms } => (4, [begun.to_le_bytes(), waiting_ms.to_le_bytes()].concat()),
            Self::Abort(why) => (5, why.clone().into_bytes()),
            Self::Bye => (6, Vec::new()),
        };
        let mut message = vec![kind];
        message.extend((body.len() as u32).to_le_bytes());
        message.extend(body);
        to.write_all(&message)
    }

    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "it is not a rank of Warpbook");
        if len > LONGEST || !(1..=6).contains(&head[0]) {
            return Err(strange());
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        Self::decode(head[0], &body, text).ok_or_else(strange)
    }

    fn decode(kind: u8, body: &[u8], text: impl Fn(&[u8]) -> String) -> Option<Self> {
        Some(match kind {
            1 => {
                let rest = body.strip_prefix(MAGIC)?;
                let (rank, rest) = rest.split_first_chunk()?;
                let (world, rest) = rest.split_first_chunk()?;
                let (port, token) = rest.split_first_chunk()?;
                let [rank, world] = [rank, world].map(|b| u32::from_le_bytes(*b));
                Self::Hello { token: text(token), rank, world, port: u16::from_le_bytes(*port) }
            }
            2 => {
                let place = |line: &str| {
                    let (host, port) = line.split_once(' ')?;
                    Some((host.to_owned(), port.parse().ok()?))
                };
                Self::Welcome { places: text(body).lines().map(place).collect::<Option<_>>()? }
            }
            3 => Self::Refused(text(body)),
            4 => {
                let (begun, rest) = body.split_first_chunk()?;
                let (waiting, _) = rest.split_first_chunk()?;
                let [begun, waiting_ms] = [begun, waiting].map(|b| u64::from_le_bytes(*b));
                Self::Beat { begun, waiting_ms }
            }
            5 => Self::Abort(text(body)),
            _ => Self::Bye,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let all = [
            Message::Hello { token: "a b".into(), rank: 3, world: 4, port: 40_000 },
            Message::Welcome { places: vec![(String::new(), 1), ("10.0.0.2".into(), 2), ("::1".into(), 65_535)] },
            Message::Refused("no".into()),
            Message::Beat { begun: 1 << 40, waiting_ms: 7 },
            Message::Abort("why".into()),
            Message::Bye,
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|m| m.write(&mut bytes).unwrap());
        let mut from = &bytes[..];
        for expect in &all {
            assert_eq!(&Message::read(&mut from).unwrap(), expect);
        }
        assert!(Message::read(&mut from).is_err());
    }

    #[test]
    fn what_a_stranger_says_is_refused() {
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[9, 0, 0, 0, 0], &[1, 255, 255, 255, 255], &[1, 2, 0, 0, 0, 7, 7]]
        {
            assert!(Message::read(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
