//! Client and server over loopback, and ends that do not keep to it.

use dutlab_tcp::client::{self, Plan};
use dutlab_tcp::report::Report;
use dutlab_tcp::server::{Served, Server};
use dutlab_units::Nanos;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Of each test its own, so that no two meet on a port.
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
        response_bytes: 1024,
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
    assert_eq!(
        (report.asked, report.begun),
        (report.begun + report.not_begun, report.completed + failed),
        "{report:?}"
    );
    report
}

/// The report, and what the server saw by the time all connections had ended there too.
fn served(plan: &Plan) -> (Report, Served) {
    let ends = Arc::new(AtomicBool::new(false));
    let (told, of) = (Arc::clone(&ends), plan.clone());
    let (listens, listening) = channel();
    let serving = std::thread::spawn(move || {
        let mut server = Server::listening(of.to, of.ports).unwrap();
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
    assert_eq!(served.reset, 0);
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
    let plan = Plan { response_bytes: 3_000_001, request_bytes: 9000, ..plan(address(3), 8) };
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
