// SPDX-License-Identifier: Apache-2.0
//! The threads that probe.

use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, oneshot};
use tracing::warn;

use super::{Failed, SourceArguments};
use crate::shard::{Settings, Shard};

/// Descriptors reserved for everything but probes.
const OTHER_DESCRIPTORS: u64 = 96;
/// Concurrent probes per connection that stays open after its result.
const PROBES_FOR_A_PARTING: u16 = 16;

/// Limits on probes.
#[derive(Clone, Debug, clap::Args)]
pub struct ProbeArguments {
    /// Limit of concurrent probes; lower if the limit of open files requires it
    #[arg(
        long,
        env = "OCTAVIA_XDP_HC_MAX_IN_FLIGHT",
        default_value_t = 16384,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) max_in_flight: u32,
    /// Number of probe threads; by default two, or one on a machine with one processor
    #[arg(
        long,
        env = "OCTAVIA_XDP_HC_THREADS",
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    threads: Option<u16>,
}

impl ProbeArguments {
    fn threads(&self) -> usize {
        let processors = std::thread::available_parallelism();
        let usual = processors.map_or(1, |n| n.get().min(2));
        self.threads.map_or(usual, usize::from)
    }
}

/// Raise the limit of open files as far as allowed; return how many probes fit.
fn room_for_probes(wanted: u32) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let most = current.map_or(u64::MAX, |n| {
        let left = n.saturating_sub(OTHER_DESCRIPTORS);
        (left - left.div_ceil(u64::from(PROBES_FOR_A_PARTING) + 1)).max(1)
    });
    if most < u64::from(wanted) {
        warn!(
            wanted,
            most, "the limit of open files reduces the number of probes"
        );
    }
    usize::try_from(most.min(wanted.into())).unwrap_or(usize::MAX)
}

struct Thread {
    shard: Arc<Shard>,
    handle: Handle,
    /// Present until the thread takes it.
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    joined: Option<JoinHandle<()>>,
}

/// All probe threads, each with its own runtime, shard and sockets.
pub struct Threads(Vec<Thread>);

impl Threads {
    /// Create the threads without starting them. All that needs privileges happens here.
    pub fn new(
        probes: &ProbeArguments,
        source: &SourceArguments,
        fast_interval_ms: Option<u64>,
        once: bool,
        events_ready: &Arc<Notify>,
    ) -> Result<Self, Failed> {
        let number = probes.threads();
        let max_in_flight = (room_for_probes(probes.max_in_flight) / number).max(1);
        let settings = Settings {
            max_in_flight,
            max_partings: max_in_flight.div_ceil(PROBES_FOR_A_PARTING.into()),
            fast_interval_ms,
            once,
        };
        let mut threads = Vec::with_capacity(number);
        let source = source.source();
        for _ in 0..number {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(1)
                .build()
                .map_err(|e| Failed::because("cannot start", e))?;
            let handle = runtime.handle().clone();
            let source = {
                let _inside = handle.enter();
                let source = source.with_own_sockets();
                source.open();
                source
            };
            threads.push(Thread {
                shard: Shard::new(settings.clone(), source, Arc::clone(events_ready)),
                handle,
                runtime: Some(runtime),
                stop: None,
                joined: None,
            });
        }
        Ok(Self(threads))
    }

    /// The shard and runtime of each thread.
    pub fn shards(&self) -> Vec<(Arc<Shard>, Handle)> {
        let pair = |thread: &Thread| (Arc::clone(&thread.shard), thread.handle.clone());
        self.0.iter().map(pair).collect()
    }

    /// Start the threads.
    pub fn start(&mut self) -> Result<(), Failed> {
        for (number, thread) in self.0.iter_mut().enumerate() {
            let Some(runtime) = thread.runtime.take() else {
                continue;
            };
            let (stop, stopped) = oneshot::channel::<()>();
            let shard = Arc::clone(&thread.shard);
            let body = move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = shard.run() => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            };
            let joined = std::thread::Builder::new()
                .name(format!("probes-{number}"))
                .spawn(body)
                .map_err(|e| Failed::because("cannot start a thread", e))?;
            thread.stop = Some(stop);
            thread.joined = Some(joined);
        }
        Ok(())
    }

    /// Wait until every thread has probed all its checks once.
    pub fn join(&mut self) {
        for thread in &mut self.0 {
            let _ = thread.joined.take().map(JoinHandle::join);
        }
    }

    /// Stop the threads and drop running probes.
    pub fn stop(&mut self) {
        for thread in &mut self.0 {
            drop(thread.stop.take());
        }
        self.join();
    }
}
