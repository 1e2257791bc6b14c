//! Tests that the machine is unchanged however the agent ends: interfaces, sockets, processes.

mod lab;

use lab::{Agent, Lab, netns_or_skip};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of kills.
const ROUNDS: u64 = 100;

/// `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns `DUTLAB_SEED`, or the time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    std::env::var("DUTLAB_SEED").map_or(now, |s| s.parse().unwrap())
}

fn both_ways(lab: &Lab) -> Value {
    let stream = lab.stream(1, &json!({"fixed_bytes": 64}), &json!({"max": true}));
    json!({"port": "p", "events": true, "send": {"duration_ns": 20_000_000_000_u64, "streams": [stream]},
           "receive": {"streams": [2], "absorb_udp_ports": [5001]}})
}

/// Waits until the source's namespace is as it was; the kernel may take a moment to clean up, a busy machine longer.
fn as_it_was(lab: &Lab, before: &str, what: &str) {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        let now = lab.state_of_source();
        if now == before {
            return;
        }
        assert!(Instant::now() < give_up, "{what}: before\n{before}\nafter\n{now}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_agent_killed_at_any_point_leaves_nothing_behind() {
    if !netns_or_skip() {
        return;
    }
    let seed = seed();
    println!("seed {seed}; repeat with DUTLAB_SEED={seed}");
    let mut state = seed;
    let lab = Lab::direct();
    lab.until_quiet();
    let before = lab.state_of_source();
    let plan = both_ways(&lab);
    let mut alive = 0;
    for round in 0..ROUNDS {
        let mut agent = lab.source();
        // Half of the kills happen while the port is being opened, half while frames are sent.
        let delay = Duration::from_micros(random(&mut state) % if round % 2 == 0 { 8_000 } else { 60_000 });
        agent.tell("open", json!({"port": "p", "iface": "eth-a", "guard": {"allow": ["172.16.0.0/12"]}}));
        agent.tell("arm", plan.clone());
        agent.tell("start", json!({}));
        std::thread::sleep(delay);
        alive += u32::from(agent.kill());
        as_it_was(&lab, &before, &format!("seed {seed}, round {round}, killed after {delay:?}"));
    }
    assert_eq!(u64::from(alive), ROUNDS, "seed {seed}: some agents had ended before they were killed");
}

fn ends_in_mid_trial(end: fn(&mut Agent) -> std::process::ExitStatus) {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    lab.until_quiet();
    let before = lab.state_of_source();
    let mut agent = lab.source();
    agent.open();
    agent.must("arm", both_ways(&lab));
    agent.must("start", json!({}));
    std::thread::sleep(Duration::from_millis(50));
    assert_ne!(lab.state_of_source(), before, "the state shows what an agent does");
    let begin = Instant::now();
    assert!(end(&mut agent).success());
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}, when 20 s were asked for", begin.elapsed());
    as_it_was(&lab, &before, "after an orderly end");
}

#[test]
fn the_agent_ends_whole_with_its_stdin() {
    ends_in_mid_trial(Agent::hang_up);
}

#[test]
fn the_agent_ends_whole_on_sigterm() {
    ends_in_mid_trial(Agent::terminate);
}

#[test]
fn sigterm_ends_an_agent_to_which_nobody_listens() {
    if !netns_or_skip() {
        return;
    }
    let lab = Lab::direct();
    let mut agent = lab.source();
    // More replies than fit into a pipe, none of them read.
    for _ in 0..2000 {
        agent.tell("hello", json!({}));
    }
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    agent.terminate();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
