//! The standard TPROC-C, against transactions drawn call by call from TPC-C's rules, and its cache.

use headrace_sim::mysql::costs::ClientHost;
use headrace_sim::mysql::tprocc::Tprocc;
use headrace_sim::mysql::{Database, WarmUp};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

const GIB: f64 = 1_073_741_824.0;

fn database(warehouses: f64) -> Database {
    Tprocc { warehouses, ..Tprocc::default() }.database().unwrap()
}

/// Touches and changes of a call, by adding up the statements by hand: of 23 calls 10 are new
/// orders (10 lines of stock, 10 items, a customer), 10 payments (2.2 customers), and one each an
/// order status (2.2 customers), a delivery (10 customers) and a stock level (200 of stock).
#[test]
fn a_call_touches_what_its_statements_say() {
    let database = database(1_000.0);
    let dirtying = database.dirtying.as_ref().unwrap();
    let stock_pages = 1_000.0 * 100_000.0 / 45.0;
    let (class, share) = (database.popularity.classes[0], dirtying.changed[0]);
    let (pages, touches) = (class.pages, class.pages * class.touches_per_tx);
    let changes = share * touches;
    assert!((pages / stock_pages - 1.0).abs() < 1e-9, "{pages} pages of stock");
    assert!((touches - (10.0 * 10.0 + 200.0) / 23.0).abs() < 1e-9, "{touches}");
    assert!((changes - 100.0 / 23.0).abs() < 1e-9, "{changes}");
    assert!((dirtying.flush_per_tx - database.writes.flush_per_tx).abs() < 1e-12);
}

/// By hand, statements of 23 calls: 10 x 45 of new orders, 10 x 7.6 of payments, 2.6, 70 and 2 of
/// the others, 600.6 in all. A payment has its warehouse for all of its 7.6 and its district for
/// 5.6, a new order its district for 44; of 21 commits 10 are of each.
#[test]
fn payments_and_new_orders_lock_their_rows() {
    let rows = database(100.0).hot_rows;
    let by_hand = [(100.0, 76.0 / 600.6, 10.0 / 21.0), (1_000.0, 496.0 / 600.6, 20.0 / 21.0)];
    assert_eq!(rows.len(), 2);
    for (kind, (count, at_work, at_commit)) in rows.iter().zip(by_hand) {
        assert!((kind.rows - count).abs() < 1e-9 && (kind.at_work - at_work).abs() < 1e-12 && (kind.at_commit - at_commit).abs() < 1e-12, "{kind:?}");
    }
}

/// data/mysql/standards.csv, MySQL: the call, and of the 66 statements of 23 calls those besides
/// them, half of them brackets and half point selects; 0.013 ms of a core for each round trip, and
/// 0.058 and 0.082 of waiting over a network. The client does not wait for a tenth of the call.
#[test]
fn a_call_takes_of_processors_what_its_statements_do() {
    let statements = 66.0 / 23.0;
    let by_hand = 1.966 + 0.5 * (statements - 1.0) * (0.01472 + 0.03399);
    for (client_host, core_ms, away_ms) in
        [(ClientHost::Same, 0.013, 0.0), (ClientHost::Network, 0.058, 0.082), (ClientHost::Region, 0.058, (0.15 + 2.0 * (0.75 + 0.133)) / 3.0)]
    {
        let clients = Tprocc { client_host, ..Tprocc::default() }.database().unwrap().clients;
        let core_ms = by_hand + statements * core_ms;
        assert!((clients.cpu_ms - core_ms / 0.685).abs() < 1e-9, "{}", clients.cpu_ms);
        let background_ms = 0.1 * 1.966;
        assert!((clients.base_ms - (core_ms - background_ms) - statements * away_ms).abs() < 1e-9, "{}", clients.base_ms);
        assert!((clients.background_share - background_ms / core_ms).abs() < 1e-12 && (clients.io_ms - 0.03 / 0.685).abs() < 1e-12, "{clients:?}");
    }
}

/// NURand(1023, 1, 3000) of clause 2.1.6, drawn, and the pages of 25 customers it falls on;
/// customers that are named by number are drawn so, a third of all, the others evenly: the share of
/// touches on the hottest tenth, quarter and half of the pages.
#[test]
fn customers_are_as_skewed_as_draws_of_nurand() {
    let (mut chance, mut hits, draws) = (ChaCha8Rng::seed_from_u64(7), vec![0.0f64; 120], 2_000_000);
    let by_number = (10.0 + 0.4 * 11.0) / (10.0 + 2.2 * 11.0 + 10.0);
    for draw in 0..draws {
        let mut uniform = |least: u64, most: u64| least + chance.next_u64() % (most - least + 1);
        let even = f64::from(draw) / f64::from(draws) >= by_number;
        let customer = if even { uniform(0, 2_999) } else { (uniform(0, 1_023) | uniform(1, 3_000)) % 3_000 };
        hits[customer as usize / 25] += 1.0;
    }
    hits.sort_by(|a, b| b.total_cmp(a));
    let drawn = |share: f64| hits[..(share * hits.len() as f64) as usize].iter().sum::<f64>() / f64::from(draws);
    let database = database(1.0);
    // Stock is the first class; customers the next 13, of five and of six bits.
    let mut classes = database.popularity.classes[1..14].to_vec();
    classes.sort_by(|a, b| b.touches_per_tx.total_cmp(&a.touches_per_tx));
    let all = classes.iter().fold((0.0, 0.0), |(pages, mass), class| (pages + class.pages, mass + class.pages * class.touches_per_tx));
    assert!((all.0 / (30_000.0 / 25.0) - 1.0f64).abs() < 1e-9 && (all.1 / (44.2 / 23.0) - 1.0).abs() < 1e-9, "{all:?}");
    let computed = |share: f64| {
        let (mut remaining, mut mass) = (share * all.0, 0.0);
        for class in &classes {
            let taken = remaining.min(class.pages);
            mass += taken * class.touches_per_tx;
            remaining -= taken;
        }
        mass / all.1
    };
    for share in [0.1, 0.25, 0.5] {
        // Draws scatter by 3e-4. Bits of a page that begins anywhere are no whole number, and 3,000
        // is not a multiple of 1,024: some 5 % of the third that is drawn by NURand, and as much for
        // pages that lie across an edge.
        assert!((drawn(share) - computed(share)).abs() < 0.035, "the hottest {share}: {} drawn, {} worked out", drawn(share), computed(share));
    }
}

/// A small pool: a page leaves as it came. Stock is changed by 100 of 300 touches, customers by 20
/// of 44.2: a third of what is evicted is dirty. A large one: pages that stay are changed sooner or
/// later.
#[test]
fn pages_that_stay_longer_leave_dirtier() {
    let mut database = database(1_000.0);
    // Without a redo log that makes anything be written.
    database.dirtying.as_mut().unwrap().window_tx = 1e12;
    let settled = |gib: f64| {
        let warm_up = WarmUp::new(&database, gib * GIB);
        let at = warm_up.at(warm_up.settled_tx(), &mut 0);
        at.evicted_dirty / at.reads
    };
    let (small, middle, large) = (settled(2.0), settled(20.0), settled(45.0));
    // 0.333 of stock and 0.45 of customers: between them, and next to nothing else is read.
    assert!((0.32..0.42).contains(&small), "{small}");
    assert!(small < middle && middle < large && large < 1.0, "{small} {middle} {large}");
}

/// A shorter redo log has pages written more often, and less is left for eviction; together a page
/// changed once is written once.
#[test]
fn a_shorter_redo_log_writes_more() {
    let mut last = f64::INFINITY;
    for redo_gib in [0.1, 1.0, 8.0, 64.0] {
        let database = Tprocc { warehouses: 500.0, redo_gib: Some(redo_gib), ..Tprocc::default() }.database().unwrap();
        let warm_up = WarmUp::new(&database, 20.0 * GIB);
        let at = warm_up.at(warm_up.settled_tx(), &mut 0);
        let written = at.evicted_dirty + at.flushed;
        assert!(written < last * (1.0 + 1e-6), "{redo_gib} GiB: {written} after {last}");
        // No more than are changed: 4.35 of stock, 0.87 of customers and 3 of others.
        assert!(written > 0.5 && written < 8.5, "{redo_gib} GiB: {at:?}");
        last = written;
    }
}
