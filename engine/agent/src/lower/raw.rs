//! Streams of frames that are given byte by byte.

use dutlab_port as port;
use dutlab_port::iface::Interface;
use dutlab_protocol::plan::{RawFrame, RawStream};
use dutlab_protocol::reply::ArmedSize;
use dutlab_traffic::Sizes;
use dutlab_units::{FCS, FrameSize, Nanos};
use dutlab_wire::{Probe, probe, raw};

/// One stream: its templates, the order of their sizes, and each size as different tools count it.
pub type Lowered = (Vec<port::Template>, Vec<u16>, Sizes, Vec<ArmedSize>);

/// Returns the templates of a stream. The error contains every fault.
pub fn lower(s: &RawStream, iface: &Interface) -> Result<Lowered, Vec<String>> {
    let (mut templates, mut stated, mut sizes, mut faults) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (i, frame) in s.templates.iter().enumerate() {
        match template(frame, s.stream, iface) {
            Ok((template, size, armed)) => {
                templates.push(template);
                sizes.push(size);
                stated.push(armed);
            }
            Err(e) => faults.push(format!("templates[{i}]: {e}")),
        }
    }
    let order = (0..u16::try_from(templates.len()).unwrap_or(u16::MAX)).collect();
    let sizes = Sizes::sequence(&sizes).map_err(|e| format!("templates: {e}"));
    match (faults.is_empty(), sizes) {
        (true, Ok(sizes)) => Ok((templates, order, sizes, stated)),
        (_, sizes) => Err(faults.into_iter().chain(sizes.err()).collect()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "places in a frame are below 9242")]
fn template(
    frame: &RawFrame,
    stream: u16,
    iface: &Interface,
) -> Result<(port::Template, FrameSize, ArmedSize), String> {
    let mut bytes = hex(&frame.hex)?;
    let with_fcs = u32::try_from(bytes.len()).unwrap_or(u32::MAX).saturating_add(u32::from(FCS));
    let size = FrameSize::new(with_fcs).map_err(|e| e.to_string())?;
    // The structure of the frame is not known for sure, so two tags are allowed for.
    let longest = iface.mtu + FrameSize::IP_OVERHEAD + 8;
    if with_fcs > longest {
        return Err(format!(
            "{with_fcs} needs a longer MTU than {} of {}: {longest} is the most",
            iface.mtu, iface.name
        ));
    }
    let at = usize::from(frame.probe_at);
    let sums = raw::put_probe(&mut bytes, at, &Probe { stream, sequence: 0, trial: 0, sent: Nanos::ZERO })
        .map_err(|e| format!("probe_at: {e}"))?;
    let armed = ArmedSize {
        with_fcs_bytes: with_fcs,
        without_fcs_bytes: with_fcs - u32::from(FCS),
        ip_bytes: sums.ip_length.and_then(|n| u32::try_from(n).ok()),
        count: 1,
    };
    let template = port::Template {
        bytes,
        sequence_at: (at + probe::SEQUENCE_AT) as u16,
        stamp_at: (at + probe::STAMP_AT) as u16,
        ip_checksum_at: None,
        checksum_at: sums.checksum_at as u16,
        zero_is_ffff: sums.udp,
    };
    Ok((template, size, armed))
}

/// Parses a hexadecimal text; blanks and colons are ignored.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let mut digits = Vec::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_whitespace() && *c != ':') {
        let digit = c.to_digit(16).ok_or_else(|| format!("hex: {c:?} is not a hexadecimal digit"))?;
        #[expect(clippy::cast_possible_truncation, reason = "below 16")]
        digits.push(digit as u8);
    }
    if digits.len() % 2 == 1 {
        return Err(format!("hex: {} digits are not a whole number of bytes", digits.len()));
    }
    Ok(digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_strictly_but_for_blanks_and_colons() {
        assert_eq!(hex("02:00 0a\nFF").unwrap(), [2, 0, 10, 255]);
        assert!(hex("0").unwrap_err().contains("whole number"));
        assert!(hex("0x").unwrap_err().contains("'x'"));
        assert_eq!(hex("").unwrap(), [0_u8; 0]);
    }
}
