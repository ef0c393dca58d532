//! Time: the clock behind `home_delay` (which a test may turn by hand), and cheap stamps for the scheduler itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The clock by which a foreign node measures [`HomeDelay`](crate::HomeDelay).
///
/// ```
/// use std::time::Duration;
/// let (clock, hand) = numart_runtime::Clock::manual();
/// hand.advance(Duration::from_millis(5));
/// # let _ = clock;
/// ```
#[derive(Clone, Default)]
pub struct Clock(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<AtomicU64>),
}

/// Turns a [`Clock::manual`].
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock {
    /// The machine's monotonic clock: the default.
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// A clock that stands still until it is advanced, for tests.
    pub fn manual() -> (Clock, ManualClock) {
        let time = Arc::new(AtomicU64::new(0));
        (Clock(Source::Manual(time.clone())), ManualClock(time))
    }

    pub(crate) fn now(&self) -> Duration {
        match &self.0 {
            Source::System => start().elapsed(),
            Source::Manual(time) => Duration::from_nanos(time.load(Ordering::SeqCst)),
        }
    }

    /// How long a thread may really sleep until `wait` has passed on this clock. Nobody tells a sleeper that a manual
    /// clock was turned, so it looks every millisecond.
    pub(crate) fn sleep_for(&self, wait: Duration) -> Duration {
        match &self.0 {
            Source::System => wait,
            Source::Manual(_) => Duration::from_millis(1),
        }
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock::system",
            Source::Manual(_) => "Clock::manual",
        })
    }
}

fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Nanoseconds since the first call, for statistics (a vDSO call: about 25 ns).
pub(crate) fn nanos() -> u64 {
    start().elapsed().as_nanos() as u64
}

/// A coarse stamp for "a few microseconds ago?": the CPU's own counter where it can be read without a system call.
#[inline]
pub(crate) fn stamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 CPU has RDTSC. (A kernel may forbid it to a process by prctl, which nobody does by chance.)
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    nanos()
}

/// About five microseconds in [`stamp`] units: 16,384 ticks are 4 to 8 us on counters of 2 to 4 GHz. It need not be
/// exact: it separates joins a few ns apart from work that is worth a wake-up (2 to 5 us here).
pub(crate) const COARSE: u64 = if cfg!(target_arch = "x86_64") { 16_384 } else { 5_000 };
