//! The policy's numbers and switches.
//!
//! Numbers a user may want to change are fields; the rest are constants with their source. The switches exist to
//! measure what each rule is worth (one out at a time); a runtime leaves them all on.

use std::time::Duration;

/// A step must gain this share of the affinity's own memory time (kernel: SMALLIMP 30 per mille).
pub const SMALL_GAIN: f64 = 0.030;
/// A swap must also beat the best found so far by this share (kernel: 15 per mille).
pub const SWAP_MARGIN: f64 = 0.015;
/// A new arrangement of groups must gain this share of the memory time of those it moves. A third of
/// [`SMALL_GAIN`]: it is a sum over many affinities, whose noise is smaller by the root of their number, and 0.03 left
/// two instances of 40 scattered under model A, where 9 % of the traffic is shared (0.977 of pinned, simulator).
pub const REPACK_GAIN: f64 = 0.010;
/// A node is active for a group if it has more than 1/3 of the use of the busiest (kernel: ACTIVE_NODE_FRACTION).
pub const ACTIVE_FRACTION: f64 = 1.0 / 3.0;
/// Below this it gets no shared memory; in between, a growing share: three tasks here and one there are exactly at 1/3,
/// and with a step there the last digit of a count sent extents to and fro (found by the property tests).
pub const INACTIVE_FRACTION: f64 = 0.25;
/// Interleaving moves an extent only if the target holds less than 9/10 of what the source does, relative to use. The
/// kernel's 3/4 guards against its samples; here bytes are counted, and 3/4 left two nodes at 57 to 43 (numa01: 1.06 and
/// 1.08 of hard binding under models A and B).
pub const SPREAD_HYSTERESIS: f64 = 0.9;
/// Share of an extent's bytes one affinity must have for the extent to be private (design).
pub const PRIVATE_SHARE: f64 = 0.9;
/// Share of an extent's bytes one node must have, over two windows, for it to follow (design).
pub const FOLLOW_SHARE: f64 = 2.0 / 3.0;
/// What the other nodes of a group do to a shared extent must also be at most this share of what they do to the
/// group's memory at large, for one node to count as its user. Tasks near a shared extent are faster and so touch more:
/// with all of a group's memory on one of its two nodes that node did 0.678 of the touching, and all of it would have
/// stayed there for good (numa01 under model A, 1.41 of hard binding).
pub const OTHERS_SHARE: f64 = 0.5;
/// A copy must pay this many times (design: twice, there and maybe back).
pub const PAY_TIMES: f64 = 2.0;
/// Windows an away node must persist before its touches count as use (design).
pub const AWAY_WINDOWS: u8 = 3;
/// First pause of a churning extent; doubles with every further churn. Ten passes at the fastest pace would not see
/// a slow churn; 8 s keeps a reshuffle every 0.5 s under 1 % of touched bytes (simulator).
pub const CHURN_PAUSE: Duration = Duration::from_secs(8);
/// Longest pause of a churning extent.
pub const CHURN_PAUSE_MAX: Duration = Duration::from_secs(600);
/// Spell over which the cost of copying is spread when a home is judged, and the longest an extent is expected to
/// stay with its owner: 60 s, the longest a pass may be away, so a home is kept at least that long once things are settled.
/// With 30 s 3 of 20 seeds of two instances of 40 warehouses of 400 MiB stayed scattered (model A, 0.976 of pinned), with 45 s
/// one did, with 60 and 90 s none.
pub const HORIZON: Duration = Duration::from_secs(60);
/// Half-life of what is remembered of each node's capacity. Stealing answers a neighbour at once; homes, whose change is
/// judged over [`HORIZON`], answer one that stays. With neighbours that take 0 to 2 of 10 CPUs, anew each second, the
/// balancer without this moved 300 % to 2,500 % of the memory per minute (simulator).
pub const CAPACITY_HALF_LIFE: Duration = Duration::from_secs(10);
/// How long an extent that never churned is expected to stay with its owner, at the least. The kernel moves pages in
/// the first four scans without asking; a third of the horizon does the same for anything that is used at all. Without
/// it a machine congested by one node's memory waits 8 s before the copies seem to pay (simulator, seed 0 IV).
pub const FRESH_STAY: Duration = Duration::from_secs(10);
/// A group fits a node set if it uses at most this much more than the nodes have: CPU time is measured, not exact.
pub const FIT_SLACK: f64 = 0.05;
/// And at most by half a task: 25 tasks on 24 CPUs fit within 5 %, and the slowest of them ends 4 % late (numa02).
pub const FIT_SLACK_CPUS: f64 = 0.5;
/// An affinity that was moved is left alone by single moves and swaps for this long: its statistics are of its old
/// home (kernel 3.13's lesson: the statistics still say the old node, the task goes back).
pub const RESETTLE: Duration = Duration::from_secs(1);
/// A plan whose predicted time is off by more than this share was made for another input: homes that were left may be
/// taken again at once. Otherwise not within [`HORIZON`], over which leaving them was judged.
pub const INPUT_CHANGED: f64 = 0.1;
/// Latency of a local line, for turning bytes into time: the order of all current machines (reference 8.6: 0.1 us).
pub const LOCAL_LINE_S: f64 = 100e-9;
/// Bytes of a line.
pub const LINE: f64 = 64.0;
/// Local memory time is at most this share of an affinity's CPU time: declared bytes may hit the caches.
pub const MAX_STALL: f64 = 0.9;
/// Lines per second and CPU of a controller of unknown bandwidth: 2 GB/s per CPU, low for any server since 2012.
pub const DEFAULT_LINES_PER_CPU: f64 = 32e6;
/// Least lines per second of a node with memory and of unknown bandwidth: 10 GB/s, one memory channel.
pub const DEFAULT_LINES_MIN: f64 = 160e6;
/// Seconds of cold caches a moved affinity pays: 1 ms refills a 2 MiB L2 from remote memory.
pub const MOVE_S: f64 = 1e-3;
/// Share of a node's memory that migration leaves free (kernel keeps its high watermark; 1/16 as its tiering does).
pub const FREE_SHARE: f64 = 1.0 / 16.0;
/// Placements tried per pass at most: each takes 0.2 to 2 us.
pub const MAX_TRIALS: usize = 8_000;
/// Extents one plan moves at most.
pub const MAX_EXTENT_MOVES: usize = 65_536;
/// Local share above which a pass counts as local (kernel: PERIOD_THRESHOLD 7 of 10).
pub const LOCAL_THRESHOLD: f64 = 0.7;

/// Which rules are in force. All on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Groups get home sets.
    pub group_step: bool,
    /// Single affinities move.
    pub moves: bool,
    /// Sets of affinities swap.
    pub swaps: bool,
    /// Extents follow and spread.
    pub extents: bool,
    /// Shared extents spread over the active nodes.
    pub interleave: bool,
    /// Small imbalance is allowed.
    pub small_imbalance: bool,
    /// Copies must pay, and churning extents rest.
    pub payback: bool,
    /// Statistics decay by time and volume; off: they halve per pass (T7).
    pub time_decay: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            group_step: true,
            moves: true,
            swaps: true,
            extents: true,
            interleave: true,
            small_imbalance: true,
            payback: true,
            time_decay: true,
        }
    }
}

/// How the policy is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Decides ties; any number.
    pub seed: u64,
    /// Half-life of the statistics (design: 2 s).
    pub half_life: Duration,
    /// Shortest time between passes (kernel: 100 ms).
    pub min_pass: Duration,
    /// Longest (kernel: 60 s).
    pub max_pass: Duration,
    /// Bytes per second the machine can migrate: what a copy costs (2 GB/s: one core copying, measured by many).
    pub migration_bytes_per_s: f64,
    /// Which rules are in force.
    pub rules: Rules,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 0,
            half_life: Duration::from_secs(2),
            min_pass: Duration::from_millis(100),
            max_pass: Duration::from_secs(60),
            migration_bytes_per_s: 2e9,
            rules: Rules::default(),
        }
    }
}
