//! Faults in front of the model, each by hand.

use headrace_device::fault_injector::{Fault, FaultInjector, FaultKind, FaultVerdict};
use headrace_model::{Nanos, Op};

fn fault(id: u64, kind: FaultKind, op: Option<Op>, from: u64, until: u64) -> Fault {
    Fault { id, kind, op, from: Nanos(from), until: Nanos(until) }
}

fn at(injector: &FaultInjector, now: u64, at: u64) -> u64 {
    let passed = injector.pass(Nanos(now), Op::Read, Nanos(at));
    assert!(!passed.fail);
    passed.at.0
}

#[test]
fn without_faults_everything_passes() {
    let injector = FaultInjector::default();
    assert_eq!(injector.pass(Nanos(5), Op::Write, Nanos(9)), FaultVerdict { at: Nanos(9), fail: false });
    assert_eq!((injector.clear(None), injector.pause_end(Nanos(5), Op::Write), injector.is_off()), (0, None, false));
}

#[test]
fn a_pause_holds_what_would_be_answered_in_it() {
    let injector = FaultInjector::default();
    injector.add(fault(1, FaultKind::Pause, None, 100, 200));
    let pause_end = |now: u64, op| injector.pause_end(Nanos(now), op).map(|until| until.0);
    assert_eq!([pause_end(99, Op::Read), pause_end(100, Op::Read), pause_end(199, Op::Write), pause_end(200, Op::Read)], [None, Some(200), Some(200), None]);
    injector.add(fault(2, FaultKind::Pause, Some(Op::Write), 150, 300));
    assert_eq!([pause_end(160, Op::Read), pause_end(160, Op::Write), pause_end(250, Op::Read)], [Some(200), Some(300), None], "the longest that is about it");
    injector.clear(Some(2));
    assert_eq!(pause_end(160, Op::Write), Some(200));
    assert_eq!(at(&injector, 150, 160), 160, "when a request comes, no pause is asked");
}

#[test]
fn latency_is_added_inside_its_window_and_to_its_operation_only() {
    let injector = FaultInjector::default();
    injector.add(fault(1, FaultKind::Latency(50), Some(Op::Read), 100, 200));
    assert_eq!([at(&injector, 99, 120), at(&injector, 100, 120), at(&injector, 199, 210), at(&injector, 200, 210)], [120, 170, 260, 210]);
    assert_eq!(injector.pass(Nanos(150), Op::Write, Nanos(160)).at, Nanos(160));
    injector.add(fault(2, FaultKind::Latency(7), None, 100, 200));
    assert_eq!(at(&injector, 150, 160), 217, "two add up");
}

#[test]
fn every_nth_fails_from_the_first_on() {
    let injector = FaultInjector::default();
    injector.add(fault(1, FaultKind::Error(3), Some(Op::Write), 100, 200));
    let fails = |now: u64, op| injector.pass(Nanos(now), op, Nanos(now + 5)).fail;
    assert!(!fails(99, Op::Write), "before its time");
    let verdicts: Vec<bool> = (0..7).map(|_| fails(150, Op::Write)).collect();
    assert_eq!(verdicts, [true, false, false, true, false, false, true]);
    assert!(!fails(150, Op::Read), "reads are not counted");
    assert!(!fails(150, Op::Write) && !fails(150, Op::Write) && fails(150, Op::Write), "and do not shift the count");
    assert!(!fails(200, Op::Write), "after its time");
    injector.add(fault(2, FaultKind::Error(0), None, 0, 1_000));
    assert!(fails(500, Op::Read) && fails(500, Op::Write), "every 0th means every one");
}

#[test]
fn faults_are_listed_until_they_end_and_cleared_by_id() {
    let injector = FaultInjector::default();
    let faults = [fault(1, FaultKind::Pause, None, 0, 100), fault(2, FaultKind::Latency(5), None, 50, 300), fault(3, FaultKind::Error(1), None, 500, 900)];
    faults.iter().for_each(|fault| injector.add(*fault));
    assert_eq!(injector.faults(Nanos(99)), faults);
    assert_eq!(injector.faults(Nanos(100)), faults[1..], "until is the first moment after it");
    assert_eq!(injector.clear(Some(2)), 1);
    assert_eq!(injector.clear(Some(2)), 0);
    assert_eq!(at(&injector, 60, 70), 70);
    assert!(injector.pass(Nanos(600), Op::Read, Nanos(601)).fail);
    assert_eq!(injector.clear(None), 1);
    assert!(!injector.pass(Nanos(600), Op::Read, Nanos(601)).fail);
}

#[test]
fn without_power_everything_fails_at_once() {
    let injector = FaultInjector::default();
    injector.add(fault(1, FaultKind::Pause, None, 0, 1_000));
    injector.set_power(false);
    assert!(injector.is_off());
    assert_eq!(injector.pass(Nanos(5), Op::Read, Nanos(90)), FaultVerdict { at: Nanos(5), fail: true });
    assert_eq!(injector.pause_end(Nanos(5), Op::Read), None, "nobody waits for a pause without power");
    injector.set_power(true);
    assert_eq!(injector.pause_end(Nanos(5), Op::Read), Some(Nanos(1_000)), "the pause is still there");
}
