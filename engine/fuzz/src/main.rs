//! Runs every target on mutated input, and prints the seed.
#![forbid(unsafe_code)]

use clap::Parser;
use dutlab_fuzz::mutate::Mutator;
use dutlab_fuzz::targets::{ALL, Target};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Current input, for the message of a panic.
static TRYING: Mutex<String> = Mutex::new(String::new());

/// Mutates literal inputs by a seed and checks what must hold. Does not watch coverage; `libfuzzer/` does.
///
/// Example: dutlab-fuzz --seconds 60 frame
#[derive(Parser)]
struct Arguments {
    /// The targets: frame, protocol, pcap, ledger [default: all]
    targets: Vec<String>,
    /// How long each is tried
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Stop after this many inputs, too
    #[arg(long)]
    inputs: Option<u64>,
    /// Write the literal inputs into this folder, one folder a target, and end: where libFuzzer begins
    #[arg(long, value_name = "DIR")]
    write_corpus: Option<PathBuf>,
    /// The same seed tries the same inputs in the same order [default: the time]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let a = Arguments::parse();
    if let Some(unknown) = a.targets.iter().find(|n| ALL.iter().all(|t| t.name != *n)) {
        eprintln!("dutlab-fuzz: no target is called {unknown}; there are {}", ALL.map(|t| t.name).join(", "));
        return ExitCode::from(2);
    }
    if let Some(folder) = &a.write_corpus {
        return match ALL.iter().try_for_each(|t| write_corpus(t, folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("dutlab-fuzz: {}: {e}", folder.display());
                ExitCode::FAILURE
            }
        };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seed = a.seed.unwrap_or(now);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        let trying = TRYING.lock().map_or_else(|e| e.into_inner().clone(), |t| t.clone());
        eprintln!("{trying}");
    }));
    let inputs = a.inputs.unwrap_or(u64::MAX);
    for target in ALL.iter().filter(|t| a.targets.is_empty() || a.targets.iter().any(|n| n == t.name)) {
        run(target, seed, Duration::from_secs(a.seconds), inputs);
    }
    ExitCode::SUCCESS
}

fn write_corpus(target: &Target, folder: &Path) -> std::io::Result<()> {
    let folder = folder.join(target.name);
    std::fs::create_dir_all(&folder)?;
    (target.corpus)()
        .iter()
        .enumerate()
        .try_for_each(|(i, input)| std::fs::write(folder.join(format!("{i:03}")), input))
}

fn run(target: &Target, seed: u64, time: Duration, inputs: u64) {
    println!("{}: seed {seed}", target.name);
    let begin = Instant::now();
    let mut mutator = Mutator::new((target.corpus)(), seed);
    let mut n = 0;
    while n < inputs && (!n.is_multiple_of(256) || begin.elapsed() < time) {
        n += 1;
        let input = mutator.mutate();
        note(target.name, seed, n, input);
        (target.check)(input);
    }
    println!("{}: {n} inputs in {:.1} s, all hold", target.name, begin.elapsed().as_secs_f64());
}

/// Records the current input.
fn note(name: &str, seed: u64, n: u64, input: &[u8]) {
    use std::fmt::Write;
    let Ok(mut trying) = TRYING.lock() else { return };
    trying.clear();
    let _ = write!(
        trying,
        "{name}: seed {seed}, input {n}; again: dutlab-fuzz --seed {seed} --inputs {n} {name}\n{input:02x?}"
    );
}
