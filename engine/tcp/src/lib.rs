//! TCP connections of the kernel's own, with requests and responses of HTTP, counted at both ends (RFC 3511, RFC 9411).
//!
//! - [`client`]: begins connections at a rate, and takes each as far as it goes without waiting
//! - [`report`]: what became of them
//! - [`server`]: answers them
//! - [`message`]: the bytes of requests and responses
//! - [`http2`]: the same of HTTP/2, for a client
//! - [`objects`]: the sizes of their bodies
//! - [`tls`]: TLS at either end
//! - [`tuples`]: which addresses and ports the n-th connection has
//! - [`poll`]: sockets that do not block, and what has happened to them
//!
//! The clock is an argument: a function that says how many nanoseconds have passed since some moment.
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
