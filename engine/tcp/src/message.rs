//! Requests and responses of HTTP/1.1 (RFC 9112), as far as a load needs them.

/// End of a head.
const END: &[u8] = b"\r\n\r\n";
/// Longest head; more bytes without an end are malformed.
pub const LONGEST_HEAD: usize = 16 * 1024;
/// Longest body of a response.
pub const LONGEST_BODY: u64 = 64 << 20;
/// Status of a successful answer.
pub const OK: u16 = 200;

/// Returns a request for a body of `response` bytes. It is `bytes` long if that is longer than the minimum.
#[must_use]
pub fn request(host: &str, response: u64, bytes: usize) -> Vec<u8> {
    let mut text = format!("GET /{response} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    let least = text.len() + "X-Pad: \r\n\r\n".len();
    if bytes >= least {
        text.extend(b"X-Pad: ");
        text.resize(text.len() + bytes - least, b'x');
        text.extend(b"\r\n");
    }
    text.extend(b"\r\n");
    text
}

/// Returns a response with a body of `bytes`.
///
/// # Panics
/// If the body does not fit into memory.
#[must_use]
pub fn response(bytes: u64) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    text.resize(text.len() + usize::try_from(bytes).expect("a body fits into memory"), b'x');
    text
}

/// Content of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// Length of the head, with its empty line.
    pub head_bytes: usize,
    /// Length of the response's body.
    pub response_bytes: u64,
    /// True if the connection ends after the answer.
    pub closes: bool,
}

/// Content of a response's head.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered {
    /// Length of the head, with its empty line.
    pub head_bytes: usize,
    /// Length of the body.
    pub body_bytes: u64,
    /// Status; 200 on success.
    pub status: u16,
}

/// Bytes that violate the protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// Parses the request at the start of `bytes`; `None` while its head is incomplete.
pub fn asked(bytes: &[u8]) -> Result<Option<Asked>, Malformed> {
    let Some(head_bytes) = end_of_head(bytes)? else { return Ok(None) };
    let (first, fields) = lines(&bytes[..head_bytes])?;
    let mut words = first.split(' ');
    let (Some("GET"), Some(path)) = (words.next(), words.next()) else { return Err(Malformed) };
    let response_bytes =
        path.strip_prefix('/').and_then(|n| n.parse().ok()).filter(|n| *n <= LONGEST_BODY).ok_or(Malformed)?;
    let closes = value(fields, "connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
    Ok(Some(Asked { head_bytes, response_bytes, closes }))
}

/// Parses the response at the start of `bytes`; `None` while its head is incomplete.
pub fn answered(bytes: &[u8]) -> Result<Option<Answered>, Malformed> {
    let Some(head_bytes) = end_of_head(bytes)? else { return Ok(None) };
    let (first, fields) = lines(&bytes[..head_bytes])?;
    let status =
        first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok()).ok_or(Malformed)?;
    let body_bytes = match value(fields, "content-length").and_then(|v| v.parse().ok()) {
        None if status == OK => return Err(Malformed),
        bytes => bytes.unwrap_or(0),
    };
    Ok(Some(Answered { head_bytes, body_bytes, status }))
}

fn end_of_head(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    match bytes.windows(END.len()).position(|w| w == END) {
        Some(at) => Ok(Some(at + END.len())),
        None if bytes.len() > LONGEST_HEAD => Err(Malformed),
        None => Ok(None),
    }
}

fn lines(head: &[u8]) -> Result<(&str, &str), Malformed> {
    std::str::from_utf8(head).ok().and_then(|text| text.split_once("\r\n")).ok_or(Malformed)
}

fn value<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, v)| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_it_was_asked_for_and_is_read_back() {
        let text = request("192.0.2.1", 1024, 200);
        assert_eq!(text.len(), 200);
        assert_eq!(asked(&text), Ok(Some(Asked { head_bytes: 200, response_bytes: 1024, closes: false })));
        assert_eq!(asked(&text[..199]), Ok(None));
    }

    #[test]
    fn a_request_that_cannot_be_so_short_is_the_shortest() {
        assert_eq!(request("h", 1, 0), b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    }

    #[test]
    fn a_response_of_another_server_is_read() {
        let text = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello";
        assert_eq!(answered(text), Ok(Some(Answered { head_bytes: text.len() - 5, body_bytes: 5, status: 200 })));
        assert_eq!(response(5).len(), 38 + 5);
    }

    #[test]
    fn what_is_no_request_is_malformed() {
        for text in [
            &b"POST /1 HTTP/1.1\r\n\r\n"[..],
            b"GET /x HTTP/1.1\r\n\r\n",
            b"GET /99999999999 HTTP/1.1\r\n\r\n",
            &vec![b'x'; LONGEST_HEAD + 1],
        ] {
            assert_eq!(asked(text), Err(Malformed));
        }
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\n\r\n"), Err(Malformed));
    }

    #[test]
    fn close_is_asked_for_by_its_field() {
        assert!(asked(b"GET /1 HTTP/1.1\r\nconnection: Close\r\n\r\n").unwrap().unwrap().closes);
    }
}
