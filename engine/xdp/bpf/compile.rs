//! Compiles the eBPF programs with clang, or copies those in a source archive. Part of the build script of
//! `dutlab-xdp`, and of nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 5] = ["sender", "receiver", "reference", "devices", "afxdp"];
/// File with the digest of the sources that the objects were made from.
const MADE_OF: &str = "sources";

/// Puts `NAME.bpf.o` for each program into `OUT_DIR`, and next to them the digest of their sources, so that
/// `scripts/objects` can carry them.
///
/// `sources` holds the C files. Objects in `carried` are used if they were made from exactly these sources and `CLANG`
/// names no compiler.
///
/// # Panics
/// When clang is missing or refuses a source: the message says what to install, or quotes clang.
pub fn provide_all(sources: &Path, carried: &Path) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let made_of = digest(sources);
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed={}", sources.display());
    if carried.exists() {
        println!("cargo::rerun-if-changed={}", carried.display()); // what is not there would be compiled each time
    }
    let fits = fs::read_to_string(carried.join(MADE_OF)).is_ok_and(|told| told.trim() == made_of);
    if fits && std::env::var_os("CLANG").is_none() {
        for name in PROGRAMS {
            let object = format!("{name}.bpf.o");
            fs::copy(carried.join(&object), out.join(&object))
                .unwrap_or_else(|e| panic!("{}: {e}", carried.join(&object).display()));
        }
    } else {
        compile_all(sources, &out);
    }
    fs::write(out.join(MADE_OF), made_of + "\n").expect("OUT_DIR can be written");
}

fn compile_all(sources: &Path, out: &Path) {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    for name in PROGRAMS {
        let source = sources.join(format!("{name}.bpf.c"));
        let mut command = Command::new(&clang);
        command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"]);
        // Makes the same object in any folder.
        command.arg("-fdebug-compilation-dir=.");
        // Debian keeps asm/types.h in the folder of the architecture, where clang does not look for the bpf target.
        // Fixed-width types are the same on each architecture, so those of the compiling machine work on any machine.
        command.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
        command.arg(&source).arg("-o").arg(out.join(format!("{name}.bpf.o")));
        let output = command.output().unwrap_or_else(|e| {
            panic!("{clang}: {e}; install clang (Debian: apt-get install clang libbpf-dev), or name one in CLANG")
        });
        assert!(
            output.status.success(),
            "{clang} refuses {}: {}(libbpf's headers are needed: Debian: apt-get install libbpf-dev)",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo) over names and contents of all C files: it detects changes, but does not prove
/// the author.
fn digest(sources: &Path) -> String {
    let listed = fs::read_dir(sources).unwrap_or_else(|e| panic!("{}: {e}", sources.display()));
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.expect("a folder that can be listed").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "c" || end == "h"));
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in files {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let text = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for &byte in name.iter().chain(&text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}
