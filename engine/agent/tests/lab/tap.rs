//! A TAP device in the sink, and the process that writes frames into it.

use super::Lab;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Makes the device `tap0` and reports it. Then writes each line, a frame in hexadecimal, into the device, from one
/// CPU, so that the frames are ordered for a program that counts by CPU. At `take` it prints the frames that wait in
/// it.
const HOLDER: &str = r#"
import fcntl, os, struct, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", b"tap0", 0x1002))  # TUNSETIFF: IFF_TAP | IFF_NO_PI
print("ready", flush=True)
for line in sys.stdin:
    if line == "take\n":
        try:
            while True:
                print(os.read(fd, 2048).hex())
        except BlockingIOError:
            print("taken", flush=True)
    elif line.strip():
        os.write(fd, bytes.fromhex(line))
    else:
        print("written", flush=True)
"#;

/// The device's other end. Both are removed when this is dropped.
pub struct Tap {
    child: Child,
    frames: Option<BufWriter<ChildStdin>>,
    lines: BufReader<ChildStdout>,
}

impl Tap {
    pub(super) fn at_sink(lab: &Lab) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &lab.sink, "python3", "-c", HOLDER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (frames, lines) = (child.stdin.take().map(BufWriter::new), BufReader::new(child.stdout.take().unwrap()));
        let mut tap = Self { child, frames, lines };
        tap.expect("ready");
        lab.at_sink(&["link", "set", "dev", "tap0", "up"]);
        tap
    }

    /// Writes frames into it, and returns when the kernel has taken them.
    pub fn write(&mut self, frames: &[Vec<u8>]) {
        let to = self.frames.as_mut().unwrap();
        for frame in frames {
            for byte in frame {
                write!(to, "{byte:02x}").unwrap();
            }
            writeln!(to).unwrap();
        }
        writeln!(to).unwrap();
        to.flush().unwrap();
        self.expect("written");
    }

    /// Takes the frames that wait in it, in order.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        let to = self.frames.as_mut().unwrap();
        writeln!(to, "take").unwrap();
        to.flush().unwrap();
        let byte = |hex: &[u8]| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap();
        let mut taken = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the device's holder ended");
            match line.trim() {
                "taken" => return taken,
                frame => taken.push(frame.as_bytes().chunks(2).map(byte).collect()),
            }
        }
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "the device's holder ended");
        assert_eq!(line.trim(), word);
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.frames = None;
        let _ = self.child.wait();
    }
}
