//! Tests of client and server over loopback, and of peers that violate the protocol.

use dutlab_tcp::client::{self, Plan};
use dutlab_tcp::objects::Object;
use dutlab_tcp::report::Report;
use dutlab_tcp::server::{Served, Server};
use dutlab_tcp::tls::{self, Version};
use dutlab_units::Nanos;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Separate address for each test, so that tests do not share ports.
fn address(of_test: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 9, 7, of_test))
}

fn plan(to: IpAddr, count: u64) -> Plan {
    Plan {
        from: vec![IpAddr::V4(Ipv4Addr::new(127, 9, 8, 1))],
        to,
        ports: 20000..=20003,
        first: 0,
        rate_per_s: 2000.0,
        count,
        requests: 1,
        request_bytes: 200,
        objects: vec![Object { bytes: 1024, weight: 1 }],
        host: None,
        http2: false,
        tls: None,
        hold: false,
        timeout: Nanos(20_000_000_000),
        resets: false,
    }
}

fn carried_out(plan: &Plan) -> Report {
    let start = Instant::now();
    let report = client::run(plan, || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap())).unwrap();
    let failed = report.refused + report.unreachable + report.no_handshake + report.reset;
    let failed = failed + report.closed_early + report.no_answer + report.malformed;
    let failed = failed + report.tls_failed + report.error_status;
    assert_eq!(
        (report.asked, report.begun),
        (report.begun + report.not_begun, report.completed + failed),
        "{report:?}"
    );
    report
}

/// Returns the report, and the counters of the server after all connections had ended there too.
fn served(plan: &Plan) -> (Report, Served) {
    served_with(plan, None)
}

fn served_with(plan: &Plan, tls: Option<tls::Server>) -> (Report, Served) {
    let ends = Arc::new(AtomicBool::new(false));
    let (told, of) = (Arc::clone(&ends), plan.clone());
    let (listens, listening) = channel();
    let serving = std::thread::spawn(move || {
        let mut server = Server::listening(of.to, of.ports, tls).unwrap();
        listens.send(()).unwrap();
        while !told.load(Ordering::Relaxed) || server.served().open > 0 {
            server.turn(Duration::from_millis(5)).unwrap();
        }
        server.served()
    });
    listening.recv().unwrap();
    let report = carried_out(plan);
    ends.store(true, Ordering::Relaxed);
    (report, serving.join().unwrap())
}

#[test]
fn every_connection_is_answered_and_both_ends_count_the_same() {
    let plan = Plan { requests: 3, ..plan(address(1), 300) };
    let (report, served) = served(&plan);
    assert_eq!(
        (report.begun, report.completed, report.transactions),
        (report.completed, served.accepted, served.answered)
    );
    assert_eq!((served.answered, served.body_bytes), (3 * served.accepted, 3 * 1024 * served.accepted));
    assert_eq!(
        (report.handshake.count, report.first_byte.count, report.response.count),
        (served.accepted, served.accepted, served.answered)
    );
    assert!(report.first_byte.min_ns > report.handshake.min_ns && report.first_byte.p99_ns <= report.first_byte.max_ns);
    assert_eq!((served.reset, served.closed), (0, served.accepted));
}

#[test]
fn connections_that_are_held_are_open_at_once_and_asked_once_more() {
    let plan = Plan { hold: true, ..plan(address(2), 500) };
    let (report, served) = served(&plan);
    assert_eq!((report.open_max, served.open_max), (report.begun, report.begun));
    assert_eq!((report.completed, report.transactions), (report.begun, 2 * report.begun));
}

#[test]
fn a_long_answer_comes_whole() {
    let plan =
        Plan { objects: vec![Object { bytes: 3_000_001, weight: 1 }], request_bytes: 9000, ..plan(address(3), 8) };
    let (report, served) = served(&plan);
    assert_eq!((report.completed, report.body_bytes), (report.begun, served.body_bytes));
    assert_eq!(report.body_bytes, 3_000_001 * report.begun);
}

#[test]
fn connections_that_the_client_resets_are_seen_so_by_the_server() {
    let (report, served) = served(&Plan { resets: true, ..plan(address(4), 50) });
    assert_eq!((report.completed, served.reset), (report.begun, served.accepted));
}

#[test]
fn where_nobody_listens_each_is_refused() {
    let report = carried_out(&plan(address(5), 40));
    assert_eq!((report.refused, report.established), (report.begun, 0));
}

#[test]
fn who_says_nothing_and_who_hangs_up_are_told_apart() {
    let listeners: Vec<_> = (20000..=20003).map(|port| TcpListener::bind((address(6), port)).unwrap()).collect();
    let silent = carried_out(&Plan { timeout: Nanos(300_000_000), ..plan(address(6), 20) });
    assert_eq!((silent.established, silent.no_answer), (silent.begun, silent.begun));
    for listener in listeners {
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]); // all of the request, so that the end is FIN
            }
        });
    }
    let hung_up = carried_out(&Plan { first: 4000, ..plan(address(6), 20) });
    assert_eq!(hung_up.closed_early, hung_up.begun);
}

#[test]
fn objects_come_by_their_weights_and_each_length_is_checked() {
    let objects = [(100, 3), (70_000, 1)].map(|(bytes, weight)| Object { bytes, weight });
    let (report, served) = served(&Plan { objects: objects.to_vec(), requests: 4, ..plan(address(7), 20) });
    assert_eq!((report.completed, report.malformed), (report.begun, 0));
    assert_eq!(report.body_bytes, report.begun * (3 * 100 + 70_000));
    assert_eq!(served.body_bytes, report.body_bytes);
}

#[test]
fn through_tls_both_ends_count_the_same_handshakes_and_bytes() {
    for (version, text) in [(Version::Tls12, "TLS 1.2"), (Version::Tls13, "TLS 1.3")] {
        let to = address(if version == Version::Tls12 { 8 } else { 9 });
        let client = tls::Client::new(version, true, "192.0.2.1").unwrap();
        let objects = vec![Object { bytes: 300_000, weight: 1 }];
        let plan = Plan { tls: Some(client), requests: 2, rate_per_s: 50.0, objects, ..plan(to, 20) };
        let (report, served) = served_with(&plan, Some(tls::Server::new(Version::Any, true).unwrap()));
        assert_eq!((report.completed, report.transactions), (report.begun, 2 * report.begun), "{report:?}");
        assert_eq!(report.body_bytes, served.body_bytes);
        assert_eq!((report.tls.full, report.tls.resumed), (served.tls.full, served.tls.resumed));
        assert_eq!(report.tls.full + report.tls.resumed, report.begun);
        assert!(report.tls.resumed > 0, "{report:?}");
        assert!(report.tls.agreed.keys().all(|of| of.starts_with(text)), "{report:?}");
        assert_eq!(report.tls_handshake.count, report.begun);
        assert_eq!((served.closed, served.reset), (served.accepted, 0));
    }
}

#[test]
fn ends_that_speak_no_common_version_or_no_tls_at_all_say_so() {
    let tls_12 = Some(tls::Client::new(Version::Tls12, false, "192.0.2.1").unwrap());
    let other = tls::Server::new(Version::Tls13, false).unwrap();
    let (report, served) = served_with(&Plan { tls: tls_12.clone(), ..plan(address(10), 10) }, Some(other));
    assert_eq!((report.tls_failed, served.tls_failed), (report.begun, served.accepted), "{report:?}");
    assert!(report.tls.error.is_some() && served.tls.error.is_some());
    // A server without TLS takes a ClientHello for the beginning of a request, and waits for the rest.
    let (report, served) =
        served_with(&Plan { tls: tls_12, timeout: Nanos(500_000_000), ..plan(address(11), 10) }, None);
    assert_eq!((report.tls_failed, report.established), (report.begun, served.accepted), "{report:?}");
}
