//! Faults in front of the model, each by hand.

use headrace_device::gate::{Fault, Gate, Kind, Passed};
use headrace_model::{Nanos, Op};

fn fault(id: u64, kind: Kind, op: Option<Op>, from: u64, until: u64) -> Fault {
    Fault { id, kind, op, from: Nanos(from), until: Nanos(until) }
}

fn at(gate: &Gate, now: u64, at: u64) -> u64 {
    let passed = gate.pass(Nanos(now), Op::Read, Nanos(at));
    assert!(!passed.fail);
    passed.at.0
}

#[test]
fn without_faults_everything_passes() {
    let gate = Gate::default();
    assert_eq!(gate.pass(Nanos(5), Op::Write, Nanos(9)), Passed { at: Nanos(9), fail: false });
    assert_eq!((gate.clear(None), gate.held(Nanos(5), Op::Write), gate.is_off()), (0, None, false));
}

#[test]
fn a_pause_holds_what_would_be_answered_in_it() {
    let gate = Gate::default();
    gate.add(fault(1, Kind::Pause, None, 100, 200));
    let held = |now: u64, op| gate.held(Nanos(now), op).map(|until| until.0);
    assert_eq!([held(99, Op::Read), held(100, Op::Read), held(199, Op::Write), held(200, Op::Read)], [None, Some(200), Some(200), None]);
    gate.add(fault(2, Kind::Pause, Some(Op::Write), 150, 300));
    assert_eq!([held(160, Op::Read), held(160, Op::Write), held(250, Op::Read)], [Some(200), Some(300), None], "the longest that is about it");
    gate.clear(Some(2));
    assert_eq!(held(160, Op::Write), Some(200));
    assert_eq!(at(&gate, 150, 160), 160, "when a request comes, no pause is asked");
}

#[test]
fn latency_is_added_inside_its_window_and_to_its_operation_only() {
    let gate = Gate::default();
    gate.add(fault(1, Kind::Latency(50), Some(Op::Read), 100, 200));
    assert_eq!([at(&gate, 99, 120), at(&gate, 100, 120), at(&gate, 199, 210), at(&gate, 200, 210)], [120, 170, 260, 210]);
    assert_eq!(gate.pass(Nanos(150), Op::Write, Nanos(160)).at, Nanos(160));
    gate.add(fault(2, Kind::Latency(7), None, 100, 200));
    assert_eq!(at(&gate, 150, 160), 217, "two add up");
}

#[test]
fn every_nth_fails_from_the_first_on() {
    let gate = Gate::default();
    gate.add(fault(1, Kind::Error(3), Some(Op::Write), 100, 200));
    let fails = |now: u64, op| gate.pass(Nanos(now), op, Nanos(now + 5)).fail;
    assert!(!fails(99, Op::Write), "before its time");
    let found: Vec<bool> = (0..7).map(|_| fails(150, Op::Write)).collect();
    assert_eq!(found, [true, false, false, true, false, false, true]);
    assert!(!fails(150, Op::Read), "reads are not counted");
    assert!(!fails(150, Op::Write) && !fails(150, Op::Write) && fails(150, Op::Write), "and do not shift the count");
    assert!(!fails(200, Op::Write), "after its time");
    gate.add(fault(2, Kind::Error(0), None, 0, 1_000));
    assert!(fails(500, Op::Read) && fails(500, Op::Write), "every 0th means every one");
}

#[test]
fn faults_are_listed_until_they_end_and_cleared_by_id() {
    let gate = Gate::default();
    let faults = [fault(1, Kind::Pause, None, 0, 100), fault(2, Kind::Latency(5), None, 50, 300), fault(3, Kind::Error(1), None, 500, 900)];
    faults.iter().for_each(|fault| gate.add(*fault));
    assert_eq!(gate.faults(Nanos(99)), faults);
    assert_eq!(gate.faults(Nanos(100)), faults[1..], "until is the first moment after it");
    assert_eq!(gate.clear(Some(2)), 1);
    assert_eq!(gate.clear(Some(2)), 0);
    assert_eq!(at(&gate, 60, 70), 70);
    assert!(gate.pass(Nanos(600), Op::Read, Nanos(601)).fail);
    assert_eq!(gate.clear(None), 1);
    assert!(!gate.pass(Nanos(600), Op::Read, Nanos(601)).fail);
}

#[test]
fn without_power_everything_fails_at_once() {
    let gate = Gate::default();
    gate.add(fault(1, Kind::Pause, None, 0, 1_000));
    gate.set_power(false);
    assert!(gate.is_off());
    assert_eq!(gate.pass(Nanos(5), Op::Read, Nanos(90)), Passed { at: Nanos(5), fail: true });
    assert_eq!(gate.held(Nanos(5), Op::Read), None, "nobody waits for a pause without power");
    gate.set_power(true);
    assert_eq!(gate.held(Nanos(5), Op::Read), Some(Nanos(1_000)), "the pause is still there");
}
