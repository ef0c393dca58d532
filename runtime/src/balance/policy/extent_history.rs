//! What is remembered of each extent, and the one walk over all of them that a pass makes.
//!
//! A million extents are 70 MiB of snapshot and 64 MiB of history: walking them once is most of what a pass costs. So the walk
//! does all that every extent needs, and leaves four bytes for each, from which the planning step sees which few it must
//! look at again. No extent is left out of any decision.

use super::config::{CHURN_PAUSE, CHURN_PAUSE_MAX, FOLLOW_SHARE, FRESH_STAY, HORIZON, PRIVATE_SHARE};
use super::node_set::{MAX_NODES, NodeSet};
use super::snapshot::{Extent, NO_AFFINITY, Snapshot};
use super::state::State;

/// Pause of an extent whose migration failed: its page is pinned or in use, which rarely lasts.
const FAILED_PAUSE_NS: u64 = 1_000_000_000;
/// Slots a snapshot may use; a higher one is ignored (4 million extents of 2 MiB are 8 TiB).
const MAX_SLOTS: u32 = 1 << 22;
/// The node of a history that has not begun.
const NOWHERE: u8 = u8::MAX;

/// What is remembered of one extent: one line of cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentHistory {
    pub generation: u32,
    /// Share of the last window's bytes that the node on top had.
    pub top_share: f32,
    /// Id of the owner; any id while shared.
    owner: u64,
    since_ns: u64,
    /// Until when the last move has not paid back; 0 if there was none.
    pub pays_ns: u64,
    pub paused_until_ns: u64,
    /// When it was last sent elsewhere for its present owner; 0 if never.
    moved_ns: u64,
    /// Bytes touched per second, decayed.
    pub rate: f64,
    /// Windows in a row with the same owner, and with the same node on top.
    pub windows: u8,
    pub top_windows: u8,
    pub top_node: u8,
    churns: u8,
    /// Where it was, and whether moves of it failed since it got there.
    node: u8,
    pub fails: bool,
    /// Whether one affinity owns it.
    pub private: bool,
    /// The node it left then, and [`SPREAD`] if it was spread.
    left: u8,
}

/// Mark of a move that spread shared memory; node numbers are below it.
const SPREAD: u8 = 0x80;

const _: () = assert!(size_of::<ExtentHistory>() == 64);

/// Memory that passes use one after the other instead of asking the system for it each time: it costs a page fault for every
/// 4 KiB. Empty between passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    held: Vec<f64>,
    briefs: Vec<Brief>,
}

/// Who holds what where: bytes of movable memory that was touched.
pub(crate) struct Holdings {
    n: usize,
    /// `affinity * n + node`.
    pub own: Vec<f64>,
    pub own_total: Vec<f64>,
    /// `group * n + node`.
    pub shared: Vec<f64>,
    pub shared_total: Vec<f64>,
}

/// What the planning step must know of an extent to leave it alone: kind (2 bits), node (6) and owner (24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Brief(u32);

/// A [`Brief`], read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Nothing can be planned for it in this pass.
    Rests,
    /// Private for two windows: it is left alone where its owner's memory belongs.
    Private { owner: usize, at: u8 },
    /// To be looked at.
    Look,
}

impl Brief {
    const RESTS: Brief = Brief(0);
    const LOOK: Brief = Brief(2 << 30);

    fn private(owner: u32, at: u8) -> Brief {
        debug_assert!(usize::from(at) < MAX_NODES);
        // More than 16 million affinities: look at it.
        if owner < 1 << 24 { Brief(1 << 30 | u32::from(at) << 24 | owner) } else { Brief::LOOK }
    }

    pub(crate) fn decode(self) -> Decoded {
        match self.0 >> 30 {
            0 => Decoded::Rests,
            1 => Decoded::Private { owner: (self.0 & 0xFF_FFFF) as usize, at: (self.0 >> 24 & 63) as u8 },
            _ => Decoded::Look,
        }
    }
}

/// What the walk leaves.
pub(crate) struct Folded {
    /// One for each extent of the snapshot.
    pub briefs: Vec<Brief>,
    pub holdings: Holdings,
    /// Bytes of the extents that were touched.
    pub touched_bytes: u64,
}

/// The node that used an extent most in the window and its bytes: tasks at home, or an away node that has settled.
fn user(state: &State, extent: &Extent) -> (u8, u64) {
    let away = extent.owner != NO_AFFINITY
        && extent.away_bytes > extent.top_bytes
        && state
            .histories
            .get(extent.owner as usize)
            .is_some_and(|h| h.settled_away() == Some(usize::from(extent.away_node)));
    if away { (extent.away_node, extent.away_bytes) } else { (extent.top_node, extent.top_bytes) }
}

/// Adds the window to the histories, and adds up who holds what. `group_of` tells each affinity's group, `memory` the nodes
/// that may get memory.
pub(crate) fn fold(
    state: &mut State,
    snapshot: &Snapshot,
    elapsed_s: f64,
    group_of: &[Option<usize>],
    groups: usize,
    memory: NodeSet,
) -> Folded {
    let n = snapshot.nodes.len().min(MAX_NODES);
    let scratch = std::mem::take(&mut state.scratch);
    let mut holdings = Holdings::new(scratch.held, n, group_of.len(), groups);
    let mut briefs = scratch.briefs;
    briefs.reserve(snapshot.extents.len());
    let mut touched_bytes = 0u64;
    let now = snapshot.now_ns;
    let keep = (-elapsed_s / state.config.half_life.as_secs_f64().max(1e-3)).exp2();
    let per_second = if elapsed_s > 0.0 { 1.0 / elapsed_s } else { 0.0 };
    // Grown to fit at the first slot beyond the end; the snapshot may name slots in any order.
    let mut histories = std::mem::take(&mut state.extents);
    for extent in &snapshot.extents {
        let slot = extent.slot as usize;
        if slot >= histories.len() {
            if extent.slot >= MAX_SLOTS {
                briefs.push(Brief::RESTS);
                holdings.add(extent, false, group_of);
                touched_bytes = touched_bytes.saturating_add(if extent.touched > 0 { extent.bytes } else { 0 });
                continue;
            }
            histories.resize(snapshot.extents.len().max(slot + 1).min(MAX_SLOTS as usize), ExtentHistory::NEW);
        }
        let history = &mut histories[slot];
        if history.generation != extent.generation || history.node == NOWHERE {
            *history = ExtentHistory { generation: extent.generation, since_ns: now, ..ExtentHistory::NEW };
        }
        history.fails = extent.failed || (history.fails && history.node == extent.node);
        history.node = extent.node.min(NOWHERE - 1);
        if extent.failed {
            history.paused_until_ns = history.paused_until_ns.max(now.saturating_add(FAILED_PAUSE_NS));
        }
        if elapsed_s > 0.0 {
            let fresh = extent.touched as f64 * per_second;
            history.rate = if history.rate == 0.0 { fresh } else { history.rate * keep + fresh * (1.0 - keep) };
        }
        let at = usize::from(extent.node);
        if extent.touched > 0 {
            touched_bytes = touched_bytes.saturating_add(extent.bytes);
            let (node, bytes) = user(state, extent);
            let owner = snapshot.affinities.get(extent.owner as usize).map(|a| a.id);
            history.touched_by(extent, owner, node, bytes, now);
        } else if at < n && memory.contains(at) {
            briefs.push(Brief::RESTS);
            continue;
        }
        holdings.add(extent, history.private, group_of);
        briefs.push(match history.private {
            _ if !extent.movable || at >= n => Brief::RESTS,
            // On a node that may not be used it is looked at whatever its owner does.
            true if memory.contains(at) && extent.touched > 0 => match history.windows {
                0 | 1 => Brief::RESTS,
                _ => Brief::private(extent.owner, extent.node),
            },
            _ => Brief::LOOK,
        });
    }
    state.extents = histories;
    Folded { briefs, holdings, touched_bytes }
}

impl Scratch {
    /// Keeps the memory of what a pass no longer needs.
    pub(crate) fn keep(mut held: Vec<f64>, mut briefs: Vec<Brief>) -> Scratch {
        held.clear();
        briefs.clear();
        Scratch { held, briefs }
    }
}

impl Holdings {
    fn new(mut own: Vec<f64>, n: usize, affinities: usize, groups: usize) -> Holdings {
        own.clear();
        own.resize(affinities * n, 0.0);
        Holdings {
            n,
            own,
            own_total: vec![0.0; affinities],
            shared: vec![0.0; groups * n],
            shared_total: vec![0.0; groups],
        }
    }

    /// Those of a snapshot that has been folded.
    pub(crate) fn of(snapshot: &Snapshot, state: &State, group_of: &[Option<usize>], groups: usize) -> Holdings {
        let n = snapshot.nodes.len().min(MAX_NODES);
        let mut holdings = Holdings::new(Vec::new(), n, group_of.len(), groups);
        for extent in &snapshot.extents {
            let private = state.extents.get(extent.slot as usize).is_some_and(|h| h.private);
            holdings.add(extent, private, group_of);
        }
        holdings
    }

    fn add(&mut self, extent: &Extent, private: bool, group_of: &[Option<usize>]) {
        let (node, owner) = (usize::from(extent.node), extent.owner as usize);
        if node >= self.n || owner >= group_of.len() || !extent.movable || extent.touched == 0 {
            return;
        }
        let bytes = extent.bytes as f64;
        match group_of[owner] {
            Some(g) if !private => {
                self.shared[g * self.n + node] += bytes;
                self.shared_total[g] += bytes;
            }
            _ => {
                self.own[owner * self.n + node] += bytes;
                self.own_total[owner] += bytes;
            }
        }
    }
}

impl ExtentHistory {
    const NEW: ExtentHistory = ExtentHistory {
        generation: 0,
        top_share: 0.0,
        owner: u64::MAX,
        since_ns: 0,
        pays_ns: 0,
        paused_until_ns: 0,
        moved_ns: 0,
        rate: 0.0,
        windows: 0,
        top_windows: 0,
        top_node: 0,
        churns: 0,
        node: NOWHERE,
        fails: false,
        private: false,
        left: 0,
    };

    /// The window's touches: `bytes` of them by `node`, the most.
    fn touched_by(&mut self, extent: &Extent, owner: Option<u64>, node: u8, bytes: u64, now: u64) {
        let whole = extent.touched as f64;
        self.top_windows = match bytes as f64 >= FOLLOW_SHARE * whole {
            true if self.top_node == node => self.top_windows.saturating_add(1),
            true => 1,
            false => 0,
        };
        self.top_node = node;
        self.top_share = (bytes as f64 / whole) as f32;
        let private = owner.filter(|_| extent.owner_bytes as f64 >= PRIVATE_SHARE * whole);
        let owner = private.unwrap_or(self.owner);
        if private.is_some() == self.private && owner == self.owner {
            self.windows = self.windows.saturating_add(1);
        } else {
            self.new_owner(owner, private.is_some(), now);
        }
    }

    fn new_owner(&mut self, owner: u64, private: bool, now: u64) {
        if self.pays_ns > now {
            // It was moved for someone who has left it before the copy was worth it.
            self.churns = self.churns.saturating_add(1);
            let pause = CHURN_PAUSE.saturating_mul(1 << u32::from(self.churns - 1).min(10)).min(CHURN_PAUSE_MAX);
            self.paused_until_ns = now.saturating_add(pause.as_nanos() as u64);
        }
        // Where it was for someone else says nothing any more.
        (self.pays_ns, self.moved_ns) = (0, 0);
        (self.owner, self.private, self.since_ns, self.windows) = (owner, private, now, 1);
    }

    /// Notes that it is sent from node `from` elsewhere.
    pub(crate) fn sent(&mut self, from: u8, spread: bool, now: u64) {
        self.moved_ns = now.max(1);
        self.left = from | if spread { SPREAD } else { 0 };
    }

    /// Whether it was spread within the horizon its move was judged over.
    pub(crate) fn just_spread(&self, now: u64) -> bool {
        self.left & SPREAD != 0 && self.just_moved(now)
    }

    /// Whether it left `node` within that time, on input that has not changed since `changed_ns`.
    pub(crate) fn just_left(&self, node: usize, now: u64, changed_ns: u64) -> bool {
        usize::from(self.left & !SPREAD) == node && self.just_moved(now) && self.moved_ns > changed_ns
    }

    fn just_moved(&self, now: u64) -> bool {
        self.moved_ns != 0 && now >= self.moved_ns && now - self.moved_ns < HORIZON.as_nanos() as u64
    }

    /// Seconds it is expected to stay with its owner: as long as it has so far, and long if it never churned.
    pub(crate) fn stay_s(&self, now: u64) -> f64 {
        let fresh = if self.churns == 0 { FRESH_STAY.as_secs_f64() } else { 0.0 };
        (now.saturating_sub(self.since_ns) as f64 * 1e-9).clamp(fresh, HORIZON.as_secs_f64())
    }
}
