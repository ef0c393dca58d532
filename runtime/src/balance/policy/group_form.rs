//! Groups: affinities the user joined, and those the runtime sees write-sharing; the latter end when it ends (T8).
//!
//! Read-sharing does not join: read-mostly data is cheap to share in caches, or worth a copy. The kernel's groups
//! only grow, so two phases of a program remain one group; here the evidence decays and a pair splits again.

use super::config::Config;
use super::decay;
use super::plan::GroupStep;
use super::snapshot::Snapshot;
use super::state::History;
use std::collections::BTreeMap;

/// A pair joins when this share of the smaller one's touches are to extents both touch and one writes. Below it the
/// most they could gain by being neighbours is about one small gain (`SMALL_GAIN`) on a machine with remote = 2 x local.
pub const JOIN_SHARE: f64 = 0.06;
/// A joined pair splits below this share: a quarter of what joined it, so that noise does neither.
pub const SPLIT_SHARE: f64 = 0.015;
/// Windows in a row before a pair joins.
pub const JOIN_WINDOWS: u8 = 2;
/// Pairs remembered at most; the weakest evidence is dropped first.
pub const MAX_PAIRS: usize = 100_000;

/// Evidence of write-sharing by pair of ids, lower first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(BTreeMap<(u64, u64), Pair>);

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    bytes: f64,
    windows: u8,
    joined: bool,
}

impl Pairs {
    /// Adds the window's evidence and decides who joins and who splits.
    pub(crate) fn fold(
        &mut self,
        snapshot: &Snapshot,
        histories: &[History],
        elapsed_s: f64,
        config: &Config,
    ) -> Vec<GroupStep> {
        let factor = decay::factor(elapsed_s, config.half_life, 0.0, 0.0, !config.rules.time_decay);
        for pair in self.0.values_mut() {
            pair.bytes *= factor;
        }
        for share in &snapshot.sharing {
            let (Some(a), Some(b)) =
                (snapshot.affinities.get(share.a as usize), snapshot.affinities.get(share.b as usize))
            else {
                continue;
            };
            if a.id != b.id {
                self.0.entry((a.id.min(b.id), a.id.max(b.id))).or_default().bytes += share.bytes as f64;
            }
        }
        let touched: BTreeMap<u64, f64> = if self.0.is_empty() {
            BTreeMap::new()
        } else {
            snapshot.affinities.iter().zip(histories).map(|(a, h)| (a.id, h.touched())).collect()
        };
        let mut steps = Vec::new();
        self.0.retain(|&(a, b), pair| {
            // Gone, or forgotten: no pair.
            let (Some(&ta), Some(&tb)) = (touched.get(&a), touched.get(&b)) else {
                return false;
            };
            let share =
                if ta.min(tb) > decay::NOTHING { pair.bytes / ta.min(tb) } else { f64::from(u8::from(pair.joined)) };
            if pair.joined && share < SPLIT_SHARE {
                steps.push(GroupStep::Split { a, b });
                return false;
            }
            pair.windows = if share >= JOIN_SHARE { pair.windows.saturating_add(1) } else { 0 };
            if !pair.joined && pair.windows >= JOIN_WINDOWS {
                pair.joined = true;
                steps.push(GroupStep::Join { a, b, share });
            }
            pair.joined || pair.bytes > decay::NOTHING
        });
        if self.0.len() > MAX_PAIRS {
            let mut bytes: Vec<f64> = self.0.values().map(|p| p.bytes).collect();
            bytes.sort_by(f64::total_cmp);
            let least = bytes[bytes.len() - MAX_PAIRS];
            self.0.retain(|_, pair| pair.joined || pair.bytes >= least);
        }
        steps
    }
}

/// The group of each affinity, as an index, and how many groups of two or more there are.
pub(crate) fn groups(snapshot: &Snapshot, pairs: &Pairs) -> (Vec<Option<usize>>, usize) {
    let count = snapshot.affinities.len();
    let mut parent: Vec<usize> = (0..count).collect();
    let mut first: BTreeMap<u64, usize> = BTreeMap::new();
    for (i, affinity) in snapshot.affinities.iter().enumerate() {
        if let Some(group) = affinity.group {
            let to = *first.entry(group).or_insert(i);
            unite(&mut parent, i, to);
        }
    }
    if pairs.0.values().any(|p| p.joined) {
        let index: BTreeMap<u64, usize> = snapshot.affinities.iter().enumerate().map(|(i, a)| (a.id, i)).collect();
        for (&(a, b), _) in pairs.0.iter().filter(|(_, p)| p.joined) {
            if let (Some(&a), Some(&b)) = (index.get(&a), index.get(&b)) {
                unite(&mut parent, a, b);
            }
        }
    }
    let roots: Vec<usize> = (0..count).map(|i| find(&mut parent, i)).collect();
    let mut size = vec![0u32; count];
    roots.iter().for_each(|&r| size[r] += 1);
    let mut number = vec![None; count];
    let mut groups = 0;
    let of = roots
        .into_iter()
        .map(|root| {
            if size[root] < 2 {
                return None;
            }
            Some(*number[root].get_or_insert_with(|| {
                groups += 1;
                groups - 1
            }))
        })
        .collect();
    (of, groups)
}

fn find(parent: &mut [usize], mut i: usize) -> usize {
    while parent[i] != i {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    i
}

fn unite(parent: &mut [usize], a: usize, b: usize) {
    let (a, b) = (find(parent, a), find(parent, b));
    let (low, high) = (a.min(b), a.max(b));
    parent[high] = low;
}
