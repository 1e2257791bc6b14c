//! HTTP/2 of a client with one request at a time (RFC 9113, RFC 7541), as far as a load needs it.

use crate::ending::Ending;
use crate::message::OK;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
/// Longest frame that is allowed without negotiation (RFC 9113 section 4.2).
const LONGEST_FRAME: usize = 16_384;
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// Initial window of a connection (RFC 9113 section 6.9.2).
const FIRST_WINDOW: u32 = 65_535;
/// Number of bytes after which the window of a connection is opened again.
const REOPENED: u32 = 1 << 30;

/// Types of frames (RFC 9113 section 6).
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const WINDOW_UPDATE: u8 = 8;
}
/// Flags of frames.
mod flag {
    pub(super) const ACK: u8 = 1;
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;
    pub(super) const PADDED: u8 = 8;
    pub(super) const PRIORITY: u8 = 32;
}

/// Returns the block of header fields of a request, without a dynamic table (RFC 7541 section 6.2.2).
#[must_use]
pub fn fields(host: &str, secure: bool, response: u64, bytes: usize) -> Vec<u8> {
    // Indices of the static table (RFC 7541 appendix A): 1 is :authority, 2 :method GET, 4 :path, 6 :scheme http, 7
    // https.
    let mut block = vec![0x82, if secure { 0x87 } else { 0x86 }, 0x04];
    text(&mut block, format!("/{response}").as_bytes());
    block.push(0x01);
    text(&mut block, host.as_bytes());
    let mut pad = vec![0x00];
    text(&mut pad, b"x-pad");
    // The length of a long text takes a byte or two more.
    if let Some(left) = bytes.checked_sub(FRAME_HEAD + block.len() + pad.len() + 3) {
        text(&mut pad, &vec![b'x'; left]);
        block.extend(pad);
    }
    block
}

/// Writes a literal text behind its length (RFC 7541 sections 5.1 and 5.2).
fn text(block: &mut Vec<u8>, bytes: &[u8]) {
    let low = |n: usize| u8::try_from(n & 0x7f).expect("seven bits");
    if bytes.len() < 127 {
        block.push(low(bytes.len()));
    } else {
        block.push(127);
        let mut left = bytes.len() - 127;
        while left >= 128 {
            block.push(low(left) | 0x80);
            left >>= 7;
        }
        block.push(low(left));
    }
    block.extend(bytes);
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("frames are short").to_be_bytes();
    out.extend(&length[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

/// HTTP/2 state of one connection: bytes to send, and the progress of the answer.
#[derive(Debug, Default)]
pub(crate) struct Http2 {
    /// Bytes to send.
    pub(crate) out: Vec<u8>,
    stream: u32,
    /// Received part of the current frame, up to the end of its head, or of its payload if that is kept.
    part: Vec<u8>,
    /// Remaining payload of a DATA frame, without padding.
    data_left: usize,
    padding_left: usize,
    status: Option<u16>,
    body_bytes: u64,
    ended: bool,
    /// Bytes of bodies since the window was last opened.
    since_opened: u32,
}

impl Http2 {
    /// Sends a request with these `fields` on the next stream.
    pub(crate) fn ask(&mut self, fields: &[u8]) {
        if self.stream == 0 {
            self.out.extend(PREFACE);
            // SETTINGS (RFC 9113 section 6.5.2): no table of fields (1), no pushes (2), the largest window of a stream (4)
            let mut settings = vec![0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4];
            settings.extend(LARGEST_WINDOW.to_be_bytes());
            frame(&mut self.out, kind::SETTINGS, 0, 0, &settings);
            frame(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - FIRST_WINDOW).to_be_bytes());
            self.stream = 1;
        } else {
            self.stream += 2;
        }
        (self.status, self.body_bytes, self.ended) = (None, 0, false);
        frame(&mut self.out, kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, self.stream, fields);
    }

    /// Returns true if nothing of the answer has been received yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.status.is_none()
    }

    /// Handles received bytes; returns true if the answer, with a body of `body_bytes`, is complete.
    pub(crate) fn take_in(&mut self, mut bytes: &[u8], body_bytes: u64) -> Result<bool, Ending> {
        while !bytes.is_empty() {
            let skipped = self.data_left.min(bytes.len());
            (self.data_left, bytes) = (self.data_left - skipped, &bytes[skipped..]);
            self.body_bytes += skipped as u64;
            if self.data_left > 0 || bytes.is_empty() {
                break;
            }
            let skipped = self.padding_left.min(bytes.len());
            (self.padding_left, bytes) = (self.padding_left - skipped, &bytes[skipped..]);
            if self.padding_left == 0 && !bytes.is_empty() {
                bytes = self.next_part(bytes)?;
            }
        }
        let whole = self.ended && self.data_left == 0 && self.padding_left == 0;
        if self.body_bytes > body_bytes || (whole && self.body_bytes != body_bytes) {
            return Err(Ending::Malformed);
        }
        Ok(whole)
    }

    /// Handles received bytes while no answer is expected.
    pub(crate) fn idle(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        let had = self.body_bytes;
        self.take_in(bytes, had).map(|_| ())
    }

    /// Continues reading a head, or a payload that is kept; returns the rest of `bytes`.
    fn next_part<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Ending> {
        let needed = FRAME_HEAD + if self.part.len() < FRAME_HEAD { 0 } else { self.kept() };
        let n = (needed - self.part.len()).min(bytes.len());
        self.part.extend(&bytes[..n]);
        if self.part.len() >= FRAME_HEAD {
            if self.length() > LONGEST_FRAME {
                return Err(Ending::Malformed);
            }
            if self.part.len() == FRAME_HEAD + self.kept() {
                self.whole_part()?;
            }
        }
        Ok(&bytes[n..])
    }

    fn length(&self) -> usize {
        usize::from(self.part[0]) << 16 | usize::from(self.part[1]) << 8 | usize::from(self.part[2])
    }

    /// Returns how much of the payload is kept: for DATA only the length of its padding.
    fn kept(&self) -> usize {
        match self.part[3] {
            kind::DATA => usize::from(self.part[4] & flag::PADDED != 0).min(self.length()),
            _ => self.length(),
        }
    }

    fn whole_part(&mut self) -> Result<(), Ending> {
        let length = self.length();
        let part = std::mem::take(&mut self.part);
        let (flags, payload) = (part[4], &part[FRAME_HEAD..]);
        let stream = u32::from_be_bytes([part[5] & 0x7f, part[6], part[7], part[8]]);
        match part[3] {
            kind::DATA if stream == self.stream && self.status == Some(OK) && !self.ended => {
                let padding = payload.first().map_or(0, |n| usize::from(*n));
                self.data_left = (length - payload.len()).checked_sub(padding).ok_or(Ending::Malformed)?;
                self.padding_left = padding;
                self.ended = flags & flag::END_STREAM != 0;
                self.since_opened += u32::try_from(length).expect("a frame is short");
                if self.since_opened >= REOPENED {
                    frame(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &self.since_opened.to_be_bytes());
                    self.since_opened = 0;
                }
            }
            kind::HEADERS if stream == self.stream && !self.ended => {
                if self.status.is_none() {
                    self.status = status(block(flags, payload).ok_or(Ending::Malformed)?).filter(|of| *of >= OK);
                }
                self.ended = flags & flag::END_STREAM != 0;
                match self.status {
                    Some(other) if other != OK => return Err(Ending::ErrorStatus(other)),
                    None if self.ended => return Err(Ending::Malformed),
                    _ => {} // None: it was an interim answer (RFC 9110 section 15.2)
                }
            }
            kind::DATA | kind::HEADERS => return Err(Ending::Malformed),
            kind::RST_STREAM => return Err(Ending::Reset),
            kind::SETTINGS if flags & flag::ACK == 0 => frame(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]),
            kind::PING if flags & flag::ACK == 0 => frame(&mut self.out, kind::PING, flag::ACK, 0, payload),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the block of fields in a HEADERS frame (RFC 9113 section 6.2).
fn block(flags: u8, payload: &[u8]) -> Option<&[u8]> {
    let (padding, rest) =
        if flags & flag::PADDED == 0 { (0, payload) } else { (usize::from(*payload.first()?), &payload[1..]) };
    let rest = if flags & flag::PRIORITY == 0 { rest } else { rest.get(5..)? };
    rest.get(..rest.len().checked_sub(padding)?)
}

/// Returns the status, which is the first field of a response (RFC 9113 section 8.3).
fn status(mut block: &[u8]) -> Option<u16> {
    while block.first()? & 0xe0 == 0x20 {
        block = &block[1..]; // the size of the table is 0 from here on (RFC 7541 section 6.3)
    }
    let first = *block.first()?;
    if first & 0x80 != 0 {
        // RFC 7541 appendix A, 8 to 14
        return [200, 204, 206, 304, 400, 404, 500].get(usize::from(first & 0x7f).checked_sub(8)?).copied();
    }
    let name = first & if first & 0x40 == 0 { 0x0f } else { 0x3f };
    let length = *block.get(1)?;
    let value = block.get(2..2 + usize::from(length & 0x7f))?;
    if name != 8 {
        return None;
    }
    if length & 0x80 == 0 { std::str::from_utf8(value).ok()?.parse().ok() } else { digits(value) }
}

/// Decodes three digits in Huffman code: 0 to 2 have five bits, 3 to 9 have six (RFC 7541 appendix B).
fn digits(bytes: &[u8]) -> Option<u16> {
    let bits = bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let mut left = u32::try_from(bytes.len()).ok().filter(|n| *n <= 4)? * 8;
    let mut number = 0;
    for _ in 0..3 {
        let mut take = |n: u32| {
            left = left.checked_sub(n)?;
            u16::try_from(bits >> left & ((1 << n) - 1)).ok()
        };
        let five = take(5)?;
        number = number * 10 + if five < 3 { five } else { (five << 1 | take(1)?).checked_sub(0b01_1001)? + 3 };
    }
    Some(number).filter(|n| (100..1000).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SETTINGS without parameters, HEADERS with :status 200 and a literal field, DATA with 5 bytes; the last frame
    /// ends the stream.
    const ANSWER: &[u8] = &[
        0, 0, 0, 4, 0, 0, 0, 0, 0, // SETTINGS
        0, 0, 6, 1, 4, 0, 0, 0, 1, 0x20, 0x88, 0x00, 1, b'a', 0, // HEADERS
        0, 0, 3, 0, 0, 0, 0, 0, 1, b'h', b'e', b'l', // DATA
        0, 0, 4, 0, 9, 0, 0, 0, 1, 1, b'l', b'o', 0, // DATA, padded by a byte
    ];

    fn asked() -> Http2 {
        let mut of = Http2::default();
        of.ask(&fields("h", false, 5, 0));
        of
    }

    #[test]
    fn a_request_is_what_the_standards_say() {
        let of = asked();
        let headers = [0, 0, 9, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x04, 2, b'/', b'5', 0x01, 1, b'h'];
        assert!(of.out.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00"));
        assert!(of.out.ends_with(&headers), "{:?}", of.out);
        assert_eq!(fields("h", true, 5, 1000).len() + FRAME_HEAD, 1000);
        // RFC 7541 appendix C.1.2: 1337 with a prefix of five bits is 31, 154, 10; with seven bits 127, 186, 9
        let mut block = Vec::new();
        text(&mut block, &[b'x'; 1337]);
        assert_eq!(block[..3], [127, 186, 9]);
    }

    #[test]
    fn an_answer_is_whole_with_its_last_byte_however_it_is_cut() {
        for cut in 0..ANSWER.len() {
            let mut of = asked();
            of.out.clear();
            assert_eq!(of.take_in(&ANSWER[..cut], 5), Ok(false), "{cut}");
            assert_eq!(of.is_silent(), cut < 24);
            assert_eq!(of.take_in(&ANSWER[cut..], 5), Ok(true), "{cut}");
            assert_eq!(of.out, [0, 0, 0, 4, 1, 0, 0, 0, 0]);
        }
        assert_eq!(asked().take_in(ANSWER, 6), Err(Ending::Malformed));
    }

    #[test]
    fn another_status_is_read_as_an_index_as_digits_and_in_huffmans_code() {
        // RFC 7541 appendix C.6.1: "302" is 64 02
        for (block, number) in
            [(&[0x8d][..], 404), (&[0x08, 3, b'5', b'0', b'3'], 503), (&[0x48, 0x82, 0x64, 0x02], 302)]
        {
            let mut answer = vec![0, 0, u8::try_from(block.len()).unwrap(), 1, 4, 0, 0, 0, 1];
            answer.extend(block);
            assert_eq!(asked().take_in(&answer, 5), Err(Ending::ErrorStatus(number)));
        }
    }

    #[test]
    fn pings_are_answered_and_a_reset_stream_is_reset() {
        let mut of = asked();
        of.out.clear();
        assert_eq!(of.idle(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]), Ok(()));
        assert_eq!(of.out, [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(of.take_in(&[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7], 5), Err(Ending::Reset));
        assert_eq!(asked().idle(&[0, 255, 255, 4, 0, 0, 0, 0, 0]), Err(Ending::Malformed), "too long");
    }
}
