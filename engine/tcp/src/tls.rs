//! TLS at either end (RFC 8446, RFC 5246), by rustls: settings, a certificate made for the trial, and the negotiated
//! parameters.

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, HandshakeKind, ProtocolVersion,
    ServerConfig, ServerConnection, SignatureScheme, SupportedProtocolVersion,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// ALPN name of HTTP/2 (RFC 9113 section 3.1).
pub(crate) const HTTP2: &[u8] = b"h2";
/// Number of servers whose sessions a client keeps.
const KEPT: usize = 256;
/// Name in the server's certificate (RFC 6761 section 6.4).
const CERTIFIED_NAME: &str = "sink.dutlab.invalid";

/// Versions that an end supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The newest version that both ends support.
    Any,
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

impl Version {
    fn spoken(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Any => vec![&TLS13, &TLS12],
            Self::Tls12 => vec![&TLS12],
            Self::Tls13 => vec![&TLS13],
        }
    }
}

/// TLS of a client. It accepts any certificate, and checks that the server has its key.
#[derive(Debug, Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Makes a client for the server `name`: a name, which SNI then carries, or an address. Sessions are resumed, or
    /// each handshake is a full one.
    pub fn new(version: Version, resumes: bool, name: &str) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&version.spoken())
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        config.resumption = if resumes { Resumption::in_memory_sessions(KEPT) } else { Resumption::disabled() };
        let name = ServerName::try_from(name.to_owned()).map_err(|e| format!("{name}: {e}"))?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// Sets HTTP/2 as the protocol.
    #[must_use]
    pub fn for_http2(mut self) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![HTTP2.to_vec()];
        self
    }

    pub(crate) fn connection(&self) -> Result<Connection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map(Connection::from)
    }
}

/// TLS of a server, with a new certificate (ECDSA, P-256).
#[derive(Debug, Clone)]
pub struct Server {
    config: Arc<ServerConfig>,
}

impl Server {
    /// Makes a server that lets clients resume sessions, or not.
    pub fn new(version: Version, resumes: bool) -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed([CERTIFIED_NAME.to_owned()]).map_err(|e| e.to_string())?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&version.spoken())
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key))
            .map_err(|e| e.to_string())?;
        if resumes {
            config.ticketer = ring::Ticketer::new().map_err(|e| e.to_string())?;
        } else {
            config.send_tls13_tickets = 0;
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn connection(&self) -> Result<Connection, Error> {
        ServerConnection::new(Arc::clone(&self.config)).map(Connection::from)
    }
}

/// Results of TLS handshakes.
#[derive(Debug, Default, Clone, Serialize, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "TcpTls")]
pub struct Handshakes {
    /// Handshakes with a certificate and new keys.
    pub full: u64,
    /// Handshakes with the keys of an earlier session.
    pub resumed: u64,
    /// Number of handshakes for each version, cipher suite and group, such as `TLS 1.3 TLS_AES_256_GCM_SHA384 X25519`.
    pub agreed: BTreeMap<String, u64>,
    /// Reason of the last failure.
    pub error: Option<String>,
}

impl Handshakes {
    /// Counts a completed handshake.
    pub(crate) fn done(&mut self, of: &Connection) {
        match of.handshake_kind() {
            Some(HandshakeKind::Resumed) => self.resumed += 1,
            _ => self.full += 1,
        }
        let version = if of.protocol_version() == Some(ProtocolVersion::TLSv1_3) { "TLS 1.3" } else { "TLS 1.2" };
        // IANA's registry omits the 13 in the names of suites.
        let suite = of.negotiated_cipher_suite().and_then(|s| s.suite().as_str()).unwrap_or("?");
        let suite = suite.replacen("TLS13_", "TLS_", 1);
        let group = of.negotiated_key_exchange_group().map(|group| format!(" {:?}", group.name())).unwrap_or_default();
        *self.agreed.entry(format!("{version} {suite}{group}")).or_default() += 1;
    }
}

/// Accepts any certificate: that of the proxy under test is signed by no authority.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        of: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, of, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        of: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, of, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first flight of a client.
    fn hello(version: Version) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut connection = Client::new(version, true, "192.0.2.1").unwrap().connection().unwrap();
        while connection.wants_write() {
            connection.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Passes all pending bytes from `from` to `to`.
    fn carry(from: &mut Connection, to: &mut Connection) {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let mut left = &bytes[..];
        while !left.is_empty() {
            to.read_tls(&mut left).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    fn agreed(client: &Client, server: &Server) -> Handshakes {
        let (mut near, mut far) = (client.connection().unwrap(), server.connection().unwrap());
        while near.is_handshaking() || far.is_handshaking() || far.wants_write() {
            carry(&mut near, &mut far);
            carry(&mut far, &mut near);
        }
        let mut seen = Handshakes::default();
        seen.done(&near);
        seen
    }

    #[test]
    fn a_client_offers_the_versions_that_it_may_speak() {
        // RFC 8446 section 5.1: handshake(22), legacy version 0x0301; section 4: client_hello(1)
        let newer = hello(Version::Tls13);
        assert_eq!((&newer[..3], newer[5]), (&[22, 3, 1][..], 1));
        // RFC 8446 section 4.2.1: supported_versions(43), extension of 3 bytes, list of 2 bytes, 0x0304
        let only_13 = [0, 43, 0, 3, 2, 3, 4];
        let both = [0, 43, 0, 5, 4, 3, 4, 3, 3];
        let has = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|w| w == what);
        assert!(has(&newer, &only_13) && !has(&newer, &both));
        assert!(has(&hello(Version::Any), &both));
        assert!(!has(&hello(Version::Tls12), &only_13) && !has(&hello(Version::Tls12), &both));
    }

    #[test]
    fn an_alert_of_the_server_says_why() {
        let mut connection = Client::new(Version::Tls13, false, "192.0.2.1").unwrap().connection().unwrap();
        // RFC 8446 section 6: alert(21), version 0x0303, 2 bytes: fatal(2), protocol_version(70)
        connection.read_tls(&mut &[21, 3, 3, 0, 2, 2, 70][..]).unwrap();
        let why = connection.process_new_packets().unwrap_err().to_string();
        assert!(why.contains("ProtocolVersion"), "{why}");
    }

    #[test]
    fn the_second_session_is_resumed_where_both_ends_let_it() {
        for (version, text) in [(Version::Tls12, "TLS 1.2 TLS_ECDHE_ECDSA"), (Version::Any, "TLS 1.3 TLS_")] {
            for (at_client, at_server) in [(true, true), (true, false), (false, true)] {
                let client = Client::new(version, at_client, "192.0.2.1").unwrap();
                let server = Server::new(version, at_server).unwrap();
                let (first, second) = (agreed(&client, &server), agreed(&client, &server));
                assert_eq!((first.full, first.resumed), (1, 0));
                assert_eq!((second.full, second.resumed), if at_client && at_server { (0, 1) } else { (1, 0) });
                assert!(first.agreed.keys().all(|of| of.starts_with(text)), "{first:?}");
            }
        }
    }
}
