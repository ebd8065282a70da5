//! Against a real server that speaks S3: runs when `HEADRACE_TEST_S3_URL` is given, such as
//! `s3://bucket/prefix?endpoint=http://127.0.0.1:5000`, with AWS_ACCESS_KEY_ID and
//! AWS_SECRET_ACCESS_KEY.

use crate::support::{content, difference, restore, volume, BLOCK};
use headrace_store::snapshots::{delete_snapshot, sweep, upload, Capture, Manifest, BLOCK_BYTES};
use headrace_store::{Backing, Objects};
use std::io;
use std::sync::atomic::AtomicBool;

fn objects() -> Option<Objects> {
    let url = std::env::var("HEADRACE_TEST_S3_URL").ok()?;
    // A prefix of its own for each run: buckets outlive tests.
    let (place, query) = url.split_once('?').unwrap_or((&url, ""));
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    Some(Objects::open(&format!("{}/run-{run}?{query}", place.trim_end_matches('/'))).unwrap())
}

#[test]
fn a_chain_of_snapshots_in_a_bucket() {
    let Some(objects) = objects() else { return };
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::new(volume(folder.path(), "volume", 80 * BLOCK), folder.path().join("captures")).unwrap();
    (0..70).for_each(|block| capture.write(&[block as u8 + 1; BLOCK_BYTES], block * BLOCK).unwrap());
    let (mut parent, mut expected): (Option<Manifest>, Vec<Vec<u8>>) = (None, Vec::new());
    for number in 0..3u8 {
        capture.write(&[0xf0 + number; 5_000], u64::from(number) * 9 * BLOCK).unwrap();
        expected.push(content(&*capture));
        let name = format!("snap-{number}");
        let instant = capture.begin(&name).unwrap();
        let manifest = upload(&instant, &objects, &name, parent.as_ref(), None, &|_| {}, &AtomicBool::new(false)).unwrap();
        instant.finish().unwrap();
        assert_eq!(manifest.own_blocks(), if number == 0 { 70 } else { 1 });
        parent = Some(manifest);
    }
    let names: Vec<String> = (0..3).map(|number| format!("snap-{number}")).collect();
    delete_snapshot(&objects, "snap-1", &names).unwrap();
    for number in [0, 2] {
        let manifest = Manifest::load(&objects, &names[number]).unwrap();
        let restored = restore(folder.path(), &names[number], &manifest, &objects, None);
        assert_eq!(difference(&content(&restored), &expected[number]), None, "{number}");
    }
    assert_eq!(sweep(&objects, &[]).unwrap(), 0);
    delete_snapshot(&objects, "snap-0", &names[2..]).unwrap();
    delete_snapshot(&objects, "snap-2", &[]).unwrap();
    assert_eq!(objects.list("segments/").unwrap(), []);
    assert_eq!(objects.list("manifests/").unwrap(), []);
}

#[test]
fn a_bucket_keeps_what_a_folder_keeps() {
    let Some(objects) = objects() else { return };
    assert_eq!(objects.get("a/none").unwrap_err().kind(), io::ErrorKind::NotFound);
    objects.put("a/b", b"12345").unwrap();
    objects.put("a/c/d", &vec![7; 20 << 20]).unwrap();
    objects.put("ab", b"").unwrap();
    let names: Vec<_> = objects.list("a/").unwrap().into_iter().map(|listed| (listed.name, listed.bytes)).collect();
    assert_eq!(names, [("a/b".to_string(), 5), ("a/c/d".to_string(), 20 << 20)]);
    assert_eq!(objects.get_range("a/b", 1..3).unwrap(), b"23");
    assert_eq!(objects.get("a/c/d").unwrap(), vec![7; 20 << 20]);
    ["a/b", "a/c/d", "ab", "ab"].into_iter().for_each(|name| objects.delete(name).unwrap());
    // Several threads at once, each with its own objects.
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let objects = &objects;
            scope.spawn(move || {
                for number in 0..20 {
                    let name = format!("t/{thread}/{number}");
                    objects.put(&name, &[thread; 10_000]).unwrap();
                    assert_eq!(objects.get(&name).unwrap(), [thread; 10_000]);
                }
            });
        }
    });
    assert_eq!(objects.list("t/").unwrap().len(), 120);
}

/// A server that is not there is said so, after bounded tries.
#[test]
fn a_server_that_is_not_there_is_said_so() {
    if std::env::var("AWS_ACCESS_KEY_ID").is_err() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let objects = Objects::open(&format!("s3://bucket/x?endpoint=http://127.0.0.1:{port}")).unwrap();
    let error = objects.get("manifests/snap").unwrap_err().to_string();
    assert!(error.contains("s3://bucket/x") && error.contains("get manifests/snap") && error.contains("can be reached"), "{error}");
}
