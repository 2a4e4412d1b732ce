// SPDX-License-Identifier: Apache-2.0
//! Counters of this process, and an HTTP responder for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::shard::probe_stats::{DelayHistogram, ProbeStats};
use crate::state::State;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ProbeLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// A histogram that is fed with whole batches counted by threads.
#[derive(Clone, Debug, Default)]
struct LatenessHistogram(Arc<Mutex<DelayHistogram>>);

impl LatenessHistogram {
    /// Upper bounds of its buckets.
    const BOUNDS_MS: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 500, 1000, 5000];

    fn add(&self, delays: &DelayHistogram) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(delays);
    }
}

impl EncodeMetric for LatenessHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buckets = Vec::new();
        let mut below = 0;
        for bound in Self::BOUNDS_MS {
            let within = delays.within(Duration::from_millis(bound.into()));
            buckets.push((f64::from(bound) / 1000.0, within - below));
            below = within;
        }
        buckets.push((f64::INFINITY, delays.total() - below));
        encoder.encode_histogram::<NoLabelSet>(
            delays.sum().as_secs_f64(),
            delays.total(),
            &buckets,
            None,
        )
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// All metrics. Clones share their values.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    probes: Family<ProbeLabels, Counter>,
    discarded: Family<ResultLabel, Counter>,
    transitions: Family<StateLabel, Counter>,
    checks: Family<StateLabel, Gauge>,
    in_flight: Gauge,
    start_lateness: LatenessHistogram,
    recent_p99: Gauge<f64, AtomicU64>,
    used: Gauge<f64, AtomicU64>,
    stretch: Gauge<f64, AtomicU64>,
    panics: Gauge,
    withheld: Gauge,
    late: Counter<f64, AtomicU64>,
    skipped: Counter,
    reloads: Family<ResultLabel, Counter>,
    deltas: Counter,
    records: Counter,
    snapshots: Counter,
    write_failures: Counter,
    pending: Gauge,
}

impl Metrics {
    /// Fresh counters.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Arc::default(),
            probes: Family::default(),
            discarded: Family::default(),
            transitions: Family::default(),
            checks: Family::default(),
            in_flight: Gauge::default(),
            start_lateness: LatenessHistogram::default(),
            recent_p99: Gauge::default(),
            used: Gauge::default(),
            stretch: Gauge::default(),
            panics: Gauge::default(),
            withheld: Gauge::default(),
            late: Counter::default(),
            skipped: Counter::default(),
            reloads: Family::default(),
            deltas: Counter::default(),
            records: Counter::default(),
            snapshots: Counter::default(),
            write_failures: Counter::default(),
            pending: Gauge::default(),
        };
        metrics.stretch.set(1.0);
        metrics.registry = Arc::new(metrics.register());
        metrics
    }

    fn register(&self) -> Registry {
        let mut all = Registry::with_prefix("octavia_xdp_hc");
        self.register_probes(&mut all);
        self.register_load(&mut all);
        self.register_queue(&mut all);
        all
    }

    fn register_probes(&self, r: &mut Registry) {
        r.register("probes", "Probes by result", self.probes.clone());
        r.register(
            "discarded_probes",
            "Failed probes that were discarded because the node was at fault",
            self.discarded.clone(),
        );
        r.register(
            "transitions",
            "Changes of state by the new state",
            self.transitions.clone(),
        );
        r.register("checks", "Checks by state", self.checks.clone());
        r.register("in_flight_probes", "Probes now", self.in_flight.clone());
    }

    fn register_load(&self, r: &mut Registry) {
        r.register_with_unit(
            "start_lateness",
            "How much later than wanted probes start",
            Unit::Seconds,
            self.start_lateness.clone(),
        );
        r.register_with_unit(
            "recent_start_lateness_p99",
            "Lateness that 99 of 100 probes stayed below, in the last second",
            Unit::Seconds,
            self.recent_p99.clone(),
        );
        r.register(
            "utilisation",
            "Share of its time, or of its probes at a time, that the busiest thread used",
            self.used.clone(),
        );
        r.register(
            "stretch",
            "Factor on all intervals; above 1 this node cannot keep up",
            self.stretch.clone(),
        );
        r.register(
            "groups_in_panic",
            "Groups of which so many are down that none is reported down",
            self.panics.clone(),
        );
        r.register(
            "withheld_downs",
            "Checks and conditions that are down and not reported so",
            self.withheld.clone(),
        );
        r.register_with_unit(
            "late",
            "Sum of the times that this process woke too late",
            Unit::Seconds,
            self.late.clone(),
        );
        r.register(
            "skipped_intervals",
            "Probes put off because the process was far too late",
            self.skipped.clone(),
        );
    }

    fn register_queue(&self, r: &mut Registry) {
        r.register("reloads", "Checks files by result", self.reloads.clone());
        r.register("queue_deltas", "Deltas written", self.deltas.clone());
        r.register("queue_records", "Changes written", self.records.clone());
        r.register(
            "queue_snapshots",
            "Snapshots written",
            self.snapshots.clone(),
        );
        r.register(
            "queue_write_failures",
            "Files of the queue that could not be written",
            self.write_failures.clone(),
        );
        r.register(
            "queue_pending",
            "Deltas that waited for the handler at the last write, at most",
            self.pending.clone(),
        );
    }

    /// Add the counts of a thread.
    pub(crate) fn add_stats(&self, stats: &ProbeStats) {
        for (kind, reason, number) in &stats.probes {
            let result = reason.name();
            let labels = ProbeLabels { kind, result };
            self.probes.get_or_create(&labels).inc_by(*number);
        }
        for (result, number) in [
            ("late", stats.discarded_delay),
            ("local_error", stats.discarded_shortage),
            ("no_uplink", stats.discarded_uplink),
            ("icmp_limited", stats.discarded_silence),
        ] {
            let label = ResultLabel { result };
            self.discarded.get_or_create(&label).inc_by(number);
        }
        self.skipped.inc_by(stats.put_off);
        self.start_lateness.add(&stats.lateness);
    }

    /// Set the gauges of the last second.
    pub(crate) fn set_recent(&self, lateness: &DelayHistogram, used_permille: u64) {
        self.recent_p99.set(lateness.quantile(990).as_secs_f64());
        let used = u32::try_from(used_permille).unwrap_or(u32::MAX);
        self.used.set(f64::from(used) / 1000.0);
    }

    /// Set the factor on intervals.
    pub(crate) fn set_stretch(&self, stretch_permille: u32) {
        self.stretch.set(f64::from(stretch_permille) / 1000.0);
    }

    pub(crate) fn set_groups(&self, panics: usize, withheld: usize) {
        self.panics.set(i64::try_from(panics).unwrap_or(i64::MAX));
        self.withheld
            .set(i64::try_from(withheld).unwrap_or(i64::MAX));
    }

    pub(crate) fn count_change(&self, to: State) {
        let state = to.name();
        self.transitions.get_or_create(&StateLabel { state }).inc();
    }

    pub(crate) fn set_checks(&self, state: State, number: usize) {
        let state = state.name();
        self.checks
            .get_or_create(&StateLabel { state })
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_in_flight(&self, number: usize) {
        self.in_flight
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_late(&self, total: Duration) {
        let bits = total.as_secs_f64().to_bits();
        // Only this thread writes the counter, and it only grows.
        self.late.inner().store(bits, Ordering::Relaxed);
    }

    pub(crate) fn count_reload(&self, result: &'static str) {
        self.reloads.get_or_create(&ResultLabel { result }).inc();
    }

    pub(crate) fn count_delta(&self, records: usize) {
        self.deltas.inc();
        self.records.inc_by(records as u64);
    }

    pub(crate) fn count_snapshot(&self) {
        self.snapshots.inc();
    }

    pub(crate) fn count_write_failure(&self) {
        self.write_failures.inc();
    }

    pub(crate) fn set_pending(&self, deltas: usize) {
        self.pending.set(i64::try_from(deltas).unwrap_or(i64::MAX));
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Size limit of a request.
const MAX_REQUEST_BYTES: usize = 4096;
/// Time limit for a client's request and the response.
const CLIENT_TIME: Duration = Duration::from_secs(5);
/// Limit of concurrent clients.
const MAX_CLIENTS: usize = 4;

/// Serve `GET /metrics` forever.
pub async fn serve(listener: TcpListener, metrics: Metrics) {
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        let Ok(permit) = Arc::clone(&clients).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let metrics = metrics.clone();
                tokio::spawn(async move {
                    let _ = timeout(CLIENT_TIME, answer(stream, &metrics)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a client of the metrics");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let mut request = Vec::with_capacity(512);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > MAX_REQUEST_BYTES || stream.read_buf(&mut request).await? == 0
        {
            return Ok(());
        }
    }
    let known = request.starts_with(b"GET /metrics ");
    let (status, body) = if known {
        ("200 OK", metrics.text())
    } else {
        ("404 Not Found", "only GET /metrics\n".to_owned())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n\
         Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prometheus computes no quantiles of a histogram without the bucket +Inf.
    #[test]
    fn the_last_bucket_of_lateness_has_no_bound() {
        let mut stats = ProbeStats::default();
        for delay_us in [400, 7_000_000] {
            stats.lateness.count(delay_us);
        }
        let metrics = Metrics::new();
        metrics.add_stats(&stats);
        let text = metrics.text();
        let buckets: Vec<_> = text
            .lines()
            .filter_map(|line| {
                line.strip_prefix("octavia_xdp_hc_start_lateness_seconds_bucket")
            })
            .collect();
        assert_eq!(Some(&"{le=\"0.001\"} 1"), buckets.first());
        assert_eq!(Some(&"{le=\"+Inf\"} 2"), buckets.last());
    }
}
