//! The journal against everything that happens to files: reopened, cut, flipped, compacted, full,
//! opened twice, its writer killed.

use headrace_control::{Command, CreateRequest, Event, Lab, VolumeId};
use headrace_daemon::journal::{Balances, Checkpoint, Entry, Journal, JournalError, Json, Recovered, Saved};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of the header of the file and of a record, written down here once more: they are the
/// format.
const HEADER: usize = 24;

/// `PROPTEST_CASES` asks for more (`make soak`); each case writes a file and forces it to disk, so
/// at most 300.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual).min(300)
}

/// A folder in memory where the system has such a place: the thousands of journals of the random
/// tests are about bytes, and forcing each record to a disk took them most of a minute.
fn folder_in_memory() -> TempDir {
    let builder = tempfile::Builder::new();
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir()).unwrap()
}

/// A journal and what it must hold.
struct Bench {
    folder: TempDir,
    journal: Option<Journal>,
    state: Checkpoint,
    counter: u64,
}

/// Opens a journal that this process has closed. A child of another test holds the lock, too,
/// between its fork and its exec.
fn open_released(folder: &Path) -> (Journal, Recovered) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match Journal::open(folder) {
            Err(JournalError::InUse { .. }) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            opened => return opened.unwrap(),
        }
    }
}

impl Bench {
    fn new() -> Bench {
        let folder = folder_in_memory();
        let (journal, recovered) = Journal::open(folder.path()).unwrap();
        assert_eq!((recovered.records, recovered.repair), (0, None));
        Bench { folder, journal: Some(journal), state: Checkpoint::default(), counter: 0 }
    }

    fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().unwrap()
    }

    fn create(&mut self, tag_chars: usize, durable: bool) {
        let events = created(&self.state.lab, &mut self.counter, tag_chars);
        self.journal().append(&Entry::Events(events.clone()), durable).unwrap();
        events.iter().for_each(|event| self.state.lab.apply(event));
    }

    fn delete_first(&mut self) {
        let Some(volume) = self.state.lab.volumes.keys().next().cloned() else { return };
        let mut all = Vec::new();
        let name = volume.to_string();
        for command in [Command::Created { volume: name.clone() }, Command::DeleteVolume { volume: name.clone() }, Command::Deleted { volume: name }] {
            let events = self.state.lab.decide(&command, 0, &mut || 0).unwrap();
            events.iter().for_each(|event| self.state.lab.apply(event));
            all.extend(events);
        }
        self.journal().append(&Entry::Events(all), true).unwrap();
        self.state.balances.devices.remove(&volume);
    }

    fn balances(&mut self, level: u64) {
        self.counter += 1;
        let saved = Saved { at_ms: self.counter, device_ns: level, state: Json::from_value(&(level, 0.1 + level as f64, u128::MAX)).unwrap() };
        // Every other volume: the rest keeps what it had.
        let devices: BTreeMap<VolumeId, Saved> = self.state.lab.volumes.keys().step_by(2).map(|volume| (volume.clone(), saved.clone())).collect();
        let balances = Balances { instance: (level % 2 == 0).then(|| saved.clone()), devices };
        self.journal().append(&Entry::Balances(balances.clone()), false).unwrap();
        self.state.balances.devices.extend(balances.devices);
        self.state.balances.instance = balances.instance.or(self.state.balances.instance.take());
    }

    fn compact(&mut self) {
        let state = self.state.clone();
        self.journal().compact(&state).unwrap();
    }

    fn reopen(&mut self) -> Recovered {
        self.journal = None;
        let (journal, recovered) = open_released(self.folder.path());
        assert_eq!(recovered.state, self.state);
        self.journal = Some(journal);
        recovered
    }

    /// The journal without the space that it reserved.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = fs::read(self.folder.path().join("journal")).unwrap();
        let end = self.journal.as_ref().map_or(bytes.len(), |journal| journal.bytes() as usize);
        assert!(bytes.drain(end..).all(|byte| byte == 0));
        bytes
    }
}

fn created(lab: &Lab, counter: &mut u64, tag_chars: usize) -> Vec<Event> {
    let tags = [("note".to_string(), "x".repeat(tag_chars.min(256)))].into();
    let command = Command::CreateVolume(CreateRequest { spec: "raid1:2xgp2:10".to_string(), tags, balance_percent: Some(12.5), ..CreateRequest::default() });
    lab.decide(&command, 1_700_000_000_000, &mut || {
        *counter += 1;
        *counter
    })
    .unwrap()
}

/// Opens a journal of these bytes and returns what was recovered from it.
fn opened(bytes: &[u8]) -> Result<Recovered, JournalError> {
    let folder = folder_in_memory();
    fs::write(folder.path().join("journal"), bytes).unwrap();
    let opened = Journal::open(folder.path()).map(|(_, recovered)| recovered);
    let after = fs::read(folder.path().join("journal")).unwrap();
    match &opened {
        Err(_) => assert_eq!(after, bytes, "a refused journal was changed"),
        Ok(recovered) => {
            // Reserved space goes too. No record ends with a zero: each is a JSON object.
            let end = recovered
                .repair
                .as_ref()
                .map_or(HEADER.max(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)), |repair| repair.offset as usize);
            assert_eq!(after, bytes[..end], "more or less than the tail was cut off");
        }
    }
    opened
}

/// Offsets at which records begin.
fn records(bytes: &[u8]) -> Vec<usize> {
    let mut at = HEADER;
    std::iter::from_fn(|| {
        let begin = at;
        let length = bytes.get(at..at + 4)?;
        at += 24 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        Some(begin)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(60)))]
    #[test]
    fn what_was_appended_is_found_again(steps in prop::collection::vec((0..12u8, any::<bool>(), 0..300usize), 1..60)) {
        let mut bench = Bench::new();
        for (step, durable, amount) in steps {
            match step {
                0..=4 => bench.create(amount, durable),
                5 => bench.delete_first(),
                6..=8 => bench.balances(amount as u64),
                9 => bench.compact(),
                10 => bench.journal().sync().unwrap(),
                _ => {
                    let recovered = bench.reopen();
                    prop_assert_eq!((recovered.repair, recovered.skipped), (None, 0));
                }
            }
            prop_assert_eq!(bench.journal().bytes(), bench.bytes().len() as u64);
        }
        bench.reopen();
    }

    /// No bytes at all make it panic or lose its words.
    #[test]
    fn any_bytes_are_read_or_refused(head in any::<bool>(), noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = if head { Bench::new().bytes() } else { Vec::new() };
        bytes.extend(noise);
        if let Err(error) = opened(&bytes) {
            prop_assert!(error.to_string().contains("byte 0"), "{}", error);
        }
    }
}

#[test]
fn the_last_record_may_be_cut_anywhere() {
    for durable in [true, false] {
        let mut bench = Bench::new();
        (0..3).for_each(|_| bench.create(20, durable));
        let before = bench.state.clone();
        bench.create(20, durable);
        let bytes = bench.bytes();
        let last = *records(&bytes).last().unwrap();
        for cut in last..bytes.len() {
            let recovered = opened(&bytes[..cut]).unwrap();
            assert_eq!(recovered.state, before, "cut at {cut}");
            assert_eq!(recovered.repair.map(|repair| (repair.offset, repair.bytes)), (cut > last).then(|| (last as u64, (cut - last) as u64)));
        }
        assert_eq!(opened(&bytes).unwrap().state, bench.state);
    }
}

#[test]
fn a_flipped_byte_is_refused_in_the_middle_and_cut_at_the_end() {
    let mut bench = Bench::new();
    (0..4).for_each(|_| bench.create(10, true));
    let before = bench.state.clone();
    bench.create(10, true);
    let bytes = bench.bytes();
    let last = *records(&bytes).last().unwrap();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut flipped = bytes.clone();
            flipped[at] ^= flip;
            match opened(&flipped) {
                Ok(recovered) => {
                    assert!(at >= last, "byte {at} was not missed");
                    assert_eq!((recovered.state, recovered.repair.unwrap().offset), (before.clone(), last as u64));
                }
                Err(error @ JournalError::Damaged { .. }) => {
                    assert!(at < last, "byte {at}: {error}");
                    let begin = records(&bytes).into_iter().rfind(|&begin| begin <= at).unwrap_or(0);
                    let text = error.to_string();
                    assert!(text.contains(&format!("byte {begin}:")) && text.contains("Nothing was changed"), "{text}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn reserved_space_is_no_damage_and_hides_none() {
    let mut bench = Bench::new();
    (0..3).for_each(|_| bench.create(20, true));
    let path = bench.folder.path().join("journal");
    let (whole, end) = (fs::read(&path).unwrap(), bench.journal().bytes() as usize);
    // A MiB at once: three records of some hundred bytes do not make the file longer.
    assert_eq!(whole.len() >> 20, 1);
    for zeros in [0, 1, 23, 24, 4_096, whole.len() - end] {
        let recovered = opened(&whole[..end + zeros]).unwrap();
        assert_eq!((recovered.state, recovered.repair), (bench.state.clone(), None), "{zeros} zeros");
    }
    // Anything but zeros is cut and said, wherever it lies.
    for at in [end, end + 30, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] = 1;
        let recovered = opened(&flipped).unwrap();
        assert_eq!((recovered.state, recovered.repair.unwrap().offset), (bench.state.clone(), end as u64));
    }
    // A record of which zeros are left before another that was acknowledged is damage as ever.
    let begins = records(&whole[..end]);
    let mut holed = whole.clone();
    holed[begins[1]..begins[2]].fill(0);
    assert!(matches!(opened(&holed), Err(JournalError::Damaged { offset, .. }) if offset == begins[1] as u64));
    // A daemon that ends in order leaves none.
    bench.journal = None;
    assert_eq!(fs::read(&path).unwrap().len(), end);
}

#[test]
fn a_hole_in_what_was_not_forced_to_disk_is_a_crash() {
    let mut bench = Bench::new();
    bench.create(10, true);
    let before = bench.state.clone();
    (0..3).for_each(|level| bench.balances(level));
    let bytes = bench.bytes();
    let begins = records(&bytes);
    // A power cut may keep a later page and lose an earlier one.
    let mut holed = bytes.clone();
    holed[begins[1]..begins[2]].fill(0);
    let recovered = opened(&holed).unwrap();
    assert_eq!((recovered.state, recovered.repair.unwrap().offset), (before, begins[1] as u64));
    // A hole like that with an acknowledged record behind it is damage: that record forced all
    // before it first.
    bench.create(10, true);
    let mut holed = bench.bytes();
    holed[begins[1]..begins[2]].fill(0);
    assert!(matches!(opened(&holed), Err(JournalError::Damaged { offset, .. }) if offset == begins[1] as u64));
    // And so is one in the record before the balances, which was acknowledged although only
    // balances follow.
    let mut holed = bytes;
    holed[begins[0]..begins[1]].fill(0);
    assert!(matches!(opened(&holed), Err(JournalError::Damaged { offset, .. }) if offset == begins[0] as u64));
}

#[test]
fn compaction_keeps_the_state_and_its_checkpoint_is_never_given_up() {
    let mut bench = Bench::new();
    (0..20).for_each(|_| bench.create(200, true));
    (0..50).for_each(|level| bench.balances(level));
    let (size, sequence) = (bench.bytes().len(), 71);
    bench.compact();
    assert!(bench.bytes().len() * 2 < size, "{} of {size} bytes", bench.bytes().len());
    let compacted = bench.bytes();
    let recovered = bench.reopen();
    assert_eq!((recovered.records, recovered.repair), (1, None));
    let events = created(&bench.state.lab, &mut bench.counter, 1);
    assert_eq!(bench.journal().append(&Entry::Events(events.clone()), true).unwrap(), sequence + 1);
    events.iter().for_each(|event| bench.state.lab.apply(event));
    // Left by a crash before the rename: never counted.
    fs::write(bench.folder.path().join("journal.new"), &compacted[..100]).unwrap();
    bench.reopen();
    assert!(!bench.folder.path().join("journal.new").exists());
    // The only record, but no crash can have taken it: an empty lab in its place would be the end
    // of all volumes.
    for damage in [HEADER, HEADER + 30, compacted.len() - 1] {
        let mut flipped = compacted.clone();
        flipped[damage] ^= 1;
        assert!(matches!(opened(&flipped), Err(JournalError::Damaged { offset: 24, .. })), "byte {damage}");
        assert!(matches!(opened(&compacted[..damage]), Err(JournalError::Damaged { offset: 24, .. })), "cut at {damage}");
    }
}

#[test]
fn it_asks_for_compaction_by_size_and_not_over_and_over() {
    let mut bench = Bench::new();
    while !bench.journal().needs_compaction() {
        let padding = Json::from_value(&"p".repeat(1 << 20)).unwrap();
        let instance = Some(Saved { at_ms: 1, device_ns: 1, state: padding });
        bench.state.balances.instance.clone_from(&instance);
        bench.journal().append(&Entry::Balances(Balances { instance, devices: BTreeMap::new() }), false).unwrap();
    }
    // 16 records of a MiB and their headers are just above 16 MiB.
    assert_eq!(bench.journal().bytes() >> 20, 16);
    bench.compact();
    assert!(!bench.journal().needs_compaction());
    bench.reopen();
}

#[test]
fn other_versions_are_told_apart_from_damage() {
    let mut bench = Bench::new();
    bench.create(10, true);
    let bytes = bench.bytes();
    // A header of version 2, whole.
    let mut later = bytes.clone();
    later[16] = 2;
    let crc = crc32c::crc32c(&later[..20]).to_le_bytes();
    later[20..24].copy_from_slice(&crc);
    assert!(opened(&later).unwrap_err().to_string().contains("version this daemon does not know"));
    // Whole records with content of a later version: events stop the start, balances do not.
    let record = |payload: &str| {
        let mut record = (payload.len() as u32).to_le_bytes().to_vec();
        record.extend([0; 4]);
        record.extend(2u64.to_le_bytes());
        record.extend(1u64.to_le_bytes());
        record.extend(payload.as_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..]);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        [bytes.clone(), record].concat()
    };
    let text = opened(&record(r#"{"events":[{"at_ms":1,"change":{"volume-painted":{"volume":"vol-00000000000000001"}}}]}"#)).unwrap_err().to_string();
    assert!(text.contains("later version") && text.contains("volume-painted"), "{text}");
    let recovered = opened(&record(r#"{"balances":{"devices":7}}"#)).unwrap();
    assert_eq!((recovered.skipped, recovered.records, recovered.state), (1, 2, bench.state.clone()));
    // Fields that came later have a default.
    let old = r#"{"checkpoint":{"lab":{"last_ms":5,"volumes":{"vol-00000000000000001":{"id":"vol-00000000000000001","spec":"gp2:10","as_of":"2026-01-01",
        "seed":1,"created_ms":2,"status":"available","members":[{}]}}}}}"#;
    let recovered = opened(&record(old)).unwrap();
    assert_eq!((recovered.state.lab.volumes.len(), recovered.state.last_lab_ms()), (1, 5));
}

#[test]
fn a_folder_is_opened_once() {
    let bench = Bench::new();
    let second = Journal::open(bench.folder.path()).unwrap_err();
    let text = second.to_string();
    assert!(matches!(second, JournalError::InUse { .. }) && text.contains(&format!("process {}", std::process::id())), "{text}");
    let folder = bench.folder.path().to_path_buf();
    drop(bench.journal);
    drop(Journal::open(&folder).unwrap());
}

#[test]
fn a_folder_that_cannot_be_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let text = Journal::open(&file).unwrap_err().to_string();
    assert!(text.contains("making the folder") && text.contains("--lab"), "{text}");
}

/// Fills a disk, and checks that the journal ends at its last good record and goes on when there is
/// space again.
fn fill(bench: &mut Bench, make_room: impl FnOnce()) {
    let mut appended = 0;
    let error = loop {
        let events = created(&bench.state.lab, &mut bench.counter, 256);
        match bench.journal().append(&Entry::Events(events.clone()), true) {
            Ok(_) => events.iter().for_each(|event| bench.state.lab.apply(event)),
            Err(error) => break error,
        }
        appended += 1;
        assert!(appended < 10_000, "the disk is never full");
    };
    let text = error.to_string();
    assert!(matches!(error, JournalError::Io { .. }) && text.contains("adding a record") && text.contains("Free space"), "{text}");
    assert!(appended > 3, "full after {appended} records already");
    let size = fs::metadata(bench.folder.path().join("journal")).unwrap().len();
    assert_eq!(size, bench.journal().bytes(), "half a record stayed");
    let state = bench.state.clone();
    // A checkpoint needs space too; without it the journal is as it was.
    let compacted = bench.journal().compact(&state).is_ok();
    bench.reopen();
    make_room();
    bench.create(256, true);
    let recovered = bench.reopen();
    assert_eq!(recovered.records, if compacted { 2 } else { appended + 1 });
}

#[test]
fn a_full_disk_leaves_the_good_end() {
    if std::env::var_os("JOURNAL_TEST_FILE_LIMIT").is_some() {
        let mut bench = Bench::new();
        return fill(&mut bench, || {
            let none = rustix::process::Rlimit { current: None, maximum: None };
            rustix::process::setrlimit(rustix::process::Resource::Fsize, none).unwrap();
        });
    }
    // A limit for files in place of a full disk; past it the kernel writes what fits and then
    // fails, as a disk does. In 512 bytes (POSIX sh).
    let test = std::env::current_exe().unwrap();
    let script = r#"trap '' XFSZ; ulimit -S -f 41; exec "$0" --exact a_full_disk_leaves_the_good_end --nocapture"#;
    let child = Process::new("sh").args(["-c", script]).arg(test).env("JOURNAL_TEST_FILE_LIMIT", "1").output().unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

/// A disk of its own, of 64 KiB; gone with the value.
struct TinyDisk(TempDir);

impl TinyDisk {
    fn mount() -> Option<TinyDisk> {
        let disk = tempfile::tempdir().unwrap();
        let status = Process::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(disk.path()).status().ok()?;
        status.success().then_some(TinyDisk(disk))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Process::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_really_full_disk_leaves_the_good_end() {
    let Some(disk) = TinyDisk::mount() else {
        eprintln!("skipped: root, to mount a tmpfs; the limit for files stands in for it in a_full_disk_leaves_the_good_end");
        return;
    };
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![1; 24 << 10]).unwrap();
    let folder = tempfile::tempdir_in(disk.0.path()).unwrap();
    let (journal, _) = Journal::open(folder.path()).unwrap();
    let mut bench = Bench { folder, journal: Some(journal), state: Checkpoint::default(), counter: 0 };
    fill(&mut bench, || fs::remove_file(&ballast).unwrap());
    drop(bench);
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    if let Some(folder) = std::env::var_os("JOURNAL_TEST_KILLED") {
        let (mut journal, recovered) = Journal::open(Path::new(&folder)).unwrap();
        let (mut lab, mut counter) = (recovered.state.lab, 1_000 * recovered.records);
        loop {
            let events = created(&lab, &mut counter, 100);
            let sequence = journal.append(&Entry::Events(events.clone()), true).unwrap();
            events.iter().for_each(|event| lab.apply(event));
            println!("acknowledged {sequence} {}", lab.volumes.len());
            if sequence % 17 == 0 {
                journal.compact(&Checkpoint { lab: lab.clone(), balances: Balances::default() }).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut volumes = 0;
    for round in 0..12 {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_acknowledged_survives_a_kill", "--nocapture"])
            .env("JOURNAL_TEST_KILLED", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = |line: String| line.split_once("acknowledged ").map(|(_, numbers)| numbers.split(' ').nth(1).unwrap().parse::<usize>().unwrap());
        let mut seen = lines.map_while(Result::ok).filter_map(acknowledged);
        volumes = seen.by_ref().nth(round * 3).unwrap();
        child.kill().unwrap();
        // Volumes that the daemon acknowledged before the kill reached it count too.
        volumes = seen.last().unwrap_or(volumes);
        child.wait().unwrap();
        let (journal, recovered) = Journal::open(folder.path()).unwrap();
        let recovered_volumes = recovered.state.lab.volumes.len();
        // One more may be there: written, but killed before it was said.
        assert!(recovered_volumes == volumes || recovered_volumes == volumes + 1, "{recovered_volumes} volumes, {volumes} acknowledged");
        drop(journal);
    }
    assert!(volumes > 12 * 11 / 2 * 3);
}
