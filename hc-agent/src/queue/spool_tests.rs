// SPDX-License-Identifier: Apache-2.0

use tempfile::TempDir;

use super::super::directory::{REJECTED, parse_delta_name, read_snapshot};
use super::*;

fn key(number: u64) -> Key {
    Key::new(number).unwrap()
}

struct Directory {
    folder: TempDir,
}

impl Directory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn open(&self) -> Spool {
        Spool::open(self.folder.path(), Metrics::default()).unwrap()
    }

    fn deltas(&self) -> Vec<QueueFile> {
        let names = list_deltas(self.folder.path()).unwrap();
        names
            .iter()
            .map(|(boot, first)| {
                let path = self.folder.path().join(delta_name(*boot, *first));
                let file = format::decode(&fs::read(path).unwrap()).unwrap();
                assert_eq!((file.boot, file.first_sequence), (*boot, *first));
                file
            })
            .collect()
    }

    fn snapshot(&self) -> QueueFile {
        read_snapshot(self.folder.path()).unwrap().unwrap()
    }

    fn state(&self, number: u64) -> Option<(State, bool)> {
        let file = self.snapshot();
        let record = file.records.iter().find(|r| r.key == key(number))?;
        Some((record.state, record.verified))
    }
}

fn verdict(state: State, reason: Reason, detail: u16) -> Verdict {
    Verdict {
        state,
        verified: true,
        reason,
        detail,
    }
}

fn up(spool: &mut Spool, number: u64, now: Instant) {
    let mut keys: Vec<_> = spool.entries.iter().map(|e| e.record.key).collect();
    keys.push(key(number));
    keys.sort_unstable();
    keys.dedup();
    spool.set_keys(&keys, now);
    spool.report(key(number), verdict(State::Up, Reason::NONE, 200), now);
}

fn down(spool: &mut Spool, number: u64, now: Instant) {
    spool.report(key(number), verdict(State::Down, Reason::REFUSED, 0), now);
}

/// A time at which everything is due.
fn later(now: Instant) -> Instant {
    now + 2 * PAUSE
}

#[test]
fn names_are_parsed_as_they_are_written() {
    assert_eq!(
        parse_delta_name(&delta_name(7, u64::MAX)),
        Some((7, u64::MAX))
    );
    for name in [
        "",
        "snapshot",
        "7-1.delta",
        "+000000000000007-0000000000000001.delta",
    ] {
        assert_eq!(parse_delta_name(name), None, "{name}");
    }
    assert_eq!(parse_delta_name(&delta_name(0xab, 1).to_uppercase()), None);
}

#[test]
fn changes_of_ten_milliseconds_share_a_delta() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let now = Instant::now();
    up(&mut spool, 1, now);
    up(&mut spool, 2, now);
    down(&mut spool, 1, now);
    assert!(spool.deadline().unwrap() <= now + COLLECT_TIME);
    spool.flush(now + COLLECT_TIME);

    let deltas = directory.deltas();
    assert_eq!(deltas.len(), 1);
    let records = &deltas[0].records;
    assert_eq!(records.len(), 2, "only the last state of a check");
    assert_eq!((records[0].key, records[0].state), (key(1), State::Down));
    assert!(records.iter().all(|r| r.verified));

    down(&mut spool, 2, now);
    spool.flush(later(now));
    let deltas = directory.deltas();
    assert_eq!(deltas[1].first_sequence, deltas[0].last_sequence + 1);
    assert_eq!(directory.snapshot().last_sequence, 3);
    assert_eq!(spool.deadline(), None);
}

#[test]
fn a_restart_keeps_states_unverified() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let first = spool.boot();
    up(&mut spool, 1, Instant::now());
    assert!(spool.close());
    assert_eq!(directory.state(1), Some((State::Up, true)));

    let spool = directory.open();
    assert!(spool.boot() > first);
    assert_eq!(spool.state(key(1)), Some(State::Up));
    assert_eq!(directory.state(1), Some((State::Up, false)));
    assert_eq!(directory.snapshot().last_sequence, 0);
}

#[test]
fn deltas_after_the_snapshot_count_after_a_kill() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let now = Instant::now();
    up(&mut spool, 1, now);
    spool.flush(later(now));
    down(&mut spool, 1, now);
    spool.write_delta(now);
    drop(spool);
    assert_eq!(directory.state(1), Some((State::Up, true)), "the older one");

    assert_eq!(directory.open().state(key(1)), Some(State::Down));
}

#[test]
fn boots_grow_even_if_the_clock_does_not() {
    let directory = Directory::new();
    let far = u64::MAX - 10;
    let record = Record {
        key: key(1),
        sequence: 1,
        time_ns: 1,
        state: State::Up,
        reason: Reason::NONE,
        verified: true,
        detail: 0,
    };
    let header = Header {
        kind: FileKind::Delta,
        boot: far,
        first_sequence: 1,
        last_sequence: 1,
        stretch_percent: 0,
    };
    let data = format::encode(header, [record].into_iter());
    fs::write(directory.folder.path().join(delta_name(far, 1)), data).unwrap();
    assert_eq!(directory.open().boot(), far + 1);
    assert_eq!(directory.open().boot(), far + 2);
}

#[test]
fn a_second_writer_is_refused() {
    let directory = Directory::new();
    let _spool = directory.open();
    let second = Spool::open(directory.folder.path(), Metrics::default());
    assert!(matches!(second, Err(SpoolError::InUse(_))));
}

#[test]
fn broken_snapshots_are_set_aside() {
    let directory = Directory::new();
    let mut spool = directory.open();
    up(&mut spool, 1, Instant::now());
    spool.close();
    let path = directory.folder.path().join(SNAPSHOT);
    let data = fs::read(&path).unwrap();
    fs::write(&path, &data[..data.len() - 1]).unwrap();

    let spool = directory.open();
    assert_eq!(spool.state(key(1)), None);
    let rejected = directory.folder.path().join(REJECTED);
    assert_eq!(
        fs::read(rejected.join(SNAPSHOT)).unwrap().len(),
        data.len() - 1
    );
    let reason = fs::read_to_string(rejected.join("snapshot.reason")).unwrap();
    assert!(reason.starts_with("torn"), "{reason}");
}

#[test]
fn checks_that_go_leave_the_snapshot() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let now = Instant::now();
    up(&mut spool, 1, now);
    up(&mut spool, 2, now);
    spool.set_keys(&[key(2)], now);
    down(&mut spool, 1, now);
    spool.flush(later(now));

    assert_eq!(directory.state(1), None);
    assert_eq!(directory.deltas()[0].records.len(), 1);
}

#[test]
fn a_dead_handler_costs_a_bounded_number_of_files() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let mut now = Instant::now();
    up(&mut spool, 1, now);
    for i in 0..MAX_PENDING + 50 {
        if i % 2 == 0 {
            down(&mut spool, 1, now);
        } else {
            up(&mut spool, 1, now);
        }
        now += COLLECT_TIME;
        spool.write_delta(now);
    }
    assert_eq!(directory.deltas().len(), MAX_PENDING);
    down(&mut spool, 1, now);
    now = later(now);
    spool.flush(now);
    let snapshot = directory.snapshot();
    assert_eq!(snapshot.records[0].state, State::Down);
    assert_eq!(snapshot.last_sequence, MAX_PENDING as u64 + 1);

    // The handler comes back; the next delta shows the gap.
    for (boot, first) in list_deltas(directory.folder.path()).unwrap() {
        fs::remove_file(directory.folder.path().join(delta_name(boot, first))).unwrap();
    }
    up(&mut spool, 1, now);
    spool.flush(later(now));
    let deltas = directory.deltas();
    assert_eq!(deltas.len(), 1);
    assert_eq!(deltas[0].first_sequence, MAX_PENDING as u64 + 2);
}

#[test]
fn changes_that_cannot_be_written_are_kept_and_written_later() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let now = Instant::now();
    // A directory at the temporary name makes every write fail, even for root.
    let obstacle = directory.folder.path().join(".tmp-writer");
    fs::create_dir(&obstacle).unwrap();
    up(&mut spool, 1, now);
    spool.flush(later(now));
    assert!(directory.deltas().is_empty());
    assert!(directory.snapshot().records.is_empty());
    let retry = spool.deadline().unwrap();
    assert!(retry > later(now));

    fs::remove_dir(&obstacle).unwrap();
    spool.flush(retry);
    assert_eq!(
        directory.deltas()[0].first_sequence,
        1,
        "no number was lost"
    );
    assert_eq!(directory.state(1), Some((State::Up, true)));
}

#[test]
fn unsure_states_and_the_stretch_are_in_the_snapshot_alone() {
    let directory = Directory::new();
    let mut spool = directory.open();
    let now = Instant::now();
    assert_eq!(directory.snapshot().stretch_percent, 100);
    spool.set_keys(&[key(1)], now);
    let unsure = Verdict {
        verified: false,
        ..verdict(State::Up, Reason::NONE, 0)
    };
    spool.report(key(1), unsure, now);
    spool.stretch(250, now);
    spool.flush(later(now));
    assert!(directory.deltas().is_empty());
    assert_eq!(directory.state(1), Some((State::Up, false)));
    assert_eq!(directory.snapshot().stretch_percent, 250);
}
