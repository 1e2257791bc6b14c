//! Counters of a trial as JSON lines, for other programs. A slow or missing reader delays nothing.

use super::exit::Refused;
use dutlab_protocol::event::Event;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Number of lines that wait for a reader; further lines are dropped.
const WAITING: usize = 1024;
/// Time that a reader has at the end to read the waiting lines.
const PATIENCE: Duration = Duration::from_millis(300);

/// A file or FIFO to which a separate thread writes lines.
pub struct Events {
    lines: Option<SyncSender<Vec<u8>>>,
    through: Receiver<()>,
}

impl Events {
    /// Opens a file, which is overwritten, or a FIFO, and waits for its reader.
    pub fn open(path: &Path) -> Result<Self, Refused> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let mut file = file.map_err(|e| {
            Refused::input(format!("--events: {}: {e}", path.display()), "name a file or FIFO that can be written")
        })?;
        let (lines, waiting) = sync_channel::<Vec<u8>>(WAITING);
        let (done, through) = channel();
        std::thread::spawn(move || {
            // Ends with the last sender, or with the reader.
            while waiting.recv().is_ok_and(|line| file.write_all(&line).is_ok()) {}
            let _ = done.send(());
        });
        Ok(Self { lines: Some(lines), through })
    }

    /// Writes an event, unless too many wait already.
    pub fn write(&self, event: &Event) {
        if let (Some(lines), Ok(mut line)) = (&self.lines, serde_json::to_vec(event)) {
            line.push(b'\n');
            let _ = lines.try_send(line);
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.lines = None;
        match self.through.recv_timeout(PATIENCE) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
