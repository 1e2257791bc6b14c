//! Bytes over one connection: plain, or through TLS.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use std::io::{self, ErrorKind, IoSlice, Read, Write};

/// Maximum number of bytes per call to the kernel or to TLS.
const CHUNK: usize = 64 * 1024;

/// Reason why a connection cannot continue; `System(AGAIN)` if it can, later.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    System(Errno),
    /// Error of TLS.
    Tls(String),
}

impl From<io::Error> for Broken {
    fn from(e: io::Error) -> Self {
        Self::System(Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }
}

impl From<rustls::Error> for Broken {
    fn from(e: rustls::Error) -> Self {
        Self::Tls(e.to_string())
    }
}

pub(crate) struct Transport {
    pub(crate) socket: OwnedFd,
    tls: Option<Box<rustls::Connection>>,
}

impl Transport {
    /// Makes a transport, through `tls` if it is given.
    pub(crate) fn new(socket: OwnedFd, tls: Option<rustls::Connection>) -> Self {
        Self { socket, tls: tls.map(Box::new) }
    }

    /// Sends all further bytes through `tls`.
    pub(crate) fn put_on(&mut self, tls: rustls::Connection) {
        self.tls = Some(Box::new(tls));
    }

    /// Advances the TLS handshake as far as possible without waiting; returns the negotiated parameters once it is
    /// done.
    pub(crate) fn secure(&mut self) -> Result<Option<&rustls::Connection>, Broken> {
        let tls = self.tls.as_mut().expect("a handshake has TLS");
        loop {
            let flushed = flush(tls, &self.socket)?;
            if !tls.is_handshaking() {
                break;
            }
            if !flushed {
                return Ok(None);
            }
            match tls.read_tls(&mut Raw(&self.socket)) {
                Ok(0) => return Err(Broken::Tls("the other end closed the connection during the handshake".into())),
                Ok(_) => understand(tls, &self.socket)?,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(self.tls.as_deref())
    }

    /// Sends the rest of `bytes` after `sent`; returns true if all were sent.
    pub(crate) fn send_all(&mut self, bytes: &[u8], sent: &mut usize) -> Result<bool, Broken> {
        loop {
            if let Some(tls) = &mut self.tls
                && !flush(tls, &self.socket)?
            {
                return Ok(false);
            }
            if *sent == bytes.len() {
                return Ok(true);
            }
            let next = &bytes[*sent..bytes.len().min(*sent + CHUNK)];
            *sent += match &mut self.tls {
                Some(tls) => tls.writer().write(next)?,
                None => match send(&self.socket, next, SendFlags::NOSIGNAL) {
                    Ok(n) => n,
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(e) => return Err(Broken::System(e)),
                },
            };
        }
    }

    /// Returns the number of bytes received; 0 at the end.
    pub(crate) fn recv(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let Some(tls) = &mut self.tls else {
            return recv(&self.socket, into, RecvFlags::empty()).map(|(n, _)| n).map_err(Broken::System);
        };
        loop {
            match tls.reader().read(into) {
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0), // FIN without close_notify
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
            flush(tls, &self.socket)?;
            tls.read_tls(&mut Raw(&self.socket))?;
            understand(tls, &self.socket)?;
        }
    }

    /// Sends the closing alert of TLS (RFC 8446 section 6.1).
    pub(crate) fn say_close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = flush(tls, &self.socket);
        }
    }
}

/// Returns true if all pending bytes of TLS were sent.
fn flush(tls: &mut rustls::Connection, socket: &OwnedFd) -> Result<bool, Broken> {
    while tls.wants_write() {
        match tls.write_tls(&mut Raw(socket)) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

/// Decrypts received bytes; sends the other end an alert if they are wrong.
fn understand(tls: &mut rustls::Connection, socket: &OwnedFd) -> Result<(), Broken> {
    if let Err(e) = tls.process_new_packets() {
        let _ = flush(tls, socket);
        return Err(e.into());
    }
    Ok(())
}

/// The socket, as TLS uses it.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, into, RecvFlags::empty())?.0)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sendmsg(self.0, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
