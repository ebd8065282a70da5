//! The Prometheus text against a strict reader, the endpoint against clients that mean no good.

use headrace_daemon::metrics::http::{serve, Server};
use headrace_daemon::metrics::{Extra, Gauges, Store, VolumeGauges};
use headrace_device::meter::{bucket_of, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

type Labels = BTreeMap<String, String>;

/// Reads the text format 0.0.4 as strictly as its rules are written: families in one piece, HELP and TYPE first, no series twice.
fn read(text: &str) -> BTreeMap<String, Vec<(String, Labels, f64)>> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Vec<(String, Labels, f64)>> = BTreeMap::new();
    let (mut types, mut seen, mut family) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && !help.contains('\\'));
            family = name.to_string();
            assert!(families.insert(family.clone(), Vec::new()).is_none(), "{name} comes twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind}");
            types.insert(name.to_string(), kind.to_string());
        } else {
            let (name, labels, value) = sample(line);
            let base = if types[&family] == "histogram" {
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or_else(|| panic!("{name} in a histogram"))
            } else {
                &name
            };
            assert_eq!(base, family, "{line}");
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            families.get_mut(&family).unwrap().push((name, labels, value));
        }
    }
    families
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let name = &line[..end];
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.as_bytes()[0].is_ascii_digit());
    let (mut labels, mut rest) = (Labels::new(), &line[end..]);
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let at = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        same @ ('\\' | '"') => same,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, same) => value.push(same),
                }
            };
            assert!(labels.insert(label.to_string(), value).is_none());
            rest = &after[at + 1..];
            match rest.as_bytes()[0] {
                b',' => rest = &rest[1..],
                b'}' => break rest = &rest[1..],
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    (name.to_string(), labels, value.parse().unwrap_or_else(|_| panic!("{value} in {line}")))
}

fn busy() -> Sample {
    let mut sample = Sample { span_ns: 1_000_000_000, ops: [4, 2], bytes: [16_384, 8_192], time_ns: [2_000_000, 1], idle_ns: 250_000_001, ..Sample::empty() };
    sample.exceeded_ns = [0, 1_000_000_000, 2, 0, 3, 4, 0, 0, 5, 0];
    for took in [1, 300_000, 500_000_000, 200_000_000_000] {
        sample.latency[0][1][bucket_of(took)] += 1;
    }
    sample.latency[1][0][bucket_of(800_000)] += 2;
    sample.late[bucket_of(40_000)] += 6;
    sample
}

#[test]
fn the_exposition_reads_as_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (volume, member) in [("vol-a", None), ("vol-a", Some(0)), ("vol-b", None)] {
        for t_s in 0..3 {
            store.record(volume, member, t_s, &busy(), &Extra::default()).unwrap();
        }
    }
    let odd = "a\\b\"c\nd";
    let attached = [("vol-a", None, Some(25.0)), ("vol-a", Some(0), None), (odd, None, Some(100.0))];
    let volumes = attached.map(|(volume, member, balance_percent)| VolumeGauges { volume: volume.to_string(), member, queue_length: 9, balance_percent });
    let text = store.exposition(&Gauges { volumes: volumes.to_vec(), instance_ios_percent: Some(50.0), instance_bytes_percent: None });
    let families = read(&text);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels: Labels = labels.iter().map(|&(label, value)| (label.to_string(), value.to_string())).collect();
        let of = ["_bucket", "_sum", "_count"].iter().find_map(|end| families.get(name.strip_suffix(end)?)).unwrap_or_else(|| &families[name]);
        of.iter().find(|sample| sample.0 == name && sample.1 == labels).unwrap_or_else(|| panic!("no {name} {labels:?}")).2
    };
    let of_a = [("volume_id", "vol-a")];
    for (name, wanted) in [
        ("aws_ebs_csi_read_ops_total", 12.0),
        ("aws_ebs_csi_write_ops_total", 6.0),
        ("aws_ebs_csi_read_bytes_total", 49_152.0),
        ("aws_ebs_csi_write_bytes_total", 24_576.0),
        ("aws_ebs_csi_read_seconds_total", 0.006),
        ("aws_ebs_csi_write_seconds_total", 3e-9),
        // Volume IOPS and I/O credits.
        ("aws_ebs_csi_exceeded_iops_seconds_total", 3.0),
        ("aws_ebs_csi_exceeded_tp_seconds_total", 6e-9),
        ("aws_ebs_csi_ec2_exceeded_iops_seconds_total", 9e-9),
        ("aws_ebs_csi_ec2_exceeded_tp_seconds_total", 12e-9),
        ("aws_ebs_csi_volume_queue_length", 9.0),
        ("headrace_volume_balance_ratio", 0.25),
        ("headrace_idle_seconds_total", 0.750_000_003),
        ("aws_ebs_csi_read_io_latency_seconds_count", 12.0),
        ("aws_ebs_csi_read_io_latency_seconds_sum", 0.006),
        ("headrace_late_seconds_count", 18.0),
    ] {
        assert_eq!(value(name, &of_a), wanted, "{name}");
    }
    assert_eq!(value("aws_ebs_csi_read_ops_total", &[("volume_id", "vol-a"), ("member", "0")]), 12.0);
    assert_eq!(value("headrace_volume_balance_ratio", &[("volume_id", odd)]), 1.0);
    assert_eq!(value("headrace_instance_balance_ratio", &[("credits", "ios")]), 0.5);
    assert_eq!(value("headrace_waiting_seconds_total", &[("volume_id", "vol-b"), ("cap", "degraded")]), 15e-9);
    let le = |bound: &str| value("aws_ebs_csi_read_io_latency_seconds_bucket", &[("volume_id", "vol-a"), ("le", bound)]);
    // 1 ns, 300 us, 0.5 s and 200 s, three times each.
    assert_eq!([le("0.000016"), le("0.000256"), le("0.000384"), le("0.524288"), le("67.108864"), le("+Inf")], [3.0, 3.0, 6.0, 9.0, 9.0, 12.0]);
    for (name, samples) in &families {
        let mut last: BTreeMap<Labels, (f64, f64)> = BTreeMap::new();
        for (_, labels, count) in samples.iter().filter(|sample| sample.0 == format!("{name}_bucket")) {
            let mut series = labels.clone();
            let bound: f64 = series.remove("le").unwrap().parse().unwrap();
            let before = last.insert(series, (bound, *count)).unwrap_or((f64::NEG_INFINITY, 0.0));
            assert!(bound > before.0 && *count >= before.1, "{name} {labels:?}");
        }
        assert!(last.values().all(|(bound, _)| bound.is_infinite()));
    }
}

fn server() -> Server {
    serve("127.0.0.1:0".parse().unwrap(), || "headrace_up 1\n".to_string()).unwrap()
}

/// What is answered to these bytes, all of it.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn metrics_are_answered_and_nothing_else() {
    let server = server();
    let good = ask(server.address(), b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(good.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 14\r\n"), "{good}");
    assert!(good.ends_with("\r\n\r\nheadrace_up 1\n"));
    for (request, wanted) in [
        (&b"GET /metrics HTTP/1.0\r\n\r\n"[..], "200"),
        (b"GET /metrics?name[]=x HTTP/1.1\r\n\r\n", "200"),
        (b"GET / HTTP/1.1\r\n\r\n", "404"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
        (b"GET /../metrics HTTP/1.1\r\n\r\n", "404"),
        (b"GET /%6detrics HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"DELETE /nothing HTTP/1.1\r\n\r\n", "405"),
        (b"get /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1 x\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\nno field\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\n folded: x\r\n\r\n", "400"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\0b\r\n\r\n", "400"),
        (b"GET /m\xff HTTP/1.1\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"),
    ] {
        assert_eq!(status(&ask(server.address(), request)), wanted, "{}", String::from_utf8_lossy(request));
    }
    assert!(ask(server.address(), b"PUT /metrics HTTP/1.1\r\n\r\n").contains("\r\nAllow: GET\r\n"));
}

#[test]
fn heads_of_any_length_and_any_bytes() {
    let server = server();
    let padded = |bytes: usize| {
        let mut head = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
        head.resize(bytes - 4, b'x');
        head.extend(b"\r\n\r\n");
        head
    };
    assert_eq!(status(&ask(server.address(), &padded(8 << 10))), "200");
    assert_eq!(status(&ask(server.address(), &padded((8 << 10) + 1))), "431");
    assert_eq!(status(&ask(server.address(), &vec![b'a'; 40_000])), "431");
    let mut seed = 0x1234_5678_9abc_def1u64;
    for round in 0..300 {
        let noise: Vec<u8> = (0..round * 7 % 900)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .chain(*b"\r\n\r\n")
            .collect();
        assert_eq!(status(&ask(server.address(), &noise)), "400", "round {round}");
    }
    // A body nobody reads does not cost the client its answer.
    let mut long = b"POST /metrics HTTP/1.1\r\nContent-Length: 60000\r\n\r\n".to_vec();
    long.resize(60_000, b'b');
    assert_eq!(status(&ask(server.address(), &long)), "405");
}

#[test]
fn the_slow_and_the_many_are_bounded() {
    let server = server();
    let address = server.address();
    let from = Instant::now();
    let slow: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    // They hold all places as soon as they are accepted; connections are accepted in order.
    assert_eq!(status(&ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")), "503");
    // A byte now and then does not buy more time: 2 s for the whole head.
    let mut ends = Vec::new();
    for mut stream in slow {
        ends.push(std::thread::spawn(move || {
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut answer = Vec::new();
            for byte in b"GET /metrics HTTP/1.1\r\nX: ".iter().cycle().take(30) {
                let _ = stream.write_all(&[*byte]);
                let mut buffer = [0; 512];
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => answer.extend_from_slice(&buffer[..read]),
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => break,
                }
            }
            String::from_utf8(answer).unwrap()
        }));
    }
    for end in ends {
        assert_eq!(status(&end.join().unwrap()), "408");
    }
    // 2 s for the head and 2 s until it is let go, and what a busy machine adds.
    assert!((Duration::from_secs(2)..Duration::from_secs(8)).contains(&from.elapsed()), "{:?}", from.elapsed());
    let deadline = Instant::now() + Duration::from_secs(5);
    while status(&ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")) != "200" {
        assert!(Instant::now() < deadline, "places were not given back");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_does_not_read_is_let_go() {
    let text = "x 1\n".repeat(8 << 20);
    let server = serve("127.0.0.1:0".parse().unwrap(), move || text.clone()).unwrap();
    let mut deaf = TcpStream::connect(server.address()).unwrap();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let mut got = Vec::new();
    let _ = deaf.read_to_end(&mut got);
    // 32 MiB do not fit the sockets' buffers: the answer was cut, not waited for.
    assert!(got.len() < 30 << 20, "{}", got.len());
}

#[test]
fn stopped_is_gone_and_outside_is_refused() {
    let server = server();
    let address = server.address();
    let mut waiting = TcpStream::connect(address).unwrap();
    assert_eq!(status(&ask(address, b"GET /metrics HTTP/1.1\r\n\r\n")), "200");
    let from = Instant::now();
    server.stop();
    // An open connection does not hold it up; the head's 2 s would.
    assert!(from.elapsed() < Duration::from_millis(1_500), "{:?}", from.elapsed());
    assert!(matches!(waiting.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    for outside in ["0.0.0.0:0", "10.0.0.1:9464", "[::]:0"] {
        let error = serve(outside.parse().unwrap(), String::new).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("127.0.0.1"));
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(serve(taken.local_addr().unwrap(), String::new).err().unwrap().kind(), ErrorKind::AddrInUse);
}

#[test]
fn a_text_that_panics_costs_one_connection() {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let server = serve("127.0.0.1:0".parse().unwrap(), move || {
        assert!(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 10, "the first ten fail");
        "x 1\n".to_string()
    })
    .unwrap();
    for nth in 0..12 {
        let answer = ask(server.address(), b"GET /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(status(&answer), if nth < 10 { "none" } else { "200" });
    }
}
