//! C code of the programs that is independent of BPF, compiled for this machine to test its results.

use std::ffi::{CStr, CString, c_void};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// A library that stays loaded.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// Compiles `glue`, which includes headers of `bpf`. `name` distinguishes its file from others of this process.
    pub(crate) fn of(name: &str, glue: &str) -> Self {
        let library = std::env::temp_dir().join(format!("dutlab-{name}-{}.so", std::process::id()));
        let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
        let folder = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/bpf");
        let mut compiler = Command::new(clang)
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", folder, "-x", "c", "-", "-o"])
            .arg(&library)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        compiler.stdin.take().unwrap().write_all(glue.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success(), "clang refuses {name}");
        let path = CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: a library that was just compiled from our headers; it has no code that runs when it is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        std::fs::remove_file(&library).unwrap();
        assert!(!handle.is_null(), "the library does not load");
        Self(handle)
    }

    /// Returns the address of one of its functions.
    pub(crate) fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library stays loaded, and the name is a C string.
        let at = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!at.is_null(), "{name:?}");
        at
    }
}
