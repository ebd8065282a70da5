//! The timer: everything is handed over once, in order, never before its time, also when it is
//! stopped under load.

use headrace_device::timer::Timer;
use headrace_device::Clock;
use headrace_model::Nanos;
use std::collections::HashSet;
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An answer may leave so much before its time when the thread is awake for another: the timer's
/// own bound.
const EARLY: u64 = 30_000;
const LONG: Duration = Duration::from_secs(60);

type Handed = (u64, Nanos, Nanos);

fn start() -> (Clock, Timer<u64>, Receiver<Handed>) {
    let clock = Clock::starting_at(Nanos(5_000_000));
    let (give, take) = channel();
    let timer = Timer::start(clock, move |what, at, _| {
        give.send((what, at, clock.now())).expect("the test listens");
        None
    })
    .expect("a thread");
    (clock, timer, take)
}

#[test]
fn in_order_of_time_and_of_coming_never_early() {
    let (clock, timer, take) = start();
    let begin = clock.now().0 + 20_000_000;
    // Far apart enough to wake for each, pushed last first; every time twice.
    let times: Vec<u64> = (0..100).map(|place| begin + (99 - place) / 2 * 2 * 300_000).collect();
    times.iter().enumerate().for_each(|(what, &at)| timer.push(Nanos(at), what as u64));
    let handed: Vec<Handed> = (0..100).map(|_| take.recv_timeout(LONG).expect("handed over")).collect();
    let mut expected: Vec<u64> = (0..100).collect();
    expected.sort_by_key(|&what| (times[what as usize], what));
    assert_eq!(handed.iter().map(|item| item.0).collect::<Vec<_>>(), expected);
    for (what, at, now) in handed {
        assert_eq!(at.0, times[what as usize], "with its own deadline");
        assert!(now.0 + EARLY >= at.0, "{what} came {} ns early", at.0 - now.0);
    }
    assert_eq!(timer.waiting(), 0);
}

#[test]
fn what_is_past_comes_at_once_and_an_earlier_one_overtakes() {
    let (clock, timer, take) = start();
    let now = clock.now().0;
    timer.push(Nanos(now + 3_600_000_000_000), 1);
    timer.push(Nanos(now + 50_000_000), 2);
    timer.push(Nanos(0), 3);
    assert_eq!(take.recv_timeout(LONG).expect("past").0, 3);
    let (what, at, then) = take.recv_timeout(LONG).expect("soon");
    assert_eq!(what, 2);
    assert!(then.0 + EARLY >= at.0);
    assert_eq!(timer.waiting(), 1);
    timer.stop();
    assert_eq!(take.recv_timeout(LONG).expect("at the end").0, 1, "a stop hands over what is an hour away");
}

#[test]
fn many_threads_push_and_none_is_lost_or_doubled() {
    const THREADS: u64 = 8;
    const EACH: u64 = 3_000;
    let (clock, timer, take) = start();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let timer = &timer;
            scope.spawn(move || {
                let mut chance = thread + 1;
                for number in 0..EACH {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    timer.push(Nanos(clock.now().0 + (chance >> 40) % 3_000_000), thread * EACH + number);
                }
            });
        }
    });
    let mut seen = HashSet::new();
    for _ in 0..THREADS * EACH {
        let (what, at, now) = take.recv_timeout(LONG).expect("handed over");
        assert!(seen.insert(what), "{what} twice");
        assert!(now.0 + EARLY >= at.0, "{what} came {} ns early", at.0 - now.0);
    }
    timer.stop();
    assert!(take.try_recv().is_err(), "no more than was pushed");
}

/// Threads go on pushing while the timer is stopped: what comes after it is handed over by whoever
/// pushes, so nothing waits for ever.
#[test]
fn a_stop_hands_over_everything_pushed_before_and_after() {
    const THREADS: u64 = 4;
    const EACH: u64 = 2_000;
    let clock = Clock::starting_at(Nanos::ZERO);
    let handed = Arc::new(Mutex::new(HashSet::new()));
    let into = handed.clone();
    let timer = Timer::start(clock, move |what: u64, _, _| {
        assert!(into.lock().expect("the set").insert(what));
        None
    })
    .expect("a thread");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let timer = &timer;
            scope.spawn(move || (0..EACH).for_each(|number| timer.push(Nanos(clock.now().0 + 3_600_000_000_000), thread * EACH + number)));
        }
        while timer.waiting() == 0 {
            std::thread::yield_now();
        }
        timer.stop();
    });
    timer.stop();
    assert_eq!(handed.lock().expect("the set").len() as u64, THREADS * EACH);
    assert_eq!(timer.waiting(), 0);
}

/// A thing that is given back comes again with its later deadline, or, when that is far, is asked
/// about on the way there; the last time it cannot be given back.
#[test]
fn what_is_given_back_comes_again() {
    let clock = Clock::starting_at(Nanos::ZERO);
    let (give, take) = channel();
    let timer = Timer::start(clock, move |returns: u64, at: Nanos, last| {
        give.send((returns, last)).expect("the test listens");
        (returns > 0 && !last).then(|| (at + Nanos(1_000_000), returns - 1))
    })
    .expect("a thread");
    timer.push(Nanos(0), 3);
    let seen: Vec<(u64, bool)> = (0..4).map(|_| take.recv_timeout(LONG).expect("handed over")).collect();
    assert_eq!(seen, [(3, false), (2, false), (1, false), (0, false)]);
    timer.push(Nanos(clock.now().0 + 3_600_000_000_000), 9);
    timer.stop();
    assert_eq!(take.recv_timeout(LONG).expect("at the end"), (9, true));
    assert!(take.try_recv().is_err(), "and not again");
}

#[test]
fn dropping_it_is_stopping_it() {
    let (clock, timer, take) = start();
    (0..10).for_each(|what| timer.push(Nanos(clock.now().0 + 3_600_000_000_000), what));
    drop(timer);
    assert_eq!(take.iter().count(), 10);
}

#[test]
fn the_clock_goes_on_from_where_it_was_told() {
    let clock = Clock::starting_at(Nanos::from_secs(1_000));
    let first = clock.now();
    assert!(first >= Nanos::from_secs(1_000));
    assert!(clock.now() >= first);
    let apart = clock.wall(Nanos::from_secs(1_010)).duration_since(clock.wall(Nanos::from_secs(990))).expect("later");
    assert_eq!(apart, Duration::from_secs(20));
}
