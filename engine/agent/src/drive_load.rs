//! Reads and writes on a drive in an open loop, for a controller: one line of JSON with its results.
//!
//! Each I/O is due at an instant of a Poisson process. Its latency counts from that instant. A free thread waits for the
//! next instant and then makes the call, so I/Os that are due while the drive stalls are under way at the same time. When
//! every thread waits for the drive, the next I/O begins late; its latency still counts from its instant.

use crate::cli::args::DriveLoad;
use dutlab_measure::histogram::Histogram;
use dutlab_port::clock::{monotonic, precise_timers, realtime};
use dutlab_traffic::arrivals::{Arrivals, place};
use dutlab_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A thread sleeps until this long before an instant and then polls the clock, since sleeps end late.
const POLLED: Nanos = Nanos(60_000);
/// Time after the last instant in which I/Os may still begin.
const PATIENCE: Nanos = Nanos(10_000_000_000);
/// Memory of direct I/O begins at a multiple of this (open(2), `O_DIRECT`): at least the drive's sectors.
const ALIGNED: usize = 4096;
const STACK: usize = 128 << 10;

/// Output of `drive-load` at its end. `due` = `reads.ios` + `writes.ios` + errors of both + `not_begun`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DriveLoadDone {
    /// First instant that counts, by the wall clock.
    pub began_ns: u64,
    /// I/Os that were due in the measured time.
    pub due: u64,
    /// I/Os that no thread began within ten seconds of the end.
    pub not_begun: u64,
    /// I/Os that began late because all threads waited for the drive.
    pub short_of_threads: u64,
    /// Most I/Os under way at once.
    pub most_under_way: u32,
    /// Time from the first instant that counts to the end of the last I/O.
    pub elapsed_ns: u64,
    /// Reads.
    pub reads: DriveIos,
    /// Writes.
    pub writes: DriveIos,
    /// Times from the instant to the call, of I/Os for which a thread was free.
    pub late: DriveTimes,
    /// Message of the first error.
    pub first_error: Option<String>,
}

/// Reads or writes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DriveIos {
    /// I/Os without an error.
    pub ios: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// Times from the instant to the end.
    pub latency: DriveTimes,
}

/// Distribution of times in nanoseconds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DriveTimes {
    /// The mean, exactly; 0 without a time.
    pub mean_ns: f64,
    /// The longest, exactly; 0 without a time.
    pub max_ns: u64,
    /// Upper end of each bucket, at most 1/128 above its values, and the number of times in it; ascending.
    pub buckets: Vec<(u64, u64)>,
}

/// Output of `drive-load` when it cannot measure.
#[derive(Serialize, JsonSchema)]
pub struct DriveLoadFailed {
    /// Reason of the failure.
    error: String,
}

/// One thread's results; sums of all threads at the end.
#[derive(Default)]
struct Account {
    reads: Histogram,
    writes: Histogram,
    errors: [u64; 2],
    late: Histogram,
    short_of_threads: u64,
    not_begun: u64,
    most_under_way: u32,
    ended: Nanos,
    first_error: Option<String>,
}

/// State that the threads share.
struct Load<'a> {
    asked: &'a DriveLoad,
    file: File,
    blocks: u64,
    begin: Nanos,
    /// First instant that counts, and the first that is no longer due.
    measured: (Nanos, Nanos),
    arrivals: Mutex<Arrivals>,
    under_way: AtomicU32,
}

/// Carries out the load; prints its results.
pub fn run(asked: &DriveLoad) -> ExitCode {
    match measure(asked) {
        Ok(done) => {
            println!("{}", serde_json::to_string(&done).expect("numbers and texts"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            let failed = DriveLoadFailed { error: why };
            println!("{}", serde_json::to_string(&failed).expect("a text"));
            eprintln!("dutlab-engine: {}", failed.error);
            ExitCode::from(3)
        }
    }
}

fn measure(asked: &DriveLoad) -> Result<DriveLoadDone, String> {
    if asked.reads < 100 && !asked.overwrite {
        return Err("writes would overwrite what is on it; give --overwrite to permit that".into());
    }
    let named = |e: io::Error| format!("{}: {e}", asked.path.display());
    let file = opened(asked).map_err(named)?;
    let size = asked.size.map_or_else(|| file.metadata().map(|of| of.len()), Ok).map_err(named)?;
    let blocks = size / u64::from(asked.block);
    if blocks == 0 {
        return Err(format!("{}: {size} bytes hold no block; give --size for a device", asked.path.display()));
    }
    let ramp = asked.ramp.unwrap_or(Nanos::ZERO);
    // The threads need some time to begin.
    let begin = monotonic() + Nanos(20_000_000) + Nanos(100_000 * u64::from(asked.depth));
    let began_ns = realtime().0 + begin.since(monotonic()).0 + ramp.0;
    let load = Load {
        asked,
        file,
        blocks,
        begin,
        measured: (ramp, ramp + asked.duration),
        arrivals: Mutex::new(Arrivals::new(asked.rate, asked.seed)),
        under_way: AtomicU32::new(0),
    };
    let accounts = thread::scope(|scope| {
        let threads: Result<Vec<_>, _> = (0..asked.depth)
            .map(|_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || load.worker()))
            .collect();
        threads.map(|all| all.into_iter().map(|t| t.join().expect("a panic aborts")).collect::<Vec<_>>())
    })
    .map_err(|e| format!("{} threads: {e}", asked.depth))?;
    Ok(done(&load, began_ns, &accounts))
}

/// Opens the path for direct I/O; to write to a device, nothing else may use it (open(2), `O_EXCL` on a block device).
fn opened(asked: &DriveLoad) -> io::Result<File> {
    let writes = asked.reads < 100;
    let flags = libc::O_DIRECT | if writes { libc::O_EXCL } else { 0 };
    OpenOptions::new().read(true).write(writes).custom_flags(flags).open(&asked.path)
}

impl Load<'_> {
    /// Takes instants until none is left, waits for each, and makes its I/O.
    fn worker(&self) -> Account {
        precise_timers();
        let block = self.asked.block as usize;
        let mut memory = vec![0_u8; block + ALIGNED];
        let from = memory.as_ptr().align_offset(ALIGNED);
        let buffer = &mut memory[from..from + block];
        // Drives may compress or skip zeroes.
        buffer.iter_mut().zip(0..).for_each(|(byte, i)| *byte = place(i, 256, self.asked.seed).to_le_bytes()[0]);
        let mut account = Account::default();
        while let Some((number, due, others)) = self.next(&mut account) {
            let late = monotonic().since(self.begin + due);
            let at = if self.asked.sequential {
                number % self.blocks
            } else {
                place(number, self.blocks, self.asked.seed ^ u64::MAX)
            };
            let reads = place(number, 100, self.asked.seed.rotate_left(32)) < u64::from(self.asked.reads);
            let offset = at * u64::from(self.asked.block);
            let result =
                if reads { self.file.read_exact_at(buffer, offset) } else { self.file.write_all_at(buffer, offset) };
            let now = monotonic();
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            if due >= self.measured.0 {
                account.enter(reads, now.since(self.begin + due), late, others + 1 == self.asked.depth, result);
                account.most_under_way = account.most_under_way.max(others + 1);
                account.ended = account.ended.max(now);
            }
        }
        account
    }

    /// Waits for the next instant; returns the number of its I/O, its time and the I/Os that are under way. `None` at the end.
    fn next(&self, account: &mut Account) -> Option<(u64, Nanos, u32)> {
        let mut arrivals = self.arrivals.lock().expect("a panic aborts");
        loop {
            let before = arrivals.clone();
            let (number, due) = arrivals.advance();
            if due >= self.measured.1 {
                *arrivals = before; // for the other threads
                return None;
            }
            if monotonic() > self.begin + self.measured.1 + PATIENCE {
                account.not_begun += u64::from(due >= self.measured.0);
                continue;
            }
            wait_until(self.begin + due);
            return Some((number, due, self.under_way.fetch_add(1, Ordering::Relaxed)));
        }
    }
}

impl Account {
    fn enter(&mut self, reads: bool, took: Nanos, late: Nanos, last_thread: bool, result: io::Result<()>) {
        match result {
            Ok(()) if reads => self.reads.record(took),
            Ok(()) => self.writes.record(took),
            Err(e) => {
                self.errors[usize::from(!reads)] += 1;
                self.first_error.get_or_insert_with(|| e.to_string());
            }
        }
        // The last free thread may have come from the drive just now; the others were waiting.
        if last_thread && late > POLLED {
            self.short_of_threads += 1;
        } else {
            self.late.record(late);
        }
    }
}

fn wait_until(instant: Nanos) {
    let ahead = instant.since(monotonic());
    if ahead > POLLED {
        thread::sleep(Duration::from_nanos((ahead - POLLED).0));
    }
    while monotonic() < instant {
        std::hint::spin_loop();
    }
}

fn done(load: &Load<'_>, began_ns: u64, accounts: &[Account]) -> DriveLoadDone {
    let sum = |of: fn(&Account) -> u64| accounts.iter().map(of).sum::<u64>();
    let times = |of: fn(&Account) -> &Histogram| times_of(accounts.iter().map(of));
    let ios = |count, errors, latency| DriveIos { ios: count, errors, latency };
    let reads = ios(sum(|a| a.reads.count()), sum(|a| a.errors[0]), times(|a| &a.reads));
    let writes = ios(sum(|a| a.writes.count()), sum(|a| a.errors[1]), times(|a| &a.writes));
    let not_begun = sum(|a| a.not_begun);
    let ended = accounts.iter().map(|a| a.ended).max().unwrap_or(Nanos::ZERO);
    DriveLoadDone {
        began_ns,
        due: reads.ios + writes.ios + reads.errors + writes.errors + not_begun,
        not_begun,
        short_of_threads: sum(|a| a.short_of_threads),
        most_under_way: accounts.iter().map(|a| a.most_under_way).max().unwrap_or(0),
        elapsed_ns: ended.since(load.begin + load.measured.0).0,
        reads,
        writes,
        late: times(|a| &a.late),
        first_error: accounts.iter().find_map(|a| a.first_error.clone()),
    }
}

fn times_of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> DriveTimes {
    let (mut all, mut sum_ns, mut count, mut max_ns) = (Histogram::default(), 0_u128, 0_u64, 0_u64);
    for histogram in histograms {
        histogram.buckets().into_iter().for_each(|(end, n)| all.record_many(Nanos(end), n));
        sum_ns += histogram.sum_ns();
        count += histogram.count();
        max_ns = max_ns.max(histogram.max().0);
    }
    DriveTimes { mean_ns: if count == 0 { 0.0 } else { sum_ns as f64 / count as f64 }, max_ns, buckets: all.buckets() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Arguments, Command};
    use clap::Parser;

    fn asked(arguments: &[&str]) -> DriveLoad {
        match Arguments::parse_from(["dutlab-engine", "drive-load"].iter().chain(arguments)).command {
            Command::DriveLoad(asked) => asked,
            _ => unreachable!("it is drive-load"),
        }
    }

    /// Makes a file in the folder of the build, whose file system supports direct I/O on most machines.
    fn file(name: &str) -> std::path::PathBuf {
        let folder = std::env::var_os("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, Into::into);
        let path = folder.join(format!("dutlab-{}-{name}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        path
    }

    #[test]
    fn every_io_that_is_due_is_counted_and_late_ones_count_from_their_instant() {
        let path = file("reads");
        let one =
            asked(&[path.to_str().unwrap(), "--rate", "2000", "--duration", "300ms", "--ramp", "50ms", "--depth", "8"]);
        let done = measure(&one).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut arrivals = Arrivals::new(2000.0, 1);
        let instants = std::iter::from_fn(|| Some(arrivals.advance().1)).take_while(|at| *at < Nanos(350_000_000));
        let due = instants.filter(|at| *at >= Nanos(50_000_000)).count() as u64;
        assert_eq!((done.due, done.reads.ios, done.writes.ios, done.not_begun), (due, due, 0, 0), "{done:?}");
        assert!(done.reads.latency.max_ns >= done.late.max_ns);
        assert_eq!(done.reads.latency.buckets.iter().map(|(_, n)| n).sum::<u64>(), due);
    }

    #[test]
    fn nothing_is_written_without_permission() {
        let path = file("writes");
        let arguments = [path.to_str().unwrap(), "--rate", "500", "--duration", "100ms", "--reads", "0"];
        assert!(measure(&asked(&arguments)).unwrap_err().contains("--overwrite"));
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 1 << 20]);
        let done = measure(&asked(&[&arguments[..], &["--overwrite"]].concat())).unwrap();
        assert!(done.writes.ios > 0 && done.reads.ios == 0);
        assert_ne!(std::fs::read(&path).unwrap(), vec![7; 1 << 20]);
        std::fs::remove_file(&path).unwrap();
    }
}
