//! Compiles the eBPF programs with clang; part of the build script of `dutlab-xdp`, and of nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 5] = ["sender", "receiver", "reference", "devices", "afxdp"];

/// Writes `NAME.bpf.o` for each program into `OUT_DIR`. `folder` holds the C sources.
///
/// # Panics
/// When clang is missing or refuses a source: the message says what to install, or what clang said.
pub fn compile_all(folder: &Path) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed={}", folder.display());
    for name in PROGRAMS {
        let source = folder.join(format!("{name}.bpf.c"));
        let object = out.join(format!("{name}.bpf.o"));
        let mut command = Command::new(&clang);
        command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-c"]);
        // Debian keeps asm/types.h in the folder of the architecture, where clang does not look for the bpf target.
        if let Ok(arch) = std::env::var("CARGO_CFG_TARGET_ARCH") {
            command.arg(format!("-I/usr/include/{arch}-linux-gnu"));
        }
        command.arg(&source).arg("-o").arg(&object);
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
