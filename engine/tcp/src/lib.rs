//! TCP connections of the kernel's stack, with requests and responses of HTTP, counted at both ends (RFC 3511, RFC
//! 9411).
//!
//! - [`client`]: begins connections at a rate, and advances each as far as possible without waiting
//! - [`report`]: the results of the connections
//! - [`server`]: answers requests
//! - [`message`]: the bytes of requests and responses
//! - [`http2`]: the bytes of HTTP/2, for a client
//! - [`objects`]: the sizes of bodies
//! - [`tls`]: TLS at either end
//! - [`tuples`]: addresses and ports of the n-th connection
//! - [`poll`]: non-blocking sockets and their events
//!
//! The clock is an argument: a function that returns the nanoseconds since some fixed moment.
#![forbid(unsafe_code)]

pub mod client;
mod connection;
mod ending;
pub mod http2;
pub mod message;
pub mod objects;
pub mod poll;
pub mod report;
pub mod server;
pub mod tls;
mod transport;
pub mod tuples;
