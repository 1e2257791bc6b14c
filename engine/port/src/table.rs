//! Tables of the kernel, asked for whole (rtnetlink(7), a dump): routes, neighbours.

use crate::error::PortError;
use crate::sys;
use std::io;
use std::os::fd::AsRawFd;

const HEADER: usize = 16;

/// A table and how it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// The request's type.
    pub(crate) ask: u16,
    /// Its name, for errors.
    pub(crate) name: &'static str,
    /// Length of the structure that each entry begins with; its first byte is the address family.
    pub(crate) fixed: usize,
}

/// Hands each entry of an address family to `take`: its structure, then its attributes.
///
/// # Errors
/// When the kernel does not answer or refuses. A kernel without this family has no entries of it.
pub(crate) fn dump(table: Table, family: i32, iface: &str, mut take: impl FnMut(&[u8])) -> Result<(), PortError> {
    let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, iface)?;
    let mut ask = Vec::with_capacity(HEADER + table.fixed);
    #[expect(clippy::cast_possible_truncation, reason = "28")]
    ask.extend(((HEADER + table.fixed) as u32).to_ne_bytes());
    ask.extend(table.ask.to_ne_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "small positive constants")]
    ask.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    ask.extend([0; 8]);
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "2 or 10")]
    ask.push(family as u8);
    ask.resize(HEADER + table.fixed, 0);
    // SAFETY: the kernel reads the buffer, whose length is given.
    if unsafe { libc::send(fd.as_raw_fd(), ask.as_ptr().cast(), ask.len(), 0) } < 0 {
        return Err(PortError::last("send(netlink)", iface));
    }
    let mut buffer = vec![0_u8; 1 << 16];
    loop {
        // SAFETY: the kernel writes at most the length given.
        let n = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(n) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(PortError::from_call("recv(netlink)", iface, error));
        };
        match read(&buffer[..n], &mut take) {
            Part::More => {}
            Part::Done | Part::Refused(libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => return Ok(()),
            Part::Refused(errno) => {
                return Err(PortError::from_call(table.name, iface, io::Error::from_raw_os_error(errno)));
            }
        }
    }
}

/// How a datagram of the kernel's answer ends.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    More,
    Done,
    Refused(i32),
}

fn read(mut b: &[u8], take: &mut impl FnMut(&[u8])) -> Part {
    while b.len() >= HEADER {
        let length = (u32_at(b, 0) as usize).clamp(HEADER, b.len());
        let body = &b[HEADER..length];
        match i32::from(u16_at(b, 4)) {
            libc::NLMSG_DONE => return Part::Done,
            libc::NLMSG_ERROR => {
                return Part::Refused(body.first_chunk().map_or(libc::EPROTO, |n| -i32::from_ne_bytes(*n)));
            }
            _ => take(body),
        }
        b = &b[length.next_multiple_of(4).min(b.len())..];
    }
    Part::More
}

/// The attributes of an entry, which follow its structure.
pub(crate) fn attributes(mut b: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        if b.len() < 4 {
            return None;
        }
        let length = usize::from(u16_at(b, 0)).clamp(4, b.len());
        // The highest bits say how the value is nested.
        let attribute = (u16_at(b, 2) & 0x3fff, &b[4..length]);
        b = &b[length.next_multiple_of(4).min(b.len())..];
        Some(attribute)
    })
}

pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([b[at], b[at + 1]])
}

pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, body: &[u8]) -> Vec<u8> {
        let mut b = u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes().to_vec();
        b.extend(u16::try_from(kind).unwrap().to_ne_bytes());
        b.extend([0; 10]);
        b.extend(body);
        b
    }

    #[test]
    fn an_answer_cut_anywhere_is_read_without_harm_and_its_end_and_refusals_are_seen() {
        let (first, second) = (message(28, &[1; 24]), message(28, &[2; 12]));
        let parts = |b: &[u8]| {
            let mut seen = Vec::new();
            let end = read(b, &mut |body: &[u8]| seen.push(body.to_vec()));
            (seen, end)
        };
        let two = [first.clone(), second.clone()].concat();
        assert_eq!(parts(&two), (vec![vec![1; 24], vec![2; 12]], Part::More));
        for n in 0..two.len() {
            parts(&two[..n]);
        }
        assert_eq!(parts(&[first, message(libc::NLMSG_DONE, &[0; 4]), second].concat()).0.len(), 1);
        let errno = message(libc::NLMSG_ERROR, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(parts(&errno), (vec![], Part::Refused(libc::EPERM)));
        assert_eq!(parts(&message(libc::NLMSG_ERROR, &[])).1, Part::Refused(libc::EPROTO));
    }
}
