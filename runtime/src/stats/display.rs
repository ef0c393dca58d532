//! The table a person reads.

use std::fmt;

use super::{Counts, Stats};

/// Nodes beyond which the matrices are left out of the table (they are in the fields).
const WIDEST_MATRIX: usize = 16;

fn row(f: &mut fmt::Formatter<'_>, name: &str, workers: &str, queue: &str, c: &Counts) -> fmt::Result {
    writeln!(
        f,
        "{name:>6} {workers:>7} {queue:>6} {:>10} {:>10} {:>9} {:>9} {:>7} {:>8} {:>8} {:>9} {:>10}",
        c.jobs,
        c.spawned,
        c.stolen_same_node,
        c.stolen_other_nodes,
        c.forced_splits,
        c.parks,
        c.wakeups,
        millis(c.busy_ns),
        millis(c.search_ns),
    )
}

fn millis(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

fn matrix(f: &mut fmt::Formatter<'_>, title: &str, stats: &Stats, rows: &[Vec<u64>]) -> fmt::Result {
    writeln!(f, "{title}")?;
    write!(f, "{:>6}", "by\\of")?;
    for node in &stats.nodes {
        write!(f, " {:>10}", node.node)?;
    }
    writeln!(f)?;
    for (node, row) in stats.nodes.iter().zip(rows) {
        write!(f, "{:>6}", node.node)?;
        for count in row {
            write!(f, " {count:>10}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>6} {:>7} {:>6} {:>10} {:>10} {:>9} {:>9} {:>7} {:>8} {:>8} {:>9} {:>10}",
            if self.mock { "node*" } else { "node" },
            "workers",
            "queued",
            "jobs",
            "spawned",
            "stol.near",
            "stol.far",
            "forced",
            "parks",
            "wakeups",
            "busy ms",
            "search ms"
        )?;
        for node in &self.nodes {
            let workers = match node.spare_threads {
                0 => node.workers.to_string(),
                spares => format!("{}+{spares}", node.workers),
            };
            row(f, &node.node.to_string(), &workers, &node.queue_depth.to_string(), &node.counts)?;
        }
        let workers: usize = self.nodes.iter().map(|node| node.workers).sum();
        let queued: usize = self.nodes.iter().map(|node| node.queue_depth).sum();
        row(f, "all", &workers.to_string(), &queued.to_string(), &self.totals())?;
        if self.nodes.len() > 1 && self.nodes.len() <= WIDEST_MATRIX {
            matrix(f, "jobs stolen from workers, by node and from node:", self, &self.steals)?;
            matrix(f, "root jobs taken, by node and from the queue of node:", self, &self.roots)?;
        }
        writeln!(f, "spawned by outside threads: {}; panics nobody joined: {}", self.spawned_outside, self.panics)?;
        if self.mock {
            writeln!(f, "* mock nodes: written down, not real; workers are not bound")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
